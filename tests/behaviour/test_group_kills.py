"""Groups of real processes, some of which are killed or stopped: members, brokers. No acknowledged record is lost.

Brokers of several nodes: ``test_group_nodes.py``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.ledger import read_group_log
from tests.support.live_group import LiveGroup

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MakeTopic = Callable[..., str]
PARTITIONS = 6
STRATEGIES = ("range", "cooperative-sticky")


@pytest.mark.parametrize("strategy", [*STRATEGIES, "consumer"])
def test_members_that_are_killed_are_replaced_when_their_session_ends(
    cluster: Cluster, make_topic: MakeTopic, group_id: str, strategy: str
) -> None:
    topic = make_topic(PARTITIONS)
    settings: dict[str, Any] = {"session_ms": 6000, "heartbeat_ms": 200, "strategy": strategy}
    if strategy == "consumer":  # the other protocol, whose sessions the broker knows
        settings = {"protocol": "consumer"}
        cluster.set_group(group_id, {"consumer.session.timeout.ms": "6000"})
    with LiveGroup(cluster, group_id, topic, PARTITIONS, **settings) as group:
        members = [group.join() for _ in range(4)]
        group.settle()
        group.progress()
        orphans = members[0].seen.owned | members[1].seen.owned
        killed_at = time.monotonic()
        for member in members[:2]:
            member.kill()
        group.settle()
        taken_at = min(
            at
            for member in members[2:]
            for what, partitions, at in member.seen.calls
            if what == "assigned" and at > killed_at and orphans & set(partitions)
        )
        assert taken_at - killed_at > 4.0, "when the session of 6 s ends; max_poll_interval_ms would be too late"
        group.drain()
        group.check()
    assert not group.ledger.rewinds(), group.ledger.state()
    assert not [member.name for member in members[2:] if member.seen.of("lost")], group.ledger.state()
    assert group.ledger.repeated.keys() <= {member.name for member in members[:2]}, group.ledger.state()


def test_a_static_member_that_is_killed_comes_back_to_its_partitions(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    """Within its session: the other members don't notice (KIP-345)."""
    topic = make_topic(PARTITIONS)
    with LiveGroup(cluster, group_id, topic, PARTITIONS, session_ms=30_000) as group:
        killed, other = group.join(instance="one"), group.join(instance="two")
        group.settle_evenly()
        group.progress()
        mine, told = set(killed.seen.owned), other.seen.changes
        killed.kill()
        again = group.join(instance="one")
        group.settle()
        group.drain()
        group.check()
    assert (again.seen.owned, other.seen.changes) == (mine, told)
    assert not group.ledger.rewinds(), group.ledger.state()
    assert group.ledger.repeated.keys() <= {killed.name}


@pytest.mark.pairs("strategy")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_broker_that_is_killed_keeps_its_group_and_its_commits(
    victim: Cluster, topic_name: str, group_id: str, strategy: str
) -> None:
    """The members outlast it, and the new process knows them from its log: no member has to join again."""
    victim.create_topic(topic_name, PARTITIONS)
    settings = {"session_ms": 45_000, "heartbeat_ms": 200}
    with LiveGroup(victim, group_id, topic_name, PARTITIONS, strategy=strategy, **settings) as group:
        members = [group.join() for _ in range(3)]
        group.settle_evenly()
        group.progress()
        before = [member.seen.changes for member in members]
        generations = len(read_group_log(victim, group_id).generations)
        for _ in range(3 if victim.embedded else 1):
            victim.kill()
            victim.restart()
            group.progress()
        group.drain()
        log = group.check()
        assert [member.seen.changes for member in members] == before
    assert not group.ledger.rewinds(), group.ledger.state()
    assert len(log.generations) == generations


def test_a_member_that_is_stopped_for_longer_than_its_session_is_fenced(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(PARTITIONS)
    settings = {"session_ms": 5000, "heartbeat_ms": 200}
    with LiveGroup(cluster, group_id, topic, PARTITIONS, per_second=100, **settings) as group:
        frozen, other = group.join(), group.join()
        group.settle()
        mine = sorted(frozen.seen.owned)
        frozen.freeze_at_work()
        group.ledger.wait(lambda: len(other.seen.owned) == PARTITIONS, 60, "the other taking over")
        assert not frozen.seen.refused
        group.progress()
        frozen.thaw()
        group.ledger.wait(lambda: frozen.seen.refused, 60, "the late commit being refused")
        group.ledger.wait(lambda: frozen.seen.of("lost"), 60, "the listener being told")
        group.settle()
        frozen.leave()
        group.ledger.wait(lambda: frozen.seen.left, 60, "the member leaving")
        group.drain()
        group.check()
    assert frozen.seen.refused[0]["error"] == "CommitFailedError"
    assert frozen.seen.of("lost") == [mine]
    assert group.ledger.repeated.keys() <= {frozen.name}


@pytest.mark.pairs("strategy", swap=1)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_broker_that_is_stopped_for_longer_than_requests_wait(
    victim: Cluster, topic_name: str, group_id: str, strategy: str
) -> None:
    """Requests time out, are sent again, and the broker answers all when it continues: none takes effect twice."""
    victim.create_topic(topic_name, PARTITIONS)
    settings = {"session_ms": 20_000, "heartbeat_ms": 200, "request_timeout_ms": 1000}
    with LiveGroup(victim, group_id, topic_name, PARTITIONS, strategy=strategy, **settings) as group:
        members = [group.join() for _ in range(3)]
        group.settle()
        group.progress()
        generations = len(read_group_log(victim, group_id).generations)
        victim.freeze()
        try:
            threading.Event().wait(3.5)
        finally:
            victim.thaw()
        group.progress()
        group.drain()
        log = group.check()
    assert not group.ledger.rewinds(), group.ledger.state()
    assert len(log.generations) == generations, "nobody had to join again"
    assert not [member.name for member in members if member.seen.of("lost")]
