"""Our typed columns beside those of Spark's ``from_protobuf``, for a corpus of messages (``make_spark_protobuf.py``).

Its options are those by which it comes closest to ours. Where we differ, the tables say why.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyconsumer[spark]")

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.protobuf.files import message_class
from pyconsumer.protocol.records import BatchBuilder, Cursor
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.protobuf_values import ProtobufFormat
from pyconsumer.spark.typed_rows import TypedRows, settle, typed_schema
from pyconsumer.spark.value_options import SideOptions
from pyconsumer.structs import TopicPartition
from tests.vectors.make_spark_protobuf import NEVER_NULL, VECTORS, parts, plain

GOLDEN: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
ASKED: dict[str, dict[str, str]] = GOLDEN["types, asked"]
FILES: dict[str, str] = {name.partition(".")[0]: file for name, file in GOLDEN["files"].items()}

#: Types there and here, by the reason. A path that Spark leaves out is None.
OTHER_TYPES: dict[str, dict[tuple[str, str], tuple[str | None, str | None]]] = {
    "fixed32 and fixed64 have no sign, and upcast.unsigned.ints forgets them": {
        ("scalars.All", path.format(kind)): types
        for path in (".x_{}", ".maybe_{}", ".many_{}[]", ".map_{}<>", ".map_{}{{}}")
        for kind, types in (("fixed32", ("int", "bigint")), ("fixed64", ("bigint", "decimal(20,0)")))
    },
    "a message without fields says whether it is there": {
        **{("known.WithEmpty", f".{path}"): (None, "struct") for path in ("nothing", "many[]", "by_name{}")},
        ("known.WithEmpty", ".many"): (None, "array"),
        ("known.WithEmpty", ".by_name"): (None, "map"),
        ("known.WithEmpty", ".by_name<>"): (None, "string"),
        ("known.OnlyEmpty", ".nothing"): (None, "struct"),
        **{("empty.Within", f".{path}"): (None, "struct") for path in ("none", "nothing")},
        **{("empty.Nested", f".{path}"): (None, "struct") for path in ("alone", "alone.none")},
    },
    "only google.protobuf has a Timestamp and a Duration. Spark looks at the last part of the name": {
        ("lookalikes.All", f".{name}{path}"): types
        for name, kind in (("at", "timestamp"), ("took", "interval day to second"))
        for path, types in (("", (kind, "struct")), (".seconds", (None, "bigint")), (".nanos", (None, "int")))
    },
}
#: Values, by the message and its bytes. For Spark a row in which a wire type or the number of a closed enum is another
#: one is bad, and so is one without a required field. ``FromString`` of Google's library reads them.
READ_HERE: dict[tuple[str, str], dict[str, Any]] = {
    ("scalars.All", "1d010000001805"): {"x_int32": 5},
    ("two.All", "0801120178200770017007"): {"id": 1, "name": "x", "kind": None, "kinds": ["A"]},
    ("two.All", "0801"): {"id": 1, "name": None},
}


def options_of(message: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", "columns": "value",
        "onDecodeError": "null", "value.format": "protobuf", "value.schema": FILES[message.partition(".")[0]],
        "value.message": message,
    }  # fmt: skip


def type_of(message: str) -> dict[str, str]:

    options = SourceOptions.parse(options_of(message))
    try:
        return parts(typed_schema(options, settle(options, ["orders"]))["value"].dataType)
    except ConfigurationError as error:
        is_within_itself = "which has no columns: leave it out" in str(error)
        return {"": "error RECURSIVE_PROTOBUF_SCHEMA" if is_within_itself else str(error)}


def read(message: str, row: bytes) -> Any:

    options = SourceOptions.parse(options_of(message))
    builder = BatchBuilder()
    builder.try_append(0, None, row, [])
    columns = Cursor(TopicPartition("orders", 0), builder.build(10), fetch_offset=10).take_columns(10)
    (batch,) = TypedRows(options, settle(options, ["orders"])).batches(columns, 1)
    return batch["value"].to_pylist()[0]


def bare(types: dict[str, str]) -> dict[str, str]:
    """Return types without the marks of fields that are never null. Items and values keep theirs."""
    return {
        path: kind if path.endswith(("[]", "{}")) else kind.removesuffix(f" {NEVER_NULL}")
        for path, kind in types.items()
    }


@pytest.mark.parametrize("message", ASKED)
def test_each_type_is_that_of_spark(message: str) -> None:
    theirs, ours = bare(ASKED[message]), bare(type_of(message))
    for table in OTHER_TYPES.values():
        for (of, path), (there, here) in table.items():
            if of == message:
                end = f" {NEVER_NULL}" if path.endswith(("[]", "{}")) else ""
                found = theirs.pop(path, None)
                assert found == (there and there + end)
                assert ours.pop(path, None) == (here and here + end)
    assert ours == theirs


def test_the_tables_name_messages_of_the_corpus() -> None:
    assert {message for table in OTHER_TYPES.values() for message, _ in table} <= set(ASKED)
    rows = {(each["message"], each["bytes"]): each["value"] for each in GOLDEN["values"]}
    assert {rows[row] for row in READ_HERE} == {None}


@pytest.mark.parametrize("message", [name for name, types in ASKED.items() if types[""] == "struct"])
def test_a_field_with_a_default_is_never_null(message: str) -> None:
    """For Spark a required field is never null, and each other one may be. Here one without presence is never null."""

    settled = ProtobufFormat().settle(
        "value", SideOptions("protobuf", FILES[message.partition(".")[0]], message=message), {}, []
    )
    fields = descriptor_of(settled.text).fields
    theirs, ours = ASKED[message], type_of(message)
    for each in fields:
        path, of_choice = f".{each.name}", each.containing_oneof is not None and len(each.containing_oneof.fields) > 1
        filled = not each.has_presence or (each.has_default_value and not of_choice)
        assert ours[path].endswith(NEVER_NULL) is filled, path
        if path in theirs:
            assert theirs[path].endswith(NEVER_NULL) is each.is_required, path


def descriptor_of(text: str) -> Any:

    name, files = json.loads(text)
    return message_class(base64.b64decode(files), name).DESCRIPTOR


def unsigned(value: Any, bits: int) -> Any:
    if isinstance(value, list):
        return [unsigned(each, bits) for each in value]
    if value is None:
        return None
    return value % 2**32 if bits == 32 else plain(Decimal(value % 2**64))


def expected(value: Any, name: str = "") -> Any:
    """Return a value as we read it. The other differences stand in the tables."""
    if isinstance(value, dict):
        return {part: expected(each, part) for part, each in value.items()}
    if found := re.search("_fixed(32|64)$", name):
        return unsigned(value, int(found[1]))  # for Spark they are numbers with a sign
    if isinstance(value, list):
        return [expected(each) for each in value]
    if isinstance(value, str):  # an unknown number of an enum
        return re.sub("^UNKNOWN_ENUM_VALUE_.*_(-?[0-9]+)$", r"\1", value)
    return value


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in theirs | ours:
            yield from differences(theirs.get(name, "left out"), ours.get(name, "left out"), f"{path}.{name}")
    elif theirs != ours and not in_another_order(theirs, ours):
        yield path, theirs, ours


def in_another_order(theirs: Any, ours: Any) -> bool:
    """Return whether both are the pairs of a map. Protobuf gives them no order."""
    return all(isinstance(each, list) for each in (theirs, ours)) and sorted(map(repr, theirs)) == sorted(
        map(repr, ours)
    )


#: Values, by the message and the path.
OTHER_VALUES: dict[tuple[str, str], tuple[Any, Any]] = {
    **{
        ("known.WithEmpty", path): ("left out", value)
        for path, value in ((".nothing", {}), (".many", [{}, {}]), (".by_name", [["a", {}]]))
    },
    ("empty.Within", ".none"): ("left out", {}),
    ("empty.Within", ".nothing"): ("left out", {}),
    ("empty.Nested", ".alone"): ("left out", {"none": {}}),
    ("lookalikes.All", ".at"): ("at 1970-01-01T00:00:05.000001+00:00", {"seconds": 5, "nanos": 1000}),
    ("lookalikes.All", ".took"): ("micros 6000000", {"seconds": 6, "nanos": 0}),
    # a member of a oneof with a default: Spark shows it although another one, or none, is set
    ("two.All", ".first"): (3, None),
    ("two.Needed", ".all.first"): (3, None),
}


def test_each_value_is_that_of_spark() -> None:
    seen = set()
    for row in GOLDEN["values"]:
        message = row["message"]
        found = plain(read(message, bytes.fromhex(row["bytes"])))
        if (here := READ_HERE.get((message, row["bytes"]))) is not None:
            assert {name: found[name] for name in here} == here
            continue
        for path, theirs, ours in differences(expected(row["value"]), found):
            seen.add((message, path))
            assert OTHER_VALUES.get((message, path)) == (theirs, ours), (message, row["bytes"], path, theirs, ours)
    assert seen == set(OTHER_VALUES)


def test_the_docs_are_right_about_the_options() -> None:
    plain_types, empty, depth = (GOLDEN[f"types, {given}"] for given in ("default", "empty", "depth"))
    scalars, wrapped = plain_types["scalars.All"], plain_types["known.Wrapped"]
    assert [scalars[f".x_{kind}"] for kind in ("uint32", "uint64", "fixed32", "fixed64")] == ["int", "bigint"] * 2
    assert (wrapped[".one_int64"], wrapped[".one_int64.value"]) == ("struct", "bigint")
    assert plain_types["known.Anys"] == ASKED["known.Anys"]
    assert GOLDEN["types, anys"]["known.Anys"][".any"] == "string"
    assert GOLDEN["types, enums"]["shapes.Outer"][".top"] == "int"
    assert empty["known.WithEmpty"][".nothing.__dummy_field_in_empty_struct"] == "string"
    assert depth["recursive.Node"][".next.next.n"] == "int"
    assert ".next.next.next" not in depth["recursive.Node"]
