"""The values of ``kafka.structs``, under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyconsumer import structs as _ours
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp

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


if TYPE_CHECKING:
    TopicPartition = _ours.TopicPartition
else:

    class _AcceptsOurs(type):
        """The class of :class:`TopicPartition`: partitions that the clients return are instances of it, too."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _ours.TopicPartition)

    class TopicPartition(_ours.TopicPartition, metaclass=_AcceptsOurs):
        """One partition of a topic: ``(topic, partition)``. As text it is that of a named tuple.

        The clients return :class:`pyconsumer.TopicPartition`, which is equal and has the same hash. Its text is
        ``orders-0``.
        """

        __slots__ = ()

        __str__ = _ours.TopicPartition.__repr__


class PartitionMetadata(NamedTuple):
    """One partition in the metadata, as in kafka-python 2.x. ``leader`` is -1 if there is no leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    error: Any


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's identity in its group, and the consumer's state.

    Outside a group ``generation_id`` is -1 and ``member_id`` is empty. ``state`` is a value of :class:`MemberState`.
    """

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int


class BrokerMetadata(NamedTuple):
    """A broker's id and address. In kafka-python 2.x the id is ``nodeId``, in 3.x ``node_id``. Both names work."""

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
    authorized_operations: Sequence[str] | None = None
