"""Short sequences of a group's life on the broker, and the broker that is its coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import OFFSETS_TOPIC, Controller
from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.offset_records import java_hash, partition_for
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.structs import BrokerMetadata
from tests.unit.broker.group.support import GROUP, FakeBroker, World, ask, value_of, versions


def test_a_member_that_does_not_return_with_its_member_id() -> None:
    world = World()
    refused = value_of(world.join(require_id=True, session_ms=8_000))
    assert refused.error_code == Errors.MEMBER_ID_REQUIRED
    world.advance(7.9)
    assert list(world.group().pending_members) == [refused.member_id]
    world.advance(0.2)
    assert not world.group().pending_members
    assert value_of(world.join(refused.member_id, session_ms=8_000)).error_code == Errors.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves() -> None:
    world = World()
    (client,) = world.stable()
    generation = world.group().generation_id
    assert world.leave(client) == [0]
    group = world.group()
    assert (group.state, group.generation_id, group.protocol_name) == (GroupState.EMPTY, generation + 1, None)
    last = world.storage.registrations(world.partition())[-1]
    assert last is not None
    assert (last.generation, last.protocol, last.leader, last.members) == (generation + 1, None, None, [])


def test_a_new_member_may_wait_five_minutes_for_the_others() -> None:
    assert GroupConfig().group_new_member_join_timeout_ms == 300_000
    world = World()
    world.stable(rebalance_ms=900_000, session_ms=900_000)
    waiting = world.join(rebalance_ms=900_000, session_ms=900_000)
    world.advance(299.9)
    assert not waiting.done
    world.advance(0.2)
    assert value_of(waiting).error_code == Errors.UNKNOWN_MEMBER_ID


HASHES = [
    ("my-group", -1906497762, 12, 36),
    ("test-group", 627841412, 12, 12),
    ("group1", -1237460590, 40, 8),
    ("consumer0", -421004550, 0, 48),
    ("polygenelubricants", -2147483648, 0, 0),
    ("", 0, 0, 0),
]


@pytest.mark.parametrize(("group", "hash_code", "partition", "masked"), HASHES)
def test_the_hash_of_a_group(group: str, hash_code: int, partition: int, masked: int) -> None:
    assert (java_hash(group), partition_for(group, 50)) == (hash_code, partition)
    assert (hash_code & 0x7FFFFFFF) % 50 == masked, "the mask that would be wrong"


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
def test_the_leader_of_the_groups_partition_coordinates_it(version: int) -> None:
    broker = FakeBroker(World())

    def find(group: str) -> Any:
        if version < 4:
            return ask(broker, FindCoordinatorRequest(key=group), version)
        return ask(broker, FindCoordinatorRequest(coordinator_keys=[group]), version).coordinators[0]

    for group in (GROUP, "another", "", "third"):
        found = find(group)
        assert (found.error_code, found.node_id) == (0, 10 + partition_for(group, broker.world.storage.partitions))
    broker.has_leader = False
    found = find(GROUP)
    assert (found.error_code, found.node_id, found.host, found.port) == (Errors.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


def owner(alive: dict[str, list[BrokerMetadata]], leader: int, listener: str) -> BrokerMetadata | None:
    """Return a broker's view of the only partition, whose leader is this node."""
    topic = SimpleNamespace(partitions=[SimpleNamespace(leader=leader)])
    broker = SimpleNamespace(
        controller=SimpleNamespace(ensure_internal=lambda name: topic), endpoints=lambda listener: alive[listener]
    )
    return Broker.coordinator_node(broker, OFFSETS_TOPIC, 0, SimpleNamespace(listener=listener))  # type: ignore[arg-type]


def test_the_address_is_that_of_the_listener_and_a_dead_leader_has_none() -> None:
    alive = {
        "PLAINTEXT": [BrokerMetadata(0, "h", 9092), BrokerMetadata(1, "h", 9093)],
        "SSL": [BrokerMetadata(0, "h", 19092), BrokerMetadata(1, "h", 19093)],
    }
    assert owner(alive, 1, "PLAINTEXT") == BrokerMetadata(1, "h", 9093)
    assert owner(alive, 1, "SSL") == BrokerMetadata(1, "h", 19093)
    assert owner(alive, -1, "SSL") is None
    assert owner(alive, 2, "SSL") is None


def test_the_number_of_partitions_stays_the_same() -> None:
    def controller(**config: object) -> Controller:
        made = Controller(None, BrokerConfig({name.replace("_", "."): value for name, value in config.items()}))
        made.register(range(1))
        return made

    assert len(controller().ensure_internal(OFFSETS_TOPIC).partitions) == 50
    made = controller(offsets_topic_num_partitions=7)
    made.ensure_internal(OFFSETS_TOPIC)
    made._config = BrokerConfig({"offsets.topic.num.partitions": 9})
    assert len(made.ensure_internal(OFFSETS_TOPIC).partitions) == 7
    world = World()
    (client,) = world.stable()
    before = world.partition()
    world.storage.partitions = 3
    assert world.partition() == before
    assert world.heartbeat(client) == 0
