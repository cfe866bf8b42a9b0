"""Small immutable values that every layer shares. They hold no behaviour beyond their own validation."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = [
    "Address",
    "BrokerMetadata",
    "ConsumerGroupMetadata",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "exact_partition",
    "make_tuple",
    "whole_number",
]

#: ``make_tuple(TopicPartition, ("t", 0))`` is ``TopicPartition("t", 0)`` without a call in Python, for the hot paths.
make_tuple: Final[Any] = tuple.__new__


class Address(NamedTuple):
    """Host name or IP address, and port. As text, an IPv6 address is in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TopicPartition(NamedTuple):
    """One partition of a topic: ``(topic, partition)``, partitions counted from 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def whole_number(value: Any) -> int | None:
    """Return a whole number of any type, such as numpy's, as ``int``. None for anything else, ``bool`` included."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def exact_partition(value: Any) -> TopicPartition | None:
    """Return a pair of a topic's name and a number as a partition of exactly ``str`` and ``int``.

    For any other value return None. The name may be a member of a ``StrEnum``, the number one of numpy's.
    """
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    topic, partition = value
    if type(value) is TopicPartition and type(topic) is str and type(partition) is int:
        return value
    number = whole_number(partition)
    if number is None or not isinstance(topic, str):
        return None
    return TopicPartition(str.__str__(topic), number)


class OffsetAndMetadata(NamedTuple):
    """Committed position: the *next* offset to read, a metadata string of the user and the leader epoch.

    ``leader_epoch`` is -1 where it is not known (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """Result of ``offsets_for_times``: the first offset at or after a time, and that record's timestamp in ms."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class BrokerMetadata(NamedTuple):
    """A broker's address. ``node_id`` is negative for a bootstrap address whose id is not known yet."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """Host and port."""
        return Address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.address} (node {self.node_id})"


class PartitionMetadata(NamedTuple):
    """One partition in metadata. ``leader`` is -1 without a leader, ``leader_epoch`` -1 if unknown."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class RecordMetadata(NamedTuple):
    """The place of a produced record.

    ``offset`` is -1 with ``acks=0``. ``timestamp`` is in ms since the epoch. Sizes are in bytes, -1 for None, and for a
    record without headers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1
    serialized_header_size: int = -1

    @property
    def checksum(self) -> None:
        """Return None: batches are checked as a whole. kafka-python's name."""
        return None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression for topics that the broker evaluates (KIP-848, Java's ``SubscriptionPattern``).

    For ``consumer.subscribe(pattern=...)`` under ``group_protocol="consumer"``. A pattern given as ``str`` or
    ``re.Pattern`` is evaluated by the client instead, which needs the metadata of all topics for that.

    Args:
        pattern: in RE2's syntax. The whole name of a topic has to match.

    Raises:
        TypeError, ValueError: it is not a string, or empty.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise TypeError(f"the pattern must be a string, not {self.pattern!r}")
        if not self.pattern:
            raise ValueError("the pattern must not be empty")

    def __str__(self) -> str:
        return self.pattern


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """A consumer's identity in its group, for ``KafkaProducer.send_offsets_to_transaction`` (KIP-447).

    ``generation_id`` is the member epoch under ``group_protocol="consumer"``.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
