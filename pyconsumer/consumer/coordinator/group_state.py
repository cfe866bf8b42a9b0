"""Identity of a group's members, the action for each error code, and actions: what both group protocols share.

No I/O, no clock. The states of a member are in :mod:`.classic_group_state` and :mod:`.consumer_group_state`, with the
actions that only one of the protocols has.

Errors

One table for each request says what a member does about an error code; the ones of heartbeats are in :mod:`.heartbeat`.
A code that is not in it is unexpected and is raised to the application. Retriable codes that a newer broker may add are
retried after a pause.

Actions

A core returns actions as values. The driver whose call produced one sends the request that it asks for. Actions that
run code of the application (rebalance listener, assignor) or raise to it are carried out only by the thread that uses
the consumer, inside ``poll`` and its like.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyconsumer.errors import BY_CODE, Errors, KafkaError
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from pyconsumer.structs import BrokerMetadata

if TYPE_CHECKING:
    from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

__all__ = [
    "COORDINATOR_LOST",
    "NO_GENERATION",
    "OFFSET_COMMIT",
    "OFFSET_FETCH",
    "BackgroundAction",
    "ErrorAction",
    "FindCoordinator",
    "Generation",
    "Raise",
    "SendHeartbeat",
    "SendLeave",
    "Sleep",
    "Stop",
    "action_for",
]


class Generation(NamedTuple):
    """A member's identity: generation id (-1 for none), member id ("" for none), name of the chosen assignor."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def joined(self) -> bool:
        """Return whether the group has given it to us and we have not lost it since."""
        return self.generation_id >= 0

    def __str__(self) -> str:
        return f"generation {self.generation_id} of member {self.member_id or '(none)'}"


NO_GENERATION: Final = Generation()


class ErrorAction(enum.Enum):
    """An action that an error code calls for."""

    RETRY_NOW = "send again at once"
    BACK_OFF = "send again after a pause"
    REDISCOVER = "look for the coordinator, then send again"
    TAKE_MEMBER_ID = "send again with the member id from the response"
    RESET_GENERATION = "forget the generation, keep the member id, join again"
    RESET_MEMBER = "forget generation and member id, join again"
    REJOIN = "keep generation and member id, join again"
    FENCED = "another process took our group_instance_id: stop"
    RAISE = "raise to the application"
    COLLECT = "raise to the application after the other partitions"
    REFRESH_METADATA = "send again after a pause, with newer metadata"
    NEW_EPOCH = "send again with the member's present epoch"
    LOSE = "treat the partitions as lost, join again under the same member id"
    STOP = "stop, and raise at every poll"


_R = ErrorAction


COORDINATOR_LOST: Final[dict[int, ErrorAction]] = {
    Errors.COORDINATOR_NOT_AVAILABLE: _R.REDISCOVER,
    Errors.NOT_COORDINATOR: _R.REDISCOVER,
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
class Raise:
    """Raise an error to the application."""

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


#: Actions for the heartbeat thread.
BackgroundAction = FindCoordinator | SendHeartbeat | SendLeave | Sleep | Stop
