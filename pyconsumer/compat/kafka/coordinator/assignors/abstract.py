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
    """Base class of a program's own assignors, with the calls of kafka-python and aiokafka.

    Classes and objects can be given as ``partition_assignment_strategy``.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the wire, by which the members vote."""

    @abstractmethod
    def assign(self, cluster: Any, members: Any) -> Mapping[str, ConsumerProtocolMemberAssignment]:
        """Divide the partitions. Only the group's leader is asked.

        Args:
            cluster: has ``partitions_for_topic(topic)``, a set of numbers or None, and
                ``available_partitions_for_topic(topic)``.
            members: for aiokafka a dictionary of :class:`ConsumerProtocolMemberMetadata` by member id. For
                kafka-python a list of :class:`JoinedMember`.

        Returns:
            A :class:`ConsumerProtocolMemberAssignment` for each member id.
        """

    @abstractmethod
    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the subscription that the member sends, of which ``user_data`` is used."""

    @abstractmethod
    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment, *generation: int) -> None:
        """Receive the assignment. kafka-python passes the generation, too."""

    @classmethod
    def supported_protocols(cls) -> Sequence[int]:
        """Return the rebalance protocols that it supports (KIP-429): by default the eager one."""
        return [RebalanceProtocol.EAGER]


@dataclass(frozen=True)
class JoinedMember:
    """A member as an assignor of kafka-python sees it.

    Attributes:
        member_id: its id.
        group_instance_id: its static identity (KIP-345), or None.
        metadata: its subscription.
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
    """An assignor of the original's kind, used by our coordinator.

    Args:
        theirs: a class or an object.
        lists_members: whether ``assign`` gets a list of members, as in kafka-python, and ``on_assignment`` the
            generation.
    """

    def __init__(self, theirs: Any, lists_members: bool) -> None:
        self.theirs = theirs
        self._lists_members = lists_members

    @property
    def name(self) -> str:
        """The name that the program's assignor has."""
        name: str = self.theirs.name
        return name

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Return what the program's assignor supports: the eager protocol if it does not say."""
        find = getattr(self.theirs, "supported_protocols", None)
        if find is None:
            return (RebalanceProtocol.EAGER,)
        found = find(self.theirs) if inspect.isfunction(find) else find()  # a class was given, and a plain method
        return tuple(RebalanceProtocol(int(each)) for each in found)

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the user data of the program's subscription."""
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
        """Pass the assignment on."""
        given = ConsumerProtocolMemberAssignment(0, by_topic(assignment.partitions), assignment.user_data or b"")
        if self._lists_members:
            self.theirs.on_assignment(given, metadata.generation_id)
        else:
            self.theirs.on_assignment(given)


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return pairs of a topic and its partitions."""
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
    """Return the setting ``partition_assignment_strategy`` with assignors of the originals' kind as ours.

    Args:
        strategies: the setting: names, classes and objects.
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
