"""Counters of a consumer: of polls and fetches, of its group, of topics and partitions.

One thread at a time writes each of them: the consumer's own, or whoever holds the lock of the group's core. Any thread
reads them, through :mod:`.metric_scopes`. An event costs one call, whatever the number of counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, ClassVar

from pyconsumer.consumer.record_counters import TopicCounters
from pyconsumer.metrics.windows import Counters, Readable, Timing, Windows

if TYPE_CHECKING:
    from pyconsumer.consumer.partition_state import TopicPartitionState
    from pyconsumer.consumer.subscription_state import SubscriptionState
    from pyconsumer.structs import TopicPartition

__all__ = ["ConsumerMetrics", "GroupMetrics"]


class GroupMetrics:
    """Counters of a group member. Durations and times are in seconds.

    Args:
        windows: of all counters.
        now: the present time.

    Attributes:
        heartbeats, joins, syncs, commits: time from request to response. Joins and syncs that failed are left out.
        rebalances: time from the start of the preparation until the assignment was adopted.
        failures: joins and syncs that failed. MEMBER_ID_REQUIRED does not count: it only gives the member its id.
        callbacks: time spent in the rebalance listener, by ``revoked``, ``assigned`` and ``lost``.
        last_heartbeat_at, last_rebalance_at, last_commit_at: when the last one ended, and the last commit that
            succeeded. -1 before the first one.
    """

    def __init__(self, windows: Windows | None = None, now: float = 0.0) -> None:
        def timing() -> Timing:
            return Timing(windows or Windows(), now)

        self.heartbeats, self.joins, self.syncs, self.rebalances = timing(), timing(), timing(), timing()
        self.failures = timing()
        self.commits = timing()
        self.commit_failures = 0
        self.callbacks = {"revoked": timing(), "assigned": timing(), "lost": timing()}
        self.last_heartbeat_at = self.last_rebalance_at = self.last_commit_at = -1.0

    def heartbeat_completed(self, latency: float, now: float) -> None:
        self.heartbeats.add(latency, now)
        self.last_heartbeat_at = now

    def commit_answered(self, latency: float, now: float) -> None:
        self.commits.add(latency, now)

    def committed(self, now: float) -> None:
        self.last_commit_at = now

    def commit_failed(self) -> None:
        self.commit_failures += 1

    def rebalance_failed(self, now: float) -> None:
        self.failures.add(0.0, now)

    def rebalanced(self, seconds: float, now: float) -> None:
        self.rebalances.add(seconds, now)
        self.last_rebalance_at = now


class ConsumerMetrics(Counters):
    """Counters of a consumer. Times and durations are in seconds.

    Args:
        now: the present time.
        windows: of all counters.

    Attributes:
        windows: the argument.
        polls: calls of ``poll`` and its like.
        last_poll_at: when the last one began. -1 before the first one.
        last_fetch_at: when the last response to a fetch arrived. -1 before the first one.
        fetch_failures: fetches without a response.
        topics: the counters by topic.
        records_by_topic: how many records were returned, by topic.
        commit_calls, committed_calls: calls of ``commit`` and ``committed``.
    """

    TOTALS: ClassVar[tuple[str, ...]] = (
        "fetches",
        "fetch_latency",
        "sized_fetches",
        "fetch_bytes",
        "throttled",
        "gaps",
        "between",
        "records",
    )
    DERIVED: ClassVar[tuple[str, ...]] = ("gaps", "between")
    PEAKS: ClassVar[tuple[str, ...]] = ("longest_fetch", "largest_fetch", "longest_throttle", "longest_gap")
    __slots__ = (
        *(name for name in TOTALS if name not in ("gaps", "between")),
        *PEAKS,
        "_first_poll_at",
        "_read_committed",
        "_subscriptions",
        "commit_calls",
        "committed_calls",
        "fetch_failures",
        "last_fetch_at",
        "last_poll_at",
        "polls",
        "records_by_topic",
        "topics",
        "windows",
    )

    fetches: int
    fetch_latency: float
    sized_fetches: int
    fetch_bytes: int
    throttled: float
    records: int
    longest_fetch: float
    largest_fetch: float
    longest_throttle: float
    longest_gap: float

    def __init__(self, now: float, windows: Windows | None = None) -> None:
        self.windows = windows or Windows()
        self.polls = 0
        self.last_poll_at = self.last_fetch_at = self._first_poll_at = -1.0
        super().__init__(self.windows, now)
        self.fetch_failures = 0
        self.topics: dict[str, TopicCounters] = {}
        self.records_by_topic: dict[str, int] = {}
        self.commit_calls = Timing(self.windows, now)
        self.committed_calls = Timing(self.windows, now)
        self._subscriptions: SubscriptionState | None = None
        self._read_committed = False

    def watch(self, subscriptions: SubscriptionState, *, read_committed: bool) -> None:
        """Count the lag of the partitions, with ``read_committed`` up to the last stable offset."""
        self._subscriptions, self._read_committed = subscriptions, read_committed

    def on_poll_start(self, now: float) -> None:
        if now >= self.ends_at:
            self.begin_window(now)
        last = self.last_poll_at
        if last < 0:
            self._first_poll_at = now
        elif now - last > self.longest_gap:
            self.longest_gap = now - last
        self.last_poll_at = now
        self.polls += 1

    @property
    def gaps(self) -> int:
        """The number of times between two polls."""
        return max(0, self.polls - 1)

    @property
    def between(self) -> float:
        """The sum of these times, in seconds."""
        return max(0.0, self.last_poll_at - self._first_poll_at)

    def on_fetch(self, latency: float, sizes: Mapping[str, int], throttle_ms: int, now: float) -> None:
        """Count the response to a fetch.

        Args:
            latency: the time from the request to the response.
            sizes: the bytes of records by topic.
            throttle_ms: the time for which the broker throttles.
            now: the present time.
        """
        if now >= self.ends_at:
            self.begin_window(now)
        self.last_fetch_at = now
        self.fetches += 1
        self.fetch_latency += latency
        if latency > self.longest_fetch:
            self.longest_fetch = latency
        throttle = throttle_ms / 1000
        self.throttled += throttle
        if throttle > self.longest_throttle:
            self.longest_throttle = throttle
        if not sizes:
            return
        size = 0
        for topic, size_bytes in sizes.items():
            counters = self.topics.get(topic)
            if counters is None:
                counters = self.topics[topic] = TopicCounters(self.windows, now)
            counters.fetched(size_bytes)
            size += size_bytes
        self.sized_fetches += 1
        self.fetch_bytes += size
        if size > self.largest_fetch:
            self.largest_fetch = size

    def on_fetch_failure(self) -> None:
        """Count a fetch that failed."""
        self.fetch_failures += 1

    def on_records(self, tp: TopicPartition, count: int) -> None:
        """Count records of a partition that were returned."""
        self.on_polled({tp: range(count)})

    def on_polled(self, polled: Mapping[TopicPartition, Sized]) -> None:
        """Count the records of a poll."""
        by_topic = self.records_by_topic
        topic, count = "", 0
        for tp, records in polled.items():
            if tp[0] is not topic:  # those of a topic come together, as a rule
                if count:
                    by_topic[topic] = by_topic.get(topic, 0) + count
                    self.records += count
                topic, count = tp[0], 0
            count += len(records)
        if count:
            by_topic[topic] = by_topic.get(topic, 0) + count
            self.records += count

    def settle_polls(self, state: TopicPartitionState) -> None:
        """Count the lags of the polls since the last call, before the ends of the partition's log change."""
        count, positions, first = state.take_polls()  # first, so that a reader never sees them twice
        counters = state.counters
        end, start = state.end(read_committed=self._read_committed), state.log_start_offset
        if counters is None or end < 0:
            return
        if counters.ends_at < self.ends_at:  # the polls are of the client's current window
            counters.follow(self)
        counters.polled(count, count * end - positions, positions - count * start, end - first, first - start)

    def partition_counters(self, state: TopicPartitionState) -> Readable | None:
        """Return the counters of a partition with its latest polls, for a reader. None before its first records."""
        counters = state.counters
        if counters is None:
            return None
        end = state.end(read_committed=self._read_committed)
        return counters.with_polls(state.polls, end, state.log_start_offset, self.counts_at)

    def begin_window(self, now: float) -> None:
        """Begin a window, and forget the topics of which no partition is assigned."""
        assigned = None
        if self._subscriptions is not None:
            states = list(self._subscriptions.by_partition.values())
            assigned = {state.topic_partition[0] for state in states}
            for state in states:
                if state.poll_count:
                    self.settle_polls(state)
        for topic, counters in list(self.topics.items()):
            counters.take_records(self.records_by_topic.get(topic, 0))
            counters.roll(now)
            if assigned is not None and topic not in assigned:
                del self.topics[topic]
                self.records_by_topic.pop(topic, None)
        self.roll(now)
