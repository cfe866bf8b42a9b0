"""ConsumerRecord: equality, pickling, headers, sizes."""

from __future__ import annotations

import copy
import pickle

import pytest

from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import TopicPartition
from tests.unit.protocol.records import helpers
from tests.unit.protocol.records.helpers import TIME, batch, take_all

pytestmark = pytest.mark.usefixtures("decoder")


def make(**changes: object) -> ConsumerRecord:
    fields: dict[str, object] = {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": TIME,
        "timestamp_type": 1,
        "key": b"key",
        "value": b"value",
        "headers": [("h", b"1"), ("h", None)],
        "leader_epoch": 3,
    }
    made: ConsumerRecord = helpers.current.ConsumerRecord(**{**fields, **changes})
    return made


def test_fields() -> None:
    record = make()
    assert (record.topic, record.partition, record.offset, record.leader_epoch) == ("t", 1, 7, 3)
    assert record.topic_partition == TopicPartition("t", 1)
    assert (record.timestamp, record.timestamp_type) == (TIME, 1)
    assert (record.key, record.value) == (b"key", b"value")
    assert (record.serialized_key_size, record.serialized_value_size) == (3, 5)
    assert record.serialized_header_size == 3, "names and values: h, 1 and h"
    empty = helpers.current.ConsumerRecord("t", 0, 0)
    assert (empty.key, empty.value, empty.headers, empty.timestamp, empty.timestamp_type) == (None, None, [], -1, 0)
    assert (empty.serialized_key_size, empty.serialized_value_size, empty.leader_epoch) == (-1, -1, -1)
    assert empty.serialized_header_size == -1


def test_headers_are_a_fresh_list_each_time() -> None:
    record = make()
    record.headers.clear()
    assert record.headers == [("h", b"1"), ("h", None)]


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "u"},
        {"partition": 2},
        {"offset": 8},
        {"timestamp": 0},
        {"timestamp_type": 0},
        {"key": None},
        {"value": b""},
        {"headers": []},
        {"leader_epoch": 4},
    ],
)
def test_records_are_equal_if_all_is(change: dict[str, object]) -> None:
    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != make(**change)
    assert make() != tuple(change)


def test_a_decoded_record_equals_a_constructed_one() -> None:
    (record,) = take_all(batch(5, 1, leader_epoch=2))
    assert record == helpers.current.ConsumerRecord("events", 2, 5, TIME + 5, 0, b"k5", b"v5", (), 2)


def test_a_deserialized_record_keeps_the_sizes_of_its_bytes() -> None:
    record = make().deserialized("a key", {"a": "value"})
    assert (record.key, record.value) == ("a key", {"a": "value"})
    assert (record.serialized_key_size, record.serialized_value_size) == (3, 5)
    assert (record.offset, record.headers, record.leader_epoch) == (7, make().headers, 3)
    assert record != make()
    assert record != make(key="a key", value={"a": "value"})
    assert record == make().deserialized("a key", {"a": "value"})
    assert isinstance(record, helpers.current.ConsumerRecord)
    none = make(key=None, value=b"").deserialized(None, 0)
    assert (none.serialized_key_size, none.serialized_value_size) == (-1, 0)


@pytest.mark.parametrize("kind", range(4))
def test_records_are_pickled_and_copied(kind: int) -> None:
    record = (make(), make().deserialized(1, [2]), make().deserialized("a", None), *take_all(batch(0, 1)))[kind]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(record, protocol))
        assert again == record
        assert type(again) is type(record)
        assert again.serialized_value_size == record.serialized_value_size
    assert copy.copy(record) == copy.deepcopy(record) == record


class Forgetful:
    """A record whose class does not call ``__init__`` of ours, of the decoder in use."""

    def __new__(cls, *args: object) -> ConsumerRecord:
        kind = type("Forgetful", (helpers.current.ConsumerRecord,), {"__init__": lambda self, *args: None})
        made: ConsumerRecord = kind(*args)
        return made


@pytest.mark.parametrize("form", ["new", "subclass", "tracked"])
def test_a_record_without_init_can_be_used(form: str) -> None:
    kind = helpers.current.ConsumerRecord
    if form == "tracked":
        kind = type(kind("t", 0, 0).deserialized({}, []))
    record = Forgetful() if form == "subclass" else kind.__new__(kind)
    assert (record.topic, record.partition, record.offset, record.leader_epoch) == ("", -1, -1, -1)
    assert (record.timestamp, record.timestamp_type, record.checksum) == (-1, -1, None)
    assert (record.key, record.value, record.headers, record.serialized_header_size) == (None, None, [], -1)
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, -1)
    assert record.topic_partition == TopicPartition("", -1)
    assert record == record.deserialized(None, None)
    assert hash(record) == hash(kind.__new__(kind))
    assert "topic=''" in repr(record)
    if form != "subclass":
        assert pickle.loads(pickle.dumps(record)) == copy.copy(record) == copy.deepcopy(record) == record


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle"])
def test_a_subclass_and_its_attributes_survive_a_copy(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Own", (helpers.current.ConsumerRecord,), {"__slots__": ("place", "__dict__"), "__module__": __name__})
    monkeypatch.setitem(globals(), "Own", kind)  # pickle looks it up
    record = kind("t", 1, 2, key=b"k", value=[1], headers=[("h", b"1")])
    record.place, record.more = "here", ["more"]
    copies = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda one: pickle.loads(pickle.dumps(one))}
    again = copies[way](record)
    assert type(again) is kind
    assert again == record
    assert (again.place, again.more) == ("here", ["more"])
    assert (again.value is record.value) == (way == "copy")


def test_the_repr_of_a_record_has_all_fields() -> None:
    expected = (
        f"ConsumerRecord(topic='t', partition=1, offset=7, timestamp={TIME}, timestamp_type=1, key=b'key',"
        " value=b'value', headers=[('h', b'1'), ('h', None)], leader_epoch=3,"
        " serialized_key_size=3, serialized_value_size=5)"
    )
    assert repr(make()) == expected
    assert repr(make(key=b"123").deserialized(b"key", b"value")) == expected
