"""What a log accepts: the checks of a batch before it is appended, and the place that is then written into it.

Nothing here looks at single records, except where a setting asks for it: keys on a compacted topic, and a bound for old
timestamps. Errors carry Kafka's codes; their text goes to the producer.
"""

from __future__ import annotations

from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.pieces import pieces
from pyconsumer.errors import (
    CorruptMessageError,
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedCodecError,
    UnsupportedCompressionTypeError,
)
from pyconsumer.protocol.records import compression
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC_START,
    BatchInfo,
    check_crc,
    patch_batch,
    scan,
)
from pyconsumer.protocol.records.crc import crc32c

__all__ = ["check_batches", "place", "recompress"]

Buffer = bytes | bytearray | memoryview

_HIGHEST_CODEC = compression.Codec.ZSTD
_CODEC_NAMES = {"uncompressed": compression.Codec.NONE} | {
    codec.name.lower(): codec for codec in compression.Codec if codec is not compression.Codec.NONE
}


def check_batches(records: Buffer, config: TopicConfig, now_ms: int, *, from_client: bool = True) -> list[BatchInfo]:
    """Check record batches that are to be appended.

    Args:
        records: one batch from a client; the broker itself may append several, and control batches.
        now_ms: wall time, which timestamps are compared with.

    Returns:
        their headers, with the offsets that the sender gave them.

    Raises:
        CorruptMessageError: bytes that are no batch, or a wrong checksum.
        InvalidRecordError, InvalidTimestampError, MessageTooLargeError, UnsupportedCompressionTypeError: refused.
    """
    try:
        batches = scan(records)
    except CorruptRecordError as error:
        raise CorruptMessageError(str(error)) from None
    if not batches:
        raise InvalidRecordError("there is no whole record batch")
    if batches[-1].end_position != len(records):
        raise CorruptMessageError("the record set does not end with its last batch")
    if from_client and len(batches) != 1:
        raise InvalidRecordError("a produce request must hold exactly one record batch for each partition")
    for batch in batches:
        _check_batch(records, batch, config, now_ms, from_client)
    return batches


def _check_batch(records: Buffer, batch: BatchInfo, config: TopicConfig, now_ms: int, from_client: bool) -> None:
    if batch.magic != 2:
        raise InvalidRecordError(f"record batches must have format version 2, not {batch.magic}")
    if batch.size_bytes > config.max_message_bytes:
        raise MessageTooLargeError(
            f"the record batch has {batch.size_bytes} bytes, more than max.message.bytes={config.max_message_bytes}"
        )
    if batch.size_bytes > config.segment_bytes:
        raise RecordListTooLargeError(
            f"the record batch has {batch.size_bytes} bytes, more than a segment of {config.segment_bytes}"
        )
    if not check_crc(records, batch):
        raise CorruptMessageError("the checksum of the record batch is wrong")
    if batch.codec > _HIGHEST_CODEC:
        raise UnsupportedCompressionTypeError(f"compression type {batch.codec} is not known")
    if not from_client:
        return
    if batch.record_count <= 0:
        raise InvalidRecordError(f"the record batch claims {batch.record_count} records")
    if batch.last_offset_delta + 1 != batch.record_count:
        raise InvalidRecordError(
            f"the record batch has {batch.record_count} records, but its offsets are for {batch.last_offset_delta + 1}"
        )
    if batch.is_control:
        raise InvalidRecordError("clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise InvalidRecordError(f"producer {batch.producer_id} sent a batch without a sequence number")
    if not config.log_append_time and batch.max_timestamp - now_ms > config.timestamp_after_max_ms:
        raise InvalidTimestampError(
            f"timestamp {batch.max_timestamp} is more than message.timestamp.after.max.ms="
            f"{config.timestamp_after_max_ms} ahead of the broker's time {now_ms}"
        )
    if config.compact or config.timestamp_before_max_ms < now_ms:
        _check_records(records, batch, config, now_ms)


def _check_records(records: Buffer, batch: BatchInfo, config: TopicConfig, now_ms: int) -> None:
    earliest = -1 if config.log_append_time else now_ms - config.timestamp_before_max_ms
    try:
        for piece in pieces(records, batch.base_offset, with_keys=config.compact, check_crc=False):
            if piece.keys is not None and piece.keys.null_count:
                raise InvalidRecordError("a compacted topic does not take records without a key")
            if earliest > 0 and min(piece.timestamps, default=earliest) < earliest:
                for timestamp in piece.timestamps:
                    if 0 <= timestamp < earliest:
                        raise InvalidTimestampError(
                            f"timestamp {timestamp} is more than message.timestamp.before.max.ms="
                            f"{config.timestamp_before_max_ms} behind the broker's time {now_ms}"
                        )
    except (CorruptRecordError, UnsupportedCodecError) as error:
        raise InvalidRecordError(str(error)) from None


def place(
    records: bytearray | memoryview,
    batches: list[BatchInfo],
    first_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> list[BatchInfo]:
    """Write their place in the log into batches; return their headers as they are now.

    Args:
        append_time_ms: timestamp to give all records (LogAppendTime), or None to keep the producer's.
    """
    placed = []
    for batch in batches:
        patch_batch(
            records,
            position=batch.position,
            base_offset=first_offset,
            leader_epoch=leader_epoch,
            log_append_time_ms=append_time_ms,
        )
        last_offset = first_offset + batch.last_offset_delta
        max_timestamp = batch.max_timestamp if append_time_ms is None else append_time_ms
        placed.append(
            batch._replace(
                base_offset=first_offset,
                last_offset=last_offset,
                partition_leader_epoch=leader_epoch,
                max_timestamp=max_timestamp,
            )
        )
        first_offset = last_offset + 1
    return placed


def recompress(records: Buffer, batches: list[BatchInfo], config: TopicConfig) -> bytearray | None:
    """The batches in the topic's own compression; None if they have it already, or the topic keeps the producer's."""
    if config.compression_type == "producer":
        return None
    codec = _CODEC_NAMES[config.compression_type]
    if all(batch.codec == codec for batch in batches):
        return None
    out = bytearray()
    for batch in batches:
        out += recompress_batch(memoryview(records)[batch.position : batch.end_position], batch, codec, config)
    return out


def recompress_batch(data: Buffer, batch: BatchInfo, codec: compression.Codec, config: TopicConfig) -> bytearray:
    """One batch with another compression, its header otherwise unchanged."""
    level = {compression.Codec.GZIP: config.gzip_level, compression.Codec.ZSTD: config.zstd_level}.get(codec)
    if level == -1:
        level = None
    try:
        plain = compression.decompress(batch.codec, data[BATCH_OVERHEAD:])
    except (DamageError, KafkaError) as error:
        raise InvalidRecordError(f"the record batch cannot be decompressed: {error}") from None
    return rebuild_batch(data[:BATCH_OVERHEAD], plain, batch.attributes, codec, level)


def rebuild_batch(header: Buffer, plain: Buffer, attributes: int, codec: int, level: int | None = None) -> bytearray:
    """A batch with the given header and uncompressed records: length, codec and checksum are set to fit."""
    payload = compression.compress(codec, plain, level)
    out = bytearray(header)
    out += payload
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[CRC_START : CRC_START + 2] = (attributes & ~CODEC_MASK | codec).to_bytes(2, "big", signed=True)
    with memoryview(out) as view:
        checksum = crc32c(view[CRC_START:])
    out[17:21] = checksum.to_bytes(4, "big")
    return out
