"""The source's columns: names, Spark types and Arrow types."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyconsumer.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "DECODE_ERROR", "HEADERS", "arrow_schema", "choose_columns", "spark_schema"]

HEADERS: Final = "headers"
DECODE_ERROR: Final = "decodeError"

COLUMNS: Final[dict[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key: string, value: binary>>",
}
"""Column names with their Spark types. ``headers`` is null for a record without headers."""

_OF_TYPED: Final[dict[str, str]] = {
    "key_bytes": "binary",
    "value_bytes": "binary",
    "key_schema_id": "int",
    "value_schema_id": "int",
    DECODE_ERROR: "struct<stage: string, reason: string, schemaId: int>",
}
"""Columns beside typed keys and values. ``decodeError`` is null for a good row. The ids are those that records name."""


def choose_columns(
    names: Sequence[str] | None, *, include_headers: bool, optional: Sequence[str] = (), added: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns to read.

    Args:
        names: names of the columns, in the order of the result. None for all columns except ``headers``.
        include_headers: True adds the column ``headers``.
        optional: further columns that may be named.
        added: further columns that are there in any case.

    Raises:
        ConfigurationError: a name is unknown or given twice, or the list is empty.
    """
    if names is None:
        return (*(name for name in COLUMNS if include_headers or name != HEADERS), *added)
    known = (*COLUMNS, *optional, *(name for name in added if name not in optional))
    spelled = {name.lower(): name for name in known}
    chosen: list[str] = []
    for name in names:
        found = spelled.get(name.lower())
        if found is None:
            raise ConfigurationError(f"option columns: there is no column {name!r}. There are {', '.join(known)}")
        if found in chosen:
            raise ConfigurationError(f"option columns: {found} is named twice")
        chosen.append(found)
    if include_headers and HEADERS not in chosen:
        chosen.append(HEADERS)
    if not chosen:
        raise ConfigurationError(f"option columns: name at least one of {', '.join(known)}")
    return (*chosen, *(name for name in added if name not in chosen))


def spark_schema(columns: Sequence[str]) -> str:
    """Return the columns as DDL. Every column is nullable."""
    return ", ".join(f"`{name}` {(COLUMNS | _OF_TYPED)[name]}" for name in columns)


@functools.cache
def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema of record batches.

    Spark requires that it equals Spark's own, including the names of nested fields.
    """
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    error = [("stage", pa.string()), ("reason", pa.string()), ("schemaId", pa.int32())]
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
        "key_bytes": pa.binary(),
        "value_bytes": pa.binary(),
        "key_schema_id": pa.int32(),
        "value_schema_id": pa.int32(),
        DECODE_ERROR: pa.struct([pa.field(name, kind) for name, kind in error]),
    }
    return pa.schema([pa.field(name, types[name]) for name in columns])
