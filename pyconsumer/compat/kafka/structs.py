"""The values of ``kafka.structs``, under the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyconsumer import structs as _ours
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, PartitionMetadata, TopicPartition

__all__ = [
    "BrokerMetadata",
    "ConsumerGroupMetadata",
    "GroupInformation",
    "MemberInformation",
    "MemberState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "TopicPartition",
    "TopicPartitionReplica",
]


class MemberState:
    """The states of a member in its group."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class ConsumerGroupMetadata(_ours.ConsumerGroupMetadata):
    """A consumer's identity in its group, and its state.

    Attributes:
        state: one of :class:`MemberState`. Not part of the identity.
    """

    __slots__ = ("state",)

    state: str

    def __init__(
        self,
        group_id: str | None = None,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        state: str = MemberState.UNJOINED,
    ) -> None:
        super().__init__(group_id, generation_id, member_id, group_instance_id)  # type: ignore[arg-type]
        object.__setattr__(self, "state", state)


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int


class BrokerMetadata(NamedTuple):
    """A broker's address. kafka-python 2.x calls its id ``nodeId``, 3.x ``node_id``. Both work."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def nodeId(self) -> int:  # noqa: N802 - kafka-python's name
        """Return the broker's id."""
        return self.node_id


class MemberInformation(NamedTuple):
    """A member of a group, as ``describe_consumer_groups`` returns it."""

    member_id: str
    client_id: str
    client_host: str
    member_metadata: Any
    member_assignment: Any


class GroupInformation(NamedTuple):
    """A group, as ``describe_consumer_groups`` returns it."""

    error_code: int
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[MemberInformation]
    authorized_operations: Mapping[str, Any] | None = None
