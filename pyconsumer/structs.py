"""Small immutable values that every layer shares. They hold no behaviour beyond their own validation.

No module that an import of a client loads uses ``dataclasses``: with what it imports, it would take a quarter of the
time. A test sees to it.
"""

from __future__ import annotations

import enum
import operator
from typing import Any, Final, NamedTuple

__all__ = [
    "AcknowledgeType",
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


class AcknowledgeType(enum.IntEnum):
    """The outcome of a record that a member of a share group has acquired (KIP-932).

    * ``ACCEPT``: the record is processed. No member gets it again.
    * ``RELEASE``: it was not processed. A member gets it again, unless its deliveries have reached the group's limit.
    * ``REJECT``: it cannot be processed. No member gets it again.
    * ``RENEW``: it is still being processed. Its lock is renewed, and it stays with this member (KIP-1222).
    """

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Address(NamedTuple):
    """A host name or IP address, and a port. As text, an IPv6 address is in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TopicPartition(NamedTuple):
    """A partition of a topic: ``(topic, partition)``. Partitions are counted from 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def whole_number(value: Any) -> int | None:
    """Return a whole number of any type, such as numpy's, as ``int``.

    Return None for any other value, also for ``bool``.
    """
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

    For any other value return None. The name may also be a member of a ``StrEnum``, and the number one of numpy's.
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
    """A committed position: the *next* offset to read, a metadata string of the user, and the leader epoch.

    ``leader_epoch`` is -1 if it is not known (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """A result of ``offsets_for_times``: the first offset at or after a time, and its record's timestamp in ms."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class BrokerMetadata(NamedTuple):
    """A broker's id and address.

    ``node_id`` is negative for a bootstrap address, because its broker id is not known yet.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        """The host and port of the broker."""
        return Address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.address} (node {self.node_id})"


class PartitionMetadata(NamedTuple):
    """One partition in the metadata.

    ``leader`` is -1 if there is no leader, ``leader_epoch`` is -1 if it is unknown.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class RecordMetadata(NamedTuple):
    """The partition and offset of a produced record.

    ``offset`` is -1 with ``acks=0``. ``timestamp`` is in ms since the epoch. Sizes are in bytes. The size of a missing
    key or value is -1, and so is that of missing headers.
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
        """Always None, because checksums are computed for whole batches. The name is kafka-python's."""
        return None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class _Value:
    """A read-only object. It is equal to another one of its class that has the same attributes."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _set(self, *values: Any) -> None:
        for name, value in zip(self.__match_args__, values, strict=True):
            object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot set {name}: a {type(self).__name__} is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name}: a {type(self).__name__} is read-only")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in zip(self.__match_args__, self._values(), strict=True)]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()


class SubscriptionPattern(_Value):
    """A regular expression for topics that the broker evaluates (KIP-848, Java's ``SubscriptionPattern``).

    Pass it to ``consumer.subscribe(pattern=...)`` under ``group_protocol="consumer"``. A pattern given as ``str`` or
    ``re.Pattern`` is evaluated by the client instead. The client then needs the metadata of all topics.

    Args:
        pattern: a pattern in RE2's syntax. It has to match the whole name of a topic.

    Raises:
        TypeError, ValueError: the pattern is not a string, or it is empty.
    """

    __slots__ = __match_args__ = ("pattern",)
    pattern: str

    def __init__(self, pattern: str) -> None:
        if not isinstance(pattern, str):
            raise TypeError(f"the pattern must be a string, not {pattern!r}")
        if not pattern:
            raise ValueError("the pattern must not be empty")
        self._set(pattern)

    def __str__(self) -> str:
        return self.pattern


class ConsumerGroupMetadata(_Value):
    """A consumer's identity in its group, for ``KafkaProducer.send_offsets_to_transaction`` (KIP-447).

    ``generation_id`` is the member epoch under ``group_protocol="consumer"``.
    """

    __slots__ = __match_args__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None

    def __init__(
        self, group_id: str, generation_id: int = -1, member_id: str = "", group_instance_id: str | None = None
    ) -> None:
        self._set(group_id, generation_id, member_id, group_instance_id)
