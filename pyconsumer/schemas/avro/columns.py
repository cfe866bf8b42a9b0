"""Typed columns of Avro: plans of the writers' schemas. The rules are those of :mod:`pyconsumer.schemas.columns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import SchemaUnavailableError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro import AvroError, AvroSchema, ColumnProgram
from pyconsumer.protocol.avro._pure_columns import Odd, rows_of
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.columns import (
    TypedColumns,
    common_schema,
    found_or_error,
    framing_of,
    named_rows,
    row_bytes,
    schemas_of_rows,
)
from pyconsumer.schemas.errors import SchemaFramingError
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name

if TYPE_CHECKING:
    from pyconsumer.protocol.records.columns import BinaryColumn, HeaderColumn

__all__ = ["AvroColumns", "AvroSide", "common_schema"]


class AvroColumns(TypedColumns[AvroSchema]):
    """The typed columns of one side of an ``AvroDeserializer``.

    Args:
        owner: the ``AvroDeserializer``.
        field: key or value.
    """

    def __init__(self, owner: Any, field: MessageField) -> None:
        super().__init__(owner, field)
        self._writers: Loader[AvroSchema] = Loader(owner.load_writer)

    def _parse(self, schema: Any, *, is_own: bool) -> AvroSchema:
        return parse_with_references(self._owner.client, schema, strict=is_own)

    def _side(self, reader: AvroSchema, paths: Sequence[Sequence[str]] | None) -> AvroSide:
        return AvroSide(make_layout(reader, paths, side=str(self._field)), self._field, self._writers)


class AvroSide:
    """The columns of one side, and the programs of the writers' schemas that have been seen.

    Attributes:
        layout: the columns.
    """

    def __init__(self, layout: Layout, field: MessageField, writers: Loader[AvroSchema]) -> None:
        self.layout = layout
        self._field = field
        self._writers = writers
        self._programs: dict[Any, Any] = {}

    def prepare(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Find the programs of some rows.

        Args:
            decoder: a ``ColumnsDecoder``.
            column: the keys or values.
            headers: of the same rows.
            count: the number of rows.

        Returns:
            The programs by id, the rows that are odd, the number of rows that can be read now, and the error that stops
            the next one. It may be a ``PendingError``.
        """
        named = named_rows(headers, header_name(self._field), count)
        if named:  # the bytes of these rows have no id
            rows = [None if row in named else data for row, data in enumerate(rows_of(column, count))]
            scanned = decoder.scan(rows, self._programs)
        else:
            scanned = decoder.scan_column(column, count, self._programs)
        if not scanned.missing and not scanned.odd and not named:
            return self._programs, {}, count, None
        programs = dict(self._programs)
        odd: dict[int, Odd] = {}
        wanted: list[tuple[int, Any]] = [(row, key) for key, row in scanned.missing.items()]
        for row in sorted({*scanned.odd, *named}):
            data = row_bytes(column, row)
            if data is None:
                continue
            try:
                key, start = framing_of(data, named.get(row), self._field)
            except SchemaFramingError as error:
                odd[row] = Odd(error, 0)
                continue
            odd[row] = Odd(key, start)
            wanted.append((row, key))
        found, limit, stop = schemas_of_rows(wanted, count, self._program)
        programs |= {
            key: one for key, one in found.items() if not isinstance(one, (PendingError, SchemaUnavailableError))
        }
        for row, (key, start) in odd.items():
            if not isinstance(key, Exception):
                odd[row] = Odd(programs.get(key), start)
        return programs, odd, limit, stop

    def prepare_column(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[BinaryColumn, Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Do as :meth:`prepare`, and return the column to decode first."""
        return column, *self.prepare(decoder, column, headers, count)

    def identity(self, column: BinaryColumn, headers: HeaderColumn | None, row: int) -> Any:
        """Return the id or the GUID of the schema that a row names. This is for a row that was refused.

        Raises:
            SchemaFramingError: it names none.
        """
        named = named_rows(headers, header_name(self._field), row + 1).get(row)
        return framing_of(row_bytes(column, row) or b"", named, self._field)[0]

    def _program(self, key: Any) -> Any:
        """Return a program, or the error in its place."""
        found = self._programs.get(key)
        return found if found is not None else found_or_error(key, lambda: self._new_program(key))

    def _new_program(self, key: Any) -> Any:
        writer = self._writers.get(key, f"the schema {key}")
        try:
            found = self._programs[key] = ColumnProgram(column_plan(writer, self.layout))
        except AvroError as error:
            raise type(error)(f"the schema {key}: {error}") from None
        return found
