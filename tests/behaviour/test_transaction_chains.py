"""Chains of kills: two programs copy records from hop to hop exactly once, while they and the brokers are killed.

``PYCONSUMER_CHAIN_KILLS`` sets how many kills there are (5 by default), ``PYCONSUMER_CHAIN_SEED`` which.
``PYCONSUMER_CHAIN_ALL=1`` plays each version with each group protocol, and on Apache Kafka, otherwise two plays do.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.admin import NewTopic
from tests.behaviour.consumer_support import read_to_end
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.go import franz_program
from tests.support.java import KafkaTools
from tests.support.process import GuardedProcess, run, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1500)]

KILLS = int(os.environ.get("PYCONSUMER_CHAIN_KILLS") or 5)
SEED = int(os.environ.get("PYCONSUMER_CHAIN_SEED") or 1)
#: Kind of broker, transaction version, group protocol.
PLAYS = [("embedded", 1, "classic"), ("embedded", 2, "consumer")]
if os.environ.get("PYCONSUMER_CHAIN_ALL"):
    PLAYS += [
        ("embedded", 1, "consumer"),
        ("embedded", 2, "classic"),
        ("apache", 2, "consumer"),
        ("apache", 2, "classic"),
    ]
TOPICS = ("flights", "hop", "arrivals")
PARTITIONS = 2
_TIMEOUT_MS = 10_000
_SETTLES_IN_S = _TIMEOUT_MS / 1000 + 20

_PROGRAM = """
import sys
from pyconsumer import KafkaConsumer, KafkaProducer, process_exactly_once
servers, source, sink, protocol = sys.argv[1:]
# One that was killed has not left, so under the consumer protocol nobody may come in its name before its session ends.
mine = {"group_instance_id": "only", "session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
consumer = KafkaConsumer(
    source, bootstrap_servers=servers, group_id=sink, isolation_level="read_committed", group_protocol=protocol,
    enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=20,
    **(mine if protocol == "classic" else {}),
)
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=sink, transaction_timeout_ms=10000)
process_exactly_once(
    consumer, producer, lambda records: ((sink, record.value) for record in records.records()), poll_timeout_ms=100
)
"""


class Chain:
    """The programs, and a supervisor that starts them again whenever they end."""

    def __init__(self, servers: str, protocol: str) -> None:
        self._servers = servers
        self._protocol = protocol
        self._ended = False
        self._running: dict[str, GuardedProcess] = {}
        self._lock = threading.Lock()
        self.starts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._supervise)
        self._thread.start()

    def _supervise(self) -> None:
        while not self._ended:
            for source, sink in itertools.pairwise(TOPICS):
                with self._lock:
                    program = self._running.get(sink)
                    if not self._ended and (program is None or not program.running):
                        self.starts[sink] += 1
                        command = [sys.executable, "-c", _PROGRAM, self._servers, source, sink, self._protocol]
                        self._running[sink] = GuardedProcess(command)
            time.sleep(0.1)

    def kill(self, sink: str) -> None:
        with self._lock:
            program = self._running.get(sink)
            if program is not None:
                program.kill()

    def stop(self) -> None:
        self._ended = True
        self._thread.join()
        for program in self._running.values():
            program.kill()


class Feeder:
    """Sends records to the first topic until it is stopped. ``sent`` is the ledger."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._ended = threading.Event()
        self.sent: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with KafkaProducer(bootstrap_servers=self._servers) as producer:
            number = 0
            while not self._ended.is_set():
                for _ in range(10):
                    self.sent.append(f"flight {number}")
                    producer.send(TOPICS[0], self.sent[-1].encode(), partition=number % PARTITIONS)
                    number += 1
                self._ended.wait(0.05)
            producer.flush()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def committed_values(servers: str, topic: str) -> list[str]:
    """Return the records of our reader up to the last stable offsets."""
    return [value.decode() for value in read_to_end(servers, topic, PARTITIONS, "read_committed")]


def end_offsets(servers: str, isolation_level: str) -> dict[TopicPartition, int]:
    """High watermarks, or for ``read_committed`` the last stable offsets."""
    partitions = [TopicPartition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
    with KafkaConsumer(bootstrap_servers=servers, isolation_level=isolation_level) as consumer:
        return consumer.end_offsets(partitions)


@contextmanager
def started(kind: str, certificates: Certificates, folder: Path, version: int) -> Iterator[Cluster]:
    """Three brokers with the topics. Sessions of the consumer protocol are as short as the classic members'."""
    config = {"group.consumer.session.timeout.ms": 6000, "group.consumer.heartbeat.interval.ms": 1000}
    features = {"transaction.version": version} if kind == "embedded" else None  # Kafka's newest is the second
    cluster = start_cluster(kind, certificates, brokers=3, config=config, features=features, data_dir=folder)
    try:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics(
                [NewTopic(name, PARTITIONS, 3, topic_configs={"min.insync.replicas": "2"}) for name in TOPICS]
            )
        yield cluster
    finally:
        cluster.stop()


def kill_at_random(cluster: Cluster, chain: Chain, draw: random.Random) -> Counter[str]:
    """Kill programs and brokers, the latter one at a time."""
    killed: Counter[str] = Counter()
    down: list[tuple[float, int]] = []
    for _ in range(KILLS):
        time.sleep(draw.uniform(0.5, 3.5))
        while down and down[0][0] <= time.monotonic():
            cluster.restart(down.pop(0)[1])
        what = draw.choice([*TOPICS[1:], "broker"])
        if what == "broker" and down:
            what = TOPICS[1]
        killed[what] += 1
        if what == "broker":
            node = draw.choice(cluster.node_ids)
            cluster.kill(node)
            down.append((time.monotonic() + draw.uniform(0.5, 4.0), node))
        else:
            chain.kill(what)
    for _, node in down:
        cluster.restart(node)
    return killed


@pytest.mark.concurrent
@pytest.mark.parametrize(("kind", "version", "protocol"), PLAYS)
def test_no_kill_loses_or_doubles_a_record(
    kind: str, version: int, protocol: str, tmp_path: Path, certificates: Certificates, kafka_tools: KafkaTools
) -> None:
    with started(kind, certificates, tmp_path, version) as cluster:
        servers = cluster.bootstrap_servers
        feeder, chain = Feeder(servers), Chain(servers, protocol)
        try:
            killed = kill_at_random(cluster, chain, random.Random(SEED))
            feeder.stop()
            expected = Counter(feeder.sent)
            wait_until(lambda: len(committed_values(servers, TOPICS[-1])) >= len(feeder.sent), 120, "all arrivals")
        finally:
            feeder.stop()
            chain.stop()
        played = f"{kind}, version {version}, {protocol}"
        print(f"{played}: {len(feeder.sent)} records, kills {dict(killed)}, starts {dict(chain.starts)}")
        wait_until(
            lambda: end_offsets(servers, "read_committed") == end_offsets(servers, "read_uncommitted"),
            _SETTLES_IN_S,
            "no open transactions",
        )
        for topic in TOPICS[1:]:
            assert Counter(committed_values(servers, topic)) == expected, topic
        java = kafka_tools.run(
            "ConsoleConsumer",
            *("--bootstrap-server", servers, "--topic", TOPICS[-1], "--from-beginning"),
            *("--isolation-level", "read_committed", "--timeout-ms", "8000"),
            check=False,
        )
        assert Counter(java.lines) == expected
        program = franz_program("transactions")
        if program is not None:
            given = {"do": "read", "servers": servers, "topic": TOPICS[-1]}
            assert Counter(json.loads(run([str(program), json.dumps(given)], timeout_s=120).check().stdout)) == expected
        for topic in TOPICS[1:]:
            hanging = kafka_tools.run(
                "TransactionsCommand", "--bootstrap-server", servers, "find-hanging", "--topic", topic
            )
            assert len(hanging.stdout.strip().splitlines()) == 1  # the heading
