"""``JSONSerializer``: values as JSON. The rules are those of :mod:`pyconsumer.schemas.serializing`.

A value is checked against the schema that its id names, unless ``validate`` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas.conf import check_function, schema_of
from pyconsumer.schemas.json_schema.documents import dump_document
from pyconsumer.schemas.json_schema.validation import JsonSchema, Validator, parse_with_references
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.serializing import SchemaSerializer, WriterSchema
from pyconsumer.schemas.subjects import SerializationContext

__all__ = ["JSONSerializer"]

#: ``validation.rules.*`` are confluent-kafka's for rules within a schema. They are off there, too.
_DEFAULTS: Final[dict[str, Any]] = {
    "validate": True,
    "validation.rules.execution": None,
    "validation.rules.fail.fast": False,
    "validation.rules.executor": None,
}


class JSONSerializer(SchemaSerializer[JsonSchema]):
    """Serializes values as JSON, with the id of their schema before them or in a header.

    Use it as ``value_serializer`` or ``key_serializer``, or call it: ``serializer(value, context)``. The order of the
    arguments is that of ``confluent_kafka.schema_registry.json_schema.JSONSerializer``. The check against the schema
    needs the extra ``json-schema``.

    Args:
        schema_str: the JSON schema, as text or as a :class:`~pyconsumer.schemas.Schema` with references. It may be None
            with ``use.latest.version``, ``use.latest.with.metadata`` or ``use.schema.id``.
        schema_registry_client: a client of the registry, blocking or for asyncio.
        to_dict: called with each object and its :class:`~pyconsumer.schemas.SerializationContext`. It returns the value
            that is written, such as a dictionary.
        conf: ``validate`` (True), and the keys of :class:`~pyconsumer.schemas.AvroSerializer`, as in confluent-kafka.
        rule_conf, rule_registry: rules are not run, so only None is taken.
        json_encode: makes text or bytes of a value, such as ``orjson.dumps``. None writes as ``json.dumps`` does,
            without spaces.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.
        SerializationError: ``schema_str`` is no JSON schema.
    """

    FORMAT = "JSON"

    def __init__(
        self,
        schema_str: Any,
        schema_registry_client: Any,
        to_dict: Callable[[Any, SerializationContext], Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Mapping[str, Any] | None = None,
        rule_registry: Any = None,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        check_function(json_encode, "json_encode")
        schema = schema_of(schema_str, "JSONSerializer", self.FORMAT)
        super().__init__(schema_registry_client, schema, to_dict, conf, _DEFAULTS, rule_conf, rule_registry)
        mode = self._conf["validation.rules.execution"]
        if str(getattr(mode, "value", mode)).upper() not in ("NONE", "DISABLED"):
            raise ConfigurationError("JSONSerializer runs no rules: leave validation.rules.execution out")
        self._json_encode = json_encode
        if schema is not None and not schema.references:
            self._own = self._parse(schema, is_own=True)
            self._encoder(self._own.parsed)

    def _parse(self, schema: Schema, *, is_own: bool) -> WriterSchema[JsonSchema]:
        parsed = parse_with_references(self._client, schema)
        return WriterSchema(parsed, parsed.title)

    def _encoder(self, parsed: JsonSchema) -> Callable[[Any, bytes], bytes]:
        encode = self._json_encode
        if not self._conf["validate"]:
            return lambda value, prefix: prefix + dump_document(value, encode)
        check = Validator(parsed).check

        def checked(value: Any, prefix: bytes) -> bytes:
            check(value)
            return prefix + dump_document(value, encode)

        return checked
