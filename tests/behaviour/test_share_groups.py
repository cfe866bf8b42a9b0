"""Share groups as administrators see them, on both brokers: calls, the command, and Kafka's tools."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.admin import ConfigResource
from pyconsumer.cli import _run
from pyconsumer.errors import (
    GroupIdNotFoundError,
    KafkaError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.messages import delete_share_group_state as delete_state
from pyconsumer.protocol.messages import initialize_share_group_state as initialize_state
from pyconsumer.protocol.messages import read_share_group_state as read_state
from pyconsumer.protocol.messages import read_share_group_state_summary as read_summary
from pyconsumer.protocol.messages import write_share_group_state as write_state
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.support.share_groups import SHARE_CONFIG, ShareWorld

pytestmark = pytest.mark.concurrent


@pytest.fixture
def admin(sharing: Cluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=sharing.bootstrap_servers) as admin:
        yield admin


def read_all(world: ShareWorld, topic: str, count: int, **settings: Any) -> list[int]:
    """Read and accept records, leave, and return their offsets."""
    consumer = world.consumer(topic, **settings)
    found: list[int] = []

    def has_all() -> bool:
        found.extend(record.offset for record in consumer.poll(timeout_ms=300).records())
        return len(found) >= count

    wait_until(has_all, 20, f"{count} records")
    consumer.commit()
    consumer.close()
    return sorted(found)


def poll_for(consumer: KafkaConsumer[bytes, bytes], seconds: float) -> None:
    """Poll until the time is up, or a poll fails."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        consumer.poll(timeout_ms=200)


def test_a_share_group_is_listed_and_described(world: ShareWorld, admin: KafkaAdminClient) -> None:
    topic = world.topic(2)
    consumer = world.consumer(topic)

    def is_assigned() -> bool:
        consumer.poll(timeout_ms=200)
        try:
            members = admin.describe_groups([world.group])[world.group].members
        except GroupIdNotFoundError:
            return False  # the first heartbeat is on its way
        return len(members) == 1 and len(members[0].assignment) == 2

    wait_until(is_assigned, 20, "the member has both partitions")
    (listed,) = [one for one in admin.list_groups(types=["share"]) if one.group_id == world.group]
    assert (listed.group_type, listed.state, listed.protocol_type) == ("share", "Stable", "share")
    assert world.group not in [one.group_id for one in admin.list_groups(types=["consumer", "classic"])]
    group = admin.describe_groups([world.group])[world.group]
    assert (group.group_type, group.state, group.protocol) == ("share", "Stable", "simple")
    (member,) = group.members
    assert member.topics == (topic,)
    assert member.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert group.epoch == group.assignment_epoch == member.epoch
    consumer.close()
    wait_until(lambda: not admin.describe_groups([world.group])[world.group].members, 60, "the member has left")
    assert admin.describe_groups([world.group])[world.group].state == "Empty"


def test_offsets_are_read_set_and_deleted(world: ShareWorld, admin: KafkaAdminClient) -> None:
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.send(topic, [b"%d" % number for number in range(10)])
    assert read_all(world, topic, 10) == list(range(10))
    world.send(topic, [b"more"] * 3)
    found = admin.list_share_group_offsets(world.group)[tp]
    assert (found.start_offset, found.lag) == (10, 3) or (found.start_offset, found.lag) == (0, 3)
    assert admin.list_share_group_offsets(world.group, [TopicPartition("absent", 0)]) == {}
    admin.alter_share_group_offsets(world.group, {tp: 4})
    assert admin.list_share_group_offsets(world.group)[tp].start_offset == 4
    assert read_all(world, topic, 9) == list(range(4, 13))
    admin.delete_share_group_offsets(world.group, [topic])
    assert admin.list_share_group_offsets(world.group) == {}
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_share_group_offsets(world.group, [topic])
    assert read_all(world, topic, 13) == list(range(13))  # as a new group


def test_a_new_group_begins_with_records_that_are_young_enough(world: ShareWorld) -> None:
    world.set_group(share_auto_offset_reset="by_duration:PT1H")
    topic, now = world.topic(), int(time.time() * 1000)
    with KafkaProducer(bootstrap_servers=world.servers) as producer:
        for age_h in (3, 2, 0.5, 0):
            producer.send(topic, b"x", timestamp_ms=now - int(age_h * 3_600_000)).get(20)
    assert read_all(world, topic, 2) == [2, 3]


def test_offsets_are_not_changed_under_a_member(world: ShareWorld, admin: KafkaAdminClient) -> None:
    topic = world.topic()
    consumer = world.consumer(topic)

    def has_member() -> bool:
        consumer.poll(timeout_ms=100)
        return world.group in {each.group_id for each in admin.list_groups()}

    wait_until(has_member, 60, "a member")
    for call in (
        lambda: admin.alter_share_group_offsets(world.group, {TopicPartition(topic, 0): 0}),
        lambda: admin.delete_share_group_offsets(world.group, [topic]),
        lambda: admin.delete_groups([world.group]),
    ):
        with pytest.raises(NonEmptyGroupError, match="1 member"):
            call()


def test_the_settings_of_a_share_group_and_their_bounds_are_kafkas(world: ShareWorld, admin: KafkaAdminClient) -> None:
    resource = ConfigResource("group", world.group)
    world.set_group(share_isolation_level="read_committed")

    def values() -> dict[str, str | None]:
        found = admin.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in found.items() if name.startswith("share.")}

    wait_until(lambda: values().get("share.isolation.level") == "read_committed", 60, "the group's setting")
    assert values() == {
        "share.assignment.interval.ms": "1000",
        "share.auto.offset.reset": "earliest",  # by the fixture
        "share.delivery.count.limit": "5",
        "share.heartbeat.interval.ms": "200",
        "share.isolation.level": "read_committed",
        "share.partition.max.record.locks": "2000",
        "share.record.lock.duration.ms": "15000",
        "share.renew.acknowledge.enable": "true",
        "share.session.timeout.ms": "2000",
    }
    for name, value in (
        ("share.auto.offset.reset", "by_duration:x"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.heartbeat.interval.ms", "99"),
        ("share.isolation.level", "x"),
        ("share.partition.max.record.locks", "99"),
        ("share.partition.max.record.locks", "4001"),
        ("share.record.lock.duration.ms", "999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.renew.acknowledge.enable", "x"),
        ("share.session.timeout.ms", "499"),
        ("share.session.timeout.ms", "60001"),
    ):
        with pytest.raises(KafkaError):
            admin.alter_configs({resource: {name: value}})


def test_the_state_of_a_share_partition_over_the_wire(world: ShareWorld, admin: KafkaAdminClient) -> None:
    """Leaders on other brokers ask so: begin, write, read, summarize, delete."""
    found = admin.describe_topics([world.topic()])[0].topic_id
    topic_id = base64.urlsafe_b64decode(found + "==")

    def only(message: Any) -> Any:
        (result,) = client.request(message).results
        assert bytes(result.topic_id) == topic_id
        (one,) = result.partitions
        assert (one.partition, one.error_code) == (0, 0), one
        return one

    def read() -> tuple[int, int, list[tuple[int, int, int, int]]]:
        data = read_state.PartitionData(partition=0, leader_epoch=0)
        topics = [read_state.ReadStateData(topic_id=topic_id, partitions=[data])]
        one = only(read_state.ReadShareGroupStateRequest(group_id=world.group, topics=topics))
        batches = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in one.state_batches]
        return one.state_epoch, one.start_offset, batches

    with RawClient(world.servers) as client:
        begin = initialize_state.PartitionData(partition=0, state_epoch=3, start_offset=5)
        topics = [initialize_state.InitializeStateData(topic_id=topic_id, partitions=[begin])]
        initialize = initialize_state.InitializeShareGroupStateRequest(group_id=world.group, topics=topics)

        def is_initialized() -> bool:
            """Find the coordinator, for which the internal topic is created, and begin the state."""
            client.request(FindCoordinatorRequest(key_type=2, coordinator_keys=[f"{world.group}:{found}:0"]))
            return bool(client.request(initialize).results[0].partitions[0].error_code == 0)

        wait_until(is_initialized, 30, "a share coordinator")
        assert read() == (3, 5, [])
        batch = write_state.StateBatch(first_offset=5, last_offset=7, delivery_state=0, delivery_count=2)
        change = write_state.PartitionData(
            partition=0, state_epoch=3, leader_epoch=0, start_offset=5, delivery_complete_count=0, state_batches=[batch]
        )
        written = [write_state.WriteStateData(topic_id=topic_id, partitions=[change])]
        only(write_state.WriteShareGroupStateRequest(group_id=world.group, topics=written))
        assert read() == (3, 5, [(5, 7, 0, 2)])
        asked = [read_summary.ReadStateSummaryData(topic_id, [read_summary.PartitionData(0, 0)])]
        one = only(read_summary.ReadShareGroupStateSummaryRequest(group_id=world.group, topics=asked))
        assert (one.state_epoch, one.leader_epoch, one.start_offset, one.delivery_complete_count) == (3, 0, 5, 0)
        gone = [delete_state.DeleteStateData(topic_id, [delete_state.PartitionData(0)])]
        only(delete_state.DeleteShareGroupStateRequest(group_id=world.group, topics=gone))


def test_a_deleted_group_begins_anew(world: ShareWorld, admin: KafkaAdminClient) -> None:
    topic = world.topic()
    world.send(topic, [b"1", b"2"])
    assert read_all(world, topic, 2) == [0, 1]
    wait_until(lambda: not admin.describe_groups([world.group])[world.group].members, 60, "the member has left")
    assert admin.delete_groups([world.group]) == {world.group: None}
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_groups([world.group])
    assert read_all(world, topic, 2) == [0, 1]


def test_ids_of_share_groups_are_refused_to_others(world: ShareWorld, admin: KafkaAdminClient) -> None:
    topic = world.topic()
    world.send(topic, [b"1"])
    assert read_all(world, topic, 1) == [0]
    with pytest.raises(KafkaError):
        admin.alter_group_offsets(world.group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
    for protocol in ("classic", "consumer"):
        other = KafkaConsumer(topic, bootstrap_servers=world.servers, group_id=world.group, group_protocol=protocol)
        with other, pytest.raises(KafkaError):
            poll_for(other, 20)
    classic = f"{world.group}-classic"
    admin.alter_group_offsets(classic, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
    with pytest.raises(GroupIdNotFoundError):
        admin.alter_share_group_offsets(classic, {TopicPartition(topic, 0): 0})


def test_the_command_shows_and_resets_a_share_group(
    world: ShareWorld, admin: KafkaAdminClient, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(5)])
    assert read_all(world, topic, 5) == list(range(5))

    def command(*arguments: str) -> str:
        status = _run((*arguments, "--bootstrap-server", world.servers))
        out, err = capfd.readouterr()
        assert status == 0, err
        return out

    assert world.group in command("groups", "list", "--type", "share")
    wait_until(lambda: not admin.describe_groups([world.group])[world.group].members, 60, "the member has left")
    described = json.loads(command("groups", "describe", world.group, "--json"))
    assert (described["type"], described["state"]) == ("share", "Empty")
    (row,) = described["partitions"]
    assert (row["end"], row["lag"]) == (5, 0)
    assert "type share" in command("groups", "describe", world.group)
    command("groups", "reset-offsets", world.group, "--topic", topic, "--to-offset", "3", "--execute")
    assert admin.list_share_group_offsets(world.group)[TopicPartition(topic, 0)].start_offset == 3
    command("groups", "delete", world.group)
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_groups([world.group])


def test_confluents_share_consumer_accepts_releases_and_rejects(world: ShareWorld, admin: KafkaAdminClient) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    if not hasattr(confluent_kafka, "ShareConsumer"):
        pytest.skip("this confluent-kafka has no share consumer")
    kinds = confluent_kafka.AcknowledgeType
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(40)])
    settings = {
        "bootstrap.servers": world.servers,
        "group.id": world.group,
        "share.acknowledgement.mode": "explicit",
    }
    consumer = confluent_kafka.ShareConsumer(settings)
    consumer.subscribe([topic])
    deliveries: dict[int, int] = {}
    answers: list[object] = []

    def has_all() -> bool:
        for message in consumer.poll(timeout=0.5):
            assert message.error() is None
            assert message.value() == b"%d" % message.offset()
            times = deliveries[message.offset()] = deliveries.get(message.offset(), 0) + 1
            kind = (kinds.ACCEPT, kinds.RELEASE, kinds.REJECT, kinds.ACCEPT)[message.offset() % 4]
            consumer.acknowledge(message, kinds.ACCEPT if times == 2 else kind)
        answers.extend(consumer.commit_sync(timeout=10.0).values())
        return sum(deliveries.values()) == 50

    wait_until(has_all, 30, "all records, and the released ones twice")
    consumer.close()
    assert answers
    assert set(answers) == {None}
    assert deliveries == {offset: 2 if offset % 4 == 1 else 1 for offset in range(40)}
    wait_until(lambda: not admin.describe_groups([world.group])[world.group].members, 10, "the member has left")
    found = admin.list_share_group_offsets(world.group)[TopicPartition(topic, 0)]
    assert found.lag == 0
    world.send(topic, [b"one more"])
    assert read_all(world, topic, 1) == [40]  # nothing of what was accepted or rejected


@pytest.mark.kafka
def test_kafkas_command_for_share_groups_works(world: ShareWorld, kafka_tools: KafkaTools) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(5)])
    assert read_all(world, topic, 5) == list(range(5))

    def tool(*arguments: str) -> str:
        done = kafka_tools.run("ShareGroupCommand", "--bootstrap-server", world.servers, *arguments)
        return re.sub(r" +", " ", done.stdout)

    assert world.group in tool("--list")
    assert f"{world.group} {topic} 0" in tool("--describe", "--group", world.group)
    reset = ("--reset-offsets", "--group", world.group, "--topic", topic, "--to-earliest", "--execute")
    assert f"{topic} 0 0" in tool(*reset)
    tool("--delete-offsets", "--group", world.group, "--topic", topic)
    assert world.group in tool("--delete", "--group", world.group)
    assert world.group not in tool("--list")


@pytest.mark.kafka
def test_kafkas_verifiable_share_consumer_and_its_speed_test_read(world: ShareWorld, kafka_tools: KafkaTools) -> None:
    topic = world.topic(2)
    for partition in range(2):
        world.send(topic, [b"%d" % number for number in range(500)], partition=partition)
    servers = ("--bootstrap-server", world.servers)
    done = kafka_tools.run(
        "VerifiableShareConsumer",
        *(*servers, "--topic", topic, "--group-id", world.group, "--max-messages", "1000"),
        *("--offset-reset-strategy", "earliest", "--acknowledgement-mode", "sync"),
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert acknowledged
    assert all(event["success"] for event in acknowledged)
    other = ShareWorld(world.cluster, "blocking")
    other.set_group(share_auto_offset_reset="earliest")
    speed = kafka_tools.run(
        "ShareConsumerPerformance",
        *(*servers, "--topic", topic, "--group", other.group, "--num-records", "1000", "--timeout", "20000"),
    )
    assert re.search(r", 1000, ", speed.stdout), speed.stdout


@pytest.mark.kafka
def test_kafkas_tool_reads_the_state_that_is_stored(
    certificates: Certificates, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    cluster = start_cluster("embedded", certificates, config=SHARE_CONFIG, data_dir=tmp_path)
    world = ShareWorld(cluster, "blocking")
    world.set_group(share_auto_offset_reset="earliest")
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(5)])
    assert read_all(world, topic, 5) == list(range(5))
    world.close()
    cluster.stop()
    files = [path for path in tmp_path.rglob("__share_group_state-*/*.log") if path.stat().st_size]
    (file,) = files
    dump = kafka_tools.run("DumpLogSegments", "--share-group-state-decoder", "--files", str(file)).stdout
    assert f'"groupId":"{world.group}"' in dump
    assert '"stateBatches":[{"firstOffset":0,"lastOffset":4,"deliveryState":2,"deliveryCount":1}]' in dump
    assert "CorruptRecord" not in dump
    (offsets,) = [path for path in tmp_path.rglob("__consumer_offsets-*/*.log") if path.stat().st_size]
    dump = kafka_tools.run("DumpLogSegments", "--offsets-decoder", "--files", str(offsets)).stdout
    assert '"subscribedTopicNames":["' + topic in dump
    assert '"initializedTopics":[{"topicId"' in dump
