"""Share groups whose members and brokers are killed with ``kill -9``, and whose leaders move, with a ledger.

1. Each record that was stored was accepted or rejected, with or without an answer, or has reached the limit.
2. After a confirmed acceptance or rejection, a record is never delivered again. A member may have got a record before a
   broker died, and write it down after another member has finished it. Its delivery count shows that.
3. No delivery count exceeds the limit.

``PYCONSUMER_SHARE_KILLS`` sets how many kills there are (3 by default, one of each kind), and
``PYCONSUMER_SHARE_SEED`` which.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer, TopicPartition
from pyconsumer.admin import ConfigResource, NewTopic
from pyconsumer.errors import KafkaError
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.process import GuardedProcess, wait_until
from tests.support.share_groups import SHARE_CONFIG

pytestmark = [pytest.mark.slow, pytest.mark.concurrent]

KILLS = int(os.environ.get("PYCONSUMER_SHARE_KILLS") or 3)
SEED = os.environ.get("PYCONSUMER_SHARE_SEED") or ""
PARTITIONS = 3
LIMIT = 10
#: Records that are sent between two kills.
PER_ROUND = 150
#: How long a member may hold a record that it got before a broker died (s): the lock.
LOCK_S = 6.0
GROUP, TOPIC = "killed", "orders"

_CONFIG: dict[str, object] = SHARE_CONFIG | {
    "group.share.record.lock.duration.ms": int(LOCK_S * 1000),
    "group.share.delivery.count.limit": LIMIT,
    "share.coordinator.snapshot.update.records.per.snapshot": 20,
    "share.coordinator.state.topic.num.partitions": 3,
}
_THREE: dict[str, object] = {
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}


class Ledger:
    """The notes of members, and their meaning. See the module."""

    def __init__(self, path: Path) -> None:
        self.deliveries = self.late = 0
        self.finals: dict[tuple[int, int], int] = {}
        self.maybe: set[tuple[int, int]] = set()
        self.limited: set[tuple[int, int]] = set()
        deaths: list[float] = []
        for line in path.read_text().splitlines():
            what, *rest, at = line.split()
            if what == "died":
                deaths.append(float(at))
                continue
            place, count = (int(rest[1]), int(rest[2])), int(rest[-1])
            if what == "got":
                self.deliveries += 1
                assert count <= LIMIT, f"rule 3: {line}"
                if count == LIMIT:
                    self.limited.add(place)
                before = self.finals.get(place)
                if before is not None:
                    is_late = count <= before and any(0 <= float(at) - death < 2 * LOCK_S for death in deaths)
                    assert is_late, f"rule 2: {line}, after it was confirmed with count {before}"
                    self.late += 1
            elif rest[3] in ("ACCEPT", "REJECT"):
                self.maybe.add(place)
                if what == "done":
                    self.finals[place] = count

    def missing(self, stored: set[tuple[int, int]]) -> list[tuple[int, int]]:
        return sorted(stored - self.maybe - self.limited)


class Chain:
    """A cluster, members in processes of their own, a producer, and kills."""

    def __init__(self, cluster: Cluster, path: Path, stack: ExitStack, seed: str) -> None:
        self.cluster = cluster
        self.path = path
        self.random = random.Random(seed)
        self.stack = stack
        self.members: list[GuardedProcess] = []
        self.stored: set[tuple[int, int]] = set()
        self.kinds: list[str] = []
        self.names = 0
        path.touch()
        self.producer = stack.enter_context(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers))
        self.admin = stack.enter_context(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers))
        replicas = len(cluster.node_ids)
        self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas)])
        self.admin.alter_configs({ConfigResource("group", GROUP): {"share.auto.offset.reset": "earliest"}})
        for _ in range(2):
            self.join()

    def join(self) -> None:
        self.names += 1
        command = [sys.executable, "-m", "tests.support.share_program", self.cluster.bootstrap_servers]
        program = GuardedProcess([*command, GROUP, TOPIC, str(self.path), f"m{self.names}"])
        self.members.append(self.stack.enter_context(program))

    def send(self) -> None:
        """Send records. Those that are acknowledged must be read."""
        sent = [self.producer.send(TOPIC, b"x" * 100, partition=number % PARTITIONS) for number in range(PER_ROUND)]
        for future in sent:
            where = future.result(60)
            self.stored.add((where.partition, where.offset))

    def progress(self) -> None:
        """Wait until members have written down something new."""
        before = self.path.stat().st_size

        def has_more() -> bool:
            for member in self.members:
                assert member.returncode is None, member.stderr
            return self.path.stat().st_size > before or self.is_idle()

        wait_until(has_more, 60, "progress")

    def is_idle(self) -> bool:
        return not Ledger(self.path).missing(self.stored)

    def kill(self) -> str:
        """Kill a member or a broker, or let leaders move. Of a single broker, kill the whole process instead."""
        if not self.kinds:
            self.kinds = self.random.sample(("member", "broker", "leader"), 3)
        choice = self.kinds.pop()
        if choice == "member":
            victim = self.members.pop(self.random.randrange(len(self.members)))
            victim.kill()
            self.join()
            return choice
        node = self.random.choice(self.cluster.node_ids)
        with self.path.open("a") as file:
            file.write(f"died {node} {time.time():.3f}\n")
        if choice == "leader" and len(self.cluster.node_ids) > 1:
            name = self.random.choice((TOPIC, "__share_group_state", "__consumer_offsets"))
            for index in range(PARTITIONS):
                try:
                    self.cluster.server.faults.move_leader(name, index)
                except KafkaError:
                    continue  # no other replica is in sync at the moment
            return f"leaders of {name}"
        if choice == "leader":  # there is no other
            self.cluster.server.kill()  # the whole process
            self.cluster.server.restart()
            return "process"
        self.cluster.kill(node)
        if len(self.cluster.node_ids) > 1:
            time.sleep(self.random.uniform(0.0, 0.5))
        self.cluster.restart(node)
        return "broker"

    def play(self) -> list[str]:
        done = []
        for _ in range(KILLS):
            self.send()
            self.progress()
            time.sleep(self.random.uniform(0, 0.3))
            done.append(self.kill())
        self.send()
        wait_until(self.is_idle, 90, "all records")
        return done

    def lag(self) -> list[int | None]:
        wanted = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        found = self.admin.list_share_group_offsets(GROUP, wanted)
        return [found[tp].lag if tp in found else None for tp in wanted]


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def chain(request: pytest.FixtureRequest, certificates: Certificates, tmp_path: Path) -> Iterator[Chain]:
    config: dict[str, Any] = _CONFIG | (_THREE if request.param > 1 else {})
    cluster = start_cluster("embedded", certificates, brokers=request.param, config=config, data_dir=tmp_path / "data")
    try:
        with ExitStack() as stack:
            yield Chain(cluster, tmp_path / "ledger", stack, f"{request.param}{SEED}")
    finally:
        cluster.stop()


def test_no_record_is_lost_or_delivered_after_it_was_finished(chain: Chain) -> None:
    done = chain.play()
    for member in chain.members:
        assert member.returncode is None, member.stderr
    wait_until(lambda: chain.lag() == [0] * PARTITIONS, 30, f"the group is at the end: {chain.lag()}")
    time.sleep(0.5)
    ledger = Ledger(chain.path)
    assert chain.stored
    print(
        f"{', '.join(done)}: {len(chain.stored)} records, {ledger.deliveries} deliveries, {len(ledger.finals)} "
        f"confirmed, {len(ledger.limited)} at the limit, {ledger.late} written down late"
    )
