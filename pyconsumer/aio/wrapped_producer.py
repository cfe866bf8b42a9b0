"""``WrappedProducer``: an ``AsyncKafkaProducer`` that shows its metadata to ``compat/aiokafka``, and sends at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pyconsumer.aio.producer import SENDS_PER_CHECK, AsyncKafkaProducer
from pyconsumer.network.metadata import Metadata
from pyconsumer.producer.accumulator import RecordToSend
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.telemetry import hooks

__all__ = ["WrappedProducer"]


class WrappedProducer(AsyncKafkaProducer[Any, Any]):
    """An ``AsyncKafkaProducer`` that shows its metadata, sends prepared batches, and can send without a coroutine."""

    _name = "AIOKafkaProducer"
    _unclosed = "Unclosed AIOKafkaProducer"
    _how_to_close = "await stop(), or use it in async with"

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the running loop. The first call makes it that of this producer, as the first ``send`` does.

        Raises:
            IllegalStateError: no loop is running in this thread, or another one than at the first call.
        """
        return self._driver.bind()

    def send_at_once(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[tuple[str, bytes | None]] | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> FutureRecordMetadata | None:
        """Send a record if there is a batch that it can join. Otherwise return None: ``send`` must be awaited.

        It returns None now and then, too, so that ``send`` lets other tasks run. Call :meth:`bind` before.
        """
        sends = self._sends + 1
        if not sends % SENDS_PER_CHECK or hooks.active is not None:
            return None  # send counts it
        self._sends = sends
        return self._delegate.send_at_once(topic, value, key, headers, partition, timestamp_ms)

    @property
    def metadata(self) -> Metadata:
        """The known brokers and topics."""
        return self._delegate.metadata

    async def send_batch(
        self, topic: str, partition: int | None, records: Sequence[RecordToSend]
    ) -> FutureRecordMetadata:
        """Enqueue records as one batch, and return the future of the first one: ``ProducerDelegate.batch_steps``."""
        self._driver.bind()
        return await self._driver.run(self._delegate.batch_steps(topic, partition, records))

    async def refresh(self) -> None:
        """Request metadata again, and wait for the response at most for ``max_block_ms``."""
        self._driver.bind()
        await self._driver.run(self._delegate.metadata_steps())
