"""``kafka.producer.future``: the future that ``send`` returns, and its result."""

from __future__ import annotations

from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.structs import RecordMetadata

__all__ = ["FutureRecordMetadata", "RecordMetadata"]
