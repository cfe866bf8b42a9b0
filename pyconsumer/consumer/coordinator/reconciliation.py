"""Following the coordinator's assignment in the user's thread, under the consumer protocol (KIP-848).

The order is Java's: commit (if that is automatic), ``on_partitions_revoked``, ``on_partitions_assigned``, and only then
does the core acknowledge. Nothing more is fetched or returned of partitions that are about to be revoked.

Rules

1. Topics are assigned by id. A partition is assigned when the name of its topic is known; those whose topics are not
   known yet follow when metadata names them.
2. A topic that was deleted and created again has another id: its partitions are revoked, and assigned with a new state.
3. If the listener raises, nothing is acknowledged, and the same call is made again after a pause, at the next poll.
   Until it succeeds, nothing is returned of the partitions it is about. (Java 4.3 calls ``onPartitionsAssigned`` again
   with no partitions, and if that succeeds it acknowledges and reads those that the listener has not taken.)
4. ``on_partitions_assigned`` is called after each assignment, even if nothing is new, the others only with partitions.
5. A partition that the listener has revoked is not ours any more, whatever comes next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyconsumer.consumer.coordinator.consumer_group_state import NOTHING, LocalAssignment, Reconcile, Release
from pyconsumer.consumer.coordinator.consumer_membership import ConsumerMembership
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.listener_invoker import ListenerInvoker
from pyconsumer.consumer.coordinator.offset_commits import OffsetCommitter
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.futures import Steps
from pyconsumer.network.metadata import Metadata
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["ReconciliationSteps"]


class ReconciliationSteps(ListenerInvoker):
    """The steps of a member that run in the user's thread, see above.

    Args:
        coordinator_client: sends requests to the coordinator.
        client: the user thread's.
        metadata, subscriptions: the consumer's.
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

    def reconcile(self, step: Reconcile, deadline: float) -> Steps[bool]:
        """Follow an assignment; return whether that is done, as far as it can be done now."""
        now = self._coordinator.clock.now()
        if self._started_at is None:
            self._started_at = now
        names = self._resolve(step.target)
        if not names and step.target.partitions:
            self._postpone(step)
            return True
        share = LocalAssignment(step.target.number, {topic: step.target.partitions[topic] for topic in names})
        subscriptions = self._subscriptions
        wanted = {TopicPartition(names[topic], number) for topic, part in share.partitions.items() for number in part}
        owned = subscriptions.assignment()
        if share == step.current and wanted == owned and not self._unannounced:
            self._postpone(step)  # everything but unknown topics is done, and acknowledged
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
        if not self._still_follows(step):
            return True
        if revoked:
            yield from self._revoke(step, revoked)
            if not self._still_follows(step):
                return True
        added = sorted((wanted - owned) | renewed | (self._unannounced & wanted))
        if added or revoked or share.partitions != step.current.partitions or step.current is NOTHING:
            yield from self._assign(step, wanted, names, added)
        else:  # the coordinator has changed its mind twice, or topics are not known yet
            subscriptions.assign_from_subscribed(subscriptions.assigned_list())
        self._finish(step, share, added, revoked)
        return True

    def _resolve(self, target: LocalAssignment) -> dict[bytes, str]:
        """Return the names of the target's topics, and ask for those that are not known."""
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

    def _postpone(self, step: Reconcile) -> None:
        with self._coordinator.lock:
            self._core.on_unresolved(step)

    def _still_follows(self, step: Reconcile) -> bool:
        with self._coordinator.lock:
            return self._core.still_follows(step)

    def _failed(self, step: Reconcile) -> None:
        with self._coordinator.lock:
            self._core.on_reconcile_failed(step, self._coordinator.clock.now())

    def _revoke(self, step: Reconcile, revoked: Collection[TopicPartition]) -> Steps[None]:
        told = [tp for tp in revoked if tp not in self._unannounced]
        try:
            if told:
                yield from self._tell("on_partitions_revoked", told)
        except BaseException:
            self._failed(step)
            raise
        gone = set(revoked)
        self._unannounced -= gone
        self._subscriptions.assign_from_subscribed([tp for tp in self._subscriptions.assigned_list() if tp not in gone])

    def _assign(
        self,
        step: Reconcile,
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
        self._unannounced = set(added)
        try:
            yield from self._tell("on_partitions_assigned", added)
        except BaseException:
            subscriptions.mark_pending_revocation(self._unannounced & subscriptions.assignment())
            self._failed(step)
            raise
        self._unannounced.clear()

    def _finish(
        self,
        step: Reconcile,
        share: LocalAssignment,
        added: Collection[TopicPartition],
        revoked: Collection[TopicPartition],
    ) -> None:
        now = self._coordinator.clock.now()
        with self._coordinator.lock:
            followed = self._core.on_reconciled(step, share)
        if not followed:
            return
        self._committer.auto_commit.restart(now)
        started, self._started_at = self._started_at, None
        seconds = 0.0 if started is None else now - started
        self._core.metrics.rebalanced(seconds, now)
        self._core.log.info(
            "rebalance finished after %.3f s: epoch %d of member %s; %d partitions, new: %s; gone: %s",
            seconds,
            self._core.generation.generation_id,
            self._core.member_id,
            self._subscriptions.assigned_count,
            ", ".join(map(str, added)) or "none",
            ", ".join(map(str, revoked)) or "none",
        )

    # -- losing and leaving ------------------------------------------------------------------------------------------

    def release(self, step: Release) -> Steps[None]:
        """Let the listener know that the partitions are lost, and drop them."""
        try:
            yield from self._drop("on_partitions_lost")
        finally:
            with self._coordinator.lock:
                self._core.on_released(step, self._coordinator.clock.now())

    def drop_all(self, *, callbacks: bool = True) -> Steps[None]:
        """Revoke everything, because the member leaves."""
        with self._coordinator.lock:
            lost = not self._core.generation.joined
        yield from self._drop(None if not callbacks else "on_partitions_lost" if lost else "on_partitions_revoked")

    def _drop(self, callback: str | None) -> Steps[None]:
        self._forget_commit()
        self._started_at = None
        told = [tp for tp in self._owned() if tp not in self._unannounced]
        try:
            if told and callback is not None and self._subscriptions.has_auto_assigned:
                yield from self._tell(callback, told)
        finally:
            self._unannounced.clear()
            self._names, self._ids = {}, {}
            if self._subscriptions.has_auto_assigned:
                self._subscriptions.assign_from_subscribed(())
