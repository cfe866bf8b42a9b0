"""``kafka.consumer.fetcher``: the record that a consumer returns. Ours is an object with attributes, not a tuple."""

from __future__ import annotations

from pyconsumer.protocol.records import ConsumerRecord

__all__ = ["ConsumerRecord"]
