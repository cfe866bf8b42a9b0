"""The place of a schema's id: before the value, or its GUID in a header. The functions of confluent-kafka by name.

They are values of the settings ``schema.id.serializer`` and ``schema.id.deserializer``.
"""

from __future__ import annotations

import io
from collections.abc import MutableMapping, MutableSequence
from uuid import UUID

from pyconsumer.errors import SerializationError
from pyconsumer.schemas.subjects import MessageField, SerializationContext
from pyconsumer.schemas.wire import Framed, read_framed, with_header, with_prefix

__all__ = [
    "SchemaId",
    "dual_schema_id_deserializer",
    "header_schema_id_serializer",
    "prefix_schema_id_deserializer",
    "prefix_schema_id_serializer",
]


class SchemaId:
    """The id of a schema in a record.

    Attributes:
        schema_type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        id: the number in the registry, or None.
        guid: the GUID, or None.
        message_indexes: of a Protobuf message, the path of its type.
    """

    __slots__ = ("guid", "id", "message_indexes", "schema_type")

    def __init__(
        self,
        schema_type: str,
        schema_id: int | None = None,
        guid: UUID | str | None = None,
        message_indexes: list[int] | None = None,
    ) -> None:
        self.schema_type = schema_type
        self.id = schema_id
        self.guid = UUID(guid) if isinstance(guid, str) else guid
        self.message_indexes = message_indexes

    def settle(self, framed: Framed) -> None:
        """Take over the id that was read."""
        self.id, self.guid = framed.schema_id, framed.guid
        self.message_indexes = list(framed.indexes) or None

    def __repr__(self) -> str:
        return f"SchemaId({self.schema_type!r}, {self.id}, {self.guid})"


def prefix_schema_id_serializer(payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId) -> bytes:
    """Return the payload after the id of its schema.

    Raises:
        SerializationError: the id is not known.
    """
    if schema_id.id is None:
        raise SerializationError("the registry gave no id for the schema")
    return with_prefix(schema_id.id, payload, schema_id.message_indexes)


def header_schema_id_serializer(payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId) -> bytes:
    """Add the header with the GUID of the schema to the headers of the context, and return the payload as it is.

    Raises:
        SerializationError: the GUID is not known, or the context has no headers to add to.
    """
    if schema_id.guid is None:
        raise SerializationError("the registry gave no GUID for the schema, which the header needs")
    headers = None if ctx is None else ctx.headers
    name, data = with_header(
        schema_id.guid, MessageField.VALUE if ctx is None else ctx.field, schema_id.message_indexes
    )
    if isinstance(headers, MutableMapping):
        headers[name] = data
    elif isinstance(headers, MutableSequence):
        headers.append((name, data))
    else:
        raise SerializationError("the id goes into a header: give a SerializationContext with a list of headers")
    return payload


def prefix_schema_id_deserializer(payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId) -> io.BytesIO:
    """Read the id before the payload into ``schema_id``, and return the rest."""
    return _read(read_framed(payload, None, _field(ctx), protobuf=schema_id.schema_type == "PROTOBUF"), schema_id)


def dual_schema_id_deserializer(payload: bytes, ctx: SerializationContext | None, schema_id: SchemaId) -> io.BytesIO:
    """Read the id in the header, or else before the payload, into ``schema_id``, and return the rest."""
    headers = None if ctx is None else ctx.headers
    return _read(read_framed(payload, headers, _field(ctx), protobuf=schema_id.schema_type == "PROTOBUF"), schema_id)


def _field(ctx: SerializationContext | None) -> MessageField:
    return MessageField.VALUE if ctx is None else ctx.field


def _read(framed: Framed, schema_id: SchemaId) -> io.BytesIO:
    schema_id.settle(framed)
    return io.BytesIO(framed.payload)
