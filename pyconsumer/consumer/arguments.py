"""Checks for the arguments of public methods."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, TopicPartition, exact_partition

__all__ = [
    "as_partition",
    "as_partitions",
    "by_partition",
    "check_max_records",
    "check_subscription",
    "is_partition",
    "looks_like_seconds",
    "offsets_after",
    "point_out_milliseconds",
    "split_topics",
]

_log = logging.getLogger("pyconsumer.consumer")

_LIKE_SECONDS: Final = 10.0  # a float up to here is rather meant as seconds


def looks_like_seconds(timeout_ms: float) -> bool:
    """Return whether a time was probably meant as seconds, as in confluent-kafka's ``poll(1.0)``."""
    return type(timeout_ms) is float and 0 < timeout_ms <= _LIKE_SECONDS


def point_out_milliseconds(call: str, timeout_ms: float) -> None:
    """Log what a call with a time that looks like seconds does, and what would wait for these seconds."""
    _log.warning(
        "%s(%s) waits for %s ms, as all times here are milliseconds; %s(%g) waits for %g s",
        *(call, timeout_ms, timeout_ms, call, timeout_ms * 1000, timeout_ms),
    )


def split_topics(
    positional: Iterable[str | Mapping[str, Any]], settings: Mapping[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """Return the topics and all settings that a consumer was made with: mappings among its topics are settings, too."""
    topics: list[str] = []
    options: dict[str, Any] = {}
    for item in positional:
        if isinstance(item, Mapping):
            options |= item
        else:
            topics.append(item)
    return topics, {**options, **settings}


def check_subscription(topics: Any, pattern: Any, listener: Any) -> None:
    """Check what ``subscribe`` was given.

    Raises:
        TypeError: the listener is none, or the topics are None.
        ValueError: there are topics and a pattern.
    """
    if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
        raise TypeError(f"a listener must be a ConsumerRebalanceListener, not {listener!r}")
    if topics is None:
        raise TypeError("topics must be a list of names, not None")
    if pattern is not None and topics:
        raise ValueError("topics and a pattern exclude one another")


def check_max_records(max_records: int) -> int:
    """Return the number.

    Raises:
        ValueError: the number is less than 1.
    """
    if max_records < 1:
        raise ValueError(f"max_records must be at least 1, not {max_records}")
    return max_records


def is_partition(value: Any) -> bool:
    """Return whether a value is a partition, or a pair of topic and number."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def as_partition(value: Any) -> TopicPartition:
    """Return a value as a partition.

    Raises:
        TypeError: the value is no partition.
    """
    partition = exact_partition(value)
    if partition is not None:
        return partition
    raise TypeError(f"a partition must be a TopicPartition of a topic's name and a number, not {value!r}")


def as_partitions(values: Any) -> list[TopicPartition]:
    """Return values as a list of partitions.

    Raises:
        TypeError: the values are no list of partitions, but for example a single one or the name of a topic.
    """
    if is_partition(values):
        raise TypeError(f"a list of TopicPartition is needed, not {values!r}: write [{values!r}]")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"a list of TopicPartition is needed, not {values!r}")
    return [as_partition(value) for value in values]


def by_partition(values: Any, what: str) -> dict[TopicPartition, Any]:
    """Return values as a dictionary by partition; ``what`` names the values in messages.

    Raises:
        TypeError: the values are no dictionary by partition.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"a dictionary of TopicPartition to {what} is needed, not {values!r}")
    return {as_partition(tp): value for tp, value in values.items()}


def offsets_after(found: Any) -> Mapping[TopicPartition, OffsetAndMetadata | int]:
    """Return the offsets to commit after records; a dictionary by partition is returned as it is.

    Raises:
        TypeError: the argument is neither records nor a dictionary.
    """
    if isinstance(found, ConsumerRecords):
        found = found.records()
    elif isinstance(found, Mapping):
        return found
    elif isinstance(found, ConsumerRecord):
        found = [found]
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
