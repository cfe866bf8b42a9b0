"""The fixtures for programs on an event loop: clients that are closed on the loop of their test.

The plugin registers this module if pytest-asyncio is active, in its mode ``strict`` or ``auto``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from pyconsumer.testing.fixture_settings import CLOSE_MS, consumer_settings, producer_settings

if TYPE_CHECKING:
    from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
    from pyconsumer.broker import EmbeddedCluster
    from pyconsumer.clock import RunningClock

__all__ = ["kafka_async_consumer", "kafka_async_producer"]


@pytest_asyncio.fixture
async def kafka_async_consumer(
    kafka_cluster: EmbeddedCluster, kafka_clock: RunningClock
) -> AsyncIterator[Callable[..., AsyncKafkaConsumer[Any, Any]]]:
    """A function that creates consumers, as in ``kafka_async_consumer("orders", group_id="g")``.

    Their ``auto_offset_reset`` is ``earliest`` by default.
    """
    from pyconsumer.aio import AsyncKafkaConsumer

    async with AsyncExitStack() as made:

        def make(*topics: str, **settings: Any) -> AsyncKafkaConsumer[Any, Any]:
            consumer: AsyncKafkaConsumer[Any, Any] = AsyncKafkaConsumer(
                *topics, **consumer_settings(kafka_cluster, settings), clock=kafka_clock
            )
            made.push_async_callback(consumer.close, CLOSE_MS)
            return consumer

        yield make


@pytest_asyncio.fixture
async def kafka_async_producer(
    kafka_cluster: EmbeddedCluster, kafka_clock: RunningClock
) -> AsyncIterator[Callable[..., AsyncKafkaProducer[Any, Any]]]:
    """A function that creates producers, as in ``kafka_async_producer(linger_ms=0)``."""
    from pyconsumer.aio import AsyncKafkaProducer

    async with AsyncExitStack() as made:

        def make(**settings: Any) -> AsyncKafkaProducer[Any, Any]:
            producer: AsyncKafkaProducer[Any, Any] = AsyncKafkaProducer(
                **producer_settings(kafka_cluster, settings), clock=kafka_clock
            )
            made.push_async_callback(producer.close, timeout_ms=0)
            return producer

        yield make
