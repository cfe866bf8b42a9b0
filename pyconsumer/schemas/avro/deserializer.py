"""``AvroDeserializer``: Avro values of a registry as Python's own.

Rules

1. The id in the header comes first, then the one before the value (:mod:`pyconsumer.schemas.wire`). Each record is
   decided by itself.
2. A decoder is made once for each writer's schema, in a thread (:mod:`pyconsumer.schemas.loading`). The schema may have
   references.
3. With ``schema_str`` values have the form of that reader's schema. With ``use.latest.version`` they have that of the
   latest version of the topic's subject, which is looked up again every :data:`LATEST_S` seconds.
4. Bound to a consumer, it never waits: it raises ``PendingError``, and the consumer waits. Called as a function, it
   waits.
5. An error of the value goes to ``on_record_error``. That the registry cannot be reached, refuses the client or gives
   another answer that is none, is no error of the value: it is a ``SchemaUnavailableError``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import Header
from pyconsumer.protocol.avro import AvroError, AvroSchema, Decoder, PrefixDecoder, parse_schema, read_plan
from pyconsumer.schemas.avro.settings import checked_conf, parse_with_references, schema_of, strategy_of, subject_of
from pyconsumer.schemas.errors import SchemaFramingError, SchemaNotFoundError
from pyconsumer.schemas.ids import SchemaId, dual_schema_id_deserializer
from pyconsumer.schemas.loading import Loader, call_registry
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField, SerializationContext
from pyconsumer.schemas.wire import looks_like_apicurio, read_framed

__all__ = ["LATEST_S", "AvroDeserializer"]

#: The latest version of a subject is looked up again after this time (seconds).
LATEST_S: Final = 10.0

_DEFAULTS: Final[dict[str, Any]] = {
    "use.latest.version": False,
    "use.latest.with.metadata": None,
    "subject.name.strategy": None,
    "subject.name.strategy.type": None,
    "subject.name.strategy.conf": None,
    "schema.id.deserializer": dual_schema_id_deserializer,
}


class AvroDeserializer:
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
        if rule_conf or rule_registry is not None:
            raise ConfigurationError("AvroDeserializer runs no rules: leave rule_conf and rule_registry out")
        if from_dict is not None and not callable(from_dict):
            raise ConfigurationError(f"from_dict is a function of a value and its context, not {from_dict!r}")
        self.client = schema_registry_client
        self._conf = checked_conf(conf, _DEFAULTS, "AvroDeserializer")
        self._strategy = strategy_of(self._conf)
        self._from_dict = from_dict
        self._named = bool(return_record_name)
        given = schema_of(schema_str, "AvroDeserializer")
        self.reader_schema = given
        self._reader: AvroSchema | None = None
        if given is not None and not given.references:
            self._reader = parse_schema(given.schema_str)
        self.follows_latest = given is None and (
            self._conf["use.latest.version"] or self._conf["use.latest.with.metadata"] is not None
        )
        self._loader: Loader[Decoder] = Loader(self._load, LATEST_S if self.follows_latest else math.inf)
        self._sides: dict[str, _BoundDeserializer] = {}
        self._columns: dict[str, Any] = {}

    def bind(self, field: str) -> _BoundDeserializer:
        """Return the deserializer for keys (``"key"``) or for values (``"value"``)."""
        side = MessageField(str(field))
        found = self._sides.get(side)
        if found is None:
            found = self._sides[side] = _BoundDeserializer(self, side)
        return found

    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the value of some bytes, and wait for its schema if that is new. None returns None.

        Raises:
            SerializationError: the bytes are no value of their schema, or it cannot be fetched.
        """
        if data is None:
            return None
        side = self.bind(MessageField.VALUE if ctx is None else str(ctx.field))
        topic = "" if ctx is None or ctx.topic is None else ctx.topic
        return side.decode(topic, None if ctx is None else ctx.headers, data, self._loader.wait, ctx)

    def deserialize(self, topic: str, headers: Sequence[Header] | None, data: bytes) -> Any:
        """Return the value of some bytes, for a client that does not bind. Waits and raises as a call."""
        return self.bind("value").decode(topic, headers, data, self._loader.wait)

    # -- used by the sides ---------------------------------------------------------------------------------------------

    def decoders(self) -> dict[Any, Decoder]:
        """Return the decoders by id, which a side may read by itself. Empty if each topic has others."""
        return self._loader.results

    def get(self, key: Any, name: str) -> Decoder:
        """Return a decoder, or raise ``PendingError``."""
        return self._loader.get(key, name)

    def identify(self, topic: str, headers: Any, data: bytes, field: MessageField) -> tuple[int | UUID, bytes, int]:
        """Return the id of a value's schema, bytes, and the index in them at which the value begins."""
        own = self._conf["schema.id.deserializer"]
        if own is dual_schema_id_deserializer:
            framed = read_framed(data, headers, field)
            payload_start = len(data) - len(framed.payload)
            key = framed.schema_id if framed.schema_id is not None else framed.guid
            assert key is not None
            return key, data, payload_start
        found = SchemaId("AVRO")
        payload = own(data, SerializationContext(topic, field, headers), found)
        key = found.id if found.id is not None else found.guid
        if key is None:
            raise SchemaFramingError("schema.id.deserializer found no id and no GUID")
        return key, payload if isinstance(payload, bytes) else payload.read(), 0

    def convert(self, value: Any, ctx: SerializationContext) -> Any:
        """Return the application's object of a value."""
        return value if self._from_dict is None else self._from_dict(value, ctx)

    @property
    def is_plain(self) -> bool:
        """True if a value depends on its bytes alone, and headers have no say but that of the registry's."""
        own = self._conf["schema.id.deserializer"]
        return self._from_dict is None and not self.follows_latest and own is dual_schema_id_deserializer

    def _load(self, key: Any) -> Decoder:
        """Make the decoder of a writer's schema, in a thread of the loader."""
        identity, topic, field = key if isinstance(key, tuple) else (key, "", MessageField.VALUE)
        writer = self.load_writer(identity)
        return Decoder(read_plan(writer, self._reader_of(topic, field, writer), return_record_name=self._named))

    def _reader_of(self, topic: str, field: MessageField, writer: AvroSchema) -> AvroSchema | None:
        if self._reader is not None:
            return self._reader
        if self.reader_schema is not None:
            self._reader = parse_with_references(self.client, self.reader_schema, strict=True)
            return self._reader
        if not self.follows_latest:
            return None
        subject, latest = self.load_latest(topic, field, writer.root.name or None)
        refuse_rules(latest, "upgrade", f"the latest version of {subject}")
        return parse_with_references(self.client, latest, strict=False)

    # -- used by the columns -------------------------------------------------------------------------------------------

    def columns(self, field: str) -> Any:
        """Return the typed columns of keys (``"key"``) or of values, for ``poll_arrow``.

        Raises:
            ConfigurationError: ``from_dict`` or a ``schema.id.deserializer`` of your own is given.
        """
        side = MessageField(str(field))
        found = self._columns.get(side)
        if found is None:
            from pyconsumer.schemas.avro.columns import AvroColumns  # which objects do without

            own = self._conf["schema.id.deserializer"]
            if self._from_dict is not None:
                raise ConfigurationError("from_dict makes objects, and columns have none: leave it out")
            if own is not dual_schema_id_deserializer:
                raise ConfigurationError(
                    "columns read the id of a schema by themselves: leave out schema.id.deserializer"
                )
            found = self._columns[side] = AvroColumns(self, side)
        return found

    def load_writer(self, identity: int | UUID) -> AvroSchema:
        """Fetch and parse a writer's schema, in a thread of a loader."""
        if isinstance(identity, UUID):
            schema = call_registry(self.client, "get_schema_by_guid", str(identity))
        else:
            schema = call_registry(self.client, "get_schema", identity)
        name = f"the schema {identity}"
        if (schema.schema_type or "AVRO") != "AVRO":
            raise SerializationError(
                f"{name} is of the format {schema.schema_type}, not AVRO: use the deserializer of that format"
            )
        refuse_rules(schema, "read", name)
        return parse_with_references(self.client, schema, strict=False)

    def load_latest(self, topic: str, field: MessageField, record_name: str | None = None) -> tuple[str, Any]:
        """Fetch the latest schema of a topic, in a thread of a loader. Return its subject, too."""
        subject = subject_of(self._strategy, SerializationContext(topic, field), record_name)
        metadata = self._conf["use.latest.with.metadata"]
        if metadata is not None:
            return subject, call_registry(self.client, "get_latest_with_metadata", subject, metadata).schema
        return subject, call_registry(self.client, "get_latest_version", subject).schema


class _BoundDeserializer:
    """An :class:`AvroDeserializer` for one side.

    Attributes:
        of_record: the same as :meth:`deserialize`, of a record and its bytes.
    """

    __slots__ = ("_field", "_owner", "of_record")

    def __init__(self, owner: AvroDeserializer, field: MessageField) -> None:
        self._owner = owner
        self._field = field
        self.of_record: Callable[[Any, bytes], Any] = self._of_record
        if owner.is_plain:
            self.of_record = PrefixDecoder(owner.decoders(), self._of_record)

    def deserialize(self, topic: str, headers: Sequence[Header] | None, data: bytes) -> Any:
        """Return the value of some bytes.

        Raises:
            PendingError: its schema must be fetched first.
            SchemaUnavailableError: it could not be fetched.
            SerializationError: the bytes are no value of it.
        """
        return self.decode(topic, headers, data, self._owner.get)

    def _of_record(self, record: Any, data: bytes) -> Any:
        return self.decode(record.topic, record.headers, data, self._owner.get)

    def decode(
        self,
        topic: str,
        headers: Any,
        data: bytes,
        get: Callable[[Any, str], Decoder],
        ctx: SerializationContext | None = None,
    ) -> Any:
        """Return the value of some bytes with a decoder that ``get(key, name)`` returns."""
        owner = self._owner
        identity, payload, start = owner.identify(topic, headers, data, self._field)
        key = (identity, topic, self._field) if owner.follows_latest else identity
        try:
            decoder = get(key, f"the schema {identity}")
        except SchemaNotFoundError as error:
            raise SchemaFramingError(_unknown(identity, data, error)) from error
        except ConfigurationError as error:  # of the client's settings, and not of the value
            raise SchemaUnavailableError(f"the schema {identity}: {error}", retriable=False) from error
        try:
            value = decoder.decode(payload, start)
        except AvroError as error:
            raise type(error)(f"the schema {identity}: {error}") from None
        return owner.convert(value, SerializationContext(topic, self._field, headers) if ctx is None else ctx)


def _unknown(identity: Any, data: bytes, error: SchemaNotFoundError) -> str:
    text = (
        f"the registry does not have the schema {identity} that the value names, or a reference of it ({error}). The"
        f" value begins with {data[:8].hex(' ')}"
    )
    if looks_like_apicurio(data):
        return f"{text}, which may be the framing of Apicurio's registry, with an id of eight bytes. It is not read"
    return f"{text}. If that is no Avro, the value was written without a registry's serializer"
