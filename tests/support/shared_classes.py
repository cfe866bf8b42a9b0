"""Keeps classes of Kafka and Spark, read, checked and linked, in files from which their programs in Java start faster.

Java calls it class-data sharing (JEP 310, JEP 350). A broker starts in half of the processor time, Spark in a third.
A file holds the classes that some programs have used. Other classes are read from their jars as before. Each file is
made once for each Java and each set of jars, in about 20 s of processor time. Java takes no class from the file once a
jar has another size or date than it had or comes elsewhere in the class path, so these are a part of a set's name.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.java import (
    QUICK_START,
    KafkaTools,
    cache_folder,
    locked,
    shared_classes_options,
    stamp,
    tools,
    what_java_says,
)
from tests.support.process import run

__all__ = ["share_kafkas_classes", "share_sparks_classes"]

_TOPIC = "shared-classes"

# Ends after Java, which writes its file as it ends.
_SPARK_PROGRAM = f"""
from pyspark import SparkContext
from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.spark import session

with EmbeddedCluster() as cluster:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("{_TOPIC}", b"a record")
    spark = session(**{{"spark.ui.enabled": False}})
    options = {{"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "{_TOPIC}"}}
    options["startingOffsets"] = "earliest"
    records = spark.read.format("pyconsumer").options(**options).load()
    records.groupBy("topic").count().collect()
    stream = spark.readStream.format("pyconsumer").options(**options).load()
    stream.writeStream.format("memory").queryName("records").trigger(availableNow=True).start().awaitTermination()
    spark.stop()
java = SparkContext._gateway.proc
java.stdin.close()
java.wait()
"""


class _ListingTools(KafkaTools):
    """Kafka's programs, each of which notes the classes that it uses in a file of this folder."""

    def __init__(self, version: str, folder: Path) -> None:
        super().__init__(version)
        self._folder = folder
        self._started = 0

    def _quick_start(self) -> list[str]:
        self._started += 1
        return [*QUICK_START, f"-XX:DumpLoadedClassList={self._folder / f'{self._started}.classes'}"]


@functools.cache
def share_kafkas_classes() -> None:
    """Make the file from which ``KafkaTools.java`` lets brokers and tools start."""
    _make_once(tools().shared_classes, _make_kafkas)


@functools.cache
def share_sparks_classes() -> None:
    """Let every Spark that this process and its children start from now on begin with such a file.

    Only with the Java that ``pyconsumer.spark.session`` finds. For others it does not fit, and they start as always.
    """
    import pyspark

    from pyconsumer.spark import java_home

    java = str(Path(java_home() or "", "bin", "java"))
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")
    file = sparks_file(java, jars)
    _make_once(file, _make_sparks)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*QUICK_START, *shared_classes_options(file)])


def sparks_file(java: str, jars: Path) -> Path:
    """Return where the classes of these jars are kept for this Java. Files of jars that were there before are deleted.

    Args:
        jars: a folder. Java puts its jars into the class path in the order in which the folder lists them.
    """
    place = _digest([java, what_java_says(java), str(jars)])
    file = cache_folder() / f"spark-classes-{place}-{_digest(map(stamp, os.scandir(jars)))}.jsa"
    for other in cache_folder().glob(f"spark-classes-{place}-*"):
        if other.stem != file.stem:
            other.unlink(missing_ok=True)
    return file


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _make_once(file: Path, make: Callable[[Path], None]) -> None:
    if file.exists():
        return
    with locked(file.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=file.parent) as folder:
        if not file.exists():
            fresh = Path(folder, "fresh.jsa")
            make(fresh)
            fresh.rename(file)


def _make_kafkas(file: Path) -> None:
    listing = _ListingTools(tools().version, file.parent)
    kafka = ApacheKafka(folder=file.parent / "broker")
    kafka.tools = listing
    with kafka:
        server = ("--bootstrap-server", kafka.bootstrap_servers)
        listing.run("TopicCommand", *server, "--create", "--topic", _TOPIC)
        listing.run("ConsoleProducer", *server, "--topic", _TOPIC, input="a record\n")
        listing.run("ConsoleConsumer", *server, "--topic", _TOPIC, "--from-beginning", "--max-messages", "1")
        listing.run("ConsumerGroupCommand", *server, "--all-groups", "--describe")
    lines = [line for each in sorted(file.parent.glob("*.classes")) for line in each.read_text().splitlines()]
    classes = file.with_name("all")
    classes.write_text("\n".join(dict.fromkeys(lines)))
    command = listing.java("-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={file}")
    run(command, timeout_s=600).check()


def _make_sparks(file: Path) -> None:
    options = " ".join([*QUICK_START, f"-XX:ArchiveClassesAtExit={file}"])
    run([sys.executable, "-c", _SPARK_PROGRAM], timeout_s=600, env={"SPARK_SUBMIT_OPTS": options}).check()
