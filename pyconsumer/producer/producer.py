"""``KafkaProducer``: the facade that applications call.

``send`` serializes, chooses a partition and appends to a batch in the calling thread; one background thread sends
(:mod:`pyconsumer.producer.sender`). A producer may be used by several threads at a time; its transactions concern all
of them.

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
from pyconsumer.producer.appending import FutureRecordMetadata
from pyconsumer.producer.arguments import checked_seconds
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig
from pyconsumer.producer.delegate import ProducerDelegate
from pyconsumer.producer.interface import Producer
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.sent_records import FutureRecords
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
        clock: the time, for tests: a :class:`pyconsumer.testing.RunningClock` can be moved ahead. By default the
            machine's.
        settings: see :data:`pyconsumer.producer.config.PRODUCER_SETTINGS`; ``bootstrap_servers`` is needed. For type
            checkers ``key_serializer`` and ``value_serializer`` decide the types of keys and values.

    Raises:
        ConfigurationError: a setting is unknown, wrong, or contradicts another one.
    """

    __reduce__ = refuse_pickling

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
        return self._run(self._delegate.send_many_steps(topic, values, keys, partition, timestamp_ms))

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
        return self._run(self._delegate.send_arrow_steps(topic, table, partition))

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
            group_metadata: of the consumer, from its ``group_metadata()``; so a consumer that has lost its partitions
                is refused. The name of the group alone gives up that protection.
            timeout_ms: longest wait; ``max_block_ms`` by default.

        Raises:
            TransactionAbortableError: abort the transaction, then repeat it. Its cause is a
                :class:`CommitFailedError` if the consumer is not a member of the group any more.
            KafkaTimeoutError: not done in time: abort the transaction, or call it again.
            IllegalStateError: no transaction is open.
        """
        begin = self._delegate.adding_offsets(offsets, group_metadata)
        if begin is not None:
            self._await(begin, timeout_ms)

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
        return self._delegate.is_initialized

    def _abort_if_open(self) -> None:
        """Abort the transaction if one is open and this is possible; a failure is logged, since another error is on
        its way."""
        if self._delegate.may_abort:
            try:
                self.abort_transaction()
            except KafkaError as error:
                _log.warning("the transaction of %r could not be aborted: %s", self.config.transactional_id, error)

    def _await(self, begin: Callable[[TransactionManager], TransactionResult], timeout_ms: int | None) -> None:
        """Begin something that the sender's thread does, and wait for its outcome."""
        seconds = seconds_of(self.config.max_block_ms if timeout_ms is None else timeout_ms)
        result = self._delegate.begin_call(begin)
        result.wait(seconds)
        self._delegate.check_outcome(result, seconds)

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Errors as :meth:`send` for missing metadata."""
        return self._run(self._delegate.partitions_steps(topic))

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name."""
        return self._delegate.metrics()

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

    This is for Spark's sink: a task sends its records, and the driver commits or aborts. Only ``close`` may be called
    next.

    Returns:
        The transaction; None if nothing was sent in it.

    Raises:
        TransactionAbortableError: a record was not delivered.
    """
    producer.flush()
    return producer._delegate.detach_transaction()
