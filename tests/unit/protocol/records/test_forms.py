"""Tests of records in the forms of kafka-python and aiokafka, which the decoder makes for ``pyconsumer.compat``."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import gc
import inspect
import json
import pickle
import weakref
from typing import Any

import pytest

from pyconsumer.compat.aiokafka import structs
from pyconsumer.compat.kafka.consumer.fetcher import ConsumerRecord as TupleRecord
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.protocol.records.open_fields import FIELDS
from pyconsumer.protocol.records.open_record import OpenRecord
from tests.unit.protocol.records.helpers import TIME, TP, Decoder, message

HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]
GIVEN: tuple[Any, ...] = ("t", 0, 1, 2, 0, b"k", b"v", None, 1, 1, ())
TUPLES: list[tuple[Any, ...]] = [
    ("events", 2, 5, 0, TIME, 0, b"key", b"v" * 300, HEADERS, None, 3, 300, 3),
    ("events", 2, 5, 1, TIME + 1, 0, None, None, [], None, -1, -1, -1),
]
FIELDS_OF_OPEN: list[tuple[Any, ...]] = [
    ("events", 2, 0, TIME, 0, b"key", b"v" * 300, None, 3, 300, tuple(HEADERS)),
    ("events", 2, 1, TIME + 1, 0, None, None, None, -1, -1, ()),
]


def two_records() -> bytes:
    builder = BatchBuilder()
    builder.try_append(TIME, b"key", b"v" * 300, HEADERS, relative_offset=0)
    builder.try_append(TIME + 1, None, None, relative_offset=1)
    return builder.build(0, leader_epoch=5)


@pytest.fixture
def open_record(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """aiokafka's record of a decoder."""
    found: Any = OpenRecord
    if decoder.name != "pure":
        from pyconsumer.protocol.records import _native

        found = _native.OpenRecord
    monkeypatch.setattr(structs, "ConsumerRecord", found)  # of pickles
    return found


def open_fields(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


# -- reading


def test_tuples_of_kafka_python(decoder: Decoder) -> None:
    cursor = decoder.Cursor(TP, two_records(), fetch_offset=0, form=TupleRecord)
    first = cursor.take(1)
    assert cursor.next_offset == 1
    found = first + cursor.take(5)
    assert found == TUPLES
    assert [type(record) for record in found] == [TupleRecord, TupleRecord]
    assert type(found[0].headers) is list
    again = decoder.Cursor(TP, two_records(), fetch_offset=1, form=TupleRecord).take(1)[0]
    assert found[1].headers is not again.headers
    topic, partition, _, offset, *_, header_size = found[0]
    assert (topic, partition, offset, header_size, found[0].topic_partition) == ("events", 2, 0, 3, TP)
    assert found[0]._replace(value=b"z").value == b"z"
    assert list(found[0]._asdict()) == list(TupleRecord._fields)
    assert TupleRecord._make(found[0]) == found[0]
    assert pickle.loads(pickle.dumps(found[0])) == found[0]


def test_objects_of_aiokafka(decoder: Decoder, open_record: Any) -> None:
    cursor = decoder.Cursor(TP, two_records(), fetch_offset=0, form=open_record)
    found = cursor.take(1) + cursor.take(5)
    assert cursor.next_offset == 2
    assert [open_fields(record) for record in found] == FIELDS_OF_OPEN
    assert [type(record) for record in found] == [open_record, open_record]


@pytest.mark.parametrize("form", ["tuple", "open"])
def test_old_message_sets(decoder: Decoder, open_record: Any, form: str) -> None:
    data = message(1, 3, None, b"a") + message(1, 4, None, b"b")
    chosen = TupleRecord if form == "tuple" else open_record
    cursor = decoder.Cursor(TP, data, fetch_offset=4, form=chosen)
    (record,) = cursor.take(10)
    assert (type(record), record.offset, record.value, list(record.headers)) == (chosen, 4, b"b", [])
    assert cursor.next_offset == 5


@pytest.mark.parametrize("form", ["tuple", "open"])
def test_deserializers(decoder: Decoder, open_record: Any, form: str) -> None:
    raw = decoder.Cursor(TP, two_records(), fetch_offset=0).take(5)
    good: list[Any] = []
    chosen = TupleRecord if form == "tuple" else open_record
    assert decoder.convert(raw[:1], 0, bytes.decode, lambda data: [data[:1]], good, chosen) == (1, "", None)
    first = good[0]
    assert (type(first), first.key, first.value) == (chosen, "key", [b"v"])
    assert (first.serialized_key_size, first.serialized_value_size) == (3, 300)
    assert gc.is_tracked(first)
    assert decoder.convert(raw, 1, lambda data: [data], lambda data: [data], good, chosen) == (2, "", None)
    assert (good[1].key, good[1].value) == ([None], [None]), "they are called for absent keys and values"
    index, origin, error = decoder.convert(raw, 1, bytes.decode, None, good, chosen)
    assert (index, origin, type(error)) == (1, "key", TypeError)
    good.clear()
    failed = decoder.convert(raw, 0, None, json.loads, good, chosen)
    assert (failed[0], failed[1], good) == (0, "value", [])


def test_columns_do_not_depend_on_the_form(decoder: Decoder) -> None:
    cursor = decoder.Cursor(TP, two_records(), fetch_offset=0, form=TupleRecord)
    assert len(cursor.take_columns(10, with_headers=True).offsets) == 2


@pytest.mark.parametrize("form", [object, int, "tuple", list, dict])
def test_other_forms_are_refused(decoder: Decoder, form: Any) -> None:
    with pytest.raises(TypeError, match="records cannot be made in the form of"):
        decoder.Cursor(TP, two_records(), fetch_offset=0, form=form)


# -- aiokafka's record


def test_a_record_is_made_by_position_and_by_name(open_record: Any) -> None:
    by_position = open_record(*GIVEN)
    assert by_position == open_record(**dict(zip(FIELDS, GIVEN, strict=True)))
    assert open_fields(by_position) == GIVEN
    assert list(inspect.signature(open_record).parameters) == list(FIELDS)
    for wrong in (GIVEN[:9], (*GIVEN, 1)):
        with pytest.raises(TypeError):
            open_record(*wrong)
    assert repr(by_position) == (
        "ConsumerRecord(topic='t', partition=0, offset=1, timestamp=2, timestamp_type=0, key=b'k', value=b'v',"
        " checksum=None, serialized_key_size=1, serialized_value_size=1, headers=())"
    )


def read_one(decoder: Decoder, open_record: Any) -> Any:
    return decoder.Cursor(TP, two_records(), fetch_offset=1, form=open_record).take(1)[0]


@pytest.mark.parametrize("name", [*FIELDS, "consumer"])
def test_any_attribute_can_be_set(decoder: Decoder, open_record: Any, name: str) -> None:
    record = read_one(decoder, open_record)
    other = read_one(decoder, open_record)
    setattr(record, name, 77)
    assert getattr(record, name) == 77
    expected = {**dict(zip(FIELDS, FIELDS_OF_OPEN[1], strict=True)), name: 77}
    assert vars(record) == expected
    assert list(vars(record))[:11] == list(FIELDS)
    assert (record == other) is (name == "consumer")
    for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert vars(copied) == expected
    if name == "consumer":
        del record.consumer
        assert not hasattr(record, "consumer")
        assert not hasattr(other, "consumer")


def test_it_is_a_dataclass(decoder: Decoder, open_record: Any) -> None:
    record = read_one(decoder, open_record)
    assert [field.name for field in dataclasses.fields(record)] == list(FIELDS)
    assert dataclasses.asdict(record) == dict(zip(FIELDS, FIELDS_OF_OPEN[1], strict=True))
    assert dataclasses.astuple(record) == FIELDS_OF_OPEN[1]
    assert dataclasses.replace(record, value=b"z").value == b"z"
    match record:
        case open_record(topic, partition, offset=1):
            assert (topic, partition) == TP
        case _:
            pytest.fail("a record matches by position")


def test_it_is_neither_hashable_nor_a_sequence(decoder: Decoder, open_record: Any) -> None:
    record = read_one(decoder, open_record)
    with pytest.raises(TypeError):
        hash(record)
    assert not isinstance(record, (tuple, collections.abc.Sequence, collections.abc.Hashable))
    assert record != FIELDS_OF_OPEN[1]
    assert weakref.ref(record)() is record


def test_subclasses(open_record: Any) -> None:
    class Kept(open_record[bytes, bytes]):  # type: ignore[misc]
        flag = False

        @property
        def size(self) -> int:
            return len(self.value)

    record = Kept(*GIVEN)
    record.flag = True
    record.topic = "u"
    assert (record.flag, Kept.flag, record.topic, record.size) == (True, False, "u", 1)
    assert record != open_record("u", *GIVEN[1:])
    with pytest.raises(AttributeError):
        record.size = 3

    @dataclasses.dataclass
    class More(open_record):  # type: ignore[misc]
        more: int = 0

    assert More(*GIVEN, 7) == More(*GIVEN, more=7) != More(*GIVEN)
    assert vars(More(*GIVEN, 7))["more"] == 7


def test_a_record_without_values(open_record: Any) -> None:
    record = open_record.__new__(open_record)
    with pytest.raises(AttributeError):
        _ = record.offset
    record.offset = 3
    assert record.offset == 3
    made = open_record(*GIVEN)
    del made.value
    with pytest.raises(AttributeError):
        _ = made.value
    with pytest.raises(AttributeError):
        repr(made)
    made.__init__(*GIVEN)
    assert made == open_record(*GIVEN)


# -- the garbage collector


def test_records_are_tracked_from_the_first_attribute_on(decoder: Decoder, open_record: Any) -> None:
    if decoder.name == "pure":
        pytest.skip("Python tracks all of its own objects")
    record = read_one(decoder, open_record)
    tuple_record = decoder.Cursor(TP, two_records(), fetch_offset=1, form=TupleRecord).take(1)[0]
    assert not gc.is_tracked(record)
    assert not gc.is_tracked(tuple_record)
    record.me = record
    assert gc.is_tracked(record)
    gone = weakref.ref(record)
    del record
    gc.collect()
    assert gone() is None
    assert not gc.is_tracked(decoder.Cursor(TP, two_records(), fetch_offset=0).take(1)[0])


def test_a_record_has_no_dictionary_before_an_attribute_is_set(decoder: Decoder, open_record: Any) -> None:
    if decoder.name == "pure":
        pytest.skip("Python makes the dictionary of its own objects when it is asked for")
    record = read_one(decoder, open_record)
    assert not any(type(part) is dict for part in gc.get_referents(record))
    assert vars(record)["value"] == record.value
    record.consumer = "c"
    assert {"consumer": "c"} in gc.get_referents(record)
    assert vars(record)["consumer"] == "c"


def test_records_that_were_released_come_back_empty_and_do_not_count_as_new_objects(
    decoder: Decoder, open_record: Any
) -> None:
    if decoder.name == "pure":
        pytest.skip("only compiled records are kept for the next ones")
    builder = BatchBuilder()
    for number in range(2_000):
        builder.try_append(TIME, None, b"%d" % number, relative_offset=number)
    batch = builder.build(0)

    def read() -> list[Any]:
        return decoder.Cursor(TP, batch, fetch_offset=0, form=open_record).take(2_000)

    records = read()
    for record in records:
        record.consumer = records
    gone = weakref.ref(records[0])
    del record
    records.clear()
    assert gone() is None
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        again = read()
        assert gc.get_count()[0] - before < 100
    finally:
        gc.enable()
    assert not any(gc.is_tracked(record) or hasattr(record, "consumer") for record in again)
    assert [record.value for record in again] == [b"%d" % number for number in range(2_000)]


def test_a_pickle_of_one_twin_loads_as_the_other(decoder: Decoder, open_record: Any, monkeypatch: Any) -> None:
    data = pickle.dumps(open_record(*GIVEN))
    monkeypatch.setattr(structs, "ConsumerRecord", OpenRecord)
    assert open_fields(pickle.loads(data)) == GIVEN
    data = pickle.dumps(OpenRecord(*GIVEN))
    monkeypatch.setattr(structs, "ConsumerRecord", open_record)
    assert type(pickle.loads(data)) is open_record
    assert open_fields(pickle.loads(data)) == GIVEN
