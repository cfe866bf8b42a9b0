"""``kafka.producer.future``: what ``send`` returns, and what that promises."""

from __future__ import annotations

from pyconsumer.producer.appending import FutureRecordMetadata
from pyconsumer.structs import RecordMetadata

__all__ = ["FutureRecordMetadata", "RecordMetadata"]
