"""The base of the deserializers of all formats: the id of a value, and its schema.

Rules

1. The id in the header comes first, then the one before the value (:mod:`pyconsumer.schemas.wire`). Each record is
   decided by itself.
2. A decoder is made once for each writer's schema, in a thread (:mod:`pyconsumer.schemas.loading`). The schema may have
   references.
3. With a reader's schema values have its form. With ``use.latest.version`` they have that of the latest version of the
   topic's subject, which is looked up again every :data:`LATEST_S` seconds.
4. Bound to a consumer, it never waits: it raises ``PendingError``, and the consumer waits. Called as a function, it
   waits.
5. An error of the value goes to ``on_record_error``. That the registry cannot be reached, refuses the client or gives
   another answer that is none, is no error of the value: it is a ``SchemaUnavailableError``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import Header
from pyconsumer.schemas.conf import (
    FORMAT_NAMES,
    check_function,
    checked_conf,
    refuse_rule_arguments,
    strategy_of,
    subject_of,
)
from pyconsumer.schemas.errors import SchemaFramingError, SchemaNotFoundError
from pyconsumer.schemas.ids import SchemaId, dual_schema_id_deserializer
from pyconsumer.schemas.loading import Loader, call_registry
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField, SerializationContext
from pyconsumer.schemas.wire import Framed, looks_like_apicurio, read_framed

__all__ = ["LATEST_S", "BoundDeserializer", "Place", "SchemaDeserializer", "ValueDecoder"]

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


class ValueDecoder(Protocol):
    """Decodes the values of one writer's schema."""

    def decode(self, data: bytes, start: int = 0) -> Any:
        """Return the value of the bytes from an index on.

        Raises:
            SerializationError: the bytes are no value of the schema.
        """


D = TypeVar("D", bound=ValueDecoder)


class Place(NamedTuple):
    """The schema that a value names.

    Attributes:
        identity: the id or the GUID of the schema.
        indexes: of a Protobuf message, the path of its type. Empty for other formats.
        topic: of the value, if topics have decoders of their own. Otherwise "".
        field: key or value.
    """

    identity: int | UUID
    indexes: tuple[int, ...] = ()
    topic: str = ""
    field: MessageField = MessageField.VALUE


class SchemaDeserializer(Generic[D]):
    """The base of the deserializers of all formats.

    Args:
        client: of the registry, blocking or for asyncio. None takes each value for one of the reader's schema, where a
            format permits that.
        has_reader: True if the user gives the reader's schema.
        from_dict: see :class:`~pyconsumer.schemas.AvroDeserializer`.
        conf: the settings of the user.
        defaults: the settings that only this format has.
        rule_conf, rule_registry: only None is taken.

    Raises:
        ConfigurationError: a setting is unknown or has a wrong value.
    """

    #: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    FORMAT: ClassVar[str]

    def __init__(
        self,
        client: Any,
        has_reader: bool,
        from_dict: Callable[[Any, SerializationContext], Any] | None,
        conf: Mapping[str, Any] | None,
        defaults: Mapping[str, Any],
        rule_conf: Mapping[str, Any] | None,
        rule_registry: Any,
    ) -> None:
        name = type(self).__name__
        refuse_rule_arguments(rule_conf, rule_registry, name)
        check_function(from_dict, "from_dict")
        self.client = client
        self._conf = checked_conf(conf, {**_DEFAULTS, **defaults}, name)
        self._strategy = strategy_of(self._conf)
        self._from_dict = from_dict
        self.follows_latest = (
            client is not None
            and not has_reader
            and (self._conf["use.latest.version"] or self._conf["use.latest.with.metadata"] is not None)
        )
        self._loader: Loader[D] = Loader(self._load, LATEST_S if self.follows_latest else math.inf)
        self._sides: dict[str, BoundDeserializer] = {}
        self._columns: dict[str, Any] = {}

    # -- what a format defines -----------------------------------------------------------------------------------------

    def _make(self, place: Place) -> D:
        """Make the decoder of a writer's schema. This may wait."""
        raise NotImplementedError

    def _fast(self, other: Callable[[Any, bytes], Any]) -> Callable[[Any, bytes], Any]:
        """Return a faster way to read records, which calls ``other`` for each value that it does not read."""
        decoders = self._loader.results

        def of_record(record: Any, data: bytes) -> Any:
            if data[:1] == b"\0" and not record.headers:
                decoder = decoders.get(int.from_bytes(data[1:5], "big"))
                if decoder is not None and len(data) > 4:
                    try:
                        return decoder.decode(data, 5)
                    except SerializationError as error:
                        number = int.from_bytes(data[1:5], "big")
                        raise type(error)(f"the schema {number}: {error}") from error.__cause__
            return other(record, data)

        return of_record

    def _typed_columns(self, side: MessageField) -> Any:
        """Return the typed columns of a side."""
        raise TypeError(f"poll_arrow takes no {type(self).__name__}: it has no columns")

    # -- the public calls ----------------------------------------------------------------------------------------------

    def bind(self, field: str) -> BoundDeserializer:
        """Return the deserializer for keys (``"key"``) or for values (``"value"``)."""
        side = MessageField(str(field))
        found = self._sides.get(side)
        if found is None:
            found = self._sides[side] = BoundDeserializer(self, side)
        return found

    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the value of some bytes, and wait for its schema if that is new. None returns None.

        Raises:
            SerializationError: the bytes are no value of their schema, or it cannot be fetched.
        """
        return self._read(data, ctx, self._loader.wait)

    def attempt(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the value of some bytes as a call does, but raise ``PendingError`` instead of waiting."""
        return self._read(data, ctx, self._loader.get)

    def _read(self, data: bytes | None, ctx: SerializationContext | None, get: Callable[[Any, str], D]) -> Any:
        if data is None:
            return None
        side = self.bind(MessageField.VALUE if ctx is None else str(ctx.field))
        topic = "" if ctx is None or ctx.topic is None else ctx.topic
        return side.decode(topic, None if ctx is None else ctx.headers, data, get, ctx)

    def deserialize(self, topic: str, headers: Sequence[Header] | None, data: bytes) -> Any:
        """Return the value of some bytes, for a client that does not bind. Waits and raises as a call."""
        return self.bind("value").decode(topic, headers, data, self._loader.wait)

    # -- used by the sides ---------------------------------------------------------------------------------------------

    def get(self, key: Any, name: str) -> D:
        """Return a decoder, or raise ``PendingError``."""
        return self._loader.get(key, name)

    def identify(
        self, topic: str, headers: Any, data: bytes, field: MessageField
    ) -> tuple[int | UUID, tuple[int, ...], bytes, int]:
        """Return the id of a value's schema, the path of its message, bytes, and the index at which the value begins.

        Raises:
            SchemaFramingError: the value has no id.
        """
        own = self._conf["schema.id.deserializer"]
        if own is dual_schema_id_deserializer:
            framed = self._read_framed(data, headers, field)
            payload_start = len(data) - len(framed.payload)
            key = framed.schema_id if framed.schema_id is not None else framed.guid
            assert key is not None
            return key, framed.indexes, data, payload_start
        found = SchemaId(self.FORMAT)
        payload = own(data, SerializationContext(topic, field, headers), found)
        key = found.id if found.id is not None else found.guid
        if key is None:
            raise SchemaFramingError("schema.id.deserializer found no id and no GUID")
        return key, tuple(found.message_indexes or ()), payload if isinstance(payload, bytes) else payload.read(), 0

    def _read_framed(self, data: bytes, headers: Any, field: MessageField) -> Framed:
        return read_framed(data, headers, field, protobuf=self.FORMAT == "PROTOBUF")

    def convert(self, value: Any, ctx: SerializationContext) -> Any:
        """Return the application's object of a value."""
        return value if self._from_dict is None else self._from_dict(value, ctx)

    @property
    def is_plain(self) -> bool:
        """True if a value depends on its bytes alone, and headers have no say but that of the registry's."""
        own = self._conf["schema.id.deserializer"]
        return self._from_dict is None and not self.follows_latest and own is dual_schema_id_deserializer

    def fast(self, other: Callable[[Any, bytes], Any]) -> Callable[[Any, bytes], Any]:
        """Return the function that reads records of a side. ``other`` reads those that need more than their bytes."""
        return self._fast(other) if self.is_plain else other

    def key_of(self, identity: int | UUID, indexes: tuple[int, ...], topic: str, field: MessageField) -> Any:
        """Return the key of a decoder: the id alone where that is enough."""
        if self.follows_latest:
            return Place(identity, indexes, topic, field)
        return Place(identity, indexes) if indexes else identity

    def _load(self, key: Any) -> D:
        """Make a decoder, in a thread of the loader."""
        return self._make(key if isinstance(key, Place) else Place(key))

    def fetch_writer(self, identity: int | UUID) -> Any:
        """Fetch a writer's schema, in a thread of a loader.

        Raises:
            SerializationError: it is of another format, or has a rule to run.
        """
        if isinstance(identity, UUID):
            schema = call_registry(self.client, "get_schema_by_guid", str(identity))
        else:
            schema = call_registry(self.client, "get_schema", identity)
        name = f"the schema {identity}"
        if (schema.schema_type or "AVRO") != self.FORMAT:
            raise SerializationError(
                f"{name} is of the format {schema.schema_type}, not {self.FORMAT}: use the deserializer of that format"
            )
        refuse_rules(schema, "read", name)
        return schema

    # -- used by the columns -------------------------------------------------------------------------------------------

    def columns(self, field: str) -> Any:
        """Return the typed columns of keys (``"key"``) or of values, for ``poll_arrow``.

        Raises:
            ConfigurationError: ``from_dict`` or a ``schema.id.deserializer`` of your own is given.
        """
        side = MessageField(str(field))
        found = self._columns.get(side)
        if found is None:
            own = self._conf["schema.id.deserializer"]
            if self._from_dict is not None:
                raise ConfigurationError("from_dict makes objects, and columns have none: leave it out")
            if own is not dual_schema_id_deserializer:
                raise ConfigurationError(
                    "columns read the id of a schema by themselves: leave out schema.id.deserializer"
                )
            found = self._columns[side] = self._typed_columns(side)
        return found

    def load_latest(self, topic: str, field: MessageField, record_name: str | None = None) -> tuple[str, Any]:
        """Fetch the latest schema of a topic, in a thread of a loader. Return its subject, too."""
        subject = subject_of(self._strategy, SerializationContext(topic, field), record_name)
        metadata = self._conf["use.latest.with.metadata"]
        if metadata is not None:
            return subject, call_registry(self.client, "get_latest_with_metadata", subject, metadata).schema
        return subject, call_registry(self.client, "get_latest_version", subject).schema


class BoundDeserializer:
    """A deserializer for one side.

    Attributes:
        of_record: the same as :meth:`deserialize`, of a record and its bytes.
    """

    __slots__ = ("_field", "_owner", "of_record")

    def __init__(self, owner: SchemaDeserializer[Any], field: MessageField) -> None:
        self._owner = owner
        self._field = field
        self.of_record: Callable[[Any, bytes], Any] = owner.fast(self._of_record)

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
        get: Callable[[Any, str], ValueDecoder],
        ctx: SerializationContext | None = None,
    ) -> Any:
        """Return the value of some bytes with a decoder that ``get(key, name)`` returns."""
        owner = self._owner
        identity, indexes, payload, start = owner.identify(topic, headers, data, self._field)
        key = owner.key_of(identity, indexes, topic, self._field)
        try:
            decoder = get(key, f"the schema {identity}")
        except SchemaNotFoundError as error:
            raise SchemaFramingError(_unknown(identity, data, error, owner.FORMAT)) from error
        except ConfigurationError as error:  # of the client's settings, and not of the value
            raise SchemaUnavailableError(f"the schema {identity}: {error}", retriable=False) from error
        try:
            value = decoder.decode(payload, start)
        except SerializationError as error:
            raise type(error)(f"the schema {identity}: {error}") from None
        return owner.convert(value, SerializationContext(topic, self._field, headers) if ctx is None else ctx)


def _unknown(identity: Any, data: bytes, error: SchemaNotFoundError, kind: str) -> str:
    text = (
        f"the registry does not have the schema {identity} that the value names, or a reference of it ({error}). The"
        f" value begins with {data[:8].hex(' ')}"
    )
    if looks_like_apicurio(data):
        return f"{text}, which may be the framing of Apicurio's registry, with an id of eight bytes. It is not read"
    return f"{text}. If that is no {FORMAT_NAMES[kind]}, the value was written without a registry's serializer"
