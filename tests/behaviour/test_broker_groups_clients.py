"""Foreign clients and Kafka's own tools in consumer groups of the embedded broker."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from tests.behaviour.raw_members import Member, fetch_offset
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools, documents
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the foreign clients' own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ASSIGNED_WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def _leftovers_of_foreign_clients() -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector, which would complain in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def fill(cluster: Cluster, topic: str, count: int, partitions: int) -> None:
    peer = pytest.importorskip("confluent_kafka")
    producer = peer.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(30) == 0


@pytest.fixture
def topic4(embedded: Cluster, topic_name: str) -> str:
    """A topic of four partitions with a hundred records."""
    embedded.create_topic(topic_name, 4)
    fill(embedded, topic_name, 100, 4)
    return topic_name


class Confluent:
    """A confluent-kafka consumer that notes its assignments and records."""

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        self.consumer = pytest.importorskip("confluent_kafka").Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 20_000,
                "heartbeat.interval.ms": 200,
            }
            | settings
        )
        self.values: list[bytes] = []
        self.consumer.subscribe([topic])

    @property
    def assigned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None:
            assert message.error() is None, message.error()
            self.values.append(message.value())

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    """The same with kafka-python."""

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        self.consumer = pytest.importorskip("kafka").KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=20_000,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=1000,
            **settings,
        )
        self.values: list[bytes] = []
        # A leader that joins before it has metadata divides nothing, and may not see that they have come.
        assert self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe([topic])

    @property
    def assigned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def poll(self) -> None:
        for records in self.consumer.poll(timeout_ms=50).values():
            self.values += [record.value for record in records]

    def commit(self) -> None:
        """Commit. After a rebalance, which a busy machine may cause, poll before, as the error says."""
        from kafka.errors import RebalanceInProgressError

        for _ in range(100):
            try:
                return self.consumer.commit()
            except RebalanceInProgressError:
                self.poll()
        raise AssertionError("the rebalance does not end")

    def close(self) -> None:
        self.consumer.close()


def poll_until(condition: Callable[[], bool], *members: Any, what: str) -> None:
    deadline = time.monotonic() + ASSIGNED_WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {ASSIGNED_WITHIN_S:g} s: {what}"
        for member in members:
            member.poll()


def shared(*members: Any, partitions: int = 4) -> Callable[[], bool]:
    """Every partition belongs to exactly one member, and every member has some."""

    def check() -> bool:
        parts = [member.assigned for member in members]
        return all(parts) and sorted(one for part in parts for one in part) == list(range(partitions))

    return check


def read_all(*members: Any, count: int = 100) -> Callable[[], bool]:
    return lambda: len({value for member in members for value in member.values}) == count


@pytest.mark.concurrent
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_confluent_consumers_share_and_take_over(
    embedded: Cluster, topic4: str, group_id: str, strategy: str
) -> None:
    settings = {"partition.assignment.strategy": strategy}
    first = Confluent(embedded.bootstrap_servers, group_id, topic4, **settings)
    poll_until(lambda: first.assigned == {0, 1, 2, 3}, first, what="the first has everything")
    second = Confluent(embedded.bootstrap_servers, group_id, topic4, **settings)
    poll_until(shared(first, second), first, second, what="both share")
    poll_until(read_all(first, second), first, second, what="everything is read")
    first.consumer.commit(asynchronous=False)
    first.close()
    poll_until(lambda: second.assigned == {0, 1, 2, 3}, second, what="the second takes over")
    second.close()


@pytest.mark.concurrent
def test_kafka_python_commits_and_continues(embedded: Cluster, topic4: str, group_id: str) -> None:
    first = KafkaPython(embedded.bootstrap_servers, group_id, topic4)
    poll_until(read_all(first), first, what="everything is read")
    first.commit()
    first.close()
    fill(embedded, topic4, 8, 4)
    second = KafkaPython(embedded.bootstrap_servers, group_id, topic4)
    poll_until(read_all(second, count=8), second, what="only what is new is read")
    assert len(second.values) == 8
    second.close()


@pytest.mark.concurrent
@pytest.mark.slow
def test_different_clients_in_one_group_agree_on_a_strategy(embedded: Cluster, topic4: str, group_id: str) -> None:
    settings = {"partition.assignment.strategy": "range,roundrobin"}
    one = Confluent(embedded.bootstrap_servers, group_id, topic4, **settings)
    other = KafkaPython(embedded.bootstrap_servers, group_id, topic4)
    poll_until(shared(one, other), one, other, what="both share")
    poll_until(read_all(one, other), one, other, what="everything is read")
    one.close()
    poll_until(lambda: other.assigned == {0, 1, 2, 3}, other, what="the other takes over")
    other.close()


@pytest.mark.concurrent
def test_aiokafka_shares_commits_and_continues(embedded: Cluster, topic4: str, group_id: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    def consumer() -> Any:
        return aiokafka.AIOKafkaConsumer(
            topic4,
            bootstrap_servers=embedded.bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=20_000,
        )

    async def run() -> None:
        first, second = consumer(), consumer()
        await first.start()
        await second.start()
        seen: set[bytes] = set()
        try:
            async with asyncio.timeout(ASSIGNED_WITHIN_S):
                while len(seen) < 100 or not (first.assignment() and second.assignment()):
                    for one in (first, second):
                        for records in (await one.getmany(timeout_ms=50)).values():
                            seen.update(record.value for record in records)
            for one in (first, second):
                await one.commit()
            committed = [await first.committed(one) for one in first.assignment()]
            assert sum(committed) == 25 * len(committed)
        finally:
            await first.stop()
            await second.stop()

    asyncio.run(run())


@pytest.mark.concurrent
def test_a_static_confluent_consumer_comes_back_without_a_rebalance(
    embedded: Cluster, topic4: str, group_id: str
) -> None:
    names = [{"group.instance.id": name, "session.timeout.ms": 30000} for name in ("one", "two")]
    first, second = (Confluent(embedded.bootstrap_servers, group_id, topic4, **name) for name in names)
    poll_until(shared(first, second), first, second, what="both share")
    with embedded.raw() as client:
        before = generation_of(client, group_id)
        first.close()  # a static member sends no LeaveGroup
        first = Confluent(embedded.bootstrap_servers, group_id, topic4, **names[0])
        poll_until(shared(first, second), first, second, what="both share again")
        assert generation_of(client, group_id) == before
    first.close()
    second.close()


def generation_of(client: RawClient, group: str) -> int:
    """The generation is in no answer to a tool, so ask as a member of the wrong one: that is refused one by one."""
    (described,) = client.request(DescribeGroupsRequest([group]), 5).groups
    member = described.members[0]
    for generation in range(100):
        request = HeartbeatRequest(group, generation, member.member_id, member.group_instance_id)
        if client.request(request).error_code != Errors.ILLEGAL_GENERATION:
            return generation
    raise AssertionError("no generation below 100")


# Kafka's own tools


@pytest.fixture
def groups_command(embedded: Cluster, kafka_tools: KafkaTools) -> Callable[..., list[str]]:
    def run(*args: str) -> list[str]:
        finished = kafka_tools.run("ConsumerGroupCommand", "--bootstrap-server", embedded.bootstrap_servers, *args)
        return [line for line in finished.stdout.splitlines() if line.strip()]

    return run


def table(lines: list[str]) -> list[dict[str, str]]:
    """Return the printed table of a tool."""
    head = next(index for index, line in enumerate(lines) if line.startswith("GROUP"))
    names = re.split(r"\s{2,}|\s(?=[A-Z(])", lines[head].strip())
    return [dict(zip(names, line.split(), strict=False)) for line in lines[head + 1 :]]


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_group_tool(
    embedded: Cluster, topic4: str, group_id: str, kafka_tools: KafkaTools, groups_command: Callable[..., list[str]]
) -> None:
    at = ("--bootstrap-server", embedded.bootstrap_servers, "--topic", topic4, "--group", group_id)
    read = kafka_tools.run("ConsoleConsumer", *at, "--from-beginning", "--max-messages", "100")
    assert sorted(map(int, read.lines)) == list(range(100))

    assert group_id in groups_command("--list")
    assert f"{group_id} " in " ".join(groups_command("--list", "--state", "empty")) + " "
    (state,) = table(groups_command("--describe", "--group", group_id, "--state"))
    assert (state["GROUP"], state["STATE"], state["#MEMBERS"]) == (group_id, "Empty", "0")
    described = table(groups_command("--describe", "--group", group_id))
    assert {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LAG"]) for row in described} == {
        str(number): ("25", "0") for number in range(4)
    }

    reset = ("--reset-offsets", "--group", group_id, "--topic", f"{topic4}:1", "--to-offset", "7", "--execute")
    assert table(groups_command(*reset))[0]["NEW-OFFSET"] == "7"
    deleted = groups_command("--delete-offsets", "--group", group_id, "--topic", f"{topic4}:2")
    assert any("Successful" in line for line in deleted)
    after = {
        row["PARTITION"]: row["CURRENT-OFFSET"] for row in table(groups_command("--describe", "--group", group_id))
    }
    assert after["1"] == "7"
    assert after.get("2", "-") == "-"

    member = Confluent(embedded.bootstrap_servers, group_id, topic4)
    poll_until(lambda: bool(member.assigned), member, what="a member")
    (row,) = table(groups_command("--describe", "--group", group_id, "--members"))
    assert (row["GROUP"], row["#PARTITIONS"], row["HOST"]) == (group_id, "4", "/127.0.0.1")
    refused = kafka_tools.run(
        "ConsumerGroupCommand",
        *("--bootstrap-server", embedded.bootstrap_servers, "--delete", "--group", group_id),
        check=False,
    )
    assert "not empty" in refused.stdout + refused.stderr
    member.close()
    assert any("successful" in line for line in groups_command("--delete", "--group", group_id))
    assert group_id not in groups_command("--list")


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_dump_tool_reads_our_offsets_topic(
    new_cluster: Callable[..., Cluster], group_id: str, topic_name: str, tmp_path: Path, kafka_tools: KafkaTools
) -> None:
    cluster = new_cluster("embedded", data_dir=tmp_path, config={"offsets.topic.num.partitions": 1})
    cluster.create_topic(topic_name)
    with ExitStack() as stack:

        def connect() -> RawClient:
            return stack.enter_context(cluster.raw())

        connect().coordinator(group_id)
        member = Member(connect, group_id, instance="i", topics=(topic_name,)).stable()
        assert member.commit(topic_name, 42) == 0
        member.leave()
    cluster.stop()
    (log,) = tmp_path.rglob("__consumer_offsets-0/*.log")
    dumped = kafka_tools.run("DumpLogSegments", "--deep-iteration", "--offsets-decoder", "--files", str(log)).stdout
    payloads = [
        (json.loads(key), json.loads(value)) for key, value in re.findall(r"key: (\{.*\}) payload: (\{.*\})", dumped)
    ]
    stable, offset, empty = payloads
    assert stable[0] == {"type": "2", "data": {"group": group_id}}
    assert stable[1]["version"] == "3"
    data = stable[1]["data"]
    assert (data["protocolType"], data["generation"], data["protocol"]) == ("consumer", 1, "range")
    (found,) = data["members"]
    assert (found["memberId"], found["groupInstanceId"], found["clientHost"]) == (member.member_id, "i", "/127.0.0.1")
    assert offset[0] == {"type": "1", "data": {"group": group_id, "topic": topic_name, "partition": 0}}
    assert (offset[1]["version"], offset[1]["data"]["offset"]) == ("4", 42)
    assert (empty[1]["data"]["generation"], empty[1]["data"]["members"]) == (2, [])


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_formatter_reads_our_offsets_topic(
    new_cluster: Callable[..., Cluster], group_id: str, topic_name: str, kafka_tools: KafkaTools
) -> None:
    cluster = new_cluster("embedded", config={"offsets.topic.num.partitions": 1})
    cluster.create_topic(topic_name)
    with cluster.raw() as client:
        client.coordinator(group_id)
        lonely = Member(lambda: client, group_id)
        wait_until(lambda: fetch_offset(client, group_id, topic_name)[1] == 0, 60, "the load")
        assert lonely.commit(topic_name, 7) == 0
    for formatter in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
        read = kafka_tools.run(
            "ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "__consumer_offsets", "--from-beginning"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", "10000"),
        )
        # The tool is in a group of its own, which is in the topic too.
        found = [one for one in documents(read.stdout) if one["key"]["data"]["group"] == group_id]
        if formatter.startswith("Offsets"):
            (only,) = found
            assert (only["value"]["version"], only["value"]["data"]["offset"]) == (4, 7)
        else:
            assert found == []


# Restarts and moves


def member_of(cluster: Cluster, address: str, group: str, stack: ExitStack) -> Member:
    def connect() -> RawClient:
        return stack.enter_context(RawClient(address))

    return Member(connect, group, session_ms=30_000)


@pytest.mark.concurrent
def test_a_group_outlives_the_crash_of_its_broker(
    new_cluster: Callable[..., Cluster], group_id: str, topic_name: str, tmp_path: Path
) -> None:
    cluster = new_cluster("embedded", data_dir=tmp_path)
    cluster.create_topic(topic_name)
    with ExitStack() as stack:
        with cluster.raw() as client:
            address = client.coordinator(group_id)
        member = member_of(cluster, address, group_id, stack).stable()
        assert member.commit(topic_name, 42) == 0
        cluster.kill()
        cluster.restart()
        member.client = stack.enter_context(cluster.raw())
        wait_until(lambda: fetch_offset(member.client, group_id, topic_name)[1] == 0, 60, "the load")
        assert member.heartbeat() == 0
        assert member.sync().assignment == b"own"
        assert fetch_offset(member.client, group_id, topic_name) == (42, 0)


def test_the_internal_topic_is_made_by_the_first_look_up(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster("embedded", config={"offsets.topic.num.partitions": 3})
    with cluster.raw() as client:
        assert client.leaders("__consumer_offsets") == {}
        client.request(FindCoordinatorRequest(key="g"), 3)
        wait_until(lambda: len(client.leaders("__consumer_offsets")) == 3, 60, "the internal topic")
