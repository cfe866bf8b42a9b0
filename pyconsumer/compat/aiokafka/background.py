"""The background task that drives the group for an aiokafka consumer.

State: one task for each consumer, from ``start`` (or the first read) to ``stop``. It waits until the group has
something due, does that in one piece (``GroupConsumer.serve``), and waits again.

Owner: the task alone finds the coordinator, joins, assigns, calls the listener and commits automatically. Reads take
records, and set positions. Heartbeats have their thread, so a loop that is blocked keeps its membership for
``max_poll_interval_ms``. Its rebalance waits for it.

Order

1. A read that finds the group due lets the task go first. While the task is at work, reads wait: ``getone`` for as long
   as that takes, ``getmany`` until its timeout. Cancelling a read never cancels the work, or a listener.
2. A read says that the records of earlier reads are done. Automatic commits (at the interval, before partitions are
   revoked) take these, and never records of the latest read: the program may still be working on them. So a commit is
   at least once, also if the program dies in the middle of a record. (aiokafka commits what it has handed out.)
3. A rebalance does not wait for the program. Records in its hands whose partition goes to another member come there
   again. A partition that the member keeps continues at its position, so these do not come again. If the member has
   missed a generation, it continues at the committed offset.
4. ``max_poll_interval_ms`` is the longest time between two reads of a member that has partitions. After that it leaves,
   and its next read joins again. A member without partitions has nothing to read, and waits for its turn without end.
5. An error of the group comes out of the next read, or of ``start``, once. Then the task continues. It does so after
   :data:`RETRY_S` in any case, so that a standby that reads nothing recovers, too. ``stop`` raises none.
6. The task refers to the consumer weakly while it waits. A consumer that is dropped without ``stop`` leaves its group,
   and the task is cancelled.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Final

from pyconsumer.aio.group_consumer import GroupConsumer

__all__ = ["GroupTask", "Trouble"]

#: After an error that no read has raised, the task continues after this time (seconds).
RETRY_S: Final = 5.0


class Trouble:
    """Holds an error of the group, from the task that finds it to the read that raises it."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._raised = asyncio.Event()

    def note(self, error: Exception) -> None:
        """Keep an error. If there is one already, keep that one instead."""
        if self._error is None:
            self._error = error
            self._raised.clear()

    def raise_once(self) -> None:
        """Raise the error, if there is one. The task can then continue."""
        error, self._error = self._error, None
        if error is not None:
            self._raised.set()
            raise error

    async def until_raised(self) -> None:
        """Wait until a read has raised the error, but at most for :data:`RETRY_S`."""
        try:
            async with asyncio.timeout(RETRY_S):
                await self._raised.wait()
        except TimeoutError:
            pass


class GroupTask:
    """Starts and ends the background task of a consumer.

    Args:
        consumer: the wrapped consumer.
    """

    def __init__(self, consumer: GroupConsumer) -> None:
        self._consumer = consumer
        self._trouble = Trouble()
        self._task: asyncio.Task[None] | None = None
        consumer.live_between_reads(self._trouble.raise_once)

    def start(self) -> None:
        """Start the task in the running loop. A second call has no effect."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            find = weakref.ref(self._consumer)
            self._task = loop.create_task(_live(find, self._trouble), name=f"group of {self._consumer!r}")
            self._dropped = weakref.finalize(self._consumer, _cancel, loop, self._task)

    async def stop(self) -> None:
        """End the task. The consumer must have been closed before."""
        task, self._task = self._task, None
        if task is not None:
            self._dropped.detach()
            task.cancel()
            await asyncio.wait([task])


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:
        pass  # the loop is closed


async def _live(find: Callable[[], GroupConsumer | None], trouble: Trouble) -> None:
    while True:
        consumer = find()
        if consumer is None or consumer.closing:
            return
        waiting = consumer.until_due()
        del consumer
        failure: Exception | None = None
        try:
            await waiting
            consumer = find()
            if consumer is None:
                return
            await consumer.serve()
        except Exception as error:
            failure = error.with_traceback(None)  # whose frames would keep the consumer
        consumer = find()
        if failure is not None and consumer is not None and not consumer.closing:
            trouble.note(failure)
            consumer.recheck()
            del consumer, failure
            await trouble.until_raised()
