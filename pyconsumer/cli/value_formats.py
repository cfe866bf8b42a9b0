"""``--value-format``: values as JSON by the schemas of a registry, for ``consume`` and ``produce``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import IO, Any, Final, TypeVar

import click

from pyconsumer.cli.registry import registry_client

__all__ = ["ValueWriter", "json_deserializer", "schema_text", "value_format_option"]

F = TypeVar("F", bound=Callable[..., Any])

#: The formats by the registry's names.
_FORMATS: Final = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}


def value_format_option(function: F) -> F:
    """Add ``--value-format`` to a command."""
    return click.option(
        "--value-format",
        type=click.Choice(["text", *_FORMATS]),
        default="text",
        show_default=True,
        help="avro, json, protobuf: values name a schema of the Schema Registry, and are JSON here.",
    )(function)


def json_deserializer(client: Any, binary: str, value_format: str) -> Any:
    """Return a deserializer whose values are :class:`~pyconsumer.cli.avro_lines.JsonValue`.

    Args:
        client: of the registry.
        binary: how to write bytes that are not UTF-8 text.
        value_format: ``avro``, ``json`` or ``protobuf``.
    """
    from pyconsumer.cli.avro_lines import JsonValue
    from pyconsumer.schemas import AvroDeserializer, JSONDeserializer

    def shown(value: Any, ctx: Any) -> JsonValue:
        return JsonValue(value, binary)

    if value_format == "json":
        return JSONDeserializer(None, shown, client)
    if value_format == "protobuf":
        from pyconsumer.cli.proto_lines import ShownMessages

        return ShownMessages(client, binary)
    return AvroDeserializer(client, from_dict=shown)


class ValueWriter:
    """Makes values of lines of JSON, in the format of a schema.

    Args:
        registry: the settings of the registry's client.
        topic: the topic. Its subject is that of ``topic_subject_name_strategy``.
        source: a file with the schema, which is registered. None: the latest version of the subject.
        timeout_ms: the longest time of a request to the registry.
        value_format: ``avro``, ``json`` or ``protobuf``.

    Raises:
        KafkaError: the registry refused the schema, has none, or cannot be reached.
    """

    def __init__(
        self, registry: Mapping[str, Any], topic: str, source: IO[str] | None, timeout_ms: int, value_format: str
    ) -> None:
        client = registry_client(registry, timeout_ms)
        from pyconsumer.schemas import MessageField, Schema, SerializationContext

        self._client = client
        kind = _FORMATS[value_format]
        try:
            subject = f"{topic}-value"
            if source is None:
                found = client.get_latest_version(subject)
                schema_id, schema = found.schema_id, found.schema
                if (schema.schema_type or "AVRO") != kind:
                    raise click.ClickException(f"the schema of {subject} is {schema.schema_type}, not {kind}")
            else:
                schema = Schema(schema_text(source), kind)
                schema_id = client.register_schema(subject, schema)
            conf = {"use.schema.id": schema_id, "auto.register.schemas": False}
            self._serializer, self._value_of = _SERIALIZERS[kind](client, schema, conf)
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
        if document is None:
            return None
        try:
            value = self._value_of(document)
        except RecursionError:
            raise ValueError("its value is nested too deeply") from None
        data: bytes | None = self._serializer(value, self._context)
        return data

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


def _avro(client: Any, schema: Any, conf: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return a serializer of Avro, and the function that makes its values of documents."""
    from pyconsumer.cli.avro_lines import from_plain
    from pyconsumer.schemas import AvroSerializer
    from pyconsumer.schemas.avro.parsing import parse_with_references

    kind = parse_with_references(client, schema, strict=False).root
    return AvroSerializer(client, conf=conf), lambda document: from_plain(kind, document)


def _json(client: Any, schema: Any, conf: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return a serializer of JSON, whose values are the documents."""
    from pyconsumer.schemas import JSONSerializer

    return JSONSerializer(None, client, conf=conf), lambda document: document


def _protobuf(client: Any, schema: Any, conf: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return a serializer of the first message type of a file, and the function that makes messages of documents."""
    from pyconsumer.cli.proto_lines import message_of
    from pyconsumer.schemas import ProtobufSerializer
    from pyconsumer.schemas.protobuf.parsing import parse_with_references

    kind = parse_with_references(client, schema).message([0])
    return ProtobufSerializer(kind, client, conf), lambda document: message_of(kind, document)


_SERIALIZERS: Final = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}


def schema_text(source: IO[str]) -> str:
    """Return the text of a file.

    Raises:
        click.ClickException: it is not UTF-8.
    """
    try:
        return source.read()
    except UnicodeDecodeError:
        raise click.ClickException(f"{source.name} is not UTF-8 text") from None
