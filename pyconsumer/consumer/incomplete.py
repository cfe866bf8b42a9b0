"""Errors for fetched bytes without a whole batch: the batch exceeds the requested size, or its length is damaged."""

from __future__ import annotations

import struct
from typing import Final

from pyconsumer.errors import CorruptRecordError, KafkaError, RecordTooLargeError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, CRC_START
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition

__all__ = ["no_whole_batch"]

# Base offset, length, leader epoch, magic, crc, attributes, last offset delta.
_HEADER: Final = struct.Struct(">qiibIhi")
_OFFSET: Final = struct.Struct(">q")
_MAGICS: Final = (0, 1, 2)


def no_whole_batch(tp: TopicPartition, fetch_offset: int, records: Buffer, limit: int) -> KafkaError:
    """Return the error for a response that ends within its first batch.

    The length in a batch's header is not covered by its checksum. It is damaged if the broker sent less than it was
    allowed to, if the rest of the header makes no sense, or if the bytes up to where the next batch begins have the
    right checksum. (Brokers send the first batch whole, however large it is: KIP-74.)

    Args:
        tp: the partition.
        fetch_offset: the offset that was requested.
        records: the bytes of the response.
        limit: the most bytes that were requested.
    """
    size = len(records)
    if size < BATCH_OVERHEAD:
        return _damaged(tp, fetch_offset, -1, f"{size} bytes are no header")
    base_offset, length, _, magic, crc, _, delta = _HEADER.unpack_from(records, 0)
    next_offset = base_offset + delta + 1 if magic == 2 and delta >= 0 else -1
    if magic not in _MAGICS or base_offset < 0 or (magic == 2 and not base_offset <= fetch_offset < next_offset):
        return _damaged(tp, fetch_offset, -1, f"magic {magic}, base offset {base_offset}, length {length}")
    reason = f"its header says {length} bytes, and the broker sent {size}"
    if size < limit or (magic == 2 and _ends_before(records, next_offset, crc)):
        return _damaged(tp, fetch_offset, next_offset, reason)
    return RecordTooLargeError(
        f"{tp} at offset {fetch_offset}: the broker sent {size} bytes without a whole batch; raise"
        " max_partition_fetch_bytes"
    )


def _ends_before(records: Buffer, next_offset: int, crc: int) -> bool:
    """Return whether a batch that begins with ``next_offset`` follows where the checksum of the first one is right."""
    data = bytes(records)
    start = _OFFSET.pack(next_offset)
    position = data.find(start, BATCH_OVERHEAD)
    while position >= 0:
        if crc32c(data[CRC_START:position]) == crc:
            return True
        position = data.find(start, position + 1)
    return False


def _damaged(tp: TopicPartition, offset: int, next_offset: int, reason: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"the length of the record batch here is damaged: {reason}. Seek past the batch, or have the log repaired",
        topic_partition=tp,
        offset=offset,
        next_offset=next_offset,
    )
