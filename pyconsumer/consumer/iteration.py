"""Fast iteration (``for record in consumer``): takes records that were decoded ahead.

Rules

1. Records may be taken until a method of the consumer is called, and for at most
   :data:`~pyconsumer.consumer.delegate.CHECK_LIFETIME_S` seconds. Then
   :meth:`PrefetchedIteration.commit_taken` moves the position past the taken records, and the consumer checks its
   group, its errors and its fetches again.
2. A wakeup, a change in the group that the heartbeat thread has noticed (partitions may be lost), and a fork, in the
   child, stop it at once.
3. A record that Ctrl-C kept from the application is put back.
4. It is not known which of the taken records was the last one. So a consumer that fails takes all of them back
   (:meth:`PrefetchedIteration.take_back`): those of that time.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.consumer.closing import CommitOnClose
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.protocol.records import ConsumerRecord

__all__ = ["PrefetchedIteration", "PrefetchedRecords"]

_NOTHING: Final[list[ConsumerRecord[Any, Any]]] = []


class PrefetchedRecords:
    """Records that iteration may return without asking the consumer. Any thread may call :meth:`stop`.

    Args:
        now: the consumer's clock.

    Attributes:
        records: the records. The next record is the last in the list.
        until: the time (seconds, on the consumer's clock) up to which the records may be taken.
        now: as given.
        latest: a list of the record that was returned alone and last, or of None. Only
            :mod:`pyconsumer.aio.group_consumer` and the owner of its consumer change it.
    """

    __slots__ = ("__weakref__", "latest", "now", "records", "until")

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.latest: list[ConsumerRecord[Any, Any] | None] = [None]
        self.records = _NOTHING
        self.until = -math.inf
        _all.add(self)

    def offer(self, records: list[ConsumerRecord[Any, Any]], until: float) -> None:
        """Let iteration take these records, up to the time ``until`` (seconds)."""
        self.until = until
        self.records = records

    def stop(self) -> None:
        """Stop iteration from taking records by itself. Any thread and any signal handler may call this."""
        self.records = _NOTHING


class PrefetchedIteration:
    """Decides when iteration may take prefetched records by itself, and when not. See the rules of the module.

    Args:
        prefetched: the records that may be taken.
        delegate: the :class:`ConsumerDelegate` of the consumer.
        call_on_enter: sets the function (or None) that the consumer's guard calls at the start of each call.
    """

    __slots__ = ("_call_on_enter", "_delegate", "_polls", "_prefetched")

    def __init__(
        self,
        prefetched: PrefetchedRecords,
        delegate: ConsumerDelegate,
        call_on_enter: Callable[[Callable[[], object] | None], None],
    ) -> None:
        self._prefetched = prefetched
        self._delegate = delegate
        self._call_on_enter = call_on_enter
        self._polls = -1  # the call that offered records

    def start(self) -> None:
        """Let iteration take the records that were decoded together with the one that is being returned."""
        delegate = self._delegate
        records, until = delegate.prefetched()
        if records:
            self._polls = delegate.metrics.polls
            self._call_on_enter(self.commit_taken)
            self._prefetched.offer(records, until)
            if delegate.client.wakeup_waits or delegate.has_user_output:
                self._prefetched.stop()

    def take_back(self) -> bool:
        """Move the positions back to the first record that the last call returned, or a few records further back.

        Returns:
            False if a position is being validated or reset, and so could not be moved.
        """
        buffer, latest = self._delegate.fetcher.buffer, self._polls == self._delegate.metrics.polls
        return buffer.roll_back(taken=latest)

    def commit_on_close(self) -> CommitOnClose:
        """Return the object that decides whether closing commits the positions. See :mod:`.closing`."""
        delegate = self._delegate
        config, metrics, buffer = delegate.config, delegate.metrics, delegate.fetcher.buffer
        return CommitOnClose(
            takes_positions=config.enable_auto_commit and config.enable_auto_offset_store,
            polls=lambda: metrics.polls,
            at_hand=lambda: buffer.has_moved,
            take_back=self.take_back,
        )

    def commit_taken(self) -> None:
        """Stop prefetched iteration, and move the position past the records that were taken.

        A second call has no effect.
        """
        self._prefetched.stop()
        self._delegate.commit_taken()
        self._call_on_enter(None)

    @staticmethod
    def restore(records: list[ConsumerRecord[Any, Any]], record: ConsumerRecord[Any, Any] | None) -> None:
        """Put back a record that did not reach the application because of Ctrl-C.

        ``record`` is None if Ctrl-C came before a record was taken.
        """
        if record is not None and (not records or records[-1] is not record):
            records.append(record)


_all: weakref.WeakSet[PrefetchedRecords] = weakref.WeakSet()


def _after_fork() -> None:
    for prefetched in list(_all):
        prefetched.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
