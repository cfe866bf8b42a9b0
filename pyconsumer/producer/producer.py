"""``KafkaProducer``: the public class.

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
from pyconsumer.metrics.source import Metric
from pyconsumer.network.futures import Steps, drive
from pyconsumer.producer.arguments import checked_seconds
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig
from pyconsumer.producer.delegate import ProducerDelegate
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.health import producer_health
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.producer.interface import Producer
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.transaction_manager import DetachedTransaction, TransactionManager
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pyconsumer.telemetry import hooks

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow

    from pyconsumer.generic import NewKey, NewValue, RawInput, Serializer
    from pyconsumer.metrics.health import ProducerHealth
    from pyconsumer.producer.typed_settings import ProducerSettings

__all__ = ["KafkaProducer", "detach_transaction"]

_log = Log(__name__)

R = TypeVar("R")


class KafkaProducer(Producer[KeyIn, ValueIn]):
    """Sends records to Kafka.

    Args:
        configs: mappings with settings. They may use Kafka's dotted names.
        clock: the source of time. Tests can pass a :class:`pyconsumer.testing.RunningClock` and move it ahead. By
            default it is the machine's clock.
        settings: see :data:`pyconsumer.producer.config.PRODUCER_SETTINGS`. ``bootstrap_servers`` is required. Type
            checkers derive the types of keys and values from ``key_serializer`` and ``value_serializer``.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    Example::

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            producer.send("orders", b"two coffees", key=b"table 4")
    """

    __reduce__ = refuse_pickling
    # For pyconsumer.compat: whether `send` takes text, and the class of its futures, None for ours.
    _takes_text = True
    _future_class: type[FutureRecordMetadata] | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """Create a producer with settings from a properties file and from the environment.

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
            configs,
            settings,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            clock=clock,
            takes_text=self._takes_text,
            future_class=self._future_class,
        )
        self.config: ProducerConfig = delegate.config
        # Of the delegate; `send` needs them for each record.
        self._append = delegate.append
        self._is_plain = delegate.is_plain
        self._transactions = delegate.transactions
        self._quick = delegate.append if delegate.is_plain and delegate.transactions is None else None
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
        if hooks.active is not None:
            observed = self._delegate.observed_send_steps(topic, value, key, headers, partition, timestamp_ms)
            return drive(observed, math.inf, _poll_nothing, self._now)
        quick = self._quick
        if quick is None and self._is_plain and self._transactions is not None and self._transactions.is_open:
            quick = self._append
        if quick is not None:
            future = quick(topic, value, key, headers, partition, timestamp_ms)
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
        return self._run(self._delegate.send_many_steps(topic, values, keys, partition, timestamp_ms))

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        return self._run(self._delegate.send_arrow_steps(topic, table, partition))

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
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
        self._await("init", lambda transactions: transactions.initialize(), timeout_ms)

    def begin_transaction(self) -> None:
        self._delegate.begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        begin = self._delegate.adding_offsets(offsets, group_metadata)
        if begin is not None:
            self._await("offsets", begin, timeout_ms)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        self._await("commit", lambda transactions: transactions.commit(), timeout_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        self._await("abort", lambda transactions: transactions.abort(), timeout_ms)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            self._abort_if_open()
            raise

    @property
    def is_initialized(self) -> bool:
        return self._delegate.is_initialized

    def _abort_if_open(self) -> None:
        """Abort the transaction if one is open and can be aborted. A failure is logged, as another error is raised."""
        if self._delegate.may_abort:
            try:
                self.abort_transaction()
            except KafkaError as error:
                _log.warning("the transaction of %r could not be aborted: %s", self.config.transactional_id, error)

    def _await(
        self, name: str, begin: Callable[[TransactionManager], TransactionResult], timeout_ms: int | None
    ) -> None:
        """Begin a call that the sender's thread completes, and wait for its outcome. ``name`` is that of its timing."""
        seconds = seconds_of(self.config.max_block_ms if timeout_ms is None else timeout_ms)
        with self._delegate.calls.timed(name):
            result = self._delegate.begin_call(begin)
            result.wait(seconds)
        self._delegate.check_outcome(result, seconds)

    def partitions_for(self, topic: str) -> set[int]:
        return self._run(self._delegate.partitions_steps(topic))

    def metrics(self) -> dict[str, dict[str, float]]:
        return self._delegate.metrics()

    def metric_table(self) -> list[Metric]:
        return self._delegate.metric_source.table()

    def health(self) -> ProducerHealth:
        return producer_health(self._delegate)

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
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
    """Flush a producer, and detach its open transaction, so that another process can end it.

    This is for Spark's sink. A task sends its records, and the driver commits or aborts. After this call you may only
    call ``close``.

    Returns:
        The transaction, or None if it is empty.

    Raises:
        TransactionAbortableError: a record was not delivered.
    """
    producer.flush()
    return producer._delegate.detach_transaction()
