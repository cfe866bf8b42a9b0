"""Counters of a consumer, and ``metrics()`` with Kafka's names.

The lag of a partition is computed in :meth:`.SubscriptionState.partition_lag`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyconsumer.protocol.records import ConsumerRecord
    from pyconsumer.structs import TopicPartition

__all__ = ["ConsumerMetrics", "GroupMetrics", "Timing"]


class Timing:
    """Number and durations (seconds) of one kind of event."""

    __slots__ = ("count", "longest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        if seconds > self.longest:
            self.longest = seconds

    def average_ms(self) -> float:
        return self.total / self.count * 1000 if self.count else 0.0

    def longest_ms(self) -> float:
        return self.longest * 1000


class GroupMetrics:
    """Counters of a group member. Durations are passed in seconds.

    Attributes:
        heartbeats, joins, syncs, commits: time from request to response. Joins and syncs that failed are left out.
        rebalances: time from the start of the preparation until the assignment was adopted.
        failed_rebalances: joins and syncs that failed. MEMBER_ID_REQUIRED does not count: it only gives the member its
            id.
        callbacks: time spent in the rebalance listener, by ``revoked``, ``assigned`` and ``lost``.
    """

    def __init__(self) -> None:
        self.heartbeats = Timing()
        self.joins = Timing()
        self.syncs = Timing()
        self.rebalances = Timing()
        self.failed_rebalances = 0
        self.commits = Timing()
        self.commit_failures = 0
        self.callbacks = {"revoked": Timing(), "assigned": Timing(), "lost": Timing()}
        self._last_heartbeat_at = self._last_rebalance_at = -1.0

    def heartbeat_completed(self, latency: float, now: float) -> None:
        self.heartbeats.add(latency)
        self._last_heartbeat_at = now

    def commit_failed(self) -> None:
        self.commit_failures += 1

    def rebalance_failed(self) -> None:
        self.failed_rebalances += 1

    def rebalanced(self, seconds: float, now: float) -> None:
        self.rebalances.add(seconds)
        self._last_rebalance_at = now

    def snapshot(self, now: float, elapsed: float) -> dict[str, float | None]:
        """Return all values by Kafka's names. Rates are over ``elapsed`` seconds.

        A time since the last event is -1 before the first event.
        """
        found: dict[str, float | None] = {}
        for name, timing in (("heartbeat", self.heartbeats), ("join", self.joins), ("sync", self.syncs)):
            found[f"{name}-total"] = timing.count
            found[f"{name}-rate"] = timing.count / elapsed
        found["heartbeat-response-time-max"] = self.heartbeats.longest_ms()
        found["last-heartbeat-seconds-ago"] = _ago(self._last_heartbeat_at, now)
        for name, timing in (
            ("join-time", self.joins),
            ("sync-time", self.syncs),
            ("commit-latency", self.commits),
            ("rebalance-latency", self.rebalances),
            *((f"partition-{name}-latency", timing) for name, timing in self.callbacks.items()),
        ):
            found[f"{name}-avg"] = timing.average_ms()
            found[f"{name}-max"] = timing.longest_ms()
        found["commit-total"] = self.commits.count
        found["commit-rate"] = self.commits.count / elapsed
        found["commit-failed-total"] = self.commit_failures
        found["rebalance-latency-total"] = self.rebalances.total * 1000
        found["rebalance-total"] = self.rebalances.count
        found["rebalance-rate-per-hour"] = self.rebalances.count / elapsed * 3600
        found["failed-rebalance-total"] = self.failed_rebalances
        found["failed-rebalance-rate-per-hour"] = self.failed_rebalances / elapsed * 3600
        found["last-rebalance-seconds-ago"] = _ago(self._last_rebalance_at, now)
        return found


def _ago(then: float, now: float) -> float:
    return now - then if then >= 0 else -1.0


class ConsumerMetrics:
    """Counters of a consumer.

    Attributes:
        started_at: monotonic seconds when the object was made. Rates cover the time since then.
    """

    def __init__(self, now: float) -> None:
        self.started_at = now
        self.fetches = Timing()
        self.fetch_bytes = 0
        self.fetch_failures = 0
        self.records = 0
        self.throttled_ms = 0
        self.throttled_ms_longest = 0
        self.polls = 0
        self.last_poll_at = -1.0
        self._gaps = 0  # not a Timing: its method would be one call more for every poll
        self._gaps_total = self._gaps_longest = 0.0
        self.records_by_topic: dict[str, int] = {}

    def on_poll_start(self, now: float) -> None:
        last = self.last_poll_at
        if last >= 0:
            gap = now - last
            self._gaps += 1
            self._gaps_total += gap
            if gap > self._gaps_longest:
                self._gaps_longest = gap
        self.last_poll_at = now
        self.polls += 1

    def on_fetch(self, latency: float, size_bytes: int, throttle_ms: int) -> None:
        self.fetches.add(latency)
        self.fetch_bytes += size_bytes
        if throttle_ms:
            self.throttled_ms += throttle_ms
            self.throttled_ms_longest = max(self.throttled_ms_longest, throttle_ms)

    def on_fetch_failure(self) -> None:
        """Count a fetch that failed."""
        self.fetch_failures += 1

    def on_records(self, topic: str, count: int) -> None:
        self.records += count
        self.records_by_topic[topic] = self.records_by_topic.get(topic, 0) + count

    def on_polled(self, polled: Mapping[TopicPartition, list[ConsumerRecord[Any, Any]]]) -> None:
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

    def snapshot(self, now: float, group: GroupMetrics | None = None) -> dict[str, dict[str, float | None]]:
        """Return all values by group and name.

        Names are Kafka's, times are in ms, and a ``-rate`` is per second since the start.

        Args:
            group: counters of the group member. None without a group.
        """
        elapsed = max(now - self.started_at, 1e-9)
        fetch: dict[str, float | None] = {
            "fetch-total": self.fetches.count,
            "fetch-rate": self.fetches.count / elapsed,
            "fetch-latency-avg": self.fetches.average_ms(),
            "fetch-latency-max": self.fetches.longest_ms(),
            "fetch-failed-total": self.fetch_failures,
            "fetch-throttle-time-avg": self.throttled_ms / self.fetches.count if self.fetches.count else 0.0,
            "fetch-throttle-time-max": self.throttled_ms_longest,
            "bytes-consumed-total": self.fetch_bytes,
            "bytes-consumed-rate": self.fetch_bytes / elapsed,
            "fetch-size-avg": self.fetch_bytes / self.fetches.count if self.fetches.count else 0.0,
            "records-consumed-total": self.records,
            "records-consumed-rate": self.records / elapsed,
            "records-per-request-avg": self.records / self.fetches.count if self.fetches.count else 0.0,
        }
        groups: dict[str, dict[str, float | None]] = {
            "consumer-fetch-manager-metrics": fetch,
            "consumer-coordinator-metrics": (group or GroupMetrics()).snapshot(now, elapsed),
            "consumer-metrics": {
                "poll-total": self.polls,
                "last-poll-seconds-ago": _ago(self.last_poll_at, now),
                "time-between-poll-avg": self._gaps_total / self._gaps * 1000 if self._gaps else 0.0,
                "time-between-poll-max": self._gaps_longest * 1000,
            },
        }
        for topic, count in self.records_by_topic.items():
            groups[f"consumer-fetch-manager-metrics.{topic}"] = {
                "records-consumed-total": count,
                "records-consumed-rate": count / elapsed,
            }
        return groups
