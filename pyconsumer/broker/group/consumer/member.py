"""A member of a group of the consumer protocol: its metadata, epochs and partitions.

A member is an immutable value, owned by its :class:`~.group.ConsumerGroup`. A change makes a new one, so that the rules
can compare the member before and after it.

States
------
1. *STABLE*: the member has all partitions of its target assignment.
2. *UNREVOKED_PARTITIONS*: it was asked to revoke partitions and has not confirmed that.
3. *UNRELEASED_PARTITIONS*: it is in the new epoch, but other members still hold partitions of its target.
4. *UNKNOWN*: a state of a later version, read from the log. The member has to revoke everything and join again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from pyconsumer.broker.group.classic.group_metadata import Protocols

__all__ = [
    "LEAVE_EPOCH",
    "NO_ASSIGNMENT",
    "NO_TARGET",
    "STATIC_LEAVE_EPOCH",
    "Assignment",
    "ClassicMember",
    "ConsumerGroupMember",
    "MemberState",
    "Target",
    "assigned_in",
]

#: Member epochs of heartbeats by which a member leaves, and a static member leaves temporarily.
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

#: Partitions of each topic id, each with the epoch in which it was assigned to the member (KIP-1251).
Assignment = Mapping[bytes, Mapping[int, int]]
#: Partitions of each topic id that a member is to have.
Target = Mapping[bytes, frozenset[int]]

NO_ASSIGNMENT: Final[Assignment] = MappingProxyType({})
NO_TARGET: Final[Target] = MappingProxyType({})


class MemberState(IntEnum):
    """The state of a member. The value is the number in the member's record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        """Return the state with this number, or UNKNOWN if there is no such state."""
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """The data of a member that uses the classic protocol. Other members do not have it.

    Args:
        session_timeout_ms: the session timeout in the member's JoinGroup.
        protocols: the protocols that the member supports, the preferred one first. Each has the member's subscription.
    """

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol_name(self) -> str:
        """The member's first protocol.

        In the responses to its JoinGroup and SyncGroup, it is the protocol of the group.
        """
        return self.protocols[0][0]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member of a group of the consumer protocol.

    Attributes:
        member_epoch: the epoch that the member's heartbeats must contain. 0 before the member has joined, -1 after its
            assignment record was removed, -2 for a static member that has left temporarily.
        previous_member_epoch: this epoch is accepted, too, since the response with the present epoch may have been
            lost.
        assigned: the partitions that the member may use now.
        pending_revocation: the partitions that the member was asked to revoke.
        classic: data of a member that uses the classic protocol. None for other members.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Assignment = field(default_factory=lambda: NO_ASSIGNMENT)
    pending_revocation: Assignment = field(default_factory=lambda: NO_ASSIGNMENT)
    classic: ClassicMember | None = None

    def replace(self, **changes: object) -> ConsumerGroupMember:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def with_member_epoch(self, epoch: int, **changes: object) -> ConsumerGroupMember:
        """Return a copy with another epoch. The present epoch becomes the previous epoch."""
        return self.replace(member_epoch=epoch, previous_member_epoch=self.member_epoch, **changes)

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has all partitions of its target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch in which the member got a partition. None if the member does not hold the partition."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def owns_all(self, owned: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
        """Return whether all these partitions are assigned to the member."""
        for topic_id, partitions in owned:
            assigned = self.assigned.get(topic_id)
            if assigned is None or not all(partition in assigned for partition in partitions):
                return False
        return True


def assigned_in(epoch: int, target: Target) -> Assignment:
    """Return the partitions of a target as partitions that were assigned in ``epoch``."""
    return {topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in target.items()}
