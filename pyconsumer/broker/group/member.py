"""One member of a group, as the coordinator keeps it and as tools are shown it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.timer import TimerHandle
from pyconsumer.errors import IllegalStateError

if TYPE_CHECKING:
    from pyconsumer.broker.group.results import JoinResult, SyncResult

__all__ = ["MemberMetadata", "MemberSummary", "Protocols", "plain_protocol_set"]

#: A member's assignment strategies in its order of preference, each with the subscription that goes with it.
Protocols = Sequence[tuple[str, bytes]]


class MemberSummary(NamedTuple):
    """What DescribeGroups shows of a member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


def plain_protocol_set(protocols: Protocols) -> frozenset[str]:
    """The names alone: without order, duplicates and subscriptions."""
    return frozenset(name for name, _ in protocols)


class MemberMetadata:
    """A member: who it is, what it can do, what it was given and what it waits for.

    Args:
        member_id: made by the coordinator; replaced when a static member comes back under a new one.
        group_instance_id: makes it a static member (KIP-345).
        client_host: where its requests come from, such as ``/127.0.0.1``.
        rebalance_timeout_ms: the client's ``max.poll.interval.ms``: how long others wait for it in a rebalance.
        session_timeout_ms: how long it may be silent.
        protocol_type: ``consumer``, ``connect`` or whatever the group is used for.
        supported_protocols: its strategies, the preferred one first.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_id",
        "group_instance_id",
        "heartbeat",
        "is_new",
        "join_waiter",
        "member_id",
        "protocol_type",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "supported_protocols",
        "sync_waiter",
    )

    def __init__(
        self,
        member_id: str,
        group_id: str,
        *,
        group_instance_id: str | None = None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        supported_protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.supported_protocols = tuple(supported_protocols)
        self.assignment = assignment
        #: Set while its JoinGroup is parked, and while its SyncGroup is.
        self.join_waiter: Deferred[JoinResult] | None = None
        self.sync_waiter: Deferred[SyncResult] | None = None
        #: Its first join is parked: it does not know its id yet, so it cannot send heartbeats.
        self.is_new = False
        #: The end of its session.
        self.heartbeat: TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<MemberMetadata {self.member_id} of {self.group_id}>"

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_waiter is not None

    @property
    def is_awaiting_sync(self) -> bool:
        return self.sync_waiter is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the end of its session may pass unpunished: it waits for us. A new member gets no such grace."""
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    def restart_heartbeat(self, handle: TimerHandle) -> None:
        """Replace the end of its session."""
        self.stop_heartbeat()
        self.heartbeat = handle

    def stop_heartbeat(self) -> None:
        if self.heartbeat is not None:
            self.heartbeat.cancel()
            self.heartbeat = None

    def matches(self, protocols: Protocols) -> bool:
        """Whether these are the strategies it has: the same names in the same order, with the same bytes."""
        return self.supported_protocols == tuple(protocols)

    def metadata(self, protocol: str) -> bytes:
        """Its subscription for one strategy; ``ValueError`` if it does not support that."""
        for name, metadata in self.supported_protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol!r}")

    def vote(self, candidates: Container[str]) -> str:
        """The first of its strategies that is a candidate; ``ValueError`` if none is."""
        for name, _ in self.supported_protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} does not support any of the candidate protocols")

    def summary(self, protocol: str | None) -> MemberSummary:
        """What tools see; the subscription only if ``protocol`` says what was chosen."""
        return MemberSummary(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol is None else self.metadata(protocol),
            self.assignment,
        )


def require_unique(protocols: Iterable[tuple[str, bytes]]) -> None:
    """``IllegalStateError`` if a strategy is listed twice: it would vote twice. The request layer keeps the first."""
    names = [name for name, _ in protocols]
    if len(set(names)) != len(names):
        raise IllegalStateError(f"a member lists a protocol twice: {names}")
