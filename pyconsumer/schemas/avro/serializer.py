"""``AvroSerializer``: Python's values as Avro, with the id of a schema that the registry has.

Rules

1. The schema of a topic is settled when its first value is written, in a thread (:mod:`pyconsumer.schemas.loading`):
   registered, looked up, taken by id, or the latest of the subject. Only ``use.latest.*`` is looked up again, every
   :data:`LATEST_S` seconds. While that fails, the known one stays in use. A refusal to register (409), and an unknown
   schema (404), are kept for about a second.
2. ``use.schema.id`` comes before ``use.latest.*``, and that before ``auto.register.schemas``, as in confluent-kafka.
3. Bound to a producer, it never waits: it raises ``PendingError``, and the producer waits at most ``max_block_ms``.
   Called as a function, it waits.
4. Bound to a producer, a header with the schema's GUID is returned beside the bytes, and the producer adds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.generic import Header
from pyconsumer.protocol.avro import AvroSchema, Encoder, parse_schema, write_plan
from pyconsumer.schemas.avro.settings import checked_conf, parse_with_references, schema_of, strategy_of, subject_of
from pyconsumer.schemas.errors import IncompatibleSchemaError, SchemaNotFoundError, SchemaRegistryError
from pyconsumer.schemas.ids import SchemaId, header_schema_id_serializer, prefix_schema_id_serializer
from pyconsumer.schemas.loading import Loader, call_registry
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField, SerializationContext
from pyconsumer.schemas.wire import with_prefix

__all__ = ["LATEST_S", "AvroSerializer"]

#: The latest version of a subject is looked up again after this time (seconds).
LATEST_S: Final = 10.0

_DEFAULTS: Final[dict[str, Any]] = {
    "auto.register.schemas": True,
    "normalize.schemas": False,
    "use.schema.id": None,
    "use.latest.version": False,
    "use.latest.with.metadata": None,
    "subject.name.strategy": None,
    "subject.name.strategy.type": None,
    "subject.name.strategy.conf": None,
    "schema.id.serializer": prefix_schema_id_serializer,
    "validate.strict": False,
    "validate.strict.allow.default": False,
}


class _Settled(NamedTuple):
    """The schema of a topic.

    Attributes:
        encode: see :meth:`Encoder.encode`.
        prefix: the bytes before the value. Empty if the id goes elsewhere.
        schema_id: for a function that places the id. None if the prefix has it.
    """

    encode: Callable[[Any, bytes], bytes]
    prefix: bytes
    schema_id: SchemaId | None


class AvroSerializer:
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

    def __init__(
        self,
        schema_registry_client: Any,
        schema_str: Any = None,
        to_dict: Callable[[Any, SerializationContext], Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Mapping[str, Any] | None = None,
        rule_registry: Any = None,
    ) -> None:
        if rule_conf or rule_registry is not None:
            raise ConfigurationError("AvroSerializer runs no rules: leave rule_conf and rule_registry out")
        if to_dict is not None and not callable(to_dict):
            raise ConfigurationError(f"to_dict is a function of an object and its context, not {to_dict!r}")
        self._client = schema_registry_client
        self._conf = found = checked_conf(conf, _DEFAULTS, "AvroSerializer")
        if found["validate.strict"] or found["validate.strict.allow.default"]:
            raise ConfigurationError("AvroSerializer has no validate.strict: keys that are no field are ignored")
        schema_id = found["use.schema.id"]
        if schema_id is not None and (not isinstance(schema_id, int) or isinstance(schema_id, bool) or schema_id < 0):
            raise ConfigurationError(f"use.schema.id is a number, not {schema_id!r}")
        if found["use.latest.version"] and found["auto.register.schemas"]:
            raise ConfigurationError("use.latest.version needs auto.register.schemas=False")
        self._strategy = strategy_of(found)
        self._to_dict = to_dict
        self._schema = schema_of(schema_str, "AvroSerializer")
        self._follows_latest = schema_id is None and (
            found["use.latest.version"] or found["use.latest.with.metadata"] is not None
        )
        if self._schema is None and schema_id is None and not self._follows_latest:
            raise ConfigurationError("AvroSerializer needs schema_str, use.schema.id or use.latest.version")
        self._parsed: AvroSchema | None = None
        if self._schema is not None and not self._schema.references:
            self._parsed = parse_schema(self._schema.schema_str)
        self._loader: Loader[_Settled] = Loader(self._settle, LATEST_S if self._follows_latest else math.inf)

    def bind(self, field: str) -> _BoundSerializer:
        """Return the serializer for keys (``"key"``) or for values (``"value"``)."""
        return _BoundSerializer(self, MessageField(str(field)))

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object, and wait for the registry at the first one of a topic. None returns None.

        Raises:
            SerializationError: the object does not fit the schema, or the registry cannot be used.
        """
        if obj is None:
            return None
        context = ctx or SerializationContext("", MessageField.NONE)
        settled = self._loader.wait((context.topic, MessageField(str(context.field))), self._name(context.topic))
        value = obj if self._to_dict is None else self._to_dict(obj, context)
        data = settled.encode(value, settled.prefix)
        if settled.schema_id is None:
            return data
        placed: bytes = self._conf["schema.id.serializer"](data, ctx, settled.schema_id)
        return placed

    def serialize(self, topic: str, headers: Sequence[Header] | None, data: Any) -> bytes | None:
        """Return the bytes of an object, for a client that does not bind. Waits and raises as a call."""
        return self(data, SerializationContext(topic, MessageField.VALUE, headers))

    # -- used by the sides ---------------------------------------------------------------------------------------------

    def encode(
        self, topic: str, headers: Sequence[Header] | None, data: Any, field: MessageField
    ) -> tuple[bytes, list[Header]]:
        """Return the bytes of an object and the headers to add. Raises ``PendingError``."""
        settled = self._loader.get((topic, field), self._name(topic))
        added: list[Header] = []
        if self._to_dict is not None:
            data = self._to_dict(data, SerializationContext(topic, field, headers))
        payload = settled.encode(data, settled.prefix)
        if settled.schema_id is not None:
            payload = self._conf["schema.id.serializer"](
                payload, SerializationContext(topic, field, added), settled.schema_id
            )
        return payload, added

    @staticmethod
    def _name(topic: str) -> str:
        return f"the Avro schema of the topic {topic!r}"

    def _settle(self, key: tuple[str, MessageField]) -> _Settled:
        """Find the schema of a topic, in a thread of the loader."""
        topic, field = key
        conf = self._conf
        ctx = None if field == MessageField.NONE else SerializationContext(topic, field)
        if self._parsed is None and self._schema is not None:
            self._parsed = parse_with_references(self._client, self._schema, strict=True)
        parsed = self._parsed
        name = None if parsed is None else parsed.root.name or None
        subject = subject_of(self._strategy, ctx, name)
        guid = None
        if conf["use.schema.id"] is not None:
            schema_id: int | None = conf["use.schema.id"]
            schema = call_registry(self._client, "get_schema", schema_id)
            if self._places_guid:
                guid = call_registry(self._client, "lookup_schema", subject, schema).guid
        elif self._follows_latest:
            if conf["use.latest.with.metadata"] is not None:
                found = call_registry(
                    self._client, "get_latest_with_metadata", subject, conf["use.latest.with.metadata"]
                )
            else:
                found = call_registry(self._client, "get_latest_version", subject)
            schema_id, guid, schema = found.schema_id, found.guid, found.schema
        else:
            assert self._schema is not None
            found = self._registered(subject)
            schema_id, guid = found.schema_id, found.guid
            schema = found.schema if found.schema is not None else self._schema
            return self._made(parsed, schema, subject, schema_id, guid)
        return self._made(parse_with_references(self._client, schema, strict=False), schema, subject, schema_id, guid)

    def _registered(self, subject: str) -> Any:
        normalize = self._conf["normalize.schemas"]
        if self._conf["auto.register.schemas"]:
            try:
                return call_registry(self._client, "register_schema_full_response", subject, self._schema, normalize)
            except IncompatibleSchemaError as error:
                raise SerializationError(f"the schema cannot be registered under {subject!r}: {error}") from error
        try:
            return call_registry(self._client, "lookup_schema", subject, self._schema, normalize)
        except SchemaNotFoundError as error:
            if error.error_code // 100 != 404:  # no registry said it
                raise
            raise SerializationError(
                f"the schema is not registered under {subject!r}, and auto.register.schemas is False: register it"
                f" first ({error})"
            ) from error

    @property
    def _places_guid(self) -> bool:
        return self._conf["schema.id.serializer"] is not prefix_schema_id_serializer

    def _made(
        self, parsed: AvroSchema | None, schema: Any, subject: str, schema_id: int | None, guid: str | None
    ) -> _Settled:
        assert parsed is not None
        refuse_rules(schema, "write", f"the schema of {subject}")
        encode = Encoder(write_plan(parsed)).encode
        if self._places_guid:
            place = SchemaId("AVRO", schema_id, guid)
            if guid is None and self._conf["schema.id.serializer"] is header_schema_id_serializer:
                raise SchemaRegistryError(
                    200, -1, "the registry gives no GUIDs, which header_schema_id_serializer needs: leave it out"
                )
            return _Settled(encode, b"", place)
        if schema_id is None:
            raise SchemaRegistryError(200, -1, f"the registry gave no id for the schema of {subject!r}")
        return _Settled(encode, with_prefix(schema_id, b""), None)


class _BoundSerializer:
    """An :class:`AvroSerializer` for one side."""

    __slots__ = ("_field", "_owner")

    def __init__(self, owner: AvroSerializer, field: MessageField) -> None:
        self._owner = owner
        self._field = field

    def serialize(
        self, topic: str, headers: Sequence[Header] | None, data: Any
    ) -> bytes | tuple[bytes, list[Header]] | None:
        """Return the bytes of an object. With headers to add: a pair of both.

        Raises:
            PendingError: the registry must be asked first.
            SchemaUnavailableError: it could not be asked.
            SerializationError: the object does not fit the schema.
        """
        if data is None:
            return None
        payload, added = self._owner.encode(topic, headers, data, self._field)
        return (payload, added) if added else payload
