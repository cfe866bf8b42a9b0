"""``kafka.coordinator.protocol``: the subscription and the assignment of a group's member, as assignors see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pyconsumer.structs import TopicPartition

__all__ = ["ConsumerProtocol", "ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]


class _Values:
    """Named values that compare and print."""

    _NAMES: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._NAMES)

    __hash__ = None  # type: ignore[assignment]  # its lists may change

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._NAMES)
        return f"{type(self).__name__}({values})"


class ConsumerProtocolMemberMetadata(_Values):
    """The subscription of a member.

    Args:
        version: version of the format. It has no effect, since members use the highest version that all of them
            support.
        subscription: names of the subscribed topics.
        user_data: bytes of the assignor itself.
        topics: the same as ``subscription``.
        owned_partitions: the partitions that the member had before, as pairs of a topic and partition numbers.
        generation_id: the generation in which the member had these partitions, -1 if unknown.
        rack_id: the member's rack.
    """

    _NAMES = ("version", "subscription", "user_data", "owned_partitions", "generation_id", "rack_id")

    def __init__(
        self,
        version: int = 0,
        subscription: Iterable[str] = (),
        user_data: bytes | None = b"",
        owned_partitions: Iterable[Any] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
        *,
        topics: Iterable[str] | None = None,
    ) -> None:
        self.version = version
        self.subscription = list(subscription if topics is None else topics)
        self.user_data = user_data
        self.owned_partitions = list(owned_partitions)
        self.generation_id = generation_id
        self.rack_id = rack_id

    @property
    def topics(self) -> list[str]:
        """The same as ``subscription``."""
        return self.subscription


class ConsumerProtocolMemberAssignment(_Values):
    """The assignment of a member.

    Args:
        version: version of the format. It has no effect.
        assignment: pairs of a topic and its partition numbers.
        user_data: bytes of the assignor itself.
        assigned_partitions: the same as ``assignment``.
    """

    _NAMES = ("version", "assignment", "user_data")

    def __init__(
        self,
        version: int = 0,
        assignment: Iterable[Any] = (),
        user_data: bytes | None = b"",
        *,
        assigned_partitions: Iterable[Any] | None = None,
    ) -> None:
        self.version = version
        self.assignment = [
            (topic, list(partitions))
            for topic, partitions in (assignment if assigned_partitions is None else assigned_partitions)
        ]
        self.user_data = user_data

    @property
    def assigned_partitions(self) -> list[tuple[str, list[int]]]:
        """The same as ``assignment``."""
        return self.assignment

    def partitions(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return [TopicPartition(topic, number) for topic, numbers in self.assignment for number in numbers]


class ConsumerProtocol:
    """Constants of the protocol of consumer groups."""

    PROTOCOL_TYPE: Final = "consumer"
    ASSIGNMENT_STRATEGIES: Final = ("range", "roundrobin")
    METADATA = ConsumerProtocolMemberMetadata
    ASSIGNMENT = ConsumerProtocolMemberAssignment
