"""Assignors, metadata hashes and records of consumer groups against Apache Kafka's own (KIP-848, KIP-1101)."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker.group.consumer.assignors import ASSIGNORS, AssignorMember
from pyconsumer.broker.group.consumer.current_assignment import next_assignment
from pyconsumer.broker.group.consumer.member import ConsumerGroupMember, MemberState
from pyconsumer.broker.group.consumer.metadata_hash import group_hash, topic_hash
from pyconsumer.errors import FencedMemberEpochError
from pyconsumer.protocol.consumer_group_records import RecordType, decode_key_of, decode_value, encode_key
from pyconsumer.protocol.records import iter_records, scan
from tests.support.java import KafkaTools
from tests.vectors.make_consumer_groups import VECTORS, expected

_LOG = Path(__file__).with_name("offsets_log.gz")


@functools.cache
def _lines() -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_hashes_are_kafkas() -> None:
    topics = [line["hash"] for line in _lines() if "hash" in line]
    groups = [line["group"] for line in _lines() if "group" in line]
    assert len(topics) == len(groups) == 60
    for topic_id, name, racks, value in topics:
        assert topic_hash(bytes.fromhex(topic_id), name, racks) == value, name
    for hashes, value in groups:
        assert group_hash(hashes) == value


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("homogeneous", [True, False])
def test_an_assignor_equals_kafkas(name: str, homogeneous: bool) -> None:
    cases = [line for line in _lines() if line.get("a") == name and line["h"] == homogeneous]
    assert len(cases) > 100
    for case in cases:
        counts = {bytes.fromhex(topic_id): count for topic_id, count in case["t"].items()}
        members = [
            AssignorMember(member_id, instance, [bytes.fromhex(one) for one in topics], _target(target))
            for member_id, instance, topics, target in case["m"]
        ]
        made = ASSIGNORS[name](members, counts, homogeneous=homogeneous)
        ours = {member.member_id: made.get(member.member_id, {}) for member in members}
        theirs = {member_id: _target(target) for member_id, target in case["r"].items()}
        assert ours == theirs, case


def _target(target: dict[str, list[int]]) -> dict[bytes, frozenset[int]]:
    return {bytes.fromhex(topic_id): frozenset(partitions) for topic_id, partitions in target.items()}


def test_a_members_next_step_is_that_of_kafkas_class() -> None:
    cases = [line for line in _lines() if "c" in line]
    assert len(cases) == 1500
    kinds = set()
    for case in cases:
        *five, subscribed, epoch, target, held, owned, changed = case["c"]
        taken = _target(held)
        try:
            after = next_assignment(
                _member(five),
                epoch=epoch,
                target=_target(target),
                subscribed={bytes.fromhex(one) for one in subscribed},
                is_free=lambda topic_id, partition, taken=taken: partition not in taken.get(topic_id, ()),  # type: ignore[misc]
                owned=None if owned is None else [(bytes.fromhex(topic_id), indexes) for topic_id, indexes in owned],
                subscription_changed=changed,
            )
        except FencedMemberEpochError:
            assert case["r"] is None, case
            kinds.add((five[0], None))
            continue
        assert after == _member(case["r"]), case
        kinds.add((five[0], after.state))
    unknown = MemberState.UNKNOWN
    stable, unrevoked, unreleased = (
        MemberState.STABLE,
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.UNRELEASED_PARTITIONS,
    )
    assert kinds >= {(before, after) for before in (0, 1, 2) for after in (stable, unrevoked, unreleased)}
    assert (unknown, None) in kinds


def _member(five: list[Any]) -> ConsumerGroupMember:
    state, epoch, previous, assigned, pending = five
    return ConsumerGroupMember(
        "m",
        epoch,
        previous,
        MemberState.of(state),
        assigned={bytes.fromhex(topic_id): dict(since) for topic_id, since in assigned.items()},
        pending_revocation={bytes.fromhex(topic_id): dict(since) for topic_id, since in pending.items()},
    )


def test_records_of_kafkas_log_are_written_byte_for_byte() -> None:
    data = memoryview(gzip.decompress(_LOG.read_bytes()))
    kinds = set()
    for info in scan(data):
        for record in [] if info.is_control else iter_records(data[info.position : info.end_position]):
            key = bytes(record.key or b"")
            if int.from_bytes(key[:2], "big") not in set(RecordType):
                continue
            kind, group, name = decode_key_of(key)
            assert encode_key(kind, group, name) == key
            if record.value is not None:
                kinds.add(kind)
                assert decode_value(kind, record.value).encode_with_version(0) == bytes(record.value)
    assert kinds == set(RecordType) - {RecordType.PARTITION_METADATA}


@pytest.mark.kafka
def test_kafka_computes_the_same_today(kafka_tools: KafkaTools) -> None:
    assert expected(kafka_tools) == gzip.decompress(VECTORS.read_bytes()).decode()
