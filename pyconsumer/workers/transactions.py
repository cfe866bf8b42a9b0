"""Exactly once: results, dead letters and offsets of finished records in one transaction (KIP-98, KIP-447).

Rules

1. Results are not sent when the function returns. They are held until the record is below the offset that may be
   committed: all records of the partition before it are finished. So a transaction has whole finished prefixes.
2. A transaction is begun and ended by the thread (or task) of the consumer, between two polls or before partitions are
   revoked. None is open while the group assigns partitions. So the next owner finds all of a prefix or none of it.
3. A record whose function failed for the last time has its dead letter in the place of its results.
4. If the broker or the producer refuses a result, the transaction is aborted. It is repeated with the dead letter of
   that record in the place of its results. Without dead letters, the workers end with the error.
5. A transaction that fails for another reason is aborted and repeated with the same results, after a pause. The
   function is not called again. After :data:`RETRIES` failures in a row, the workers end with the error.
6. Offsets are committed with the consumer's generation. A member that was expelled is refused, and its transaction is
   aborted. A member that does not know its generation commits nothing.
7. Results of partitions that went away are dropped, also those that a slow function brings later.
8. A batch belongs to one partition. A prefix that would cut it in two ends before it.
9. If Ctrl-C or a cancellation ends the wait for a commit, its outcome is not known. The next commit learns it first, by
   calling ``commit_transaction`` again.

Each call that waits is yielded (:mod:`.steps`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from pyconsumer.errors import (
    ApplicationRecoverableError,
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RetriableError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pyconsumer.workers.results import ProducerRecord, send_to
from pyconsumer.workers.schedule import Task
from pyconsumer.workers.steps import CallSteps

__all__ = ["LONGEST_INTERVAL_S", "RETRIES", "Transactions"]

_log = logging.getLogger("pyconsumer.workers")

#: Longest time between two transactions while there are results (seconds), as Kafka Streams has it by default.
LONGEST_INTERVAL_S: Final = 0.1
#: Failures in a row after which the workers end.
RETRIES: Final = 5
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_FIXED_BYTES: Final = 64  # of a result, beside key and value


class _Unit:
    """Records that were processed together, and their results.

    Attributes:
        tasks: a record, or those of a batch, all of one partition.
        records: their results.
        is_letter: True if these are dead letters.
    """

    __slots__ = ("first", "is_letter", "last", "records", "size", "tasks")

    def __init__(self, tasks: Sequence[Task]) -> None:
        offsets = [task.record.offset for task in tasks]
        self.first, self.last = min(offsets), max(offsets)
        self.tasks = list(tasks)

    def keep(self, records: list[ProducerRecord], *, is_letter: bool) -> None:
        """Take these records in the place of others."""
        self.records = records
        self.is_letter = is_letter
        self.size = sum(_FIXED_BYTES + _size(one.key) + _size(one.value) for one in records)


class _Owner(Protocol):
    """The part of the workers that transactions need."""

    def refused(self, task: Task, error: Exception) -> ProducerRecord:
        """Return the dead letter of a record whose results were refused. Raise the error if there are none."""
        ...


class _Refused(Exception):
    """The results of a unit were refused."""

    def __init__(self, unit: _Unit, error: Exception) -> None:
        super().__init__(str(error))
        self.unit = unit
        self.error = error


class Transactions:
    """Results of finished records that wait for their transaction. :meth:`hold` may be called from any thread.

    Args:
        producer: has a ``transactional_id``.
        owner: the workers.
        pause: waits for some seconds, ``time.sleep`` or ``asyncio.sleep``.

    Attributes:
        count, size: the records whose results are held, and the bytes of these.
        broken: True after an error that ends the producer.
        committed: the transactions that were committed.
    """

    def __init__(self, producer: Any, owner: _Owner, pause: Callable[[float], Any]) -> None:
        self._producer = producer
        self._owner = owner
        self._pause = pause
        self._lock = threading.Lock()
        self._held: dict[TopicPartition, list[_Unit]] = {}
        self._positions: dict[TopicPartition, int] = {}  # committed
        self._failures = 0
        self._must_abort = False  # the last abort was not confirmed
        self._unknown: tuple[list[_Unit], Mapping[TopicPartition, OffsetAndMetadata]] | None = None  # rule 9
        self.count = 0
        self.size = 0
        self.committed = 0
        self.broken = False

    # -- by the workers ------------------------------------------------------------------------------------------------

    def hold(self, tasks: Sequence[Task], records: list[ProducerRecord], *, is_letter: bool = False) -> None:
        """Keep the results of records. Call this before the records count as finished."""
        unit = _Unit(tasks)
        unit.keep(records, is_letter=is_letter)
        share = tasks[0].share
        with self._lock:
            if not share.alive:
                return
            self._held.setdefault(share.tp, []).append(unit)
            self.count += len(tasks)
            self.size += unit.size

    # -- by the consumer's thread --------------------------------------------------------------------------------------

    def restore(self, tp: TopicPartition, committed: OffsetAndMetadata | None) -> None:
        """Take over a partition."""
        self.drop([tp])
        if committed is not None:
            self._positions[tp] = committed.offset

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that went away (rule 7)."""
        with self._lock:
            for tp in partitions:
                self._positions.pop(tp, None)
                for unit in self._held.pop(tp, ()):
                    self._release(unit)

    def first_held(self) -> dict[TopicPartition, int]:
        """Return the first offset of each partition whose results are held."""
        with self._lock:
            return {tp: min(unit.first for unit in units) for tp, units in self._held.items() if units}

    def initialize(self) -> CallSteps[bool]:
        """Prepare the producer, which ends a transaction that a crash left open."""
        if not self._producer.is_initialized:
            yield self._producer.init_transactions
        return True

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, *, in_group: bool
    ) -> CallSteps[bool]:
        """Commit what may be committed, in one transaction.

        Args:
            offsets: the offsets below which all records are finished.
            group: the consumer's, at this moment.
            in_group: False if partitions were assigned by hand, so that there is no generation.

        Returns:
            False if it has to be repeated later.

        Raises:
            KafkaError: the producer cannot go on, or has failed too often.
            Exception: the error of a result that was refused, without dead letters.
        """
        if self.broken or (in_group and group.generation_id < 0):
            return False
        try:
            yield from self._learn_outcome()
            while True:
                units, due = self._take(offsets)
                if not due:
                    return True
                try:
                    yield from self._attempt(units, due, group)
                except _Refused as refusal:
                    self._replace(refusal.unit, refusal.error)
                    continue
                return True
        except (TransactionAbortableError, RetriableError) as error:
            self._count_failure(error)
            return False
        except ApplicationRecoverableError:
            self.broken = True
            raise

    def commit_all(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, *, in_group: bool
    ) -> CallSteps[bool]:
        """Commit as :meth:`commit` does, and repeat it after pauses. This is for the end of the work."""
        while True:
            before = self._failures
            if (yield from self.commit(offsets, group, in_group=in_group)) or self._failures == before:
                return True
            yield partial(self._pause, self.pause_s)

    @property
    def pause_s(self) -> float:
        """The pause after the last failures, in seconds. 0 if the last transaction was committed."""
        return min(_FIRST_PAUSE_S * 2 ** (self._failures - 1), _LONGEST_PAUSE_S) if self._failures else 0.0

    # -- a transaction -------------------------------------------------------------------------------------------------

    def _take(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> tuple[list[_Unit], dict[TopicPartition, OffsetAndMetadata]]:
        """Return the results below the offsets, in order, and the offsets to commit."""
        chosen: list[_Unit] = []
        due: dict[TopicPartition, OffsetAndMetadata] = {}
        with self._lock:
            for tp, found in offsets.items():
                units = sorted(self._held.get(tp, ()), key=lambda unit: unit.first)
                end, epoch = found.offset, found.leader_epoch
                for unit in reversed(units):  # rule 8
                    if unit.first < end <= unit.last:
                        end, epoch = unit.first, -1
                if end == self._positions.get(tp):
                    continue
                due[tp] = OffsetAndMetadata(end, "", epoch)
                chosen += [unit for unit in units if unit.last < end]
        return chosen, due

    def _attempt(
        self, units: list[_Unit], due: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> CallSteps[None]:
        producer = self._producer
        if self._must_abort:
            yield producer.abort_transaction
            self._must_abort = False
        yield producer.begin_transaction
        sent: list[tuple[_Unit, Any]] = []
        try:
            for unit in units:
                for record in unit.records:
                    try:
                        sent.append((unit, (yield partial(send_to, producer, record))))
                    except Exception as error:
                        if _is_own(error):
                            raise _Refused(unit, error) from error
                        raise
            yield partial(producer.send_offsets_to_transaction, due, group)
            yield from self._commit(units, due)
        except BaseException as failure:
            if self._unknown is not None:  # it may be committed
                raise
            yield from self._abort()
            if isinstance(failure, TransactionAbortableError):
                for unit, future in sent:
                    cause = future.exception
                    if cause is not None and _is_own(cause):
                        raise _Refused(unit, cause) from failure
            raise

    def _commit(self, units: list[_Unit], due: Mapping[TopicPartition, OffsetAndMetadata]) -> CallSteps[None]:
        """Commit. A commit that takes too long is waited for once more, and then given up with its producer."""
        self._unknown = units, due
        try:
            try:
                yield self._producer.commit_transaction
            except KafkaTimeoutError as error:
                _log.warning("the outcome of a commit is not known yet: %s", error)
                yield self._producer.commit_transaction
        except KafkaTimeoutError:
            self.broken = True
            raise
        except Exception:
            self._unknown = None
            raise
        self._settle(units, due)

    def _learn_outcome(self) -> CallSteps[None]:
        """Learn whether the transaction was committed whose commit was not waited for (rule 9)."""
        if self._unknown is None:
            return
        units, due = self._unknown
        try:
            yield from self._commit(units, due)
        except IllegalStateError:  # the interrupted call has had the answer already: it is committed
            self._settle(units, due)
        except Exception:
            if not self.broken:
                yield from self._abort()
            raise

    def _abort(self) -> CallSteps[None]:
        """Abort. A failure is logged, since the reason for the abort is the error to raise."""
        try:
            yield self._producer.abort_transaction
        except KafkaTimeoutError as error:
            self._must_abort = True
            _log.info("the transaction is not aborted yet: %s", error)
        except KafkaError as error:
            _log.info("the transaction could not be aborted by the producer: %s", error)

    def _settle(self, units: list[_Unit], due: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that a transaction was committed."""
        self._unknown = None
        self._failures = 0
        self.committed += 1
        done = set(units)
        with self._lock:
            for tp, found in due.items():
                self._positions[tp] = found.offset
                held = self._held.get(tp)
                if held is not None:
                    self._held[tp] = [unit for unit in held if unit not in done]
            for unit in units:
                self._release(unit)

    def _release(self, unit: _Unit) -> None:
        self.count -= len(unit.tasks)
        self.size -= unit.size

    def _replace(self, unit: _Unit, error: Exception) -> None:
        """Put dead letters in the place of results that were refused (rule 4)."""
        if unit.is_letter:
            raise error
        letters = [self._owner.refused(task, error) for task in unit.tasks]
        with self._lock:
            self.size -= unit.size
            unit.keep(letters, is_letter=True)
            self.size += unit.size

    def _count_failure(self, error: KafkaError) -> None:
        if self.broken:
            raise error
        cause = error.__cause__
        if isinstance(cause, CommitFailedError | RebalanceInProgressError):  # the next poll tells more
            _log.info("finished records could not be committed in a rebalance: %s", error)
            return
        self._failures += 1
        if self._failures > RETRIES:
            raise error
        _log.warning("a transaction was aborted and is repeated: %s", error)


def _is_own(error: Exception) -> bool:
    """Return True for an error of a record, False for one of the transaction, of the producer or of the network."""
    return not isinstance(
        error, ApplicationRecoverableError | TransactionAbortableError | TransactionAbortedError | RetriableError
    )


def _size(value: object) -> int:
    return len(value) if isinstance(value, bytes | bytearray | str | memoryview) else 64
