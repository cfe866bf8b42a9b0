"""Avro as typed columns of Spark.

Rules

1. The mapping of types is that of spark-avro (``SchemaConverters``), by a table in ``docs/spark.md``. What has no type
   there, or loses numbers, is refused with a way out.
2. A field is nullable if its schema has null. The column itself always is.
3. A record that names its schema is read from that one to the column's. With ``value.schema`` and no registry the bytes
   are those of that schema alone, as ``from_avro`` reads them.
4. Schemas that the rows need are waited for together, before the first row is decoded.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro import (
    MAX_DECODED_BYTES,
    AvroError,
    AvroSchema,
    ColumnProgram,
    ColumnsDecoder,
    parse_schema,
)
from pyconsumer.protocol.avro._pure_columns import Bad, Odd, explain, rows_of
from pyconsumer.protocol.avro.arrow import arrow_array
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Column, Kind, Layout, Target, make_layout
from pyconsumer.protocol.avro.schema_text import schema_text
from pyconsumer.schemas.avro.columns import AvroSide, common_schema
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.errors import SchemaFramingError, SchemaNotFoundError
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.spark.registry import kept_client, kept_writers
from pyconsumer.spark.typed_values import BadRow, Paths, Settled

if TYPE_CHECKING:
    from pyconsumer.protocol.records import BinaryColumn, Columns
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["AvroFormat", "spark_type"]

#: The registry is asked again after this time (seconds) if it did not answer.
_PAUSE_S: Final = 1.0


class AvroFormat:
    """See :class:`.typed_values.Format`."""

    def settle(self, side: str, given: SideOptions, registry: Mapping[str, str], topics: Iterable[str]) -> Settled:
        """Find the schema of a column."""
        if given.schema is not None:
            try:
                parsed = parse_schema(given.schema)
            except AvroError as error:
                raise ConfigurationError(f"option {side}.schema: {error}") from None
            return Settled("avro", schema_text(parsed), None, not registry)
        client = kept_client(registry)
        if given.schema_id is not None:
            schema_id, schema = given.schema_id, _schema_by_id(client, side, given.schema_id)
        else:
            schema_id, schema = _schema_of_topics(client, side, given, sorted(set(topics)))
        try:
            parsed = parse_with_references(client, schema, strict=False)
        except AvroError as error:
            raise ConfigurationError(f"the schema {schema_id} of the {side}s cannot be used: {error}") from None
        return Settled("avro", schema_text(parsed), schema_id)

    def columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> AvroSideColumns:
        """Return a column. It is kept for the life of the process."""
        parts = None if paths is None else tuple([tuple(path) for path in paths])
        return _kept_columns(side, settled, parts, tuple(sorted(registry.items())))


def _schema_by_id(client: Any, side: str, schema_id: int) -> Schema:
    try:
        schema: Schema = client.get_schema(schema_id)
    except SchemaNotFoundError as error:
        raise ConfigurationError(f"option {side}.schema.id: {error}") from error
    if (schema.schema_type or "AVRO") != "AVRO":
        raise ConfigurationError(f"option {side}.schema.id: the schema is of the format {schema.schema_type}")
    refuse_rules(schema, "read", f"the schema {schema_id}")
    return schema


def _schema_of_topics(client: Any, side: str, given: SideOptions, topics: list[str]) -> tuple[int, Schema]:
    """Return the schema that the subjects of all topics have, and its id."""
    ways_out = f"name one with {side}.schema.id or {side}.schema, or read the topics apart"
    if not topics:
        raise ConfigurationError(f"no topic is there yet, so the schema of the {side}s is not known: {ways_out}")
    client.clear_latest_caches()  # the process may have asked for an earlier query
    found: dict[str, Any] = {}
    for topic in topics:
        subject = f"{topic}-{side}"
        try:
            if given.version is not None:
                found[topic] = client.get_version(subject, given.version)
            else:
                found[topic] = client.get_latest_version(subject)
        except SchemaNotFoundError as error:
            version = "" if given.version is None else f", version {given.version},"
            raise ConfigurationError(
                f"the topic {topic} has no schema of the {side}s: the subject {subject}{version} is not in the registry"
                f" ({error}). Otherwise {ways_out}"
            ) from error
    schema = common_schema(
        {topic: (one.subject, one.schema) for topic, one in found.items()}, MessageField(side), ways_out
    )
    return found[topics[0]].schema_id, schema


# -- types -------------------------------------------------------------------------------------------------------------


def _target(side: str) -> Target:
    return Target(f"a {side}.schema", in_micros=True, has_nanos=False)


def spark_type(layout: Layout, number: int = 0) -> Any:
    """Return Spark's type of a column, with its children. By default that of the whole."""
    column = layout.columns[number]
    if column.kind == Kind.STRUCT:
        children = [layout.columns[child] for child in column.children]
        return spark.StructType(
            [
                spark.StructField(child.name, spark_type(layout, place), child.nullable)
                for child, place in zip(children, column.children, strict=True)
            ]
        )
    if column.kind == Kind.LIST:
        return spark.ArrayType(spark_type(layout, column.children[0]), layout.columns[column.children[0]].nullable)
    if column.kind == Kind.MAP:
        item = column.children[1]
        return spark.MapType(spark.StringType(), spark_type(layout, item), layout.columns[item].nullable)
    logical = column.type.logical
    if logical is not None and logical.name == "decimal":
        return spark.DecimalType(logical.precision, logical.scale)
    return _SPARK[_name_of(column)]()


def _arrow_type(pa: Any, layout: Layout, number: int = 0) -> Any:
    """Return the Arrow type that Spark demands of a column."""
    column = layout.columns[number]
    if column.kind == Kind.STRUCT:
        return pa.struct([_arrow_field(pa, layout, child, layout.columns[child].name) for child in column.children])
    if column.kind == Kind.LIST:
        return pa.list_(_arrow_field(pa, layout, column.children[0], "element"))
    if column.kind == Kind.MAP:
        return pa.map_(pa.field("key", pa.string(), False), _arrow_field(pa, layout, column.children[1], "value"))
    logical = column.type.logical
    if logical is not None and logical.name == "decimal":
        return pa.decimal128(logical.precision, logical.scale)
    return _ARROW[_name_of(column)](pa)


def _arrow_field(pa: Any, layout: Layout, number: int, name: str) -> Any:
    return pa.field(name, _arrow_type(pa, layout, number), layout.columns[number].nullable)


def _name_of(column: Column) -> str:
    """Return the logical type if it has a type of its own in Spark, else the type."""
    name = "" if column.type.logical is None else column.type.logical.name
    return name if name in _SPARK else column.type.kind


_SPARK: Final[dict[str, Callable[[], Any]]] = {
    "null": spark.NullType,
    "boolean": spark.BooleanType,
    "int": spark.IntegerType,
    "long": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "bytes": spark.BinaryType,
    "fixed": spark.BinaryType,
    "string": spark.StringType,
    "enum": spark.StringType,
    "uuid": spark.StringType,
    "date": spark.DateType,
    "timestamp-millis": spark.TimestampType,
    "timestamp-micros": spark.TimestampType,
    "local-timestamp-millis": spark.TimestampNTZType,
    "local-timestamp-micros": spark.TimestampNTZType,
}
_ARROW: Final[dict[str, Callable[[Any], Any]]] = {
    "null": lambda pa: pa.null(),
    "boolean": lambda pa: pa.bool_(),
    "int": lambda pa: pa.int32(),
    "long": lambda pa: pa.int64(),
    "float": lambda pa: pa.float32(),
    "double": lambda pa: pa.float64(),
    "bytes": lambda pa: pa.binary(),
    "fixed": lambda pa: pa.binary(),
    "string": lambda pa: pa.string(),
    "enum": lambda pa: pa.string(),
    "uuid": lambda pa: pa.string(),
    "date": lambda pa: pa.date32(),
    "timestamp-millis": lambda pa: pa.timestamp("us", tz="UTC"),
    "timestamp-micros": lambda pa: pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": lambda pa: pa.timestamp("us"),
    "local-timestamp-micros": lambda pa: pa.timestamp("us"),
}


# -- rows --------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _kept_columns(side: str, settled: Settled, parts: Any, registry: tuple[tuple[str, str], ...]) -> AvroSideColumns:
    return AvroSideColumns(side, settled, parts, dict(registry))


class AvroSideColumns:
    """See :class:`.typed_values.SideColumns`."""

    def __init__(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> None:
        import pyarrow

        self._pa: Any = pyarrow
        self._side = side
        reader = parse_schema(settled.text, strict=False)
        self.layout = make_layout(reader, paths, side=side, target=_target(side))
        self.spark_type = spark_type(self.layout)
        self.arrow_type = _arrow_type(pyarrow, self.layout)
        self._registry = registry
        self._bare = _program(reader, self.layout) if settled.is_bare else None

    @functools.cached_property
    def _rows(self) -> AvroSide:
        return AvroSide(self.layout, MessageField(self._side), kept_writers(self._registry))

    def part(self, columns: Columns, count: int, timeout_s: float) -> _AvroPart:
        """Fetch the schemas that some rows need."""
        column = columns.keys if self._side == "key" else columns.values
        assert column is not None
        if self._bare is not None:
            odd = dict.fromkeys(range(count), Odd(self._bare, 0))
            return _AvroPart(self, columns, column, {}, odd)
        decoder = ColumnsDecoder(self.layout.columns)
        deadline = time.monotonic() + timeout_s
        while True:
            programs, odd, ready, stop = self._rows.prepare(decoder, column, columns.headers, count)
            if ready == count:
                return _AvroPart(self, columns, column, programs, odd)
            _wait_for(stop, deadline)

    def array(self, decoder: Any) -> Any:
        """Return the decoded values as Spark's Arrow array."""
        return arrow_array(self._pa, self.layout, self.arrow_type, decoder.finish())

    def bad_row(self, bad: Bad, columns: Columns, column: BinaryColumn) -> BadRow:
        """Return why a row was refused."""
        data = bytes(column.data[column.offsets[bad.row] : column.offsets[bad.row + 1]])
        identity: Any = None
        if self._bare is None:
            try:
                identity = self._rows.identity(column, columns.headers, bad.row)
            except SchemaFramingError as error:
                return BadRow(bad.row, "framing", f"{self._side}: {error}", None)
        number = identity if isinstance(identity, int) and identity < 1 << 31 else None
        if not hasattr(bad.plan, "plan"):
            return BadRow(bad.row, "schema", f"{self._side}: {bad.plan}", number)
        why = explain(bad.plan, data, bad.start, MAX_DECODED_BYTES)
        named = "" if identity is None else f"the schema {identity}: "
        return BadRow(bad.row, "bytes", f"{self._side}: {named}{why}", number)


def _program(reader: AvroSchema, layout: Layout) -> ColumnProgram:
    return ColumnProgram(column_plan(reader, layout))


def _wait_for(stop: Exception | None, deadline: float) -> None:
    """Wait until a schema has arrived, or until it is time to ask for it again.

    Raises:
        SchemaUnavailableError: there is no time left, or another attempt is of no use.
    """
    left = deadline - time.monotonic()
    if isinstance(stop, PendingError):
        arrival: Any = stop.arrival
        if left > 0 and wait([arrival], left).done:
            return
        raise SchemaUnavailableError(f"{stop}: the registry has not answered in time", retriable=True)
    assert isinstance(stop, SerializationError)
    if left <= 0 or not stop.retriable:
        raise stop
    time.sleep(min(_PAUSE_S, left))


class _AvroPart:
    """See :class:`.typed_values.TypedPart`."""

    def __init__(
        self,
        owner: AvroSideColumns,
        columns: Columns,
        column: BinaryColumn,
        programs: Mapping[Any, Any],
        odd: dict[int, Odd],
    ) -> None:
        self._owner = owner
        self._columns = columns
        self._column = column
        self._programs = programs
        self._odd = odd
        self._decoder: Any = None

    def append(self, start: int, count: int, *, stop: bool) -> tuple[int, list[BadRow]]:
        """Decode rows."""
        self._decoder = ColumnsDecoder(self._owner.layout.columns)
        if start == 0:
            used, found = self._decoder.append_column(self._column, count, self._programs, self._odd, stop=stop)
        else:  # a batch was full before its end
            rows = rows_of(self._column, start + count)[start:]
            odd = {row - start: one for row, one in self._odd.items() if row >= start}
            used, found = self._decoder.append(rows, self._programs, odd, stop=stop)
        moved = [bad._replace(row=bad.row + start) for bad in found]
        return used, [self._owner.bad_row(bad, self._columns, self._column) for bad in moved]

    def finish(self, count: int) -> Any:
        """Return the array of the first rows."""
        self._decoder.truncate(count)
        return self._owner.array(self._decoder)
