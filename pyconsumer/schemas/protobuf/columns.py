"""Typed columns of Protobuf. The rules are those of :mod:`pyconsumer.schemas.columns`, and two.

1. With a class, the columns are those of the class, and each value is read as a message of it, whatever type the path
   in the value names. The schema of a value is fetched for its format and its rules alone.
2. Without a class, the columns are those of the first message type of the latest schema. A value of a message type with
   another full name is an error of its row. Fields are matched by their numbers, as all readers of Protobuf do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.protocol.protobuf.coder import message_program
from pyconsumer.protocol.protobuf.column_plan import message_plan, message_schema
from pyconsumer.protocol.protobuf.files import message_path
from pyconsumer.schemas.columns import FramedSide, TypedColumns, found_or_error
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.protobuf.parsing import parse_with_references
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name, read_framed

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


class ProtobufSide(FramedSide):
    """The columns of one side.

    Args:
        reader: the descriptor of the message type.
        paths: the wanted parts.
        owner: the ``ProtobufDeserializer``.
        field: key or value.
        writers: finds the path of the message type in the schemas that values name.
    """

    def __init__(
        self,
        reader: Any,
        paths: Sequence[Sequence[str]] | None,
        owner: Any,
        field: MessageField,
        writers: Loader[tuple[int, ...]],
    ) -> None:
        super().__init__(make_layout(message_schema(reader), paths, side=str(field)), field)
        self._writers = writers
        self._zigzag: bool = owner.has_zigzag
        self._plan = message_plan(reader, self.layout)
        self._bare = message_program(self._plan)
        self._by_path: dict[tuple[int, ...], Any] = {}

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
        return found_or_error(key, lambda: self._writers.get(key, f"the schema {key}"))

    def _program(self, key: Any, found: Any) -> Any:
        program = self._by_path.get(found)
        if program is None:
            program = self._by_path[found] = message_program(self._plan, found, zigzag=self._zigzag)
        return program
