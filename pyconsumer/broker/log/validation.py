"""Checks of batches before they are appended, and the assignment of their offsets. Functions without state.

The order is that of :meth:`~.partition_log.PartitionLog.append`: :func:`check_batches`, :func:`correct_timestamps`,
:func:`recompress`, :func:`assign_offsets`. :func:`only_batch` comes before them, as Kafka checks a request before it
looks for the partition. As in Java's ``LogValidator``, the records inside a client's batch are checked too, and
decompressed for that. With ``pyconsumer.validate.records=false`` they are only read on a compacted topic, to check that
they have keys, and on a topic that limits how old timestamps may be. The errors have Kafka's codes, and the producer
gets their messages. ``tests/vectors/odd_requests.tsv`` compares them with Apache Kafka's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from pyconsumer.broker.config import TopicConfig
from pyconsumer.errors import (
    BrokerResponseError,
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
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import Columns, ColumnsBuilder, Cursor, check_records, compression
from pyconsumer.protocol.records._pure import check_count
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_V2,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchInfo,
    check_crc,
    patch_batch,
    scan,
)
from pyconsumer.protocol.records.checking import Problem, RecordProblem, record_problems, renumbered
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition

__all__ = [
    "InvalidRecordsError",
    "InvalidTimestampsError",
    "assign_offsets",
    "check_batches",
    "complete_size",
    "correct_timestamps",
    "only_batch",
    "recompress",
    "record_columns",
]


_HIGHEST_CODEC = compression.Codec.ZSTD
_CODEC_NAMES = {"uncompressed": compression.Codec.NONE} | {
    codec.name.lower(): codec for codec in compression.Codec if codec is not compression.Codec.NONE
}
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_NO_BATCH: Final = "there is no complete record batch: a produce request must have one for each partition"
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
#: The smallest length of a message of format v0. That of a batch is larger.
_LEAST_LENGTH: Final = 14
#: The attributes that a batch keeps when it gets the topic's compression: timestamp type, transactional, control.
_KEPT_ATTRIBUTES: Final = TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
_LITTLE: Final = struct.Struct("<I")
_LZ4_MAGIC: Final = 0x184D2204
#: Bits of the two bytes of an lz4 frame's descriptor. To Kafka the dictionary's bit is a reserved one, too.
_LZ4_RESERVED, _LZ4_CONTENT_CHECKSUM, _LZ4_CONTENT_SIZE = 0x03, 0x04, 0x08
_LZ4_BLOCK_CHECKSUM, _LZ4_INDEPENDENT, _LZ4_SIZE_BITS = 0x10, 0x20, 0x70
#: The number of records whose problems are in an error's message, as in Java.
_MOST_IN_MESSAGE: Final = 3
#: Records of a batch that are decoded at a time.
_RECORDS: Final = 10_000
#: Cursors need a partition for their messages, and a produced batch does not know its own.
_NO_PARTITION: Final = TopicPartition("", -1)


def record_columns(batch: Buffer, base_offset: int, *, with_keys: bool, check_crc: bool) -> Iterator[Columns]:
    """Yield the offsets, timestamps and, with ``with_keys``, the keys of a batch's records.

    For a control batch nothing is yielded.

    Each yielded column has at most 10,000 records, because a compressed batch of 1 MB may contain millions.

    Raises:
        CorruptRecordError: the batch is damaged, or is larger after decompression than consumers accept. The records
            before the damage were yielded.
        UnsupportedCodecError: the codec is unknown, or its library is missing.
    """
    cursor = Cursor(_NO_PARTITION, batch, fetch_offset=base_offset, check_crcs=check_crc)
    try:
        while not cursor.exhausted:
            builder = ColumnsBuilder(with_keys=with_keys, with_values=False)
            cursor.take_into(builder, _RECORDS)
            yield builder.build()
    except CorruptRecordError as error:
        text = str(error).removeprefix(f"{_NO_PARTITION} ")
        raise CorruptRecordError(text, offset=error.offset, next_offset=error.next_offset) from None
    except UnsupportedCodecError as error:
        raise UnsupportedCodecError(str(error).removeprefix(f"{_NO_PARTITION} ")) from None


class _RejectedRecordsError(BrokerResponseError):
    """Base of errors that list the invalid records.

    Attributes:
        record_errors: the index in the batch and the reason of each, for the response to the producer (KIP-467).
    """

    record_errors: list[tuple[int, str]]

    def __init__(self, record_errors: list[tuple[int, str]]) -> None:
        listed = "; ".join(f"record {index}: {text}" for index, text in record_errors[:_MOST_IN_MESSAGE])
        more = len(record_errors) - _MOST_IN_MESSAGE
        super().__init__(f"the batch was rejected: {listed}" + (f"; and {more} more records" if more > 0 else ""))
        self.record_errors = record_errors


class InvalidRecordsError(_RejectedRecordsError, InvalidRecordError):
    """Records of a batch have no key, although the topic is compacted."""


class InvalidTimestampsError(_RejectedRecordsError, InvalidTimestampError):
    """Timestamps of records in a batch are out of bounds."""


def only_batch(records: Buffer | None) -> Buffer:
    """Return the only batch of a partition in a Produce request. An incomplete batch after it is removed.

    Raises:
        CorruptMessageError: the batch has an impossible length or format version.
        InvalidRecordError: there is no complete batch, or more than one, or it has an older format.
    """
    size = complete_size(records, 0) if records else 0
    if not records or not size:
        raise InvalidRecordError(_NO_BATCH)
    if records[_MAGIC_AT] != 2:
        raise InvalidRecordError(f"record batches must have format version 2, not {records[_MAGIC_AT]}")
    if size == len(records):
        return records
    if complete_size(records, size):
        raise InvalidRecordError(
            "a produce request must have exactly one record batch for each partition, and has more"
        )
    return memoryview(records)[:size]


def complete_size(records: Buffer, position: int) -> int:
    """Return the size of the batch at a position, or 0 if the batch is incomplete (Java: ``ByteBufferLogInputStream``).

    Raises:
        CorruptMessageError: the batch has an impossible length or format version.
    """
    left = len(records) - position
    if left < _LENGTH_AT + _LENGTH.size:
        return 0
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_AT)
    if length < _LEAST_LENGTH:
        raise CorruptMessageError(f"the record batch claims a length of {length} bytes, which is too small")
    if left <= _MAGIC_AT:
        return 0
    magic = records[position + _MAGIC_AT]
    if magic > 2:
        raise CorruptMessageError(f"the record batch has the unknown format version {magic}")
    size = length + _LENGTH_AT + _LENGTH.size
    if magic == 2 and size < BATCH_OVERHEAD:
        raise CorruptMessageError(f"the record batch claims a length of {length} bytes, which is too small")
    return int(size) if size <= left else 0


def check_batches(records: Buffer, config: TopicConfig, now_ms: int, *, from_client: bool = True) -> list[BatchInfo]:
    """Check record batches before they are appended.

    Args:
        records: the batch of a client, from :func:`only_batch`. The broker itself may append several batches and
            control batches.
        now_ms: the present time in ms since the epoch. Timestamps are compared with it.

    Returns:
        The headers. They have the offsets that the sender has set. If the records were read, ``max_timestamp`` is the
        greatest of their timestamps, even if the header contains another one (see :func:`correct_timestamps`).

    Raises:
        CorruptMessageError: the bytes are not record batches, or a checksum is wrong.
        InvalidRecordError: a header or a record is invalid.
        InvalidTimestampError: a timestamp is out of range.
        MessageTooLargeError, RecordListTooLargeError: a batch is larger than ``max.message.bytes`` or a segment.
        UnsupportedCompressionTypeError: the codec is unknown, or its library is missing.
    """
    if from_client:
        if only_batch(records) is not records:
            raise CorruptMessageError("the record set does not end with its batch")
        batch = _client_batch(records)
        _check_batch(records, batch, config)
        return [_check_client_batch(records, batch, config, now_ms)]
    try:
        batches = scan(records)
    except CorruptRecordError as error:
        raise CorruptMessageError(str(error)) from None
    if not batches:
        raise InvalidRecordError("there is no complete record batch")
    if batches[-1].end_position != len(records):
        raise CorruptMessageError("the record set does not end with its last batch")
    for batch in batches:
        _check_batch(records, batch, config)
    return batches


def _client_batch(records: Buffer) -> BatchInfo:
    """Read a header without checking its numbers.

    Raises:
        InvalidRecordError: the base offset is not 0.
    """
    base_offset, _, epoch, _, crc, attributes, delta, *rest = HEADER_V2.unpack_from(records)
    if base_offset:
        raise InvalidRecordError(f"the record batch must have base offset 0, not {base_offset}")
    return BatchInfo(0, len(records), 2, 0, delta, epoch, attributes, crc, delta, *rest)


def _check_batch(records: Buffer, batch: BatchInfo, config: TopicConfig) -> None:
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
        raise UnsupportedCompressionTypeError(f"compression type {batch.codec} is unknown")


def _check_client_batch(records: Buffer, batch: BatchInfo, config: TopicConfig, now_ms: int) -> BatchInfo:
    """Do the checks of clients' batches only. Return the header with the records' greatest timestamp."""
    if batch.record_count <= 0:
        raise InvalidRecordError(f"the record batch must have records, and its record count is {batch.record_count}")
    if batch.last_offset_delta + 1 != batch.record_count:
        raise InvalidRecordError(
            f"the record batch has {batch.record_count} records, but its offsets are for {batch.last_offset_delta + 1}"
        )
    if batch.is_control:
        raise InvalidRecordError("clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise InvalidRecordError(f"producer {batch.producer_id} sent a batch without a sequence number")
    if config.validate_records or config.compact or config.timestamp_before_max_ms < now_ms:
        return _check_records(records, batch, config, now_ms)
    if not config.log_append_time and batch.max_timestamp - now_ms > config.timestamp_after_max_ms:
        raise InvalidTimestampError(_out_of_bounds(batch.max_timestamp, config, now_ms))
    return batch


def _check_records(records: Buffer, batch: BatchInfo, config: TopicConfig, now_ms: int) -> BatchInfo:
    data, start, end = records, batch.position + BATCH_OVERHEAD, batch.end_position
    needs_order = False
    if batch.codec:
        # A batch that gets another compression is written again, and then its records get consecutive offsets.
        needs_order = _CODEC_NAMES.get(config.compression_type, batch.codec) == batch.codec
        packed = memoryview(records)[start:end]
        try:
            if batch.codec == compression.Codec.LZ4:
                packed = _lz4_frame(packed)
            data = compression.decompress(batch.codec, packed)
        except (DamageError, MemoryError) as error:
            raise InvalidRecordError(f"the records of the batch cannot be decompressed: {error}") from None
        except UnsupportedCodecError as error:
            raise UnsupportedCompressionTypeError(str(error)) from None
        start, end = 0, len(data)
    try:
        check_count(batch.record_count, end - start)
    except DamageError as error:
        raise InvalidRecordError(f"the record batch is damaged: {error}") from None
    earliest, latest = _LONG_MIN, _LONG_MAX
    if config.log_append_time:
        if batch.attributes & TIMESTAMP_TYPE_FLAG:
            text = "the producer must not set the timestamp type to LogAppendTime"
            raise InvalidTimestampsError([(index, text) for index in range(batch.record_count)])
    else:
        earliest = max(now_ms - config.timestamp_before_max_ms, earliest)
        latest = min(now_ms + config.timestamp_after_max_ms, latest)
    bad, max_timestamp = check_records(data, start, end, batch, config.compact, earliest, latest, needs_order)
    if bad >= 0:
        problems = record_problems(data, start, end, batch, config.compact, earliest, latest, needs_order)
        raise _refusal(problems, config, now_ms)
    return batch if max_timestamp == batch.max_timestamp else batch._replace(max_timestamp=max_timestamp)


def _lz4_frame(data: memoryview) -> memoryview:
    """Return the first lz4 frame, the only one that Kafka reads.

    Kafka's decoder is one of its own (``KafkaLZ4BlockInputStream``) and cannot read every frame that other decoders do.
    The header's checksum and the blocks are left to ours.

    Raises:
        DamageError: the frame has a property that Kafka cannot read, or it is cut off.
    """
    if len(data) < 7 or _LITTLE.unpack_from(data)[0] != _LZ4_MAGIC:
        raise DamageError("its lz4 data does not begin with an lz4 frame")
    flags, sizes = data[4], data[5]
    if flags >> 6 != 1 or flags & _LZ4_RESERVED or sizes & ~_LZ4_SIZE_BITS:
        raise DamageError(f"Kafka cannot read an lz4 frame with the descriptor {flags:#04x}, {sizes:#04x}")
    if not flags & _LZ4_INDEPENDENT:
        raise DamageError("its lz4 blocks are linked, and Kafka needs independent blocks")
    position = 15 if flags & _LZ4_CONTENT_SIZE else 7
    after = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    try:
        while length := _LITTLE.unpack_from(data, position)[0] & 0x7FFFFFFF:
            position += 4 + length + after
            if position > len(data):
                break
    except struct.error:
        position = len(data) + 1
    end = position + (8 if flags & _LZ4_CONTENT_CHECKSUM else 4)
    if end > len(data):
        raise DamageError("lz4 data is cut off")
    if data[position + 3]:  # a stored block without bytes, at which Kafka ends, too
        return memoryview(bytes(data[:position]) + bytes(4) + data[position + 4 : end])
    return data[:end]


def _refusal(problems: list[RecordProblem], config: TopicConfig, now_ms: int) -> KafkaError:
    """Return the error for a batch with these problems. As in Java, damage takes precedence."""
    if problems[-1].kind == Problem.DAMAGE:
        return InvalidRecordError(f"the batch was rejected: record {problems[-1].number}: {problems[-1].reason}")
    texts = []
    for problem in problems:
        if problem.kind == Problem.TIMESTAMP:
            texts.append((problem.number, _out_of_bounds(problem.timestamp, config, now_ms)))
        else:
            texts.append((problem.number, "records of a compacted topic must have a key"))
    if any(problem.kind == Problem.TIMESTAMP for problem in problems):
        return InvalidTimestampsError(texts)
    return InvalidRecordsError(texts)


def _out_of_bounds(timestamp: int, config: TopicConfig, now_ms: int) -> str:
    if timestamp > now_ms:
        name, limit, side = "message.timestamp.after.max.ms", config.timestamp_after_max_ms, "ahead of"
    else:
        name, limit, side = "message.timestamp.before.max.ms", config.timestamp_before_max_ms, "behind"
    return f"timestamp {timestamp} is more than {name}={limit} {side} the broker's time {now_ms}"


def correct_timestamps(records: bytearray | memoryview, batches: list[BatchInfo]) -> list[BatchInfo]:
    """Correct headers that do not have the greatest timestamp found by :func:`check_batches`.

    The timestamp type becomes CreateTime, because the records keep the producer's timestamps. The checksum is computed
    again. The time index uses the header. With a wrong timestamp there, lookups by time would not find the records
    (Java: ``setMaxTimestamp``).
    """
    corrected = []
    for batch in batches:
        (in_header,) = _MAX_TIMESTAMP.unpack_from(records, batch.position + _MAX_TIMESTAMP_AT)
        if in_header != batch.max_timestamp or batch.attributes & TIMESTAMP_TYPE_FLAG:
            patch_batch(records, position=batch.position, max_timestamp=batch.max_timestamp)
            batch = batch._replace(attributes=batch.attributes & ~TIMESTAMP_TYPE_FLAG)
        corrected.append(batch)
    return corrected


def assign_offsets(
    records: bytearray | memoryview,
    batches: list[BatchInfo],
    first_offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> list[BatchInfo]:
    """Write offsets and the leader epoch into batches in place. Return their new headers.

    Args:
        first_offset: offset of the first record.
        append_time_ms: the timestamp for all records (LogAppendTime). None keeps the producer's timestamps.
    """
    assigned = []
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
        assigned.append(
            batch._replace(
                base_offset=first_offset,
                last_offset=last_offset,
                partition_leader_epoch=leader_epoch,
                max_timestamp=max_timestamp,
            )
        )
        first_offset = last_offset + 1
    return assigned


def recompress(records: Buffer, batches: list[BatchInfo], config: TopicConfig) -> bytearray | None:
    """Return the batches in the topic's compression.

    Return None if they already have it, or if the topic keeps the producer's compression.
    """
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
    """Return a batch with another compression. The rest of its header stays the same."""
    level = {compression.Codec.GZIP: config.gzip_level, compression.Codec.ZSTD: config.zstd_level}.get(codec)
    if level == -1:
        level = None
    try:
        plain = compression.decompress(batch.codec, data[BATCH_OVERHEAD:])
    except (DamageError, KafkaError) as error:
        raise InvalidRecordError(f"the record batch cannot be decompressed: {error}") from None
    if check_records(plain, 0, len(plain), batch, False, _LONG_MIN, _LONG_MAX)[0] >= 0:
        plain = renumbered(plain, batch)
    return rebuild_batch(data[:BATCH_OVERHEAD], plain, batch.attributes & _KEPT_ATTRIBUTES, codec, level)


def rebuild_batch(header: Buffer, plain: Buffer, attributes: int, codec: int, level: int | None = None) -> bytearray:
    """Return a batch with this header and with compressed records. Length, codec and checksum are set."""
    payload = compression.compress(codec, plain, level)
    out = bytearray(header)
    out += payload
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[CRC_START : CRC_START + 2] = (attributes & ~CODEC_MASK | codec).to_bytes(2, "big", signed=True)
    with memoryview(out) as view:
        checksum = crc32c(view[CRC_START:])
    out[17:21] = checksum.to_bytes(4, "big")
    return out
