"""``Workers``: many records at once, in threads or processes, or one after the other in the calling thread.

The rules are in :mod:`.common` and :mod:`.schedule`. Here is the loop of the consumer's thread. The pools that take
tasks from the schedule are in those of :mod:`.thread_pool` and :mod:`.process_pool`.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Collection
from typing import Any, Final, Unpack

from pyconsumer.consumer.consumer import KafkaConsumer
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.share.consumer import KafkaShareConsumer
from pyconsumer.errors import (
    ConfigurationError,
    WakeupError,
)
from pyconsumer.structs import TopicPartition
from pyconsumer.telemetry import hooks
from pyconsumer.workers.batches import BatchTask, table_of
from pyconsumer.workers.common import WorkersBase, WorkersSettings
from pyconsumer.workers.dead_letters import Letter
from pyconsumer.workers.process_pool import ProcessPool
from pyconsumer.workers.results import send_to
from pyconsumer.workers.schedule import Task
from pyconsumer.workers.settings import RunIn, check_choice, is_coroutine_function
from pyconsumer.workers.steps import run_steps
from pyconsumer.workers.thread_pool import Pool, ThreadPool

__all__ = ["Workers"]

_log = logging.getLogger("pyconsumer.workers")

#: ``run_in="inline"`` polls at least this often, whatever is ready (seconds).
_INLINE_TURN_S: Final = 0.2
#: Most records of a run in which ``run_in="inline"`` takes them, and the seconds above which it takes one at a time.
_LONGEST_RUN: Final = 64
_RUN_S: Final = 0.005


class Workers(WorkersBase):
    """Calls a function for each record, many at a time, and commits those that are finished (at least once).

    ::

        def handle(record):
            ...

        with KafkaConsumer("orders", group_id="billing", enable_auto_commit=False, ...) as consumer:
            Workers(consumer, handle, order="key", concurrency=100, retry=Retry(attempts=5)).run()

    Args:
        consumer: a ``KafkaConsumer`` with a ``group_id`` and ``enable_auto_commit=False``. Subscribe it before
            :meth:`run`. Offsets of finished records are committed every ``auto_commit_interval_ms``. Or a
            ``KafkaShareConsumer``, with ``order=None``: finished records are accepted.
        handle: called with each record, or with each batch. The record is finished when the function returns. With a
            ``producer`` it may return records to send. Otherwise its value is ignored. For ``run_in="processes"`` it is
            a function of a module, and records, results, exceptions and the function are pickled.
        order: ``"key"`` calls it for the records of a key one after the other. Records without a key have no order
            then. ``"partition"`` does so for those of a partition. None has no order.
        concurrency: most records in work at a time, with ``batch`` most batches.
        run_in: ``"threads"``, ``"processes"`` (as many as there are processors, each with one record at a time), or
            ``"inline"``: in the thread of :meth:`run`, one record after the other.
        retry: how often a record is tried. By default once.
        dead_letters: where records go whose last attempt failed. Without it the workers end with the exception.
        batch: the function gets several records at once, see :class:`Batch`. By default one.
        producer: sends the :class:`ProducerRecord` or the list of them that the function returns. A record is finished
            when its results are acknowledged. It has ``acks="all"``.
        exactly_once: the results, dead letters and offsets of finished records are committed together, in transactions
            of the producer, which has a ``transactional_id``. The consumer has ``isolation_level="read_committed"``.
            There is a transaction every ``auto_commit_interval_ms``, and at least every 100 ms.
        timeout_ms: longest time of a call. In processes, the process is killed and the attempt counts as failed. A
            thread cannot be ended: it is reported in the log and in :meth:`status`.
        max_buffered: most records that are polled and not finished. By default twice ``concurrency``, at least
            ``max_poll_records``. With ``batch`` enough for twice ``concurrency`` batches, but at most 20,000 records.
        max_buffered_bytes: most bytes of keys and values of these. One poll may exceed it.
        on_revoke: ``"wait"`` finishes the running records of partitions before these go to another member.
            ``"abandon"`` gives them up at once: the other member processes them, too.
        revoke_timeout_ms: longest time of that wait, at most half of ``max_poll_interval_ms``. By default 30 s.
        close_timeout_ms: longest time for running records at the end of :meth:`run`.

    Raises:
        ConfigurationError: a setting is out of range, or the consumer does not fit.
    """

    def __init__(
        self,
        consumer: KafkaConsumer[Any, Any] | KafkaShareConsumer[Any, Any],
        handle: Callable[[Any], Any],
        *,
        run_in: RunIn = "threads",
        **settings: Unpack[WorkersSettings],
    ) -> None:
        if not isinstance(consumer, KafkaConsumer | KafkaShareConsumer):
            raise ConfigurationError(
                f"Workers need a KafkaConsumer or a KafkaShareConsumer, not {consumer!r}. For those of asyncio use"
                " AsyncWorkers"
            )
        super().__init__(consumer, handle, **settings)
        if is_coroutine_function(handle):
            raise ConfigurationError(
                f"Workers need a plain function, not the coroutine function {handle!r}, which nobody would await: use"
                " AsyncWorkers"
            )
        check_choice(run_in, "run_in", ("threads", "processes", "inline"))
        self._run_in = run_in
        if run_in == "inline":
            self._at_once = 1
        self._takes_as_they_came = False  # the function gets records as the consumer returned them
        if run_in == "processes":
            try:
                pickle.dumps(handle)
            except Exception as error:
                raise ConfigurationError(
                    f"processes need a function of a module, which can be pickled. {handle!r} cannot: {error}"
                ) from None

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self, *, until_caught_up: bool = False) -> None:
        """Work until :meth:`stop`, or until the end of the partitions.

        Args:
            until_caught_up: return when all records are finished that the assigned partitions had when this member got
                them. A member that has no partition for three heartbeats returns, too.

        Raises:
            Exception: the last attempt of a record failed without dead letters, or its dead letter could not be sent.
                The records that are finished are committed.
            KafkaError: the consumer failed.
            IllegalStateError: it is running already, or ``subscribe`` was called during the work.
        """
        self._begin(time.sleep)
        consumer = self._consumer
        pool = Pool()
        try:
            lent = self._borrow()
            self._takes_as_they_came = self._deserialization is None and self._batch is None
            pool = self._pool()
            if lent is not None:
                lent.listen(_Listener(self, lent.listener))
            if self._transactions is not None:
                run_steps(self._transactions.initialize())
            try:
                if lent is not None and (assigned := consumer.assignment()):
                    run_steps(self.take_over_steps(assigned))
                pool.start()
                self._loop(pool, until_caught_up=until_caught_up)
            except WakeupError:
                pass  # a request to end in good order
            finally:
                self._finish(pool)
        finally:
            self._schedule.close()
            pool.close()
            self._give_back()
            self._is_running = self._stopping = False
        error = self._error_to_raise()
        if error is not None:
            raise error

    def stop(self) -> None:
        """Let :meth:`run` return, after the records that are running.

        Any thread, and a signal handler, may call this. ``consumer.wakeup()`` has the same effect, so
        :func:`pyconsumer.stop_on_signals` ends workers, too.
        """
        self._stopping = True

    def _pool(self) -> Pool:
        if self._run_in == "inline":
            return Pool()
        if self._run_in == "threads":
            return ThreadPool(self._schedule, self._call, self._concurrency, self._timeout)
        return ProcessPool(
            self._schedule,
            self,
            self._handle,
            self._concurrency,
            self._timeout,
            has_results=self._producer is not None,
            client=self._client,
            modules=("pyarrow",) if self._batch is not None and self._batch.form == "arrow" else (),
        )

    def _loop(self, pool: Pool, *, until_caught_up: bool) -> None:
        schedule, consumer = self._schedule, self._consumer
        inline = self._run_in == "inline"
        while not self._stopping and not schedule.closed:
            room = self._wait_for_room(inline=inline)
            poll_ms = self._inline_poll_ms() if inline and schedule.undone else self._poll_ms(room)
            found = consumer.poll(timeout_ms=poll_ms, max_records=room or 1)
            self._take_in(found)
            if inline:
                self._work_inline()
            pool.look()
            if time.monotonic() >= self._next_commit:
                self._commit_finished()
            if self._stop_reading_stopped():
                return
            if until_caught_up and run_steps(self._caught_up_steps()):
                return

    def _wait_for_room(self, *, inline: bool) -> int:
        """Return how many records may be polled. 0: none, and the partitions are paused."""
        schedule = self._schedule
        room = schedule.room(*self._limits)
        if not room and not inline:
            schedule.wait_for_room(*self._limits, self._room_wait_s)
            room = schedule.room(*self._limits)
        return self._apply_room(room)

    def _inline_poll_ms(self) -> float:
        """Return how long a poll may wait while this thread has records to process."""
        due = self._schedule.until_next()
        return 0 if due is None else min(_INLINE_TURN_S, due) * 1000

    def _work_inline(self) -> None:
        schedule = self._schedule
        until = time.monotonic() + _INLINE_TURN_S
        if self._takes_as_they_came and self._producer is None and hooks.active is None:
            self._work_in_runs(until)
            return
        returned: list[tuple[Task, Any]] = []  # several are acknowledged together
        while not self._stopping and time.monotonic() < until:
            with schedule.lock:
                task = schedule.next_task()
            if task is not None:
                self._call(task, returned)
            elif not returned:
                return
            if returned and (task is None or len(returned) >= self._concurrency):
                self.succeeded(returned)
                returned = []
        self.succeeded(returned)

    def _work_in_runs(self, until: float) -> None:
        """Process records until a time, in runs of records that have no order among them."""
        schedule, handle, now = self._schedule, self._handle, time.monotonic
        size, began = 1, now()
        while not self._stopping and began < until:
            tasks = schedule.next_tasks(size)
            if not tasks:
                return
            done = 0
            try:
                for task in tasks:
                    handle(task.record)
                    done += 1
                    if self._stopping or now() >= until:
                        break
            except BaseException as error:
                failed = tasks[done]
                schedule.finish_all(tasks[:done])
                for task in reversed(tasks[done + 1 :]):
                    schedule.give_back(task)
                if not isinstance(error, Exception):
                    schedule.abort(failed, error)
                    raise
                self.after_failure(failed, error)
                size = 1
                began = now()
                continue
            if done < len(tasks):
                for task in reversed(tasks[done:]):
                    schedule.give_back(task)
                tasks = tasks[:done]
            schedule.finish_all(tasks)
            ended = now()
            size = min(_LONGEST_RUN, 2 * size) if ended - began < _RUN_S else 1
            began = ended

    def _call(self, task: Task, returned: list[tuple[Task, Any]] | None = None) -> None:
        """Process a task, in a worker's thread.

        Args:
            task: a record, or a batch.
            returned: takes the task and the value of the function, if that is to be sent later. None sends it now.
        """
        try:
            try:
                record = task.record if self._takes_as_they_came else self.argument(task)
            except Exception as error:
                return self._bury(task, self.undeserialized(task, error))
            value = None
            try:
                if record is not None:
                    value = self._handle(record) if hooks.active is None else self._observed(record)
            except Exception as error:
                return self.after_failure(task, error)
            if record is None:
                self._schedule.leave_out(task)
            elif self._producer is None or value is None:
                self._schedule.finish(task)
            elif returned is not None:
                returned.append((task, value))
            else:
                self.succeeded([(task, value)])
        except BaseException as error:  # of the function, or of a step of ours: never lost in a thread
            self._schedule.abort(task, error)
            if self._run_in == "inline":
                raise

    def _observed(self, record: Any) -> Any:
        with self._processing(record):
            return self._handle(record)

    def argument(self, task: Task) -> Any:
        """Return the argument of the function: a record, a list or a table. None if the consumer skips them all.

        Raises:
            RecordDeserializationError: the record cannot be deserialized. (Those of a batch are dealt with.)
            SchemaUnavailableError: a record waits for its schema.
        """
        if not isinstance(task, BatchTask):
            return self.deserialized(task)
        assert self._batch is not None
        if self._batch.form == "arrow":
            return table_of(task.tasks)
        outcomes: list[Any] = []
        for one in task.tasks:
            try:
                outcomes.append(self.deserialized(one))
            except Exception as error:
                outcomes.append(error)
        records, letters = self._sorted_out(task, outcomes)
        for one, letter in letters:
            self._bury(one, letter)
        return records or None

    def succeeded(self, returned: list[tuple[Task, Any]]) -> None:
        """Send the records that the function has returned for tasks, and finish these.

        Args:
            returned: tasks that run, with the function's value.
        """
        waiting: list[tuple[Task, list[Any]]] = []
        for task, value in returned:
            try:
                results = self._results_of(value)
                if results and self._transactions is None:
                    waiting.append((task, [send_to(self._producer, one) for one in results]))
                else:
                    self._finished(task, results)
            except Exception as error:
                self.after_failure(task, error)
        for task, futures in waiting:
            try:
                for future in futures:
                    future.get()
            except Exception as error:
                self.after_failure(task, error)
            else:
                self._schedule.finish(task)

    def after_failure(self, task: Task, error: Exception) -> None:
        """Deal with a failed attempt, in a worker's thread."""
        self._bury(task, self._failed(task, error))

    def not_deserialized(self, task: Task, error: Exception) -> None:
        """Deal with a record that could not be deserialized, in a worker's thread."""
        self._bury(task, self.undeserialized(task, error))

    def _bury(self, task: Task, letter: Letter | None) -> None:
        """Send a dead letter, if there is one."""
        if letter is None:
            return
        assert self._dead_letters is not None
        try:
            self._dead_letters.deliver(letter)
        except Exception as failure:
            self._not_buried(task, failure)
        else:
            self._buried(task)

    # -- commits and rebalances ----------------------------------------------------------------------------------------

    def _commit_finished(self) -> None:
        if self._transactions is not None:
            run_steps(self._transaction())
            self._plan_commit()
            return
        offsets = self._due_offsets()
        if offsets:
            self._consumer.commit_async(offsets, self._committed)

    def _committed(self, offsets: Any, error: Exception | None) -> None:
        if error is not None:
            self._commit_failed(error)

    def _wait_running(self, partitions: Collection[TopicPartition] | None, seconds: float) -> bool:
        if self._run_in == "inline":  # what runs is the function that has called us, by close() or unsubscribe()
            return not self._schedule.running(partitions)
        return self._schedule.wait_running(partitions, seconds)

    def _finish(self, pool: Pool) -> None:
        """Wait for running records, commit, and seek back to the unfinished ones."""
        schedule = self._schedule
        schedule.close()
        if self._run_in != "inline" and not run_steps(self._wait_at_end_steps(self._close_timeout)):
            _log.warning("records still run after %d ms, they are processed again", self._close_timeout * 1000)
        if self._consumer_is_closed:
            schedule.forget_all()
            return
        try:
            run_steps(self._commit_steps())
        finally:
            self._go_back()


class _Listener(ConsumerRebalanceListener):
    """Rule 5 of :mod:`.common`."""

    def __init__(self, workers: Workers, users: ConsumerRebalanceListener | None) -> None:
        self._workers = workers
        self._users = users
        if users is not None and getattr(users, "before_first_join", False):
            self.before_first_join = True

    def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:
        if self._users is not None:
            self._users.on_partitions_assigned(assigned)
        if assigned:
            run_steps(self._workers.take_over_steps(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:
        if revoked:
            run_steps(self._workers.give_up_steps(revoked))
        if self._users is not None:
            self._users.on_partitions_revoked(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition], /) -> None:
        self._workers.drop(lost)
        if self._users is not None:
            self._users.on_partitions_lost(lost)
