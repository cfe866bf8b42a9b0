"""Parts that all workloads share: clusters, topics with known contents, programs, and where results go."""

from __future__ import annotations

import functools
import itertools
import json
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyconsumer
from pyconsumer import KafkaConsumer
from pyconsumer.broker import EmbeddedCluster
from tests.benchmarks.cells import APACHE
from tests.benchmarks.measure import Contender, answer
from tests.benchmarks.results import Results
from tests.support.apache_kafka import ApacheKafka
from tests.support.go import franz_program
from tests.support.java import KafkaTools, tools
from tests.support.process import run
from tests.support.raw_client import RawClient

__all__ = ["Server", "Setup", "Topic", "installed"]

_HERE = Path(__file__).parent
_NUMBERS = itertools.count(1)
_FEW = 100
_WARM_UP_RECORDS, _WARM_UP_PASSES = 200_000, 40  # 30,000 fetches
_INDEX_BYTES = 256 << 10  # enough for segments of 128 MiB


@dataclass(frozen=True)
class Server:
    """A running cluster, as both kinds of it look here."""

    cluster: ApacheKafka | EmbeddedCluster

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        if isinstance(self.cluster, EmbeddedCluster):
            return self.cluster.pid
        folder = os.fsencode(self.cluster.folder)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if command[0].endswith(b"java") and any(part.startswith(folder) for part in command[1:]):
                return int(path.parent.name)
        raise AssertionError("the broker's process is not there")

    def create_topic(self, partitions: int) -> str:
        """A topic with a name of its own."""
        name = f"bench-{uuid.uuid4().hex[:6]}-{next(_NUMBERS)}"
        # Kafka maps 20 MB of indexes for each partition: of a thousand they would fill the memory of a small machine.
        config = {"segment.index.bytes": _INDEX_BYTES} if partitions > _FEW else None
        with closing(RawClient(self.bootstrap_servers, timeout_s=120)) as client:
            client.create_topic(name, partitions, config=config)
        return name

    def delete_topic(self, name: str) -> None:
        with closing(RawClient(self.bootstrap_servers, timeout_s=120)) as client:
            client.delete_topic(name)

    def stop(self) -> None:
        self.cluster.stop()


@dataclass(frozen=True)
class Topic:
    """A topic that was filled, and its contents: number of records, their bytes, checksums by partition."""

    server: Server
    name: str
    partitions: int
    truth: dict[str, Any]

    @property
    def servers(self) -> str:
        return self.server.bootstrap_servers

    @property
    def records(self) -> int:
        return int(self.truth["records"])

    def arguments(self) -> dict[str, Any]:
        """Return the facts that the programs need."""
        found = {"servers": self.servers, "topic": self.name, "partitions": self.partitions, "records": self.records}
        return found | {"keyed": any(self.truth["key_checksums"])}

    def delete(self) -> None:
        self.server.delete_topic(self.name)


@dataclass
class Setup:
    """Options of a call of the benchmarks. Clusters are started when they are first needed.

    Attributes:
        rounds: how often each contender runs.
        scale: factor for the numbers of records.
        only: parts of the names of the contenders that are wanted. Empty for all.
        grid: whether to run all cells, once, instead of the core cells.
        cells: parts of the names of the cells that are wanted. Empty for all.
    """

    say: Callable[[str], None]
    results: Results = field(default_factory=Results)
    rounds: int = 5
    scale: float = 1.0
    only: tuple[str, ...] = ()
    grid: bool = False
    cells: tuple[str, ...] = ()
    _servers: dict[str, Server] = field(default_factory=dict)

    @property
    def tools(self) -> KafkaTools:
        return tools()

    @property
    def apache(self) -> Server:
        return self.server(APACHE)

    def server(self, broker: str) -> Server:
        """A running cluster: one node of Apache Kafka, or of ours."""
        if broker not in self._servers:
            self.say(f"starting {broker}")
            server = ApacheKafka(quick=False) if broker == APACHE else EmbeddedCluster()
            try:
                server.start()
            except BaseException:
                server.stop()
                raise
            self._servers[broker] = Server(server)
            if broker == APACHE:
                self._warm_up(self._servers[broker])
        return self._servers[broker]

    def _warm_up(self, server: Server) -> None:
        """Let the broker's JVM compile its code for fetches and commits.

        Or it takes four times as long for the first run as for the fifth, at the expense of who comes first.
        """
        self.say("warming it up")
        topic = self.fill(server, _WARM_UP_RECORDS, 100, partitions=4)
        for _ in range(_WARM_UP_PASSES):
            with KafkaConsumer(
                topic.name,
                bootstrap_servers=topic.servers,
                group_id=f"warm-up-{uuid.uuid4().hex[:6]}",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=10,
                max_partition_fetch_bytes=8 << 10,
                fetch_max_bytes=32 << 10,
            ) as consumer:
                left = topic.records
                while left:
                    left -= consumer.poll_arrow(timeout_ms=10_000).num_rows
        topic.delete()

    def stop(self) -> None:
        while self._servers:
            self._servers.popitem()[1].stop()

    def scaled(self, records: int) -> int:
        return max(100, round(records * self.scale))

    def wanted(self, contenders: Iterable[Contender]) -> list[Contender]:
        """Those that the user asked for. All without a wish."""
        return [item for item in contenders if not self.only or any(word in item.name for word in self.only)]

    def fill(
        self,
        server: Server,
        records: int,
        size_bytes: int,
        *,
        partitions: int,
        codec: str = "none",
        keyed: bool = False,
    ) -> Topic:
        """A new topic, written by Java's producer."""
        topic = server.create_topic(partitions)
        command = self.java("TopicWriter", "fill", server.bootstrap_servers, topic)
        command += [str(partitions), str(records), str(size_bytes), codec, str(keyed).lower()]
        return Topic(server, topic, partitions, answer(run(command, timeout_s=600)))

    def java(self, program: str, *args: str) -> list[str]:
        """The command line of one of the Java programs beside this file, in a JVM with its full compiler."""
        return [*self.tools.compiled(_HERE / f"{program}.java", quick=False), *args]

    def run_java(self, program: str, **arguments: Any) -> dict[str, Any]:
        """Let Java's consumer run one of the programs of ``client_program``."""
        texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in arguments.items()}
        given = [f"{name}={value}" for name, value in texts.items()]
        return answer(run(self.java("BenchmarkConsumer", program, *given), timeout_s=600))

    @functools.cached_property
    def franz(self) -> Path | None:
        """The program with franz-go, built once and kept, or None, with a word about it, where that cannot be done."""
        try:
            found = franz_program("benchmark")
        except AssertionError as error:
            self.say(f"franz-go is left out: {error}")
            return None
        if found is None:
            self.say("franz-go is left out: there is no Go")
        return found

    def run_franz(self, program: str, **arguments: Any) -> dict[str, Any]:
        """Let franz-go run one of the programs of ``client_program``."""
        assert self.franz is not None
        return answer(run([str(self.franz), json.dumps({"program": program, **arguments})], timeout_s=600))


def installed(distribution: str) -> str | None:
    """The version of a package, or None."""
    if distribution == "pyconsumer":
        return pyconsumer.__version__
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
