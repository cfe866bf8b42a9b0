"""SyncGroup, Heartbeat and LeaveGroup, and members whose session expires."""

from __future__ import annotations

import itertools

import pytest

from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.common.results import LeavingMember, SyncResult
from pyconsumer.errors import Errors
from tests.unit.broker.group.support import GROUP, TP0, Client, World, client_of, value_of

# SyncGroup


def test_checks_of_a_sync_in_their_order() -> None:
    """Each request is wrong in one point and in all later ones. The first one decides the error."""
    world = World()
    nobody = Client("nobody", 9, "i")
    everything = {"protocol_type": "connect", "protocol_name": "other"}
    assert value_of(world.sync(nobody, group="never", **everything)).error_code == Errors.UNKNOWN_MEMBER_ID
    (static, dynamic) = world.stable(2, instances=["i", None])

    def refused(client: Client, generation: int, **more: str) -> int:
        return value_of(world.sync(client, generation=generation, **more)).error_code

    assert refused(nobody, 9, **everything) == Errors.FENCED_INSTANCE_ID
    assert refused(Client("nobody", 9), 9, **everything) == Errors.UNKNOWN_MEMBER_ID
    assert refused(Client(dynamic.member_id, 9, "unknown"), 9, **everything) == Errors.UNKNOWN_MEMBER_ID
    assert refused(static, 9, **everything) == Errors.ILLEGAL_GENERATION
    assert refused(static, 1, **everything) == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert refused(static, 1, protocol_type="consumer", protocol_name="other") == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert refused(static, 1, protocol_type="connect", protocol_name="range") == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert refused(static, 1, protocol_type="consumer", protocol_name="range") == 0
    world.group().transition_to(GroupState.DEAD)
    assert refused(nobody, 9, **everything) == Errors.COORDINATOR_NOT_AVAILABLE


def test_sync_in_states_without_an_assignment() -> None:
    world = World()
    first, second = world.stable(2)
    world.leave(second)
    result = value_of(world.sync(first))
    assert result == SyncResult(Errors.REBALANCE_IN_PROGRESS)
    world.leave(first)
    assert world.state is GroupState.EMPTY
    assert value_of(world.sync(first)).error_code == Errors.UNKNOWN_MEMBER_ID


def test_a_sync_at_the_wrong_broker() -> None:
    world = World(start=False)
    world.coordinator.start()
    assert value_of(world.sync(Client("x", 1))).error_code == Errors.NOT_COORDINATOR
    assert value_of(world.sync(Client("x", 1), group="")).error_code == Errors.INVALID_GROUP_ID
    world.lead()
    (client,) = world.stable()
    assert value_of(world.sync(client, generation=7)).error_code == Errors.ILLEGAL_GENERATION


def test_sync_in_a_stable_group_is_answered_at_once() -> None:
    world = World()
    _, follower = world.stable(2)
    world.advance(9)
    result = value_of(world.sync(follower))
    assert result == SyncResult(0, b"a1", "consumer", "range")
    world.advance(9)
    assert world.group().has(follower.member_id)  # it was heard of


@pytest.mark.parametrize("leader_first", [True, False])
def test_syncs_are_answered_when_the_assignment_is_stored(leader_first: bool) -> None:
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    world.storage.hold = True
    plan = {leader.member_id: b"1", follower.member_id: b"2"}
    if leader_first:
        syncs = [world.sync(leader, plan), world.sync(follower)]
    else:
        late = world.sync(follower)
        syncs = [world.sync(leader, plan), late]
    assert not any(answer.done for answer in syncs)
    assert world.state is GroupState.COMPLETING_REBALANCE
    assert world.manager.metrics.completed_rebalances == 0
    world.storage.release()
    assert [value_of(answer).assignment for answer in syncs] == [b"1", b"2"]
    assert world.state is GroupState.STABLE
    assert world.manager.metrics.completed_rebalances == 1


def test_the_registration_goes_to_the_groups_partition_with_the_whole_assignment() -> None:
    world = World()
    world.stable(2)
    ((partition, records),) = world.storage.appended
    assert (partition, len(records)) == (world.partition(), 1)


def test_a_pending_sync_keeps_its_member_alive_with_a_full_session_afterwards() -> None:
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    awaited = world.sync(follower)
    for _ in range(4):
        world.advance(8)
        assert world.heartbeat(leader) == 0
    assert not awaited.done
    assert world.group().has(follower.member_id)
    value_of(world.sync(leader, {}))
    world.advance(9.9)
    assert world.group().has(follower.member_id)
    world.advance(0.2)
    assert not world.group().has(follower.member_id)


def test_a_sync_that_is_sent_twice_is_answered_twice() -> None:
    world = World()
    waiting = [world.join(), world.join()]
    world.advance(6)
    leader, follower = (client_of(one) for one in waiting)
    earlier, later = world.sync(follower), world.sync(follower)
    assert value_of(earlier).error_code == Errors.REBALANCE_IN_PROGRESS
    value_of(world.sync(leader, {follower.member_id: b"2"}))
    assert value_of(later).assignment == b"2"


def test_a_failing_sync_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    answer = world.join()
    world.advance(3)
    world.storage.raises = RuntimeError("disk on fire")
    assert value_of(world.sync(client_of(answer), {})).error_code == Errors.UNKNOWN_SERVER_ERROR
    assert "disk on fire" in caplog.text
    assert world.state is GroupState.PREPARING_REBALANCE


def test_a_late_append_of_an_earlier_generation_is_ignored() -> None:
    world = World()
    answer = world.join()
    world.advance(3)
    leader = client_of(answer)
    world.storage.hold = True
    world.sync(leader, {leader.member_id: b"old"})
    again = client_of(world.join(leader.member_id, protocols=(("range", b"changed"),)))
    assert (again.generation, world.state) == (2, GroupState.COMPLETING_REBALANCE)
    world.storage.release()
    assert world.state is GroupState.COMPLETING_REBALANCE
    assert world.group().get(leader.member_id).assignment == b""


@pytest.mark.parametrize(
    ("append_error", "expected_code"),
    [
        (3, Errors.COORDINATOR_NOT_AVAILABLE),
        (19, Errors.COORDINATOR_NOT_AVAILABLE),
        (20, Errors.COORDINATOR_NOT_AVAILABLE),
        (7, Errors.COORDINATOR_NOT_AVAILABLE),
        (6, Errors.NOT_COORDINATOR),
        (56, Errors.NOT_COORDINATOR),
        (10, Errors.UNKNOWN_SERVER_ERROR),
        (18, Errors.UNKNOWN_SERVER_ERROR),
        (4, Errors.UNKNOWN_SERVER_ERROR),
        (87, 87),
    ],
)
def test_the_error_code_of_a_failed_append(append_error: int, expected_code: int) -> None:
    world = World()
    answer = world.join()
    world.advance(3)
    world.storage.fail_with = append_error
    assert value_of(world.sync(client_of(answer), {})).error_code == expected_code


def test_a_plan_that_cannot_be_stored_takes_the_assignments_of_the_plan_before() -> None:
    """No member may read partitions that the next generation has not assigned to it."""
    world = World()
    (client,) = world.stable()
    member = world.group().get(client.member_id)
    world.rejoin(client)
    member.assign(b"of the generation before")
    world.storage.fail_with = 7
    answer = world.sync(Client(client.member_id, world.group().generation_id), {client.member_id: b"new"})
    assert value_of(answer).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert member.assignment == b""
    assert world.state is GroupState.PREPARING_REBALANCE


# Heartbeat


def test_the_error_code_of_a_heartbeat() -> None:
    world = World(start=False)
    client = Client("x", 1)
    assert world.heartbeat(client, group="") == Errors.INVALID_GROUP_ID
    assert world.heartbeat(client) == Errors.COORDINATOR_NOT_AVAILABLE
    world.coordinator.start()
    assert world.heartbeat(client) == Errors.NOT_COORDINATOR
    world.lead()
    assert world.heartbeat(client) == Errors.UNKNOWN_MEMBER_ID
    static, other = world.stable(2, instances=["i", None])
    assert world.heartbeat(Client("x", 1, "i")) == Errors.FENCED_INSTANCE_ID
    assert world.heartbeat(Client("x", 9)) == Errors.UNKNOWN_MEMBER_ID
    assert world.heartbeat(static, generation=9) == Errors.ILLEGAL_GENERATION
    assert world.heartbeat(static) == 0
    world.leave(other)
    assert world.heartbeat(static) == Errors.REBALANCE_IN_PROGRESS
    back = client_of(world.rejoin(static), "i")
    assert world.state is GroupState.COMPLETING_REBALANCE
    assert world.heartbeat(back) == 0
    world.leave(back)
    assert world.heartbeat(back) == Errors.UNKNOWN_MEMBER_ID
    world.group().transition_to(GroupState.DEAD)
    assert world.heartbeat(back) == Errors.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE])
def test_a_heartbeat_renews_the_session_in_every_state_with_members(state: GroupState) -> None:
    world = World()
    clients = world.stable(2, session_ms=10_000, rebalance_ms=300_000)
    if state is not GroupState.STABLE:
        world.join(clients[0].member_id, protocols=(("range", b"new"),), rebalance_ms=300_000)
    if state is GroupState.COMPLETING_REBALANCE:
        clients = [client_of(world.rejoin(client, rebalance_ms=300_000)) for client in clients[1:]]
    assert world.state is state
    for _ in range(5):
        world.advance(9)
        world.heartbeat(clients[-1])
    assert world.group().has(clients[-1].member_id)
    world.advance(10.1)
    assert not world.group().has(clients[-1].member_id)


def test_an_expired_session_in_the_join_phase_may_complete_it() -> None:
    world = World()
    first, _silent = world.stable(2, rebalance_ms=300_000)
    answer = world.rejoin(first, rebalance_ms=300_000)
    assert not answer.done
    world.advance(10.1)
    assert value_of(answer).generation_id == 2
    assert len(value_of(answer).members) == 1


def test_an_expired_session_of_a_removed_member_is_ignored() -> None:
    world = World()
    (client,) = world.stable()
    member = world.group().get(client.member_id)
    expire = world.coordinator._rebalancer._expire_member
    world.group().remove(client.member_id)
    expire(world.group(), member)
    assert world.state is GroupState.STABLE
    world.group().transition_to(GroupState.DEAD)
    expire(world.group(), member)
    world.coordinator._rebalancer._expire_pending(world.group(), "x")


def test_a_static_member_that_falls_silent_is_forgotten_with_its_name() -> None:
    world = World()
    world.stable(1, instances=["i"])
    world.advance(10.1)
    assert world.group().static_members == {}
    assert world.state is GroupState.EMPTY


# LeaveGroup


def test_leaving_an_absent_group_or_member() -> None:
    world = World(start=False)
    assert world.coordinator.leave_group(GROUP, []).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    world.coordinator.start()
    assert world.coordinator.leave_group(GROUP, []).error_code == Errors.NOT_COORDINATOR
    world.lead()
    members = [LeavingMember("a"), LeavingMember("", "i")]
    result = world.coordinator.leave_group(GROUP, members)
    assert (result.error_code, [one.error_code for one in result.members]) == (0, [Errors.UNKNOWN_MEMBER_ID] * 2)
    world.stable()
    world.group().transition_to(GroupState.DEAD)
    assert world.coordinator.leave_group(GROUP, members).error_code == Errors.COORDINATOR_NOT_AVAILABLE


def test_a_fenced_member_cannot_leave_for_another() -> None:
    world = World()
    world.stable(1, instances=["i"])
    result = world.coordinator.leave_group(GROUP, [LeavingMember("someone", "i")])
    assert result.members[0].error_code == Errors.FENCED_INSTANCE_ID
    assert world.state is GroupState.STABLE


def test_a_member_that_leaves_during_its_request_is_answered() -> None:
    world = World()
    first, second = world.stable(2)
    awaited = world.rejoin(first)
    world.leave(first)
    result = value_of(awaited)
    assert (result.error_code, result.member_id) == (Errors.UNKNOWN_MEMBER_ID, "")
    back = client_of(world.rejoin(second))
    newcomer = world.join()
    value_of(world.rejoin(back))
    follower = client_of(newcomer)
    syncing = world.sync(follower)
    world.leave(follower)
    assert value_of(syncing).error_code == Errors.UNKNOWN_MEMBER_ID


def test_leaving_in_the_join_phase_may_complete_it() -> None:
    world = World()
    first, second = world.stable(2)
    answer = world.rejoin(first)
    world.leave(second)
    assert value_of(answer).generation_id == 2


def test_a_client_that_reacts_in_its_callback_finds_a_consistent_group() -> None:
    """Replies are given when the work is done: each client sends SyncGroup inside the callback of its join."""
    world = World()
    seen: list[GroupState] = []
    finished: dict[str, SyncResult] = {}

    def join_and_sync(name: str) -> None:
        waiting = world.join(client_id=name)

        def joined(result):  # type: ignore[no-untyped-def]
            seen.append(world.state)
            plan = {one.member_id: one.member_id.encode() for one in result.members}
            answer = world.sync(Client(result.member_id, result.generation_id), plan)
            answer.on_done(lambda synced: finished.__setitem__(result.member_id, synced))

        waiting.on_done(joined)

    for name in "abc":
        join_and_sync(name)
    world.advance(6)
    assert world.state is GroupState.STABLE
    assert {key: value.assignment for key, value in finished.items()} == {key: key.encode() for key in finished}
    assert len(finished) == 3
    # The leader was answered first and had synced before the others were answered.
    assert set(seen) <= {GroupState.COMPLETING_REBALANCE, GroupState.STABLE}


def test_a_shutdown_answers_all_pending_requests_and_leaves_no_timer() -> None:
    world = World()
    world.stable(2, group="a")
    awaited = world.join(group="b")
    world.coordinator.shutdown()
    assert value_of(awaited).error_code == Errors.NOT_COORDINATOR
    assert value_of(world.commit({TP0: 1})) == {TP0: Errors.COORDINATOR_NOT_AVAILABLE}
    assert len(world.timer) == 0


def test_months_of_one_group_pass_quickly() -> None:
    world = World()
    (client,) = world.stable(session_ms=1_000_000)
    for _ in itertools.repeat(None, 60 * 24):
        world.advance(900)
        assert world.heartbeat(client) == 0
    assert world.group().generation_id == 1
