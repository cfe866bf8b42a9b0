"""Typed columns of Protobuf. The rules are those of :mod:`pyconsumer.schemas.columns`, and two.

1. With a class, the columns are those of the class, and each value is read as a message of it, whatever type the path
   in the value names. The schema of a value is fetched for its format and its rules alone.
2. Without a class, the columns are those of the first message type of the latest schema. A value of a message type with
   another full name is an error of its row. Fields are matched by their numbers, as all readers of Protobuf do.

Programs know nothing of values without a path (see :mod:`pyconsumer.schemas.wire`). If a program takes a path that such
a value may begin with, the first byte of each path is looked at, and the doubtful values are judged before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro._pure_columns import Odd
from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.protocol.protobuf.coder import message_program
from pyconsumer.protocol.protobuf.column_plan import message_plan, message_schema
from pyconsumer.protocol.protobuf.files import message_path
from pyconsumer.protocol.records.columns import BinaryColumn
from pyconsumer.schemas.columns import FramedSide, TypedColumns, found_or_error, row_bytes
from pyconsumer.schemas.errors import SchemaFramingError
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.protobuf.parsing import parse_with_references
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name, may_begin_message, read_framed, write_indexes

if TYPE_CHECKING:
    from pyconsumer.protocol.records.columns import HeaderColumn

__all__ = ["ANY_PATH", "ProtobufColumns", "ProtobufSide", "path_of"]

#: Each path of a message type is read.
ANY_PATH: Final[tuple[int, ...]] = ()


def path_of(client: Any, writer: Any, identity: Any, name: str) -> tuple[int, ...]:
    """Find the path of a message type in a writer's schema. This may wait.

    Args:
        client: of the registry.
        writer: the schema.
        identity: its id or GUID, for messages.
        name: the full name of the type.

    Raises:
        SerializationError: it is no file of Protobuf, or has no such type.
    """
    try:
        file = parse_with_references(client, writer)
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
        layout = make_layout(message_schema(reader), paths, side=str(self._field))
        paths_of_types = None if self._owner.client is None else self._paths
        return ProtobufSide(reader, layout, self._field, paths_of_types, zigzag=self._owner.has_zigzag)

    def _load_path(self, identity: Any) -> tuple[int, ...]:
        """Find the path of the message type in a writer's schema, in a thread of the loader. Empty: each one."""
        owner = self._owner
        writer = owner.fetch_writer(identity)
        if owner.message_descriptor is not None:
            return ANY_PATH
        assert self._reader is not None
        return path_of(owner.client, writer, identity, self._reader.full_name)


class ProtobufSide(FramedSide):
    """The columns of one side.

    Args:
        reader: the descriptor of the message type.
        layout: the columns.
        field: key or value.
        writers: finds the path of the message type in the schemas that values name. None reads each path.
        zigzag: False reads the path as it was written before 2021.
    """

    def __init__(
        self,
        reader: Any,
        layout: Layout,
        field: MessageField,
        writers: Loader[tuple[int, ...]] | None,
        *,
        zigzag: bool = True,
    ) -> None:
        super().__init__(layout, field)
        self._writers = writers
        self._zigzag = zigzag
        self._plan = message_plan(reader, self.layout)
        self._bare = message_program(self._plan)
        self._by_path: dict[tuple[int, ...], Any] = {}
        self._judges_paths = False  # a program takes a path that a value without one may begin with

    def prepare(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Do as the base, and refuse the rows that may have no path."""
        programs, odd, limit, stop = super().prepare(decoder, column, headers, count)
        if self._judges_paths:
            for row in _doubtful_rows(decoder, column, limit):
                if row not in odd:
                    try:
                        self._framing(row_bytes(column, row) or b"", None)
                    except SchemaFramingError as error:
                        odd[row] = Odd(error, 0)
        return programs, odd, limit, stop

    def _framing(self, data: bytes, header: bytes | None) -> tuple[Any, int, tuple[int, ...]]:
        headers = None if header is None else [(header_name(self._field), header)]
        framed = read_framed(data, headers, self._field, protobuf=True, zigzag=self._zigzag)
        key = framed.schema_id if framed.schema_id is not None else framed.guid
        return key, len(data) - len(framed.payload), framed.indexes

    def _odd_program(self, key: Any, found: Any, indexes: tuple[int, ...]) -> Any:
        if found and (indexes or (0,)) != found:
            return SerializationError(
                f"the value is a message of the type {list(indexes or (0,))} of its file, and the columns are those of"
                f" {list(found)}"
            )
        return self._bare

    def _find(self, key: Any) -> Any:
        """Return the path of the message type in a schema, or the error in its place."""
        writers = self._writers
        return ANY_PATH if writers is None else found_or_error(key, lambda: writers.get(key, f"the schema {key}"))

    def _program(self, key: Any, found: Any) -> Any:
        program = self._by_path.get(found)
        if program is None:
            program = self._by_path[found] = message_program(self._plan, found, zigzag=self._zigzag)
            if found == ANY_PATH or may_begin_message(write_indexes(found, zigzag=self._zigzag)[0]):
                self._judges_paths = True
        return program


def _doubtful_rows(decoder: Any, column: BinaryColumn, count: int) -> Iterator[int]:
    """Return the rows that have an id of four bytes, and a path that a message may begin with."""
    # One byte later, a row is the first byte of its id, which is 0 almost always, and a number that ends with the path.
    # The last row with bytes would end behind the data, so it is not scanned.
    last = bisect_left(column.offsets, column.offsets[count], 0, count) - 1
    if last < 0:
        return
    later = BinaryColumn(column.offsets, memoryview(column.data)[1:], column.bitmap, column.null_count)
    found = decoder.scan_column(later, last, {})
    is_any = any(may_begin_message(number & 0xFF) for number in found.missing)
    for row in range(last + 1) if is_any else (*found.odd, last):
        start, end = column.offsets[row], column.offsets[row + 1]
        if end - start > 5 and column.data[start] == 0 and may_begin_message(column.data[start + 5]):
            yield row
