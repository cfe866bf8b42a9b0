"""``AsyncKafkaProducer``: the producer for asyncio, with the names, settings and results of ``KafkaProducer``.

The thread of :class:`.ProducerDelegate` sends the batches, so a busy loop delays no batch and no retry. A call that may
wait is a generator of the delegate. Here it is resumed by a change that the thread announces.

The producer belongs to the loop of its first call. Tasks that wait for memory get it in the order of their calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Never, Self, TypeVar, overload

from pyconsumer import background_log
from pyconsumer.aio.driver import LONGEST_TURN_S, TaskDriver, yield_to_loop
from pyconsumer.aio.interface import AsyncProducer
from pyconsumer.clock import Clock, seconds_of
from pyconsumer.errors import KafkaError, KafkaTimeoutError
from pyconsumer.generic import Header, KeyIn, ValueIn, refuse_pickling
from pyconsumer.metrics.health import ProducerHealth
from pyconsumer.metrics.source import Metric
from pyconsumer.network.futures import YIELD, Steps, Wait
from pyconsumer.producer.arguments import checked_seconds
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.producer.delegate import ProducerDelegate
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.health import producer_health
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.producer.loop_bridge import called, settled
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.transaction_manager import TransactionManager
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
from pyconsumer.telemetry import hooks

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow

    from pyconsumer.generic import NewKey, NewValue, RawInput, Serializer
    from pyconsumer.producer.typed_settings import ProducerSettings

__all__ = ["SENDS_PER_CHECK", "AsyncKafkaProducer"]

_log = logging.getLogger("pyconsumer.producer.producer")

T = TypeVar("T")

_NAME: Final = "AsyncKafkaProducer"
#: After this number of calls ``send`` looks if it has to yield to the loop.
SENDS_PER_CHECK: Final = 64


class _ThreadDriver(TaskDriver):
    """Runs calls that wait for the producer's thread, which announces changes; there is no socket."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        super().__init__(name, now)
        self._turns = asyncio.Lock()
        self._in_turn: asyncio.Task[object] | None = None  # the task that holds it, and is next to get memory

    async def run(self, steps: Steps[T], deadline: float = math.inf, *, interruptible: bool = False) -> T:
        """Run a call to its end, and return its result. A turn that it has got ends with it."""
        try:
            return await super().run(steps, deadline)
        finally:
            if self._in_turn is not None and self._in_turn is asyncio.current_task():
                self._in_turn = None
                self._turns.release()

    async def _wait(self, wait: Wait, until: float, interruptible: bool) -> None:
        if wait is YIELD:
            await self.yield_if_due()
            return
        change = wait.change
        assert change is not None
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(max(0.0, until - self._now())):
                if change.in_turn and self._in_turn is not task:
                    await self._turns.acquire()
                    self._in_turn = task
                else:
                    await called(change.on_announced)
        except TimeoutError:
            pass  # the call raises its own error, with the reason
        self.turn_began = self._now()

    async def yield_if_due(self) -> None:
        """Yield to the loop if this producer has not done so for :data:`LONGEST_TURN_S`."""
        if self._now() - self.turn_began > LONGEST_TURN_S:
            await yield_to_loop()
            self.turn_began = self._now()


class AsyncKafkaProducer(AsyncProducer[KeyIn, ValueIn]):
    """Sends records to Kafka from an event loop (asyncio or uvloop).

    Args:
        configs: mappings with settings. They may use Kafka's dotted names.
        clock: the source of time. Tests can pass a :class:`pyconsumer.testing.RunningClock` and move it ahead. By
            default it is the machine's clock.
        settings: see :data:`pyconsumer.producer.config.PRODUCER_SETTINGS`. ``bootstrap_servers`` is required. Type
            checkers derive the types of keys and values from ``key_serializer`` and ``value_serializer``.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    The producer belongs to the loop of its first call, and all tasks of that loop may use it. Use it in ``async with``,
    or await :meth:`close`. Await the futures of records. A callback that you add to a future runs in the producer's
    thread.

    Names, settings and errors are those of :class:`pyconsumer.KafkaProducer`. If the task that makes a call is
    cancelled, the effect depends on the call:

    * :meth:`send` has sent no record if it was waiting. If it has returned a future, the record is sent in any case.
    * :meth:`send_many` and :meth:`send_arrow` have enqueued the records for which there was memory until then.
    * :meth:`commit_transaction` continues, but you don't know its outcome. Call it again to learn the outcome.
    * :meth:`transaction` aborts the transaction.
    * :meth:`close` continues. Another call of it waits until it is done.

    Example::

        async with AsyncKafkaProducer(bootstrap_servers="localhost:9092") as producer:
            await producer.send_and_wait("orders", b"two coffees", key=b"table 4")
    """

    _open = False
    _name = "AsyncKafkaProducer"
    _unclosed = "unclosed"  # the beginning of the warning of a producer that is dropped without close()
    _how_to_close = "await close(), or use it in async with"

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """Create a producer with settings from a properties file and from the environment.

        Arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.

        Example::

            producer = AsyncKafkaProducer.from_file("client.properties", linger_ms=20)
        """
        from pyconsumer.settings.properties import from_file

        return cls(**from_file(PRODUCER_SETTINGS, path, overrides))

    # Without a serializer bytes and text are taken, and anything with one whose argument has no type, such as a lambda.
    # fmt: off
    @overload
    def __init__(
        self, configs: Mapping[str, object] | None = None, /, *,
        key_serializer: None = None, value_serializer: None = None,
        clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncKafkaProducer[NewKey, RawInput], configs: Mapping[str, object] | None = None, /, *,
        key_serializer: Serializer[NewKey] | None, value_serializer: None = None,
        clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncKafkaProducer[RawInput, NewValue], configs: Mapping[str, object] | None = None, /, *,
        key_serializer: None = None, value_serializer: Serializer[NewValue] | None,
        clock: Clock | None = None, **settings: Unpack[ProducerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncKafkaProducer[NewKey, NewValue], configs: Mapping[str, object] | None = None, /, *,
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
        self.config = delegate.config
        self._driver = _ThreadDriver(self._name, delegate.clock.now)
        self._sends = 0
        self._closing: asyncio.Future[None] | None = None
        self._open = True

    # -- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        self._driver.bind()
        self._sends += 1
        if not self._sends % SENDS_PER_CHECK:
            await self._driver.yield_if_due()
        if hooks.active is not None:
            return await self._driver.run(
                self._delegate.observed_send_steps(topic, value, key, headers, partition, timestamp_ms)
            )
        future = self._delegate.send_at_once(topic, value, key, headers, partition, timestamp_ms)
        if future is not None:
            return future
        return await self._driver.run(self._delegate.send_steps(topic, value, key, headers, partition, timestamp_ms))

    async def send_and_wait(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        future = await self.send(topic, value, key, headers, partition, timestamp_ms)
        return await future

    async def send_many(
        self,
        topic: str,
        values: Iterable[ValueIn | None],
        keys: Iterable[KeyIn | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        self._driver.bind()
        return await self._driver.run(self._delegate.send_many_steps(topic, values, keys, partition, timestamp_ms))

    async def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        self._driver.bind()
        return await self._driver.run(self._delegate.send_arrow_steps(topic, table, partition))

    async def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        self._driver.bind()
        seconds = checked_seconds("flush", positional, timeout_ms)
        with self._delegate.flushing() as waiting:
            try:
                async with asyncio.timeout(seconds):
                    for result in waiting:
                        await settled(result)
            except TimeoutError:
                raise KafkaTimeoutError(f"not all records were acknowledged within {timeout_ms} ms") from None

    async def partitions_for(self, topic: str) -> set[int]:
        self._driver.bind()
        return await self._driver.run(self._delegate.partitions_steps(topic))

    # -- transactions ------------------------------------------------------------------------------------------------

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        await self._call("init", lambda transactions: transactions.initialize(), timeout_ms)

    def begin_transaction(self) -> None:
        self._delegate.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        begin = self._delegate.adding_offsets(offsets, group_metadata)
        if begin is not None:
            await self._call("offsets", begin, timeout_ms)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        await self._call("commit", lambda transactions: transactions.commit(), timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        await self._call("abort", lambda transactions: transactions.abort(), timeout_ms)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            await asyncio.shield(self._abort_if_open())
            raise

    @property
    def is_initialized(self) -> bool:
        return self._delegate.is_initialized

    async def _abort_if_open(self) -> None:
        if self._delegate.may_abort:
            try:
                await self.abort_transaction()
            except KafkaError as error:
                _log.warning("could not abort the transaction of %r: %s", self.config.transactional_id, error)

    async def _call(
        self, name: str, begin: Callable[[TransactionManager], TransactionResult], timeout_ms: int | None
    ) -> None:
        self._driver.bind()
        seconds = seconds_of(self.config.max_block_ms if timeout_ms is None else timeout_ms)
        with self._delegate.calls.timed(name):
            result = self._delegate.begin_call(begin)
            try:
                async with asyncio.timeout(seconds):
                    await settled(result)
            except TimeoutError:
                pass  # _check_outcome raises, with the reason
        self._delegate.check_outcome(result, seconds)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, dict[str, float]]:
        return self._delegate.metrics()

    def metric_table(self) -> list[Metric]:
        return self._delegate.metric_source.table()

    def health(self) -> ProducerHealth:
        return producer_health(self._delegate)

    async def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        checked_seconds("close", positional, timeout_ms)
        if self._closing is None:
            self._open = False
            loop = asyncio.get_running_loop()
            close = functools.partial(self._delegate.close, timeout_ms)
            try:
                self._closing = loop.run_in_executor(None, background_log.background()(close))
            except RuntimeError:  # the interpreter ends and starts no thread any more, and this loop has nothing else
                self._closing = loop.create_future()
                self._closing.set_result(close())
        await asyncio.shield(self._closing)

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        if self._open:
            shown = repr(self)  # before it is closed
            self._open = False
            self._delegate.drop()
            _warn(f"{self._unclosed} {shown}: {self._how_to_close}", ResourceWarning, source=self)

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        return f"<{self._name} client_id={self.config.client_id!r}{'' if self._open else ' closed'}>"

    async def __aenter__(self) -> Self:
        self._driver.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        try:
            await self.close(timeout_ms=self._delegate.close_timeout_after_error_ms)
        except KafkaTimeoutError as dropped:
            _log.info("%s", dropped)  # the sender has warned, and the exception of the block is the one to raise
