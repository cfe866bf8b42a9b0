"""Typed columns without a JVM: the schema for Spark, the record batches, bad rows, the registry."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType, _parse_datatype_json_string

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError
from pyconsumer.protocol.avro import ColumnsDecoder
from pyconsumer.protocol.records import BatchBuilder, Columns, Cursor
from pyconsumer.schemas import AvroDeserializer, Schema, SchemaReference
from pyconsumer.schemas.loading import Loader
from pyconsumer.spark import avro_values, layout_columns, registry_formats
from pyconsumer.spark.errors import ReadError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.source import KafkaDataSource
from pyconsumer.spark.typed_rows import TypedRows, raw_columns, settle, settled_in, typed_schema
from pyconsumer.spark.typed_values import Settled
from pyconsumer.structs import TopicPartition
from tests.support.fake_registry import FakeRegistry

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", "value.format": "avro"}
URL = {"schema.registry.url": "http://localhost:8081"}
TIME = 1_700_000_000_123
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "int", "default": 9}]}  # type: ignore[misc]


def field(kind: Any) -> str:
    """The schema of a record with one field ``x``."""
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})


def options_of(**extra: str) -> SourceOptions:
    return SourceOptions.parse(LEAST | {name.replace("__", "."): value for name, value in extra.items()})


def with_registry(**extra: str) -> SourceOptions:
    return SourceOptions.parse(LEAST | URL | {name.replace("__", "."): value for name, value in extra.items()})


def columns(*values: bytes | None, key: bytes | None = None, headers: Any = ()) -> Columns:
    builder = BatchBuilder()
    for value in values:
        builder.try_append(TIME, key, value, list(headers))
    return Cursor(TopicPartition("orders", 2), builder.build(100), fetch_offset=100).take_columns(
        1000, with_headers=True
    )


def read(options: SourceOptions, settled: dict[str, Settled], of: Columns) -> pa.RecordBatch:
    rows = TypedRows(options, settled)
    found = pa.Table.from_batches(rows.batches(of, len(of)), rows.schema).combine_chunks()
    found.validate(full=True)
    # Spark compares the whole schema, with the names and the nulls of nested fields.
    assert to_arrow_schema(typed_schema(options, settled), timezone="UTC").equals(found.schema)
    return found


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """A registry in memory, in the place of that of the options."""
    made = FakeRegistry()
    writers: Loader[Any] = Loader(AvroDeserializer(made).load_writer)
    monkeypatch.setattr(registry_formats, "kept_client", lambda _: made)
    monkeypatch.setattr(avro_values, "kept_loader", lambda *_: writers)
    registry_formats.kept_columns.cache_clear()
    yield made
    registry_formats.kept_columns.cache_clear()
    made.open.set()


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


# -- types -------------------------------------------------------------------------------------------------------------

UTC = datetime.UTC
LONG = {"type": "long"}


@pytest.mark.parametrize(
    ("kind", "spark", "data", "value"),
    [
        ("boolean", "boolean not null", b"\1", True),
        ("int", "int not null", b"\x03", -2),
        (["null", "long"], "bigint", b"\0", None),
        (["int", "long"], "bigint not null", b"\2\4", 2),
        (["null", "double", "float"], "double", b"\4" + b"\0\0\0\x3f", 0.5),
        ("float", "float not null", b"\0\0\0\x3f", 0.5),
        ("string", "string not null", b"\2a", "a"),
        ("bytes", "binary not null", b"\2a", b"a"),
        ("null", "void", b"", None),
        ({"type": "fixed", "name": "F", "size": 2}, "binary not null", b"ab", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "string not null", b"\2", "Y"),
        ({"type": "array", "items": ["null", "int"]}, "array<int> not null", b"\4\0\2\4\0", [None, 2]),
        ({"type": "map", "values": "int"}, "map<string,int> not null", b"\2\2k\4\0", [("k", 2)]),
        (["int", "string"], "struct<member0:int,member1:string> not null", b"\2\2a", {"member0": None, "member1": "a"}),
        (["null", "int", "string"], "struct<member0:int,member1:string>", b"\0", None),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            "decimal(5,2) not null",
            b"\2\x7f",
            Decimal("1.27"),
        ),
        ({"type": "int", "logicalType": "date"}, "date not null", b"\2", datetime.date(1970, 1, 2)),
        ({"type": "int", "logicalType": "time-millis"}, "int not null", b"\2", 1),
        ({**LONG, "logicalType": "time-micros"}, "bigint not null", b"\2", 1),
        (
            {**LONG, "logicalType": "timestamp-millis"},
            "timestamp not null",
            b"\x04",
            datetime.datetime(1970, 1, 1, 0, 0, 0, 2000, UTC),
        ),
        (
            {**LONG, "logicalType": "timestamp-micros"},
            "timestamp not null",
            b"\x04",
            datetime.datetime(1970, 1, 1, 0, 0, 0, 2, UTC),
        ),
        (
            ["null", {**LONG, "logicalType": "local-timestamp-millis"}],
            "timestamp_ntz",
            b"\2\x04",
            datetime.datetime(1970, 1, 1, 0, 0, 0, 2000),
        ),
        (
            {**LONG, "logicalType": "local-timestamp-micros"},
            "timestamp_ntz not null",
            b"\x04",
            datetime.datetime(1970, 1, 1, 0, 0, 0, 2),
        ),
        (
            {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
            "binary not null",
            b"\1\0\0\0\2\0\0\0\3\0\0\0",
            b"\1\0\0\0\2\0\0\0\3\0\0\0",
        ),
        (
            {"type": "string", "logicalType": "uuid"},
            "string not null",
            b"\x48" + b"00000000-0000-0000-0000-000000000005",
            "00000000-0000-0000-0000-000000000005",
        ),
        ({"type": "int", "logicalType": "nonsense"}, "int not null", b"\2", 1),
    ],
)
def test_each_type_has_sparks_type_and_value(kind: Any, spark: str, data: bytes, value: Any) -> None:
    options = options_of(value__schema=field(kind), columns="value")
    settled = settle(options, ["orders"])
    found = typed_schema(options, settled)["value"].dataType["x"]
    assert found.dataType.simpleString() + ("" if found.nullable else " not null") == spark
    # In lists, where the numbers are children, too.
    assert read(options, settled, columns(data, None, data))["value"].to_pylist() == [{"x": value}, None, {"x": value}]
    if kind != "null":
        within = options_of(value__schema=field({"type": "array", "items": kind}), columns="value")
        batch = read(within, settle(within, ["orders"]), columns(b"\2" + data + b"\0"))
        assert batch["value"].to_pylist() == [{"x": [value]}]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            {**LONG, "logicalType": "timestamp-nanos"},
            "value.x is a timestamp-nanos.*give a value.schema in which it is a",
        ),
        ({**LONG, "logicalType": "local-timestamp-nanos"}, "plain long, or leave it out with columns$"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 39},
            "39 digits.*value.schema in which it is plain bytes",
        ),
        (["null", "R"], "value.x is a R within a R.*leave it out with columns$"),
    ],
)
def test_types_without_a_column_are_refused_with_the_ways_out(kind: Any, said: str) -> None:
    options = options_of(value__schema=field(kind))
    with pytest.raises(ConfigurationError, match=said):
        typed_schema(options, settle(options, ["orders"]))


def test_milliseconds_beyond_sparks_range_are_a_bad_row() -> None:
    for sign in (1, -1):
        number = sign * (2**63 // 1000 + 1)
        zigzag = (number << 1) ^ (number >> 63)
        data = bytes([*((zigzag >> 7 * i & 127) | 128 for i in range(8)), zigzag >> 56])
        options = options_of(
            value__schema=field({**LONG, "logicalType": "timestamp-millis"}), columns="value", onDecodeError="null"
        )
        (row,) = read(options, settle(options, ["orders"]), columns(data)).to_pylist()
        assert row["value"] is None
        assert "more than 64 bits" in row["decodeError"]["reason"]


def test_milliseconds_stay_milliseconds_where_the_writer_has_plain_numbers(registry: FakeRegistry) -> None:
    registry.add("orders-value", field("long"))
    options = with_registry(value__schema=field({**LONG, "logicalType": "timestamp-millis"}), columns="value")
    found = read(options, settle(options, ["orders"]), columns(framed(1, b"\4")))
    assert found["value"].to_pylist()[0]["x"].microsecond == 2000


# -- the schema is settled once ----------------------------------------------------------------------------------------


def through_spark(schema: StructType) -> Any:
    """A schema as Spark hands it over later."""
    return _parse_datatype_json_string(schema.json())


def test_the_latest_version_is_settled_once(registry: FakeRegistry) -> None:
    first = registry.add("orders-value", json.dumps(ORDER))
    options = with_registry()
    schema = typed_schema(options, settle(options, ["orders"]))
    assert schema["value"].dataType.simpleString() == "struct<id:bigint,note:string>"
    registry.add("orders-value", json.dumps(WIDER))
    calls = list(registry.calls)
    assert calls == ["latest"]
    settled = settled_in(options, through_spark(schema))
    assert settled["value"].schema_id == first
    assert typed_schema(options, settled) == schema
    # Values of the newer schema are read as the settled one.
    batch = read(options, settled, columns(framed(1, b"\2\0"), framed(2, b"\4\0\6")))
    assert batch["value"].to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": None}]
    assert registry.calls == [*calls, "id 1", "id 2"]


@pytest.mark.parametrize(
    ("pin", "kind", "calls"),
    [
        ({"value__schema__id": "1"}, "struct<id:bigint,note:string>", ["id 1"]),
        ({"value__schema__version": "1"}, "struct<id:bigint,note:string>", ["version 1"]),
        ({"value__schema": json.dumps(WIDER)}, "struct<id:bigint,note:string,price:int>", []),
        ({}, "struct<id:bigint,note:string,price:int>", ["latest"]),
    ],
)
def test_pins(registry: FakeRegistry, pin: dict[str, str], kind: str, calls: list[str]) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    registry.add("orders-value", json.dumps(WIDER))
    options = with_registry(**pin)
    settled = settle(options, ["orders"])
    assert registry.calls == calls
    assert typed_schema(options, settled)["value"].dataType.simpleString() == kind
    assert not settled["value"].is_bare
    wanted = {"id": 1, "note": None, **({"price": 9} if "price" in kind else {})}
    assert read(options, settled, columns(framed(1, b"\2\0")))["value"].to_pylist() == [wanted]


def test_references_travel_with_the_schema(registry: FakeRegistry) -> None:
    registry.add("money", json.dumps({"type": "fixed", "name": "Money", "size": 1}))
    registry.add("orders-value", Schema(field("Money"), "AVRO", [SchemaReference("Money", "money", 1)]))
    options = with_registry(columns="value")
    settled = settled_in(options, through_spark(typed_schema(options, settle(options, ["orders"]))))
    assert read(options, settled, columns(framed(2, b"m")))["value"].to_pylist() == [{"x": b"m"}]


def test_several_topics_with_one_schema_and_with_two(registry: FakeRegistry) -> None:
    registry.add("a-value", json.dumps(ORDER))
    registry.add("b-value", json.dumps(ORDER))
    registry.add("c-value", json.dumps(WIDER))
    assert settle(with_registry(), ["b", "a"])["value"].schema_id == 1
    with pytest.raises(
        ConfigurationError, match=r"topics a, c have different schemas.*value\.schema\.id or value\.schema"
    ):
        settle(with_registry(), ["c", "a"])
    assert settle(with_registry(value__schema__id="2"), ["c", "a"])["value"].schema_id == 2
    with pytest.raises(ConfigurationError, match="topic d has no schema of the values: the subject d-value is not"):
        settle(with_registry(), ["d"])
    with pytest.raises(ConfigurationError, match="subject a-value, version 2, is not"):
        settle(with_registry(value__schema__version="2"), ["a"])
    with pytest.raises(ConfigurationError, match="no topic is there yet"):
        settle(with_registry(), [])
    with pytest.raises(ConfigurationError, match=r"option value\.schema\.id: "):
        settle(with_registry(value__schema__id="77"), ["a"])
    with pytest.raises(ConfigurationError, match=r"option value\.schema: "):
        settle(with_registry(value__schema="{}"), ["a"])


def test_a_schema_of_another_format_is_refused(registry: FakeRegistry) -> None:
    registry.add("orders-value", Schema("{}", "JSON"))
    for pin in ({}, {"value__schema__id": "1"}):
        with pytest.raises(ConfigurationError, match="of the format JSON"):
            settle(with_registry(**pin), ["orders"])


def test_another_schema_of_the_user_is_refused() -> None:
    options = options_of(value__schema=field("int"), columns="value")
    made = typed_schema(options, settle(options, ["orders"]))
    bare = StructType([StructField("value", made["value"].dataType)])  # without our note
    other = StructType([StructField("value", IntegerType(), True, made["value"].metadata)])
    for schema in (bare, other):
        with pytest.raises(ConfigurationError, match="cannot change the columns"):
            settled_in(options, schema)
    source = KafkaDataSource(options=CaseInsensitiveDict(LEAST | {"value.schema": field("int"), "columns": "value"}))
    assert source.schema() == made
    assert source.reader(through_spark(made)).settled == source.streamReader(through_spark(made)).settled
    with pytest.raises(ConfigurationError, match="cannot change the columns"):
        source.reader(bare)


# -- rows --------------------------------------------------------------------------------------------------------------


def test_keys_and_values_parts_and_raw_columns(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(WIDER))
    registry.add("orders-key", '"long"')
    options = with_registry(
        key__format="avro", columns="offset,value.note,value_bytes,key,topic", includeHeaders="true"
    )
    settled = settle(options, ["orders"])
    assert set(raw_columns(options)) >= {"key", "value", "headers"}
    value = framed(1, b"\2\2\2n\6")
    found = read(options, settled, columns(value, None, key=framed(2, b"\x0e"), headers=[("h", b"1")])).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (100, {"note": "n"}, value, 7, "orders", [{"key": "h", "value": b"1"}]),
        (101, None, None, 7, "orders", [{"key": "h", "value": b"1"}]),
    ]


def test_bad_rows_are_null_with_their_reason(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    registry.add("other", Schema("{}", "JSON"))
    registry.add("stranger", '"string"')
    options = with_registry(onDecodeError="null", includeBytes="true", columns="offset,value")
    good = framed(1, b"\2\0")
    bad = [b"", b"{}", framed(1, b"\2"), framed(1, b"\2\0\0"), framed(9, b"\2\0"), framed(2, b"\2"), framed(3, b"\2a")]
    found = read(options, settle(options, ["orders"]), columns(good, *bad, None, good)).to_pylist()
    assert [row["offset"] for row in found] == list(range(100, 110))
    assert [row["value_bytes"] for row in found] == [good, *bad, None, good]
    assert [row["value"] for row in found] == [{"id": 1, "note": None}, *[None] * 8, {"id": 1, "note": None}]
    errors = [row["decodeError"] for row in found]
    assert [errors[0], *errors[8:]] == [None, None, None]
    assert [(one["stage"], one["schemaId"]) for one in errors[1:8]] == [
        ("framing", None),
        ("framing", None),
        ("bytes", 1),
        ("bytes", 1),
        ("schema", 9),
        ("schema", 2),
        ("schema", 3),
    ]
    reasons = [one["reason"] for one in errors[1:8]]
    said = ("empty", "7b 7d", "note: the bytes end", "1 bytes are left", "does not have the schema 9", "JSON", "string")
    for reason, part in zip(reasons, said, strict=True):
        assert reason.startswith("value: ")
        assert part in reason


def test_the_key_and_the_value_may_be_bad(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    registry.add("orders-key", '"long"')
    options = with_registry(key__format="avro", onDecodeError="null", columns="key,value")
    settled = settle(options, ["orders"])
    good = framed(1, b"\2\0")
    (both,) = read(options, settled, columns(b"v", key=b"k")).to_pylist()
    assert both["decodeError"]["reason"].startswith("key: ")
    (one,) = read(options, settled, columns(good, key=b"k")).to_pylist()
    assert (one["key"], one["value"]["id"], one["decodeError"]["stage"]) == (None, 1, "framing")


@pytest.mark.parametrize("order", ["key,value", "value,key"])
def test_of_two_bad_sides_the_key_is_named_in_any_order_of_the_columns(order: str) -> None:
    bare = {"key__format": "avro", "key__schema": field("int"), "value__schema": field("int")}
    options = options_of(**bare, onDecodeError="null", columns=order)
    found = read(options, settle(options, ["orders"]), columns(b"\2\2", key=b"\2\2"))["decodeError"].to_pylist()
    assert found[0]["reason"].startswith("key: ")


def test_the_ids_that_records_name(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    registry.add("orders-value", json.dumps(WIDER))
    options = with_registry(onDecodeError="null", includeSchemaId="true", columns="offset,value")
    rows = columns(
        framed(2, b"\2\0\2"), None, framed(1, b"\2\0"), framed(2**31, b""), b"\0\0\0\1", b"{}", b"", framed(7, b"")
    )
    found = read(options, settle(options, ["orders"]), rows)
    assert found.schema.names == ["offset", "value", "value_schema_id", "decodeError"]
    assert found["value_schema_id"].to_pylist() == [2, None, 1, None, None, None, None, 7]


def test_a_header_that_names_the_schema_comes_before_the_bytes(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    options = with_registry(onDecodeError="null", columns="value_schema_id,value")
    settled = settle(options, ["orders"])
    for value, found in ((b"\1", None), (None, 1)):
        headers = [("other", value), *([] if value is None else [("__value_schema_id", value)])]
        rows = read(options, settled, columns(framed(1, b"\2\0"), headers=headers))
        assert rows["value_schema_id"].to_pylist() == [found]


def test_bare_values_have_no_id() -> None:
    options = options_of(value__schema=field("int"), includeSchemaId="true", columns="value")
    found = read(options, settle(options, ["orders"]), columns(b"\2", None))
    assert found["value_schema_id"].to_pylist() == [None, None]


@pytest.mark.parametrize(("key", "value", "side"), [(b"k", None, "key"), (None, b"v", "value")])
def test_a_bad_row_fails_the_task_and_is_named(registry: FakeRegistry, key: Any, value: Any, side: str) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    registry.add("orders-key", '"long"')
    options = with_registry(key__format="avro")
    good = framed(1, b"\2\0")
    rows = columns(good, good, value, key=key) if side == "value" else columns(value, key=key)
    at = 102 if side == "value" else 100
    with pytest.raises(
        ReadError, match=f"orders-2 at offset {at}: the record cannot be decoded: {side}: .*onDecodeError"
    ):
        read(options, settle(options, ["orders"]), rows)


def test_a_batch_that_becomes_large_is_cut(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    registry.add("orders-key", '"long"')
    options = with_registry(key__format="avro", onDecodeError="null", columns="offset,key,value")
    settled = settle(options, ["orders"])
    values = [framed(1, bytes([2 * row, 0])) if row % 7 else b"bad" for row in range(40)]
    whole = read(options, settled, columns(*values, key=framed(2, b"\x0e")))
    real = ColumnsDecoder
    monkeypatch.setattr(layout_columns, "ColumnsDecoder", lambda of: real(of, most_held=500))
    rows = TypedRows(options, settled)
    batches = list(rows.batches(columns(*values, key=framed(2, b"\x0e")), 40))
    assert len(batches) >= 3
    assert pa.Table.from_batches(batches).to_pylist() == whole.to_pylist()
    bad = [row["offset"] - 100 for row in whole.to_pylist() if row["decodeError"]]
    assert bad == [row for row in range(40) if row % 7 == 0]


def test_an_id_in_a_header(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    options = with_registry(onDecodeError="null", columns="value")
    guid = b"\1" + (1).to_bytes(16, "big")
    found = read(options, settle(options, ["orders"]), columns(b"\2\0", b"\2", headers=[("__value_schema_id", guid)]))
    good, bad = found.to_pylist()
    assert good == {"value": {"id": 1, "note": None}, "decodeError": None}
    assert (bad["decodeError"]["stage"], bad["decodeError"]["schemaId"]) == ("bytes", None)


# -- the registry ------------------------------------------------------------------------------------------------------


def test_a_task_waits_for_a_slow_registry(registry: FakeRegistry) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    options = with_registry(columns="value")
    settled = settle(options, ["orders"])
    registry.open.clear()
    threading.Timer(0.2, registry.open.set).start()
    assert read(options, settled, columns(framed(1, b"\2\0"))).num_rows == 1


def test_a_registry_that_is_down_for_a_while(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_columns, "_PAUSE_S", 0.01)
    registry.add("orders-value", json.dumps(ORDER))
    options = with_registry(columns="value")
    settled = settle(options, ["orders"])
    registry.error = OSError("down")

    def recover() -> None:
        registry.error = None

    threading.Timer(0.2, recover).start()
    assert read(options, settled, columns(framed(1, b"\2\0"))).num_rows == 1


@pytest.mark.parametrize("held", [True, False])
def test_a_registry_that_stays_down_fails_the_task(registry: FakeRegistry, held: bool) -> None:
    registry.add("orders-value", json.dumps(ORDER))
    # Never a null value: a registry that is down says nothing about the record.
    options = with_registry(onDecodeError="null", kafkaConsumer__pollTimeoutMs="300")
    settled = settle(options, ["orders"])
    if held:
        registry.open.clear()
    else:
        registry.error = OSError("down")
    with pytest.raises(ReadError, match="the schemas of its values are missing") as caught:
        read(options, settled, columns(framed(1, b"\2\0")))
    assert isinstance(caught.value.__cause__, SchemaUnavailableError)
