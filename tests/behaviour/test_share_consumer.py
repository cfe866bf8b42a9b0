"""Share consumers, against the embedded broker and Apache Kafka."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import AcknowledgeType, KafkaConsumer, KafkaProducer, KafkaShareConsumer, TopicPartition
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.errors import (
    GroupIdNotFoundError,
    IllegalStateError,
    InvalidRecordStateError,
    KafkaError,
    NonEmptyGroupError,
    RecordDeserializationError,
    UnsupportedVersionError,
    WakeupError,
)
from pyconsumer.protocol.api_keys import ApiKey
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.java import KafkaTools
from tests.support.process import GuardedProcess, run, wait_until
from tests.support.proxy import KafkaProxy
from tests.support.share_groups import SHARE_CONFIG, ShareWorld, take

pytestmark = pytest.mark.concurrent

_ROOT = Path(__file__).parents[2]
_RENEWAL = Path(__file__).with_name("RefusedRenewal.java")


@pytest.fixture
def single(sharing: Cluster, certificates: Certificates) -> Iterator[Cluster]:
    """A broker of the same kind for one test, which may kill it."""
    cluster = start_cluster(sharing.kind, certificates, config=SHARE_CONFIG)
    yield cluster
    cluster.stop()


@pytest.fixture(params=["blocking", "asyncio"])
def world(sharing: Cluster, request: pytest.FixtureRequest) -> Iterator[ShareWorld]:
    world = ShareWorld(sharing, request.param)
    world.set_group(share_auto_offset_reset="earliest")
    yield world
    world.close()


def offsets(records: list[Any]) -> list[int]:
    return sorted(record.offset for record in records)


def test_the_next_poll_accepts_the_records_of_the_poll_before(world: ShareWorld) -> None:
    topic = world.topic(2)
    world.send(topic, [b"a%d" % number for number in range(700)])
    world.send(topic, [b"b%d" % number for number in range(300)], partition=1)
    consumer = world.consumer(topic)
    found = take(consumer, 1000)
    assert sorted(record.value for record in found) == sorted(
        [b"a%d" % number for number in range(700)] + [b"b%d" % number for number in range(300)]
    )
    assert set(consumer.commit().values()) == {None}
    assert consumer.poll(timeout_ms=400).is_empty
    consumer.close()
    assert world.consumer(topic).poll(timeout_ms=1500).is_empty


def test_records_that_no_poll_has_accepted_are_released_by_close(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(30)])
    first = world.consumer(topic, max_poll_records=10, share_acquire_mode="record_limit")
    assert offsets(take(first, 10)) == list(range(10))
    assert offsets(take(first, 10)) == list(range(10, 20))  # accepts the ones before
    began = time.monotonic()
    first.close()
    assert time.monotonic() - began < 20, "not the 30 s of a close that gets no answer"
    second = world.consumer(topic)
    again = take(second, 20)
    assert offsets(again) == list(range(10, 30))
    assert {second.delivery_count(record) for record in again if record.offset < 20} == {2}


def test_a_commit_has_a_result_for_each_partition(world: ShareWorld) -> None:
    topic = world.topic(2)
    world.send(topic, [b"a"] * 5)
    world.send(topic, [b"b"] * 5, partition=1)
    consumer = world.consumer(topic)
    results: dict[TopicPartition, KafkaError | None] = {}
    seen = 0
    while seen < 10:
        seen += consumer.poll(timeout_ms=500).count()
        results |= consumer.commit()
    assert results == {TopicPartition(topic, 0): None, TopicPartition(topic, 1): None}
    assert consumer.commit() == {}


def test_records_come_as_columns_and_rows_are_acknowledged_by_a_type_or_a_mask(world: ShareWorld) -> None:
    pytest.importorskip("pyarrow")
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(6)], linger_ms=5000)  # one batch, so one poll
    consumer = world.consumer(topic, share_acknowledgement_mode="explicit", value_deserializer=int)
    batch = consumer.poll_arrow(timeout_ms=20_000)
    assert batch.column("value").to_pylist() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert batch.column("delivery_count").to_pylist() == [1] * 6
    with pytest.raises(ValueError, match="5 values for 6 rows"):
        consumer.acknowledge(batch, [True] * 5)
    consumer.acknowledge(batch, [True, False, None, None, None, AcknowledgeType.REJECT])
    with pytest.raises(IllegalStateError, match="offset 2"):
        consumer.poll_arrow()
    consumer.acknowledge(batch.slice(2, 2))
    consumer.acknowledge(batch.slice(4, 1), AcknowledgeType.RELEASE)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    with pytest.raises(IllegalStateError, match="was sent already"):
        consumer.acknowledge(batch)
    names = ["delivery_count", "topic", "partition", "offset"]
    again = consumer.poll_arrow(timeout_ms=20_000, columns=names)
    assert again.schema.names == names
    assert again.to_pydict() == {"delivery_count": [2, 2], "topic": [topic] * 2, "partition": [0, 0], "offset": [1, 4]}
    consumer.acknowledge(again, AcknowledgeType.RENEW)
    renewed = consumer.poll_arrow(timeout_ms=20_000)
    assert renewed.column("value").to_pylist() == [b"1", b"4"]
    consumer.acknowledge(renewed)
    assert set(consumer.commit().values()) == {None}
    assert len(consumer.poll_arrow(timeout_ms=300)) == 0


def test_each_type_of_acknowledgement_has_its_effect(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(6)])
    consumer = world.consumer(topic, share_acknowledgement_mode="explicit")
    records = take(consumer, 6)
    assert consumer.acquisition_lock_timeout_ms() == 15_000
    with pytest.raises(IllegalStateError, match="offset 0"):
        consumer.poll()
    consumer.acknowledge(records[0])
    consumer.acknowledge(records[1], AcknowledgeType.RELEASE)
    consumer.acknowledge((topic, 0, 2), AcknowledgeType.REJECT)
    consumer.acknowledge(records[3], AcknowledgeType.ACCEPT)
    consumer.acknowledge(records[3], AcknowledgeType.RELEASE)  # replaces the one before
    consumer.acknowledge(records[4])
    with pytest.raises(IllegalStateError, match="offset 5"):
        consumer.poll()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    with pytest.raises(IllegalStateError, match="offset 5"):  # still acquired
        consumer.poll()
    with pytest.raises(IllegalStateError, match="offset 0"):
        consumer.acknowledge(records[0])  # was sent
    consumer.acknowledge(records[5])
    again = take(consumer, 2)
    assert offsets(again) == [1, 3]
    assert [consumer.delivery_count(record) for record in again] == [2, 2]
    for record in again:
        consumer.acknowledge(record)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert consumer.poll(timeout_ms=500).is_empty


def test_a_renewed_record_comes_again_alone(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(4)])
    consumer = world.consumer(topic, share_acknowledgement_mode="explicit")
    records = take(consumer, 4)
    world.send(topic, [b"new"])
    for record in records:
        consumer.acknowledge(record, AcknowledgeType.RENEW if record.offset == 2 else AcknowledgeType.ACCEPT)
    (renewed,) = consumer.poll(timeout_ms=3000).records()
    assert (renewed.offset, renewed.value) == (2, b"2")
    assert consumer.delivery_count(renewed) == 1
    consumer.acknowledge(renewed)
    (new,) = take(consumer, 1)
    assert new.value == b"new"
    consumer.acknowledge(new)
    assert consumer.commit() == {TopicPartition(topic, 0): None}


def after_a_refused_renewal(consumer: Any, pause_s: float) -> list[str]:
    """Do what ``RefusedRenewal.java`` does, and return the same lines."""

    def commit() -> str:
        (error,) = consumer.commit().values()
        return "taken" if error is None else "refused"

    (record,) = take(consumer, 1)
    count = consumer.delivery_count(record)
    until = time.monotonic() + pause_s
    wait_until(lambda: time.monotonic() >= until, 60, "the pause is over")
    consumer.acknowledge(record, AcknowledgeType.RENEW)
    found = [f"renewal {commit()}, delivery {count}"]
    try:
        consumer.acknowledge(record)
        found.append("acknowledged")
    except IllegalStateError:
        found.append("cannot be acknowledged")
    (again,) = take(consumer, 1, within_s=30)
    count = consumer.delivery_count(again)
    consumer.acknowledge(again)
    return [*found, f"acceptance {commit()}, delivery {count}"]


def java_after_a_refused_renewal(
    world: ShareWorld, kafka_tools: KafkaTools, topic: str, pause_s: float, settings: dict[str, str]
) -> list[str]:
    """Return the lines of ``RefusedRenewal.java``, in a run in which Java's consumer fetches nothing ahead.

    On a busy machine its application thread may ask for a fetch just after the response with the record came. The
    background thread then fetches until records come. So it acquires the same record again as soon as the lock has
    ended, and the broker takes a renewal of the first delivery for one of the second.
    """
    for _ in range(10):
        other = ShareWorld(world.cluster, world.face)
        other.set_group(**settings)
        arguments = (world.servers, topic, other.group, str(int(pause_s * 1000)))
        lines = kafka_tools.run_source(_RENEWAL, *arguments).stdout.splitlines()
        if lines[0] != "renewal taken, delivery 1":
            return lines
    raise AssertionError("the renewals of all runs were taken")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("cause", ["the lock has expired", "the group renews no locks"])
def test_a_record_whose_renewal_is_refused_comes_by_its_next_delivery_alone_as_in_java(
    world: ShareWorld, kafka_tools: KafkaTools, cause: str
) -> None:
    pause_s = 2.5 if cause == "the lock has expired" else 0.0
    settings = {"share_record_lock_duration_ms": "1500" if pause_s else "3000", "share_auto_offset_reset": "earliest"}
    settings["share_renew_acknowledge_enable"] = "true" if pause_s else "false"
    topic = world.topic()
    world.send(topic, [b"0"])
    world.set_group(**settings)
    consumer = world.consumer(topic, share_acknowledgement_mode="explicit")
    ours = after_a_refused_renewal(consumer, pause_s)
    assert ours == ["renewal refused, delivery 1", "cannot be acknowledged", "acceptance taken, delivery 2"]
    if world.face == "blocking":  # Java's has one face
        assert java_after_a_refused_renewal(world, kafka_tools, topic, pause_s, settings) == ours


def test_a_lock_that_expired_fails_alone_and_its_record_comes_again(world: ShareWorld) -> None:
    world.set_group(share_record_lock_duration_ms="1500")
    topic = world.topic()
    world.send(topic, [b"0"])
    consumer = world.consumer(topic, share_acknowledgement_mode="explicit")
    failed: list[tuple[Any, Any]] = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: failed.append((offsets, error)))
    (record,) = take(consumer, 1)
    expired = time.monotonic() + 2.5
    wait_until(lambda: time.monotonic() > expired, 60, "the lock has expired")
    consumer.acknowledge(record)
    (error,) = consumer.commit().values()
    assert isinstance(error, InvalidRecordStateError)
    assert [offsets for offsets, _ in failed] == [{TopicPartition(topic, 0): {0}}]
    assert isinstance(failed[0][1], InvalidRecordStateError)
    (again,) = take(consumer, 1)
    assert consumer.delivery_count(again) == 2
    consumer.acknowledge(again)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert failed[-1] == ({TopicPartition(topic, 0): {0}}, None)
    table = {metric.name: metric.value for metric in consumer.metric_table()}
    assert table["acknowledgements-error-total"] == 1
    assert table["acknowledgements-send-total"] == 1
    assert table["records-consumed-total"] == 2


def test_members_share_a_partition_and_the_records_of_a_killed_one_come_again(world: ShareWorld) -> None:
    world.set_group(share_record_lock_duration_ms="2000")
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(100)])
    program = (
        "import sys, time; from pyconsumer import KafkaShareConsumer\n"
        f"c = KafkaShareConsumer({topic!r}, bootstrap_servers={world.servers!r}, group_id={world.group!r},"
        " max_poll_records=40, share_acquire_mode='record_limit')\n"
        "found = []\n"
        "while not found: found = list(c.poll(500).records())\n"
        "print(len(found), flush=True); time.sleep(600)\n"
    )
    with GuardedProcess([sys.executable, "-c", program]) as member:
        wait_until(lambda: member.stdout.strip(), 30, "the member has records")
        held = int(member.stdout)
        assert held == 40
        consumer = world.consumer(topic, max_poll_records=1000)
        mine = take(consumer, 60)
        assert offsets(mine) == list(range(40, 100))  # none of the other's
        member.signal(signal.SIGKILL)
        again = take(consumer, held)
        assert offsets(again) == list(range(40))
        assert {consumer.delivery_count(record) for record in again} == {2}


def test_neither_control_records_nor_aborted_ones_are_seen(world: ShareWorld) -> None:
    world.set_group(share_isolation_level="read_committed")
    topic = world.topic()
    with KafkaProducer(bootstrap_servers=world.servers, transactional_id=world.group) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(topic, b"%d" % number, partition=0)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    consumer = world.consumer(topic, share_acknowledgement_mode="explicit")
    records = take(consumer, 9)
    assert [record.value for record in records] == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
    for record in records:
        consumer.acknowledge(record)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    world.send(topic, [b"end"])
    (end,) = take(consumer, 1)  # the gaps were acknowledged: nothing comes again
    assert end.value == b"end"
    consumer.acknowledge(end)


def test_commit_async_accepts_the_records_and_tells_the_callback(world: ShareWorld) -> None:
    """Without it, ``close`` would release the records of the last poll."""
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(6)])
    consumer = world.consumer(topic)
    told: list[tuple[Any, Any]] = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
    take(consumer, 6)
    consumer.commit_async()
    consumer.close()
    assert {error for _, error in told} == {None}
    assert sorted(offset for each, _ in told for offset in each[TopicPartition(topic, 0)]) == list(range(6))
    world.send(topic, [b"end"])
    assert [record.value for record in take(world.consumer(topic), 1)] == [b"end"]


def test_records_of_partitions_that_a_topic_gets_later_come(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"0"])
    consumer = world.consumer(topic, metadata_max_age_ms=500)
    assert [record.value for record in take(consumer, 1)] == [b"0"]
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        admin.create_partitions({topic: 3})
    for partition in (1, 2):
        world.send(topic, [b"%d" % partition], partition=partition, metadata_max_age_ms=200)
    assert sorted(record.value for record in take(consumer, 2)) == [b"1", b"2"]
    assert set(consumer.commit().values()) == {None}


def test_record_limit_acquires_no_more_than_a_poll_returns(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(100)])
    first = world.consumer(topic, share_acquire_mode="record_limit", max_poll_records=7)
    assert len(take(first, 7)) == 7
    second = world.consumer(topic, share_acquire_mode="record_limit", max_poll_records=100)
    assert offsets(take(second, 93)) == list(range(7, 100))


def test_a_poll_returns_whole_batches_unless_it_names_a_number(world: ShareWorld) -> None:
    topic = world.topic()
    for _ in range(3):
        world.send(topic, [b"%d" % number for number in range(30)], linger_ms=5000)
    consumer = world.consumer(topic, max_poll_records=40)
    assert offsets(consumer.poll(timeout_ms=20_000).records()) == list(range(60))  # as Java's: the batch that has 40
    assert offsets(consumer.poll(timeout_ms=20_000, max_records=7).records()) == list(range(60, 67))
    assert offsets(consumer.poll().records()) == list(range(67, 90))  # under the same lock
    assert set(consumer.commit().values()) == {None}


def test_large_records_come_after_small_ones(world: ShareWorld) -> None:
    topic = world.topic(2)
    for partition in range(2):
        for _ in range(3):
            world.send(topic, [b"s"] * 20, partition=partition, linger_ms=5000)
        world.send(topic, [b"L" * 400_000] * 2, partition=partition, linger_ms=5000)  # more than a fetch asks for then
        world.send(topic, [b"e"], partition=partition)
    consumer = world.consumer(topic, max_poll_records=20, fetch_max_wait_ms=10_000)
    began = time.monotonic()
    found = take(consumer, 126)
    assert time.monotonic() - began < 10, "no fetch waits for more bytes than it has asked for"
    assert sorted(record.value[:1] for record in found) == [b"L"] * 4 + [b"e"] * 2 + [b"s"] * 120
    assert set(consumer.commit().values()) == {None}


def test_iteration_accepts_record_by_record(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(10)])
    consumer = world.consumer(topic)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 3:
            assert consumer.commit() == {TopicPartition(topic, 0): None}  # 0 to 3
        if record.offset == 6:
            break
    consumer.close()  # 4 and 5 are accepted, 6 and the rest released
    assert seen == list(range(7))
    assert offsets(take(world.consumer(topic), 4)) == [6, 7, 8, 9]


def test_a_record_that_cannot_be_read_is_released_or_rejected(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"1", b"x", b"3"])
    strict = world.consumer(topic, value_deserializer=int)
    assert [record.value for record in take(strict, 1)] == [1]
    with pytest.raises(RecordDeserializationError, match="released"):
        take(strict, 1)
    assert [record.value for record in take(strict, 1)] == [3]
    strict.commit()
    strict.close()
    skipping = world.consumer(topic, value_deserializer=int, on_record_error="skip")
    assert skipping.poll(timeout_ms=1500).is_empty
    skipping.close()
    assert world.consumer(topic).poll(timeout_ms=1500).is_empty  # it was rejected


def test_a_wakeup_keeps_the_records(world: ShareWorld) -> None:
    topic = world.topic()
    consumer = world.consumer(topic)
    assert consumer.poll(timeout_ms=1000).is_empty
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=10_000)
    timer.join()
    world.send(topic, [b"1", b"2"])
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=10_000)
    assert len(take(consumer, 2)) == 2
    assert [consumer.delivery_count((topic, 0, offset)) for offset in (0, 1)][-1] == 1


def test_a_topic_that_is_created_again_is_read_from_its_beginning(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"old"])
    consumer = world.consumer(topic, allow_auto_create_topics=False)  # else it creates the topic again
    assert take(consumer, 1)[0].value == b"old"
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), 60, "the topic is gone")
    consumer.poll(timeout_ms=500)
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    world.send(topic, [b"new"])
    assert take(consumer, 1)[0].value == b"new"


def test_a_group_that_is_deleted_while_its_member_is_cut_off_begins_anew(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"0", b"1"], linger_ms=5000)  # one batch, so one poll
    tp = TopicPartition(topic, 0)
    told: list[tuple[Any, Any]] = []
    with KafkaProxy(world.servers) as proxy, KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        settings = {"bootstrap_servers": proxy.bootstrap_servers, "share_acknowledgement_mode": "explicit"}
        with closing(world.consumer(topic, **settings)) as consumer:
            consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
            first, second = take(consumer, 2)
            consumer.acknowledge(first)
            assert consumer.commit() == {tp: None}
            with pytest.raises(NonEmptyGroupError):
                admin.delete_groups([world.group])
            proxy.refuse()
            proxy.cut_all()

            def is_deleted() -> bool:
                try:
                    return admin.delete_groups([world.group]) == {world.group: None}
                except NonEmptyGroupError:
                    return False  # its session lasts 2 s

            wait_until(is_deleted, 60, "the member's session has ended")
            proxy.accept()
            consumer.acknowledge(second)
            (error,) = consumer.commit().values()
            assert isinstance(error, KafkaError)
            again = take(consumer, 2, within_s=40)
            assert [(record.offset, consumer.delivery_count(record)) for record in again] == [(0, 1), (1, 1)]
            for record in again:
                consumer.acknowledge(record)
            assert consumer.commit() == {tp: None}
            assert [set(offsets[tp]) for offsets, _ in told] == [{0}, {1}, {0, 1}]
            assert [each is None for _, each in told] == [True, False, True]
            assert told[1][1] is error
            assert admin.describe_groups([world.group])[world.group].state == "Stable"
            table = {metric.name: metric.value for metric in consumer.metric_table()}
            assert table["acknowledgements-error-total"] == 1
            assert table["acknowledgements-send-total"] == 3


def test_records_of_a_topic_that_is_deleted_are_refused_and_those_of_the_new_one_come(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"old"])
    told: list[tuple[Any, Any]] = []
    settings = {"share_acknowledgement_mode": "explicit", "allow_auto_create_topics": False}
    consumer = world.consumer(topic, **settings)
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
    (old,) = take(consumer, 1)
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), 60, "the topic is gone")
        admin.create_topics([NewTopic(topic, 1, 1)])
    consumer.acknowledge(old)
    (error,) = consumer.commit().values()
    assert isinstance(error, KafkaError)
    assert told == [({TopicPartition(topic, 0): {0}}, error)]
    world.send(topic, [b"new"])
    (new,) = take(consumer, 1, within_s=40)
    assert (new.value, consumer.delivery_count(new)) == (b"new", 1)
    consumer.acknowledge(new)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    table = {metric.name: metric.value for metric in consumer.metric_table()}
    assert (table["acknowledgements-error-total"], table["acknowledgements-send-total"]) == (1, 1)


def test_a_group_of_another_type_is_refused(world: ShareWorld) -> None:
    topic = world.topic()
    with KafkaConsumer(topic, bootstrap_servers=world.servers, group_id=world.group) as member:
        wait_until(lambda: member.poll(200) is not None and member.assignment(), 20, "the member has joined")
        consumer = world.consumer(topic)
        with pytest.raises(GroupIdNotFoundError, match="group of another type"):
            take(consumer, 1)
        with pytest.raises(GroupIdNotFoundError):  # again
            consumer.poll()


def test_close_ends_in_time_with_a_dead_broker(world: ShareWorld, single: Cluster) -> None:
    other = ShareWorld(single, world.face)
    other.set_group(share_auto_offset_reset="earliest")
    topic = other.topic()
    other.send(topic, [b"1"])
    consumer = other.consumer(topic)
    take(consumer, 1)
    single.kill()
    began = time.monotonic()
    (error,) = consumer.commit(timeout_ms=700).values()
    assert error is not None
    assert time.monotonic() - began < 15
    began = time.monotonic()
    consumer.close(timeout_ms=1000)
    assert time.monotonic() - began < 15


def test_a_lost_connection_costs_no_record(world: ShareWorld, single: Cluster) -> None:
    other = ShareWorld(single, world.face)
    other.set_group(share_auto_offset_reset="earliest")
    topic = other.topic()
    other.send(topic, [b"%d" % number for number in range(10)])
    consumer = other.consumer(
        topic, share_acknowledgement_mode="explicit", share_acquire_mode="record_limit", max_poll_records=5
    )
    first = take(consumer, 5)
    for record in first:
        consumer.acknowledge(record)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    rest = take(consumer, 5)
    single.kill()
    single.restart()
    for record in rest:
        consumer.acknowledge(record)
    (error,) = consumer.commit(timeout_ms=20_000).values()
    assert error is not None
    again = take(consumer, 5, within_s=40)
    assert offsets(again) == [5, 6, 7, 8, 9]
    for record in again:
        consumer.acknowledge(record)
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    other.close()


@pytest.mark.parametrize("kind", ["embedded", pytest.param("apache", marks=pytest.mark.kafka)])
def test_a_broker_without_the_feature_says_how_to_enable_it(kind: str, certificates: Certificates) -> None:
    cluster = start_cluster(kind, certificates, features={"share.version": 0} if kind == "embedded" else None)
    if kind == "apache":
        arguments = ("downgrade", "--feature", "share.version=0")
        cluster.server.tools.run("FeatureCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    consumer: KafkaShareConsumer[bytes, bytes] = KafkaShareConsumer(
        "t", bootstrap_servers=cluster.bootstrap_servers, group_id="g"
    )
    with consumer, pytest.raises(UnsupportedVersionError, match=r"share\.version"):
        take(consumer, 1)
    cluster.stop()


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
@pytest.mark.parametrize("missing", ["all", "early", "fetch", "acknowledge"])
def test_a_broker_with_early_versions_of_share_groups_or_none_is_refused(
    sharing: Cluster, face: str, missing: str
) -> None:
    early = {ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
    if missing in ("fetch", "acknowledge"):
        early = {ApiKey.SHARE_FETCH if missing == "fetch" else ApiKey.SHARE_ACKNOWLEDGE}

    def make_older(message: Any) -> None:
        if missing == "all":
            message.api_keys = [each for each in message.api_keys if each.api_key not in early]
        for each in message.api_keys:
            if each.api_key in early:  # Apache Kafka 4.0 has version 0 alone, whose messages differ
                each.min_version = each.max_version = 0

    with KafkaProxy(sharing.bootstrap_servers) as proxy:
        proxy.edit(ApiKey.API_VERSIONS, make_older)
        world = ShareWorld(sharing, face)
        world.set_group(share_auto_offset_reset="earliest")
        topic = world.topic()
        world.send(topic, [b"a"])
        with closing(world.consumer(topic, bootstrap_servers=proxy.bootstrap_servers)) as consumer:
            told: list[Any] = []
            consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append(error))
            began = time.monotonic()
            if missing == "acknowledge":
                assert offsets(take(consumer, 1)) == [0]
                ((place, error),) = consumer.commit().items()
                assert place == TopicPartition(topic, 0)
                assert told == [error]
            else:
                with pytest.raises(UnsupportedVersionError) as caught:
                    take(consumer, 1)
                error = caught.value
            assert time.monotonic() - began < 15, "nothing is tried again"
            assert isinstance(error, UnsupportedVersionError)
            assert "need Apache Kafka 4.2 or newer" in str(error)
            assert "kafka-features.sh upgrade --feature share.version=1" in str(error)


def test_a_broker_that_does_not_renew_locks_says_so(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"a"])
    with KafkaProxy(world.servers) as proxy:
        proxy.limit_versions({ApiKey.SHARE_FETCH: 1, ApiKey.SHARE_ACKNOWLEDGE: 1})  # Apache Kafka 4.1
        settings = {"bootstrap_servers": proxy.bootstrap_servers, "share_acknowledgement_mode": "explicit"}
        with closing(world.consumer(topic, **settings)) as consumer:
            (record,) = take(consumer, 1)
            consumer.acknowledge(record, AcknowledgeType.RENEW)
            (error,) = consumer.commit().values()
            assert isinstance(error, UnsupportedVersionError)
            assert "the broker does not renew locks (KIP-1222, Apache Kafka 4.2)" in str(error)
            with pytest.raises(UnsupportedVersionError, match="does not renew"):
                consumer.poll(timeout_ms=0)


def test_the_examples_of_the_page_about_work_run(sharing: Cluster, tmp_path: Path) -> None:
    page = (_ROOT / "docs/work.md").read_text("utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    text = "\n".join(blocks)  # the second one has the names and the group of the first one
    program = tmp_path / "page.py"
    program.write_text(text.replace("localhost:9092", sharing.bootstrap_servers), "utf-8")
    lines = run([sys.executable, "-W", "error", str(program)], timeout_s=90, cwd=_ROOT).check().stdout.splitlines()
    assert sorted(lines[:-2]) == [f"task {number} in delivery {2 if number == 3 else 1}" for number in range(5)]
    assert lines[-2:] == ["[None]", "40 finished, 1 dead"]
    assert f"It prints `{lines[-1]}`." in page


@pytest.mark.kafka
def test_javas_share_consumer_gets_the_rest(world: ShareWorld, kafka_tools: KafkaTools) -> None:
    topic = world.topic()
    world.send(topic, [b"%d" % number for number in range(60)])
    mine = world.consumer(topic, max_poll_records=20, share_acquire_mode="record_limit")
    assert offsets(take(mine, 20)) == list(range(20))
    done = kafka_tools.run(
        "ConsoleShareConsumer",
        *("--bootstrap-server", world.servers, "--topic", topic, "--group", world.group),
        *("--max-messages", "40", "--timeout-ms", "20000"),
    )
    assert sorted(map(int, done.stdout.split())) == list(range(20, 60))
    assert mine.commit() == {TopicPartition(topic, 0): None}
    assert mine.poll(timeout_ms=1500).is_empty
