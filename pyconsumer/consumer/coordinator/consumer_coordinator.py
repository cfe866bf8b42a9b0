"""``ConsumerCoordinator``: a consumer's side of its group. When automatic commits happen.

A thin driver of the membership core and of the commits.

The steps of a member depend on its group protocol: :mod:`.classic_group_rebalance` or
:mod:`.consumer_group_reconciliation`.

It belongs to the thread that uses the consumer, which calls :meth:`ConsumerCoordinator.poll` in each of its polls.
Callbacks of the application (rebalance listener, commit callbacks, assignors) run in there, and in ``close``,
``commit`` and their like, never elsewhere: see :mod:`.listener_invoker`. It shares only the core and
its lock with the heartbeat thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from pyconsumer.consumer.coordinator.classic_group_membership import ClassicMembership
from pyconsumer.consumer.coordinator.classic_group_rebalance import ClassicGroupProtocol
from pyconsumer.consumer.coordinator.coordinator_client import COORDINATOR, CoordinatorClient
from pyconsumer.consumer.coordinator.group_protocol import CoordinatorHooks, GroupProtocol
from pyconsumer.consumer.coordinator.group_state import Generation
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.consumer.coordinator.membership import GroupMember, MemberSettings
from pyconsumer.consumer.coordinator.offset_commits import AutoCommit, CommitCallback, CommittedOffsets, OffsetCommitter
from pyconsumer.consumer.metrics import GroupMetrics
from pyconsumer.consumer.topic_ids import follow_topic_ids, id_to_commit
from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.metrics.source import windows_of
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.network.stats import ChannelStats
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.context import ConsumerContext

__all__ = ["ConsumerCoordinator"]

_MakeProtocol = Callable[
    ["ConsumerContext", CoordinatorClient[Any], OffsetCommitter, CoordinatorHooks], GroupProtocol[Any, Any]
]


def _choose_protocol(name: str, settings: MemberSettings, now: float) -> tuple[GroupMember, _MakeProtocol]:
    """Return the core of a member that follows the protocol of this name, and the factory of its steps."""
    if name == "classic":
        return ClassicMembership(settings, now=now), ClassicGroupProtocol
    # A member of a classic group, as by default, does not pay for the modules of the other protocol.
    from pyconsumer.consumer.coordinator.consumer_group_membership import ConsumerMembership
    from pyconsumer.consumer.coordinator.consumer_group_reconciliation import ConsumerGroupProtocol

    return ConsumerMembership(settings, now=now), ConsumerGroupProtocol


class ConsumerCoordinator:
    """A consumer's side of its group: membership, rebalances, commits.

    Args:
        context: settings (with a ``group_id``), client, metadata, subscriptions and clock of the consumer.
        on_commit: called with the offsets of each commit that succeeded.
        on_news: called in the heartbeat thread after each change that may concern the application.

    Raises:
        ConfigurationError: the assignors have no rebalance protocol in common.
    """

    def __init__(
        self,
        context: ConsumerContext,
        *,
        on_commit: Callable[[dict[TopicPartition, OffsetAndMetadata]], object] | None = None,
        on_news: Callable[[], object] = lambda: None,
    ) -> None:
        config, client, metadata, subscriptions, clock = context
        if config.group_id is None:
            raise ConfigurationError("a consumer without group_id has no coordinator")
        now = clock.now()
        backoff = Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._config = config
        self._client = client
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._clock = clock
        self._lock = RLock()
        settings = MemberSettings(
            group_id=config.group_id,
            client_id=config.client_id,
            group_instance_id=config.group_instance_id,
            rack=config.client_rack or None,
            remote_assignor=config.group_remote_assignor,
            session_timeout=config.session_timeout_ms / 1000,
            rebalance_timeout=config.max_poll_interval_ms / 1000,
            heartbeat_interval=config.heartbeat_interval_ms / 1000,
            request_timeout=config.request_timeout_ms / 1000,
            backoff=backoff,
            windows=windows_of(config),
        )
        self._core, make_protocol = _choose_protocol(config.group_protocol, settings, now)
        self._coordinator = CoordinatorClient(
            client, self._core, self._lock, clock, changed=self._changed, disconnect=self._disconnect
        )
        self._auto_commit = AutoCommit(
            config.auto_commit_interval_ms / 1000 if config.enable_auto_commit else None, now
        )
        self._committer = OffsetCommitter(
            self._coordinator,
            is_member=lambda: subscriptions.has_auto_assigned,
            topic_id=partial(id_to_commit, subscriptions, metadata),
            refresh_metadata=metadata.request_update,
            auto_commit=self._auto_commit,
            backoff=backoff,
            on_commit=on_commit,
            on_acknowledged=subscriptions.note_committed,
        )
        self._committed = CommittedOffsets(
            self._coordinator,
            topic_id=metadata.topic_id,
            refresh_metadata=metadata.request_update,
            backoff=backoff,
            commits=lambda: self._committer.acknowledged,
        )
        hooks = CoordinatorHooks(
            start_heartbeat=lambda: self._start_heartbeat(),
            look_at_metadata=self._look_at_metadata,
            knows_topics=lambda: self._knows_topics,
        )
        self._protocol = make_protocol(context, self._coordinator, self._committer, hooks)
        self._heartbeat: HeartbeatThread | None = None
        self._leave_group: bool | None = None  # what close was called with
        #: Counters of the heartbeat thread's connections.
        self.background_stats = ChannelStats(settings.windows, now)
        self._notified = (self._core.revision, self._core.state)
        self._metadata_seen = -1
        self._pattern_wish = 0  # metadata of all topics, for a pattern
        self._due_at = -math.inf
        self._on_news = on_news

    # -- what poll asks ----------------------------------------------------------------------------------------------

    def note_poll(self, now: float) -> None:
        """Record that the application polled, for ``max_poll_interval_ms``.

        This takes no lock, since it writes one float.
        """
        self._core.heartbeat_timers.poll(now)

    @property
    def next_due_at(self) -> float:
        """Return when :meth:`poll` will have something to do (seconds), unless a response arrives earlier."""
        if self._metadata.update_count != self._metadata_seen:
            return -math.inf
        return self._due_at

    def due_between_polls(self, now: float, *, something_came: bool) -> float:
        """Return when :meth:`advance` will have something to do (seconds), unless a response arrives earlier.

        The time is never later than ``max_poll_interval_ms`` after the last poll, if the member has partitions. A
        member whose application does not poll leaves the group then, and only a poll lets it join again.

        Args:
            now: the present time.
            something_came: True if a response has arrived since the last call of this method.
        """
        if self._core.heartbeat_timers.poll_expired(now):
            return math.inf
        if self._metadata.update_count != self._metadata_seen or self.has_user_output:
            return -math.inf
        if something_came and self._subscriptions.has_auto_assigned and self._protocol.awaits_response:
            return -math.inf
        return self._due_at

    @property
    def has_user_output(self) -> bool:
        """Return whether callbacks or errors are waiting for the application, or it must be notified of a loss."""
        return self._core.has_urgent_news or self._committer.has_callbacks

    @property
    def awaits_response(self) -> bool:
        """Return whether a rebalance or an asynchronous commit is waiting for a response."""
        return self._committer.pending_async > 0 or (
            self._subscriptions.has_auto_assigned and self._protocol.awaits_response
        )

    @property
    def metrics(self) -> GroupMetrics:
        """Return the counters of the group."""
        return self._core.metrics

    def recover(self) -> None:
        """Repair the state after Ctrl-C without I/O. Requests that count as in flight but are not, count as failed."""
        self._metadata_seen = -1
        self._coordinator.recover()
        self._protocol.recover()
        self._committer.recover()
        self._committed.recover()
        self._changed()

    # -- membership --------------------------------------------------------------------------------------------------

    def poll(self, deadline: float, *, wait_for_join: bool = True) -> Steps[bool]:
        """Do the work of the group that is due: find the coordinator, rebalance, run callbacks, commit.

        Args:
            deadline: monotonic seconds. Work that is unfinished by then continues in the next call.
            wait_for_join: False makes the call return without waiting.

        Returns:
            True if the membership is settled.

        Raises:
            KafkaError: the coordinator rejected a request with an error that no retry can cure, or the heartbeat thread
                failed.
            Exception: a callback of the application raised it.
        """
        return self._work(deadline, is_poll=True, wait_for_join=wait_for_join)

    def _work(self, deadline: float, *, is_poll: bool, wait_for_join: bool) -> Steps[bool]:
        settled = True
        try:
            self._look_at_metadata()
            yield from self._committer.run_callbacks()
            self._committer.send_queued()
            if self._subscriptions.has_auto_assigned:
                now = self._clock.now()
                if is_poll:
                    with self._lock:
                        self._core.on_poll(now)
                if self._heartbeat is not None:
                    self._start_heartbeat()
                settled = yield from self._protocol.advance(deadline if wait_for_join else min(deadline, now))
            self.maybe_auto_commit_async(self._clock.now())
        finally:
            self._changed()
        return settled

    def advance(self) -> Steps[None]:
        """Do the work of the group that is due, without waiting, for an application that is busy.

        Unlike :meth:`poll`, this does not count as a poll. Automatic commits leave out the records that the application
        is working on (rule 9 of :mod:`~pyconsumer.consumer.subscription_state`).

        Raises:
            KafkaError: the coordinator rejected a request with an error that no retry can cure, or the heartbeat thread
                failed.
            Exception: a callback of the application raised it.
        """
        yield from self._work(self._clock.now(), is_poll=False, wait_for_join=False)

    def live_between_polls(self) -> None:
        """Let the member rebalance between polls, when :meth:`advance` is called."""
        self._subscriptions.keep_positions()
        self._core.heartbeat_timers.count_with_partitions()

    @property
    def _knows_topics(self) -> bool:
        """Return whether the topics that match the pattern are known: the metadata requested for it has arrived."""
        return not self._subscriptions.has_pattern or self._metadata.is_settled(self._pattern_wish)

    def _look_at_metadata(self) -> None:
        """Apply metadata changes since the last call: topics of a pattern, partition counts."""
        count = self._metadata.update_count
        if count == self._metadata_seen:
            return
        self._metadata_seen = count
        follow_topic_ids(self._subscriptions, self._metadata)
        if self._heartbeat is not None:
            self._heartbeat.set_brokers(self._metadata.brokers())
        if not self._subscriptions.has_auto_assigned:
            return
        self._match_pattern()
        self._protocol.on_subscription_change()
        self._protocol.on_metadata()

    def _match_pattern(self) -> None:
        if self._subscriptions.has_pattern:
            topics = [topic for topic in self._metadata.topics() if self._subscriptions.matches_pattern(topic)]
            self._subscriptions.subscribe_from_pattern(topics)

    def on_subscription_change(self) -> None:
        """Apply a new subscription to topics or to a pattern."""
        if self._subscriptions.has_pattern:
            self._pattern_wish = self._metadata.request_update()
            self._match_pattern()
        self._protocol.on_subscription_change()
        self._changed()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Rebalance at the next poll (KIP-568). This has no effect if a rebalance is in progress."""
        with self._lock:
            self._core.request_rejoin(reason or "rebalance enforced by user")
        self._changed()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group."""
        generation = self._core.generation
        group = self._core.settings
        return ConsumerGroupMetadata(
            group.group_id, generation.generation_id, generation.member_id, group.group_instance_id
        )

    @property
    def generation(self) -> Generation:
        """Return this member's generation. Any thread may call this."""
        return self._core.generation

    @property
    def state_name(self) -> str:
        """Return the state of the membership. Any thread may call this."""
        state = self._core.state
        return str(getattr(state, "name", state))

    def missing_since(self, is_connected: Callable[[int], bool]) -> float | None:
        """Return since when the coordinator is missing, in monotonic seconds. Any thread may call this.

        Args:
            is_connected: returns whether there is a connection to this node as the coordinator. One that is found
                is missing until there is one, or a response.

        Returns:
            None if it is there, or if nobody needs it: there is no subscription, and no search.
        """
        discovery = self._core.discovery
        if not self._subscriptions.has_auto_assigned and not discovery.is_sought(self._clock.now()):
            return None
        node, unanswered = discovery.node, discovery.unanswered_since
        if node is None or unanswered is None:
            return discovery.missing_since
        return None if is_connected(node.node_id) else unanswered

    @property
    def may_announce_leaving(self) -> bool:
        """Return whether leaving the group may need another rebalance first, and so has to wait."""
        return self._protocol.may_announce_leaving

    @property
    def is_rebalancing(self) -> bool:
        """Return whether the member waits for new partitions, or is giving up old ones."""
        return self._core.rebalancing or self._subscriptions.has_revoked

    @property
    def is_stable(self) -> bool:
        """Return whether no rebalance is due or in progress. Any thread may call this."""
        return self._core.is_stable

    @property
    def coordinator_id(self) -> int | None:
        """Return the id of the broker that coordinates the group, or None if it is unknown."""
        found = self._core.coordinator
        return None if found is None else found.node_id

    def on_unsubscribe(self, deadline: float) -> Steps[None]:
        """Revoke the partitions and leave the group. This waits only if the assignor announces that the member leaves.

        Raises:
            Exception: the listener raised it. The member has left the group nevertheless.
        """
        try:
            yield from self._depart("the consumer unsubscribed from all topics", None, deadline)
        finally:
            with self._lock:
                self._core.unsubscribe()
            self._changed()

    def close(self, deadline: float, leave_group: bool | None = None, *, commit: bool = True) -> Steps[None]:
        """Close the member: commit if commits are automatic, revoke the partitions, leave, end the heartbeat thread.

        Args:
            deadline: monotonic seconds. No callback is started after this time.
            leave_group: True sends LeaveGroup, False does not. None lets a dynamic member send it, but not a static
                member (KIP-1092).
            commit: False skips the automatic commit.

        Raises:
            Exception: a callback raised it. It is raised after everything else has been done.
        """
        leave_until = deadline
        self._leave_group = leave_group
        ended = False
        try:
            with self._client.disable_wakeups():
                try:
                    yield from self._finish_commits(deadline, commit=commit)
                except BaseException:
                    leave_until = -math.inf  # nothing more is waited for
                    raise
                finally:
                    callbacks = self._clock.now() < deadline
                    yield from self._depart(
                        "the consumer is being closed", leave_group, leave_until, callbacks=callbacks
                    )
                while self._core.leaving and self._clock.now() < deadline:
                    yield Wait(None, deadline)
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            with self._lock:
                self._core.close()
            if self._heartbeat is not None:  # after Ctrl-C nothing is waited for
                self._heartbeat.close(max(0.0, deadline - self._clock.now()) if ended else 0.0)

    def abandon(self, reason: str) -> None:
        """Let the heartbeat thread leave the group and end, unless :meth:`close` has done that. This returns at once.

        It takes no lock, because finalizers call it. They may run in any thread, between any two instructions.
        """
        if self._heartbeat is not None:
            self._heartbeat.abandon(reason, self._leave_group)

    def _finish_commits(self, deadline: float, *, commit: bool) -> Steps[None]:
        offsets = self._subscriptions.all_consumed() if commit and self._auto_commit.enabled else {}
        if offsets and (self._core.may_commit or not self._subscriptions.has_auto_assigned):
            try:
                yield from self._committer.commit(offsets, deadline)
            except KafkaError as error:
                self._core.log.warning("the last automatic commit failed: %s", error)
        yield from self._committer.flush(deadline)

    def _depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        try:
            yield from self._protocol.depart(reason, leave_group, deadline, callbacks=callbacks)
        finally:
            if self._heartbeat is not None:
                self._heartbeat.notify()

    # -- offsets -----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> Steps[None]:
        """See :meth:`OffsetCommitter.commit`."""
        yield from self._committer.commit(offsets, deadline)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: CommitCallback | None = None
    ) -> RequestFuture[Any]:
        """See :meth:`OffsetCommitter.commit_async`."""
        future = self._committer.commit_async(offsets, callback)
        self._client.flush()
        return future

    def maybe_auto_commit_async(self, now: float) -> None:
        """Commit the positions if ``auto_commit_interval_ms`` has passed."""
        if now >= self._auto_commit.next_at:
            member = self._subscriptions.has_auto_assigned
            if not member or self._core.may_commit:
                self._committer.commit_automatically(self._subscriptions.all_finished(), now)
            else:
                self._auto_commit.restart(now)

    def fetch_committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See :meth:`CommittedOffsets.fetch`."""
        return (yield from self._committed.fetch(partitions, deadline))

    # -- the heartbeat thread ----------------------------------------------------------------------------------------

    def _start_heartbeat(self) -> None:
        """Start the heartbeat thread unless it runs. One that failed is replaced, or the session would expire."""
        if self._heartbeat is not None:
            if self._heartbeat.alive:
                return
            self._heartbeat.end(within=0.0)  # Ctrl-C in its start may have hidden that it runs
        thread = HeartbeatThread.of_client(
            self._core,
            self._lock,
            self._config,
            self._client,
            changed=self._changed_in_background,
            stats=self.background_stats,
            brokers=self._metadata.brokers(),
        )
        self._heartbeat = thread  # before the start, so that Ctrl-C during the start cannot hide it from close
        thread.start()

    def _changed_in_background(self) -> None:
        self._changed()
        self._on_news()
        self._client.wake_poll()

    def _changed(self) -> None:
        """Set when :meth:`poll` has to be called, after something has changed that."""
        now = self._clock.now()
        core = self._core
        with self._lock:  # both threads come here; the later one must not be overwritten by the earlier one's view
            due = core.due_at(now) if self._subscriptions.has_auto_assigned else math.inf
            if due <= now and not core.has_urgent_news:  # errors and losses must not wait for a rebalance step
                due = math.inf if not self._knows_topics else max(due, self._protocol.due_at)
            self._due_at = min(due, self._auto_commit.next_at)
            notified, self._notified = self._notified, (core.revision, core.state)
            news = notified != self._notified
        if news and self._heartbeat is not None:
            # Above all when JoinGroup has succeeded: from then on there are heartbeats and a poll deadline.
            self._heartbeat.notify()

    def _disconnect(self, node_id: int) -> None:
        self._client.disconnect(node_id, COORDINATOR, cause="it is not the coordinator any more")
