"""Records and structures of ``pyconsumer.compat``, compared with those of kafka-python and aiokafka."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import importlib
import json
import pickle
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.support.cluster import Cluster

WITHIN_MS = 20_000
HEADERS = [("a", b"b"), ("a", b"")]


@pytest.fixture
def originals() -> dict[str, ModuleType]:
    """The modules of both originals, which are imported only here."""
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    names = (
        "kafka",
        "kafka.structs",
        "kafka.consumer.fetcher",
        "kafka.producer.future",
        "aiokafka",
        "aiokafka.structs",
    )
    return {name: importlib.import_module(name) for name in names}


def ours(name: str) -> ModuleType:
    return importlib.import_module(f"pyconsumer.compat.{name}")


def outcome(use: Callable[[Any], Any], argument: Any) -> Any:
    """The result of a use, or the class of its error."""
    try:
        return use(argument)
    except Exception as error:
        return type(error)


def fill(package: ModuleType, cluster: Cluster, topic: str) -> list[Any]:
    """Send three records, and return what the futures of kafka-python's API give."""
    producer = package.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    futures = [
        producer.send(topic, b"v", b"k", HEADERS, 0, 1234),
        producer.send(topic, None, b"k", partition=0, timestamp_ms=1235),
        producer.send(topic, b'{"n": 1}', partition=0, timestamp_ms=1236),
    ]
    producer.flush()
    found = [future.get(10) for future in futures]
    shown: list[Any] = []
    futures[0].add_callback(shown.append).add_both(lambda *all_of_them: shown.append(all_of_them), "more")
    assert shown == [found[0], ("more", found[0])]
    assert [(f.is_done, f.succeeded(), f.failed(), f.retriable(), f.error_on_callbacks) for f in futures] == [
        (True, True, False, False, False)
    ] * 3

    class Chained:
        def success(self, value: Any) -> None:
            shown.append(value)

        def failure(self, error: Exception) -> None:
            raise error

    assert futures[2].chain(Chained()) is futures[2]
    assert shown[-1] == found[2]
    assert futures[1].value == found[1]
    producer.close()
    return found


_USES_OF_A_TUPLE: list[Callable[[Any], Any]] = [
    tuple,
    len,
    list,
    lambda r: r[0],
    lambda r: r[6:8],
    lambda r: r._asdict(),
    lambda r: r._fields,
    lambda r: r._replace(value=b"z"),
    lambda r: type(r)._make(range(13)),
    lambda r: type(r)(*range(13)),
    lambda r: type(r)(*range(12)),
    lambda r: r == tuple(r),
    lambda r: isinstance(r, tuple),
    lambda r: setattr(r, "value", 1),
    lambda r: type(r.headers),
    hash,
    repr,
    copy.copy,
    lambda r: pickle.loads(pickle.dumps(r)),
    lambda r: type(r).__name__,
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("deserializer", [None, lambda data: None if data is None else data.decode()])
def test_records_of_kafka_python(
    originals: dict[str, ModuleType], cluster: Cluster, make_topic: Any, deserializer: Any
) -> None:
    found: dict[str, Any] = {}
    topic = make_topic(1)
    fill(originals["kafka"], cluster, topic)
    for kind, package in (("original", originals["kafka"]), ("ours", ours("kafka"))):
        consumer = package.KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=deserializer,
            consumer_timeout_ms=WITHIN_MS,
        )
        iterated = [next(consumer) for _ in range(3)]
        consumer.seek_to_beginning()
        polled: list[Any] = []
        while len(polled) < 3:
            for records in consumer.poll(WITHIN_MS).values():
                polled += records
        consumer.close()
        assert [tuple(record) for record in polled] == [tuple(record) for record in iterated]
        found[kind] = [[outcome(use, record) for use in _USES_OF_A_TUPLE] for record in iterated]
    for mine, theirs in zip(found["ours"], found["original"], strict=True):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            assert one == other, index


_USES_OF_AN_OBJECT: list[Callable[[Any], Any]] = [
    lambda r: [field.name for field in dataclasses.fields(r)],
    dataclasses.asdict,
    dataclasses.astuple,
    lambda r: dict(vars(r)),
    repr,
    hash,
    len,
    list,
    lambda r: r[0],
    lambda r: isinstance(r, (tuple, collections.abc.Sequence)),
    lambda r: type(r).__match_args__,
    lambda r: repr(dataclasses.replace(r, value=b"z")),
    lambda r: r == copy.copy(r),
    lambda r: r == dataclasses.astuple(r),
    lambda r: r == dataclasses.replace(r, offset=77),
    lambda r: vars(pickle.loads(pickle.dumps(r))),
    lambda r: type(r)(*range(11)).headers,
    lambda r: type(r)(*range(10)),
    lambda r: type(r.headers),
    lambda r: type("Derived", (type(r),), {})(*range(11)).offset,
    lambda r: setattr(r, "consumer", "c"),
    lambda r: setattr(r, "value", "changed"),
    lambda r: (r.consumer, r.value, dict(vars(r))),
    lambda r: vars(copy.deepcopy(r)),
    lambda r: r.absent,
]


@pytest.mark.asyncio
@pytest.mark.parametrize("deserializer", [None, lambda data: None if data is None else data.decode()])
async def test_records_of_aiokafka(
    originals: dict[str, ModuleType], cluster: Cluster, make_topic: Any, deserializer: Any
) -> None:
    found: dict[str, Any] = {}
    topic = make_topic(1)
    fill(originals["kafka"], cluster, topic)
    for kind, package in (("original", originals["aiokafka"]), ("ours", ours("aiokafka"))):
        consumer = package.AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=deserializer,
        )
        await consumer.start()
        try:
            records = [await consumer.getone() for _ in range(3)]
            await consumer.seek_to_beginning()
            many: list[Any] = []
            while len(many) < 3:
                for some in (await consumer.getmany(timeout_ms=WITHIN_MS)).values():
                    many += some
            assert many == records
            assert isinstance(many[0], package.ConsumerRecord)
        finally:
            await consumer.stop()
        found[kind] = [[outcome(use, record) for use in _USES_OF_AN_OBJECT] for record in records]
    for mine, theirs in zip(found["ours"], found["original"], strict=True):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            assert one == other, index


def test_metadata_of_sent_records(originals: dict[str, ModuleType], cluster: Cluster, make_topic: Any) -> None:
    topics = make_topic(1), make_topic(1)
    theirs, mine = (
        fill(package, cluster, topic)
        for package, topic in zip((originals["kafka"], ours("kafka")), topics, strict=True)
    )
    assert [one._replace(topic="t", topic_partition=None) for one in mine] == [
        one._replace(topic="t", topic_partition=None) for one in theirs
    ]
    assert [one._fields for one in mine] == [one._fields for one in theirs]
    assert mine[0].topic_partition == (topics[1], 0)


_MODULES = ("kafka.structs", "aiokafka.structs")
_VALUES: dict[str, tuple[Any, ...]] = {
    "TopicPartition": ("t", 1),
    "TopicPartitionReplica": ("t", 1, 2),
    "OffsetAndMetadata": (5, "m", 3),
    "OffsetAndTimestamp": (5, 6, 7),
    "ConsumerGroupMetadata": ("g", 1, "m", None, "<stable>"),
    "PartitionMetadata": ("t", 0, 1, [1], [1], None),
    "RecordMetadata": ("t", 0, ("t", 0), 1, 2, 0, None),
    "BrokerMetadata": (1, "h", 9092, None),
}
_USES_OF_A_VALUE: list[Callable[[Any], Any]] = [tuple, repr, str, "{}".format, hash, len, lambda v: v._fields]


@pytest.mark.parametrize("name", _MODULES)
def test_structures(originals: dict[str, ModuleType], name: str) -> None:
    theirs, mine = originals[name], ours(name)
    checked = []
    for kind, fields in _VALUES.items():
        original = getattr(theirs, kind, None)
        if original is None:
            continue
        values = fields[: len(original._fields)]
        uses = _USES_OF_A_VALUE
        if kind == "BrokerMetadata":  # its id has kafka-python's newer name, nodeId reads it, too
            uses = [tuple, lambda v: v.nodeId]
        assert [outcome(use, getattr(mine, kind)(*values)) for use in uses] == [
            outcome(use, original(*values)) for use in uses
        ], kind
        checked.append(kind)
    assert len(checked) >= 5


def test_a_partition_of_the_clients_is_one_of_theirs() -> None:
    import pyconsumer

    kind = ours("kafka").TopicPartition
    assert isinstance(pyconsumer.TopicPartition("t", 0), kind)
    assert not isinstance(("t", 0), kind)
    assert kind("t", 0) == pyconsumer.TopicPartition("t", 0)
    assert {kind("t", 0): 1}[pyconsumer.TopicPartition("t", 0)] == 1


def test_pickles_of_the_originals(originals: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """With our modules under the originals' paths, their pickles load, and ours name our paths."""
    values: list[Any] = [originals["kafka.consumer.fetcher"].ConsumerRecord(*range(13))]
    values.append(originals["kafka.producer.future"].RecordMetadata(*range(9)))
    record = originals["aiokafka.structs"].ConsumerRecord(*range(11))
    record.consumer = "c"
    for name in _MODULES:
        for kind, fields in _VALUES.items():
            original = getattr(originals[name], kind, None)
            if original is not None:
                values.append(original(*fields[: len(original._fields)]))
    for protocol in (2, 5):
        data = [pickle.dumps(value, protocol) for value in values]
        record_data = pickle.dumps(record, protocol)
        with monkeypatch.context() as patch:
            for name in originals:
                patch.setitem(sys.modules, name, ours(name))
            loaded = [pickle.loads(each) for each in data]
            loaded_record = pickle.loads(record_data)
        assert [tuple(value) for value in loaded] == [tuple(value) for value in values]
        assert vars(loaded_record) == vars(record)
        for value in (*loaded, loaded_record):
            assert type(value).__module__.startswith("pyconsumer.")
            again = pickle.dumps(value, protocol)
            assert b"pyconsumer." in again
            assert pickle.loads(again) == value


def test_offsets_after_a_record_of_kafka_python(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    """A record is a tuple, and still no sequence of records to ``store_offsets``."""
    package = ours("kafka")
    topic = make_topic(1)
    fill(package, cluster, topic)
    consumer = package.KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_offset_store=False,
        value_deserializer=lambda data: json.loads(data) if data and data[:1] == b"{" else data,
        consumer_timeout_ms=WITHIN_MS,
    )
    record = next(consumer)
    consumer.store_offsets(record)
    consumer.commit()
    assert consumer.committed(package.TopicPartition(topic, 0)) == 1
    consumer.close()
