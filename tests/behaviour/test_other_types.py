"""Values of other types than ``str``, ``bytes``, ``list``, ``dict`` and ``int`` that behave like these are taken."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.admin import OffsetSpec
from tests.support.cluster import Cluster
from tests.support.log_reader import read_partition

pytestmark = pytest.mark.faces


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    pass


class Rows(list[Any]):
    pass


class Offsets(dict[Any, Any]):
    pass


class Number:
    """A whole number that is no ``int``: it has ``__index__`` alone, and equals one."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.value == other

    def __hash__(self) -> int:
        return hash(self.value)


class Small(enum.IntEnum):
    ZERO, ONE, TWO, THREE = range(4)


def numpy_number(value: int) -> Any:
    return pytest.importorskip("numpy").int64(value)


def small(value: int) -> Any:
    return Small(value) if value < 4 else value


KINDS = [Number, numpy_number, small]


@pytest.mark.parametrize("kind", ["StrEnum", "enum of str", "subclass"])
def test_a_topic_is_named_by_any_kind_of_str(cluster: Cluster, topic: str, kind: str) -> None:
    name: Any = Text(topic)
    if kind == "StrEnum":
        name = enum.StrEnum("Topic", {"ORDERS": topic}).ORDERS  # type: ignore[attr-defined]
    elif kind == "enum of str":
        name = enum.Enum("Topic", {"ORDERS": topic}, type=str).ORDERS  # type: ignore[attr-defined]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        first = producer.send(name, b"0").get(60)
        assert (first.topic, type(first.topic), first.offset) == (topic, str, 0)
        futures = [producer.send(name, b"%d" % n) for n in range(1, 50)]
        assert [future.get(60).offset for future in futures] == list(range(1, 50))
        assert sum(sent.record_count for sent in producer.send_many(name, [b"50", b"51"]).get(60)) == 2
        assert producer.partitions_for(name) == {0}
    with KafkaConsumer(
        name, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", group_id=None
    ) as consumer:
        found = [next(consumer) for _ in range(52)]
        assert {type(record.topic) for record in found} == {str}
        consumer.assignment()
        consumer.seek(TopicPartition(name, 0), 51)
        assert next(consumer).value == b"51"


def test_keys_values_and_headers_of_subclasses(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2):
            producer.send(topic, Bytes(b"v"), Text("k"), Rows([(Text("h"), Bytes(b"1"))]))
            producer.send(topic, Text("v"), Bytes(b"k"))
        sent = producer.send_many(topic, Rows([Bytes(b"v"), Text("v")]), keys=Rows([Text("k"), Bytes(b"k")]))
        assert sum(found.record_count for found in sent.get(60)) == 2
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=lambda value: Bytes(value)) as own:
        assert own.send(topic, b"v", b"k").get(60).serialized_value_size == 1

    records = read_partition(cluster, topic)
    assert [(record.key, record.value) for record in records] == [(b"k", b"v")] * 7
    assert [record.headers for record in records[:3]] == [[("h", b"1")], [], [("h", b"1")]]


@pytest.mark.parametrize("n", KINDS)
def test_whole_numbers_of_any_type_in_the_producer(
    cluster: Cluster, make_topic: Callable[..., str], n: Callable[[int], Any]
) -> None:
    topic = make_topic(2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2):
            sent = producer.send(topic, b"v", partition=n(1), timestamp_ms=n(1_700_000_000_000)).get(60)
            assert (sent.partition, type(sent.partition)) == (1, int)
            assert (sent.timestamp, type(sent.timestamp)) == (1_700_000_000_000, int)
        producer.send_many(topic, [b"v"] * 3, partition=n(1), timestamp_ms=n(3)).get(60)
        for wrong in (1.0, True, "1", n(3).__class__, None.__class__):
            with pytest.raises(ValueError, match="the partition must be a number from 0 on"):
                producer.send(topic, b"v", partition=wrong)  # type: ignore[arg-type]
    chosen = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=lambda *_: n(1))
    with chosen:
        assert chosen.send(topic, b"v").get(60).partition == 1
    assert len(read_partition(cluster, topic, 1)) == 6


@pytest.mark.parametrize("n", KINDS)
def test_whole_numbers_of_any_type_in_the_consumer(
    cluster: Cluster, topic: str, group_id: str, n: Callable[[int], Any]
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % at for at in range(5)], timestamp_ms=100).get(60)
    tp, same = TopicPartition(topic, n(0)), TopicPartition(topic, 0)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, enable_auto_commit=False
    ) as consumer:
        consumer.assign(Rows([tp]))
        assert {type(found.partition) for found in consumer.assignment()} == {int}
        consumer.seek(tp, n(3))
        assert (consumer.position(tp), consumer.position(same)) == (3, 3)
        assert next(consumer).value == b"3"
        consumer.seek(tp, OffsetAndMetadata(n(1), "", n(0)))
        assert next(consumer).value == b"1"
        assert [record.value for record in consumer.poll(60_000, n(2)).records()] == [b"2", b"3"]
        consumer.pause(tp)
        assert consumer.paused() == {same}
        consumer.resume(tp)
        for given in (n(2), OffsetAndMetadata(n(3), Text("mine"), n(0))):
            consumer.commit(Offsets({tp: given}))
            assert (
                consumer.committed(tp)
                == (given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)).offset
            )
            assert type(consumer.committed(same)) is int
        consumer.commit_async({tp: n(1)})
        found = consumer.offsets_for_times(Offsets({tp: n(100)}))
        assert found[same] is not None
        assert found[same].offset == 0
        assert consumer.beginning_offsets([tp]) == {same: 0}
        assert consumer.end_offsets([tp]) == {same: 5}
        consumer.seek_to_beginning(tp)
        assert consumer.position(tp) == 0
        for wrong in (1.0, True, "1", None):
            with pytest.raises(TypeError):
                consumer.seek(tp, wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                consumer.commit({tp: wrong})  # type: ignore[dict-item]
            with pytest.raises(TypeError):
                consumer.offsets_for_times({tp: wrong})  # type: ignore[dict-item]
            with pytest.raises(TypeError):
                consumer.position(TopicPartition(topic, wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("n", KINDS)
def test_whole_numbers_of_any_type_in_the_admin_client(
    cluster: Cluster, admin: KafkaAdminClient, topic_name: str, group_id: str, n: Callable[[int], Any]
) -> None:
    admin.create_topics({topic_name: n(2)})
    tp, same = TopicPartition(topic_name, n(0)), TopicPartition(topic_name, 0)
    assert admin.create_partitions({topic_name: n(3)}) == {topic_name: None}
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert producer.partitions_for(topic_name) == {0, 1, 2}
        producer.send_many(topic_name, [b"%d" % at for at in range(5)], partition=0, timestamp_ms=100).get(60)
    assert admin.list_offsets({tp: n(100)})[same].offset == 0
    assert admin.list_offsets({tp: OffsetSpec.LATEST})[same].offset == 5
    assert admin.delete_records({tp: n(2)})[same] == 2
    admin.alter_group_offsets(group_id, {tp: OffsetAndMetadata(n(3), "", n(-1) if n is not small else -1)})
    assert admin.list_group_offsets(group_id)[same].offset == 3
    admin.delete_group_offsets(group_id, [tp])
    assert same not in admin.list_group_offsets(group_id)
