"""A member of the consumer protocol (KIP-848): its heartbeats, epochs and target. A core, as :mod:`.membership`.

It behaves as Java's ``ConsumerMembershipManager`` and ``ConsumerHeartbeatRequestManager``, apart from the differences
below. States are a table in :mod:`.consumer_group_state`, error codes in :mod:`.error_actions`.

Invariants

1. The member chooses its id and keeps it as long as this object lives, whatever it loses and however often it joins
   again (KIP-1082).
2. An *incarnation* begins with each heartbeat of epoch 0. A response counts only if it is the one to the heartbeat in
   flight, so one from an earlier incarnation changes nothing. (In Java it can: its epoch is taken for the new one's.)
3. A heartbeat is full after a join, an error or a lost response: the coordinator may not have received the ones before.
   Otherwise it holds only changed fields. After a lost response, heartbeats stay full for ``request_timeout_ms``: the
   lost request may still reach the coordinator, and the response to it, the only one with the assignment, is not read.
   (In Java only the next one is full, and that assignment stays without an owner.)
4. ``current`` is the assignment that the application knows, ``target`` the one that the coordinator wants. ``current``
   changes when a reconciliation is over, and only then is it acknowledged. If a callback raises, the target is not
   acknowledged, and the step is tried again after a pause: the coordinator fences a member whose callback keeps failing
   when its rebalance timeout is over.
5. A reconciliation that has begun ends with the assignment that it began with, even if there is a newer one by then.
   That one comes next. Only the end of an incarnation interrupts it. (Java also interrupts it when the coordinator
   takes the change back. Partitions that the listener has already given up would have no owner then.)
6. A heartbeat that reports less than the target releases the rest: the coordinator may assign it to another member. So
   the next step waits for the response, which has the newest target. (In Java it does not, and for the time of one
   heartbeat two members can own a partition.)
7. During a reconciliation the application may have partitions of ``current`` and of the new assignment. A heartbeat
   that reports our partitions reports both: the coordinator would assign a missing one to another member at once.
8. The heartbeat thread can change the member epoch at any moment. A request that contains it reads it under the lock,
   when it is encoded.
9. ``GROUP_ID_NOT_FOUND`` ends an incarnation as UNKNOWN_MEMBER_ID does. (In Java it is fatal: a member that comes back
   late to a group that was empty and was deleted has to be replaced by a new one.) It is fatal to a member that joins.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from pyconsumer.consumer.coordinator.consumer_group_state import (
    IN_GROUP,
    NOTHING,
    SENDING_HEARTBEATS,
    ConsumerMemberState,
    LocalAssignment,
    Reconcile,
    Release,
    check_transition,
)
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.error_actions import CONSUMER_GROUP_HEARTBEAT, ErrorAction, action_for
from pyconsumer.consumer.coordinator.group_state import NO_GENERATION, FindCoordinator, Generation, Raise, SendHeartbeat
from pyconsumer.consumer.coordinator.membership import GroupMember, Leaving, MemberSettings
from pyconsumer.errors import BrokerResponseError, Errors, KafkaError, ProtocolError, UnsupportedVersionError, for_code
from pyconsumer.protocol.messages.consumer_group_heartbeat import (
    FIRST_VERSION_WITH_REGEX,
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pyconsumer.protocol.messages.share_group_heartbeat import Assignment as ShareAssignment
from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

__all__ = ["ConsumerMembership", "HeartbeatFields", "new_member_id"]

HeartbeatRequest = ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
HeartbeatResponse = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse

_S = ConsumerMemberState

#: Seconds between heartbeats until the coordinator has named its ``group.consumer.heartbeat.interval.ms``.
_FIRST_HEARTBEAT_INTERVAL: Final = 5.0

_ASSIGNABLE: Final = frozenset((_S.JOINING, _S.STABLE, _S.ACKNOWLEDGING, _S.RECONCILING))
_UNSUPPORTED: Final = (
    "the broker does not have the consumer group protocol (KIP-848): set group_protocol='classic', or use brokers of"
    " Apache Kafka 4.0 or newer (there the feature group.version must be 1 or more)"
)
_REGEX_UNSUPPORTED: Final = (
    "the broker does not evaluate a SubscriptionPattern: its ConsumerGroupHeartbeat is older than version 1 (Apache"
    " Kafka 4.0). Subscribe to topics, or to a pattern of Python (a str or re.Pattern), which the client evaluates"
)
#: What to do about an error code, where its own text does not say it.
_REMEDIES: Final[Mapping[int, str]] = {
    Errors.UNRELEASED_INSTANCE_ID: "another member that has not left the group uses our group_instance_id {instance!r}:"
    " close that one first, wait until its session has ended, or give each member a name of its own",
    Errors.FENCED_INSTANCE_ID: "another member has taken over our group_instance_id {instance!r}, after this one was"
    " removed from the group: close this consumer, or give it a name of its own",
    Errors.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.consumer.max.size on the broker allows:"
    " close one of them, or raise that setting",
    Errors.UNSUPPORTED_ASSIGNOR: "the broker does not have the assignor that group_remote_assignor names,"
    " {assignor!r}: use one of group.consumer.assignors ('uniform', 'range'), or leave the setting out",
    Errors.INVALID_REGULAR_EXPRESSION: "the broker does not accept the SubscriptionPattern {regex!r}, which must be in"
    " RE2's syntax",
    Errors.GROUP_ID_NOT_FOUND: "the group has members of the classic protocol, and group.consumer.migration.policy on"
    " the broker does not allow to upgrade it: set group_protocol='classic', or close those members first",
    Errors.INCONSISTENT_GROUP_PROTOCOL: "the group has members of the classic protocol that cannot be combined with"
    " ours: set group_protocol='classic', or close those members first",
    Errors.UNSUPPORTED_VERSION: _UNSUPPORTED,
}


def new_member_id() -> str:
    """Return a random member id, in the form of Kafka's ``Uuid``: 22 letters, digits, hyphens and underscores."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # which a command-line tool would take for an option
            return text


def _both(first: LocalAssignment, second: LocalAssignment) -> LocalAssignment:
    """Return the partitions of both, as an assignment that is not one of the coordinator's."""
    topics = first.partitions.keys() | second.partitions.keys()
    nothing = frozenset[int]()
    partitions = {one: first.partitions.get(one, nothing) | second.partitions.get(one, nothing) for one in topics}
    return LocalAssignment(-2, partitions)


class HeartbeatFields(NamedTuple):
    """The facts that heartbeats carry. None: not sent yet, or there is none."""

    rebalance_timeout: float | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    rack: str | None = None
    assignment: LocalAssignment | None = None

    def changed_since(self, acknowledged: HeartbeatFields) -> dict[str, Any]:
        """Return the fields of a request that differ from those the coordinator has ``acknowledged``."""
        fields: dict[str, Any] = {}
        if self.rebalance_timeout is not None and self.rebalance_timeout != acknowledged.rebalance_timeout:
            fields["rebalance_timeout_ms"] = round(self.rebalance_timeout * 1000)
        if self.topics is not None and self.topics != acknowledged.topics:
            fields["subscribed_topic_names"] = sorted(self.topics)
        if self.regex != acknowledged.regex:
            fields["subscribed_topic_regex"] = self.regex or ""  # which takes the one before back
        if self.assignor != acknowledged.assignor:
            fields["server_assignor"] = self.assignor
        if self.rack != acknowledged.rack:
            fields["rack_id"] = self.rack
        if self.assignment is not None and self.assignment != acknowledged.assignment:
            fields["topic_partitions"] = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in sorted(self.assignment.partitions.items())
            ]
        return fields


class ConsumerMembership(GroupMember):
    """A member of a group under the consumer protocol. Its only request is ConsumerGroupHeartbeat.

    Args:
        settings: the member's settings.
        member_id: the member's id. By default a new id is made.
        now: the present time, in seconds.

    Attributes:
        state: see :class:`.ConsumerMemberState`.
        member_id: see the invariants of the module.
        incarnation: how often the member has joined.
        current, target: see the invariants of the module.
    """

    _api: ClassVar = "ConsumerGroupHeartbeat"
    _error_actions: ClassVar[Mapping[int, ErrorAction]] = CONSUMER_GROUP_HEARTBEAT
    _remedies: ClassVar[Mapping[int, str]] = _REMEDIES

    def __init__(self, settings: MemberSettings, *, member_id: str | None = None, now: float = 0.0) -> None:
        # How long its session lasts, the coordinator alone knows; the interval it will name.
        settings = replace(settings, session_timeout=math.inf, heartbeat_interval=_FIRST_HEARTBEAT_INTERVAL)
        super().__init__(settings, now=now)
        self.state: ConsumerMemberState = _S.UNSUBSCRIBED
        self.member_id = member_id or new_member_id()
        self.incarnation = 0
        self.current = self.target = NOTHING
        self._active = False
        self._topics: frozenset[str] = frozenset()
        self._regex: str | None = None
        self._acknowledged = HeartbeatFields()  # by the coordinator, in this incarnation
        self._full_until = -math.inf
        self._awaited: HeartbeatRequest | None = None
        self._urgent = False  # the next heartbeat must not wait for its interval
        self._announced = False  # a heartbeat of this incarnation has left
        self._background = False  # heartbeats have a thread
        self._reported = False  # see the invariants
        self._lost = False  # the assignment, and the application has not been notified
        self._reconciling = False  # the application's thread is at it
        self._following: LocalAssignment | None = None  # what it may have adopted, and has not confirmed
        self._failures = 0  # of callbacks, in a row
        self._reconcile_at = -math.inf
        self._fatal: KafkaError | None = None

    # -- what the application does -----------------------------------------------------------------------------------

    @property
    def is_stable(self) -> bool:
        """Return whether the member has confirmed the coordinator's last assignment."""
        return self.state is _S.STABLE

    def on_subscription(self, topics: Iterable[str], regex: str | None = None) -> None:
        """Set the topics for the next heartbeat, or a regular expression that the broker evaluates."""
        wanted = frozenset(topics)
        if self._active and (wanted, regex) == (self._topics, self._regex):
            return
        self._topics, self._regex = wanted, regex
        self._active = True
        self._hurry()

    def unsubscribe(self) -> None:
        """Drop the subscription. The member does not join until :meth:`on_subscription` is called again."""
        self._active = False
        self._lost = False
        self._topics, self._regex = frozenset(), None
        self._errors.clear()
        self.revision += 1

    def request_rejoin(self, reason: str, *, short: str | None = None) -> None:
        """Log the request, without another effect. The coordinator decides when the group rebalances (as in Java)."""
        self.log.warning(
            "enforce_rebalance() has no effect under group_protocol='consumer', where the broker decides when the"
            " group is rebalanced (reason given: %s)",
            reason,
        )

    @property
    def has_urgent_news(self) -> bool:
        """Return whether the application must hear of an error or a loss before it gets records."""
        return self._lost or self._fatal is not None or bool(self._errors)

    @property
    def rebalancing(self) -> bool:
        """Return whether the member is joining the group."""
        return self._active and self.state is _S.JOINING

    @property
    def rejoin_pending(self) -> bool:
        """Return whether the application's partitions differ from the coordinator's target."""
        return self._active and self.state is not _S.STABLE and self._fatal is None

    @property
    def commit_scope(self) -> int:
        """Return the incarnation.

        Within one incarnation the coordinator knows which partitions this member has released.
        """
        return self.incarnation

    @property
    def epoch_is_volatile(self) -> bool:
        """Return True: the epoch can change while the member keeps its partitions (see the module's invariants)."""
        return True

    @property
    def may_commit(self) -> bool:
        """Return whether the member has an epoch, which a commit needs."""
        return self.generation.joined

    def due_at(self, now: float) -> float:
        """Return when :meth:`next_action` will have something to do (seconds). Infinity: it waits for a response."""
        if self.has_urgent_news:
            return now
        if not self._active:
            return math.inf
        if self.state in (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE):
            return now
        if self.state is _S.JOINING and self.coordinator is None:
            return self.discovery.due_at(USER)
        if self.state is _S.JOINING and not self._background:
            return now
        if self.state is _S.RECONCILING and not self._reported:
            return max(now, self._reconcile_at)
        return math.inf

    def next_action(self, now: float) -> FindCoordinator | Reconcile | Release | Raise | None:
        """Return the next action of the user's thread, or None until :meth:`due_at`."""
        if self._errors:
            return Raise(self._errors.popleft())
        if self._lost:
            return Release(self.incarnation)
        if self._fatal is not None:
            return Raise(self._fatal)
        if not self._active:
            return None
        if self.state in (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE):
            self._join(now)
        if self.state is _S.JOINING and self.coordinator is None:
            return FindCoordinator() if self.discovery.start(USER, now) else None
        if self.state is _S.RECONCILING and not self._reported and now >= self._reconcile_at:
            self._reconciling = True
            self._following = self.target
            return Reconcile(self.incarnation, self.target, self.current)
        return None

    @property
    def needs_background(self) -> bool:
        """Return whether the heartbeat thread is needed: heartbeats must be sent, and the coordinator is known."""
        return self.sends_heartbeats and self.coordinator is not None

    def on_background_started(self) -> None:
        """Record that the heartbeat thread runs. If the thread fails, its starter starts another one."""
        self._background = True

    # -- following an assignment -------------------------------------------------------------------------------------

    def still_follows(self, action: Reconcile) -> bool:
        """Return whether a reconciliation must still be done. It must not if its incarnation has ended."""
        return action.incarnation == self.incarnation and self.state is _S.RECONCILING

    def on_reconciled(self, action: Reconcile, partitions: LocalAssignment) -> bool:
        """Record that the application has received its partitions.

        The next heartbeat is due at once and acknowledges them.

        Args:
            partitions: the member's partitions now. They are fewer than the target while the names of some topics are
                unknown.

        Returns:
            False if the membership was lost in the meantime.
        """
        self._reconciling = False
        if not self.still_follows(action):
            return False
        self.current = partitions
        self._following = None
        self._failures = 0
        self._reconcile_at = -math.inf
        self._move(_S.ACKNOWLEDGING)
        self._hurry()
        return True

    def on_reconcile_failed(self, action: Reconcile, now: float) -> None:
        """Leave the target unacknowledged, because a callback raised or Ctrl-C came.

        The step is retried after a pause.
        """
        self._reconciling = False
        if self.still_follows(action):
            self._reconcile_at = now + self.settings.backoff.delay(self._failures)
            self._failures += 1
            self.revision += 1

    def on_unresolved(self, action: Reconcile) -> None:
        """Wait for newer metadata (:meth:`on_metadata`), because the names of some topics are unknown."""
        self._reconciling = False
        self._following = None
        if self.still_follows(action):
            self._reconcile_at = math.inf

    def on_metadata(self) -> None:
        """Take note of newer metadata."""
        if self._reconcile_at == math.inf:
            self._reconcile_at = -math.inf

    def on_released(self, action: Release, now: float) -> None:
        """Record that the application knows that its partitions are lost, so the member may join again."""
        if action.incarnation != self.incarnation:
            return
        self._lost = False
        self.revision += 1
        if self._active and self.state in (_S.FENCED, _S.STALE):
            self._join(now)

    def recover(self) -> None:
        """Repair the state after Ctrl-C. An interrupted step begins again."""
        self._reconciling = False

    # -- leaving -----------------------------------------------------------------------------------------------------

    def prepare_leaving(self) -> None:
        """Record that the application is revoking its partitions in order to leave. Heartbeats continue."""
        if self.state in IN_GROUP:
            self._move(_S.PREPARE_LEAVING)

    def leave(self, reason: str, now: float, *, send: bool | None = None) -> bool:
        """Leave the group and forget the epoch at once. Return True if a heartbeat must be sent.

        Args:
            send: None lets a dynamic member leave permanently, and a static member until its session ends. True lets
                any member leave permanently. With False a dynamic member sends no request, and is removed when its
                session ends. A static member does the same as with None (KIP-1092).
        """
        self.prepare_leaving()
        if self.state is _S.FENCED:
            self._forget()
            self._move(_S.UNSUBSCRIBED)
            return False
        if self.state is not _S.PREPARE_LEAVING:
            return False
        silent = send is False and self.settings.group_instance_id is None
        sends = self._queue_leave(reason, permanently=bool(send), silent=silent)
        self._move(_S.LEAVING)
        self._forget()
        self._move(_S.UNSUBSCRIBED)
        return sends

    def _queue_leave(self, reason: str, *, permanently: bool, silent: bool) -> bool:
        if silent or self.coordinator is None or not self._announced:
            return False
        static = self.settings.group_instance_id is not None and not permanently
        self.log.info("leaving as %s: %s", self.member_id, reason)
        epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH if static else LEAVE_GROUP_MEMBER_EPOCH
        self._leaving = Leaving(self._request(epoch, {}))
        return True

    def _leave_as_stalled(self, now: float) -> None:
        if self.state is _S.PREPARE_LEAVING:  # it is about to leave anyway: a listener takes its time
            self.heartbeat_timers.poll(now)
            return
        self._move(_S.PREPARE_LEAVING)
        self._queue_leave("consumer poll timeout has expired", permanently=False, silent=False)
        self._move(_S.LEAVING)
        self._forget()
        self._move(_S.STALE)
        self._lost = True

    # -- the coordinator ---------------------------------------------------------------------------------------------

    def on_coordinator_found(self, who: str, node: BrokerMetadata, now: float) -> None:
        """Record that FindCoordinator has named the coordinator. A heartbeat is due at once."""
        super().on_coordinator_found(who, node, now)
        self._hurry()

    def _abandon(self, why: str, now: float) -> None:
        self._on_lost_response(now)

    # -- heartbeats --------------------------------------------------------------------------------------------------

    @property
    def sends_heartbeats(self) -> bool:
        """Return whether heartbeats are sent."""
        return self.state in SENDING_HEARTBEATS

    def _make_heartbeat(self, node: BrokerMetadata, now: float) -> SendHeartbeat:
        self._urgent = False
        self._announced = True
        joining = not self.generation.joined
        acknowledged = HeartbeatFields() if joining or now < self._full_until else self._acknowledged
        owned = self.current
        if self._following is not None and acknowledged.assignment != self.current:
            owned = _both(self.current, self._following)
        facts = self._facts(owned)
        fields = facts.changed_since(acknowledged)
        request = self._request(JOIN_GROUP_MEMBER_EPOCH if joining else self.generation.generation_id, fields)
        self._acknowledged = facts
        if self.state is _S.ACKNOWLEDGING:
            self._move(_S.STABLE if self.current == self.target else _S.RECONCILING)
        self._reported = "topic_partitions" in fields and self.current.partitions != self.target.partitions
        self._awaited = request
        needed = FIRST_VERSION_WITH_REGEX if "subscribed_topic_regex" in fields else 0
        return SendHeartbeat(node, request, self.generation, self.discovery.term, needed)

    def _facts(self, owned: LocalAssignment) -> HeartbeatFields:
        """Return everything that the coordinator must know, with the partitions that the member owns."""
        settings = self.settings
        return HeartbeatFields(
            settings.rebalance_timeout, self._topics, self._regex, settings.remote_assignor, settings.rack, owned
        )

    def _request(self, epoch: int, fields: Mapping[str, Any]) -> HeartbeatRequest:
        """Return a heartbeat with some fields of :class:`HeartbeatFields`."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.settings.group_instance_id,
            **fields,
        )

    def on_heartbeat_completed(self, action: SendHeartbeat, message: Message, now: float) -> None:
        """Handle the response to a heartbeat. If the response is no longer expected, it is ignored."""
        assert isinstance(message, (ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatResponse))
        if self._awaited is None or action.request is not self._awaited:
            self.log.debug("ignored the response to a heartbeat from before the last join")
            return
        self._awaited = None
        self.metrics.heartbeat_completed(now - self.heartbeat_timers.last_sent, now)
        if message.error_code:
            self._on_error(action, message, now)
            return
        self.discovery.responded()
        if message.heartbeat_interval_ms > 0:
            self.heartbeat_timers.set_interval(message.heartbeat_interval_ms / 1000)
        self.heartbeat_timers.received(now)
        if self._urgent:
            self.heartbeat_timers.hasten()
        if self.state not in SENDING_HEARTBEATS:
            return
        self.member_id = message.member_id or self.member_id
        if message.member_epoch > 0 and message.member_epoch != self.generation.generation_id:
            self.log.debug("the member epoch is %d", message.member_epoch)
            self.generation = Generation(message.member_epoch, self.member_id)
            self.revision += 1
        if message.assignment is not None and self.state in _ASSIGNABLE:
            self._on_assignment(message.assignment, now)
        if self._reported:
            self._reported = False
            self.revision += 1

    def _on_assignment(self, assignment: Assignment | ShareAssignment, now: float) -> None:
        wanted: dict[bytes, frozenset[int]] = {}
        for topic in assignment.topic_partitions:
            if any(number < 0 for number in topic.partitions):
                self._stop(
                    ProtocolError(f"an assignment of group {self.settings.group_id} has a negative partition"), now
                )
                return
            topic_id = bytes(topic.topic_id)
            wanted[topic_id] = wanted.get(topic_id, frozenset()) | frozenset(topic.partitions)
        if self.target is NOTHING or wanted != self.target.partitions:
            self.target = LocalAssignment(self.target.number + 1, wanted)
            self._reconcile_at = -math.inf
            self.revision += 1
        if self.target != self.current:
            self._move(_S.RECONCILING)
        elif self.state in (_S.RECONCILING, _S.JOINING) and not self._reconciling and not self._failures:
            self._move(_S.STABLE)

    def _on_error(self, action: SendHeartbeat, message: HeartbeatResponse, now: float) -> None:
        code = message.error_code
        error_action = action_for(self._error_actions, code)
        if code not in self._error_actions and error_action is ErrorAction.RAISE:
            error_action = ErrorAction.STOP
        if code == Errors.GROUP_ID_NOT_FOUND and not action.generation.joined:
            error_action = ErrorAction.STOP
        error = self._explained(code, message.error_message)
        self._expect_nothing()
        self.heartbeat_timers.failed(now)
        if error_action is ErrorAction.REDISCOVER:
            self.on_coordinator_lost(action.node.node_id, error.code_name, now)
            return
        self.discovery.responded()
        if error_action is ErrorAction.LOSE:
            self.heartbeat_timers.received(now)  # the next one may leave at once
            self._lose(f"{self._api} of {action.generation}: {error.code_name}")
        elif error_action is ErrorAction.STOP:
            self._stop(error, now)
        elif error_action is ErrorAction.RAISE:
            self._report(error)
        else:
            self.log.info("%s: %s", self._api, error.code_name)

    def _explained(self, code: int, said: str | None) -> BrokerResponseError:
        group = self.settings
        text = f"{self._api} of group {group.group_id}" + (f": {said}" if said else "")
        advice = self._remedies.get(code)
        if advice is not None:
            text += "; " + advice.format(
                instance=group.group_instance_id, assignor=group.remote_assignor, regex=self._regex
            )
        return for_code(code, text)

    def on_heartbeat_failed(self, node_id: int, error: KafkaError, now: float, term: int) -> None:
        """Record that a heartbeat got no response. The coordinator may or may not have received it."""
        if term != self.discovery.term:
            return
        self._on_lost_response(now)
        if isinstance(error, UnsupportedVersionError) and self.sends_heartbeats:
            self.heartbeat_timers.failed(now)
            advice = self._remedies[Errors.UNSUPPORTED_VERSION]
            refused = UnsupportedVersionError(advice if self._regex is None else f"{_REGEX_UNSUPPORTED}; {error}")
            refused.__cause__ = error
            self._stop(refused, now)
            return
        super().on_heartbeat_failed(node_id, error, now, term)

    # -- losing it ---------------------------------------------------------------------------------------------------

    def on_commit_refused(self, error_action: ErrorAction, sent: Generation, error: KafkaError) -> None:
        """Handle a rejected commit. The next heartbeat is due at once, to find out if the membership is lost."""
        if sent == self.generation:
            self._hurry()

    def _join(self, now: float) -> None:
        self.incarnation += 1
        self._move(_S.JOINING)
        self._expect_nothing()
        self._announced = False
        self.heartbeat_timers.reset_timeouts(now)
        self._hurry()

    def _lose(self, reason: str) -> None:
        """Lose the membership: the coordinator does not know us (any more)."""
        self.log.info("member %s is not in the group: %s", self.member_id, reason)
        if self.state is _S.PREPARE_LEAVING:
            self._forget()
            self._move(_S.UNSUBSCRIBED)
        elif self.state in IN_GROUP:
            self._forget()
            self._move(_S.FENCED)
            self._lost = True

    def _stop(self, error: KafkaError, now: float) -> None:
        """Stop: the coordinator refuses us permanently."""
        self.log.error("the group refuses this member: %s", error)
        self.metrics.rebalance_failed(now)
        lost = self.state in IN_GROUP
        self._fatal = error
        self._forget()
        self._move(_S.FATAL)
        self._lost = self._lost or lost

    def _hurry(self) -> None:
        """Send the next heartbeat once no other one is in flight and no pause after a failure lasts."""
        self._urgent = True
        self.heartbeat_timers.hasten()
        self.revision += 1

    def _forget(self) -> None:
        self.generation = NO_GENERATION
        self.current = self.target = NOTHING
        self._following = None
        self._reported = False
        self._reconcile_at = -math.inf
        self._failures = 0
        self._expect_nothing()
        self.revision += 1

    def _on_lost_response(self, now: float) -> None:
        if self._awaited is not None:
            self._full_until = now + self.settings.request_timeout
        self._expect_nothing()

    def _expect_nothing(self) -> None:
        """Await no response, and make the next heartbeat a full one."""
        self._awaited = None
        self._acknowledged = HeartbeatFields()
        self.heartbeat_timers.forget_sent()

    def _move(self, after: ConsumerMemberState) -> None:
        check_transition(self.state, after)
        if self.state is not after:
            self.log.debug("%s -> %s", self.state.value, after.value)
            self.state = after
            self.revision += 1
