"""The common part of workers in threads, processes and tasks: checks, and the failure of a record.

Rules

1. The consumer is used by one thread (or task): the one in ``run``. It polls, takes part in rebalances, and commits.
2. A commit has the offset below which all records of a partition are finished. Its metadata names the finished ones
   above it.
3. Before partitions are revoked, their running records are waited for (``on_revoke="wait"``), at most for
   ``revoke_timeout_ms``. Then their finished offsets are committed, and the partitions are dropped. Results that come
   later are ignored. ``"abandon"`` does not wait.
4. Records are polled only as far as there is room for them. Without room the partitions are held back, and polls
   continue, so the member stays in its group however slow the function is. The user's pauses are apart, and stay. While
   fewer than ``concurrency`` records can be in work, because of their order, each partition has its part of the room
   (:mod:`.parts`).
5. The user's rebalance listener is called, too. For revoked and lost partitions it comes after the workers, when their
   records are finished and committed. For assigned partitions it comes first, so it may seek.
6. Deserialization happens where the function runs. So a record that cannot be deserialized is treated like one whose
   last attempt failed, and dead letters have the bytes that came.
7. A worker that needs a schema waits for it. While the registry is down, its records wait, and no attempt counts.
8. At the end the consumer seeks back to the unfinished records, so it may be used again.
9. With ``exactly_once`` the offsets are committed in transactions, with the results (:mod:`.transactions`). Their
   metadata names no finished records: the results of those are not sent yet.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, NamedTuple, TypedDict

from pyconsumer.consumer.calls import LentConsumer
from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.calls import ShareCalls
from pyconsumer.errors import (
    ConfigurationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    RecordDeserializationError,
    SchemaUnavailableError,
    WakeupError,
)
from pyconsumer.exactly_once import check_consumer
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from pyconsumer.telemetry import Client, processing
from pyconsumer.workers.batches import BatchSchedule, BatchTask, tasks_of
from pyconsumer.workers.dead_letters import DeadLetters, Letter, safe_text
from pyconsumer.workers.parts import Parts
from pyconsumer.workers.results import ProducerRecord, check_producer, records_of
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Batch, OnRevoke, Order, Retry, check_choice, check_count, check_time
from pyconsumer.workers.share_schedule import ShareBatchSchedule, ShareSchedule
from pyconsumer.workers.share_work import ShareWork
from pyconsumer.workers.steps import CallSteps
from pyconsumer.workers.transactions import LONGEST_INTERVAL_S, Transactions

__all__ = ["OldestRecord", "UnfinishedRecord", "WorkersBase", "WorkersSettings", "WorkersStatus", "copy_of"]

_log = logging.getLogger("pyconsumer.workers")

#: The most records of a poll of a share consumer: all that are acquired, since their locks have begun.
_ALL_ACQUIRED: Final = 1 << 30
#: Longest time without a poll while there is no room (seconds).
_BETWEEN_POLLS_S: Final = 0.2
_POLL_MS: Final = 200
_LONGEST_REVOKE_WAIT_MS: Final = 30_000
#: Pause before a record is tried again whose registry is down (seconds).
_SCHEMA_PAUSE_S: Final = 1.0
#: Heartbeats in the group without a partition, after which a member has nothing to catch up with. With cooperative
#: assignors, a new member gets its partitions in the rebalance after its first one.
_HEARTBEATS_WITHOUT_PARTITION: Final = 3
#: With batches, the records that are polled and not finished by default, unless one batch has more.
_MOST_IN_BATCHES: Final = 20_000
#: Polls of a partition whose times are kept. Of more than that every second one is forgotten, but not the oldest.
_MOST_POLLS: Final = 1_000


class WorkersSettings(TypedDict, total=False):
    """The settings that :class:`.Workers` and :class:`.AsyncWorkers` share. ``Workers`` documents them."""

    order: Order
    concurrency: int
    retry: Retry | None
    dead_letters: DeadLetters | None
    batch: Batch | None
    producer: Any
    exactly_once: bool
    timeout_ms: float | None
    max_buffered: int | None
    max_buffered_bytes: int
    on_revoke: OnRevoke
    revoke_timeout_ms: float | None
    close_timeout_ms: float


class OldestRecord(NamedTuple):
    """The running record of a partition with the lowest offset, and for how many ms it has been running."""

    offset: int
    running_ms: float


class UnfinishedRecord(NamedTuple):
    """The record of a partition with the lowest offset that is not finished, and how many ms ago it was polled."""

    offset: int
    age_ms: float


class WorkersStatus(NamedTuple):
    """A snapshot of the work.

    Attributes:
        running: records that a function has right now.
        waiting: records that wait for their turn.
        retrying: records that failed and wait for their next attempt.
        finished: records that are done since ``run`` began, dead letters included.
        dead: dead letters among them.
        retries: attempts that failed and were repeated.
        oldest: by partition, the oldest running record.
        unfinished: by partition, the oldest record that is not finished, running or not. Its partition is committed up
            to it.
        held: records whose results wait for their transaction, with ``exactly_once``.
        stopped: partitions that were stopped by an error that dead letters could not take, with the error.
        per_second: finished records per second since ``run`` began.
    """

    running: int
    waiting: int
    retrying: int
    finished: int
    dead: int
    retries: int
    oldest: dict[TopicPartition, OldestRecord]
    unfinished: dict[TopicPartition, UnfinishedRecord]
    held: int
    stopped: dict[TopicPartition, BaseException]
    per_second: float


class WorkersBase:
    """Settings and state of workers. See :class:`pyconsumer.workers.Workers` for the arguments."""

    _name = "Workers"
    _is_async = False
    #: Waits until no record of some partitions runs (None: of all), for some seconds at most. The value is False if the
    #: time ran out.
    _wait_running: Callable[[Collection[TopicPartition] | None, float], Any]

    def __init__(
        self,
        consumer: Any,
        handle: Callable[[Any], Any],
        *,
        order: Order = "key",
        concurrency: int = 100,
        retry: Retry | None = None,
        dead_letters: DeadLetters | None = None,
        batch: Batch | None = None,
        producer: Any = None,
        exactly_once: bool = False,
        timeout_ms: float | None = None,
        max_buffered: int | None = None,
        max_buffered_bytes: int = 64 << 20,
        on_revoke: OnRevoke = "wait",
        revoke_timeout_ms: float | None = None,
        close_timeout_ms: float = 30_000,
    ) -> None:
        config = consumer.config
        self._is_share = isinstance(consumer, ShareCalls)
        if self._is_share:
            if order is not None:
                raise ConfigurationError(
                    "a share group has no order among its members: set order=None (the default is 'key')"
                )
            if exactly_once:
                raise ConfigurationError(
                    "a share group has no offsets that a transaction could commit: exactly_once needs a consumer group"
                )
        elif config.group_id is None:
            raise ConfigurationError(f"{self._name} need a consumer with a group_id, to commit finished records")
        elif config.enable_auto_commit:
            raise ConfigurationError(
                f"{self._name} need a consumer with enable_auto_commit=False: automatic commits would include records"
                " that are not finished"
            )
        if not callable(handle):
            raise ConfigurationError(f"the function must be callable, not {handle!r}")
        check_choice(order, "order", ("key", "partition", None))
        check_choice(on_revoke, "on_revoke", ("wait", "abandon"))
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError(f"retry must be a Retry, not {retry!r}")
        if dead_letters is not None:
            if not isinstance(dead_letters, DeadLetters):
                raise ConfigurationError(f"dead_letters must be a DeadLetters, not {dead_letters!r}")
            if dead_letters.is_async != self._is_async:
                wanted = "an AsyncKafkaProducer" if self._is_async else "a KafkaProducer"
                raise ConfigurationError(f"the dead letters of {self._name} need {wanted}")
        if batch is not None and not isinstance(batch, Batch):
            raise ConfigurationError(f"batch must be a Batch, not {batch!r}")
        check_producer(producer, dead_letters, on_loop=self._is_async, exactly_once=exactly_once)
        if exactly_once:
            check_consumer(consumer)
        self._batch = batch
        self._producer = producer
        self._exactly_once = exactly_once
        self._transactions: Transactions | None = None
        self._consumer: Any = consumer
        self.config = config  # for log_fields
        self._client = Client(config.client_id, config.group_id)
        self._handle = handle
        self._order: Order = order
        self._concurrency = self._at_once = check_count(concurrency, "concurrency")
        self._retry = retry or Retry()
        self._dead_letters = dead_letters
        self._timeout = None if timeout_ms is None else check_time(timeout_ms, "timeout_ms")
        self._most_records = (
            self._usual_buffer(int(config.max_poll_records))
            if max_buffered is None
            else check_count(max_buffered, "max_buffered")
        )
        self._most_bytes = check_count(max_buffered_bytes, "max_buffered_bytes")
        self._waits = on_revoke == "wait"
        revoke_timeout = check_time(
            _LONGEST_REVOKE_WAIT_MS if revoke_timeout_ms is None else revoke_timeout_ms, "revoke_timeout_ms"
        )
        self._revoke_timeout = min(revoke_timeout, config.max_poll_interval_ms / 2000)
        self._close_timeout = check_time(close_timeout_ms, "close_timeout_ms")
        self._commit_interval = math.inf if self._is_share else config.auto_commit_interval_ms / 1000
        if exactly_once:
            self._commit_interval = min(self._commit_interval, LONGEST_INTERVAL_S)
        self._schedule = self._new_schedule()
        self._deserialization: Deserialization | None = None
        self._stopping = False
        self._is_running = False
        self._commit_again = False  # the last one failed
        self._lent: LentConsumer | None = None
        self._share: ShareWork | None = None  # with a share consumer
        self._pause: Callable[[float], Any] = time.sleep
        self._held_back: set[TopicPartition] = set()
        self._parts = Parts(self._most_records)
        self._held_back_stopped: set[TopicPartition] = set()
        self._dead = 0
        self._began = 0.0
        self._next_commit = 0.0
        self._ends: dict[TopicPartition, int] = {}
        self._without_partition: tuple[int, float] | None = None  # in which generation, since when
        self._polled: dict[TopicPartition, list[tuple[int, float]]] = {}  # ends of polls, and when they came

    def _usual_buffer(self, max_poll_records: int) -> int:
        most = max(2 * self._concurrency, max_poll_records)
        if self._batch is not None:
            size = self._batch.max
            most = max(most, min(2 * size * self._concurrency, max(2 * size, _MOST_IN_BATCHES)))
        return most

    def _new_schedule(self) -> Schedule:
        return self._schedule_with(None)

    def _schedule_with(self, on_ready: Callable[[int], None] | None) -> Schedule:
        if self._batch is None:
            kind = ShareSchedule if self._is_share else Schedule
            return kind(self._order, self._retry, time.monotonic, on_ready)
        of_batches = ShareBatchSchedule if self._is_share else BatchSchedule
        return of_batches(
            self._order,
            self._retry,
            time.monotonic,
            on_ready,
            batch=self._batch,
            one_partition=self._exactly_once,
        )

    def status(self) -> WorkersStatus:
        """Return a snapshot of the work. Any thread may call this, at any time.

        Example::

            print(workers.status().oldest)
        """
        schedule = self._schedule
        running, waiting, retrying = schedule.counts()
        lasted = time.monotonic() - self._began if self._began else 0.0
        return WorkersStatus(
            running=running,
            waiting=waiting,
            retrying=retrying,
            finished=schedule.finished,
            dead=self._dead,
            retries=schedule.retries,
            oldest={tp: OldestRecord(offset, age * 1000) for tp, (offset, age) in schedule.oldest().items()},
            unfinished=self._unfinished(),
            held=self._transactions.count if self._transactions is not None else 0,
            stopped=schedule.stopped(),
            per_second=schedule.finished / lasted if lasted > 0 else 0.0,
        )

    def _unfinished(self) -> dict[TopicPartition, UnfinishedRecord]:
        now = time.monotonic()
        found = {}
        schedule = self._schedule
        if isinstance(schedule, ShareSchedule):
            return {tp: UnfinishedRecord(offset, age * 1000) for tp, (offset, age) in schedule.unfinished().items()}
        for tp, offset in schedule.progress.unfinished().items():
            # The poll that brought it is the first one that ended behind it.
            polls = [polled for end, polled in list(self._polled.get(tp, ())) if end > offset]
            found[tp] = UnfinishedRecord(offset, (now - polls[0]) * 1000 if polls else 0.0)
        return found

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the figures of :meth:`status` as metrics, in the form of the consumer's. Any thread may call this.

        Example::

            workers.metrics()["worker-metrics"]["records-running"]
        """
        status = self.status()
        running = max((one.running_ms for one in status.oldest.values()), default=0.0)
        unfinished = max((one.age_ms for one in status.unfinished.values()), default=0.0)
        return {
            "worker-metrics": {
                "records-running": float(status.running),
                "records-waiting": float(status.waiting),
                "records-retrying": float(status.retrying),
                "records-held": float(status.held),
                "records-finished-total": float(status.finished),
                "records-finished-rate": status.per_second,
                "dead-letters-total": float(status.dead),
                "retries-total": float(status.retries),
                "oldest-running-age-ms": running,
                "oldest-unfinished-age-ms": unfinished,
                "partitions-stopped": float(len(status.stopped)),
            }
        }

    def _begin(self, pause: Callable[[float], Any]) -> None:
        if self._is_running:
            raise IllegalStateError("run() is at work already: stop() ends it")
        self._is_running = True
        self._pause = pause
        self._schedule = self._new_schedule()
        self._dead = 0
        self._began = time.monotonic()
        self._next_commit = self._began + self._commit_interval
        self._ends.clear()
        self._without_partition = None
        self._polled.clear()
        self._transactions = Transactions(self._producer, self, pause) if self._exactly_once else None
        self._share = None

    def _borrow(self) -> LentConsumer | None:
        """Take the consumer, until :meth:`_give_back`. None: it is a share consumer."""
        schedule = self._schedule
        if isinstance(schedule, ShareSchedule):
            self._share = ShareWork(self._consumer, schedule, self._dead_letters, self._count_dead, self._pause)
            self._deserialization = self._share.lent.deserialization
            return None
        self._lent = LentConsumer(self._consumer)
        self._deserialization = self._lent.deserialization
        return self._lent

    def _give_back(self) -> None:
        lent, self._lent = self._lent, None
        share, self._share = self._share, None
        if lent is not None:
            lent.give_back()
        if share is not None:
            share.lent.give_back()

    @property
    def _consumer_is_closed(self) -> bool:
        lent = self._lent if self._share is None else self._share.lent
        assert lent is not None
        return lent.is_closed

    def _count_dead(self) -> None:
        self._dead += 1

    # -- steps of the loop that never wait -----------------------------------------------------------------------------

    @property
    def _limits(self) -> tuple[int, int]:
        """The most records that may be unfinished, and the most bytes. Records whose results are held count, too."""
        held = self._transactions
        if held is None:
            return self._most_records, self._most_bytes
        return self._most_records - held.count, self._most_bytes - held.size

    @property
    def _before_commit_s(self) -> float:
        """The seconds until the next commit is due."""
        return max(0.0, self._next_commit - time.monotonic())

    @property
    def _room_wait_s(self) -> float:
        """The longest time to wait for room. A transaction may make room, so its time is kept."""
        return _BETWEEN_POLLS_S if self._transactions is None else min(_BETWEEN_POLLS_S, self._before_commit_s)

    def _poll_ms(self, room: int) -> float:
        """Return how long a poll may wait, with room for so many records."""
        if not room or self._parts.leaves_out:
            return 0
        if self._transactions is None or not self._transactions.count:
            return _POLL_MS
        return min(_POLL_MS, self._before_commit_s * 1000)

    def _apply_room(self, room: int) -> int:
        """Hold back the partitions without room, and no others. Return how many records may be polled."""
        consumer, lent = self._consumer, self._lent
        if self._share is not None:
            self._share.before_poll(is_full=not room)
            return _ALL_ACQUIRED if room else 0
        assert lent is not None
        left_out, most = self._plan() if room else (consumer.assignment(), 0)
        self._parts.poll_begins(leaves_out=bool(room and left_out))
        resumed = self._held_back - left_out
        if resumed:
            lent.hold_back(resumed - self._schedule.stopped().keys(), False)
            self._held_back -= resumed
        fresh = left_out - self._held_back
        if fresh:
            lent.hold_back(fresh, True)
            self._held_back |= fresh
        return min(room, most, int(consumer.config.max_poll_records))

    def _plan(self) -> tuple[set[TopicPartition], int]:
        """Return the partitions that the next poll leaves out, and how many records it may bring (rule 4)."""
        schedule, now = self._schedule, time.monotonic()
        if self._order is None or self._at_once == 1 or self._parts.is_quick(schedule.finished, now):
            return set(), self._most_records
        held = schedule.held_by_partition(self._at_once)
        if held is None:
            return set(), self._most_records
        consumer = self._consumer
        return self._parts.plan(held, consumer.assignment() - consumer.paused(), now)

    def _take_in(self, found: ConsumerRecords[Any, Any]) -> None:
        """Take over the result of a poll.

        Raises:
            IllegalStateError: ``subscribe`` was called during the work.
        """
        if self._share is not None:
            self._share.after_poll()
            return
        ends = found.next_offsets()
        if not ends:
            self._parts.nothing_came(time.monotonic())
        if found or ends:  # offsets without records count, too
            self._note_polled(ends)
            self._schedule.add(found)
        if self._lent is None or not self._lent.is_listening:
            raise IllegalStateError("subscribe() was called while workers run: stop() them before")

    def _note_polled(self, ends: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep when records came, for the age of the oldest one."""
        now = time.monotonic()
        for tp, end in ends.items():
            polls = self._polled.setdefault(tp, [])
            if len(polls) >= _MOST_POLLS:
                del polls[1::2]
            polls.append((end.offset, now))

    def _forget_polls(self, taken: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for tp, found in taken.items():
            polls = self._polled.get(tp)
            if polls and polls[0][0] <= found.offset:
                self._polled[tp] = [poll for poll in polls if poll[0] > found.offset]

    def _stop_reading_stopped(self) -> bool:
        """Hold back stopped partitions. Return True if no other one is left."""
        stopped = set(self._schedule.stopped())
        if not stopped:
            return False
        assigned: set[TopicPartition] = self._consumer.assignment()
        fresh = (stopped & assigned) - self._held_back_stopped
        if fresh and self._lent is not None:
            self._lent.hold_back(fresh, True)
            self._held_back_stopped |= fresh
        return bool(assigned) and assigned <= stopped

    def _is_without_partition(self, assigned: Collection[TopicPartition]) -> bool:
        """Return True if the group has accepted this member, and still has no partition for it."""
        generation = self._consumer.group_metadata().generation_id
        if assigned or generation < 0:
            self._without_partition = None
            return False
        now = time.monotonic()
        if self._without_partition is None or self._without_partition[0] != generation:
            self._without_partition = generation, now
        least: float = _HEARTBEATS_WITHOUT_PARTITION * self._consumer.config.heartbeat_interval_ms / 1000
        return now - self._without_partition[1] >= least

    def _due_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the commit of this interval has to write."""
        self._next_commit = time.monotonic() + self._commit_interval
        again, self._commit_again = self._commit_again, False
        taken = self._schedule.progress.take(again=again)
        self._forget_polls(taken)
        return taken

    def _transaction(self, *, is_last: bool = False) -> CallSteps[bool]:
        """Return the steps of the transaction that is due.

        Args:
            is_last: True if it is repeated until it succeeds, as the work ends.
        """
        transactions, consumer = self._transactions, self._consumer
        assert transactions is not None
        steps = transactions.commit_all if is_last else transactions.commit
        offsets = self._schedule.progress.take(again=True)
        self._forget_polls(offsets)
        return steps(offsets, consumer.group_metadata(), in_group=bool(consumer.subscription()))

    def _plan_commit(self) -> None:
        """Set the time of the next transaction."""
        assert self._transactions is not None
        self._next_commit = time.monotonic() + max(self._commit_interval, self._transactions.pause_s)

    def _all_offsets(self, only: Collection[TopicPartition] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what may be committed, of some partitions or of all."""
        offsets = self._schedule.progress.take(again=True)
        return offsets if only is None else {tp: found for tp, found in offsets.items() if tp in only}

    def _commit_failed(self, error: Exception) -> None:
        self._commit_again = True
        if isinstance(error, OffsetMetadataTooLargeError):
            self._schedule.progress.drop_metadata()
        if not isinstance(error, RebalanceInProgressError):
            _log.warning("finished records could not be committed, the next commit has them: %s", error)

    def _restore(
        self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> None:
        for tp in partitions:
            found = committed.get(tp)
            self._schedule.restore(tp, found if self._transactions is None else None)  # rule 9
            if self._transactions is not None:
                self._transactions.restore(tp, found)
            self._ends.pop(tp, None)
            self._polled.pop(tp, None)

    def _warn_of_running(self, partitions: Collection[TopicPartition]) -> None:
        _log.warning(
            "records of %s still run, and are not waited for any longer: the next owner processes them, too",
            sorted(map(str, partitions)),
        )

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that went away."""
        self._schedule.drop(partitions)
        if self._transactions is not None:
            self._transactions.drop(partitions)
        for tp in partitions:
            self._polled.pop(tp, None)
        self._held_back.difference_update(partitions)
        self._held_back_stopped.difference_update(partitions)

    def _go_back(self) -> None:
        """Seek back to the unfinished records, and hold back no partition. The work has ended."""
        consumer, schedule = self._consumer, self._schedule
        if self._share is not None:
            schedule.forget_all()
            return
        assigned = consumer.assignment()
        firsts = schedule.progress.unfinished()
        if self._transactions is not None:  # what was not committed is processed again, with its results
            for tp, held in self._transactions.first_held().items():
                firsts[tp] = min(held, firsts.get(tp, held))
            self._transactions.drop(list(firsts))
        for tp, first in firsts.items():
            if tp in assigned:
                consumer.seek(tp, first)
        if self._lent is not None:
            self._lent.hold_back(self._held_back | self._held_back_stopped, False)
        self._held_back.clear()
        self._held_back_stopped.clear()
        schedule.forget_all()  # a task that still runs is of no more concern

    # -- steps that wait -----------------------------------------------------------------------------------------------

    def _wait_at_end_steps(self, seconds: float) -> CallSteps[bool]:
        """Wait until no function runs, at the end. The value is False if the time ran out."""
        if self._share is not None and not self._consumer_is_closed:
            return (yield from self._share.wait_steps(self._wait_running, seconds))
        return bool((yield partial(self._wait_running, None, seconds)))

    def _commit_steps(self, only: Collection[TopicPartition] | None = None) -> CallSteps[None]:
        """Commit what is finished, of some partitions or of all, and wait for it."""
        if self._share is not None:
            yield from self._share.end_steps(self._close_timeout)
            return
        if self._transactions is not None:
            yield from self._transaction(is_last=only is None)
            return
        offsets = self._all_offsets(only)
        while offsets:
            try:
                yield partial(self._consumer.commit, offsets)
            except WakeupError:
                continue  # once for each wakeup
            except KafkaError as error:
                _log.warning("finished records could not be committed, they are processed again: %s", error)
            return

    def take_over_steps(self, partitions: Collection[TopicPartition]) -> CallSteps[None]:
        """Begin with partitions that were assigned."""
        try:
            committed = yield partial(self._consumer.committed, partitions, metadata=True)
        except KafkaTimeoutError as error:  # records of gaps are processed again, no more
            _log.warning("which records are finished is not known: %s", error)
            committed = {}
        self._restore(partitions, committed)

    def give_up_steps(self, partitions: Collection[TopicPartition]) -> CallSteps[None]:
        """End the work on partitions that are revoked."""
        self._schedule.hold(partitions)
        if self._waits and not (yield partial(self._wait_running, partitions, self._revoke_timeout)):
            self._warn_of_running(partitions)
        yield from self._commit_steps(partitions)
        self.drop(partitions)

    def _caught_up_steps(self) -> CallSteps[bool]:
        """Return True if all records are finished that the partitions had when this member got them."""
        if self._share is not None:
            return self._share.is_caught_up
        consumer = self._consumer
        assigned = consumer.assignment()
        if self._is_without_partition(assigned):
            return True
        if not assigned:
            return False
        missing = assigned - self._ends.keys()
        if missing:
            self._ends |= yield partial(consumer.end_offsets, missing)
        firsts = self._schedule.progress.unfinished()
        for tp in assigned - set(self._schedule.stopped()):
            end = self._ends[tp]  # later records may be unfinished
            if firsts.get(tp, end) < end or (yield partial(consumer.position, tp)) < end:
                return False
        return True

    # -- one record ----------------------------------------------------------------------------------------------------

    def deserialized(self, task: Task) -> ConsumerRecord[Any, Any] | None:
        """Return the record for the function, None if the consumer's ``on_record_error`` skips it.

        Raises:
            RecordDeserializationError: it cannot be deserialized.
        """
        convert = self._deserialization
        if convert is None:
            return task.record
        # In several threads at once: it has no state but a counter, and deliveries to a sink behind a lock.
        found, _, error = convert.now([copy_of(task.record)])
        if error is not None:
            raise error
        return found[0] if found else None

    def _sorted_out(
        self, batch: BatchTask, outcomes: Collection[ConsumerRecord[Any, Any] | Exception | None]
    ) -> tuple[list[ConsumerRecord[Any, Any]], list[tuple[Task, Letter]]]:
        """Leave the records out of a batch that cannot be deserialized, or that the consumer skips.

        Args:
            batch: becomes smaller by them.
            outcomes: for each record, the record for the function, the error, or None if it is skipped.

        Returns:
            The records for the function, and the dead letters to send.

        Raises:
            SchemaUnavailableError: a record waits for its schema, so that the batch has to wait.
        """
        for outcome in outcomes:
            if isinstance(outcome, SchemaUnavailableError):
                raise outcome
        records: list[ConsumerRecord[Any, Any]] = []
        letters: list[tuple[Task, Letter]] = []
        tasks = list(zip(batch.tasks, outcomes, strict=True))
        batch.keep([task for task, outcome in tasks if not isinstance(outcome, Exception | None)])
        for task, outcome in tasks:
            if outcome is None:
                self._schedule.leave_out(task)
            elif isinstance(outcome, Exception):
                letter = self.undeserialized(task, outcome)
                if letter is not None:
                    letters.append((task, letter))
            else:
                records.append(outcome)
        return records, letters

    def _results_of(self, value: Any) -> list[ProducerRecord]:
        """Return the records to produce that a function has returned.

        Raises:
            TypeError: it is another value.
        """
        return records_of(value) if self._producer is not None else []

    def _processing(self, record: Any) -> AbstractContextManager[object]:
        """Return the context manager around a call of the function, for its observers."""
        return processing(self._client, record) if self._is_share else self._consumer.processing(record)

    def _finished(self, task: Task, results: list[ProducerRecord]) -> None:
        """Note that a task is done. With ``exactly_once``, its results wait for their transaction."""
        if results and self._transactions is not None:
            self._transactions.hold(tasks_of(task), results)
        self._schedule.finish(task)

    def undeserialized(self, task: Task, error: Exception) -> Letter | None:
        """Deal with a record that could not be deserialized. The result is that of :meth:`_failed`."""
        if isinstance(error, SchemaUnavailableError):
            _log.warning("%s waits for its schema: %s", _place(task), error)
            if error.retriable:
                self._schedule.postpone(task, _SCHEMA_PAUSE_S)
            else:
                self._schedule.abort(task, error)
            return None
        return self._failed(task, error, for_good=isinstance(error, RecordDeserializationError))

    def _failed(self, task: Task, error: Exception, *, for_good: bool = False) -> Letter | None:
        """Deal with a failed attempt.

        Args:
            task: the record's.
            error: the exception.
            for_good: True if the record cannot be deserialized, so that no repetition helps.

        Returns:
            The dead letter to send, after which :meth:`_buried` follows. None if there is no more to do.
        """
        now = int(time.time() * 1000)
        if isinstance(task, BatchTask):
            if len(task.tasks) > 1:
                _log.info(
                    "%s failed with %d records, each is tried alone: %s",
                    _place(task),
                    len(task.tasks),
                    safe_text(error),
                )
                self._schedule.split(task)  # type: ignore[attr-defined]
                return None
            task = task.tasks[0]
        if self._schedule.fail(task, error, now, for_good=for_good):
            _log.info("%s failed and is tried again: %s", _place(task), safe_text(error))
            return None
        letters = self._dead_letters
        if letters is None:
            _log.error("%s failed for the last time, and the workers end: %s", _place(task), safe_text(error))
            error.add_note(f"{_place(task)} failed for the last time. dead_letters would take the record")
            self._schedule.abort(task, error)
            return None
        _log.warning(
            "%s failed for the last time, and its dead letter is sent to %s: %s",
            _place(task),
            letters.topic,
            safe_text(error),
        )
        if for_good and isinstance(error, RecordDeserializationError):
            letter = letters.of_error(error, now)
        else:
            letter = letters.of_record(task.record, error, task.attempt, task.failed_at)
        if self._transactions is None:
            return letter
        self._transactions.hold([task], [_as_result(letters, letter)], is_letter=True)
        self._buried(task)
        return None

    def refused(self, task: Task, error: Exception) -> ProducerRecord:
        """Return the dead letter of a record whose results the broker refuses. Transactions call this.

        Raises:
            Exception: the error, if there are no dead letters.
        """
        letters = self._dead_letters
        _log.warning("%s has results that are refused: %s", _place(task), safe_text(error))
        if letters is None:
            raise error
        self._dead += 1
        now = int(time.time() * 1000)
        return _as_result(letters, letters.of_record(task.record, error, task.attempt, now))

    def _buried(self, task: Task) -> None:
        """The dead letter of a record was acknowledged."""
        self._dead += 1
        self._schedule.leave_out(task)

    def _not_buried(self, task: Task, error: Exception) -> None:
        """The dead letter of a record could not be sent."""
        if self._dead_letters is not None:
            place = f"{task.share.tp} offset {task.record.offset}"
            error.add_note(f"the dead letter of {place} could not be sent to {self._dead_letters.topic}")
        if isinstance(self._schedule, ShareSchedule):
            _log.error("%s is released, since its dead letter could not be sent: %s", _place(task), error)
            for one in tasks_of(task):
                self._schedule.release(one)
            self._schedule.abort_all(error)
            return
        _log.error(
            "%s is stopped at offset %d: its dead letter could not be sent: %s",
            task.share.tp,
            task.record.offset,
            error,
        )
        self._schedule.stop_partition(task, error)

    def _error_to_raise(self) -> BaseException | None:
        schedule = self._schedule
        return schedule.failure or next(iter(schedule.stopped().values()), None)


def copy_of(record: ConsumerRecord[Any, Any]) -> ConsumerRecord[Any, Any]:
    """Return a copy of a record. The compiled conversion changes a record in place, and a retry needs the bytes."""
    return record.deserialized(record.key, record.value)


def _as_result(letters: DeadLetters, letter: Letter) -> ProducerRecord:
    key, value, headers = letter
    return ProducerRecord(letters.topic, value, key, headers)


def _place(task: Task) -> str:
    return f"{task.share.tp} offset {task.record.offset}, attempt {task.attempt},"
