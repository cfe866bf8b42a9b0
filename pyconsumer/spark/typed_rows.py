"""Typed columns: their schema for Spark, and the rows of a task.

Rules

1. The schema of each column is settled once, when Spark asks for it. It travels in the metadata of the column's field,
   in the ``StructType`` that Spark hands to everything later. So no later step asks for the latest version again.
2. A null key or value is a null. With ``onDecodeError=null`` so is a bad one, and ``decodeError`` has the reason. If
   the key and the value of a row are bad, it is that of the key. ``value_schema_id`` is the id that the bytes name,
   whether or not they can be decoded.
3. With ``onDecodeError=fail`` a bad row fails the task. The error names its place.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError
from pyconsumer.protocol.records.arrow import binary_array, number_array
from pyconsumer.schemas.columns import named_rows
from pyconsumer.schemas.wire import header_name
from pyconsumer.spark.errors import ReadError
from pyconsumer.spark.partition_reader import record_batch
from pyconsumer.spark.schema import COLUMNS, DECODE_ERROR, HEADERS, arrow_schema
from pyconsumer.spark.typed_values import BadRow, Settled, SideColumns
from pyconsumer.spark.value_formats import format_named
from pyconsumer.spark.value_options import SIDES
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from pyconsumer.protocol.records import Columns
    from pyconsumer.spark.options import SourceOptions

__all__ = [
    "TypedRows",
    "decoded_sides",
    "described_side",
    "is_decoded",
    "raw_columns",
    "settle",
    "settled_in",
    "typed_schema",
]

#: In the metadata of a column that is decoded, and of ``decodeError``.
_TYPED: Final = "pyconsumer"
#: The end of the name of a column with the ids of schemas.
_ID: Final = "_schema_id"
_MAGIC: Final = b"\0"
_ID_BYTES: Final = 4


# -- on the driver -----------------------------------------------------------------------------------------------------


def settle(options: SourceOptions, topics: Iterable[str]) -> dict[str, Settled]:
    """Return the schema of each typed column.

    Args:
        options: the options of the source.
        topics: the topics that are read.

    Raises:
        ConfigurationError: the topics have several schemas or none, or one cannot be used.
        SchemaUnavailableError: the registry does not answer.
    """
    values = options.values
    assert values is not None
    names = sorted(set(topics))
    return {
        side: format_named(values.sides[side].format).settle(side, values.sides[side], values.registry, names)
        for side in options.parts
    }


def typed_schema(options: SourceOptions, settled: Mapping[str, Settled]) -> Any:
    """Return the columns as a ``StructType``. The schema of a typed column is in the metadata of its field (rule 1).

    Raises:
        ConfigurationError: a schema has no columns, or not those that the options name.
    """
    from pyspark.sql.types import StructField, StructType

    fields = []
    for name in options.columns:
        found = settled.get(name)
        if found is None:
            sign = {_TYPED: {"decoded": list(settled)}} if name == DECODE_ERROR else None
            fields.append(StructField(name, _plain_type(name), True, sign))
            continue
        about: dict[str, Any] = {"format": found.format, "schema": found.text, "bare": found.is_bare}
        if found.schema_id is not None:
            about["schemaId"] = found.schema_id
        fields.append(StructField(name, _columns_of(options, name, found).spark_type, True, {_TYPED: about}))
    return StructType(fields)


def _plain_type(name: str) -> Any:
    from pyspark.sql import types as spark

    binary, text = spark.BinaryType(), spark.StringType()
    if name == HEADERS:
        pair = [spark.StructField("key", text), spark.StructField("value", binary)]
        return spark.ArrayType(spark.StructType(pair))
    if name == DECODE_ERROR:
        parts = (("stage", text), ("reason", text), ("schemaId", spark.IntegerType()))
        return spark.StructType([spark.StructField(part, kind) for part, kind in parts])
    if name.endswith(_ID):
        return spark.IntegerType()
    plain = {
        "binary": binary,
        "string": text,
        "int": spark.IntegerType(),
        "bigint": spark.LongType(),
        "timestamp": spark.TimestampType(),
    }
    return plain[COLUMNS.get(name, "binary")]


def decoded_sides(schema: Any) -> tuple[str, ...] | None:
    """Return which of key and value were decoded, by the columns of a frame. The job may have replaced some of them.

    Args:
        schema: the ``StructType`` of the frame.

    Returns:
        The sides that ``decodeError`` names. None if the sign on this column is lost or the column is not there.
    """
    field = next((field for field in schema.fields if field.name == DECODE_ERROR), None)
    about: Any = None if field is None else (field.metadata or {}).get(_TYPED)
    try:
        return tuple([str(side) for side in about["decoded"]])
    except (TypeError, KeyError):
        return None


def is_decoded(schema: Any, name: str) -> bool:
    """Return whether a column of a frame has decoded keys or values, as the source has made it.

    Args:
        schema: the ``StructType`` of the frame.
        name: of the column.
    """
    return any(field.name == name and _TYPED in (field.metadata or {}) for field in schema.fields)


def described_side(schema: Any, side: str) -> tuple[str, str]:
    """Return in words what the source has made of keys or values, and the options with which it does so.

    Args:
        schema: the ``StructType`` of the frame.
        side: ``"key"`` or ``"value"``, a column of the frame.
    """
    field = schema[side]
    kind = field.dataType.simpleString()
    about = (field.metadata or {}).get(_TYPED)
    if about is None:
        return f"undecoded ({kind})", f"no {side}.format"
    options = f"{side}.format={about['format']}"
    if "schemaId" in about:
        return f"{about['format']} of schema {about['schemaId']} ({kind})", (
            f"{options} and {side}.schema.id={about['schemaId']}"
        )
    return f"{about['format']} ({kind})", f"{options} and the {side}.schema of the earlier runs"


def settled_in(options: SourceOptions, schema: Any) -> dict[str, Settled]:
    """Return the schemas that :func:`typed_schema` has put into the schema.

    Raises:
        ConfigurationError: it is another schema.
    """
    found: dict[str, Settled] = {}
    for side in options.parts:
        field = next((field for field in schema.fields if field.name == side), None)
        about: Any = None if field is None else (field.metadata or {}).get(_TYPED)
        try:
            found[side] = Settled(about["format"], about["schema"], about.get("schemaId"), about["bare"])
        except (TypeError, KeyError, AttributeError):
            raise _other_schema(side) from None
    if schema != typed_schema(options, found):
        raise _other_schema(" and ".join(found))
    return found


def _other_schema(side: str) -> ConfigurationError:
    return ConfigurationError(
        f"schema() cannot change the columns of this source: {side} has the type of its schema, which the registry or"
        " an option gives"
    )


def _columns_of(options: SourceOptions, side: str, settled: Settled) -> SideColumns:
    values = options.values
    assert values is not None
    registry = {} if settled.is_bare else values.registry
    return format_named(settled.format).columns(side, settled, options.parts[side], registry)


# -- in the tasks ------------------------------------------------------------------------------------------------------


def raw_columns(options: SourceOptions) -> tuple[str, ...]:
    """Return the columns that a task must have of the records, to make those that were asked for."""
    if not options.parts:
        return options.columns
    needed = {name.removesuffix("_bytes").removesuffix(_ID) for name in options.columns if name != DECODE_ERROR}
    return (*needed, HEADERS)  # which may name schemas


class TypedRows:
    """The typed rows of a task.

    Args:
        options: the options of the source.
        settled: the schemas of the typed columns.
    """

    def __init__(self, options: SourceOptions, settled: Mapping[str, Settled]) -> None:
        import pyarrow

        self._pa: Any = pyarrow
        values = options.values
        assert values is not None
        self._null_for_errors = values.null_for_errors
        self._timeout = options.poll_timeout_ms / 1000
        # In this order, since the first reason counts (rule 2).
        self._sides = {side: _columns_of(options, side, settled[side]) for side in SIDES if side in settled}
        others = {*settled, DECODE_ERROR, *[f"{side}{_ID}" for side in SIDES]}
        self._plain = tuple([name for name in options.columns if name not in others])
        self._ids = tuple([name.removesuffix(_ID) for name in options.columns if name.endswith(_ID)])
        self._bare = frozenset([side for side, given in values.sides.items() if given.schema and not values.registry])
        self._error: Any = arrow_schema((DECODE_ERROR,)).field(0)
        fields = []
        for name in options.columns:
            if name in settled:
                fields.append(pyarrow.field(name, self._sides[name].arrow_type))
            else:
                fields.append(arrow_schema((name,)).field(0))
        self.schema: pa.Schema = pyarrow.schema(fields)

    def batches(self, columns: Columns, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the first ``count`` rows as record batches.

        Raises:
            ReadError: a row is bad, and ``onDecodeError`` is ``fail``. Or the registry does not answer.
        """
        deadline = time.monotonic() + self._timeout
        parts: dict[str, Any] = {}
        for side, typed in self._sides.items():
            try:
                parts[side] = typed.part(columns, count, deadline - time.monotonic())
            except (SchemaUnavailableError, ConfigurationError) as error:
                place = TopicPartition(columns.topic, columns.partition)
                raise ReadError(
                    f"the schemas of its {side}s are missing: {error}", place, columns.offsets[0]
                ) from error
        plain = self._plain_columns(columns, count)
        start = 0
        while start < count:
            bad: dict[int, BadRow] = {}
            limit = count - start
            for part in parts.values():
                limit, found = part.append(start, limit, stop=not self._null_for_errors)
                for one in found:
                    bad.setdefault(one.row, one)
            if bad and not self._null_for_errors and min(bad) <= start + limit:
                raise self._failure(columns, bad[min(bad)])
            yield self._batch(plain, parts, start, limit, bad)
            start += limit

    def _plain_columns(self, columns: Columns, count: int) -> dict[str, Any]:
        """Return the columns that are not decoded."""
        found: dict[str, Any] = {}
        if self._plain:
            found |= zip(self._plain, record_batch(columns, count, self._plain).columns, strict=True)
        for side in self._ids:
            if side in self._bare:
                found[f"{side}{_ID}"] = self._pa.nulls(count, self._pa.int32())
            else:
                found[f"{side}{_ID}"] = _schema_ids(self._pa, columns, side, count)
        return found

    def _failure(self, columns: Columns, bad: BadRow) -> ReadError:
        return ReadError(
            f"the record cannot be decoded: {bad.reason}. With onDecodeError=null such a record is null, and the column"
            " decodeError has the reason",
            TopicPartition(columns.topic, columns.partition),
            columns.offsets[bad.row],
        )

    def _batch(
        self, plain: Mapping[str, Any], parts: Mapping[str, Any], start: int, count: int, bad: Mapping[int, BadRow]
    ) -> pa.RecordBatch:
        pa = self._pa
        arrays: dict[str, Any] = {side: part.finish(count) for side, part in parts.items()}
        for name, values in plain.items():
            arrays[name] = values.slice(start, count)
        if DECODE_ERROR in self.schema.names:
            kind = self._error.type
            rows: Any = [None] * count
            for row, one in bad.items():
                if row < start + count:
                    rows[row - start] = {"stage": one.stage, "reason": one.reason, "schemaId": one.schema_id}
            arrays[DECODE_ERROR] = pa.array(rows, kind) if bad else pa.nulls(count, kind)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)


def _schema_ids(pa: Any, columns: Columns, side: str, count: int) -> Any:
    """Return the ids that stand before the keys or values. Null where a record names none, or its schema by a GUID."""
    import pyarrow.compute as pc

    column = columns.keys if side == "key" else columns.values
    assert column is not None
    data = binary_array(pa, column, pa.binary()).slice(0, count)
    prefix = pc.binary_slice(data, 0, 1 + _ID_BYTES)
    framed = pc.and_(pc.equal(pc.binary_length(prefix), 1 + _ID_BYTES), pc.starts_with(prefix, _MAGIC))
    guids = named_rows(columns.headers, header_name(side), count)
    if guids:
        framed = pc.and_(framed, pa.array([row not in guids for row in range(count)]))
    present = pc.fill_null(framed, False)
    digits = pc.if_else(present, pc.binary_slice(prefix, 1, 1 + _ID_BYTES), bytes(_ID_BYTES)).cast(pa.binary(_ID_BYTES))
    numbers = array("i")
    numbers.frombytes(digits.buffers()[1].slice(0, count * _ID_BYTES))
    if sys.byteorder == "little":
        numbers.byteswap()
    ids = number_array(pa, numbers, pa.int32())
    return pc.if_else(pc.and_(present, pc.greater_equal(ids, 0)), ids, pa.scalar(None, pa.int32()))
