"""Workers whose function gets Arrow tables, in every kind of pool and on every broker."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.workers import AsyncWorkers, Batch, DeadLetters, Retry, Workers
from tests.behaviour.worker_support import committed_of, settings_of
from tests.support.cluster import Cluster
from tests.support.worker_functions import keeps_table, keeps_table_without_seven

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")

POOLS = ["threads", "inline", "processes", "tasks"]
#: A batch waits until it is full, however slow the machine is.
FULL_MS = 120_000


def fill(cluster: Cluster, topic: str, folder: Path, count: int) -> None:
    """Send numbers, the first header of which names the folder for tables. Every fourth one has no key."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            key = None if n % 4 == 3 else b"key %d" % (n % 4)
            value = None if n == 11 else b"%d" % n
            headers = [("folder", str(folder).encode()), ("empty", None if n % 2 else b"")]
            producer.send(topic, value, key=key, headers=headers, timestamp_ms=1_700_000_000_000 + n)


def work(how: str, topic: str, handle: Any, cluster: Cluster, settings: dict[str, Any], **more: Any) -> Any:
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
    fill(cluster, topic, tmp_path, 60)
    settings = settings_of(cluster, group_id, value_deserializer=lambda _: json.loads("no JSON"))
    status = work(how, topic, keeps_table, cluster, settings, batch=Batch(max=8, wait_ms=20, form="arrow"))
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
    fill(cluster, topic, tmp_path, 60)
    seen = defaultdict[Any, list[int]](list)
    sizes: list[int] = []

    def handle(table: Any) -> None:
        sizes.append(table.num_rows)
        for row in table.select(["key", "partition", "offset"]).to_pylist():
            seen[row["key"] if order == "key" else row["partition"]].append(row["offset"])

    batch = Batch(max=5, wait_ms=50, form="arrow")
    work(how, topic, handle, cluster, settings_of(cluster, group_id), order=order, batch=batch, concurrency=4)
    assert sum(sizes) == 60
    if order == "key":
        del seen[None]  # these have no order
    assert {place: found == sorted(found) for place, found in seen.items()} == dict.fromkeys(seen, True)


@pytest.mark.parametrize("how", POOLS)
def test_a_table_that_fails_is_tried_row_by_row_and_the_bad_one_is_dead(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path, how: str
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    fill(cluster, topic, tmp_path, 20)
    status = work(
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
    fill(cluster, topic, tmp_path, 10)
    batch = Batch(max=10, wait_ms=FULL_MS, form="arrow")
    settings = settings_of(cluster, group_id)
    with pytest.raises(ArithmeticError, match="seven"):
        work(how, topic, keeps_table_without_seven, cluster, settings, batch=batch, order="partition")
    assert committed_of(cluster, group_id, topic, 1) == 7
