"""Arguments of the public methods, as users give them."""

from __future__ import annotations

from typing import Any

from pyconsumer.structs import TopicPartition

__all__ = ["as_partition", "check_max_records", "is_partition"]


def check_max_records(max_records: int) -> int:
    """The number itself.

    Raises:
        ValueError: it is less than 1.
    """
    if max_records < 1:
        raise ValueError(f"max_records must be at least 1, not {max_records}")
    return max_records


def is_partition(value: Any) -> bool:
    """Whether something is a partition, or a pair of topic and number."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def as_partition(value: Any) -> TopicPartition:
    """A partition.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, TopicPartition):
        return value
    if is_partition(value):
        return TopicPartition(*value)
    raise TypeError(f"a partition must be a TopicPartition, not {value!r}")
