"""``kafka.coordinator.assignors.abstract``: the base class of a program's own assignors, and how a group uses them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyconsumer.assignors import Assignment, Assignor, ClusterView, RebalanceProtocol, Subscription
from pyconsumer.compat.kafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition

__all__ = ["AbstractPartitionAssignor", "JoinedMember", "RebalanceProtocol", "TheirAssignor", "adapted"]


class AbstractPartitionAssignor(ABC):
    """Base class for a program's own assignors. It has the calls of kafka-python and aiokafka.

    You can give classes and objects as ``partition_assignment_strategy``.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which members vote for this assignor."""

    @abstractmethod
    def assign(self, cluster: Any, members: Any) -> Mapping[str, ConsumerProtocolMemberAssignment]:
        """Divide the partitions. Only the leader of the group calls this.

        Args:
            cluster: an object with ``partitions_for_topic(topic)``, which returns a set of numbers or None, and
                ``available_partitions_for_topic(topic)``.
            members: for aiokafka a dictionary from member ids to :class:`ConsumerProtocolMemberMetadata`. For
                kafka-python a list of :class:`JoinedMember`.

        Returns:
            A :class:`ConsumerProtocolMemberAssignment` for each member id.
        """

    @abstractmethod
    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the subscription that the member sends. Only its ``user_data`` is used."""

    @abstractmethod
    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment, *generation: int) -> None:
        """Receive the assignment. In kafka-python's form the generation is passed, too."""

    @classmethod
    def supported_protocols(cls) -> Sequence[int]:
        """Return the rebalance protocols that the assignor supports (KIP-429). By default only the eager protocol."""
        return [RebalanceProtocol.EAGER]


@dataclass(frozen=True)
class JoinedMember:
    """A member, as an assignor of kafka-python sees it.

    Attributes:
        member_id: the member's id.
        group_instance_id: the instance id of a static member (KIP-345), or None.
        metadata: the member's subscription.
    """

    member_id: str
    group_instance_id: str | None
    metadata: ConsumerProtocolMemberMetadata


class _Cluster:
    """The topics of a :class:`ClusterView` with the names of the originals."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, or None if it is not known."""
        found = self._view.partitions_for(topic)
        return None if found is None else {each.partition for each in found}

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic that have a leader, or None if it is not known."""
        found = self._view.partitions_for(topic)
        return None if found is None else {each.partition for each in found if each.leader >= 0}


class TheirAssignor(Assignor):
    """Adapts an assignor of a program (in kafka-python's or aiokafka's form) for pyconsumer's coordinator.

    Args:
        theirs: the program's assignor, a class or an object.
        lists_members: True if ``assign`` gets a list of members, and ``on_assignment`` gets the generation, as in
            kafka-python.
    """

    def __init__(self, theirs: Any, lists_members: bool) -> None:
        self.theirs = theirs
        self._lists_members = lists_members

    @property
    def name(self) -> str:
        """The name of the program's assignor."""
        name: str = self.theirs.name
        return name

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Return the protocols that the program's assignor supports. If it does not say, only the eager protocol."""
        find = getattr(self.theirs, "supported_protocols", None)
        if find is None:
            return (RebalanceProtocol.EAGER,)
        found = find(self.theirs) if inspect.isfunction(find) else find()  # a class was given, and a plain method
        return tuple(RebalanceProtocol(int(each)) for each in found)

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the user data from the subscription of the program's assignor."""
        found = self.theirs.metadata(set(topics))
        return getattr(found, "user_data", None) or None

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Let the program's assignor divide the partitions."""
        metadata = {member: _metadata_of(each) for member, each in subscriptions.items()}
        members: Any = metadata
        if self._lists_members:
            members = [
                JoinedMember(member, subscriptions[member].group_instance_id, each) for member, each in metadata.items()
            ]
        found = self.theirs.assign(_Cluster(cluster), members)
        return {
            member: Assignment(tuple(found[member].partitions()), found[member].user_data or None)
            if member in found
            else Assignment()
            for member in subscriptions
        }

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Pass the assignment to the program's assignor."""
        given = ConsumerProtocolMemberAssignment(0, by_topic(assignment.partitions), assignment.user_data or b"")
        if self._lists_members:
            self.theirs.on_assignment(given, metadata.generation_id)
        else:
            self.theirs.on_assignment(given)


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return partitions as pairs of a topic and its partition numbers."""
    found: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        found[tp.topic].append(tp.partition)
    return [(topic, sorted(numbers)) for topic, numbers in sorted(found.items())]


def _metadata_of(subscription: Subscription) -> ConsumerProtocolMemberMetadata:
    return ConsumerProtocolMemberMetadata(
        0,
        subscription.topics,
        subscription.user_data or b"",
        by_topic(subscription.owned_partitions),
        subscription.generation_id,
        subscription.rack_id,
    )


#: Names of the protocol that our assignors have, too. The classes of the originals under these names lead to them.
_OURS: Final = frozenset(("range", "roundrobin", "sticky", "cooperative-sticky"))


def adapted(strategies: Any, lists_members: bool) -> Any:
    """Return the setting ``partition_assignment_strategy``, in which assignors of the original clients are adapted.

    Args:
        strategies: the value of the setting: names, classes and objects.
        lists_members: see :class:`TheirAssignor`.
    """
    if strategies is None or isinstance(strategies, (str, Assignor, type)):
        return strategies if not _is_theirs(strategies) else [_adapted(strategies, lists_members)]
    return [_adapted(each, lists_members) for each in strategies]


def _is_theirs(assignor: Any) -> bool:
    if isinstance(assignor, (str, Assignor)) or (isinstance(assignor, type) and issubclass(assignor, Assignor)):
        return False
    return all(hasattr(assignor, name) for name in ("name", "assign", "metadata"))


def _adapted(assignor: Any, lists_members: bool) -> Any:
    if not _is_theirs(assignor):
        return assignor
    if isinstance(assignor, type) and isinstance(assignor.__dict__.get("name"), property):
        assignor = assignor()  # its name is known to an object only
    home = getattr(assignor if isinstance(assignor, type) else type(assignor), "__module__", "")
    if assignor.name in _OURS and home.startswith(("kafka.", "aiokafka.", "pyconsumer.compat.")):
        return assignor.name
    return TheirAssignor(assignor, lists_members)
