"""Our members with those of librdkafka, kafka-python and Java in one group: they come, go and crash in random order.

All the while somebody writes. In the end a ledger shows that every record was processed, none lost, that no committed
offset ever went back, and that everything is committed (:mod:`tests.support.ledger`).

A run prints its seed and its schedule. ``PYCONSUMER_MIXED_SEED`` plays that schedule again (times are real, so what
comes of it may differ), ``PYCONSUMER_MIXED_EVENTS`` sets how many joins and leaves there are (``tox -e long``: 50).
"""

from __future__ import annotations

import os
import random
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.support.cluster import Cluster
from tests.support.ledger import GroupLog
from tests.support.live_group import JAVA_STRATEGIES, LiveGroup

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = int(os.environ.get("PYCONSUMER_MIXED_EVENTS", "20"))
_SEED = os.environ.get("PYCONSUMER_MIXED_SEED")
PARTITIONS = 8
MOST_MEMBERS = 6
SETTINGS = {"session_ms": 3000, "heartbeat_ms": 300}
#: After so many joins and leaves the group is left alone until everybody has a share.
CALM_EVERY = 10
#: How the clients are mixed; ours always are.
CLIENTS = ("ours", "ours", "confluent", "kafka-python", "java")


@dataclass
class Play:
    """A group, its events, and its state in the broker's log in the end."""

    cluster: Cluster
    strategy: str
    seed: int
    told: list[str] = field(default_factory=list)
    done: Future[tuple[LiveGroup, GroupLog]] = field(default_factory=Future)

    def run(self) -> tuple[LiveGroup, GroupLog]:
        name = f"mixed-{self.strategy}-{uuid.uuid4().hex[:8]}"
        self.cluster.create_topic(name, PARTITIONS)
        with LiveGroup(self.cluster, name, name, PARTITIONS, strategy=self.strategy, **SETTINGS) as group:
            self._come_and_go(group, random.Random(self.seed))
            self._settle(group)
            group.drain()
            return group, group.check()

    def _come_and_go(self, group: LiveGroup, rng: random.Random) -> None:
        """Random joins and leaves. A third of the leaves are crashes. Java's members crash without their JVM."""
        group.start_java()
        self.told += [f"{group.join(client).name} is there from the start" for client in ("ours", "confluent")]
        self._settle(group)
        for number in range(1, EVENTS + 1):
            alive = group.alive
            if len(alive) < MOST_MEMBERS and (len(alive) < 2 or rng.random() < 0.5):
                event = f"{group.join(rng.choice(CLIENTS)).name} joins"
            else:
                gone, crash = rng.choice(alive), rng.random() < 0.33
                gone.kill() if crash else gone.leave()
                event = f"{gone.name} {'crashes' if crash else 'leaves'}"
            pause = rng.choice((0, 20, 60, 150))
            self.told.append(f"{number:3}: {event}, {len(group.alive)} are left; then {pause} records")
            if number % CALM_EVERY == 0:
                self._settle(group)
            elif pause:
                group.progress(pause)

    def _settle(self, group: LiveGroup) -> None:
        """Wait until every member has a share.

        kafka-python 3.0.12 sometimes stops in the middle of a rebalance and sends no request any more, so that a group
        continues without it. That was seen on Apache Kafka, where it is its own fault alone: there such a member is
        killed, as one that crashes, and the play continues. On our broker it counts.
        """
        try:
            group.settle()
        except AssertionError:
            idle = group.without_share
            if self.cluster.embedded or not idle or any(member.client != "kafka-python" for member in idle):
                raise
            self.told.append(f"idle while others have all partitions, so killed:\n{group.logs(idle)}")
            for member in idle:
                member.kill()
            group.settle()


@pytest.fixture(scope="module")
def plays(cluster: Cluster, request: pytest.FixtureRequest) -> dict[str, Play]:
    """Finished plays by strategy. All plays of the run took place at the same time: they wait more than they work."""
    own = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    parameters = [item.callspec.params for item in own]
    wanted = sorted({str(each["strategy"]) for each in parameters if each["cluster_kind"] == cluster.kind})
    seed = int(_SEED) if _SEED else random.SystemRandom().randrange(10**6)
    plays = {strategy: Play(cluster, strategy, seed) for strategy in wanted}
    with ThreadPoolExecutor(len(wanted)) as pool:
        for play in plays.values():
            play.done = pool.submit(play.run)
    return plays


@pytest.mark.timeout(120 + 12 * EVENTS)
@pytest.mark.pairs("strategy")
@pytest.mark.parametrize("strategy", JAVA_STRATEGIES)
def test_members_of_all_clients_come_and_go_and_no_record_is_lost(plays: dict[str, Play], strategy: str) -> None:
    play = plays[strategy]
    try:
        group, log = play.done.result()
    finally:
        print(f"seed {play.seed}, {EVENTS} joins and leaves, {strategy}, {play.cluster.kind}", *play.told, sep="\n")
    assert {generation.protocol for generation in log.generations if generation.clients} == {strategy}
    ledger = group.ledger
    print(f"{len(ledger.acknowledged)} records, processed again: {dict(ledger.repeated)}")
    print(f"{len(log.generations)} generations, {len(log.commits)} commits")
    assert not ledger.rewinds(), ledger.state()
    for member in group.members:
        if member.client == "ours" and member.seen.left and not member.seen.refused:
            assert not ledger.repeated[member.name], f"{member.name} left in good order"
