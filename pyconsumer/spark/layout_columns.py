"""Typed columns whose layouts are those of :mod:`pyconsumer.protocol.avro.layout`, as all formats have them.

Rules

1. The mapping of types is that of spark-avro and spark-protobuf, by tables in ``docs/spark.md``. What has no type
   there, or loses numbers, is refused with a way out.
2. A field is nullable if its schema says so. The column itself always is.
3. Schemas that the rows need are waited for together, before the first row is decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import types as spark

from pyconsumer.errors import SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro import MAX_DECODED_BYTES, ColumnsDecoder
from pyconsumer.protocol.avro._pure_columns import Bad, Odd, explain, rows_of
from pyconsumer.protocol.avro.arrow import arrow_array
from pyconsumer.protocol.avro.layout import Column, Kind, Layout, Target
from pyconsumer.schemas.errors import SchemaFramingError
from pyconsumer.spark.typed_values import BadRow

if TYPE_CHECKING:
    from pyconsumer.protocol.records import BinaryColumn, Columns
    from pyconsumer.protocol.records.columns import HeaderColumn

__all__ = ["BareRows", "LayoutColumns", "Rows", "spark_type", "target"]

#: The registry is asked again after this time (seconds) if it did not answer.
_PAUSE_S: Final = 1.0


def target(side: str) -> Target:
    """Return the purpose of the columns of Spark, for layouts."""
    return Target(f"a {side}.schema", in_micros=True, has_nanos=False, has_unsigned=False)


# -- types -------------------------------------------------------------------------------------------------------------


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
        key, item = column.children
        return spark.MapType(spark_type(layout, key), spark_type(layout, item), layout.columns[item].nullable)
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
        key, item = column.children
        return pa.map_(pa.field("key", _arrow_type(pa, layout, key), False), _arrow_field(pa, layout, item, "value"))
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
    "duration-micros": spark.DayTimeIntervalType,
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
    "duration-micros": lambda pa: pa.duration("us"),
}


# -- rows --------------------------------------------------------------------------------------------------------------


class Rows(Protocol):
    """The rows of a side, which name their schemas. ``AvroSide`` and those of the other formats are such."""

    def prepare_column(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[BinaryColumn, Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """See ``AvroSide.prepare_column``."""
        ...

    def identity(self, column: BinaryColumn, headers: HeaderColumn | None, row: int) -> Any:
        """See ``AvroSide.identity``."""
        ...


class BareRows:
    """Rows that are values alone, of one schema.

    Args:
        program: reads them.
    """

    def __init__(self, program: Any) -> None:
        self._program = program

    def prepare_column(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[BinaryColumn, Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Read each row from its first byte on."""
        return column, {}, dict.fromkeys(range(count), Odd(self._program, 0)), count, None

    def identity(self, column: BinaryColumn, headers: HeaderColumn | None, row: int) -> None:
        """Return None: no row names a schema."""


class LayoutColumns:
    """See :class:`.typed_values.SideColumns`.

    Args:
        side: ``"key"`` or ``"value"``.
        layout: the columns.
        make_rows: returns the rows. It is called in the tasks alone, for it may need a registry's client.
    """

    def __init__(self, side: str, layout: Layout, make_rows: Callable[[], Rows]) -> None:
        import pyarrow

        self._pa: Any = pyarrow
        self.side = side
        self.layout = layout
        self.spark_type = spark_type(layout)
        self.arrow_type = _arrow_type(pyarrow, layout)
        self._make_rows = make_rows
        self._made: Rows | None = None

    @property
    def _rows(self) -> Rows:
        if self._made is None:
            self._made = self._make_rows()
        return self._made

    def part(self, columns: Columns, count: int, timeout_s: float) -> _Part:
        """Fetch the schemas that some rows need."""
        column = columns.keys if self.side == "key" else columns.values
        assert column is not None
        decoder = ColumnsDecoder(self.layout.columns)
        deadline = time.monotonic() + timeout_s
        while True:
            read, programs, odd, ready, stop = self._rows.prepare_column(decoder, column, columns.headers, count)
            if ready == count:
                return _Part(self, columns, column, read, programs, odd)
            _wait_for(stop, deadline)

    def array(self, decoder: Any) -> Any:
        """Return the decoded values as Spark's Arrow array."""
        return arrow_array(self._pa, self.layout, self.arrow_type, decoder.finish())

    def bad_row(self, bad: Bad, columns: Columns, column: BinaryColumn, read: BinaryColumn) -> BadRow:
        """Return why a row was refused.

        Args:
            bad: the row.
            columns, column: as they came.
            read: the column that was decoded.
        """
        try:
            identity = self._rows.identity(column, columns.headers, bad.row)
        except SchemaFramingError as error:
            return BadRow(bad.row, "framing", f"{self.side}: {error}", None)
        number = identity if isinstance(identity, int) and identity < 1 << 31 else None
        if not hasattr(bad.plan, "plan"):
            return BadRow(bad.row, "schema", f"{self.side}: {bad.plan}", number)
        data = bytes(read.data[read.offsets[bad.row] : read.offsets[bad.row + 1]])
        why = explain(bad.plan, data, bad.start, MAX_DECODED_BYTES)
        named = "" if identity is None else f"the schema {identity}: "
        return BadRow(bad.row, "bytes", f"{self.side}: {named}{why}", number)


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


class _Part:
    """See :class:`.typed_values.TypedPart`."""

    def __init__(
        self,
        owner: LayoutColumns,
        columns: Columns,
        column: BinaryColumn,
        read: BinaryColumn,
        programs: Mapping[Any, Any],
        odd: dict[int, Odd],
    ) -> None:
        self._owner = owner
        self._columns = columns
        self._column = column
        self._read = read
        self._programs = programs
        self._odd = odd
        self._decoder: Any = None

    def append(self, start: int, count: int, *, stop: bool) -> tuple[int, list[BadRow]]:
        """Decode rows."""
        self._decoder = ColumnsDecoder(self._owner.layout.columns)
        if start == 0:
            used, found = self._decoder.append_column(self._read, count, self._programs, self._odd, stop=stop)
        else:  # a batch was full before its end
            rows = rows_of(self._read, start + count)[start:]
            odd = {row - start: one for row, one in self._odd.items() if row >= start}
            used, found = self._decoder.append(rows, self._programs, odd, stop=stop)
        moved = [bad._replace(row=bad.row + start) for bad in found]
        return used, [self._owner.bad_row(bad, self._columns, self._column, self._read) for bad in moved]

    def finish(self, count: int) -> Any:
        """Return the array of the first rows."""
        self._decoder.truncate(count)
        return self._owner.array(self._decoder)
