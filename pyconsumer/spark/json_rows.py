"""Values of Spark as documents of JSON. Functions without state.

Rules

1. A struct is an object. Fields go by name. A field that the schema does not have is an error, since no reader's column
   would have it. A null is left out, unless the field is required.
2. A part that is read as JSON text is written from such text.
3. A column whose type the schema's cannot hold is an error before the first row. Dates, times and decimals have no type
   in JSON: cast them.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import types as spark

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import AvroType
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.shapes import JSON_TEXT, REQUIRED
from pyconsumer.spark.row_parts import WHOLE, Convert, converted, fields_of, list_of, map_of

__all__ = ["converter"]

#: Spark's types by those of the columns.
_FITTING: Final[dict[str, tuple[str, ...]]] = {
    "null": ("void",),
    "boolean": ("boolean",),
    "long": WHOLE,
    "double": (*WHOLE, "float", "double"),
    "string": ("string",),
}
_NAMES: Final = {"long": "integer", "double": "number", "record": "object", "map": "object"}


def converter(kind: AvroType, column: Any, where: str) -> Convert | None:
    """Return a function that makes the value of a document from one of a column. None if they are the same.

    Args:
        kind: the type of the schema, see :mod:`pyconsumer.schemas.json_schema.shapes`.
        column: Spark's type.
        where: the name of the column, for messages.

    Raises:
        ConfigurationError: the column does not fit the schema.
    """
    if kind.kind == "union":
        kind = next(branch for branch in kind.branches if branch.kind != "null")
    if kind.kind == "record":
        return _object(kind, column, where)
    if kind.kind == "array":
        if not isinstance(column, spark.ArrayType):
            raise _misfit(kind, column, where)
        return list_of(converter(kind.items, column.elementType, f"{where}[]"))
    if kind.kind == "map":
        if not isinstance(column, spark.MapType) or not isinstance(column.keyType, spark.StringType):
            raise _misfit(kind, column, where)
        return map_of(converter(kind.items, column.valueType, f"{where}{{}}"))
    if column.simpleString() not in _FITTING[kind.kind]:
        raise _misfit(kind, column, where)
    return _document if kind.doc == JSON_TEXT else None


def _document(text: str) -> Any:
    return load_document(text.encode())


def _object(kind: AvroType, column: Any, where: str) -> Convert:
    if not isinstance(column, spark.StructType):
        raise _misfit(kind, column, where)
    fields = {field.name: field for field in kind.fields}
    given = fields_of(column, where)
    if unknown := [name for name in given if name not in fields]:
        raise ConfigurationError(
            f"{where}: the schema has no property {', '.join(unknown)}. Its properties are {', '.join(fields)}"
        )
    if lacking := [name for name, field in fields.items() if name not in given and field.doc == REQUIRED]:
        raise ConfigurationError(f"{where}: the struct has no field {', '.join(lacking)}, which the schema requires")
    parts = [
        (name, converter(fields[name].type, part, f"{where}.{name}"), fields[name].doc == REQUIRED)
        for name, part in given.items()
    ]
    return lambda row: {
        name: converted(convert, row[name]) for name, convert, is_needed in parts if is_needed or row[name] is not None
    }


def _misfit(kind: AvroType, column: Any, where: str) -> ConfigurationError:
    name = "JSON text" if kind.doc == JSON_TEXT else _NAMES.get(kind.kind, kind.kind)
    return ConfigurationError(f"column {where} is {column.simpleString()}, which is no {name} of the schema")
