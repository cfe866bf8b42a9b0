"""``AvroDeserializer``: Avro values as Python's own. The rules are those of :mod:`pyconsumer.schemas.deserializing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from pyconsumer.protocol.avro import AvroSchema, Decoder, PrefixDecoder, parse_schema, read_plan
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.conf import schema_of
from pyconsumer.schemas.deserializing import Place, SchemaDeserializer
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField, SerializationContext

__all__ = ["AvroDeserializer"]


class AvroDeserializer(SchemaDeserializer[Decoder]):
    """Deserializes Avro values that begin with the id of a registry's schema, or have it in a header.

    Use it as ``value_deserializer`` or ``key_deserializer``, or call it: ``deserializer(data, context)``. The order of
    the arguments is that of ``confluent_kafka.schema_registry.avro.AvroDeserializer``.

    Args:
        schema_registry_client: a client of the registry, blocking or for asyncio.
        schema_str: the reader's schema, as text or as a :class:`~pyconsumer.schemas.Schema` with references. None
            returns values as they were written.
        from_dict: called with each value and its :class:`~pyconsumer.schemas.SerializationContext`. It returns the
            object for the application.
        return_record_name: True returns a record in a union as a pair of its full name and the record.
        conf: ``use.latest.version``, ``use.latest.with.metadata``, ``subject.name.strategy``,
            ``subject.name.strategy.type`` and ``schema.id.deserializer``, as in confluent-kafka.
        rule_conf, rule_registry: rules are not run, so only None is taken.

    Raises:
        ConfigurationError: a setting is unknown or has a wrong value.
        AvroSchemaError: ``schema_str`` is no schema.
    """

    FORMAT = "AVRO"

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: Any = None,
        from_dict: Callable[[Any, SerializationContext], Any] | None = None,
        return_record_name: bool = False,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Mapping[str, Any] | None = None,
        rule_registry: Any = None,
    ) -> None:
        given = schema_of(schema_str, "AvroDeserializer", self.FORMAT)
        super().__init__(schema_registry_client, given is not None, from_dict, conf, {}, rule_conf, rule_registry)
        self._named = bool(return_record_name)
        self.reader_schema = given
        self._reader: AvroSchema | None = None
        if given is not None and not given.references:
            self._reader = parse_schema(given.schema_str)

    def _make(self, place: Place) -> Decoder:
        writer = self.load_writer(place.identity)
        reader = self._reader_of(place, writer)
        return Decoder(read_plan(writer, reader, return_record_name=self._named))

    def _reader_of(self, place: Place, writer: AvroSchema) -> AvroSchema | None:
        if self._reader is not None:
            return self._reader
        if self.reader_schema is not None:
            self._reader = parse_with_references(self.client, self.reader_schema, strict=True)
            return self._reader
        if not self.follows_latest:
            return None
        subject, latest = self.load_latest(place.topic, place.field, writer.root.name or None)
        refuse_rules(latest, "upgrade", f"the latest version of {subject}")
        return parse_with_references(self.client, latest, strict=False)

    def _fast(self, other: Callable[[Any, bytes], Any]) -> Callable[[Any, bytes], Any]:
        return PrefixDecoder(self._loader.results, other)

    def _typed_columns(self, side: MessageField) -> Any:
        from pyconsumer.schemas.avro.columns import AvroColumns  # which objects do without

        return AvroColumns(self, side)

    def load_writer(self, identity: int | UUID) -> AvroSchema:
        """Fetch and parse a writer's schema, in a thread of a loader."""
        return parse_with_references(self.client, self.fetch_writer(identity), strict=False)
