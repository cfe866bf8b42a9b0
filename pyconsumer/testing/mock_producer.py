"""``MockProducer``: a producer without a cluster, for tests of programs that take a :class:`pyconsumer.Producer`.

Java: ``org.apache.kafka.clients.producer.MockProducer``. It keeps the records, and the test decides their outcome::

    producer = MockProducer(auto_complete=False)
    future = producer.send("orders", b"one")
    producer.error_next(TopicAuthorizationFailedError("not allowed"))
    assert future.failed()
    assert [record.value for record in producer.history] == [b"one"]

Serializers, partitions by key, futures, errors and the rules of transactions are those of
:class:`pyconsumer.KafkaProducer`: both use the same :class:`.TransactionManager`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, overload

from pyconsumer.clock import Clock, SystemClock, checked_timestamp, seconds_of
from pyconsumer.errors import (
    Errors,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    RequestCancelledError,
    TransactionAbortedError,
)
from pyconsumer.generic import Header, NewKey, NewValue, RawInput, SentK, SentV, Serializer
from pyconsumer.metrics.health import ProducerHealth
from pyconsumer.metrics.source import Metric
from pyconsumer.producer.arguments import (
    checked_choice,
    checked_headers,
    checked_offset,
    checked_partition,
    checked_seconds,
    is_topic_name,
    serialized_now,
    serializer_of,
)
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import BatchResult, FutureRecordMetadata
from pyconsumer.producer.interface import Producer
from pyconsumer.producer.partitioner import partition_for_key
from pyconsumer.producer.pending_request import PendingRequest, TransactionResult
from pyconsumer.producer.transaction_errors import RequestKind
from pyconsumer.producer.transaction_manager import TransactionManager
from pyconsumer.structs import (
    BrokerMetadata,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
)
from pyconsumer.testing.planned_errors import PlannedErrors
from pyconsumer.testing.sent_record import SentRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow

__all__ = ["MockProducer"]

_CALLS = (
    "send",
    "flush",
    "partitions_for",
    "close",
    "init_transactions",
    "begin_transaction",
    "send_offsets_to_transaction",
    "commit_transaction",
    "abort_transaction",
)
_COORDINATOR = BrokerMetadata(0, "mock", 9092, None)


class _Pending:
    """A record that waits to be acknowledged or to fail."""

    __slots__ = ("record", "result")

    def __init__(self, record: SentRecord[Any, Any], result: BatchResult) -> None:
        self.record = record
        self.result = result


class MockProducer(Producer[SentK, SentV]):
    """A producer without a cluster. See the module. It never waits, and runs callbacks in the calling thread.

    Args:
        auto_complete: True acknowledges each record at once. With False the test acknowledges records by
            :meth:`complete_next` and lets them fail by :meth:`error_next`.
        partitions: the number of partitions of each topic. For other topics it is ``default_partitions``.
        default_partitions: see ``partitions``.
        transactional_id: enables transactions, as in a real producer.
        key_serializer, value_serializer: as in a real producer.
        partitioner: a function ``(key bytes or None, all partitions, those with a leader) -> partition``. None uses the
            hash of the key, as in a real producer. Records without a key then go to partition 0.
        clock: the source of timestamps.

    Attributes:
        closed: True after the producer was closed.
        flushes: how often :meth:`flush` was called.
        commits, aborts: how many transactions were committed, and how many were aborted.
    """

    # Without a serializer bytes and text are taken, and anything with one whose argument has no type, such as a lambda.
    # fmt: off
    @overload
    def __init__(
        self, *, auto_complete: bool = True, default_partitions: int = 1,
        partitions: Mapping[str, int] | None = None, transactional_id: str | None = None,
        key_serializer: None = None, value_serializer: None = None,
        partitioner: Callable[[bytes | None, list[int], list[int]], int] | None = None, clock: Clock | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MockProducer[NewKey, RawInput], *, auto_complete: bool = True, default_partitions: int = 1,
        partitions: Mapping[str, int] | None = None, transactional_id: str | None = None,
        key_serializer: Serializer[NewKey] | None, value_serializer: None = None,
        partitioner: Callable[[bytes | None, list[int], list[int]], int] | None = None, clock: Clock | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MockProducer[RawInput, NewValue], *, auto_complete: bool = True, default_partitions: int = 1,
        partitions: Mapping[str, int] | None = None, transactional_id: str | None = None,
        key_serializer: None = None, value_serializer: Serializer[NewValue] | None,
        partitioner: Callable[[bytes | None, list[int], list[int]], int] | None = None, clock: Clock | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MockProducer[NewKey, NewValue], *, auto_complete: bool = True, default_partitions: int = 1,
        partitions: Mapping[str, int] | None = None, transactional_id: str | None = None,
        key_serializer: Serializer[NewKey] | None, value_serializer: Serializer[NewValue] | None,
        partitioner: Callable[[bytes | None, list[int], list[int]], int] | None = None, clock: Clock | None = None,
    ) -> None: ...
    # fmt: on
    def __init__(
        self,
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | None = None,
        default_partitions: int = 1,
        transactional_id: str | None = None,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        partitioner: Callable[[bytes | None, list[int], list[int]], int] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.auto_complete = auto_complete
        self.closed = False
        self.flushes = self.commits = self.aborts = 0
        self._partitions = dict(partitions or {})
        self._default_partitions = default_partitions
        self._partitioner = partitioner
        self._clock = clock or SystemClock()
        self._serialize_key = serializer_of(key_serializer, "key")
        self._serialize_value = serializer_of(value_serializer, "value")
        self._planned = PlannedErrors(self, _CALLS)
        self._next_offsets: dict[TopicPartition, int] = {}
        self._pending: deque[_Pending] = deque()
        self._history: list[SentRecord[SentK, SentV]] = []
        self._uncommitted: list[SentRecord[SentK, SentV]] = []
        self._transactions: TransactionManager | None = None
        if transactional_id is not None:
            self._transactions = TransactionManager(transactional_id, lambda failures: 0.0)
        self._fenced = False
        self._epochs = itertools.count()
        self._offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self._offsets_history: list[dict[str, dict[TopicPartition, OffsetAndMetadata]]] = []

    # -- called by the test ------------------------------------------------------------------------------------------

    @property
    def history(self) -> list[SentRecord[SentK, SentV]]:
        """The records that were sent, in order.

        Records of a transaction appear after its commit (as with ``read_committed``).
        """
        return list(self._history)

    @property
    def uncommitted(self) -> list[SentRecord[SentK, SentV]]:
        """The records that were sent in the open transaction."""
        return list(self._uncommitted)

    @property
    def offsets_history(self) -> list[dict[str, dict[TopicPartition, OffsetAndMetadata]]]:
        """The offsets of each committed transaction that had offsets, by group and partition."""
        return [dict(found) for found in self._offsets_history]

    @property
    def sent_offsets(self) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """The offsets that were sent to the open transaction, by group and partition."""
        return {group: dict(offsets) for group, offsets in self._offsets.items()}

    @property
    def pending(self) -> int:
        """The number of records that are neither acknowledged nor failed."""
        return len(self._pending)

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._transactions is not None and self._transactions.may_abort

    def clear(self) -> None:
        """Acknowledge all pending records and clear the histories."""
        self._complete_all()
        self._history.clear()
        self._uncommitted.clear()
        self._offsets_history.clear()

    def complete_next(self) -> bool:
        """Acknowledge the oldest pending record. Return whether there was one."""
        if not self._pending:
            return False
        pending = self._pending.popleft()
        record = pending.record
        tp = TopicPartition(record.topic, record.partition)
        offset = self._next_offsets.get(tp, 0)
        self._next_offsets[tp] = offset + 1
        pending.result.finish(offset, -1, None)
        return True

    def error_next(self, error: KafkaError) -> bool:
        """Let the oldest pending record fail, and remove it from :attr:`history`. Return whether there was one.

        In a transaction the commit then fails, too, as with a real producer. Abort the transaction and repeat it.
        """
        if not self._pending:
            return False
        pending = self._pending.popleft()
        for kept in (self._history, self._uncommitted):
            with contextlib.suppress(ValueError):
                kept.remove(pending.record)
        pending.result.finish(-1, -1, error)
        if self._transactions is not None:
            self._transactions.on_batch_failed(error, uncertain=False)
        return True

    def fail_next(self, call: str, error: Exception, *, times: int = 1) -> None:
        """Let the next calls of a method raise an error before they have any effect.

        Args:
            call: ``send``, ``flush``, ``partitions_for``, ``close``, ``init_transactions``, ``begin_transaction``,
                ``send_offsets_to_transaction``, ``commit_transaction`` or ``abort_transaction``.
            error: the error.
            times: the number of calls that fail.

        Raises:
            ValueError: no call of this name can fail.
        """
        self._planned.add(call, error, times)

    def fence(self) -> None:
        """Fence this producer, as if another producer with its ``transactional_id`` had called ``init_transactions``.

        The open transaction is aborted. The next request to the coordinator fails with ``ProducerFencedError``, and
        after that all calls fail. As with a real producer, ``send`` makes no request to the coordinator.

        Raises:
            IllegalStateError: the producer has no ``transactional_id``.
        """
        self._require_transactions()
        self._fenced = True

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: SentV | None = None,
        key: SentK | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Store a record. See :meth:`pyconsumer.KafkaProducer.send`."""
        self._check_open()
        self._planned.take("send")
        transactions = self._transactions
        if transactions is not None:
            transactions.check_send()
        timestamp = self._clock.wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        key_bytes, headers = serialized_now(self._serialize_key, topic, headers, key)
        value_bytes, headers = serialized_now(self._serialize_value, topic, headers, value)
        checked = tuple(checked_headers(headers or ()))
        tp = TopicPartition(topic, self._choose(topic, key_bytes, partition))
        record = SentRecord(topic, value, key, checked, tp.partition, timestamp, value_bytes, key_bytes)
        result = BatchResult(tp)
        if transactions is None:
            self._history.append(record)
        else:
            transactions.add_partition(tp)
            self._uncommitted.append(record)
        self._pending.append(_Pending(record, result))
        if self.auto_complete:
            self._complete_all()
        return FutureRecordMetadata(
            result,
            0,
            timestamp,
            -1 if key_bytes is None else len(key_bytes),
            -1 if value_bytes is None else len(value_bytes),
        )

    def send_many(
        self,
        topic: str,
        values: Iterable[SentV | None],
        keys: Iterable[SentK | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Store many records. See :meth:`pyconsumer.KafkaProducer.send_many`."""
        rows = list(values)
        row_keys = [None] * len(rows) if keys is None else list(keys)
        if len(row_keys) != len(rows):
            raise ValueError(f"there are {len(rows)} values and {len(row_keys)} keys")
        runs: list[tuple[BatchResult, int, int]] = []
        try:
            for value, key in zip(rows, row_keys, strict=True):
                runs.append((*self.send(topic, value, key, None, partition, timestamp_ms).place, 1))
        except Exception as error:
            error.add_note(
                f"{len(runs)} of the {len(rows)} records of this call were accepted before the error, and are sent"
            )
            raise
        return FutureRecords(runs)

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Store the rows of a table. See :meth:`pyconsumer.KafkaProducer.send_arrow`."""
        from pyconsumer.producer.arrow import batches_of

        runs: list[tuple[BatchResult, int, int]] = []
        for values, keys, partitions, times in batches_of(table):
            for row, value in enumerate(values):
                own = partition if partitions is None or partitions[row] is None else partitions[row]
                key: Any = None if keys is None else keys[row]
                data: Any = value
                at = None if times is None else times[row]
                runs.append((*self.send(topic, data, key, None, own, at).place, 1))
        return FutureRecords(runs)

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Acknowledge all pending records. See :meth:`pyconsumer.KafkaProducer.flush`."""
        self._check_open()
        checked_seconds("flush", positional, timeout_ms)
        self._planned.take("flush")
        self.flushes += 1
        self._complete_all()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic."""
        self._check_open()
        self._planned.take("partitions_for")
        return set(range(self._count(topic)))

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name. Counters of the network are 0."""
        sent = len(self._history) + len(self._uncommitted)
        names = ("batch-send-total", "outgoing-byte-total", "record-retry-total", "record-error-total")
        memory = {"buffer-total-bytes": 0, "buffer-available-bytes": 0}
        return {"producer-metrics": {"record-send-total": sent, **dict.fromkeys(names, 0), **memory}}

    def metric_table(self) -> list[Metric]:
        """Return an empty list: a mock has no network, and nobody scrapes it."""
        return []

    def health(self) -> ProducerHealth:
        """Return a state without connections. It is alive and ready until :meth:`close`."""
        return ProducerHealth(
            client_id="mock",
            transactional_id=None,
            closed=self.closed,
            forked=False,
            is_running=not self.closed,
            connected_nodes=(),
            buffered_bytes=0,
            buffer_limit=0,
            waiting_calls=0,
            in_flight=self.pending,
            oldest_s=None,
            since_send_s=None,
            waits_for=None,
            missing=None,
            missing_s=0.0,
            last_error=None,
        )

    # -- transactions ------------------------------------------------------------------------------------------------

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions. See :meth:`pyconsumer.KafkaProducer.init_transactions`."""
        _check_timeout(timeout_ms)
        self._run("init_transactions", lambda transactions: transactions.initialize())

    def begin_transaction(self) -> None:
        """Begin a transaction. See :meth:`pyconsumer.KafkaProducer.begin_transaction`."""
        self._check_open()
        transactions = self._require_transactions()
        self._planned.take("begin_transaction")
        transactions.begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit positions as part of the transaction.

        See :meth:`pyconsumer.KafkaProducer.send_offsets_to_transaction`.
        """
        group = ConsumerGroupMetadata(group_metadata) if isinstance(group_metadata, str) else group_metadata
        if not group.group_id:
            raise ValueError("group_metadata names no group: the consumer needs a group_id")
        checked = {tp: checked_offset(tp, offset) for tp, offset in offsets.items()}
        if not checked:
            self._check_open()
            self._require_transactions().check_send()
            return
        self._run("send_offsets_to_transaction", lambda transactions: transactions.add_offsets(checked, group))
        self._offsets.setdefault(group.group_id, {}).update(checked)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Acknowledge all pending records and commit. See :meth:`pyconsumer.KafkaProducer.commit_transaction`."""
        _check_timeout(timeout_ms)
        self._check_open()
        self._require_transactions()
        self._planned.take("commit_transaction")
        self._complete_all()
        self._run("", lambda transactions: transactions.commit())
        self._history += self._uncommitted
        if self._offsets:
            self._offsets_history.append(self._offsets)
        self.commits += 1
        self._end()

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction. See :meth:`pyconsumer.KafkaProducer.abort_transaction`."""
        _check_timeout(timeout_ms)
        self._check_open()
        self._require_transactions()
        self._planned.take("abort_transaction")
        self._run("", lambda transactions: transactions.abort())
        waiting, self._pending = self._pending, deque()
        for pending in waiting:
            pending.result.finish(-1, -1, TransactionAbortedError("the transaction was aborted before this was sent"))
        self.aborts += 1
        self._end()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a block as a transaction. See :meth:`pyconsumer.KafkaProducer.transaction`."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if self.in_transaction and not self.closed:
                with contextlib.suppress(KafkaError):
                    self.abort_transaction()
            raise

    @property
    def is_initialized(self) -> bool:
        """Return whether :meth:`init_transactions` has succeeded."""
        return self._require_transactions().producer[0] >= 0

    # -- the rest ----------------------------------------------------------------------------------------------------

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Acknowledge all pending records. With ``timeout_ms=0`` they fail instead. An open transaction is aborted."""
        checked_seconds("close", positional, timeout_ms)
        if self.closed:
            return
        self._planned.take("close")
        if timeout_ms == 0:
            waiting, self._pending = self._pending, deque()
            for pending in waiting:
                pending.result.finish(-1, -1, RequestCancelledError("the producer was closed before this was sent"))
        else:
            self._complete_all()
        if self.in_transaction:
            with contextlib.suppress(KafkaError):
                self.abort_transaction()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(timeout_ms=None if kind is None else 0)

    def __repr__(self) -> str:
        return f"<MockProducer {len(self._history)} records{' closed' if self.closed else ''}>"

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("the producer is closed")

    def _require_transactions(self) -> TransactionManager:
        if self._transactions is None:
            raise IllegalStateError("this producer is not transactional: set transactional_id")
        return self._transactions

    def _count(self, topic: str) -> int:
        if not isinstance(topic, str):
            raise ValueError(f"the topic must be a string, not {topic!r}")
        if not is_topic_name(topic):
            raise InvalidTopicError(
                f"{topic[:300]!r} is no topic name: 1 to 249 letters, digits, dots, hyphens and underscores"
            )
        return self._partitions.get(topic, self._default_partitions)

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> int:
        count = self._count(topic)
        if partition is not None:
            partition = checked_partition(partition)
            if partition >= count:
                raise ValueError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
            return partition
        if self._partitioner is not None:
            every = list(range(count))
            return checked_choice(self._partitioner(key, every, list(every)), topic, count)
        return 0 if key is None else partition_for_key(key, count)

    def _complete_all(self) -> None:
        while self.complete_next():
            pass

    def _end(self) -> None:
        self._uncommitted.clear()
        self._offsets = {}

    def _run(self, call: str, begin: Callable[[TransactionManager], TransactionResult]) -> None:
        """Begin a call, and respond to its requests as the coordinator does, until it is done."""
        self._check_open()
        transactions = self._require_transactions()
        if call:
            self._planned.take(call)
        result = begin(transactions)
        while not result.done:
            request = transactions.next_request(0.0, has_incomplete=False)
            if request is not None:
                self._respond(transactions, request)
        result.wait(0)
        if result.error is not None:
            raise result.error

    def _respond(self, transactions: TransactionManager, request: PendingRequest) -> None:
        kind = request.kind
        if kind is RequestKind.FIND_COORDINATOR:
            transactions.on_coordinator(request, _COORDINATOR)
        elif self._fenced:
            transactions.on_error(request, Errors.PRODUCER_FENCED, 0.0)
        elif kind is RequestKind.INIT_PRODUCER_ID:
            transactions.on_producer(request, (1, next(self._epochs)), supports_bump=True)
        elif kind is RequestKind.ADD_PARTITIONS:
            transactions.on_partitions_added(request, dict.fromkeys(request.details, Errors.NONE), 0.0)
        elif kind is RequestKind.ADD_OFFSETS:
            transactions.on_offsets_added(request)
        elif kind is RequestKind.COMMIT_OFFSETS:
            transactions.on_offsets_committed(request, dict.fromkeys(request.details.left, Errors.NONE), 0.0)
        else:
            transactions.on_ended(request, (-1, -1))


def _check_timeout(timeout_ms: float | None) -> None:
    if timeout_ms is not None:
        seconds_of(timeout_ms)
