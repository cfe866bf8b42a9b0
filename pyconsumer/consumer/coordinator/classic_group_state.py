"""The table of states of a classic member, and its actions.

No I/O, no clock. Shared actions are in :mod:`.group_state`, the action for each error code in :mod:`.error_actions`.

States

1. A member is identified by its :class:`Generation`: generation id, member id and chosen assignor. Every request names
   it. The coordinator refuses requests of a generation that is over.
2. ``UNJOINED`` -> ``PREPARING_REBALANCE`` when JoinGroup is sent, -> ``COMPLETING_REBALANCE`` when it has succeeded,
   -> ``STABLE`` when SyncGroup has succeeded. A response counts only in the state that waits for it.
3. A failed JoinGroup or SyncGroup leads back to ``UNJOINED``. The generation survives that,
   unless the coordinator does not know it.
4. Losing the generation means losing the partitions: ``on_partitions_lost`` is called, not ``on_partitions_revoked``.
   ILLEGAL_GENERATION invalidates the generation only: the member id may still be valid. UNKNOWN_MEMBER_ID, the
   end of ``max_poll_interval_ms`` and leaving invalidate both.
5. Heartbeats are sent in ``COMPLETING_REBALANCE`` and ``STABLE``. Before that the pending JoinGroup itself keeps the
   member alive.
6. Offsets are committed in ``STABLE`` only, and not before the application knows its new partitions.
7. ``FENCED``: another process took our ``group_instance_id`` (KIP-345). Every poll raises. Only leaving ends it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyconsumer.consumer.coordinator.group_state import FindCoordinator, Generation, Raise
from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.structs import BrokerMetadata

__all__ = [
    "TRANSITIONS",
    "BuildJoin",
    "ClassicMemberState",
    "CompleteJoin",
    "ComputeAssignment",
    "Event",
    "PrepareJoin",
    "SendJoin",
    "SendSync",
    "UserAction",
    "next_state",
]


class ClassicMemberState(enum.Enum):
    """The state of a member in its group."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"
    FENCED = "fenced"


class Event(enum.Enum):
    """An event that changes a member's state."""

    JOIN_SENT = "JoinGroup sent"
    JOIN_SUCCEEDED = "JoinGroup succeeded"
    SYNC_SUCCEEDED = "SyncGroup succeeded"
    STEP_FAILED = "JoinGroup or SyncGroup failed"
    RESET = "generation lost"
    FENCED = "fenced"


_S = ClassicMemberState


#: Event -> state -> next state; an event in a state that is not listed cannot happen.
TRANSITIONS: Final[Mapping[Event, Mapping[ClassicMemberState, ClassicMemberState]]] = {
    Event.JOIN_SENT: {_S.UNJOINED: _S.PREPARING_REBALANCE, _S.STABLE: _S.PREPARING_REBALANCE},
    Event.JOIN_SUCCEEDED: {_S.PREPARING_REBALANCE: _S.COMPLETING_REBALANCE},
    Event.SYNC_SUCCEEDED: {_S.COMPLETING_REBALANCE: _S.STABLE},
    Event.STEP_FAILED: {_S.PREPARING_REBALANCE: _S.UNJOINED, _S.COMPLETING_REBALANCE: _S.UNJOINED},
    Event.RESET: dict.fromkeys(_S, _S.UNJOINED),
    Event.FENCED: dict.fromkeys(_S, _S.FENCED),
}


def next_state(state: ClassicMemberState, event: Event) -> ClassicMemberState:
    """Return the state after an event.

    Raises:
        IllegalStateError: the event is impossible in this state. That is a bug in the caller.
    """
    try:
        return TRANSITIONS[event][state]
    except KeyError:
        raise IllegalStateError(f"{event.value} is impossible for a member that is {state.value}") from None


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """Begin a rebalance: commit, call the listener, then call ``on_prepared``.

    ``lost``: True if the generation is lost.
    """

    lost: bool
    generation: Generation


@dataclass(frozen=True, slots=True)
class BuildJoin:
    """Collect the subscription and user data for JoinGroup, then call ``begin_join``."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class SendJoin:
    """Send JoinGroup to ``node``, and report the outcome with ``attempt``. ``timeout`` is in seconds."""

    attempt: int
    node: BrokerMetadata
    request: JoinGroupRequest
    timeout: float


@dataclass(frozen=True, slots=True)
class ComputeAssignment:
    """Run the assignor for all members, since this member leads the group. Then call ``on_assigned``.

    ``skip``: keep the coordinator's present assignment, and only watch the topics' metadata (KIP-814).
    """

    attempt: int
    generation: Generation
    members: tuple[JoinGroupResponseMember, ...]
    skip: bool


@dataclass(frozen=True, slots=True)
class SendSync:
    """Send SyncGroup to ``node``, and report the outcome with ``attempt``."""

    attempt: int
    node: BrokerMetadata
    request: SyncGroupRequest
    timeout: float


@dataclass(frozen=True, slots=True)
class CompleteJoin:
    """Finish the rebalance: adopt the assignment, call the listener, then call ``on_completed``."""

    generation: Generation
    assignment: bytes


#: Actions for the thread that uses the consumer.
UserAction = FindCoordinator | PrepareJoin | BuildJoin | ComputeAssignment | CompleteJoin | Raise
