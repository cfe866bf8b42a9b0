"""Workers that are killed at random moments: nothing is lost, the order by key holds, few records come twice."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaProducer
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess
from tests.support.worker_program import CONCURRENCY

COUNT = 2_000
KEYS = 40
KILLS = 3
#: Records that a killed program may have finished since its last commit: those in work, and those of one interval. The
#: interval is 50 ms, and 8 workers finish about 200 records in it. A commit under load comes later than that.
REPEATED = CONCURRENCY + 1_000


@pytest.mark.slow
@pytest.mark.parametrize("way", ["threads", "processes", "inline", "tasks"])
def test_killed_workers_lose_no_record_and_keep_the_order_of_keys(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, way: str
) -> None:
    topic, ledger = make_topic(2), tmp_path / "ledger"
    ledger.touch()
    header = [("file", str(ledger).encode())]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(COUNT):
            producer.send(topic, b"%d" % n, key=b"k%d" % (n % KEYS), headers=header)
    command = [sys.executable, "-m", "tests.support.worker_program", way, cluster.bootstrap_servers, group_id, topic]
    moments = random.Random(way)
    for _ in range(KILLS):
        before = ledger.stat().st_size
        with GuardedProcess(command) as program:
            until = time.monotonic() + 60
            while ledger.stat().st_size == before and program.returncode is None and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 0.3))
            program.kill()
    with GuardedProcess(command) as program:
        assert program.wait(120) == 0, program.stderr

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
