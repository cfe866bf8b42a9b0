"""Members of ``pyconsumer.compat.aiokafka`` live by themselves: a task drives the group, whatever the program does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from types import ModuleType
from typing import Any

import pytest

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from pyconsumer.errors import FencedInstanceIdError, IllegalStateError
from pyconsumer.protocol.api import ApiKey
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

WITHIN_S = 60

Start = Callable[..., Any]


@pytest.fixture(params=["aiokafka", "pyconsumer.compat.aiokafka"])
def package(request: pytest.FixtureRequest) -> ModuleType:
    """aiokafka, and ours in its place."""
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    return importlib.import_module(request.param)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that another task does."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.02)


async def stays_committed(member: Any, tp: TopicPartition, offset: int) -> None:
    """Wait until this offset is committed, and check that commits after that do not change it."""

    def count() -> int:
        total: int = member.consumer.metrics()["consumer-coordinator-metrics"]["commit-total"]
        return total

    async with asyncio.timeout(WITHIN_S):
        while await member.committed(tp) != offset:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.02)
    before = count()
    await until(lambda: count() > before + 2)
    assert await member.committed(tp) == offset


class Group:
    """Members of one group, which end with the test."""

    def __init__(self, cluster: Cluster, topic: str, group_id: str) -> None:
        self.topic = topic
        self.tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        self.members: list[Any] = []
        self.settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
        }

    def make(
        self, listener: Any = None, package: ModuleType | None = None, topics: Collection[str] = (), **settings: Any
    ) -> Any:
        kind = AIOKafkaConsumer if package is None else package.AIOKafkaConsumer
        member = kind(**self.settings | settings)
        member.subscribe(list(topics) or [self.topic], listener=listener)
        self.members.append(member)
        return member

    async def join(self, listener: Any = None, **settings: Any) -> Any:
        member = self.make(listener, **settings)
        async with asyncio.timeout(WITHIN_S):
            await member.start()
        return member

    async def stop(self) -> None:
        for member in self.members:
            async with asyncio.timeout(WITHIN_S):
                await member.stop()


@contextlib.asynccontextmanager
async def grouped(cluster: Cluster, topic: str, group_id: str) -> AsyncIterator[Group]:
    """A group whose members are stopped in the end."""
    group = Group(cluster, topic, group_id)
    try:
        yield group
    finally:
        await group.stop()


class Recorder(ConsumerRebalanceListener):
    """Notes the calls. ``inside`` is awaited in each."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[int]]] = []
        self.inside: Callable[[str], Any] | None = None

    async def on_partitions_revoked(self, revoked: Any) -> None:  # type: ignore[override]
        self.calls.append(("revoked", {tp.partition for tp in revoked}))
        if self.inside is not None:
            await self.inside("revoked")

    async def on_partitions_assigned(self, assigned: Any) -> None:  # type: ignore[override]
        self.calls.append(("assigned", {tp.partition for tp in assigned}))
        if self.inside is not None:
            await self.inside("assigned")


@pytest.fixture
def two(make_topic: Callable[..., str]) -> str:
    """A topic of two partitions."""
    return make_topic(2)


# -- standbys and slow handlers --------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_standby_that_does_not_read_takes_over_after_max_poll_interval(
    cluster: Cluster, topic: str, group_id: str, protocol: str
) -> None:
    settings = {"group_protocol": protocol}
    fill(cluster, topic, 1)
    async with grouped(cluster, topic, group_id) as group:
        if protocol == "consumer":
            del group.settings["heartbeat_interval_ms"]  # the broker names it
        owner = await group.join(max_poll_interval_ms=60_000, **settings)
        await until(owner.assignment)
        standby = await group.join(max_poll_interval_ms=300, **settings)
        assert not standby.assignment()
        generation = standby.consumer.group_metadata().generation_id
        await asyncio.sleep(1.5)  # five times as long as a member with partitions may be silent
        assert standby.consumer.group_metadata().generation_id >= generation > 0, "it is still a member"
        await owner.stop()
        await until(standby.assignment)
        async with asyncio.timeout(WITHIN_S):
            assert (await standby.getone()).offset == 0


@pytest.mark.asyncio
async def test_a_member_with_partitions_that_does_not_read_leaves_and_joins_again_at_its_next_read(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 1)
    async with grouped(cluster, topic, group_id) as group:
        silent = await group.join(max_poll_interval_ms=500)
        await until(silent.assignment)
        standby = await group.join()
        await until(standby.assignment)
        await standby.stop()
        async with asyncio.timeout(WITHIN_S):
            assert (await silent.getone()).offset == 0
        assert silent.assignment()


@pytest.mark.asyncio
async def test_a_handler_at_work_does_not_hold_up_a_member_that_starts(
    cluster: Cluster, two: str, group_id: str
) -> None:
    for number in (0, 1):
        fill(cluster, two, 1, partition=number)
    async with grouped(cluster, two, group_id) as group:
        first = await group.join()
        async with asyncio.timeout(WITHIN_S):
            await first.getone()
        second = await group.join()  # the handler of the first one does not come to an end
        assert len(second.assignment()) == 1
        await until(lambda: len(first.assignment()) == 1)


@pytest.mark.asyncio
async def test_start_returns_when_a_pattern_is_assigned(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 1)
    async with grouped(cluster, topic, group_id) as group:
        member = package.AIOKafkaConsumer(**group.settings)
        group.members.append(member)
        member.subscribe(pattern=topic)
        async with asyncio.timeout(WITHIN_S):
            await member.start()
        assert {tp.topic for tp in member.assignment()} == {topic}


# -- at least once ---------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("read", ["getone", "getmany", "for"])
async def test_automatic_commits_leave_out_the_records_of_the_latest_read(
    cluster: Cluster, topic: str, group_id: str, read: str
) -> None:
    fill(cluster, topic, 10)
    tp = TopicPartition(topic, 0)
    async with grouped(cluster, topic, group_id) as group:
        member = await group.join(auto_commit_interval_ms=50)
        async with asyncio.timeout(WITHIN_S):
            for _ in range(3):
                if read == "getone":
                    last = (await member.getone()).offset
                elif read == "getmany":
                    last = (await member.getmany(timeout_ms=10_000, max_records=1))[tp][0].offset
                else:
                    async for record in member:
                        last = record.offset
                        break
        assert last == 2
        await stays_committed(member, tp, 2)  # the third record is in the program's hands
        member.pause(tp)
        async with asyncio.timeout(WITHIN_S):
            assert not await member.getmany(timeout_ms=10)
        await stays_committed(member, tp, 3)


@pytest.mark.asyncio
async def test_a_record_that_comes_after_a_wait_is_left_out_like_any_other(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 1)
    tp = TopicPartition(topic, 0)
    async with grouped(cluster, topic, group_id) as group:
        member = await group.join(auto_commit_interval_ms=50)
        async with asyncio.timeout(WITHIN_S):
            await member.getone()
        waiting = asyncio.create_task(member.getone())
        await stays_committed(member, tp, 1)  # the second read says that the first record is done
        fill(cluster, topic, 1)
        async with asyncio.timeout(WITHIN_S):
            assert (await waiting).offset == 1
        await stays_committed(member, tp, 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("auto", [True, False])
async def test_a_kept_partition_goes_on_at_its_position_and_the_other_at_the_committed_offset(
    cluster: Cluster, two: str, group_id: str, auto: bool
) -> None:
    for number in (0, 1):
        fill(cluster, two, 10, partition=number)
    async with grouped(cluster, two, group_id) as group:
        first = await group.join(enable_auto_commit=auto)
        await until(lambda: len(first.assignment()) == 2)
        for tp in group.tps:
            async with asyncio.timeout(WITHIN_S):
                assert len((await first.getmany(tp, timeout_ms=10_000, max_records=4))[tp]) == 4
        second = await group.join(enable_auto_commit=auto)
        await until(lambda: len(first.assignment()) == 1)
        (kept,), (gone,) = first.assignment(), second.assignment()
        assert kept != gone
        with pytest.raises(IllegalStateError, match="not assigned"):
            await first.commit({gone: 4})
        with pytest.raises(IllegalStateError, match="not assigned"):
            first.seek(gone, 4)
        async with asyncio.timeout(WITHIN_S):
            other = await second.getone()
            mine = await first.getone()
        assert (mine.partition, mine.offset) == (kept.partition, 4), "the records in its hands do not come again"
        # The last read was of partition 1. With automatic commits, the records of the one before are committed.
        assert (other.partition, other.offset) == (gone.partition, 4 if auto and gone.partition == 0 else 0)
        await first.commit()
        assert await first.committed(kept) == 5


@pytest.mark.asyncio
async def test_a_commit_during_a_rebalance_waits_for_its_end(
    cluster: Cluster, two: str, group_id: str, proxy: KafkaProxy
) -> None:
    for number in (0, 1):
        fill(cluster, two, 2, partition=number)
    async with grouped(cluster, two, group_id) as group:
        recorder = Recorder()
        first = await group.join(recorder, enable_auto_commit=False, bootstrap_servers=proxy.bootstrap_servers)
        await until(lambda: len(first.assignment()) == 2)
        async with asyncio.timeout(WITHIN_S):
            record = await first.getone()
        tp = TopicPartition(two, record.partition)
        revoked = asyncio.Event()
        outcome: list[Any] = []

        async def handle() -> None:
            await revoked.wait()
            await until(lambda: not first.assignment())
            first.seek(tp, 1)
            commit = asyncio.create_task(first.commit({tp: 1}))
            await asyncio.sleep(0)
            assert not commit.done()
            hold.release()
            try:
                await commit
                outcome.append(await first.committed(tp))
            except IllegalStateError:
                outcome.append("gone")

        async def inside(name: str) -> None:
            if name == "revoked":
                revoked.set()

        recorder.inside = inside
        hold = proxy.hold(ApiKey.SYNC_GROUP)  # otherwise it may end before another task runs
        handler = asyncio.create_task(handle())
        await group.join(enable_auto_commit=False)
        async with asyncio.timeout(WITHIN_S):
            await handler
        assert outcome == [1 if tp in first.assignment() else "gone"]


# -- reads during a rebalance ----------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_during_a_rebalance_getmany_returns_after_its_timeout_and_getone_waits(
    cluster: Cluster, two: str, group_id: str
) -> None:
    for number in (0, 1):
        fill(cluster, two, 5, partition=number)
    async with grouped(cluster, two, group_id) as group:
        recorder = Recorder()
        first = await group.join(recorder)
        async with asyncio.timeout(WITHIN_S):
            await first.getone()
        entered, leave = asyncio.Event(), asyncio.Event()
        cancelled: list[str] = []

        async def inside(name: str) -> None:
            entered.set()
            try:
                await leave.wait()
            except asyncio.CancelledError:
                cancelled.append(name)
                raise

        recorder.inside = inside
        second = asyncio.create_task(group.join())
        async with asyncio.timeout(WITHIN_S):
            await entered.wait()
            assert await first.getmany(timeout_ms=50) == {}
            assert await first.getmany(timeout_ms=0) == {}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await first.getone()
        waiting = asyncio.create_task(first.getone())
        await asyncio.sleep(0)
        leave.set()
        async with asyncio.timeout(WITHIN_S):
            await second
            assert (await waiting).topic == two
        assert not cancelled, "a read that ends does not end the listener"


# -- listeners -------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_listeners_get_the_sets_that_aiokafka_gives(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    async with grouped(cluster, topic, group_id) as group:
        one, two = Recorder(), Recorder()
        listeners = []
        for recorder in (one, two):
            kind = type("Listener", (package.ConsumerRebalanceListener,), {
                "on_partitions_revoked": lambda self, revoked, to=recorder: to.on_partitions_revoked(revoked),
                "on_partitions_assigned": lambda self, assigned, to=recorder: to.on_partitions_assigned(assigned),
            })  # fmt: skip
            listeners.append(kind())
        first = await group.join(listeners[0], package=package)
        await until(first.assignment)
        await group.join(listeners[1], package=package)
        await until(lambda: len(one.calls) == 4 and len(two.calls) == 2)
        assert one.calls[:3] == [("revoked", set()), ("assigned", {0}), ("revoked", {0})]
        assert two.calls[0] == ("revoked", set())
        given = [one.calls[3], two.calls[1]]
        assert sorted(given, key=str) == sorted([("assigned", {0}), ("assigned", set())], key=str)
        owner, standby = (one, two) if given[0][1] else (two, one)
        told = list(owner.calls)
        await group.members[0 if owner is one else 1].stop()
        await until(lambda: standby.calls[-1] == ("assigned", {0}))
        assert standby.calls[-2] == ("revoked", set())
        assert owner.calls == told, "nothing is said at stop()"


@pytest.mark.asyncio
async def test_a_listener_that_raises_is_logged_and_the_group_goes_on(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, topic, 1)

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            raise ValueError("plain")

        async def on_partitions_assigned(self, assigned: Any) -> None:  # type: ignore[override]
            raise ValueError("a coroutine")

    async with grouped(cluster, topic, group_id) as group:
        member = await group.join(Listener())
        async with asyncio.timeout(WITHIN_S):
            assert (await member.getone()).offset == 0
    raised = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert raised == ["plain", "a coroutine"]


@pytest.mark.asyncio
async def test_calls_in_a_listener_while_another_task_waits_for_records(
    cluster: Cluster, two: str, group_id: str
) -> None:
    for number in (0, 1):
        fill(cluster, two, 1, partition=number)
    async with grouped(cluster, two, group_id) as group:
        recorder = Recorder()
        first = await group.join(recorder, enable_auto_commit=False)
        await until(lambda: len(first.assignment()) == 2)
        async with asyncio.timeout(WITHIN_S):
            await first.getone()
            await first.getone()
        waiting = asyncio.create_task(first.getone())
        done: list[str] = []
        refused: list[BaseException] = []

        async def inside(name: str) -> None:
            try:
                if name == "revoked":
                    await asyncio.wait_for(first.commit(), 10)
                for tp in first.assignment():
                    assert await asyncio.wait_for(first.position(tp), 10) == 1
                    first.pause(tp)
                    first.resume(tp)
                    first.seek(tp, 1)
                for read in (first.getone(), first.getmany(timeout_ms=10), anext(first), first.stop()):
                    try:
                        await asyncio.wait_for(read, 10)
                    except IllegalStateError as error:
                        refused.append(error)
                done.append(name)
            except BaseException as error:
                done.append(repr(error))
                raise

        recorder.inside = inside
        second = await group.join(enable_auto_commit=False)
        await until(lambda: done[1:])
        assert done == ["revoked", "assigned"]
        assert len(refused) == 8
        recorder.inside = None
        (kept,) = first.assignment()
        assert await second.committed(TopicPartition(two, 1 - kept.partition)) == 1
        fill(cluster, two, 1, partition=kept.partition)
        async with asyncio.timeout(WITHIN_S):
            assert (await waiting).offset == 1


# -- errors, and the end ---------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_an_error_of_the_group_comes_out_of_the_next_read_and_not_of_stop(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    async with grouped(cluster, topic, group_id) as group:
        member = await group.join(group_instance_id="one")
        waiting = asyncio.create_task(member.getone())
        await group.join(group_instance_id="one")
        with pytest.raises(FencedInstanceIdError):
            async with asyncio.timeout(WITHIN_S):
                await waiting
        await member.stop()


@pytest.mark.asyncio
async def test_a_consumer_that_is_dropped_leaves_its_group(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, topic, 1)
    async with grouped(cluster, topic, group_id) as group:

        class Listener(ConsumerRebalanceListener):
            """Refers to its consumer, as most do."""

            consumer: Any = None

        listener = Listener()
        dropped = listener.consumer = group.make(listener, session_timeout_ms=30_000)
        group.members.clear()
        await dropped.start()
        async with asyncio.timeout(WITHIN_S):
            await dropped.getone()
        del dropped, listener
        with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaConsumer"):
            gc.collect()
        await asyncio.sleep(0)
        before = asyncio.get_running_loop().time()
        member = await group.join(session_timeout_ms=30_000)
        await until(member.assignment)
        assert asyncio.get_running_loop().time() - before < 20, "not when the session of 30 s ends"
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio" and record.levelno > logging.INFO]


def test_a_loop_that_ends_without_stop(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = []

    async def main() -> None:
        member = AIOKafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id)
        await member.start()
        made.append(member)

    asyncio.run(main())

    def drop() -> None:
        made.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaConsumer"):
        drop()
    assert not [record for record in caplog.records if "destroyed" in record.getMessage()]


@pytest.mark.asyncio
async def test_iteration_goes_through_getone(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 20)
    seen: list[int] = []

    class Watched(AIOKafkaConsumer):
        async def getone(self, *partitions: TopicPartition) -> Any:
            record = await super().getone(*partitions)
            seen.append(record.offset)
            return record

    async with Watched(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(WITHIN_S):
            async for record in consumer:
                if record.offset == 19:
                    break
        await consumer.stop()
    assert seen == list(range(20))
