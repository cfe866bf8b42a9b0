"""A member's generation, and the actions that both group protocols share.

No I/O, no clock. The states of a member are in :mod:`.classic_group_state` and :mod:`.consumer_group_state`, with the
actions that only one of the protocols has. The action for each error code is in :mod:`.error_actions`.

Actions

A core returns actions as values. The driver whose call produced one sends the request that it asks for. Actions that
run code of the application (rebalance listener, assignor) or raise to it are carried out only by the thread that uses
the consumer, inside ``poll`` and its like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyconsumer.errors import KafkaError
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from pyconsumer.structs import BrokerMetadata

if TYPE_CHECKING:
    from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

__all__ = [
    "NO_GENERATION",
    "BackgroundAction",
    "FindCoordinator",
    "Generation",
    "Raise",
    "SendHeartbeat",
    "SendLeave",
    "Sleep",
    "Stop",
]


class Generation(NamedTuple):
    """A member's identity: generation id (-1 for none), member id ("" for none), and name of the chosen assignor."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def joined(self) -> bool:
        """Return whether this is an identity that the group has given, and that has not been lost since."""
        return self.generation_id >= 0

    def __str__(self) -> str:
        return f"generation {self.generation_id} of member {self.member_id or '(none)'}"


NO_GENERATION: Final = Generation()


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Ask any broker which broker coordinates the group."""


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise an error to the application."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat to ``node``, and report the outcome together with this object.

    ``term``: the coordinator's term (see :mod:`.coordinator_discovery`). ``min_version``: the lowest version that has
        all fields.
    """

    node: BrokerMetadata
    request: HeartbeatRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
    generation: Generation
    term: int
    min_version: int = 0


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send the request to leave the group, and report its end, whatever the outcome.

    ``term`` is that of :class:`SendHeartbeat`.
    """

    node: BrokerMetadata
    request: LeaveGroupRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
    term: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Sleep until the time ``until`` (seconds, may be infinite), unless a call wakes the thread."""

    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End the heartbeat thread."""


#: Actions for the heartbeat thread.
BackgroundAction = FindCoordinator | SendHeartbeat | SendLeave | Sleep | Stop
