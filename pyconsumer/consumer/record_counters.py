"""Counters of the topics and partitions that a consumer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from pyconsumer.metrics.windows import Counters, Readable, Reading

__all__ = ["PartitionCounters", "TopicCounters"]


class _WithRecords:
    """A topic's counters and the present number of its records."""

    def __init__(self, counters: TopicCounters, records: int) -> None:
        self._counters, self._records = counters, records

    def reading(self, now: float) -> Reading:
        found = self._counters.reading(now)
        if not self._counters.counts_at(now):  # nothing has begun a window since, so the records are as old
            return found
        more = max(0, self._records - found.totals["records"])
        return found._replace(growth={**found.growth, "records": found.growth["records"] + more})


class TopicCounters(Counters):
    """Counters of one topic. The records are counted by :class:`.ConsumerMetrics`, which a poll calls once."""

    TOTALS: ClassVar[tuple[str, ...]] = ("fetches", "bytes", "records")
    PEAKS: ClassVar[tuple[str, ...]] = ("largest",)
    __slots__ = (*TOTALS, *PEAKS)

    fetches: int
    bytes: int
    records: int
    largest: float

    def fetched(self, size_bytes: int) -> None:
        """Count the topic's records in a fetch."""
        self.fetches += 1
        self.bytes += size_bytes
        if size_bytes > self.largest:
            self.largest = size_bytes

    def take_records(self, records: int) -> None:
        """Set the number of records that were returned to the application since the start."""
        self.records = records

    def with_records(self, records: int) -> Readable:
        """Return the counters with the present number of records, for a reader."""
        return _WithRecords(self, records)


class _WithPolls:
    """A partition's counters with the polls that are not added to them yet."""

    def __init__(
        self,
        counters: PartitionCounters,
        polls: Sequence[int],
        end: int,
        start: int,
        counts_at: Callable[[float], bool],
    ) -> None:
        self._counters, self._polls, self._end, self._start = counters, polls, end, start
        self._counts_at = counts_at

    def reading(self, now: float) -> Reading:
        found = self._counters.reading(now)
        polls = tuple(self._polls)  # after the counters: a poll that is added meanwhile must not count twice
        if not polls[0] or self._end < 0 or not self._counts_at(now):
            return found
        lag, lead, largest, smallest = _lags(polls, self._end, self._start)
        more = {"count": polls[0], "lag": lag, "lead": lead}
        peaks = found.peaks
        return found._replace(
            totals={name: total + more[name] for name, total in found.totals.items()},
            growth={name: growth + more[name] for name, growth in found.growth.items()},
            peaks={
                "largest_lag": max(peaks["largest_lag"], largest),
                "smallest_lead": max(peaks["smallest_lead"], -smallest),
            },
        )


def _lags(polls: Sequence[int], end: int, start: int) -> tuple[int, int, int, int]:
    """Return the sums of the lags and leads after polls, the largest lag and the smallest lead.

    The position only grows between two changes of the ends, so those of the first poll are the extremes.
    """
    count, positions, first = polls
    return (
        max(0, count * end - positions),
        max(0, positions - count * start),
        max(0, end - first),
        max(0, first - start),
    )


class PartitionCounters(Counters):
    """The lag and the lead of one partition after each poll that returned records of it.

    A poll only adds to :attr:`.TopicPartitionState.polls`. The ends of the log change with a response, and the polls
    before it are added here then.

    Attributes:
        smallest_lead: negative, so that it is a peak.
    """

    TOTALS: ClassVar[tuple[str, ...]] = ("count", "lag", "lead")
    PEAKS: ClassVar[tuple[str, ...]] = ("largest_lag", "smallest_lead")
    __slots__ = (*TOTALS, *PEAKS)

    count: int
    lag: int
    lead: int
    largest_lag: float
    smallest_lead: float

    def polled(self, polls: Sequence[int], end: int, start: int) -> None:
        """Count polls.

        Args:
            polls: see :attr:`.TopicPartitionState.polls`.
            end, start: the offsets at which the log ended and began. A negative ``end`` is unknown.
        """
        if not polls[0] or end < 0:
            return
        lag, lead, largest, smallest = _lags(polls, end, start)
        self.count += polls[0]
        self.lag += lag
        self.lead += lead
        if largest > self.largest_lag:
            self.largest_lag = largest
        if -smallest > self.smallest_lead:
            self.smallest_lead = -smallest

    def with_polls(self, polls: Sequence[int], end: int, start: int, counts_at: Callable[[float], bool]) -> Readable:
        """Return the counters with polls that are not added yet, for a reader.

        Args:
            polls, end, start: as in :meth:`polled`.
            counts_at: tells whether the polls still count at a time.
        """
        return _WithPolls(self, polls, end, start, counts_at)
