"""The core of the consumer protocol: its states, its heartbeats, and the effect of each response in each state."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import pytest

from pyconsumer.consumer.coordinator.consumer_group_membership import ConsumerMembership, new_member_id
from pyconsumer.consumer.coordinator.consumer_group_state import (
    IN_GROUP,
    SENDING_HEARTBEATS,
    TRANSITIONS,
    ConsumerMemberState,
    LocalAssignment,
    Reconcile,
    Release,
    check_transition,
)
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.error_actions import CONSUMER_GROUP_HEARTBEAT, ErrorAction
from pyconsumer.consumer.coordinator.group_state import (
    NO_GENERATION,
    FindCoordinator,
    Raise,
    SendHeartbeat,
    SendLeave,
    Sleep,
    Stop,
)
from pyconsumer.errors import (
    BY_CODE,
    Errors,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    ProtocolError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from pyconsumer.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.consumer.coordinator.script import NODE, OTHER, settings

S = ConsumerMemberState
TOPIC = b"t" * 16
OTHER_TOPIC = b"u" * 16


class Member:
    """A core and its coordinator's responses, with a clock."""

    def __init__(self, **changes: object) -> None:
        self.core = ConsumerMembership(settings(**changes), member_id="me")
        self.now = 0.0

    def subscribe(self, *topics: str, regex: str | None = None) -> Member:
        self.core.on_subscription(topics or ("t",), regex)
        return self

    def step(self) -> object:
        return self.core.next_action(self.now)

    def find(self) -> Member:
        assert isinstance(self.step(), FindCoordinator)
        self.core.on_coordinator_found(USER, NODE, self.now)
        assert self.step() is None
        return self

    def beat(self) -> SendHeartbeat:
        step = self.core.next_background(self.now)
        assert isinstance(step, SendHeartbeat), step
        return step

    def request(self) -> ConsumerGroupHeartbeatRequest:
        request = self.beat().request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return request

    def answer(self, step: SendHeartbeat, epoch: int = 1, *partitions: int, assign: bool = True, code: int = 0) -> None:
        assignment = None
        if assign and not code:
            topics = [TopicPartitions(topic_id=TOPIC, partitions=list(partitions))] if partitions else []
            assignment = Assignment(topic_partitions=topics)
        message = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id="me",
            member_epoch=epoch,
            heartbeat_interval_ms=3000,
            assignment=assignment,
        )
        self.core.on_heartbeat_completed(step, message, self.now)

    def heartbeat(self, epoch: int = 1, *partitions: int, **options: object) -> SendHeartbeat:
        step = self.beat()
        self.answer(step, epoch, *partitions, **options)  # type: ignore[arg-type]
        return step

    def reconcile(self) -> Reconcile:
        step = self.step()
        assert isinstance(step, Reconcile), step
        return step

    def follow(self) -> None:
        step = self.reconcile()
        assert self.core.on_reconciled(step, step.target)

    def release(self) -> None:
        step = self.step()
        assert isinstance(step, Release), step
        self.core.on_released(step, self.now)


def joining(**changes: object) -> Member:
    return Member(**changes).subscribe().find()


def reconciling(**changes: object) -> Member:
    member = joining(**changes)
    member.heartbeat(1, 0, 1)
    return member


def acknowledging(**changes: object) -> Member:
    member = reconciling(**changes)
    member.follow()
    return member


def stable(**changes: object) -> Member:
    member = acknowledging(**changes)
    member.heartbeat(1, assign=False)
    return member


def preparing(**changes: object) -> Member:
    member = stable(**changes)
    member.core.prepare_leaving()
    return member


IN = {
    S.JOINING: joining,
    S.RECONCILING: reconciling,
    S.ACKNOWLEDGING: acknowledging,
    S.STABLE: stable,
    S.PREPARE_LEAVING: preparing,
}


# -- the table ---------------------------------------------------------------------------------------------------------


def test_a_move_is_in_the_table_or_impossible() -> None:
    for before, after in itertools.product(S, S):
        if before is after or after in TRANSITIONS[before]:
            check_transition(before, after)
        else:
            with pytest.raises(IllegalStateError, match=f"{before.value} cannot be {after.value}"):
                check_transition(before, after)
    assert set(TRANSITIONS) == set(S)
    assert IN_GROUP | {S.PREPARE_LEAVING} == SENDING_HEARTBEATS


@pytest.mark.parametrize("state", IN)
def test_heartbeats_are_sent_in_these_states(state: S) -> None:
    member = IN[state]()
    assert member.core.state is state
    assert member.core.state is state
    assert member.core.sends_heartbeats


# -- joining -----------------------------------------------------------------------------------------------------------


def test_a_member_makes_its_own_id() -> None:
    ids = {new_member_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", text) for text in ids)
    assert ConsumerMembership(settings()).member_id != ConsumerMembership(settings()).member_id


def test_a_member_without_a_subscription_sends_no_heartbeat() -> None:
    member = Member()
    assert member.core.state is S.UNSUBSCRIBED
    assert member.step() is None
    assert member.core.due_at(0.0) == math.inf
    assert isinstance(member.core.next_background(0.0), Sleep)


def test_the_first_heartbeat_is_full_and_has_epoch_0() -> None:
    member = joining(group_instance_id="i", rack="r1", remote_assignor="range", rebalance_timeout=60.0)
    request = member.request()
    assert request == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="me",
        member_epoch=0,
        instance_id="i",
        rack_id="r1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        server_assignor="range",
        topic_partitions=[],
    )


def test_unchanged_fields_are_left_out_of_later_heartbeats() -> None:
    member = stable(rack="r1", remote_assignor="range")
    member.now += 3.0
    assert member.request() == ConsumerGroupHeartbeatRequest(group_id="g", member_id="me", member_epoch=1)


def test_the_heartbeat_interval_comes_from_the_coordinator() -> None:
    member = stable()
    member.now = 2.9
    assert member.core.next_background(2.9) == Sleep(3.0)
    member.now = 3.0
    member.beat()


def test_a_response_sets_the_member_epoch_and_the_assignment() -> None:
    member = joining()
    assert not member.core.may_commit
    member.heartbeat(7, 0, 1)
    core = member.core
    assert core.state is S.RECONCILING
    assert core.generation[:2] == (7, "me")
    assert core.may_commit
    step = member.reconcile()
    assert step.target == LocalAssignment(0, {TOPIC: frozenset({0, 1})})
    assert core.due_at(0.0) == 0.0


def test_acknowledging_does_not_wait_for_the_interval() -> None:
    member = acknowledging()
    assert member.core.state is S.ACKNOWLEDGING
    request = member.request()
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]
    assert request.subscribed_topic_names is None
    assert member.core.state is S.STABLE


def test_an_acknowledgement_waits_for_the_heartbeat_under_way() -> None:
    member = reconciling()
    member.now = 3.0
    pending = member.beat()
    member.follow()
    assert isinstance(member.core.next_background(3.0), Sleep), "one at a time"
    member.answer(pending, 1, assign=False)
    assert member.request().topic_partitions is not None


def test_an_empty_assignment_is_followed_too() -> None:
    member = joining()
    member.heartbeat(1)
    assert member.reconcile().target == LocalAssignment(0, {})
    member.follow()
    assert member.request().topic_partitions == []
    assert member.core.state is S.STABLE


def test_another_assignment_while_one_is_followed_comes_next() -> None:
    member = reconciling()
    step = member.reconcile()
    member.now = 3.0
    member.heartbeat(2, 0)
    assert member.core.still_follows(step), "what has begun is finished"
    assert member.core.on_reconciled(step, step.target)
    report = member.beat()
    assert report.request.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]  # type: ignore[union-attr]
    assert member.core.state is S.RECONCILING
    assert member.step() is None, "the answer has the newest target"
    member.answer(report, 2, assign=False)
    assert member.reconcile().target == LocalAssignment(1, {TOPIC: frozenset({0})})


def test_an_assignment_that_is_taken_back_does_not_end_a_step_that_has_begun() -> None:
    """The listener may have revoked partitions already, which would have no owner then."""
    member = stable()
    member.now = 3.0
    member.heartbeat(2, 0)
    step = member.reconcile()
    member.now = 6.0
    member.heartbeat(3, 0, 1)
    assert member.core.still_follows(step)
    assert member.core.on_reconciled(step, step.target)
    member.heartbeat(3, assign=False)
    assert member.reconcile().target.partitions == {TOPIC: frozenset({0, 1})}


def test_a_withdrawn_assignment_revokes_no_partition_and_is_acknowledged() -> None:
    member = stable()
    member.now = 3.0
    member.heartbeat(2, 0)
    assert member.core.state is S.RECONCILING
    current = member.core.current
    member.now = 6.0
    member.heartbeat(3, 0, 1)
    assert member.core.state is S.RECONCILING, "its number is new: it is acknowledged again, as in Java"
    assert member.reconcile().current == current


def test_the_same_assignment_again_has_no_effect() -> None:
    member = stable()
    member.now = 3.0
    member.heartbeat(2, 0, 1)
    assert member.core.state is S.STABLE
    assert member.core.generation.generation_id == 2


def test_a_part_that_can_be_followed_is_acknowledged_and_the_rest_waits_for_metadata() -> None:
    member = reconciling()
    step = member.reconcile()
    assert member.core.on_reconciled(step, LocalAssignment(0, {}))
    report = member.beat()
    assert report.request.topic_partitions == []  # type: ignore[union-attr]
    assert member.core.state is S.RECONCILING
    assert member.step() is None, "what is not reported may have another owner by now: the answer says"
    assert member.core.due_at(member.now) == math.inf
    member.answer(report, 1, assign=False)
    again = member.reconcile()
    member.core.on_unresolved(again)
    assert member.step() is None
    assert member.core.due_at(0.0) == math.inf
    member.core.on_metadata()
    assert member.reconcile().target == step.target


def test_a_callback_that_raises_is_retried_after_a_backoff_before_the_acknowledgement() -> None:
    member = reconciling()
    for pause in (0.1, 0.2, 0.4):
        step = member.reconcile()
        member.core.on_reconcile_failed(step, member.now)
        assert member.step() is None
        assert member.core.due_at(member.now) == pytest.approx(member.now + pause)
        member.now += pause
        assert isinstance(member.core.next_background(member.now), Sleep)
    assert member.core.current.partitions == {}
    member.now = 3.0
    assert member.request().topic_partitions is None


def test_a_changed_subscription_is_sent_at_once() -> None:
    member = stable()
    member.subscribe("t", "u")
    assert member.request().subscribed_topic_names == ["t", "u"]


def test_a_regular_expression_needs_version_1() -> None:
    member = Member().subscribe(regex="t.*")
    member.core.on_subscription((), "t.*")
    member.find()
    step = member.beat()
    assert step.min_version == 1
    assert isinstance(step.request, ConsumerGroupHeartbeatRequest)
    assert (step.request.subscribed_topic_names, step.request.subscribed_topic_regex) == ([], "t.*")
    member.answer(step)
    member.follow()
    assert member.beat().min_version == 0


# -- answers that count, and that don't --------------------------------------------------------------------------------


def test_a_response_to_an_earlier_incarnation_is_ignored() -> None:
    member = stable()
    member.now = 3.0
    old = member.beat()
    member.core.leave("bye", member.now)
    assert isinstance(member.core.next_background(member.now), SendLeave)
    member.subscribe("t")
    assert member.step() is None
    new = member.beat()
    member.answer(old, 9, 5)
    assert member.core.generation == NO_GENERATION
    assert member.core.state is S.JOINING
    member.answer(new, 10, 1)
    assert member.core.generation.generation_id == 10


def test_after_a_lost_response_the_next_heartbeat_is_full() -> None:
    member = stable(rack="r")
    member.now = 3.0
    step = member.beat()
    member.core.on_heartbeat_failed(NODE.node_id, KafkaConnectionError("gone"), member.now, step.term)
    assert member.core.coordinator is None
    assert isinstance(member.core.next_background(member.now), FindCoordinator)
    member.core.on_coordinator_found("background", OTHER, member.now)
    member.now += 0.1
    request = member.request()
    assert request.member_epoch == 1
    assert request.rebalance_timeout_ms == 300_000
    assert request.subscribed_topic_names == ["t"]
    assert request.rack_id == "r"
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]
    assert member.core.state is S.STABLE


def test_a_request_that_arrives_late_hides_no_assignment() -> None:
    """Its response was dropped, and was the only one with a new assignment: heartbeats stay full for a while."""
    member = stable()
    member.now = 3.0
    step = member.beat()
    member.core.on_heartbeat_failed(NODE.node_id, KafkaConnectionError("gone"), member.now, step.term)
    member.core.on_coordinator_found("background", OTHER, member.now)
    timeout = member.core.settings.request_timeout
    full = []
    for later in (0.1, timeout - 1.0, timeout + 3.0):
        member.now = 3.0 + later
        step = member.beat()
        full.append(step.request.topic_partitions is not None)  # type: ignore[attr-defined]
        member.answer(step, 1, assign=False)
    assert full == [True, True, False]


@pytest.mark.parametrize(("target", "said"), [((0, 1, 2), [0, 1, 2]), ((1, 2), [0, 1, 2]), ((0,), [0, 1])])
def test_partitions_in_use_are_reported_as_owned_during_a_reconciliation(
    target: tuple[int, ...], said: list[int]
) -> None:
    member = stable()
    member.now = 3.0
    member.heartbeat(2, *target)
    member.reconcile()  # the listener has begun
    member.now = 6.0
    step = member.beat()
    member.core.on_heartbeat_failed(NODE.node_id, KafkaConnectionError("gone"), member.now, step.term)
    member.core.on_coordinator_found("background", OTHER, member.now)
    member.now += 0.1
    assert member.request().topic_partitions == [TopicPartitions(topic_id=TOPIC, partitions=said)]


def test_a_garbage_assignment_stops_the_member() -> None:
    member = joining()
    member.heartbeat(1, -1)
    assert member.core.state is S.FATAL
    member.release()
    step = member.step()
    assert isinstance(step, Raise)
    assert isinstance(step.error, ProtocolError)


# -- every error in every state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", IN)
@pytest.mark.parametrize("code", sorted(CONSUMER_GROUP_HEARTBEAT), ids=lambda code: BY_CODE[code].code_name)
def test_each_error_in_each_state(state: S, code: int) -> None:
    member = IN[state](group_instance_id="i", remote_assignor="a")
    member.now = 5.0
    joined = member.core.generation.joined
    if state is S.ACKNOWLEDGING:
        member.beat()  # it leaves with the heartbeat
        state = S.STABLE
        member.core._awaited = None
        member.core.heartbeat_timers.received(member.now)
        member.now = 10.0
    member.heartbeat(code=code)
    core = member.core
    reaction = CONSUMER_GROUP_HEARTBEAT[code]
    if code == Errors.GROUP_ID_NOT_FOUND and not joined:
        reaction = ErrorAction.STOP
    if reaction is ErrorAction.STOP:
        assert core.state is S.FATAL
        assert core.has_urgent_news
        assert core.generation == NO_GENERATION
        if state is not S.PREPARE_LEAVING:
            member.release()
        for _ in range(2):  # every poll
            step = member.step()
            assert isinstance(step, Raise)
            assert type(step.error) is BY_CODE[code]
        assert isinstance(core.next_background(member.now), Sleep)
    elif reaction is ErrorAction.LOSE:
        assert core.generation == NO_GENERATION
        assert not core.may_commit
        if state is S.PREPARE_LEAVING:
            assert core.state is S.UNSUBSCRIBED
            assert not core.leave("bye", member.now)
            return
        assert core.state is S.FENCED
        assert core.has_urgent_news
        assert isinstance(core.next_background(member.now), Sleep)
        member.release()
        assert core.state is S.JOINING
        request = member.request()
        assert (request.member_id, request.member_epoch, request.topic_partitions) == ("me", 0, [])
    elif reaction is ErrorAction.REDISCOVER:
        assert core.state is state
        assert core.coordinator is None
    elif reaction is ErrorAction.RAISE:
        assert core.state is state
        step = member.step()
        assert isinstance(step, Raise)
        assert isinstance(step.error, TopicAuthorizationFailedError)
        assert member.core.next_background(member.now) == Sleep(member.now + 0.1)
    else:
        assert core.state is state
        assert member.core.next_background(member.now) == Sleep(member.now + 0.1)
        member.now += 0.1
        assert member.request().rebalance_timeout_ms == 300_000, "a full one after any error"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (Errors.UNRELEASED_INSTANCE_ID, "'i': close that one first"),
        (Errors.FENCED_INSTANCE_ID, "has taken over our group_instance_id 'i'"),
        (Errors.GROUP_MAX_SIZE_REACHED, "group.consumer.max.size"),
        (Errors.UNSUPPORTED_ASSIGNOR, "group_remote_assignor names, 'a'"),
        (Errors.INVALID_REGULAR_EXPRESSION, r"SubscriptionPattern 't\(', which must be in RE2's syntax"),
        (Errors.GROUP_ID_NOT_FOUND, "group.consumer.migration.policy"),
        (Errors.INCONSISTENT_GROUP_PROTOCOL, "group_protocol='classic'"),
        (Errors.UNSUPPORTED_VERSION, "group_protocol='classic'"),
    ],
)
def test_an_error_of_a_heartbeat_has_a_readable_message(code: int, words: str) -> None:
    member = Member(group_instance_id="i", remote_assignor="a").subscribe()
    member.core.on_subscription((), "t(")
    member.find()
    message = ConsumerGroupHeartbeatResponse(error_code=code, error_message="what the broker says")
    member.core.on_heartbeat_completed(member.beat(), message, 0.0)
    member.release()
    step = member.step()
    assert isinstance(step, Raise)
    assert re.search(words, str(step.error))
    assert "what the broker says" in str(step.error)


def test_an_unknown_error_stops_the_member_unless_it_is_retriable() -> None:
    member = stable()
    member.now = 3.0
    member.heartbeat(code=Errors.INVALID_CONFIG)
    assert member.core.state is S.FATAL
    member = stable()
    member.now = 3.0
    member.heartbeat(code=Errors.NETWORK_EXCEPTION)
    assert member.core.state is S.STABLE


@pytest.mark.parametrize(("regex", "words"), [(None, "set group_protocol='classic'"), ("t.*", "SubscriptionPattern")])
def test_a_broker_without_the_protocol_gets_advice_on_the_setting(regex: str | None, words: str) -> None:
    member = Member().subscribe()
    member.core.on_subscription(("t",) if regex is None else (), regex)
    member.find()
    step = member.beat()
    member.core.on_heartbeat_failed(NODE.node_id, UnsupportedVersionError("too old"), 0.0, step.term)
    member.release()
    raised = member.step()
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, UnsupportedVersionError)
    assert words in str(raised.error)


def test_a_failed_authentication_is_raised_and_retried() -> None:
    member = stable()
    member.now = 3.0
    step = member.beat()
    member.core.on_heartbeat_failed(NODE.node_id, GroupAuthorizationFailedError("no"), 3.0, step.term)
    assert isinstance(member.step(), Raise)
    assert member.core.state is S.STABLE


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "send", "epoch"),
    [
        (None, None, -1),
        (None, True, -1),
        (None, False, None),
        ("i", None, -2),
        ("i", False, -2),
        ("i", True, -1),
    ],
)
def test_how_a_member_leaves(instance: str | None, send: bool | None, epoch: int | None) -> None:
    member = stable(group_instance_id=instance)
    core = member.core
    core.prepare_leaving()
    assert core.state is S.PREPARE_LEAVING
    assert core.leave("bye", 1.0, send=send) is (epoch is not None)
    assert core.state is S.UNSUBSCRIBED
    assert core.generation == NO_GENERATION
    if epoch is None:
        assert isinstance(core.next_background(1.0), Sleep)
        return
    step = core.next_background(1.0)
    assert isinstance(step, SendLeave)
    assert step.request == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="me", member_epoch=epoch, instance_id=instance
    )
    assert core.leaving
    core.on_leave_done()
    assert not core.leaving
    core.close()
    assert isinstance(core.next_background(1.0), Stop)


def test_a_member_without_a_sent_heartbeat_does_not_leave() -> None:
    member = joining()
    assert not member.core.leave("bye", 0.0)
    assert member.core.state is S.UNSUBSCRIBED


def test_a_member_with_an_unanswered_heartbeat_leaves() -> None:
    member = joining()
    step = member.beat()
    member.core.on_heartbeat_failed(NODE.node_id, KafkaConnectionError("gone"), 0.0, step.term)
    member.core.on_coordinator_found(USER, NODE, 0.0)
    assert member.core.leave("bye", 0.0)


@pytest.mark.parametrize("state", IN)
def test_leaving_from_each_state(state: S) -> None:
    member = IN[state]()
    if state is S.JOINING:
        member.beat()
    assert member.core.leave("bye", 0.0)
    assert member.core.state is S.UNSUBSCRIBED


def test_a_fenced_member_sends_no_leave_heartbeat() -> None:
    member = stable()
    member.now = 3.0
    member.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    assert not member.core.leave("bye", 3.0)
    assert member.core.state is S.UNSUBSCRIBED


def test_heartbeats_continue_while_a_listener_revokes_partitions() -> None:
    member = preparing(rebalance_timeout=10.0)
    member.now = 3.0
    member.heartbeat(4, 2, 3)
    assert member.core.state is S.PREPARE_LEAVING, "no new assignment is taken"
    assert member.core.generation.generation_id == 4
    member.now = 30.0
    member.beat()
    assert member.core.state is S.PREPARE_LEAVING


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_an_application_that_does_not_poll_leaves_and_joins_again_at_its_next_poll(
    instance: str | None, epoch: int
) -> None:
    member = stable(rebalance_timeout=10.0, group_instance_id=instance)
    core = member.core
    member.now = 10.0
    step = core.next_background(10.0)
    assert isinstance(step, SendLeave)
    assert isinstance(step.request, ConsumerGroupHeartbeatRequest)
    assert step.request.member_epoch == epoch
    assert core.state is S.STALE
    core.on_leave_done()
    assert isinstance(core.next_background(100.0), Sleep), "nothing until it polls"
    assert core.has_urgent_news
    core.on_poll(100.0)
    member.now = 100.0
    member.release()
    assert core.state is S.JOINING
    assert member.request().member_epoch == 0


def test_a_stale_member_that_unsubscribes_stays_away() -> None:
    member = stable(rebalance_timeout=10.0)
    member.core.next_background(10.0)
    assert not member.core.leave("bye", 11.0)
    member.core.unsubscribe()
    assert member.core.next_action(12.0) is None
    member.core.on_subscription(["t"])
    assert member.core.next_action(12.0) is None
    assert member.core.state is S.JOINING


def test_the_end_of_a_life_ends_a_step(caplog: pytest.LogCaptureFixture) -> None:
    member = reconciling()
    step = member.reconcile()
    member.now = 3.0
    member.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    assert not member.core.still_follows(step)
    member.release()
    member.heartbeat(9, 0)
    assert member.core.state is S.RECONCILING
    assert not member.core.still_follows(step), "it belongs to the life before"
    assert not member.core.on_reconciled(step, step.target)
    assert member.reconcile().target.partitions == {TOPIC: frozenset({0})}


def test_a_rebalance_cannot_be_enforced(caplog: pytest.LogCaptureFixture) -> None:
    member = stable()
    before = member.core.revision
    member.core.request_rejoin("I want it")
    assert member.core.state is S.STABLE
    assert member.core.revision == before
    assert "has no effect" in caplog.text


def _refused(core: ConsumerMembership) -> None:
    core.on_commit_refused(ErrorAction.RESET_MEMBER, core.generation, KafkaError("unknown"))


def _refused_before(core: ConsumerMembership) -> None:
    core.on_commit_refused(ErrorAction.RESET_MEMBER, NO_GENERATION, KafkaError("unknown"))


@pytest.mark.parametrize(("refuse", "at_once"), [(_refused, True), (_refused_before, False)])
def test_a_rejected_commit_makes_the_next_heartbeat_leave_at_once(
    refuse: Callable[[ConsumerMembership], None], at_once: bool
) -> None:
    member = stable()
    member.now = 1.0
    refuse(member.core)
    assert isinstance(member.core.next_background(1.0), SendHeartbeat) is at_once
    assert member.core.state is S.STABLE
