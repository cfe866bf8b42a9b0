"""A consumer without a group, partitions assigned by hand, against both brokers."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from pyconsumer import KafkaConsumer, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from pyconsumer.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    NoOffsetForPartitionError,
    OffsetsOutOfRangeError,
    RecordDeserializationError,
)
from pyconsumer.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.behaviour.consumer_support import append, consuming, fill, offsets, read, values
from tests.support.cluster import Cluster

pytestmark = pytest.mark.faces


@pytest.mark.smoke
def test_every_record_of_the_assigned_partitions_comes_once_and_in_order(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3)
    for partition in range(3):
        fill(cluster, topic, 700, partition=partition)

    with consuming(cluster, *(TopicPartition(topic, n) for n in range(3))) as consumer:
        records = read(consumer, 2100)

    for partition in range(3):
        mine = [r for r in records if r.partition == partition]
        assert offsets(mine) == values(mine) == list(range(700))
    assert {r.topic for r in records} == {topic}
    assert all(r.timestamp > 1_600_000_000_000 and r.timestamp_type == 0 for r in records)
    assert (records[0].key, records[1].key, records[1].serialized_key_size) == (b"k0", None, -1)


def test_poll_needs_something_to_read(cluster: Cluster) -> None:
    with consuming(cluster) as consumer:
        with pytest.raises(IllegalStateError, match="subscribe"):
            consumer.poll()
        assert (consumer.assignment(), consumer.subscription(), consumer.paused()) == (set(), set(), set())


def test_poll_returns_no_record_at_its_deadline(cluster: Cluster, topic: str) -> None:
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        consumer.position(TopicPartition(topic, 0))
        started = time.monotonic()
        assert not consumer.poll(300)
        assert 0.29 <= time.monotonic() - started < 15


def test_poll_with_no_time_at_all_makes_progress(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 10)
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < 10 and time.monotonic() < deadline:
            found += offsets(consumer.poll(0).records())
    assert found == list(range(10))


def test_no_more_than_max_poll_records_come_at_once(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1200, each=1200)
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        sizes = [consumer.poll(5000).count() for _ in range(3)]
        assert sizes == [500, 500, 200]
        consumer.seek_to_beginning()
        assert len(list(consumer.poll(60_000, max_records=7).records())) == 7


def test_seek_goes_anywhere_and_back(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1000)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        assert offsets(read(consumer, 1))[0] == 0
        for target in (900, 0, 450):
            consumer.seek(tp, target)
            assert consumer.position(tp) == target
            assert offsets(read(consumer, 1))[0] == target
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(tp, -1)
        with pytest.raises(IllegalStateError, match="not assigned"):
            consumer.seek(TopicPartition(topic, 9), 0)


def test_seek_with_a_leader_epoch_is_validated_and_continues(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 100)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        epoch = read(consumer, 1)[0].leader_epoch
        assert epoch >= 0
        consumer.seek(tp, OffsetAndMetadata(60, "", epoch))
        assert offsets(read(consumer, 1))[0] == 60


def test_seek_to_the_ends(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 50)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        consumer.seek_to_end(tp)
        assert consumer.position(tp) == 50
        fill(cluster, topic, 3)
        assert offsets(read(consumer, 3)) == [50, 51, 52]
        consumer.seek_to_beginning()
        assert consumer.position(tp) == 0


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 20), ("by_duration:P1D", 10)])
def test_the_reset_policy_says_where_to_begin(cluster: Cluster, topic: str, policy: str, expected: int) -> None:
    now = int(time.time() * 1000)
    with cluster.raw() as client:
        append(client, topic, [b"old"] * 10, timestamp_ms=now - 2 * 86_400_000)
        append(client, topic, [b"new"] * 10, timestamp_ms=now - 3_600_000)
    with consuming(cluster, TopicPartition(topic, 0), auto_offset_reset=policy) as consumer:
        assert consumer.position(TopicPartition(topic, 0)) == expected


def test_without_a_reset_policy_the_application_must_seek(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 5)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, auto_offset_reset="none") as consumer:
        for _ in range(2):
            with pytest.raises(NoOffsetForPartitionError) as caught:
                consumer.poll(1000)
            assert caught.value.partitions == {tp: None}
        consumer.seek(tp, 2)
        assert offsets(read(consumer, 3)) == [2, 3, 4]


def test_a_position_that_is_out_of_range_is_reset(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 5)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        consumer.seek(tp, 1000)
        assert offsets(read(consumer, 5)) == [0, 1, 2, 3, 4]


def test_a_position_that_is_out_of_range_without_a_policy_raises(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 5)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, auto_offset_reset="none") as consumer:
        consumer.seek(tp, 1000)
        with pytest.raises(OffsetsOutOfRangeError) as caught:
            consumer.poll(60_000)
        assert caught.value.partitions == {tp: 1000}
        assert consumer.position(tp) == 1000


def test_records_deleted_below_the_position_lead_to_the_new_start(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 100, each=10)
    tp = TopicPartition(topic, 0)
    with cluster.raw() as client:
        partition = DeleteRecordsPartition(partition_index=0, offset=40)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000
        )
        assert client.request(request).topics[0].partitions[0].error_code == 0
    with consuming(cluster, tp) as consumer:
        assert consumer.beginning_offsets([tp]) == {tp: 40}
        consumer.seek(tp, 3)
        assert offsets(read(consumer, 60)) == list(range(40, 100))


def test_a_paused_partition_is_silent_and_loses_no_record(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in range(2):
        fill(cluster, topic, 2000, partition=partition)
    with consuming(cluster, first, second, max_poll_records=100) as consumer:
        records = read(consumer, 300)
        consumer.pause(first)
        assert consumer.paused() == {first}
        while len([r for r in records if r.partition == 1]) < 2000:
            found = read(consumer, 1)
            assert {r.partition for r in found} == {1}
            records += found
        assert not consumer.poll(300)
        consumer.resume(first)
        records += read(consumer, 4000 - len(records))
    for partition in range(2):
        assert offsets(r for r in records if r.partition == partition) == list(range(2000))


def test_repeated_pausing_and_resuming_of_all_loses_no_record(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1000)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, max_poll_records=50) as consumer:
        found: list[int] = []
        while len(found) < 1000:
            found += offsets(read(consumer, 1))
            consumer.pause(tp)
            assert not consumer.poll(0)
            consumer.resume(tp)
    assert found == list(range(1000))


def test_offsets_can_be_looked_up(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with cluster.raw() as client:
        append(client, topic, [b"x"] * 5, timestamp_ms=1_700_000_000_000)
        append(client, topic, [b"y"] * 5, timestamp_ms=1_700_000_001_000)
    with consuming(cluster) as consumer:
        assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert consumer.end_offsets([first, second]) == {first: 10, second: 0}
        found = consumer.offsets_for_times({first: 1_700_000_000_500, second: 1_700_000_000_500})
        assert found[first] is not None
        assert found[first] == OffsetAndTimestamp(5, 1_700_000_001_000, found[first].leader_epoch)
        assert found[second] is None
        assert consumer.partitions_for_topic(topic) == {0, 1}
        assert topic in consumer.topics()
        with pytest.raises(ValueError, match="negative"):
            consumer.offsets_for_times({first: -1})


def test_lag_is_known(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 30)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, max_poll_records=10) as consumer:
        read(consumer, 10)
        assert consumer.current_lag(tp) == 20
        assert consumer.highwater(tp) == consumer.last_stable_offset(tp) == 30
        assert consumer.known_partitions(topic) == {0}
        assert consumer.known_partitions("absent") == set()
        found = consumer.metrics()
        of_partition = found[f"consumer-fetch-manager-metrics.{topic}-0"]
        assert (of_partition["records-lag"], of_partition["records-lead"]) == (20, 10)
        assert found["consumer-fetch-manager-metrics"]["records-consumed-total"] == 10


def test_only_partitions_can_be_assigned(cluster: Cluster, topic: str) -> None:
    with consuming(cluster) as consumer:
        for wrong in (None, [None], [TopicPartition("", 0)], [TopicPartition("  ", 0)], [TopicPartition(topic, -1)]):
            with pytest.raises((TypeError, ValueError)):
                consumer.assign(wrong)  # type: ignore[arg-type]
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.assignment() == {TopicPartition(topic, 0)}


def test_an_assignment_is_replaced_and_given_up(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    one, two = make_topic(), make_topic()
    fill(cluster, one, 20)
    fill(cluster, two, 20)
    with consuming(cluster, TopicPartition(one, 0), max_poll_records=5) as consumer:
        read(consumer, 5)
        consumer.assign([TopicPartition(two, 0)])
        assert {r.topic for r in read(consumer, 20)} == {two}
        consumer.assign([])
        assert consumer.assignment() == set()
        with pytest.raises(IllegalStateError):
            consumer.poll()


def test_without_a_group_calls_of_groups_raise(cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        for call in (
            consumer.commit,
            consumer.commit_async,
            consumer.group_metadata,
            lambda: consumer.committed(tp),
            consumer.enforce_rebalance,
        ):
            with pytest.raises(InvalidGroupIdError):
                call()
        assert consumer.assignment() == {tp}


def test_partitions_assigned_by_hand_can_be_committed_for_a_group(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 20)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, group_id=group_id, max_poll_records=7, enable_auto_commit=False) as consumer:
        assert consumer.committed(tp) is None
        records = consumer.poll(60_000)
        consumer.commit(records.next_offsets())
        assert consumer.committed(tp) == 7
        consumer.commit({tp: OffsetAndMetadata(9, "note")})
        found = consumer.committed([tp], metadata=True)[tp]
        assert (found.offset, found.metadata) == (9, "note")
    with consuming(cluster, tp, group_id=group_id, enable_auto_commit=False) as again:
        assert again.position(tp) == 9
        assert offsets(read(again, 11)) == list(range(9, 20))


@pytest.mark.blocking_only("its loop is closed with it: see test_aio_consumer")
def test_a_closed_consumer_refuses_calls(cluster: Cluster, topic: str) -> None:
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        consumer.close()
        consumer.close()
        for call in (consumer.poll, consumer.assignment, lambda: consumer.subscribe([topic])):
            with pytest.raises(IllegalStateError, match="closed"):
                call()
        assert "consumer-metrics" in consumer.metrics(), "metrics are read after close, too"


# -- iteration -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_iteration_ends_after_the_consumer_timeout(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 30)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, consumer_timeout_ms=4000) as consumer:
        assert consumer.position(tp) == 0
        assert offsets(consumer) == list(range(30))
        assert consumer.position(tp) == 30


def test_a_commit_inside_the_loop_commits_the_last_record_yielded(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 30)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, group_id=group_id) as consumer:
        for record in consumer:
            if record.offset == 11:
                consumer.commit()
                assert consumer.committed(tp) == 12
                break
        assert consumer.position(tp) == 12
    with consuming(cluster, tp, group_id=group_id) as again:
        assert next(iter(again)).offset == 12


# -- deserializers ---------------------------------------------------------------------------------------------------


def refuse_thirteen(data: bytes) -> int:
    if data == b"13":
        raise ValueError("unlucky")
    return int(data)


def test_a_bad_record_is_raised_after_the_good_ones_and_can_be_skipped(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 20)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, value_deserializer=refuse_thirteen) as consumer:
        assert [r.value for r in consumer.poll(60_000).records()] == list(range(13))
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as caught:
                consumer.poll(60_000)
            assert (caught.value.topic_partition, caught.value.offset, caught.value.value) == (tp, 13, b"13")
            assert consumer.position(tp) == 13
        consumer.seek(caught.value.topic_partition, caught.value.offset + 1)
        assert [r.value for r in read(consumer, 6)] == [14, 15, 16, 17, 18, 19]


def test_bad_records_can_be_given_to_somebody(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 20)
    bad: list[RecordDeserializationError] = []
    options = {"value_deserializer": refuse_thirteen, "on_record_error": bad.append}
    with consuming(cluster, TopicPartition(topic, 0), **options) as consumer:
        assert [r.value for r in read(consumer, 19)] == [n for n in range(20) if n != 13]
    assert [(e.offset, e.value) for e in bad] == [(13, b"13")]


# -- compression -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_compressed_by_another_client_are_read(cluster: Cluster, topic: str, codec: str) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 50, "acks": "all"}
    )
    for number in range(500):
        producer.produce(topic, str(number).rjust(100).encode(), b"k", headers=[("h", b"%d" % number)], partition=0)
    assert producer.flush(20) == 0
    del producer
    gc.collect()

    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        records = read(consumer, 500)

    assert offsets(records) == values(records) == list(range(500))
    assert records[77].headers == [("h", b"77")]


@pytest.mark.kafka
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_produced_by_kafkas_own_tool_are_read(
    cluster: Cluster, topic: str, codec: str, kafka_tools: object
) -> None:
    kafka_tools.run(  # type: ignore[attr-defined]
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", f"compression.type={codec}"),
        timeout_s=60,
    )
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        records = read(consumer, 2000)
    assert offsets(records) == list(range(2000))
    assert {len(r.value) for r in records} == {100}


# -- topics that change ----------------------------------------------------------------------------------------------


def test_a_recreated_topic_is_read_from_its_start(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 40)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, metadata_max_age_ms=500, allow_auto_create_topics=False) as consumer:
        assert len(read(consumer, 40)) == 40
        cluster.delete_topic(topic)
        consumer.poll(200)
        cluster.create_topic(topic)
        fill(cluster, topic, 7)
        assert offsets(read(consumer, 7)) == list(range(7))


def test_a_topic_that_comes_later_is_read_when_it_is_there(cluster: Cluster, topic_name: str) -> None:
    tp = TopicPartition(topic_name, 0)
    with consuming(cluster, tp, allow_auto_create_topics=False) as consumer:
        assert not consumer.poll(300)
        cluster.create_topic(topic_name)
        fill(cluster, topic_name, 3)
        assert offsets(read(consumer, 3)) == [0, 1, 2]


def test_a_consumer_is_made_without_a_connection() -> None:
    started = time.monotonic()
    consumer = KafkaConsumer(bootstrap_servers="127.0.0.1:1", client_id="c")
    assert repr(consumer) == "<KafkaConsumer client_id='c' NONE>"
    consumer.close()
    assert time.monotonic() - started < 8, "the time to connect is 10 s"
    assert repr(consumer) == "<KafkaConsumer client_id='c' closed>"
