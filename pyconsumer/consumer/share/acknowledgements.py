"""Acknowledgements: which records were delivered, what the application said about them, and how a request names it.

Values and cores: no I/O, no clock.

Rules

1. A :class:`Delivery` has the records of one partition that one poll returned, as runs of offsets. A record leaves it
   when its acknowledgement is queued. So it can be acknowledged again, with another type, until then.
2. A :class:`Piece` is a run of offsets with one type. Nothing is kept for each record, unless the application
   acknowledges each record.
3. An offset that was acquired and has no record for the application (a control record, or one that compaction removed)
   is acknowledged as a *gap*, type 0.
4. A request names each offset once, in ascending order. If two pieces name the same offset (its lock expired, and it
   was acquired again), the later one waits for the next request.
5. Neighbouring runs that are short go into one batch with a type for each offset. A long run is a batch with one type.
6. A renewal may keep its records delivered, which is for workers: their lock begins again, and no poll returns them.
7. A lock that has ended early, with its session or because a record was delivered again, is not renewed any more. The
   result of a renewal may come after its end.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol.messages.share_fetch import AcknowledgementBatch
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition

__all__ = [
    "GAP",
    "Delivery",
    "Piece",
    "Reopen",
    "Reread",
    "Run",
    "Source",
    "batches_of",
    "not_delivered",
    "without_overlaps",
]

GAP: Final = 0
#: Runs of at least this length get a batch of their own.
_LONG: Final = 16
_offset = attrgetter("offset")

Run = tuple[int, int]
"""The first and the last offset of a run."""

Reread = Callable[[int], ConsumerRecord[Any, Any]]
"""Returns the record with an offset, with the bytes that came."""

Reopen = Callable[["Delivery"], Any]
"""Returns an ``AcquiredFetch`` with the records of a delivery, to be taken again."""


class Source(NamedTuple):
    """The place where records were acquired: the leader at that time, and the partition with its topic id."""

    node_id: int
    topic_id: bytes
    topic_partition: TopicPartition


class Piece(NamedTuple):
    """A run of offsets with one type.

    Attributes:
        first, last: the offsets.
        kind: a value of ``AcknowledgeType``, or :data:`GAP`.
        locked_until: when the lock expires by our clock (monotonic seconds).
        delivery: the records, if they are renewed.
        stays: True if a renewal keeps the records delivered (rule 6).
    """

    first: int
    last: int
    kind: int
    locked_until: float
    delivery: Delivery | None = None
    stays: bool = False

    @property
    def size(self) -> int:
        """Return the number of offsets."""
        return self.last - self.first + 1


class Delivery:
    """The records of one partition that one poll has returned and that are not acknowledged yet.

    Args:
        source: where they were acquired.
        records: in the order of offsets.
        runs: the offsets of the records, as runs.
        counts: first offset, last offset and delivery count of the acquired ranges.
        locked_until: when their lock expires (monotonic seconds).
        reread: returns a record with the bytes that came. None if ``records`` have them.
        reopen: for records that were taken as bytes and that a poll may have to deserialize. None if none has to.

    Attributes:
        is_renewing: True while a renewal that keeps the records is on its way.
    """

    __slots__ = ("_chosen", "counts", "is_renewing", "locked_until", "records", "reopen", "reread", "runs", "source")

    def __init__(
        self,
        source: Source,
        records: Sequence[ConsumerRecord[Any, Any]],
        runs: list[Run],
        counts: Sequence[tuple[int, int, int]],
        locked_until: float,
        reread: Reread | None = None,
        reopen: Reopen | None = None,
    ) -> None:
        self.source = source
        self.records = records
        self.runs = runs
        self.counts = counts
        self.locked_until = locked_until
        self.reread = reread
        self.reopen = reopen
        self.is_renewing = False
        self._chosen: dict[int, AcknowledgeType] = {}

    def holds(self, offset: int) -> bool:
        """Return whether a record was delivered and its acknowledgement is not queued."""
        at = bisect_right(self.runs, offset, key=_first) - 1
        return at >= 0 and offset <= self.runs[at][1]

    def choose(self, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record that :meth:`holds` has found."""
        self._chosen[offset] = kind

    @property
    def offsets(self) -> list[int]:
        """Return the offsets of the records whose acknowledgement is not queued."""
        return [offset for first, last in self.runs for offset in range(first, last + 1)]

    @property
    def first_open(self) -> int | None:
        """Return the offset of the first record that is not acknowledged, or None."""
        for first, last in self.runs:
            for offset in range(first, last + 1):
                if offset not in self._chosen:
                    return offset
        return None

    def delivery_count(self, offset: int) -> int:
        """Return how often a record was delivered, this time included. 0 if it is not one of these."""
        at = bisect_right(self.counts, offset, key=_first) - 1
        return self.counts[at][2] if at >= 0 and offset <= self.counts[at][1] else 0

    def lock_until(self, until: float) -> None:
        """Record that the lock has been renewed until a time (monotonic seconds), unless it has ended (rule 7)."""
        if self.locked_until != -math.inf:
            self.locked_until = until
        self.is_renewing = False

    def end_lock(self) -> None:
        """Record that the lock has ended before its time (rule 7)."""
        self.locked_until = -math.inf
        self.is_renewing = False

    def shares_records(self, other: Delivery) -> bool:
        """Return whether a record of another delivery is among those whose acknowledgement is not queued."""
        if self.source[1:] != other.source[1:]:
            return False
        return any(first <= end and start <= last for first, last in self.runs for start, end in other.runs)

    def renewal(self) -> list[Piece]:
        """Return the renewal of all records that are not acknowledged, which stay delivered (rule 6)."""
        self.is_renewing = True
        kind = AcknowledgeType.RENEW
        return [Piece(first, last, kind, self.locked_until, self, True) for first, last in self.runs]

    def renewal_failed(self) -> None:
        """Record that the lock was not renewed."""
        self.is_renewing = False

    def choose_all(self, offsets: Sequence[int], kind: AcknowledgeType) -> None:
        """Acknowledge delivered records that :meth:`holds` has found."""
        self._chosen.update(dict.fromkeys(offsets, kind))

    def raw_records(self) -> Sequence[ConsumerRecord[Any, Any]]:
        """Return the delivered records with the bytes that came."""
        reread = self.reread
        return self.records if reread is None else [reread(record.offset) for record in self.records]

    def raw(self, offset: int) -> ConsumerRecord[Any, Any]:
        """Return a delivered record with the bytes that came."""
        return self.records[_place(self.records, offset)] if self.reread is None else self.reread(offset)

    def pieces(self, *, accept_rest: bool) -> list[Piece]:
        """Return the acknowledged records, in the order of offsets. They leave the delivery by :meth:`take_out`.

        Args:
            accept_rest: True accepts the records that are not acknowledged.
        """
        found = self._chosen_pieces()
        if accept_rest:
            rest = _without(self.runs, [(piece.first, piece.last) for piece in found])
            found += [Piece(first, last, AcknowledgeType.ACCEPT, self.locked_until) for first, last in rest]
        return found

    def _chosen_pieces(self) -> list[Piece]:
        chosen = self._chosen
        if not chosen:
            return []
        offsets = sorted(chosen)
        found: list[Piece] = []
        start = before = offsets[0]
        for offset in (*offsets[1:], -1):
            if offset != before + 1 or chosen[offset] is not chosen[start]:
                found.append(self._piece(start, before, chosen[start]))
                start = offset
            before = offset
        return found

    def take_out(self, pieces: Sequence[Piece]) -> None:
        """Take records out whose acknowledgement is queued."""
        taken = sorted((piece.first, piece.last) for piece in pieces)
        self.runs = list(_without(self.runs, taken))
        self._chosen = {}

    def _piece(self, first: int, last: int, kind: AcknowledgeType) -> Piece:
        if kind is not AcknowledgeType.RENEW:
            return Piece(first, last, kind, self.locked_until)
        records = self.records[_place(self.records, first) : _place(self.records, last + 1)]
        runs = [(record.offset, record.offset) for record in records]
        return Piece(
            first,
            last,
            kind,
            self.locked_until,
            Delivery(self.source, records, runs, self.counts, self.locked_until, self.reread, self.reopen),
        )

    def split(self, offset: int) -> Delivery | None:
        """Take the records from an offset on out, as a delivery of their own. None if there are none."""
        at = _place(self.records, offset)
        later = self.records[at:]
        if not later:
            return None
        self.records = self.records[:at]
        runs = self.runs
        self.runs = [(first, min(last, offset - 1)) for first, last in runs if first < offset]
        rest = [(max(first, offset), last) for first, last in runs if last >= offset]
        return Delivery(self.source, later, rest, self.counts, self.locked_until, self.reread, self.reopen)


def _first(item: Sequence[Any]) -> int:
    first: int = item[0]
    return first


def _place(records: Sequence[ConsumerRecord[Any, Any]], offset: int) -> int:
    return bisect_left(records, offset, key=_offset)


def _without(runs: Iterable[Run], taken: Sequence[Run]) -> Iterable[Run]:
    """Yield the rest of runs. Both are in order. One of ``taken`` may cover several runs."""
    rest = iter(taken)
    gone = next(rest, None)
    for first, last in runs:
        start = first
        while gone is not None and gone[0] <= last:
            if gone[0] > start:
                yield start, gone[0] - 1
            start = max(start, gone[1] + 1)
            if gone[1] > last:
                break  # the next run has the rest of it
            gone = next(rest, None)
        if start <= last:
            yield start, last


def without_overlaps(pieces: Iterable[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces of one partition in order, without later ones that name an offset again, and those (rule 4)."""
    taken: list[Piece] = []
    left: list[Piece] = []
    for piece in pieces:
        at = bisect_left(taken, piece.first, key=_first)
        if (at and taken[at - 1].last >= piece.first) or (at < len(taken) and taken[at].first <= piece.last):
            left.append(piece)
        else:
            taken.insert(at, piece)
    return taken, left


def batches_of(pieces: Sequence[Piece]) -> list[AcknowledgementBatch]:
    """Return the batches that a request has for one partition (rule 5). The pieces are in order, without overlaps."""
    batches: list[AcknowledgementBatch] = []
    open_pieces: list[Piece] = []  # neighbours that share a batch
    for piece in _merged(pieces):
        if piece.size < _LONG and open_pieces and open_pieces[-1].last + 1 == piece.first:
            open_pieces.append(piece)
            continue
        batches += _batch(open_pieces)
        open_pieces = [piece]
        if piece.size >= _LONG:
            batches += _batch(open_pieces)
            open_pieces = []
    return batches + _batch(open_pieces)


def _batch(pieces: Sequence[Piece]) -> list[AcknowledgementBatch]:
    """Return one batch of neighbouring pieces, or none if there are none."""
    if not pieces:
        return []
    kinds = [pieces[0].kind]
    if len(pieces) > 1:
        kinds = [kind for piece in pieces for kind in [piece.kind] * piece.size]
    return [AcknowledgementBatch(pieces[0].first, pieces[-1].last, kinds)]


def _merged(pieces: Iterable[Piece]) -> Iterable[Piece]:
    before: Piece | None = None
    for piece in pieces:
        if before is None:
            before = piece
        elif before.last + 1 == piece.first and before.kind == piece.kind:
            before = before._replace(last=piece.last)
        else:
            yield before
            before = piece
    if before is not None:
        yield before


def not_delivered(tp: TopicPartition, offset: int) -> IllegalStateError:
    """Return the error of an acknowledgement of a record that no delivery holds."""
    return IllegalStateError(
        f"the record {tp} offset {offset} cannot be acknowledged: it was not returned by the last poll, or its"
        " acknowledgement was sent already"
    )
