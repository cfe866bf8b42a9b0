"""Typed columns of JSON. The rules are those of :mod:`pyconsumer.schemas.columns` and :mod:`.shapes`.

Each document is read in Python and given to Avro's decoder of columns, which has the layouts, the bounds and the way to
Arrow. If ``validate`` is given as True, a document is checked against the whole schema of the result. Otherwise its
types and ``required`` are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro import ColumnProgram, Encoder, write_plan
from pyconsumer.protocol.avro._pure_columns import Odd, rows_of
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.protocol.records.columns import BinaryColumn
from pyconsumer.schemas.columns import TypedColumns, found_or_error, framing_of, named_rows, schemas_of_rows
from pyconsumer.schemas.errors import SchemaFramingError
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.shapes import Shaped, shape_of
from pyconsumer.schemas.json_schema.validation import Validator, parse_with_references
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name

if TYPE_CHECKING:
    from pyconsumer.protocol.records.columns import HeaderColumn

__all__ = ["JsonColumns", "JsonSide"]


class JsonColumns(TypedColumns[Shaped]):
    """The typed columns of one side of a ``JSONDeserializer``.

    Args:
        owner: the ``JSONDeserializer``.
        field: key or value.
    """

    def __init__(self, owner: Any, field: MessageField) -> None:
        super().__init__(owner, field)
        self._writers: Loader[Any] = Loader(owner.fetch_writer)

    def _parse(self, schema: Any, *, is_own: bool) -> Shaped:
        return shape_of(parse_with_references(self._owner.client, schema))

    def _side(self, reader: Shaped, paths: Sequence[Sequence[str]] | None) -> JsonSide:
        return JsonSide(reader, paths, self._owner, self._field, self._writers)


class JsonSide:
    """The columns of one side.

    Args:
        reader: the schema of the result.
        paths: the wanted parts.
        owner: the ``JSONDeserializer``.
        field: key or value.
        writers: fetches the schemas that values name.

    Attributes:
        layout: the columns.
    """

    def __init__(
        self,
        reader: Shaped,
        paths: Sequence[Sequence[str]] | None,
        owner: Any,
        field: MessageField,
        writers: Loader[Any],
    ) -> None:
        self.layout: Layout = make_layout(reader.schema, paths, side=str(field))
        self._reader = reader
        self._field = field
        self._writers = writers if owner.client is not None else None
        self._decode = owner.json_decode
        self._check = Validator(reader.document).check if owner.checks_columns else None
        self._encode = Encoder(write_plan(reader.schema)).encode
        self._program = ColumnProgram(column_plan(reader.schema, self.layout))

    def prepare_column(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[BinaryColumn, Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Read some rows. Arguments and results are those of ``AvroSide.prepare_column``.

        The column that is returned has the rows in the form that the decoder reads.
        """
        named = named_rows(headers, header_name(self._field), count)
        rows = rows_of(column, count)
        odd: dict[int, Odd] = {}
        starts: dict[int, tuple[Any, int]] = {}
        for row, data in enumerate(rows):
            if data is None:
                continue
            if row not in named and data[:1] == b"\0" and len(data) > 4:
                starts[row] = int.from_bytes(data[1:5], "big"), 5
                continue
            try:
                starts[row] = framing_of(data, named.get(row), self._field)
            except SchemaFramingError as error:
                odd[row] = Odd(error, 0)
        wanted = [(row, key) for row, (key, _) in starts.items()]
        found, limit, stop = schemas_of_rows(wanted, count, self._schema)
        read: list[bytes | None] = [None if data is None else b"" for data in rows]
        for row, (key, start) in starts.items():
            if row >= limit:
                break
            if isinstance(found[key], Exception):
                odd[row] = Odd(found[key], 0)
                continue
            data = rows[row]
            assert data is not None
            try:
                read[row] = self._read(data[start:])
            except SerializationError as error:
                odd[row] = Odd(type(error)(f"the schema {key}: {error}"), 0)
        return BinaryColumn.of(read), {0: self._program}, odd, limit, stop

    def _read(self, data: bytes) -> bytes:
        document = load_document(data, self._decode)
        if self._check is not None:
            self._check(document)
        return self._encode(self._reader.fit(document), b"\0\0\0\0\0")

    def _schema(self, key: Any) -> Any:
        """Return a schema, or the error in its place."""
        writers = self._writers
        return None if writers is None else found_or_error(key, lambda: writers.get(key, f"the schema {key}"))
