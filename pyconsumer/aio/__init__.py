"""Clients for asyncio: names, settings, errors and results of the blocking clients, whose waiting calls are coroutines.

See ``docs/asyncio.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.aio.admin import AsyncKafkaAdminClient as AsyncKafkaAdminClient
    from pyconsumer.aio.consumer import AsyncConsumerRebalanceListener as AsyncConsumerRebalanceListener
    from pyconsumer.aio.consumer import AsyncKafkaConsumer as AsyncKafkaConsumer
    from pyconsumer.aio.interface import AsyncConsumer as AsyncConsumer
    from pyconsumer.aio.interface import AsyncProducer as AsyncProducer
    from pyconsumer.aio.interface import AsyncShareConsumer as AsyncShareConsumer
    from pyconsumer.aio.producer import AsyncKafkaProducer as AsyncKafkaProducer
    from pyconsumer.aio.share_consumer import AsyncKafkaShareConsumer as AsyncKafkaShareConsumer

_HOMES = {
    "AsyncConsumer": "pyconsumer.aio.interface",
    "AsyncConsumerRebalanceListener": "pyconsumer.aio.consumer",
    "AsyncKafkaAdminClient": "pyconsumer.aio.admin",
    "AsyncKafkaConsumer": "pyconsumer.aio.consumer",
    "AsyncKafkaProducer": "pyconsumer.aio.producer",
    "AsyncKafkaShareConsumer": "pyconsumer.aio.share_consumer",
    "AsyncProducer": "pyconsumer.aio.interface",
    "AsyncShareConsumer": "pyconsumer.aio.interface",
}

__all__ = [
    "AsyncConsumer",
    "AsyncConsumerRebalanceListener",
    "AsyncKafkaAdminClient",
    "AsyncKafkaConsumer",
    "AsyncKafkaProducer",
    "AsyncKafkaShareConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
