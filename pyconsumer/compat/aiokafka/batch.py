"""The result of ``create_batch``: records that are sent together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.compat.aiokafka.border import producer_border
from pyconsumer.errors import IllegalStateError
from pyconsumer.producer.arguments import serializer_of
from pyconsumer.protocol.records import BATCH_OVERHEAD, record_size_bound

__all__ = ["BatchBuilder", "BatchedRecord"]

_NO_TOPIC: Final = ""  # the serializer is called before the topic of the batch is known


class BatchedRecord(NamedTuple):
    """A record in a batch: its number in the batch, its size in bytes, its timestamp in ms."""

    offset: int
    size: int
    timestamp: int


@producer_border.guard
class BatchBuilder:
    """Collects records until they reach ``max_batch_size``. The first one may be larger.

    Keys and values are serialized here to find their size, and again when they are sent.

    Args:
        limit: ``max_batch_size``, in bytes.
        key_serializer, value_serializer: those of the producer.
    """

    def __init__(self, limit: int, key_serializer: Any, value_serializer: Any) -> None:
        self.records: list[tuple[Any, Any, int | None, list[tuple[str, bytes]]]] = []
        self._limit = limit
        self._size = BATCH_OVERHEAD
        self._key = serializer_of(key_serializer, "key")
        self._value = serializer_of(value_serializer, "value")
        self._closed = False

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Sequence[tuple[str, bytes]] | None = ()
    ) -> BatchedRecord | None:
        """Add a record, and return its number, size and timestamp, or None if the batch is full or closed."""
        if self._closed:
            return None
        key_bytes, value_bytes = self._key(_NO_TOPIC, None, key), self._value(_NO_TOPIC, None, value)
        pairs = list(headers or ())
        size = record_size_bound(key_bytes, value_bytes, pairs)
        if self.records and self._size + size > self._limit:
            return None
        self.records.append((key, value, timestamp, pairs))
        self._size += size
        shown = int(time.time() * 1000) if timestamp is None else timestamp
        return BatchedRecord(len(self.records) - 1, size, shown)

    def close(self) -> None:
        """Refuse further records."""
        self._closed = True

    def size(self) -> int:
        """Return an upper bound of the size in bytes, before compression."""
        return self._size

    def record_count(self) -> int:
        """Return the number of records."""
        return len(self.records)

    def taken(self) -> list[tuple[Any, Any, int | None, list[tuple[str, bytes]]]]:
        """Close the batch and return its records.

        Raises:
            IllegalStateError: the batch has no records.
        """
        self.close()
        if not self.records:
            raise IllegalStateError("the batch has no records")
        return self.records
