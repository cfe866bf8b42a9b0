"""``health()`` of a consumer: what it reads, and the times that its calls note for that.

Any thread reads while the consumer works, in a forked child, or after ``close``. So nothing takes a lock, and each
collection is copied in one step. A call notes a time only if it waits, so a poll that finds records pays nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyconsumer.errors import WakeupError
from pyconsumer.log_fields import shown_error
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator
    from pyconsumer.consumer.delegate import ConsumerDelegate
    from pyconsumer.consumer.guard import Guard
    from pyconsumer.metrics.health import ConsumerHealth
    from pyconsumer.network.client import NetworkClient

__all__ = ["Activity", "consumer_health"]


class Activity:
    """The times of a consumer's calls, written by the thread that makes them.

    Args:
        now: the clock, in seconds.

    Attributes:
        last_at: when a call that does not poll began, or one that waited ended. At first the time of creation.
        waiting: calls on an event loop that are in progress.
        error: the latest error that a call has raised, as text. A wakeup is none.
        error_at: when it was raised. -inf before the first one.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.last_at = now()
        self.waiting = 0
        self.error: str | None = None
        self.error_at = -math.inf

    def note(self) -> None:
        """Note that a call begins or ends."""
        self.last_at = self._now()

    def raised(self, error: BaseException) -> None:
        """Note the error of a call as text: the object would keep those of the application."""
        self.last_at = self._now()
        if isinstance(error, Exception) and not isinstance(error, WakeupError):
            self.error, self.error_at = shown_error(error), self.last_at

    def enter(self) -> None:
        """Note that a call on an event loop begins."""
        self.last_at = self._now()
        self.waiting += 1

    def leave(self) -> None:
        """Note that a call on an event loop ends."""
        self.waiting -= 1
        self.last_at = self._now()


def consumer_health(delegate: ConsumerDelegate, guard: Guard, activity: Activity) -> ConsumerHealth:
    """Return the state of a consumer. See :meth:`pyconsumer.KafkaConsumer.health`."""
    from pyconsumer.metrics.health import ConsumerHealth

    now = delegate.clock.now()
    config, client, metrics, group = delegate.config, delegate.client, delegate.metrics, delegate.coordinator
    states = list(delegate.subscriptions.by_partition.values())
    lags = [lag for lag in (state.lag(read_committed=config.read_committed) for state in states) if lag is not None]
    wall_ms, by_position = delegate.clock.wall_ms(), delegate.subscriptions.commits_by_position
    found = [state.lag_time(wall_ms, read_committed=config.read_committed, by_position=by_position) for state in states]
    ages = [age for age in found if age is not None]
    polled_at = metrics.last_poll_at
    called_at = max(activity.last_at, polled_at)
    inside = guard.inside or activity.waiting > 0
    missing, since = _missing(delegate, now)
    waits_for, waits_since = None, now
    if inside:
        if missing is not None:
            waits_for, waits_since = missing, since
        elif group is not None and group.is_rebalancing:
            waits_for, waits_since = "the rebalance of the group", called_at
        else:
            waits_for, waits_since = "records or a response", called_at
    fetched_at = metrics.last_fetch_at
    committed_at = -1.0 if group is None else group.metrics.last_commit_at
    generation = None if group is None else group.generation
    return ConsumerHealth(
        client_id=config.client_id,
        group_id=config.group_id,
        closed=guard.closed,
        forked=guard.forked,
        connected_nodes=client.ready_nodes(),
        coordinator=None if group is None else group.coordinator_id,
        membership=None if group is None else group.state_name,
        generation_id=-1 if generation is None else generation.generation_id,
        member_id="" if generation is None else generation.member_id,
        has_assignment=_has_assignment(delegate, group),
        assigned=tuple(sorted(state.topic_partition for state in states)),
        paused=tuple(sorted(state.topic_partition for state in states if state.paused or state.held_back)),
        buffered_bytes=delegate.fetcher.planner.budget.held,
        lag=sum(lags) if lags else None,
        lag_s=max(ages, default=None),
        since_poll_s=_ago(polled_at, now),
        since_call_s=max(0.0, now - called_at),
        since_fetch_s=_ago(fetched_at, now),
        since_commit_s=_ago(committed_at, now),
        is_inside_call=inside,
        waits_for=waits_for,
        waits_s=max(0.0, now - waits_since),
        missing=missing,
        missing_s=max(0.0, now - since),
        last_error=_last_error(client, activity),
        max_poll_interval_s=config.max_poll_interval_ms / 1000,
    )


def _last_error(client: NetworkClient, activity: Activity) -> str | None:
    """Return the newer one of the last error of a connection and of a call."""
    network, raised = shown_error(client.last_error), activity.error
    if network is None or raised is None:
        return network or raised
    return network if client.last_error_at > activity.error_at else raised


def _ago(then: float, now: float) -> float | None:
    return max(0.0, now - then) if then >= 0 else None


def _has_assignment(delegate: ConsumerDelegate, group: ConsumerCoordinator | None) -> bool:
    subscriptions = delegate.subscriptions
    if group is None or not subscriptions.has_auto_assigned:
        return subscriptions.assigned_count > 0
    return group.generation.joined and group.metrics.last_rebalance_at >= 0


def _missing(delegate: ConsumerDelegate, now: float) -> tuple[str | None, float]:
    """Return the coordinator or leader that is missing for the longest time, and since when. None, ``now``: neither."""
    found: tuple[str | None, float] = None, now
    group, client = delegate.coordinator, delegate.client
    since = None
    if group is not None:
        since = group.missing_since(lambda node_id: client.connection_state(node_id, "coordinator") == "ready")
    if since is not None and since < found[1]:
        found = "the group's coordinator", since
    leaderless = delegate.fetcher.leaderless
    nodes: dict[int, TopicPartition] = {}
    for state in list(delegate.subscriptions.by_partition.values()):
        if state.paused or state.held_back:
            continue
        tp = state.topic_partition
        leader = delegate.metadata.leader(tp)
        if leader is not None:
            nodes.setdefault(leader.leader, tp)
        elif leaderless.get(tp, now) < found[1]:
            found = f"the leader of {tp}", leaderless[tp]
    for node_id, tp in nodes.items():
        since = client.unreachable_since(node_id)
        if since is not None and since < found[1]:
            found = f"the leader of {tp}, node {node_id}", since
    if not nodes and not client.ready_nodes():
        since = client.unreachable_since(None)
        if since is not None and since < found[1]:
            found = "any broker", since
    return found
