"""Reads records from a record set: checks checksums, skips aborted transactions and control batches.

A :class:`Cursor` has the position in the record set and the batch that is being read. It belongs to the consumer's
thread. Batches are checked, decompressed and decoded one after the other, when they are reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from pyconsumer.errors import CorruptRecordError, KafkaError, UnsupportedCodecError
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records._pure import decode_message_set, decode_records, open_batch
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.protocol.records.batch import LOG_APPEND_TIME, BatchInfo, batch_error, check_crc, scan_until_damage
from pyconsumer.protocol.records.columns import Columns, ColumnsBuilder
from pyconsumer.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES
from pyconsumer.protocol.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    decode_control_type,
    decode_end_transaction_marker,
)
from pyconsumer.protocol.records.record import ConsumerRecord, RecordOrigin, SimpleRecord, check_form, make_form
from pyconsumer.structs import TopicPartition

__all__ = ["Cursor", "aborts", "iter_records", "read_control_record", "read_end_transaction_marker"]

#: Limit of :meth:`Cursor.take_columns`: bytes of keys and values.
DEFAULT_COLUMN_BYTES: Final = 8 * 1024 * 1024
#: At most one row per 16 bytes of that limit is returned: rows have a fixed overhead.
_BYTES_PER_ROW: Final = 16
_FIRST_CHUNK: Final = 16
_CHUNK: Final = 500


class Cursor:
    """Reads the record set of one partition, and keeps its position.

    The cursor skips records below ``fetch_offset``, control batches and, if ``aborted`` is given, batches of aborted
    transactions. Its position moves past the skipped records.

    Args:
        topic_partition: the partition of the records.
        buffer: the record set. The cursor keeps it alive until the cursor is :attr:`exhausted`. The records do not keep
            it alive.
        fetch_offset: the requested offset.
        check_crcs: True checks the checksum of each batch.
        aborted: for ``read_committed``, the pairs ``(producer_id, first_offset)`` of the fetch response. Otherwise
            None.
        max_decompressed_bytes: the largest allowed size of a batch after decompression.
        form: the class of the records (see :func:`.record.check_form`). None makes ``ConsumerRecord``.
    """

    __slots__ = (
        "_aborted",
        "_aborting",
        "_batches",
        "_buffer",
        "_check_crcs",
        "_current",
        "_damage",
        "_delivering",
        "_error",
        "_form",
        "_index",
        "_last_leader_epoch",
        "_max_decompressed_bytes",
        "_next_offset",
        "_origin",
        "_payload",
        "_pending",
        "_position",
        "_remaining",
        "end_offset",
        "fetch_offset",
        "has_incomplete_batch",
        "size_bytes",
        "topic_partition",
    )

    #: Number of batches that may be decompressed ahead: here, none.
    packed_count = 0

    def __init__(
        self,
        topic_partition: TopicPartition,
        buffer: Buffer,
        *,
        fetch_offset: int,
        check_crcs: bool = True,
        aborted: Iterable[tuple[int, int]] | None = None,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        form: type | None = None,
    ) -> None:
        check_form(form)
        self._form = form
        self.topic_partition = topic_partition
        self.fetch_offset = fetch_offset
        self._buffer: Buffer = buffer
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        # Aborted transactions that have not been reached, the first one last; producers whose batches are skipped now.
        self._aborted = sorted(aborted or (), key=_first_offset, reverse=True)
        self._aborting: set[int] = set()
        self._next_offset = fetch_offset
        self._last_leader_epoch = -1
        self._batches, self._damage = scan_until_damage(buffer, topic_partition)
        self._index = 0
        self._error: KafkaError | None = None
        #: Bytes of the complete batches.
        self.size_bytes = self._batches[-1].end_position if self._batches else 0
        #: The offset of the next fetch: after the last complete batch.
        self.end_offset = max(fetch_offset, self._batches[-1].next_offset) if self._batches else fetch_offset
        #: Whether there are bytes after the last complete batch. Without any complete one the fetch was too small.
        self.has_incomplete_batch = self._damage is None and self.size_bytes < len(buffer)
        # The batch that is being read: a v2 batch is decoded record by record, a message set at once.
        self._current: BatchInfo | None = None
        self._payload = b""
        self._position = 0
        self._remaining = 0
        self._delivering = False
        self._origin: RecordOrigin | None = None
        self._pending: list[ConsumerRecord] = []

    __reduce__ = not_copied

    @property
    def next_offset(self) -> int:
        """The offset after all records that were taken or skipped."""
        return self._next_offset

    @property
    def last_leader_epoch(self) -> int:
        """The leader epoch of the last batch that was reached, -1 if unknown.

        It belongs to :attr:`next_offset` (KIP-320).
        """
        return self._last_leader_epoch

    @property
    def next_timestamp(self) -> int | None:
        """The timestamp (ms) of the next record, None if no record is left. -1 if the record has none.

        It is that of the first record of its batch if the batch has not been opened yet, or that of the last one where
        the header has no other. A batch whose transaction was aborted counts until it has been skipped.
        """
        info = self._current
        if self._error is not None:
            return None
        if info is not None:
            if self._pending:
                return self._pending[-1].timestamp
            if info.timestamp_type == LOG_APPEND_TIME:
                return info.max_timestamp
            found: list[ConsumerRecord] = []
            assert self._origin is not None
            place = self._payload, self._position, 1, info, self._next_offset, not self._delivering
            decode_records(*place, self._origin, found)
            return found[0].timestamp if found else info.time_before_reading
        for info in islice(self._batches, self._index, None):
            if info.last_offset >= self._next_offset and info.record_count and not info.is_control:
                return info.time_before_reading
        return None

    @property
    def batch_count(self) -> int:
        """The number of complete batches in the record set."""
        return len(self._batches)

    @property
    def exhausted(self) -> bool:
        """Return whether neither a record nor an error is left."""
        return (
            self._current is None and self._index >= len(self._batches) and self._error is None and self._damage is None
        )

    @property
    def error(self) -> KafkaError | None:
        """The error that the next ``take`` will raise, if it is already known. Otherwise None."""
        return self._error

    @property
    def decompressed_bytes(self) -> int:
        """Size of the decompressed batch that is being read, in bytes."""
        return len(self._payload)

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Return the next records.

        Their number is ``max_records``, or less at the end of the record set or before damage.

        When the records before the damage have been returned, every further call raises, and :attr:`next_offset` is the
        offset of the damage. To continue, fetch from a later offset. The error has the offset of the next batch.

        Raises:
            CorruptRecordError: a batch or record is damaged, or decompresses to more than ``max_decompressed_bytes``.
            UnsupportedCodecError: the compression type is unknown, or its library is not installed.
        """
        records, form = self._take(max_records), self._form
        return records if form is None else [make_form(form, record, record.key, record.value) for record in records]

    def _take(self, max_records: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        while len(records) < max_records and self._error is None:
            if self._current is None:
                if not self._open_next():
                    break
            elif self._pending:
                self._take_pending(records, max_records - len(records))
            else:
                self._decode(records, max_records - len(records))
        if self._error is not None:
            if not records and max_records > 0:
                raise self._error.with_traceback(None)
        elif self._current is None and max_records > 0:
            self._skip_hidden()
            if self.exhausted:
                self._buffer = b""
        return records

    def take_columns(
        self, max_records: int, max_bytes: int = DEFAULT_COLUMN_BYTES, *, with_headers: bool = False
    ) -> Columns:
        """Return the next records as columns. Otherwise like :meth:`take`.

        Args:
            max_bytes: stop when keys and values have this size in total, or a few records later.
            with_headers: True builds a column of headers.

        Raises:
            CorruptRecordError, UnsupportedCodecError: see :meth:`take`.
        """
        columns = ColumnsBuilder(with_headers=with_headers)
        self.take_into(columns, max_records, max_bytes)
        return columns.build(*self.topic_partition)

    def take_into(self, columns: ColumnsBuilder, max_records: int, max_bytes: int = DEFAULT_COLUMN_BYTES) -> int:
        """Append the next records to columns, which may already have rows of other partitions.

        Return the number of rows.

        Arguments and errors are those of :meth:`take_columns`.
        """
        first, lightest = len(columns), columns.weight
        max_records = min(max_records, max_bytes // _BYTES_PER_ROW + 1)
        while (count := len(columns) - first) < max_records and (weight := columns.weight - lightest) < max_bytes:
            # Decode only as many records as fit into the limit, by their mean size so far.
            fitting = (max_bytes - weight) * count // weight + 1 if weight else _FIRST_CHUNK
            try:
                chunk = self._take(min(max_records - count, fitting, _CHUNK))
            except KafkaError:
                if count:
                    break  # the next call raises it
                raise
            if not chunk:
                break
            columns.add(chunk)
        return len(columns) - first

    def close(self) -> None:
        """Drop the buffer and its remaining records. The cursor is then exhausted."""
        self._batches = self._batches[: self._index]
        self._buffer = self._payload = b""
        self._current = self._error = self._damage = None
        self._pending = []
        self._remaining = 0

    # --- one batch

    def _open_next(self) -> bool:
        """Make the next visible batch the current one. Return False at the end, or after setting the error."""
        self._skip_hidden()
        if self._error is not None or self._index >= len(self._batches):
            if self._error is None:
                self._error = self._damage
            return False
        info = self._batches[self._index]
        if self._check_crcs and not check_crc(self._buffer, info):
            self._fail(info, "its checksum is wrong")
            return False
        origin = self._origin_of(info)
        try:
            if info.magic >= 2:
                self._payload = open_batch(self._buffer, info, self._max_decompressed_bytes)
                self._position = 0
                self._remaining = info.record_count
            else:
                self._open_message_set(info, origin)
        except DamageError as exc:
            self._fail(info, str(exc))
            return False
        except UnsupportedCodecError as exc:
            self._error = UnsupportedCodecError(f"{self.topic_partition} at offset {self._next_offset}: {exc}")
            return False
        self._index += 1
        self._current = info
        self._origin = origin
        self._delivering = False
        self._last_leader_epoch = info.partition_leader_epoch
        if not self._remaining and not self._pending:
            self._finish_batch()
        return True

    def _origin_of(self, info: BatchInfo) -> RecordOrigin:
        """Return the origin of the batch's records, the same object as for the previous batch if it is equal."""
        origin, epoch, timestamp_type = self._origin, info.partition_leader_epoch, info.timestamp_type
        if origin is None or origin.leader_epoch != epoch or origin.timestamp_type != timestamp_type:
            origin = RecordOrigin(*self.topic_partition, epoch, timestamp_type)
        return origin

    def _open_message_set(self, info: BatchInfo, origin: RecordOrigin) -> None:
        records, damage = decode_message_set(
            self._buffer, info, self._next_offset, self._check_crcs, self._max_decompressed_bytes, origin
        )
        if damage is not None:
            raise DamageError(damage)
        records.reverse()
        self._pending = records

    def _take_pending(self, records: list[ConsumerRecord], room: int) -> None:
        pending = self._pending
        records += pending[: -room - 1 : -1]
        del pending[-room:]
        self._next_offset = records[-1].offset + 1
        if not pending:
            self._finish_batch()

    def _decode(self, records: list[ConsumerRecord], room: int) -> None:
        info, origin = self._current, self._origin
        assert info is not None
        assert origin is not None
        count = min(room, self._remaining)
        position, lowest, damage = decode_records(
            self._payload,
            self._position,
            count,
            info,
            self._next_offset,
            not self._delivering,
            origin,
            records,
        )
        self._delivering = self._delivering or lowest != self._next_offset
        self._position = position
        self._next_offset = lowest
        if damage is None:
            self._remaining -= count
            if self._remaining:
                return
            if position == len(self._payload):
                self._finish_batch()
                return
            damage = f"{len(self._payload) - position} bytes are left after its last record"
        self._fail(info, damage)

    def _finish_batch(self) -> None:
        assert self._current is not None
        self._next_offset = max(self._next_offset, self._current.last_offset + 1)
        self._last_leader_epoch = self._current.partition_leader_epoch
        self._current = None
        self._payload = b""
        self._pending = []
        self._remaining = 0

    def _fail(self, info: BatchInfo, reason: str) -> None:
        self._error = batch_error(
            self.topic_partition, info.base_offset, info.last_offset, info.magic, self._next_offset, reason
        )

    # --- batches that are not delivered

    def _skip_hidden(self) -> None:
        """Skip batches below the position, control batches, and batches of aborted transactions."""
        batches = self._batches
        while self._index < len(batches) and self._error is None:
            info = batches[self._index]
            if info.producer_id >= 0 and self._aborted:
                self._start_aborting(info.last_offset)
            if info.is_control:
                if not self._read_control(info):
                    return
            elif info.last_offset >= self._next_offset:
                if not (info.producer_id in self._aborting and info.is_transactional):
                    return
                if self._check_crcs and not check_crc(self._buffer, info):
                    self._fail(info, "its checksum is wrong")
                    return
            self._index += 1
            if info.last_offset >= self._next_offset:
                self._next_offset = info.last_offset + 1
                self._last_leader_epoch = info.partition_leader_epoch

    def _start_aborting(self, last_offset: int) -> None:
        aborted = self._aborted
        while aborted and aborted[-1][1] <= last_offset:
            self._aborting.add(aborted.pop()[0])

    def _read_control(self, info: BatchInfo) -> bool:
        """End the transaction that a control batch aborts. Return False after setting the error."""
        if self._check_crcs and not check_crc(self._buffer, info):
            self._fail(info, "its checksum is wrong")
            return False
        if info.producer_id not in self._aborting:
            return True
        try:
            if aborts(self._buffer, info, self._max_decompressed_bytes):
                self._aborting.discard(info.producer_id)
            return True
        except DamageError as exc:
            self._fail(info, str(exc))
        except UnsupportedCodecError as exc:
            self._error = UnsupportedCodecError(f"{self.topic_partition} at offset {self._next_offset}: {exc}")
        return False


def _first_offset(aborted: tuple[int, int]) -> int:
    return aborted[1]


def aborts(buffer: Buffer, info: BatchInfo, max_decompressed_bytes: int) -> bool:
    """Return whether a control batch contains an ABORT marker.

    Raises:
        DamageError: the batch is damaged.
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    try:
        record = read_control_record(buffer, info, max_decompressed_bytes)
        # An empty batch ends nothing: its marker was removed by compaction, as were the records of its transaction.
        return record is not None and decode_control_type(record.key) is ControlRecordType.ABORT
    except CorruptRecordError as exc:
        raise DamageError(exc.args[0]) from None


def read_control_record(
    buffer: Buffer, info: BatchInfo, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> ConsumerRecord | None:
    """Return the first record of a v2 batch, such as a control record. Return None if the batch is empty.

    Raises:
        CorruptRecordError: the batch is damaged.
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    records: list[ConsumerRecord] = []
    try:
        payload = open_batch(buffer, info, max_decompressed_bytes)
    except DamageError as exc:
        raise CorruptRecordError(str(exc), offset=info.base_offset) from None
    if not info.record_count:
        return None
    origin = RecordOrigin("", -1, info.partition_leader_epoch, info.timestamp_type)
    damage = decode_records(payload, 0, 1, info, info.base_offset, True, origin, records)[2]
    if damage is not None:
        raise CorruptRecordError(damage, offset=info.base_offset)
    return records[0]


def read_end_transaction_marker(buffer: Buffer, info: BatchInfo) -> EndTransactionMarker | None:
    """Return the COMMIT or ABORT marker of a control batch.

    Return None if the batch has another record, or has no record after compaction.

    Raises:
        CorruptRecordError: the batch is damaged.
    """
    record = read_control_record(buffer, info)
    if record is None or decode_control_type(record.key) not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
        return None
    return decode_end_transaction_marker(record.key, record.value)


def iter_records(
    buffer: Buffer,
    *,
    check_crcs: bool = True,
    topic_partition: TopicPartition | None = None,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[SimpleRecord]:
    """Yield all records of a log in order, including control records and those of aborted transactions.

    If the last batch is cut off by the end of the buffer, it is left out.

    Args:
        topic_partition: the partition, for errors.

    Raises:
        CorruptRecordError: a batch is damaged. The records before it were yielded.
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    batches, damage = scan_until_damage(buffer, topic_partition)
    for info in batches:
        records: list[ConsumerRecord] = []
        origin = RecordOrigin("", -1, info.partition_leader_epoch, info.timestamp_type)
        wrong: str | None = None
        try:
            if check_crcs and not check_crc(buffer, info):
                wrong = "its checksum is wrong"
            elif info.magic >= 2:
                payload = open_batch(buffer, info, max_decompressed_bytes)
                position, _, wrong = decode_records(
                    payload, 0, info.record_count, info, info.base_offset, False, origin, records
                )
                if wrong is None and position != len(payload):
                    wrong = f"{len(payload) - position} bytes are left after its last record"
            else:
                records, wrong = decode_message_set(buffer, info, 0, check_crcs, max_decompressed_bytes, origin)
        except DamageError as exc:
            wrong = str(exc)
        for record in records:
            yield SimpleRecord(
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                record.header_tuple,
                info.is_control,
                info.is_transactional,
                info.producer_id,
                info.producer_epoch,
                info.partition_leader_epoch,
            )
        if wrong is not None:
            raise CorruptRecordError(
                f"the record batch of offsets {info.base_offset} to {info.last_offset} is damaged: {wrong}",
                topic_partition=topic_partition,
                offset=records[-1].offset + 1 if records else info.base_offset,
                next_offset=info.last_offset + 1,
            )
    if damage is not None:
        raise damage
