"""Type variables for keys and values, and the types of serializers and deserializers.

Clients and records are generic in the types of their keys and values: a ``KafkaConsumer[str, Order]`` returns records
whose key is ``str | None`` and whose value is ``Order | None``, since any record of Kafka may lack either. A type
checker reads both from the deserializers. Without them they are ``bytes``. A producer without serializers takes bytes
and text.

At run time the parameters have no meaning: ``KafkaConsumer[str, str]`` is an alias that makes the same objects.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeAlias

RawInput: TypeAlias = bytes | bytearray | memoryview | str
"""A value that a producer takes without a serializer. Text becomes UTF-8."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # known to every type checker; not needed at run time

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
    K_co = TypeVar("K_co", covariant=True, default=bytes)
    V_co = TypeVar("V_co", covariant=True, default=bytes)
    KeyIn = TypeVar("KeyIn", contravariant=True, default=RawInput)
    ValueIn = TypeVar("ValueIn", contravariant=True, default=RawInput)
    SentK = TypeVar("SentK", default=RawInput)
    SentV = TypeVar("SentV", default=RawInput)
    # Of a serializer. Bound to Any, so that pyright lets a lambda do what it likes with its argument.
    NewKey = TypeVar("NewKey", bound=Any, default=Any)
    NewValue = TypeVar("NewValue", bound=Any, default=Any)
else:
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")
    K_co, V_co = TypeVar("K_co", covariant=True), TypeVar("V_co", covariant=True)
    KeyIn, ValueIn = TypeVar("KeyIn", contravariant=True), TypeVar("ValueIn", contravariant=True)
    SentK, SentV = TypeVar("SentK"), TypeVar("SentV")
    NewKey, NewValue = TypeVar("NewKey"), TypeVar("NewValue")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

__all__ = [
    "Arrival",
    "Bindable",
    "Deserializer",
    "DeserializerObject",
    "Header",
    "K",
    "K_co",
    "KeyIn",
    "NewKey",
    "NewValue",
    "PendingError",
    "RawInput",
    "SaslMechanism",
    "SentK",
    "SentV",
    "Serializer",
    "SerializerObject",
    "TokenProvider",
    "V",
    "V_co",
    "ValueIn",
    "generic_alias",
    "is_bindable",
    "refuse_pickling",
    "wait_for_arrival",
]

Header = tuple[str, bytes | None]
"""Name and value of a header."""


class DeserializerObject(Protocol[T_co]):
    """A deserializer that also gets the topic and the headers of a record."""

    def deserialize(self, topic: str, headers: list[Header], data: bytes, /) -> T_co:
        """Return the key or value for some bytes. This is never called with None."""
        ...


class Arrival(Protocol):
    """Something that arrives later, such as a ``concurrent.futures.Future``. Any thread may complete it."""

    def done(self) -> bool:
        """Return whether it has arrived or failed."""
        ...

    def add_done_callback(self, call: Callable[[Any], object], /) -> object:
        """Call a function once it has arrived, in any thread, or now if it has."""
        ...

    def result(self, timeout: float | None = None) -> Any:
        """Wait for it at most ``timeout`` seconds."""
        ...


def wait_for_arrival(arrival: Arrival, seconds: float = math.inf) -> None:
    """Block until something has arrived or failed, or until the time is over."""
    arrived = threading.Event()
    arrival.add_done_callback(lambda _: arrived.set())
    arrived.wait(None if seconds == math.inf else max(0.0, min(seconds, threading.TIMEOUT_MAX)))


def is_bindable(given: Any) -> bool:
    """Return whether a serializer or deserializer has ``bind(field)``. A class has not: its instances may."""
    return callable(getattr(given, "bind", None)) and not isinstance(given, type)


class PendingError(Exception):
    """A bound serializer or deserializer raises this: it needs something first, such as a schema.

    The client waits for it in its own way and then calls again, with the same key or value.

    Args:
        arrival: the thing that is needed. It has arrived when it has failed, too: the next call raises the error.
        name: its name, for messages.
        extends_poll: False if no poll waits beyond its own deadline for it.
    """

    def __init__(self, arrival: Arrival, name: str, *, extends_poll: bool = True) -> None:
        super().__init__(f"waiting for {name}")
        self.arrival = arrival
        self.name = name
        self.extends_poll = extends_poll


class Bindable(Protocol):
    """A serializer or deserializer that a client binds to keys or to values, once, when the client is made.

    ``bind`` returns the object that is used: one with ``deserialize(topic, headers, data)`` or
    ``serialize(topic, headers, data)``. These may raise :class:`PendingError`. A bound ``serialize`` may return a pair
    of the bytes and a list of headers, which are added to the record. A bound deserializer may have
    ``of_record(record, data)`` besides, which is called instead and spares the parts.
    """

    def bind(self, field: str, /) -> Any:
        """Return the object for one side.

        Args:
            field: ``"key"`` or ``"value"``.
        """
        ...


class TokenProvider(Protocol):
    """A source of tokens for SASL's mechanism OAUTHBEARER."""

    def token(self) -> str:
        """Return a valid JWT."""
        ...


class SaslMechanism(Protocol):
    """One authentication by SASL, from the client's side."""

    name: str
    """As the broker calls it."""

    def first(self) -> bytes | None:
        """Return the first message to the broker. Return None if it is not ready.

        In that case call this again later.
        """
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the response to a message of the broker, or None if the exchange is over.

        Raises:
            AuthenticationError: the broker could not prove its identity, or rejected the credentials.
        """
        ...


class SerializerObject(Protocol[T_contra]):
    """A serializer that also gets the topic and the headers of a record."""

    def serialize(self, topic: str, headers: Sequence[Header] | None, data: T_contra, /) -> bytes | None:
        """Return the bytes of a key or value."""
        ...


Deserializer: TypeAlias = Callable[[bytes], T] | DeserializerObject[T]
"""A function of the bytes of a key or value, or an object that also gets topic and headers."""

Serializer: TypeAlias = Callable[[T], bytes | None] | SerializerObject[T]
"""A function of a key or value that returns its bytes, or an object that also gets topic and headers."""

#: ``__class_getitem__`` of a class that is generic for type checkers alone: cheap, and right with any number of types.
generic_alias: Any = classmethod(GenericAlias)


def refuse_pickling(client: object) -> Never:
    """Raise ``TypeError``, because clients cannot be pickled or copied. It is the ``__reduce__`` of clients."""
    raise TypeError(
        f"{type(client).__name__} cannot be pickled or copied, as it has connections and threads of its own: pass its"
        " settings, and make one in each process"
    )
