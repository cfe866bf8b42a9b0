"""``GroupConsumer``: a consumer whose group is driven by a separate task, even between the program's calls.

:mod:`pyconsumer.compat.aiokafka` wraps it, and has that task: :mod:`pyconsumer.compat.aiokafka.background` has the
rules. It runs the generators of :class:`~pyconsumer.consumer.delegate.ConsumerDelegate` with ``apart`` in their names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from pyconsumer.aio.consumer import AsyncKafkaConsumer
from pyconsumer.aio.driver import LONGEST_TURN_S
from pyconsumer.consumer.arguments import check_max_records
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import IllegalStateError
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import TopicPartition

__all__ = ["GroupConsumer"]

T = TypeVar("T")


class GroupConsumer(AsyncKafkaConsumer[Any, Any]):
    """An ``AsyncKafkaConsumer`` whose group is driven by a task of its owner. The task calls :meth:`serve`.

    Attributes:
        prefetched: records that the owner may return without a call, as iteration does. It puts the
            record that it takes into ``latest`` there.
    """

    def live_between_reads(self, raise_failure: Callable[[], object]) -> None:
        """Let the member rebalance only in :meth:`serve`. This must be the first call.

        Args:
            raise_failure: called by each call for records and by ``join``. It raises an error of the task, once.
        """
        self.raise_failure = raise_failure
        self.clock = self._delegate.clock
        self.prefetched = self._prefetched
        self._idle = asyncio.Event()
        self._idle.set()
        self._hand_is_known = False
        self._delegate.leave_group_to_task()

    # -- records -----------------------------------------------------------------------------------------------------

    async def read(
        self, timeout_ms: float, max_records: int | None, only: Collection[TopicPartition] = ()
    ) -> ConsumerRecords[Any, Any]:
        """Return records that have arrived, like ``poll``. The work of the group is left to :meth:`serve`.

        Args:
            timeout_ms, max_records: see ``poll``.
            only: the partitions to read, by default all. The others return no records and raise no errors in this
                call.
        """
        most = self.config.max_poll_records if max_records is None else check_max_records(max_records)
        take = self._delegate.take_records
        found: ConsumerRecords[Any, Any] | None
        if not only:
            found = await self._read(timeout_ms, take, most, "getmany")
        else:

            def take_some(most: int) -> ConsumerRecords[Any, Any] | None:
                self._subscriptions.leave_out_all_but(only)  # also those that were assigned during the call
                return take(most)

            self._subscriptions.leave_out_all_but(only)
            try:
                found = await self._read(timeout_ms, take_some, most, "getmany", only)
            finally:
                self._subscriptions.leave_out_none()
        return ConsumerRecords() if found is None else found

    async def read_one(self, timeout_ms: float, *, ahead: bool) -> ConsumerRecord[Any, Any] | None:
        """Return the next record, or None if no record arrives in time.

        Args:
            timeout_ms: longest time to wait, in ms.
            ahead: True offers further decoded records in ``prefetched``, like iteration.
        """
        found: ConsumerRecord[Any, Any] | None
        found = await self._read(timeout_ms, self._delegate.take_one, self._delegate.most_ahead, "getone")
        self._prefetched.latest[0] = found
        if ahead and found is not None:
            self._iteration.start()
        return found

    async def _read(
        self,
        timeout_ms: float,
        drain: Callable[[int], T | None],
        most: int,
        name: str,
        only: Collection[TopicPartition] = (),
    ) -> T | None:
        guard, delegate, driver = self._guard, self._delegate, self._driver
        driver.bind()
        guard.begin(name)
        try:
            delegate.note_delivered()
            self._forget_hand()
            now = self._now()
            delegate.metrics.on_poll_start(now)  # see AsyncKafkaConsumer: the task may be cancelled while others run
            if now - driver.turn_began > LONGEST_TURN_S:
                await driver.let_others_run()
                now = self._now()
            self.raise_failure()
            found = delegate.buffered_apart(now, drain, most)
            if found is not None:
                return found
            deadline = self._deadline(timeout_ms)
            steps = delegate.fetched_apart(
                deadline, drain, most, check=self.raise_failure, on_due=driver.recheck, only=only
            )
            self._activity.enter()
            try:
                return await driver.run(steps, deadline + delegate.grace_s, interruptible=True)
            finally:
                self._activity.leave()
        except BaseException as error:
            self._note_failure(error)
            raise
        finally:
            self._hand_is_known = False  # the task may have looked during the wait
            guard.end()

    def _forget_hand(self) -> None:
        """Record that all records which were returned are done, because more are asked for."""
        self._prefetched.latest[0] = None
        self._hand_is_known = False
        self._subscriptions.note_in_hand({})

    def _note_hand(self) -> None:
        """Note which records the application has in its hands, before the assignment may change."""
        if self._hand_is_known:
            return
        latest = self._prefetched.latest[0]
        if latest is None:
            self._subscriptions.note_in_hand(self._delegate.fetcher.buffer.in_hand())
        else:
            state = self._subscriptions.get(TopicPartition(latest.topic, latest.partition))
            self._subscriptions.note_in_hand({} if state is None else {state: latest.offset})
        self._hand_is_known = True

    # -- the group ---------------------------------------------------------------------------------------------------

    async def join(self, timeout_ms: float) -> bool:
        """Wait until the task has joined the group and the positions are set.

        Without a group: until the partitions are known.

        No record is returned. Records that are produced after this call are read even with ``latest``.

        Returns:
            True if that was done in time. This includes a member that got no partition.
        """
        deadline = self._deadline(timeout_ms)
        steps = self._delegate.until_assigned(deadline, self.raise_failure)
        found: bool = await self._on_loop(steps, deadline)
        return found

    async def until_settled(self, timeout_ms: float) -> None:
        """Wait as long as a rebalance has revoked the partitions and not yet assigned new ones."""
        group = self._delegate.coordinator
        if group is not None and group.is_rebalancing:
            deadline = self._deadline(timeout_ms)
            await self._on_loop(self._delegate.until_settled(deadline), deadline)

    def until_due(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that waits until :meth:`serve` has work.

        The coroutine holds no reference to this object.
        """
        return self._driver.run(self._delegate.until_group_is_due(), interruptible=True)

    async def serve(self) -> None:
        """Do the work of the group that is due, without waiting. Only callbacks that are coroutines are awaited."""
        await self._until_idle()
        if self._guard.closing:
            return
        self._guard.enter()  # the position moves past the records that were taken one by one
        self._note_hand()
        self._begin_work()
        try:
            await self._driver.run(self._delegate.serve_group())
        finally:
            self._end_work()

    async def _until_idle(self) -> None:
        while not self._idle.is_set():
            await self._idle.wait()

    def _begin_work(self) -> None:
        self._idle.clear()
        self._delegate.mark_group_busy(True)

    def _end_work(self) -> None:
        self._delegate.mark_group_busy(False)
        self._idle.set()
        self._driver.recheck()

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        await self._until_idle()
        self._begin_work()
        try:
            await super().unsubscribe(timeout_ms)
        finally:
            self._end_work()

    def unsubscribe_at_once(self) -> bool:
        """Drop the subscription without waiting, and without a call of the listener.

        Returns:
            False if that cannot be, because the group's task is at work or leaving takes time. Await
            :meth:`unsubscribe` then.
        """
        group = self._delegate.coordinator
        if not self._idle.is_set() or self._guard.busy or self.config.group_protocol != "classic":
            return False
        if group is not None and group.may_announce_leaving:
            return False
        self._driver.bind()
        self._guard.begin("unsubscribe")
        self._subscriptions.forget_listener()
        try:
            for _ in self._delegate.unsubscribe(self._deadline(None)):
                raise IllegalStateError("unsubscribing would have to wait")
        finally:
            self._guard.end()
        if group is not None:
            self._driver.serve_soon()
        self._driver.recheck()
        return True

    async def _close(self, deadline: float, leave_group: bool | None, *, commit: bool) -> None:
        self._driver.interrupt(IllegalStateError(f"the {self._name} was closed"))  # at once, not after a callback
        try:
            async with asyncio.timeout(max(0.0, deadline - self._now())):
                await self._until_idle()
        except TimeoutError:
            pass
        await super()._close(deadline, leave_group, commit=commit)

    def seek_kept(self, partition: TopicPartition, offset: int) -> None:
        """Seek, even in a partition that the current rebalance may give back."""
        if not self._delegate.seek_revoked(partition, offset):
            self.seek(partition, offset)

    def recheck(self) -> None:
        """Resume the waiting calls. Each of them then calls ``raise_failure``."""
        self._driver.recheck()

    async def refresh(self) -> None:
        """Request metadata again, and wait for the response at most for ``default_api_timeout_ms``."""
        self._enter()
        deadline = self._deadline(None)
        await self._on_loop(self._delegate.metadata_update(deadline), deadline)

    @property
    def closing(self) -> bool:
        """Return whether the consumer is closed or is being closed."""
        return self._guard.closing

    @property
    def subscribes(self) -> bool:
        """Return whether topics or a pattern are subscribed."""
        return self._subscriptions.has_auto_assigned

    @property
    def is_idle(self) -> bool:
        """Return whether topics, a pattern and partitions are all missing."""
        return self._subscriptions.has_none

    @property
    def metadata(self) -> Metadata:
        """The known brokers and topics."""
        return self._delegate.metadata

    @property
    def coordinator_id(self) -> int | None:
        """The id of the broker that coordinates the group, or None if it is unknown."""
        group = self._delegate.coordinator
        return None if group is None else group.coordinator_id
