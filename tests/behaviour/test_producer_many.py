"""Many records in one call: values, keys, tables. Their places, and the outcome of those that cannot be sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError, RecordTooLargeError, TopicAuthorizationFailedError
from pyconsumer.protocol.api import ApiKey
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

COUNT = 25_000


def rows_of(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    """Keys and values of each partition, in their order."""
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {number: [] for number in range(partitions)}
    tps = [TopicPartition(topic, number) for number in range(partitions)]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            for record in consumer.poll(1000).records():
                found[record.partition].append((record.key, record.value))
    return found


@pytest.mark.smoke
def test_many_values_arrive_once_and_in_order(cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(3)
    values = [b"%d" % n for n in range(COUNT)]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        future = producer.send_many(topic, values)
        ranges = future.get(60)
        assert (len(future), future.done(), future.exception, future.failed_count) == (COUNT, True, None, 0)
        assert producer.metrics()["producer-metrics"]["record-send-total"] == COUNT
    found = rows_of(cluster, topic, 3)
    placed = [
        found[each.topic_partition.partition][each.offset + n][1] for each in ranges for n in range(each.record_count)
    ]
    assert placed == values
    assert sum(map(len, found.values())) == COUNT


def test_keys_go_where_send_sends_them(cluster: Cluster, make_topic: Any) -> None:
    one, other = make_topic(4), make_topic(4)
    keys = [f"key-{n % 50}" for n in range(1000)]
    values = [f"value-{n}" for n in range(1000)]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(one, iter(values), iter(keys)).get(60)
        for key, value in zip(keys, values, strict=True):
            producer.send(other, value, key)
    assert rows_of(cluster, one, 4) == rows_of(cluster, other, 4)


def test_serializers_and_interceptors_are_applied(cluster: Cluster, topic: str) -> None:
    class Doubles:
        def on_send(self, topic: str, key: Any, value: Any, *rest: Any) -> tuple[Any, ...]:
            return (topic, key, value * 2, *rest)

    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=lambda n: b"%d" % n, interceptors=[Doubles()]
    ) as producer:
        producer.send_many(topic, range(5)).get(60)
    assert read_to_end(cluster.bootstrap_servers, topic, 1, "read_uncommitted") == [b"0", b"2", b"4", b"6", b"8"]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_a_table(kind: pa.DataType, cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(2)
    text = ["a", None, "", "zwölf"]
    values = [value.encode() if value is not None and "binary" in str(kind) else value for value in text]
    keys = pa.array(["k", None, "k", "l"]).dictionary_encode()
    table = pa.table({"value": pa.array(values, kind), "key": keys})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_arrow(topic, table, partition=1).get(60)
    expected = [None if value is None else value.encode() for value in text]
    assert rows_of(cluster, topic, 2) == {0: [], 1: list(zip([b"k", None, b"k", b"l"], expected, strict=True))}


def test_columns_of_a_table_may_name_partition_and_time(cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(3)
    times = pa.array([1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_002], pa.timestamp("ms", "UTC"))
    batch = pa.record_batch({"value": ["a", "b", "c"], "partition": [2, 0, 2], "timestamp": times})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        (first, second, third) = producer.send_arrow(topic, batch).get(60)
    assert [tuple(each.topic_partition) for each in (first, second, third)] == [(topic, 2), (topic, 0), (topic, 2)]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, n) for n in range(3)])
        seen: dict[bytes, int] = {}
        while len(seen) < 3:
            seen.update((record.value, record.timestamp) for record in consumer.poll(1000).records())
    assert seen == {b"a": 1_700_000_000_000, b"b": 1_700_000_000_001, b"c": 1_700_000_000_002}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"key": ["k"]}, "there must be a column named value, but the columns are key"),
        ({"value": ["v"], "offset": [1]}, "column 'offset' is none of those that are sent"),
        ({"value": [1.5]}, "column value must be binary or string, not double"),
        ({"value": ["v"], "partition": ["1"]}, "column partition must be integers, not string"),
        ({"value": ["v"], "timestamp": ["now"]}, "column timestamp must be timestamps or milliseconds"),
    ],
)
def test_tables_that_cannot_be_sent(table: dict[str, list[Any]], message: str) -> None:
    producer = KafkaProducer(bootstrap_servers="localhost:1")
    with pytest.raises(ValueError, match=message):
        producer.send_arrow("t", pa.table(table))
    with pytest.raises(ValueError, match="there are 2 values and 1 keys"):
        producer.send_many("t", ["a", "b"], ["k"])
    producer.close(timeout_ms=0)


def test_a_record_that_cannot_be_handed_over_ends_the_call_and_those_before_are_sent(
    cluster: Cluster, topic: str
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_request_size=1000) as producer:
        with pytest.raises(RecordTooLargeError) as caught:
            producer.send_many(topic, [b"a", b"b", bytes(2000), b"c"])
        assert caught.value.__notes__ == [
            "2 of the 4 records of this call were accepted before the error, and are sent"
        ]
    assert read_to_end(cluster.bootstrap_servers, topic, 1, "read_uncommitted") == [b"a", b"b"]


def test_a_transaction_of_many_records(cluster: Cluster, topic: str, group_id: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.send_many(topic, [b"outside"])
        for word, commit in ((b"kept", True), (b"lost", False)):
            producer.begin_transaction()
            producer.send_many(topic, [word] * 3000)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    assert read_to_end(cluster.bootstrap_servers, topic, 1, "read_committed") == [b"kept"] * 3000


def test_a_wait_that_is_too_short_and_records_that_fail(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers)
    producer.send(topic, b"x").get(60)
    proxy.hold(ApiKey.PRODUCE)
    future = producer.send_many(topic, [b"v"] * 500)
    with pytest.raises(KafkaTimeoutError, match=r"no result for 500 of 500 records within 0.1 s"):
        future.get(0.1)
    assert not future.done()
    producer.close(timeout_ms=0)
    assert future.done()
    assert future.failed_count == 500
    assert not isinstance(future.exception, TopicAuthorizationFailedError)
    with pytest.raises(type(future.exception)):  # type: ignore[arg-type]
        future.get(0)
