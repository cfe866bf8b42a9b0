"""Typed columns of Protobuf. The rules are those of :mod:`pyconsumer.schemas.columns`, and two.

1. With a class, the columns are those of the class, and each value is read as a message of it, whatever type the path
   in the value names. The schema of a value is fetched for its format and its rules alone.
2. Without a class, the columns are those of the first message type of the latest schema. A value of a message type with
   another full name is an error of its row. Fields are matched by their numbers, as all readers of Protobuf do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro._pure_columns import Odd, rows_of
from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.protocol.protobuf.coder import message_program
from pyconsumer.protocol.protobuf.column_plan import message_plan, message_schema
from pyconsumer.protocol.protobuf.files import message_path
from pyconsumer.schemas.columns import TypedColumns, found_or_error, named_rows, row_bytes, schemas_of_rows
from pyconsumer.schemas.errors import SchemaFramingError
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.protobuf.deserializer import parse_with_references
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name, read_framed

if TYPE_CHECKING:
    from pyconsumer.protocol.records.columns import BinaryColumn, HeaderColumn

__all__ = ["ProtobufColumns", "ProtobufSide"]

_ANY: Final[tuple[int, ...]] = ()


class ProtobufColumns(TypedColumns[Any]):
    """The typed columns of one side of a ``ProtobufDeserializer``.

    Args:
        owner: the ``ProtobufDeserializer``.
        field: key or value.
    """

    _GIVEN = "a message_type"

    def __init__(self, owner: Any, field: MessageField) -> None:
        super().__init__(owner, field)
        self._paths: Loader[tuple[int, ...]] = Loader(self._load_path)
        self._reader = owner.message_descriptor

    def _parse(self, schema: Any, *, is_own: bool) -> Any:
        return parse_with_references(self._owner.client, schema).message([0]).DESCRIPTOR

    def _side(self, reader: Any, paths: Sequence[Sequence[str]] | None) -> ProtobufSide:
        return ProtobufSide(reader, paths, self._owner, self._field, self._paths)

    def _load_path(self, identity: Any) -> tuple[int, ...]:
        """Find the path of the message type in a writer's schema, in a thread of the loader. Empty: each one."""
        owner = self._owner
        if owner.client is None:
            return _ANY
        writer = owner.fetch_writer(identity)
        if owner.message_descriptor is not None:
            return _ANY
        assert self._reader is not None
        name = self._reader.full_name
        try:
            file = parse_with_references(owner.client, writer)
        except SerializationError as error:
            raise type(error)(f"the schema {identity}: {error}") from None
        try:
            found = file.pool().FindMessageTypeByName(name)
        except KeyError:
            found = None
        if found is None or found.file.name != file.proto.name:
            raise SerializationError(
                f"the schema {identity} has no message type {name}, which is that of the columns: give the deserializer"
                " a message_type"
            )
        return tuple(message_path(found))


class ProtobufSide:
    """The columns of one side.

    Args:
        reader: the descriptor of the message type.
        paths: the wanted parts.
        owner: the ``ProtobufDeserializer``.
        field: key or value.
        writers: finds the path of the message type in the schemas that values name.

    Attributes:
        layout: the columns.
    """

    def __init__(
        self,
        reader: Any,
        paths: Sequence[Sequence[str]] | None,
        owner: Any,
        field: MessageField,
        writers: Loader[tuple[int, ...]],
    ) -> None:
        self.layout: Layout = make_layout(message_schema(reader), paths, side=str(field))
        self._field = field
        self._writers = writers
        self._zigzag: bool = owner.has_zigzag
        self._plan = message_plan(reader, self.layout)
        self._bare = message_program(self._plan)
        self._by_path: dict[tuple[int, ...], Any] = {}
        self._programs: dict[Any, Any] = {}

    def prepare_column(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[BinaryColumn, Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Find the programs of some rows. Arguments and results are those of ``AvroSide.prepare_column``."""
        return column, *self.prepare(decoder, column, headers, count)

    def prepare(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Do as :meth:`prepare_column`, without the column."""
        named = named_rows(headers, header_name(self._field), count)
        if named:  # the bytes of these rows have no id
            rows = [None if row in named else data for row, data in enumerate(rows_of(column, count))]
            scanned = decoder.scan(rows, self._programs)
        else:
            scanned = decoder.scan_column(column, count, self._programs)
        if not scanned.missing and not scanned.odd and not named:
            return self._programs, {}, count, None
        odd: dict[int, Odd] = {}
        framed: dict[int, tuple[Any, int, tuple[int, ...]]] = {}
        wanted: list[tuple[int, Any]] = [(row, key) for key, row in scanned.missing.items()]
        for row in sorted({*scanned.odd, *named}):
            data = row_bytes(column, row)
            if data is None:
                continue
            try:
                framed[row] = self._framing(data, named.get(row))
            except SchemaFramingError as error:
                odd[row] = Odd(error, 0)
                continue
            wanted.append((row, framed[row][0]))
        found, limit, stop = schemas_of_rows(wanted, count, self._path)
        programs = dict(self._programs)
        for key, path in found.items():
            if isinstance(path, Exception):
                if not isinstance(path, (PendingError, SchemaUnavailableError)):
                    programs[key] = path
            else:
                programs[key] = self._programs[key] = self._program(path)
        for row, (key, start, indexes) in framed.items():
            path = found.get(key)
            odd[row] = Odd(self._odd_program(path, indexes), start)
        return programs, odd, limit, stop

    def _framing(self, data: bytes, header: bytes | None) -> tuple[Any, int, tuple[int, ...]]:
        """Return the id or GUID that a row names, the index of its message, and the path of its type."""
        headers = None if header is None else [(header_name(self._field), header)]
        framed = read_framed(data, headers, self._field, protobuf=True, zigzag=self._zigzag)
        key = framed.schema_id if framed.schema_id is not None else framed.guid
        return key, len(data) - len(framed.payload), framed.indexes

    def _odd_program(self, path: Any, indexes: tuple[int, ...]) -> Any:
        """Return the program of a row whose path was read, or the error in its place."""
        if isinstance(path, Exception) or path is None:
            return path
        if path and (indexes or (0,)) != path:
            return SerializationError(
                f"the value is a message of the type {list(indexes or (0,))} of its file, and the columns are those of"
                f" {list(path)}"
            )
        return self._bare

    def identity(self, column: BinaryColumn, headers: HeaderColumn | None, row: int) -> Any:
        """Return the id or the GUID of the schema that a row names. This is for a row that was refused.

        Raises:
            SchemaFramingError: it names none.
        """
        named = named_rows(headers, header_name(self._field), row + 1).get(row)
        return self._framing(row_bytes(column, row) or b"", named)[0]

    def _path(self, key: Any) -> Any:
        """Return the path of the message type in a schema, or the error in its place."""
        return found_or_error(key, lambda: self._writers.get(key, f"the schema {key}"))

    def _program(self, path: tuple[int, ...]) -> Any:
        found = self._by_path.get(path)
        if found is None:
            found = self._by_path[path] = message_program(self._plan, path, zigzag=self._zigzag)
        return found
