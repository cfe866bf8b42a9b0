"""Our members with those of librdkafka, kafka-python and Java in one group: they come, go and crash in random order.

All the while somebody writes. In the end a ledger shows that every record was processed, none lost, that no committed
offset ever went back, and that everything is committed (:mod:`tests.support.ledger`).

A run prints its seed and its schedule. ``PYCONSUMER_MIXED_SEED`` plays that schedule again (times are real, so what
comes of it may differ), ``PYCONSUMER_MIXED_EVENTS`` sets how many joins and leaves there are.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from tests.support.cluster import Cluster
from tests.support.live_group import JAVA_STRATEGIES, LiveGroup

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = int(os.environ.get("PYCONSUMER_MIXED_EVENTS", "50"))
_SEED = os.environ.get("PYCONSUMER_MIXED_SEED")
PARTITIONS = 8
MOST_MEMBERS = 6
SESSION_MS = 3000
#: After so many joins and leaves the group is left alone until everybody has a share.
CALM_EVERY = 10
#: How the clients are mixed; ours always are.
CLIENTS = ("ours", "ours", "confluent", "kafka-python", "java")


def play(group: LiveGroup, rng: random.Random) -> None:
    """Random joins and leaves; a third of the leaves are crashes. Java's members crash without their JVM."""
    group.start_java()
    for client in ("ours", "confluent"):
        group.join(client)
        print(f"at the start: {client}")
    group.settle()
    for number in range(1, EVENTS + 1):
        alive = group.alive
        if len(alive) < MOST_MEMBERS and (len(alive) < 2 or rng.random() < 0.5):
            joined = group.join(rng.choice(CLIENTS))
            told = f"{joined.name} joins"
        else:
            gone = rng.choice(alive)
            if rng.random() < 0.33:
                gone.kill()
                told = f"{gone.name} crashes"
            else:
                gone.leave()
                told = f"{gone.name} leaves"
        pause = rng.choice((0, 20, 60, 150))
        print(f"{number:3}: {told}, {len(group.alive)} are left; then {pause} records")
        if number % CALM_EVERY == 0:
            group.settle()
        elif pause:
            group.progress(pause)


@pytest.mark.spec("transactions:DLV-01b", "broker:PV-02")
@pytest.mark.timeout(60 + 6 * EVENTS)
@pytest.mark.parametrize("strategy", JAVA_STRATEGIES)
def test_members_of_all_clients_come_and_go_and_nothing_is_lost(
    cluster: Cluster, make_topic: Callable[..., str], group_id: str, strategy: str
) -> None:
    seed = int(_SEED) if _SEED else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}, {EVENTS} joins and leaves, {strategy}, {cluster.kind}")
    topic = make_topic(PARTITIONS)
    settings = {"session_ms": SESSION_MS, "heartbeat_ms": 300}
    with LiveGroup(cluster, group_id, topic, PARTITIONS, strategy=strategy, **settings) as group:
        play(group, random.Random(seed))
        group.settle()
        group.drain()
        log = group.check()
    assert {generation.protocol for generation in log.generations if generation.clients} == {strategy}
    ledger = group.ledger
    assert not ledger.rewinds()
    for member in group.members:
        if member.client == "ours" and member.seen.left and not member.seen.refused:
            assert not ledger.repeated[member.name], f"{member.name} left in good order"
    print(f"{len(ledger.acknowledged)} records, processed again: {dict(ledger.repeated)}")
    print(f"{len(log.generations)} generations, {len(log.commits)} commits")
