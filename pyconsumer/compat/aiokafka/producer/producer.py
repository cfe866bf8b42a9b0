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
from pyconsumer.compat.aiokafka.checks import check_settings
from pyconsumer.compat.aiokafka.consumer.consumer import as_offsets
from pyconsumer.compat.aiokafka.internals import ProducerInternals
from pyconsumer.compat.aiokafka.lifecycle import check_may_start
from pyconsumer.compat.aiokafka.producer.outcomes import Outcomes
from pyconsumer.compat.aiokafka.structs import RecordMetadata
from pyconsumer.compat.aiokafka.tokens import await_tokens, begin
from pyconsumer.compat.border import crosses
from pyconsumer.compat.kafka.serializer.abstract import as_serializer, check_no_text
from pyconsumer.compat.kafka.settings import connect, translate
from pyconsumer.errors import KafkaConnectionError, NoBrokersAvailableError
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
        configs: settings of aiokafka and of pyconsumer. ``max_batch_size`` is pyconsumer's ``batch_size``. ``acks`` is
            1 by default, unless ``enable_idempotence`` or ``transactional_id`` is set. ``loop`` has no effect.

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
        check_settings(configs)
        self._tokens = await_tokens(configs, _DEFAULTS["request_timeout_ms"])
        self.producer = WrappedProducer(translate(configs, defaults=_DEFAULTS))
        self._outcomes = Outcomes(border.crossed, wanted=self.producer.config.acks != 0)
        self._started: asyncio.Future[None] | None = None
        self._began = self._stopped = False

    async def start(self) -> None:
        """Connect. With a ``transactional_id``, also prepare for transactions.

        Raises:
            KafkaConnectionError: no broker could be reached within ``request_timeout_ms``. You must stop the producer
                all the same.
            IllegalStateError: the producer was started or stopped before. The error is also an ``AssertionError``.
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
        """Enqueue a record. Return an asyncio future of its metadata. With ``acks=0`` the result of the future is None.

        The order of the arguments is aiokafka's. It differs from :meth:`pyconsumer.aio.AsyncKafkaProducer.send`.
        """
        try:
            if isinstance(value, str) or isinstance(key, str):
                check_no_text(self.producer.config, key, value)
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
        """Return an empty batch. Fill it and pass it to :meth:`send_batch`."""
        return BatchBuilder(self.producer.config)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int | None
    ) -> asyncio.Future[RecordMetadata | None]:
        """Enqueue a batch as it is, and return a future of the metadata of its first record.

        With None as the ``partition``, it is chosen as for a record without a key.

        The batch is closed. It is not divided, and other records do not join it. The timestamp of the metadata is -1,
        unless the broker has set it.

        Raises:
            IllegalStateError: the batch has no records, or the producer was stopped.
        """
        producer = self.producer
        sent = await producer.send_batch(topic, partition, batch.taken())
        return self._outcomes.future(sent, producer.bind(), whole_batch=True)

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
        """Run a block as a transaction, as in ``async with producer.transaction():``."""
        return border.context(self.producer.transaction())

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        """Commit offsets of a group as part of the transaction.

        Raises:
            ValueError: there is no group id.
            KafkaError: see :meth:`pyconsumer.KafkaProducer.send_offsets_to_transaction`.
        """
        if not group_id or not isinstance(group_id, str):
            await self.producer.send_offsets_to_transaction({}, "any")  # raises if no transaction is open
            raise ValueError(f"group_id must be a non-empty string, not {group_id!r}")
        await self.producer.send_offsets_to_transaction(as_offsets(offsets) or {}, group_id)

    def __repr__(self) -> str:
        return repr(self.producer)
