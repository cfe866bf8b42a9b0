"""The steps of a classic rebalance: revoke, join, run the assignor as leader, adopt the assignment.

:class:`ClassicGroupProtocol` has their order. :class:`RebalanceSteps` has the steps: revoke partitions, join, assign as
leader, adopt the assignment. Each of its public methods carries out one step that the membership core asked for. Steps
that may wait are generators. At ``deadline`` they return False, and the next call continues where they
stopped.

Callbacks of the application run by the rules of :mod:`.listener_invoker`. Whatever one raises, the step is finished
first and the error raised afterwards: a listener's fault must not leave the member between two assignments.

The functions are the leader's part between JoinGroup and SyncGroup: read the members' subscriptions, run the assignor,
check its result. The assignor may be the application's code, so they run in the user's thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from pyconsumer.assignors import (
    Assignment,
    Assignor,
    ClusterView,
    CooperativeStickyDelayedAssignor,
    RebalanceProtocol,
    Subscription,
    common_protocol,
    resolve,
)
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator.classic_group_membership import ClassicMembership, RebalanceReport
from pyconsumer.consumer.coordinator.classic_group_state import (
    BuildJoin,
    CompleteJoin,
    ComputeAssignment,
    PrepareJoin,
    SendSync,
)
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.group_protocol import CoordinatorHooks, GroupProtocol
from pyconsumer.consumer.coordinator.group_state import FindCoordinator, Generation, Raise
from pyconsumer.consumer.coordinator.listener_invoker import ListenerInvoker
from pyconsumer.consumer.coordinator.membership import GroupLog
from pyconsumer.consumer.coordinator.offset_commits import OffsetCommitter
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.errors import IllegalStateError, KafkaError, ProtocolError
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    owned_partitions,
)
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponseMember
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["ClassicGroupProtocol", "RebalanceSteps", "metadata_snapshot", "perform_assignment", "read_members"]


T = TypeVar("T")

_LEAVE_NOTICE: Final = "the consumer is about to leave the group"
_LEAVE_NOTICE_PAUSE_S: Final = 1.0


def read_members(group_id: str, members: Iterable[JoinGroupResponseMember]) -> dict[str, Subscription]:
    """Return the members' subscriptions by member id.

    Raises:
        ProtocolError: a member's metadata cannot be read as a subscription. The message names the group and the member.
    """
    found = {}
    for member in members:
        try:
            message = decode_subscription(member.metadata)
        except ProtocolError as error:
            static = f" (group_instance_id {member.group_instance_id!r})" if member.group_instance_id else ""
            raise ProtocolError(
                f"the subscription of member {member.member_id!r}{static} in group {group_id!r} cannot be read: "
                f"{error}. These bytes come from that member, and the broker does not read them"
            ) from error
        found[member.member_id] = Subscription(
            topics=tuple(message.topics),
            user_data=None if message.user_data is None else bytes(message.user_data),
            owned_partitions=tuple(owned_partitions(message)),
            generation_id=message.generation_id,
            rack_id=message.rack_id,
            group_instance_id=member.group_instance_id,
        )
    return found


def perform_assignment(
    log: GroupLog,
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: ClusterView,
    subscriptions: Mapping[str, Subscription],
) -> dict[str, bytes]:
    """Run the assignor, and return each member's assignment as bytes.

    Args:
        log: the leader's log.
        assignor, protocol: the chosen assignor, and the rebalance protocol of the members.
        cluster: the cluster's metadata.
        subscriptions: the members' subscriptions, by member id.

    Raises:
        IllegalStateError: the assignor of a cooperative group gives one member a partition that another still owns.
    """
    assignments = assignor.assign(cluster, subscriptions)
    if protocol is RebalanceProtocol.COOPERATIVE:
        _check_cooperative(assignor, subscriptions, assignments)
    wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    given = {tp.topic for assignment in assignments.values() for tp in assignment.partitions}
    if wanted - given:
        log.warning("no partition of these subscribed topics was assigned: %s", ", ".join(sorted(wanted - given)))
    if given - wanted:
        log.warning(
            "the assignor assigned topics to which no member has subscribed: %s",
            ", ".join(sorted(given - wanted)),
        )
    return {
        member_id: encode_assignment(assignment.partitions, assignment.user_data)
        for member_id, assignment in assignments.items()
    }


def _check_cooperative(
    assignor: Assignor, subscriptions: Mapping[str, Subscription], assignments: Mapping[str, Assignment]
) -> None:
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member_id, assignment in assignments.items():
        owned = set(subscriptions[member_id].owned_partitions) if member_id in subscriptions else set()
        share = set(assignment.partitions)
        added |= share - owned
        revoked |= owned - share
    both = added & revoked
    if both:
        raise IllegalStateError(
            f"assignor {assignor.name} is cooperative, yet it gives {', '.join(map(str, sorted(both)))} to a member"
            " while another one still owns it. It must be withheld until the next rebalance (KIP-429)"
        )


def metadata_snapshot(cluster: ClusterView, topics: Iterable[str], *, racks: bool) -> dict[str, object]:
    """Return the metadata that an assignment depends on, by topic.

    For each topic it is the partition count. With ``racks`` it is the racks of each partition's replicas.

    Unknown topics are left out.
    """
    found: dict[str, object] = {}
    for topic in topics:
        partitions = cluster.partitions_for(topic)
        if not partitions:
            continue
        if racks:
            found[topic] = tuple(
                frozenset(b.rack for b in map(cluster.broker, p.replicas) if b is not None and b.rack)
                for p in partitions
            )
        else:
            found[topic] = len(partitions)
    return found


class RebalanceSteps(ListenerInvoker):
    """The steps of a rebalance that run in the user's thread. The module's text describes them.

    Args:
        coordinator_client: sends requests to the coordinator.
        client: the network client of the user's thread.
        metadata, subscriptions: those of the consumer.
        committer: commits before partitions are revoked.
        assignors: the configured assignors, in order of preference.
        protocol: the rebalance protocol that all these assignors support.
        rack_id: the setting ``client_rack``, or None.

    Attributes:
        under_way: the request for whose response the rebalance waits, or None.
        due_at: see :class:`.ListenerInvoker`.
    """

    def __init__(
        self,
        coordinator_client: CoordinatorClient[ClassicMembership],
        client: ConsumerNetworkClient,
        *,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        committer: OffsetCommitter,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
        rack_id: str | None,
    ) -> None:
        super().__init__(coordinator_client, client, subscriptions=subscriptions, committer=committer)
        self.under_way: RequestFuture[ClientResponse] | None = None
        self._attempt = -1  # whose request ``under_way`` is
        self._core = coordinator_client.core
        self._metadata = metadata
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = protocol
        self._rack_id = rack_id
        self._withheld = False  # as leader, we left partitions to nobody until their owner gives them up
        self._before: frozenset[TopicPartition] | None = None  # what was owned when the rebalance began

    # -- giving up ---------------------------------------------------------------------------------------------------

    def prepare(self, deadline: float) -> Steps[bool]:
        """Commit, call the listener and revoke partitions. Return whether that is done.

        The eager protocol revokes all partitions. The cooperative protocol revokes those whose topics are no longer
        subscribed.
        """
        if self._core.generation.joined and self._committer.auto_commit.enabled:
            if self._protocol is RebalanceProtocol.EAGER:
                # Return nothing more, so that what is committed is what has been processed when the listener is called.
                self._subscriptions.mark_pending_revocation(self._subscriptions.assignment())
            committed = yield from self._commit_first(deadline)
            if not committed:
                return False
        self._forget_commit()
        generation = self._core.generation  # the heartbeat thread may lose it at any time
        try:
            yield from self._give_up(lost=not generation.joined)
        finally:
            with self._coordinator.lock:
                self._core.on_prepared(generation)
            self._subscriptions.reset_group_subscription()
            self._follow_topics()
        return True

    def _give_up(self, *, lost: bool) -> Steps[None]:
        owned = self._owned()
        if self._before is None:
            self._before = frozenset(owned)
        if lost:
            self._subscriptions.forget_revoked()
            if owned:
                yield from self._lose(owned, owned, "on_partitions_lost")
            elif self._protocol is RebalanceProtocol.EAGER and getattr(
                self._subscriptions.listener, "before_first_join", False
            ):
                yield from self._call_listener("on_partitions_revoked", ())
        elif self._protocol is RebalanceProtocol.EAGER:
            self._subscriptions.remember_revoked(self._core.generation.generation_id)
            yield from self._lose(owned, owned, "on_partitions_revoked")
        else:
            subscribed = self._subscriptions.subscription()
            gone = [tp for tp in owned if tp.topic not in subscribed]
            if gone:
                yield from self._lose(owned, gone, "on_partitions_revoked")

    def _lose(self, owned: Collection[TopicPartition], gone: Collection[TopicPartition], name: str) -> Steps[None]:
        try:
            yield from self._call_listener(name, gone)
        finally:
            kept = set(owned) - set(gone)
            self._subscriptions.assign_from_subscribed([tp for tp in owned if tp in kept])

    def drop_all(self, *, callbacks: bool = True) -> Steps[None]:
        """Revoke all partitions, because the member leaves."""
        self._forget_commit()
        self._before = None
        owned = self._owned()
        self._subscriptions.forget_revoked()
        self._member.heartbeat_timers.on_assigned(0, self._coordinator.clock.now())
        if not owned or not self._subscriptions.has_auto_assigned:
            return
        with self._coordinator.lock:
            lost = not self._core.generation.joined or self._core.rebalancing
        if callbacks:
            yield from self._lose(owned, owned, "on_partitions_lost" if lost else "on_partitions_revoked")
        else:
            self._subscriptions.assign_from_subscribed(())

    @property
    def may_announce_leaving(self) -> bool:
        """Return whether an assignor has the hook ``announce_leaving``."""
        return any(type(each).announce_leaving is not Assignor.announce_leaving for each in self._assignors.values())

    def announce_leaving(self, leaves: bool) -> bool:
        """Notify the assignor that the member is about to leave permanently, or that it stays after all.

        Returns:
            True if another rebalance is needed, in which the leader learns of it.
        """
        assignor = self._assignors.get(self._core.generation.protocol_name or "")
        if leaves:
            return assignor is not None and assignor.announce_leaving(True)
        for each in self._assignors.values():
            each.announce_leaving(False)
        return False

    # -- joining -----------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Send JoinGroup with the member's subscription, once for each assignor."""
        self._withheld = False
        topics = frozenset(self._subscriptions.subscription())
        owned = self._owned()
        self._core.log.debug("joining with subscription %s, owning %s", sorted(topics), owned)
        protocols = [
            JoinGroupRequestProtocol(
                name=name,
                metadata=encode_subscription(
                    topics,
                    self._guarded(lambda assignor=assignor: assignor.subscription_user_data(topics)),  # type: ignore[misc]
                    owned,
                    self._core.generation.generation_id,
                    self._rack_id,
                ),
            )
            for name, assignor in self._assignors.items()
        ]
        with self._coordinator.lock:
            action = self._core.begin_join(protocols, topics, self._coordinator.clock.now(), keeps=bool(owned))
        if action is None:
            return
        number = action.attempt

        def completed(future: RequestFuture[ClientResponse]) -> None:
            now = self._coordinator.clock.now()
            with self._coordinator.lock:
                if future.exception is not None:
                    self._core.on_step_failed(number, future.exception, now)
                    sync = None
                else:
                    sync = self._core.on_join_response(number, future.value.message, now)
            if sync is not None:
                self._send_sync(sync)
            self._coordinator.changed()

        self._core.log.debug("sending to coordinator %s: %s", action.node, action.request)
        future = self._coordinator.send(action.node, JoinGroupRequest, action.request, timeout=action.timeout)
        future.add_callback(completed)
        self.under_way, self._attempt = future, number

    def _send_sync(self, action: SendSync) -> None:
        def completed(future: RequestFuture[ClientResponse]) -> None:
            now = self._coordinator.clock.now()
            with self._coordinator.lock:
                if future.exception is not None:
                    self._core.on_step_failed(action.attempt, future.exception, now)
                else:
                    self._core.on_sync_response(action.attempt, future.value.message, now)
            self._coordinator.changed()

        future = self._coordinator.send(action.node, SyncGroupRequest, action.request, timeout=action.timeout)
        future.add_callback(completed)
        self.under_way, self._attempt = future, action.attempt

    def recover(self) -> None:
        """Repair the state after Ctrl-C.

        A request that was never sent, or whose response was missed, counts as failed.
        """
        pending = self.under_way is not None and not self.under_way.done
        with self._coordinator.lock:
            self._core.recover(self._attempt if pending else None, self._coordinator.clock.now())

    # -- leading -----------------------------------------------------------------------------------------------------

    def assign(self, action: ComputeAssignment, deadline: float) -> Steps[bool]:
        """As leader, assign the partitions and send SyncGroup. Return whether that is done."""
        subscriptions = self._attempted(action, lambda: read_members(self._core.settings.group_id, action.members))
        topics = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        if self._subscriptions.group_subscribe(topics):
            self._follow_topics()
        while not self._knows(topics):
            self.due_at = math.inf
            if self._coordinator.clock.now() >= deadline:
                return False
            yield Wait(None, deadline)
        self.due_at = -math.inf
        shares: dict[str, bytes] = {}
        if not action.skip:
            shares = self._attempted(action, lambda: self._divide(action.generation, subscriptions))
            dealt = {tp for share in shares.values() for tp in decode_assignment(share)[0]}
            self._withheld = any(
                tp not in dealt for subscription in subscriptions.values() for tp in subscription.owned_partitions
            )
            given = {tp.topic for tp in dealt}
            if given - topics:
                self._subscriptions.group_subscribe(topics | given)
                self._follow_topics()
        with self._coordinator.lock:
            sync = self._core.on_assigned(
                action.attempt, shares, self.metadata_snapshot(), self._coordinator.clock.now()
            )
        if sync is not None:
            self._send_sync(sync)
        return True

    def _attempted(self, action: ComputeAssignment, call: Callable[[], T]) -> T:
        """Call a function for the leader. If it raises, the rebalance begins again after a pause."""
        try:
            return call()
        except BaseException:
            with self._coordinator.lock:
                self._core.on_assign_failed(action.attempt, self._coordinator.clock.now())
            raise

    def _divide(self, generation: Generation, subscriptions: Mapping[str, Subscription]) -> dict[str, bytes]:
        assignor = self._assignor(generation)
        log = self._core.log
        return self._guarded(lambda: perform_assignment(log, assignor, self._protocol, self._metadata, subscriptions))

    def _knows(self, topics: Iterable[str]) -> bool:
        """Return whether every topic is known, or known not to exist."""
        metadata = self._metadata
        return not metadata.is_bootstrap and all(
            metadata.topic(topic) is not None or topic in metadata.topic_errors or self._subscriptions.has_pattern
            for topic in topics
        )

    def metadata_snapshot(self) -> dict[str, object]:
        """Return the metadata of the group's topics that assignments depend on."""
        return metadata_snapshot(self._metadata, self._subscriptions.metadata_topics(), racks=self._rack_id is not None)

    def _assignor(self, generation: Generation) -> Assignor:
        assignor = self._assignors.get(generation.protocol_name or "")
        if assignor is None:
            raise IllegalStateError(f"Coordinator selected invalid assignment protocol: {generation.protocol_name}")
        return assignor

    def _follow_topics(self) -> None:
        if not self._subscriptions.has_pattern:
            self._metadata.set_topics(self._subscriptions.metadata_topics())

    # -- taking over -------------------------------------------------------------------------------------------------

    def complete(self, action: CompleteJoin) -> Steps[None]:
        """Adopt the assignment and notify the listener of the new partitions."""
        core, lock = self._core, self._coordinator.lock
        try:
            partitions, user_data = decode_assignment(action.assignment)
            assignor = self._assignor(action.generation)
        except Exception:
            with lock:
                core.on_rejected("the assignment cannot be used", self._coordinator.clock.now())
            raise
        if not self._subscriptions.assignment_matches_subscription(partitions):
            with lock:
                core.on_rejected(
                    "received assignment does not match the current subscription", self._coordinator.clock.now()
                )
            return
        errors: list[BaseException] = []
        owned = self._owned()
        revoked = sorted(set(owned) - set(partitions))
        if self._protocol is RebalanceProtocol.COOPERATIVE and revoked:
            with lock:
                core.on_revoking()
            self._commit_revoked(revoked)
            yield from self._call_and_catch(errors, "on_partitions_revoked", revoked)
            with lock:
                core.request_rejoin("need to revoke partitions and re-join")
        self._add_topics({tp.topic for tp in partitions})
        group = core.settings
        identity = ConsumerGroupMetadata(
            group.group_id, action.generation.generation_id, action.generation.member_id, group.group_instance_id
        )
        assignment = Assignment(tuple(partitions), None if user_data is None else bytes(user_data))
        self._caught(errors, lambda: self._guarded(lambda: assignor.on_assignment(assignment, identity)))
        for other in self._assignors.values():
            if other is not assignor:
                self._caught(errors, lambda other=other: self._guarded(other.on_voted_out))  # type: ignore[misc]
        self._committer.auto_commit.restart(self._coordinator.clock.now())
        self._subscriptions.assign_from_subscribed(partitions, action.generation.generation_id)
        self._note_assigned()
        with lock:
            report = core.on_completed()
        self._caught(errors, lambda: self._schedule(assignor))
        added = sorted(set(partitions) - set(owned))
        self._log(report, action.generation, partitions)
        yield from self._call_and_catch(errors, "on_partitions_assigned", added)
        if errors:
            raise errors[0]

    def _commit_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit the positions of these partitions if commits are automatic: records were returned during the join.

        There is no wait for the response. The commit is sent before our next JoinGroup on the same connection, and no
        other member gets the partitions before that.
        """
        if self._committer.auto_commit.enabled:
            finished = self._subscriptions.all_finished()
            offsets = {tp: finished[tp] for tp in revoked if tp in finished}
            self._committer.commit_automatically(offsets, self._coordinator.clock.now())

    def _schedule(self, assignor: Assignor) -> None:
        """Schedule another rebalance: at the time that the assignor names, or if one that is needed does not come.

        Normally the owner of a withheld partition revokes it and joins again. If a static owner was replaced by another
        process at that moment, its successor has no partition to revoke and no member would join, so we schedule a
        rebalance.
        """
        seconds = self._guarded(assignor.rebalance_due_in)
        if self._withheld:
            seconds = min(seconds, self._core.settings.session_timeout)
        with self._coordinator.lock:
            self._core.schedule_rejoin(self._coordinator.clock.now() + seconds)

    def _add_topics(self, assigned: set[str]) -> None:
        """Add topics that the leader has assigned before we knew that they match our pattern."""
        if self._subscriptions.has_pattern:
            topics = self._subscriptions.subscription() | assigned
            if self._subscriptions.subscribe_from_pattern(topics):
                with self._coordinator.lock:
                    self._core.on_topics_assigned(topics)

    def _log(
        self,
        report: RebalanceReport | None,
        generation: Generation,
        partitions: Collection[TopicPartition],
    ) -> None:
        before, self._before = self._before or frozenset(), None
        now = self._coordinator.clock.now()
        seconds = 0.0 if report is None else now - report.started_at
        self._core.metrics.rebalanced(seconds, now)
        text = "leader" if report is not None and report.is_leader else "follower"
        if report is not None and report.is_leader:
            text += f" of {report.members}"
            text += f", joined: {', '.join(report.joined)}" if report.joined else ""
            text += f", left: {', '.join(report.left)}" if report.left else ""
        self._core.log.info(
            "rebalance finished after %.3f s: %s with %s, %s. Reason: %s. %d partitions, new: %s, gone: %s",
            seconds,
            generation,
            generation.protocol_name,
            text,
            "" if report is None else report.reason,
            len(partitions),
            ", ".join(map(str, sorted(set(partitions) - before))) or "none",
            ", ".join(map(str, sorted(before - set(partitions)))) or "none",
        )

    # -- the application's code --------------------------------------------------------------------------------------

    def _call_and_catch(
        self, errors: list[BaseException], name: str, partitions: Collection[TopicPartition]
    ) -> Steps[None]:
        try:
            yield from self._call_listener(name, partitions)
        except Exception as error:
            errors.append(error)

    @staticmethod
    def _caught(errors: list[BaseException], call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            errors.append(error)


class ClassicGroupProtocol(GroupProtocol[ClassicMembership, RebalanceSteps]):
    """A member of the classic protocol, in the user's thread.

    It chooses the next step of a rebalance, and lets the member leave the group.

    Args:
        context: the parts that this consumer shares.
        coordinator_client: sends requests to the coordinator. Its core is the membership.
        committer: commits before partitions are revoked.
        hooks: functions of the coordinator that this calls.
    """

    def __init__(
        self,
        context: ConsumerContext,
        coordinator_client: CoordinatorClient[ClassicMembership],
        committer: OffsetCommitter,
        hooks: CoordinatorHooks,
    ) -> None:
        config, client, metadata, subscriptions, clock = context
        assignors = resolve(config.partition_assignment_strategy)
        for assignor in assignors:
            assignor.configure(config, clock)
        if config.rebalance_delay_ms and not any(isinstance(a, CooperativeStickyDelayedAssignor) for a in assignors):
            coordinator_client.core.log.warning(
                "rebalance_delay_ms has no effect without the assignor cooperative-sticky-delayed"
            )
        steps = RebalanceSteps(
            coordinator_client,
            client,
            metadata=metadata,
            subscriptions=subscriptions,
            committer=committer,
            assignors=assignors,
            protocol=common_protocol(assignors),
            rack_id=config.client_rack or None,
        )
        super().__init__(context, coordinator_client, hooks, steps)

    @property
    def awaits_response(self) -> bool:
        """Return whether JoinGroup or SyncGroup is in flight or about to be sent."""
        return self.core.rejoin_pending

    def on_subscription_change(self) -> None:
        """See :class:`GroupProtocol`."""
        with self._lock:
            self.core.on_subscription(self._subscriptions.subscription())

    def on_metadata(self) -> None:
        """As leader, compare the new metadata with the metadata of the assignment."""
        with self._lock:
            self.core.on_metadata(self.steps.metadata_snapshot())

    def recover(self) -> None:
        """See :class:`GroupProtocol`."""
        self.steps.recover()

    def advance(self, deadline: float) -> Steps[bool]:
        """Take part in the rebalance. See :class:`GroupProtocol`."""
        return self._join(deadline)

    def _join(self, deadline: float, *, leave_notice: bool = False) -> Steps[bool]:
        """Take part in the rebalance. ``leave_notice``: only to announce that we leave, owning nothing."""
        core = self.core
        said = False
        while True:
            now = self._clock.now()
            with self._lock:
                action = core.next_action(now)
                pending = core.rejoin_pending
            if action is None:
                if not pending:
                    return True
                if now >= deadline:
                    return False
                with self._lock:
                    due = core.due_at(now)
                request = self.steps.under_way
                yield Wait(request if request is not None and not request.done else None, min(deadline, due))
                self._hooks.look_at_metadata()
            elif isinstance(action, Raise):
                raise action.error
            elif isinstance(action, FindCoordinator):
                self._coordinator.send_find_coordinator()
            elif isinstance(action, PrepareJoin) and leave_notice:
                with self._lock:
                    core.on_prepared(action.generation)
            elif isinstance(action, PrepareJoin):
                prepared = yield from self.steps.prepare(deadline)
                if not prepared and now >= deadline:
                    return False
            elif isinstance(action, BuildJoin):
                if not self._hooks.knows_topics():
                    if now >= deadline:
                        return False
                    yield Wait(None, deadline)
                    self._hooks.look_at_metadata()
                    continue
                self._hooks.start_heartbeat()
                self.steps.join()
                said = leave_notice
            elif isinstance(action, ComputeAssignment):
                assigned = yield from self.steps.assign(action, deadline)
                if not assigned:
                    return False
            elif leave_notice:
                if said:
                    return True
                with self._lock:  # it had already started; we release its assignment in the next one
                    core.on_completed()
                    core.request_rejoin(_LEAVE_NOTICE)
            else:
                assert isinstance(action, CompleteJoin)
                yield from self.steps.complete(action)

    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions, announce that the member leaves, and leave.

        If the listener raises, the error is raised at the end.
        """
        failure: Exception | None = None
        try:
            try:
                yield from self.steps.drop_all(callbacks=callbacks)
            except Exception as error:
                failure = error
            yield from self._announce_leaving(deadline, leave_group)
        finally:
            self._leave(reason, leave_group)
        if failure is not None:
            raise failure

    @property
    def may_announce_leaving(self) -> bool:
        return self.steps.may_announce_leaving

    def _announce_leaving(self, deadline: float, leave_group: bool | None) -> Steps[None]:
        """Inform the leader that we leave permanently, in another rebalance, if the assignor wants that.

        The other members learn of the rebalance by their next heartbeats. If that takes longer than a session, the
        leader will miss us.
        """
        core, group = self.core, self.core.settings
        permanently = group.group_instance_id is None if leave_group is None else leave_group
        until = min(deadline, self._clock.now() + group.session_timeout)
        if not permanently or not core.generation.joined or self._clock.now() >= until:
            return
        try:
            if self.steps.announce_leaving(True):
                with self._lock:
                    core.request_rejoin(_LEAVE_NOTICE)
                with self._client.disable_wakeups():
                    announced = yield from self._join(until, leave_notice=True)
                    if announced and core.leads_others:
                        # Nobody else knows, and our LeaveGroup would take from the others what they have not got yet.
                        until = min(until, self._clock.now() + max(group.heartbeat_interval, _LEAVE_NOTICE_PAUSE_S))
                        while self._clock.now() < until and not core.rejoin_needed:
                            yield Wait(None, until)
        except KafkaError as error:
            core.log.warning("leaving without having informed the leader: %s", error)
        finally:
            self.steps.announce_leaving(False)

    def _leave(self, reason: str, send: bool | None) -> None:
        with self._lock:
            self.core.leave(reason, self._clock.now(), send=send)
