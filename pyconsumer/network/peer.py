"""A node as a client sees it: what is to be sent, what has been sent, the link, and when something is due.

A node has a peer for each of its connections: the main one, and the one to it as coordinator.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from pyconsumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from pyconsumer.network.future import RequestFuture
from pyconsumer.network.link import Link
from pyconsumer.network.selection import Reachability, Standing
from pyconsumer.protocol.schema import Message

__all__ = ["ClientResponse", "Peer", "Request", "RequestBuilder", "RequestTimeoutError"]

RequestBuilder = Callable[[int], Message]
"""Makes the request for the version that was negotiated."""


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
        self.expires_at = created_at + timeout  # unsent; counted anew once it is sent
        self.min_version, self.max_version = min_version, max_version
        self.expect_response = expect_response
        self.sent_at = -math.inf
        self.future: RequestFuture[ClientResponse] = RequestFuture()

    def message(self, version: int) -> Message:
        """The request as it goes out."""
        return self.build if isinstance(self.build, Message) else self.build(version)


class Peer:
    """See the module's docstring."""

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
        self.link: Link | None = None
        self.health = Reachability()
        self.throttled_until = -math.inf
        self.last_used = -math.inf
        self.wanted = False  # connect although there is nothing to send
        self.retired = False  # close the link when its last answer has come
        self.auth_error: KafkaError | None = None

    @property
    def is_main(self) -> bool:
        """Whether this is the node's main connection."""
        return self.connection_key == self.node_id

    @property
    def ready(self) -> bool:
        """Whether a request can be sent now, as far as the connection goes."""
        return self.link is not None and self.link.ready

    def has_room(self, now: float, max_in_flight: int | None) -> bool:
        """Whether the node takes one more request now."""
        return now >= self.throttled_until and (max_in_flight is None or len(self.outstanding) < max_in_flight)

    def standing(self, now: float, max_in_flight: int | None) -> Standing:
        """What can be done with it; see :class:`Standing`."""
        if self.link is not None:
            if not self.link.ready:
                return Standing.CONNECTING
            return Standing.READY if self.has_room(now, max_in_flight) else Standing.UNAVAILABLE
        return Standing.MAY_CONNECT if self.health.may_connect(now) else Standing.UNAVAILABLE

    def out_of_reach(self, now: float) -> bool:
        """Whether it was tried in vain and the pause after that is not over."""
        return self.link is None and self.health.in_vain and not self.health.may_connect(now)

    def timed_out(self, now: float) -> Request | None:
        """A request whose answer is overdue."""
        for request in self.outstanding:
            if now >= request.expires_at:
                return request
        return None

    def next_deadline(self, now: float, max_idle: float) -> float:
        """When something is due here if nothing happens before."""
        link = self.link
        due = self.unsent[0].expires_at if self.unsent else math.inf
        for request in self.outstanding:
            due = min(due, request.expires_at)
        if link is None:
            if self.unsent or self.wanted:
                due = min(due, self.health.backoff_until)
            return due
        due = min(due, link.deadline)
        if link.ready:
            if self.unsent and self.throttled_until > now:
                due = min(due, self.throttled_until)
            if not self.outstanding and not self.unsent:
                due = min(due, self.last_used + max_idle)
            if link.connection is not None:
                due = min(due, link.connection.reauthenticate_at)
        return due
