"""``ShareCoordinator``: a share consumer's side of its group: joining, assignments, leaving. A thin driver of the core.

It belongs to the thread that uses the consumer, which calls :meth:`ShareCoordinator.advance` in each of its polls. It
shares only the core and its lock with the heartbeat thread. Nothing here waits, since there is no listener and nothing
to commit.

Rules

1. A step that the core asks for is done in :meth:`ShareCoordinator.advance`, and nowhere else.
2. :attr:`ShareCoordinator.assignment` changes as a whole. Records that were acquired from a partition that is gone can
   still be acknowledged: that is decided by the delegate.
3. A topic whose name is not known yet is left out, and metadata is requested. The others are adopted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from threading import RLock

from pyconsumer.consumer.coordinator.consumer_group_state import LocalAssignment, Reconcile, Release
from pyconsumer.consumer.coordinator.coordinator_client import COORDINATOR, CoordinatorClient
from pyconsumer.consumer.coordinator.group_state import FindCoordinator, Raise
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.consumer.coordinator.membership import MemberSettings
from pyconsumer.consumer.metrics import GroupMetrics
from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.consumer.share.membership import ShareMembership
from pyconsumer.metrics.source import windows_of
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.network.stats import ChannelStats
from pyconsumer.structs import TopicPartition

__all__ = ["ShareCoordinator"]


class ShareCoordinator:
    """A share consumer's side of its group. See the module.

    Args:
        context: the parts of the consumer.

    Attributes:
        assignment: the assigned partitions, with the ids of their topics.
        assignment_id: changes with the assignment.
        background_stats: counters of the heartbeat thread's connections.
    """

    def __init__(self, context: ShareContext) -> None:
        config, client, metadata, clock = context
        now = clock.now()
        self._config = config
        self._client = client
        self._metadata = metadata
        self._clock = clock
        self._lock = RLock()
        settings = MemberSettings(
            group_id=config.group_id,
            client_id=config.client_id,
            rack=config.client_rack or None,
            rebalance_timeout=config.max_poll_interval_ms / 1000,
            request_timeout=config.request_timeout_ms / 1000,
            backoff=Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms),
            windows=windows_of(config),
        )
        self._core = ShareMembership(settings, now=now)
        self._search = CoordinatorClient(
            client, self._core, self._lock, clock, changed=self._changed, disconnect=self._disconnect
        )
        self.assignment: dict[TopicPartition, bytes] = {}
        self.assignment_id = 0
        self.background_stats = ChannelStats(settings.windows, now)
        self._heartbeat: HeartbeatThread | None = None
        self._metadata_seen = -1
        self._due_at = -math.inf
        self._notified: object = None

    @property
    def member_id(self) -> str:
        """Return the member's id, which it keeps as long as this object lives."""
        return self._core.member_id

    @property
    def metrics(self) -> GroupMetrics:
        """Return the counters of the group."""
        return self._core.metrics

    @property
    def next_due_at(self) -> float:
        """Return when :meth:`advance` has something to do (seconds), unless something arrives earlier."""
        return -math.inf if self._metadata.update_count != self._metadata_seen else self._due_at

    def note_poll(self, now: float) -> None:
        """Record that the application polled, for ``max_poll_interval_ms``. This takes no lock."""
        self._core.heartbeat_timers.poll(now)

    # -- membership --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group with these topics, or announce the change."""
        with self._lock:
            self._core.on_subscription(topics)
        self._changed()

    def advance(self) -> None:
        """Do the work of the group that is due. This never waits.

        Raises:
            KafkaError: the coordinator rejected a request with an error that no retry can cure, or the heartbeat thread
                failed.
        """
        if self._metadata.update_count != self._metadata_seen:
            self._metadata_seen = self._metadata.update_count
            if self._heartbeat is not None:
                self._heartbeat.set_brokers(self._metadata.brokers())
            with self._lock:
                self._core.on_metadata()
        elif self._clock.now() < self._due_at:
            return
        try:
            self._do_steps()
        finally:
            self._changed()

    def _do_steps(self) -> None:
        core = self._core
        while True:
            with self._lock:
                action = core.next_action(self._clock.now())
            if isinstance(action, Raise):
                raise action.error
            if isinstance(action, FindCoordinator):
                self._search.send_find_coordinator()
            elif isinstance(action, Release):
                self._set_assignment({})
                with self._lock:
                    core.on_released(action, self._clock.now())
            elif action is not None:
                self._adopt(action)
            else:
                if core.needs_background:
                    self._start_heartbeat()
                    with self._lock:
                        core.on_background_started()
                return

    def _adopt(self, action: Reconcile) -> None:
        target = action.target.partitions
        names = {topic_id: self._metadata.topic_name(topic_id) for topic_id in target}
        if None in names.values():
            self._metadata.request_update()
        known = {topic_id: name for topic_id, name in names.items() if name is not None}
        share = LocalAssignment(action.target.number, {topic_id: target[topic_id] for topic_id in known})
        wanted = {
            TopicPartition(name, number): topic_id for topic_id, name in known.items() for number in target[topic_id]
        }
        if (target and not known) or (share == action.current and wanted == self.assignment):
            with self._lock:
                self._core.on_unresolved(action)  # until newer metadata has the names (rule 3)
            return
        self._set_assignment(wanted)
        with self._lock:
            self._core.on_reconciled(action, share)
        self._core.metrics.rebalanced(0.0, self._clock.now())
        self._core.log.info(
            "assigned in epoch %d of member %s: %s",
            self._core.generation.generation_id,
            self._core.member_id,
            ", ".join(map(str, sorted(wanted))) or "no partition",
        )

    def _set_assignment(self, wanted: dict[TopicPartition, bytes]) -> None:
        self.assignment = wanted
        self.assignment_id += 1

    def leave(self, reason: str) -> None:
        """Leave the group and drop the assignment. This does not wait."""
        with self._lock:
            self._core.leave(reason, self._clock.now())
            self._core.unsubscribe()
        self._set_assignment({})
        self._changed()
        if self._heartbeat is not None:
            self._heartbeat.notify()

    def close(self, deadline: float) -> Steps[None]:
        """Leave the group, wait for the response until ``deadline`` at most, and end the heartbeat thread."""
        ended = False
        try:
            self.leave("the consumer is being closed")
            while self._core.leaving and self._clock.now() < deadline:
                yield Wait(None, deadline)
            ended = True
        finally:
            with self._lock:
                self._core.close()
            if self._heartbeat is not None:  # after Ctrl-C nothing is waited for
                self._heartbeat.close(max(0.0, deadline - self._clock.now()) if ended else 0.0)

    def abandon(self, reason: str) -> None:
        """Let the heartbeat thread leave the group and end. This returns at once, and takes no lock."""
        if self._heartbeat is not None:
            self._heartbeat.abandon(reason)

    def recover(self) -> None:
        """Repair the state after Ctrl-C, without I/O."""
        self._metadata_seen = -1
        self._search.recover()
        with self._lock:
            self._core.recover()
        self._changed()

    # -- the heartbeat thread ----------------------------------------------------------------------------------------

    def _start_heartbeat(self) -> None:
        if self._heartbeat is not None:
            if self._heartbeat.alive:
                return
            self._heartbeat.end(within=0.0)
        self._heartbeat = HeartbeatThread.of_client(
            self._core,
            self._lock,
            self._config,
            self._client,
            changed=self._changed_in_background,
            stats=self.background_stats,
            brokers=self._metadata.brokers(),
        )
        self._heartbeat.start()

    def _changed_in_background(self) -> None:
        self._changed()
        self._client.wake_poll()

    def _changed(self) -> None:
        """Set when :meth:`advance` has something to do, after something has changed that."""
        core = self._core
        with self._lock:
            self._due_at = core.due_at(self._clock.now())
            notified, self._notified = self._notified, (core.revision, core.state)
            news = notified != self._notified
        if news and self._heartbeat is not None:
            self._heartbeat.notify()

    def _disconnect(self, node_id: int) -> None:
        self._client.disconnect(node_id, COORDINATOR, cause="it is not the coordinator any more")
