"""Deadlines, wakeups, threads and forks of a consumer with partitions assigned by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.errors import ConcurrentAccessError, KafkaConnectionError, KafkaTimeoutError, WakeupError
from pyconsumer.protocol.api import ApiKey
from tests.behaviour.consumer_support import consuming, fill, offsets, read
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

ROOT = Path(__file__).parents[2]


# A call that is given less than half a second must not wait for anything else; the shortest of those is the time to
# connect, 10 s. How exactly deadlines are met is for tests with a clock of their own; a busy machine may take seconds.
IN_TIME_S = 8.0


class Watch:
    """Stopwatch of a block."""

    def __enter__(self) -> Watch:
        self._started = time.monotonic()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.seconds = time.monotonic() - self._started


# -- deadlines -------------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[KafkaConsumer, TopicPartition, float], Any]] = {
    "poll": lambda c, tp, t: c.poll(t),
    "position": lambda c, tp, t: c.position(tp, timeout_ms=t),
    "commit": lambda c, tp, t: c.commit({tp: 1}, timeout_ms=t),
    "committed": lambda c, tp, t: c.committed(tp, timeout_ms=t),
    "beginning_offsets": lambda c, tp, t: c.beginning_offsets([tp], timeout_ms=t),
    "end_offsets": lambda c, tp, t: c.end_offsets([tp], timeout_ms=t),
    "offsets_for_times": lambda c, tp, t: c.offsets_for_times({tp: 5}, timeout_ms=t),
    "partitions_for_topic": lambda c, tp, t: c.partitions_for_topic("other", timeout_ms=t),
    "topics": lambda c, tp, t: c.topics(timeout_ms=t),
    "unsubscribe": lambda c, tp, t: c.unsubscribe(timeout_ms=t),
    "close": lambda c, tp, t: c.close(timeout_ms=t),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_no_call_outlasts_its_deadline_with_every_broker_dead(
    cluster: Cluster, topic: str, group_id: str, proxy: KafkaProxy, name: str
) -> None:
    fill(cluster, topic, 5)
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp, group_id=group_id, heartbeat_interval_ms=500) as consumer:
        read(consumer, 5)
        proxy.refuse()
        consumer.seek_to_beginning(tp)
        with Watch() as watch:
            try:
                CALLS[name](consumer, tp, 400)
            except (KafkaTimeoutError, KafkaConnectionError):
                pass
        assert watch.seconds < IN_TIME_S
        with Watch() as watch:
            consumer.close(timeout_ms=300)
        assert watch.seconds < IN_TIME_S


@pytest.mark.parametrize("name", list(CALLS))
def test_no_call_outlasts_its_deadline_with_a_broker_that_never_answers(
    cluster: Cluster, topic: str, group_id: str, proxy: KafkaProxy, name: str
) -> None:
    proxy.drop(None)
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp, group_id=group_id) as consumer:
        with Watch() as watch:
            try:
                CALLS[name](consumer, tp, 400)
            except (KafkaTimeoutError, KafkaConnectionError):
                pass
        assert watch.seconds < IN_TIME_S
        with Watch() as watch:
            consumer.close(timeout_ms=300)
        assert watch.seconds < IN_TIME_S


def test_a_timeout_names_the_reason_of_the_wait() -> None:
    tp = TopicPartition("t", 3)
    with consuming("127.0.0.1:1", tp) as consumer:
        with pytest.raises(KafkaTimeoutError, match=r"t-3.*127\.0\.0\.1:1.*refused"):
            consumer.position(tp, timeout_ms=200)
        with pytest.raises(KafkaTimeoutError, match=r"t-3.*127\.0\.0\.1:1.*refused"):
            consumer.end_offsets([tp], timeout_ms=200)
        with pytest.raises(KafkaTimeoutError, match=r"topic other .*127\.0\.0\.1:1.*refused"):
            consumer.partitions_for_topic("other", timeout_ms=200)
        with pytest.raises(ValueError, match="negative"):
            consumer.poll(-1)


def test_a_broker_that_comes_back_is_read_again(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 10)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0)) as consumer:
        read(consumer, 10)
        proxy.refuse()
        assert not consumer.poll(500)
        proxy.accept()
        fill(cluster, topic, 10)
        assert offsets(read(consumer, 10)) == list(range(10, 20))


@pytest.mark.parametrize("broken", ["refused", "silent"])
@pytest.mark.slow
def test_waiting_for_a_dead_broker_costs_no_cpu(topic_name: str, broken: str, proxy: KafkaProxy) -> None:
    if broken == "silent":
        proxy.drop(None)
    else:
        proxy.refuse()
    with consuming(proxy.bootstrap_servers, TopicPartition(topic_name, 0)) as consumer:
        consumer.poll(100)
        before = time.thread_time()
        consumer.poll(2000)
        assert time.thread_time() - before < 0.5
        consumer.close(0)


# -- wakeup ----------------------------------------------------------------------------------------------------------


@pytest.mark.concurrent
def test_wakeup_ends_a_poll_of_another_thread(cluster: Cluster, topic: str) -> None:
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        consumer.poll(100)
        timer = threading.Timer(0.3, consumer.wakeup)
        timer.start()
        with Watch() as watch, pytest.raises(WakeupError):
            consumer.poll(20_000)
        timer.join()
        assert watch.seconds < 15
        assert not consumer.poll(100)  # one wakeup, one error


def test_a_wakeup_between_polls_is_raised_by_the_next_and_loses_no_records(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1000)
    found: list[int] = []
    wakeups = 0
    with consuming(cluster, TopicPartition(topic, 0), max_poll_records=50) as consumer:
        while len(found) < 1000:
            found += offsets(read(consumer, 1))
            consumer.wakeup()
            with pytest.raises(WakeupError):
                consumer.poll(1000)
            wakeups += 1
    assert found == list(range(1000))
    assert wakeups >= 20


def test_a_wakeup_while_records_are_on_their_way_out_does_not_lose_them(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 20)
    tp = TopicPartition(topic, 0)
    consumers: list[KafkaConsumer] = []

    def value(data: bytes) -> int:
        if data == b"7":
            consumers[0].wakeup()
        return int(data)

    with consuming(cluster, tp, value_deserializer=value) as consumer:
        consumers.append(consumer)
        assert [r.value for r in consumer.poll(60_000).records()] == list(range(20))
        with pytest.raises(WakeupError):
            consumer.poll(1000)
        assert consumer.position(tp) == 20


def test_wakeup_ends_other_calls_too_and_never_close(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.position(tp)
        consumer.wakeup()
        consumer.close()


# -- threads and processes -------------------------------------------------------------------------------------------


@pytest.mark.concurrent
@pytest.mark.blocking_only("tasks instead of threads: see test_aio_consumer")
def test_a_second_thread_is_refused_while_a_call_is_under_way(cluster: Cluster, topic: str) -> None:
    with consuming(cluster, TopicPartition(topic, 0)) as consumer, ThreadPoolExecutor(1) as pool:
        consumer.poll(100)
        inside = pool.submit(consumer.poll, 20_000)
        deadline = time.monotonic() + 60
        while consumer._guard.depth == 0:
            assert time.monotonic() < deadline
        for call in (consumer.poll, consumer.assignment, consumer.close, lambda: consumer.seek_to_end()):
            with pytest.raises(ConcurrentAccessError, match="wakeup"):
                call()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            inside.result(60)
        assert consumer.assignment()


@pytest.mark.concurrent
def test_after_an_error_another_thread_may_continue(cluster: Cluster, topic: str) -> None:
    with consuming(cluster, TopicPartition(topic, 0)) as consumer, ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="negative"):
            pool.submit(consumer.seek, TopicPartition(topic, 0), -5).result(60)
        assert pool.submit(consumer.assignment).result(60) == consumer.assignment()


@pytest.mark.concurrent
def test_one_consumer_per_thread_is_a_pattern(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(3)
    for partition in range(3):
        fill(cluster, topic, 300, partition=partition)

    def work(partition: int) -> list[int]:
        with consuming(cluster, TopicPartition(topic, partition)) as consumer:
            return offsets(read(consumer, 300))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [list(range(300))] * 3


@pytest.mark.concurrent
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_use_the_consumer_and_does_not_disturb_it(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    fill(cluster, topic, 100)
    program = tmp_path / "forks.py"
    program.write_text(
        "import os, sys\n"
        "from pyconsumer import KafkaConsumer, TopicPartition\n"
        "from pyconsumer.errors import ConcurrentAccessError\n"
        "consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset='earliest', max_poll_records=10)\n"
        "consumer.assign([TopicPartition(sys.argv[2], 0)])\n"
        "found = 0\n"
        "while not found:\n"
        "    found += consumer.poll(1000).count()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    for call in (consumer.poll, consumer.close, consumer.assignment):\n"
        "        try:\n"
        "            call()\n"
        "        except ConcurrentAccessError:\n"
        "            continue\n"
        "        os._exit(8)\n"
        "    del consumer\n"
        "    os._exit(0)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "while found < 100:\n"
        "    found += consumer.poll(1000).count()\n"
        "consumer.close()\n"
        "print('child', status, 'found', found)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), cluster.bootstrap_servers, topic],
        cwd=ROOT,
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("child 0 found 100\n", 0), done.stderr


@pytest.mark.concurrent
def test_ctrl_c_ends_a_poll_and_leaves_the_consumer_usable(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    fill(cluster, topic, 20)
    program = tmp_path / "interrupted.py"
    program.write_text(
        "import os, signal, sys, threading, time\n"
        "from pyconsumer import KafkaConsumer, TopicPartition\n"
        "consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset='earliest', max_poll_records=5)\n"
        "consumer.assign([TopicPartition(sys.argv[2], 0)])\n"
        "consumer.seek_to_end()\n"
        "consumer.poll(500)\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "started = time.monotonic()\n"
        "try:\n"
        "    consumer.poll(30_000)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', time.monotonic() - started < 25)\n"
        "refused = []\n"
        "def other():\n"
        "    try:\n"
        "        consumer.seek_to_beginning()\n"
        "    except Exception as error:\n"
        "        refused.append(error)\n"
        "thread = threading.Thread(target=other); thread.start(); thread.join()\n"
        "found = []\n"
        "while len(found) < 20:\n"
        "    found += [r.offset for r in consumer.poll(1000).records()]\n"
        "consumer.close()\n"
        "print(found == list(range(20)), refused)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), cluster.bootstrap_servers, topic],
        cwd=ROOT,
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("interrupted True\nTrue []\n", 0), done.stderr


def test_no_request_is_sent_by_a_poll_that_is_refused(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0)) as consumer:
        with pytest.raises(ValueError, match="max_records"):
            consumer.poll(max_records=0)
        assert proxy.events(ApiKey.FETCH) == []
