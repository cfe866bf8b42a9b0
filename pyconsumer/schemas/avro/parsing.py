"""Parses Avro schemas of a registry, with the schemas that they refer to."""

from __future__ import annotations

from pyconsumer.protocol.avro import AvroSchema, AvroSchemaError, parse_schema
from pyconsumer.schemas.conf import with_references
from pyconsumer.schemas.registry.values import Schema

__all__ = ["parse_with_references"]


def parse_with_references(client: object, schema: Schema, *, strict: bool) -> AvroSchema:
    """Parse a schema after the schemas that it refers to, which the registry has. This waits.

    Args:
        client: of the registry.
        schema: the schema.
        strict: refuse what the specification forbids. Those of references are read leniently.

    Raises:
        AvroSchemaError: it is no schema, or references form a circle.
        SchemaRegistryError: a reference cannot be fetched.
    """

    def parse(text: str, references: list[tuple[str, AvroSchema]]) -> AvroSchema:
        return parse_schema(text, [each for _, each in references], strict=strict and text is schema.schema_str)

    return with_references(client, schema, parse, AvroSchemaError)
