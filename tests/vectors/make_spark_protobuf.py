"""Makes ``spark_protobuf.json``: the types and values that Spark's ``from_protobuf`` gives for a corpus of messages.

``python -m tests.vectors.make_spark_protobuf JAR...`` needs Java, PySpark, and three jars: spark-protobuf,
protobuf-java and protobuf-java-util. Maven serves no spark-protobuf for Scala 2.13 here, so no test makes the file
again.
"""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyconsumer.protocol.protobuf.files import ProtoFile, parse_file

__all__ = ["CORPUS", "NEVER_NULL", "OPTIONS", "VECTORS", "corpus", "parts", "plain"]

#: A type that is never null ends so.
NEVER_NULL: Final = "not null"
VECTORS = Path(__file__).with_name("spark_protobuf.json")

_SCALARS: Final = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64"),
    *("sfixed32", "sfixed64", "bool", "string", "bytes"),
)
_KEYS: Final = tuple(kind for kind in _SCALARS if kind not in ("double", "float", "bytes"))
_WRAPPERS: Final = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")


def _numbered(fields: list[str]) -> str:
    return " ".join(f"{field} = {number};" for number, field in enumerate(fields, 1))


_ALL: Final = [
    *(f"{kind} x_{kind}" for kind in _SCALARS),
    *(f"optional {kind} maybe_{kind}" for kind in _SCALARS),
    *(f"repeated {kind} many_{kind}" for kind in _SCALARS),
    *(f"map<{kind}, {kind}> map_{kind}" for kind in _KEYS),
]
_WRAPPED: Final = [
    f"{label}google.protobuf.{kind}Value {name}_{kind.lower()}{end}"
    for label, name, end in (("", "one", ""), ("repeated ", "many", ""), ("map<string, ", "map", ""))
    for kind in _WRAPPERS
]
_WRAPPED_FIELDS: Final = [
    field.replace("Value ", "Value> ") if field.startswith("map<") else field for field in _WRAPPED
]

#: Files by name.
CORPUS: Final[dict[str, str]] = {
    "scalars.proto": f"""
syntax = "proto3"; package scalars;
message All {{ {_numbered(_ALL)} }}
""",
    "shapes.proto": """
syntax = "proto3"; package shapes;
enum Top { ZERO = 0; ONE = 1; BELOW = -1; }
message Aliased { enum E { option allow_alias = true; A = 0; B = 0; C = 1; } E e = 1; repeated E many = 2; }
message Outer {
  message Inner { int32 n = 1; message Deep { string s = 1; map<bool, Leaf> leaves = 2; } Deep deep = 2; }
  message Leaf { int32 n = 1; optional string s = 2; }
  Top top = 1; repeated Top tops = 2; map<string, Top> by_name = 3; optional Top maybe_top = 4;
  Leaf leaf = 5; repeated Leaf leaves = 6; map<int64, Leaf> by_number = 7; optional Leaf maybe_leaf = 8;
  Inner inner = 9; Inner.Deep deep = 10;
  oneof choice { string text = 11; Leaf part = 12; Top kind = 13; uint64 big = 14; bytes raw = 15; }
  oneof lone { int32 alone = 16; }
  int32 camelCase = 17; int32 UPPER = 18; int32 high_number = 536870911;
}
""",
    "known.proto": f"""
syntax = "proto3"; package known;
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Wrapped {{ {_numbered(_WRAPPED_FIELDS)} }}
message Times {{
  google.protobuf.Timestamp at = 1; repeated google.protobuf.Timestamp times = 2;
  map<string, google.protobuf.Timestamp> by_name = 3;
  google.protobuf.Duration took = 4; repeated google.protobuf.Duration spans = 5;
  oneof choice {{ google.protobuf.Timestamp then = 6; google.protobuf.Duration since = 7; }}
}}
message Anys {{ google.protobuf.Any any = 1; repeated google.protobuf.Any many = 2;
  map<string, google.protobuf.Any> by_name = 3; }}
message Mask {{ google.protobuf.FieldMask mask = 1; int32 n = 2; }}
message WithEmpty {{ google.protobuf.Empty nothing = 1; repeated google.protobuf.Empty many = 2;
  map<string, google.protobuf.Empty> by_name = 3; int32 n = 4; }}
message OnlyEmpty {{ google.protobuf.Empty nothing = 1; }}
message WithStruct {{ google.protobuf.Struct struct = 1; int32 n = 2; }}
message WithValue {{ google.protobuf.Value value = 1; int32 n = 2; }}
message WithList {{ google.protobuf.ListValue list = 1; int32 n = 2; }}
""",
    "lookalikes.proto": """
syntax = "proto3"; package lookalikes;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Int64Value { int64 value = 1; }
message Any { string type_url = 1; bytes value = 2; }
message All { Timestamp at = 1; Duration took = 2; Int64Value number = 3; Any any = 4; }
""",
    "empty.proto": """
syntax = "proto3"; package empty;
message None {}
message Within { None none = 1; int32 n = 2; oneof choice { None nothing = 3; int32 something = 4; } }
message Nested { Alone alone = 1; int32 n = 2; message Alone { None none = 1; } }
""",
    "two.proto": """
syntax = "proto2"; package two;
enum Closed { A = 1; B = 5; }
enum Zeroed { NONE = 0; SOME = 2; }
message All {
  required int32 id = 1; required string name = 2; optional int64 plain = 3; optional Closed kind = 4;
  optional int32 seven = 5 [default = 7]; optional string text = 6 [default = "a text"];
  optional bytes raw = 7 [default = "\\377\\000"]; optional Closed five = 8 [default = B];
  optional double inf = 9 [default = inf]; optional bool yes = 10 [default = true];
  optional uint64 most = 11 [default = 18446744073709551615];
  repeated int32 unpacked = 12; repeated int32 packed = 13 [packed = true]; repeated Closed kinds = 14;
  optional group Lone = 15 { optional int32 n = 1; required string s = 2; }
  repeated group Many = 16 { optional int32 n = 1; }
  oneof choice { int32 first = 17 [default = 3]; string second = 18; Closed third = 19; }
  map<string, Zeroed> by_name = 20;
  optional uint32 half = 21 [default = 4294967295];
  extensions 100 to 200;
}
extend All { optional string more = 100; }
message Needed { required All all = 1; repeated Part parts = 2; message Part { required int32 n = 1; } }
""",
    "recursive.proto": """
syntax = "proto3"; package recursive;
message Node { int32 n = 1; Node next = 2; }
message Tree { int32 n = 1; repeated Tree children = 2; }
message Named { int32 n = 1; map<string, Named> by_name = 2; }
message Left { int32 n = 1; Right right = 2; }
message Right { int32 n = 1; Left left = 2; }
message Twice { Leaf one = 1; Leaf other = 2; repeated Leaf more = 3; message Leaf { int32 n = 1; } }
message Mixed { oneof choice { Mixed mixed = 1; int32 n = 2; } }
message Within { int32 n = 1; message Deep { string s = 1; repeated Within back = 2; } Deep deep = 2; }
""",
    "edition.proto": """
edition = "2023"; package edition;
enum Open { O_ZERO = 0; O_ONE = 1; }
enum Shut { option features.enum_type = CLOSED; S_ONE = 1; S_TWO = 2; }
message All {
  int32 explicit = 1; int32 implicit = 2 [features.field_presence = IMPLICIT];
  int32 needed = 3 [features.field_presence = LEGACY_REQUIRED]; int32 seven = 4 [default = 7];
  Open open = 5; Shut shut = 6; repeated int32 packed = 7;
  repeated int32 expanded = 8 [features.repeated_field_encoding = EXPANDED];
  Part part = 9 [features.message_encoding = DELIMITED]; string loose = 10 [features.utf8_validation = NONE];
  message Part { int32 n = 1; }
}
""",
}

#: Options of ``from_protobuf`` by a name. Those of ``asked`` come closest to our columns.
OPTIONS: Final[dict[str, dict[str, str]]] = {
    "default": {},
    "asked": {
        "upcast.unsigned.ints": "true",
        "unwrap.primitive.wrapper.types": "true",
        "emit.default.values": "true",
    },
    "enums": {"enums.as.ints": "true"},
    "anys": {"convert.any.fields.to.json": "true"},
    "depth": {"recursive.fields.max.depth": "3"},
    "empty": {"retain.empty.message.types": "true"},
}

_MOST: Final = {
    "double": 1e308, "float": 0.1, "int32": 2**31 - 1, "int64": 2**63 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1,
    "sint32": 2**31 - 1, "sint64": 2**63 - 1, "fixed32": 2**32 - 1, "fixed64": 2**64 - 1, "sfixed32": 2**31 - 1,
    "sfixed64": 2**63 - 1, "bool": True, "string": "a \u00fc\U0001f600", "bytes": "/wA=",
}  # fmt: skip
_LEAST: Final = {
    "double": "-Infinity", "float": "NaN", "int32": -(2**31), "int64": -(2**63), "uint32": 0, "uint64": 0,
    "sint32": -(2**31), "sint64": -(2**63), "fixed32": 0, "fixed64": 0, "sfixed32": -(2**31), "sfixed64": -(2**63),
    "bool": False, "string": "", "bytes": "",
}  # fmt: skip


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scalars(values: dict[str, Any]) -> dict[str, Any]:
    return {
        **{f"x_{kind}": value for kind, value in values.items()},
        **{f"maybe_{kind}": value for kind, value in values.items()},
        **{f"many_{kind}": [value, value] for kind, value in values.items()},
        **{f"map_{kind}": {_key(values[kind]): values[kind]} for kind in _KEYS},
    }


#: Messages: the type, and the value in Protobuf's JSON, or its bytes.
VALUES: Final[list[tuple[str, dict[str, Any] | bytes]]] = [
    ("scalars.All", _scalars(_MOST)),
    ("scalars.All", _scalars(_LEAST)),
    ("scalars.All", {}),
    ("scalars.All", b"\x18\1\x18\2"),  # a field twice
    ("scalars.All", b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"),  # -1 in ten bytes
    ("scalars.All", b"\x18\x81\x80\x80\x80\x10"),  # more than 32 bits
    ("scalars.All", b"\x68\2"),  # a boolean of 2
    ("scalars.All", b"\x1d\1\0\0\0\x18\5"),  # another wire type: an unknown field
    ("scalars.All", b"\x18"),  # cut off
    ("scalars.All", b"\x72\1\xff"),  # no UTF-8
    ("shapes.Outer", {}),
    ("shapes.Outer", {
        "top": "BELOW", "tops": ["ZERO", "ONE"], "by_name": {"a": "ONE"}, "maybe_top": "ZERO", "leaf": {"n": 1},
        "leaves": [{}, {"s": ""}, {"n": -1, "s": "x"}], "by_number": {"-5": {"n": 5}, "6": {}}, "maybe_leaf": {},
        "inner": {"n": 2, "deep": {"s": "x", "leaves": {"true": {"s": "y"}}}}, "deep": {}, "text": "", "alone": 0,
        "camelCase": 3, "UPPER": 4, "high_number": 5,
    }),
    ("shapes.Outer", {"part": {}}),
    ("shapes.Outer", {"kind": "ZERO"}),
    ("shapes.Outer", {"big": "18446744073709551615"}),
    ("shapes.Outer", {"raw": "/w=="}),
    ("shapes.Outer", b"\x2a\2\x08\1\x2a\3\x12\1x"),  # a message twice: merged
    ("shapes.Outer", b"\x5a\1x\x62\0"),  # two members of a oneof: the last counts
    ("shapes.Outer", b"\x08\x63\x12\2\1\x63"),  # unknown numbers of an open enum
    ("shapes.Outer", b"\x1a\0\x3a\0"),  # entries of maps without key and value
    ("shapes.Aliased", {"e": "B", "many": ["A", "B", "C"]}),
    ("known.Wrapped", {}),
    ("known.Wrapped", {f"one_{kind.lower()}": _MOST[kind.lower()] for kind in _WRAPPERS}),
    ("known.Wrapped", {f"one_{kind.lower()}": _LEAST[kind.lower()] for kind in _WRAPPERS}),
    ("known.Wrapped", {f"many_{kind.lower()}": [_LEAST[kind.lower()], _MOST[kind.lower()]] for kind in _WRAPPERS}),
    ("known.Wrapped", {f"map_{kind.lower()}": {"a": _MOST[kind.lower()]} for kind in _WRAPPERS}),
    ("known.Times", {
        "at": "1969-12-31T23:59:59.000000001Z", "times": ["1970-01-01T00:00:00Z", "2026-11-29T17:00:00.123456789Z"],
        "by_name": {"a": "1900-01-01T00:00:00.5Z"}, "took": "-1.000000001s", "spans": ["0s", "-0.5s", "86400.0000019s"],
        "then": "1970-01-01T00:00:01Z",
    }),
    ("known.Times", {"since": "3600s"}),
    ("known.Times", {}),
    ("known.Anys", {
        "any": {"@type": "type.googleapis.com/known.Mask", "n": 7},
        "many": [{"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}],
    }),
    ("known.Mask", {"mask": "a,bC.d", "n": 1}),
    ("known.WithEmpty", {"nothing": {}, "many": [{}, {}], "by_name": {"a": {}}, "n": 1}),
    ("lookalikes.All", {
        "at": {"seconds": 5, "nanos": 1000}, "took": {"seconds": 6}, "number": {"value": 7}, "any": {"type_url": "x"},
    }),
    ("empty.Within", {"none": {}, "n": 1, "nothing": {}}),
    ("empty.Nested", {"alone": {"none": {}}, "n": 2}),
    ("two.All", {"id": 1, "name": "x"}),
    ("two.All", {
        "id": 0, "name": "", "plain": 0, "kind": "A", "seven": 0, "text": "", "raw": "", "five": "A", "inf": 0,
        "yes": False, "most": 0, "unpacked": [1, 2], "packed": [3, 4], "kinds": ["A", "B"], "lone": {"s": "x"},
        "many": [{"n": 1}, {}], "second": "y", "by_name": {"a": "SOME"}, "half": 1,
    }),
    ("two.All", b"\x08\1\x12\1x\x20\7\x70\1\x70\7"),  # unknown numbers of a closed enum
    ("two.All", b"\x08\1\x12\1x\x62\2\1\2\x68\3"),  # packed and unpacked, the other way round
    ("two.All", b"\x08\1\x12\1x\xa2\6\1y"),  # an extension
    ("two.All", {"id": 1, "name": "x", "first": 9}),
    ("two.All", b"\x08\1"),  # a required field is missing
    ("two.Needed", {"all": {"id": 1, "name": "x"}, "parts": [{"n": 1}]}),
    ("recursive.Twice", {"one": {"n": 1}, "more": [{"n": 2}]}),
    ("edition.All", {
        "explicit": 0, "implicit": 0, "needed": 0, "seven": 0, "open": "O_ZERO", "shut": "S_TWO", "packed": [1, 2],
        "expanded": [3, 4], "part": {"n": 5}, "loose": "x",
    }),
    ("edition.All", {"needed": 1}),
]  # fmt: skip


def corpus() -> dict[str, ProtoFile]:
    """Return the files, compiled, by name."""
    return {name: parse_file(text, {}, name=name) for name, text in CORPUS.items()}


def plain(value: Any) -> Any:
    """Return a value of Arrow's ``to_pylist`` as JSON. A map is a list of pairs."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (bytes, bytearray)):
        return f"bytes {value.hex()}"
    if isinstance(value, datetime):
        return f"at {value.astimezone(UTC).isoformat()}"
    if isinstance(value, timedelta):
        return f"micros {value // timedelta(microseconds=1)}"
    if isinstance(value, (Decimal, float)):
        return f"{type(value).__name__} {value!s}"
    return value


def parts(kind: Any, path: str = "") -> dict[str, str]:
    """Return the types of all parts of a type of Spark, by their paths, such as ``.orders[].id``."""
    name = kind.typeName()
    if name == "struct":
        found = {path: "struct"}
        for each in kind.fields:
            found |= _part(each.dataType, f"{path}.{each.name}", each.nullable)
        return found
    if name == "array":
        return {path: "array"} | _part(kind.elementType, f"{path}[]", kind.containsNull)
    if name == "map":
        return (
            {path: "map"}
            | parts(kind.keyType, f"{path}<>")
            | _part(kind.valueType, f"{path}{{}}", kind.valueContainsNull)
        )
    return {path: kind.simpleString()}


def _part(kind: Any, path: str, nullable: bool) -> dict[str, str]:
    found = parts(kind, path)
    return found if nullable else found | {path: f"{found[path]} {NEVER_NULL}"}


def _whole_set(file: ProtoFile) -> bytes:
    """Return a file as a ``FileDescriptorSet`` with all that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    found, names = FileDescriptorSet(), set()

    def add(one: Any) -> None:
        if one.name in names:
            return
        names.add(one.name)
        for needed in one.dependencies:
            add(needed)
        proto = FileDescriptorProto()
        one.CopyToProto(proto)
        found.file.append(proto)

    add(file.pool().FindFileByName(file.proto.name))
    data: bytes = found.SerializeToString()
    return data


def encoded(file: ProtoFile, name: str, value: dict[str, Any] | bytes) -> bytes:
    """Return the bytes of a message."""
    from google.protobuf.json_format import ParseDict
    from google.protobuf.message_factory import GetMessageClass

    if isinstance(value, bytes):
        return value
    made: Any = GetMessageClass(file.pool().FindMessageTypeByName(name))()
    data: bytes = ParseDict(value, made, descriptor_pool=file.pool()).SerializeToString()
    return data


def messages(file: ProtoFile) -> list[str]:
    """Return the full names of the outer message types of a file."""
    return [f"{file.proto.package}.{each.name}" for each in file.proto.message_type]


class _Judge:
    def __init__(self, spark: Any) -> None:
        from pyspark.sql.protobuf.functions import from_protobuf

        self._spark = spark
        self._from_protobuf = from_protobuf

    def _column(self, file: ProtoFile, name: str, options: dict[str, str]) -> Any:
        whole = _whole_set(file)
        return self._from_protobuf("v", name, options=dict(options), binaryDescriptorSet=whole).alias("v")

    def type(self, file: ProtoFile, name: str, options: dict[str, str]) -> dict[str, str]:
        """Return the type of the column, or the class of the error."""
        from pyspark.errors import AnalysisException

        frame = self._spark.sql("select x'' as v")
        try:
            return parts(frame.select(self._column(file, name, options)).schema["v"].dataType)
        except AnalysisException as error:
            return {"": f"error {error.getCondition()}"}

    def values(self, file: ProtoFile, name: str, options: dict[str, str], rows: list[bytes]) -> list[Any]:
        """Return the values of messages. None for one that cannot be read."""
        frame = self._spark.createDataFrame([(bytearray(row),) for row in rows], "v binary").coalesce(1)
        options = options | {"mode": "PERMISSIVE"}
        return [_of_row(row["v"]) for row in frame.select(self._column(file, name, options)).collect()]


def _of_row(value: Any) -> Any:
    """Return a value of Spark's ``collect``, as :func:`plain` does."""
    if hasattr(value, "asDict"):
        return {name: _of_row(part) for name, part in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return [[_of_row(key), _of_row(part)] for key, part in value.items()]
    if isinstance(value, list):
        return [_of_row(part) for part in value]
    return plain(value)


def expected(jars: list[str]) -> dict[str, Any]:
    """Ask Spark."""
    import tempfile

    import pyspark

    from tests.support.spark import start_spark

    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark(Path(folder), connector=False, spark__jars=",".join(jars))
        judge, files = _Judge(spark), corpus()
        types: dict[str, dict[str, Any]] = {}
        for given, options in OPTIONS.items():
            for file in files.values():
                for name in messages(file):
                    found = judge.type(file, name, options)
                    if given in ("default", "asked") or found != types["default"][name]:
                        types.setdefault(given, {})[name] = found
        values = []
        by_package = {file.proto.package: file for file in files.values()}
        for name in dict.fromkeys(name for name, _ in VALUES):
            file = by_package[name.partition(".")[0]]
            rows = [encoded(file, name, value) for each, value in VALUES if each == name]
            for row, value in zip(rows, judge.values(file, name, OPTIONS["asked"], rows), strict=True):
                values.append({"message": name, "bytes": row.hex(), "value": value})
        return {
            "made": {"spark": pyspark.__version__, "jars": [Path(jar).name for jar in jars], "on": str(date.today())},
            "files": {name: base64.b64encode(_whole_set(file)).decode() for name, file in files.items()},
            "types": types,
            "values": values,
        }


def _lines(found: dict[str, Any]) -> str:
    """Return JSON with a line for each fact."""
    lines = ["{", *(f' "{name}": {json.dumps(found[name], indent=1)},' for name in ("made", "files"))]
    for given, types in found["types"].items():
        facts = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(kind)}" for name, kind in types.items())
        lines.append(f' "types, {given}": {{\n  {facts}\n }},')
    facts = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in found["values"])
    return "\n".join([*lines, f' "values": [\n  {facts}\n ]', "}"])


if __name__ == "__main__":
    VECTORS.write_text(_lines(expected(sys.argv[1:])) + "\n", encoding="utf-8")
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
