"""Values of Spark as values that Avro's encoder takes. Functions without state.

Rules

1. A struct is a record. Fields go by name. A field that the schema does not have is an error, since it would be lost.
   One that the column lacks needs a default, or may be null.
2. A struct of ``member0``, ``member1`` and so on is a union of that number of types, as the source reads it. Exactly
   one of them is not null. Any other column for a union is written by the first branch that its value fits.
3. A column whose type the schema's cannot hold is an error before the first row. Whether a value fits is decided by the
   encoder.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import types as spark

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.avro import AvroType
from pyconsumer.spark.row_parts import SMALL, WHOLE, Convert, converted, fields_of, list_of, map_of

__all__ = ["converter"]

#: Spark's types by Avro's. Logical types come first.
_FITTING: Final[dict[str, tuple[str, ...]]] = {
    "null": ("void",),
    "boolean": ("boolean",),
    "int": SMALL,
    "long": WHOLE,
    "float": ("float",),
    "double": ("float", "double"),
    "bytes": ("binary",),
    "fixed": ("binary",),
    "string": ("string",),
    "enum": ("string",),
    "uuid": ("string",),
    "date": ("date",),
    "time-millis": ("int", "time"),
    "time-micros": ("int", "bigint", "time"),
    "timestamp-millis": ("timestamp",),
    "timestamp-micros": ("timestamp",),
    "local-timestamp-millis": ("timestamp_ntz",),
    "local-timestamp-micros": ("timestamp_ntz",),
    "timestamp-nanos": ("bigint",),
    "local-timestamp-nanos": ("bigint",),
    "duration": ("binary",),
    "decimal": ("decimal",),
}


def converter(kind: AvroType, column: Any, where: str) -> Convert | None:
    """Return a function that makes the value of a schema from one of a column. None if they are the same.

    Args:
        kind: the type of the schema.
        column: Spark's type.
        where: the name of the column, for messages.

    Raises:
        ConfigurationError: the column does not fit the schema.
    """
    if kind.kind == "union":
        return _union(kind, column, where)
    if kind.kind == "record":
        return _record(kind, column, where)
    if kind.kind == "array":
        if not isinstance(column, spark.ArrayType):
            raise _misfit(kind, column, where)
        return list_of(converter(kind.items, column.elementType, f"{where}[]"))
    if kind.kind == "map":
        if not isinstance(column, spark.MapType) or not isinstance(column.keyType, spark.StringType):
            raise _misfit(kind, column, where)
        return map_of(converter(kind.items, column.valueType, f"{where}{{}}"))
    name = kind.kind if kind.logical is None else kind.logical.name
    if column.simpleString().partition("(")[0] not in _FITTING[name]:
        raise _misfit(kind, column, where)
    return None


def _record(kind: AvroType, column: Any, where: str) -> Convert | None:
    if not isinstance(column, spark.StructType):
        raise _misfit(kind, column, where)
    fields = {field.name: field for field in kind.fields}
    given = fields_of(column, where)
    if unknown := [name for name in given if name not in fields]:
        raise ConfigurationError(
            f"{where}: the schema's {kind.name} has no field {', '.join(unknown)}. Its fields are {', '.join(fields)}"
        )
    lacking = [
        name
        for name, field in fields.items()
        if name not in given and field.default_bytes is None and not _may_be_null(field.type)
    ]
    if lacking:
        raise ConfigurationError(f"{where}: the struct has no field {', '.join(lacking)}, which {kind.name} needs")
    found = {name: converter(fields[name].type, part, f"{where}.{name}") for name, part in given.items()}
    parts = {name: convert for name, convert in found.items() if convert is not None}
    if not parts:
        return None
    return lambda row: row | {name: converted(convert, row[name]) for name, convert in parts.items()}


def _may_be_null(kind: AvroType) -> bool:
    return kind.kind == "null" or any(branch.kind == "null" for branch in kind.branches)


def _union(kind: AvroType, column: Any, where: str) -> Convert | None:
    branches = [branch for branch in kind.branches if branch.kind != "null"]
    if not branches:
        return None
    if len(branches) == 1:
        return converter(branches[0], column, where)
    names = [f"member{place}" for place in range(len(branches))]
    if isinstance(column, spark.StructType) and column.names == names:
        parts = zip(names, branches, column.fields, strict=True)
        members = [
            (name, branch.label, converter(branch, field.dataType, f"{where}.{name}")) for name, branch, field in parts
        ]
        return lambda row: _member(row, members)
    fitting = []
    for branch in branches:
        try:
            fitting.append(converter(branch, column, where))
        except ConfigurationError:
            continue
    if not fitting:
        raise _misfit(kind, column, where)
    return fitting[0]


def _member(row: dict[str, Any], members: list[tuple[str, str, Convert | None]]) -> Any:
    found = [(label, row[name], convert) for name, label, convert in members if row[name] is not None]
    if len(found) != 1:
        raise SerializationError(f"{len(found)} members of the union are set, and not one: {', '.join(row)}")
    label, value, convert = found[0]
    return label, converted(convert, value)


def _misfit(kind: AvroType, column: Any, where: str) -> ConfigurationError:
    name = kind.label if kind.logical is None else f"{kind.label} ({kind.logical.name})"
    return ConfigurationError(f"column {where} is {column.simpleString()}, which is no {name} of the schema")
