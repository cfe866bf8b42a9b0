"""Tests of the right to commit, of admin requests for groups and offsets, and of expiration."""

from __future__ import annotations

import logging

import pytest

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.offsets import CommitRecord, CommittedOffset
from pyconsumer.errors import ConfigurationError, Errors
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import GROUP, TP0, TP1, Client, World, client_of, member, subscription, value_of

# OffsetCommit


@pytest.mark.parametrize(
    ("spec_id", "generation", "knows", "error_code"),
    [
        ("transactions:OCM-06c", -1, True, 0),
        ("transactions:OCM-06d", 0, False, Errors.ILLEGAL_GENERATION),
        ("broker:API-01", 3, False, Errors.ILLEGAL_GENERATION),
        ("broker:API-01", 3, True, Errors.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_commit_to_a_group_that_does_not_exist(spec_id: str, generation: int, knows: bool, error_code: int) -> None:
    world = World()
    answer = world.commit({TP0: 1}, generation_id=generation, member_id="x", version=9 if knows else 8)
    assert value_of(answer) == {TP0: error_code}
    assert (world.manager.get_group(GROUP) is not None) == (error_code == 0)


def test_checks_of_a_commit_in_their_order() -> None:
    world = World()
    static, dynamic = world.stable(2, instances=["i", None])

    def commit_code(client: Client | None, **more: object) -> int:
        return value_of(world.commit({TP0: 1}, client, **more))[TP0]

    assert commit_code(None) == Errors.UNKNOWN_MEMBER_ID
    assert commit_code(Client("nobody", 9, "i")) == Errors.FENCED_INSTANCE_ID
    assert commit_code(Client("nobody", 9)) == Errors.UNKNOWN_MEMBER_ID
    assert commit_code(Client(dynamic.member_id, 1, "unknown")) == Errors.UNKNOWN_MEMBER_ID
    assert commit_code(static, generation_id=9) == Errors.ILLEGAL_GENERATION
    assert commit_code(static, generation_id=-1) == Errors.ILLEGAL_GENERATION
    assert commit_code(static) == 0
    assert commit_code(dynamic) == 0
    back = [world.rejoin(static), world.rejoin(dynamic)]
    assert world.state is GroupState.COMPLETING_REBALANCE
    assert commit_code(client_of(back[0], "i")) == Errors.REBALANCE_IN_PROGRESS
    assert commit_code(Client("nobody", 9)) == Errors.UNKNOWN_MEMBER_ID
    assert commit_code(client_of(back[0], "i"), generation_id=1) == Errors.ILLEGAL_GENERATION
    world.group().transition_to(GroupState.DEAD)
    assert commit_code(Client("nobody", 9, "i")) == Errors.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("preparing", [True, False])
def test_a_commit_counts_as_a_heartbeat(preparing: bool) -> None:
    world = World()
    first, second = world.stable(2, rebalance_ms=300_000)
    if preparing:
        world.rejoin(first, rebalance_ms=300_000)
    for _ in range(4):
        world.advance(9)
        world.heartbeat(first)
        assert value_of(world.commit({TP0: 1}, second)) == {TP0: 0}
    assert world.group().has(second.member_id)


@pytest.mark.parametrize("spec_id", ["transactions:OCM-06f", "broker:API-02", "broker:AMB-38"])
def test_a_simple_commit_to_a_group_that_is_empty(spec_id: str) -> None:
    world = World()
    (client,) = world.stable()
    world.leave(client)
    assert value_of(world.commit({TP0: 4})) == {TP0: 0}
    assert world.offset() == 4


def test_the_empty_group_id_may_store_offsets_but_not_join() -> None:
    world = World()
    assert value_of(world.commit({TP0: 4}, group="")) == {TP0: 0}
    assert world.offset(group="") == 4
    assert value_of(world.join(group="")).error_code == Errors.INVALID_GROUP_ID
    assert world.coordinator.describe_group("")[0] == 0
    assert value_of(world.coordinator.delete_groups([""])) == {"": 0}
    nothing: str = None  # type: ignore[assignment]
    assert world.coordinator.describe_group(nothing)[0] == Errors.INVALID_GROUP_ID


def test_a_transactional_commit_checks_the_member_only_if_it_is_given() -> None:
    world = World()
    commit = world.coordinator.commit_transactional_offsets
    offsets = {TP0: CommittedOffset(1)}
    assert value_of(commit("", 7, 0, offsets)) == {TP0: Errors.INVALID_GROUP_ID}
    assert value_of(commit("new", 7, 0, offsets)) == {TP0: 0}
    assert value_of(commit("never", 7, 0, offsets, generation_id=1, version=5)) == {TP0: Errors.ILLEGAL_GENERATION}
    assert value_of(commit("never", 7, 0, offsets, generation_id=1, version=6)) == {TP0: Errors.GROUP_ID_NOT_FOUND}
    (client,) = world.stable()
    assert value_of(commit(GROUP, 7, 0, offsets)) == {TP0: 0}
    given = {"generation_id": 9, "member_id": client.member_id}
    assert value_of(commit(GROUP, 7, 0, offsets, **given)) == {TP0: Errors.ILLEGAL_GENERATION}  # type: ignore[arg-type]
    assert value_of(commit(GROUP, 7, 0, offsets, member_id="x")) == {TP0: Errors.UNKNOWN_MEMBER_ID}
    world.rejoin(client)
    assert world.state is GroupState.COMPLETING_REBALANCE
    assert value_of(commit(GROUP, 7, 0, offsets)) == {TP0: 0}


@pytest.mark.parametrize(
    ("retention_ms", "expires"),
    [(604_800_000, 1539447928354), (86_400_000, 1538929528354), (-1, None), (2**63 - 1, 2**63 - 1)],
)
def test_a_retention_of_its_own(retention_ms: int, expires: int | None) -> None:
    world = World()
    now = 1538843128354
    world.clock._offset_ms += now - world.clock.wall_ms()
    value_of(world.commit({TP0: 1}, retention_ms=retention_ms))
    value = world.group().offsets.committed[TP0].value
    assert (value.commit_timestamp, value.expire_timestamp) == (now, expires)
    assert world.restarted().group().offsets.committed[TP0].value == value


# Expiry


def cleaner(world: World) -> list[TopicPartition]:
    return world.coordinator._expiration.expired(world.group())


RETENTION_S = 60.0


def retention_world() -> World:
    return World(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10**9)


@pytest.mark.parametrize(("late_ms", "over"), [(-1, False), (0, True), (1, True)])
def test_offsets_of_an_empty_group_count_from_when_it_became_empty(late_ms: int, over: bool) -> None:
    world = retention_world()
    (client,) = world.stable(session_ms=1_000_000)
    value_of(world.commit({TP0: 1}, client))
    world.advance(500)
    world.leave(client)
    world.advance(30)
    value_of(world.commit({TP1: 1}))  # by hand: does not prolong their life
    world.advance(30 + late_ms / 1000)
    assert cleaner(world) == ([TP0, TP1] if over else [])


def test_without_a_state_timestamp_the_commit_counts() -> None:
    world = retention_world()
    (client,) = world.stable()
    world.leave(client)
    world.group().current_state_timestamp = None
    world.advance(30)
    value_of(world.commit({TP0: 1}))
    world.advance(40)
    assert cleaner(world) == []
    world.advance(20)
    assert cleaner(world) == [TP0]


def test_a_stable_group_loses_only_offsets_of_topics_that_it_does_not_read() -> None:
    world = retention_world()
    other = TopicPartition("u", 0)
    (client,) = world.stable(session_ms=1_000_000)
    value_of(world.commit({TP0: 1, other: 1}, client))
    world.advance(59.9)
    assert cleaner(world) == []
    world.advance(0.1)
    assert cleaner(world) == [other]
    world.join()
    assert world.state is GroupState.PREPARING_REBALANCE
    assert cleaner(world) == []  # Kafka 4: only while it is stable


@pytest.mark.parametrize(
    ("protocol_type", "metadata"), [("connect", subscription("t")), ("consumer", b"no subscription")]
)
def test_offsets_that_may_be_in_use_do_not_expire(protocol_type: str, metadata: bytes) -> None:
    world = retention_world()
    (client,) = world.stable(protocol_type=protocol_type, protocols=(("range", metadata),), session_ms=1_000_000)
    value_of(world.commit({TopicPartition("u", 0): 1}, client))
    world.advance(900)
    assert cleaner(world) == []


def test_a_group_that_never_had_members_counts_from_the_commit() -> None:
    world = retention_world()
    value_of(world.commit({TP0: 1}))
    world.advance(30)
    value_of(world.commit({TP1: 1}))
    world.advance(30)
    assert cleaner(world) == [TP0]
    assert GroupConfig().retention_ms == 7 * 24 * 3600 * 1000


def test_expired_offsets_are_removed_periodically_with_tombstones(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(offsets_retention_minutes=15)
    value_of(world.commit({TP0: 1}))
    world.advance(5)
    value_of(world.commit({TP1: 1}))
    world.advance(1196)
    assert (world.offset(TP0), world.offset(TP1)) == (-1, -1)
    assert world.manager.metrics.expired_offsets == 2
    assert f"Removed 2 expired offsets of group {GROUP} in 0 ms" in caplog.text
    tombstones = [key.partition for key, value in world.storage.offset_records(world.partition()) if value is None]
    assert tombstones == [0, 1]
    assert GroupConfig().offsets_retention_check_interval_ms == 600_000
    assert world.restarted().offset(TP0) == -1


def test_the_log_line_of_an_expiration_has_the_time_of_the_tombstones(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = retention_world()
    value_of(world.commit({TP0: 1}))
    world.advance(61)
    world.storage.hold = True
    world.coordinator._expiration.clean_up()
    assert "expired offsets" not in caplog.text
    world.advance(1.5)
    world.storage.release_all()
    assert f"Removed 1 expired offsets of group {GROUP} in 1500 ms" in caplog.text


def test_an_empty_group_without_offsets_is_removed_with_a_tombstone_if_it_was_registered() -> None:
    world = World()
    (client,) = world.stable()
    world.leave(client)
    group = world.group()
    world.coordinator._expiration.clean_up()
    assert group.state is GroupState.DEAD
    assert world.manager.get_group(GROUP) is None
    assert world.storage.registrations(world.partition())[-1] is None
    assert world.restarted().manager.get_group(GROUP) is None


def test_a_group_that_was_never_registered_is_removed_without_a_tombstone() -> None:
    world = World()
    world.join(protocol_type="")
    assert world.state is GroupState.EMPTY
    world.coordinator._expiration.clean_up()
    assert world.manager.get_group(GROUP) is None
    assert world.storage.appended == []


def test_a_group_with_a_pending_member_id_is_kept() -> None:
    world = World()
    value_of(world.join(require_id=True))
    world.coordinator._expiration.clean_up()
    assert world.manager.get_group(GROUP) is not None


def test_a_clean_up_that_cannot_be_written_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    world = retention_world()
    value_of(world.commit({TP0: 1}))
    world.advance(61)
    world.storage.fail_with = 19
    caplog.set_level(logging.INFO)
    world.coordinator._expiration.clean_up()
    assert world.offset() == 1
    assert "the next search tries again" in caplog.text
    assert "Removed" not in caplog.text
    assert world.manager.metrics.expired_offsets == 0
    world.storage.fail_with = 0
    world.coordinator._expiration.clean_up()
    assert world.manager.get_group(GROUP) is None
    foreign = next(name for name in map(str, range(99)) if world.partition(name) != world.partition())
    world.coordinator.on_resign(world.partition(foreign), None)
    world.manager.add_group(GroupMetadata(foreign, GroupState.EMPTY, world.clock))
    world.coordinator._expiration.clean_up()
    assert world.manager.get_group(foreign) is not None


def test_a_commit_while_the_tombstone_is_written_stays() -> None:
    world = retention_world()
    value_of(world.commit({TP0: 1}))
    world.advance(61)
    world.storage.hold = True
    world.coordinator._expiration.clean_up()
    world.commit({TP0: 2})
    world.storage.release_all()
    assert world.offset() == 2
    assert world.restarted().offset() == 2


def test_a_failed_expiration_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    world.group().protocol_type = "consumer"
    world.group().current_state_timestamp = "broken"  # type: ignore[assignment]
    world.advance(601)
    assert "search for expired offsets failed" in caplog.text
    assert world.timer.next_deadline() is not None


def test_a_group_that_cannot_be_cleaned_up_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    world = retention_world()
    broken = world.manager.add_group(
        GroupMetadata("g" * 40_000, GroupState.EMPTY, world.clock)
    )  # no record can name it
    broken.offsets.initialize({TP0: CommitRecord(0, CommittedOffset(1))}, {})
    value_of(world.commit({TP0: 1}))
    world.advance(61)
    assert world.coordinator._expiration.clean_up() == 1
    assert world.manager.get_group(GROUP) is None
    assert "search for expired offsets failed in group ggg" in caplog.text


# Topics that are deleted


@pytest.mark.parametrize("first", ["commit", "tombstone"])
def test_a_commit_on_its_way_is_removed_with_its_topic(first: str) -> None:
    world = World()
    world.storage.hold = True
    late = world.commit({TP0: 7})
    world.coordinator.on_partitions_deleted([TP0])
    assert [value is None for _, value in world.storage.offset_records(world.partition())] == [False, True]
    world.storage.release(0 if first == "commit" else 1)
    world.storage.release_all()
    assert value_of(late) == {TP0: 0}
    assert not world.group().offsets.has_offsets
    assert world.manager.metrics.deleted_offsets == 1
    assert world.restarted().offset() == -1


def test_offsets_of_a_deleted_topic_stay_if_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    world = retention_world()
    value_of(world.commit({TP0: 1}))
    world.storage.fail_with = 19
    world.coordinator.on_partitions_deleted([TP0])
    assert world.offset() == world.restarted().offset() == 1
    assert "until they expire" in caplog.text
    assert world.manager.metrics.deleted_offsets == 0
    world.storage.fail_with = 0
    world.advance(61)
    world.coordinator._expiration.clean_up()
    assert world.manager.get_group(GROUP) is None
    assert world.restarted().manager.get_group(GROUP) is None


def test_a_deleted_topic_leaves_no_offsets() -> None:
    world = World()
    value_of(world.commit({TP0: 1, TopicPartition("u", 0): 2}))
    value_of(world.commit({TP0: 1}, group="other"))
    world.storage.hold = True
    late = world.commit({TP0: 7})
    world.storage.hold = False
    world.coordinator.on_partitions_deleted([TP0, TP1])
    assert (world.offset(TP0), world.offset(TopicPartition("u", 0))) == (-1, 2)
    assert world.offset(TP0, group="other") == -1
    world.storage.release_all()
    assert value_of(late) == {TP0: 0}
    assert world.offset(TP0) == -1
    again = world.restarted()
    assert (again.offset(TP0), again.offset(TP0, group="other")) == (-1, -1)


# OffsetDelete


def test_deleting_offsets() -> None:
    world = World()
    delete = world.coordinator.delete_offsets
    assert value_of(delete("never", [TP0])) == (Errors.GROUP_ID_NOT_FOUND, {})
    assert value_of(delete("", [TP0])) == (Errors.INVALID_GROUP_ID, {})
    (client,) = world.stable()
    other = TopicPartition("u", 0)
    value_of(world.commit({TP0: 1, other: 2}, client))
    subscribed = Errors.GROUP_SUBSCRIBED_TO_TOPIC
    assert value_of(delete(GROUP, [TP0, other])) == (0, {TP0: subscribed, other: 0})
    assert (world.offset(TP0), world.offset(other)) == (1, -1)
    world.leave(client)
    assert value_of(delete(GROUP, [TP0, TP1])) == (0, {TP0: 0, TP1: 0})
    assert world.offset(TP0) == -1
    assert world.restarted().offset(other) == -1
    assert world.manager.metrics.deleted_offsets == 2


def test_offsets_of_another_protocol_type_are_kept_while_the_group_has_members() -> None:
    world = World()
    world.stable(protocol_type="connect")
    assert value_of(world.coordinator.delete_offsets(GROUP, [TP0])) == (Errors.NON_EMPTY_GROUP, {})


def test_offsets_that_cannot_be_deleted_stay() -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    world.storage.fail_with = 19
    assert value_of(world.coordinator.delete_offsets(GROUP, [TP0])) == (Errors.COORDINATOR_NOT_AVAILABLE, {})
    assert value_of(world.coordinator.delete_groups([GROUP])) == {GROUP: Errors.COORDINATOR_NOT_AVAILABLE}
    assert world.offset() == 1
    assert world.manager.metrics.deleted_offsets == 0


@pytest.mark.parametrize("first", ["commit", "tombstone"])
@pytest.mark.parametrize("before", [True, False])
def test_a_pending_commit_is_deleted_too(first: str, before: bool) -> None:
    world = World()
    if before:
        value_of(world.commit({TP0: 1}))
    world.storage.hold = True
    late = world.commit({TP0: 2})
    deleting = world.coordinator.delete_offsets(GROUP, [TP0])
    world.storage.release(0 if first == "commit" else 1)
    world.storage.release_all()
    assert (value_of(late), value_of(deleting)) == ({TP0: 0}, (0, {TP0: 0}))
    assert world.offset() == world.restarted().offset() == -1


# DeleteGroups


def test_a_commit_on_its_way_is_deleted_with_its_group() -> None:
    world = World()
    value_of(world.commit({TP1: 1}))
    world.storage.hold = True
    late = world.commit({TP0: 2})
    deleting = world.coordinator.delete_groups([GROUP])
    world.storage.release_all()
    assert (value_of(late), value_of(deleting)) == ({TP0: 0}, {GROUP: 0})
    assert world.manager.get_group(GROUP) is None
    assert world.restarted().manager.get_group(GROUP) is None


def test_deleting_groups() -> None:
    world = World()
    world.stable(group="busy")
    (client,) = world.stable()
    value_of(world.commit({TP0: 1}, client))
    world.leave(client)
    value_of(world.coordinator.commit_transactional_offsets(GROUP, 7, 0, {TP1: CommittedOffset(1)}))
    foreign = next(name for name in map(str, range(99)) if world.partition(name) != world.partition())
    world.coordinator.on_resign(world.partition(foreign), None)
    result = value_of(world.coordinator.delete_groups(["busy", GROUP, "never" * 3, foreign]))

    assert result[GROUP] == 0
    assert result["never" * 3] in (Errors.GROUP_ID_NOT_FOUND, Errors.NOT_COORDINATOR)
    assert result[foreign] == Errors.NOT_COORDINATOR
    assert world.manager.get_group(GROUP) is None
    assert world.manager.groups_of_producer(7) == set()
    again = world.restarted()
    assert again.manager.get_group(GROUP) is None
    assert value_of(again.coordinator.delete_groups(["busy"])) == {"busy": Errors.NON_EMPTY_GROUP}


def test_a_group_that_cannot_be_deleted_stays() -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    world.storage.fail_with = 6
    assert value_of(world.coordinator.delete_groups([GROUP])) == {GROUP: Errors.NOT_COORDINATOR}
    assert world.offset() == 1


def test_a_member_that_joins_while_its_group_is_deleted_keeps_the_group() -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    world.storage.hold = True
    deleting = world.coordinator.delete_groups([GROUP])
    world.join()
    world.storage.release_all()
    assert value_of(deleting) == {GROUP: 0}
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.offset() == -1


# Describe and list


def test_describing_a_group() -> None:
    world = World(start=False)
    assert world.coordinator.describe_group(GROUP) == (Errors.COORDINATOR_NOT_AVAILABLE, ("", "", "", ()))
    world.coordinator.start()
    world.lead()
    assert world.coordinator.describe_group(GROUP) == (Errors.GROUP_ID_NOT_FOUND, ("Dead", "", "", ()))
    (client,) = world.stable(instances=["i"])
    error_code, summary = world.coordinator.describe_group(GROUP)
    assert (error_code, summary.state, summary.protocol_type, summary.protocol) == (0, "Stable", "consumer", "range")
    (one,) = summary.members
    assert (one.member_id, one.group_instance_id, one.client_id) == (client.member_id, "i", "c")
    assert (one.metadata, one.assignment) == (subscription("t"), b"a0")


def test_listing_groups() -> None:
    world = World(start=False)
    assert world.coordinator.list_groups() == (Errors.COORDINATOR_NOT_AVAILABLE, [])
    world.coordinator.start()
    world.coordinator.on_become_leader(0, 1)
    assert world.coordinator.list_groups() == (Errors.COORDINATOR_LOAD_IN_PROGRESS, [])
    world.lead()
    assert world.coordinator.list_groups() == (0, [])
    world.stable(group="a")
    value_of(world.commit({TP0: 1}, group="b"))
    listed = world.coordinator.list_groups
    assert listed() == (0, [("a", "consumer", "Stable", "classic"), ("b", "", "Empty", "classic")])
    assert [one.group_id for one in listed(["EMPTY"])[1]] == ["b"]
    assert [one.group_id for one in listed(["stable", "Empty"])[1]] == ["a", "b"]
    assert listed(["no such state"]) == (0, [])
    assert len(listed(types=["Classic"])[1]) == 2
    assert listed(types=["consumer"]) == (0, [])


# Settings


def test_settings_have_kafkas_names_and_defaults() -> None:
    config = GroupConfig()
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6_000, 1_800_000)
    assert (config.group_max_size, config.group_initial_rebalance_delay_ms) == (2**31 - 1, 3_000)
    assert (config.offset_metadata_max_bytes, config.group_new_member_join_timeout_ms) == (4_096, 300_000)
    given = GroupConfig.from_settings({"group.max.size": "7", "log.dirs": "x", "offsets.retention.minutes": 3})
    assert (given.group_max_size, given.retention_ms) == (7, 180_000)
    for wrong in (
        {"group.max.size": "many"},
        {"group.max.size": 0},
        {"group.initial.rebalance.delay.ms": -1},
        {"group.min.session.timeout.ms": 10, "group.max.session.timeout.ms": 9},
    ):
        with pytest.raises(ConfigurationError):
            GroupConfig.from_settings(wrong)


def test_a_group_can_be_printed() -> None:
    world = World()
    world.stable()
    assert "Stable generation 1 of 1" in repr(world.group())
    assert member().summary(None).assignment == b""
    assert CommitRecord(1, CommittedOffset(2)).value.offset == 2
