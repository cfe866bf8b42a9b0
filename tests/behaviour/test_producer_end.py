"""Unplanned ends of a producer: a callback that exits or blocks, and the end of the interpreter."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyconsumer import KafkaProducer
from pyconsumer.aio import AsyncKafkaProducer
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from tests.support.cluster import Cluster
from tests.support.log_reader import read_partition

ROOT = Path(__file__).parents[2]
#: A record waits for a flush, so that its callback is there before it is sent, and runs in the producer's thread.
LINGER_MS = 500


def exits(metadata: object) -> None:
    sys.exit(7)


@pytest.mark.concurrent
def test_calls_after_a_callback_has_exited_name_it(cluster: Cluster, topic: str) -> None:
    named = r"cannot be used any more: the producer's sender thread has ended by SystemExit\(7\) in a callback"
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=LINGER_MS)
    try:
        producer.send(topic, b"0").get(60)
        producer.send(topic, b"1").add_callback(exits)
        with pytest.raises(IllegalStateError, match=named):  # not as if all were well
            producer.flush()
        producer._delegate.thread.join(30)
        for call in (
            lambda: producer.send(topic, b"2"),
            lambda: producer.send_many(topic, [b"2"]),
            producer.flush,
            lambda: producer.partitions_for(topic),
        ):
            with pytest.raises(IllegalStateError, match=named) as raised:
                call()
            assert isinstance(raised.value.__cause__.__cause__, SystemExit)  # type: ignore[union-attr]
    finally:
        producer.close()


@pytest.mark.concurrent
@pytest.mark.asyncio
async def test_calls_of_an_asyncio_producer_after_a_callback_has_exited_name_it(cluster: Cluster, topic: str) -> None:
    async with AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=LINGER_MS) as producer:
        (await producer.send(topic, b"1")).add_callback(exits)
        with pytest.raises(IllegalStateError, match=r"SystemExit\(7\)"):
            await producer.flush()
        with pytest.raises(IllegalStateError, match=r"SystemExit\(7\)"):
            await producer.send(topic, b"2")


@pytest.mark.concurrent
@pytest.mark.parametrize("call", ["flush", "close"])
def test_a_callback_that_never_returns_does_not_hold_up_for_ever(cluster: Cluster, topic: str, call: str) -> None:
    """As in Java, callbacks run in the thread that sends. But each call has a limit."""
    release = threading.Event()
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        linger_ms=LINGER_MS,
        request_timeout_ms=1000,
        delivery_timeout_ms=1000 + LINGER_MS,
    )
    try:
        producer.send(topic, b"1").get(60)
        producer.send(topic, b"2").add_callback(lambda metadata: release.wait(60))
        with pytest.raises(KafkaTimeoutError, match=rf"callbacks of records for {topic}-0 have not returned for \d+ s"):
            getattr(producer, call)()
    finally:
        release.set()
        producer.close(timeout_ms=60_000)


@pytest.mark.concurrent
def test_a_partitioner_may_send_and_wait_for_others_that_do(cluster: Cluster, topic: str) -> None:
    """It is code of the application, so no lock of the producer is held."""
    producer: KafkaProducer[bytes, bytes]

    def choose(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        if key != b"inner":
            sender = threading.Thread(target=lambda: producer.send(topic, b"inner", key=b"inner").get(60))
            sender.start()
            sender.join(60)
            assert not sender.is_alive()
        return 0

    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=choose) as producer:
        producer.send(topic, b"outer").get(60)
    values = [record.value for record in read_partition(cluster, topic)]
    assert values == [b"inner", b"outer"]


AT_EXIT = """
import atexit, sys, threading

servers, topic = sys.argv[1:]

@atexit.register
def last():  # registered before pyconsumer, so that it runs after it
    producer.send(topic, b"late", partition=0)
    released.set()
    daemon.join(30)
    producer.send_many(topic, [b"later", b"latest"], partition=0)

from pyconsumer import KafkaProducer

producer = KafkaProducer(bootstrap_servers=servers, linger_ms=600_000, delivery_timeout_ms=700_000)
released = threading.Event()

def work():
    released.wait()
    producer.send(topic, b"daemon", partition=0)

daemon = threading.Thread(target=work, daemon=True)
daemon.start()
producer.send(topic, b"first", partition=0)
"""


@pytest.mark.concurrent
def test_records_sent_at_the_end_of_the_interpreter_arrive(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """Also from daemon threads and ``atexit`` functions that run after the producer's own."""
    program = tmp_path / "at_exit.py"
    program.write_text(AT_EXIT)
    done = subprocess.run(
        [sys.executable, str(program), cluster.bootstrap_servers, topic],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    values = [record.value for record in read_partition(cluster, topic)]
    assert values == [b"first", b"late", b"daemon", b"later", b"latest"]
