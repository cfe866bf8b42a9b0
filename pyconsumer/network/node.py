"""One node: its state, the pause before the next attempt to connect, and the least loaded node.

There is one :class:`Node` for each connection to a broker: the main one, and a second one to the broker as coordinator.
The rules here do no I/O: :mod:`pyconsumer.network.connection_pool` applies them to sockets, and
:mod:`pyconsumer.network.node_selector` chooses the node for a request that any node can serve.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import NamedTuple

from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.channel import Channel
from pyconsumer.network.client_requests import Request
from pyconsumer.network.connection import State

__all__ = [
    "Candidate",
    "ConnectionBackoff",
    "Node",
    "NodeStatus",
    "least_loaded",
]


class ConnectionBackoff:
    """The history of the attempts to reach one node, and the pause before the next attempt.

    Each failure in a row lengthens the pause before the next attempt (KIP-144) and the time limit of an attempt
    (KIP-601). A response to a request resets both. A connection that is only ready does not: a port that requires SASL
    accepts a connection without SASL, and closes it at the first request.
    """

    __slots__ = (
        "backoff_until",
        "failures",
        "last_attempt",
        "last_error",
        "reached",
        "setup_failed",
        "slow_setups",
        "trying_since",
    )

    def __init__(self) -> None:
        self.failures = 0
        self.slow_setups = 0
        self.setup_failed = False
        """True if the last attempt failed before the connection was ready, False if it was lost later."""
        self.reached = False
        """True if a connection was ready at any time."""
        self.backoff_until = float("-inf")
        self.last_attempt = float("-inf")
        self.last_error: KafkaConnectionError | None = None
        self.trying_since: float | None = None
        """When the attempts began that have got no response up to now. None: the node is not known to be down."""

    def may_connect(self, now: float) -> bool:
        """Return whether the pause is over."""
        return now >= self.backoff_until

    def attempt(self, now: float) -> None:
        """Record that an attempt begins."""
        self.last_attempt = now
        if self.last_error is not None and self.trying_since is None:
            self.trying_since = now

    def setup_timeout(self, setup: Backoff) -> float:
        """Return how many seconds the next attempt may take."""
        return setup.delay(self.slow_setups)

    def too_slow(self) -> None:
        """Record that an attempt took longer than its time limit."""
        self.slow_setups += 1

    def set_up(self) -> None:
        """Record that the connection is ready."""
        self.setup_failed = False
        self.reached = True

    def failed(self, now: float, error: KafkaConnectionError, reconnect: Backoff, *, setup_failed: bool = True) -> None:
        """Record that an attempt failed (``setup_failed``), or that an established connection was lost."""
        self.last_error = error
        self.backoff_until = now + reconnect.delay(self.failures)
        self.failures += 1
        self.setup_failed = setup_failed
        if setup_failed and self.trying_since is None:
            self.trying_since = max(self.last_attempt, 0.0)

    def established(self) -> None:
        """Record that the node has responded to a request."""
        self.failures = self.slow_setups = 0
        self.backoff_until = float("-inf")
        self.last_error = None
        self.trying_since = None


class NodeStatus(enum.IntEnum):
    """The usefulness of a node now. Lower is better."""

    READY = 0
    CONNECTING = 1
    MAY_CONNECT = 2
    UNAVAILABLE = 3


class Candidate(NamedTuple):
    """A node that might be chosen for a request."""

    node_id: int
    status: NodeStatus
    in_flight: int = 0
    last_attempt: float = float("-inf")


def least_loaded(candidates: Sequence[Candidate], start: int = 0) -> Candidate | None:
    """Return the best node for a request that any node can serve, or None if all nodes are unavailable.

    A ready node with the fewest requests in flight is best. Next best is a node that is being connected. Last comes the
    node whose last attempt is the oldest. Among equal nodes, the first one from index ``start`` on is chosen. ``start``
    is random, so that clients are spread over the nodes.
    """
    count = len(candidates)
    best: Candidate | None = None
    best_rank: tuple[float, ...] = ()
    for position in range(count):
        found = candidates[(start + position) % count]
        if found.status is NodeStatus.UNAVAILABLE:
            continue
        rank: tuple[float, ...] = (
            found.status,
            found.in_flight if found.status is NodeStatus.READY else 0,
            found.last_attempt if found.status is NodeStatus.MAY_CONNECT else 0,
        )
        if best is None or rank < best_rank:
            best, best_rank = found, rank
    return best


class Node:
    """The state of one connection to a node: the requests in flight, the channel and the backoff.

    Unsent requests of the node are in :class:`~pyconsumer.network.client_requests.UnsentRequests`.

    Args:
        connection_key: the key of this connection in the pool. Equal to ``node_id`` for the main connection.
        node_id: the broker's id. Negative for a bootstrap address whose id is not known yet.
    """

    __slots__ = (
        "auth_error",
        "channel",
        "connection_key",
        "health",
        "last_used",
        "node_id",
        "outstanding",
        "retired",
        "throttled_until",
    )

    def __init__(self, connection_key: int, node_id: int) -> None:
        self.connection_key = connection_key
        self.node_id = node_id
        self.outstanding: dict[Request, None] = {}
        self.channel: Channel | None = None
        self.health = ConnectionBackoff()
        self.throttled_until = -math.inf
        self.last_used = -math.inf
        self.retired = False  # close the channel when its last response has arrived
        self.auth_error: KafkaError | None = None

    def rename(self, node_id: int) -> None:
        """Replace the id of a bootstrap address by the broker id that metadata has for it."""
        self.connection_key = self.node_id = node_id

    def retire(self) -> None:
        """Close the channel when its last response has arrived."""
        self.retired = True

    def attach(self, channel: Channel, now: float) -> None:
        """Start to use a channel, which is being connected."""
        self.last_used = now
        self.channel = channel

    def detach(self) -> None:
        """Stop using the channel."""
        self.channel = None

    def set_up(self, now: float) -> None:
        """Record that the channel is ready for requests."""
        self.health.set_up()
        self.auth_error = None
        self.last_used = now

    def refused(self, error: KafkaError | None) -> None:
        """Record the error of a failed authentication. None means that the channel was lost by another error."""
        self.auth_error = error

    def sent(self, now: float) -> None:
        """Record that a request was sent."""
        self.last_used = now

    def received(self, now: float, throttle_ms: int) -> None:
        """Record that a response was received. With ``throttle_ms`` > 0, no request is sent for that time (KIP-219)."""
        if throttle_ms:
            self.throttled_until = max(self.throttled_until, now + throttle_ms / 1000)
        self.last_used = now

    @property
    def is_main(self) -> bool:
        """Return whether this is the node's main connection."""
        return self.connection_key == self.node_id

    @property
    def ready(self) -> bool:
        """Return whether the connection is ready for a request."""
        return self.channel is not None and self.channel.ready

    @property
    def is_resolved(self) -> bool:
        """Return whether the host's name has been looked up, by this attempt to connect or by the previous one."""
        if self.channel is not None and self.channel.connection is not None:
            return True
        return self.health.last_error is not None and self.health.last_error.stage != "DNS"

    def has_room(self, now: float, max_in_flight: int | None) -> bool:
        """Return whether the node takes one more request now."""
        return now >= self.throttled_until and (max_in_flight is None or len(self.outstanding) < max_in_flight)

    def status(self, now: float, max_in_flight: int | None) -> NodeStatus:
        """Return how well the node can be used now."""
        if self.channel is not None:
            if not self.channel.ready:
                return NodeStatus.CONNECTING
            return NodeStatus.READY if self.has_room(now, max_in_flight) else NodeStatus.UNAVAILABLE
        return NodeStatus.MAY_CONNECT if self.health.may_connect(now) else NodeStatus.UNAVAILABLE

    def out_of_reach(self, now: float) -> bool:
        """Return whether the last attempt failed and the pause after it has not ended."""
        return self.channel is None and self.health.setup_failed and not self.health.may_connect(now)

    def next_deadline(self, now: float, max_idle: float, unsent: Request | None) -> float:
        """Return the time at which work on this node is due.

        Args:
            unsent: the request that is sent next.
        """
        channel = self.channel
        due = math.inf if unsent is None else unsent.expires_at
        for request in self.outstanding:
            if request.expires_at < due:
                due = request.expires_at
        if channel is None:
            return due if unsent is None else min(due, self.health.backoff_until)
        if channel.deadline < due:
            due = channel.deadline
        connection = channel.connection
        if connection is not None and connection.state is State.READY:
            if unsent is not None and self.throttled_until > now:
                due = min(due, self.throttled_until)
            if not self.outstanding and unsent is None:
                due = min(due, self.last_used + max_idle)
            if connection.reauthenticate_at < due:
                due = connection.reauthenticate_at
        return due
