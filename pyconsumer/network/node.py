"""A node as a client sees it: its requests, its channel, and its state, from which the least loaded node is chosen.

There is one :class:`Node` for each connection to a broker: the main one, and a second one to the broker as coordinator.
The rules here do no I/O: :mod:`pyconsumer.network.connection_pool` applies them to sockets, and
:mod:`pyconsumer.network.node_selector` chooses the node for a request that any node can answer.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyconsumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.channel import Channel
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.schema import Message

__all__ = [
    "Candidate",
    "ClientResponse",
    "ConnectionBackoff",
    "Node",
    "NodeStatus",
    "Request",
    "RequestBuilder",
    "RequestTimeoutError",
    "least_loaded",
]

RequestBuilder = Callable[[int], Message]
"""Builds the request for the version that was negotiated."""


class ConnectionBackoff:
    """The outcome of the attempts to reach one node.

    Failures in a row make the pause before the next attempt grow (KIP-144), and also the time that an attempt is given
    (KIP-601). Both start again once the node has answered a request. That a connection is ready is not enough: a
    port that wants SASL accepts a plain connection and closes it at the first request.
    """

    __slots__ = ("backoff_until", "failures", "in_vain", "last_attempt", "last_error", "slow_setups")

    def __init__(self) -> None:
        self.failures = 0
        self.slow_setups = 0
        self.in_vain = False
        """Whether the last attempt failed before a connection was ready; one that was lost later does not count."""
        self.backoff_until = float("-inf")
        self.last_attempt = float("-inf")
        self.last_error: KafkaConnectionError | None = None

    def may_connect(self, now: float) -> bool:
        """Return whether the pause is over."""
        return now >= self.backoff_until

    def attempt(self, now: float) -> None:
        """An attempt begins."""
        self.last_attempt = now

    def setup_timeout(self, setup: Backoff) -> float:
        """Seconds that an attempt may take now."""
        return setup.delay(self.slow_setups)

    def failed(self, now: float, error: KafkaConnectionError, reconnect: Backoff, *, in_vain: bool = True) -> None:
        """An attempt failed (``in_vain``), or a connection broke."""
        self.last_error = error
        self.backoff_until = now + reconnect.delay(self.failures)
        self.failures += 1
        self.in_vain = in_vain

    def established(self) -> None:
        """The node has answered."""
        self.failures = self.slow_setups = 0
        self.backoff_until = float("-inf")
        self.last_error = None


class NodeStatus(enum.IntEnum):
    """The use that can be made of a node now; lower is better."""

    READY = 0
    CONNECTING = 1
    MAY_CONNECT = 2
    UNAVAILABLE = 3


class Candidate(NamedTuple):
    """A node that might be asked."""

    node_id: int
    standing: NodeStatus
    in_flight: int = 0
    last_attempt: float = float("-inf")


def least_loaded(candidates: Sequence[Candidate], start: int = 0) -> Candidate | None:
    """The best node for a request that any node can answer.

    A ready one with the fewest requests under way; else one that is being connected; else the one whose last attempt is
    the longest ago. Equals are taken from ``start`` on (a random number), so that clients spread. None if all are
    unavailable.
    """
    count = len(candidates)
    best: Candidate | None = None
    best_rank: tuple[float, ...] = ()
    for position in range(count):
        found = candidates[(start + position) % count]
        if found.standing is NodeStatus.UNAVAILABLE:
            continue
        rank: tuple[float, ...] = (
            found.standing,
            found.in_flight if found.standing is NodeStatus.READY else 0,
            found.last_attempt if found.standing is NodeStatus.MAY_CONNECT else 0,
        )
        if best is None or rank < best_rank:
            best, best_rank = found, rank
    return best


class RequestTimeoutError(KafkaConnectionError, KafkaTimeoutError):
    """A request was not sent, or not answered, within its timeout; its connection has been closed in the latter case.

    It is a connection error as well as a timeout, so that whoever handles a lost connection handles this.
    """


class ClientResponse(NamedTuple):
    """An answer of a broker.

    ``message`` is None for a request that has no response. ``received_at`` is monotonic; ``latency`` counts from
    sending, in seconds.
    """

    message: Any
    api_version: int
    node_id: int
    received_at: float
    latency: float


class Request:
    """A request on its way through the client."""

    __slots__ = (
        "api_key",
        "build",
        "created_at",
        "expect_response",
        "expires_at",
        "future",
        "max_version",
        "min_version",
        "sent_at",
        "timeout",
    )

    def __init__(
        self,
        api_key: int,
        build: Message | RequestBuilder,
        created_at: float,
        timeout: float,
        min_version: int,
        max_version: int | None,
        expect_response: bool,
    ) -> None:
        self.api_key = api_key
        self.build = build
        self.created_at = created_at
        self.timeout = timeout
        self.expires_at = created_at + timeout  # unsent; counted again once it is sent
        self.min_version, self.max_version = min_version, max_version
        self.expect_response = expect_response
        self.sent_at = -math.inf
        self.future: RequestFuture[ClientResponse] = RequestFuture()

    def message(self, version: int) -> Message:
        """The request as it goes out."""
        return self.build if isinstance(self.build, Message) else self.build(version)


class Node:
    """The state of one connection to a node: requests not sent yet, requests in flight, the channel and the backoff.

    Args:
        connection_key: the key of this connection in the pool; equal to ``node_id`` for the main connection.
        node_id: the broker's id; negative for a bootstrap address whose id is not known yet.
    """

    __slots__ = (
        "auth_error",
        "connection_key",
        "health",
        "last_used",
        "link",
        "node_id",
        "outstanding",
        "retired",
        "throttled_until",
        "unsent",
        "wanted",
    )

    def __init__(self, connection_key: int, node_id: int) -> None:
        self.connection_key = connection_key
        self.node_id = node_id
        self.unsent: deque[Request] = deque()
        self.outstanding: dict[Request, None] = {}
        self.link: Channel | None = None
        self.health = ConnectionBackoff()
        self.throttled_until = -math.inf
        self.last_used = -math.inf
        self.wanted = False  # connect although there is nothing to send
        self.retired = False  # close the channel when its last answer has come
        self.auth_error: KafkaError | None = None

    @property
    def is_main(self) -> bool:
        """Return whether this is the node's main connection."""
        return self.connection_key == self.node_id

    @property
    def ready(self) -> bool:
        """Return whether a request can be sent now, as far as the connection goes."""
        return self.link is not None and self.link.ready

    def has_room(self, now: float, max_in_flight: int | None) -> bool:
        """Return whether the node takes one more request now."""
        return now >= self.throttled_until and (max_in_flight is None or len(self.outstanding) < max_in_flight)

    def standing(self, now: float, max_in_flight: int | None) -> NodeStatus:
        """Return what can be done with it; see :class:`NodeStatus`."""
        if self.link is not None:
            if not self.link.ready:
                return NodeStatus.CONNECTING
            return NodeStatus.READY if self.has_room(now, max_in_flight) else NodeStatus.UNAVAILABLE
        return NodeStatus.MAY_CONNECT if self.health.may_connect(now) else NodeStatus.UNAVAILABLE

    def out_of_reach(self, now: float) -> bool:
        """Return whether it was tried without success and the pause after that is not over."""
        return self.link is None and self.health.in_vain and not self.health.may_connect(now)

    def timed_out(self, now: float) -> Request | None:
        """A request whose answer is overdue."""
        for request in self.outstanding:
            if now >= request.expires_at:
                return request
        return None

    def next_deadline(self, now: float, max_idle: float) -> float:
        """When something is due here if nothing happens before."""
        channel = self.link
        due = self.unsent[0].expires_at if self.unsent else math.inf
        for request in self.outstanding:
            due = min(due, request.expires_at)
        if channel is None:
            if self.unsent or self.wanted:
                due = min(due, self.health.backoff_until)
            return due
        due = min(due, channel.deadline)
        if channel.ready:
            if self.unsent and self.throttled_until > now:
                due = min(due, self.throttled_until)
            if not self.outstanding and not self.unsent:
                due = min(due, self.last_used + max_idle)
            if channel.connection is not None:
                due = min(due, channel.connection.reauthenticate_at)
        return due
