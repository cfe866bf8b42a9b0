"""Requests that wait until something has happened or their time is up, without anybody looking again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.timer import Timer

__all__ = ["DelayedFetch"]


class DelayedFetch:
    """A fetch that waits until enough bytes have come, or ``max_wait_ms`` is over.

    It is told of bytes as high watermarks move, so the number is that of batches as stored.

    Args:
        timer: where the end of the wait is set.
        soon: runs a call after the current one, so that a fetch is not answered inside the append that completes it.
        until: monotonic seconds.
        missing_bytes: how many more are wanted.
    """

    def __init__(
        self,
        timer: Timer,
        soon: Callable[[Callable[[], None]], None],
        until: float,
        partitions: Iterable[Partition],
        missing_bytes: int,
    ) -> None:
        self.deferred: Deferred[None] = Deferred()
        self._soon = soon
        self._missing = missing_bytes
        self._ending = False
        self._partitions = list(partitions)
        self._timer = timer.schedule(until, self._end)
        for partition in self._partitions:
            partition.watch(self._on_bytes)

    def _on_bytes(self, size_bytes: int) -> None:
        self._missing = 0 if size_bytes < 0 else self._missing - size_bytes
        if self._missing <= 0 and not self._ending:
            self._ending = True
            self._soon(self._end)

    def _end(self) -> None:
        self.cancel()
        if not self.deferred.done:
            self.deferred.set(None)

    def cancel(self) -> None:
        """Wait for nothing any more."""
        self._timer.cancel()
        for partition in self._partitions:
            partition.unwatch(self._on_bytes)
        self._partitions = []
