"""``aiokafka.abc``: base classes of what a program hands over."""

from __future__ import annotations

from pyconsumer.consumer.interface import ConsumerRebalanceListener

__all__ = ["ConsumerRebalanceListener"]
