"""The states of share partitions, as a group coordinator sees them. The share coordinators keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from pyconsumer.broker.deferred import Deferred
from pyconsumer.errors import Errors

__all__ = ["NoShareStates", "ShareStates", "StateSummary", "for_each"]

K = TypeVar("K")
V = TypeVar("V")


class StateSummary(NamedTuple):
    """The beginning of a share partition. Without a state, the start offset is -1."""

    error_code: int = 0
    error_message: str | None = None
    start_offset: int = -1
    leader_epoch: int = 0
    complete_count: int = -1
    #: The end of the partition, for the lag. -1 is unknown.
    end_offset: int = -1


class ShareStates(Protocol):
    """The states of share partitions, wherever their coordinators are. Results are error codes."""

    def initialize(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        start_offset: int,
        wanted: Callable[[], bool],
    ) -> Deferred[int]:
        """Replace the state of a share partition by a new one. With -1 as the start offset, the leader chooses it.

        Args:
            wanted: asked before each attempt. A group that has moved does not begin a state that another broker uses.
        """

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[int]:
        """Delete the state of a share partition."""

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[StateSummary]:
        """Read where a share partition begins, and how many records come after."""


class NoShareStates:
    """The states of a coordinator that has no share coordinators, in tests of other groups."""

    def initialize(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        state_epoch: int,
        start_offset: int,
        wanted: Callable[[], bool],
    ) -> Deferred[int]:
        return Deferred.of(int(Errors.COORDINATOR_NOT_AVAILABLE))

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[int]:
        return Deferred.of(int(Errors.COORDINATOR_NOT_AVAILABLE))

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[StateSummary]:
        return Deferred.of(StateSummary(Errors.COORDINATOR_NOT_AVAILABLE))


def for_each(calls: Mapping[K, Deferred[V]]) -> Deferred[dict[K, V]]:
    """Wait for all calls. The result has the result of each."""
    done: Deferred[dict[K, V]] = Deferred()
    results: dict[K, V] = {}
    missing = len(calls)

    def put(key: K, value: V) -> None:
        nonlocal missing
        results[key] = value
        missing -= 1
        if not missing:
            done.set(results)

    if not calls:
        done.set(results)
    for key, call in calls.items():
        call.on_done(lambda value, key=key: put(key, value))  # type: ignore[misc]
    return done
