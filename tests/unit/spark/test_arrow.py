"""Record batches: exactly Spark's types, exactly the records."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyconsumer.protocol.records import BatchBuilder, Columns, Cursor
from pyconsumer.spark.errors import ReadError
from pyconsumer.spark.partition_reader import record_batch
from pyconsumer.spark.schema import COLUMNS, arrow_schema
from pyconsumer.structs import TopicPartition

TIME = 1_700_000_000_123
ALL = tuple(COLUMNS)


def columns(*records: tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]) -> Columns:
    builder = BatchBuilder()
    for timestamp, key, value, headers in records:
        builder.try_append(timestamp, key, value, headers)
    cursor = Cursor(TopicPartition("t\u00e9", 3), builder.build(100), fetch_offset=100)
    return cursor.take_columns(1000, with_headers=True)


ROWS = (
    (TIME, b"k", b"v", [("a", b"1"), ("a", None)]),
    (TIME + 1, None, b"", []),
    (-1, b"", None, [("b", b"")]),
)


def test_the_schema_is_sparks_own() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    types = {
        "binary": BinaryType(),
        "string": StringType(),
        "int": IntegerType(),
        "bigint": LongType(),
        "timestamp": TimestampType(),
        "array<struct<key: string, value: binary>>": ArrayType(header),
    }
    spark = StructType([StructField(name, types[kind]) for name, kind in COLUMNS.items()])
    expected = to_arrow_schema(spark, timezone="UTC")
    found = record_batch(columns(*ROWS), 3, ALL).schema
    assert expected.equals(found)
    assert all(field.nullable for field in found)


def test_all_columns_of_all_records() -> None:
    batch = record_batch(columns(*ROWS), 3, ALL)
    batch.validate(full=True)
    utc = datetime.UTC
    assert batch.to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "t\u00e9",
            "partition": 3,
            "offset": 100,
            "timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=utc),
            "timestampType": 0,
            "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        },
        {
            "key": None,
            "value": b"",
            "topic": "t\u00e9",
            "partition": 3,
            "offset": 101,
            "timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 124000, tzinfo=utc),
            "timestampType": 0,
            "headers": None,
        },
        {
            "key": b"",
            "value": None,
            "topic": "t\u00e9",
            "partition": 3,
            "offset": 102,
            "timestamp": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=utc),
            "timestampType": 0,
            "headers": [{"key": "b", "value": b""}],
        },
    ]


def test_columns_come_in_the_requested_order() -> None:
    batch = record_batch(columns(*ROWS), 3, ("offset", "value"))
    assert batch.schema.equals(arrow_schema(("offset", "value")))
    assert batch.to_pydict() == {"offset": [100, 101, 102], "value": [b"v", b"", None]}


@pytest.mark.parametrize("count", [1, 2])
def test_rows_after_the_range_are_left_out(count: int) -> None:
    batch = record_batch(columns(*ROWS), count, ALL)
    assert batch.to_pylist() == record_batch(columns(*ROWS), 3, ALL).to_pylist()[:count]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().num_rows == count


def test_many_nulls() -> None:
    rows = [(TIME, b"k" if i % 3 else None, b"%d" % i, [("h", b"x")] if i % 7 == 0 else []) for i in range(100)]
    batch = record_batch(columns(*rows), 100, ALL)
    batch.validate(full=True)
    assert [row["key"] for row in batch.to_pylist()] == [key for _, key, _, _ in rows]
    assert [row["headers"] is None for row in batch.to_pylist()] == [not headers for *_, headers in rows]


def test_a_timestamp_outside_sparks_range_is_named_with_its_place() -> None:
    found = columns((TIME, None, b"", []), (0x7FFFFFFFFFFFFF00, None, b"", []))
    with pytest.raises(ReadError, match=r"-3 at offset 101: the record's timestamp.*option columns"):
        record_batch(found, 2, ALL)
    assert record_batch(found, 2, ("value",)).num_rows == 2
