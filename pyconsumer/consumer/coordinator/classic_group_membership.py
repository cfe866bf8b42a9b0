"""A member of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. A core.

:mod:`.membership` holds the parts that do not depend on the protocol.

Invariants

1. One JoinGroup or SyncGroup is in flight at a time. It has an attempt number. A reset or a failure begins a new
   attempt, and a response to an older one is ignored. So a join that ends after its member has left has no effect.
2. A rebalance is prepared once, however often its JoinGroup is repeated. A lost generation is prepared for again.
3. A generation counts for commits only after ``on_completed``: until then the application may hold partitions of the
   previous one. While its listener revokes them (``on_revoking``) it commits for the new one, as in Java.
4. A member compares its subscription with the one it joined with and, as leader, the metadata with those that it
   assigned by. A difference leads to another rebalance, and so does a time that the assignor named. Changes during a
   rebalance are considered when it is over: no join that was sent before can have included them.
5. The loss of a generation is reported to the application before anything else, whether the coordinator is known or
   not: otherwise it would get records of partitions that have another owner. (Java looks for the coordinator first.) A
   loss while the application revokes partitions is reported after that.
6. A static member that kept its partitions while joining also treats them as lost if the group completed a generation
   without it. It was a member of that generation (KIP-345), but with an old subscription: the leader did not know its
   partitions, and assigned them to others. (Java continues, and its next commit may undo a commit of the new owner.)
7. Heartbeats have a connection of their own, so our JoinGroup may overtake the one before it: the group is in the next
   generation when that arrives, and it gets ILLEGAL_GENERATION. While JoinGroup is in flight that is no loss: its
   response says whether we are still a member. (Java sends both on one connection.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyconsumer.consumer.coordinator.classic_group_state import (
    BuildJoin,
    ClassicMemberState,
    CompleteJoin,
    ComputeAssignment,
    Event,
    PrepareJoin,
    SendJoin,
    SendSync,
    UserAction,
    next_state,
)
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.error_actions import HEARTBEAT, JOIN, SYNC, ErrorAction, action_for
from pyconsumer.consumer.coordinator.group_state import NO_GENERATION, FindCoordinator, Generation, Raise, SendHeartbeat
from pyconsumer.consumer.coordinator.membership import LONGEST_REASON, GroupMember, MemberSettings
from pyconsumer.errors import FencedInstanceIdError, InconsistentGroupProtocolError, KafkaError
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

__all__ = ["PROTOCOL_TYPE", "ClassicMembership", "RebalanceReport"]

PROTOCOL_TYPE: Final = "consumer"
_JOIN_SLACK: Final = 5.0  # seconds that JoinGroup may take beyond the rebalance timeout
_RETRIES_AT_ONCE: Final = 5  # immediate repetitions in a row before a pause
_IN_REBALANCE: Final = (ClassicMemberState.PREPARING_REBALANCE, ClassicMemberState.COMPLETING_REBALANCE)


@dataclass(slots=True)
class RebalanceReport:
    """Facts about a finished rebalance, for its line in the log. Only the leader knows who joined or left."""

    started_at: float
    reason: str
    is_leader: bool = False
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    members: int = 0

    def lead(self, names: frozenset[str], before: frozenset[str] | None) -> None:
        """Add the facts that only the leader knows: the members of the present generation and of the previous one.

        ``before`` is None if the previous members are unknown.
        """
        self.is_leader = True
        self.members = len(names)
        if before is not None:
            self.joined = tuple(sorted(names - before))
            self.left = tuple(sorted(before - names))


@dataclass(slots=True)
class _Attempt:
    """The JoinGroup or SyncGroup that is in flight."""

    number: int = 0
    in_flight: bool = False
    keeps: bool = False  # the application keeps partitions while it joins
    sent_at: float = 0.0
    election: ComputeAssignment | None = None
    completed: CompleteJoin | None = None
    revoking: bool = False
    failures: int = 0
    at_once: int = 0
    retry_at: float = -math.inf

    def join(self, now: float, *, keeps: bool) -> None:
        """Record that JoinGroup is sent. It is a new attempt."""
        self.number += 1
        self.keeps = keeps
        self.send(now)

    def send(self, now: float) -> None:
        """Record that a request is sent."""
        self.in_flight = True
        self.sent_at = now

    def received(self) -> None:
        """Record that the response has arrived."""
        self.in_flight = False

    def elect(self, election: ComputeAssignment | None) -> None:
        """Record that the application has to assign the partitions, or with None that it has done so."""
        self.election = election

    def revoke(self) -> None:
        """Record that the listener is notified of the partitions that it revokes."""
        self.revoking = True

    def end(self) -> None:
        """Record that the application knows its new partitions."""
        self.completed = None
        self.revoking = False

    def pause(self, until: float) -> None:
        """Set when the next attempt may begin."""
        self.retry_at = until

    def count(self, failures: int, at_once: int) -> None:
        """Set the number of failures in a row, and of immediate repetitions."""
        self.failures, self.at_once = failures, at_once


class ClassicMembership(GroupMember):
    """Membership by JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

    Attributes:
        state: see :class:`.ClassicMemberState`.
        rejoin_needed: True if a JoinGroup must be sent.
        is_leader: True if the last JoinGroup made this member the leader.
        report: report of the current rebalance, or None.
    """

    def __init__(self, settings: MemberSettings, *, now: float = 0.0) -> None:
        super().__init__(settings, now=now)
        self.state: ClassicMemberState = ClassicMemberState.UNJOINED
        self.rejoin_needed = True
        self.is_leader = False
        self.report: RebalanceReport | None = None
        self._active = False
        self._needs_prepare = True
        self._lost = False  # the assignment, and the application has not been notified
        self._reason = ""
        self._attempt = _Attempt()
        self._rejected = 0  # assignments in a row that could not be used
        self._members: frozenset[str] | None = None
        self._topics: frozenset[str] = frozenset()
        self._joined_topics: frozenset[str] | None = None
        self._rejoin_at = math.inf
        self._assigned_by: Mapping[str, object] | None = None
        self._snapshot: Mapping[str, object] = {}

    # -- what the application does -----------------------------------------------------------------------------------

    def on_subscription(self, topics: Iterable[str]) -> None:
        """Set the topics that the member wants. If they have changed since the last join, a rebalance is requested."""
        self._topics = frozenset(topics)
        if not self._active:
            self._active = True
            self.rejoin_needed = True
            self.revision += 1
        self._look_for_changes()

    def on_topics_assigned(self, topics: Iterable[str]) -> None:
        """Add topics that the leader has assigned to this member, although it did not know yet that they match its
        pattern.

        They then count as if the member had joined with them.
        """
        self._topics = self._joined_topics = frozenset(topics)

    def on_metadata(self, snapshot: Mapping[str, object]) -> None:
        """Set the facts about the group's topics, such as partition counts.

        If they change, the leader requests a rebalance.
        """
        self._snapshot = snapshot
        self._look_for_changes()

    def _look_for_changes(self) -> None:
        joined, before, now = self._joined_topics, self._assigned_by, self._snapshot
        if joined is not None and joined != self._topics:
            self.request_rejoin(
                f"the subscription has changed from {_names(joined)} to {_names(self._topics)}",
                short="the subscription has changed",
            )
        elif before is not None and before != now:
            changed = sorted(t for t in before.keys() | now.keys() if before.get(t) != now.get(t))
            self.request_rejoin(
                f"metadata of {', '.join(changed)} has changed since the assignment", short="metadata has changed"
            )

    def request_rejoin(self, reason: str, *, short: str | None = None) -> None:
        """Request another rebalance. The first reason is kept.

        Args:
            reason: text for this member's log.
            short: text for the coordinator (KIP-800). By default the same as ``reason``.
        """
        if self.rejoin_needed and self._reason:
            return
        self.log.info("asking for a rebalance: %s", reason)
        self.rejoin_needed = True
        self._reason = reason if short is None else short
        self.revision += 1

    def schedule_rejoin(self, when: float) -> None:
        """Request another rebalance at the time ``when`` (seconds). An earlier request stays.

        Infinity requests none.
        """
        self._rejoin_at = when

    def leave(self, reason: str, now: float, *, send: bool | None = None) -> bool:
        """Leave the group and forget the member id at once. Return True if a LeaveGroup request was queued.

        Args:
            send: True sends LeaveGroup, False does not (KIP-1092). None lets a dynamic member send it, but not a static
                member (KIP-345).
        """
        member_id = self.generation.member_id
        instance_id = self.settings.group_instance_id
        if send is None:
            send = instance_id is None
        send = send and bool(member_id) and self.coordinator is not None
        if send:
            self.log.info("leaving as %s: %s", member_id, reason)
            identity = MemberIdentity(
                member_id=member_id, group_instance_id=instance_id, reason=reason[:LONGEST_REASON]
            )
            self._leaving.ask(
                LeaveGroupRequest(group_id=self.settings.group_id, member_id=member_id, members=[identity])
            )
        if self.generation != NO_GENERATION or self.state is not ClassicMemberState.UNJOINED:
            self._reset(reason, keep_member_id=False)
        return send

    def unsubscribe(self) -> None:
        """Drop the subscription. The member does not join until :meth:`on_subscription` is called again."""
        self._active = False
        self.rejoin_needed = True
        self.is_leader = False
        self.report = None
        self._reason = ""
        self._needs_prepare = True
        self._lost = False
        self._topics = frozenset()
        self._joined_topics = self._assigned_by = self._members = None
        self._rejoin_at = math.inf
        self._errors.clear()
        self.revision += 1

    @property
    def leads_others(self) -> bool:
        """Return whether this member is the leader of a group with other members."""
        return self.is_leader and self._members is not None and len(self._members) > 1

    @property
    def has_urgent_news(self) -> bool:
        """Return whether the application must hear of an error or a loss before it gets records."""
        return self._lost or bool(self._errors) or self.state is ClassicMemberState.FENCED

    @property
    def rebalancing(self) -> bool:
        """Return whether JoinGroup was sent and the application has not received its new partitions yet."""
        return (
            self.state in _IN_REBALANCE
            or self._attempt.completed is not None
            or (self.state is ClassicMemberState.UNJOINED and self.generation.joined)
        )

    @property
    def rejoin_pending(self) -> bool:
        """Return whether the membership is unsettled: a step is due, or a request is in flight."""
        return self._active and (self.rejoin_needed or self.rebalancing)

    @property
    def commit_scope(self) -> Generation:
        """Return the generation for which commits are made."""
        return self.generation

    @property
    def epoch_is_volatile(self) -> bool:
        """Return False. A commit must name the generation for which it was made.

        Another generation may assign other partitions.
        """
        return False

    @property
    def may_commit(self) -> bool:
        """Return whether offsets can be committed for the current generation."""
        attempt = self._attempt
        return self.state is ClassicMemberState.STABLE and (attempt.completed is None or attempt.revoking)

    def due_at(self, now: float) -> float:
        """Return when :meth:`next_action` will have something to do (seconds). Infinity: it waits for a response."""
        attempt = self._attempt
        if self._errors or self.state is ClassicMemberState.FENCED:
            return now
        if not self.rejoin_pending:
            return self._rejoin_at
        if self._lost:
            return now
        if self.coordinator is None:
            return self.discovery.due_at(USER)
        if attempt.completed is not None or attempt.election is not None:
            return now
        return math.inf if attempt.in_flight else max(now, attempt.retry_at)

    def next_action(self, now: float) -> UserAction | None:
        """Return the next action of the user's thread, or None until :meth:`due_at`."""
        attempt = self._attempt
        if self._errors:
            return Raise(self._errors.popleft())
        if self.state is ClassicMemberState.FENCED:
            return Raise(self._fenced_error())
        if not self.rejoin_pending:
            if now < self._rejoin_at:
                return None
            self.request_rejoin("the scheduled rebalance is due")
        if attempt.completed is not None:
            return attempt.completed
        if self._lost:
            return self._prepare(now)
        if self.coordinator is None:
            return FindCoordinator() if self.discovery.start(USER, now) else None
        if attempt.election is not None:
            return attempt.election
        if attempt.in_flight or now < attempt.retry_at:
            return None
        return self._prepare(now) if self._needs_prepare else BuildJoin(self.generation)

    def _prepare(self, now: float) -> PrepareJoin:
        self._open_report(now)
        return PrepareJoin(lost=not self.generation.joined, generation=self.generation)

    # -- joining -----------------------------------------------------------------------------------------------------

    def on_prepared(self, generation: Generation) -> None:
        """Record that the application has revoked its partitions, so the join may begin.

        Args:
            generation: the member's generation when the revocation began. If it has been lost since, the listener must
                still be notified.
        """
        self.is_leader = False
        self._assigned_by = None
        if not (self._lost and generation.joined):
            self._needs_prepare = self._lost = False

    def begin_join(
        self,
        protocols: Sequence[JoinGroupRequestProtocol],
        topics: Iterable[str],
        now: float,
        *,
        keeps: bool = False,
    ) -> SendJoin | None:
        """Return the JoinGroup to send, or None if the coordinator was lost in the meantime.

        Args:
            protocols: assignors and subscriptions, the preferred one first.
            topics: the topics that these subscriptions contain.
            keeps: True if the application keeps partitions during the join.
        """
        node, attempt = self.coordinator, self._attempt
        if (
            node is None
            or attempt.in_flight
            or self.state not in (ClassicMemberState.UNJOINED, ClassicMemberState.STABLE)
        ):
            return None
        self._move(Event.JOIN_SENT)
        self._open_report(now)
        self._joined_topics = frozenset(topics)
        self._rejoin_at = math.inf
        attempt.join(now, keeps=keeps)
        request = JoinGroupRequest(
            group_id=self.settings.group_id,
            session_timeout_ms=round(self.settings.session_timeout * 1000),
            rebalance_timeout_ms=round(self.settings.rebalance_timeout * 1000),
            member_id=self.generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=list(protocols),
            reason=self._reason[:LONGEST_REASON],
        )
        return SendJoin(attempt.number, node, request, self._timeout)

    def on_join_response(self, number: int, response: JoinGroupResponse, now: float) -> SendSync | None:
        """Handle the response to JoinGroup. A follower gets the SyncGroup to send at once."""
        if not self._is_current(number, ClassicMemberState.PREPARING_REBALANCE):
            self.log.debug("ignored the response to an abandoned JoinGroup")
            return None
        if response.error_code != 0:
            self._on_code("JoinGroup", JOIN, response.error_code, now, member_id=response.member_id)
            return None
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            self._wrong_protocol("JoinGroup", response.protocol_type, response.protocol_name, now)
            return None
        self.discovery.responded()
        self._attempt.received()
        self.metrics.joins.add(now - self._attempt.sent_at, now)
        if self._missed(response.generation_id):
            self._reset(
                f"{self.generation} was followed by another without us before generation {response.generation_id}",
                keep_member_id=True,
            )
            return None
        self._move(Event.JOIN_SUCCEEDED)
        self.heartbeat_timers.reset_timeouts(now)
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self.is_leader = response.leader == response.member_id
        self.log.debug("joined as %s", self.generation)
        if not self.is_leader:
            self._members = None
            return self._begin_sync((), now)
        self._note_members(frozenset(member.group_instance_id or member.member_id for member in response.members))
        self._attempt.elect(
            ComputeAssignment(number, self.generation, tuple(response.members), response.skip_assignment)
        )
        return None

    def _missed(self, generation_id: int) -> bool:
        """Return whether partitions that we keep may have been given away in a generation before this one."""
        if self.settings.group_instance_id is None or not self._attempt.keeps or not self.generation.joined:
            return False
        return generation_id > self.generation.generation_id + 1

    def on_assigned(
        self, number: int, shares: Mapping[str, bytes], snapshot: Mapping[str, object], now: float
    ) -> SendSync | None:
        """As leader, return the SyncGroup that distributes the assignment. Return None if it comes too late.

        Args:
            shares: the encoded assignments by member id. Empty: keep the present assignment (KIP-814).
            snapshot: the metadata that the assignor used (see :meth:`on_metadata`).
        """
        if not self._is_current(number, ClassicMemberState.COMPLETING_REBALANCE) or self._attempt.election is None:
            return None
        self._attempt.elect(None)
        self._assigned_by = self._snapshot = snapshot
        return self._begin_sync(
            [SyncGroupRequestAssignment(member_id=member, assignment=share) for member, share in shares.items()], now
        )

    def on_assign_failed(self, number: int, now: float) -> None:
        """As leader, start the rebalance again after a pause, because the assignor raised an error."""
        if self._is_current(number, ClassicMemberState.COMPLETING_REBALANCE) and self._attempt.election is not None:
            self._step_failed(ErrorAction.BACK_OFF, None, now, "the assignor failed")

    def on_sync_response(self, number: int, response: SyncGroupResponse, now: float) -> None:
        """Handle the response to SyncGroup."""
        if not self._is_current(number, ClassicMemberState.COMPLETING_REBALANCE):
            self.log.debug("ignored the response to an abandoned SyncGroup")
            return
        if response.error_code != 0:
            self._on_code("SyncGroup", SYNC, response.error_code, now)
            return
        if response.protocol_type not in (None, PROTOCOL_TYPE) or (
            response.protocol_name not in (None, self.generation.protocol_name)
        ):
            self._wrong_protocol("SyncGroup", response.protocol_type, response.protocol_name, now)
            return
        self.discovery.responded()
        self.metrics.syncs.add(now - self._attempt.sent_at, now)
        completed = CompleteJoin(self.generation, bytes(response.assignment))
        self._attempt = _Attempt(number=number, completed=completed)
        self._move(Event.SYNC_SUCCEEDED)  # last: after Ctrl-C, a member that is stable knows its assignment
        self.rejoin_needed = False
        self._reason = ""
        self.revision += 1

    def on_step_failed(self, number: int, error: KafkaError, now: float) -> None:
        """Record that JoinGroup or SyncGroup has failed without a response.

        The request was not sent, it timed out, or its connection broke.
        """
        if self.state in _IN_REBALANCE and number == self._attempt.number and self._attempt.in_flight:
            self._step_failed(ErrorAction.REDISCOVER if error.retriable else ErrorAction.RAISE, error, now)

    def on_revoking(self) -> None:
        """Record that the listener is about to revoke partitions and may commit them (cooperative protocol)."""
        self._attempt.revoke()

    def recover(self, under_way: int | None, now: float) -> None:
        """Repair the state after Ctrl-C.

        If no request of the current attempt is in flight, the attempt counts as failed.

        Args:
            under_way: the attempt whose request is in flight, or None.
        """
        attempt = self._attempt
        if self.state in _IN_REBALANCE and attempt.election is None and attempt.number != under_way:
            self._step_failed(ErrorAction.RETRY_NOW, None, now, "interrupted")

    def on_completed(self) -> RebalanceReport | None:
        """Record that the application has received its new partitions.

        Return the report of the rebalance, for the log.
        """
        self._attempt.end()
        self._needs_prepare = True
        report, self.report = self.report, None
        self._rejected = 0
        self._look_for_changes()
        return report

    def on_rejected(self, reason: str, now: float) -> None:
        """Join again because the assignment is unusable. The second time in a row and later, pause first (KIP-580)."""
        rejected = self._rejected + 1
        self.on_completed()
        self._rejected = rejected
        self.request_rejoin(reason)
        if rejected > 1:
            self._attempt.pause(now + self.settings.backoff.delay(rejected - 2))

    def on_commit_refused(self, error_action: ErrorAction, sent: Generation, error: KafkaError) -> None:
        """Handle a rejected commit. ``sent`` is the generation in the request.

        If it is an old one, the response is ignored.
        """
        if sent != self.generation:
            return
        if error_action is ErrorAction.REJOIN:
            self.request_rejoin("offset commit failed since group is already rebalancing")
        elif error_action in (ErrorAction.RESET_GENERATION, ErrorAction.RESET_MEMBER):
            self._reset(f"offset commit failed: {error}", keep_member_id=error_action is ErrorAction.RESET_GENERATION)
        elif error_action is ErrorAction.FENCED:
            self._fence(error)

    # -- the heartbeat thread ----------------------------------------------------------------------------------------

    @property
    def is_stable(self) -> bool:
        """Return whether no rebalance is due or in progress."""
        return self.state is ClassicMemberState.STABLE

    @property
    def sends_heartbeats(self) -> bool:
        """Return whether heartbeats are sent.

        That is so from the response to JoinGroup until the next JoinGroup or a loss.
        """
        return self.state in (ClassicMemberState.COMPLETING_REBALANCE, ClassicMemberState.STABLE)

    def _make_heartbeat(self, node: BrokerMetadata, now: float) -> SendHeartbeat:
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation.generation_id,
            member_id=self.generation.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        return SendHeartbeat(node, request, self.generation, self.discovery.term)

    def _leave_as_stalled(self, now: float) -> None:
        self.leave("consumer poll timeout has expired", now)

    def on_heartbeat_completed(self, action: SendHeartbeat, message: Message, now: float) -> None:
        """Handle a completed heartbeat. See :meth:`on_heartbeat_response`."""
        assert isinstance(message, HeartbeatResponse)
        self.on_heartbeat_response(action.generation, action.node.node_id, message, now)

    def on_heartbeat_response(self, sent: Generation, node_id: int, response: HeartbeatResponse, now: float) -> None:
        """Handle the response to Heartbeat. ``sent`` is the generation in the request."""
        self.metrics.heartbeat_completed(now - self.heartbeat_timers.last_sent, now)
        code = response.error_code
        error_action = None if code == 0 else action_for(HEARTBEAT, code)
        current = sent == self.generation
        if error_action is None or error_action is ErrorAction.REJOIN:
            self.discovery.responded()
            self.heartbeat_timers.received(now)
            self.log.debug("response to the heartbeat%s", f": error {code}" if code else "")
            if error_action is not None and current and self.state is ClassicMemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
            return
        self.heartbeat_timers.failed(now)
        error = self._refused("Heartbeat", HEARTBEAT, code)
        if error_action is ErrorAction.REDISCOVER:
            self.on_coordinator_lost(node_id, error.code_name, now)
        elif error_action in (ErrorAction.RESET_GENERATION, ErrorAction.RESET_MEMBER):
            joining = self.state is ClassicMemberState.PREPARING_REBALANCE
            overtaken = joining and error_action is ErrorAction.RESET_GENERATION  # see invariant 7
            if current and not overtaken:  # otherwise the present generation will get a response of its own
                self._reset(
                    f"Heartbeat of {sent}: {error.code_name}",
                    keep_member_id=error_action is ErrorAction.RESET_GENERATION,
                )
        elif error_action is ErrorAction.FENCED:
            if current:
                self._fence(error)
        elif error_action is ErrorAction.RAISE:
            self._report(error)

    # -- rules shared by the above -----------------------------------------------------------------------------------

    def _move(self, event: Event) -> None:
        self.state = next_state(self.state, event)

    def _reset(self, reason: str, *, keep_member_id: bool) -> None:
        """Lose the generation, and with it everything that was assigned."""
        self.log.info(
            "resetting the generation%s: %s",
            "" if keep_member_id else " and the member id",
            reason,
        )
        self._move(Event.RESET)
        self.generation = Generation(-1, self.generation.member_id) if keep_member_id else NO_GENERATION
        self.revision += 1
        self._generation_lost(reason)

    def _fence(self, error: KafkaError) -> None:
        instance_id = self.settings.group_instance_id
        self.log.error("another process uses our group_instance_id %r", instance_id)
        self._reset(str(error), keep_member_id=False)
        self._move(Event.FENCED)

    def _fenced_error(self) -> FencedInstanceIdError:
        return FencedInstanceIdError(
            f"another process joined group {self.settings.group_id} with our group_instance_id"
            f" {self.settings.group_instance_id!r} and took over; close this consumer, or give it a name of its own"
        )

    @property
    def _timeout(self) -> float:
        return max(self.settings.request_timeout, self.settings.rebalance_timeout + _JOIN_SLACK)

    def _is_current(self, number: int, state: ClassicMemberState) -> bool:
        return number == self._attempt.number and self.state is state

    def _open_report(self, now: float) -> None:
        if self.report is None:
            self.report = RebalanceReport(now, self._reason or "first join")

    def _note_members(self, names: frozenset[str]) -> None:
        before, self._members = self._members, names
        if self.report is not None:
            self.report.lead(names, before)

    def _begin_sync(self, assignments: Sequence[SyncGroupRequestAssignment], now: float) -> SendSync | None:
        node = self.coordinator
        if node is None:
            self._step_failed(ErrorAction.RETRY_NOW, None, now, "the coordinator is unknown")
            return None
        self._attempt.send(now)
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation.generation_id,
            member_id=self.generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.generation.protocol_name,
            assignments=list(assignments),
        )
        return SendSync(self._attempt.number, node, request, self._timeout)

    def _wrong_protocol(self, api: str, type_: str | None, name: str | None, now: float) -> None:
        ours = f"{PROTOCOL_TYPE!r}/{self.generation.protocol_name!r}"
        self.log.error("the response to %s is for protocol %r/%r, ours is %s", api, type_, name, ours)
        error = InconsistentGroupProtocolError(
            f"the response to {api} of group {self.settings.group_id} is for protocol {type_!r}/{name!r},"
            f" ours is {ours}"
        )
        self._step_failed(ErrorAction.RAISE, error, now)

    def _on_code(
        self, api: str, table: Mapping[int, ErrorAction], code: int, now: float, *, member_id: str = ""
    ) -> None:
        error_action = action_for(table, code)
        error = self._refused(api, table, code)
        if error_action is ErrorAction.TAKE_MEMBER_ID:
            self.generation = Generation(-1, member_id)
        if error_action not in (ErrorAction.REDISCOVER, ErrorAction.RAISE):
            self.discovery.responded()
        self._step_failed(error_action, error, now, f"{api}: {error.code_name}")

    def _step_failed(self, error_action: ErrorAction, error: KafkaError | None, now: float, what: str = "") -> None:
        """Decide the next step after JoinGroup or SyncGroup has failed."""
        what = what or f"{type(error).__name__}: {error}"
        if error_action is not ErrorAction.TAKE_MEMBER_ID:
            self.metrics.rebalance_failed(now)
        if error_action is ErrorAction.FENCED and error is not None:
            self._fence(error)
            return
        failures, at_once = self._attempt.failures, self._attempt.at_once + 1
        self._attempt = _Attempt(number=self._attempt.number + 1)
        self._move(Event.STEP_FAILED)
        self.rejoin_needed = True
        self.revision += 1
        if error_action is ErrorAction.TAKE_MEMBER_ID:
            self.log.debug("joining with the member id from the coordinator, %s", self.generation.member_id)
        else:
            self.log.info("the rebalance failed: %s", what)
            self._reason = f"rebalance failed due to {what}"
        if error_action in (ErrorAction.RESET_GENERATION, ErrorAction.RESET_MEMBER):
            self._reset(what, keep_member_id=error_action is ErrorAction.RESET_GENERATION)
        if error_action is ErrorAction.REDISCOVER and self.coordinator is not None:
            self.on_coordinator_lost(self.coordinator.node_id, what, now)
        if error_action is ErrorAction.RAISE and error is not None:
            self._report(error)
        if (
            error_action in (ErrorAction.BACK_OFF, ErrorAction.RAISE, ErrorAction.REDISCOVER)
            or at_once > _RETRIES_AT_ONCE
        ):
            self._attempt.pause(now + self.settings.backoff.delay(failures))
            failures += 1
        self._attempt.count(failures, at_once)

    def _abandon(self, why: str, now: float) -> None:
        if self.state in _IN_REBALANCE and self._attempt.in_flight:
            self._step_failed(ErrorAction.RETRY_NOW, None, now, f"coordinator lost: {why}")

    def _generation_lost(self, reason: str) -> None:
        self._attempt = _Attempt(number=self._attempt.number + 1)
        self._needs_prepare = self._lost = True
        self._members = None
        self._rejoin_at = math.inf
        self.rejoin_needed = True
        self._reason = self._reason or reason


def _names(topics: Iterable[str]) -> str:
    return "[" + ", ".join(sorted(topics)) + "]"
