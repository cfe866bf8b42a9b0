"""The steps by which a member of the consumer protocol (KIP-848) follows its assignment.

:class:`ConsumerGroupProtocol` has the order of the steps, :class:`ReconciliationSteps` has the steps.

The order is Java's: commit (if that is automatic), ``on_partitions_revoked``, ``on_partitions_assigned``, and only then
does the core acknowledge. Partitions that are about to be revoked are no longer fetched, and their records no longer
returned.

Rules

1. Topics are assigned by id. A partition is assigned when the name of its topic is known. Those whose topics are not
   known yet follow when metadata names them.
2. A topic that was deleted and created again has another id: its partitions are revoked, and assigned with a new state.
3. If the listener raises, the assignment is not acknowledged, and the same call is repeated after a pause, at the next
   poll. Until it succeeds, no records of its partitions are returned. (Java 4.3 calls ``onPartitionsAssigned`` again
   with no partitions, and if that succeeds it acknowledges and reads those that the listener has not taken.)
4. ``on_partitions_assigned`` is called after each assignment, even without new partitions. The other callbacks are
   called only with partitions.
5. A partition that the listener has revoked is not ours any more, whatever comes next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator.consumer_group_membership import ConsumerMembership
from pyconsumer.consumer.coordinator.consumer_group_state import NOTHING, LocalAssignment, Reconcile, Release
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.group_protocol import CoordinatorHooks, GroupProtocol
from pyconsumer.consumer.coordinator.group_state import FindCoordinator, Raise
from pyconsumer.consumer.coordinator.listener_invoker import ListenerInvoker
from pyconsumer.consumer.coordinator.offset_commits import OffsetCommitter
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["ConsumerGroupProtocol", "ReconciliationSteps"]


class ReconciliationSteps(ListenerInvoker):
    """The steps of a member that run in the user's thread. The module's text describes them.

    Args:
        coordinator_client: sends requests to the coordinator.
        client: the network client of the user's thread.
        metadata, subscriptions: those of the consumer.
        committer: commits before partitions are revoked.
    """

    def __init__(
        self,
        coordinator_client: CoordinatorClient[ConsumerMembership],
        client: ConsumerNetworkClient,
        *,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        committer: OffsetCommitter,
    ) -> None:
        super().__init__(coordinator_client, client, subscriptions=subscriptions, committer=committer)
        self._core = coordinator_client.core
        self._metadata = metadata
        self._names: dict[bytes, str] = {}  # of the topics that are assigned
        self._ids: dict[str, bytes] = {}  # the reverse
        self._unannounced: set[TopicPartition] = set()  # assigned, but the listener has failed to take them
        self._started_at: float | None = None

    def reconcile(self, action: Reconcile, deadline: float) -> Steps[bool]:
        """Adopt as much of an assignment as is possible now. Return whether all of it is adopted."""
        now = self._coordinator.clock.now()
        if self._started_at is None:
            self._started_at = now
        names = self._resolve(action.target)
        if not names and action.target.partitions:
            self._postpone(action)
            return True
        share = LocalAssignment(action.target.number, {topic: action.target.partitions[topic] for topic in names})
        subscriptions = self._subscriptions
        wanted = {TopicPartition(names[topic], number) for topic, part in share.partitions.items() for number in part}
        owned = subscriptions.assignment()
        if share == action.current and wanted == owned and not self._unannounced:
            self._postpone(action)  # everything but unknown topics is done, and acknowledged
            return True
        ids = {name: topic for topic, name in names.items()}
        renewed = {tp for tp in owned & wanted if self._ids.get(tp.topic, ids[tp.topic]) != ids[tp.topic]}
        revoked = sorted((owned - wanted) | renewed)
        subscriptions.mark_pending_revocation(revoked)
        if self._committer.auto_commit.enabled:
            self._committer.auto_commit.restart(now)  # this is one
            committed = yield from self._commit_first(deadline)
            if not committed:
                return False
        self._forget_commit()
        if not self._still_follows(action):
            return True
        if revoked:
            yield from self._revoke(action, revoked)
            if not self._still_follows(action):
                return True
        added = sorted((wanted - owned) | renewed | (self._unannounced & wanted))
        if added or revoked or share.partitions != action.current.partitions or action.current is NOTHING:
            yield from self._assign(action, wanted, names, added)
        else:  # the coordinator has changed its mind twice, or topics are not known yet
            subscriptions.assign_from_subscribed(subscriptions.assigned_list())
        self._finish(action, share, added, revoked)
        return True

    def _resolve(self, target: LocalAssignment) -> dict[bytes, str]:
        """Return the names of the target's topics, and request those that are not known."""
        names = {}
        unknown = set()
        for topic_id in target.partitions:
            name = self._metadata.topic_name(topic_id) or self._names.get(topic_id)
            if name is None:
                unknown.add(topic_id)
            else:
                names[topic_id] = name
        if unknown:
            self._core.log.debug("asking for the names of %d topics", len(unknown))
        if self._subscriptions.has_remote_pattern:
            self._metadata.set_topic_ids(unknown)
        elif unknown:
            self._metadata.request_update()
        return names

    def _postpone(self, action: Reconcile) -> None:
        with self._coordinator.lock:
            self._core.on_unresolved(action)

    def _still_follows(self, action: Reconcile) -> bool:
        with self._coordinator.lock:
            return self._core.still_follows(action)

    def _failed(self, action: Reconcile) -> None:
        with self._coordinator.lock:
            self._core.on_reconcile_failed(action, self._coordinator.clock.now())

    def _revoke(self, action: Reconcile, revoked: Collection[TopicPartition]) -> Steps[None]:
        announced = [tp for tp in revoked if tp not in self._unannounced]
        try:
            if announced:
                yield from self._call_listener("on_partitions_revoked", announced)
        except BaseException:
            self._failed(action)
            raise
        gone = set(revoked)
        self._unannounced -= gone
        self._subscriptions.assign_from_subscribed([tp for tp in self._subscriptions.assigned_list() if tp not in gone])

    def _assign(
        self,
        action: Reconcile,
        wanted: Collection[TopicPartition],
        names: Mapping[bytes, str],
        added: Collection[TopicPartition],
    ) -> Steps[None]:
        subscriptions = self._subscriptions
        if subscriptions.has_pattern:  # the broker may know topics of ours before we do
            subscriptions.subscribe_from_pattern(subscriptions.subscription() | set(names.values()))
        subscriptions.assign_from_subscribed(sorted(wanted))
        self._names = dict(names)
        self._ids = {name: topic_id for topic_id, name in names.items()}
        if subscriptions.has_remote_pattern:
            self._metadata.set_topics(subscriptions.metadata_topics())
        self._note_assigned()
        self._unannounced = set(added)
        try:
            yield from self._call_listener("on_partitions_assigned", added)
        except BaseException:
            subscriptions.mark_pending_revocation(self._unannounced & subscriptions.assignment())
            self._failed(action)
            raise
        self._unannounced.clear()

    def _finish(
        self,
        action: Reconcile,
        share: LocalAssignment,
        added: Collection[TopicPartition],
        revoked: Collection[TopicPartition],
    ) -> None:
        now = self._coordinator.clock.now()
        with self._coordinator.lock:
            followed = self._core.on_reconciled(action, share)
        if not followed:
            return
        self._committer.auto_commit.restart(now)
        started, self._started_at = self._started_at, None
        seconds = 0.0 if started is None else now - started
        self._core.metrics.rebalanced(seconds, now)
        self._core.log.info(
            "rebalance finished after %.3f s: epoch %d of member %s. %d partitions, new: %s, gone: %s",
            seconds,
            self._core.generation.generation_id,
            self._core.member_id,
            self._subscriptions.assigned_count,
            ", ".join(map(str, added)) or "none",
            ", ".join(map(str, revoked)) or "none",
        )

    # -- losing and leaving ------------------------------------------------------------------------------------------

    def release(self, action: Release) -> Steps[None]:
        """Notify the listener that the partitions are lost, and drop them."""
        try:
            yield from self._drop("on_partitions_lost")
        finally:
            with self._coordinator.lock:
                self._core.on_released(action, self._coordinator.clock.now())

    def drop_all(self, *, callbacks: bool = True) -> Steps[None]:
        """Revoke all partitions, because the member leaves."""
        with self._coordinator.lock:
            lost = not self._core.generation.joined
        yield from self._drop(None if not callbacks else "on_partitions_lost" if lost else "on_partitions_revoked")

    def _drop(self, callback: str | None) -> Steps[None]:
        self._forget_commit()
        self._started_at = None
        self._member.heartbeat_timers.on_assigned(0, self._coordinator.clock.now())
        announced = [tp for tp in self._owned() if tp not in self._unannounced]
        try:
            if announced and callback is not None and self._subscriptions.has_auto_assigned:
                yield from self._call_listener(callback, announced)
        finally:
            self._unannounced.clear()
            self._names, self._ids = {}, {}
            if self._subscriptions.has_auto_assigned:
                self._subscriptions.assign_from_subscribed(())


class ConsumerGroupProtocol(GroupProtocol[ConsumerMembership, ReconciliationSteps]):
    """A member of the consumer protocol, in the user's thread: chooses the next step, and leaves the group.

    Heartbeats are the only requests of this protocol, and the heartbeat thread sends them.

    Args:
        context: the parts that this consumer shares.
        coordinator_client: sends requests to the coordinator. Its core is the membership.
        committer: commits before partitions are revoked.
        hooks: functions of the coordinator that this calls.
    """

    def __init__(
        self,
        context: ConsumerContext,
        coordinator_client: CoordinatorClient[ConsumerMembership],
        committer: OffsetCommitter,
        hooks: CoordinatorHooks,
    ) -> None:
        steps = ReconciliationSteps(
            coordinator_client,
            context.client,
            metadata=context.metadata,
            subscriptions=context.subscriptions,
            committer=committer,
        )
        super().__init__(context, coordinator_client, hooks, steps)

    @property
    def awaits_response(self) -> bool:
        """Return False. Responses arrive in the heartbeat thread, which reports them."""
        return False

    def on_subscription_change(self) -> None:
        """See :class:`GroupProtocol`."""
        subscriptions = self._subscriptions
        with self._lock:
            if subscriptions.has_remote_pattern:
                self.core.on_subscription((), subscriptions.remote_pattern)
            else:
                self.core.on_subscription(subscriptions.subscription())

    def on_metadata(self) -> None:
        """Apply newer metadata, which may contain names of topics that were unknown."""
        with self._lock:
            self.core.on_metadata()

    def recover(self) -> None:
        """See :class:`GroupProtocol`."""
        with self._lock:
            self.core.recover()

    def advance(self, deadline: float) -> Steps[bool]:
        """Join, reconcile, release. See :class:`GroupProtocol`."""
        core = self.core
        while True:
            now = self._clock.now()
            if not self._hooks.knows_topics() and not core.has_urgent_news:
                if now >= deadline:
                    return False
                yield Wait(None, deadline)
                self._hooks.look_at_metadata()
                continue
            with self._lock:
                action = core.next_action(now)
                pending = core.rejoin_pending
            if action is None:
                if core.needs_background:
                    self._hooks.start_heartbeat()
                    with self._lock:
                        core.on_background_started()
                if not pending:
                    return True
                if now >= deadline:
                    return False
                with self._lock:
                    due = core.due_at(now)
                yield Wait(None, min(deadline, due))
                self._hooks.look_at_metadata()
            elif isinstance(action, Raise):
                raise action.error
            elif isinstance(action, FindCoordinator):
                self._coordinator.send_find_coordinator()
            elif isinstance(action, Release):
                yield from self.steps.release(action)
            else:
                done = yield from self.steps.reconcile(action, deadline)
                if not done and now >= deadline:
                    return False

    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions and leave. See :class:`GroupProtocol`. Heartbeats continue while the listener runs."""
        with self._lock:
            self.core.prepare_leaving()
        try:
            yield from self.steps.drop_all(callbacks=callbacks)
        finally:
            with self._lock:
                self.core.leave(reason, self._clock.now(), send=leave_group)
