"""Protobuf messages as JSON, and back: ``consume`` and ``produce`` with ``--value-format protobuf``.

The JSON is Protobuf's own (ProtoJSON), with the names of fields as in the schema. A whole number of 64 bits is text.
Bytes are base64. On reading, a key that is no field is refused.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from pyconsumer.cli.avro_lines import JsonValue
from pyconsumer.schemas.protobuf.deserializer import ProtobufDeserializer
from pyconsumer.schemas.subjects import SerializationContext

__all__ = ["ShownMessages", "message_of"]


class ShownMessages(ProtobufDeserializer):
    """Deserializes messages to :class:`~pyconsumer.cli.avro_lines.JsonValue`.

    Args:
        client: of the registry.
        binary: how to write bytes that are not UTF-8 text.
    """

    def __init__(self, client: Any, binary: str) -> None:
        super().__init__(None, None, client)
        self._binary = binary

    def convert(self, value: Any, ctx: SerializationContext) -> Any:
        """Return a message as JSON."""
        document = json_format.MessageToDict(
            value, preserving_proto_field_name=True, descriptor_pool=value.DESCRIPTOR.file.pool
        )
        return JsonValue(document, self._binary)


def message_of(kind: Any, document: Any) -> Any:
    """Return the message of a document.

    Raises:
        ValueError: it does not fit the type. The message names the place.
    """
    try:
        return json_format.ParseDict(document, kind(), descriptor_pool=kind.DESCRIPTOR.file.pool)
    except (json_format.ParseError, AttributeError, TypeError) as error:
        raise ValueError(f"its value is no {kind.__qualname__}: {' '.join(str(error).split())}") from None
