"""A group member's states, the action for each error code, and the actions that the core asks for, as tables.

No I/O, no clock.

States of a member under the classic protocol (JoinGroup, SyncGroup)

1. A member is identified by its :class:`Generation`: generation id, member id and chosen assignor. Every request names
   it; the coordinator refuses requests of a generation that is over.
2. ``UNJOINED`` -> ``PREPARING_REBALANCE`` when JoinGroup is sent, -> ``COMPLETING_REBALANCE`` when it is answered,
   -> ``STABLE`` when SyncGroup is answered. An answer counts only in the state that waits for it.
3. A failed JoinGroup or SyncGroup leads back to ``UNJOINED``. The generation survives that,
   unless the coordinator does not know it.
4. Losing the generation means having lost the partitions: the listener hears *lost*, not *revoked*.
   ILLEGAL_GENERATION takes the generation and leaves the member id, which may still be valid; UNKNOWN_MEMBER_ID, the
   end of ``max_poll_interval_ms`` and leaving take both.
5. Heartbeats are sent in ``COMPLETING_REBALANCE`` and ``STABLE``. Before that the pending JoinGroup itself keeps the
   member alive.
6. Offsets are committed in ``STABLE`` only, and not before the application knows its new partitions.
7. ``FENCED``: another process took our ``group_instance_id`` (KIP-345). Every poll raises; only leaving ends it.

Errors

One table for each request says what a member does about an error code; the ones of heartbeats are in :mod:`.heartbeat`.
A code that is not in it is unexpected and is raised to the application. Retriable codes that a newer broker may add are
retried after a pause.

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

from pyconsumer.errors import BY_CODE, Errors, IllegalStateError, KafkaError
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.structs import BrokerMetadata

__all__ = [
    "COORDINATOR_LOST",
    "JOIN",
    "NO_GENERATION",
    "OFFSET_COMMIT",
    "OFFSET_FETCH",
    "SYNC",
    "TRANSITIONS",
    "BackgroundAction",
    "BuildJoin",
    "CompleteJoin",
    "ComputeAssignment",
    "ErrorAction",
    "Event",
    "FindCoordinator",
    "Generation",
    "MemberState",
    "PrepareJoin",
    "Raise",
    "SendHeartbeat",
    "SendJoin",
    "SendLeave",
    "SendSync",
    "Sleep",
    "Stop",
    "UserAction",
    "action_for",
    "next_state",
]


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

#: Event -> state -> next state; an event in a state that is not listed cannot happen.
TRANSITIONS: Final[Mapping[Event, Mapping[MemberState, MemberState]]] = {
    Event.JOIN_SENT: {_S.UNJOINED: _S.PREPARING_REBALANCE, _S.STABLE: _S.PREPARING_REBALANCE},
    Event.JOIN_ANSWERED: {_S.PREPARING_REBALANCE: _S.COMPLETING_REBALANCE},
    Event.SYNC_ANSWERED: {_S.COMPLETING_REBALANCE: _S.STABLE},
    Event.STEP_FAILED: {_S.PREPARING_REBALANCE: _S.UNJOINED, _S.COMPLETING_REBALANCE: _S.UNJOINED},
    Event.RESET: dict.fromkeys(_S, _S.UNJOINED),
    Event.FENCED: dict.fromkeys(_S, _S.FENCED),
}


def next_state(state: MemberState, event: Event) -> MemberState:
    """Return the state after an event.

    Raises:
        IllegalStateError: the event is impossible in that state; this is a fault in the caller.
    """
    try:
        return TRANSITIONS[event][state]
    except KeyError:
        raise IllegalStateError(f"{event.value} is impossible for a member that is {state.value}") from None


class ErrorAction(enum.Enum):
    """An action that an error code calls for."""

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
    NEW_EPOCH = "send again with the member's present epoch"
    LOSE = "give up the partitions as lost, join again under the same member id"
    STOP = "stop, and raise at every poll"


_R = ErrorAction

COORDINATOR_LOST: Final[dict[int, ErrorAction]] = {
    Errors.COORDINATOR_NOT_AVAILABLE: _R.REDISCOVER,
    Errors.NOT_COORDINATOR: _R.REDISCOVER,
}

JOIN: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.INCONSISTENT_GROUP_PROTOCOL: _R.RAISE,
    Errors.INVALID_GROUP_ID: _R.RAISE,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.INVALID_SESSION_TIMEOUT: _R.RAISE,
    Errors.REBALANCE_IN_PROGRESS: _R.RETRY_NOW,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.UNSUPPORTED_VERSION: _R.RAISE,
    Errors.MEMBER_ID_REQUIRED: _R.TAKE_MEMBER_ID,  # KIP-394
    Errors.GROUP_MAX_SIZE_REACHED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
}

SYNC: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.INCONSISTENT_GROUP_PROTOCOL: _R.RAISE,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.REBALANCE_IN_PROGRESS: _R.REJOIN,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
}

OFFSET_COMMIT: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: _R.REFRESH_METADATA,
    Errors.REQUEST_TIMED_OUT: _R.REDISCOVER,
    Errors.OFFSET_METADATA_TOO_LARGE: _R.RAISE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.ILLEGAL_GENERATION: _R.RESET_GENERATION,
    Errors.UNKNOWN_MEMBER_ID: _R.RESET_MEMBER,
    Errors.REBALANCE_IN_PROGRESS: _R.REJOIN,
    Errors.INVALID_COMMIT_OFFSET_SIZE: _R.RAISE,
    Errors.TOPIC_AUTHORIZATION_FAILED: _R.COLLECT,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.FENCED_INSTANCE_ID: _R.FENCED,
    Errors.UNKNOWN_TOPIC_ID: _R.REFRESH_METADATA,
    Errors.STALE_MEMBER_EPOCH: _R.NEW_EPOCH,  # KIP-848, as the next
    Errors.GROUP_ID_NOT_FOUND: _R.RESET_MEMBER,
}

OFFSET_FETCH: Final[Mapping[int, ErrorAction]] = COORDINATOR_LOST | {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: _R.RAISE,  # an offset of a topic that does not exist: no retry makes it exist
    Errors.COORDINATOR_LOAD_IN_PROGRESS: _R.BACK_OFF,
    Errors.TOPIC_AUTHORIZATION_FAILED: _R.COLLECT,
    Errors.GROUP_AUTHORIZATION_FAILED: _R.RAISE,
    Errors.UNSTABLE_OFFSET_COMMIT: _R.BACK_OFF,  # KIP-447
    Errors.UNKNOWN_TOPIC_ID: _R.REFRESH_METADATA,
    Errors.STALE_MEMBER_EPOCH: _R.NEW_EPOCH,  # KIP-848
    Errors.UNKNOWN_MEMBER_ID: _R.NEW_EPOCH,  # likewise: it joins again
}


def action_for(table: Mapping[int, ErrorAction], code: int) -> ErrorAction:
    """Return the action for an error code of a table; the code must not be NONE."""
    known = table.get(code)
    if known is not None:
        return known
    error = BY_CODE.get(code)
    return ErrorAction.BACK_OFF if error is not None and error.retriable else ErrorAction.RAISE


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
    """Send a heartbeat to ``node`` and report its end with this value.

    ``term``: the coordinator's, as :mod:`.coordinator_discovery` counts it; ``min_version``: that the request needs.
    """

    node: BrokerMetadata
    request: HeartbeatRequest | ConsumerGroupHeartbeatRequest
    generation: Generation
    term: int
    min_version: int = 0


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send the request by which we leave and report its end, whatever it is. ``term`` as in :class:`SendHeartbeat`."""

    node: BrokerMetadata
    request: LeaveGroupRequest | ConsumerGroupHeartbeatRequest
    term: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do before ``until`` (seconds, may be infinite) unless somebody calls."""

    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End the heartbeat thread."""


#: Actions for the thread that uses the consumer.
UserAction = FindCoordinator | PrepareJoin | BuildJoin | ComputeAssignment | CompleteJoin | Raise

#: Actions for the heartbeat thread.
BackgroundAction = FindCoordinator | SendHeartbeat | SendLeave | Sleep | Stop
