"""Requests that have not been sent: those for one connection of a node, and those that any node can answer.

Rules
1. Requests of one queue leave it in the order in which they came, apart from metadata's own, which go first.
2. A request is added to its destination before it is removed from its source: the queue of a node, the requests in
   flight, or the completed ones. Ctrl-C between the two steps can duplicate a request, which its future ignores, but
   cannot lose it.
3. A request expires when its timeout (``Request.timeout``), counted from its creation, is over. Only the head of a
   queue is examined, so a request with a short timeout waits for the ones before it. Callers ask only after the sockets
   were served (:mod:`.connection_pool`), and for any node only while none is ready (:mod:`.node_selector`). A request
   that has been sent has the timeout again, for its response.
4. A request that fails or expires is recorded as completed; its callbacks run later, in the order of completion.
5. A node without unsent requests has no queue: one is created for the first request, and goes with the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyconsumer.errors import KafkaError
from pyconsumer.network.completed import CompletedRequests
from pyconsumer.network.node import Node, Request

__all__ = ["UnsentRequests"]


class UnsentRequests:
    """The unsent requests of a client; see the rules above. A node of None stands for any node.

    Args:
        completed: takes the requests that fail or expire.

    Attributes:
        queues: the requests by node, none of them empty; for others only to look at.
    """

    __slots__ = ("_completed", "queues")

    def __init__(self, completed: CompletedRequests) -> None:
        self._completed = completed
        self.queues: dict[Node | None, deque[Request]] = {}

    def enqueue(self, node: Node | None, request: Request, *, first: bool = False) -> None:
        """Add a request to the end of a queue, or to its head."""
        queue = self.queues.get(node)
        if queue is None:
            self.queues[node] = deque((request,))
        elif first:
            queue.appendleft(request)
        else:
            queue.append(request)

    def first(self, node: Node | None) -> Request | None:
        """Return the request that is to be sent next; None if there is none."""
        queue = self.queues.get(node)
        return queue[0] if queue else None

    def remove_first(self, node: Node | None) -> None:
        """Remove the request that :meth:`first` returned, which has arrived at its destination."""
        queue = self.queues[node]
        queue.popleft()
        if not queue:
            self.queues.pop(node, None)

    def expire(self, node: Node | None, now: float, error: Callable[[Request], KafkaError]) -> None:
        """Fail the requests at the head of a queue whose time is over.

        Args:
            error: makes the error of a request.
        """
        while (request := self.first(node)) is not None and now >= request.expires_at:
            self._completed.add(node, request, error(request))
            self.remove_first(node)

    def fail(self, node: Node | None, error: KafkaError) -> None:
        """Fail all requests of a queue."""
        while (request := self.first(node)) is not None:
            self._completed.add(node, request, error)
            self.remove_first(node)

    def count(self, node: Node | None) -> int:
        """Return the number of requests in a queue."""
        queue = self.queues.get(node)
        return len(queue) if queue is not None else 0

    def total(self) -> int:
        """Return the number of requests in all queues."""
        return sum(map(len, self.queues.values()))
