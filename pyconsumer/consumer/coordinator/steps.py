"""What a membership core wants done: values, each tagged with who may do it.

``io``: the driver whose call produced it sends a request. ``user``: it runs code of the application (rebalance
listener, assignor) or raises to it, so only the thread that uses the consumer does it, inside ``poll`` and its like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pyconsumer.consumer.coordinator.state import Generation
from pyconsumer.errors import KafkaError
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.structs import BrokerMetadata

__all__ = [
    "BackgroundStep",
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
    "UserStep",
]

Tag = Literal["io", "user"]


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Ask any broker which one coordinates the group."""

    tag: ClassVar[Tag] = "io"


@dataclass(frozen=True, slots=True)
class PrepareJoin:
    """A rebalance begins: commit, tell the listener; then ``on_prepared``. ``lost``: the generation is gone."""

    tag: ClassVar[Tag] = "user"
    lost: bool
    generation: Generation


@dataclass(frozen=True, slots=True)
class BuildJoin:
    """Collect subscription and user data for JoinGroup; then ``begin_join``."""

    tag: ClassVar[Tag] = "user"
    generation: Generation


@dataclass(frozen=True, slots=True)
class SendJoin:
    """Send JoinGroup to ``node`` and report its end with ``attempt``. ``timeout``: seconds; it is parked there."""

    tag: ClassVar[Tag] = "io"
    attempt: int
    node: BrokerMetadata
    request: JoinGroupRequest
    timeout: float


@dataclass(frozen=True, slots=True)
class ComputeAssignment:
    """We lead the group: run the assignor over the members; then ``on_assigned``.

    ``skip``: keep the coordinator's present assignment, only look after the topics' metadata (KIP-814).
    """

    tag: ClassVar[Tag] = "user"
    attempt: int
    generation: Generation
    members: tuple[JoinGroupResponseMember, ...]
    skip: bool


@dataclass(frozen=True, slots=True)
class SendSync:
    """Send SyncGroup to ``node`` and report its end with ``attempt``."""

    tag: ClassVar[Tag] = "io"
    attempt: int
    node: BrokerMetadata
    request: SyncGroupRequest
    timeout: float


@dataclass(frozen=True, slots=True)
class CompleteJoin:
    """The rebalance is over: take the assignment over, tell the listener; then ``on_completed``."""

    tag: ClassVar[Tag] = "user"
    generation: Generation
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Raise:
    """Tell the application."""

    tag: ClassVar[Tag] = "user"
    error: KafkaError


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send Heartbeat to ``node`` and report its end with ``generation``."""

    tag: ClassVar[Tag] = "io"
    node: BrokerMetadata
    request: HeartbeatRequest
    generation: Generation


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send LeaveGroup to ``node`` and report its end, whatever it is."""

    tag: ClassVar[Tag] = "io"
    node: BrokerMetadata
    request: LeaveGroupRequest


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do before ``until`` (seconds, may be infinite) unless somebody calls."""

    tag: ClassVar[Tag] = "io"
    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The background's work is over for good."""

    tag: ClassVar[Tag] = "io"


UserStep = FindCoordinator | PrepareJoin | BuildJoin | ComputeAssignment | CompleteJoin | Raise
"""What the thread that uses the consumer is asked for."""

BackgroundStep = FindCoordinator | SendHeartbeat | SendLeave | Sleep | Stop
"""What the heartbeat thread is asked for."""
