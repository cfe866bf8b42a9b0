"""Joining: the two phases, their responses and errors, leaders and followers, and the causes of a rejoin."""

from __future__ import annotations

import math

import pytest

from pyconsumer import errors
from pyconsumer.consumer.coordinator.classic_group_membership import ClassicMembership
from pyconsumer.consumer.coordinator.classic_group_state import (
    BuildJoin,
    ClassicMemberState,
    CompleteJoin,
    ComputeAssignment,
    PrepareJoin,
)
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.error_actions import ErrorAction
from pyconsumer.consumer.coordinator.group_state import NO_GENERATION, FindCoordinator, Generation, Raise
from pyconsumer.errors import BY_CODE, Errors, GroupAuthorizationFailedError, KafkaConnectionError, for_code
from tests.unit.consumer.coordinator.script import NODE, OTHER, Member, settings

S = ClassicMemberState


def test_a_first_join_finds_prepares_joins_syncs_completes() -> None:
    assert ClassicMembership(settings()).rejoin_needed, "before anything was subscribed"
    member = Member()
    core = member.core
    assert core.rejoin_needed
    assert isinstance(core.next_action(0.0), FindCoordinator)
    assert core.next_action(0.0) is None, "one search at a time"
    core.on_coordinator_found(USER, NODE, 0.0)
    prepare = core.next_action(0.0)
    assert isinstance(prepare, PrepareJoin)
    assert prepare.lost, "nobody yet, so nothing to revoke"
    core.on_prepared(prepare.generation)
    join = member.build()
    assert core.state is S.PREPARING_REBALANCE
    assert core.next_action(0.0) is None
    sync = member.answer_join(join, generation_id=7)
    assert core.state is S.COMPLETING_REBALANCE
    assert core.generation == Generation(7, "me", "range")
    assert sync is not None
    member.answer_sync(sync, share=b"share")
    assert core.state is S.STABLE
    completed = core.next_action(0.0)
    assert isinstance(completed, CompleteJoin)
    assert completed.assignment == b"share"
    assert not core.may_commit, "the application does not know its partitions yet"
    core.on_revoking()
    assert core.may_commit, "what it is about to give up is its own still"
    core.on_completed()
    assert core.may_commit
    assert core.next_action(0.0) is None
    assert core.due_at(0.0) == math.inf


def test_lost_partitions_are_revoked_before_find_coordinator() -> None:
    """A member that was stopped for longer than its session loses its generation and its coordinator at once."""
    member = Member()
    member.stable()
    core = member.core
    core.on_coordinator_lost(NODE.node_id, "no answer to heartbeats", 0.0)
    core.on_commit_refused(ErrorAction.RESET_MEMBER, core.generation, for_code(25))
    assert core.due_at(0.0) == 0.0
    prepare = core.next_action(0.0)
    assert isinstance(prepare, PrepareJoin)
    assert prepare.lost
    core.on_prepared(prepare.generation)
    assert isinstance(core.next_action(0.0), FindCoordinator)
    core.on_coordinator_found(USER, OTHER, 0.0)
    assert isinstance(core.next_action(0.0), BuildJoin), "prepared already"


def test_the_first_join_group_request() -> None:
    request = Member().send_join().request
    assert (request.group_id, request.member_id, request.protocol_type) == ("g", "", "consumer")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 300_000)
    assert request.group_instance_id is None
    assert [protocol.name for protocol in request.protocols] == ["range"]


def test_a_static_member_names_itself_everywhere() -> None:
    member = Member(group_instance_id="me-1")
    join = member.send_join()
    assert join.request.group_instance_id == "me-1"
    sync = member.answer_join(join)
    assert sync is not None
    assert sync.request.group_instance_id == "me-1"
    member.answer_sync(sync)
    member.advance(3.0)
    assert member.heartbeat().request.group_instance_id == "me-1"


@pytest.mark.parametrize(("rebalance_timeout", "expected"), [(300.0, 305.0), (10.0, 30.0)])
def test_joins_may_take_longer_than_other_requests(rebalance_timeout: float, expected: float) -> None:
    assert Member(rebalance_timeout=rebalance_timeout).send_join().timeout == expected


def test_joins_go_to_the_coordinator() -> None:
    member = Member()
    member.find(OTHER)
    member.prepare()
    assert member.build().node == OTHER


def test_no_join_without_a_coordinator() -> None:
    member = Member()
    member.find()
    member.prepare()
    assert isinstance(member.core.next_action(0.0), BuildJoin)
    member.core.on_coordinator_lost(1, "gone", 0.0)
    assert member.core.begin_join([], (), 0.0) is None
    assert isinstance(member.core.next_action(0.0), FindCoordinator)


def test_a_followers_sync_is_empty_and_leaves_at_once() -> None:
    sync = Member().join(3)
    assert sync is not None
    assert sync.request.assignments == []
    assert (sync.request.generation_id, sync.request.member_id) == (3, "me")
    assert (sync.request.protocol_type, sync.request.protocol_name) == ("consumer", "range")


def test_an_elected_leader_assigns_and_syncs_the_assignment() -> None:
    member = Member()
    election = member.lead(members={"me": "t", "other": "t u"})
    assert [m.member_id for m in election.members] == ["me", "other"]
    assert election.generation.protocol_name == "range"
    sync = member.core.on_assigned(election.attempt, {"me": b"1", "other": b"2"}, {"t": 3}, 0.0)
    assert sync is not None
    assert [(a.member_id, a.assignment) for a in sync.request.assignments] == [("me", b"1"), ("other", b"2")]
    assert member.core.is_leader


def test_a_leader_with_skip_assignment_keeps_its_assignment() -> None:
    """KIP-814: a static leader that came back watches metadata, and sends no assignments."""
    member = Member()
    election = member.lead(skip_assignment=True)
    assert election.skip
    sync = member.core.on_assigned(election.attempt, {}, {"t": 3}, 0.0)
    assert sync is not None
    assert sync.request.assignments == []
    member.answer_sync(sync)
    member.core.on_completed()
    member.core.on_metadata({"t": 4})
    assert member.core.rejoin_needed


def test_an_assignor_that_raises_starts_the_rebalance_again_after_a_pause() -> None:
    member = Member()
    election = member.lead()
    member.core.on_assign_failed(election.attempt, 0.0)
    assert member.core.state is S.UNJOINED
    assert member.core.next_action(0.0) is None
    assert member.core.due_at(0.0) == 0.1
    assert isinstance(member.core.next_action(0.1), BuildJoin)


def test_member_id_required_is_answered_with_that_id_at_once() -> None:
    member = Member()
    first = member.send_join()
    assert member.answer_join(first, 79, member_id="given") is None
    assert isinstance(member.core.next_action(0.0), BuildJoin), "at once, and without preparing again"
    assert member.build().request.member_id == "given"
    assert member.core.generation == Generation(-1, "given")


JOIN_ERRORS = [
    # code, at once, pause, coordinator lost, member id kept, error raised to the application
    (14, False, True, False, True, None),
    (15, False, True, True, True, None),
    (16, False, True, True, True, None),
    (22, True, False, False, True, None),
    (25, True, False, False, False, None),
    (27, True, False, False, True, None),
    (23, False, True, False, True, errors.InconsistentGroupProtocolError),
    (24, False, True, False, True, errors.InvalidGroupIdError),
    (26, False, True, False, True, errors.InvalidSessionTimeoutError),
    (30, False, True, False, True, GroupAuthorizationFailedError),
    (35, False, True, False, True, errors.UnsupportedVersionError),
    (81, False, True, False, True, errors.GroupMaxSizeReachedError),
    (-1, False, True, False, True, errors.UnknownServerError),
    (7, False, True, False, True, None),
    (12345, False, True, False, True, errors.UnknownServerError),
]


@pytest.mark.parametrize(("code", "at_once", "pause", "lost", "keeps_id", "raised_error"), JOIN_ERRORS)
def test_errors_of_a_join(
    code: int, at_once: bool, pause: bool, lost: bool, keeps_id: bool, raised_error: type[Exception] | None
) -> None:
    member = Member()
    member.stable(4)
    member.core.request_rejoin("because")
    step = member.send_join()
    member.answer_join(step, code)
    core = member.core
    assert core.state is S.UNJOINED
    assert core.rejoin_needed
    assert (core.coordinator is None) is lost
    assert core.generation.member_id == ("me" if keeps_id else "")
    if raised_error is not None:
        raised = core.next_action(0.0)
        assert isinstance(raised, Raise)
        assert isinstance(raised.error, raised_error)
    if lost:
        member.find()
    after = core.next_action(0.0)
    assert (after is not None) is at_once
    if pause:
        assert core.due_at(0.0) == 0.1
        after = core.next_action(0.1)
    assert isinstance(after, PrepareJoin if code in (22, 25) else BuildJoin)
    if isinstance(after, PrepareJoin):  # the application loses its partitions, then the join is sent without a pause
        core.on_prepared(after.generation)
        assert isinstance(core.next_action(0.0), BuildJoin)


def test_a_join_under_way_is_not_sent_again_by_further_polls() -> None:
    member = Member()
    step = member.send_join()
    for now in (0.0, 1.0, 100.0):
        member.core.on_poll(now)
        assert member.core.next_action(now) is None
        assert member.core.begin_join([], ["t"], now) is None
    member.answer_join(step, 27)
    assert isinstance(member.core.next_action(100.0), BuildJoin)


SYNC_ERRORS = [
    (15, True, False, True, True, None),
    (16, True, False, True, True, None),
    (22, False, True, False, True, None),
    (25, False, False, False, True, None),
    (27, False, True, True, True, None),
    (14, False, True, True, False, None),
    (23, False, True, True, False, errors.InconsistentGroupProtocolError),
    (30, False, True, True, False, GroupAuthorizationFailedError),
    (-1, False, True, True, False, errors.UnknownServerError),
]


@pytest.mark.parametrize(("code", "lost", "keeps_id", "keeps_generation", "soon", "raised_error"), SYNC_ERRORS)
def test_errors_of_a_sync(
    code: int, lost: bool, keeps_id: bool, keeps_generation: bool, soon: bool, raised_error: type[Exception] | None
) -> None:
    member = Member()
    sync = member.join(5)
    assert sync is not None
    member.answer_sync(sync, code)
    core = member.core
    assert core.state is S.UNJOINED
    assert core.rejoin_needed
    assert (core.coordinator is None) is lost
    assert core.generation.member_id == ("me" if keeps_id or lost else "")
    assert core.generation.joined is keeps_generation
    if raised_error is not None:
        raised = core.next_action(0.0)
        assert isinstance(raised, Raise)
        assert isinstance(raised.error, raised_error)
    if lost:
        member.find()
        member.advance(0.1)
    elif not soon:
        assert core.next_action(0.0) is None
        member.advance(0.1)
    assert isinstance(core.next_action(member.now), PrepareJoin if code in (22, 25) else BuildJoin)


@pytest.mark.parametrize("where", ["join", "sync", "heartbeat"])
def test_a_fenced_member_raises_until_it_leaves(where: str) -> None:
    member = Member(group_instance_id="one")
    if where == "heartbeat":
        member.stable()
        member.advance(3.0)
        member.answer_heartbeat(member.heartbeat(), 82)
    else:
        step = member.send_join()
        if where == "join":
            member.answer_join(step, 82)
        else:
            sync = member.answer_join(step)
            assert sync is not None
            member.answer_sync(sync, 82)
    core = member.core
    assert core.state is S.FENCED
    assert core.generation == NO_GENERATION
    for _ in range(3):
        raised = core.next_action(member.now)
        assert isinstance(raised, Raise)
        assert isinstance(raised.error, errors.FencedInstanceIdError)
        assert "'one'" in str(raised.error)
        assert core.due_at(member.now) == member.now
    assert not core.leave("closing", member.now)
    core.unsubscribe()
    assert core.state is S.UNJOINED
    assert core.next_action(member.now) is None


@pytest.mark.parametrize("answer", ["join", "sync type", "sync name"])
def test_a_response_of_another_protocol_type_raises(answer: str) -> None:
    member = Member()
    step = member.send_join()
    if answer == "join":
        member.answer_join(step, protocol_type="connect")
    else:
        sync = member.answer_join(step, protocol_type="consumer")
        assert sync is not None
        member.answer_sync(sync, **({"protocol_type": "connect"} if answer == "sync type" else {"protocol_name": "x"}))
    raised = member.core.next_action(0.0)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, errors.InconsistentGroupProtocolError)
    assert member.core.state is S.UNJOINED


@pytest.mark.parametrize(("type_", "name"), [(None, None), ("consumer", "range")])
def test_older_brokers_name_no_protocol(type_: str | None, name: str | None) -> None:
    member = Member()
    sync = member.answer_join(member.send_join(), protocol_type=type_)
    assert sync is not None
    member.answer_sync(sync, protocol_type=type_, protocol_name=name)
    assert member.core.state is S.STABLE


@pytest.mark.parametrize("phase", ["join", "sync"])
def test_a_broken_connection_loses_the_coordinator_and_joins_again(phase: str) -> None:
    member = Member()
    step = member.send_join()
    attempt = step.attempt
    if phase == "sync":
        sync = member.answer_join(step)
        assert sync is not None
        attempt = sync.attempt
    member.core.on_step_failed(attempt, KafkaConnectionError("reset"), 0.0)
    assert member.core.coordinator is None
    assert member.core.state is S.UNJOINED
    member.find()
    assert isinstance(member.core.next_action(0.1), BuildJoin)


def test_a_response_after_leaving_is_dropped() -> None:
    member = Member()
    step = member.send_join()
    member.core.leave("closing", 0.0)
    assert member.answer_join(step) is None
    assert member.core.state is S.UNJOINED
    assert member.core.generation == NO_GENERATION
    member.core.on_step_failed(step.attempt, KafkaConnectionError(), 0.0)
    assert member.core.coordinator == NODE


def test_a_response_to_an_older_attempt_is_dropped() -> None:
    member = Member()
    old = member.send_join()
    member.answer_join(old, 27)
    new = member.send_join()
    assert new.attempt != old.attempt
    assert member.answer_join(old) is None
    assert member.core.state is S.PREPARING_REBALANCE
    assert member.answer_join(new) is not None


def test_a_sync_response_counts_only_while_it_is_expected() -> None:
    member = Member()
    sync = member.join(2)
    assert sync is not None
    member.answer_sync(sync)
    member.advance(3.0)
    member.answer_heartbeat(member.heartbeat(), 25)
    assert member.core.state is S.UNJOINED
    member.answer_sync(sync)
    assert member.core.state is S.UNJOINED


def test_an_assignment_of_a_generation_that_was_lost_is_not_taken_over() -> None:
    member = Member()
    sync = member.join(2)
    assert sync is not None
    member.answer_sync(sync, share=b"late")
    assert isinstance(member.core.next_action(0.0), CompleteJoin)
    member.advance(3.0)
    member.answer_heartbeat(member.heartbeat(), 25)
    step = member.core.next_action(3.0)
    assert isinstance(step, PrepareJoin)
    assert step.lost


def test_a_rebalance_is_prepared_once() -> None:
    member = Member()
    member.stable()
    member.core.request_rejoin("because")
    step = member.prepare()
    assert not step.lost
    for _ in range(3):
        member.answer_join(member.build(), 27)
        assert isinstance(member.core.next_action(0.0), BuildJoin)


def test_endless_repetition_at_once_ends_in_pauses() -> None:
    member = Member()
    member.send_join()
    core = member.core
    sent = 1
    for _ in range(20):
        core.on_join_response(core._attempt.number, _refusal(27), 0.0)
        if core.next_action(0.0) is None:
            break
        member.build()
        sent += 1
    assert sent == 6
    assert core.due_at(0.0) == 0.1


def _refusal(code: int):  # type: ignore[no-untyped-def]
    from pyconsumer.protocol.messages.join_group import JoinGroupResponse

    return JoinGroupResponse(error_code=code, member_id="")


def test_pauses_between_failed_joins_grow() -> None:
    member = Member()
    pauses = []
    for _ in range(5):
        member.answer_join(member.send_join(), 14)
        due = member.core.due_at(member.now)
        pauses.append(round(due - member.now, 3))
        member.now = due
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0]


def test_another_subscription_than_the_joined_one_rejoins() -> None:
    member = Member("a b")
    member.stable()
    member.core.on_subscription({"a", "b"})
    assert not member.core.rejoin_needed
    member.core.on_subscription({"a"})
    assert member.core.rejoin_needed
    member.topics = frozenset("a")
    assert "subscription has changed" in (member.send_join().request.reason or "")


def test_a_leader_rejoins_when_metadata_differs_from_that_of_the_assignment() -> None:
    leader = Member()
    leader.lead_to_stable({"t": 3})
    leader.core.on_metadata({"t": 3})
    assert not leader.core.rejoin_needed
    leader.core.on_metadata({"t": 4})
    assert leader.core.rejoin_needed
    follower = Member()
    follower.stable()
    follower.core.on_metadata({"t": 3})
    follower.core.on_metadata({"t": 4})
    assert not follower.core.rejoin_needed


def test_a_leader_that_became_a_follower_stops_watching_metadata() -> None:
    member = Member()
    member.lead_to_stable({"t": 3})
    member.core.request_rejoin("because")
    member.stable(2)
    member.core.on_metadata({"t": 9})
    assert not member.core.rejoin_needed


def test_the_first_rejoin_reason_is_sent_and_truncated() -> None:
    """KIP-800."""
    member = Member()
    assert member.send_join().request.reason == ""
    member = Member()
    member.stable()
    member.core.request_rejoin("x" * 400)
    member.core.request_rejoin("later")
    assert member.send_join().request.reason == "x" * 255


def test_a_reason_after_a_failure_names_it() -> None:
    member = Member()
    member.answer_join(member.send_join(), 25)
    assert "UNKNOWN_MEMBER_ID" in (member.send_join().request.reason or "")


def test_the_rebalance_report_names_members_that_joined_and_left() -> None:
    member = Member()
    member.lead_to_stable({"t": 1}, members={"me": "t", "b": "t"})
    member.advance(5.0)
    member.core.request_rejoin("somebody left")
    election = member.lead(2, members={"me": "t", "c": "t"})
    member.advance(0.5)
    sync = member.core.on_assigned(election.attempt, {}, {"t": 1}, member.now)
    assert sync is not None
    member.answer_sync(sync)
    report = member.core.on_completed()
    assert report is not None
    assert (report.started_at, report.reason) == (5.0, "somebody left")
    assert (report.joined, report.left, report.members) == (("c",), ("b",), 2)


def test_leaving_resets_the_member_id() -> None:
    member = Member()
    member.stable()
    assert member.core.leave("bye", 0.0)
    assert member.core.generation == NO_GENERATION
    assert member.core.leaving
    member.core.unsubscribe()
    assert member.core.next_action(0.0) is None
    member.core.on_subscription({"t"})
    step = member.core.next_action(0.0)
    assert isinstance(step, PrepareJoin)
    assert step.lost
    assert member.send_join().request.member_id == ""


def test_enforced_rebalance_while_one_is_under_way_adds_none() -> None:
    member = Member()
    sync = member.join()
    member.core.request_rejoin("now")
    assert sync is not None
    member.answer_sync(sync)
    member.core.on_completed()
    assert not member.core.rejoin_needed


def test_a_failed_coordinator_lookup_is_raised_and_retried_after_a_backoff() -> None:
    member = Member()
    assert isinstance(member.core.next_action(0.0), FindCoordinator)
    member.core.on_coordinator_not_found(USER, GroupAuthorizationFailedError("g"), 0.0)
    raised = member.core.next_action(0.0)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, GroupAuthorizationFailedError)
    assert member.core.next_action(0.0) is None
    assert isinstance(member.core.next_action(0.1), FindCoordinator)


def test_losing_the_coordinator_abandons_a_pending_join() -> None:
    """Without this a JoinGroup that waits at the former coordinator would block the member for five minutes."""
    member = Member()
    step = member.send_join()
    member.core.on_coordinator_lost(1, "NOT_COORDINATOR", 0.0)
    assert member.core.state is S.UNJOINED
    assert member.answer_join(step) is None
    member.find(OTHER)
    assert member.build().node == OTHER


def test_a_leader_whose_coordinator_is_lost_before_the_sync_joins_again() -> None:
    member = Member()
    election = member.lead()
    member.core.on_coordinator_lost(1, "gone", 0.0)
    assert member.core.on_assigned(election.attempt, {"me": b""}, {}, 0.0) is None
    assert member.core.state is S.UNJOINED
    assert isinstance(member.core.next_action(0.0), FindCoordinator)


def test_every_code_leads_to_a_legal_state_in_every_phase() -> None:
    for code in [*BY_CODE, 9999]:
        if code == 79:
            continue
        for phase in ("join", "sync", "heartbeat"):
            member = Member(group_instance_id="i")
            if phase == "heartbeat":
                member.stable()
                member.advance(3.0)
                member.answer_heartbeat(member.heartbeat(), code)
                continue
            step = member.send_join()
            if phase == "join":
                member.answer_join(step, code)
            else:
                sync = member.answer_join(step)
                assert sync is not None
                member.answer_sync(sync, code)
            assert member.core.state in (S.UNJOINED, S.FENCED), (code, phase)
            assert member.core.rejoin_needed


def test_an_election_waits_for_the_assignment() -> None:
    member = Member()
    election = member.lead()
    assert isinstance(member.core.next_action(5.0), ComputeAssignment)
    assert member.core.due_at(5.0) == 5.0
    assert member.core.on_assigned(election.attempt, {}, {}, 5.0) is not None
    assert member.core.on_assigned(election.attempt, {}, {}, 5.0) is None


def test_assignments_that_cannot_be_used_are_followed_by_pauses_that_grow() -> None:
    """A coordinator that assigns topics outside the subscription once caused 1,760 requests a second."""
    member = Member()
    pauses = []
    for _ in range(5):
        sync = member.join(1)
        assert sync is not None
        member.answer_sync(sync, share=b"of another topic")
        assert isinstance(member.core.next_action(member.now), CompleteJoin)
        member.core.on_rejected("received assignment does not match the current subscription", member.now)
        assert member.core.rejoin_needed
        pauses.append(member.core.due_at(member.now) - member.now)
        member.now += pauses[-1]
    assert pauses[0] == 0.0
    assert 0.05 < pauses[1] < pauses[2] < pauses[3]

    member.stable(2)
    member.core.on_rejected("once", member.now)
    assert member.core.due_at(member.now) == member.now


def test_a_session_timeout_that_the_broker_rejects_is_named_with_the_bounds() -> None:
    member = Member()
    member.stable(4)
    member.core.request_rejoin("because")
    step = member.send_join()
    member.answer_join(step, 26)
    raised = member.core.next_action(0.0)
    assert isinstance(raised, Raise)
    error = raised.error
    assert "is outside the bounds of the broker" in str(error)
    assert "group.min.session.timeout.ms (6,000 by default)" in str(error)


def test_a_heartbeat_that_our_join_group_overtook_is_no_loss() -> None:
    """Heartbeats and JoinGroup have a connection each.

    In a group of one member the next generation starts at once, and a heartbeat of the previous one fails.
    """
    member = Member()
    member.stable(1)
    member.advance(3.0)
    beat = member.heartbeat()
    member.core.request_rejoin("topics have changed")
    step = member.send_join()
    member.answer_heartbeat(beat, Errors.ILLEGAL_GENERATION)
    assert not member.core.has_urgent_news
    assert member.core.generation.joined
    assert member.answer_join(step, generation_id=2) is not None
    assert member.core.generation.generation_id == 2
    assert not member.core.has_urgent_news


@pytest.mark.parametrize("code", [Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID])
def test_a_member_that_is_expelled_while_it_joins_has_lost_its_partitions(code: int) -> None:
    member = Member()
    member.stable(1)
    member.advance(3.0)
    beat = member.heartbeat()
    member.core.request_rejoin("topics have changed")
    member.send_join()
    member.answer_heartbeat(beat, code)
    assert member.core.has_urgent_news
    assert not member.core.generation.joined
