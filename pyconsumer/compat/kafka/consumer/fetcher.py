"""``kafka.consumer.fetcher``: the record that a consumer returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyconsumer.generic import Header
from pyconsumer.structs import TopicPartition

__all__ = ["ConsumerRecord"]


class ConsumerRecord(NamedTuple):
    """A consumed record, in the form of kafka-python's tuple.

    Args (all readable as attributes, too):
        topic, partition: the partition of the record.
        leader_epoch: epoch of the leader that wrote the batch, -1 if unknown.
        offset: the offset in the partition.
        timestamp: the timestamp in ms since the epoch. -1 if unknown.
        timestamp_type: 0 if the producer has set it (CreateTime), 1 if the broker has set it (LogAppendTime).
        key, value: the deserialized key and value, or None if the record has none.
        headers: a list of pairs of name and value.
        checksum: always None, because only whole batches have a checksum.
        serialized_key_size, serialized_value_size: the sizes in bytes as sent. -1 for None.
        serialized_header_size: the size of all names and values of headers in bytes. -1 if there are no headers.
    """

    # The decoder makes these without __new__: its ``forms.pxi`` and ``record.make_form`` have the same order.
    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[Header]
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition of the record, under the name that pyconsumer's own records have."""
        return TopicPartition(self.topic, self.partition)
