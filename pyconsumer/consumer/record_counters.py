"""Counters of the topics and partitions that a consumer reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pyconsumer.metrics.packed import PackedCounters
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
        polls: Callable[[], tuple[int, int, int]],
        end: int,
        start: int,
        counts_at: Callable[[float], bool],
    ) -> None:
        self._counters, self._polls, self._end, self._start = counters, polls, end, start
        self._counts_at = counts_at

    def reading(self, now: float) -> Reading:
        found = self._counters.reading(now)
        count, positions, first = self._polls()  # after the counters: what is added meanwhile must not count twice
        if not count or self._end < 0 or not self._counts_at(now):
            return found
        more = {
            "count": count,
            "lag": max(0, count * self._end - positions),
            "lead": max(0, positions - count * self._start),
        }
        largest, smallest, peaks = max(0, self._end - first), max(0, first - self._start), found.peaks
        return found._replace(
            totals={name: total + more[name] for name, total in found.totals.items()},
            growth={name: growth + more[name] for name, growth in found.growth.items()},
            peaks={
                "largest_lag": max(peaks["largest_lag"], largest),
                "smallest_lead": max(peaks["smallest_lead"], -smallest),
            },
        )


class PartitionCounters(PackedCounters):
    """The lag and the lead of one partition after each poll that returned records of it.

    A poll only adds to numbers of :class:`.TopicPartitionState`. The ends of the log change with a response, and the
    polls before it are added here then. The smallest lead is negative, so that it is a peak.
    """

    TOTALS: ClassVar[tuple[str, ...]] = ("count", "lag", "lead")
    PEAKS: ClassVar[tuple[str, ...]] = ("largest_lag", "smallest_lead")
    __slots__ = ()

    def polled(self, count: int, lag: int, lead: int, largest_lag: int, smallest_lead: int) -> None:
        """Count polls.

        Args:
            count: their number.
            lag, lead: the sums of the lags and leads after them. A negative one counts as 0: the log was cut.
            largest_lag, smallest_lead: those after the first of them, because positions only grow.
        """
        counted, lags, leads, largest, smallest = self.values()
        self.put(
            counted + count,
            lags + max(0, lag),
            leads + max(0, lead),
            max(largest, largest_lag, 0),
            max(smallest, min(0, -smallest_lead)),
        )

    def with_polls(
        self, polls: Callable[[], tuple[int, int, int]], end: int, start: int, counts_at: Callable[[float], bool]
    ) -> Readable:
        """Return the counters with polls that are not added yet, for a reader.

        Args:
            polls: see :meth:`.TopicPartitionState.polls`.
            end, start: the offsets at which the log ends and begins. A negative ``end`` is unknown.
            counts_at: tells whether the polls still count at a time.
        """
        return _WithPolls(self, polls, end, start, counts_at)
