"""``AIOKafkaProducer``: aiokafka's names and habits over ``AsyncKafkaProducer``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Self

from pyconsumer.aio import AsyncKafkaProducer
from pyconsumer.compat.aiokafka.consumer import as_offsets
from pyconsumer.compat.kafka.settings import connect, translate
from pyconsumer.errors import KafkaConnectionError, NoBrokersAvailableError
from pyconsumer.producer.appending import FutureRecordMetadata
from pyconsumer.structs import RecordMetadata, TopicPartition

__all__ = ["AIOKafkaProducer"]

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "linger_ms": 0,
    "request_timeout_ms": 40_000,
}


class AIOKafkaProducer:
    """A producer that a program for aiokafka can use.

    Args:
        configs: aiokafka's settings, and ours. ``max_batch_size`` is ``batch_size``; without ``enable_idempotence`` and
            ``transactional_id``, ``acks`` is 1 by default. ``loop`` has no effect.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or cannot be had here.

    Attributes:
        producer: the :class:`pyconsumer.aio.AsyncKafkaProducer` behind it.
    """

    def __init__(self, **configs: Any) -> None:
        configs.pop("loop", None)
        if "max_batch_size" in configs:
            configs["batch_size"] = configs.pop("max_batch_size")
        if not configs.get("transactional_id") and not configs.get("enable_idempotence"):
            configs = {"acks": 1, **configs, "enable_idempotence": False}
        self.producer = AsyncKafkaProducer(translate(configs, defaults=_DEFAULTS))
        self._futures: set[asyncio.Task[RecordMetadata]] = set()

    async def start(self) -> None:
        """Connect, and get ready for transactions if there is a ``transactional_id``.

        Raises:
            KafkaConnectionError: no broker answered within ``request_timeout_ms``. Stop the producer nevertheless.
        """
        config = self.producer.config
        try:
            await asyncio.to_thread(connect, config, config.request_timeout_ms)
        except NoBrokersAvailableError as error:
            raise KafkaConnectionError(str(error)) from error
        if config.transactional_id is not None:
            await self.producer.init_transactions()

    async def stop(self) -> None:
        """Send what is left and close. A second call does nothing."""
        await self.producer.close()
        if self._futures:
            await asyncio.wait(self._futures)

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

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Hand a record over; return a future of asyncio with its metadata. Mind the order of the arguments."""
        sent = await self.producer.send(topic, value, key, headers, partition, timestamp_ms)
        future = asyncio.ensure_future(_outcome(sent))
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> RecordMetadata:
        """Send a record and wait for the broker's answer."""
        return await self.producer.send_and_wait(topic, value, key, headers, partition, timestamp_ms)

    async def flush(self) -> None:
        """Wait until everything that was handed over was acknowledged or has failed."""
        await self.producer.flush()
        if self._futures:
            await asyncio.wait(set(self._futures))

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
        return self.producer.transaction()

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        """Commit offsets of a group as part of the transaction."""
        await self.producer.send_offsets_to_transaction(as_offsets(offsets) or {}, group_id)

    def __repr__(self) -> str:
        return repr(self.producer).replace("AsyncKafkaProducer", "AIOKafkaProducer")


async def _outcome(sent: FutureRecordMetadata) -> RecordMetadata:
    return await sent
