"""The acquired records of one partition from one ShareFetch response. A core: no I/O, no clock.

Rules

1. A response holds whole batches. Only the ranges of offsets that the broker has acquired for this member are
   delivered. The other records in the batches belong to other members, or were acknowledged before.
2. An acquired offset without a record is a gap: a control record, or one that compaction removed. An acquired offset
   after the last whole batch of the response is released, because its record did not come.
3. A record that cannot be deserialized is decided by ``on_record_error``. One that is skipped, or was sent to a sink,
   is rejected: it will never be readable. ``raise`` releases it, and the poll raises. Good records before it are
   delivered first.
4. In a damaged batch all acquired records are rejected, and the poll raises. What follows it is released.
5. Nothing is done for each record: ranges are cut by bisection. Only where offsets are missing are they looked at.
6. Ranges come from outside. Those that are out of order are a ``ProtocolError``.
7. Ctrl-C in a take loses no record: what was decoded and not delivered is decoded again.
8. Records that were taken as bytes can be taken again, with deserializers, by a fetch of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

from pyconsumer.consumer.share.acknowledgements import GAP, Delivery, Piece, Reopen, Reread, Run, Source
from pyconsumer.errors import CorruptRecordError, KafkaError, ProtocolError, SchemaUnavailableError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.messages.share_fetch import AcquiredRecords
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import ConsumerRecord, Cursor
from pyconsumer.structs import AcknowledgeType

__all__ = ["AcquiredFetch", "Convert"]

Convert = Callable[[list[ConsumerRecord[Any, Any]]], tuple[list[ConsumerRecord[Any, Any]], int, Exception | None]]
"""Deserializes raw records: returns the good ones, the number of raw ones used up, and the error that stopped it."""

_offset: Final = attrgetter("offset")


class AcquiredFetch:
    """The acquired records of one partition. See the module.

    Args:
        source: where they were acquired.
        buffer: the record set.
        acquired: the ranges that the broker has acquired for this member. There is at least one.
        locked_until: when their lock expires (monotonic seconds).
        check_crcs: True to check each batch's checksum.

    Attributes:
        extra: acknowledgements of this fetch that no record of the application stands for. The caller takes them.

    Raises:
        ProtocolError: the ranges are out of order.
    """

    def __init__(
        self,
        source: Source,
        buffer: Buffer,
        acquired: Sequence[AcquiredRecords],
        *,
        locked_until: float,
        check_crcs: bool = True,
    ) -> None:
        self.source = source
        self.locked_until = locked_until
        self.ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]
        before = -1
        for first, last, _ in self.ranges:
            if first <= before or last < first:
                raise ProtocolError(f"the acquired ranges of {source.topic_partition} are out of order")
            before = last
        self.extra: list[Piece] = []
        self._end = before + 1
        self._settled = self.ranges[0][0]  # every acquired offset below is delivered or acknowledged
        self._buffer = buffer
        self._check_crcs = check_crcs
        self._cursor = self._read_from(self._settled)
        self._raw: list[ConsumerRecord[Any, Any]] = []
        self._decided: set[int] = set()  # offsets with an acknowledgement in `extra`, not below `_settled`

    def _read_from(self, offset: int) -> Cursor:
        return Cursor(self.source.topic_partition, self._buffer, fetch_offset=offset, check_crcs=self._check_crcs)

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left."""
        return self._settled >= self._end

    @property
    def size(self) -> int:
        """Return the most records that can be left."""
        return self._end - self._settled

    def take(self, most: int, convert: Convert | None, *, reopens: bool = False) -> Delivery | None:
        """Take up to ``most`` records. None if there is none left.

        Args:
            most: the number of records.
            convert: the deserializers. None keeps the bytes.
            reopens: True lets the records be taken again with deserializers (rule 8).

        Raises:
            PendingError, SchemaUnavailableError: the next record waits for something. It stays.
            Exception: an error of the next record or batch, which is acknowledged in :attr:`extra`.
        """
        try:
            return self._take(most, convert, reopens=reopens)
        except Exception:
            raise
        except BaseException:
            self._restart()
            raise

    def _restart(self) -> None:
        """Read again what was not delivered, after Ctrl-C (rule 7). What was decided about an offset stays."""
        self.extra = [piece for piece in self.extra if piece.kind != GAP or piece.last < self._settled]
        self._raw = []
        if not self.is_done:
            self._cursor = self._read_from(self._settled)

    def _take(self, most: int, convert: Convert | None, *, reopens: bool) -> Delivery | None:
        records: list[ConsumerRecord[Any, Any]] = []
        while len(records) < most:
            try:
                if not self._fill(most - len(records)):
                    break
            except KafkaError as error:
                if records:
                    break  # the next call raises it
                self._refuse(error)
                raise
            part = self._raw[: most - len(records)]
            if convert is None:
                records += part
                del self._raw[: len(part)]
                continue
            good, used, failure = convert(part)
            if len(good) != used:
                self._reject(part[:used], good)
            records += good
            del self._raw[:used]
            if failure is not None:
                if records:
                    break  # likewise
                self._stop_at(part[used], failure)
                raise failure
        reopen = self._reopened if reopens else None
        return self._deliver(records, None if convert is None else self._reread, reopen)

    def _reopened(self, delivery: Delivery) -> AcquiredFetch:
        """Return a fetch with the records of a delivery (rule 8)."""
        acquired = [
            AcquiredRecords(max(first, start), min(last, end), count)
            for start, end, count in delivery.counts
            for first, last in delivery.runs
            if first <= end and last >= start
        ]
        return AcquiredFetch(
            self.source, self._buffer, acquired, locked_until=delivery.locked_until, check_crcs=self._check_crcs
        )

    def _reread(self, offset: int) -> ConsumerRecord[Any, Any]:
        """Return a record of the response again, with the bytes that came."""
        return self._read_from(offset).take(1)[0]

    def _fill(self, most: int) -> bool:
        """Decode records until an acquired one is there. Return False at the end."""
        cursor = self._cursor
        while not self._raw:
            if cursor.exhausted or cursor.next_offset >= self._end:
                return False
            self._raw = self._acquired(cursor.take(most))
        return True

    def _acquired(self, found: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Return the acquired ones of decoded records (rule 1)."""
        if not found:
            return found
        kept: list[ConsumerRecord[Any, Any]] = []
        for first, last in self._between(found[0].offset, found[-1].offset + 1):
            start = bisect_left(found, first, key=_offset)
            kept += found[start : bisect_left(found, last + 1, start, key=_offset)]
        return kept

    def _between(self, start: int, end: int) -> Iterator[Run]:
        """Yield the parts of the acquired ranges from ``start`` to before ``end``."""
        ranges = self.ranges
        at = max(0, bisect_left(ranges, start, key=lambda each: each[0]) - 1)
        while at < len(ranges) and ranges[at][0] < end:
            first, last, _ = ranges[at]
            if last >= start:
                yield max(first, start), min(last, end - 1)
            at += 1

    def _deliver(
        self, records: list[ConsumerRecord[Any, Any]], reread: Reread | None = None, reopen: Reopen | None = None
    ) -> Delivery | None:
        cursor = self._cursor
        if self._raw:
            end = self._raw[0].offset
        elif cursor.exhausted or cursor.next_offset >= self._end:
            end = min(self._end, max(cursor.end_offset, self._settled))
        else:
            end = cursor.next_offset
        runs: list[Run] = []
        for first, last in self._between(self._settled, end):
            start = bisect_left(records, first, key=_offset)
            stop = bisect_left(records, last + 1, start, key=_offset)
            if stop - start == last - first + 1:
                runs.append((first, last))
            else:
                self._look(records[start:stop], first, last, runs)
        self._settled = end
        if not self._raw and (cursor.exhausted or cursor.next_offset >= self._end):
            self._give_up(end, self._end, AcknowledgeType.RELEASE)
        if not records:
            return None
        return Delivery(self.source, records, runs, self.ranges, self.locked_until, reread, reopen)

    def _look(self, records: Sequence[ConsumerRecord[Any, Any]], first: int, last: int, runs: list[Run]) -> None:
        """Find the runs of records and the gaps between them (rule 2)."""
        at = first
        for offset in (*map(_offset, records), last + 1):
            self._gap(at, offset)
            if offset <= last:
                if runs and runs[-1][1] == offset - 1 and offset > first:
                    runs[-1] = runs[-1][0], offset
                else:
                    runs.append((offset, offset))
            at = offset + 1

    def _gap(self, start: int, end: int) -> None:
        for offset in range(start, end) if self._decided else ():
            if offset not in self._decided:
                self.extra.append(Piece(offset, offset, GAP, self.locked_until))
        if not self._decided and start < end:
            self.extra.append(Piece(start, end - 1, GAP, self.locked_until))

    def _decide(self, offset: int, kind: AcknowledgeType) -> None:
        if offset not in self._decided:  # before Ctrl-C
            self.extra.append(Piece(offset, offset, kind, self.locked_until))
            self._decided.add(offset)

    def _reject(self, raw: Sequence[ConsumerRecord[Any, Any]], good: Sequence[ConsumerRecord[Any, Any]]) -> None:
        kept = set(map(_offset, good))
        for record in raw:
            if record.offset not in kept:
                self._decide(record.offset, AcknowledgeType.REJECT)

    def _stop_at(self, record: ConsumerRecord[Any, Any], error: Exception) -> None:
        """Release a record whose error is raised (rule 3)."""
        if not isinstance(error, (PendingError, SchemaUnavailableError)):
            self._decide(record.offset, AcknowledgeType.RELEASE)
            del self._raw[0]
            self._deliver([])

    def _refuse(self, error: KafkaError) -> None:
        """Acknowledge everything that is left, after an error of a batch (rule 4)."""
        self._deliver([])  # what was read before it
        if isinstance(error, CorruptRecordError):
            damaged = self._end if error.next_offset < 0 else min(self._end, error.next_offset)
            self._give_up(self._settled, damaged, AcknowledgeType.REJECT)
        self.release()

    def _give_up(self, start: int, end: int, kind: int) -> None:
        for first, last in self._between(start, end) if start < end else ():
            self.extra.append(Piece(first, last, kind, self.locked_until))
        self._settled = max(self._settled, end)

    def take_extra(self) -> list[Piece]:
        """Take :attr:`extra` out."""
        extra, self.extra = self.extra, []
        return extra

    def release(self) -> None:
        """Release everything that is left, because nobody will take it."""
        self._raw = []
        self._give_up(self._settled, self._end, AcknowledgeType.RELEASE)
        self._cursor.close()
