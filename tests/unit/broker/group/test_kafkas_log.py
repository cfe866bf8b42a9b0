"""A partition of ``__consumer_offsets`` that Apache Kafka 4.3.1 wrote, loaded by our coordinator.

``tests/vectors/offsets_log.gz`` is the partition, and ``offsets_log.json`` is Kafka's description of its groups. Both
were made by ``make_offsets_log.py`` there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata
from pyconsumer.broker.group.loading import PartitionLoader
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.consumer_protocol import decode_assignment
from pyconsumer.protocol.offsets_topic import NEWER_KINDS, NewerKey, decode_newer_key
from pyconsumer.protocol.records import BatchBuilder, iter_records
from pyconsumer.protocol.share_group_records import (
    ShareRecordType,
    decode_share_key,
    decode_share_value,
    encode_share_key,
)
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import Client, MemoryStorage, World, client_of, value_of
from tests.vectors.make_offsets_log import DESCRIPTION, LOG

CLICKS = [TopicPartition("clicks", number) for number in range(2)]


def log() -> bytes:
    return gzip.decompress(LOG.read_bytes())


def described() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return found


def loader_at_end() -> PartitionLoader:
    loader = PartitionLoader(0, iter([log()]), ManualClock())
    assert loader.read(1 << 20) is False
    return loader


def loaded() -> dict[str, GroupMetadata]:
    loader = loader_at_end()
    return {group.group_id: group for group in loader.groups()}


def offsets_of(group: GroupMetadata) -> dict[str, list[Any]]:
    values = {tp: record.value for tp, record in group.offsets.committed.items()}
    return {str(tp): [each.offset, each.metadata, each.leader_epoch] for tp, each in values.items()}


def test_the_data_holds_every_kind_of_record() -> None:
    records = list(iter_records(log()))
    kinds = {int.from_bytes(record.key[:2], "big") for record in records if record.key and not record.is_control}
    assert kinds >= {1, 2, 3, 5, 6, 7, 8, 10, 11, 16}
    assert any(record.value is None for record in records)
    assert sum(record.is_control for record in records) == 2
    assert {group["type"] for group in described().values()} == {"Classic", "Consumer", "Share"}


@pytest.mark.parametrize("name", ["dynamic", "static", "left"])
def test_classic_groups_match_kafkas_description(name: str) -> None:
    theirs, ours = described()[name], loaded()[name]
    assert theirs["type"] == "Classic"
    assert ours.state.value == theirs["state"]
    assert ours.protocol_type == "consumer"
    assert (ours.protocol_name or "") == theirs["assignor"]
    assert ours.generation_id == theirs.get("generation", 2)
    members = [
        {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host,
            "assignment": sorted(map(str, decode_assignment(member.assignment)[0])),
        }
        for member in ours.members.values()
    ]
    key = "member_id"
    assert sorted(members, key=lambda one: one[key]) == sorted(theirs["members"], key=lambda one: one[key])
    assert offsets_of(ours) == theirs["offsets"]


@pytest.mark.parametrize("name", ["tools", "modern", "transactional"])
def test_offsets_follow_their_tombstones_and_markers(name: str) -> None:
    ours = loaded()[name]
    assert offsets_of(ours) == described()[name]["offsets"]
    pending = {
        str(tp): record.value.offset
        for commits in ours.offsets.pending_transactional.values()
        for tp, record in commits.items()
    }
    assert pending == ({"clicks-1": 7} if name == "transactional" else {})


def test_kafkas_share_group_is_loaded_and_its_records_are_ours() -> None:
    """Each record of Kafka's share group is read, and our encoder writes the same bytes."""
    (group,) = loader_at_end().share_groups()
    assert (group.group_id, group.state, group.group_type) == (
        "shared",
        "Stable",
        described()["shared"]["type"].lower(),
    )
    count = 0
    for record in iter_records(log()):
        kind = int.from_bytes((record.key or b"")[:2], "big")
        if kind in set(ShareRecordType):
            count += 1
            found, group_id, member_id = decode_share_key(record.key or b"")
            assert encode_share_key(found, group_id, member_id) == record.key
            if record.value is not None:
                assert decode_share_value(found, record.value).encode_with_version(0) == record.value
    assert count > 5


def test_a_deleted_group_is_not_there_and_share_groups_are_no_groups_of_ours() -> None:
    assert loaded().keys() == {"dynamic", "static", "left", "tools", "transactional", "modern", "pattern"}
    loader = loader_at_end()
    newer = [key for record in iter_records(log()) if record.key and (key := decode_newer_key(record.key))]
    assert len(newer) > 20
    assert loader.unknown_count == 0
    assert {key.group for key in newer} == {"modern", "pattern", "shared"}
    assert {key.member for key in newer if key.kind == "ConsumerGroupRegularExpression"} == {"cl.*"}
    assert set(NEWER_KINDS.values()) >= {key.kind for key in newer}
    assert all(isinstance(key, NewerKey) for key in newer)


def test_members_of_kafkas_groups_continue_with_our_coordinator() -> None:
    """Their heartbeats and commits are accepted, a static member returns, an empty group starts a new generation."""
    storage = MemoryStorage(ManualClock(100.0), partitions=1)
    storage.batches[0].append(log())
    storage.next_offset[0] = 1000
    world = World(storage=storage, group_initial_rebalance_delay_ms=0)
    said = described()
    for name in ("dynamic", "static"):
        for member in said[name]["members"]:
            client = Client(member["member_id"], said[name]["generation"], member["instance_id"])
            assert world.heartbeat(client, group=name) == Errors.NONE
            assert value_of(world.commit({CLICKS[0]: 77}, client, group=name)) == {CLICKS[0]: Errors.NONE}
    assert world.offset(CLICKS[0], group="static") == 77
    stored = world.group("static")
    protocols = next(iter(stored.members.values())).supported_protocols
    again = world.join(group="static", instance="i-1", protocols=protocols)
    assert client_of(again).generation == said["static"]["generation"]
    newcomer = world.join(group="left", protocols=protocols)
    world.advance(0.1)
    assert client_of(newcomer).generation == 3
    assert world.fetch(CLICKS, group="transactional")[CLICKS[1]].offset == 5
    unstable = world.fetch(CLICKS, group="transactional", stable=True)
    assert [unstable[tp].error_code for tp in CLICKS] == [Errors.NONE, Errors.UNSTABLE_OFFSET_COMMIT]


def test_a_step_of_a_load_takes_ten_milliseconds() -> None:
    clock = ManualClock()
    builder = BatchBuilder()
    builder.try_append(0, b"\0\x63", b"of a type that nobody knows")
    piece = builder.build()

    def slow_pieces() -> Iterator[bytes]:
        for _ in range(4):
            clock.advance(0.006)
            yield piece

    loader = PartitionLoader(0, slow_pieces(), clock)
    steps = 0
    while loader.read(1 << 30):
        steps += 1
    assert steps == 2
