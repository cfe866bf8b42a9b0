"""Whole flows of a group, from the first join to the last leave: the scenarios of the broker's list."""

from __future__ import annotations

import logging

import pytest

from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.common.results import LeavingMember
from pyconsumer.errors import Errors
from tests.unit.broker.group.support import GROUP, TP0, TP1, Client, World, client_of, subscription, value_of


def test_the_first_member_gets_an_id_joins_syncs_and_is_registered() -> None:
    world = World()
    refused = value_of(world.join(require_id=True))
    assert (refused.error_code, refused.member_id) == (Errors.MEMBER_ID_REQUIRED, "c-uuid1")
    assert world.state is GroupState.EMPTY
    assert list(world.group().pending_members) == ["c-uuid1"]

    awaited = world.join(refused.member_id)
    assert not awaited.done
    assert world.state is GroupState.PREPARING_REBALANCE
    assert not world.group().pending_members
    world.advance(2.9)
    assert not awaited.done
    world.advance(0.1)
    joined = value_of(awaited)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, "c-uuid1")
    assert [one.member_id for one in joined.members] == ["c-uuid1"]
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert world.state is GroupState.COMPLETING_REBALANCE
    assert world.storage.registrations(world.partition()) == []

    synced = value_of(world.sync(client_of(awaited), {"c-uuid1": b"mine"}))
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert world.state is GroupState.STABLE
    (registration,) = world.storage.registrations(world.partition())
    assert registration is not None
    assert (registration.generation, registration.members[0].assignment) == (1, b"mine")


def test_a_second_member_joins_a_stable_group() -> None:
    world = World()
    (first,) = world.stable()
    awaited = world.join()
    assert not awaited.done
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(first) == Errors.REBALANCE_IN_PROGRESS
    rejoined = value_of(world.rejoin(first))
    second = client_of(awaited)
    assert (rejoined.generation_id, second.generation) == (2, 2)
    assert [one.member_id for one in rejoined.members] == [first.member_id, second.member_id]
    assert value_of(awaited).members == ()
    first.generation = 2
    follower = world.sync(second)
    assert not follower.done
    leader = world.sync(first, {first.member_id: b"1", second.member_id: b"2"})
    assert (value_of(leader).assignment, value_of(follower).assignment) == (b"1", b"2")
    assert world.state is GroupState.STABLE


def test_two_members_in_the_initial_delay_share_one_generation() -> None:
    world = World()
    first = world.join()
    world.advance(2)
    second = world.join()
    world.advance(1)
    assert not first.done  # prolonged once
    world.advance(3)
    assert (client_of(first).generation, client_of(second).generation) == (1, 1)


def test_the_leader_leaves_and_another_one_leads() -> None:
    world = World()
    first, second, third = world.stable(3)
    assert world.leave(first) == [0]
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(second) == Errors.REBALANCE_IN_PROGRESS
    answers = [world.rejoin(second), world.rejoin(third)]
    results = [value_of(answer) for answer in answers]
    assert [one.generation_id for one in results] == [2, 2]
    assert {one.leader for one in results} == {second.member_id}
    assert first.member_id not in world.group().members


def test_a_member_that_falls_silent_is_removed_after_its_session() -> None:
    world = World()
    first, second = world.stable(2)
    for _ in range(3):
        world.advance(3)
        assert world.heartbeat(first) == 0
    assert world.state is GroupState.STABLE
    world.advance(1.1)
    assert world.state is GroupState.PREPARING_REBALANCE
    assert not world.group().has(second.member_id)
    assert value_of(world.rejoin(first)).generation_id == 2


def test_the_last_member_leaves_and_the_offsets_stay_for_one_retention() -> None:
    world = World(offsets_retention_minutes=60)
    (client,) = world.stable()
    value_of(world.commit({TP0: 7}, client))
    world.advance(5)
    world.leave(client)
    assert world.state is GroupState.EMPTY
    assert world.group().generation_id == 2
    last = world.storage.registrations(world.partition())[-1]
    assert last is not None
    assert (last.generation, last.protocol, last.leader, last.members) == (2, None, None, [])
    world.advance(3599)
    assert world.coordinator._expiration.clean_up() == 0
    assert world.offset() == 7
    world.advance(601)
    assert world.offset() == -1
    assert world.manager.get_group(GROUP) is None


def test_a_dynamic_member_that_does_not_rejoin_is_left_out() -> None:
    world = World()
    first, second = world.stable(2, session_ms=120_000, rebalance_ms=60_000)
    world.join()
    answer = world.rejoin(first, session_ms=120_000)
    world.advance(59)
    assert not answer.done
    world.advance(1.1)
    assert value_of(answer).generation_id == 2
    assert not world.group().has(second.member_id)
    assert len(value_of(answer).members) == 2


@pytest.mark.parametrize("who", ["follower", "leader", "other bytes", "other order"])
def test_rejoining_a_stable_group(who: str) -> None:
    world = World()
    both = (("range", subscription("t")), ("sticky", subscription("t")))
    leader, follower = world.stable(2, protocols=both)
    if who == "leader":
        answer = world.rejoin(leader)
    elif who == "follower":
        answer = world.rejoin(follower)
    elif who == "other bytes":
        answer = world.join(follower.member_id, protocols=(("range", subscription("u")), both[1]))
    else:
        answer = world.join(follower.member_id, protocols=tuple(reversed(both)))
    if who == "follower":
        result = value_of(answer)
        assert (result.error_code, result.generation_id, result.members, result.leader) == (0, 1, (), leader.member_id)
        assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
        assert world.state is GroupState.STABLE
        assert value_of(world.sync(follower)).assignment == b"a1"
    else:
        assert not answer.done
        assert world.state is GroupState.PREPARING_REBALANCE


def test_a_join_repeated_before_the_assignment_is_answered_again() -> None:
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    again = value_of(world.rejoin(leader))
    assert (again.generation_id, len(again.members)) == (1, 2)
    assert value_of(world.rejoin(follower)).members == ()
    assert world.state is GroupState.COMPLETING_REBALANCE


def test_a_member_without_an_assignment_gets_an_empty_one(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    awaited = world.sync(follower)
    value_of(world.sync(leader, {leader.member_id: b"all", "stranger": b"x"}))
    assert (value_of(awaited).error_code, value_of(awaited).assignment) == (0, b"")
    assert follower.member_id in caplog.text
    (registration,) = world.storage.registrations(world.partition())
    assert registration is not None
    assert {one.member_id for one in registration.members} == {leader.member_id, follower.member_id}


def test_a_registration_that_cannot_be_written_restarts_the_rebalance(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    awaited = world.sync(follower)
    world.storage.fail_with = 19  # NOT_ENOUGH_REPLICAS
    failed = value_of(world.sync(leader, {leader.member_id: b"1", follower.member_id: b"2"}))
    assert (failed.error_code, failed.assignment, failed.protocol_name) == (Errors.COORDINATOR_NOT_AVAILABLE, b"", None)
    assert value_of(awaited).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert world.state is GroupState.PREPARING_REBALANCE
    assert all(member.assignment == b"" for member in world.group().members.values())
    assert f"storing the assignment that member {leader.member_id} synced" in caplog.text


def test_a_join_while_the_assignment_is_written_fails_the_pending_syncs() -> None:
    world = World()
    first = world.join()
    world.advance(3)
    leader = client_of(first)
    world.storage.hold = True
    syncing = world.sync(leader, {leader.member_id: b"1"})
    assert not syncing.done
    world.join()
    assert value_of(syncing).error_code == Errors.REBALANCE_IN_PROGRESS
    assert world.state is GroupState.PREPARING_REBALANCE
    world.storage.release_all()
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.group().members[leader.member_id].assignment == b""


def test_a_full_group_rejects_members_and_the_rebalance_continues() -> None:
    world = World(group_max_size=2)
    first, second = world.stable(2)
    third = value_of(world.join())
    assert (third.error_code, third.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")
    assert world.state is GroupState.STABLE
    answers = [world.rejoin(first), world.rejoin(second)]
    assert all(value_of(answer).error_code == 0 for answer in answers)


def test_a_lowered_limit_squeezes_out_the_last_to_rejoin() -> None:
    world = World()
    clients = world.stable(3)
    smaller = world.restarted(group_max_size=2)
    assert smaller.state is GroupState.PREPARING_REBALANCE  # over the limit when it was loaded
    answers = [smaller.rejoin(client) for client in clients]
    last = value_of(answers[2])
    assert (last.error_code, last.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")
    assert not smaller.group().has(clients[2].member_id)
    assert [value_of(answer).generation_id for answer in answers[:2]] == [2, 2]


@pytest.mark.parametrize(
    ("session_ms", "accepted"), [(6_000, True), (5_999, False), (1_800_000, True), (1_800_001, False)]
)
def test_the_session_timeout_has_bounds(session_ms: int, accepted: bool) -> None:
    world = World()
    answer = world.join(session_ms=session_ms)
    if accepted:
        assert not answer.done
    else:
        assert value_of(answer).error_code == Errors.INVALID_SESSION_TIMEOUT
        assert world.manager.get_group(GROUP) is None


def test_offsets_and_tombstones_survive_a_restart() -> None:
    world = World()
    value_of(world.commit({TP0: 5, TP1: 6}))
    again = world.restarted()
    assert (again.offset(TP0), again.offset(TP1)) == (5, 6)
    value_of(again.coordinator.delete_offsets(GROUP, [TP0]))
    third = again.restarted()
    answer = third.fetch([TP0, TP1])
    assert (answer[TP0].offset, answer[TP0].error_code, answer[TP1].offset) == (-1, 0, 6)


def test_requests_during_a_load() -> None:
    world = World()
    (client,) = world.stable()
    value_of(world.commit({TP0: 3}, client))
    again = World(storage=world.storage, start=False)
    again.coordinator.start()
    again.coordinator.on_become_leader(again.partition(), 1)
    assert value_of(again.rejoin(client)).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert value_of(again.sync(client)).error_code == Errors.REBALANCE_IN_PROGRESS
    assert again.heartbeat(client) == 0
    assert value_of(again.commit({TP0: 4}, client))[TP0] == Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert value_of(again.coordinator.fetch_offsets(GROUP, [TP0]))[0] == Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert again.coordinator.leave_group(GROUP, []).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
    again.advance(0.1)
    assert again.heartbeat(client) == 0
    assert again.offset() == 3


def test_unloading_a_partition_fails_its_pending_requests_alone() -> None:
    world = World()
    other = next(name for name in (f"x{index}" for index in range(99)) if world.partition(name) != world.partition())
    world.stable(1, group=other)
    (client,) = world.stable()
    awaited = world.join()
    rejoining = world.rejoin(client)
    value_of(rejoining)
    follower = client_of(awaited)
    syncing = world.sync(follower)
    world.coordinator.on_resign(world.partition(), 2)
    assert world.heartbeat(follower) == Errors.NOT_COORDINATOR
    world.advance(0)
    assert value_of(syncing).error_code == Errors.NOT_COORDINATOR
    assert world.manager.get_group(GROUP) is None
    assert world.manager.get_group(other) is not None
    assert value_of(world.join()).error_code == Errors.NOT_COORDINATOR
    world.lead(3, [world.partition()])
    assert (world.group().generation_id, world.state) == (1, GroupState.STABLE)


def test_a_pending_join_of_an_unloaded_group_is_answered() -> None:
    world = World()
    awaited = world.join()
    world.coordinator.on_resign(world.partition(), 2)
    world.advance(0)
    assert value_of(awaited).error_code == Errors.NOT_COORDINATOR
    world.advance(100)  # no timer of the group is left that would disturb anybody


def test_a_member_without_a_common_protocol_is_rejected_and_the_group_stays_stable() -> None:
    world = World()
    (client,) = world.stable()
    for strange in (
        world.join(protocols=(("roundrobin", b""),)),
        world.join(protocol_type="connect"),
        world.join(protocols=()),
    ):
        result = value_of(strange)
        assert (result.error_code, result.member_id) == (Errors.INCONSISTENT_GROUP_PROTOCOL, "")
    assert world.state is GroupState.STABLE
    assert world.heartbeat(client) == 0


def test_a_group_that_only_stores_offsets() -> None:
    world = World(offsets_retention_minutes=10)
    assert value_of(world.commit({TP0: 11})) == {TP0: 0}
    again = world.restarted(offsets_retention_minutes=10)
    assert again.offset() == 11
    assert again.group().protocol_type is None
    assert again.state is GroupState.EMPTY
    again.advance(605)
    assert again.offset() == -1
    assert again.storage.registrations(again.partition()) == []


def test_an_id_that_is_not_used_in_time_is_forgotten() -> None:
    world = World()
    pending = value_of(world.join(require_id=True, session_ms=8_000)).member_id
    world.advance(8.1)
    assert not world.group().pending_members
    assert value_of(world.join(pending)).error_code == Errors.UNKNOWN_MEMBER_ID


def test_a_new_member_without_its_client_is_removed_after_five_minutes() -> None:
    world = World()
    (client,) = world.stable(rebalance_ms=900_000, session_ms=900_000)
    gone = world.join(rebalance_ms=900_000)
    world.advance(299)
    assert not gone.done
    world.advance(1.1)
    result = value_of(gone)
    assert (result.error_code, result.member_id) == (Errors.UNKNOWN_MEMBER_ID, "")
    assert value_of(world.rejoin(client)).generation_id == 2


def test_more_partitions_are_the_leaders_business() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert value_of(world.rejoin(follower)).generation_id == 1
    answer = world.rejoin(leader)
    assert world.heartbeat(follower) == Errors.REBALANCE_IN_PROGRESS
    world.rejoin(follower)
    assert value_of(answer).generation_id == 2
    for client in (leader, follower):
        client.generation = 2
    assert [one.assignment for one in world.sync_all([leader, follower])] == [b"a0", b"a1"]


def test_groups_continue_after_the_coordinator_moves() -> None:
    world = World()
    clients = world.stable(2)
    value_of(world.commit({TP0: 9}, clients[1]))
    moved = world.restarted()
    group = moved.group()
    assert (group.generation_id, group.leader_id, group.protocol_name) == (1, clients[0].member_id, "range")
    assert [member.assignment for member in group.members.values()] == [b"a0", b"a1"]
    assert moved.offset() == 9
    for client in clients:
        assert moved.heartbeat(client) == 0
    assert moved.state is GroupState.STABLE


def test_a_rebalance_is_lost_when_the_coordinator_moves() -> None:
    world = World()
    (client,) = world.stable()
    newcomer = world.join()
    value_of(world.rejoin(client))
    moved = world.restarted()
    assert (moved.state, moved.group().generation_id) == (GroupState.STABLE, 1)
    assert value_of(moved.sync(client, generation=2)).error_code == Errors.ILLEGAL_GENERATION
    assert value_of(moved.sync(client_of(newcomer))).error_code == Errors.UNKNOWN_MEMBER_ID
    answer = moved.rejoin(client)
    assert value_of(answer).generation_id == 2


def test_a_member_of_an_old_generation_is_turned_away() -> None:
    world = World()
    (client,) = world.stable()
    old = client.generation
    value_of(world.rejoin(client))
    client.generation = 2
    world.sync_all([client])
    assert value_of(world.sync(client, generation=old)).error_code == Errors.ILLEGAL_GENERATION
    assert world.heartbeat(client, generation=old) == Errors.ILLEGAL_GENERATION
    assert value_of(world.commit({TP0: 1}, client, generation_id=old))[TP0] == Errors.ILLEGAL_GENERATION
    stranger = Client("nobody", 2)
    assert value_of(world.sync(stranger)).error_code == Errors.UNKNOWN_MEMBER_ID
    assert value_of(world.commit({TP0: 1}, stranger))[TP0] == Errors.UNKNOWN_MEMBER_ID
    assert world.offset() == -1


def test_each_rebalance_counts_one() -> None:
    world = World()
    clients = world.stable(3)
    assert world.group().generation_id == 1
    world.leave(clients[1])
    for client in (clients[0], clients[2]):
        world.rejoin(client)
    assert world.group().generation_id == 2
    world.join()
    assert world.group().generation_id == 2  # counted at the end of the join phase
    for client in (clients[0], clients[2]):
        world.rejoin(client)
    assert world.group().generation_id == 3


def test_members_leave_together_with_one_rebalance() -> None:
    world = World()
    first, second, third = world.stable(3, instances=[None, "i2", None])
    pending = value_of(world.join(require_id=True)).member_id
    result = world.coordinator.leave_group(
        GROUP,
        [
            LeavingMember(first.member_id),
            LeavingMember("", "i2", "scaled down"),
            LeavingMember(pending),
            LeavingMember("stranger"),
            LeavingMember("", "unknown instance"),
            LeavingMember(third.member_id, "i2"),
        ],
    )
    assert result.error_code == 0
    unknown = Errors.UNKNOWN_MEMBER_ID
    assert [one.error_code for one in result.members] == [0, 0, 0, unknown, unknown, unknown]
    assert world.state is GroupState.PREPARING_REBALANCE
    assert list(world.group().members) == [third.member_id]
    answer = value_of(world.rejoin(third))
    assert (answer.generation_id, answer.leader) == (2, third.member_id)
    assert second.member_id not in world.group().members


def test_each_generation_has_one_assignment_and_a_change_notifies_only_its_group() -> None:
    world = World()
    ours, theirs = world.stable(2), world.stable(2, group="other")
    leader, follower = ours
    plan = {leader.member_id: b"one", follower.member_id: b"other"}
    assert value_of(world.sync(leader, plan)).assignment == b"a0", "the plan of a generation does not change"
    assert value_of(world.sync(follower)).assignment == b"a1"

    newcomer = world.join()
    assert [world.heartbeat(client) for client in ours] == [Errors.REBALANCE_IN_PROGRESS] * 2
    assert [world.heartbeat(client, group="other") for client in theirs] == [Errors.NONE] * 2

    answers = [world.rejoin(client) for client in ours]
    both = [leader, follower]
    for client, answer in zip(both, answers, strict=True):
        client.generation = value_of(answer).generation_id
    waiting = [world.sync(follower), world.sync(client_of(newcomer))]
    assert not any(answer.done for answer in waiting), "nobody acts before the leader's plan is known"
    assert value_of(world.sync(follower, generation=1)).error_code == Errors.ILLEGAL_GENERATION
    shares = {member_id: b"new " + member_id.encode() for member_id in world.group().members}
    assert value_of(world.sync(leader, shares)).assignment == shares[leader.member_id]
    assert {value_of(answer).assignment for answer in waiting} == set(shares.values()) - {shares[leader.member_id]}
    assert world.group().generation_id == 2
    assert world.group("other").generation_id == 1
