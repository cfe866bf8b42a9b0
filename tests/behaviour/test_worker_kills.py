"""Workers that are killed at random moments: nothing is lost, the order by key holds, few records come twice.

``PYCONSUMER_WORKER_KILLS`` sets how many kills there are (3 by default), ``PYCONSUMER_WORKER_SEED`` which.
``PYCONSUMER_WORKER_RECORDS`` sets how many records there are (2,000 by default). More kills need more of them.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until
from tests.support.worker_program import CONCURRENCY

COUNT = int(os.environ.get("PYCONSUMER_WORKER_RECORDS") or 2_000)
KEYS = 40
KILLS = int(os.environ.get("PYCONSUMER_WORKER_KILLS") or 3)
SEED = os.environ.get("PYCONSUMER_WORKER_SEED") or ""
WAYS = ["threads", "processes", "inline", "tasks"]
#: Longest time of the last program, in seconds. Inline, a record takes 2 ms, and with exactly once and the commits 3 ms
#: on an idle machine.
LONGEST = 120 + COUNT * 0.02
#: Records that a killed program may have finished since its last commit: those in work, and those of one interval. The
#: interval is 50 ms, and 8 workers finish about 200 records in it. A commit under load comes later than that.
REPEATED = CONCURRENCY + 1_000


def work_and_kill(
    cluster: Cluster, topic: str, group_id: str, ledger: Path, way: str, protocol: str, sink: str = ""
) -> Counter[int]:
    """Process a topic with programs that are killed, the last one excepted. Return the calls of each record."""
    ledger.touch()
    headers = [("sink", sink.encode()), ("file", str(ledger).encode())]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(COUNT):
            producer.send(topic, b"%d" % n, key=b"k%d" % (n % KEYS), headers=headers)
    command = [sys.executable, "-m", "tests.support.worker_program"]
    command += [way, cluster.bootstrap_servers, group_id, topic, protocol, sink]
    moments = random.Random(way + SEED)
    kills = 0  # of programs that had not ended
    for _ in range(KILLS):
        before = ledger.stat().st_size
        with GuardedProcess(command) as program:
            until = time.monotonic() + 60
            while ledger.stat().st_size == before and program.returncode is None and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 0.3))
            kills += program.returncode is None
            program.kill()
    if protocol == "consumer":
        # A killed member keeps its partitions until its session ends. The last program may get one of two partitions
        # an assignment interval before the other, be at the end of that one, and return, as it should.
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            wait_until(lambda: not admin.describe_groups([group_id])[group_id].members, 30, "the killed member is gone")
    with GuardedProcess(command) as program:
        assert program.wait(LONGEST) == 0, program.stderr

    seen: dict[bytes, list[int]] = {}
    calls = Counter[int]()
    for line in ledger.read_bytes().splitlines():
        key, number = line.split()
        calls[int(number)] += 1
        if calls[int(number)] == 1:
            seen.setdefault(key, []).append(int(number))
    assert sorted(calls) == list(range(COUNT)), "each record was processed"
    assert [key for key, numbers in seen.items() if numbers != sorted(numbers)] == []
    assert calls.total() - COUNT <= KILLS * REPEATED
    repeated = calls.total() - COUNT
    print(f"{way} {protocol} {'exactly once' if sink else 'at least once'}: {kills} killed, {repeated} repeated")
    return calls


@pytest.mark.pairs("way")
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_killed_workers_lose_no_record_and_keep_the_order_of_keys(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, way: str
) -> None:
    work_and_kill(cluster, make_topic(2), group_id, tmp_path / "ledger", way, "classic")


@pytest.mark.pairs("way", swap=1)
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_results_of_killed_workers_are_there_exactly_once(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, way: str
) -> None:
    sink = make_topic(1)
    work_and_kill(cluster, make_topic(2), group_id, tmp_path / "ledger", way, "classic", sink)
    found = [int(value) for value in read_to_end(cluster.bootstrap_servers, sink, 1, "read_committed")]
    assert sorted(found) == list(range(COUNT))
    for key in range(KEYS):
        of_key = [n for n in found if n % KEYS == key]
        assert of_key == sorted(of_key)


@pytest.mark.pairs("way", "exactly_once")
@pytest.mark.slow
@pytest.mark.embedded_only(reason="sessions of this protocol are shortened by a setting of a broker of its own")
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_killed_workers_in_groups_of_the_consumer_protocol(
    new_cluster: Callable[..., Cluster], tmp_path: Path, way: str, exactly_once: bool
) -> None:
    config = {"group.consumer.session.timeout.ms": 3000, "group.consumer.heartbeat.interval.ms": 500}
    cluster = new_cluster("embedded", config=config | {"group.consumer.min.session.timeout.ms": 3000})
    cluster.create_topic("source", 2)
    cluster.create_topic("sink", 1)
    sink = "sink" if exactly_once else ""
    work_and_kill(cluster, "source", "group", tmp_path / "ledger", way, "consumer", sink)
    if exactly_once:
        found = [int(value) for value in read_to_end(cluster.bootstrap_servers, sink, 1, "read_committed")]
        assert sorted(found) == list(range(COUNT))
