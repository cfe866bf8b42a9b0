"""``WrappedProducer``: an ``AsyncKafkaProducer`` that shows its metadata to ``compat/aiokafka``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyconsumer.aio.producer import AsyncKafkaProducer
from pyconsumer.network.metadata import Metadata
from pyconsumer.producer.accumulator import RecordToSend
from pyconsumer.producer.implementation import FutureRecordMetadata

__all__ = ["WrappedProducer"]


class WrappedProducer(AsyncKafkaProducer[Any, Any]):
    """An ``AsyncKafkaProducer`` that shows what it knows of the cluster, and sends prepared batches."""

    _name = "AIOKafkaProducer"
    _unclosed = "Unclosed AIOKafkaProducer"
    _how_to_close = "await stop(), or use it in async with"

    @property
    def metadata(self) -> Metadata:
        """The known brokers and topics."""
        return self._delegate.metadata

    async def send_batch(self, topic: str, partition: int, records: Sequence[RecordToSend]) -> FutureRecordMetadata:
        """Enqueue records as one batch, and return the future of the first one: ``ProducerDelegate.batch_steps``."""
        self._driver.bind()
        return await self._driver.run(self._delegate.batch_steps(topic, partition, records))

    async def refresh(self) -> None:
        """Request metadata again, and wait for the response at most for ``max_block_ms``."""
        self._driver.bind()
        await self._driver.run(self._delegate.metadata_steps())
