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
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pyconsumer.aio import AsyncKafkaConsumer

__all__ = ["Follower", "GroupConsumer"]

#: The follower takes over when nothing has been read for this long (seconds).
IDLE_S: Final = 0.1
#: The longest that it waits for another task's call at a time (seconds).
_LONGEST_WAIT_S: Final = 3600.0


class GroupConsumer(AsyncKafkaConsumer[Any, Any]):
    """The wrapped consumer. Its first three calls have no counterpart in ``AsyncKafkaConsumer``."""

    async def join(self, timeout_ms: float) -> bool:
        """Join the group (without one: find the partitions of the subscription), and set the positions.

        No record is returned. Records that are produced from now on are read also with ``latest``.

        Returns:
            Whether that was done in time. It is for a member that gets no partition.
        """
        self._guard.begin("start", self._driver.bind())
        try:
            deadline = self._deadline(timeout_ms)
            return await self._driver.run(self._delegate.until_assigned(deadline), deadline, interruptible=True)
        finally:
            self._guard.end()

    def until_due(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that waits until :meth:`rebalance` has work. It does not refer to this object."""
        return self._driver.run(self._delegate.until_group_is_due(), interruptible=True)

    async def rebalance(self) -> None:
        """Take part in a rebalance as far as that goes without waiting."""
        while self._guard.busy:
            await self._guard.until_free(_LONGEST_WAIT_S)
        self._guard.begin("a rebalance in the background", self._driver.bind())
        try:
            await self._driver.run(self._delegate.serve_group())
        finally:
            self._guard.end()

    @property
    def subscribes(self) -> bool:
        """Return whether topics or a pattern are subscribed."""
        return self._subscriptions.has_auto_assigned


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
