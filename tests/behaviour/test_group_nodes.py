"""Groups on clusters of three brokers that are killed and restarted one by one: no acknowledged record is lost.

One broker: ``test_group_kills.py``.
"""

from __future__ import annotations

import pytest

from tests.support.cluster import Cluster
from tests.support.ledger import read_group_log
from tests.support.live_group import LiveGroup
from tests.support.process import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

PARTITIONS = 6
SETTINGS = {"session_ms": 30_000, "heartbeat_ms": 200, "request_timeout_ms": 5000}


def coordinator(nodes: Cluster, group_id: str) -> int | None:
    """Node id of a group's coordinator. None while a broker still names one that it counts as dead."""
    with nodes.raw() as client:
        address = client.coordinator(group_id)
        return next((node for node, where in client.brokers().items() if where == address), None)


@pytest.mark.pairs("protocol")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_coordinator_that_is_killed_is_replaced(
    nodes: Cluster, topic_name: str, group_id: str, protocol: str
) -> None:
    """The new one knows the members and their commits from its replica: no member has to join again."""
    nodes.create_topic(topic_name, PARTITIONS, replication_factor=3)
    with LiveGroup(nodes, group_id, topic_name, PARTITIONS, protocol=protocol, **SETTINGS) as group:
        members = [group.join() for _ in range(3)]
        group.settle()
        group.progress()
        old = coordinator(nodes, group_id)
        generations = len(read_group_log(nodes, group_id).generations)
        nodes.kill(old)
        committed = sum(len(member.seen.committed) for member in members)
        wait_until(lambda: coordinator(nodes, group_id) not in (old, None), 60, "another coordinator")
        group.ledger.wait(
            lambda: sum(len(member.seen.committed) for member in members) > committed + 10, 60, "commits again"
        )
        nodes.restart(old)
        group.progress()
        group.drain()
        nodes.wait_in_sync()
        log = group.check()
    assert not group.ledger.rewinds(), group.ledger.state()
    assert len(log.generations) == generations
    assert not [member.name for member in members if member.seen.of("lost")]


def test_the_leader_of_a_partition_that_is_killed_is_replaced(nodes: Cluster, topic_name: str, group_id: str) -> None:
    """Reading and writing continue with another replica. Each acknowledged record is there once."""
    nodes.create_topic(topic_name, PARTITIONS, replication_factor=3)
    with LiveGroup(nodes, group_id, topic_name, PARTITIONS, **SETTINGS) as group:
        members = [group.join() for _ in range(2)]
        group.settle()
        group.progress()
        with nodes.raw() as client:
            leaders = client.leaders(topic_name)
        victim = next(node for node in leaders.values() if node != coordinator(nodes, group_id))
        nodes.kill(victim)
        orphans = {number for number, node in leaders.items() if node == victim}
        read = {number: _read(members, number) for number in orphans}
        group.ledger.wait(
            lambda: all(_read(members, number) > read[number] + 50 for number in orphans), 60, "reading from others"
        )
        nodes.restart(victim)
        group.progress()
        group.drain()
        nodes.wait_in_sync()
        group.check()
    assert not group.ledger.rewinds(), group.ledger.state()
    assert not group.ledger.repeated
    assert not [member.name for member in members if member.seen.of("lost")]


def _read(members: list, partition: int) -> int:
    """Return how many records of a partition were processed."""
    return sum(at == partition for member in members for at, _, _ in member.seen.processed)


def test_all_brokers_are_restarted_one_by_one(nodes: Cluster, topic_name: str, group_id: str) -> None:
    """As for an upgrade: each is stopped, started, and back in sync before the next one."""
    nodes.create_topic(topic_name, PARTITIONS, replication_factor=3)
    with LiveGroup(nodes, group_id, topic_name, PARTITIONS, strategy="cooperative-sticky", **SETTINGS) as group:
        members = [group.join(), group.join("confluent"), group.join()]
        group.settle()
        for node in nodes.node_ids:
            group.progress()
            nodes.bounce(node)
            nodes.wait_in_sync()
        group.progress()
        group.drain()
        group.check()
    assert not group.ledger.rewinds(), group.ledger.state()
    assert not [member.name for member in members if member.client == "ours" and member.seen.of("lost")]
