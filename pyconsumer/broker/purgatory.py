"""Requests that wait for data or for replicas (fetch, produce, delete records), with a time limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.timer import Timer
from pyconsumer.errors import RequestTimedOutError

__all__ = ["AppendProgress", "DelayedFetch", "DelayedProduce", "DelayedStart"]


class _Delayed(ABC):
    """Waits for changes of partitions until the request is complete (``_is_complete``), or the time is up.

    Args:
        timer: runs the end of the wait.
        call_soon: runs a call after the current one, so that the append that completes a wait does not send the
            response itself.
        until: monotonic seconds.
    """

    def __init__(
        self,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], None],
        until: float,
        partitions: Iterable[Partition],
    ) -> None:
        self._call_soon = call_soon
        self._ending = self._over = False
        self._partitions = set(partitions)
        self._timer = timer.schedule(until, self._end)
        for partition in self._partitions:
            partition.watch(self._on_news)

    def _on_news(self, size_bytes: int) -> None:
        if not self._ending and self._is_complete(size_bytes):
            self._ending = True
            self._call_soon(self._end)

    @abstractmethod
    def _is_complete(self, size_bytes: int) -> bool:
        """Return whether the wait is over. ``size_bytes``: see :data:`.partition.Watcher`."""

    @abstractmethod
    def _set(self) -> None:
        """Notify the waiter."""

    def _end(self) -> None:
        if not self._over:
            self.cancel()
            self._set()

    def cancel(self) -> None:
        """Stop waiting."""
        self._over = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.unwatch(self._on_news)
        self._partitions = set()


class DelayedFetch(_Delayed):
    """A fetch that waits until enough bytes have arrived, or until ``max_wait_ms`` has passed.

    Bytes count when the high watermark moves. They are counted in the size of the stored batches. A ``read_committed``
    fetch waits until a last stable offset has moved, since it may not read the bytes of open transactions.

    Args:
        until: the latest end of the wait, in monotonic seconds.
        missing_bytes: the number of bytes that are still missing.
        stable_offsets: for ``read_committed``, the last stable offset that each partition had when it was read.
    """

    def __init__(
        self,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], None],
        until: float,
        partitions: Iterable[Partition],
        missing_bytes: int,
        stable_offsets: Sequence[int] | None = None,
    ) -> None:
        self.deferred: Deferred[None] = Deferred()
        self._missing = missing_bytes
        partitions = list(partitions)
        self._stable = None if stable_offsets is None else list(zip(partitions, stable_offsets, strict=True))
        super().__init__(timer, call_soon, until, partitions)

    def _is_complete(self, size_bytes: int) -> bool:
        if self._stable is not None:
            return size_bytes < 0 or any(partition.last_stable_offset > offset for partition, offset in self._stable)
        self._missing = 0 if size_bytes < 0 else self._missing - size_bytes
        return self._missing <= 0

    def _set(self) -> None:
        self.deferred.set(None)


class AppendProgress(NamedTuple):
    """An append that waits for its replicas.

    It has the append's end offset, and the leader epoch in which it was made.
    """

    partition: Partition
    end_offset: int
    leader_epoch: int

    @property
    def outcome(self) -> int | None:
        """See :meth:`Partition.replicated`."""
        return self.partition.replicated(self.end_offset, self.leader_epoch)


class DelayedProduce(_Delayed):
    """Appends with ``acks=all`` that wait until all in-sync replicas have them.

    ``deferred`` gets an error code for each append. It is the code of :meth:`Partition.replicated`, or
    REQUEST_TIMED_OUT if the time was up earlier. In that case the records stay in the log. A later election does not
    change an outcome.

    Args:
        until: the latest end of the wait, in monotonic seconds.
        appends: the appends, at least one. Some of them may be complete already.
    """

    def __init__(
        self,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], None],
        until: float,
        appends: Sequence[AppendProgress],
    ) -> None:
        self.deferred: Deferred[list[int]] = Deferred()
        self._appends = appends
        self._outcomes: list[int | None] = [None] * len(appends)
        super().__init__(timer, call_soon, until, {append.partition for append in appends})
        self._on_news(0)

    def _is_complete(self, size_bytes: int) -> bool:
        complete = True
        for index, append in enumerate(self._appends):
            if self._outcomes[index] is None:
                self._outcomes[index] = outcome = append.outcome
                complete = complete and outcome is not None
        return complete

    def _set(self) -> None:
        timed_out = RequestTimedOutError.errno
        self.deferred.set([timed_out if outcome is None else outcome for outcome in self._outcomes])


class DelayedStart(_Delayed):
    """A wait until every in-sync replica has raised its log start offset at least to a given offset."""

    def __init__(
        self,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], None],
        until: float,
        starts: Sequence[tuple[Partition, int]],
    ) -> None:
        self.deferred: Deferred[None] = Deferred()
        self._starts = starts
        super().__init__(timer, call_soon, until, {partition for partition, _ in starts})
        self._on_news(0)

    def _is_complete(self, size_bytes: int) -> bool:
        return all(
            not partition.is_leader or partition.starts_everywhere_at(offset) for partition, offset in self._starts
        )

    def _set(self) -> None:
        self.deferred.set(None)
