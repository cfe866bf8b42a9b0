"""JSON and Protobuf as typed columns, without a JVM: types, bad rows, structs that are written and read again."""

from __future__ import annotations

import base64
import datetime
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.records import BatchBuilder, Columns, Cursor
from pyconsumer.schemas import (
    JSONSerializer,
    MessageField,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SerializationContext,
)
from pyconsumer.schemas.loading import Loader
from pyconsumer.spark import json_values, protobuf_values, registry_formats
from pyconsumer.spark.errors import ReadError, WriteError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.source import KafkaDataSource
from pyconsumer.spark.typed_rows import TypedRows, settle, typed_schema
from pyconsumer.spark.typed_writes import encoded_batches
from pyconsumer.structs import TopicPartition
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import CUSTOMER, SHOP, compiled, shop_class

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
URL = {"schema.registry.url": "http://localhost:8081"}
UTC = datetime.UTC
VALUE = SerializationContext("orders", MessageField.VALUE)

JSON_ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "price": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "customer": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "any": {},
    },
    "required": ["id", "price"],
}
JSON_TYPES = (
    "struct<id:bigint,price:double,paid:boolean,tags:array<string>,counts:map<string,bigint>,"
    "customer:struct<name:string>,any:string>"
)
ALL_TYPES = """
syntax = "proto3";
package all;
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M {
  enum E { ZERO = 0; ONE = 1; }
  message Sub { int32 n = 1; }
  int32 i = 1; uint32 u = 2; uint64 ul = 3; double d = 4; bool b = 5; string s = 6; bytes raw = 7; E e = 8;
  optional sint64 maybe = 9; repeated int32 many = 10; map<int64, Sub> map = 11; Sub sub = 12; repeated Sub subs = 13;
  oneof o { string left = 14; Sub right = 15; }
  google.protobuf.Timestamp at = 16; google.protobuf.Duration took = 17; google.protobuf.Int64Value wrapped = 18;
  google.protobuf.Any any = 19; float f = 20; repeated E all = 21; repeated google.protobuf.Timestamp times = 22;
}
"""
ALL_COLUMNS = (
    "struct<i:int,u:bigint,ul:decimal(20,0),d:double,b:boolean,s:string,raw:binary,e:string,maybe:bigint,"
    "many:array<int>,map:map<bigint,struct<n:int>>,sub:struct<n:int>,subs:array<struct<n:int>>,left:string,"
    "right:struct<n:int>,at:timestamp,took:interval day to second,wrapped:bigint,any:struct<type_url:string,"
    "value:binary>,f:float,all:array<string>,times:array<timestamp>>"
)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """A registry in memory, in the place of that of the options."""
    made = FakeRegistry()
    loaders: dict[Any, Loader[Any]] = {}

    def kept(_: Any, make: Any, *args: Any) -> Loader[Any]:
        return loaders.setdefault((make, args), Loader(make(made, *args)))

    monkeypatch.setattr(registry_formats, "kept_client", lambda _: made)
    for module in (json_values, protobuf_values):
        monkeypatch.setattr(module, "kept_loader", kept)
    registry_formats.kept_columns.cache_clear()
    yield made
    registry_formats.kept_columns.cache_clear()


ATOMS = {
    "int": spark.IntegerType(), "bigint": spark.LongType(), "float": spark.FloatType(), "double": spark.DoubleType(),
    "boolean": spark.BooleanType(), "string": spark.StringType(), "binary": spark.BinaryType(),
    "timestamp": spark.TimestampType(), "interval day to second": spark.DayTimeIntervalType(),
}  # fmt: skip


def spark_type(text: str) -> Any:
    """Return a type of Spark, whose own parser needs a JVM."""
    name, _, rest = text.partition("<")
    if text in ATOMS:
        return ATOMS[text]
    if text.startswith("decimal("):
        return spark.DecimalType(*[int(part) for part in text[8:-1].split(",")])
    parts, depth = [""], 0
    for letter in rest[:-1]:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if name == "struct":
        pairs = [part.split(":", 1) for part in parts]
        return spark.StructType([spark.StructField(field, spark_type(kind)) for field, kind in pairs])
    return {"array": spark.ArrayType, "map": spark.MapType}[name](*map(spark_type, parts))


def columns(*values: bytes | None) -> Columns:
    builder = BatchBuilder()
    for value in values:
        builder.try_append(0, None, value, [])
    return Cursor(TopicPartition("orders", 2), builder.build(100), fetch_offset=100).take_columns(
        1000, with_headers=True
    )


def read(options: dict[str, str], *values: bytes | None) -> pa.RecordBatch:
    parsed = SourceOptions.parse(LEAST | {"columns": "value", "onDecodeError": "null"} | options)
    settled = settle(parsed, ["orders"])
    rows = TypedRows(parsed, settled)
    of = columns(*values)
    found = pa.Table.from_batches(rows.batches(of, len(of)), rows.schema).combine_chunks()
    found.validate(full=True)
    assert to_arrow_schema(typed_schema(parsed, settled), timezone="UTC").equals(found.schema)
    return found


def stages(found: pa.RecordBatch) -> list[Any]:
    return [error and (error["stage"], error["schemaId"]) for error in found["decodeError"].to_pylist()]


def type_of(options: dict[str, str]) -> str:
    parsed = SourceOptions.parse(LEAST | {"columns": "value"} | options)
    found: str = typed_schema(parsed, settle(parsed, ["orders"]))["value"].dataType.simpleString()
    return found


def written(options: dict[str, str], kind: str, *values: Any) -> list[bytes | None]:
    """Return the bytes of a task, with another process's copy of the writer."""
    schema = spark.StructType([spark.StructField("value", spark_type(kind))])
    given = LEAST | {"topic": "orders"} | options
    del given["subscribe"]
    made = KafkaDataSource(options=CaseInsensitiveDict(given)).writer(schema, overwrite=False)
    there = pickle.loads(pickle.dumps(made))
    batch = pa.RecordBatch.from_pylist([{"value": each} for each in values], to_arrow_schema(schema, timezone="UTC"))
    (found,) = encoded_batches(there.written, {"key": None, "value": there.columns.value}, iter([batch]))
    return [row["value"] for row in found.to_pylist()]


class TestJson:
    OPTIONS: ClassVar = {"value.format": "json", **URL}

    def test_the_latest_schema_makes_the_columns(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema(json.dumps(JSON_ORDER), "JSON"))
        write = JSONSerializer(json.dumps(JSON_ORDER), registry)
        assert type_of(self.OPTIONS) == JSON_TYPES
        document = {"id": 1, "price": 2, "tags": ["a"], "counts": {"-type": 1}, "customer": {"name": "Ada"}, "any": [1]}
        avro = registry.add("other", '"long"')
        rows = write(document, VALUE), None, b"{}", b"\0\0\0\0\1{}", b"\0\0\0\0%c{}" % avro, b"\0\0\0\0\x63{}"
        found = read(self.OPTIONS, *rows)
        assert found["value"][0].as_py() == {
            **document, "price": 2.0, "paid": None, "counts": [("-type", 1)], "any": "[1]",
        }  # fmt: skip
        assert found["value"].to_pylist()[1:] == [None] * 5
        assert stages(found) == [None, None, ("framing", None), ("bytes", 1), ("schema", avro), ("schema", 99)]
        assert found["decodeError"][3]["reason"].as_py() == "value: the schema 1: $: 'id' is missing"

    def test_a_bare_document_and_its_parts(self) -> None:
        options = {"value.format": "json", "value.schema": json.dumps(JSON_ORDER), "columns": "value.customer.name"}
        found = read(options, b'{"id": 1, "price": null, "customer": {"name": "Ada"}}', b"x")
        assert found["value"].to_pylist() == [{"customer": {"name": "Ada"}}, None]
        assert stages(found) == [None, ("bytes", None)]
        with pytest.raises(ReadError, match="the record cannot be decoded: value: "):
            read(options | {"onDecodeError": "fail"}, b"x")

    def test_references_travel_with_the_schema(self, registry: FakeRegistry) -> None:
        registry.add("customer", Schema('{"type": "object", "properties": {"name": {"type": "string"}}}', "JSON"))
        order = '{"type": "object", "properties": {"customer": {"$ref": "customer.json"}}}'
        registry.add("orders-value", Schema(order, "JSON", [SchemaReference("customer.json", "customer", 1)]))
        assert type_of(self.OPTIONS) == "struct<customer:struct<name:string>>"

    def test_structs_are_written_and_read_again(self, registry: FakeRegistry) -> None:
        options = self.OPTIONS | {"value.schema": json.dumps(JSON_ORDER)}
        row = {"id": 1, "price": None, "paid": True, "tags": [], "counts": [("a", 1)], "customer": {"name": "ü"}}
        found = written(options, JSON_TYPES, {**row, "any": '{"x": [1.5]}'}, {**row, "tags": None}, None)
        assert registry.calls == ["register"]
        assert found[0] is not None
        assert found[0][:5] == b"\0\0\0\0\1"
        assert json.loads(found[0][5:]) == {
            "id": 1, "price": None, "paid": True, "tags": [], "counts": {"a": 1}, "customer": {"name": "ü"},
            "any": {"x": [1.5]},
        }  # fmt: skip
        assert found[1] is not None
        assert b"tags" not in found[1]
        again = read(self.OPTIONS, *found)["value"].to_pylist()
        assert again == [{**row, "any": '{"x":[1.5]}'}, {**row, "tags": None, "any": None}, None]

    @pytest.mark.parametrize(
        ("kind", "said"),
        [
            ("struct<id:string,price:double>", "value.id is string, which is no integer"),
            ("struct<id:int>", "no field price, which the schema requires"),
            ("struct<id:int,price:int,x:int>", "no property x"),
            ("struct<id:int,price:int,tags:string>", "value.tags is string, which is no array"),
            ("struct<id:int,price:int,any:int>", "which is no JSON text"),
            ("string", "which is no object"),
        ],
    )
    def test_a_column_that_does_not_fit_is_told_before_the_first_row(self, kind: str, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            written({"value.format": "json", "value.schema": json.dumps(JSON_ORDER)}, kind)

    def test_the_whole_schema_is_checked_on_writing(self) -> None:
        options = {"value.format": "json", "value.schema": json.dumps(JSON_ORDER)}
        assert written(options, "struct<id:int,price:int>", {"id": 1, "price": 2}) == [b'{"id":1,"price":2}']
        with pytest.raises(WriteError, match=r"\$\.id: 0 is less than the minimum of 1"):
            written(options, "struct<id:int,price:int>", {"id": 0, "price": 2})


class TestProtobuf:
    OPTIONS: ClassVar = {"value.format": "protobuf", **URL}

    def add_shop(self, registry: FakeRegistry) -> int:
        registry.add("customer", Schema(CUSTOMER, "PROTOBUF"))
        return registry.add(
            "orders-value", Schema(SHOP, "PROTOBUF", [SchemaReference("customer.proto", "customer", 1)])
        )

    def test_the_latest_schema_makes_the_columns(self, registry: FakeRegistry) -> None:
        number = self.add_shop(registry)
        parts = {"columns": "value.id,value.customer.name,value.card"}
        assert type_of(self.OPTIONS | parts) == "struct<id:bigint,customer:struct<name:string>,card:string>"
        kind = shop_class(0)
        order = kind(id=5, customer={"name": "Ada"}, card="x").SerializeToString()
        prefix = b"\0" + number.to_bytes(4, "big")
        found = read(self.OPTIONS | parts, prefix + b"\0" + order, None, prefix + b"\2\2" + order, prefix + b"\0\xff")
        assert found["value"].to_pylist() == [{"id": 5, "customer": {"name": "Ada"}, "card": "x"}, None, None, None]
        assert stages(found) == [None, None, ("bytes", number), ("bytes", number)]

    def test_another_message_type(self, registry: FakeRegistry) -> None:
        number = self.add_shop(registry)
        options = self.OPTIONS | {"value.message": "shop.Other"}
        prefix = b"\0" + number.to_bytes(4, "big")
        found = read(options, prefix + b"\2\2\x0a\1x", prefix + b"\0\x0a\1x")
        assert found["value"].to_pylist() == [{"raw": b"x"}, None]
        with pytest.raises(ConfigurationError, match=r"no message type 'shop\.None'"):
            type_of(self.OPTIONS | {"value.message": "shop.None"})

    @pytest.mark.parametrize("given", [False, True])
    def test_a_message_without_a_path_that_looks_like_one(self, registry: FakeRegistry, given: bool) -> None:
        """The path of the type in question has four indexes, which a message may begin with."""
        many = "".join(f"message N{number} {{}}" for number in range(5))
        text = f"""
        syntax = "proto3"; message A {{}}
        message E {{ {many} message F {{ message G {{ {many} message H {{ string s = 1; }} }} }} }}"""
        number = registry.add("orders-value", Schema(text, "PROTOBUF"))
        prefix = b"\0" + number.to_bytes(4, "big")
        options = self.OPTIONS | {"value.message": "E.F.G.H"} | ({"value.schema": text} if given else {})
        path = b"\x08\2\x0a\0\x0a"
        found = read(options, prefix + path + b"\x0a\5hello", prefix + path + b"\x08\1\x0a\5hello", None)
        assert found["value"].to_pylist() == ([{"s": "hello"}, None, None])
        assert stages(found) == [None, ("framing", None), None]

    @pytest.mark.parametrize("form", ["text", "file", "set"])
    def test_all_types_are_written_and_read_again(self, form: str) -> None:
        file = compiled(ALL_TYPES)
        schema = {
            "text": ALL_TYPES,
            "file": file.base64,
            "set": base64.b64encode(file.descriptor_set()).decode(),
        }[form]
        options = {"value.format": "protobuf", "value.schema": schema}
        assert type_of(options) == ALL_COLUMNS
        at = datetime.datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC)
        row: dict[str, Any] = {
            "i": -1, "u": 2**32 - 1, "ul": Decimal(2**64 - 1), "d": 0.5, "b": True, "s": "ü", "raw": b"\xff",
            "e": "ONE", "maybe": -(2**63), "many": [1, -2], "map": [(7, {"n": 1})], "sub": {"n": 3},
            "subs": [{"n": 4}, {"n": 0}], "left": None, "right": {"n": 5}, "at": at,
            "took": datetime.timedelta(seconds=-1, microseconds=5),
            "wrapped": 0, "any": {"type_url": "x", "value": b"y"}, "f": 0.25, "all": ["ONE", "9"], "times": [at],
        }  # fmt: skip
        found = written(options, ALL_COLUMNS, row, dict.fromkeys(row), None)
        assert found[1:] == [b"", None]
        assert read(options, found[0])["value"].to_pylist() == [row]
        message = file.message([0]).FromString(found[0])
        assert (message.took.seconds, message.took.nanos, message.ul) == (0, -999_995_000, 2**64 - 1)

    def test_a_schema_in_the_options_is_registered_and_its_path_is_written(self, registry: FakeRegistry) -> None:
        text = 'syntax = "proto3"; message A {} message B { message C { int32 n = 1; } }'
        options = self.OPTIONS | {"value.schema": text, "value.message": "B.C"}
        assert written(options, "struct<n:int>", {"n": 1}) == [b"\0\0\0\0\1\4\2\0\x08\1"]
        assert registry.calls == ["register"]
        assert read(options, b"\0\0\0\0\1\4\2\0\x08\1", b"\0\0\0\0\1\0\x08\2")["value"].to_pylist() == [
            {"n": 1},
            {"n": 2},
        ]

    def test_the_same_bytes_as_the_serializer(self, registry: FakeRegistry) -> None:
        file = compiled('syntax = "proto3"; message A { int32 n = 1; repeated string s = 2; }')
        kind = file.message([0])
        registry.add("orders-value", Schema(file.base64, "PROTOBUF"))
        expected = ProtobufSerializer(kind, registry)(kind(n=1, s=["a", "b"]), VALUE)
        assert written(self.OPTIONS, "struct<n:int,s:array<string>>", {"n": 1, "s": ["a", "b"]}) == [expected]

    @pytest.mark.parametrize(
        ("kind", "said"),
        [
            ("struct<x:int>", "all.M has no field x"),
            ("struct<i:bigint>", "value.i is bigint, which does not fit the field all.M.i"),
            ("struct<ul:decimal(20,1)>", "does not fit the field all.M.ul"),
            ("struct<many:int>", "does not fit the field all.M.many"),
            ("struct<at:string>", "does not fit google.protobuf.Timestamp"),
            ("struct<e:int>", "does not fit all.M.E"),
            ("string", "no struct for all.M"),
        ],
    )
    def test_a_column_that_does_not_fit_is_told_before_the_first_row(self, kind: str, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            written({"value.format": "protobuf", "value.schema": compiled(ALL_TYPES).base64}, kind)

    @pytest.mark.parametrize(
        ("kind", "row", "said"),
        [
            ("struct<e:string>", {"e": "TWO"}, "'TWO' is no name of the enum all.M.E"),
            ("struct<many:array<int>>", {"many": [None]}, r"an item of \.many is null"),
            ("struct<left:string,right:struct<n:int>>", {"left": "", "right": {}}, "of the oneof o is set"),
            ("struct<u:bigint>", {"u": -1}, "does not fit its schema"),
        ],
    )
    def test_a_value_that_does_not_fit_fails_the_task(self, kind: str, row: Any, said: str) -> None:
        with pytest.raises(WriteError, match=said):
            written({"value.format": "protobuf", "value.schema": compiled(ALL_TYPES).base64}, kind, row)

    def test_a_required_field_is_needed(self) -> None:
        text = 'syntax = "proto2"; message A { required int32 n = 1; }'
        with pytest.raises(WriteError, match="the message cannot be written"):
            written({"value.format": "protobuf", "value.schema": compiled(text).base64}, "struct<n:int>", {"n": None})


def test_a_message_needs_the_format_protobuf() -> None:
    for options, said in (
        ({"value.message": "a"}, "value.message needs value.format"),
        ({"value.message": "a", "value.format": "json", **URL}, "is for value.format=protobuf, not json"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            SourceOptions.parse(LEAST | options)


@pytest.mark.parametrize(("form", "schema"), [("json", "x"), ("json", "1"), ("protobuf", "x!"), ("protobuf", "AAAA")])
def test_a_bad_schema_of_the_options_is_named(form: str, schema: str) -> None:
    with pytest.raises(ConfigurationError, match=r"option value\.schema: "):
        type_of({"value.format": form, "value.schema": schema})
