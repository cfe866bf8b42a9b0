"""Clients that are dropped without ``close``, and a ``close`` that Ctrl-C ends."""

from __future__ import annotations

import gc
import select
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tests.behaviour.consumer_support import member, poll_until
from tests.support.cluster import Cluster
from tests.support.log_reader import read_partition
from tests.support.process import wait_until

ROOT = Path(__file__).parents[2]


def heartbeat_threads(group_id: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.endswith(f"| {group_id}")]


@pytest.mark.concurrent
def test_a_dropped_consumer_warns_leaves_and_frees_its_thread_and_sockets(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group_id, "session_timeout_ms": 45_000}
    consumer = KafkaConsumer(topic, **settings)
    poll_until(consumer, consumer.assignment)
    (thread,) = heartbeat_threads(group_id)
    client, dropped = consumer._network, weakref.ref(consumer)
    channels = [node.channel for node in client._pool.nodes.values() if node.channel is not None]
    assert channels
    with pytest.warns(ResourceWarning, match=rf"unclosed <KafkaConsumer group_id='{group_id}'.*call close\(\)"):
        del consumer
    assert dropped() is None
    assert client.closed
    assert client._waker.fileno() == -1
    assert [channel._socket for channel in channels] == [None] * len(channels)
    thread.join(20)
    assert not thread.is_alive()
    with member(cluster, group_id, topic) as other:
        poll_until(other, other.assignment, 20)  # well within the session of the first


@pytest.mark.concurrent
def test_a_dropped_consumer_whose_listener_holds_it_is_collected(cluster: Cluster, topic: str, group_id: str) -> None:
    from pyconsumer import ConsumerRebalanceListener

    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id)
    listener = ConsumerRebalanceListener()
    listener.consumer = consumer  # type: ignore[attr-defined]
    consumer.subscribe([topic], listener=listener)
    poll_until(consumer, consumer.assignment)
    (thread,) = heartbeat_threads(group_id)
    dropped = weakref.ref(consumer)
    del listener
    del consumer
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()
    assert dropped() is None
    thread.join(20)
    assert not thread.is_alive()


def test_a_dropped_admin_client_warns_and_closes_its_sockets(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, client_id="forgotten")
    admin.list_topics()
    client = admin._client
    with pytest.warns(ResourceWarning, match=r"unclosed .*'forgotten'.*call close\(\)"):
        del admin
    assert client.closed


CLOSING = """
import signal, sys, threading, time
from pyconsumer import KafkaConsumer, KafkaProducer

kind, servers, topic, group = sys.argv[1:]
if kind == "consumer":
    client = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, request_timeout_ms=600_000)
    while not client.assignment():
        client.poll(100)
else:
    client = KafkaProducer(bootstrap_servers=servers)
    client.send(topic, b"1").get(60)
print("ready", flush=True)
sys.stdin.readline()
if kind == "producer":
    client.send(topic, b"2")
try:
    print("closing", flush=True)
    client.close(timeout_ms=600_000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
for thread in threading.enumerate():
    if thread.name.startswith("pyconsumer") and thread.name != "pyconsumer-log":
        thread.join(15)
        assert not thread.is_alive(), thread
client.close()
"""


@pytest.mark.concurrent
@pytest.mark.parametrize("kind", ["consumer", "producer"])
@pytest.mark.embedded_only(reason="the client's own affair; the broker only has to be silent")
def test_one_ctrl_c_ends_a_close_that_waits_for_a_silent_broker(
    cluster: Cluster, topic: str, group_id: str, tmp_path: Path, kind: str
) -> None:
    program = tmp_path / "closing.py"
    program.write_text(CLOSING)
    process = subprocess.Popen(
        [sys.executable, str(program), kind, cluster.bootstrap_servers, topic, group_id],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        cluster.freeze()
        try:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "closing\n"
            wait_until(lambda: _sleeps(process.pid), 20, "close waits")
            process.send_signal(signal.SIGINT)
            assert select.select([process.stdout], [], [], 60)[0], "Ctrl-C did not end close"
            assert process.stdout.readline() == "interrupted\n"
            assert process.wait(25) == 0
        finally:
            cluster.thaw()
            process.kill()


PRODUCING = """
import sys
from pyconsumer import KafkaProducer

servers, topic, timeout_ms = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=servers, linger_ms=60_000, delivery_timeout_ms=int(timeout_ms),
                         request_timeout_ms=300)
producer.partitions_for(topic)
print("ready", flush=True)
sys.stdin.readline()
for number in range(3):
    producer.send(topic, str(number).encode())
sys.exit(7)
"""


def produce(cluster: Cluster, topic: str, tmp_path: Path, timeout_ms: int, *, frozen: bool) -> tuple[int, str]:
    """Run a program that ends without ``flush`` and return its exit code and stderr."""
    program = tmp_path / "producing.py"
    program.write_text(PRODUCING.replace("linger_ms=60_000", f"linger_ms={timeout_ms - 300}"))
    process = subprocess.Popen(
        [sys.executable, str(program), cluster.bootstrap_servers, topic, str(timeout_ms)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        if frozen:
            cluster.freeze()
        try:
            _, errors = process.communicate("\n", timeout=60)
        finally:
            if frozen:
                cluster.thaw()
            process.kill()
    return process.returncode, errors


@pytest.mark.concurrent
def test_at_the_end_of_the_program_records_are_sent(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    assert produce(cluster, topic, tmp_path, 120_000, frozen=False) == (7, "")
    assert [record.value for record in read_partition(cluster, topic)] == [b"0", b"1", b"2"]


@pytest.mark.concurrent
@pytest.mark.embedded_only(reason="the client's own affair; the broker only has to be silent")
@pytest.mark.parametrize("timeout_ms", [400, 120_000], ids=["short", "default"])
@pytest.mark.slow
def test_records_that_cannot_be_sent_at_the_end_of_the_program_are_logged(
    cluster: Cluster, topic: str, tmp_path: Path, timeout_ms: int
) -> None:
    code, errors = produce(cluster, topic, tmp_path, timeout_ms, frozen=True)
    assert code == 7
    last = errors.splitlines()[-1]
    assert f"3 of topic {topic}" in last
    assert "Call flush() or close()" in last


@pytest.mark.concurrent
def test_a_dropped_producer_warns_and_sends_its_records(cluster: Cluster, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="forgotten", linger_ms=60_000)
    thread = producer._delegate.thread
    future = producer.send(topic, b"1")
    with pytest.warns(ResourceWarning, match=r"unclosed .*'forgotten'.*call close\(\)"):
        del producer
    assert future.get(60).offset == 0
    thread.join(20)
    assert not thread.is_alive()


def _sleeps(pid: int) -> bool:
    """Return whether the main thread waits, in the selector or for a lock."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
