"""Counters of one consumer. Plain numbers, added to where it happens; :meth:`ConsumerMetrics.snapshot` names them."""

from __future__ import annotations

from typing import Any

__all__ = ["ConsumerMetrics", "Timing"]


class Timing:
    """How often something happened and how long it took, in seconds."""

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


class ConsumerMetrics:
    """What a consumer counts.

    Attributes:
        started_at: monotonic seconds when it was made; rates are since then.
    """

    def __init__(self, now: float) -> None:
        self.started_at = now
        self.fetches = Timing()
        self.fetch_bytes = 0
        self.fetch_failures = 0
        self.records = 0
        self.throttled_ms = 0
        self.throttled_ms_longest = 0
        self.commits = Timing()
        self.commit_failures = 0
        self.polls = 0
        self.last_poll_at = -1.0
        self.poll_gaps = Timing()
        self.records_by_topic: dict[str, int] = {}

    def on_poll_start(self, now: float) -> None:
        if self.last_poll_at >= 0:
            self.poll_gaps.add(now - self.last_poll_at)
        self.last_poll_at = now
        self.polls += 1

    def on_fetch(self, latency: float, size_bytes: int, throttle_ms: int) -> None:
        self.fetches.add(latency)
        self.fetch_bytes += size_bytes
        self.throttled_ms += throttle_ms
        self.throttled_ms_longest = max(self.throttled_ms_longest, throttle_ms)

    def on_records(self, topic: str, count: int) -> None:
        self.records += count
        self.records_by_topic[topic] = self.records_by_topic.get(topic, 0) + count

    def snapshot(self, now: float) -> dict[str, dict[str, Any]]:
        """All values by group and name, with Kafka's names; times in ms (``-rate`` per second since the start)."""
        elapsed = max(now - self.started_at, 1e-9)
        polls = self.poll_gaps
        fetch: dict[str, Any] = {
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
        groups: dict[str, dict[str, Any]] = {
            "consumer-fetch-manager-metrics": fetch,
            "consumer-coordinator-metrics": {
                "commit-total": self.commits.count,
                "commit-rate": self.commits.count / elapsed,
                "commit-latency-avg": self.commits.average_ms(),
                "commit-latency-max": self.commits.longest_ms(),
                "commit-failed-total": self.commit_failures,
            },
            "consumer-metrics": {
                "poll-total": self.polls,
                "last-poll-seconds-ago": now - self.last_poll_at if self.last_poll_at >= 0 else -1.0,
                "time-between-poll-avg": polls.average_ms(),
                "time-between-poll-max": polls.longest_ms(),
            },
        }
        for topic, count in self.records_by_topic.items():
            groups[f"consumer-fetch-manager-metrics.{topic}"] = {
                "records-consumed-total": count,
                "records-consumed-rate": count / elapsed,
            }
        return groups
