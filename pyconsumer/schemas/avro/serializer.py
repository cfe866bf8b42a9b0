"""``AvroSerializer``: Python's values as Avro. The rules are those of :mod:`pyconsumer.schemas.serializing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import AvroSchema, Encoder, write_plan
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.conf import VALIDATION_RULES, refuse_validation_rules, schema_of
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.serializing import SchemaSerializer, WriterSchema
from pyconsumer.schemas.subjects import SerializationContext

__all__ = ["AvroSerializer"]

_DEFAULTS: Final[dict[str, Any]] = {
    "validate.strict": False,
    "validate.strict.allow.default": False,
    **VALIDATION_RULES,
}


class AvroSerializer(SchemaSerializer[AvroSchema]):
    """Serializes values as Avro, with the id of their schema before them or in a header.

    Use it as ``value_serializer`` or ``key_serializer``, or call it: ``serializer(value, context)``. The order of the
    arguments is that of ``confluent_kafka.schema_registry.avro.AvroSerializer``.

    Args:
        schema_registry_client: a client of the registry, blocking or for asyncio.
        schema_str: the schema, as text or as a :class:`~pyconsumer.schemas.Schema` with references. It may be None with
            ``use.latest.version``, ``use.latest.with.metadata`` or ``use.schema.id``.
        to_dict: called with each object and its :class:`~pyconsumer.schemas.SerializationContext`. It returns the value
            that the schema describes, a dictionary for a record.
        conf: ``auto.register.schemas``, ``normalize.schemas``, ``use.schema.id``, ``use.latest.version``,
            ``use.latest.with.metadata``, ``subject.name.strategy``, ``subject.name.strategy.type`` and
            ``schema.id.serializer``, as in confluent-kafka.
        rule_conf, rule_registry: rules are not run, so only None is taken.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.
        AvroSchemaError: ``schema_str`` is no schema.
    """

    FORMAT = "AVRO"

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: Any = None,
        to_dict: Callable[[Any, SerializationContext], Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Mapping[str, Any] | None = None,
        rule_registry: Any = None,
    ) -> None:
        schema = schema_of(schema_str, "AvroSerializer", self.FORMAT)
        super().__init__(schema_registry_client, schema, to_dict, conf, _DEFAULTS, rule_conf, rule_registry)
        refuse_validation_rules(self._conf, "AvroSerializer")
        if self._conf["validate.strict"] or self._conf["validate.strict.allow.default"]:
            raise ConfigurationError("AvroSerializer has no validate.strict: keys that are no field are ignored")
        if schema is not None and not schema.references:
            self._own = self._parse(schema, is_own=True)

    def _parse(self, schema: Schema, *, is_own: bool) -> WriterSchema[AvroSchema]:
        parsed = parse_with_references(self._client, schema, strict=is_own)
        return WriterSchema(parsed, parsed.root.name or None)

    def _encoder(self, parsed: AvroSchema) -> Callable[[Any, bytes], bytes]:
        return Encoder(write_plan(parsed)).encode
