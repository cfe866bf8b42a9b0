"""Keeps Kafka's classes read, checked and linked in one file, from which Java programs start in half the time.

Java calls it class-data sharing (JEP 310). ``KafkaTools.java`` gives the file to programs that are to start quickly.
The file holds what a broker and some of Kafka's tools have used; other classes are read from their jars as before.
"""

from __future__ import annotations

import fcntl
import functools
import tempfile
from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.java import QUICK_START, KafkaTools, tools
from tests.support.process import run

__all__ = ["prepare_shared_classes"]

_TOPIC = "shared-classes"


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
def prepare_shared_classes() -> None:
    """Make the file unless it is there, in about 20 s of processor time. While another process makes it, do nothing."""
    file = tools().shared_classes
    if file.exists():
        return
    with file.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not file.exists():
            _make(file)


def _make(file: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent) as name:
        folder = Path(name)
        listing = _ListingTools(tools().version, folder)
        kafka = ApacheKafka(folder=folder / "broker")
        kafka.tools = listing
        with kafka:
            server = ("--bootstrap-server", kafka.bootstrap_servers)
            listing.run("TopicCommand", *server, "--create", "--topic", _TOPIC)
            listing.run("ConsoleProducer", *server, "--topic", _TOPIC, input="a record\n")
            listing.run("ConsoleConsumer", *server, "--topic", _TOPIC, "--from-beginning", "--max-messages", "1")
            listing.run("ConsumerGroupCommand", *server, "--all-groups", "--describe")
        lines = [line for each in sorted(folder.glob("*.classes")) for line in each.read_text().splitlines()]
        classes = folder / "all"
        classes.write_text("\n".join(dict.fromkeys(lines)))
        fresh = folder / "fresh.jsa"
        run(
            listing.java("-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={fresh}"),
            timeout_s=300,
        ).check()
        fresh.rename(file)
