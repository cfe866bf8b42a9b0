"""Counters of a producer: of batches and topics, written by the sender's thread, and of calls that wait.

Any thread reads them, through :mod:`.metric_scopes`. A record costs nothing here: records are counted by batch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from pyconsumer.metrics.windows import Counters, Timing, Windows
from pyconsumer.producer.implementation import ProducerBatch
from pyconsumer.protocol.records import BATCH_OVERHEAD

__all__ = ["CALLS", "CallTimings", "SendCounters", "SentCounters"]

#: The calls whose time is counted.
CALLS: Final = ("flush", "init", "begin", "offsets", "commit", "abort", "metadata_waits", "memory_waits", "exhausted")
#: A topic's counters are kept for this long after its last batch (seconds), as a node's.
_KEPT_S: Final = 3600.0


class SentCounters(Counters):
    """Counters of the batches of one topic.

    Attributes:
        ratios: the sum of the batches' ratios of compressed to plain size.
        last_used_at: the time of the last batch, in monotonic seconds.
    """

    TOTALS: ClassVar[tuple[str, ...]] = ("batches", "records", "bytes", "ratios", "retried_records", "failed_records")
    PEAKS: ClassVar[tuple[str, ...]] = ()
    __slots__ = (*TOTALS, "last_used_at")

    batches: int
    records: int
    bytes: int
    ratios: float
    retried_records: int
    failed_records: int

    def __init__(self, windows: Windows, now: float) -> None:
        super().__init__(windows, now)
        self.last_used_at = now

    def sent(self, batches: int, records: int, size_bytes: int, ratios: float, now: float) -> None:
        """Count batches that are sent, with the sum of their ratios."""
        self.begin(now)
        self.batches += batches
        self.records += records
        self.bytes += size_bytes
        self.ratios += ratios

    def retried(self, records: int, now: float) -> None:
        """Count the records of a batch that is sent again."""
        self.begin(now)
        self.retried_records += records

    def failed(self, records: int, now: float) -> None:
        """Count the records of a batch that has failed."""
        self.begin(now)
        self.failed_records += records

    def begin(self, now: float) -> None:
        """Begin a window if the current one is over."""
        self.last_used_at = now
        if now >= self.ends_at:
            self.roll(now)


class SendCounters(SentCounters):
    """Counters of all batches of a producer, and of its Produce requests. Times are in seconds.

    Attributes:
        topics: the counters by topic.
        windows: of all counters.
    """

    TOTALS: ClassVar[tuple[str, ...]] = (
        *SentCounters.TOTALS,
        "requests",
        "raw_bytes",
        "queued",
        "splits",
        "produced",
        "throttled",
    )
    PEAKS: ClassVar[tuple[str, ...]] = ("largest_batch", "longest_queued", "longest_throttle")
    __slots__ = (*TOTALS[len(SentCounters.TOTALS) :], *PEAKS, "topics", "windows")

    requests: int
    raw_bytes: float
    queued: float
    splits: int
    produced: int
    throttled: float
    largest_batch: float
    longest_queued: float
    longest_throttle: float

    def __init__(self, windows: Windows, now: float) -> None:
        super().__init__(windows, now)
        self.topics: dict[str, SentCounters] = {}
        self.windows = windows

    def requested(self, batches: list[ProducerBatch], now: float) -> None:
        """Count a Produce request and its batches, which are built."""
        by_topic: dict[str, list[ProducerBatch]] = {}
        for batch in batches:
            by_topic.setdefault(batch.topic_partition[0], []).append(batch)
        self.begin(now)
        self.requests += 1
        for some in by_topic.values():
            records, size_bytes, ratios = 0, 0, 0.0
            for batch in some:  # no call of Python for each
                size, ratio = len(batch.data or b""), batch.builder.compression_ratio
                records += batch.record_count
                size_bytes += size
                ratios += ratio
                self.raw_bytes += (size - BATCH_OVERHEAD) / ratio if ratio > 0 else size
                if size > self.largest_batch:
                    self.largest_batch = size
                if batch.attempts <= 1:
                    seconds = now - batch.created_at
                    self.queued += seconds
                    if seconds > self.longest_queued:
                        self.longest_queued = seconds
            self.sent(len(some), records, size_bytes, ratios, now)
            self.topic(some[0], now).sent(len(some), records, size_bytes, ratios, now)

    def responded(self, throttle_ms: int, now: float) -> None:
        """Count a response to Produce."""
        self.begin(now)
        self.produced += 1
        seconds = throttle_ms / 1000
        self.throttled += seconds
        if seconds > self.longest_throttle:
            self.longest_throttle = seconds

    def repeated(self, batch: ProducerBatch, now: float) -> None:
        """Count a batch that is sent again."""
        self.retried(batch.record_count, now)
        self.topic(batch, now).retried(batch.record_count, now)

    def gave_up(self, batch: ProducerBatch, now: float) -> None:
        """Count a batch that has failed."""
        self.failed(batch.record_count, now)
        self.topic(batch, now).failed(batch.record_count, now)

    def split(self, now: float) -> None:
        """Count a batch that is split."""
        self.begin(now)
        self.splits += 1

    def topic(self, batch: ProducerBatch, now: float) -> SentCounters:
        """Return the counters of a batch's topic. Those of topics without a batch for an hour are dropped."""
        topic = batch.topic_partition.topic
        found = self.topics.get(topic)
        if found is None:
            for name, _ in [one for one in self.topics.items() if now - one[1].last_used_at >= _KEPT_S]:
                del self.topics[name]
            found = self.topics[topic] = SentCounters(self.windows, now)
        return found

    def topics_in_use(self, now: float) -> list[tuple[str, SentCounters]]:
        """Return the topics that had a batch in the last hour. Any thread may call this."""
        return [(name, one) for name, one in list(self.topics.items()) if now - one.last_used_at < _KEPT_S]


class CallTimings:
    """The time that calls of a producer take. Any thread may write, because any thread may call.

    Args:
        now: the clock, in seconds.

    Attributes:
        by_name: the timings of :data:`CALLS`.
        accepted: records that were accepted one by one, without the fast way of ``send``.
    """

    def __init__(self, windows: Windows, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()  # of writers. A reader takes none
        self.by_name = {name: Timing(windows, now()) for name in CALLS}
        self.accepted = 0

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of the block to a timing. The block may wait on an event loop."""
        began_at = self._now()
        try:
            yield
        finally:
            self.add(name, self._now() - began_at)

    def accept(self, records: int) -> None:
        """Count records. The caller holds the producer's lock."""
        self.accepted += records

    def add(self, name: str, seconds: float) -> None:
        """Add a time to a timing."""
        with self._lock:
            self.by_name[name].waited(seconds, self._now())
