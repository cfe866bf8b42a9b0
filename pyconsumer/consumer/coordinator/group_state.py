"""A group member's states, the action for each error code, and the actions that the core asks for, as tables.

No I/O, no clock.

States of a member under the classic protocol (JoinGroup, SyncGroup)

1. A member is identified by its :class:`Generation`: generation id, member id and chosen assignor. Every request names
   it; the coordinator refuses requests of a generation that is over.
2. ``UNJOINED`` -> ``PREPARING_REBALANCE`` when JoinGroup is sent, -> ``COMPLETING_REBALANCE`` when it is answered,
   -> ``STABLE`` when SyncGroup is answered. An answer counts only in the state that waits for it.
3. A failed step leads back to ``UNJOINED``. The generation survives that, unless the coordinator does not know it.
4. Losing the generation means having lost the partitions: the listener hears *lost*, not *revoked*.
   ILLEGAL_GENERATION takes the generation and leaves the member id, which may still be valid; UNKNOWN_MEMBER_ID, the
   end of ``max_poll_interval_ms`` and leaving take both.
5. Heartbeats are sent in ``COMPLETING_REBALANCE`` and ``STABLE``. Before that the pending JoinGroup itself keeps the
   member alive.
6. Offsets are committed in ``STABLE`` only, and not before the application knows its new partitions.
7. ``FENCED``: another process took our ``group_instance_id`` (KIP-345). Every poll raises; only leaving ends it.

Errors

One table for each request says what a member does about an error code. A code that is not in it is unexpected and is
raised to the application. Retriable codes that a newer broker may add are retried after a pause.

Actions

The core returns actions as values. The driver whose call produced one sends the request that it asks for. Actions that
run code of the application (rebalance listener, assignor) or raise to it are carried out only by the thread that uses
the consumer, inside ``poll`` and its like.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyconsumer.errors import BY_CODE, IllegalStateError, KafkaError
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.structs import BrokerMetadata

__all__ = ["NO_GENERATION", "TRANSITIONS", "Event", "Generation", "MemberState", "next_state"]


class MemberState(enum.Enum):
    """The state of a member in its group."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"
    FENCED = "fenced"


class Event(enum.Enum):
    """An event that changes a member's state."""

    JOIN_SENT = "JoinGroup sent"
    JOIN_ANSWERED = "JoinGroup answered"
    SYNC_ANSWERED = "SyncGroup answered"
    STEP_FAILED = "JoinGroup or SyncGroup failed"
    RESET = "generation lost"
    FENCED = "fenced"


class Generation(NamedTuple):
    """A member's identity: generation id (-1 for none), member id ("" for none), name of the chosen assignor."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def joined(self) -> bool:
        """Return whether it was given by a finished JoinGroup and not lost since."""
        return self.generation_id >= 0

    def __str__(self) -> str:
        return f"generation {self.generation_id} of member {self.member_id or '(none)'}"


NO_GENERATION: Final = Generation()

_S = MemberState

TRANSITIONS: Final[Mapping[Event, Mapping[MemberState, MemberState]]] = {
    Event.JOIN_SENT: {_S.UNJOINED: _S.PREPARING_REBALANCE, _S.STABLE: _S.PREPARING_REBALANCE},
    Event.JOIN_ANSWERED: {_S.PREPARING_REBALANCE: _S.COMPLETING_REBALANCE},
    Event.SYNC_ANSWERED: {_S.COMPLETING_REBALANCE: _S.STABLE},
    Event.STEP_FAILED: {_S.PREPARING_REBALANCE: _S.UNJOINED, _S.COMPLETING_REBALANCE: _S.UNJOINED},
    Event.RESET: dict.fromkeys(_S, _S.UNJOINED),
    Event.FENCED: dict.fromkeys(_S, _S.FENCED),
}

"""Event -> state -> next state; what is not in it cannot happen."""


def next_state(state: MemberState, event: Event) -> MemberState:
    """The state after an event.

    Raises:
        IllegalStateError: the event is impossible in that state, so there is a fault in the caller.
    """
    try:
        return TRANSITIONS[event][state]
    except KeyError:
        raise IllegalStateError(f"{event.value} is impossible for a member that is {state.value}") from None


__all__ = ["HEARTBEAT", "JOIN", "OFFSET_COMMIT", "OFFSET_FETCH", "SYNC", "ErrorAction", "action_for"]


class ErrorAction(enum.Enum):
    """The reaction to an error code."""

    RETRY_NOW = "send again at once"
    BACK_OFF = "send again after a pause"
    REDISCOVER = "look for the coordinator, then send again"
    TAKE_MEMBER_ID = "send again with the member id that the answer holds"
    RESET_GENERATION = "forget the generation, keep the member id, join again"
    RESET_MEMBER = "forget generation and member id, join again"
    REJOIN = "keep generation and member id, join again"
    FENCED = "somebody took our instance id: stop"
    RAISE = "raise to the application"
    COLLECT = "raise to the application after the other partitions"
    REFRESH_METADATA = "send again after a pause, with newer metadata"


_R = ErrorAction

_COORDINATOR: Final = {15: _R.REDISCOVER, 16: _R.REDISCOVER}  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

JOIN: Final[Mapping[int, ErrorAction]] = _COORDINATOR | {
    14: _R.BACK_OFF,  # COORDINATOR_LOAD_IN_PROGRESS
    22: _R.RESET_GENERATION,  # ILLEGAL_GENERATION
    23: _R.RAISE,  # INCONSISTENT_GROUP_PROTOCOL
    24: _R.RAISE,  # INVALID_GROUP_ID
    25: _R.RESET_MEMBER,  # UNKNOWN_MEMBER_ID
    26: _R.RAISE,  # INVALID_SESSION_TIMEOUT
    27: _R.RETRY_NOW,  # REBALANCE_IN_PROGRESS
    30: _R.RAISE,  # GROUP_AUTHORIZATION_FAILED
    35: _R.RAISE,  # UNSUPPORTED_VERSION
    79: _R.TAKE_MEMBER_ID,  # MEMBER_ID_REQUIRED (KIP-394)
    81: _R.RAISE,  # GROUP_MAX_SIZE_REACHED
    82: _R.FENCED,  # FENCED_INSTANCE_ID
}

SYNC: Final[Mapping[int, ErrorAction]] = _COORDINATOR | {
    14: _R.BACK_OFF,
    22: _R.RESET_GENERATION,
    23: _R.RAISE,
    25: _R.RESET_MEMBER,
    27: _R.REJOIN,
    30: _R.RAISE,
    82: _R.FENCED,
}

HEARTBEAT: Final[Mapping[int, ErrorAction]] = _COORDINATOR | {
    14: _R.BACK_OFF,
    22: _R.RESET_GENERATION,
    25: _R.RESET_MEMBER,
    27: _R.REJOIN,
    30: _R.RAISE,
    82: _R.FENCED,
}

OFFSET_COMMIT: Final[Mapping[int, ErrorAction]] = _COORDINATOR | {
    3: _R.REFRESH_METADATA,  # UNKNOWN_TOPIC_OR_PARTITION
    7: _R.REDISCOVER,  # REQUEST_TIMED_OUT
    12: _R.RAISE,  # OFFSET_METADATA_TOO_LARGE
    14: _R.BACK_OFF,
    22: _R.RESET_GENERATION,
    25: _R.RESET_MEMBER,
    27: _R.REJOIN,
    28: _R.RAISE,  # INVALID_COMMIT_OFFSET_SIZE
    29: _R.COLLECT,  # TOPIC_AUTHORIZATION_FAILED
    30: _R.RAISE,
    82: _R.FENCED,
    100: _R.REFRESH_METADATA,  # UNKNOWN_TOPIC_ID
}

OFFSET_FETCH: Final[Mapping[int, ErrorAction]] = _COORDINATOR | {
    3: _R.RAISE,  # an offset of a topic that does not exist: no retry makes it exist
    14: _R.BACK_OFF,
    29: _R.COLLECT,
    30: _R.RAISE,
    88: _R.BACK_OFF,  # UNSTABLE_OFFSET_COMMIT (KIP-447)
    100: _R.REFRESH_METADATA,
}


def action_for(table: Mapping[int, ErrorAction], code: int) -> ErrorAction:
    """The reaction to an error code, none of the codes being 0."""
    known = table.get(code)
    if known is not None:
        return known
    error = BY_CODE.get(code)
    return ErrorAction.BACK_OFF if error is not None and error.retriable else ErrorAction.RAISE


__all__ = [
    "BackgroundAction",
    "BuildJoin",
    "CompleteJoin",
    "ComputeAssignment",
    "FindCoordinator",
    "PrepareJoin",
    "Raise",
    "SendHeartbeat",
    "SendJoin",
    "SendLeave",
    "SendSync",
    "Sleep",
    "Stop",
    "UserAction",
]


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Ask any broker which one coordinates the group."""


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """A rebalance begins: commit, call the listener; then ``on_prepared``. ``lost``: the generation is gone."""

    lost: bool
    generation: Generation


@dataclass(frozen=True, slots=True)
class BuildJoin:
    """Collect subscription and user data for JoinGroup; then ``begin_join``."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class SendJoin:
    """Send JoinGroup to ``node`` and report its end with ``attempt``. ``timeout``: seconds; it is pending there."""

    attempt: int
    node: BrokerMetadata
    request: JoinGroupRequest
    timeout: float


@dataclass(frozen=True, slots=True)
class ComputeAssignment:
    """We lead the group: run the assignor over the members; then ``on_assigned``.

    ``skip``: keep the coordinator's present assignment, only look after the topics' metadata (KIP-814).
    """

    attempt: int
    generation: Generation
    members: tuple[JoinGroupResponseMember, ...]
    skip: bool


@dataclass(frozen=True, slots=True)
class SendSync:
    """Send SyncGroup to ``node`` and report its end with ``attempt``."""

    attempt: int
    node: BrokerMetadata
    request: SyncGroupRequest
    timeout: float


@dataclass(frozen=True, slots=True)
class CompleteJoin:
    """The rebalance is over: adopt the assignment, call the listener; then ``on_completed``."""

    generation: Generation
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Raise:
    """Notify the application."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send Heartbeat to ``node`` and report its end with ``generation``. ``term``: the coordinator's, see its
    discovery.
    """

    node: BrokerMetadata
    request: HeartbeatRequest
    generation: Generation
    term: int


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send LeaveGroup to ``node`` and report its end, whatever it is. ``term`` as in :class:`SendHeartbeat`."""

    node: BrokerMetadata
    request: LeaveGroupRequest
    term: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do before ``until`` (seconds, may be infinite) unless somebody calls."""

    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The background's work is over permanently."""


#: Actions for the thread that uses the consumer.
UserAction = FindCoordinator | PrepareJoin | BuildJoin | ComputeAssignment | CompleteJoin | Raise

#: Actions for the heartbeat thread.
BackgroundAction = FindCoordinator | SendHeartbeat | SendLeave | Sleep | Stop
