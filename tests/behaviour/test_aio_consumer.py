"""``AsyncKafkaConsumer`` on real brokers: the behaviour of tasks of an event loop.

What both consumers do alike is shown by the tests marked ``faces``.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, ConsumerRecord, ConsumerRecords, KafkaConsumer, TopicPartition
from pyconsumer.aio import AsyncConsumerRebalanceListener, AsyncKafkaConsumer
from pyconsumer.errors import ConcurrentAccessError, IllegalStateError, KafkaTimeoutError, WakeupError
from pyconsumer.protocol.api import ApiKey
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy
from tests.support.steps import steps_of

WITHIN_S = 60


def assigned(cluster: Cluster, *partitions: TopicPartition, **settings: Any) -> AsyncKafkaConsumer:
    """Return a consumer with partitions assigned, from the start."""
    consumer = AsyncKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, **{"auto_offset_reset": "earliest", **settings}
    )
    consumer.assign(partitions)
    return consumer


async def read(consumer: AsyncKafkaConsumer, count: int) -> list[int]:
    """Return the first values, as numbers."""
    found: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            found += [int(record.value) for record in (await consumer.poll(500)).records()]
    return found


@pytest.mark.asyncio
async def test_all_ways_to_read(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1200)
    tp = TopicPartition(topic, 0)
    async with assigned(cluster, tp, consumer_timeout_ms=6000) as consumer:
        assert await read(consumer, 500) == list(range(500))
        assert await consumer.position(tp) == 500
        assert [int(record.value) async for record in consumer] == list(range(500, 1200))
        consumer.seek(tp, 100)
        batch = await consumer.poll_arrow(WITHIN_S * 1000, columns=["offset"])
        assert batch.column("offset")[0].as_py() == 100
        assert await consumer.end_offsets([tp]) == {tp: 1200}
        assert await consumer.beginning_offsets([tp]) == {tp: 0}
        assert topic in await consumer.topics()
        assert await consumer.partitions_for_topic(topic) == {0}


@pytest.mark.asyncio
async def test_a_listener_awaits_its_commit_before_the_partition_is_given_up(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 10)
    seen: list[str] = []

    class Listener(AsyncConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            for name in ("poll", "unsubscribe", "close"):
                with pytest.raises(IllegalStateError, match=f"{name} must not be called from a callback"):
                    await getattr(consumer, name)()
            for call in (lambda: consumer.subscribe([topic]), lambda: consumer.assign(assigned)):
                with pytest.raises(IllegalStateError, match="must not be called from a callback"):
                    call()
            await asyncio.sleep(0.05)
            (tp,) = assigned
            await consumer.commit({tp: 3})
            seen.append(f"assigned, committed {await consumer.committed(tp)}")
            consumer.seek(tp, 4)

        async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            await asyncio.sleep(0.05)
            await consumer.commit()
            seen.append(f"revoked at {await consumer.committed(next(iter(revoked)))}")

    settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group_id, "auto_offset_reset": "earliest"}
    async with AsyncKafkaConsumer(settings, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic], listener=Listener())
        assert await read(consumer, 6) == [4, 5, 6, 7, 8, 9]
        assert seen == ["assigned, committed 3"]
    assert seen == ["assigned, committed 3", "revoked at 10"]


@pytest.mark.asyncio
async def test_the_blocking_consumer_refuses_a_listener_of_coroutines(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    servers = cluster.bootstrap_servers
    with KafkaConsumer(bootstrap_servers=servers, group_id=group_id) as consumer:
        consumer.subscribe([topic], listener=AsyncConsumerRebalanceListener())
        with pytest.raises(TypeError, match=r"on_partitions_assigned is a coroutine function, which only pyconsumer\."):
            next(iter(consumer))
        consumer.subscribe([topic], listener=ConsumerRebalanceListener())  # or closing would call the other one


@pytest.mark.asyncio
async def test_one_task_polls_and_others_do_the_rest(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    fill(cluster, topic, 5)
    async with assigned(cluster, tp, group_id=group_id, enable_auto_commit=False) as consumer:
        await read(consumer, 5)
        polling = asyncio.create_task(consumer.poll(WITHIN_S * 1000), name="the poller")
        await asyncio.sleep(0.05)
        with pytest.raises(ConcurrentAccessError, match="poll was called while task 'the poller' is in poll"):
            await consumer.poll()
        with pytest.raises(ConcurrentAccessError, match="one task at a time"):
            consumer.subscribe(["another"])
        await asyncio.gather(consumer.commit({tp: 1}), consumer.commit({tp: 2}), consumer.commit({tp: 3}))
        assert await consumer.committed(tp) == 3, "commits are sent in the order of the calls"
        await consumer.commit_async({tp: 4})
        assert await consumer.committed(tp) == 4
        assert await consumer.position(tp) == 5
        assert consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] == 5
        consumer.pause(tp)
        consumer.resume(tp)
        consumer.seek(tp, 3)
        records = await polling
        assert [int(record.value) for record in records.records()] == [3, 4]


@pytest.mark.asyncio
async def test_the_loop_alone_brings_a_commit_about(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    async with assigned(cluster, tp, group_id=group_id, enable_auto_commit=False) as consumer:
        async with asyncio.timeout(WITHIN_S):
            await consumer.commit_async({tp: 2})  # which first has to find the coordinator
        assert await consumer.committed(tp) == 2


@pytest.mark.asyncio
async def test_a_commit_callback_may_be_a_coroutine_function(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    seen: list[object] = []

    async def note(offsets: object, error: object) -> None:
        await asyncio.sleep(0.01)
        seen.append((offsets, error))

    async with assigned(cluster, tp, group_id=group_id, enable_auto_commit=False) as consumer:
        await consumer.commit_async({tp: 7}, note)
        await consumer.commit_async({tp: 8})  # a plain call cannot await the callback, and leaves it to the next poll
        assert not seen
        await consumer.poll(0)
        assert [(list(offsets), error) for offsets, error in seen] == [([tp], None)]  # type: ignore[misc,has-type]


@pytest.mark.parametrize("way", ["poll", "iteration"])
@pytest.mark.asyncio
async def test_closing_ends_the_wait_of_another_task(cluster: Cluster, topic: str, way: str) -> None:
    consumer = assigned(cluster, TopicPartition(topic, 0))

    async def iterate() -> int:
        return len([record async for record in consumer])

    waiting = asyncio.create_task(consumer.poll(WITHIN_S * 1000) if way == "poll" else iterate())
    await asyncio.sleep(0.2)
    closings = [asyncio.create_task(consumer.close()) for _ in range(2)]
    await asyncio.sleep(0)
    closings[0].cancel()
    async with asyncio.timeout(20):  # less than the 30 s that it would wait for the poll
        await closings[1]
    if way == "poll":
        with pytest.raises(IllegalStateError, match="was closed"):
            await waiting
    else:
        assert await waiting == 0
    await consumer.close()
    with pytest.raises(IllegalStateError, match="is closed"):
        await consumer.poll()
    with pytest.raises(IllegalStateError, match="is closed"):
        consumer.assignment()


@pytest.mark.asyncio
async def test_no_poll_begins_while_the_consumer_is_closed(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 3)
    consumer = AsyncKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
    )
    await read(consumer, 3)
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0)
    with pytest.raises(IllegalStateError, match="is closed"):
        await consumer.poll(1000)
    assert [record async for record in consumer] == []
    assert not closing.done(), "it still leaves the group"
    await closing


@pytest.mark.asyncio
async def test_closing_takes_no_longer_than_it_may(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, topic, 3)
    with KafkaProxy(cluster.bootstrap_servers) as proxy:
        consumer = AsyncKafkaConsumer(
            bootstrap_servers=proxy.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
        )
        consumer.assign([TopicPartition(topic, 0)])
        await read(consumer, 3)
        proxy.hold(ApiKey.OFFSET_COMMIT)
        async with asyncio.timeout(20):  # less than the 30 s of a request, and of close by default
            await consumer.close(500)
    assert "were not committed in time" in caplog.text


@pytest.mark.asyncio
async def test_wakeup_from_another_thread(cluster: Cluster, topic: str) -> None:
    async with assigned(cluster, TopicPartition(topic, 0)) as consumer:
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        with pytest.raises(WakeupError):
            await consumer.poll(WITHIN_S * 1000)
        timer.join()
        refused: list[BaseException] = []

        def call() -> None:
            try:
                consumer.assignment()
            except ConcurrentAccessError as error:
                refused.append(error)

        other = threading.Thread(target=call)
        other.start()
        other.join()
        assert "belongs to the thread of its event loop" in str(refused[0])


@pytest.mark.asyncio
async def test_calls_return_in_time_without_a_broker(caplog: pytest.LogCaptureFixture) -> None:
    consumer = AsyncKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g")
    consumer.assign([TopicPartition("t", 0)])
    assert (await consumer.poll(50)).is_empty
    for call in (consumer.position, consumer.committed):
        with pytest.raises(KafkaTimeoutError):
            await call(TopicPartition("t", 0), timeout_ms=50)
    with pytest.raises(KafkaTimeoutError):
        await consumer.topics(timeout_ms=50)
    for _ in range(2):
        await consumer.poll(1.0)
    found = [record.getMessage() for record in caplog.records if "milliseconds" in record.getMessage()]
    (line,) = found
    assert line.endswith("] poll(1.0) waits for 1.0 ms, as all times here are milliseconds. poll(1000) waits for 1 s")
    async with asyncio.timeout(WITHIN_S):
        await consumer.close(200)


@pytest.mark.asyncio
async def test_a_loop_that_is_busy_loses_no_membership(cluster: Cluster, topic: str, group_id: str) -> None:
    """Heartbeats come from their own thread: aiokafka's consumer would be expelled here."""
    fill(cluster, topic, 3)
    settings = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 200, "auto_offset_reset": "earliest"}
    async with AsyncKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, **settings
    ) as consumer:
        await read(consumer, 3)
        before = consumer.group_metadata()
        time.sleep(3)  # noqa: ASYNC251 - this is what the test is about
        await consumer.poll(300)
        assert consumer.group_metadata() == before
        await consumer.commit()


class Work:
    """A clock that is also moved by the work of a test, 1 ms at a time: a busy machine's time shortens a turn."""

    def __init__(self) -> None:
        self.done_ms = 0

    def now(self) -> float:
        return time.monotonic() + self.done_ms / 1000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.done_ms


@pytest.mark.parametrize("way", ["poll", "iteration", "poll_arrow"])
@pytest.mark.asyncio
async def test_reading_buffered_records_leaves_time_for_other_tasks(cluster: Cluster, topic: str, way: str) -> None:
    """Counted in the work that is done between two turns of others, so no load makes a difference."""
    pytest.importorskip("pyarrow")
    count_of_all = 1_000
    fill(cluster, topic, count_of_all)
    work = Work()
    turns: list[int] = []

    def slowly(value: bytes) -> bytes:
        work.done_ms += 1
        return value

    async def take_turns() -> None:
        while True:
            turns.append(work.done_ms)
            await asyncio.sleep(0)

    async with assigned(
        cluster, TopicPartition(topic, 0), max_poll_records=5, value_deserializer=slowly, clock=work
    ) as consumer:
        others = asyncio.create_task(take_turns())
        count = 0
        while count < count_of_all:
            if way == "poll":
                count += (await consumer.poll(WITHIN_S * 1000)).count()
            elif way == "poll_arrow":
                rows = (await consumer.poll_arrow(WITHIN_S * 1000, max_records=5)).num_rows
                count += rows
                work.done_ms += rows  # what the application does with them
            else:
                async for _ in consumer:
                    count += 1
                    if count == count_of_all:
                        break
        others.cancel()
    turns.append(work.done_ms)  # others that starve take no further turn
    assert work.done_ms == count_of_all
    longest_ms = max(after - before for before, after in itertools.pairwise(turns))
    assert longest_ms <= 10


@pytest.mark.embedded_only("the clients' own affair")
@pytest.mark.asyncio
async def test_a_loop_adds_few_steps_to_buffered_records(cluster: Cluster, topic: str) -> None:
    """Counted in steps of Python, as rates depend on what else runs. See docs/proof/asyncio.md for rates.

    A poll of one record takes the blocking consumer 545 steps. One of 500 records takes as long as 6,000 steps.
    """
    fill(cluster, topic, 1000, each=1000)
    tp = TopicPartition(topic, 0)

    async def nothing() -> None:
        pass

    def at_once(coroutine: Coroutine[Any, Any, Any]) -> int:
        def run() -> None:
            try:
                coroutine.send(None)
            except StopIteration:
                return
            raise AssertionError("it waits")

        return steps_of(run)

    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as blocking:
        blocking.assign([tp])
        async with assigned(cluster, tp) as consumer:
            await consumer.poll(WITHIN_S * 1000, 100)
            blocking.poll(WITHIN_S * 1000, 100)
            consumer._driver.turn_began = time.monotonic() + WITHIN_S  # it need not give way
            around = at_once(nothing())
            polls = at_once(consumer.poll(0, 1)) - around
            more = 120 if sys.version_info < (3, 12) else 240  # the same code has more bytecodes there
            assert polls <= steps_of(lambda: blocking.poll(0, 1)) + more
            next(blocking), await anext(consumer)  # the first one after a poll fetches ahead
            assert at_once(anext(consumer)) - around <= 2 * steps_of(lambda: next(blocking))


@pytest.mark.asyncio
async def test_a_consumer_belongs_to_one_loop(cluster: Cluster, topic: str) -> None:
    consumer = assigned(cluster, TopicPartition(topic, 0))
    coroutine = consumer.poll()
    with pytest.raises(IllegalStateError, match="needs a running event loop"):
        await asyncio.to_thread(lambda: coroutine.send(None))
    await consumer.poll(0)

    def elsewhere() -> str:
        with pytest.raises(IllegalStateError, match="belongs to the event loop of its first call, which is another"):
            asyncio.run(consumer.poll())
        return "refused"

    assert await asyncio.to_thread(elsewhere) == "refused"
    await consumer.close()

    left: list[AsyncKafkaConsumer] = []

    async def leave_open() -> None:
        left.append(assigned(cluster, TopicPartition(topic, 0)))
        await left[0].poll(0)

    await asyncio.to_thread(lambda: asyncio.run(leave_open()))
    with pytest.raises(IllegalStateError, match="which was closed"):
        await left[0].poll()
    await left[0].close()  # nothing can be waited for, but everything is released


@pytest.mark.asyncio
async def test_a_consumer_that_is_dropped_warns(cluster: Cluster, topic: str) -> None:
    consumer: AsyncKafkaConsumer | None = assigned(cluster, TopicPartition(topic, 0))
    assert consumer is not None
    await consumer.poll(0)
    with pytest.warns(ResourceWarning, match=r"unclosed <AsyncKafkaConsumer .*: await close\(\)"):
        consumer = gc.collect() and None
    await asyncio.sleep(0.05)  # the loop forgets its descriptor


@pytest.mark.asyncio
async def test_wrong_arguments(cluster: Cluster) -> None:
    async with AsyncKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        for call in (consumer.subscribe, consumer.assign):
            with pytest.raises(ValueError, match=r"to drop the subscription, await unsubscribe\(\)"):
                call([])
            with pytest.raises(TypeError):
                call(None)
            with pytest.raises(TypeError):
                call("topic")
        with pytest.raises(TypeError, match="listener must be"):
            consumer.subscribe(["t"], listener=object())  # type: ignore[arg-type]
        with pytest.raises(IllegalStateError, match="nothing is subscribed"):
            await consumer.poll()
        with pytest.raises(ValueError, match="negative"):
            await consumer.topics(timeout_ms=-1)


@pytest.mark.concurrent
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.asyncio
async def test_no_record_is_lost_or_doubled_by_cancellation(
    cluster: Cluster, topic: str, group_id: str, seed: int
) -> None:
    """Every call may be cancelled at each of its waits. The result of a finished call belongs to its caller."""
    count = 20_000
    fill(cluster, topic, count, each=50)
    choice = random.Random(seed)
    tp = TopicPartition(topic, 0)
    seen: list[int] = []
    cancelled = 0
    settings = {"group_id": group_id, "fetch_max_bytes": 4096, "max_partition_fetch_bytes": 4096}
    async with assigned(cluster, tp, enable_auto_commit=False, **settings) as consumer:
        calls: list[Callable[[], Any]] = [
            lambda: consumer.poll(1000, choice.randint(1, 40)),
            lambda: consumer.poll_arrow(1000, choice.randint(1, 40), ["offset"]),
            lambda: anext(consumer),
            lambda: consumer.commit(timeout_ms=5000),
            lambda: consumer.committed(tp, timeout_ms=5000),
            lambda: consumer.end_offsets([tp], timeout_ms=5000),
        ]
        for _ in range(1000):
            call = choice.choices(calls, weights=[6, 3, 3, 2, 1, 1])[0]
            task = asyncio.ensure_future(call())
            for _ in range(choice.choice([0, 1, 1, 2, 3, 5, 50])):
                await asyncio.sleep(0 if choice.random() < 0.8 else 0.001)
            task.cancel()
            try:
                result = await task
            except asyncio.CancelledError:
                cancelled += 1
                continue
            if isinstance(result, ConsumerRecords):
                seen += [record.offset for record in result.records()]
            elif isinstance(result, ConsumerRecord):
                seen.append(result.offset)
            elif hasattr(result, "num_rows"):
                seen += result.column("offset").to_pylist()
            assert await consumer.position(tp) == len(seen)
        assert seen == list(range(len(seen)))
        assert cancelled > 200
        assert len(seen) > 100
        rest = await read(consumer, count - len(seen))
        assert rest == list(range(len(seen), count))
        assert await consumer.committed(tp) <= len(seen)


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_both_event_loops(cluster: Cluster, topic: str, group_id: str, name: str) -> None:
    factory = pytest.importorskip("uvloop").new_event_loop if name == "uvloop" else None
    fill(cluster, topic, 300)

    async def main() -> list[int]:
        async with AsyncKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
        ) as consumer:
            found = await read(consumer, 300)
            await consumer.commit()
            return found

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == list(range(300))
