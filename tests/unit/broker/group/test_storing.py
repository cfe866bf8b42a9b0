"""The manager: storing and fetching offsets, its cache, loads and unloads."""

from __future__ import annotations

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.classic.records import group_record, group_tombstone
from pyconsumer.broker.group.common.offset_records import offset_record, offset_tombstone
from pyconsumer.broker.group.common.offsets import CommitRecord, CommittedOffset
from pyconsumer.errors import Errors
from pyconsumer.protocol.records import scan
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import GROUP, TP0, TP1, MemoryStorage, World, member, value_of
from tests.unit.broker.support import NOW_MS, clean_log, keyed, log_in

LONG = "x" * 4097


def committed(offset: int, metadata: str = "", epoch: int = -1) -> CommittedOffset:
    return CommittedOffset(offset, epoch, metadata)


# Storing


def test_the_partitions_of_one_commit_are_one_batch_in_the_groups_partition() -> None:
    world = World()
    answer = world.commit({TP0: committed(5, "note", 3), TP1: 6})
    assert value_of(answer) == {TP0: 0, TP1: 0}
    ((partition, records),) = world.storage.appended
    assert (partition, len(records)) == (world.partition(), 2)
    first, second = world.storage.offset_records(partition)
    now = world.clock.wall_ms()
    assert (first[0].topic, first[0].partition) == TP0
    assert first[1] is not None
    assert second[1] is not None
    assert (first[1].offset, first[1].leader_epoch, first[1].metadata, first[1].commit_timestamp) == (5, 3, "note", now)
    assert (second[1].offset, second[1].leader_epoch, second[1].metadata) == (6, -1, "")


@pytest.mark.parametrize(
    ("metadata", "error_code"),
    [("x" * 4096, 0), (LONG, 12), ("é" * 4096, 0), ("😀" * 2048, 0), ("😀" * 2048 + "x", 12)],
)
def test_the_length_of_metadata_is_bounded(metadata: str, error_code: int) -> None:
    world = World()
    assert value_of(world.commit({TP0: committed(1, metadata)})) == {TP0: error_code}
    assert world.offset() == (-1 if error_code else 1)


def test_without_valid_offsets_no_record_is_written() -> None:
    world = World()
    assert value_of(world.commit({TP0: committed(1, LONG)})) == {TP0: Errors.OFFSET_METADATA_TOO_LARGE}
    assert value_of(world.commit({})) == {}
    assert world.storage.appended == []
    assert not world.group().offsets.has_offsets


def test_one_over_long_metadata_does_not_spoil_the_others_or_stay_pending() -> None:
    world = World()
    answer = world.commit({TP0: committed(1, LONG), TP1: 2})
    assert value_of(answer) == {TP0: Errors.OFFSET_METADATA_TOO_LARGE, TP1: 0}
    found = world.fetch([TP0, TP1], stable=True)
    assert (found[TP0].error_code, found[TP0].offset, found[TP1].offset) == (0, -1, 2)


def test_a_broker_that_is_not_coordinator_stores_no_offset() -> None:
    world = World()
    group = world.manager.get_or_maybe_create_group(GROUP, True)
    assert group is not None
    world.coordinator.on_resign(world.partition(), None)
    kept = {TP0: committed(1, LONG), TP1: committed(2)}
    stored = world.manager.store_offsets(group, "m", kept)
    assert value_of(stored) == {TP0: Errors.NOT_COORDINATOR, TP1: Errors.NOT_COORDINATOR}
    assert value_of(world.manager.store_group(group, {})) == Errors.NOT_COORDINATOR
    assert not group.offsets.has_offsets
    assert world.storage.appended == []


def test_offsets_are_staged_then_written_then_seen() -> None:
    world = World()
    world.storage.hold = True
    answer = world.commit({TP0: 1, TP1: 2})
    assert not answer.done
    assert set(world.group().offsets.pending) == {TP0, TP1}
    assert world.offset() == -1
    assert world.manager.metrics.committed_offsets == 0
    world.storage.release()
    assert world.manager.metrics.committed_offsets == 2
    assert value_of(answer) == {TP0: 0, TP1: 0}
    assert world.group().offsets.pending == {}
    positions = {record.appended_batch_offset for record in world.group().offsets.committed.values()}
    assert positions == {0}


@pytest.mark.parametrize(
    ("append_error", "expected_code"),
    [
        (3, Errors.COORDINATOR_NOT_AVAILABLE),
        (19, Errors.COORDINATOR_NOT_AVAILABLE),
        (20, Errors.COORDINATOR_NOT_AVAILABLE),
        (6, Errors.NOT_COORDINATOR),
        (56, Errors.NOT_COORDINATOR),
        (10, Errors.UNKNOWN_SERVER_ERROR),
        (18, Errors.UNKNOWN_SERVER_ERROR),
        (4, Errors.UNKNOWN_SERVER_ERROR),
        (87, 87),
    ],
)
def test_a_failed_commit_leaves_the_old_offset(append_error: int, expected_code: int) -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    world.storage.fail_with = append_error
    assert value_of(world.commit({TP0: 2})) == {TP0: expected_code}
    assert world.offset() == 1
    assert world.group().offsets.pending == {}
    assert world.manager.metrics.committed_offsets == 1


@pytest.mark.parametrize("error_code", [0, 19])
def test_a_commit_that_ends_in_a_dead_group_has_no_effect(error_code: int) -> None:
    world = World()
    world.storage.hold = True
    answer = world.commit({TP0: 1})
    group = world.group()
    group.transition_to(GroupState.DEAD)
    world.storage.release(0, error_code or None)
    assert value_of(answer) == {TP0: Errors.COORDINATOR_NOT_AVAILABLE if error_code else 0}
    assert group.offsets.committed == {}


def test_overlapping_commits_that_end_in_reverse() -> None:
    world = World()
    world.storage.hold = True
    first, second = world.commit({TP0: 1}), world.commit({TP0: 2})
    world.storage.release(1)
    assert world.offset() == 2
    world.storage.release(0)
    assert (value_of(first), value_of(second)) == ({TP0: 0}, {TP0: 0})
    assert world.offset() == 2
    assert world.group().offsets.pending == {}


def test_a_failing_log_is_an_error_response(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.storage.raises = OSError("disk gone")
    assert value_of(world.commit({TP0: 1})) == {TP0: Errors.UNKNOWN_SERVER_ERROR}
    assert world.group().offsets.pending == {}
    assert "disk gone" in caplog.text


def test_plain_and_transactional_commits_in_one_generation_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    assert "both" not in caplog.text
    value_of(world.coordinator.commit_transactional_offsets(GROUP, 7, 0, {TP1: committed(1)}))
    assert "both plain and transactional" in caplog.text


def test_a_later_failed_commit_undoes_only_itself() -> None:
    world = World()
    world.storage.hold = True
    first = world.commit({TP0: 1})
    world.storage.hold, world.storage.fail_with = False, 19
    assert value_of(world.commit({TP0: 2})) == {TP0: Errors.COORDINATOR_NOT_AVAILABLE}
    waiting = world.coordinator.fetch_offsets(GROUP, [TP0], require_stable=True)
    assert not waiting.done
    world.storage.release()
    assert value_of(first) == {TP0: 0}
    assert value_of(waiting)[1][TP0].offset == world.offset() == world.restarted().offset() == 1


def test_a_commit_that_no_record_can_hold_is_not_staged() -> None:
    world = World()
    assert value_of(world.commit({TP0: 2**63})) == {TP0: Errors.UNKNOWN_SERVER_ERROR}
    broken = {TP0: CommittedOffset(2**63)}
    answer = world.coordinator.commit_transactional_offsets(GROUP, 7, 0, broken)
    assert value_of(answer) == {TP0: Errors.UNKNOWN_SERVER_ERROR}
    assert not world.group().offsets.has_offsets
    assert world.manager.groups_of_producer(7) == set()
    assert world.fetch([TP0], stable=True)[TP0].offset == -1


# Fetching


def test_which_offsets_a_fetch_finds() -> None:
    world = World()
    assert world.fetch([TP0], group="never")[TP0] == (-1, -1, "", 0)
    assert world.fetch(None, group="never") == {}
    value_of(world.commit({TP0: committed(5, "m", 9)}))
    assert world.fetch([TP0, TP1]) == {TP0: (5, 9, "m", 0), TP1: (-1, -1, "", 0)}
    assert list(world.fetch(None)) == [TP0]
    assert world.fetch([]) == {}


def test_a_fetch_checks_the_group_but_not_its_state() -> None:
    world = World()
    (client,) = world.stable()
    value_of(world.commit({TP0: 5}, client))
    world.join()
    assert world.state is GroupState.PREPARING_REBALANCE
    assert world.offset() == 5
    world.group().transition_to(GroupState.DEAD)
    assert world.offset() == -1
    assert world.fetch(None) == {}


def test_a_stable_fetch_waits_for_commits_on_their_way_and_others_do_not() -> None:
    """Kafka 4 makes the request wait. The 2.7 of the requirement list answered UNSTABLE_OFFSET_COMMIT."""
    world = World()
    value_of(world.commit({TP0: 1, TP1: 1}))
    world.storage.hold = True
    world.commit({TP0: 2})
    assert world.offset() == 1
    assert world.fetch([TP1], stable=True)[TP1].offset == 1
    waiting = world.coordinator.fetch_offsets(GROUP, [TP0, TP1], require_stable=True)
    all_of_them = world.coordinator.fetch_offsets(GROUP, None, require_stable=True)
    assert not waiting.done
    assert not all_of_them.done
    world.storage.release()
    assert value_of(waiting)[1][TP0].offset == 2
    assert value_of(all_of_them)[1][TP0].offset == 2


def test_a_stable_fetch_that_waits_is_sent_away_with_its_group() -> None:
    world = World()
    world.storage.hold = True
    world.commit({TP0: 2})
    waiting = world.coordinator.fetch_offsets(GROUP, [TP0], require_stable=True)
    world.coordinator.on_resign(world.partition(), 2)
    world.advance(0)
    assert value_of(waiting) == (Errors.NOT_COORDINATOR, {})


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("reload", ["never", "before the marker", "after the marker"])
def test_offsets_of_a_transaction(commit: bool, reload: str) -> None:
    world = World()
    value_of(world.commit({TP0: 1}))
    answer = world.coordinator.commit_transactional_offsets(GROUP, 7, 0, {TP0: committed(5)})
    assert value_of(answer) == {TP0: 0}
    if reload == "before the marker":
        world = world.restarted()
    assert world.offset() == 1
    assert world.fetch([TP0, TP1], stable=True)[TP0].error_code == Errors.UNSTABLE_OFFSET_COMMIT
    assert world.fetch([TP0, TP1], stable=True)[TP1].error_code == 0
    assert world.manager.groups_of_producer(7) == {GROUP}
    world.storage.write_marker(world.partition(), 7, commit=commit)
    if reload == "after the marker":
        world = world.restarted()
    else:
        world.coordinator.on_transaction_completed(7, [world.partition()], commit=commit)
    assert world.fetch([TP0], stable=True)[TP0].offset == (5 if commit else 1)
    assert world.manager.groups_of_producer(7) == set()


def test_an_unloaded_group_leaves_no_trace_of_its_transactions() -> None:
    world = World()
    value_of(world.coordinator.commit_transactional_offsets(GROUP, 7, 0, {TP0: committed(5)}))
    world.coordinator.on_resign(world.partition(), None)
    world.advance(0)
    assert world.manager.groups_of_producer(7) == set()


def test_a_transactional_commit_that_fails_is_forgotten() -> None:
    world = World()
    world.storage.fail_with = 19
    answer = world.coordinator.commit_transactional_offsets(GROUP, 7, 0, {TP0: committed(5)})
    assert value_of(answer) == {TP0: Errors.COORDINATOR_NOT_AVAILABLE}
    assert world.manager.groups_of_producer(7) == set()
    assert not world.group().offsets.has_offsets
    world.coordinator.on_transaction_completed(7, [world.partition()], commit=True)


def test_an_offset_of_an_earlier_topic_of_the_same_name_does_not_count() -> None:
    world = World()
    old, new = bytes([1] * 16), bytes([2] * 16)
    value_of(world.commit({TP0: CommittedOffset(5, topic_id=old)}))
    fetch = world.coordinator.fetch_offsets
    assert value_of(fetch(GROUP, [TP0], topic_ids={"t": new}))[1][TP0].offset == -1
    assert value_of(fetch(GROUP, [TP0], topic_ids={"t": old}))[1][TP0].offset == 5
    assert value_of(fetch(GROUP, [TP0]))[1][TP0].offset == 5
    value_of(world.commit({TP0: 6}))
    assert value_of(fetch(GROUP, [TP0], topic_ids={"t": new}))[1][TP0].offset == 6


# The cache


def test_the_cache_never_replaces_a_group() -> None:
    world = World()
    manager = world.manager
    assert manager.get_group(GROUP) is None
    assert manager.get_or_maybe_create_group(GROUP, False) is None
    group = manager.get_or_maybe_create_group(GROUP, True)
    assert group is not None
    assert group.state is GroupState.EMPTY
    assert manager.get_or_maybe_create_group(GROUP, True) is group
    other = GroupMetadata(GROUP, GroupState.EMPTY, world.clock)
    assert manager.add_group(other) is group
    manager.remove_group(other)
    assert manager.get_group(GROUP) is group
    manager.remove_group(group)
    assert manager.get_group(GROUP) is None


def test_the_topics_own_partition_count_counts() -> None:
    storage = MemoryStorage(World().clock, 7)
    world = World(storage=storage, start=False)
    assert world.coordinator.partition_for("testgroup") == 1172783827 % 7
    assert not world.manager.is_local(GROUP)
    world.coordinator.on_become_leader(world.partition(), 1)
    assert world.manager.is_loading(GROUP)
    assert not world.manager.is_local(GROUP)
    world.advance(0)
    assert not world.manager.is_loading(GROUP)
    assert world.manager.is_local(GROUP)


# Loading


def test_a_partition_is_loading_then_owned() -> None:
    world = World(start=False)
    world.coordinator.on_become_leader(3, 1)
    world.coordinator.on_become_leader(3, 1)
    assert (world.manager.loading_partitions, world.manager.owned_partitions) == ({3}, set())
    world.advance(0)
    assert (world.manager.loading_partitions, world.manager.owned_partitions) == (set(), {3})


COMMIT = [offset_record(GROUP, TP0, CommittedOffset(1, commit_timestamp=1))]
LATER = [offset_record(GROUP, TP0, CommittedOffset(2, commit_timestamp=2))]
GONE = [offset_tombstone(GROUP, TP0)]


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    ("sequence", "offset"),
    [
        ([COMMIT], 1),
        ([COMMIT, LATER], 2),
        ([COMMIT, GONE], -1),
        ([GONE, COMMIT], 1),
        ([COMMIT, GONE, LATER], 2),
        ([GONE], -1),
    ],
)
def test_the_order_of_commits_and_tombstones(sequence: list, offset: int, apart: bool) -> None:  # type: ignore[type-arg]
    world = World(start=False)
    batches = sequence if apart else [[record for batch in sequence for record in batch]]
    for batch in batches:
        world.storage.write(world.partition(), batch)
    world.coordinator.start()
    world.lead()
    assert world.offset() == offset
    assert (world.manager.get_group(GROUP) is not None) == (offset != -1)


def stored_group(world: World, generation: int) -> list[tuple[bytes, bytes | None]]:
    group = GroupMetadata.loaded(
        GROUP,
        world.clock,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="m0",
        state_timestamp=5,
        members=[member("m0")],
    )
    return [group_record(group, {"m0": b"a"})]


@pytest.mark.parametrize("sequence", ["rtr", "rt", "rt+offset", "rt+txn", "offset+r"])
def test_the_order_of_registrations_and_tombstones(sequence: str) -> None:
    world = World(start=False)
    here = world.partition()
    dead = [group_tombstone(GROUP)]
    if sequence == "offset+r":
        world.storage.write(here, COMMIT)
    world.storage.write(here, stored_group(world, 1))
    if sequence != "offset+r":
        world.storage.write(here, dead)
    if sequence == "rtr":
        world.storage.write(here, stored_group(world, 4))
    if sequence == "rt+offset":
        world.storage.write(here, COMMIT)
    if sequence == "rt+txn":
        world.storage.write(here, COMMIT, producer_id=7, producer_epoch=0)
    world.coordinator.start()
    world.lead()
    group = world.manager.get_group(GROUP)
    if sequence == "rt":
        assert group is None
        return
    assert group is not None
    if sequence in ("rtr", "offset+r"):
        assert (group.state, group.generation_id) == (GroupState.STABLE, 4 if sequence == "rtr" else 1)
        assert group.protocol_type == "consumer"
    else:
        assert (group.state, group.generation_id, group.protocol_type) == (GroupState.EMPTY, 0, None)
    if sequence in ("rt+offset", "offset+r"):
        assert world.offset() == 1
    if sequence == "rt+txn":
        assert group.offsets.has_pending_transactional(TP0)


def test_a_load_takes_several_steps_and_warns_of_a_piece_over_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    world = World(start=False, offsets_load_buffer_size=200)
    here = world.partition()
    for index in range(5):
        world.storage.write(here, [offset_record(GROUP, TP0, CommittedOffset(index, metadata="x" * 50))])
    world.storage.write(here, [offset_record(GROUP, TP1, CommittedOffset(77, metadata="y" * 400))])
    world.coordinator.start()
    world.coordinator.on_become_leader(here, 1)
    world.timer.run_due(world.clock.now())
    assert world.manager.loading_partitions == {here}
    world.advance(1)
    assert (world.offset(TP0), world.offset(TP1)) == (4, 77)
    assert "offsets.load.buffer.size" in caplog.text


def test_only_a_batch_larger_than_earlier_ones_is_warned_about_again(caplog: pytest.LogCaptureFixture) -> None:
    world = World(start=False, offsets_load_buffer_size=200)
    here = world.partition()
    for length in (400, 400, 300, 500):
        world.storage.write(here, [offset_record(GROUP, TP0, CommittedOffset(length, metadata="x" * length))])
    sizes = [len(batch) for batch in world.storage.batches[here]]
    world.coordinator.start()
    world.lead()
    assert world.offset() == 500
    warned = [text for text in caplog.messages if "offsets.load.buffer.size" in text]
    assert len(warned) == 2
    for text, size in zip(warned, (sizes[0], sizes[3]), strict=True):
        assert str(size) in text
        assert "200" in text


def test_a_load_ends_with_the_log_or_the_leadership() -> None:
    world = World(start=False)
    here = world.partition()
    world.storage.write(here, COMMIT)
    world.storage.batches[here].append(b"")  # a read that returns nothing
    world.storage.write(here, LATER)
    world.coordinator.start()
    world.lead()
    assert world.offset() == 1
    world.storage.leads.clear()
    world.coordinator.on_resign(here, 2)
    world.coordinator.on_become_leader(here, 3)
    world.advance(0)
    assert world.manager.get_group(GROUP) is None
    assert here in world.manager.owned_partitions


def test_unknown_record_types_are_skipped() -> None:
    world = World(start=False)
    here = world.partition()
    world.storage.write(here, [(b"\0\x11\0\x01a", b"\0\0whatever"), *COMMIT, (b"\0\x0f\0\x01a", None)])
    world.storage.write_marker(here, 99, commit=True)
    world.coordinator.start()
    world.lead()
    assert world.offset() == 1
    assert world.restarted().offset() == 1


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1broken"])
def test_a_load_that_fails_leaves_the_groups_without_a_coordinator(
    key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(start=False)
    here = world.partition()
    world.storage.write(here, COMMIT)
    world.storage.write(here, [(key, b"")])
    world.coordinator.start()
    world.lead()
    assert here not in world.manager.owned_partitions
    assert world.manager.loading_partitions == set()
    assert value_of(world.commit({TP0: 1})) == {TP0: Errors.NOT_COORDINATOR}
    assert f"Loading __consumer_offsets-{here} failed" in caplog.text
    world.storage.batches[here].pop()
    world.lead(2, [here])
    assert world.offset() == 1


def test_loaded_members_have_one_session_to_show_up() -> None:
    world = World()
    alive, dead = world.stable(2)
    moved = world.restarted()
    moved.advance(9)
    assert moved.heartbeat(alive) == 0
    moved.advance(1.2)
    assert not moved.group().has(dead.member_id)
    assert moved.state is GroupState.PREPARING_REBALANCE


def test_the_first_record_that_compaction_left_is_the_place_of_its_batch() -> None:
    world = World(start=False)
    here = world.partition()
    log = log_in(None, compact=True, delete=False, segment_bytes=150)
    for commits in ([(TP1, 1), (TP0, 2)], [(TP1, 3)], [(TP1, 4)]):
        log.append(keyed(*(offset_record(GROUP, tp, CommittedOffset(offset)) for tp, offset in commits)), 0)
    clean_log(log, NOW_MS)
    batches = [bytes(data) for segment in log.segments for _, data in segment.batches()]
    (first,) = scan(batches[0])
    assert (first.base_offset, first.record_count) == (0, 1), "the batch keeps its base, its first record is gone"
    world.storage.batches[here] = batches
    world.coordinator.start()
    world.lead()
    assert world.offset(TP0) == 2
    assert world.group().offsets.committed[TP0].appended_batch_offset == 1
    assert world.group().offsets.committed[TP1].appended_batch_offset == 3


def test_the_order_of_commits_is_known_after_a_load() -> None:
    world = World(start=False)
    here = world.partition()
    two = [offset_record(GROUP, TP1, CommittedOffset(1)), *COMMIT]
    world.storage.write(here, two, producer_id=7, producer_epoch=0)
    world.storage.write(here, LATER)
    world.coordinator.start()
    world.lead()
    assert world.group().offsets.pending_transactional[7][TP0].appended_batch_offset == 0
    assert world.group().offsets.committed[TP0].appended_batch_offset == 2
    world.coordinator.on_transaction_completed(7, [here], commit=True)
    assert (world.offset(TP0), world.offset(TP1)) == (2, 1)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_in_the_log(commit: bool) -> None:
    world = World(start=False)
    here = world.partition()
    world.storage.write(here, LATER, producer_id=7, producer_epoch=0)
    world.storage.write(here, COMMIT)
    world.storage.write(here, [offset_record(GROUP, TP1, CommittedOffset(9))], producer_id=7, producer_epoch=0)
    world.storage.write_marker(here, 7, commit=commit)
    world.coordinator.start()
    world.lead()
    assert world.offset(TP0) == 1  # it is later in the log than the transaction's
    assert world.offset(TP1) == (9 if commit else -1)


def test_a_loaded_group_does_not_replace_a_cached_one() -> None:
    world = World()
    cached = world.manager.get_or_maybe_create_group(GROUP, True)
    loaded = GroupMetadata(GROUP, GroupState.EMPTY, world.clock)
    loaded.offsets.initialize({TP0: CommitRecord(1, committed(1))}, {7: {TP0: CommitRecord(2, committed(2))}})
    assert not world.manager.load_group(loaded)
    assert world.manager.get_group(GROUP) is cached
    assert world.manager.groups_of_producer(7) == set()


def test_a_removed_group_that_is_cached_fails_the_load() -> None:
    world = World(start=False)
    here = world.partition()
    world.storage.write(here, [group_tombstone(GROUP)])
    world.coordinator.start()
    world.manager.add_group(GroupMetadata(GROUP, GroupState.EMPTY, world.clock))
    world.coordinator.on_become_leader(here, 1)
    world.advance(0)
    assert here not in world.manager.owned_partitions


# Unloading


def test_unloading_is_scheduled_and_clears_the_cache_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    (client,) = world.stable()
    value_of(world.commit({TP0: 1, TP1: 1}, client))
    group, here = world.group(), world.partition()
    beside = next(name for name in map(str, range(999)) if world.partition(name) == here)
    value_of(world.commit({TP0: 1}, group=beside))
    elsewhere = next(name for name in map(str, range(999)) if world.partition(name) != here)
    value_of(world.commit({TP0: 1}, group=elsewhere))
    before = list(world.storage.batches[here])
    world.coordinator.on_resign(here, 2)
    assert here not in world.manager.owned_partitions
    assert world.manager.get_group(GROUP) is group
    world.advance(0)
    assert world.manager.get_group(GROUP) is None
    assert group.state is GroupState.DEAD
    assert world.storage.batches[here] == before
    assert f"Unloaded __consumer_offsets-{here}: removed 3 cached offsets and 2 groups" in caplog.text
    world.advance(100)


def test_old_leadership_changes_are_ignored() -> None:
    world = World()
    here = world.partition()
    world.stable()
    world.lead(5, [here])
    world.coordinator.on_resign(here, 4)
    world.advance(0)
    assert here in world.manager.owned_partitions
    world.coordinator.on_resign(here, 6)
    world.coordinator.on_resign(here, 6)
    world.coordinator.on_become_leader(here, 7)
    world.advance(0)
    assert here in world.manager.owned_partitions
    assert world.state is GroupState.STABLE


def test_a_load_is_cancelled_when_the_leadership_moves_or_the_broker_stops() -> None:
    world = World(start=False, offsets_load_buffer_size=1)
    here = world.partition()
    for _ in range(3):
        world.storage.write(here, COMMIT)
    world.coordinator.start()
    world.coordinator.on_become_leader(here, 1)
    world.timer.run_due(world.clock.now())
    world.coordinator.on_resign(here, 2)
    world.advance(1)
    assert world.manager.owned_partitions == set()
    assert world.manager.get_group(GROUP) is None
    world.coordinator.on_become_leader(here, 3)
    world.timer.run_due(world.clock.now())
    world.coordinator.on_become_leader(here, 4)  # from the beginning
    world.coordinator.shutdown()
    world.advance(1)
    assert world.manager.owned_partitions == set()
    assert len(world.timer) == 0


def test_deferreds_of_the_manager_are_set_once() -> None:
    world = World()
    world.storage.hold = True
    answer = world.commit({TopicPartition("t", 9): 1})
    world.storage.release_all()
    assert isinstance(answer, Deferred)
    with pytest.raises(RuntimeError):
        answer.set({})
