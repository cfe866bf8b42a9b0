"""Structs that are written as Avro: the schema, the check of the column, the bytes."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.records import BatchBuilder, Cursor
from pyconsumer.schemas import InvalidSchemaError, Schema
from pyconsumer.spark import registry_formats
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.sink import BatchWriter, StreamWriter
from pyconsumer.spark.source import KafkaDataSource
from pyconsumer.spark.typed_rows import TypedRows, settle
from pyconsumer.spark.typed_writes import encoded_batches
from pyconsumer.structs import TopicPartition
from tests.support.fake_registry import FakeRegistry

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "value.format": "avro"}
URL = {"schema.registry.url": "http://localhost:8081"}
UTC = datetime.UTC


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """A registry in memory, in the place of that of the options."""
    made = FakeRegistry()
    monkeypatch.setattr(registry_formats, "kept_client", lambda _: made)
    yield made
    made.open.set()


def record(*fields: Any) -> str:
    """The schema of a record with fields ``a``, ``b`` and so on, each a type or a whole field."""
    made = [
        each if isinstance(each, dict) and "name" in each and "type" in each and "default" in each else None
        for each in fields
    ]
    return json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                whole or {"name": "abcdefghijkl"[place], "type": each}
                for place, (each, whole) in enumerate(zip(fields, made, strict=True))
            ],
        }
    )


def struct(*kinds: Any) -> StructType:
    return StructType([StructField("abcdefghijkl"[place], kind) for place, kind in enumerate(kinds)])


def rows_of(**columns: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def writer(schema: StructType, **options: str) -> BatchWriter:
    given = LEAST | {name.replace("__", "."): value for name, value in options.items()}
    return KafkaDataSource(options=CaseInsensitiveDict(given)).writer(schema, overwrite=False)


def written(made: BatchWriter, schema: StructType, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as a task sends them, with another process's copy of the writer."""
    there = pickle.loads(pickle.dumps(made))
    batch = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema, timezone="UTC"))
    places = {"key": there.columns.key, "value": there.columns.value}
    (found,) = encoded_batches(there.written, places, iter([batch]))
    return list(found.to_pylist())


ALL = record(
    "long",
    ["null", "string"],
    {"type": "array", "items": {"type": "map", "values": ["null", "double"]}},
    [
        "null",
        "int",
        "string",
        {"type": "record", "name": "M", "fields": [{"name": "z", "type": {"type": "map", "values": "int"}}]},
    ],
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "enum", "name": "E", "symbols": ["X", "Y"]},
    {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    {"type": "string", "logicalType": "uuid"},
)
MEMBERS = StructType(
    [
        StructField("member0", IntegerType()),
        StructField("member1", StringType()),
        StructField("member2", StructType([StructField("z", MapType(StringType(), IntegerType()))])),
    ]
)
ALL_SPARK = struct(
    LongType(),
    StringType(),
    ArrayType(MapType(StringType(), DoubleType())),
    MEMBERS,
    DecimalType(6, 2),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
    IntegerType(),
    StringType(),
    BinaryType(),
    StringType(),
)
VALUE = {
    "a": 1,
    "b": None,
    "c": [[("k", 1.5), ("l", None)], []],
    "d": {"member0": None, "member1": None, "member2": {"z": [("q", 3)]}},
    "e": Decimal("12.34"),
    "f": datetime.date(2024, 1, 2),
    "g": datetime.datetime(2024, 1, 2, 3, tzinfo=UTC),
    "h": datetime.datetime(2024, 1, 2, 3, 4),
    "i": 3_600_000,
    "j": "Y",
    "k": b"\1\0\0\0\2\0\0\0\3\0\0\0",
    "l": "00000000-0000-0000-0000-000000000005",
}


def test_every_type_comes_back_as_it_was_written() -> None:
    schema = rows_of(value=ALL_SPARK)
    made = writer(schema, value__schema=ALL, topic="t")
    found = written(made, schema, [{"value": VALUE}, {"value": None}, {"value": {**VALUE, "d": None, "b": "x"}}])
    builder = BatchBuilder()
    for row in found:
        builder.try_append(0, None, row["value"], [])
    columns = Cursor(TopicPartition("t", 0), builder.build(0), fetch_offset=0).take_columns(10, with_headers=True)
    options = SourceOptions.parse(LEAST | {"subscribe": "t", "value.schema": ALL, "columns": "value"})
    rows = TypedRows(options, settle(options, ["t"]))
    back = pa.Table.from_batches(rows.batches(columns, 3)).to_pylist()
    assert [row["value"] for row in back] == [VALUE, None, {**VALUE, "d": None, "b": "x"}]


def test_a_schema_in_the_options_is_registered_once_on_the_driver(registry: FakeRegistry) -> None:
    schema = rows_of(key=LongType(), value=struct(LongType()), topic=StringType())
    made = writer(schema, **URL, value__schema=record("long"), key__format="avro", key__schema='"long"', topic="t")
    assert isinstance(made, BatchWriter)
    assert registry.calls == ["register", "register"]
    found = written(
        made, schema, [{"key": 2, "value": {"a": 1}, "topic": "x"}, {"key": None, "value": None, "topic": "y"}]
    )
    ids = {side: registry.get_latest_version(f"t-{side}").schema_id for side in ("key", "value")}
    assert found == [
        {
            "key": b"\0" + ids["key"].to_bytes(4, "big") + b"\4",
            "value": b"\0" + ids["value"].to_bytes(4, "big") + b"\2",
            "topic": "x",
        },
        {"key": None, "value": None, "topic": "y"},
    ]
    assert registry.calls.count("register") == 2  # the tasks need no registry
    stream = KafkaDataSource(options=CaseInsensitiveDict(LEAST | URL | {"value.schema": record("long"), "topic": "t"}))
    assert isinstance(stream.streamWriter(rows_of(value=struct(LongType())), False), StreamWriter)


@pytest.mark.parametrize(
    ("pin", "calls"),
    [({}, ["latest"]), ({"value__schema__id": "1"}, ["id 1"]), ({"value__schema__version": "1"}, ["version 1"])],
)
def test_a_schema_of_the_registry_is_used(registry: FakeRegistry, pin: dict[str, str], calls: list[str]) -> None:
    registry.add("t-value", record("long"))
    schema = rows_of(value=struct(LongType()))
    made = writer(schema, **URL, **pin, topic="t")
    assert registry.calls == calls
    assert written(made, schema, [{"value": {"a": 1}}]) == [{"value": b"\0\0\0\0\1\2"}]


def test_without_an_option_topic_the_id_must_be_given(registry: FakeRegistry) -> None:
    registry.add("t-value", record("long"))
    schema = rows_of(value=struct(LongType()), topic=StringType())
    for pin in ({}, {"value__schema": record("long")}, {"value__schema__version": "1"}):
        with pytest.raises(ConfigurationError, match=r"set the option topic"):
            writer(schema, **URL, **pin)
    assert writer(schema, **URL, value__schema__id="1").written["value"].settled.schema_id == 1


def test_a_registry_that_refuses_says_so(registry: FakeRegistry) -> None:
    registry.error = InvalidSchemaError(422, 42201, "no such thing")
    with pytest.raises(ConfigurationError, match=r"value\.schema cannot be registered under t-value: .*no such thing"):
        writer(rows_of(value=struct(LongType())), **URL, value__schema=record("long"), topic="t")
    registry.error = None
    with pytest.raises(ConfigurationError, match="topic t has no schema of the values"):
        writer(rows_of(value=struct(LongType())), **URL, topic="t")
    registry.add("t-value", Schema("{}", "JSON"))
    with pytest.raises(ConfigurationError, match="of the format JSON"):
        writer(rows_of(value=struct(LongType())), **URL, topic="t")


DEFAULT = {"name": "b", "type": "int", "default": 3}


@pytest.mark.parametrize(
    ("schema", "column", "said"),
    [
        (record("long"), StringType(), "column value is string, which is no R of the schema"),
        (record("long"), struct(StringType()), r"column value\.a is string, which is no long"),
        (record("int"), struct(LongType()), r"value\.a is bigint, which is no int"),
        (record("long"), struct(LongType(), LongType()), "the schema's R has no field b. Its fields are a"),
        (record("long", "int"), struct(LongType()), "the struct has no field b, which R needs"),
        (record({"type": "array", "items": "int"}), struct(ArrayType(StringType())), r"value\.a\[\] is string"),
        (record({"type": "map", "values": "int"}), struct(MapType(IntegerType(), IntegerType())), "which is no map"),
        (record(["null", "int", "string"]), struct(DateType()), r"value\.a is date, which is no union"),
        (record({"type": "long", "logicalType": "timestamp-micros"}), struct(TimestampNTZType()), "timestamp_ntz"),
    ],
)
def test_a_column_that_does_not_fit_is_told_before_the_first_row(schema: str, column: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        writer(rows_of(value=column), value__schema=schema, topic="t")


def test_fields_that_the_column_lacks_have_their_default_or_are_null() -> None:
    kind = record("long", DEFAULT, ["null", "string"])
    schema = rows_of(value=struct(LongType()))
    assert written(writer(schema, value__schema=kind, topic="t"), schema, [{"value": {"a": 1}}]) == [
        {"value": b"\2\6\0"}
    ]


def test_a_union_without_members_takes_the_first_branch_that_fits() -> None:
    schema = rows_of(value=struct(StringType()))
    made = writer(schema, value__schema=record(["int", "string"]), topic="t")
    assert written(made, schema, [{"value": {"a": "x"}}]) == [{"value": b"\2\2x"}]


def test_the_member_decides_between_branches_that_are_alike() -> None:
    branches = [{"type": "record", "name": name, "fields": [{"name": "z", "type": "int"}]} for name in "PQ"]
    inner = StructType([StructField("z", IntegerType())])
    schema = rows_of(value=struct(StructType([StructField(f"member{place}", inner) for place in range(2)])))
    made = writer(schema, value__schema=record(branches), topic="t")
    rows = [{"value": {"a": {"member0": None, "member1": {"z": 1}}}}, {"value": {"a": {"member0": {"z": 1}}}}]
    assert written(made, schema, rows) == [{"value": b"\2\2"}, {"value": b"\0\2"}]


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("long", LongType(), None),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, StringType(), "Y"),
        (["int", "string"], StructType(MEMBERS.fields[:2]), {"member0": 1, "member1": "x"}),
    ],
)
def test_a_value_that_does_not_fit_fails_the_task(kind: Any, column: Any, value: Any) -> None:
    schema = rows_of(value=struct(column))
    with pytest.raises(WriteError, match="a value does not fit its schema: "):
        written(writer(schema, value__schema=record(kind), topic="t"), schema, [{"value": {"a": value}}])


def test_a_format_of_the_key_needs_a_key() -> None:
    with pytest.raises(ConfigurationError, match=r"option key\.format needs a column named key"):
        writer(
            rows_of(value=struct(LongType())), value__schema=record("long"), key__format="avro", key__schema='"long"'
        )
