"""Builds record batches (format v2). A builder belongs to one thread: records are appended, then it is built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records._varint import SMALL_VARINTS, encode_varint
from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    CONTROL_FLAG,
    CRC_START,
    CREATE_TIME,
    DELETE_HORIZON_FLAG,
    HEADER_V2,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
)
from pyconsumer.protocol.records.compression import Codec, compress
from pyconsumer.protocol.records.crc import crc32c

__all__ = ["BatchBuilder", "Header", "batch_header", "encode_headers", "record_size_bound"]

Header = tuple[str, bytes | None]

_NULL: Final = b"\x01"  # the varint -1
_NO_HEADERS: Final = b"\x00"
_MAX_INT32: Final = 2**31 - 1


def record_size_bound(key: Buffer | None, value: Buffer | None, headers: Iterable[Header] = ()) -> int:
    """Return the largest possible size of a record in a batch, in bytes.

    Compression and the batch header are not considered.
    """
    size = 5 + 1 + 10 + 5 + 5 + 5 + 5 + (len(key) if key else 0) + (len(value) if value else 0)
    for name, header_value in headers:
        size += 10 + 3 * len(name) + (len(header_value) if header_value else 0)
    return size


class BatchBuilder:
    """Builds one batch of format v2 (KIP-98).

    Args:
        codec: ``"none"``, ``"gzip"``, ``"snappy"``, ``"lz4"`` or ``"zstd"``.
        timestamp_type: ``CREATE_TIME`` or ``LOG_APPEND_TIME``.
        size_limit: the largest size of the batch in bytes, or None. If records are compressed, the size is estimated.
            The first record is always accepted, whatever its size.
        expected_ratio: the ratio of compressed to uncompressed size for this estimate, for example the
            :attr:`compression_ratio` of the previous batch.
        level: compression level. None takes the codec's default.
        delete_horizon_ms: the time from which the batch's tombstones may be removed (KIP-534).

    Raises:
        UnsupportedCodecError: the compression type is unknown.
    """

    __slots__ = (
        "_base_timestamp",
        "_codec",
        "_count",
        "_has_delete_horizon",
        "_last_delta",
        "_level",
        "_limit",
        "_max_timestamp",
        "_payload",
        "_ratio",
        "_records",
        "_size",
        "_timestamp_type",
        "compression_ratio",
    )

    def __init__(
        self,
        codec: str | int | Codec = Codec.NONE,
        timestamp_type: int = CREATE_TIME,
        size_limit: int | None = None,
        *,
        expected_ratio: float = 1.0,
        level: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self._codec = Codec.of(codec)
        self._timestamp_type = timestamp_type
        self._level = level
        self._ratio = expected_ratio if self._codec else 1.0
        # The limit is stored as uncompressed bytes of records, so that an append compares two integers.
        self._limit = (
            1 << 62 if size_limit is None else max(0, int((size_limit - BATCH_OVERHEAD) / max(self._ratio, 0.01)))
        )
        self._records = bytearray()
        self._size = 0
        self._count = 0
        self._last_delta = -1
        # A delete horizon replaces the base timestamp, so timestamp deltas are relative to it.
        self._has_delete_horizon = delete_horizon_ms is not None
        self._base_timestamp = -1 if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp = -1
        self._payload: bytes | None = None
        #: Ratio of compressed to uncompressed size in the last build; 1.0 before.
        self.compression_ratio = 1.0

    __reduce__ = not_copied

    @property
    def record_count(self) -> int:
        """The number of records in the batch."""
        return self._count

    @property
    def codec(self) -> Codec:
        """The compression type."""
        return self._codec

    @property
    def estimated_size(self) -> int:
        """Size of the batch in bytes. It is exact without compression, otherwise estimated with ``expected_ratio``."""
        return BATCH_OVERHEAD + (int(self._size * self._ratio) if self._ratio != 1.0 else self._size)

    @property
    def base_timestamp(self) -> int:
        """Base timestamp in ms since the epoch: the first record's timestamp, or the delete horizon.

        -1 if there is neither.
        """
        return self._base_timestamp

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of the records, in ms since the epoch. -1 if there is no record."""
        return self._max_timestamp

    def try_append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
        *,
        relative_offset: int | None = None,
    ) -> int | None:
        """Add a record if there is room.

        Args:
            timestamp_ms: in ms since the epoch.
            headers: pairs of name and value. A value may be None.
            relative_offset: the record's offset minus the base offset, for a copy of a compacted log. It must increase
                from record to record. By default it increases by one.

        Returns:
            The record's relative offset. None if the batch is full, and the record was not added.

        Raises:
            ValueError: ``relative_offset`` does not increase.
            TypeError: a key, value or header is of the wrong type.
        """
        count = self._count
        if relative_offset is None:
            delta = self._last_delta + 1
            if delta > _MAX_INT32:
                return None
        elif self._last_delta < relative_offset <= _MAX_INT32:
            delta = relative_offset
        else:
            raise ValueError(f"relative offset {relative_offset} does not come after {self._last_delta}")
        if not count and not self._has_delete_horizon:
            self._base_timestamp = timestamp_ms
        since_base = timestamp_ms - self._base_timestamp
        small = SMALL_VARINTS
        if key is None:
            key_size, key = _NULL, b""
        else:
            length = len(key)
            key_size = small[length] if length < 2048 else encode_varint(length)
        if value is None:
            value_size, value = _NULL, b""
        else:
            length = len(value)
            value_size = small[length] if length < 2048 else encode_varint(length)
        body = b"".join(
            (
                b"\x00",
                small[since_base] if 0 <= since_base < 2048 else encode_varint(since_base),
                small[delta] if delta < 2048 else encode_varint(delta),
                key_size,
                key,
                value_size,
                value,
                encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        length = len(body)
        prefix = small[length] if length < 2048 else encode_varint(length)
        size = self._size + len(prefix) + length
        if count:
            if size > self._limit:
                return None
            if timestamp_ms > self._max_timestamp:
                self._max_timestamp = timestamp_ms
        else:
            self._max_timestamp = timestamp_ms
        records = self._records
        records += prefix
        records += body
        self._size = size
        self._count = count + 1
        self._last_delta = delta
        self._payload = None
        return delta

    def build(
        self,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        leader_epoch: int = -1,
        *,
        log_append_time_ms: int | None = None,
        last_offset_delta: int | None = None,
    ) -> bytes:
        """Return the batch. Repeated calls, for example with a new producer epoch, compress the records only once.

        Args:
            leader_epoch: the leader epoch of the partition. Clients leave it to the broker.
            log_append_time_ms: the timestamp of the batch in ms since the epoch, for ``LOG_APPEND_TIME``.
            last_offset_delta: last offset minus base offset, for a compacted batch whose last records were removed. By
                default that of the last record. It is required for a batch without records (such a batch is kept for
                the state of its producer).

        Raises:
            UnsupportedCodecError: the library of the codec is not installed.
            ValueError: ``last_offset_delta`` is less than the last record's relative offset.
        """
        payload = self._payload
        if payload is None:
            records = self._records
            if self._codec and records:
                payload = compress(self._codec, records, self._level)
                self.compression_ratio = len(payload) / len(records)
            else:
                payload = bytes(records)
            self._payload = payload
        batch = bytearray(
            batch_header(
                payload_size=len(payload),
                last_delta=self._last_delta,
                last_offset_delta=last_offset_delta,
                codec=int(self._codec) if self._count else 0,
                timestamp_type=self._timestamp_type,
                is_transactional=is_transactional,
                is_control=is_control,
                has_delete_horizon=self._has_delete_horizon,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp if log_append_time_ms is None else log_append_time_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                record_count=self._count,
            )
        )
        batch += payload
        with memoryview(batch) as view, view[CRC_START:] as covered:
            checksum = crc32c(covered)
        batch[17:21] = checksum.to_bytes(4, "big")
        return bytes(batch)


def batch_header(
    *,
    payload_size: int,
    last_delta: int,
    last_offset_delta: int | None,
    codec: int,
    timestamp_type: int,
    is_transactional: bool,
    is_control: bool,
    has_delete_horizon: bool,
    base_offset: int,
    leader_epoch: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytes:
    """Return the header of a batch (61 bytes). Its checksum is 0. See :meth:`BatchBuilder.build`.

    Args:
        payload_size: size of the records in bytes, after compression.
        last_offset_delta: the value to write into the header. In a compacted batch whose last records were removed it
            is larger than ``last_delta``. None takes ``last_delta``.
        last_delta: relative offset of the last record that is present, or -1 if there is none.

    Raises:
        ValueError: ``last_offset_delta`` is less than ``last_delta``.
    """
    if last_offset_delta is None:
        last_offset_delta = max(last_delta, 0)
    elif last_offset_delta < last_delta:
        raise ValueError(f"last offset delta {last_offset_delta} is less than that of the last record, {last_delta}")
    attributes = codec
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_FLAG
    if is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    if is_control:
        attributes |= CONTROL_FLAG
    if has_delete_horizon:
        attributes |= DELETE_HORIZON_FLAG
    return HEADER_V2.pack(
        base_offset,
        BATCH_OVERHEAD - LOG_OVERHEAD + payload_size,
        leader_epoch,
        2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Return the encoded headers of a record. The encoding begins with their number."""
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)
