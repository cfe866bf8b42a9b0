"""Rules of workers on every broker: bounds, the ways in which the work ends, and metadata of others."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, stop_on_signals
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.workers import AsyncWorkers, Workers
from tests.behaviour.worker_support import committed_of, fill, settings_of, work
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.worker_functions import names_its_process

HOW = ["threads", "inline", "tasks"]


def run_with(
    how: str, topic: str, handle: Callable[[Any], Any], settings: dict[str, Any], look: Any, **more: Any
) -> None:
    """Run workers until a function in another thread has looked at them. It gets the workers."""
    failures: list[BaseException] = []

    def watch(workers: Workers | AsyncWorkers) -> None:
        try:
            look(workers)
        except BaseException as error:
            failures.append(error)
        finally:
            workers.stop()

    if how == "tasks":

        async def run() -> None:
            async with AsyncKafkaConsumer(topic, **settings) as consumer:
                workers = AsyncWorkers(consumer, handle, **more)
                thread = threading.Thread(target=watch, args=(workers,))
                thread.start()
                await workers.run()
                thread.join()

        asyncio.run(run())
    else:
        with KafkaConsumer(topic, **settings) as consumer:
            workers = Workers(consumer, handle, run_in=how, **more)  # type: ignore[arg-type]
            thread = threading.Thread(target=watch, args=(workers,))
            thread.start()
            workers.run()
            thread.join()
    if failures:
        raise failures[0]


def test_no_more_records_are_in_work_than_concurrency(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 60)
    lock = threading.Lock()
    running, most = 0, 0

    def handle(record: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    work("threads", topic, handle, settings_of(cluster, group_id), order=None, concurrency=3)
    assert most == 3


def test_there_are_at_most_as_many_processes_as_processors(
    cluster: Cluster, topic: str, group_id: str, tmp_path: Any
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(100):
            producer.send(topic, b"%d" % n, headers=[("folder", str(tmp_path).encode())])
    with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
        Workers(consumer, names_its_process, run_in="processes", concurrency=64).run(until_caught_up=True)
    found = {int(each.name) for each in tmp_path.iterdir()}
    assert 1 <= len(found) <= (os.cpu_count() or 1)
    assert os.getpid() not in found


@pytest.mark.parametrize("how", ["threads", "tasks"])
@pytest.mark.parametrize("bound", ["max_buffered", "max_buffered_bytes"])
def test_no_more_records_are_polled_than_there_is_room_for(
    cluster: Cluster, topic: str, group_id: str, how: str, bound: str
) -> None:
    fill(cluster, topic, 300, lambda n: b"%0100d" % n)
    end = threading.Event()
    counts: list[int] = []

    def handle(record: Any) -> None:
        assert end.wait(60)

    async def handle_later(record: Any) -> None:
        while not end.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)

    def look(workers: Any) -> None:
        try:
            wait_until(lambda: workers.status().waiting >= 19, 60, "the records")
            for _ in range(10):
                time.sleep(0.03)
                counts.append(workers.status().running + workers.status().waiting)
        finally:
            end.set()
        wait_until(lambda: workers.status().finished == 300, 60, "all records")

    # A poll may exceed the bytes once, so it is of 10 records.
    more: dict[str, Any] = {"max_buffered": 300} | {bound: 20 if bound == "max_buffered" else 20 * 100}
    settings = settings_of(cluster, group_id, max_poll_records=10)
    function = handle_later if how == "tasks" else handle
    run_with(how, topic, function, settings, look, order="partition", concurrency=1, **more)
    assert set(counts) == {20}
    assert committed_of(cluster, group_id, topic, 1) == 300


@pytest.mark.parametrize("how", HOW)
def test_an_exit_in_a_function_ends_the_work_and_commits_finished_records(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)

    def handle(record: Any) -> None:
        if record.offset == 3:
            raise SystemExit(5)

    with pytest.raises(SystemExit, match="5"):
        work(how, topic, handle, settings_of(cluster, group_id), order="partition")
    assert committed_of(cluster, group_id, topic, 1) == 3


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_and_commits_finished_records(
    cluster: Cluster, topic: str, group_id: str, how: str, number: signal.Signals
) -> None:
    """Ctrl-C is an exception of the main thread. The other one is a request to ``stop_on_signals``."""
    fill(cluster, topic, 40)
    seen: list[int] = []

    def handle(record: Any) -> None:
        seen.append(record.offset)
        if record.offset == 3:
            os.kill(os.getpid(), number)
        if record.offset >= 3 and how != "inline":
            time.sleep(0.05)

    async def handle_later(record: Any) -> None:
        handle(record)
        await asyncio.sleep(0)

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            with stop_on_signals(consumer, signals=[signal.SIGTERM]):
                await AsyncWorkers(consumer, handle_later, order="partition").run()

    def run_all() -> None:
        if how == "tasks":
            asyncio.run(run())
            return
        with (
            KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
            stop_on_signals(consumer, signals=[signal.SIGTERM]),
        ):
            Workers(consumer, handle, order="partition", run_in=how).run()  # type: ignore[arg-type]

    if number == signal.SIGINT:
        with pytest.raises(KeyboardInterrupt):
            run_all()
    else:
        run_all()
    assert seen == list(range(len(seen)))
    # The one that was interrupted is processed again.
    assert committed_of(cluster, group_id, topic, 1) in (len(seen) - 1, len(seen))


def test_metadata_of_others_is_ignored(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    seen: list[int] = []
    settings = settings_of(cluster, group_id)
    with KafkaConsumer(**settings) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(4, "AX5vdCBvdXJz, by hand")})
    work("threads", topic, lambda record: seen.append(record.offset), settings, order="partition")
    assert seen == [4, 5, 6, 7, 8, 9]


def test_a_broker_that_takes_less_metadata_gets_the_offsets_alone(
    new_cluster: Callable[..., Cluster], cluster_kind: str, group_id: str
) -> None:
    cluster = new_cluster(cluster_kind, config={"offset.metadata.max.bytes": 4})
    cluster.create_topic("t")
    fill(cluster, "t", 10)
    end = threading.Event()

    def handle(record: Any) -> None:
        if record.offset == 3:
            assert end.wait(60)

    def look(workers: Any) -> None:
        try:
            place = TopicPartition("t", 0)
            with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
                wait_until(lambda: consumer.committed(place) == 3, 60, "a commit without the gap")
        finally:
            end.set()
        wait_until(lambda: workers.status().finished == 10, 60, "all records")

    run_with("threads", "t", handle, settings_of(cluster, group_id), look, order=None)
    assert committed_of(cluster, group_id, "t", 1) == 10
