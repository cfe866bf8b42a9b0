"""Members of ``pyconsumer.compat.aiokafka`` are killed while their handlers work. No record is lost."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
RECORDS = 150  # of each partition
KILLS = int(os.environ.get("PYCONSUMER_AIOKAFKA_KILLS") or 3)
WITHIN_S = 200.0


class Member:
    """What one member has told.

    A partition that the member has kept since its last records of it goes on at its position. One that it had lost
    meanwhile, or whose generation it missed, goes on at the offset that was committed when it got the partition back.
    The records in its hands come again then, even if it has committed them since. So these commits of its own do not
    bind its next read of the partition, and the reads that follow go on from there.
    """

    def __init__(self) -> None:
        self._generation = 0
        self._kept: set[int] = set()
        self._positions: dict[int, int] = {}
        self._before_own_commits: dict[int, int] = {}  # by partition: since its last records of it

    def assigned(self, generation: int, partitions: list[int]) -> None:
        """Note that it has been assigned these partitions."""
        missed_one = generation > self._generation + 1
        self._kept = set() if missed_one else self._kept.intersection(partitions)
        self._generation = generation

    def committed(self, partition: int, before: int) -> None:
        """Note that it has committed. ``before`` is what had been committed then."""
        self._before_own_commits.setdefault(partition, before)

    def begin(self, partition: int, offsets: list[int], committed: int) -> int:
        """Note that it begins with records of a partition, and return the offset before which none may come."""
        own = self._before_own_commits.pop(partition, committed)
        bound = min(committed, self._positions[partition]) if partition in self._kept else own
        self._kept.add(partition)
        self._positions[partition] = offsets[-1] + 1
        return bound


class Steps:
    """What all members have told, and what contradicts the rules."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.ready = 0
        self.done: set[tuple[int, int]] = set()
        self.committed: dict[int, int] = {}
        self.begun_after_commit: list[tuple[int, int, int, int]] = []
        self._members: defaultdict[int, Member] = defaultdict(Member)
        self.history: list[str] = []

    def note(self, number: int, line: str) -> None:
        what, *more = json.loads(line)
        with self.changed:
            self.history.append(f"{number} {line.strip()}")
            member = self._members[number]
            if what == "ready":
                self.ready += 1
            elif what == "assigned":
                member.assigned(*more)
            elif what == "begin":
                partition, offsets = more
                before = member.begin(partition, offsets, self.committed.get(partition, 0))
                self.begun_after_commit += [
                    (number, partition, offset, before) for offset in offsets if offset < before
                ]
            elif what == "done":
                self.done |= {(more[0], offset) for offset in more[1]}
            else:
                before = self.committed.get(more[0], 0)
                member.committed(more[0], before)
                self.committed[more[0]] = more[1]
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Return whether the condition holds within this time."""
        with self.changed:
            return self.changed.wait_for(condition, seconds)


MISSED_ONE = """
2 ["assigned", 3, [2]]
2 ["begin", 2, [146, 147, 148, 149]]
2 ["assigned", 5, [2]]
2 ["committed", 2, 150]
2 ["begin", 2, [146]]
2 ["committed", 2, 147]
2 ["begin", 2, [147]]
2 ["committed", 2, 148]
2 ["begin", 2, [148, 149]]
"""
KEPT = """
1 ["assigned", 3, [0]]
1 ["begin", 0, [5, 6]]
1 ["committed", 0, 7]
1 ["assigned", 4, [0]]
1 ["begin", 0, [6]]
"""
MOVED = """
1 ["assigned", 3, [0]]
1 ["begin", 0, [5, 6]]
1 ["committed", 0, 7]
2 ["assigned", 4, [0]]
2 ["begin", 0, [6]]
"""


@pytest.mark.parametrize(
    ("history", "wrong"),
    [(MISSED_ONE, []), (KEPT, [(1, 0, 6, 7)]), (MOVED, [(2, 0, 6, 7)])],
    ids=["missed", "kept", "moved"],
)
def test_the_judge_knows_a_second_delivery_that_is_wrong(history: str, wrong: list[tuple[int, ...]]) -> None:
    steps = Steps()
    for line in history.strip().splitlines():
        number, told = line.split(" ", 1)
        steps.note(int(number), told)
    assert steps.begun_after_commit == wrong


@pytest.mark.pairs("protocol", "commits")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("commits", ["auto", "manual"])
def test_members_that_are_killed_at_work_lose_no_record(
    cluster: Cluster, make_topic: Callable[..., str], group_id: str, protocol: str, commits: str
) -> None:
    topic = make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        fill(cluster, topic, RECORDS, partition=partition)
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
    }
    if protocol == "classic":
        settings |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    else:
        cluster.set_group(group_id, {"consumer.session.timeout.ms": "6000"})
    steps, chance = Steps(), random.Random(f"{protocol} {commits}")
    members: list[GuardedProcess] = []

    def join() -> None:
        command = [sys.executable, "-m", "tests.support.aiokafka_member", json.dumps(settings), topic, commits]
        number = len(members)
        members.append(GuardedProcess([*command, str(number)], on_line=partial(steps.note, number), cwd=ROOT))

    alive: list[GuardedProcess] = []
    try:
        for _ in range(3):
            join()
        alive += members
        assert steps.wait(lambda: steps.ready >= 3, WITHIN_S)
        for _ in range(KILLS):
            steps.wait(lambda: False, chance.uniform(0.1, 2.0))  # any moment
            victim = alive.pop(chance.randrange(len(alive)))
            victim.kill()
            if len(alive) < 2 or (len(alive) < 4 and chance.random() < 0.8):
                join()
                alive.append(members[-1])
        started = time.monotonic()
        everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}
        complete = steps.wait(lambda: steps.done >= everything, WITHIN_S)
        missing = sorted(everything - steps.done)
        assert complete, (missing[:20], len(missing), time.monotonic() - started, alive[0].stderr[-2000:])
        assert not steps.begun_after_commit, "only records after the last commit come twice: " + "; ".join(
            steps.history
        )
    finally:
        for member in members:
            member.stop()
