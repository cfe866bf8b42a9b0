"""Partitions of ``__share_group_state`` and ``__consumer_offsets`` that Apache Kafka 4.3.1 wrote, loaded by ours.

``tests/vectors/make_share_log.py`` made them. Each record that Kafka's classes wrote is also encoded by ours, to the
same bytes.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.group.loading import PartitionLoader
from pyconsumer.broker.group.share.group import ShareGroup
from pyconsumer.broker.share.config import ShareConfig
from pyconsumer.broker.share.coordinator import ShareCoordinator
from pyconsumer.broker.share.state import ACKNOWLEDGED, Batch, StateChange
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.protocol.records import SimpleRecord, iter_records
from pyconsumer.protocol.share_group_records import (
    ShareRecordType,
    decode_share_key,
    decode_share_value,
    encode_share_key,
)
from pyconsumer.protocol.share_state_topic import (
    SNAPSHOT,
    UPDATE,
    ShareStateKey,
    decode_state_key,
    decode_state_value,
    encode_state_key,
)
from tests.unit.broker.group.support import MemoryStorage
from tests.vectors import make_share_log


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return make_share_log.read()


def coordinator_over(told: dict[str, Any], storage: MemoryStorage) -> ShareCoordinator:
    topic_id = bytes.fromhex(told["topic_id"])
    topics: Any = SimpleNamespace(
        topic_name=lambda one: "orders" if one == topic_id else None,
        partition_count=lambda topic: 2,
        remove_before=lambda *where: None,
    )
    timer = Timer()
    coordinator = ShareCoordinator(ShareConfig(), storage, timer, storage.clock, topics)
    coordinator.on_become_leader(0, 1)
    for _ in range(20):
        storage.clock.advance(0.1)
        timer.run_due(storage.clock.now())
    return coordinator


def storage_of(log: bytes) -> MemoryStorage:
    storage = MemoryStorage(ManualClock(100.0), partitions=1)
    storage.batches[0].append(log)
    storage.next_offset[0] = 10_000
    return storage


def test_the_states_are_those_that_kafka_tells(told: dict[str, Any]) -> None:
    storage = storage_of(told["logs"]["__share_group_state-0"])
    coordinator = coordinator_over(told, storage)
    topic_id = bytes.fromhex(told["topic_id"])
    assert len(told["states"]) == 6
    for name, theirs in told["states"].items():
        group, _, partition = name.rpartition("-")
        state = coordinator.read(ShareStateKey(group, topic_id, int(partition)), -1).value.state
        assert state is not None, name
        ours = {
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "batches": [list(one) for one in state.batches],
        }
        assert ours == theirs, name
    gone = coordinator.read_summary(ShareStateKey("deleted", topic_id, 0))
    assert gone.state is not None
    assert gone.state.start_offset == -1


def test_states_of_a_topic_that_was_deleted_are_removed_when_they_are_loaded(told: dict[str, Any]) -> None:
    """Kafka has written no tombstones for them when it stopped. Ours are there after the load."""
    storage = storage_of(told["logs"]["__share_group_state-0"])
    coordinator_over(told, storage)
    records = [record for _, records in storage.appended for record in records]
    keys = [decode_state_key(key or b"") for key, value in records if value is None]
    before = states_left(told["logs"]["__share_group_state-0"], bytes.fromhex(told["topic_id"]))
    assert {key[1] for key in keys if key is not None} == before


def states_left(log: bytes, topic_id: bytes) -> set[ShareStateKey]:
    """Return the states of other topics that the log has at its end."""
    left = set()
    for record in iter_records(log):
        found = decode_state_key(record.key or b"")
        assert found is not None
        if found[0] == SNAPSHOT and found[1].topic_id != topic_id:
            (left.discard if record.value is None else left.add)(found[1])
    return left


def test_what_was_loaded_goes_on(told: dict[str, Any]) -> None:
    storage = storage_of(told["logs"]["__share_group_state-0"])
    coordinator = coordinator_over(told, storage)
    key = ShareStateKey("altered", bytes.fromhex(told["topic_id"]), 1)
    done = StateChange(told["states"]["altered-1"]["state_epoch"], -1, 25, 5, [Batch(25, 29, ACKNOWLEDGED, 1)])
    assert coordinator.write(key, done).value.error_code == 0
    again = coordinator_over(told, storage).read(key, -1).value.state
    assert again is not None
    assert (again.start_offset, again.batches) == (25, (Batch(25, 29, ACKNOWLEDGED, 1),))


def test_the_groups_are_those_that_kafka_tells(told: dict[str, Any]) -> None:
    loader = PartitionLoader(0, iter([told["logs"]["__consumer_offsets-0"]]), ManualClock())
    while loader.read(1 << 20):
        pass
    groups: dict[str, ShareGroup] = {group.group_id: group for group in loader.share_groups()}
    assert groups.keys() == told["groups"].keys()
    topic_id = bytes.fromhex(told["topic_id"])
    for name, theirs in told["groups"].items():
        ours = groups[name]
        members = [
            [
                one.member_id,
                one.member_epoch,
                sorted(one.topic_names),
                [f"orders-{index}" for index in sorted(one.assigned.get(topic_id, ()))],
            ]
            for one in ours.members.values()
        ]
        assert (ours.state, ours.group_epoch, ours.assignment_epoch, members) == (
            theirs["state"],
            theirs["epoch"],
            theirs["assignment_epoch"],
            theirs["members"],
        )
        assert ours.partitions.initialized[topic_id].partitions == {0, 1}


def encoded_state(record: SimpleRecord) -> tuple[int, bytes, bytes | None]:
    found = decode_state_key(record.key or b"")
    assert found is not None
    kind, key = found
    value = None if record.value is None else decode_state_value(kind, record.value).encode_with_version(0)
    return kind, encode_state_key(kind, key), value


def encoded_group(record: SimpleRecord) -> tuple[int, bytes, bytes | None]:
    kind, group_id, member_id = decode_share_key(record.key or b"")
    value = None if record.value is None else decode_share_value(kind, record.value).encode_with_version(0)
    return int(kind), encode_share_key(kind, group_id, member_id), value


def test_each_record_that_kafka_wrote_has_the_same_bytes_from_ours(told: dict[str, Any]) -> None:
    for name, encoded, kinds in (
        ("__share_group_state-0", encoded_state, {SNAPSHOT, UPDATE}),
        ("__consumer_offsets-0", encoded_group, set(map(int, ShareRecordType))),
    ):
        seen: Counter[int] = Counter()
        tombstones = 0
        for record in iter_records(told["logs"][name]):
            kind, key, value = encoded(record)
            assert (key, value) == (record.key, record.value), (name, record.offset)
            seen[kind] += 1
            tombstones += value is None
        assert seen.keys() == kinds, seen
        assert tombstones
