"""The columns of ``poll_arrow`` and their types. Their content is tested in tests/behaviour/test_poll_arrow.py."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from pyconsumer.consumer.arrow import ArrowColumns
from pyconsumer.protocol.records import BatchBuilder, Cursor
from pyconsumer.structs import TopicPartition
from tests.unit.protocol.records.helpers import batch

pa = pytest.importorskip("pyarrow")

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_the_schema_has_the_columns_in_the_requested_order() -> None:
    schema = ArrowColumns().schema
    assert {field.name: str(field.type) for field in schema} == {
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[ms, tz=UTC]",
        "key": "binary",
        "value": "binary",
        "headers": "list<item: struct<key: string, value: binary>>",
    }
    assert ArrowColumns(["value", "leader_epoch", "timestamp_type", "offset"]).schema.names == [
        "value",
        "leader_epoch",
        "timestamp_type",
        "offset",
    ]
    topic = ArrowColumns(["topic"], dictionary_topic=True).schema.field("topic")
    assert topic.type == pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize("names", [["colour"], ["offset", "colour"], ["offset", "offset"], []])
def test_impossible_columns_are_rejected(names: list[str]) -> None:
    with pytest.raises(ValueError, match="column"):
        ArrowColumns(names)
    with pytest.raises(TypeError, match="list of names"):
        ArrowColumns("offset")


@pytest.mark.parametrize("dictionary_topic", [False, True])
def test_rows_of_several_partitions_become_one_batch(dictionary_topic: bool) -> None:
    wanted = ArrowColumns(dictionary_topic=dictionary_topic)
    builder = wanted.builder()
    runs = []
    for tp, offset, count in ((A, 0, 2), (A, 2, 1), (B, 5, 2), (A, 3, 1)):
        runs.append((tp, Cursor(tp, batch(offset, count), fetch_offset=offset).take_into(builder, 100)))
    found = wanted.batch(builder, runs)
    found.validate(full=True)
    assert found["topic"].to_pylist() == ["a", "a", "a", "b", "b", "a"]
    assert found["partition"].to_pylist() == [0, 0, 0, 1, 1, 0]
    assert found["offset"].to_pylist() == [0, 1, 2, 5, 6, 3]
    assert found["value"].to_pylist() == [b"v0", b"v1", b"v2", b"v5", b"v6", b"v3"]
    assert found["headers"].to_pylist() == [[]] * 6


@pytest.mark.parametrize("dictionary_topic", [False, True])
def test_parts_of_which_the_first_rows_are_taken_become_one_batch(dictionary_topic: bool) -> None:
    wanted = ArrowColumns(dictionary_topic=dictionary_topic)
    parts = []
    for tp, offset, count, used in ((A, 0, 2, 1), (B, 5, 2, 2), (A, 1, 3, 2)):
        builder = wanted.builder()
        Cursor(tp, batch(offset, count), fetch_offset=offset).take_into(builder, 100)
        parts.append((tp, builder.build(), used))
    for chosen, offsets in ((parts, [0, 5, 6, 1, 2]), (parts[:1], [0])):
        found = pa.RecordBatch.from_arrays(wanted.joined(chosen), schema=wanted.schema)
        found.validate(full=True)
        assert found["offset"].to_pylist() == offsets
        assert found["topic"].to_pylist() == ["b" if offset > 4 else "a" for offset in offsets]
        assert found["partition"].to_pylist() == [int(offset > 4) for offset in offsets]
        assert found["value"].to_pylist() == [b"v%d" % offset for offset in offsets]


def rows_of(wanted: ArrowColumns, first: int, count: int, key: bytes | None, headers: list[Any]) -> Any:
    """Return some rows with a key and headers, as a part."""
    made = BatchBuilder("none")
    for number in range(first, first + count):
        made.try_append(1_000 + number, key, b"v%d" % number, headers, relative_offset=number - first)
    builder = wanted.builder()
    Cursor(A, made.build(first), fetch_offset=first).take_into(builder, 100)
    return builder.build()


@pytest.mark.parametrize("second", ["the same", "with keys and headers"])
def test_parts_are_joined_as_if_they_were_one(second: str) -> None:
    """Columns of numbers, and those that are empty, are joined without an array of each part."""
    wanted = ArrowColumns([*ArrowColumns().schema.names, "timestamp_type", "leader_epoch"])
    key, headers = (None, []) if second == "the same" else (b"k", [("name", b"x"), ("none", None)])
    parts = [(A, rows_of(wanted, 0, 3, None, []), 2), (A, rows_of(wanted, 2, 4, key, headers), 3)]
    found = pa.RecordBatch.from_arrays(wanted.joined(parts), schema=wanted.schema)
    found.validate(full=True)
    assert found.to_pydict() == {
        "topic": ["a"] * 5,
        "partition": [0] * 5,
        "offset": [0, 1, 2, 3, 4],
        "timestamp": [datetime.fromtimestamp((1_000 + number) / 1000, UTC) for number in range(5)],
        "key": [None, None, key, key, key],
        "value": [b"v%d" % number for number in range(5)],
        "headers": [[], [], *[[{"key": name, "value": value} for name, value in headers]] * 3],
        "timestamp_type": [0] * 5,
        "leader_epoch": [-1] * 5,
    }


def test_the_column_of_topics_is_the_beginning_of_one_that_is_kept() -> None:
    wanted = ArrowColumns(["topic"])

    def topics(topic: str, count: int) -> Any:
        (found,) = wanted.arrays(wanted.builder().build(), [(TopicPartition(topic, 0), count)])
        found.validate(full=True)
        assert len(found) == count
        assert set(found.to_pylist()) == {topic}
        return found

    first = topics("orders", 5)
    address = first.buffers()[2].address
    assert topics("orders", 64).buffers()[2].address == address
    assert topics("o" * 200, 3).buffers()[2].address != address
    assert topics("orders", 8).buffers()[2].address == address
    assert first.nbytes == 5 * (4 + len("orders"))
    longer = topics("orders", 65)
    assert longer.buffers()[2].address != address
    assert topics("orders", 128).buffers()[2].address == longer.buffers()[2].address
    many = topics("o" * 200, 30_000)  # a column of more than 4 MiB is not kept, and drops the others
    assert topics("o" * 200, 30_000).buffers()[2].address != many.buffers()[2].address
    assert topics("orders", 65).buffers()[2].address != longer.buffers()[2].address
    assert first.to_pylist() == ["orders"] * 5
    wanted = ArrowColumns(["topic"])
    for number in range(300):
        (found,) = wanted.arrays(wanted.builder().build(), [(TopicPartition(f"t{number}", 0), 2_000), (A, 3)])
        assert found.to_pylist() == [f"t{number}"] * 2_000 + ["a"] * 3
    kept = wanted._kept.values()
    assert 0 < sum(column.nbytes for column in kept) <= 4 * 1024 * 1024


def test_pyarrows_compute_functions_are_not_loaded() -> None:
    """They take 40 MB of memory."""
    program = (
        "from pyconsumer.consumer.arrow import ArrowColumns; from pyconsumer import TopicPartition;"
        "wanted = ArrowColumns(); builder = wanted.builder();"
        "print(len(wanted.arrays(builder.build(), [(TopicPartition('a', 0), 0)])));"
        "wanted._topics(wanted.schema.field('topic').type, [(TopicPartition('a', 0), 9), (TopicPartition('b', 0), 9)]);"
        "print('pyarrow.compute' in __import__('sys').modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "7\nFalse\n"


@pytest.mark.parametrize("dictionary_topic", [False, True])
def test_without_rows_the_schema_is_the_same(dictionary_topic: bool) -> None:
    wanted = ArrowColumns(dictionary_topic=dictionary_topic)
    empty = wanted.batch(wanted.builder(), ())
    empty.validate(full=True)
    assert (empty.num_rows, empty.schema) == (0, wanted.schema)


def test_pandas_is_not_imported() -> None:
    program = (
        "import sys; from pyconsumer.consumer.arrow import ArrowColumns; from pyconsumer import TopicPartition;"
        "wanted = ArrowColumns(); builder = wanted.builder(); wanted.batch(builder, []).num_rows;"
        "print('pandas' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "False\n"


def test_pyarrow_is_imported_by_poll_arrow_alone() -> None:
    program = (
        "import sys; from pyconsumer import KafkaConsumer; import pyconsumer.consumer.arrow;"
        "KafkaConsumer(bootstrap_servers='localhost:1').close(0); print('pyarrow' in sys.modules);"
        "sys.modules['pyarrow'] = None\n"
        "try: KafkaConsumer(bootstrap_servers='localhost:1').poll_arrow()\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == ["False", "poll_arrow needs pyarrow: pip install pyconsumer[arrow]"]
