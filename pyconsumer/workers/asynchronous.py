"""``AsyncWorkers``: many records at once, in tasks of an event loop.

The rules are in :mod:`.common` and :mod:`.schedule`. Everything happens in the loop's thread. There are ``concurrency``
tasks that take records from the schedule. The task that called ``run`` polls, takes part in rebalances and commits.

A task whose function has waited takes its next record at once. One whose function never waits yields to the loop when
it has had the loop for ``LONGEST_TURN_S``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Unpack

from pyconsumer.aio.consumer import AsyncConsumerRebalanceListener, AsyncKafkaConsumer
from pyconsumer.aio.driver import LONGEST_TURN_S
from pyconsumer.aio.share_consumer import AsyncKafkaShareConsumer
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.errors import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    WakeupError,
)
from pyconsumer.generic import Arrival, PendingError
from pyconsumer.producer.loop_bridge import called
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from pyconsumer.telemetry import hooks
from pyconsumer.workers.batches import BatchTask, table_of
from pyconsumer.workers.common import WorkersBase, WorkersSettings, copy_of
from pyconsumer.workers.dead_letters import Letter
from pyconsumer.workers.results import send_to
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import is_coroutine_function
from pyconsumer.workers.steps import run_steps_async

__all__ = ["AsyncWorkers"]

_log = logging.getLogger("pyconsumer.workers")

#: Longest time for a function to end that was cancelled (seconds).
_CANCEL_S: Final = 5.0
#: The workers whose function runs, also in the tasks that it begins.
_works_for: ContextVar[AsyncWorkers | None] = ContextVar("works_for", default=None)


class AsyncWorkers(WorkersBase):
    """Awaits a coroutine function for each record, many at a time, and commits those that are finished (at least once).

    ::

        async def handle(record):
            ...

        async with AsyncKafkaConsumer("orders", group_id="billing", enable_auto_commit=False, ...) as consumer:
            await AsyncWorkers(consumer, handle, order="key", concurrency=100).run()

    Args:
        consumer: an ``AsyncKafkaConsumer`` with a ``group_id`` and ``enable_auto_commit=False``. Or an
            ``AsyncKafkaShareConsumer``, with ``order=None``.
        handle: a coroutine function, or a plain one, which blocks the event loop. It gets a record, or a batch, and may
            return records to send.
        timeout_ms: longest time of a call, which is then cancelled. The attempt counts as failed.
        settings: see :class:`pyconsumer.workers.Workers`. There is no ``run_in``.

    Raises:
        ConfigurationError: a setting is out of range, or the consumer does not fit.
    """

    _name = "AsyncWorkers"
    _is_async = True

    def __init__(
        self,
        consumer: AsyncKafkaConsumer[Any, Any] | AsyncKafkaShareConsumer[Any, Any],
        handle: Callable[[Any], Any],
        **settings: Unpack[WorkersSettings],
    ) -> None:
        if not isinstance(consumer, AsyncKafkaConsumer | AsyncKafkaShareConsumer):
            raise ConfigurationError(
                f"AsyncWorkers need an AsyncKafkaConsumer or an AsyncKafkaShareConsumer, not {consumer!r}. For those"
                " without asyncio use Workers"
            )
        self._idle: deque[asyncio.Future[None]] = deque()
        self._waking = False
        self._observers: list[asyncio.Future[None]] = []
        super().__init__(consumer, handle, **settings)
        if not is_coroutine_function(handle):
            self._handle = partial(_call, handle)
        self._commit: asyncio.Task[None] | None = None
        self._runner: object = None  # the task that began a record last
        self._turn = 0  # of the loop, counted while functions may not wait
        self._turn_began: float | None = None  # None: it is not counted
        self._gathers = asyncio.Lock()  # one task at a time waits for a batch

    def _new_schedule(self) -> Schedule:
        return self._schedule_with(self._wake_one)

    def _wake_one(self, _: int = 1) -> None:
        """Wake a task for a record that is ready, unless one is on its way (rule 6 of :mod:`.schedule`)."""
        if not self._waking:
            self._waking = self._wake(1) > 0

    def _wake(self, count: int) -> int:
        """Wake tasks that are idle, at most ``count``. Return how many."""
        idle, woken = self._idle, 0
        while woken < count and idle:
            future = idle.popleft()
            if not future.done():
                future.set_result(None)
                woken += 1
        return woken

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Work until :meth:`stop`, or until the end of the partitions.

        If the task that awaits this is cancelled, the functions that run are cancelled, too. Finished records are
        committed.

        Args:
            until_caught_up: return when all records are finished that the assigned partitions had when this member got
                them. A member that has no partition for three heartbeats returns, too.

        Raises:
            Exception: the last attempt of a record failed without dead letters, or its dead letter could not be sent.
                The records that are finished are committed.
            KafkaError: the consumer failed.
            IllegalStateError: it is running already, or ``subscribe`` was called during the work.
        """
        self._begin(asyncio.sleep)
        self._turn_began = None  # a loop that was closed has not counted its last one
        consumer = self._consumer
        workers: list[asyncio.Task[None]] = []
        cancelled = True
        try:
            lent = self._borrow()
            if lent is not None:
                lent.listen(_Listener(self, lent.listener))
            if self._transactions is not None:
                await run_steps_async(self._transactions.initialize())
            try:
                if lent is not None and (assigned := consumer.assignment()):
                    await run_steps_async(self.take_over_steps(assigned))
                workers += [asyncio.create_task(self._work()) for _ in range(self._concurrency)]
                await self._loop(until_caught_up=until_caught_up)
                cancelled = False
            except WakeupError:
                cancelled = False  # a request to end in good order
            except Exception:
                cancelled = False
                raise
            finally:
                await self._finish(workers, at_once=cancelled)
        finally:
            for worker in workers:
                worker.cancel()
            self._give_back()
            self._is_running = self._stopping = False
        error = self._error_to_raise()
        if error is not None:
            raise error

    def stop(self) -> None:
        """Let :meth:`run` return, after the records that are running. Call it in the loop, or in a signal handler.

        ``consumer.wakeup()`` has the same effect, so :func:`pyconsumer.stop_on_signals` ends workers, too.
        """
        self._stopping = True

    async def _loop(self, *, until_caught_up: bool) -> None:
        schedule, consumer = self._schedule, self._consumer
        while not self._stopping and not schedule.closed:
            room = await self._wait_for_room()
            found = await consumer.poll(timeout_ms=self._poll_ms(room), max_records=room or 1)
            self._take_in(found)
            if time.monotonic() >= self._next_commit:
                if self._transactions is not None:
                    await run_steps_async(self._transaction())
                    self._plan_commit()
                else:
                    self._commit_finished()
            if self._stop_reading_stopped():
                return
            if until_caught_up and await run_steps_async(self._caught_up_steps()):
                return

    async def _wait_for_room(self) -> int:
        """Return how many records may be polled. 0: none, and the partitions are paused."""
        schedule = self._schedule
        room = schedule.room(*self._limits)
        if not room:
            await self._until(lambda: schedule.closed or self._has_room(), self._room_wait_s)
            room = schedule.room(*self._limits)
        return self._apply_room(room)

    def _has_room(self) -> bool:
        return self._schedule.room(*self._limits) >= max(1, self._most_records // 2)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until the schedule fulfils a condition. False if the time ran out."""
        until = time.monotonic() + seconds
        while not condition():
            left = until - time.monotonic()
            if left <= 0:
                return False
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            self._observers.append(future)
            timer = loop.call_later(left, _wake_up, future)  # asyncio.wait takes four times as long
            try:
                await future
            finally:
                timer.cancel()
        return True

    def _changed(self) -> None:
        if self._observers:
            for future in self._observers:
                _wake_up(future)
            self._observers.clear()

    # -- one record ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        _works_for.set(self)
        schedule, timeout, handle, me = self._schedule, self._timeout, self._handle, object()
        is_plain = all(each is None for each in (self._batch, self._deserialization, self._producer, timeout))
        while True:
            task = schedule.next_task() if self._batch is None else await self._gathered()
            if task is None:
                if schedule.closed:
                    return
                await self._until_ready()
                continue
            if self._idle and schedule.has_ready:
                self._wake_one()
            self._runner, turn = me, self._turn
            try:
                if is_plain and hooks.active is None:
                    try:
                        await handle(task.record)
                    except BaseException as error:
                        await self._after_failure(task, error)
                    else:
                        schedule.finish(task)
                else:
                    await self._process(task, timeout)
            except asyncio.CancelledError:
                raise  # this task: run() was cancelled, or ends
            except BaseException as error:  # of the function, or of a step of ours
                schedule.abort(task, error)
            if self._observers:
                self._changed()
            if self._runner is me and turn == self._turn and self._has_been_long():
                await asyncio.sleep(0)

    def _has_been_long(self) -> bool:
        """Return whether tasks have had the loop for long. Call it if the function may not have waited."""
        if self._turn_began is not None:
            return time.monotonic() - self._turn_began > LONGEST_TURN_S
        self._turn_began = time.monotonic()
        asyncio.get_running_loop().call_soon(self._next_turn)
        return False

    def _next_turn(self) -> None:
        self._turn += 1
        self._turn_began = None

    async def _gathered(self) -> Task | None:
        """Wait for a batch, while no other task does. None: the schedule is closed."""
        schedule = self._schedule
        async with self._gathers:
            while (batch := schedule.next_task()) is None and not schedule.closed:
                await self._until_ready()
            return batch

    async def _process(self, task: Task, timeout: float | None) -> None:  # noqa: ASYNC109 - of the function
        try:
            if isinstance(task, BatchTask):
                record = await self._argument(task)
            else:
                record = task.record if self._deserialization is None else await self._converted(task)
        except Exception as error:
            await self._bury(task, self.undeserialized(task, error))
            return
        results = None
        try:
            value = None
            if record is not None:
                value = await (self._handled(record) if timeout is None else self._in_time(record, timeout))
            if value is not None and self._producer is not None:
                results = self._results_of(value)
                if self._transactions is None:
                    for future in [await send_to(self._producer, one) for one in results]:
                        await future
        except BaseException as error:
            await self._after_failure(task, error)
        else:
            if record is None:
                self._schedule.leave_out(task)
            elif results is None:
                self._schedule.finish(task)
            else:
                self._finished(task, results)

    async def _after_failure(self, task: Task, error: BaseException) -> None:
        """Deal with an exception of the function. Raise it again if it is none: this task is cancelled, or Ctrl-C."""
        if isinstance(error, asyncio.CancelledError):
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise error
            cancelled = RuntimeError("the function awaited something that was cancelled")
            cancelled.__cause__ = error
            error = cancelled
        if not isinstance(error, Exception):
            raise error
        await self._bury(task, self._failed(task, error))

    async def _argument(self, batch: BatchTask) -> Any:
        """Return the argument of the function for a batch, None if nothing of it is left.

        Raises:
            SchemaUnavailableError: a record waits for its schema.
        """
        assert self._batch is not None
        if self._batch.form == "arrow":
            return table_of(batch.tasks)
        if self._deserialization is None:
            return [one.record for one in batch.tasks]
        outcomes: list[Any] = []
        for one in batch.tasks:
            try:
                outcomes.append(await self._converted(one))
            except Exception as error:
                outcomes.append(error)
        records, letters = self._sorted_out(batch, outcomes)
        for one, letter in letters:
            await self._bury(one, letter)
        return records or None

    async def _converted(self, task: Task) -> Any:
        """Return the record for the function, as :meth:`deserialized` does. Await the schema that it needs."""
        convert = self._deserialization
        assert convert is not None
        while True:
            found, _, error = convert([copy_of(task.record)])
            if isinstance(error, PendingError):
                await called(partial(_on_arrival, error.arrival))
                continue
            if error is not None:
                raise error
            return found[0] if found else None

    def _handled(self, record: Any) -> Awaitable[Any]:
        return self._handle(record) if hooks.active is None else self._observed(record)

    async def _observed(self, record: Any) -> Any:
        with self._processing(record):
            return await self._handle(record)

    async def _in_time(self, record: Any, seconds: float) -> Any:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._handled(record)
        except TimeoutError:
            if not limit.expired():
                raise
            lasted = f"the function has not returned within {seconds * 1000:.0f} ms, and was cancelled"
            raise KafkaTimeoutError(lasted) from None

    async def _until_ready(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        due = self._schedule.until_due()
        try:
            if due is None:
                await future
            else:
                await asyncio.wait([future], timeout=due)
                future.cancel()
        finally:
            self._waking = False
            if future.cancelled() or not future.done():  # nothing has taken it out
                with contextlib.suppress(ValueError):
                    self._idle.remove(future)

    async def _bury(self, task: Task, letter: Letter | None) -> None:
        if letter is None:
            self._wake(len(self._idle))  # one of them waits until it is due
            return
        assert self._dead_letters is not None
        try:
            await self._dead_letters.deliver_async(letter)
        except Exception as failure:
            self._not_buried(task, failure)
        else:
            self._buried(task)

    # -- commits and rebalances ----------------------------------------------------------------------------------------

    def _commit_finished(self) -> None:
        if self._commit is not None and not self._commit.done():
            return
        offsets = self._due_offsets()
        if offsets:
            self._commit = asyncio.create_task(self._commit_once(offsets))

    async def _commit_once(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self._consumer.commit(offsets)
        except WakeupError:
            self._commit_again = self._stopping = True  # the request to end has come to this call
        except KafkaError as error:
            self._commit_failed(error)

    async def _wait_running(self, partitions: Collection[TopicPartition] | None, seconds: float) -> bool:
        own = _works_for.get() is self  # the function itself has called us, by close() or unsubscribe()
        return await self._until(lambda: self._schedule.running(partitions) <= own, seconds)

    async def _finish(self, workers: list[asyncio.Task[None]], *, at_once: bool) -> None:
        """Wait for running records, commit, and seek back to the unfinished ones."""
        schedule = self._schedule
        schedule.close()
        self._wake(len(self._idle))
        if workers:
            until = time.monotonic() + (0 if at_once else self._close_timeout)
            if self._share is not None and not at_once:
                await run_steps_async(self._wait_at_end_steps(self._close_timeout))
            _, late = await asyncio.wait(workers, timeout=max(0.0, until - time.monotonic()))
            if late and not at_once:
                _log.warning("records still run after %d ms, they are processed again", self._close_timeout * 1000)
            for worker in late:
                worker.cancel()
            if late:  # a function may refuse to be cancelled
                await asyncio.wait(late, timeout=_CANCEL_S)
        if self._commit is not None:
            await asyncio.wait([self._commit])
        if self._consumer_is_closed:
            schedule.forget_all()
            return
        try:
            await run_steps_async(self._commit_steps())
        finally:
            self._go_back()


class _Listener(AsyncConsumerRebalanceListener):
    """Rule 5 of :mod:`.common`. The user's listener may be plain or async."""

    def __init__(self, workers: AsyncWorkers, users: ConsumerRebalanceListener | None) -> None:
        self._workers = workers
        self._users = users
        if users is not None and getattr(users, "before_first_join", False):
            self.before_first_join = True

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        if self._users is not None:
            await _call(self._users.on_partitions_assigned, assigned)
        if assigned:
            await run_steps_async(self._workers.take_over_steps(assigned))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        if revoked:
            await run_steps_async(self._workers.give_up_steps(revoked))
        if self._users is not None:
            await _call(self._users.on_partitions_revoked, revoked)

    async def on_partitions_lost(self, lost: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        self._workers.drop(lost)
        if self._users is not None:
            await _call(self._users.on_partitions_lost, lost)


def _wake_up(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _on_arrival(arrival: Arrival, call: Callable[[], None]) -> None:
    arrival.add_done_callback(lambda _: call())


async def _call(function: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function of the user, which may be a plain one."""
    result = function(argument)
    return await result if inspect.isawaitable(result) else result
