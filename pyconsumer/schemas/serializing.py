"""The base of the serializers of all formats: the schema of a topic, and the place of its id.

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
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.generic import Header
from pyconsumer.schemas.conf import (
    FORMAT_NAMES,
    check_function,
    checked_conf,
    refuse_rule_arguments,
    strategy_of,
    subject_of,
)
from pyconsumer.schemas.errors import IncompatibleSchemaError, SchemaNotFoundError, SchemaRegistryError
from pyconsumer.schemas.ids import SchemaId, header_schema_id_serializer, prefix_schema_id_serializer
from pyconsumer.schemas.loading import Loader, call_registry
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField, SerializationContext
from pyconsumer.schemas.wire import with_prefix

__all__ = ["LATEST_S", "SchemaSerializer", "WriterSchema"]

P = TypeVar("P")

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
}


class WriterSchema(NamedTuple, Generic[P]):
    """A schema to write with.

    Attributes:
        parsed: in the form of the format.
        name: of the record, for the subject. None without one.
        indexes: of a Protobuf message, the path of its type. None for other formats.
    """

    parsed: P
    name: str | None = None
    indexes: Sequence[int] | None = None


class _Settled(NamedTuple):
    """The schema of a topic.

    Attributes:
        encode: gets a value and the bytes before it, and returns all bytes.
        prefix: the bytes before the value. Empty if the id goes elsewhere.
        schema_id: for a function that places the id. None if the prefix has it.
    """

    encode: Callable[[Any, bytes], bytes]
    prefix: bytes
    schema_id: SchemaId | None


class SchemaSerializer(Generic[P]):
    """The base of the serializers of all formats.

    Args:
        client: of the registry, blocking or for asyncio.
        schema: the schema of the user. None: that of the registry.
        to_dict: see :class:`~pyconsumer.schemas.AvroSerializer`.
        conf: the settings of the user.
        defaults: the settings that only this format has.
        rule_conf, rule_registry: only None is taken.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.
    """

    #: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    FORMAT: ClassVar[str]

    def __init__(
        self,
        client: Any,
        schema: Schema | None,
        to_dict: Callable[[Any, SerializationContext], Any] | None,
        conf: Mapping[str, Any] | None,
        defaults: Mapping[str, Any],
        rule_conf: Mapping[str, Any] | None,
        rule_registry: Any,
    ) -> None:
        name = type(self).__name__
        refuse_rule_arguments(rule_conf, rule_registry, name)
        check_function(to_dict, "to_dict")
        self._client = client
        self._conf = found = checked_conf(conf, {**_DEFAULTS, **defaults}, name)
        schema_id = found["use.schema.id"]
        if schema_id is not None and (not isinstance(schema_id, int) or isinstance(schema_id, bool) or schema_id < 0):
            raise ConfigurationError(f"use.schema.id is a number, not {schema_id!r}")
        if found["use.latest.version"] and found["auto.register.schemas"]:
            raise ConfigurationError("use.latest.version needs auto.register.schemas=False")
        self._strategy = strategy_of(found)
        self._to_dict = to_dict
        self._schema = schema
        self._follows_latest = schema_id is None and (
            found["use.latest.version"] or found["use.latest.with.metadata"] is not None
        )
        if schema is None and schema_id is None and not self._follows_latest:
            raise ConfigurationError(f"{name} needs schema_str, use.schema.id or use.latest.version")
        self._own: WriterSchema[P] | None = None
        self._loader: Loader[_Settled] = Loader(self._settle, LATEST_S if self._follows_latest else math.inf)

    # -- what a format defines -----------------------------------------------------------------------------------------

    def _parse(self, schema: Schema, *, is_own: bool) -> WriterSchema[P]:
        """Parse a schema. This may wait for the schemas that it refers to.

        Args:
            schema: the schema.
            is_own: it is the user's, and not the registry's.
        """
        raise NotImplementedError

    def _encoder(self, parsed: P) -> Callable[[Any, bytes], bytes]:
        """Return the function that gets a value and the bytes before it, and returns all bytes."""
        raise NotImplementedError

    def _to_register(self, schema: Schema, topic: str, field: MessageField) -> Schema:
        """Return the user's schema as it is registered. This may wait for the registry."""
        return schema

    # -- the public calls ----------------------------------------------------------------------------------------------

    def bind(self, field: str) -> BoundSerializer:
        """Return the serializer for keys (``"key"``) or for values (``"value"``)."""
        return BoundSerializer(self, MessageField(str(field)))

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object, and wait for the registry at the first one of a topic. None returns None.

        Raises:
            SerializationError: the object does not fit the schema, or the registry cannot be used.
        """
        return self._written(obj, ctx, self._loader.wait)

    def attempt(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object as a call does, but raise ``PendingError`` instead of waiting."""
        return self._written(obj, ctx, self._loader.get)

    def _written(self, obj: Any, ctx: SerializationContext | None, get: Callable[[Any, str], _Settled]) -> bytes | None:
        if obj is None:
            return None
        context = ctx or SerializationContext("", MessageField.NONE)
        settled = get((context.topic, MessageField(str(context.field))), self._name(context.topic))
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

    def _name(self, topic: str) -> str:
        return f"the {FORMAT_NAMES[self.FORMAT]} schema of the topic {topic!r}"

    def _settle(self, key: tuple[str, MessageField]) -> _Settled:
        """Find the schema of a topic, in a thread of the loader."""
        topic, field = key
        conf = self._conf
        ctx = None if field == MessageField.NONE else SerializationContext(topic, field)
        own = self._own
        if own is None and self._schema is not None:
            own = self._own = self._parse(self._schema, is_own=True)
        subject = subject_of(self._strategy, ctx, None if own is None else own.name)
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
            assert own is not None
            sent = self._to_register(self._schema, topic, field)
            found = self._registered(subject, sent)
            schema = found.schema if found.schema is not None else sent
            return self._made(own, schema, subject, found.schema_id, found.guid)
        if (schema.schema_type or "AVRO") != self.FORMAT:
            raise SerializationError(
                f"the schema of {subject!r} is of the format {schema.schema_type}, not {self.FORMAT}: use the"
                " serializer of that format"
            )
        return self._made(self._parse(schema, is_own=False), schema, subject, schema_id, guid)

    def _registered(self, subject: str, schema: Schema) -> Any:
        normalize = self._conf["normalize.schemas"]
        if self._conf["auto.register.schemas"]:
            try:
                return call_registry(self._client, "register_schema_full_response", subject, schema, normalize)
            except IncompatibleSchemaError as error:
                raise SerializationError(f"the schema cannot be registered under {subject!r}: {error}") from error
        try:
            return call_registry(self._client, "lookup_schema", subject, schema, normalize)
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
        self, parsed: WriterSchema[P], schema: Any, subject: str, schema_id: int | None, guid: str | None
    ) -> _Settled:
        refuse_rules(schema, "write", f"the schema of {subject}")
        encode = self._encoder(parsed.parsed)
        indexes = None if parsed.indexes is None else list(parsed.indexes)
        if self._places_guid:
            place = SchemaId(self.FORMAT, schema_id, guid, indexes)
            if guid is None and self._conf["schema.id.serializer"] is header_schema_id_serializer:
                raise SchemaRegistryError(
                    200, -1, "the registry gives no GUIDs, which header_schema_id_serializer needs: leave it out"
                )
            return _Settled(encode, b"", place)
        if schema_id is None:
            raise SchemaRegistryError(200, -1, f"the registry gave no id for the schema of {subject!r}")
        return _Settled(encode, self._prefix(schema_id, indexes), None)

    def _prefix(self, schema_id: int, indexes: Sequence[int] | None) -> bytes:
        return with_prefix(schema_id, b"", indexes)


class BoundSerializer:
    """A serializer for one side."""

    __slots__ = ("_field", "_owner")

    def __init__(self, owner: SchemaSerializer[Any], field: MessageField) -> None:
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
