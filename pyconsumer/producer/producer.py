"""``KafkaProducer``: the facade that applications call.

``send`` serializes, chooses a partition and appends to a batch in the calling thread; one background thread sends
(:mod:`pyconsumer.producer.sender`). A producer may be used by several threads at a time; its transactions concern all
of them.

What may have to wait is a generator (``_send_steps``), which :meth:`KafkaProducer._block` runs in the calling thread,
and :class:`pyconsumer.aio.AsyncKafkaProducer` on its event loop.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, ParamSpec, Self, TypeVar, overload

from pyconsumer import background_log
from pyconsumer.background_log import Log
from pyconsumer.clock import Clock, RunningClock, SystemClock, checked_timestamp, seconds_of
from pyconsumer.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
)
from pyconsumer.generic import Header, KeyIn, ValueIn, refuse_pickling
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.metadata import Metadata
from pyconsumer.producer.accumulator import Appended, RecordAccumulator
from pyconsumer.producer.appending import Appender, BatchResult, FutureRecordMetadata
from pyconsumer.producer.arguments import (
    checked_choice,
    checked_group,
    checked_headers,
    checked_offset,
    checked_partition,
    checked_seconds,
    exact_topic,
    is_topic_name,
    serializer_of,
)
from pyconsumer.producer.changes import YIELD, Changes, Pause
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig
from pyconsumer.producer.exit import finish_at_exit
from pyconsumer.producer.interceptors import ProducerInterceptors
from pyconsumer.producer.interface import Producer
from pyconsumer.producer.partitioner import DefaultPartitioner
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.sender import Sender
from pyconsumer.producer.sent_records import FutureRecords
from pyconsumer.producer.topic_facts import TopicFacts
from pyconsumer.producer.transaction_manager import DetachedTransaction, TransactionManager
from pyconsumer.protocol.compiled import report_missing
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD
from pyconsumer.protocol.records.record import size_of_headers
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow

    from pyconsumer.generic import NewKey, NewValue, RawInput, Serializer
    from pyconsumer.producer.typed_settings import ProducerSettings

__all__ = ["KafkaProducer"]

_log = Log(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_ABORT_MS = 5_000  # longest time for an abort after an exception
_RECORD_OVERHEAD = 21  # bytes of a record besides key, value and headers, at most
_LARGEST_BATCH = 1_000_000  # bytes; topics take 1,048,588 by default


class KafkaProducer(Producer[KeyIn, ValueIn]):
    """Sends records to Kafka.

    Args:
        configs: settings in a mapping, which allows Kafka's dotted names.
        clock: the time, for tests: a :class:`pyconsumer.testing.RunningClock` can be moved ahead. By default the
            machine's.
        settings: see :data:`pyconsumer.producer.config.PRODUCER_SETTINGS`; ``bootstrap_servers`` is needed. For type
            checkers ``key_serializer`` and ``value_serializer`` decide the types of keys and values.

    Raises:
        ConfigurationError: a setting is unknown, wrong, or contradicts another one.
    """

    __reduce__ = refuse_pickling
    _closed = True  # until the thread is there

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """Make a producer with settings from a properties file and from the environment.

        Arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.
        """
        from pyconsumer.settings.properties import from_file

        return cls(**from_file(PRODUCER_SETTINGS, path, overrides))

    # fmt: off
    @overload
    def __init__(
        self, configs: Mapping[str, object] | None = None, /, *, key_serializer: None = None,
        value_serializer: None = None, clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaProducer[NewKey, RawInput], configs: Mapping[str, object] | None = None, /, *,
        key_serializer: Serializer[NewKey] | None, value_serializer: None = None,
        clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaProducer[RawInput, NewValue], configs: Mapping[str, object] | None = None, /, *,
        key_serializer: None = None, value_serializer: Serializer[NewValue] | None,
        clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaProducer[NewKey, NewValue], configs: Mapping[str, object] | None = None, /, *,
        key_serializer: Serializer[NewKey] | None, value_serializer: Serializer[NewValue] | None,
        clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    # fmt: on
    def __init__(
        self,
        configs: Mapping[str, object] | None = None,
        /,
        *,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        clock: Clock | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        options: dict[str, Any] = {**(configs or {}), **settings}
        if key_serializer is not None:
            options["key_serializer"] = key_serializer
        if value_serializer is not None:
            options["value_serializer"] = value_serializer
        self.config: ProducerConfig = PRODUCER_SETTINGS.build(options)
        report_missing()
        config = self.config
        if not config.client_id:
            name = config.transactional_id or f"{os.getpid()}-{id(self) & 0xFFFF:x}"
            config = self.config = config.replace(client_id=f"pyconsumer-producer-{name}")
        self._clock = clock or SystemClock()
        self._mutex = threading.Lock()
        self._lock = Changes(self._mutex)  # the same lock; the bare one is quicker to take
        if isinstance(self._clock, RunningClock):
            self._clock.on_advance(self._on_time_moved)
        self._topics: dict[str, TopicFacts] = {}
        self._last_use: dict[str, float] = {}  # of each topic, monotonic seconds
        self._metadata = Metadata.from_config(config, idle_topics=_weakly(self._forget_idle, set))
        self._client = NetworkClient(config, metadata=self._metadata, clock=self._clock)
        self._accumulator = RecordAccumulator(
            batch_size=config.batch_size,
            linger=config.linger_ms / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            buffer_memory=config.buffer_memory,
            codec=config.compression_type,
            largest_batch=min(_LARGEST_BATCH, config.max_request_size),
        )
        self._appender = Appender(
            self._accumulator.memory,
            self._client.wakeup,
            batch_size=config.batch_size,
            largest=min(config.max_request_size - BATCH_OVERHEAD, config.buffer_memory),
            ignore_keys=config.partitioner_ignore_keys,
            chooses=config.partitioner is not None,
            reads_clock=isinstance(self._clock, SystemClock),
        )
        self._append = self._appender.append
        self._interceptors = ProducerInterceptors(config.interceptors)
        self._is_plain = not (config.interceptors or config.key_serializer or config.value_serializer)
        self._partitioner = DefaultPartitioner(config.batch_size, ignore_keys=config.partitioner_ignore_keys)
        self._serialize_key = serializer_of(config.key_serializer, "key")
        self._serialize_value = serializer_of(config.value_serializer, "value")
        self._refused: KafkaError | None = None
        self._pid = os.getpid()
        self._records = 0
        self._transactions: TransactionManager | None = None
        if config.transactional_id is not None:
            pauses = Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
            self._transactions = TransactionManager(config.transactional_id, pauses.delay)
        self._sender = Sender(
            config,
            self._client,
            self._metadata,
            self._accumulator,
            self._lock,
            self._clock,
            transactions=self._transactions,
            on_metadata=_weakly(self._on_metadata, lambda: None),
        )
        self._thread = threading.Thread(
            target=self._sender.run, name=f"pyconsumer-sender-{config.client_id}", daemon=True
        )
        self._closed = False
        finish_at_exit(self._sender, self._thread, self._appender)
        self._thread.start()

    # ------------------------------------------------------------ sending

    def send(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Send a record; return at once unless metadata is missing or the buffer is full.

        Args:
            topic: its name.
            value, key: what the serializers take; without serializers bytes, str (as UTF-8) or None.
            headers: pairs of a name and bytes or None.
            partition: where to; by default chosen by the partitioner.
            timestamp_ms: ms since the epoch; now by default.

        Returns:
            The promise of its :class:`pyconsumer.structs.RecordMetadata`. Failures that concern the record or the
            broker are raised by its ``get``.

        Raises:
            SerializationError: a serializer raised.
            AuthenticationError: the cluster refuses our credentials or certificate.
            InvalidTopicError: no topic can have this name. TopicAuthorizationFailedError: not allowed.
            ValueError: there is no such partition, or the timestamp is not one.
            KafkaTimeoutError: no metadata within ``max_block_ms``.
            BufferExhaustedError: the buffer stayed full for ``max_block_ms``.
            RecordTooLargeError: the record is larger than ``max_request_size`` or ``buffer_memory``.
            IllegalStateError: the producer is closed, or was made by another process; or it has a transactional id,
                and no transaction is open.
            TransactionAbortableError: something in this transaction has failed: abort it, then repeat it.
            ApplicationRecoverableError: another producer with this transactional id has taken over, or the like: close
                this one.

        In a callback of a record, ``send`` never waits: where it would have to, it raises at once.
        """
        transactions = self._transactions
        if self._is_plain and (transactions is None or transactions.is_open):
            future = self._append(topic, value, key, headers, partition, timestamp_ms)
            if future is not None:
                return future
        return self._send(topic, value, key, headers, partition, timestamp_ms)

    def send_many(
        self,
        topic: str,
        values: Iterable[ValueIn | None],
        keys: Iterable[KeyIn | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Send many records, with one future for all: much less work for each than :meth:`send`.

        Args:
            topic: its name.
            values: what :meth:`send` takes as value, one for each record.
            keys: one for each value; None sends records without keys.
            partition: where all of them go; by default chosen for each.
            timestamp_ms: of all of them, ms since the epoch; now by default.

        Returns:
            The promise of where they are.

        Raises:
            ValueError: there are more or fewer keys than values.
            KafkaError, ValueError: as :meth:`send`, for the first record that cannot be handed over. Those before it
                are sent all the same: the error's notes say how many.
        """
        return self._block(self._send_many_steps(topic, values, keys, partition, timestamp_ms))

    def _send_many_steps(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Generator[Pause, None, FutureRecords]:
        """Send many records, as a generator that yields what it has to wait for, and between batches."""
        rows = list(values)
        row_keys = None if keys is None else list(keys)
        if row_keys is not None and len(row_keys) != len(rows):
            raise ValueError(f"there are {len(rows)} values and {len(row_keys)} keys")
        runs: list[tuple[BatchResult, int, int]] = []
        at = 0
        transactions = self._transactions
        try:
            while at < len(rows):
                if self._is_plain and (transactions is None or transactions.is_open):
                    at = self._appender.append_many(topic, rows, row_keys, at, partition, timestamp_ms, runs)
                    if at == len(rows):
                        break
                key = None if row_keys is None else row_keys[at]
                future = yield from self._send_steps(topic, rows[at], key, None, partition, timestamp_ms)
                runs.append((*future.place, 1))
                at += 1
                yield YIELD
        except Exception as error:
            error.add_note(f"{at} of the {len(rows)} records of this call were accepted before the error, and are sent")
            raise
        return FutureRecords(runs)

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Send the rows of a table, as Spark's sink takes them: column ``value``, and ``key`` if it is there.

        Args:
            topic: its name.
            table: ``value`` and ``key`` are binary or string columns; there may also be ``partition`` (integers) and
                ``timestamp`` (a timestamp, or ms since the epoch). Serializers and interceptors are not applied to
                them beyond what they do to bytes and text.
            partition: where all rows go; by default chosen for each.

        Returns:
            The promise of where they are.

        Raises:
            ValueError: there is no column ``value``, or one that is not known.
            KafkaError, ValueError: as :meth:`send_many`.
        """
        return self._block(self._send_arrow_steps(topic, table, partition))

    def _send_arrow_steps(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, partition: int | None
    ) -> Generator[Pause, None, FutureRecords]:
        from pyconsumer.producer.arrow import send_steps  # pyarrow is optional

        return send_steps(self._send_many_steps, self._send_at_once, self._send_steps, topic, table, partition)

    def _send(self, *record: Any) -> FutureRecordMetadata:
        """Send a record whose batch has to be made or waited for, or that is refused, or has to be serialized."""
        return self._block(self._send_steps(*record))

    def _block(self, steps: Generator[Pause, None, R]) -> R:
        """Run a call that may have to wait, in this thread."""
        try:
            pause = next(steps)
            while True:
                if pause is not YIELD:
                    with self._lock:
                        while self._lock.count == pause.seen and (left := pause.deadline - self._clock.now()) > 0:
                            self._lock.wait(min(left, threading.TIMEOUT_MAX))
                pause = steps.send(None)
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            steps.close()

    def _send_at_once(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[tuple[str, bytes | None]] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> FutureRecordMetadata | None:
        """Send a record if there is a batch that it can join; otherwise change nothing and return None."""
        transactions = self._transactions
        if self._is_plain and (transactions is None or transactions.is_open):
            return self._append(topic, value, key, headers, partition, timestamp_ms)
        return None

    def _send_steps(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[tuple[str, bytes | None]] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Generator[Pause, None, FutureRecordMetadata]:
        """Send a record, as a generator that yields what it has to wait for; see :meth:`send`."""
        topic = topic if type(topic) is str else exact_topic(topic)
        if self._closed or self._pid != os.getpid():
            self._check_open()
        config = self.config
        transactions = self._transactions
        if transactions is not None and not transactions.is_open:  # add_partition looks again, under the lock
            with self._mutex:
                transactions.check_send()
        if timestamp_ms is None:
            timestamp_ms = self._clock.wall_ms()
        else:
            timestamp_ms = checked_timestamp(timestamp_ms)
        if config.interceptors:
            topic, key, value, headers, partition, timestamp_ms = self._interceptors.on_send(
                topic, key, value, headers, partition, timestamp_ms
            )
        key_bytes: bytes | None = self._serialize_key(topic, headers, key)
        value_bytes: bytes | None = self._serialize_value(topic, headers, value)
        if not self._is_plain and not config.interceptors:
            appended_future = self._append(topic, value_bytes, key_bytes, headers, partition, timestamp_ms)
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
            deadline = self._clock.now() + config.max_block_ms / 1000
            known = yield from self._topic_steps(topic, partition, deadline)
        if partition is None and config.partitioner is not None:
            partition = self._ask_partitioner(config.partitioner, topic, key_bytes, known)
        while (
            placed := self._place(topic, partition, timestamp_ms, key_bytes, value_bytes, header_list, size, known)
        ) is None:
            if deadline < 0:
                deadline = self._clock.now() + config.max_block_ms / 1000
            yield from self._room_steps(size, deadline)
        tp, appended = placed
        future = FutureRecordMetadata(
            appended.batch.result,
            appended.position,
            timestamp_ms,
            -1 if key_bytes is None else len(key_bytes),
            -1 if value_bytes is None else len(value_bytes),
            size_of_headers(header_list),
        )
        if config.interceptors:
            future.add_both(self._interceptors.on_acknowledgement, tp)
        if self._sender.at_exit and threading.current_thread() is not self._thread:
            yield from self._acknowledged_steps(future)
        return future

    def _acknowledged_steps(self, future: FutureRecordMetadata) -> Generator[Pause, None, None]:
        """Wait for a record that was sent at the end of the interpreter, when nobody would wait for it later."""
        deadline = self._clock.now() + self._sender.patience_at_exit
        while not future.is_done and self._clock.now() < deadline:
            with self._lock:
                seen = self._lock.count
                done = future.is_done
            if not done:
                yield Pause(seen, deadline)

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
        """Choose the partition and append the record to a batch; None if there is no room for it."""
        transactions = self._transactions
        try:
            with self._mutex:
                if self._accumulator.closing:
                    raise self._sender.closed_error()
                if not self._accumulator.has_room(size):
                    return None
                if partition is None:
                    partition = self._partitioner.partition(topic, key, known.count, known.preferred, size)
                tp = TopicPartition(topic, partition)
                if transactions is not None:
                    transactions.add_partition(tp)
                now = self._last_use[topic] = self._clock.now()
                appended = self._accumulator.append(tp, timestamp_ms, key, value, headers, size, now)
                self._records += 1
                if not self.config.interceptors and self._topics.get(topic) is known:
                    self._appender.remember(
                        topic, known.count, appended.batch, partition, self._partitioner.sticky(topic)
                    )
            if appended.wake_sender:
                self._client.wakeup()
        except BaseException:
            self._client.wakeup()  # Ctrl-C may have come when the record was in its batch already
            raise
        return tp, appended

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send everything that was handed over before this call, and wait until each record succeeded or failed.

        Args:
            timeout_ms: None waits as long as deliveries may take. By name only: other clients count in seconds.

        Raises:
            KafkaTimeoutError: not everything was done in time; the rest continues. Without a time: a callback of a
                record has not returned for ``delivery_timeout_ms``.
            TypeError: the time was not given by name.
            IllegalStateError: called in a callback of a record, whose thread is the one that sends; or closed; or that
                thread has ended, because a callback called :func:`sys.exit`.
        """
        self._check_open()
        if threading.current_thread() is self._thread:
            raise IllegalStateError("flush in a callback of a record would wait for its own thread")
        seconds = checked_seconds("flush", positional, timeout_ms)
        deadline = None if seconds is None else self._clock.now() + seconds
        with self._flushing() as waiting:
            for result in waiting:
                if deadline is None:
                    while not result.wait(self._sender.delivery_timeout):
                        self._sender.check_callbacks()
                elif not result.wait(max(0.0, deadline - self._clock.now())):
                    raise KafkaTimeoutError(f"not all records were acknowledged within {timeout_ms} ms")

    @contextlib.contextmanager
    def _flushing(self) -> Iterator[list[BatchResult]]:
        """Send batches without lingering in this block, which gets the results of those that are incomplete now."""
        self._check_open()
        with self._lock:
            waiting = self._accumulator.incomplete()
            self._accumulator.flush()
        try:
            if waiting:
                self._client.wakeup()
            yield waiting
            if self._sender.failure is not None:
                raise self._sender.closed_error()
        finally:
            with self._lock:
                self._accumulator.flush(False)

    # ------------------------------------------------------------ transactions

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Get ready for transactions: once, before the first one (KIP-98).

        An earlier producer with the same transactional id is fenced, and what it left open is finished.

        Args:
            timeout_ms: longest wait; ``max_block_ms`` by default.

        Raises:
            KafkaTimeoutError: not done in time; it is still tried, and may be called again.
            IllegalStateError: there is no ``transactional_id``, or it was called before.
            TransactionalIdAuthorizationFailedError: not allowed. InvalidTransactionTimeoutError:
                ``transaction_timeout_ms`` is more than the broker allows.
        """
        self._await(lambda transactions: transactions.initialize(), timeout_ms)

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on becomes visible at once, by the commit, or never.

        Raises:
            IllegalStateError: a transaction is open already, or :meth:`init_transactions` was not called.
            ApplicationRecoverableError: this producer was fenced; close it.
        """
        self._check_open()
        transactions = self._require_transactions()
        with self._lock:
            transactions.begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit the positions of a consumer as part of the transaction (KIP-447).

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: of the consumer, from its ``group_metadata()``; so a consumer that has lost its partitions
                is refused. The name of the group alone gives up that protection.
            timeout_ms: longest wait; ``max_block_ms`` by default.

        Raises:
            TransactionAbortableError: abort the transaction, then repeat it. Its cause is a
                :class:`CommitFailedError` if the consumer is not a member of the group any more.
            KafkaTimeoutError: not done in time: abort the transaction, or call it again.
            IllegalStateError: no transaction is open.
        """
        begin = self._adding_offsets(offsets, group_metadata)
        if begin is not None:
            self._await(begin, timeout_ms)

    def _adding_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata | str
    ) -> Callable[[TransactionManager], TransactionResult] | None:
        """Check the arguments of :meth:`send_offsets_to_transaction`; return its beginning, None if that is all."""
        group = checked_group(group_metadata)
        checked = {tp: checked_offset(tp, offset) for tp, offset in offsets.items()}

        def begin(transactions: TransactionManager) -> TransactionResult:
            for topic in {tp.topic for tp in checked}:  # the request names topics by their ids (KIP-1319)
                self._last_use[topic] = self._clock.now()
                if topic not in self._topics:
                    self._sender.wanted_topics.add(topic)
            return transactions.add_offsets(checked, group)

        if checked:
            return begin
        transactions = self._require_transactions()
        with self._lock:
            transactions.check_send()
        return None

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Send what is left and commit: all records and offsets of the transaction become visible together.

        Args:
            timeout_ms: longest wait; ``max_block_ms`` by default.

        Raises:
            TransactionAbortableError: something could not be delivered: abort, then repeat the transaction.
            ApplicationRecoverableError: this producer was fenced, and its transaction aborted; close it.
            KafkaTimeoutError: not done in time, and still being done: only ``commit_transaction`` may be called next.
            IllegalStateError: no transaction is open.
        """
        self._await(lambda transactions: transactions.commit(), timeout_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Give up the transaction: what was sent in it becomes visible to nobody who reads what is committed.

        Records that wait are not sent, and fail with ``TransactionAbortedError``.

        Args:
            timeout_ms: longest wait; ``max_block_ms`` by default.

        Raises:
            ApplicationRecoverableError: this producer was fenced; the broker has aborted for it. Close it.
            KafkaTimeoutError: not done in time, and still being done: only ``abort_transaction`` may be called next.
            IllegalStateError: no transaction is open.
        """
        self._await(lambda transactions: transactions.abort(), timeout_ms)

    def _detach_transaction(self) -> DetachedTransaction | None:
        """Flush, and let go of the transaction, which somebody else ends; return it, None if nothing was sent in it.

        Only :meth:`close` may be called next. A record that was not delivered raises TransactionAbortableError.
        """
        self.flush()
        transactions = self._require_transactions()
        with self._lock:
            return transactions.detach(has_incomplete=not self._accumulator.is_empty)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a block as a transaction: commit at its end, abort if it raises, or if the commit cannot be done.

        Raises:
            TransactionAbortableError: the transaction failed and was aborted; the block may be repeated.
            ApplicationRecoverableError: this producer was fenced; close it, make another one and repeat the block.
        """
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            self._abort_if_open()
            raise

    @property
    def is_initialized(self) -> bool:
        """Return whether :meth:`init_transactions` has succeeded."""
        transactions = self._require_transactions()
        with self._lock:
            return transactions.producer[0] >= 0

    def _abort_if_open(self) -> None:
        """Abort the transaction if one is open and this is possible; a failure is logged, since another error is on
        its way."""
        if self._may_abort:
            try:
                self.abort_transaction()
            except KafkaError as error:
                _log.warning("the transaction of %r could not be aborted: %s", self.config.transactional_id, error)

    @property
    def _may_abort(self) -> bool:
        """Return whether a transaction is open that can be aborted."""
        transactions = self._require_transactions()
        with self._lock:
            return transactions.may_abort and not self._closed

    def _require_transactions(self) -> TransactionManager:
        if self._transactions is None:
            raise IllegalStateError("this producer has no transactions: give it a transactional_id")
        return self._transactions

    def _await(self, begin: Callable[[TransactionManager], TransactionResult], timeout_ms: int | None) -> None:
        """Begin something that the sender's thread does, and wait for its outcome."""
        seconds = seconds_of(self.config.max_block_ms if timeout_ms is None else timeout_ms)
        result = self._begin_call(begin)
        result.wait(seconds)
        self._check_outcome(result, seconds)

    def _begin_call(self, begin: Callable[[TransactionManager], TransactionResult]) -> TransactionResult:
        """Begin something that the sender's thread does; return what will hold its outcome."""
        self._check_open()
        transactions = self._require_transactions()
        if threading.current_thread() is self._thread:
            raise IllegalStateError("a callback of a record cannot wait for its own thread; do this in another one")
        with self._lock:
            result = begin(transactions)
        self._client.wakeup()
        return result

    def _check_outcome(self, result: TransactionResult, seconds: float) -> None:
        """Raise the error of a call that has ended, or KafkaTimeoutError if it has not."""
        if not result.wait(0):
            reason = result.last_failure or f"connections: {self._client.failures()}"
            raise KafkaTimeoutError(
                f"{result.call}() was not done within {seconds * 1000:g} ms; call it again to wait longer. The last"
                f" error: {reason}"
            )
        if result.error is not None:
            raise result.error

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Errors as :meth:`send` for missing metadata."""
        return self._block(self._partitions_steps(topic))

    def _partitions_steps(self, topic: str) -> Generator[Pause, None, set[int]]:
        """Return the partitions of a topic, as a generator that yields what it has to wait for."""
        self._check_open()
        known = self._topics.get(topic)
        if known is None or known.error is not None:
            known = yield from self._topic_steps(topic, None, self._clock.now() + self.config.max_block_ms / 1000)
        with self._lock:
            self._last_use[topic] = self._clock.now()
        return set(known.all)

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name."""
        sender = self._sender
        return {
            "producer-metrics": {
                "record-send-total": self._records + self._appender.records,
                "batch-send-total": sender.sent_batches,
                "outgoing-byte-total": sender.sent_bytes,
                "record-retry-total": sender.retried_batches,
                "record-error-total": sender.failed_records,
                "buffer-total-bytes": self.config.buffer_memory,
                "buffer-available-bytes": self.config.buffer_memory - self._accumulator.memory_used,
            }
        }

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send what is left and end the background thread. An open transaction is aborted.

        Args:
            timeout_ms: after this time the rest is dropped: it fails with ``RequestCancelledError``, and a warning says
                how much it was. None waits until everything is sent or its delivery timeout has passed; 0 drops what
                is not sent; in a callback of a record the rest is dropped at once. By name only: other clients count in
                seconds.

        Raises:
            KafkaTimeoutError: records were dropped, and ``timeout_ms`` was not 0; or it is None, and a callback of a
                record has not returned for ``delivery_timeout_ms``. The producer is closed.
            TypeError: the time was not given by name.
            KeyboardInterrupt: Ctrl-C ends the wait at once; what is left fails with ``RequestCancelledError``.
        """
        seconds = checked_seconds("close", positional, timeout_ms)
        if self._pid != os.getpid():
            self._closed = True
            return
        with self._lock:
            self._closed = True
            self._appender.close()
            self._accumulator.close()
            self._lock.notify_all()
        inside = threading.current_thread() is self._thread
        if inside:
            self._sender.stop_now()
        self._client.wakeup()
        if inside:
            return
        try:
            wait = self._sender.delivery_timeout if seconds is None else seconds
            self._thread.join(min(wait, threading.TIMEOUT_MAX))
            while seconds is None and self._thread.is_alive():
                self._sender.check_callbacks()
                self._thread.join(min(wait, threading.TIMEOUT_MAX))
        except BaseException:  # Ctrl-C, or a callback that does not return: the thread ends without its records
            self._sender.stop_now()
            self._client.wakeup()
            raise
        if self._thread.is_alive():
            self._sender.stop_now()
            self._client.wakeup()
            self._thread.join(5.0)
            if timeout_ms and self._sender.dropped:
                raise KafkaTimeoutError(
                    f"the producer was closed within {timeout_ms:g} ms; {self._sender.describe_dropped()}"
                )

    def _drop(self) -> bool:
        """Let the thread end by itself, for finalizers; return whether the producer was neither closed nor forked."""
        if self._closed or self._pid != os.getpid():
            return False
        self._closed = True
        self._sender.finish()
        return True

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # Any thread may run this, with locks held: nothing here waits or takes one. The thread sends the rest and ends.
        shown = "" if self._closed else repr(self)
        if self._drop():
            _warn(f"unclosed {shown}: call close(), or use it in a with statement", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<KafkaProducer client_id={self.config.client_id!r}{' closed' if self._closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception waiting for deliveries would only hide it. But a transaction that stays open would hold up
        # everybody who reads its partitions.
        if kind is None:
            self.close()
            return
        try:
            self.close(timeout_ms=self._patience_after_error_ms)
        except KafkaTimeoutError as dropped:
            _log.info("%s", dropped)  # the sender has warned, and the exception on its way is the one to see

    # ------------------------------------------------------------ inside

    @property
    def _changes(self) -> Changes:
        """The lock under which the sender's thread announces what calls wait for."""
        return self._lock

    @property
    def _patience_after_error_ms(self) -> float:
        """Time for :meth:`close` after an exception: none, but for the abort of a transaction."""
        return 0 if self._transactions is None else _ABORT_MS

    def _on_time_moved(self) -> None:
        """Let calls that wait look at the time again."""
        with self._lock:
            self._lock.notify_all()

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise IllegalStateError("the producer was made before a fork; make one in each process")
        if self._closed or self._sender.failure is not None:
            raise self._sender.closed_error()

    def _ask_partitioner(self, custom: Callable[..., Any], topic: str, key: bytes | None, known: TopicFacts) -> int:
        """Return the choice of the application's partitioner. No lock is held: it may take one, or send a record."""
        return checked_choice(custom(key, known.all, known.available), topic, known.count)

    def _topic_steps(self, topic: str, partition: int | None, deadline: float) -> Generator[Pause, None, TopicFacts]:
        """Wait until metadata knows a topic, and a partition of it."""
        if not isinstance(topic, str):
            raise ValueError(f"the topic must be a string, not {topic!r}")
        if not is_topic_name(topic):
            raise InvalidTopicError(
                f"{topic[:300]!r} is no topic name: 1 to 249 letters, digits, dots, hyphens and underscores"
            )
        asked_at = self._topics.get(topic)
        while True:
            with self._lock:
                known = self._topics.get(topic)
                if known is not None and known.error is None and (partition is None or partition < known.count):
                    return known
                fresh = known is not None and known is not asked_at
                if known is not None and known.error is not None and fresh and not known.error.retriable:
                    raise known.error
                if self._refused is not None:
                    raise self._refused
                if known is not None and known.error is None and partition is not None and fresh:
                    raise ValueError(f"topic {topic!r} has partitions 0 to {known.count - 1}, not {partition}")
                if self._accumulator.closing:
                    raise self._sender.closed_error()
                now = self._last_use[topic] = self._clock.now()
                left = deadline - now
                if left <= 0:
                    raise self._no_metadata(topic, known)
                self._sender.wanted_topics.add(topic)
                if known is not None:
                    self._metadata.request_update()
                self._client.wakeup()
                if threading.current_thread() is self._thread:
                    raise KafkaTimeoutError(f"no metadata of topic {topic!r} yet; a callback cannot wait for it")
                seen = self._lock.count
            yield Pause(seen, deadline)

    def _no_metadata(self, topic: str, known: TopicFacts | None) -> KafkaError:
        text = f"no metadata of topic {topic!r} within max_block_ms ({self.config.max_block_ms} ms)"
        cause = known.error if known is not None else None
        reason = str(cause) if cause is not None else f"connections: {self._sender.failures}"
        error = KafkaTimeoutError(f"{text}: {reason}")
        error.__cause__ = cause
        return error

    def _room_steps(self, size: int, deadline: float) -> Generator[Pause, None, None]:
        """Wait until ``size`` bytes may be free."""
        with self._lock:
            self._accumulator.starve()
        try:
            while True:
                with self._lock:
                    if self._accumulator.closing:
                        raise self._sender.closed_error(" while send waited for room")
                    if self._accumulator.has_room(size):
                        return
                    if self._clock.now() >= deadline:
                        raise BufferExhaustedError(
                            f"no room for {size} bytes in buffer_memory ({self.config.buffer_memory}) within "
                            f"max_block_ms ({self.config.max_block_ms} ms): records are made faster than the brokers "
                            "take them"
                        )
                    if threading.current_thread() is self._thread:
                        raise BufferExhaustedError(
                            f"no room for {size} bytes in buffer_memory ({self.config.buffer_memory}); a callback "
                            "cannot wait for it"
                        )
                    seen = self._lock.count
                self._client.wakeup()
                yield Pause(seen, deadline, for_room=True)
        finally:
            with self._lock:
                self._accumulator.starve(False)

    def _on_metadata(self) -> None:
        """In the sender's thread: publish what metadata says of our topics."""
        metadata = self._metadata
        topics: dict[str, TopicFacts] = {}
        rack = self.config.client_rack if self.config.partitioner_rack_aware else None
        near = None if rack is None else {broker.node_id for broker in metadata.brokers() if broker.rack == rack}
        for topic in metadata.wanted_topics():
            error = metadata.topic_error(topic)
            partitions = metadata.partitions_for(topic)
            if partitions:
                topics[topic] = TopicFacts(sorted(partitions, key=lambda item: item.partition), near)
            elif error is not None:
                topics[topic] = TopicFacts((), error=error)
        with self._lock:
            self._topics = topics
            self._appender.forget()
            self._refused = metadata.fatal_error
            self._lock.notify_all()

    def _forget_idle(self, now: float) -> set[str]:
        """In the sender's thread, before metadata is asked for: topics unused for ``metadata_max_idle_ms``."""
        with self._lock:
            self._last_use.update(dict.fromkeys(self._accumulator.topics(), now))
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
