"""A storm of Ctrl-C over a consumer that begins to work: it continues, and loses no record."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.group_members import fill
from tests.support.cluster import Cluster

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, random, signal, sys, time
from pyconsumer import KafkaConsumer, TopicPartition

def interrupt(*_):
    raise KeyboardInterrupt

servers, topic, group, seed = sys.argv[1:]
random.seed(int(seed))
settings = {"group_id": group, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if group else {}
consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=7, **settings)
if group:
    consumer.subscribe([topic])
else:
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
found, interrupts = [], 0
signal.signal(signal.SIGALRM, interrupt)
while interrupts < 100:
    records = None
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.004))  # once
        records = consumer.poll(100)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupts += 1
    if records:
        found += [(r.partition, r.offset) for r in records.records()]
began = time.monotonic()
while len(set(found)) < 100 and time.monotonic() < began + 60:
    found += [(r.partition, r.offset) for r in consumer.poll(200).records()]
after = time.monotonic() - began
consumer.close()
print(json.dumps({"found": found, "interrupts": interrupts, "after": after, "close": time.monotonic() - began - after}))
"""


@pytest.mark.concurrent
@pytest.mark.parametrize("with_group", [False, True], ids=["assigned", "subscribed"])
def test_a_storm_of_ctrl_c_costs_no_record_and_little_time(
    cluster: Cluster, topic_name: str, group_id: str, tmp_path: Path, with_group: bool
) -> None:
    cluster.create_topic(topic_name, 2)
    fill(cluster, topic_name, 100, 2)
    seed = random.randrange(10**6)
    program = tmp_path / "storm.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [
            sys.executable,
            str(program),
            cluster.bootstrap_servers,
            topic_name,
            group_id if with_group else "",
            str(seed),
        ],
        cwd=ROOT,
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    print("seed", seed)
    read = [tuple(each) for each in result["found"]]
    assert set(read) == {(partition, offset) for partition in range(2) for offset in range(50)}
    if not with_group:
        assert len(read) == 100, "each record once"
    assert result["after"] < 25, "nothing waited for a request that was never sent"
    assert result["close"] < 25
