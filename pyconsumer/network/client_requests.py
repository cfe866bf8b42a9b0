"""Queues of unsent requests, request timeouts, and completion of requests.

A request is *unsent*, in the queue of one connection or of those that any node can serve. Then *in flight*, in its
:class:`~pyconsumer.network.node.Node`. Then *completed*: its outcome is known, and its future completed a little later.

Rules
1. A request expires when its timeout (``Request.timeout``), counted from its creation, is over. A request that has been
   sent has the timeout again, for its response.
2. Requests of one queue leave it in the order in which they came, apart from metadata's own, which go first.
3. Only the head of a queue is examined for expiry, so a request with a short timeout waits for the ones before it.
   Callers ask only after the sockets were served (:mod:`.connection_pool`), and for any node only while none is ready
   (:mod:`.node_selector`).
4. A node without unsent requests has no queue: one is created for the first request, and goes with the last one.
5. A socket is served, or a request fails, in the middle of something. Callbacks may send, disconnect, even close the
   client. So an outcome is only recorded at first, and :meth:`CompletedRequests.fire` completes the futures, in the
   order of their outcomes, once all sockets of a turn have been served.
6. A request is added to its destination before it is removed from its source. Ctrl-C between the two steps can
   duplicate a request or record its outcome twice, which its future ignores, but cannot lose it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pyconsumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.schema import Encodable, Message

__all__ = [
    "ClientResponse",
    "CompletedRequests",
    "Request",
    "RequestBuilder",
    "RequestTimeoutError",
    "UnsentRequests",
]

_NEVER = -math.inf

RequestBuilder = Callable[[int], Encodable]
"""Builds the request for the version that was negotiated."""


class RequestTimeoutError(KafkaConnectionError, KafkaTimeoutError):
    """A request was not sent within its timeout, or got no response. If it got no response, its connection is closed.

    This is both a connection error and a timeout, so code that handles lost connections handles it, too.
    """


class ClientResponse(NamedTuple):
    """A response of a broker.

    ``message`` is None if the request has no response. ``received_at`` is in monotonic seconds. ``latency`` is the time
    since the request was sent, in seconds.
    """

    message: Any
    api_version: int
    node_id: int
    received_at: float
    latency: float


class Request:
    """A request with its future, timeout and other data, from its creation to its completion."""

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
        self.expires_at = created_at + timeout  # while unsent; set again when it is sent
        self.min_version, self.max_version = min_version, max_version
        self.expect_response = expect_response
        self.sent_at = _NEVER
        self.future: RequestFuture[ClientResponse] = RequestFuture()

    def sent(self, now: float) -> None:
        """Record that the request is in flight. Its timeout starts now."""
        self.sent_at = now
        self.expires_at = now + self.timeout

    def extend(self, now: float) -> None:
        """Start the request's timeout again, because a part of the response has arrived."""
        self.expires_at = now + self.timeout


class _Destination(Protocol):
    """A node, as far as its requests go: it holds those in flight."""

    outstanding: dict[Request, None]


class UnsentRequests:
    """The unsent requests of a client, by node. See rules 2 to 6 at the top of the module.

    The node None stands for any node.

    Args:
        completed: receives the requests that fail or expire.

    Attributes:
        queues: the requests by node. No queue is empty. Other classes must only read this.
    """

    __slots__ = ("_completed", "queues")

    def __init__(self, completed: CompletedRequests) -> None:
        self._completed = completed
        self.queues: dict[_Destination | None, deque[Request]] = {}

    def enqueue(self, node: _Destination | None, request: Request, *, first: bool = False) -> None:
        """Add a request to the end of a queue, or to its beginning if ``first`` is True."""
        queue = self.queues.get(node)
        if queue is None:
            self.queues[node] = deque((request,))
        elif first:
            queue.appendleft(request)
        else:
            queue.append(request)

    def first(self, node: _Destination | None) -> Request | None:
        """Return the request that is sent next, or None if there is none."""
        queue = self.queues.get(node)
        return queue[0] if queue else None

    def remove_first(self, node: _Destination | None) -> None:
        """Remove the request that :meth:`first` returned. It must already be at its destination."""
        queue = self.queues[node]
        queue.popleft()
        if not queue:
            self.queues.pop(node, None)

    def expire(self, node: _Destination | None, now: float, error: Callable[[Request], KafkaError]) -> None:
        """Fail the expired requests at the beginning of a queue.

        Args:
            error: returns the error for a request.
        """
        while (request := self.first(node)) is not None and now >= request.expires_at:
            self._completed.add(node, request, error(request))
            self.remove_first(node)

    def fail(self, node: _Destination | None, error: KafkaError) -> None:
        """Fail all requests of a queue."""
        while (request := self.first(node)) is not None:
            self._completed.add(node, request, error)
            self.remove_first(node)

    def count(self, node: _Destination | None) -> int:
        """Return the number of requests in a queue."""
        queue = self.queues.get(node)
        return len(queue) if queue is not None else 0

    def total(self) -> int:
        """Return the number of requests in all queues."""
        return sum(map(len, self.queues.values()))


class CompletedRequests:
    """The outcomes of requests whose futures are not completed yet. See rules 5 and 6 of the module.

    Attributes:
        outcomes: the outcomes that :meth:`fire` will use. Other classes must not change this.
        happened: True if something has happened since the last :meth:`take_happened`: anything was received or failed,
            or a connection became ready.
    """

    __slots__ = ("happened", "outcomes")

    def __init__(self) -> None:
        self.outcomes: deque[tuple[Request, ClientResponse | KafkaError]] = deque()
        self.happened = False

    def add(self, node: _Destination | None, request: Request, outcome: ClientResponse | KafkaError) -> None:
        """Record the outcome of a request. The request no longer counts as in flight."""
        self.outcomes.append((request, outcome))
        if node is not None:
            node.outstanding.pop(request, None)
        self.happened = True

    def note(self) -> None:
        """Record that something happened for which :meth:`NetworkClient.poll` returns."""
        self.happened = True

    def take_happened(self) -> bool:
        """Return :attr:`happened`, and reset it."""
        happened, self.happened = self.happened, False
        return happened

    def fire(self) -> bool:
        """Complete the futures of the recorded requests, in order. Return whether there were any."""
        outcomes = self.outcomes
        if not outcomes:
            return False
        while outcomes:
            request, outcome = outcomes[0]
            future: RequestFuture[ClientResponse] = request.future
            if future.done:
                future.finish()
                outcomes.popleft()
                continue
            try:
                if isinstance(outcome, KafkaError):
                    future.fail(outcome)
                else:
                    future.complete(outcome)
            except BaseException:
                if future.is_finished:  # after Ctrl-C it may be pending, or have callbacks to run
                    self._remove(request)
                raise
            if outcomes and outcomes[0][0] is request:  # a callback that closed the client has removed it
                outcomes.popleft()
        return True

    def _remove(self, request: Request) -> None:
        if self.outcomes and self.outcomes[0][0] is request:
            self.outcomes.popleft()
