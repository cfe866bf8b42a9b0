"""Requests that have ended, whose futures are still to be completed (Java's ``pendingCompletion``).

A socket is served, or a request fails, in the middle of something; callbacks may send, disconnect, even close the
client. So an outcome is only recorded at first, and :meth:`CompletedRequests.fire` completes the futures in order, once
all sockets of a turn have been served.

Ctrl-C may come at any point: a request is recorded here before it is removed from where it was, so it may be recorded
twice. The second outcome is ignored.
"""

from __future__ import annotations

from collections import deque

from pyconsumer.errors import KafkaError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.node import ClientResponse, Node, Request

__all__ = ["CompletedRequests"]


class CompletedRequests:
    """The outcomes that no future has yet; see the module's docstring.

    Attributes:
        outcomes: what :meth:`fire` has to do; not to be changed by others.
        happened: True if anything was received or failed, or a connection became ready, since :meth:`take_happened`.
    """

    __slots__ = ("happened", "outcomes")

    def __init__(self) -> None:
        self.outcomes: deque[tuple[Request, ClientResponse | KafkaError]] = deque()
        self.happened = False

    def add(self, node: Node | None, request: Request, outcome: ClientResponse | KafkaError) -> None:
        """Record the outcome of a request, which is in flight to its node no longer."""
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
        """Complete the futures of the requests recorded, in order; return whether there were any."""
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
                if future.succeeded or future.failed:  # after Ctrl-C it may be pending
                    self._remove(request)
                raise
            if outcomes and outcomes[0][0] is request:  # a callback that closed the client has removed it
                outcomes.popleft()
        return True

    def _remove(self, request: Request) -> None:
        if self.outcomes and self.outcomes[0][0] is request:
            self.outcomes.popleft()
