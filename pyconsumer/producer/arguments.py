"""Checks of the arguments that an application gives to the producer."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyconsumer.clock import seconds_of
from pyconsumer.errors import KafkaTimeoutError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import Header, PendingError, is_bindable, wait_for_arrival
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, whole_number

__all__ = [
    "Serialized",
    "checked_choice",
    "checked_group",
    "checked_headers",
    "checked_offset",
    "checked_partition",
    "checked_seconds",
    "exact_topic",
    "is_topic_name",
    "serialized_now",
    "serializer_of",
    "with_headers",
]

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


Serialized = bytes | None | tuple[bytes, Sequence[Header]]
"""The bytes of a key or value, or a pair of them and headers to add."""


def with_headers(done: Serialized, headers: Any) -> tuple[bytes | None, Any]:
    """Return the bytes, and the headers with those that a serializer adds."""
    if type(done) is tuple:
        return done[0], [*(headers or ()), *done[1]]
    return done, headers  # type: ignore[return-value]


def serializer_of(given: Any, what: str) -> Callable[[str, Any, Any], Serialized]:
    """Make a function ``(topic, headers, data)`` from the serializer that the application gave.

    An object with ``bind(field)`` is bound to its side (:class:`pyconsumer.generic.Bindable`). ``PendingError`` comes
    out as it is: the caller waits and calls again.

    Args:
        given: the application's serializer, or None.
        what: ``"key"`` or ``"value"``.
    """
    if given is None:

        def plain(topic: str, headers: Any, data: Any) -> bytes | None:
            if data is None or type(data) is bytes:
                return data
            if isinstance(data, str):
                try:
                    return data.encode()
                except UnicodeEncodeError as error:
                    raise SerializationError(f"the {what} cannot be written as UTF-8: {error}") from error
            if isinstance(data, (bytes, bytearray, memoryview)):
                return bytes(data)
            raise SerializationError(
                f"the {what} is a {type(data).__name__}, but without a {what}_serializer it must be bytes, str or None"
            )

        return plain
    if is_bindable(given):
        given = given.bind(what)
    method = getattr(given, "serialize", None)

    def serialize(topic: str, headers: Any, data: Any) -> Serialized:
        try:
            result = method(topic, headers, data) if method is not None else given(data)
        except (PendingError, SchemaUnavailableError):
            raise
        except Exception as error:
            text = str(error) if isinstance(error, SerializationError) else repr(error)
            raise SerializationError(f"the {what}_serializer raised for topic {topic!r}: {text}") from error
        if result is None or isinstance(result, bytes):
            return result
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], bytes):
            return result[0], result[1]
        if isinstance(result, (bytearray, memoryview)):
            return bytes(result)
        raise SerializationError(f"the {what}_serializer returned a {type(result).__name__} instead of bytes or None")

    return serialize


def serialized_now(
    serialize: Callable[[str, Any, Any], Serialized], topic: str, headers: Any, data: Any, wait_s: float = math.inf
) -> tuple[bytes | None, Any]:
    """Return the bytes of a key or value, and the headers with those to add. Blocks for what the serializer needs.

    Args:
        serialize: a function of :func:`serializer_of`.
        topic, headers, data: its arguments.
        wait_s: longest time to wait, in seconds.

    Raises:
        KafkaTimeoutError: the serializer did not get what it needs in time.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            return with_headers(serialize(topic, headers, data), headers)
        except PendingError as pending:
            wait_for_arrival(pending.arrival, until - time.monotonic())
            if not pending.arrival.done():
                limit = wait_s * 1000
                raise KafkaTimeoutError(f"{pending.name} did not come within {limit:.0f} ms") from None


def exact_topic(topic: Any) -> Any:
    """Return a topic's name as exactly ``str``, also for a member of a ``StrEnum``. Return other objects unchanged."""
    return str.__str__(topic) if isinstance(topic, str) else topic


def is_topic_name(name: str) -> bool:
    """Return whether ``name`` is a valid name for a topic."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def checked_seconds(call: str, positional: tuple[Any, ...], timeout_ms: Any) -> float | None:
    """Return a time in ms as seconds, or None for None. Raise TypeError if the time was not given by name."""
    if positional:
        given = positional[0]
        text = f"{call}() takes its time by name, since other clients count in seconds"
        if len(positional) == 1 and isinstance(given, (int, float)) and not isinstance(given, bool):
            text += (
                f": {call}(timeout_ms={given * 1000:g}) means {given:g} s, and {call}(timeout_ms={given:g}) means "
                f"{given:g} ms"
                if given
                else f": write {call}(timeout_ms=0)"
            )
        raise TypeError(text)
    return None if timeout_ms is None else seconds_of(timeout_ms, f"the timeout_ms of {call}()")


def checked_offset(tp: Any, offset: Any) -> OffsetAndMetadata:
    """Return the offset to commit for a partition. Raise TypeError or ValueError if it is not valid."""
    if not isinstance(tp, TopicPartition):
        raise TypeError(f"offsets are given by TopicPartition, not by {tp!r}")
    found = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    number, epoch = whole_number(found.offset), whole_number(found.leader_epoch)
    if number is None or not 0 <= number < 1 << 63:
        raise ValueError(f"the offset of {tp} must be a number from 0 on, not {found.offset!r}")
    if epoch is None:
        raise ValueError(f"the leader epoch of {tp} must be a number, not {found.leader_epoch!r}")
    return found._replace(offset=number, leader_epoch=epoch)


def checked_partition(partition: Any) -> int:
    """Return the number of a partition. Raise ValueError if it is not valid."""
    number = whole_number(partition)
    if number is None or number < 0:
        raise ValueError(f"the partition must be a number from 0 on, not {partition!r}")
    return number


def checked_choice(chosen: Any, topic: str, count: int) -> int:
    """Return the partition that a partitioner chose. Raise ValueError if the topic has no such partition."""
    number = whole_number(chosen)
    if number is None or not 0 <= number < count:
        raise ValueError(f"the partitioner chose {chosen!r}, but topic {topic!r} has partitions 0 to {count - 1}")
    return number


def checked_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs. Raise SerializationError if they are not valid."""
    checked = []
    for item in headers:
        try:
            name, data = item
        except (TypeError, ValueError):
            raise SerializationError(f"a header is a pair of a name and bytes or None, not {item!r}") from None
        if not isinstance(name, str) or not (data is None or isinstance(data, (bytes, bytearray, memoryview))):
            raise SerializationError(f"a header is a pair of a name and bytes or None, not {item!r}")
        checked.append((name, data if data is None else bytes(data)))
    return checked


def checked_group(given: ConsumerGroupMetadata | str) -> ConsumerGroupMetadata:
    """Return the group whose offsets a transaction commits. ``given`` is its id, or a consumer's metadata.

    Raises:
        TypeError: ``given`` has another type.
        ValueError: ``given`` names no group.
    """
    group: Any = ConsumerGroupMetadata(given) if isinstance(given, str) else given
    if isinstance(group, tuple) and hasattr(group, "group_id"):  # that of compat.kafka, a named tuple with the state
        group = ConsumerGroupMetadata(*group[:4])
    if not isinstance(group, ConsumerGroupMetadata):
        raise TypeError(f"group_metadata is consumer.group_metadata() or a group id, not {given!r}")
    if not group.group_id:
        raise ValueError("group_metadata names no group: the consumer needs a group_id")
    return group
