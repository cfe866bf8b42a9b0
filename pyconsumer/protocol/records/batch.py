"""Headers of record batches: splits a record set into batches without decoding records. No state.

The layout of a v2 batch (KIP-98), 61 bytes before the records, big-endian::

    base_offset i64 | length i32 | partition_leader_epoch i32 | magic i8 | crc u32 |     (the checksum begins here)
    attributes i16 | last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 |
    producer_id i64 | producer_epoch i16 | base_sequence i32 | record_count i32 | records

A message of format v0 or v1 is a batch by itself. A compressed one contains a message set.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final, NamedTuple

from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition

__all__ = [
    "BATCH_OVERHEAD",
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "NO_TIMESTAMP_TYPE",
    "BatchInfo",
    "batch_error",
    "check_crc",
    "patch_batch",
    "scan",
    "scan_until_damage",
]


#: Values of ``timestamp_type``. Messages of format v0 have no timestamp (-1).
NO_TIMESTAMP_TYPE: Final = -1
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

#: Bytes of offset and length, which ``length`` does not include; the same in all formats.
LOG_OVERHEAD: Final = 12
#: Bytes of the header of a v2 batch.
BATCH_OVERHEAD: Final = 61
#: The checksum of a v2 batch covers the bytes from here on.
CRC_START: Final = 21

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

HEADER_V2: Final = Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH: Final = Struct(">qi")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_I64: Final = Struct(">q")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_HEADER_LEGACY: Final = Struct(">IbB")  # crc, magic, attributes at 12
_MAX_OFFSET: Final = 2**63 - 1

# The smallest legal ``length`` by magic: crc, magic, attributes, key length, value length (and timestamp).
_MIN_LENGTH: Final = (14, 22, BATCH_OVERHEAD - LOG_OVERHEAD)


class BatchInfo(NamedTuple):
    """The header of a record batch.

    ``position`` and ``size_bytes`` locate the batch in the scanned buffer. Offsets are absolute, and timestamps are in
    ms since the epoch. Missing ids, epochs and sequence numbers are -1.

    For a compressed message set (magic 0 or 1) ``record_count`` is -1. Its base offset is unknown until it is
    decompressed, so ``base_offset`` equals ``last_offset``.
    """

    position: int
    size_bytes: int
    magic: int
    base_offset: int
    last_offset: int
    partition_leader_epoch: int
    attributes: int
    crc: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def next_offset(self) -> int:
        """The offset after this batch. This holds even if compaction has removed the batch's last records."""
        return self.last_offset + 1

    @property
    def codec(self) -> int:
        """The number of the compression type (see :class:`.Codec`), 0 for none."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """``CREATE_TIME`` (0) or ``LOG_APPEND_TIME`` (1). -1 for format v0, which has no timestamps."""
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction."""
        return self.magic >= 2 and self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Return whether the batch contains a control record, such as the end of a transaction."""
        return self.magic >= 2 and self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Return whether the batch was written by an idempotent or transactional producer."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, or -1. The number after 2147483647 is 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time (ms) from which the log cleaner may remove the batch's tombstones (KIP-534), or None."""
        return self.first_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def time_before_reading(self) -> int:
        """The timestamp (ms) that the header has of the batch's records: of the first one, if possible.

        The log cleaner replaces it by the delete horizon (KIP-534). Then it is the largest timestamp of the records.
        """
        if self.timestamp_type == LOG_APPEND_TIME or self.delete_horizon_ms is not None:
            return self.max_timestamp
        return self.first_timestamp

    @property
    def end_position(self) -> int:
        """The position of the next batch in the scanned buffer."""
        return self.position + self.size_bytes


def scan(buffer: Buffer, *, topic_partition: TopicPartition | None = None) -> list[BatchInfo]:
    """Return the headers of all complete batches. This checks no checksum, decompresses nothing and copies nothing.

    If the last batch is cut off by the end of the buffer, it is left out. Brokers may cut fetch responses at any byte.

    Args:
        topic_partition: the partition, for the error.

    Raises:
        CorruptRecordError: a header is damaged.
    """
    batches, damage = scan_until_damage(buffer, topic_partition)
    if damage is not None:
        raise damage
    return batches


def scan_until_damage(
    buffer: Buffer, topic_partition: TopicPartition | None = None
) -> tuple[list[BatchInfo], CorruptRecordError | None]:
    """Scan like :func:`scan`.

    If a header is damaged, return its error and the batches before it, instead of raising.
    """
    batches: list[BatchInfo] = []
    append = batches.append
    unpack_v2 = HEADER_V2.unpack_from
    make = BatchInfo._make
    position, total = 0, len(buffer)
    while total - position > 16:
        magic = buffer[position + 16]
        if magic == 2:
            if total - position < BATCH_OVERHEAD:
                length = _OFFSET_LENGTH.unpack_from(buffer, position)[1]
                if length < _MIN_LENGTH[2]:
                    return batches, _damaged(buffer, position, f"length {length} is too small", topic_partition)
                break
            fields = unpack_v2(buffer, position)
            base_offset, length, epoch, _, crc, attributes, last_offset_delta = fields[:7]
            size = length + LOG_OVERHEAD
            if size < BATCH_OVERHEAD:
                return batches, _damaged(buffer, position, f"length {length} is too small", topic_partition)
            if size > total - position:
                break
            last_offset = base_offset + last_offset_delta
            if base_offset < 0 or last_offset_delta < 0 or last_offset >= _MAX_OFFSET or fields[12] < 0:
                reason = f"base offset {base_offset}, last offset delta {last_offset_delta}, {fields[12]} records"
                return batches, _damaged(buffer, position, reason, topic_partition)
            append(
                make(
                    (
                        position,
                        size,
                        2,
                        base_offset,
                        last_offset,
                        epoch,
                        attributes,
                        crc,
                        last_offset_delta,
                        *fields[7:],
                    )
                )
            )
        elif magic < 2:
            offset, length = _OFFSET_LENGTH.unpack_from(buffer, position)
            if length < _MIN_LENGTH[magic]:
                return batches, _damaged(buffer, position, f"length {length} is too small", topic_partition)
            size = length + LOG_OVERHEAD
            if size > total - position:
                break
            if not 0 <= offset < _MAX_OFFSET:
                return batches, _damaged(buffer, position, "its offset is negative", topic_partition)
            crc, _, attributes = _HEADER_LEGACY.unpack_from(buffer, position + LOG_OVERHEAD)
            timestamp = _I64.unpack_from(buffer, position + 18)[0] if magic else -1
            count = -1 if attributes & CODEC_MASK else 1
            append(
                make(
                    (
                        position,
                        size,
                        magic,
                        offset,
                        offset,
                        -1,
                        attributes,
                        crc,
                        0,
                        timestamp,
                        timestamp,
                        -1,
                        -1,
                        -1,
                        count,
                    )
                )
            )
        else:
            return batches, _damaged(buffer, position, f"magic {magic} is not known", topic_partition)
        position += size
    return batches, None


def _damaged(buffer: Buffer, position: int, reason: str, topic_partition: TopicPartition | None) -> CorruptRecordError:
    offset = _BASE_OFFSET.unpack_from(buffer, position)[0]
    return CorruptRecordError(
        f"the header of the batch at byte {position} is damaged: {reason}",
        topic_partition=topic_partition,
        offset=offset,
    )


def batch_error(
    topic_partition: TopicPartition | None,
    base_offset: int,
    last_offset: int,
    magic: int,
    next_offset: int,
    reason: str,
) -> CorruptRecordError:
    """Return the error for a damaged batch. A reader at ``next_offset`` raises it when it reaches the batch."""
    return CorruptRecordError(
        f"the record batch of offsets {base_offset} to {last_offset} is damaged: {reason}",
        topic_partition=topic_partition,
        offset=max(next_offset, base_offset) if magic >= 2 else next_offset,
        next_offset=last_offset + 1,
    )


def check_crc(buffer: Buffer, info: BatchInfo) -> bool:
    """Return whether the checksum of a batch is correct. Messages inside a compressed set are not checked."""
    view = memoryview(buffer)
    end = info.position + info.size_bytes
    if info.magic >= 2:
        return crc32c(view[info.position + CRC_START : end]) == info.crc
    return zlib.crc32(view[info.position + 16 : end]) == info.crc


def patch_batch(
    buffer: bytearray | memoryview,
    *,
    position: int = 0,
    base_offset: int | None = None,
    leader_epoch: int | None = None,
    log_append_time_ms: int | None = None,
    max_timestamp: int | None = None,
) -> None:
    """Set fields in the header of a v2 batch, in place. None leaves a field unchanged.

    The checksum does not cover the offset and the leader epoch. A new timestamp changes the checksum, so check the old
    checksum first.

    Args:
        position: position of the batch in the buffer.
        log_append_time_ms: the timestamp of the batch (ms since the epoch). The timestamp type becomes LogAppendTime.
        max_timestamp: the largest timestamp (ms since the epoch). The timestamp type becomes CreateTime. Pass only one
            of these two timestamps.

    Raises:
        ValueError: there is no complete batch of format v2 at this position.
    """
    if len(buffer) - position < BATCH_OVERHEAD or buffer[position + 16] != 2:
        raise ValueError("not a record batch of format v2")
    if base_offset is not None:
        _BASE_OFFSET.pack_into(buffer, position, base_offset)
    if leader_epoch is not None:
        _LEADER_EPOCH.pack_into(buffer, position + 12, leader_epoch)
    greatest = log_append_time_ms if max_timestamp is None else max_timestamp
    if greatest is not None:
        end = position + LOG_OVERHEAD + _OFFSET_LENGTH.unpack_from(buffer, position)[1]
        if not position + BATCH_OVERHEAD <= end <= len(buffer):
            raise ValueError("not a whole record batch")
        attributes = _ATTRIBUTES.unpack_from(buffer, position + CRC_START)[0] & ~TIMESTAMP_TYPE_FLAG
        if max_timestamp is None:
            attributes |= TIMESTAMP_TYPE_FLAG
        _ATTRIBUTES.pack_into(buffer, position + CRC_START, attributes)
        _I64.pack_into(buffer, position + 35, greatest)
        with memoryview(buffer) as view, view[position + CRC_START : end] as covered:
            _CRC.pack_into(buffer, position + 17, crc32c(covered))
