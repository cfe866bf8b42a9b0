"""Iteration without a call for each record: the records decoded ahead, which ``__next__`` may take by itself.

Rules

1. They may be taken until a method of the consumer is called, and for
   :data:`~pyconsumer.consumer.delegate.LOOK_AROUND_S`.
   Then :meth:`PrefetchedIteration.settle` moves the position past what was taken, and everything is looked at again.
2. A wakeup, news of the group that the heartbeat thread has (the partitions may be lost), and a fork in the child, end
   it at once.
3. A record that Ctrl-C kept from the application is put back.
"""

from __future__ import annotations

import math
import os
import weakref
from typing import Final

from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.guard import AccessGuard
from pyconsumer.protocol.records import ConsumerRecord

__all__ = ["PrefetchedIteration"]

_NOTHING: Final[list[ConsumerRecord]] = []


class PrefetchedIteration:
    """See the rules above.

    Args:
        core, guard: of the consumer.

    Attributes:
        records: what may be taken, the next one last.
        until: how long (seconds).
    """

    __slots__ = ("__weakref__", "_core", "_guard", "records", "until")

    def __init__(self, core: ConsumerDelegate, guard: AccessGuard) -> None:
        self.records = _NOTHING
        self.until = -math.inf
        self._core = core
        self._guard = guard
        if core.coordinator is not None:
            core.coordinator.on_news = self.stop
        _all.add(self)

    def lend(self) -> None:
        """Begin: a record has just been handed out, and those that were decoded with it may be taken."""
        records, self.until = self._core.lend()
        if records:
            self._guard.on_enter = self.settle
            self.records = records
            if self._core.client.wakeup_waits or self._core.has_user_output:
                self.stop()

    def stop(self) -> None:
        """Let no more be taken. From any thread, and from signal handlers."""
        self.records = _NOTHING

    def settle(self) -> None:
        """End it: the position moves past what was taken. A second call changes nothing."""
        self.stop()
        self._core.settle()
        self._guard.on_enter = None

    @staticmethod
    def put_back(records: list[ConsumerRecord], record: ConsumerRecord | None) -> None:
        """Ctrl-C fell into the taking of a record (None: before that), so it did not reach the application."""
        if record is not None and (not records or records[-1] is not record):
            records.append(record)


_all: weakref.WeakSet[PrefetchedIteration] = weakref.WeakSet()


def _after_fork() -> None:
    for ahead in list(_all):
        ahead.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
