"""Tests of the coordinator's structure, and of items of the list about the whole."""

from __future__ import annotations

import importlib

import pytest

from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.manager import GroupMetadataManager
from pyconsumer.errors import BY_CODE, Errors, error_name
from pyconsumer.protocol.records import iter_records, scan
from tests.unit.broker.group.support import GROUP, TP0, TP1, World, client_of, value_of


def test_a_coordinator_has_one_manager_without_protocol_logic() -> None:
    world = World()
    assert isinstance(world.coordinator.manager, GroupMetadataManager)
    assert world.coordinator.manager is world.manager
    world.stable(3)
    assert {member.group_id for member in world.group().members.values()} == {GROUP}


@pytest.mark.parametrize(
    "name",
    [
        "offset_commit",
        "offset_fetch",
        "find_coordinator",
        "join_group",
        "heartbeat",
        "leave_group",
        "sync_group",
        "describe_groups",
        "list_groups",
        "delete_groups",
        "offset_delete",
    ],
)
def test_every_group_request_has_a_handler(name: str) -> None:
    assert callable(importlib.import_module(f"pyconsumer.broker.handlers.{name}").handle)


def test_the_path_of_a_group() -> None:
    world = World()
    seen = []
    value_of(world.join(require_id=True))
    seen.append(world.state)
    waiting = world.join()
    seen.append(world.state)
    another = world.join()
    assert (waiting.done, another.done, world.group().size) == (False, False, 2), "both are joining"
    world.group().pending_members.clear()
    world.advance(6)
    seen.append(world.state)
    value_of(world.sync(client_of(waiting), {}))
    seen.append(world.state)
    assert seen == [
        GroupState.EMPTY,
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ]


def test_metrics_of_groups() -> None:
    world = World()
    clients = world.stable(2)
    value_of(world.commit({TP0: 1, TP1: 2}, clients[0]))
    value_of(world.commit({TP0: 1}, group="other"))
    metrics = world.manager.metrics
    assert (metrics.completed_rebalances, metrics.committed_offsets, metrics.expired_offsets) == (1, 3, 0)
    assert world.manager.offset_count == 3
    assert sorted(group.state.value for group in world.manager.groups) == ["Empty", "Stable"]
    value_of(world.coordinator.delete_groups(["other"]))
    assert metrics.deleted_offsets == 1
    assert world.restarted().manager.metrics.load_time_ms >= 0


def test_a_registration_is_a_batch_of_one_in_the_groups_partition() -> None:
    world = World()
    world.stable()
    (batch,) = world.storage.batches[world.partition()]
    (info,) = scan(batch)
    (record,) = iter_records(batch)
    assert (info.record_count, info.magic, info.is_transactional, info.timestamp_type) == (1, 2, False, 0)
    assert record.timestamp == world.clock.wall_ms()
    assert record.key is not None


def test_tombstones_of_both_kinds() -> None:
    world = World()
    (client,) = world.stable()
    value_of(world.commit({TP0: 1}, client))
    world.leave(client)
    value_of(world.coordinator.delete_groups([GROUP]))
    records = [record for batch in world.storage.batches[world.partition()] for record in iter_records(batch)]
    assert all(record.key for record in records)
    offset, group = records[-2:]
    assert (offset.value, group.value) == (None, None)
    assert (offset.key or b"")[:2] == b"\0\1"
    assert (group.key or b"")[:2] == b"\0\2"
    # Every key that was ever written has a tombstone as its last record: compaction can drop it all.
    last = {record.key: record.value for record in records}
    assert set(last.values()) == {None}


def test_the_log_is_read_when_leadership_comes_and_never_else() -> None:
    world = World()
    reads: list[int] = []
    original = world.storage.read
    world.storage.read = lambda partition: (reads.append(partition), original(partition))[1]  # type: ignore[func-returns-value,method-assign]
    value_of(world.commit({TP0: 1}))
    assert world.offset() == 1
    world.fetch(None, stable=True)
    assert reads == []
    world.coordinator.on_resign(world.partition(), None)
    world.lead(9, [world.partition()])
    assert reads == [world.partition()]


def test_paths_of_a_join() -> None:
    world = World()
    assert value_of(world.join("mine", group="")).member_id == "mine"
    known = world.stable(1, instances=["i"])[0]
    assert value_of(world.join(instance="i", require_id=True)).error_code == 0  # a known static member
    assert value_of(world.join(require_id=True)).error_code == Errors.MEMBER_ID_REQUIRED
    assert not world.join(require_id=False).done
    assert world.heartbeat(known) == Errors.FENCED_INSTANCE_ID


def test_a_fenced_member_may_not_sync() -> None:
    world = World()
    (static,) = world.stable(1, instances=["i"])
    value_of(world.join(instance="i"))
    assert value_of(world.sync(static)).error_code == Errors.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("spec_id", "name", "code"),
    [
        ("broker:ERR-02", "COORDINATOR_LOAD_IN_PROGRESS", 14),
        ("broker:ERR-03", "COORDINATOR_NOT_AVAILABLE", 15),
        ("broker:ERR-04", "NOT_COORDINATOR", 16),
        ("broker:ERR-05", "ILLEGAL_GENERATION", 22),
        ("broker:ERR-06", "INCONSISTENT_GROUP_PROTOCOL", 23),
        ("broker:ERR-07", "INVALID_GROUP_ID", 24),
        ("broker:ERR-08", "UNKNOWN_MEMBER_ID", 25),
        ("broker:ERR-09", "INVALID_SESSION_TIMEOUT", 26),
        ("broker:ERR-10", "REBALANCE_IN_PROGRESS", 27),
        ("broker:ERR-12", "OFFSET_METADATA_TOO_LARGE", 12),
        ("broker:ERR-14", "MEMBER_ID_REQUIRED", 79),
        ("broker:ERR-15", "GROUP_MAX_SIZE_REACHED", 81),
        ("broker:ERR-16", "FENCED_INSTANCE_ID", 82),
        ("broker:ERR-17", "UNSTABLE_OFFSET_COMMIT", 88),
        ("broker:ERR-19", "NON_EMPTY_GROUP", 68),
        ("broker:ERR-19", "GROUP_ID_NOT_FOUND", 69),
        ("broker:ERR-19", "GROUP_SUBSCRIBED_TO_TOPIC", 86),
        ("broker:ERR-01", "NONE", 0),
    ],
)
def test_error_codes(spec_id: str, name: str, code: int) -> None:
    assert Errors[name] == code
    assert error_name(code) == name
    assert code == 0 or BY_CODE[code].code_name == name
    assert error_name(12345) == "12345"


def test_settings_of_the_internal_topic() -> None:
    config = BrokerConfig()
    assert config.integer("offsets.topic.num.partitions") == 50
    assert config.integer("offsets.topic.compression.codec") == 0
    assert config.integer("offsets.topic.segment.bytes") == 100 * 1024 * 1024
    assert config.integer("offsets.topic.replication.factor") == 3
    assert config.integer("offsets.commit.timeout.ms") == 5000
    assert config.integer("offset.metadata.max.bytes") == GroupConfig().offset_metadata_max_bytes


def test_groups_keep_their_partition_if_the_topic_grows() -> None:
    world = World()
    before = world.partition("testgroup")
    world.storage.partitions = 50
    world.lead(2, [before])
    assert world.partition("testgroup") == before != 27


def test_each_request_changes_a_group_atomically() -> None:
    """One loop replaces the lock: a client finds the group in its state after the whole request."""
    world = World()
    first, second = world.stable(2)
    seen = []
    for answer in (world.rejoin(first), world.rejoin(second)):
        answer.on_done(lambda _: seen.append((world.state, world.group().generation_id, len(world.group().members))))
    world.commit({TP0: 1}, group="other").on_done(lambda _: seen.append(world.offset(TP0, group="other")))
    assert seen == [(GroupState.COMPLETING_REBALANCE, 2, 2), (GroupState.COMPLETING_REBALANCE, 2, 2), 1]


def test_a_client_that_repeats_find_coordinator_finds_the_group() -> None:
    world = World()
    (client,) = world.stable()
    world.coordinator.on_resign(world.partition(), 2)
    assert world.heartbeat(client) == Errors.NOT_COORDINATOR
    elsewhere = World(storage=world.storage, start=False)
    elsewhere.coordinator.start()
    elsewhere.coordinator.on_become_leader(world.partition(), 2)
    assert value_of(elsewhere.commit({TP0: 1}, client)) == {TP0: Errors.COORDINATOR_LOAD_IN_PROGRESS}
    elsewhere.advance(0.1)
    assert value_of(elsewhere.commit({TP0: 1}, client)) == {TP0: 0}


def test_the_coordinator_hands_the_subscriptions_to_the_leader_and_its_plan_to_all() -> None:
    world = World()
    waiting = [world.join(protocols=(("range", name.encode()),)) for name in ("one", "two")]
    world.advance(6)
    leader, follower = (client_of(answer) for answer in waiting)
    assert [one.metadata for one in value_of(waiting[0]).members] == [b"one", b"two"]
    awaited = world.sync(follower, {follower.member_id: b"its own", leader.member_id: b"its own"})
    value_of(world.sync(leader, {follower.member_id: b"plan"}))
    assert value_of(awaited).assignment == b"plan"
    (registration,) = world.storage.registrations(world.partition())
    assert registration is not None
    assert (registration.protocol_type, registration.protocol) == ("consumer", "range")


def test_the_leader_stays_until_it_leaves_and_does_not_select_the_protocol() -> None:
    world = World()
    both = (("a", b""), ("b", b""))
    first, second, third = world.stable(3, protocols=both)
    value_of(world.commit({TP0: 1}, first))
    world.leave(third)
    world.join(first.member_id, protocols=both)
    assert value_of(world.join(second.member_id, protocols=both)).leader == first.member_id
    # The leader prefers a and still gets b, for which both can vote: nobody assigns but the leader, with b.
    world.join(second.member_id, protocols=both[1:])
    answer = value_of(world.join(first.member_id, protocols=both))
    assert (answer.protocol_name, answer.leader, len(answer.members)) == ("b", first.member_id, 2)
    world.leave(first)
    assert value_of(world.join(second.member_id, protocols=both[1:])).leader == second.member_id
    world.leave(second)
    assert world.group().leader_id is None


def test_triggers_of_a_rebalance() -> None:
    """Joining, leaving, a session timeout and a request of the leader are triggers. Heartbeats are not."""
    for trigger in ("nothing", "join", "leave", "silence", "leader"):
        world = World()
        leader, follower = world.stable(2)
        if trigger == "join":
            world.join()
        elif trigger == "leave":
            world.leave(follower)
        elif trigger == "leader":
            world.rejoin(leader)
        for _ in range(5):
            world.advance(3)
            world.heartbeat(leader)
            if trigger != "silence":
                world.heartbeat(follower)
        assert (world.state is GroupState.STABLE) == (trigger == "nothing")


def test_the_two_ways_of_joining() -> None:
    world = World()
    (client,) = world.stable()
    lost = value_of(world.join(require_id=True))
    again = value_of(world.join(require_id=True))
    assert lost.member_id != again.member_id
    assert world.group().size == 1  # ids whose answers were lost are no members
    assert not world.join(again.member_id, require_id=True).done
    assert world.group().size == 2
    assert value_of(world.join("who")).error_code == Errors.UNKNOWN_MEMBER_ID
    assert world.heartbeat(client) == Errors.REBALANCE_IN_PROGRESS


@pytest.mark.slow
def test_two_coordinators_over_one_log_agree() -> None:
    """Random commits, deletions and restarts: the offsets in memory equal those in the log."""
    world = World(offsets_retention_minutes=1)
    for number in range(200):
        partition = (TP0, TP1)[number % 2]
        group = f"g{number % 3}"
        if number % 7 == 3:
            value_of(world.coordinator.delete_offsets(group, [partition]))
        elif number % 11 == 5:
            world.coordinator.on_partitions_deleted([partition])
        elif number % 13 == 6:
            world.advance(61)
            world.coordinator._expiration.clean_up()
        else:
            value_of(world.commit({partition: CommittedOffset(number)}, group=group))
        again = World(storage=world.storage)
        for name in ("g0", "g1", "g2"):
            assert again.fetch(None, group=name) == world.fetch(None, group=name)
