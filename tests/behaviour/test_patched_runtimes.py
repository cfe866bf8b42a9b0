"""The blocking clients under gevent and eventlet, which replace ``select``, ``socket`` and ``threading``.

Each program runs in a process of its own. While a call waits, other greenlets must run.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from pyconsumer.child_python import child_environment
from tests.support.cluster import Cluster

PATCH = {
    "gevent": "from gevent import monkey; monkey.patch_all(); from gevent import spawn, sleep",
    "eventlet": "import eventlet; eventlet.monkey_patch(); from eventlet import spawn, sleep",
}
PROGRAM = """
import sys
import warnings
warnings.simplefilter("ignore")
{patch}

import threading
from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer

servers, topic, group_id = sys.argv[1:]
turns = 0

def turn():
    global turns
    while True:
        turns += 1
        sleep(0.01)

spawn(turn)
with KafkaConsumer(
    topic, bootstrap_servers=servers, group_id=group_id, auto_offset_reset="earliest", heartbeat_interval_ms=100
) as consumer:
    assert type(consumer._network._selector).__module__ == "selectors2", type(consumer._network._selector)
    while not consumer.assignment():
        consumer.poll(100)
    before = turns
    assert not consumer.poll(500)
    assert turns - before >= 10, f"others had {{turns - before}} turns while poll waited"

    def produce():
        with KafkaProducer(bootstrap_servers=servers, linger_ms=0) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number)
            producer.flush()
            return producer.send(topic, b"100").result(20).offset

    found = []
    spawn(produce)
    while len(found) < 101:
        found += [int(record.value) for record in consumer.poll(20_000).records()]
    assert found == list(range(101)), found
    consumer.commit()
    threading.Timer(0.1, consumer.wakeup).start()
    try:
        consumer.poll(20_000)
    except Exception as error:
        assert type(error).__name__ == "WakeupError", error
with KafkaAdminClient(bootstrap_servers=servers) as admin:
    assert topic in admin.list_topics()
print("done", turns)
"""


@pytest.mark.parametrize("runtime", PATCH)
def test_a_patched_runtime(runtime: str, cluster: Cluster, topic: str, group_id: str) -> None:
    if importlib.util.find_spec(runtime) is None:
        pytest.skip(f"needs {runtime}, which pyconsumer[test] installs")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(patch=PATCH[runtime]), cluster.bootstrap_servers, topic, group_id],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["done"]), done.stderr
