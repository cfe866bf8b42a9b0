"""``ProducerDelegate``: the work of ``send``, ``flush``, ``close`` for blocking and asyncio producers.

:class:`ProducerDelegate` builds the parts of a producer, starts the sender's thread, and has every call of a producer
up to the point at which it has to wait. A call that may wait is a generator (``..._steps``), which the facade's driver
runs. Settings, docstrings for users and the waiting itself belong to the facades.

Any thread may call a delegate. One lock guards the state that ``send`` and the sender's thread share.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from pyconsumer.clock import Clock, RunningClock, SystemClock, checked_timestamp, seconds_of
from pyconsumer.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
)
from pyconsumer.generic import PendingError
from pyconsumer.metrics.source import MetricSource, windows_of
from pyconsumer.metrics.windows import NO_SAMPLE
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import YIELD, Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.producer.accumulator import Appended, CallThatWaits, RecordAccumulator, RecordToSend
from pyconsumer.producer.arguments import (
    checked_choice,
    checked_group,
    checked_headers,
    checked_offset,
    checked_partition,
    exact_topic,
    is_topic_name,
    serializer_of,
    with_headers,
)
from pyconsumer.producer.condition import ChangeCondition
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import Appender, BatchResult, FutureRecordMetadata, ProducerBatch
from pyconsumer.producer.interceptors import ProducerInterceptors
from pyconsumer.producer.metric_scopes import ProducerScopes
from pyconsumer.producer.metrics import CallTimings
from pyconsumer.producer.observation import observed_send, observed_send_many
from pyconsumer.producer.partitioner import DefaultPartitioner
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.sender import Sender
from pyconsumer.producer.shutdown import finish_at_exit
from pyconsumer.producer.topic_facts import TopicFacts
from pyconsumer.producer.transaction_manager import DetachedTransaction, TransactionManager
from pyconsumer.protocol.compiled import report_missing
from pyconsumer.protocol.records import record_size_bound
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD
from pyconsumer.protocol.records.record import size_of_headers
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pyconsumer.telemetry import Client, hooks

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.generic import Serializer

__all__ = ["ProducerDelegate"]

P = ParamSpec("P")
R = TypeVar("R")

_ABORT_MS: Final = 5_000  # longest time for an abort after an exception
_RECORD_OVERHEAD: Final = 21  # bytes of a record besides key, value and headers, at most
_LARGEST_BATCH: Final = 1_000_000  # bytes; topics take 1,048,588 by default
_LAST_TURN_S: Final = 5.0  # time for the thread to end after it was stopped


def _accepted(calls: CallTimings, appender: Appender) -> Callable[[], int]:
    """Return a function that counts the accepted records, and does not refer to the producer."""
    return lambda: calls.accepted + appender.records


class ProducerDelegate:
    """The work of a producer, without the waiting.

    Args:
        config: the settings, including a client id.
        clock: the clock of all deadlines.
        takes_text, future_class: as in :meth:`open`.

    Attributes:
        config, clock: the arguments.
        condition: the sender's thread notifies it of changes for which calls wait.
        append: a function that appends a record at once, if its batch has room and no decision is needed. Otherwise it
            returns None.
        is_plain: True if there are no serializers and no interceptors. Records then go to ``append`` unchanged.
        transactions: the state of transactions, guarded by ``condition``. None if there is no transactional id.
        sender, thread: the work of the producer's thread, and the thread itself.
        client, metadata, accumulator: the sender's network client, its metadata, and the batches.
        closed: True after the producer was closed or dropped.
    """

    closed = True  # until the thread is there

    @classmethod
    def open(
        cls,
        configs: Mapping[str, object] | None,
        settings: Mapping[str, object],
        *,
        key_serializer: Serializer[Any] | None,
        value_serializer: Serializer[Any] | None,
        clock: Clock | None,
        takes_text: bool = True,
        future_class: type[FutureRecordMetadata] | None = None,
    ) -> Self:
        """Check the settings, and start a producer with them.

        Args:
            configs, settings: the arguments of the public class. ``settings`` take precedence.
            key_serializer, value_serializer: they take precedence over both, unless they are None.
            clock: the source of time. By default the machine's clock.
            takes_text: False if ``append`` refuses text, which :mod:`pyconsumer.compat` checks first.
            future_class: the class of the futures of ``send``, None for ours. :mod:`pyconsumer.compat` has another one.

        Raises:
            ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.
        """
        hooks.client_opened()
        options: dict[str, Any] = {**(configs or {}), **settings}
        if key_serializer is not None:
            options["key_serializer"] = key_serializer
        if value_serializer is not None:
            options["value_serializer"] = value_serializer
        config = PRODUCER_SETTINGS.build(options)
        report_missing()
        return cls(config, clock or SystemClock(), takes_text, future_class)

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        takes_text: bool = True,
        future_class: type[FutureRecordMetadata] | None = None,
    ) -> None:
        if not config.client_id:
            name = config.transactional_id or f"{os.getpid()}-{id(self) & 0xFFFF:x}"
            config = config.replace(client_id=f"pyconsumer-producer-{name}")
        self.config = config
        self.clock = clock
        self._mutex = threading.Lock()
        self.condition = ChangeCondition(self._mutex)  # the same lock; the bare one is quicker to take
        if isinstance(clock, RunningClock):
            clock.on_advance(self._on_time_moved)
        self._topics: dict[str, TopicFacts] = {}
        self._settled = 0  # the newest wish for metadata that these facts answer
        self._last_use: dict[str, float] = {}  # of each topic, monotonic seconds
        self.metadata = Metadata.from_config(config, idle_topics=_weakly(self._forget_idle, set))
        self.client = NetworkClient(config, metadata=self.metadata, clock=clock)
        self.accumulator = RecordAccumulator(
            batch_size=config.batch_size,
            linger=config.linger_ms / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            buffer_memory=config.buffer_memory,
            codec=config.compression_type,
            level=config.compression_level,
            largest_batch=min(_LARGEST_BATCH, config.max_request_size),
        )
        self._appender = Appender(
            self.accumulator.memory,
            self.client.wakeup,
            batch_size=config.batch_size,
            largest=min(config.max_request_size - BATCH_OVERHEAD, config.buffer_memory),
            ignore_keys=config.partitioner_ignore_keys,
            chooses=config.partitioner is not None,
            reads_clock=isinstance(clock, SystemClock),
            takes_text=takes_text,
            future_class=future_class,
        )
        self._future_class = future_class
        self._observed = Client(config.client_id)  # for `hooks`
        self.append = self._appender.append
        self._interceptors = ProducerInterceptors(config.interceptors)
        self.is_plain = not (config.interceptors or config.key_serializer or config.value_serializer)
        self._partitioner = DefaultPartitioner(
            config.batch_size,
            ignore_keys=config.partitioner_ignore_keys,
            loads=self.accumulator.loads if config.partitioner_adaptive_partitioning_enable else None,
        )
        self._serialize_key = serializer_of(config.key_serializer, "key")
        self._serialize_value = serializer_of(config.value_serializer, "value")
        self._refused: KafkaError | None = None
        self.calls = CallTimings(windows_of(config), clock.now)
        self._pid = os.getpid()
        self.transactions: TransactionManager | None = None
        if config.transactional_id is not None:
            pauses = Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
            self.transactions = TransactionManager(config.transactional_id, pauses.delay)
        self.sender = Sender(
            config,
            self.client,
            self.metadata,
            self.accumulator,
            self.condition,
            clock,
            transactions=self.transactions,
            on_metadata=_weakly(self._on_metadata, lambda: None),
        )
        self.thread = threading.Thread(
            target=self.sender.run, name=f"pyconsumer-sender-{config.client_id}", daemon=True
        )
        try:
            self.metric_source = MetricSource(
                "producer",
                config.client_id,
                "producer",
                clock.now,
                ProducerScopes(
                    self.client,
                    self.sender.counters,
                    self.calls,
                    self.accumulator,
                    _accepted(self.calls, self._appender),
                ),
                reporters=config.metric_reporters,
                settings=config.shown(),
            )
        except BaseException:  # of a reporter
            self.client.close()
            raise
        self.closed = False
        finish_at_exit(self.sender, self.thread, self._appender)
        self.thread.start()

    @property
    def in_own_thread(self) -> bool:
        """Return whether the caller is a callback of a record.

        It runs in the producer's thread, so it must not wait for this thread.
        """
        return threading.current_thread() is self.thread

    # ------------------------------------------------------------ sending

    def send_at_once(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[tuple[str, bytes | None]] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> FutureRecordMetadata | None:
        """Send a record if there is an open batch for it. Otherwise return None."""
        transactions = self.transactions
        if self.is_plain and (transactions is None or transactions.is_open):
            return self.append(topic, value, key, headers, partition, timestamp_ms)
        return None

    def send_steps(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[tuple[str, bytes | None]] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Steps[FutureRecordMetadata]:
        """Send a record. See :meth:`pyconsumer.KafkaProducer.send`."""
        topic = topic if type(topic) is str else exact_topic(topic)
        if self.closed or self._pid != os.getpid():
            self.check_open()
        config = self.config
        transactions = self.transactions
        if transactions is not None and not transactions.is_open:  # add_partition looks again, under the lock
            with self._mutex:
                transactions.check_send()
        if timestamp_ms is None:
            timestamp_ms = self.clock.wall_ms()
        else:
            timestamp_ms = checked_timestamp(timestamp_ms)
        if config.interceptors:
            topic, key, value, headers, partition, timestamp_ms = self._interceptors.on_send(
                topic, key, value, headers, partition, timestamp_ms
            )
        try:
            key_bytes, given = with_headers(self._serialize_key(topic, headers, key), headers)
            value_bytes, headers = with_headers(self._serialize_value(topic, given, value), given)
        except PendingError as pending:
            key_bytes, value_bytes, headers = yield from self._serialized_steps(topic, headers, key, value, pending)
        if not self.is_plain and not config.interceptors:
            appended_future = self.append(topic, value_bytes, key_bytes, headers, partition, timestamp_ms)
            if appended_future is not None:
                return appended_future
        size = (
            _RECORD_OVERHEAD
            + (len(key_bytes) if key_bytes is not None else 0)
            + (len(value_bytes) if value_bytes is not None else 0)
        )
        header_list: Sequence[tuple[str, bytes | None]] = ()
        if headers:
            header_list = checked_headers(headers)
            size += sum(10 + 4 * len(name) + len(data or b"") for name, data in header_list)
        if size + BATCH_OVERHEAD > config.max_request_size:
            raise RecordTooLargeError(
                f"the record has {size + BATCH_OVERHEAD} bytes with its headers, more than max_request_size "
                f"({config.max_request_size})"
            )
        if size > config.buffer_memory:
            raise RecordTooLargeError(f"the record has {size} bytes, more than buffer_memory ({config.buffer_memory})")
        deadline = -1.0
        known = self._topics.get(topic)
        if partition is not None and (type(partition) is not int or partition < 0):
            partition = checked_partition(partition)
        if known is None or known.error is not None or (partition is not None and partition >= known.count):
            deadline = self.clock.now() + config.max_block_ms / 1000
            with self.calls.timed("metadata_waits"):
                known = yield from self._topic_steps(topic, partition, deadline)
        if partition is None and config.partitioner is not None:
            partition = self._ask_partitioner(config.partitioner, topic, key_bytes, known)
        while (
            placed := self._place(topic, partition, timestamp_ms, key_bytes, value_bytes, header_list, size, known)
        ) is None:
            if deadline < 0:
                deadline = self.clock.now() + config.max_block_ms / 1000
            yield from self._room_steps(size, deadline)
        tp, appended = placed
        future = (self._future_class or FutureRecordMetadata)(
            appended.batch.result,
            appended.position,
            timestamp_ms,
            -1 if key_bytes is None else len(key_bytes),
            -1 if value_bytes is None else len(value_bytes),
            size_of_headers(header_list),
        )
        if config.interceptors:
            FutureRecordMetadata.add_both(future, self._interceptors.on_acknowledgement, tp)
        if self.sender.at_exit and not self.in_own_thread:
            yield from self._acknowledged_steps(future)
        return future

    def observed_send_steps(self, topic: str, *record: Any) -> Steps[FutureRecordMetadata]:
        """Do the same as :meth:`send_steps`, and tell ``hooks.active`` of it."""
        return observed_send(self.send_at_once, self.send_steps, self._client(), topic, *record)

    def _client(self) -> Client:
        found = self._observed
        if found.cluster_id is not self.metadata.cluster_id:
            found = self._observed = Client(self.config.client_id, None, self.metadata.cluster_id)
        return found

    def _serialized_steps(
        self, topic: str, headers: Any, key: Any, value: Any, pending: PendingError
    ) -> Steps[tuple[bytes | None, bytes | None, Any]]:
        """Serialize a key and a value, and wait for what the serializers need, such as an answer of a registry."""
        deadline = self.clock.now() + self.config.max_block_ms / 1000
        while True:
            pending.arrival.add_done_callback(self._on_arrival)
            while True:
                with self.condition:
                    if self.accumulator.closing:
                        raise self.sender.closed_error(" while send waited for a serializer")
                    if self.in_own_thread:
                        raise KafkaTimeoutError(f"{pending.name} is not there yet, and a callback cannot wait for it")
                    if self.clock.now() >= deadline:
                        raise KafkaTimeoutError(
                            f"{pending.name} did not come from the registry within max_block_ms"
                            f" ({self.config.max_block_ms} ms)"
                        )
                    change = self.condition.next_change()
                if pending.arrival.done():
                    break
                yield Wait(None, deadline, change=change)
            try:
                key_bytes, given = with_headers(self._serialize_key(topic, headers, key), headers)
                value_bytes, given = with_headers(self._serialize_value(topic, given, value), given)
            except PendingError as still:
                pending = still
            else:
                return key_bytes, value_bytes, given

    def _on_arrival(self, _: object) -> None:
        """Let the calls that wait for a serializer look again."""
        with self.condition:
            self.condition.notify_all()

    def _acknowledged_steps(self, future: FutureRecordMetadata) -> Steps[None]:
        """Wait for a record that was sent at the end of the interpreter: no later call would."""
        deadline = self.clock.now() + self.sender.exit_timeout
        while not future.is_done and self.clock.now() < deadline:
            with self.condition:
                change = self.condition.next_change()
                done = future.is_done
            if not done:
                yield Wait(None, deadline, change=change)

    def _place(
        self,
        topic: str,
        partition: int | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size: int,
        known: TopicFacts,
    ) -> tuple[TopicPartition, Appended] | None:
        """Choose the partition and append the record to a batch. Return None if there is no room for it."""
        transactions = self.transactions
        try:
            with self._mutex:
                if self.accumulator.closing:
                    raise self.sender.closed_error()
                if not self.accumulator.has_room(size):
                    return None
                if partition is None:
                    partition = self._partitioner.partition(topic, key, known.count, self._choices(known), size)
                tp = TopicPartition(topic, partition)
                if transactions is not None:
                    transactions.add_partition(tp)
                now = self._last_use[topic] = self.clock.now()
                appended = self.accumulator.append(tp, timestamp_ms, key, value, headers, size, now)
                self.calls.accept(1)
                if not self.config.interceptors and self._topics.get(topic) is known:
                    self._appender.remember(
                        topic, known.count, appended.batch, partition, self._partitioner.sticky(topic)
                    )
            if appended.wake_sender:
                self.client.wakeup()
        except BaseException:
            self.client.wakeup()  # Ctrl-C may have come when the record was in its batch already
            raise
        return tp, appended

    def send_many_steps(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Steps[FutureRecords]:
        """Send many records. See :meth:`pyconsumer.KafkaProducer.send_many`.

        The generator also yields between batches, so that other tasks can run.
        """
        if hooks.active is None:
            return self._send_many_steps(topic, values, keys, partition, timestamp_ms)
        rows = list(values)

        def send(headers: Any) -> Steps[FutureRecords]:
            return self._send_many_steps(topic, rows, keys, partition, timestamp_ms, headers)

        return observed_send_many(send, self._client(), topic, len(rows), carries=True)

    def _send_many_steps(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any = None,
    ) -> Steps[FutureRecords]:
        """Send many records, all of them with the same headers."""
        rows = list(values)
        row_keys = None if keys is None else list(keys)
        if row_keys is not None and len(row_keys) != len(rows):
            raise ValueError(f"there are {len(rows)} values and {len(row_keys)} keys")
        runs: list[tuple[BatchResult, int, int]] = []
        at = 0
        transactions = self.transactions
        try:
            while at < len(rows):
                if self.is_plain and (transactions is None or transactions.is_open):
                    at = self._appender.append_many(topic, rows, row_keys, at, partition, timestamp_ms, runs, headers)
                    if at == len(rows):
                        break
                key = None if row_keys is None else row_keys[at]
                future = yield from self.send_steps(topic, rows[at], key, headers, partition, timestamp_ms)
                runs.append((*future.place, 1))
                at += 1
                yield YIELD
        except Exception as error:
            error.add_note(f"{at} of the {len(rows)} records of this call were accepted before the error, and are sent")
            raise
        return FutureRecords(runs)

    def batch_steps(
        self, topic: str, partition: int | None, records: Sequence[RecordToSend]
    ) -> Steps[FutureRecordMetadata]:
        """Send records as one batch, which is neither joined with others nor split. Interceptors do not see it.

        Without a ``partition``, it is chosen as for one record without a key.

        Raises:
            RecordTooLargeError: it has more bytes than ``buffer_memory``.
            KafkaError: as :meth:`send_steps`.
        """
        self.check_open()
        transactions = self.transactions
        if transactions is not None and not transactions.is_open:  # add_partition looks again, under the lock
            with self._mutex:
                transactions.check_send()
        size = sum(record_size_bound(key, value, headers) for _, key, value, headers in records)
        if size > self.config.buffer_memory:
            raise RecordTooLargeError(
                f"the batch has {size} bytes, more than buffer_memory ({self.config.buffer_memory})"
            )
        deadline = self.clock.now() + self.config.max_block_ms / 1000
        if partition is not None:
            partition = checked_partition(partition)
        known = self._topics.get(topic)
        if known is None or known.error is not None or (partition is not None and partition >= known.count):
            known = yield from self._topic_steps(topic, partition, deadline)
        if partition is None and self.config.partitioner is not None:
            partition = self._ask_partitioner(self.config.partitioner, topic, None, known)
        while (batch := self._place_batch(topic, partition, records, size, known)) is None:
            yield from self._room_steps(size, deadline)
        self.client.wakeup()
        time_ms, key, value, headers = records[0]
        sizes = -1 if key is None else len(key), -1 if value is None else len(value)
        future = FutureRecordMetadata(batch.result, 0, time_ms, *sizes, size_of_headers(headers))
        if self.sender.at_exit and not self.in_own_thread:
            yield from self._acknowledged_steps(future)
        return future

    def _choices(self, known: TopicFacts) -> Sequence[int]:
        """Return the partitions for records without a key: without those of slow brokers (KIP-794)."""
        limit_ms = self.config.partitioner_availability_timeout_ms
        if not limit_ms:
            return known.preferred
        return known.without(self.sender.idle_nodes(self.clock.now() - limit_ms / 1000))

    def _place_batch(
        self, topic: str, partition: int | None, records: Sequence[RecordToSend], size: int, known: TopicFacts
    ) -> ProducerBatch | None:
        """Choose the partition and append a batch to its others. Return None if there is no room for it."""
        try:
            with self._mutex:
                if self.accumulator.closing:
                    raise self.sender.closed_error()
                if not self.accumulator.has_room(size):
                    return None
                if partition is None:
                    partition = self._partitioner.partition(topic, None, known.count, self._choices(known), size)
                tp = TopicPartition(topic, partition)
                if self.transactions is not None:
                    self.transactions.add_partition(tp)
                now = self._last_use[topic] = self.clock.now()
                batch = self.accumulator.append_batch(tp, records, size, now)
                self.calls.accept(len(records))
                return batch
        except BaseException:
            self.client.wakeup()  # Ctrl-C may have come when the batch was in its queue already
            raise

    def send_arrow_steps(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, partition: int | None
    ) -> Steps[FutureRecords]:
        from pyconsumer.producer.arrow import send_steps  # pyarrow is optional

        def send(_: Any = None) -> Steps[FutureRecords]:
            return send_steps(self._send_many_steps, self.send_at_once, self.send_steps, topic, table, partition)

        if hooks.active is None:
            return send()
        return observed_send_many(send, self._client(), topic, table.num_rows, carries=False)

    @contextlib.contextmanager
    def flushing(self) -> Iterator[list[BatchResult]]:
        """Send batches without lingering inside this block.

        The block gets the results of the batches that are not done yet.
        """
        self.check_open()
        with self.calls.timed("flush"), self._counted_in(self.accumulator.flush_calls):
            with self.condition:
                waiting = self.accumulator.incomplete()
            if waiting:
                self.client.wakeup()
            yield waiting
            if self.sender.failure is not None:
                raise self.sender.closed_error()

    @contextlib.contextmanager
    def _counted_in(self, calls: weakref.WeakSet[CallThatWaits]) -> Iterator[None]:
        """Count a call in a set of the accumulator inside this block, so that batches do not linger."""
        call = CallThatWaits()
        try:
            with self.condition:
                calls.add(call)
            yield
        finally:
            with self.condition:
                calls.discard(call)

    # ------------------------------------------------------------ transactions

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self.check_open()
        transactions = self._require_transactions()
        with self.calls.timed("begin"), self.condition:
            transactions.begin()

    def adding_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata | str
    ) -> Callable[[TransactionManager], TransactionResult] | None:
        """Check the arguments of ``send_offsets_to_transaction``.

        Return the function that starts the call, or None if there are no offsets.
        """
        group = checked_group(group_metadata)
        checked = {tp: checked_offset(tp, offset) for tp, offset in offsets.items()}

        def begin(transactions: TransactionManager) -> TransactionResult:
            for topic in {tp.topic for tp in checked}:  # the request names topics by their ids (KIP-1319)
                self._last_use[topic] = self.clock.now()
                if topic not in self._topics:
                    self.sender.wanted_topics.add(topic)
            return transactions.add_offsets(checked, group)

        if checked:
            return begin
        transactions = self._require_transactions()
        with self.condition:
            transactions.check_send()
        return None

    def detach_transaction(self) -> DetachedTransaction | None:
        """Detach the open transaction, because another process ends it. Return it, or None if it is empty.

        Before this call, the caller must have flushed. After it, the caller may only call :meth:`close`.

        Raises:
            TransactionAbortableError: a record was not delivered.
        """
        transactions = self._require_transactions()
        with self.condition:
            return transactions.detach(has_incomplete=not self.accumulator.is_empty)

    @property
    def is_initialized(self) -> bool:
        """Return whether ``init_transactions`` has succeeded."""
        transactions = self._require_transactions()
        with self.condition:
            return transactions.producer[0] >= 0

    @property
    def may_abort(self) -> bool:
        """Return whether a transaction is open and can be aborted."""
        transactions = self._require_transactions()
        with self.condition:
            return transactions.may_abort and not self.closed

    def _require_transactions(self) -> TransactionManager:
        if self.transactions is None:
            raise IllegalStateError("this producer is not transactional: set transactional_id")
        return self.transactions

    def begin_call(self, begin: Callable[[TransactionManager], TransactionResult]) -> TransactionResult:
        """Start a call that the sender's thread completes. Return its result object."""
        self.check_open()
        transactions = self._require_transactions()
        if self.in_own_thread:
            raise IllegalStateError("a callback of a record cannot wait for its own thread: do this in another one")
        with self.condition:
            result = begin(transactions)
        self.client.wakeup()
        return result

    def check_outcome(self, result: TransactionResult, seconds: float) -> None:
        """Raise the error of a call that has failed. Raise KafkaTimeoutError if the call has not ended."""
        if not result.wait(0):
            reason = result.last_failure or f"connections: {self.client.failures()}"
            raise KafkaTimeoutError(
                f"{result.call}() was not done within {seconds * 1000:g} ms. Call it again to wait longer. The last"
                f" error: {reason}"
            )
        if result.error is not None:
            raise result.error

    def partitions_steps(self, topic: str) -> Steps[set[int]]:
        """Return the partitions of a topic. If its metadata is missing, wait for it."""
        self.check_open()
        known = self._topics.get(topic)
        if known is None or known.error is not None:
            known = yield from self._topic_steps(topic, None, self.clock.now() + self.config.max_block_ms / 1000)
        with self.condition:
            self._last_use[topic] = self.clock.now()
        return set(known.all)

    def metadata_steps(self) -> Steps[None]:
        """Request metadata again, and wait for the response at most for ``max_block_ms``.

        Raises:
            KafkaTimeoutError: there is none in time.
        """
        deadline = self.clock.now() + self.config.max_block_ms / 1000
        with self.condition:
            wish = self.metadata.request_update()
        while True:
            with self.condition:
                self.check_open()
                if self._settled >= wish:
                    return
                if self.clock.now() >= deadline:
                    raise KafkaTimeoutError(f"no metadata within max_block_ms: connections: {self.sender.failures}")
                self.client.wakeup()
                change = self.condition.next_change()
            yield Wait(None, deadline, change=change)

    # ------------------------------------------------------------ state, and the end

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics by group and name. Any thread may call this."""
        found = self.metric_source.by_group()
        return {
            group: {name: NO_SAMPLE if value is None else value for name, value in values.items()}
            for group, values in found.items()
        }

    @property
    def forked(self) -> bool:
        """Return whether this process was forked from the one that made the producer."""
        return self._pid != os.getpid()

    def close(self, timeout_ms: float | None) -> None:
        """Send the buffered records and end the thread. This blocks. See :meth:`pyconsumer.KafkaProducer.close`."""
        seconds = None if timeout_ms is None else seconds_of(timeout_ms)
        if self._pid != os.getpid():
            self.closed = True
            return
        self.metric_source.close()
        with self.condition:
            self.closed = True
            self._appender.close()
            self.accumulator.close()
            self.condition.notify_all()
        inside = self.in_own_thread
        if inside:
            self.sender.stop_now()
        self.client.wakeup()
        if inside:
            return
        try:
            wait = self.sender.delivery_timeout if seconds is None else seconds
            self.thread.join(min(wait, threading.TIMEOUT_MAX))
            while seconds is None and self.thread.is_alive():
                self.sender.check_callbacks()
                self.thread.join(min(wait, threading.TIMEOUT_MAX))
        except BaseException:  # Ctrl-C, or a callback that does not return: the thread ends without its records
            self.sender.stop_now()
            self.client.wakeup()
            raise
        if self.thread.is_alive():
            self.sender.stop_now()
            self.client.wakeup()
            self.thread.join(_LAST_TURN_S)
            if timeout_ms and self.sender.dropped:
                raise KafkaTimeoutError(
                    f"the producer was closed within {timeout_ms:g} ms: {self.sender.describe_dropped()}"
                )

    def drop(self) -> bool:
        """Let the thread send the buffered records and end by itself.

        This takes no lock and does not wait, for finalizers.

        Returns:
            False if the producer was closed before, or if it was made before a fork.
        """
        if self.closed or self._pid != os.getpid():
            return False
        self.closed = True
        self.sender.finish()
        return True

    def __del__(self) -> None:
        self.drop()  # Ctrl-C may have come before a facade had this delegate, and could close it

    @property
    def close_timeout_after_error_ms(self) -> float:
        """Return the time limit for a close after an exception: 0, or longer if a transaction must be aborted."""
        return 0 if self.transactions is None else _ABORT_MS

    def _on_time_moved(self) -> None:
        """Let calls that wait look at the time again."""
        with self.condition:
            self.condition.notify_all()

    def check_open(self) -> None:
        """Raise IllegalStateError if the producer is closed, its thread has ended, or this is another process."""
        if self._pid != os.getpid():
            raise IllegalStateError("the producer was made before a fork: make one in each process")
        if self.closed or self.sender.failure is not None:
            raise self.sender.closed_error()

    def _ask_partitioner(self, custom: Callable[..., Any], topic: str, key: bytes | None, known: TopicFacts) -> int:
        """Return the choice of the application's partitioner. No lock is held: it may take one, or send a record."""
        return checked_choice(custom(key, known.all, known.available), topic, known.count)

    def _topic_steps(self, topic: str, partition: int | None, deadline: float) -> Steps[TopicFacts]:
        """Wait until metadata knows a topic, and a partition of it."""
        if not isinstance(topic, str):
            raise ValueError(f"the topic must be a string, not {topic!r}")
        if not is_topic_name(topic):
            raise InvalidTopicError(
                f"{topic[:300]!r} is no topic name: 1 to 249 letters, digits, dots, hyphens and underscores"
            )
        asked_at, wish = self._topics.get(topic), 0
        while True:
            with self.condition:
                known = self._topics.get(topic)
                if known is not None and known.error is None and (partition is None or partition < known.count):
                    return known
                fresh = known is not None and known is not asked_at and self._settled >= wish
                if known is not None and known.error is not None and fresh and not known.error.retriable:
                    raise known.error
                if self._refused is not None:
                    raise self._refused
                if known is not None and known.error is None and partition is not None and fresh:
                    raise ValueError(f"topic {topic!r} has partitions 0 to {known.count - 1}, not {partition}")
                if self.accumulator.closing:
                    raise self.sender.closed_error()
                now = self._last_use[topic] = self.clock.now()
                left = deadline - now
                if left <= 0:
                    raise self._no_metadata(topic, known)
                self.sender.wanted_topics.add(topic)
                if known is not None:
                    asked = self.metadata.request_update()
                    wish = wish or asked
                self.client.wakeup()
                if self.in_own_thread:
                    raise KafkaTimeoutError(f"no metadata of topic {topic!r} yet, and a callback cannot wait for it")
                change = self.condition.next_change()
            yield Wait(None, deadline, change=change)

    def _no_metadata(self, topic: str, known: TopicFacts | None) -> KafkaError:
        text = f"no metadata of topic {topic!r} within max_block_ms ({self.config.max_block_ms} ms)"
        cause = known.error if known is not None else None
        reason = str(cause) if cause is not None else f"connections: {self.sender.failures}"
        error = KafkaTimeoutError(f"{text}: {reason}")
        error.__cause__ = cause
        return error

    def _room_steps(self, size: int, deadline: float) -> Steps[None]:
        """Wait until ``size`` bytes may be free."""
        with self.calls.timed("memory_waits"), self._counted_in(self.accumulator.calls_for_memory):
            while True:
                with self.condition:
                    if self.accumulator.closing:
                        raise self.sender.closed_error(" while send waited for room")
                    if self.accumulator.has_room(size):
                        return
                    if self.clock.now() >= deadline:
                        self.calls.add("exhausted", 0.0)
                        raise BufferExhaustedError(
                            f"no room for {size} bytes in buffer_memory ({self.config.buffer_memory}) within "
                            f"max_block_ms ({self.config.max_block_ms} ms): records are made faster than the brokers "
                            "take them"
                        )
                    if self.in_own_thread:
                        raise BufferExhaustedError(
                            f"no room for {size} bytes in buffer_memory ({self.config.buffer_memory}), and a callback "
                            "cannot wait for it"
                        )
                    change = self.condition.next_change(in_turn=True)
                self.client.wakeup()
                yield Wait(None, deadline, change=change)

    def _on_metadata(self) -> None:
        """In the sender's thread: publish the metadata of our topics."""
        metadata = self.metadata
        topics: dict[str, TopicFacts] = {}
        settled = metadata.settled
        rack = self.config.client_rack if self.config.partitioner_rack_aware else None
        near = None if rack is None else {broker.node_id for broker in metadata.brokers() if broker.rack == rack}
        for topic in metadata.wanted_topics():
            error = metadata.topic_error(topic)
            partitions = metadata.partitions_for(topic)
            if partitions:
                topics[topic] = TopicFacts(sorted(partitions, key=lambda item: item.partition), near)
            elif error is not None:
                topics[topic] = TopicFacts((), error=error)
        with self.condition:
            self._topics, self._settled = topics, settled
            self._appender.forget()
            self._refused = metadata.fatal_error
            self.condition.notify_all()

    def _forget_idle(self, now: float) -> set[str]:
        """In the sender's thread, before metadata is asked for: topics unused for ``metadata_max_idle_ms``."""
        with self.condition:
            self._last_use.update(dict.fromkeys(self.accumulator.topics(), now))
            limit = now - self.config.metadata_max_idle_ms / 1000
            idle = {topic for topic, used in self._last_use.items() if used <= limit}
            for topic in idle:
                del self._last_use[topic]
                self._topics.pop(topic, None)
        return idle


def _weakly(method: Callable[P, R], otherwise: Callable[[], R]) -> Callable[P, R]:
    """Return a function that calls a bound method as long as its object lives, without keeping it alive."""
    found = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        target = found()
        return otherwise() if target is None else target(*args, **kwargs)

    return call
