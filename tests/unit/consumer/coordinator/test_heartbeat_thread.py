"""Tests of the heartbeat thread: the order of its duties, its responses, leaving the group."""

from __future__ import annotations

import math

import pytest

from pyconsumer import errors
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState, PrepareJoin
from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND
from pyconsumer.consumer.coordinator.group_state import (
    NO_GENERATION,
    FindCoordinator,
    Generation,
    Raise,
    SendHeartbeat,
    SendLeave,
    Sleep,
    Stop,
)
from pyconsumer.consumer.coordinator.heartbeat_thread import leave_request
from pyconsumer.errors import AuthenticationError, KafkaConnectionError, KafkaError
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from tests.unit.consumer.coordinator.script import NODE, OTHER, Member

S = ClassicMemberState


def stable(**changes: object) -> Member:
    member = Member(**changes)  # type: ignore[arg-type]
    member.stable(5)
    return member


def test_the_thread_sleeps_until_the_member_has_joined() -> None:
    member = Member()
    assert member.core.next_background(0.0) == Sleep(math.inf)
    member.send_join()
    assert member.core.state is S.PREPARING_REBALANCE
    assert member.core.next_background(100.0) == Sleep(math.inf), "the pending JoinGroup proves life"


def test_heartbeats_begin_with_the_join_response() -> None:
    member = Member()
    member.advance(7.0)
    member.join(2)
    assert member.core.state is S.COMPLETING_REBALANCE
    assert member.core.next_background(7.0) == Sleep(10.0)
    member.now = 10.0
    step = member.heartbeat()
    assert (step.node, step.request.group_id) == (NODE, "g")
    assert (step.request.generation_id, step.request.member_id) == (2, "me")


def test_heartbeats_follow_each_other_at_the_interval() -> None:
    member = stable()
    for beat in range(1, 5):
        member.now = 3.0 * beat
        step = member.heartbeat()
        assert isinstance(member.core.next_background(member.now), Sleep), "one is under way"
        member.now += 0.5
        member.answer_heartbeat(step)
        assert member.core.next_background(member.now) == Sleep(3.0 * (beat + 1))


def test_rebalance_in_progress_counts_as_a_response_and_requests_a_rejoin() -> None:
    member = stable()
    member.now = 3.0
    member.answer_heartbeat(member.heartbeat(), 27)
    assert member.core.rejoin_needed
    assert member.core.generation == Generation(5, "me", "range")
    assert member.core.state is S.STABLE
    assert member.core.next_background(3.0) == Sleep(6.0), "heartbeats continue, and the session was prolonged"
    for _ in range(8):
        member.advance(3.0)
        member.answer_heartbeat(member.heartbeat(), 27)
    step = member.core.next_action(member.now)
    assert isinstance(step, PrepareJoin)
    assert not step.lost


def test_rebalance_in_progress_is_ignored_during_the_rebalance() -> None:
    member = stable()
    member.now = 3.0
    step = member.heartbeat()
    member.core.request_rejoin("because")
    member.join(6)
    epoch = member.core.revision
    member.answer_heartbeat(step, 27)
    assert member.core.revision == epoch


@pytest.mark.parametrize("code", [15, 16])
def test_a_lost_coordinator_is_looked_up_and_the_generation_is_kept(code: int) -> None:
    member = stable()
    member.now = 3.0
    member.answer_heartbeat(member.heartbeat(), code)
    core = member.core
    assert core.coordinator is None
    assert isinstance(core.next_background(3.0), FindCoordinator)
    assert core.next_background(3.0) == Sleep(math.inf), "one search at a time"
    core.on_coordinator_not_found(BACKGROUND, errors.CoordinatorNotAvailableError(), 3.0)
    assert core.next_background(3.0) == Sleep(3.1)
    assert isinstance(core.next_background(3.1), FindCoordinator)
    core.on_coordinator_found(BACKGROUND, OTHER, 3.2)
    member.now = 3.2
    step = member.heartbeat()
    assert step.node == OTHER
    assert step.generation.generation_id == 5
    assert not core.rejoin_needed


def test_a_broken_connection_loses_the_coordinator() -> None:
    member = stable()
    member.now = 3.0
    step = member.heartbeat()
    member.core.on_heartbeat_failed(step.node.node_id, KafkaConnectionError("reset"), 3.0, member.core.discovery.term)
    assert member.core.coordinator is None
    assert member.core.take_error() is None
    assert isinstance(member.core.next_background(3.0), FindCoordinator)


def test_a_closed_connection_does_not_affect_the_coordinator_found_since() -> None:
    """The same node is found again. Requests in flight fail when its old connection is closed."""
    member = stable()
    member.now = 3.0
    step = member.heartbeat()
    core, term = member.core, member.core.discovery.term
    core.on_coordinator_lost(step.node.node_id, "no answer", 3.0)
    core.on_coordinator_found(BACKGROUND, step.node, 3.0)
    core.on_heartbeat_failed(step.node.node_id, KafkaConnectionError("dropped"), 3.0, term)
    assert core.coordinator == step.node
    assert core.discovery.term == term + 1


def test_a_session_without_responses_loses_the_coordinator_and_keeps_the_membership() -> None:
    member = stable()
    member.now = 3.0
    member.heartbeat()
    assert member.core.next_background(3.0) == Sleep(10.0)
    assert isinstance(member.core.next_background(10.0), FindCoordinator)
    assert member.core.generation.generation_id == 5
    assert member.core.state is S.STABLE


def test_an_application_that_stays_away_leaves_the_group() -> None:
    member = stable(rebalance_timeout=5.0)
    member.now = 3.0
    member.answer_heartbeat(member.heartbeat())
    assert member.core.next_background(3.0) == Sleep(5.0)
    step = member.core.next_background(5.0)
    assert isinstance(step, SendLeave)
    assert [(m.member_id, m.reason) for m in step.request.members] == [("me", "consumer poll timeout has expired")]
    assert member.core.generation == NO_GENERATION
    assert member.core.next_background(5.0) == Sleep(math.inf)
    member.core.on_leave_done()
    member.core.on_poll(6.0)
    rejoin = member.core.next_action(6.0)
    assert isinstance(rejoin, PrepareJoin)
    assert rejoin.lost


def test_a_static_member_that_stays_away_sends_no_leave_group() -> None:
    member = stable(rebalance_timeout=5.0, group_instance_id="i")
    assert member.core.next_background(5.0) == Sleep(math.inf)
    assert member.core.generation == NO_GENERATION


def test_polls_keep_the_member_in_the_group() -> None:
    member = stable(rebalance_timeout=5.0, heartbeat_interval=100.0, session_timeout=1000.0)
    for now in range(1, 20):
        member.core.on_poll(float(now))
        assert member.core.next_background(float(now)) == Sleep(now + 5.0)


def test_the_session_timeout_comes_before_the_poll_timeout_and_both_need_a_coordinator() -> None:
    member = stable(rebalance_timeout=10.0)
    assert isinstance(member.core.next_background(10.0), FindCoordinator), (
        "both are over: the coordinator is lost first"
    )
    assert member.core.generation.joined
    assert member.core.next_background(50.0) == Sleep(math.inf)
    assert member.core.generation.joined
    member.core.on_coordinator_found(BACKGROUND, NODE, 50.0)
    assert isinstance(member.core.next_background(50.0), SendLeave)


@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_a_generation_that_the_coordinator_does_not_know_is_lost(code: int, member_id: str) -> None:
    member = stable()
    member.now = 3.0
    member.answer_heartbeat(member.heartbeat(), code)
    assert member.core.state is S.UNJOINED
    assert member.core.generation == Generation(-1, member_id)
    assert member.core.next_background(3.0) == Sleep(math.inf)
    step = member.core.next_action(3.0)
    assert isinstance(step, PrepareJoin)
    assert step.lost
    assert member.send_join().request.member_id == member_id


@pytest.mark.parametrize("code", [22, 25, 82])
def test_responses_for_an_older_generation_are_ignored(code: int) -> None:
    member = stable()
    member.now = 3.0
    step = member.heartbeat()
    member.core.request_rejoin("because")
    member.stable(6)
    member.answer_heartbeat(step, code)
    assert member.core.generation.generation_id == 6
    assert member.core.state is S.STABLE
    assert not member.core.rejoin_needed


@pytest.mark.parametrize(
    ("code", "error"), [(30, errors.GroupAuthorizationFailedError), (-1, errors.UnknownServerError)]
)
def test_other_errors_are_raised_and_heartbeats_continue(code: int, error: type[Exception]) -> None:
    member = stable()
    member.now = 3.0
    for _ in range(3):
        member.answer_heartbeat(member.heartbeat(), code)
        step = member.core.next_background(member.now)
        assert isinstance(step, Sleep)
        member.now = step.until
    raised = member.core.next_action(member.now)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, error)
    assert member.core.next_action(member.now) is None, "the same error waits once only"


def test_a_failed_authentication_is_raised() -> None:
    member = stable()
    member.now = 3.0
    step = member.heartbeat()
    member.core.on_heartbeat_failed(step.node.node_id, AuthenticationError("no"), 3.0, member.core.discovery.term)
    raised = member.core.next_action(3.0)
    assert isinstance(raised, Raise)
    assert isinstance(raised.error, AuthenticationError)


def test_an_unexpected_error_in_the_thread_is_raised() -> None:
    member = stable()
    member.core.on_background_failed(KafkaError("broken"))
    raised = member.core.next_action(0.0)
    assert isinstance(raised, Raise)
    assert str(raised.error) == "broken"


def test_closing_leaves_then_stops() -> None:
    member = stable()
    assert member.core.leave("the consumer is being closed", 0.0)
    member.core.close()
    step = member.core.next_background(0.0)
    assert isinstance(step, SendLeave)
    assert member.core.leaving
    assert isinstance(member.core.next_background(0.0), Sleep)
    member.core.on_leave_done()
    assert not member.core.leaving
    assert isinstance(member.core.next_background(0.0), Stop)


def test_leaving_does_not_wait_when_the_coordinator_is_lost() -> None:
    member = stable()
    member.core.leave("closing", 0.0)
    member.core.close()
    member.core.on_coordinator_lost(1, "dead", 0.0)
    assert not member.core.leaving
    assert isinstance(member.core.next_background(0.0), Stop)


@pytest.mark.parametrize(
    ("instance", "send", "expected"),
    [(None, None, True), (None, False, False), ("i", None, False), ("i", True, True), ("i", False, False)],
)
def test_which_members_send_leave_group(instance: str | None, send: bool | None, expected: bool) -> None:
    """KIP-345 and KIP-1092."""
    member = stable(group_instance_id=instance)
    assert member.core.leave("closing", 0.0, send=send) is expected
    assert isinstance(member.core.next_background(0.0), SendLeave) is expected


def test_a_member_with_only_a_member_id_leaves_too() -> None:
    member = Member()
    member.answer_join(member.send_join(), 79, member_id="given")
    assert member.core.leave("closing", 0.0)
    assert not Member().core.leave("closing", 0.0)


def test_leave_group_at_every_version() -> None:
    member = stable()
    member.core.leave("why", 0.0)
    step = member.core.next_background(0.0)
    assert isinstance(step, SendLeave)
    for version in range(LeaveGroupRequest.MIN_VERSION, LeaveGroupRequest.MAX_VERSION + 1):
        read = LeaveGroupRequest.decode(leave_request(step.request, version).encode(version), version)
        assert read.group_id == "g"
        if version < 3:
            assert read.member_id == "me"
        else:
            assert [m.member_id for m in read.members] == ["me"]
            assert read.members[0].reason == ("why" if version >= 5 else None)
    request = LeaveGroupRequest(group_id="groupId", member_id="C0-1", members=step.request.members)
    assert leave_request(request, 1).encode(1).hex() == "000767726f75704964000443302d31"


def test_heartbeats_that_follow_a_rejoin_name_the_new_generation() -> None:
    member = stable()
    member.core.request_rejoin("because")
    member.stable(6)
    member.advance(3.0)
    step = member.core.next_background(3.0)
    assert isinstance(step, SendHeartbeat)
    assert step.request.generation_id == 6
