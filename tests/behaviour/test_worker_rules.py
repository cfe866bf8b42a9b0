"""Rules of workers on every broker: bounds, the ways in which the work ends, and metadata of others, tables."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather

from pyconsumer import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, stop_on_signals
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import IllegalStateError
from pyconsumer.workers import AsyncWorkers, Batch, DeadLetters, Retry, Workers
from tests.behaviour.worker_support import committed_of, fill, settings_of, work
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.worker_functions import (
    exits_at_three,
    keeps_table,
    keeps_table_without_seven,
    names_its_process,
    signals_at_three,
)

HOW = ["threads", "inline", "tasks"]
#: A batch waits until it is full, however slow the machine is.
FULL_MS = 120_000
#: The start of processes is long, so one test of tables has them by default.
POOLS = ["threads", "inline", "tasks", pytest.param("processes", marks=pytest.mark.slow)]


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


@pytest.mark.parametrize("how", [*HOW, "processes"])
def test_an_exit_in_a_function_ends_the_work_and_commits_finished_records(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)

    with pytest.raises(SystemExit, match="5"):
        work(how, topic, exits_at_three, settings_of(cluster, group_id), order="partition")
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_of_processes_and_commits_finished_records(
    cluster: Cluster, topic: str, group_id: str, number: signal.Signals
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for count in range(200):
            producer.send(topic, b"%d" % count, headers=[("signal", b"%d" % number)], partition=0)
    with (
        KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
        stop_on_signals(consumer, signals=[signal.SIGTERM]),
    ):
        workers = Workers(consumer, signals_at_three, order="partition", run_in="processes")
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                workers.run()
        else:
            workers.run()
        finished = workers.status().finished
    assert 3 <= finished < 200
    assert committed_of(cluster, group_id, topic, 1) == finished


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


@pytest.mark.parametrize("how", ["threads", "tasks"])
@pytest.mark.parametrize("order", ["key", "partition"])
def test_few_keys_of_several_partitions_are_in_work_at_once(
    cluster: Cluster, make_topic: Any, group_id: str, how: str, order: Any
) -> None:
    """One fetch brings all records of both. Without a part for each, those of the first one would fill the room."""
    topic, count = make_topic(2), 400
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(2 * count):
            producer.send(topic, b"v", key=b"key %d" % (n % 2), partition=n % 2)
    settings = settings_of(cluster, group_id)
    done: list[int] = []

    def handle(record: Any) -> None:
        time.sleep(0.001)
        done.append(record.partition)

    async def handle_later(record: Any) -> None:
        await asyncio.sleep(0.001)
        done.append(record.partition)

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings) as consumer:
            await AsyncWorkers(consumer, handle_later, order=order, max_buffered=100).run(until_caught_up=True)

    if how == "tasks":
        asyncio.run(run())
    else:
        work(how, topic, handle, settings, order=order, max_buffered=100)
    assert Counter(done) == {0: count, 1: count}
    assert min(Counter(done[:count]).get(partition, 0) for partition in (0, 1)) > count / 8, Counter(done[:count])
    assert committed_of(cluster, group_id, topic, 2) == 2 * count


@pytest.mark.parametrize("how", ["inline", "tasks"])
def test_a_partition_that_the_function_pauses_stays_paused(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    """The workers hold it back at that moment, because their room is full, and read the other one later."""
    topic, count = make_topic(2), 30
    paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(2 * count):
            producer.send(topic, b"v", partition=n % 2)
    settings = settings_of(cluster, group_id, max_poll_records=10)
    more: dict[str, Any] = {"order": "partition", "concurrency": 1, "max_buffered_bytes": 1}
    seen = Counter[int]()
    used: list[Any] = []

    def handle(record: Any) -> None:
        consumer, workers = used
        seen[record.partition] += 1
        if seen.total() == 5:
            consumer.pause(paused)
        if seen[other.partition] == count:
            workers.stop()

    async def handle_later(record: Any) -> None:
        if not seen:
            await asyncio.sleep(0.3)  # a turn of the workers, who have no room then
        handle(record)

    def handle_slowly(record: Any) -> None:
        if not seen:
            time.sleep(0.3)
        handle(record)

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings) as consumer:
            workers = AsyncWorkers(consumer, handle_later, **more)
            used.extend((consumer, workers))
            await workers.run()
            assert consumer.paused() == {paused}

    if how == "tasks":
        asyncio.run(run())
    else:
        with KafkaConsumer(topic, **settings) as consumer:
            workers = Workers(consumer, handle_slowly, run_in="inline", **more)
            used.extend((consumer, workers))
            workers.run()
            assert consumer.paused() == {paused}
    assert seen[other.partition] == count
    assert seen[paused.partition] <= 10, "those of the first poll"


@pytest.mark.parametrize("how", ["inline", "tasks"])
@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_function_that_closes_the_consumer_ends_the_work_at_once(
    cluster: Cluster, topic: str, group_id: str, how: str, call: str
) -> None:
    """Its own record runs, and must not be waited for."""
    fill(cluster, topic, 3)
    settings = settings_of(cluster, group_id, max_poll_interval_ms=3_600_000)
    more: dict[str, Any] = {"order": "partition", "revoke_timeout_ms": 1_800_000}
    seen: list[int] = []

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings) as consumer:

            async def handle(record: Any) -> None:
                seen.append(record.offset)
                await getattr(consumer, call)()

            await AsyncWorkers(consumer, handle, **more).run()

    def run_inline() -> None:
        with KafkaConsumer(topic, **settings) as consumer:

            def handle(record: Any) -> None:
                seen.append(record.offset)
                getattr(consumer, call)()

            Workers(consumer, handle, run_in="inline", **more).run()

    with pytest.raises(IllegalStateError, match="closed" if call == "close" else "subscribe"):
        asyncio.run(run()) if how == "tasks" else run_inline()
    assert seen == [0]


# -- tables of Arrow ---------------------------------------------------------------------------------------------------


def fill_numbers(cluster: Cluster, topic: str, folder: Path, count: int) -> None:
    """Send numbers, the first header of which names the folder for tables. Every fourth one has no key."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            key = None if n % 4 == 3 else b"key %d" % (n % 4)
            value = None if n == 11 else b"%d" % n
            headers = [("folder", str(folder).encode()), ("empty", None if n % 2 else b"")]
            producer.send(topic, value, key=key, headers=headers, timestamp_ms=1_700_000_000_000 + n)


def work_tables(how: str, topic: str, handle: Any, cluster: Cluster, settings: dict[str, Any], **more: Any) -> Any:
    """Process a topic to its end, with dead letters if ``dead`` names a topic, and return the status."""
    servers, dead = cluster.bootstrap_servers, more.pop("dead", None)
    if how != "tasks":
        with KafkaProducer(bootstrap_servers=servers) as producer, KafkaConsumer(topic, **settings) as consumer:
            letters = None if dead is None else DeadLetters(producer, dead)
            workers = Workers(consumer, handle, run_in=how, dead_letters=letters, **more)  # type: ignore[arg-type]
            workers.run(until_caught_up=True)
            return workers.status()

    async def handle_later(table: Any) -> None:
        await asyncio.sleep(0)
        handle(table)

    async def run() -> Any:
        async with (
            AsyncKafkaProducer(bootstrap_servers=servers) as producer,
            AsyncKafkaConsumer(topic, **settings) as consumer,
        ):
            letters = None if dead is None else DeadLetters(producer, dead)
            workers = AsyncWorkers(consumer, handle_later, dead_letters=letters, **more)
            await workers.run(until_caught_up=True)
            return workers.status()

    return asyncio.run(run())


def kept(folder: Path) -> list[Any]:
    """Return the tables that the function got."""
    return [feather.read_table(each, memory_map=False) for each in folder.iterdir()]


def in_order(table: Any) -> Any:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def polled(cluster: Cluster, topic: str, count: int) -> Any:
    """Return the records of a topic, by ``poll_arrow``."""
    found: list[Any] = []
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    with KafkaConsumer(topic, **settings) as consumer:
        while sum(batch.num_rows for batch in found) < count:
            found.append(consumer.poll_arrow(timeout_ms=1000))
    return pa.Table.from_batches(found)


@pytest.mark.parametrize("how", POOLS)
def test_the_function_gets_tables_as_poll_arrow_would_give_them(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, how: str
) -> None:
    """The deserializer would fail: it is not called."""
    topic = make_topic(2)
    fill_numbers(cluster, topic, tmp_path, 60)
    settings = settings_of(cluster, group_id, value_deserializer=lambda _: json.loads("no JSON"))
    status = work_tables(how, topic, keeps_table, cluster, settings, batch=Batch(max=8, wait_ms=20, form="arrow"))
    assert (status.finished, status.dead, status.retries) == (60, 0, 0)
    tables = kept(tmp_path)
    assert max(table.num_rows for table in tables) <= 8
    expected = polled(cluster, topic, 60)
    for table in tables:
        assert table.schema == expected.schema
    assert in_order(pa.concat_tables(tables)).equals(in_order(expected))
    assert committed_of(cluster, group_id, topic, 2) == 60


@pytest.mark.parametrize("order", ["key", "partition"])
@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_rows_of_a_key_or_a_partition_are_in_order(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, how: str, order: Any
) -> None:
    topic = make_topic(2)
    fill_numbers(cluster, topic, tmp_path, 60)
    seen = defaultdict[Any, list[int]](list)
    sizes: list[int] = []

    def handle(table: Any) -> None:
        sizes.append(table.num_rows)
        for row in table.select(["key", "partition", "offset"]).to_pylist():
            seen[row["key"] if order == "key" else row["partition"]].append(row["offset"])

    batch = Batch(max=5, wait_ms=50, form="arrow")
    work_tables(how, topic, handle, cluster, settings_of(cluster, group_id), order=order, batch=batch, concurrency=4)
    assert sum(sizes) == 60
    if order == "key":
        del seen[None]  # these have no order
    assert {place: found == sorted(found) for place, found in seen.items()} == dict.fromkeys(seen, True)


@pytest.mark.parametrize("how", [*HOW, "processes"])
def test_a_table_that_fails_is_tried_row_by_row_and_the_bad_one_is_dead(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, how: str
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    fill_numbers(cluster, topic, tmp_path, 20)
    status = work_tables(
        how,
        topic,
        keeps_table_without_seven,
        cluster,
        settings_of(cluster, group_id),
        batch=Batch(max=20, wait_ms=FULL_MS, form="arrow"),
        retry=Retry(attempts=2, backoff_ms=10),
        dead=dead,
    )
    assert (status.finished, status.dead, status.retries) == (20, 1, 1)
    calls = Counter(tuple(table["offset"].to_pylist()) for table in kept(tmp_path))
    alone = {(offset,): 2 if offset == 7 else 1 for offset in range(20)}
    whole = [rows for rows in calls if len(rows) > 1]
    assert [sorted(rows) for rows in whole] == [list(range(20))], "the call of all is no attempt"
    assert {rows: count for rows, count in calls.items() if len(rows) == 1} == alone
    assert committed_of(cluster, group_id, topic, 1) == 20
    with KafkaConsumer(dead, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as reader:
        (letter,) = reader.poll(timeout_ms=20_000).records()
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    assert (letter.key, letter.value) == (None, b"7")
    assert (headers["dead-letter.topic"], headers["dead-letter.offset"]) == (topic, "7")
    assert (headers["dead-letter.attempts"], headers["dead-letter.error-type"]) == ("2", "builtins.ArithmeticError")


@pytest.mark.parametrize("how", ["threads", "inline", "tasks"])
def test_without_dead_letters_a_bad_row_ends_the_work_and_the_others_are_committed(
    cluster: Cluster, topic: str, group_id: str, tmp_path: Path, how: str
) -> None:
    fill_numbers(cluster, topic, tmp_path, 10)
    batch = Batch(max=10, wait_ms=FULL_MS, form="arrow")
    settings = settings_of(cluster, group_id)
    with pytest.raises(ArithmeticError, match="seven"):
        work_tables(how, topic, keeps_table_without_seven, cluster, settings, batch=batch, order="partition")
    assert committed_of(cluster, group_id, topic, 1) == 7
