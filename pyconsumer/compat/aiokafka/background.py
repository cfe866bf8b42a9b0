"""The background task of aiokafka's consumer, which rebalances between reads, and the joining in ``start``.

Rules

1. A call that reads takes part in rebalances itself. The follower takes over when nothing has been read for
   :data:`IDLE_S`. It holds the consumer's turn only while it works, and it never waits then, except for a callback that
   is a coroutine.
2. The follower does not count as a poll: after ``max_poll_interval_ms`` without a read the member leaves its group, and
   the next read joins again.
3. Partitions that are revoked while the application processes a record are committed with that record, as by aiokafka.
   The interval of automatic commits is that of the reads: the follower does not commit by it.
4. An error ends the follower. The next read raises it and starts another one.
5. While it waits, the follower refers to the consumer weakly: one that is dropped without ``stop`` can be collected.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Final

from pyconsumer.aio.group_consumer import GroupConsumer

__all__ = ["Follower"]

#: The follower takes over when nothing has been read for this long (seconds).
IDLE_S: Final = 0.1


class Follower:
    """The task that takes part in rebalances between reads.

    Args:
        consumer: the wrapped consumer.
        turn: the lock that reads hold.

    Attributes:
        reads: a read that begins adds 1.
        failure: the error that ended the task. The next read raises it.
        task: None before the first read, and after the task has ended.
    """

    def __init__(self, consumer: GroupConsumer, turn: asyncio.Lock) -> None:
        self.consumer = consumer
        self.turn = turn
        self.reads = 0
        self.failure: Exception | None = None
        self.task: asyncio.Task[None] | None = None

    def begin_read(self) -> None:
        """Record that a read begins, which takes part in rebalances itself.

        Raises:
            Exception: :attr:`failure`, once.
        """
        self.reads += 1
        if self.task is None:
            self.start()

    def end(self, failure: Exception) -> None:
        """Record that the task has ended by an error. The next read raises it."""
        if self.task is not None:
            self.task, self.failure = None, failure

    def start(self) -> None:
        """Begin to follow the group, unless that is done already.

        Raises:
            Exception: :attr:`failure`, once.
        """
        if self.task is not None:
            return
        failure, self.failure = self.failure, None
        loop = asyncio.get_running_loop()
        task = loop.create_task(_follow(weakref.ref(self)), name=f"rebalances of {self.consumer!r}")
        self.task = task

        def dropped(_: object) -> None:
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # the loop is closed

        self._on_drop = weakref.ref(self.consumer, dropped)
        if failure is not None:
            raise failure

    async def stop(self) -> None:
        """End the task, after the consumer was closed: a callback that it runs is not interrupted."""
        task, self.task = self.task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])


async def _follow(find: Callable[[], Follower | None]) -> None:
    seen = -1
    failure: Exception | None = None
    while failure is None:
        follower = find()
        if follower is None:
            return
        turn = follower.turn
        if follower.reads != seen or turn.locked():
            seen = follower.reads
            del follower
            async with turn:  # a read that waits takes part in rebalances itself
                pass
            await asyncio.sleep(IDLE_S)
            continue
        waiting = follower.consumer.until_due()
        del follower
        try:
            await waiting
            follower = find()
            if follower is None:
                return
            async with turn:
                if follower.reads == seen:
                    await follower.consumer.rebalance()
        except Exception as error:
            failure = error
    follower = find()
    if follower is not None:
        follower.end(failure)
