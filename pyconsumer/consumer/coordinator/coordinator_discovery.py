"""When to look up the coordinator, and which broker it is. A core: no I/O, no clock.

Rules

1. Each thread sends FindCoordinator by itself, one request at a time: the thread that uses the consumer may be busy
   with records for minutes, and the session must not end in the meantime.
2. After the first loss of a coordinator the next one is looked up at once. If requests to it keep
   failing, lookups are delayed by pauses that grow until a request succeeds.
3. ``term`` grows with each loss: a connection opened in an older term is not to be used again, since a request may be
   pending on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyconsumer.errors import KafkaError
from pyconsumer.network.backoff import Backoff
from pyconsumer.structs import BrokerMetadata

__all__ = ["BACKGROUND", "USER", "CoordinatorDiscovery"]

USER = "user"
BACKGROUND = "background"
_LONGEST_SEARCH_S = 30.0


@dataclass(slots=True)
class _Search:
    in_flight: bool = False
    started_at: float = -math.inf
    retry_at: float = -math.inf
    failures: int = 0

    def start(self, now: float) -> None:
        self.in_flight = True
        self.started_at = now

    def end(self) -> None:
        self.in_flight = False

    def succeed(self) -> None:
        self.in_flight = False
        self.failures = 0

    def fail(self, retry_at: float) -> None:
        self.in_flight = False
        self.retry_at = retry_at
        self.failures += 1

    def wait_until(self, retry_at: float) -> None:
        self.retry_at = max(self.retry_at, retry_at)


class CoordinatorDiscovery:
    """The group's coordinator, and the search for it.

    Attributes:
        node: the coordinator, or None if it is unknown.
        term: counts the coordinators. See the rules of the module.
        missing_since: when the search for it began, in monotonic seconds. None: it is known, or not needed. A node
            that is found and lost without a response in between does not end that time.
        unanswered_since: the same of a node that is known, until it responds.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.node: BrokerMetadata | None = None
        self.term = 0
        self.missing_since: float | None = None
        self.unanswered_since: float | None = None
        self._backoff = backoff
        self._losses = 0
        self._searches = {USER: _Search(), BACKGROUND: _Search()}

    def start(self, who: str, now: float) -> bool:
        """Return whether this thread must send FindCoordinator now. The request then counts as in flight."""
        search = self._searches[who]
        if self.node is None and self.missing_since is None:
            self.missing_since = now
        if self.node is not None or search.in_flight or now < search.retry_at:
            return False
        search.start(now)
        return True

    def due_at(self, who: str) -> float:
        """Return when this thread may send the next FindCoordinator. Infinity: a request is in flight."""
        search = self._searches[who]
        return math.inf if search.in_flight else search.retry_at

    def found(self, who: str, node: BrokerMetadata) -> bool:
        """Record the node that FindCoordinator named. Return True if it was not known as the coordinator before."""
        self._searches[who].succeed()
        if self.node == node:
            return False
        self.node = node
        self.unanswered_since, self.missing_since = self.missing_since, None
        return True

    def failed(self, who: str, error: KafkaError, now: float) -> None:
        """Record that FindCoordinator named no node. The next request must wait for a pause."""
        search = self._searches[who]
        search.fail(now + self._backoff.delay(search.failures))

    def is_in_flight(self, who: str) -> bool:
        """Return whether this thread has a FindCoordinator in flight."""
        return self._searches[who].in_flight

    def is_sought(self, now: float) -> bool:
        """Return whether a FindCoordinator is in flight, or waits for the end of a pause. Any thread may call this.

        One that is older than 30 s does not count: its call has ended, and without a call no response is read.
        """
        return any(
            (search.in_flight and now - search.started_at <= _LONGEST_SEARCH_S) or now < search.retry_at
            for search in self._searches.values()
        )

    def cancelled(self, who: str) -> None:
        """Record that a FindCoordinator was abandoned before it ended."""
        self._searches[who].end()

    def lost(self, node_id: int, now: float) -> bool:
        """Record that a node is not the coordinator or cannot be reached.

        Return True if it was the known coordinator.
        """
        if self.node is None or self.node.node_id != node_id:
            return False
        self.missing_since, self.unanswered_since = self.unanswered_since, None
        self.node = None
        self.term += 1
        retry_at = now + (self._backoff.delay(self._losses - 1) if self._losses else 0.0)
        self._losses += 1
        for search in self._searches.values():
            search.wait_until(retry_at)
        return True

    def responded(self) -> None:
        """Record that the node has responded as the coordinator does."""
        self._losses = 0
        self.unanswered_since = None
