"""The result of ``create_batch``: records that are sent together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.clock import checked_timestamp
from pyconsumer.compat.aiokafka.border import producer_border
from pyconsumer.compat.kafka.serializer.abstract import check_no_text
from pyconsumer.errors import IllegalStateError
from pyconsumer.producer.accumulator import RecordToSend
from pyconsumer.producer.arguments import checked_headers, serialized_now, serializer_of
from pyconsumer.producer.config import ProducerConfig
from pyconsumer.protocol.records import BATCH_OVERHEAD, record_size_bound

__all__ = ["BatchBuilder", "BatchedRecord"]

_NO_TOPIC: Final = ""  # the serializer is called before the topic of the batch is known


class BatchedRecord(NamedTuple):
    """A record in a batch. It has the record's number in the batch, its size in bytes and its timestamp in ms."""

    offset: int
    size: int
    timestamp: int


@producer_border.guard
class BatchBuilder:
    """Collects records until they reach ``max_batch_size``. The first record may be larger than that.

    Args:
        config: the settings of the producer.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._records: list[RecordToSend] = []
        self._limit = config.batch_size
        self._config = config
        self._size = BATCH_OVERHEAD
        self._key = serializer_of(config.key_serializer, "key")
        self._value = serializer_of(config.value_serializer, "value")
        self._wait_s = (
            config.max_block_ms / 1000
        )  # for a schema that a serializer needs: a batch has no loop to yield to
        self._closed = False

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Sequence[tuple[str, bytes]] | None = ()
    ) -> BatchedRecord | None:
        """Add a record. Return its number, size and timestamp. If the batch is full or closed, return None."""
        if self._closed:
            return None
        if isinstance(value, str) or isinstance(key, str):
            check_no_text(self._config, key, value)
        key_bytes, more = serialized_now(self._key, _NO_TOPIC, checked_headers(headers or ()), key, self._wait_s)
        value_bytes, pairs = serialized_now(self._value, _NO_TOPIC, more, value, self._wait_s)
        size = record_size_bound(key_bytes, value_bytes, pairs)
        if self._records and self._size + size > self._limit:
            self._closed = True
            return None
        time_ms = int(time.time() * 1000) if timestamp is None else checked_timestamp(timestamp, "timestamp")
        self._records.append((time_ms, key_bytes, value_bytes, pairs))
        self._size += size
        return BatchedRecord(len(self._records) - 1, size, time_ms)

    def close(self) -> None:
        """Accept no more records."""
        self._closed = True

    def size(self) -> int:
        """Return an upper bound of the size in bytes, before compression."""
        return self._size

    def record_count(self) -> int:
        """Return the number of records."""
        return len(self._records)

    def closed(self) -> bool:
        """Return whether the batch takes no more records."""
        return self._closed

    def taken(self) -> list[RecordToSend]:
        """Close the batch and return its records.

        Raises:
            IllegalStateError: the batch has no records.
        """
        self.close()
        if not self._records:
            raise IllegalStateError("the batch has no records")
        return self._records
