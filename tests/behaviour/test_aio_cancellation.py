"""Every await of the clients for asyncio, cancelled one after the other: no record is lost or doubled.

A call is made again and again, cancelled at its first suspension, at its second one and so on, until it ends before it
is cancelled. So each run cancels every await of each of its calls. Seeds choose the calls, their arguments, and whether
the cancellation comes at the suspension or one round of the loop later, where it may meet an answer that has arrived.

``PYCONSUMER_CANCELLATION_RUNS`` sets how many seeds run (docs/proof/asyncio.md has the long run).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import pytest

from pyconsumer import ConsumerRecord, ConsumerRecords, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster

SEEDS = range(int(os.environ.get("PYCONSUMER_CANCELLATION_RUNS") or 2))
RECORDS = 300
_MOST_SUSPENSIONS = 60

T = TypeVar("T")

pytestmark = [pytest.mark.concurrent, pytest.mark.slow, pytest.mark.asyncio]


class _CancelledAt(Awaitable[T]):
    """An awaitable that cancels the task which runs it at its n-th suspension.

    Args:
        suspension: 1 for the first one.
        later: cancel in the next round of the loop instead of at once.
    """

    def __init__(self, inner: Awaitable[T], suspension: int, *, later: bool) -> None:
        self._inner = inner
        self._left = suspension
        self._later = later
        self.reached = False

    def __await__(self) -> Generator[Any, None, T]:
        task = asyncio.current_task()
        assert task is not None
        steps = self._inner.__await__()
        try:
            waits_for = next(steps)
            while True:
                self._left -= 1
                if self._left == 0:
                    self.reached = True
                    if self._later:
                        task.get_loop().call_soon(task.cancel)
                    else:
                        task.cancel()
                try:
                    given = yield waits_for
                except BaseException as error:
                    waits_for = steps.throw(error)  # type: ignore[attr-defined]
                else:
                    waits_for = steps.send(given)  # type: ignore[attr-defined]
        except StopIteration as stop:
            result: T = stop.value
            return result


class Fuzz:
    """Makes calls, and cancels each of their awaits.

    Attributes:
        cancelled: how many calls were cancelled.
    """

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.cancelled = 0

    async def run(self, call: Callable[[], Awaitable[T]], on_cancelled: Callable[[], Awaitable[object]]) -> T:
        """Return the result of a call, after it was cancelled at each of its suspensions.

        Args:
            on_cancelled: called after each cancellation.
        """
        for suspension in range(1, _MOST_SUSPENSIONS):
            found = await self._once(call, suspension)
            if isinstance(found, list):
                return found[0]  # type: ignore[no-any-return]
            self.cancelled += 1
            await on_cancelled()
        return await call()

    async def _once(self, call: Callable[[], Awaitable[T]], suspension: int) -> list[T] | None:
        """Return the result as a list of one, or None if the call was cancelled."""
        later = self.choice.random() < 0.4

        async def wrapped() -> list[T]:
            return [await _CancelledAt(call(), suspension, later=later)]

        try:
            return await asyncio.ensure_future(wrapped())
        except asyncio.CancelledError:
            return None


async def _nothing() -> None:
    pass


@pytest.mark.parametrize("seed", SEEDS)
async def test_records_are_returned_once(cluster: Cluster, topic: str, group_id: str, seed: int) -> None:
    fill(cluster, topic, RECORDS, each=20)
    fuzz = Fuzz(seed)
    choice = fuzz.choice
    tp = TopicPartition(topic, 0)
    seen: list[int] = []
    async with AsyncKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=512,
        max_partition_fetch_bytes=512,
        max_poll_records=20,
        fetch_max_wait_ms=20,
    ) as consumer:
        if seed % 2:
            consumer.subscribe([topic])  # every await of a rebalance is cancelled, too
        else:
            consumer.assign([tp])
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: consumer.poll(1000, choice.randint(1, 12)),
            lambda: consumer.poll_arrow(1000, choice.randint(1, 12), ["offset"]),
            lambda: anext(consumer),
            lambda: consumer.commit(timeout_ms=5000),
            lambda: consumer.committed(tp, timeout_ms=5000),
            lambda: consumer.end_offsets([tp], timeout_ms=5000),
        ]

        async def nothing_has_moved() -> None:
            if tp in consumer.assignment():
                assert await consumer.position(tp) == len(seen)

        while len(seen) < RECORDS:
            call = calls[0] if not seen else choice.choices(calls, weights=[4, 3, 4, 3, 2, 2])[0]
            result = await fuzz.run(call, nothing_has_moved)
            if isinstance(result, ConsumerRecords):
                seen += [record.offset for record in result.records()]
            elif isinstance(result, ConsumerRecord):
                seen.append(result.offset)
            elif hasattr(result, "num_rows"):
                seen += result.column("offset").to_pylist()
        assert seen == list(range(RECORDS))
        await consumer.commit()
        assert await consumer.committed(tp) == RECORDS
    assert fuzz.cancelled > 5


@pytest.mark.parametrize("seed", SEEDS)
async def test_records_are_sent_once(cluster: Cluster, topic: str, seed: int) -> None:
    fuzz = Fuzz(seed)
    choice = fuzz.choice
    accepted: list[bytes] = []
    number = 0
    async with AsyncKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        batch_size=1024,
        buffer_memory=4096,  # so that a send waits for room
        linger_ms=choice.choice([0, 1, 5]),
    ) as producer:
        for number in range(200):
            value = b"%d" % number + b"x" * choice.randint(1, 900)
            kind = choice.randrange(10)
            if kind < 7:
                await fuzz.run(lambda v=value: producer.send(topic, v), _nothing)  # type: ignore[misc]
                accepted.append(value)
            elif kind == 7:
                await fuzz.run(producer.flush, _nothing)
            elif kind == 8:
                await fuzz.run(lambda: producer.partitions_for(topic), _nothing)
            else:
                future = await producer.send(topic, value)
                accepted.append(value)

                async def outcome(of: Awaitable[Any] = future) -> int:
                    return int((await of).offset)

                assert await fuzz.run(outcome, _nothing) == len(accepted) - 1
        await fuzz.run(producer.close, _nothing)
    assert await _values(cluster, topic) == accepted
    assert fuzz.cancelled > 5


@pytest.mark.parametrize("seed", SEEDS)
async def test_transactions_are_whole_and_counted_once(
    cluster: Cluster, topic: str, make_topic: Callable[..., str], group_id: str, seed: int
) -> None:
    """Copy records in transactions. A cancelled one is aborted, or, once a commit has begun, committed again."""
    fill(cluster, topic, 60)
    copy = make_topic()
    fuzz = Fuzz(seed)
    choice = fuzz.choice
    tp = TopicPartition(topic, 0)
    servers = cluster.bootstrap_servers
    async with (
        AsyncKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=20,
        ) as consumer,
        AsyncKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{group_id}", linger_ms=0) as producer,
    ):
        consumer.assign([tp])
        await fuzz.run(producer.init_transactions, _nothing)
        committing = False

        async def copy_some() -> int:
            nonlocal committing
            records = await consumer.poll(200, choice.randint(1, 6))
            producer.begin_transaction()
            for record in records.records():
                await producer.send(copy, record.value)
            await producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
            committing = True
            await producer.commit_transaction()
            committing = False
            return records.count()

        async def settle() -> None:
            """After a cancellation: end the open transaction, and seek to the committed offsets."""
            nonlocal committing
            if committing:
                await producer.commit_transaction()
                committing = False
            elif producer._delegate.may_abort:
                await producer.abort_transaction()
            consumer.seek(tp, await consumer.committed(tp) or 0)

        async def in_a_block() -> int:
            nonlocal committing
            records = await consumer.poll(200, choice.randint(1, 6))
            async with producer.transaction():
                for record in records.records():
                    await producer.send(copy, record.value)
                await producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
                committing = True
            committing = False
            return records.count()

        while (await consumer.committed(tp) or 0) < 60:
            await fuzz.run(choice.choice([copy_some, in_a_block]), settle)
    assert await _values(cluster, copy) == [b"%d" % number for number in range(60)]
    assert fuzz.cancelled > 5


async def _values(cluster: Cluster, topic: str) -> list[bytes]:
    """Return the committed records of a topic."""
    tp = TopicPartition(topic, 0)
    found: list[bytes] = []
    async with AsyncKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        async with asyncio.timeout(60):
            while await consumer.position(tp) < end:
                found += [record.value for record in (await consumer.poll(1000)).records()]
    return found
