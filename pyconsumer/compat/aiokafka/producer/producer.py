"""``AIOKafkaProducer``: aiokafka's API over ``AsyncKafkaProducer``."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Self

from pyconsumer.aio.wrapped_producer import WrappedProducer
from pyconsumer.background_log import background
from pyconsumer.compat.aiokafka.batch import BatchBuilder
from pyconsumer.compat.aiokafka.border import producer_border as border
from pyconsumer.compat.aiokafka.consumer.consumer import as_offsets
from pyconsumer.compat.aiokafka.internals import ProducerInternals
from pyconsumer.compat.aiokafka.lifecycle import check_may_start
from pyconsumer.compat.aiokafka.producer.outcomes import Outcomes
from pyconsumer.compat.aiokafka.structs import RecordMetadata
from pyconsumer.compat.aiokafka.tokens import await_tokens, begin
from pyconsumer.compat.border import crosses
from pyconsumer.compat.kafka.serializer.abstract import as_serializer
from pyconsumer.compat.kafka.settings import connect, translate
from pyconsumer.errors import KafkaConnectionError, NoBrokersAvailableError
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.structs import TopicPartition

__all__ = ["AIOKafkaProducer"]

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "linger_ms": 0,
    "request_timeout_ms": 40_000,
    "sasl_mechanism": "PLAIN",
}

#: aiokafka's default of ``acks``, which frameworks import: as if it were not given.
_missing: Final = object()


@border.guard
class AIOKafkaProducer(ProducerInternals):
    """A producer for programs that were written for aiokafka.

    Args:
        configs: aiokafka's settings, and ours. ``max_batch_size`` is our ``batch_size``. Without
            ``enable_idempotence`` and ``transactional_id``, ``acks`` is 1 by default. ``loop`` has no effect.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or is not supported.

    Attributes:
        producer: the wrapped :class:`pyconsumer.aio.AsyncKafkaProducer`.
    """

    def __init__(self, **configs: Any) -> None:
        if configs.pop("loop", None) is not None:
            warnings.warn("loop has no effect: the running loop is used", DeprecationWarning, stacklevel=3)
        self._addresses = configs.get("bootstrap_servers", _DEFAULTS["bootstrap_servers"])
        if type(configs.get("acks")) is object:  # the sentinel, ours or the original's
            del configs["acks"]
        for name in ("key_serializer", "value_serializer"):
            if configs.get(name) is not None:
                configs[name] = as_serializer(configs[name])
        if "max_batch_size" in configs:
            configs["batch_size"] = configs.pop("max_batch_size")
        if configs.get("transactional_id") is not None:
            configs["enable_idempotence"] = True  # as there, whatever is given
        if not configs.get("transactional_id") and not configs.get("enable_idempotence"):
            configs = {"acks": 1, **configs, "enable_idempotence": False}
        self._tokens = await_tokens(configs, _DEFAULTS["request_timeout_ms"])
        self.producer = WrappedProducer(translate(configs, defaults=_DEFAULTS))
        self._outcomes = Outcomes(border.crossed, wanted=self.producer.config.acks != 0)
        self._started: asyncio.Future[None] | None = None
        self._began = self._stopped = False

    async def start(self) -> None:
        """Connect, and with a ``transactional_id`` prepare for transactions.

        Raises:
            KafkaConnectionError: no broker could be reached within ``request_timeout_ms``. Stop the producer then, too.
            IllegalStateError: it was started or stopped before. It is an ``AssertionError``, too.
        """
        check_may_start("AIOKafkaProducer", began=self._began, stopped=self._stopped)
        self._began = True
        config = self.producer.config
        timeout_ms = begin(self._tokens, config.request_timeout_ms)
        try:
            await asyncio.to_thread(background()(connect), config, timeout_ms)
        except NoBrokersAvailableError as error:
            raise KafkaConnectionError(str(error)) from error
        if config.transactional_id is not None:
            await self.producer.init_transactions()
        self._started = asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        """Send the buffered records and close. A second call has no effect."""
        if self._stopped:
            return
        self._stopped = True
        if self._started is not None and not self._started.done():
            self._started.set_result(None)
        await self.producer.close()
        await self._outcomes.settled()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.producer.close(timeout_ms=0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @crosses
    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> asyncio.Future[RecordMetadata | None]:
        """Enqueue a record to be sent, and return an asyncio future of its metadata, of None with ``acks=0``.

        The order of the arguments is aiokafka's, not that of :meth:`pyconsumer.aio.AsyncKafkaProducer.send`.
        """
        try:
            producer = self.producer
            loop = producer.bind()
            sent = producer.send_at_once(topic, value, key, headers, partition, timestamp_ms)
            if sent is None:
                sent = await producer.send(topic, value, key, headers, partition, timestamp_ms)
            return self._outcomes.future(sent, loop)
        except Exception as error:
            crossed = border.crossed(error)
            if crossed is error:
                raise
        raise crossed

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch, to fill and pass to :meth:`send_batch`."""
        config = self.producer.config
        return BatchBuilder(config.batch_size, config.key_serializer, config.value_serializer)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata | None]:
        """Enqueue the records of a batch, in order, and return a future of the metadata of the first one.

        Raises:
            IllegalStateError: the batch has no records, or the producer was stopped.
        """
        first: FutureRecordMetadata | None = None
        for key, value, timestamp_ms, headers in batch.taken():
            sent = await self.producer.send(topic, value, key, headers, partition, timestamp_ms)
            first = first or sent
        assert first is not None
        return self._outcomes.future(first, self.producer.bind())

    @crosses
    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> RecordMetadata | None:
        """Send a record and wait for the broker's response."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Wait until all records that were passed to ``send`` have been acknowledged or have failed."""
        await self.producer.flush()
        await self._outcomes.settled()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic."""
        return await self.producer.partitions_for(topic)

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        self.producer.begin_transaction()

    async def commit_transaction(self) -> None:
        """Commit the transaction."""
        await self.producer.commit_transaction()

    async def abort_transaction(self) -> None:
        """Abort the transaction."""
        await self.producer.abort_transaction()

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Run a block as a transaction: ``async with producer.transaction():``."""
        return border.context(self.producer.transaction())

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        """Commit offsets of a group as part of the transaction.

        Raises:
            ValueError: there is no group id.
            KafkaError: as :meth:`pyconsumer.KafkaProducer.send_offsets_to_transaction`.
        """
        if not group_id or not isinstance(group_id, str):
            await self.producer.send_offsets_to_transaction({}, "any")  # raises if no transaction is open
            raise ValueError(f"group_id must be a non-empty string, not {group_id!r}")
        await self.producer.send_offsets_to_transaction(as_offsets(offsets) or {}, group_id)

    def __repr__(self) -> str:
        return repr(self.producer).replace("AsyncKafkaProducer", "AIOKafkaProducer")
