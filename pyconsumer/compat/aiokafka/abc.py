"""``aiokafka.abc``: base classes of objects that a program passes to clients."""

from __future__ import annotations

from pyconsumer.consumer.interface import ConsumerRebalanceListener

__all__ = ["ConsumerRebalanceListener"]
