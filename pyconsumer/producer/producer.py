"""``KafkaProducer``: the facade that applications call.

``send`` serializes, chooses a partition and appends to a batch in the calling thread. One background thread sends the
batches (:mod:`pyconsumer.producer.sender`). Several threads may use a producer at a time, and its transactions concern
all of them.

The work is that of :class:`.ProducerDelegate`. A call of it that may have to wait is a generator, which
:func:`pyconsumer.network.futures.drive` runs in the calling thread.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, overload

from pyconsumer import background_log
from pyconsumer.background_log import Log
from pyconsumer.clock import Clock, seconds_of
from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from pyconsumer.generic import Header, KeyIn, ValueIn, refuse_pickling
from pyconsumer.network.futures import Steps, drive
from pyconsumer.producer.arguments import checked_seconds
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig
from pyconsumer.producer.delegate import ProducerDelegate
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.producer.interface import Producer
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.transaction_manager import DetachedTransaction, TransactionManager
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow

    from pyconsumer.generic import NewKey, NewValue, RawInput, Serializer
    from pyconsumer.producer.typed_settings import ProducerSettings

__all__ = ["KafkaProducer", "detach_transaction"]

_log = Log(__name__)

R = TypeVar("R")


class KafkaProducer(Producer[KeyIn, ValueIn]):
    """Sends records to Kafka.

    Args:
        configs: settings in a mapping, which allows Kafka's dotted names.
        clock: the clock, for tests: a :class:`pyconsumer.testing.RunningClock` can be moved ahead. By default that of
            the machine.
        settings: see :data:`pyconsumer.producer.config.PRODUCER_SETTINGS`. ``bootstrap_servers`` is required. For type
            checkers ``key_serializer`` and ``value_serializer`` decide the types of keys and values.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    Example::

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            producer.send("orders", b"two coffees", key=b"table 4")
    """

    __reduce__ = refuse_pickling

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """Make a producer with settings from a properties file and from the environment.

        Arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.

        Example::

            producer = KafkaProducer.from_file("client.properties", linger_ms=20)
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
        delegate = self._delegate = ProducerDelegate.open(
            configs, settings, key_serializer=key_serializer, value_serializer=value_serializer, clock=clock
        )
        self.config: ProducerConfig = delegate.config
        # Of the delegate; `send` needs them for each record.
        self._append = delegate.append
        self._is_plain = delegate.is_plain
        self._transactions = delegate.transactions
        self._send_steps = delegate.send_steps
        self._now = delegate.clock.now

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
        """Send a record. The call returns at once, unless metadata is missing or the buffer is full.

        Args:
            topic: name of the topic.
            value, key: objects for the serializers. Without serializers: bytes, str (sent as UTF-8) or None.
            headers: pairs of a name and bytes or None.
            partition: number of the partition. By default the partitioner chooses.
            timestamp_ms: ms since the epoch. By default now.

        Returns:
            The future of its :class:`pyconsumer.structs.RecordMetadata`. Its ``get`` raises the errors that concern
            the record or the broker.

        Raises:
            SerializationError: a serializer raised.
            AuthenticationError: the cluster rejected your credentials or certificate.
            InvalidTopicError: no topic can have this name. TopicAuthorizationFailedError: not allowed.
            ValueError: the partition does not exist, or the timestamp is out of range.
            KafkaTimeoutError: no metadata within ``max_block_ms``.
            BufferExhaustedError: the buffer stayed full for ``max_block_ms``.
            RecordTooLargeError: the record is larger than ``max_request_size`` or ``buffer_memory``.
            IllegalStateError: the producer is closed, or was made by another process. Or it has a transactional id,
                and no transaction is open.
            TransactionAbortableError: something in this transaction has failed: abort it, then repeat it.
            ApplicationRecoverableError: another producer with this transactional id has taken over, or the like: close
                this one.

        In a callback of a record, ``send`` never waits: where it would have to, it raises at once.

        Example:
            >>> future = producer.send("orders", b"two coffees", key=b"table 4", headers=[("shop", b"north")])
            >>> future.get(timeout=10).topic
            'orders'
        """
        transactions = self._transactions
        if self._is_plain and (transactions is None or transactions.is_open):
            future = self._append(topic, value, key, headers, partition, timestamp_ms)
            if future is not None:
                return future
        steps = self._send_steps(topic, value, key, headers, partition, timestamp_ms)
        return drive(steps, math.inf, _poll_nothing, self._now)

    def send_many(
        self,
        topic: str,
        values: Iterable[ValueIn | None],
        keys: Iterable[KeyIn | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Send many records, with one future for all. Each costs much less than with :meth:`send`.

        Args:
            topic: name of the topic.
            values: one for each record, as for :meth:`send`.
            keys: one for each value. None sends records without keys.
            partition: the partition of all records. By default the partitioner chooses for each.
            timestamp_ms: timestamp of all records, in ms since the epoch. By default now.

        Returns:
            The future of their partitions and offsets.

        Raises:
            ValueError: there are more or fewer keys than values.
            KafkaError, ValueError: as :meth:`send`, for the first record that is rejected. Those before it are sent
                all the same: the error's notes contain their number.

        Example:
            >>> records = producer.send_many("orders", [b"tea", b"coffee"], keys=[b"table 4", b"table 5"])
            >>> len(records)
            2
        """
        return self._run(self._delegate.send_many_steps(topic, values, keys, partition, timestamp_ms))

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Send the rows of a table, as Spark's sink takes them: column ``value``, and ``key`` if there is one.

        Args:
            topic: name of the topic.
            table: ``value`` and ``key`` are binary or string columns. Optional columns are ``partition`` (integers)
                and ``timestamp`` (a timestamp, or ms since the epoch). Serializers and interceptors get bytes and
                text.
            partition: the partition of all rows. By default the partitioner chooses for each.

        Returns:
            The future of their partitions and offsets.

        Raises:
            ValueError: there is no column ``value``, or an unknown column.
            KafkaError, ValueError: as :meth:`send_many`.

        Example:
            >>> import pyarrow
            >>> len(producer.send_arrow("orders", pyarrow.table({"value": [b"tea", b"coffee"]})))
            2
        """
        return self._run(self._delegate.send_arrow_steps(topic, table, partition))

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send all records that were passed to :meth:`send` before this call, and wait until each has its result.

        Args:
            timeout_ms: longest wait. None waits as long as deliveries may take. By name only, because other clients
                count in seconds.

        Raises:
            KafkaTimeoutError: some records have no result in time. They are still being sent. Without a time: a
                callback of a record has not returned for ``delivery_timeout_ms``.
            TypeError: the time was not given by name.
            IllegalStateError: the producer is closed, or a callback of a record calls this, whose thread is the one
                that sends. Or that thread has ended, because a callback called :func:`sys.exit`.

        Example:
            >>> future = producer.send("orders", b"tea")
            >>> producer.flush(timeout_ms=10_000)
            >>> future.done()
            True
        """
        delegate = self._delegate
        delegate.check_open()
        if delegate.in_own_thread:
            raise IllegalStateError("flush in a callback of a record would wait for its own thread")
        seconds = checked_seconds("flush", positional, timeout_ms)
        deadline = None if seconds is None else self._now() + seconds
        with delegate.flushing() as waiting:
            for result in waiting:
                if deadline is None:
                    while not result.wait(delegate.sender.delivery_timeout):
                        delegate.sender.check_callbacks()
                elif not result.wait(max(0.0, deadline - self._now())):
                    raise KafkaTimeoutError(f"not all records were acknowledged within {timeout_ms} ms")

    # ------------------------------------------------------------ transactions

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions. Call this once, before the first one (KIP-98).

        An earlier producer with the same transactional id is fenced, and its open transaction is ended.

        Args:
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            KafkaTimeoutError: not done in time. The producer keeps trying, and you may call this again.
            IllegalStateError: there is no ``transactional_id``, or this was called before.
            TransactionalIdAuthorizationFailedError: not allowed. InvalidTransactionTimeoutError:
                ``transaction_timeout_ms`` is more than the broker allows.

        Example:
            >>> transactional_producer.init_transactions()
        """
        self._await(lambda transactions: transactions.initialize(), timeout_ms)

    def begin_transaction(self) -> None:
        """Begin a transaction: the records sent until its commit become visible together, or never.

        Raises:
            IllegalStateError: a transaction is open already, or :meth:`init_transactions` was not called.
            ApplicationRecoverableError: this producer was fenced. Close it.

        Example:
            >>> transactional_producer.begin_transaction()
            >>> future = transactional_producer.send("orders", b"tea")
            >>> transactional_producer.commit_transaction()
        """
        self._delegate.begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit the positions of a consumer as part of the transaction (KIP-447).

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: the result of the consumer's ``group_metadata()``. With it, a consumer that has lost its
                partitions is rejected. The name of the group alone has no such protection.
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: abort the transaction, then repeat it. Its cause is a
                :class:`CommitFailedError` if the consumer is not a member of the group any more.
            KafkaTimeoutError: not done in time. Abort the transaction, or call this again.
            IllegalStateError: no transaction is open.

        Example:
            >>> transactional_producer.begin_transaction()
            >>> transactional_producer.send_offsets_to_transaction({TopicPartition("orders", 0): 17}, "kitchen")
            >>> transactional_producer.commit_transaction()
        """
        begin = self._delegate.adding_offsets(offsets, group_metadata)
        if begin is not None:
            self._await(begin, timeout_ms)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Send the buffered records and commit. All records and offsets of the transaction become visible together.

        Args:
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: something could not be delivered. Abort, then repeat the transaction.
            ApplicationRecoverableError: this producer was fenced, and its transaction aborted. Close it.
            KafkaTimeoutError: not done in time. The commit continues, and you may only call ``commit_transaction``
                next.
            IllegalStateError: no transaction is open.

        Example:
            >>> transactional_producer.begin_transaction()
            >>> future = transactional_producer.send("orders", b"tea")
            >>> transactional_producer.commit_transaction(timeout_ms=10_000)
        """
        self._await(lambda transactions: transactions.commit(), timeout_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction. Consumers with ``isolation_level=read_committed`` never see its records.

        Buffered records are not sent, and fail with ``TransactionAbortedError``.

        Args:
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            ApplicationRecoverableError: this producer was fenced, and the broker has aborted for it. Close it.
            KafkaTimeoutError: not done in time. The abort continues, and you may only call ``abort_transaction`` next.
            IllegalStateError: no transaction is open.

        Example:
            >>> transactional_producer.begin_transaction()
            >>> future = transactional_producer.send("orders", b"tea")
            >>> transactional_producer.abort_transaction()
        """
        self._await(lambda transactions: transactions.abort(), timeout_ms)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a block as a transaction. It is committed at the end, or aborted if the block or the commit fails.

        Raises:
            TransactionAbortableError: the transaction failed and was aborted. You may repeat the block.
            ApplicationRecoverableError: this producer was fenced. Close it, make another one and repeat the block.

        Example:
            >>> with transactional_producer.transaction() as producer:
            ...     future = producer.send("orders", b"tea")
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
        """Return whether :meth:`init_transactions` has succeeded.

        Example:
            >>> transactional_producer.is_initialized
            True
        """
        return self._delegate.is_initialized

    def _abort_if_open(self) -> None:
        """Abort the transaction if one is open and can be aborted. A failure is logged, as another error is raised."""
        if self._delegate.may_abort:
            try:
                self.abort_transaction()
            except KafkaError as error:
                _log.warning("the transaction of %r could not be aborted: %s", self.config.transactional_id, error)

    def _await(self, begin: Callable[[TransactionManager], TransactionResult], timeout_ms: int | None) -> None:
        """Begin a call that the sender's thread completes, and wait for its outcome."""
        seconds = seconds_of(self.config.max_block_ms if timeout_ms is None else timeout_ms)
        result = self._delegate.begin_call(begin)
        result.wait(seconds)
        self._delegate.check_outcome(result, seconds)

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Raises as :meth:`send` if metadata is missing.

        Example:
            >>> producer.partitions_for("orders")
            {0}
        """
        return self._run(self._delegate.partitions_steps(topic))

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name.

        Example:
            >>> future = producer.send("orders", b"tea")
            >>> int(producer.metrics()["producer-metrics"]["record-send-total"]) > 0
            True
        """
        return self._delegate.metrics()

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send the buffered records and end the background thread. An open transaction is aborted.

        Args:
            timeout_ms: longest wait. After it the remaining records fail with ``RequestCancelledError``, and a warning
                has their number. None waits until every record is sent or its delivery timeout has passed. 0 drops
                the records that are not sent, and so does a call in a callback of a record. By name only, because
                other clients count in seconds.

        Raises:
            KafkaTimeoutError: records were dropped, and ``timeout_ms`` was not 0. Or it is None, and a callback of a
                record has not returned for ``delivery_timeout_ms``. The producer is closed.
            TypeError: the time was not given by name.
            KeyboardInterrupt: Ctrl-C ends the wait at once, and the remaining records fail with
                ``RequestCancelledError``.

        Example:
            >>> producer.close(timeout_ms=10_000)
        """
        checked_seconds("close", positional, timeout_ms)
        self._delegate.close(timeout_ms)

    def _run(self, steps: Steps[R]) -> R:
        """Run a call in this thread. It ends by its own deadline, and waits for changes only."""
        return drive(steps, math.inf, _poll_nothing, self._now)

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # Any thread may run this, with locks held: nothing here waits or takes one. The thread sends the rest and ends.
        delegate: ProducerDelegate | None = getattr(self, "_delegate", None)  # None if the settings were refused
        shown = "" if delegate is None or delegate.closed else repr(self)
        if delegate is not None and delegate.drop():
            _warn(f"unclosed {shown}: call close(), or use it in a with statement", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<KafkaProducer client_id={self.config.client_id!r}{' closed' if self._delegate.closed else ''}>"

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
            self.close(timeout_ms=self._delegate.close_timeout_after_error_ms)
        except KafkaTimeoutError as dropped:
            _log.info("%s", dropped)  # the sender has warned, and the exception on its way is the one to see


def _poll_nothing(until: float, future: object) -> None:
    """Serve no socket, since the producer's thread does."""


def detach_transaction(producer: KafkaProducer) -> DetachedTransaction | None:
    """Flush a producer, and let go of its transaction, which another process ends.

    This is for Spark's sink: a task sends its records, and the driver commits or aborts. You may only call ``close``
    afterwards.

    Returns:
        The transaction, or None if it is empty.

    Raises:
        TransactionAbortableError: a record was not delivered.
    """
    producer.flush()
    return producer._delegate.detach_transaction()
