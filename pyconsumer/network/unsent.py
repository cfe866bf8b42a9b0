"""Requests that have not been sent: those for one connection of a node, and those that any node can answer.

Rules
1. Requests of one queue leave it in the order in which they came, apart from metadata's own, which go first.
2. A request is added to its destination before it is removed from its source: the queue of a node, the requests in
   flight, or the completed ones. Ctrl-C between the two steps can duplicate a request, which its future ignores, but
   cannot lose it.
3. A request expires when its delivery timeout, counted from its creation, is over. Only the head of a queue is
   examined, so a request with a short timeout waits for the ones before it.
4. A request that fails or expires is completed by the function given; its callbacks run later, in the order of
   completion.

The queue of a node lies on the node, whose next deadline depends on it. Only this module changes it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable

from pyconsumer.errors import KafkaError
from pyconsumer.network.node import Node, Request

__all__ = ["UnsentRequests"]


class UnsentRequests:
    """The unsent requests of a client; see the rules above. A node of None stands for any node.

    Attributes:
        complete: completes a request of a node with an error; set by the owner of the completed requests.
    """

    __slots__ = ("_any", "complete")

    def __init__(self) -> None:
        self._any: deque[Request] = deque()
        self.complete: Callable[[Node | None, Request, KafkaError], None] = lambda node, request, error: None

    def enqueue(self, node: Node | None, request: Request, *, first: bool = False) -> None:
        """Add a request to the end of a queue, or to its head."""
        queue = self._queue(node)
        (queue.appendleft if first else queue.append)(request)

    def first(self, node: Node | None) -> Request | None:
        """Return the request that is to be sent next; None if there is none."""
        queue = self._queue(node)
        return queue[0] if queue else None

    def remove_first(self, node: Node | None) -> None:
        """Remove the request that :meth:`first` returned, which has arrived at its destination."""
        self._queue(node).popleft()

    def expire(self, node: Node | None, now: float, error: Callable[[Request], KafkaError]) -> None:
        """Fail the requests at the head of a queue whose time is over.

        Args:
            error: makes the error of a request.
        """
        queue = self._queue(node)
        while queue and now >= queue[0].expires_at:
            self.complete(node, queue[0], error(queue[0]))
            queue.popleft()

    def fail(self, node: Node | None, error: KafkaError) -> None:
        """Fail all requests of a queue."""
        queue = self._queue(node)
        while queue:
            self.complete(node, queue[0], error)
            queue.popleft()

    def next_expiry(self, node: Node | None) -> float:
        """Return when the head of a queue expires, in monotonic seconds; infinity if the queue is empty."""
        queue = self._queue(node)
        return queue[0].expires_at if queue else math.inf

    def count(self, node: Node | None) -> int:
        """Return the number of requests in a queue."""
        return len(self._queue(node))

    def total(self, nodes: Iterable[Node]) -> int:
        """Return the number of requests in the queues of these nodes and for any node."""
        return len(self._any) + sum(len(node.unsent) for node in nodes)

    def _queue(self, node: Node | None) -> deque[Request]:
        return self._any if node is None else node.unsent
