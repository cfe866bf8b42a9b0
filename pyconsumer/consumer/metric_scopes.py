"""The sources of a consumer's metrics: the counters and the state of each group of the table of metrics.

Any thread reads here while the consumer works. So nothing is changed, no lock is taken, and each collection is copied
in one step before it is iterated over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pyconsumer.consumer.metrics import GroupMetrics
from pyconsumer.metrics.source import Gauge, MetricSource, Scope
from pyconsumer.metrics.windows import NO_SAMPLE, Readable
from pyconsumer.network.metric_scopes import NetworkScopes

if TYPE_CHECKING:
    from pyconsumer.clock import Clock
    from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator
    from pyconsumer.consumer.delegate import ConsumerDelegate
    from pyconsumer.consumer.fetcher import Fetcher
    from pyconsumer.consumer.metrics import ConsumerMetrics
    from pyconsumer.consumer.network_client import ConsumerNetworkClient
    from pyconsumer.consumer.partition_state import TopicPartitionState
    from pyconsumer.consumer.subscription_state import SubscriptionState

__all__ = ["ConsumerScopes", "group_scope", "open_source"]

_NOTHING: Final = -math.inf


def open_source(delegate: ConsumerDelegate) -> MetricSource:
    """Return a consumer's metrics, registered for Prometheus, and hand them to the reporters."""
    config = delegate.config
    scopes = ConsumerScopes(
        delegate.client,
        delegate.coordinator,
        delegate.metrics,
        delegate.fetcher,
        delegate.subscriptions,
        delegate.clock,
        read_committed=config.read_committed,
    )
    return MetricSource(
        "consumer",
        config.client_id,
        "consumer-protocol" if config.group_protocol == "consumer" else "consumer",
        delegate.clock.now,
        scopes,
        reporters=config.metric_reporters,
        settings=config.shown(),
    )


def group_scope(group: GroupMetrics, assigned: Callable[[], int]) -> Scope:
    """Return the sources of a group member's metrics. ``assigned`` returns how many partitions it has."""
    counters = {
        "commits": [group.commits],
        "heartbeats": [group.heartbeats],
        "joins": [group.joins],
        "syncs": [group.syncs],
        "rebalances": [group.rebalances],
        "failed_rebalances": [group.failures],
        **{name: [timing] for name, timing in group.callbacks.items()},
    }
    gauges: dict[str, Gauge] = {
        "assigned": lambda now: assigned(),
        "last_heartbeat": lambda now: _ago(group.last_heartbeat_at, now),
        "last_rebalance": lambda now: _ago(group.last_rebalance_at, now),
        "commit_failures": lambda now: group.commit_failures,
    }
    return Scope((), counters, gauges)


class ConsumerScopes:
    """Finds the sources of a consumer's metrics.

    Args:
        client: its network client.
        coordinator: its group membership, None without a group.
        metrics: its counters.
        fetcher: has the buffer.
        subscriptions: has the partitions.
        clock: tells the age of records.
        read_committed: True counts the lag up to the last stable offset.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        coordinator: ConsumerCoordinator | None,
        metrics: ConsumerMetrics,
        fetcher: Fetcher,
        subscriptions: SubscriptionState,
        clock: Clock,
        *,
        read_committed: bool,
    ) -> None:
        background = [] if coordinator is None else [coordinator.background_stats]
        self._network = NetworkScopes(client, background)
        self._waits = client.stats
        self._group = GroupMetrics() if coordinator is None else coordinator.metrics
        self._metrics = metrics
        self._fetcher = fetcher
        self._subscriptions = subscriptions
        self._clock = clock
        self._read_committed = read_committed

    def __call__(self, group: str, tags: tuple[str, ...]) -> Iterable[Scope]:
        """Return the sources of a group with these tags."""
        # No dictionary of bound methods: it would keep a dropped consumer until the garbage collector runs.
        if group == "consumer-fetch-manager-metrics":
            return self._partitions() if len(tags) > 1 else self._topics() if tags else self._fetches()
        if group == "consumer-metrics":
            return self._client()
        if group == "consumer-coordinator-metrics":
            return self._coordinator()
        return self._network(group, tags)

    def _client(self) -> Iterable[Scope]:
        metrics = self._metrics
        counters: dict[str, Sequence[Readable]] = {
            "client": [metrics],
            "commit_calls": [metrics.commit_calls],
            "committed_calls": [metrics.committed_calls],
        }
        gauges: dict[str, Gauge] = {
            "polls": lambda now: metrics.polls,
            "last_poll": lambda now: _ago(metrics.last_poll_at, now),
            "idle_ratio": self._idle_ratio,
        }
        return self._network.client(counters, gauges)

    def _idle_ratio(self, now: float) -> float:
        """Return the part of the time that the selector waits. NaN if nobody has polled twice in the windows."""
        if not self._metrics.reading(now).growth["gaps"]:
            return NO_SAMPLE
        waits = self._waits.reading(now)
        return waits.growth["waited"] / waits.seconds

    def _coordinator(self) -> Iterable[Scope]:
        subscriptions = self._subscriptions
        return (group_scope(self._group, lambda: subscriptions.assigned_count),)

    def _fetches(self) -> Iterable[Scope]:
        metrics, fetcher = self._metrics, self._fetcher
        budget = fetcher.planner.budget
        gauges: dict[str, Gauge] = {
            "records_total": lambda now: metrics.records + fetcher.buffer.taken_ahead()[1],
            "fetch_failures": lambda now: metrics.fetch_failures,
            "buffered": lambda now: budget.held,
            "reserved": lambda now: budget.reserved,
            "buffer_limit": lambda now: budget.limit,
            "skipped": lambda now: fetcher.deserialization.skipped,
            "lag_max": self._lag_max,
            "lag_time_max": self._lag_time_max,
            "lead_min": self._lead_min,
        }
        return (Scope((), {"client": [metrics]}, gauges),)

    def _states(self) -> list[TopicPartitionState]:
        return list(self._subscriptions.by_partition.values())

    def _lag(self, state: TopicPartitionState) -> int | None:
        return state.lag(read_committed=self._read_committed)

    def _lag_max(self, now: float) -> float | None:
        """Return the largest lag in the windows, or now: a partition that is stuck returns no records."""
        found = _NOTHING
        for state in self._states():
            lag = self._lag(state)
            found = max(found, _NOTHING if lag is None else lag, self._peak(state, "largest_lag", now))
        return None if found == _NOTHING else found

    def _lag_time(self, state: TopicPartitionState, wall_ms: int) -> float | None:
        """Return the age of the first uncommitted record in ms."""
        by_position = self._subscriptions.commits_by_position
        age = state.lag_time(wall_ms, read_committed=self._read_committed, by_position=by_position)
        return None if age is None else age * 1000

    def _lag_time_max(self, now: float) -> float | None:
        wall_ms = self._clock.wall_ms()
        ages = [age for state in self._states() if (age := self._lag_time(state, wall_ms)) is not None]
        return max(ages, default=None)

    def _lead_min(self, now: float) -> float:
        found = max((self._peak(state, "smallest_lead", now) for state in self._states()), default=_NOTHING)
        return NO_SAMPLE if found == _NOTHING else -found

    def _peak(self, state: TopicPartitionState, field: str, now: float) -> float:
        counters = self._metrics.partition_counters(state)
        return _NOTHING if counters is None else counters.reading(now).peaks[field]

    def _topics(self) -> Iterable[Scope]:
        assigned = {state.topic_partition.topic for state in self._states()}
        ahead = self._fetcher.buffer.taken_ahead()
        for topic, counters in list(self._metrics.topics.items()):
            if topic in assigned:
                total = self._metrics.records_by_topic.get(topic, 0) + (ahead[1] if ahead[0] == topic else 0)
                yield Scope((topic,), {"topic": [counters.with_records(total)]}, {"records_total": _constant(total)})

    def _partitions(self) -> Iterable[Scope]:
        wall_ms = self._clock.wall_ms()
        for state in self._states():
            topic, partition = state.topic_partition
            gauges = {
                "lag": _constant(self._lag(state)),
                "lag_time": _constant(self._lag_time(state, wall_ms)),
                "lead": _constant(state.lead()),
                "replica": _constant(state.preferred_replica),
            }
            counters = self._metrics.partition_counters(state)
            found: dict[str, Sequence[Readable]] = {} if counters is None else {"partition": [counters]}
            yield Scope((topic, str(partition)), found, gauges)


def _ago(then: float, now: float) -> float:
    return now - then if then >= 0 else -1.0


def _constant(value: float | None) -> Gauge:
    return lambda now: value
