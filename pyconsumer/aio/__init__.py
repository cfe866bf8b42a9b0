"""Clients for asyncio: names, settings, errors and results of the blocking clients, whose waiting calls are coroutines.

See ``docs/asyncio.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyconsumer.aio.admin import AsyncKafkaAdminClient as AsyncKafkaAdminClient
    from pyconsumer.aio.consumer import AsyncConsumerRebalanceListener as AsyncConsumerRebalanceListener
    from pyconsumer.aio.consumer import AsyncKafkaConsumer as AsyncKafkaConsumer
    from pyconsumer.aio.interface import AsyncConsumer as AsyncConsumer
    from pyconsumer.aio.interface import AsyncProducer as AsyncProducer
    from pyconsumer.aio.producer import AsyncKafkaProducer as AsyncKafkaProducer

_HOMES = {
    "AsyncConsumer": "pyconsumer.aio.interface",
    "AsyncConsumerRebalanceListener": "pyconsumer.aio.consumer",
    "AsyncKafkaAdminClient": "pyconsumer.aio.admin",
    "AsyncKafkaConsumer": "pyconsumer.aio.consumer",
    "AsyncKafkaProducer": "pyconsumer.aio.producer",
    "AsyncProducer": "pyconsumer.aio.interface",
}

__all__ = [
    "AsyncConsumer",
    "AsyncConsumerRebalanceListener",
    "AsyncKafkaAdminClient",
    "AsyncKafkaConsumer",
    "AsyncKafkaProducer",
    "AsyncProducer",
]


def __getattr__(name: str) -> Any:
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pyconsumer.aio' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
