"""Three brokers of the embedded cluster, over sockets: clients while brokers die, come back and swap roles."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import (
    ConfigurationError,
    ElectionNotNeededError,
    Errors,
    IllegalStateError,
    RequestTimedOutError,
)
from pyconsumer.protocol.messages.describe_cluster import DescribeClusterRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pyconsumer.protocol.records import BatchBuilder
from tests.behaviour.consumer_support import append
from tests.behaviour.group_members import eventually, running
from tests.support.java import KafkaTools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

CONFIG: dict[str, object] = {
    "offsets.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
}


@pytest.fixture
def start() -> Iterator[Callable[..., EmbeddedCluster]]:
    """Starts clusters, of three brokers by default, and stops them at the end."""
    with ExitStack() as stack:

        def run(brokers: int = 3, *, config: dict[str, object] | None = None, **options: Any) -> EmbeddedCluster:
            cluster = EmbeddedCluster(brokers, config=CONFIG | (config or {}), **options)
            return stack.enter_context(cluster)

        yield run


@pytest.fixture
def trio(start: Callable[..., EmbeddedCluster]) -> EmbeddedCluster:
    """Three brokers."""
    return start()


def addresses(cluster: EmbeddedCluster) -> list[str]:
    return cluster.bootstrap_servers.split(",")


def at(cluster: EmbeddedCluster, node: int) -> RawClient:
    """A connection to one broker."""
    return RawClient(addresses(cluster)[node])


def states(client: RawClient, topic: str) -> list[tuple[int, list[int], list[int]]]:
    """Leader, ISR and offline replicas of each partition."""
    (found,) = client.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)])).topics
    parts = sorted(found.partitions, key=lambda part: part.partition_index)
    return [(part.leader_id, part.isr_nodes, part.offline_replicas) for part in parts]


def in_sync(client: RawClient, topic: str, count: int = 3) -> None:
    """Wait until all partitions have this number of replicas in sync."""
    eventually(
        lambda: all(len(isr) == count for _, isr, _ in states(client, topic)), f"{count} replicas in sync of {topic}"
    )


def everything(cluster: EmbeddedCluster, topic: str, count: int) -> dict[TopicPartition, list[bytes]]:
    """All values of a topic, at least this number, by partition."""
    found: dict[TopicPartition, list[bytes]] = {}
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    with closing(consumer):
        parts = [TopicPartition(topic, index) for index in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        assert sum(ends.values()) >= count
        deadline = time.monotonic() + 60
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for record in consumer.poll(500).records():
                found.setdefault(record.topic_partition, []).append(record.value)
            assert time.monotonic() < deadline
    return found


def batch(value: bytes) -> bytes:
    builder = BatchBuilder()
    builder.try_append(int(time.time() * 1000), None, value)
    return builder.build()


# --- what clients are told


def test_clients_see_all_brokers_and_where_leaders_are(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 6, 3)
    with at(trio, 2) as client:
        assert client.brokers() == dict(enumerate(addresses(trio)))
        described = client.request(DescribeClusterRequest())
        assert [broker.broker_id for broker in described.brokers] == [0, 1, 2]
        assert described.controller_id == 0
        assert client.leaders("t") == {0: 0, 1: 1, 2: 2, 3: 0, 4: 1, 5: 2}
        in_sync(client, "t")
        trio.kill_broker(0)
        assert client.brokers() == dict(list(enumerate(addresses(trio)))[1:])
        described = client.request(DescribeClusterRequest(include_fenced_brokers=True))
        assert described.controller_id == 1
        assert [(one.broker_id, one.is_fenced) for one in described.brokers] == [(1, False), (2, False), (0, True)]
        assert len(client.request(DescribeClusterRequest()).brokers) == 2
        assert client.leaders("t") == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 2}
        assert all(offline == [0] and 0 not in isr for _, isr, offline in states(client, "t"))
        with pytest.raises(ConnectionRefusedError):
            at(trio, 0)
        trio.restart_broker(0)
        in_sync(client, "t")
        assert client.brokers() == dict(enumerate(addresses(trio)))
        assert client.leaders("t") == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 2}
        assert trio.elect_preferred_leaders() == 2
        assert client.leaders("t") == {0: 0, 1: 1, 2: 2, 3: 0, 4: 1, 5: 2}


def test_errors_of_leadership_name_the_leader(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 1, 2)  # on nodes 0 and 1
    with at(trio, 0) as leader, at(trio, 2) as stranger:
        append(leader, "t", [b"a"])
        topic_id = leader.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")])).topics[0].topic_id
        wanted = FetchPartition(0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(topics=[FetchTopic("", topic_id, [wanted])], max_wait_ms=0, session_epoch=-1)
        answer = stranger.request(fetch, 17)
        part = answer.responses[0].partitions[0]
        assert (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch) == (6, 0, 0)
        assert [f"{node.host}:{node.port}" for node in answer.node_endpoints] == addresses(trio)[:1]
        data = [PartitionProduceData(0, batch(b"x"))]
        produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData("", topic_id, data)])
        answer = stranger.request(produce, 13)
        part = answer.responses[0].partition_responses[0]
        assert (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch) == (6, 0, 0)
        assert [f"{node.host}:{node.port}" for node in answer.node_endpoints] == addresses(trio)[:1]
        assert trio.faults.move_leader("t", 0) == 1
        wanted.current_leader_epoch = 0
        answer = leader.request(fetch, 17)
        part = answer.responses[0].partitions[0]
        assert (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch) == (74, 1, 1)
        with pytest.raises(ElectionNotNeededError):
            trio.faults.move_leader("t", 0, 1)


def test_a_partition_without_replicas_in_sync_is_offline_until_one_is_back(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 1, 2)  # on nodes 0 and 1
    with at(trio, 2) as client, KafkaProducer(bootstrap_servers=trio.bootstrap_servers) as producer:
        producer.send("t", b"a").get(10_000)
        trio.kill_broker(1)
        producer.send("t", b"only on 0").get(10_000)
        trio.kill_broker(0)
        trio.restart_broker(1)
        (found,) = client.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")])).topics
        part = found.partitions[0]
        assert (part.error_code, part.leader_id, part.isr_nodes, part.offline_replicas) == (5, -1, [0], [0])
        waiting = producer.send("t", b"b")
        trio.restart_broker(0)
        waiting.get(20_000)
        in_sync(client, "t", 2)
    assert everything(trio, "t", 3) == {TopicPartition("t", 0): [b"a", b"only on 0", b"b"]}


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_own_tools_show_replicas_and_isr(trio: EmbeddedCluster, kafka_tools: KafkaTools) -> None:
    def described() -> list[tuple[str, ...]]:
        said = kafka_tools.run(
            "TopicCommand", "--bootstrap-server", trio.bootstrap_servers, "--describe", "--topic", "t"
        )
        return re.findall(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S+)", said.stdout)

    at_trio = ("--bootstrap-server", trio.bootstrap_servers)
    kafka_tools.run("TopicCommand", *at_trio, "--create", "--topic", "t", "--replica-assignment", "2:0,1:2")
    assert described() == [("0", "2", "2,0", "2,0"), ("1", "1", "1,2", "1,2")]
    trio.kill_broker(2)
    assert described() == [("0", "0", "2,0", "0"), ("1", "1", "1,2", "1")]
    behind = kafka_tools.run("TopicCommand", *at_trio, "--describe", "--under-replicated-partitions").stdout
    assert behind.count("Topic: t\t") == 2
    trio.restart_broker(2)
    with at(trio, 0) as client:
        in_sync(client, "t", 2)
    assert described() == [("0", "0", "2,0", "2,0"), ("1", "1", "1,2", "1,2")]


# --- records


@contextmanager
def producing(send: Callable[[int], None]) -> Iterator[Callable[[], int]]:
    """Calls ``send(n)`` with rising numbers, from another thread, until the end of the context. Gives their count."""
    stop = threading.Event()
    count = 0
    problems: list[BaseException] = []

    def run() -> None:
        nonlocal count
        try:
            while not stop.is_set():
                send(count)
                count += 1
                if count % 20 == 0:
                    stop.wait(0.01)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run, name="test-producing")
    thread.start()
    try:
        yield lambda: count
    finally:
        stop.set()
        thread.join()
    if problems:
        raise problems[0]


def more(count: Callable[[], int], added: int) -> None:
    """Wait until a count has grown by so much."""
    wanted = count() + added
    eventually(lambda: count() >= wanted, f"{added} more")


def kill_in_turn(cluster: EmbeddedCluster, topic: str, progress: Callable[[], int], rounds: int = 2) -> None:
    """Kill and restart each broker in turn, while records are sent."""

    for _ in range(rounds):
        for node in range(3):
            more(progress, 100)
            cluster.kill_broker(node)
            more(progress, 100)
            cluster.restart_broker(node)
            with at(cluster, (node + 1) % 3) as client:
                in_sync(client, topic)


def check_once_in_order(cluster: EmbeddedCluster, topic: str, count: int, partitions: int) -> None:
    """Every number is there once, in the order in which it was sent to its partition."""
    found = everything(cluster, topic, count)
    for index in range(partitions):
        numbers = [int(value) for value in found.get(TopicPartition(topic, index), [])]
        assert numbers == list(range(index, count, partitions))


@pytest.mark.concurrent
def test_our_producer_loses_and_repeats_no_record_when_brokers_die(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 3, 3, {"min.insync.replicas": 2})
    futures: list[Any] = []
    with KafkaProducer(bootstrap_servers=trio.bootstrap_servers, acks="all", retry_backoff_ms=20) as producer:
        with producing(lambda n: futures.append(producer.send("t", b"%d" % n, partition=n % 3))) as count:
            kill_in_turn(trio, "t", count)
        for number, future in enumerate(futures):
            assert future.get(20_000).partition == number % 3
    check_once_in_order(trio, "t", len(futures), 3)


@pytest.mark.concurrent
def test_librdkafkas_producer_loses_and_repeats_no_record_when_brokers_die(trio: EmbeddedCluster) -> None:
    peer = pytest.importorskip("confluent_kafka")
    trio.create_topic("t", 3, 3)
    errors: list[Any] = []
    settings = {
        "bootstrap.servers": trio.bootstrap_servers,
        "enable.idempotence": True,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 20,
    }
    producer = peer.Producer(settings)

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)

    def send(number: int) -> None:
        producer.produce("t", b"%d" % number, partition=number % 3, on_delivery=delivered)
        producer.poll(0)

    with producing(send) as count:
        kill_in_turn(trio, "t", count, rounds=1)
    assert producer.flush(30) == 0
    assert not errors
    check_once_in_order(trio, "t", count(), 3)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_javas_producer_loses_and_repeats_no_record_when_brokers_die(
    trio: EmbeddedCluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    trio.create_topic("t", 3, 3, {"min.insync.replicas": 2})
    output = tmp_path / "producer.log"
    (tmp_path / "producer.properties").write_text(
        "enable.idempotence=true\nretries=2147483647\nretry.backoff.ms=20\nreconnect.backoff.ms=20\n"
    )
    arguments = ("--bootstrap-server", trio.bootstrap_servers, "--topic", "t", "--acks", "-1")
    arguments += ("--throughput", "2000", "--command-config", str(tmp_path / "producer.properties"))

    def acknowledged() -> int:
        return output.read_text().count("producer_send_success")

    with kafka_tools.start("VerifiableProducer", *arguments, output=output) as process:
        for node in (0, 1, 2, 1):
            wanted = acknowledged() + 500
            wait_until(lambda w=wanted: acknowledged() > w, 60, "records")
            trio.kill_broker(node)
            wanted = acknowledged() + 500
            wait_until(lambda w=wanted: acknowledged() > w, 60, "records without a broker")
            trio.restart_broker(node)
            with at(trio, (node + 1) % 3) as client:
                in_sync(client, "t")
        process.stop()
    assert "producer_send_error" not in output.read_text()
    sent = [json.loads(line) for line in output.read_text().splitlines() if "producer_send_success" in line]
    found = everything(trio, "t", len(sent))
    stored = sorted(int(value) for values in found.values() for value in values)
    assert stored == list(range(len(stored)))
    for one in sent:  # each is where its acknowledgement said
        assert found[TopicPartition("t", one["partition"])][one["offset"]] == one["value"].encode()


@pytest.mark.concurrent
def test_leaders_that_move_under_a_producer_and_a_consumer(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 2, 3)
    moves = random.Random(7)
    read: list[bytes] = []
    settings: dict[str, Any] = {"bootstrap_servers": trio.bootstrap_servers, "retry_backoff_ms": 20}
    with ExitStack() as stack:
        producer = stack.enter_context(KafkaProducer(**settings))
        consumer = KafkaConsumer(auto_offset_reset="earliest", **settings)
        stack.callback(consumer.close)
        consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        with producing(lambda n: producer.send("t", b"%d" % n, partition=n % 2)) as count:
            for _ in range(30):
                trio.faults.move_leader("t", moves.randrange(2))
                read += [record.value for record in consumer.poll(50).records()]
        producer.flush()
        deadline = time.monotonic() + 60
        while len(read) < count():
            read += [record.value for record in consumer.poll(100).records()]
            assert time.monotonic() < deadline
    assert Counter(read) == Counter(b"%d" % n for n in range(count()))


@pytest.mark.slow
def test_the_whole_process_dies(start: Callable[..., EmbeddedCluster], tmp_path: Path) -> None:
    cluster = start(data_dir=tmp_path / "data")
    cluster.create_topic("t", 3, 3)
    futures: list[Any] = []
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=20) as producer:
        with producing(lambda n: futures.append(producer.send("t", b"%d" % n, partition=n % 3))) as count:
            for _ in range(2):
                more(count, 300)
                cluster.kill()
                cluster.restart()
        for future in futures:
            future.get(20_000)
    with at(cluster, 0) as client:
        in_sync(client, "t")
    check_once_in_order(cluster, "t", len(futures), 3)
    cluster.stop()
    again = start(data_dir=tmp_path / "data")
    check_once_in_order(again, "t", len(futures), 3)


@pytest.mark.slow
def test_a_broker_that_does_not_replicate_delays_acks_all_until_it_is_out_of_sync(
    start: Callable[..., EmbeddedCluster],
) -> None:
    cluster = start(config={"replica.lag.time.max.ms": 1000})
    cluster.create_topic("t", 1, 3)
    with at(cluster, 0) as client:
        append(client, "t", [b"a"])
        cluster.faults.pause_replication(2)
        data = [PartitionProduceData(0, batch(b"b"))]
        request = ProduceRequest(acks=-1, timeout_ms=100, topic_data=[TopicProduceData("t", partition_data=data)])
        assert client.request(request, 9).responses[0].partition_responses[0].error_code == RequestTimedOutError.errno
        in_sync(client, "t", 2)
        append(client, "t", [b"c"])
        cluster.faults.resume_replication(2)
        in_sync(client, "t")
    assert everything(cluster, "t", 3) == {TopicPartition("t", 0): [b"a", b"b", b"c"]}


# --- groups


class Committer:
    """Commits rising offsets for a group, without being a member, wherever its coordinator is. Keeps the ledger."""

    def __init__(self, cluster: EmbeddedCluster, group_id: str) -> None:
        self._cluster = cluster
        self.group_id = group_id
        self.acknowledged = -1
        self.tried = -1
        self.errors: Counter[int] = Counter()
        self._client: RawClient | None = None

    def step(self) -> None:
        """Try the next offset. Now and then read the committed one, which may not be less than acknowledged."""
        try:
            client = self._connect()
            if client is None:
                return
            self.tried += 1
            part = OffsetCommitRequestPartition(0, self.tried)
            request = OffsetCommitRequest(self.group_id, topics=[OffsetCommitRequestTopic("t", partitions=[part])])
            code = client.request(request, 8).topics[0].partitions[0].error_code
            if code == 0:
                self.acknowledged = self.tried
            elif self._note(code):
                return
            if self.tried % 3 == 0:
                before = self.acknowledged
                found = self.committed(client)
                if found is not None:
                    assert before <= found <= self.tried, f"{found} is committed, {before} was acknowledged"
        except ConnectionError:
            self._drop()

    def committed(self, client: RawClient) -> int | None:
        """The committed offset, -1 without one, or None if the coordinator does not say."""
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group_id, topics=topics)])
        (group,) = client.request(request, 9).groups
        if group.error_code:
            self._note(group.error_code)
            return None
        return int(group.topics[0].partitions[0].committed_offset)

    def final(self) -> int:
        """Return the committed offset in the end."""

        def look() -> list[int]:
            try:
                client = self._connect()
                found = None if client is None else self.committed(client)
            except ConnectionError:
                self._drop()
                return []
            return [] if found is None else [found]

        return int(eventually(look, "an answer")[0])

    def _note(self, code: int) -> bool:
        """Note an error and return whether the coordinator has to be looked up."""
        self.errors[code] += 1
        assert code in (
            Errors.COORDINATOR_LOAD_IN_PROGRESS,
            Errors.NOT_COORDINATOR,
            Errors.COORDINATOR_NOT_AVAILABLE,
        ), code
        if code != Errors.COORDINATOR_LOAD_IN_PROGRESS:
            self._drop()
            return True
        return False

    def _connect(self) -> RawClient | None:
        if self._client is None:
            for address in addresses(self._cluster):
                try:
                    with RawClient(address) as any_broker:
                        found = any_broker.request(FindCoordinatorRequest(self.group_id), 3)
                    if found.error_code == 0:
                        self._client = RawClient(f"{found.host}:{found.port}")
                        break
                except ConnectionError:
                    continue
        return self._client

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        self._drop()


class Committers:
    """Several of them, each in its thread."""

    def __init__(self, cluster: EmbeddedCluster, count: int) -> None:
        self.all = [Committer(cluster, f"group-{number}") for number in range(count)]
        self._stop = threading.Event()
        self._problems: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(one,), name=one.group_id) for one in self.all]
        for thread in self._threads:
            thread.start()

    def _run(self, committer: Committer) -> None:
        try:
            while not self._stop.is_set():
                committer.step()
        except BaseException as error:
            self._problems.append(error)
        finally:
            committer.close()

    def check(self) -> None:
        """Raise the first error."""
        if self._problems:
            raise self._problems[0]

    def more(self, added: int = 10) -> None:
        """Wait until each has committed this number of times more."""
        goals = [one.acknowledged + added for one in self.all]

        def reached() -> bool:
            self.check()
            return all(one.acknowledged >= goal for one, goal in zip(self.all, goals, strict=True))

        eventually(reached, "more commits")

    def __enter__(self) -> Committers:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if error[0] is not None:
            return
        self.check()
        for one in self.all:
            with closing(one):
                assert one.acknowledged <= one.final() <= one.tried


@pytest.mark.concurrent
def test_no_commit_is_lost_by_coordinators_that_move_back_and_forth(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 1, 3)
    with Committers(trio, 3) as committers:
        committers.more()
        chance = random.Random(3)
        for move in range(60):
            trio.faults.move_coordinator(f"group-{chance.randrange(3)}")
            if move % 3:  # else there and back at once
                threading.Event().wait(0.02)
        committers.more()
    assert sum(one.errors[Errors.NOT_COORDINATOR] for one in committers.all)


@pytest.mark.concurrent
def test_no_commit_is_lost_by_coordinators_that_die(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 1, 3)
    with Committers(trio, 3) as committers:
        for node in (0, 1, 2, 0):
            committers.more()
            trio.kill_broker(node)
            committers.more()
            trio.restart_broker(node)
            with at(trio, (node + 1) % 3) as client:
                in_sync(client, "__consumer_offsets")


def test_a_group_continues_at_its_new_coordinator(trio: EmbeddedCluster) -> None:
    """The same members, generation, assignment and offsets. The old one has dropped them, the new one loaded them."""
    trio.create_topic("t", 1, 3)
    with ExitStack() as stack:
        connect = lambda address: stack.enter_context(RawClient(address))  # noqa: E731
        first = connect(connect(addresses(trio)[0]).coordinator("g"))
        protocols = [JoinGroupRequestProtocol("range", b"\x00\x00")]
        join = JoinGroupRequest("g", 30_000, 30_000, protocol_type="consumer", protocols=protocols)
        join.member_id = first.request(join, 5).member_id
        joined = first.request(join, 5)
        assignments = [SyncGroupRequestAssignment(join.member_id, b"mine")]
        sync = SyncGroupRequest("g", joined.generation_id, join.member_id, assignments=assignments)
        assert first.request(sync, 3).assignment == b"mine"
        offsets = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 42)])]
        commit = OffsetCommitRequest("g", joined.generation_id, join.member_id, topics=offsets)
        assert first.request(commit, 7).topics[0].partitions[0].error_code == 0
        # A second member's join waits there when the coordinator moves.
        other = connect(first.address)
        second = JoinGroupRequest("g", 30_000, 30_000, protocol_type="consumer", protocols=protocols)
        second.member_id = other.request(second, 5).member_id
        other.send(second, 5)
        beat = HeartbeatRequest("g", joined.generation_id, join.member_id)
        eventually(lambda: first.request(beat, 3).error_code == Errors.REBALANCE_IN_PROGRESS, "the rebalance")
        node = trio.faults.move_coordinator("g")
        assert other.receive()[1].error_code == Errors.NOT_COORDINATOR
        assert first.request(beat, 3).error_code == Errors.NOT_COORDINATOR
        assert first.request(commit, 7).topics[0].partitions[0].error_code == Errors.NOT_COORDINATOR
        moved = connect(addresses(trio)[node])
        assert first.coordinator("g") == moved.address != first.address
        eventually(lambda: moved.request(commit, 7).topics[0].partitions[0].error_code == 0, "the load")
        assert moved.request(beat, 3).error_code == 0
        assert moved.request(sync, 3).assignment == b"mine"
        again = moved.request(join, 5)
        assert (again.error_code, again.generation_id) == (0, joined.generation_id + 1)


@pytest.mark.slow
def test_a_group_reads_everything_while_coordinators_and_leaders_move_and_die(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 6, 3)
    generations: dict[int, Counter[TopicPartition]] = {}
    lock = threading.Lock()

    settings: dict[str, Any] = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20}
    with ExitStack() as stack:
        producer = stack.enter_context(
            KafkaProducer(bootstrap_servers=trio.bootstrap_servers, retry_backoff_ms=20, reconnect_backoff_ms=20)
        )
        start = stack.enter_context(running())
        members: list[Any] = []
        for _ in range(3):
            member = start(trio.bootstrap_servers, "g", ["t"], **settings)
            member.listener.hook = note_generation(member, generations, lock)
            members.append(member)
        with producing(lambda n: producer.send("t", b"%d" % n, partition=n % 6)) as count:
            chance = random.Random(5)
            for turn in range(9):
                more(count, 100)
                node = turn % 3
                if turn % 2:
                    trio.faults.move_coordinator("g")
                    trio.faults.move_leader("t", chance.randrange(6))
                    continue
                trio.kill_broker(node)
                more(count, 100)
                trio.restart_broker(node)
                with at(trio, (node + 1) % 3) as client:
                    in_sync(client, "__consumer_offsets")
                    in_sync(client, "t")
        producer.flush(timeout_ms=30_000)
        total = count()
        read = lambda: {record for member in members for record in member.read}  # noqa: E731
        eventually(lambda: len(read()) == total or any(m.error for m in members), f"{total} records", 60)
        assert [member.error for member in members] == [None, None, None]
    admin = KafkaAdminClient(bootstrap_servers=trio.bootstrap_servers)
    with closing(admin):
        committed = admin.list_group_offsets("g")
    assert sum(offset.offset for offset in committed.values()) == total
    for generation, owners in generations.items():
        assert max(owners.values(), default=1) == 1, f"generation {generation} gave a partition to two members"


def note_generation(member: Any, generations: dict[int, Counter[TopicPartition]], lock: threading.Lock) -> Any:
    def hook(what: str, partitions: list[TopicPartition]) -> None:
        if what == "assigned":
            with lock:
                owners = generations.setdefault(member.consumer.group_metadata().generation_id, Counter())
                owners.update(partitions)

    return hook


# --- how it is started and told


def test_brokers_that_cannot_be_killed(start: Callable[..., EmbeddedCluster]) -> None:
    cluster = start(data_dir=":memory:")
    with pytest.raises(IllegalStateError, match="in memory"):
        cluster.kill_broker(0)
    with pytest.raises(IllegalStateError, match="was not killed"):
        cluster.restart_broker(0)
    with pytest.raises(ConfigurationError, match="no broker 3"):
        cluster.kill_broker(3)
    cluster.create_topic("t", 1, 3)
    with at(cluster, 0) as client:
        append(client, "t", [b"a"])
        in_sync(client, "t")
    assert everything(cluster, "t", 1) == {TopicPartition("t", 0): [b"a"]}


def test_a_broker_is_killed_once_and_may_be_the_last_one(trio: EmbeddedCluster) -> None:
    trio.create_topic("t", 1, 3)
    trio.kill_broker(0)
    with pytest.raises(IllegalStateError, match="does not run"):
        trio.kill_broker(0)
    trio.kill_broker(1)
    trio.kill_broker(2)
    for node in (0, 1, 2):
        trio.restart_broker(node)
    with at(trio, 1) as client:
        in_sync(client, "t")
        assert states(client, "t")[0][0] == 2


def test_a_cluster_in_a_thread(start: Callable[..., EmbeddedCluster]) -> None:
    cluster = start(2, in_thread=True)
    cluster.create_topic("t", 1, 2)
    cluster.kill_broker(0)
    with at(cluster, 1) as client:
        append(client, "t", [b"a"])
        cluster.restart_broker(0)
        in_sync(client, "t", 2)


def test_the_program_starts_several_brokers_and_prints_their_addresses(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyconsumer.broker", "--port", "0", "--brokers", "3", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on (\S+)\n", line)
        assert found, line
        listed = found[1].split(",")
        with RawClient(listed[2]) as client:
            assert list(client.brokers().values()) == listed
            client.create_topic("t", 3, replication_factor=3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert sorted(path.name for path in tmp_path.glob("broker-*")) == ["broker-0", "broker-1", "broker-2"]
    assert all((tmp_path / f"broker-{node}" / "t-2").is_dir() for node in range(3))
