"""JoinGroup: every path, with its response and member id."""

from __future__ import annotations

import logging

import pytest

from pyconsumer.broker.group.classic.admission import JoinHandler
from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.common.results import LeavingMember
from pyconsumer.errors import Errors
from tests.unit.broker.group.support import GROUP, RANGE, TP0, World, client_of, subscription, value_of

# Checks at the door


def test_checks_before_the_group_is_looked_up() -> None:
    world = World(start=False)
    assert value_of(world.join(group="")).error_code == Errors.INVALID_GROUP_ID
    assert value_of(world.join()).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    world.coordinator.start()
    assert value_of(world.join()).error_code == Errors.NOT_COORDINATOR
    world.coordinator.on_become_leader(world.partition(), 1)
    assert value_of(world.join()).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert value_of(world.join("x")).member_id == "x"
    world.advance(0)
    assert not world.join().done
    world.coordinator.shutdown()
    assert value_of(world.join()).error_code == Errors.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("spec_id", "started", "error_code"),
    [
        ("transactions:JGR-30b", False, Errors.COORDINATOR_NOT_AVAILABLE),
        ("broker:VAL-03", False, Errors.COORDINATOR_NOT_AVAILABLE),
        ("transactions:JGR-30d", True, Errors.NOT_COORDINATOR),
    ],
)
def test_a_broker_that_is_not_coordinator_answers_not_coordinator(spec_id: str, started: bool, error_code: int) -> None:
    world = World(start=False)
    if started:
        world.coordinator.start()
    result = value_of(world.join("me"))
    assert (result.error_code, result.member_id) == (error_code, "me")


def test_a_member_id_in_an_absent_group_is_unknown_and_creates_no_group() -> None:
    world = World()
    result = value_of(world.join("ghost"))
    assert (result.error_code, result.member_id) == (Errors.UNKNOWN_MEMBER_ID, "ghost")
    assert world.manager.get_group(GROUP) is None
    world.join()
    assert world.manager.get_group(GROUP) is not None


def test_an_error_response_has_no_other_fields() -> None:
    world = World()
    result = value_of(world.join("ghost"))
    assert (result.members, result.generation_id, result.protocol_type, result.protocol_name, result.leader) == (
        (),
        -1,
        None,
        None,
        "",
    )


@pytest.mark.parametrize("member_id", ["", "someone"])
def test_a_dead_group(member_id: str) -> None:
    world = World()
    world.stable()
    world.group().transition_to(GroupState.DEAD)
    result = value_of(world.join(member_id))
    assert (result.error_code, result.member_id) == (Errors.COORDINATOR_NOT_AVAILABLE, member_id)


def test_a_member_with_an_inconsistent_protocol_gets_the_error_with_its_member_id() -> None:
    world = World()
    first, second = world.stable(2)
    result = value_of(world.join(second.member_id, protocols=(("other", b""),)))
    assert (result.error_code, result.member_id) == (Errors.INCONSISTENT_GROUP_PROTOCOL, second.member_id)
    result = value_of(world.join(second.member_id, protocol_type="connect"))
    assert result.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert world.heartbeat(first) == 0


def test_the_first_member_needs_a_type_and_a_strategy() -> None:
    world = World()
    assert value_of(world.join(protocol_type="")).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert value_of(world.join(protocols=())).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL


# New members


def test_the_form_of_member_ids() -> None:
    world = World(group_initial_rebalance_delay_ms=0)
    assert value_of(world.join(require_id=True, client_id="me")).member_id == "me-uuid1"
    static = world.join(client_id="me", instance="name")
    world.advance(0)
    assert value_of(static).member_id == "name-uuid2"
    defaults = JoinHandler.__init__.__defaults__
    assert defaults is not None
    assert defaults[0]() != defaults[0]()
    assert len(defaults[0]()) == 36


@pytest.mark.parametrize("who", [{"client_id": "x" * 32_764}, {"instance": "é" * 16_382}])
@pytest.mark.parametrize("require_id", [True, False])
def test_a_member_id_too_long_to_store_is_rejected(who: dict[str, str], require_id: bool) -> None:
    world = World()
    refused = value_of(world.join(require_id=require_id, **who))  # type: ignore[arg-type]
    assert (refused.error_code, refused.member_id) == (Errors.INVALID_REQUEST, "")
    assert not world.group().members
    assert not world.group().pending_members
    (longest,) = world.stable(client_id="x" * 32_761)
    assert len(longest.member_id) == 32_767
    assert world.restarted().group().has(longest.member_id)


def test_an_old_client_and_a_static_member_are_added_at_once() -> None:
    world = World()
    old = world.join(require_id=False)
    static = world.join(require_id=True, instance="i")
    assert not old.done
    assert not static.done
    assert world.group().size == 2
    assert world.group().static_members == {"i": "i-uuid2"}


def test_a_pending_member_joins_with_its_id() -> None:
    world = World()
    pending = value_of(world.join(require_id=True)).member_id
    assert not world.join(pending, require_id=True).done
    member = world.group().get(pending)
    assert member.is_new
    assert not world.group().pending_members
    assert (member.client_id, member.client_host, member.protocol_type) == ("c", "/127.0.0.1", "consumer")
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (60_000, 10_000)


def test_a_pending_member_id_with_an_instance_id_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    pending = value_of(world.join(require_id=True)).member_id
    result = value_of(world.join(pending, instance="i"))
    assert result.error_code == Errors.UNKNOWN_SERVER_ERROR
    assert "failed" in caplog.text
    assert not world.join(pending).done


def test_a_member_is_new_until_the_end_of_the_join_phase() -> None:
    world = World()
    answer = world.join()
    (member,) = world.group().members.values()
    assert member.is_new
    assert member.is_awaiting_join
    world.advance(3)
    assert answer.done
    assert not member.is_new
    world.advance(9.9)
    assert world.group().has(member.member_id)
    world.advance(0.2)  # its session timeout, not the five minutes
    assert not world.group().has(member.member_id)


def test_newcomers_prolong_the_delay_of_any_group_that_was_empty() -> None:
    world = World()
    first = world.join()
    assert not world.group().new_member_added  # it was Empty
    world.join()
    assert world.group().new_member_added
    world.advance(3)
    assert not world.group().new_member_added
    assert not first.done
    world.advance(3)
    for name in list(world.group().members):
        world.coordinator.leave_group(GROUP, [LeavingMember(name)])
    assert (world.state, world.group().generation_id) == (GroupState.EMPTY, 2)
    again = world.join()
    world.join()
    world.advance(3)
    assert not again.done
    world.advance(3)
    assert value_of(again).generation_id == 3


def test_the_initial_delay() -> None:
    at_once = World(group_initial_rebalance_delay_ms=0)
    answer = at_once.join()
    at_once.advance(0)
    assert value_of(answer).generation_id == 1
    world = World()
    answer = world.join(rebalance_ms=4_000)
    for _ in range(2):
        world.advance(2.5)
        world.join(rebalance_ms=4_000)
    # 3 s, then the 1 s that is left of the rebalance timeout, however many still come.
    assert answer.done
    assert value_of(answer).generation_id == 1


def test_the_initial_delay_is_not_cut_short() -> None:
    world = World()
    pending = value_of(world.join(require_id=True)).member_id
    first = world.join()
    assert world.coordinator.leave_group(GROUP, [LeavingMember(pending)]).members[0].error_code == 0
    assert not first.done
    world.advance(3)
    assert first.done


def test_the_join_phase_ends_with_the_last_member_and_waits_for_pending_ids() -> None:
    world = World()
    first, second = world.stable(2)
    pending = value_of(world.join(require_id=True)).member_id
    answers = [world.rejoin(first), world.rejoin(second)]
    assert not any(answer.done for answer in answers)
    third = world.join(pending)
    assert all(answer.done for answer in [*answers, third])
    assert {value_of(answer).generation_id for answer in [*answers, third]} == {2}


def test_an_expired_pending_member_id_lets_the_others_proceed() -> None:
    world = World()
    (first,) = world.stable()
    value_of(world.join(require_id=True, session_ms=7_000))
    answer = world.rejoin(first)
    assert not answer.done
    world.advance(7.1)
    assert value_of(answer).generation_id == 2


# Known members


def test_member_id_and_instance_id_must_match() -> None:
    world = World()
    world.stable(2, instances=["i", None])
    stranger = value_of(world.join("stranger"))
    assert (stranger.error_code, stranger.member_id) == (Errors.UNKNOWN_MEMBER_ID, "stranger")
    fenced = value_of(world.join("stranger", instance="i"))
    assert (fenced.error_code, fenced.member_id) == (Errors.FENCED_INSTANCE_ID, "stranger")
    dynamic = next(name for name, member in world.group().members.items() if not member.is_static)
    unknown = value_of(world.join(dynamic, instance="never seen"))
    assert (unknown.error_code, unknown.member_id) == (Errors.UNKNOWN_MEMBER_ID, dynamic)


def test_a_rejoin_in_preparing_rebalance_waits() -> None:
    world = World()
    first, second = world.stable(2)
    world.leave(second)
    world.join()
    answer = world.rejoin(first, rebalance_ms=77_000, session_ms=8_000)
    member = world.group().get(first.member_id)
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (77_000, 8_000)
    assert answer.done


def test_a_join_that_is_sent_twice_is_answered_twice() -> None:
    world = World()
    first, _ = world.stable(2)
    earlier = world.rejoin(first)
    later = world.rejoin(first)
    assert value_of(earlier).error_code == Errors.REBALANCE_IN_PROGRESS
    assert not later.done
    assert world.group().num_members_awaiting_join == 1


def test_another_subscription_before_the_assignment_starts_a_new_round() -> None:
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    awaited = world.sync(follower)
    world.join(leader.member_id, protocols=(("range", subscription("t", "u")),))
    assert value_of(awaited).error_code == Errors.REBALANCE_IN_PROGRESS
    assert world.state is GroupState.PREPARING_REBALANCE


def test_an_id_in_an_empty_group_is_unknown() -> None:
    world = World()
    (client,) = world.stable()
    world.leave(client)
    assert value_of(world.rejoin(client)).error_code == Errors.UNKNOWN_MEMBER_ID


def test_all_of_a_round_get_the_same_generation_and_the_leader_alone_the_list() -> None:
    world = World()
    answers = [world.join(client_id=name) for name in "abc"]
    world.advance(6)
    results = [value_of(answer) for answer in answers]
    assert {(one.generation_id, one.leader, one.protocol_name, one.protocol_type) for one in results} == {
        (1, results[0].member_id, "range", "consumer")
    }
    assert [len(one.members) for one in results] == [3, 0, 0]
    assert {one.metadata for one in results[0].members} == {RANGE[0][1]}


def test_a_member_that_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    world = World()
    waiting = [world.join(session_ms=30_000, rebalance_ms=20_000) for _ in range(2)]
    world.advance(6)
    leader, silent = (client_of(one) for one in waiting)
    assert value_of(world.sync(leader, {})).error_code == 0
    for _ in range(2):
        world.advance(9)
        assert world.heartbeat(leader) == world.heartbeat(silent) == 0
    world.advance(3)
    assert world.state is GroupState.PREPARING_REBALANCE
    assert list(world.group().members) == [leader.member_id]
    assert value_of(world.rejoin(leader)).generation_id == 2


def test_no_timer_runs_once_all_members_have_synced() -> None:
    world = World()
    clients = world.stable(2, session_ms=100_000, rebalance_ms=20_000)
    world.advance(60)
    assert [world.heartbeat(client) for client in clients] == [0, 0]
    assert not world.group().sync_timer.is_running


def test_static_members_stay_and_the_join_phase_restarts_if_no_member_came(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    leader, static = world.stable(2, instances=["i", "j"], session_ms=100_000, rebalance_ms=20_000)
    world.coordinator.leave_group(GROUP, [LeavingMember(leader.member_id)])
    assert world.state is GroupState.PREPARING_REBALANCE
    world.advance(20.1)
    assert world.state is GroupState.PREPARING_REBALANCE
    assert "no member rejoined" in caplog.text
    assert world.group().has(static.member_id)
    world.advance(80)
    assert (world.state, world.group().size) == (GroupState.EMPTY, 0)


@pytest.mark.parametrize("rebalance_ms", [0, -(2**31)])
def test_the_join_phase_without_members_has_a_pause(caplog: pytest.LogCaptureFixture, rebalance_ms: int) -> None:
    world = World()
    waiting = [world.join(instance="i", rebalance_ms=rebalance_ms), world.join(instance="j")]
    world.advance(10)
    clients = [client_of(answer, name) for answer, name in zip(waiting, "ij", strict=True)]
    world.sync_all(clients)
    world.leave(clients[1])
    for _ in range(9):  # its session is over after 10 s
        world.advance(1)
        assert world.heartbeat(clients[0]) == Errors.REBALANCE_IN_PROGRESS
    assert 8 <= caplog.text.count("no member rejoined") <= 10
    back = world.rejoin(clients[0])
    assert value_of(back).error_code == 0


def test_the_rebalance_of_a_dead_group_ends() -> None:
    world = World()
    answer = world.join()
    world.group().transition_to(GroupState.DEAD)
    world.advance(10)
    assert not answer.done  # whoever killed the group answers its clients
    assert world.group().generation_id == 0


def test_an_empty_registration_that_cannot_be_written_is_only_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    (client,) = world.stable()
    world.storage.fail_with = 7
    world.leave(client)
    assert world.state is GroupState.EMPTY
    assert "COORDINATOR_NOT_AVAILABLE" in caplog.text


# Static members that come back


@pytest.mark.parametrize("skip", [True, False])
def test_a_static_follower_comes_back_without_a_rebalance(skip: bool) -> None:
    world = World()
    leader, static = world.stable(2, instances=[None, "i"])
    result = value_of(world.join(instance="i", skip=skip))
    assert (result.error_code, result.generation_id, result.leader) == (0, 1, leader.member_id)
    assert result.member_id not in ("", static.member_id)
    assert (result.members, result.skip_assignment) == ((), False)
    assert world.state is GroupState.STABLE
    back = client_of(world.join(result.member_id, instance="i"), "i")
    assert value_of(world.sync(back)).assignment == b"a1"
    assert world.heartbeat(static) == Errors.FENCED_INSTANCE_ID
    registration = world.storage.registrations(world.partition())[-1]
    assert registration is not None
    assert {one.member_id: one.assignment for one in registration.members} == {
        leader.member_id: b"a0",
        result.member_id: b"a1",
    }


@pytest.mark.parametrize("skip", [True, False])
def test_a_static_leader_comes_back_and_does_not_assign(skip: bool) -> None:
    world = World()
    leader, _ = world.stable(2, instances=["i", None])
    result = value_of(world.join(instance="i", skip=skip))
    if skip:
        assert (result.leader, result.skip_assignment, len(result.members)) == (result.member_id, True, 2)
    else:
        assert (result.leader, result.skip_assignment, result.members) == (leader.member_id, False, ())
    assert world.group().leader_id == result.member_id
    assert world.state is GroupState.STABLE


def test_a_replacement_that_cannot_be_stored_is_undone(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    leader, static = world.stable(2, instances=[None, "i"])
    world.storage.fail_with = 6
    result = value_of(world.join(instance="i", session_ms=20_000))
    assert (result.error_code, result.member_id) == (Errors.NOT_COORDINATOR, "")
    assert world.group().static_members == {"i": static.member_id}
    assert world.group().get(static.member_id).session_timeout_ms == 10_000
    assert world.heartbeat(static) == world.heartbeat(leader) == 0
    assert static.member_id in caplog.text


def test_a_rebalance_overtakes_a_replacement_that_is_being_stored() -> None:
    world = World()
    leader, _ = world.stable(2, instances=[None, "i"])
    world.storage.hold = True
    back = world.join(instance="i")
    assert not back.done
    rejoining = world.rejoin(leader)  # the leader asks for a rebalance; the other one waits already
    assert value_of(back).generation_id == value_of(rejoining).generation_id == 2
    world.storage.release_all()
    assert world.state is GroupState.COMPLETING_REBALANCE


def test_a_static_member_that_changes_the_strategy_starts_a_rebalance() -> None:
    world = World()
    both = (("range", subscription("t")), ("sticky", subscription("t")))
    world.stable(1, instances=["i"], protocols=both)
    answer = world.join(instance="i", protocols=both[1:])
    assert value_of(answer).generation_id == 2
    assert value_of(answer).protocol_name == "sticky"


def test_a_static_member_that_comes_back_before_the_assignment_starts_a_new_round() -> None:
    world = World()
    waiting = [world.join(instance="i"), world.join()]
    world.advance(6)
    static, other = client_of(waiting[0], "i"), client_of(waiting[1])
    assert static.generation == 1
    awaited = world.sync(other)
    back = world.join(instance="i")
    assert value_of(awaited).error_code == Errors.REBALANCE_IN_PROGRESS
    assert world.state is GroupState.PREPARING_REBALANCE
    assert not back.done


def test_two_with_one_name_fence_each_other() -> None:
    world = World()
    first = world.join(instance="i")
    second = world.join(instance="i")
    fenced = value_of(first)
    assert fenced.error_code == Errors.FENCED_INSTANCE_ID
    assert world.group().size == 1
    world.advance(3)
    leader = client_of(second, "i")
    assert value_of(world.sync(leader)).error_code == 0


def test_a_static_member_that_comes_back_in_its_first_join_may_wait_for_the_others() -> None:
    world = World()
    (other,) = world.stable(rebalance_ms=60_000)
    world.join(instance="i")
    back = world.join(instance="i")
    for _ in range(10):  # more than its session
        world.advance(3)
        assert world.heartbeat(other) == Errors.REBALANCE_IN_PROGRESS
    assert not back.done
    value_of(world.rejoin(other))
    assert value_of(back).error_code == 0


def test_a_pending_sync_of_a_replaced_static_member_is_fenced() -> None:
    world = World()
    waiting = [world.join(), world.join(instance="i")]
    world.advance(6)
    static = client_of(waiting[1], "i")
    awaited = world.sync(static)
    world.join(instance="i")
    assert value_of(awaited).error_code == Errors.FENCED_INSTANCE_ID


def test_a_static_member_of_an_empty_group_is_impossible_but_survived() -> None:
    world = World()
    (static,) = world.stable(1, instances=["i"])
    world.group().state = GroupState.EMPTY
    assert value_of(world.join(instance="i")).error_code == Errors.UNKNOWN_SERVER_ERROR
    assert static.member_id not in world.group().members


# The log


def test_one_line_reports_each_rebalance(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pyconsumer.broker.group")
    world = World()
    first, second = world.stable(2)
    caplog.clear()
    world.leave(second)
    value_of(world.rejoin(first, reason="wants to"))
    lines = [record.getMessage() for record in caplog.records]
    prepared = next(line for line in lines if line.startswith("Preparing"))
    for part in (GROUP, "generation 1", f"__consumer_offsets-{world.partition()}", f"LeaveGroup of {second.member_id}"):
        assert part in prepared
    (done,) = [line for line in lines if "stabilized" in line]
    for part in (GROUP, "generation 2", "1 members", "protocol range", f"leader {first.member_id}"):
        assert part in done
    assert f"left: {second.member_id}" in done
    world.leave(first)
    assert "is empty in generation 3" in caplog.text


def test_committing_after_a_rebalance_needs_the_new_generation() -> None:
    world = World()
    (client,) = world.stable()
    value_of(world.rejoin(client))
    assert value_of(world.commit({TP0: 1}, client))[TP0] == Errors.ILLEGAL_GENERATION
