"""``--value-format``: values as JSON by the schemas of a registry, for ``consume`` and ``produce``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import IO, Any, TypeVar

import click

from pyconsumer.cli.registry import registry_client

__all__ = ["ValueWriter", "json_deserializer", "schema_text", "value_format_option"]

F = TypeVar("F", bound=Callable[..., Any])


def value_format_option(function: F) -> F:
    """Add ``--value-format`` to a command."""
    return click.option(
        "--value-format",
        type=click.Choice(["text", "avro"]),
        default="text",
        show_default=True,
        help="avro: values are Avro with the id of a schema in the Schema Registry, and are JSON here.",
    )(function)


def json_deserializer(client: Any, binary: str) -> Any:
    """Return a deserializer of Avro whose values are :class:`~pyconsumer.cli.avro_lines.JsonValue`.

    Args:
        client: of the registry.
        binary: how to write bytes that are not UTF-8 text.
    """
    from pyconsumer.cli.avro_lines import JsonValue
    from pyconsumer.schemas import AvroDeserializer

    return AvroDeserializer(client, from_dict=lambda value, ctx: JsonValue(value, binary))


class ValueWriter:
    """Makes Avro of lines of JSON.

    Args:
        registry: the settings of the registry's client.
        topic: the topic. Its subject is that of ``topic_subject_name_strategy``.
        source: a file with the schema, which is registered. None: the latest version of the subject.
        timeout_ms: the longest time of a request to the registry.

    Raises:
        KafkaError: the registry refused the schema, has none, or cannot be reached.
    """

    def __init__(self, registry: Mapping[str, Any], topic: str, source: IO[str] | None, timeout_ms: int) -> None:
        client = registry_client(registry, timeout_ms)
        from pyconsumer.schemas import AvroSerializer, MessageField, Schema, SerializationContext
        from pyconsumer.schemas.avro.parsing import parse_with_references

        self._client = client
        try:
            subject = f"{topic}-value"
            if source is None:
                found = client.get_latest_version(subject)
                schema_id, schema = found.schema_id, found.schema
                if schema.schema_type not in (None, "AVRO"):
                    raise click.ClickException(f"the schema of {subject} is {schema.schema_type}, not AVRO")
            else:
                schema = Schema(schema_text(source))
                schema_id = client.register_schema(subject, schema)
            self._type = parse_with_references(client, schema, strict=False).root
            conf = {"use.schema.id": schema_id, "auto.register.schemas": False}
            self._serializer = AvroSerializer(client, conf=conf)
            self._context = SerializationContext(topic, MessageField.VALUE)
        except BaseException:
            client.close()
            raise

    def of_document(self, document: Any) -> bytes | None:
        """Return the bytes of a value from JSON. Null is a tombstone.

        Raises:
            ValueError: it does not fit the schema.
            KafkaError: the serializer refused it.
        """
        from pyconsumer.cli.avro_lines import from_plain

        if document is None:
            return None
        try:
            value = from_plain(self._type, document)
        except RecursionError:
            raise ValueError("its value is nested too deeply") from None
        return self._serializer(value, self._context)

    def of_line(self, line: bytes) -> bytes | None:
        """Return the bytes of a value that is one line of JSON. Raises as :meth:`of_document`."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its value is not JSON: {error}") from None
        return self.of_document(document)

    def close(self) -> None:
        """Close the registry's client."""
        self._client.close()


def schema_text(source: IO[str]) -> str:
    """Return the text of a file.

    Raises:
        click.ClickException: it is not UTF-8.
    """
    try:
        return source.read()
    except UnicodeDecodeError:
        raise click.ClickException(f"{source.name} is not UTF-8 text") from None
