"""``kafka.consumer.fetcher``: the record that a consumer returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyconsumer.generic import Header
from pyconsumer.structs import TopicPartition

__all__ = ["ConsumerRecord"]


class ConsumerRecord(NamedTuple):
    """A consumed record, the tuple that kafka-python's consumer returns.

    Args (all readable as attributes, too):
        topic, partition: the partition of the record.
        leader_epoch: of the leader that wrote the batch, -1 if unknown.
        offset: the offset in the partition.
        timestamp: in ms since the epoch, -1 if unknown.
        timestamp_type: 0 set by the producer (CreateTime), 1 set by the broker (LogAppendTime).
        key, value: as deserialized, None if the record has none.
        headers: a list of pairs of name and value.
        checksum: always None: whole batches have one.
        serialized_key_size, serialized_value_size: size in bytes as sent, -1 for None.
        serialized_header_size: size of all names and values of headers in bytes, -1 without headers.
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
        """Return the partition of the record, as our own records do."""
        return TopicPartition(self.topic, self.partition)
