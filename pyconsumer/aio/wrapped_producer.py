"""``WrappedProducer``: an ``AsyncKafkaProducer`` that shows its metadata to ``compat/aiokafka``."""

from __future__ import annotations

from typing import Any

from pyconsumer.aio.producer import AsyncKafkaProducer
from pyconsumer.network.metadata import Metadata

__all__ = ["WrappedProducer"]


class WrappedProducer(AsyncKafkaProducer[Any, Any]):
    """An ``AsyncKafkaProducer`` that gives access to its metadata."""

    @property
    def metadata(self) -> Metadata:
        """The known brokers and topics."""
        return self._delegate.metadata
