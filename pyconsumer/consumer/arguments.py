"""Checks for the arguments of public methods."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyconsumer.clock import checked_timestamp
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.structs import OffsetAndMetadata, TopicPartition, exact_partition, whole_number

__all__ = [
    "as_partition",
    "as_partitions",
    "by_partition",
    "check_max_records",
    "check_subscription",
    "checked_offsets",
    "checked_position",
    "checked_times",
    "is_partition",
    "looks_like_seconds",
    "not_empty",
    "offsets_after",
    "point_out_milliseconds",
    "split_topics",
    "topic_names",
]

_log = logging.getLogger("pyconsumer.consumer")

_LIKE_SECONDS: Final = 10.0  # a float up to here is rather meant as seconds


def looks_like_seconds(timeout_ms: float) -> bool:
    """Return whether the caller probably meant seconds, as in confluent-kafka's ``poll(1.0)``."""
    return type(timeout_ms) is float and 0 < timeout_ms <= _LIKE_SECONDS


def point_out_milliseconds(call: str, timeout_ms: float) -> None:
    """Log a hint if ``timeout_ms`` looks like seconds: how long the call waits, and how to wait that many seconds."""
    _log.warning(
        "%s(%s) waits for %s ms, as all times here are milliseconds. %s(%g) waits for %g s",
        *(call, timeout_ms, timeout_ms, call, timeout_ms * 1000, timeout_ms),
    )


def split_topics(
    positional: Iterable[str | Mapping[str, Any]], settings: Mapping[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """Split a consumer's arguments into topics and settings.

    A mapping among the positional arguments is read as settings.
    """
    topics: list[str] = []
    options: dict[str, Any] = {}
    for item in positional:
        if isinstance(item, Mapping):
            options |= item
        else:
            topics.append(item)
    return topics, {**options, **settings}


def check_subscription(topics: Any, pattern: Any, listener: Any) -> None:
    """Check the arguments of ``subscribe``.

    Raises:
        TypeError: ``listener`` is not a rebalance listener, or the topics are None.
        ValueError: both topics and a pattern are given.
    """
    if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError(f"a listener must be a ConsumerRebalanceListener, not {listener!r}")
    if topics is None:
        raise TypeError("topics must be a list of names, not None")
    if pattern is not None and topics:
        raise ValueError("topics and a pattern exclude one another")


def topic_names(topics: Any) -> list[str]:
    """Return the topics of a subscription as a list of plain strings. Members of a ``StrEnum`` become names.

    Raises:
        TypeError: the topics are not a list, but for example one name.
        ValueError: one of them is not a name.
    """
    if isinstance(topics, str):
        raise TypeError(f"topics must be a list of names, not the string {topics!r}")
    if not isinstance(topics, Iterable):
        raise TypeError(f"topics must be a list of names, not {topics!r}")
    names = list(topics)
    for topic in names:
        if not isinstance(topic, str) or not topic.strip():
            raise ValueError(f"a topic must be a name, not {topic!r}")
    return [str.__str__(topic) for topic in names]


def not_empty(items: Any, call: str) -> Any:
    """Return ``items`` unchanged if the list is not empty. For ``subscribe`` and ``assign`` on an event loop.

    Raises:
        ValueError: the list is empty. An empty list means to unsubscribe. On an event loop that needs a coroutine,
            because it waits.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        return items  # another check refuses it
    found = list(items)
    if not found:
        raise ValueError(f"{call} was called with an empty list: to drop the subscription, await unsubscribe()")
    return found


def check_max_records(max_records: int) -> int:
    """Return ``max_records`` as ``int``.

    Raises:
        TypeError: the value is not a whole number.
        ValueError: the number is less than 1.
    """
    number = max_records if type(max_records) is int else whole_number(max_records)  # no call for each poll
    if number is None:
        raise TypeError(f"max_records must be a whole number, not {max_records!r}")
    if number < 1:
        raise ValueError(f"max_records must be at least 1, not {number}")
    return number


def is_partition(value: Any) -> bool:
    """Return whether a value is a :class:`TopicPartition` or a pair of topic and number."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def as_partition(value: Any) -> TopicPartition:
    """Return a value as a :class:`TopicPartition`.

    Raises:
        TypeError: the value is not a partition.
    """
    partition = exact_partition(value)
    if partition is not None:
        return partition
    raise TypeError(f"a partition must be a TopicPartition of a topic's name and a number, not {value!r}")


def as_partitions(values: Any) -> list[TopicPartition]:
    """Return values as a list of :class:`TopicPartition`.

    Raises:
        TypeError: the values are not a list of partitions, but for example a single partition or the name of a topic.
    """
    if is_partition(values):
        raise TypeError(f"a list of TopicPartition is needed, not {values!r}: write [{values!r}]")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"a list of TopicPartition is needed, not {values!r}")
    return [as_partition(value) for value in values]


def by_partition(values: Any, what: str) -> dict[TopicPartition, Any]:
    """Return values as a dictionary by partition. ``what`` is the name of the values in error messages.

    Raises:
        TypeError: the values are not a dictionary by partition.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"a dictionary of TopicPartition to {what} is needed, not {values!r}")
    return {as_partition(tp): value for tp, value in values.items()}


def checked_position(offset: Any) -> tuple[int, int]:
    """Return the offset and the leader epoch to continue from. The leader epoch is -1 if it is not known.

    Raises:
        TypeError: the offset is neither a whole number nor an ``OffsetAndMetadata`` with a whole number.
        ValueError: the number is negative.
    """
    given, found = (offset.offset, offset.leader_epoch) if isinstance(offset, OffsetAndMetadata) else (offset, -1)
    number, epoch = whole_number(given), whole_number(found)
    if number is None or epoch is None:
        raise TypeError(f"an offset is a whole number or an OffsetAndMetadata, not {offset!r}")
    if number < 0:
        raise ValueError(f"an offset must not be negative: {number}")
    return number, epoch


def checked_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit by partition.

    Raises:
        TypeError: the offsets are not a dictionary by partition, or an offset is not a whole number.
        ValueError: an offset is negative.
    """
    checked = {}
    for tp, value in by_partition(offsets, "offset").items():
        offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        number, epoch = whole_number(offset.offset), whole_number(offset.leader_epoch)
        if number is None:
            raise TypeError(f"the offset of {tp} must be a whole number, not {offset.offset!r}")
        if epoch is None:
            raise TypeError(f"the leader epoch of {tp} must be a whole number, not {offset.leader_epoch!r}")
        if number < 0:
            raise ValueError(f"the offset of {tp} must not be negative: {number}")
        checked[tp] = offset._replace(offset=number, leader_epoch=epoch)
    return checked


def checked_times(timestamps: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    """Return the times to look up by partition, in ms since the epoch.

    Raises:
        TypeError: a time is not a whole number.
        ValueError: a time is negative, or does not fit into 63 bits.
    """
    return {tp: checked_timestamp(time, f"the time for {tp}") for tp, time in timestamps.items()}


def offsets_after(found: Any) -> Mapping[TopicPartition, OffsetAndMetadata | int]:
    """Return the offset after each partition's last record, ready to be committed.

    A dictionary by partition is returned unchanged.

    Raises:
        TypeError: the argument is neither records nor a dictionary.
    """
    if isinstance(found, ConsumerRecords):
        found = found.records()
    elif isinstance(found, Mapping):
        return found
    elif hasattr(found, "leader_epoch"):
        found = [found]  # a record of compat.kafka is a tuple
    after: dict[TopicPartition, OffsetAndMetadata | int] = {}
    highest: dict[TopicPartition, int] = {}
    try:
        for record in found:
            tp = TopicPartition(record.topic, record.partition)
            if record.offset >= highest.get(tp, -1):
                highest[tp] = record.offset
                after[tp] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
    except (TypeError, AttributeError):
        raise TypeError(f"records, or a dictionary of TopicPartition to offset, are needed, not {found!r}") from None
    return after
