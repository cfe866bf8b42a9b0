"""Protobuf schemas of a registry, with the schemas that they import."""

from __future__ import annotations

from typing import Any

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.protobuf.files import ProtoFile, is_built_in, parse_file
from pyconsumer.schemas.conf import with_references
from pyconsumer.schemas.registry.values import Schema

__all__ = ["parse_with_references"]


def parse_with_references(client: Any, schema: Schema) -> ProtoFile:
    """Parse a schema after the schemas that it imports, which the registry has. This waits.

    Raises:
        SerializationError: it is no file of Protobuf, or references form a circle.
        SchemaRegistryError: a reference cannot be fetched.
    """

    def parse(text: str, references: list[tuple[str, ProtoFile]]) -> ProtoFile:
        return parse_file(text, dict(references))

    return with_references(client, schema, parse, SerializationError, skip=is_built_in)
