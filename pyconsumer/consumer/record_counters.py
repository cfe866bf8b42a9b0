"""Counters of the topics and partitions that a consumer reads."""

from __future__ import annotations

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


class PartitionCounters(Counters):
    """The lag and the lead of one partition after each poll that returned records of it.

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

    def returned(self, lag: int, lead: int, now: float) -> None:
        """Count a poll."""
        if now >= self.ends_at:
            self.roll(now)
        self.count += 1
        self.lag += lag
        self.lead += lead
        if lag > self.largest_lag:
            self.largest_lag = lag
        if -lead > self.smallest_lead:
            self.smallest_lead = -lead
