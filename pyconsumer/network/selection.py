"""Which node to ask, and when a node may be tried again. Rules only."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from pyconsumer.errors import KafkaConnectionError
from pyconsumer.network.backoff import Backoff

__all__ = ["Candidate", "Reachability", "Standing", "least_loaded"]


class Reachability:
    """What the attempts to reach one node came to.

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
        """Whether the pause is over."""
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


class Standing(enum.IntEnum):
    """What can be done with a node now; lower is better."""

    READY = 0
    CONNECTING = 1
    MAY_CONNECT = 2
    UNAVAILABLE = 3


class Candidate(NamedTuple):
    """A node that might be asked."""

    node_id: int
    standing: Standing
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
        if found.standing is Standing.UNAVAILABLE:
            continue
        rank: tuple[float, ...] = (
            found.standing,
            found.in_flight if found.standing is Standing.READY else 0,
            found.last_attempt if found.standing is Standing.MAY_CONNECT else 0,
        )
        if best is None or rank < best_rank:
            best, best_rank = found, rank
    return best
