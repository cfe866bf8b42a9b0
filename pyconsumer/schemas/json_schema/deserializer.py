"""``JSONDeserializer``: JSON as Python's own values. The rules are those of :mod:`pyconsumer.schemas.deserializing`.

A value is checked against the schema of the reader, unless ``validate`` is False. That is ``schema_str``, else the
latest one with ``use.latest.version``, else the one that its id names. Nothing is added to a value or taken from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyconsumer.schemas.conf import check_function, schema_of
from pyconsumer.schemas.deserializing import Place, SchemaDeserializer
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.validation import JsonSchema, Validator, parse_with_references
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import SerializationContext

__all__ = ["JSONDeserializer"]

_DEFAULTS: Final[dict[str, Any]] = {"validate": True}


class _JsonDecoder:
    """Reads the documents of one writer's schema.

    Args:
        check: raises an error for a document that does not fit. None checks nothing.
        json_decode: of the user.
    """

    __slots__ = ("_check", "_decode")

    def __init__(self, check: Callable[[Any], None] | None, json_decode: Callable[[bytes], Any] | None) -> None:
        self._check = check
        self._decode = json_decode

    def decode(self, data: bytes, start: int = 0) -> Any:
        document = load_document(data[start:], self._decode)
        if self._check is not None:
            self._check(document)
        return document


class JSONDeserializer(SchemaDeserializer[_JsonDecoder]):
    """Deserializes values of JSON that begin with the id of a registry's schema, or have it in a header.

    Use it as ``value_deserializer`` or ``key_deserializer``, or call it: ``deserializer(data, context)``. The order of
    the arguments is that of ``confluent_kafka.schema_registry.json_schema.JSONDeserializer``. The check against the
    schema needs the extra ``json-schema``.

    Args:
        schema_str: the reader's schema, as text or as a :class:`~pyconsumer.schemas.Schema` with references. None
            checks values against the schema that they were written with.
        from_dict: called with each value and its :class:`~pyconsumer.schemas.SerializationContext`. It returns the
            object for the application.
        schema_registry_client: a client of the registry, blocking or for asyncio. Without one, the id of a value is
            skipped.
        conf: ``validate`` (True), and the keys of :class:`~pyconsumer.schemas.AvroDeserializer`, as in confluent-kafka.
        rule_conf, rule_registry: rules are not run, so only None is taken.
        json_decode: makes a value of bytes, such as ``orjson.loads``. None reads by the rules of ``docs/schemas.md``.

    Raises:
        ConfigurationError: a setting is unknown or has a wrong value.
        SerializationError: ``schema_str`` is no JSON schema.
    """

    FORMAT = "JSON"

    def __init__(
        self,
        schema_str: Any,
        from_dict: Callable[[Any, SerializationContext], Any] | None = None,
        schema_registry_client: Any = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Mapping[str, Any] | None = None,
        rule_registry: Any = None,
        json_decode: Callable[[bytes], Any] | None = None,
    ) -> None:
        check_function(json_decode, "json_decode")
        given = schema_of(schema_str, "JSONDeserializer", self.FORMAT)
        super().__init__(
            schema_registry_client, given is not None, from_dict, conf, _DEFAULTS, rule_conf, rule_registry
        )
        self._json_decode = json_decode
        self.reader_schema = given
        self._reader: _JsonDecoder | None = None
        if given is not None and not given.references:
            self._reader = self._decoder(parse_with_references(None, given))

    def _decoder(self, schema: JsonSchema | None) -> _JsonDecoder:
        is_checked = schema is not None and self._conf["validate"]
        return _JsonDecoder(Validator(schema).check if is_checked else None, self._json_decode)  # type: ignore[arg-type]

    def _make(self, place: Place) -> _JsonDecoder:
        writer = None if self.client is None else self.fetch_writer(place.identity)
        if self.reader_schema is not None:
            if self._reader is None:
                self._reader = self._decoder(parse_with_references(self.client, self.reader_schema))
            return self._reader
        if writer is None:
            return self._decoder(None)
        schema = parse_with_references(self.client, writer)
        if self.follows_latest:
            subject, latest = self.load_latest(place.topic, place.field, schema.title)
            refuse_rules(latest, "upgrade", f"the latest version of {subject}")
            schema = parse_with_references(self.client, latest)
        return self._decoder(schema)
