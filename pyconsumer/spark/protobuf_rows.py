"""Values of Spark as messages of Protobuf. Functions without state.

Rules

1. A struct is a message. Fields go by name. A field that the message type does not have is an error, since it would be
   lost. A null is left out, and so is a field that the struct lacks.
2. At most one field of a oneof is not null.
3. An enum is written from its name, or from the digits of its number. A timestamp, an interval and a number or text are
   written as ``Timestamp``, ``Duration`` and wrappers.
4. A column whose type the message's cannot hold is an error before the first row.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import types as spark

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.protobuf.column_plan import is_map, is_repeated
from pyconsumer.spark.row_parts import SMALL, WHOLE, Convert, fields_of

__all__ = ["converter"]

_UNSIGNED: Final = (*WHOLE, "decimal")
#: Spark's types by those of ``FieldDescriptor``.
_FITTING: Final[dict[int, tuple[str, ...]]] = {
    1: ("float", "double"),
    2: ("float",),
    3: WHOLE,
    4: _UNSIGNED,
    5: SMALL,
    6: _UNSIGNED,
    7: WHOLE,
    8: ("boolean",),
    9: ("string",),
    12: ("binary",),
    13: WHOLE,
    14: ("string",),
    15: SMALL,
    16: WHOLE,
    17: SMALL,
    18: WHOLE,
}
_WRAPPED: Final = "google.protobuf."
_TIMESTAMP, _DURATION = f"{_WRAPPED}Timestamp", f"{_WRAPPED}Duration"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


def converter(kind: Any, column: Any, where: str) -> Convert:
    """Return a function that makes a message from a row.

    Args:
        kind: the class of the messages.
        column: Spark's type of the column.
        where: the name of the column, for messages.

    Raises:
        ConfigurationError: the column does not fit the message type.
    """
    descriptor = kind.DESCRIPTOR
    if not isinstance(column, spark.StructType):
        raise ConfigurationError(f"column {where} is {column.simpleString()}, and no struct for {descriptor.full_name}")
    given = fields_of(column, where)
    fields = descriptor.fields_by_name
    if unknown := [name for name in given if name not in fields]:
        raise ConfigurationError(
            f"{where}: {descriptor.full_name} has no field {', '.join(unknown)}. Its fields are {', '.join(fields)}"
        )
    parts = [(name, _field(fields[name], part, f"{where}.{name}")) for name, part in given.items()]
    oneofs = [
        (oneof.name, [each.name for each in oneof.fields if each.name in given])
        for oneof in descriptor.oneofs
        if len([each for each in oneof.fields if each.name in given]) > 1
    ]

    def message(row: dict[str, Any]) -> Any:
        for name, members in oneofs:
            if len([each for each in members if row[each] is not None]) > 1:
                raise SerializationError(f"more than one field of the oneof {name} is set")
        return kind(**{name: convert(row[name]) for name, convert in parts if row[name] is not None})

    return message


def _field(field: Any, column: Any, where: str) -> Convert:
    if is_map(field):
        if not isinstance(column, spark.MapType):
            raise _misfit(field, column, where)
        of = field.message_type.fields_by_name
        key = _single(of["key"], column.keyType, f"{where}{{}}")
        item = _some(_single(of["value"], column.valueType, f"{where}{{}}"), where)
        return lambda pairs: {key(name): item(value) for name, value in pairs}
    if is_repeated(field):
        if not isinstance(column, spark.ArrayType):
            raise _misfit(field, column, where)
        item = _some(_single(field, column.elementType, f"{where}[]"), where)
        return lambda values: [item(value) for value in values]
    return _single(field, column, where)


def _some(item: Convert, where: str) -> Convert:
    def some(value: Any) -> Any:
        if value is None:
            raise SerializationError(f"an item of {where} is null, which Protobuf does not have")
        return item(value)

    return some


def _single(field: Any, column: Any, where: str) -> Convert:
    """Return the function for one value of a field."""
    kind = field.message_type
    if kind is not None:
        return _message(field, kind, column, where)
    if column.simpleString().partition("(")[0] not in _FITTING[field.type]:
        raise _misfit(field, column, where)
    if isinstance(column, spark.DecimalType):
        if column.scale:
            raise _misfit(field, column, where)
        return int
    if field.enum_type is not None:
        return _enum(field.enum_type)
    return _same


def _same(value: Any) -> Any:
    return value


def _enum(kind: Any) -> Convert:
    numbers = {name: value.number for name, value in kind.values_by_name.items()}

    def number(text: str) -> int:
        found = numbers.get(text)
        if found is not None:
            return int(found)
        try:
            return int(text)
        except ValueError:
            raise SerializationError(f"{text[:50]!r} is no name of the enum {kind.full_name}") from None

    return number


def _message(field: Any, kind: Any, column: Any, where: str) -> Convert:
    from google.protobuf.message_factory import GetMessageClass

    made: Any = GetMessageClass(kind)
    if isinstance(column, spark.StructType):
        return converter(made, column, where)
    if kind.full_name == _TIMESTAMP and isinstance(column, spark.TimestampType):
        return lambda at: _moment(made, at - _EPOCH)
    if kind.full_name == _DURATION and isinstance(column, spark.DayTimeIntervalType):
        return lambda span: _moment(made, span)
    if (
        kind.full_name.startswith(_WRAPPED)
        and kind.full_name.endswith("Value")
        and list(kind.fields_by_name) == ["value"]
    ):
        inner = _single(kind.fields_by_name["value"], column, where)
        return lambda value: made(value=inner(value))
    raise _misfit(field, column, where)


def _moment(made: Any, span: timedelta) -> Any:
    """Return a ``Timestamp`` or ``Duration``. The nanoseconds of the latter have the sign of the whole."""
    micros = span // _MICRO
    if made.DESCRIPTOR.full_name == _DURATION and micros < 0:
        seconds, rest = divmod(-micros, 1_000_000)
        return made(seconds=-seconds, nanos=-rest * 1000)
    seconds, rest = divmod(micros, 1_000_000)
    return made(seconds=seconds, nanos=rest * 1000)


def _misfit(field: Any, column: Any, where: str) -> ConfigurationError:
    kind = field.message_type or field.enum_type
    name = f"the field {field.full_name}" if kind is None else kind.full_name
    return ConfigurationError(f"column {where} is {column.simpleString()}, which does not fit {name} of the schema")
