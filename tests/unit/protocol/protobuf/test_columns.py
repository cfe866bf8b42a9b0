"""Columns of Protobuf: the mapping of types, and rules that random data meets too seldom. Both twins."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import _pure_columns as pure
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.layout import ARROW, make_layout
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.protobuf import _pure_columns as twin
from pyconsumer.protocol.protobuf.coder import message_program
from pyconsumer.protocol.protobuf.column_plan import message_plan, message_schema
from tests.support.proto_files import compiled

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
TWINS = [
    pytest.param(
        (native, native and native.MessageProgram),
        id="compiled",
        marks=pytest.mark.skipif(native is None, reason="the compiled coder is not in use"),
    ),
    pytest.param((pure, twin.MessageProgram), id="python"),
]

PROTO3 = """
syntax = "proto3";
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M {
  enum E { ZERO = 0; ONE = 1; }
  message Sub { int32 n = 1; repeated int32 many = 2; map<string, int32> map = 3; Sub2 inner = 4; }
  message Sub2 { int32 a = 1; int32 b = 2; }
  int32 i = 1; uint32 u = 2; uint64 ul = 3; double d = 4; bool b = 5; string s = 6; bytes raw = 7; E e = 8;
  optional int32 maybe = 9; repeated int32 many = 10; map<int64, Sub> map = 11; Sub sub = 12; repeated Sub subs = 13;
  oneof o { string left = 14; Sub right = 15; E third = 16; }
  google.protobuf.Timestamp at = 17; google.protobuf.Duration took = 18; google.protobuf.Int64Value wrapped = 19;
  google.protobuf.Any any = 20; float f = 21; google.protobuf.StringValue text = 22;
}
"""
PROTO2 = """
syntax = "proto2";
message M {
  enum E { ONE = 1; TWO = 2; }
  optional int32 plain = 1; optional int32 five = 2 [default = 5]; required string needed = 3;
  optional E closed = 4 [default = TWO]; repeated E all = 5; optional group G = 6 { optional int32 n = 1; }
  oneof o { int32 x = 7 [default = 9]; E y = 8; } map<int32, Zero> zeros = 9; enum Zero { Z = 0; Y = 1; }
}
"""


def columns_of(text: str, *paths: str, target: Any = ARROW) -> tuple[Any, Any]:
    descriptor = compiled(text).message([0]).DESCRIPTOR
    wanted = [path.split(".") for path in paths] or None
    layout = make_layout(message_schema(descriptor), wanted, target=target)
    return layout, message_plan(descriptor, layout)


def read(of: Any, text: str, *rows: bytes, paths: tuple[str, ...] = (), most: int = 1 << 20, **options: Any) -> Any:
    """Return the values of some messages. ... stands for one that is refused."""
    columns, program = of
    layout, plan = columns_of(text, *paths)
    decoder = columns.ColumnsDecoder(layout.columns, most)
    data = [b"\0\0\0\0\1" + row for row in rows]
    _, bad = decoder.append(data, {1: program(plan, options.get("path"), options.get("zigzag", True))})
    array = arrow_array(pa, layout, arrow_type(pa, layout), decoder.finish())
    array.validate(full=True)
    found = array.to_pylist()
    for one in bad:
        assert found[one.row] is None
        found[one.row] = ...
    return found


def test_the_mapping_of_types() -> None:
    layout, _ = columns_of(PROTO3)
    kinds = {field.name: (str(field.type), field.nullable) for field in arrow_type(pa, layout)}
    sub = (
        "struct<n: int32 not null, many: list<item: int32 not null> not null, map: map<string, int32> not null,"
        " inner: struct<a: int32 not null, b: int32 not null>>"
    )
    assert kinds == {
        "i": ("int32", False),
        "u": ("uint32", False),
        "ul": ("uint64", False),
        "d": ("double", False),
        "b": ("bool", False),
        "s": ("string", False),
        "raw": ("binary", False),
        "e": ("string", False),
        "maybe": ("int32", True),
        "many": ("list<item: int32 not null>", False),
        "map": (f"map<int64, {sub}>", False),
        "sub": (sub, True),
        "subs": (f"list<item: {sub} not null>", False),
        "left": ("string", True),
        "right": (sub, True),
        "third": ("string", True),
        "at": ("timestamp[us, tz=UTC]", True),
        "took": ("duration[us]", True),
        "wrapped": ("int64", True),
        "any": ("struct<type_url: string not null, value: binary not null>", True),
        "f": ("float", False),
        "text": ("string", True),
    }


def test_an_engine_without_unsigned_numbers_has_wider_ones() -> None:
    layout, plan = columns_of(PROTO3, "u", "ul", target=ARROW._replace(has_unsigned=False))
    assert str(arrow_type(pa, layout)) == "struct<u: int64 not null, ul: decimal128(20, 0) not null>"
    message = compiled(PROTO3).message([0])(u=2**32 - 1, ul=2**64 - 1).SerializeToString()
    for columns, program in (each.values[0] for each in TWINS if each.values[0][0] is not None):
        decoder = columns.ColumnsDecoder(layout.columns)
        decoder.append([b"\0\0\0\0\1" + message, b"\0\0\0\0\1"], {1: program(plan)})
        found = arrow_array(pa, layout, arrow_type(pa, layout), decoder.finish()).to_pylist()
        assert found == [{"u": 2**32 - 1, "ul": 2**64 - 1}, {"u": 0, "ul": 0}]


@pytest.mark.parametrize("of", TWINS)
class TestRules:
    def test_defaults_and_closed_enums_of_proto2(self, of: Any) -> None:
        empty, other = read(of, PROTO2, b"", b"\x08\0\x10\0\x1a\1x\x20\3\x28\1\x28\7\x28\2\x33\x08\4\x34\x38\1\x40\x63")
        none = {"plain": None, "five": 5, "needed": None, "closed": "TWO", "all": [], "g": None, "x": None, "y": None}
        assert empty == none | {"zeros": []}
        assert other == {
            "plain": 0,
            "five": 0,
            "needed": "x",
            "closed": "TWO",
            "all": ["ONE", "TWO"],
            "g": {"n": 4},
            "x": 1,
            "y": None,
            "zeros": [],
        }

    def test_an_entry_with_an_unknown_number_of_a_closed_enum_is_left_out(self, of: Any) -> None:
        entries = b"\x4a\4\x08\1\x10\1" + b"\x4a\4\x08\1\x10\7" + b"\x4a\4\x08\2\x10\7"
        assert read(of, PROTO2, entries, paths=("zeros",)) == [{"zeros": [(1, "Y")]}]

    def test_an_unknown_number_of_an_open_enum_is_its_text(self, of: Any) -> None:
        rows = b"\x40\1", b"\x40\x63", b"\x40" + b"\xff" * 9 + b"\1", b"\x40\x80\x80\x80\x80\x08"
        found = read(of, PROTO3, *rows, paths=("e",))
        assert [row["e"] for row in found] == ["ONE", "99", "-1", "-2147483648"]

    def test_the_last_scalar_counts_and_messages_are_merged(self, of: Any) -> None:
        row = b"\x08\1\x32\3abc\x62\4\x22\2\x08\1\x32\0\x62\6\x10\5\x22\2\x10\2\x08\2"
        found = read(of, PROTO3, row, paths=("i", "s", "sub"))
        inner = {"n": 0, "many": [5], "map": [], "inner": {"a": 1, "b": 2}}
        assert found == [{"i": 2, "s": "", "sub": inner}]

    def test_packed_and_unpacked_items_are_mixed(self, of: Any) -> None:
        assert read(of, PROTO3, b"\x50\1\x52\2\2\3\x50\4\x52\0", paths=("many",)) == [{"many": [1, 2, 3, 4]}]

    def test_the_last_entry_of_a_key_counts(self, of: Any) -> None:
        rows = [b"\x5a\6\x08\1\x12\2\x08" + bytes([n]) for n in (1, 2)]
        rows.insert(1, b"\x5a\2\x08\2")
        found = read(of, PROTO3, b"".join(rows), b"\x5a\0", paths=("map.n",))
        assert found == [{"map": [(2, {"n": 0}), (1, {"n": 2})]}, {"map": [(0, {"n": 0})]}]

    @pytest.mark.parametrize("paths", [("left", "right"), ("right",)])
    def test_a_oneof_has_the_member_that_came_last(self, of: Any, paths: Any) -> None:
        right = b"\x7a\x0a\x08\1\x10\2\x1a\4\x0a\0\x10\1"
        rows = right + b"\x72\1x", right + b"\x72\1x" + b"\x7a\2\x10\5", b"\x72\1x\x72\1y", right + b"\x80\1\1"
        found = [row["right"] for row in read(of, PROTO3, *rows, paths=paths)]
        assert found == [None, {"n": 0, "many": [5], "map": [], "inner": None}, None, None]

    def test_moments_and_wrappers(self, of: Any) -> None:
        rows = (
            b"",
            b"\x8a\1\0\x92\1\0\x9a\1\0\xb2\1\0",
            b"\x8a\1\5\x08\1\x10\xe8\7\x92\1\x16\x08"
            + b"\xff" * 9
            + b"\1\x10"
            + b"\x90\xf0\xff\xff\xff\xff\xff\xff\xff\1"
            + b"\x9a\1\2\x08\7\xb2\1\3\x0a\1z",
            b"\x8a\1\x0b\x08" + b"\xff" * 8 + b"\x7f" + b"\x10",
            b"\x8a\1\x0a\x08" + b"\xff" * 8 + b"\x7f",
        )
        first, zero, some, cut, much = read(of, PROTO3, *rows, paths=("at", "took", "wrapped", "text"))
        assert first == {"at": None, "took": None, "wrapped": None, "text": None}
        assert (zero["at"].timestamp(), zero["took"].total_seconds(), zero["wrapped"], zero["text"]) == (0, 0, 0, "")
        assert some["at"].timestamp() == 1.000001
        assert some["took"].total_seconds() == -1.000002
        assert (some["wrapped"], some["text"]) == (7, "z")
        assert cut is much is ...

    def test_levels_and_bounds(self, of: Any) -> None:
        def nested(levels: int) -> bytes:
            data = b""
            for _ in range(levels):
                data = b"\xfb\x3f" + data + b"\xfc\x3f"  # an unknown group
            return data

        assert read(of, PROTO3, nested(63), nested(64), b"\x0a\1x", paths=("i",)) == [{"i": 0}, ..., {"i": 0}]
        text = b"\x32\x80\x08" + bytes(1024)
        assert read(of, PROTO3, text, text + text, paths=("s",), most=1_500)[1] is ...
        assert read(of, PROTO3, b"\x5a\0" * 100, paths=("map.n",), most=3_000) == [...]
        assert read(of, PROTO3, b"\x6a\0" * 100, paths=("subs",), most=3_000) == [...]

    @pytest.mark.parametrize(
        "row",
        [
            b"\0",
            b"\x08",
            b"\x08" + b"\xff" * 10,
            b"\x0e",
            b"\x32\2x",
            b"\x32\1\xff",
            b"\xfb\x3f",
            b"\xfc\x3f",
            b"\xfb\x3f\xf4\x3f",
            b"\x62\2\x08",
            b"\x88\x80\x80\x80\x80\x80\1\0",
            b"\x32\x80\x80\x80\x80\x10",
        ],
    )
    def test_refused_bytes(self, of: Any, row: bytes) -> None:
        assert read(of, PROTO3, b"\x08\1", row, b"\x08\2") == [
            read(of, PROTO3, b"\x08\1")[0],
            ...,
            read(of, PROTO3, b"\x08\2")[0],
        ]

    @pytest.mark.parametrize(
        ("path", "zigzag", "row", "is_read"),
        [
            (None, True, b"\x08\1", True),
            ((), True, b"\0\x08\1", True),
            ((), True, b"\2\2\x08\1", True),
            ((0,), True, b"\0\x08\1", True),
            ((0,), True, b"\2\0\x08\1", True),
            ((0,), True, b"\2\2\x08\1", False),
            ((1, 2), True, b"\4\2\4\x08\1", True),
            ((1, 2), False, b"\2\1\2\x08\1", True),
            ((1, 2), True, b"\0\x08\1", False),
            ((), True, b"", False),
            ((), True, b"\1", False),
            ((), True, b"\2\1", False),
            ((), True, b"\xff\xff\xff\x0f", False),
        ],
    )
    def test_paths_of_message_indexes(self, of: Any, path: Any, zigzag: bool, row: bytes, is_read: bool) -> None:
        assert read(of, PROTO3, row, paths=("i",), path=path, zigzag=zigzag) == [{"i": 1} if is_read else ...]


FLAGS = " ".join(f"optional bool b{n} = {n};" for n in range(1, 101))
WIDE = f"""
syntax = "proto3";
message M {{ repeated Deep many = 1; oneof o {{ Deep deep = 2; int32 n = 3; }} map<int32, int32> map = 4; }}
message Deep {{ Wide wide = 1; }}
message Wide {{ {FLAGS} }}
"""


@pytest.mark.parametrize("of", TWINS)
def test_a_null_of_many_booleans_counts(of: Any) -> None:
    row = b"\x0a\0" * 20  # each one has a null of 100 booleans
    assert read(of, WIDE, row, paths=("many",), most=8_000) == [...]
    assert read(of, WIDE, row, paths=("many",), most=12_000) == [{"many": [{"wide": None}] * 20}]


@pytest.mark.parametrize("of", TWINS)
def test_a_oneof_may_alternate(of: Any) -> None:
    paths = ("deep.wide.b1", "n")
    deep = {"deep": {"wide": {"b1": True}}, "n": None}
    rows = b"\x12\4\x0a\2\x08\1\x18\5" * 9, b"\x18\5\x12\4\x0a\2\x08\1" * 9, b"\x12\0\x18\5\x12\0"
    found = read(of, WIDE, *rows, paths=paths)
    assert found == [{"deep": None, "n": 5}, deep, {"deep": {"wide": None}, "n": None}]


def test_a_oneof_that_alternates_walks_no_columns_that_have_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    truncate = pure.ColumnsDecoder.truncate_column

    def counted(self: Any, number: int, count: int) -> None:
        calls.append(number)
        truncate(self, number, count)

    monkeypatch.setattr(pure.ColumnsDecoder, "truncate_column", counted)
    read(TWINS[1].values[0], WIDE, b"\x12\0\x18\5" * 50, paths=("deep", "n"))
    assert len(calls) < 300  # and not 100 for each of 50 messages


@pytest.mark.skipif(native is None, reason="the compiled coder is not in use")
def test_the_memory_of_a_large_map_is_given_back() -> None:
    layout, plan = columns_of(WIDE, "map")
    program = native.MessageProgram(plan)
    decoder = native.ColumnsDecoder(layout.columns)
    for row in (b"\x22\0" * 5_000, b"\x22\0" * 5_000 + b"\xff"):
        _, bad = decoder.append([b"\0\0\0\0\1" + row], {1: program})
        assert (len(bad), program.entry_room()) == (row[-1] == 255, 0)


@pytest.mark.parametrize("of", TWINS)
def test_a_program_of_other_columns_is_refused(of: Any) -> None:
    columns, program = of
    layout, _ = columns_of(WIDE, "n")
    same, plan = columns_of(WIDE, "n")
    decoder = columns.ColumnsDecoder(layout.columns)
    rows = [b"\0\0\0\0\1\x18\5"]
    assert same is not layout
    assert decoder.append(rows * 2, {1: program(plan)}) == (2, [])
    for other in ("deep", "map"):
        with pytest.raises(ValueError, match="of other columns"):
            decoder.append(rows, {1: program(columns_of(WIDE, other)[1])})
    assert len(decoder) == 2


def test_the_place_of_an_error_is_not_sought_in_a_huge_value() -> None:
    _, plan = columns_of(WIDE)
    error = pure.explain(message_program(plan), b"\x0a\0" * 20_000 + b"\xff", 0, 1 << 26)
    assert str(error) == (
        "the value is not that of the schema, or too large: the value decodes to more than max_decoded_bytes (67108864)"
    )


def test_recursion_is_refused() -> None:
    text = 'syntax = "proto3"; message M { M next = 1; int32 n = 2; }'
    with pytest.raises(ConfigurationError, match=r"value\.next is a M within a M"):
        columns_of(text)
    assert str(arrow_type(pa, columns_of(text, "n")[0])) == "struct<n: int32 not null>"


def test_the_error_of_a_row_names_its_place() -> None:
    _, plan = columns_of(PROTO3)
    for program in (message_program(plan), message_program(plan, (0,))):
        start = b"" if program.path is None else b"\0"
        error = pure.explain(program, start + b"\x6a\0\x6a\5\x1a\3\x0a\1\xff", 0, 1 << 20)
        assert str(error).startswith("subs[1].map.key: the text is no UTF-8")


@pytest.mark.skipif(native is None, reason="the compiled coder is not in use")
def test_a_wrong_plan_is_refused() -> None:
    _, plan = columns_of(PROTO3)
    for changes in ({"number": 0}, {"do": 99}, {"wire": 4}, {"column": 10_000}, {"table": 10_000}, {"oneof": 10_000}):
        _, plan = columns_of(PROTO3)
        plan.fields[0] = plan.fields[0]._replace(**changes)
        with pytest.raises(ValueError, match="of the plan"):
            native.MessageProgram(plan)
