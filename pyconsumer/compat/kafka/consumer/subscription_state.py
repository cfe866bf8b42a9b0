"""``kafka.consumer.subscription_state``: the rebalance listener."""

from __future__ import annotations

from pyconsumer.consumer.interface import ConsumerRebalanceListener

__all__ = ["ConsumerRebalanceListener"]
