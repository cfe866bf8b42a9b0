"""Everyday calls, right and wrong, before ``start`` and after ``stop``: the original and our layer have one outcome.

Rules

1. A call is a function of a world, which has the package. Its outcome is a value, or an error. Two errors are equal if
   the class of ours is, or is derived from, a class with the name of the original's.
2. Each call runs first on the original and then on ours, on the same broker, with topics of its own.
3. A call that differs is in ``DIFFERS`` with the reason, which docs/porting.md gives, too. If the outcomes become
   equal, the test fails, and the entry goes.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import NewTopic
from tests.support.cluster import Cluster

pytest.importorskip("aiokafka")
pytest.importorskip("kafka")

_NUMBERS = itertools.count()
_LONG_S: Final = 30.0

Call = Callable[[Any], Awaitable[Any]]
AIO: dict[str, Call] = {}
BLOCKING: dict[str, Callable[[Any], Any]] = {}

_STARTED = "a second `start` of a producer"
_NO_PARTITION = "`send` to a partition that does not exist"
_STATES = "a call that does not fit the state of a transaction"
_NO_OFFSET = "a wrong offset in `commit`"
#: Calls whose outcome differs, and the beginning of the row of docs/porting.md.
DIFFERS: Final[dict[str, str]] = {
    "stop_a_consumer_twice": "a second `stop` of a consumer",
    "start_a_producer_twice": _STARTED,
    "send_after_stop": "calls after `stop`",
    "send_text": "`send` of a `str` without a serializer",
    "send_without_value_and_key": "`send` without key and value",
    "send_to_a_wrong_partition": _NO_PARTITION,
    "send_to_a_negative_partition": _NO_PARTITION,
    "send_with_a_wrong_topic": "`send` to a name that cannot be a topic's",
    "commit_without_a_transaction": _STATES,
    "begin_twice": _STATES,
    "a_deserializer_and_no_value": "deserializers are called for absent keys and values",
    "commit_a_negative_offset": _NO_OFFSET,
    "commit_a_text": _NO_OFFSET,
    "send_nothing": "`send` without key and value",
    "send_a_text": "`send` of a `str` without a serializer",
    "next_after_close": "`next` after `close`",
    "subscription_without_topics": "`subscription` without one",
    "seek_an_unassigned_one": "calls for a partition that is not assigned",
    "pause_an_unassigned_one": "calls for a partition that is not assigned",
    "seek_to_a_text": "`seek` to a value that is no offset",
}


def aio(function: Call) -> Call:
    AIO[function.__name__] = function
    return function


def blocking(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    BLOCKING[function.__name__] = function
    return function


class World:
    """A package with its broker: makes clients, and ends those that the call leaves open.

    Attributes:
        package: the original or our layer.
        topic: has two partitions and five records in partition 0.
        group: a group of its own.
    """

    def __init__(self, package: str, cluster: Cluster) -> None:
        self.package: Any = importlib.import_module(package)
        self.errors: Any = importlib.import_module(f"{package}.errors")
        self.address = cluster.bootstrap_servers
        number = next(_NUMBERS)
        self.topic, self.group = f"calls-{number}-{id(self):x}", f"calls-group-{number}-{id(self):x}"
        self.opened: list[Any] = []
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.create_topics([NewTopic(self.topic, 2, 1)])

    def tp(self, partition: int = 0) -> Any:
        return self.package.TopicPartition(self.topic, partition)

    def consumer(self, *topics: str, **configs: Any) -> Any:
        name = "AIOKafkaConsumer" if hasattr(self.package, "AIOKafkaConsumer") else "KafkaConsumer"
        configs = {"bootstrap_servers": self.address, "auto_offset_reset": "earliest", **configs}
        self.opened.append(getattr(self.package, name)(*topics, **configs))
        return self.opened[-1]

    def producer(self, **configs: Any) -> Any:
        name = "AIOKafkaProducer" if hasattr(self.package, "AIOKafkaProducer") else "KafkaProducer"
        self.opened.append(getattr(self.package, name)(**{"bootstrap_servers": self.address, **configs}))
        return self.opened[-1]

    async def started(self, client: Any) -> Any:
        await client.start()
        return client

    async def end(self) -> None:
        for client in self.opened:
            try:
                await asyncio.wait_for(client.stop(), _LONG_S)
            except Exception:  # the outcome is that of the call
                pass


# -- aiokafka: life --------------------------------------------------------------------------------------------------


@aio
async def stop_a_consumer_before_start(world: Any) -> Any:
    return await world.consumer().stop()


@aio
async def stop_a_consumer_twice(world: Any) -> Any:
    consumer = await world.started(world.consumer())
    await consumer.stop()
    return await consumer.stop()


@aio
async def stop_a_producer_before_start(world: Any) -> Any:
    return await world.producer().stop()


@aio
async def stop_a_producer_twice(world: Any) -> Any:
    producer = await world.started(world.producer())
    await producer.stop()
    return await producer.stop()


@aio
async def start_a_consumer_twice(world: Any) -> Any:
    consumer = await world.started(world.consumer())
    try:
        await consumer.start()
    except AssertionError:
        return "AssertionError"


@aio
async def start_a_producer_twice(world: Any) -> Any:
    producer = await world.started(world.producer())
    try:
        await producer.start()
    except AssertionError:
        return "AssertionError"


@aio
async def a_consumer_in_async_with(world: Any) -> Any:
    async with world.consumer(world.topic) as consumer:
        return sorted(tp.partition for tp in consumer.assignment())


@aio
async def send_after_stop(world: Any) -> Any:
    producer = await world.started(world.producer())
    await producer.stop()
    return await producer.send(world.topic, b"x")


@aio
async def getone_after_stop(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic))
    await consumer.stop()
    return await consumer.getone()


@aio
async def getmany_after_stop(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic))
    await consumer.stop()
    return await consumer.getmany()


@aio
async def iterate_after_stop(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic))
    await consumer.stop()
    return [record async for record in consumer]


# -- aiokafka: sending -----------------------------------------------------------------------------------------------


@aio
async def send_and_wait(world: Any) -> Any:
    producer = await world.started(world.producer())
    found = await producer.send_and_wait(world.topic, b"x", partition=1)
    return [found.topic == world.topic, found.partition, found.offset, found.timestamp_type]


@aio
async def send_without_value_and_key(world: Any) -> Any:
    return await (await world.started(world.producer())).send_and_wait(world.topic)


@aio
async def send_a_tombstone(world: Any) -> Any:
    return (await (await world.started(world.producer())).send_and_wait(world.topic, None, b"k", 0)).offset


@aio
async def send_text(world: Any) -> Any:
    return (await (await world.started(world.producer())).send_and_wait(world.topic, "text")).offset


@aio
async def send_a_number(world: Any) -> Any:
    return await (await world.started(world.producer())).send_and_wait(world.topic, 1)


@aio
async def send_to_a_wrong_partition(world: Any) -> Any:
    return await (await world.started(world.producer())).send_and_wait(world.topic, b"x", partition=7)


@aio
async def send_to_a_negative_partition(world: Any) -> Any:
    return await (await world.started(world.producer())).send_and_wait(world.topic, b"x", partition=-1)


@aio
async def send_with_headers(world: Any) -> Any:
    producer = await world.started(world.producer())
    await producer.send_and_wait(world.topic, b"x", headers=[("a", b"1"), ("b", b"")])
    consumer = await world.started(world.consumer(world.topic))
    return (await asyncio.wait_for(consumer.getone(), _LONG_S)).headers


@aio
async def send_with_a_wrong_topic(world: Any) -> Any:
    return await (await world.started(world.producer())).send_and_wait("no topic!", b"x")


@aio
async def send_a_batch(world: Any) -> Any:
    producer = await world.started(world.producer())
    batch = producer.create_batch()
    for n in range(3):
        batch.append(key=None, value=b"%d" % n, timestamp=None)
    future = await producer.send_batch(batch, world.topic, partition=0)
    return [(await future).offset, batch.record_count()]


@aio
async def partitions_for_a_topic(world: Any) -> Any:
    return await (await world.started(world.producer())).partitions_for(world.topic)


@aio
async def a_transaction_without_an_id(world: Any) -> Any:
    return await (await world.started(world.producer())).begin_transaction()


@aio
async def commit_without_a_transaction(world: Any) -> Any:
    producer = await world.started(world.producer(transactional_id=world.group))
    return await producer.commit_transaction()


@aio
async def begin_twice(world: Any) -> Any:
    producer = await world.started(world.producer(transactional_id=world.group))
    await producer.begin_transaction()
    return await producer.begin_transaction()


@aio
async def send_outside_a_transaction(world: Any) -> Any:
    producer = await world.started(world.producer(transactional_id=world.group))
    return (await producer.send_and_wait(world.topic, b"x")).offset


@aio
async def a_serializer_that_raises(world: Any) -> Any:
    def broken(value: Any) -> bytes:
        raise LookupError("a fault of the program")

    return await (await world.started(world.producer(value_serializer=broken))).send_and_wait(world.topic, b"x")


@aio
async def a_serializer_and_no_value(world: Any) -> Any:
    producer = await world.started(world.producer(value_serializer=lambda value: repr(value).encode()))
    await producer.send_and_wait(world.topic, None, b"k")
    consumer = await world.started(world.consumer(world.topic))
    return (await asyncio.wait_for(consumer.getone(), _LONG_S)).value


# -- aiokafka: reading -----------------------------------------------------------------------------------------------


async def _filled(world: Any, count: int = 5) -> None:
    producer = await world.started(world.producer())
    for n in range(count):
        await producer.send_and_wait(world.topic, b"%d" % n, partition=0)


@aio
async def getone(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic))
    return [(await asyncio.wait_for(consumer.getone(), _LONG_S)).value for _ in range(3)]


@aio
async def getmany_with_a_limit(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic))
    found = await consumer.getmany(timeout_ms=20_000, max_records=2)
    return {tp.partition: [record.value for record in records] for tp, records in found.items()}


@aio
async def getmany_of_a_partition(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic))
    return await consumer.getmany(world.tp(1), timeout_ms=300)


@aio
async def getmany_with_a_wrong_limit(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic))).getmany(max_records=0)


@aio
async def a_deserializer_that_raises(world: Any) -> Any:
    def broken(value: bytes) -> Any:
        raise LookupError("a fault of the program")

    await _filled(world, 1)
    return await (await world.started(world.consumer(world.topic, value_deserializer=broken))).getone()


@aio
async def a_deserializer_and_no_value(world: Any) -> Any:
    producer = await world.started(world.producer())
    await producer.send_and_wait(world.topic, None, b"k", 0)
    consumer = await world.started(world.consumer(world.topic, value_deserializer=repr, key_deserializer=repr))
    record = await asyncio.wait_for(consumer.getone(), _LONG_S)
    return [record.key, record.value]


@aio
async def subscribe_to_nothing(world: Any) -> Any:
    return world.consumer().subscribe()


@aio
async def subscribe_by_name_and_pattern(world: Any) -> Any:
    return world.consumer().subscribe([world.topic], "a.*")


@aio
async def subscribe_to_a_text(world: Any) -> Any:
    return world.consumer().subscribe(world.topic)


@aio
async def subscribe_by_a_wrong_pattern(world: Any) -> Any:
    return world.consumer(group_id=world.group).subscribe(pattern="(")


@aio
async def subscribe_in_place_of_partitions(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp()])
    consumer.subscribe([world.topic])
    return sorted(consumer.subscription()) == [world.topic]


@aio
async def assign_in_place_of_topics(world: Any) -> Any:
    consumer = world.consumer()
    consumer.subscribe([world.topic])
    return consumer.assign([world.tp()])


@aio
async def subscription_of_a_new_consumer(world: Any) -> Any:
    return world.consumer(world.topic).subscription() == frozenset([world.topic])


@aio
async def assignment_of_a_new_consumer(world: Any) -> Any:
    return world.consumer(world.topic).assignment()


@aio
async def topics_contains_a_new_one(world: Any) -> Any:
    return world.topic in await (await world.started(world.consumer())).topics()


@aio
async def partitions_for_an_unknown_topic(world: Any) -> Any:
    return (await world.started(world.consumer())).partitions_for_topic("not-there")


@aio
async def partitions_for_an_unknown_topic_create_nothing(world: Any) -> Any:
    consumer = await world.started(world.consumer())
    consumer.partitions_for_topic(f"{world.topic}-other")
    await asyncio.sleep(0.3)
    return f"{world.topic}-other" in await consumer.topics()


@aio
async def position_of_a_new_group(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    return await consumer.position(world.tp())


@aio
async def position_of_an_unassigned_partition(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic))
    return await consumer.position(world.package.TopicPartition("not-there", 0))


@aio
async def seek_and_read(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic))
    consumer.seek(world.tp(), 3)
    return (await asyncio.wait_for(consumer.getone(world.tp()), _LONG_S)).offset


@aio
async def seek_to_a_negative_offset(world: Any) -> Any:
    return (await world.started(world.consumer(world.topic))).seek(world.tp(), -1)


@aio
async def seek_an_unassigned_partition(world: Any) -> Any:
    return (await world.started(world.consumer(world.topic))).seek(world.package.TopicPartition("not-there", 0), 0)


@aio
async def seek_to_the_beginning(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic))
    await consumer.getmany(timeout_ms=20_000)
    return [await consumer.seek_to_beginning(world.tp()), await consumer.position(world.tp())]


@aio
async def seek_to_committed_offsets(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    await consumer.commit({world.tp(): 2})
    found = await consumer.seek_to_committed(world.tp())
    return [{tp.partition: offset for tp, offset in found.items()}, await consumer.position(world.tp())]


@aio
async def pause_and_resume(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic))
    consumer.pause(world.tp())
    paused = {tp.partition for tp in consumer.paused()}
    consumer.resume(world.tp())
    return [paused, consumer.paused()]


@aio
async def end_offsets(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer())
    found = await consumer.end_offsets([world.tp(), world.tp(1)])
    return {tp.partition: offset for tp, offset in found.items()}


@aio
async def offsets_for_a_time_after_all(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer())
    found = await consumer.offsets_for_times({world.tp(): 9_999_999_999_999})
    return {tp.partition: offset for tp, offset in found.items()}


@aio
async def offsets_for_a_negative_time(world: Any) -> Any:
    return await (await world.started(world.consumer())).offsets_for_times({world.tp(): -1})


@aio
async def highwater_of_a_new_consumer(world: Any) -> Any:
    return (await world.started(world.consumer(world.topic))).highwater(world.tp())


# -- aiokafka: commits -----------------------------------------------------------------------------------------------


@aio
async def commit_without_a_group(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic))).commit()


@aio
async def commit_positions(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic, group_id=world.group, enable_auto_commit=False))
    await asyncio.wait_for(consumer.getone(), _LONG_S)
    await consumer.commit()
    return await consumer.committed(world.tp())


@aio
async def commit_with_metadata(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    await consumer.commit({world.tp(): (3, "note")})
    return await consumer.committed(world.tp())


@aio
async def commit_nothing(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic, group_id=world.group))).commit({})


@aio
async def commit_a_negative_offset(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic, group_id=world.group))).commit({world.tp(): -3})


@aio
async def commit_a_text(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic, group_id=world.group))).commit({world.tp(): "3"})


@aio
async def commit_an_unassigned_partition(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    return await consumer.commit({world.package.TopicPartition("not-there", 0): 1})


@aio
async def committed_of_a_new_group(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic, group_id=world.group))).committed(world.tp())


# -- kafka-python ----------------------------------------------------------------------------------------------------


@blocking
def send(world: Any) -> Any:
    found = world.producer().send(world.topic, b"x", partition=1).get(_LONG_S)
    return [found.partition, found.offset, found.topic == world.topic]


@blocking
def send_nothing(world: Any) -> Any:
    return world.producer().send(world.topic)


@blocking
def send_a_text(world: Any) -> Any:
    return world.producer().send(world.topic, "text").get(_LONG_S).offset


@blocking
def send_when_closed(world: Any) -> Any:
    producer = world.producer()
    producer.close()
    return producer.send(world.topic, b"x")


@blocking
def send_to_partition_seven(world: Any) -> Any:
    return world.producer(max_block_ms=1000).send(world.topic, b"x", partition=7).get(_LONG_S)


@blocking
def close_a_producer_twice(world: Any) -> Any:
    producer = world.producer()
    producer.close()
    return producer.close()


@blocking
def flush_without_records(world: Any) -> Any:
    return world.producer().flush(5)


@blocking
def partitions_for(world: Any) -> Any:
    return world.producer().partitions_for(world.topic)


@blocking
def close_a_consumer_twice(world: Any) -> Any:
    consumer = world.consumer()
    consumer.close()
    return consumer.close()


@blocking
def next_after_close(world: Any) -> Any:
    consumer = world.consumer(world.topic)
    consumer.close()
    return next(consumer)


@blocking
def poll_without_topics(world: Any) -> Any:
    return world.consumer().poll(100)


@blocking
def poll_with_a_negative_time(world: Any) -> Any:
    return world.consumer(world.topic).poll(-1)


@blocking
def poll_with_a_wrong_limit(world: Any) -> Any:
    return world.consumer(world.topic).poll(0, max_records=0)


def _fill(world: Any, count: int = 5) -> None:
    producer = world.producer()
    for n in range(count):
        producer.send(world.topic, b"%d" % n, partition=0)
    producer.flush(_LONG_S)


def _poll(consumer: Any) -> Any:
    for _ in range(100):
        found = consumer.poll(300)
        if found:
            return found
    return None


@blocking
def poll(world: Any) -> Any:
    _fill(world)
    found = _poll(world.consumer(world.topic))
    return {tp.partition: [record.value for record in records] for tp, records in found.items()}


@blocking
def iterate_until_the_time_is_over(world: Any) -> Any:
    _fill(world)
    return [record.value for record in world.consumer(world.topic, consumer_timeout_ms=3000)]


@blocking
def subscribe_without_arguments(world: Any) -> Any:
    return world.consumer().subscribe()


@blocking
def subscribe_to_one_name(world: Any) -> Any:
    return world.consumer().subscribe(world.topic)


@blocking
def subscribe_both_ways(world: Any) -> Any:
    return world.consumer().subscribe([world.topic], "a.*")


@blocking
def subscribe_with_assigned_partitions(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp()])
    return consumer.subscribe([world.topic])


@blocking
def assign_with_topics(world: Any) -> Any:
    return world.consumer(world.topic).assign([world.tp()])


@blocking
def subscription_without_topics(world: Any) -> Any:
    return world.consumer().subscription()


@blocking
def assignment_by_hand(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp(1)])
    return {tp.partition for tp in consumer.assignment()}


@blocking
def position_by_hand(world: Any) -> Any:
    _fill(world)
    consumer = world.consumer()
    consumer.assign([world.tp()])
    return consumer.position(world.tp())


@blocking
def position_of_an_unassigned_one(world: Any) -> Any:
    return world.consumer().position(world.tp())


@blocking
def position_of_a_text(world: Any) -> Any:
    return world.consumer().position("no partition")


@blocking
def seek_an_unassigned_one(world: Any) -> Any:
    return world.consumer().seek(world.tp(), 0)


@blocking
def seek_below_zero(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp()])
    return consumer.seek(world.tp(), -1)


@blocking
def seek_to_a_text(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp()])
    return consumer.seek(world.tp(), "3")


@blocking
def pause_an_unassigned_one(world: Any) -> Any:
    return world.consumer().pause(world.tp())


@blocking
def committed_without_a_group(world: Any) -> Any:
    return world.consumer().committed(world.tp())


@blocking
def commit_outside_a_group(world: Any) -> Any:
    return world.consumer().commit()


@blocking
def commit_and_read_back(world: Any) -> Any:
    consumer = world.consumer(group_id=world.group)
    consumer.assign([world.tp()])
    offset = world.package.OffsetAndMetadata(3, "note", -1)
    consumer.commit({world.tp(): offset})
    return [consumer.committed(world.tp()), consumer.committed(world.tp(), metadata=True).metadata]


@blocking
def ends_of_logs(world: Any) -> Any:
    _fill(world)
    found = world.consumer().end_offsets([world.tp(), world.tp(1)])
    return {tp.partition: offset for tp, offset in found.items()}


@blocking
def beginnings_of_logs(world: Any) -> Any:
    return {tp.partition: offset for tp, offset in world.consumer().beginning_offsets([world.tp()]).items()}


@blocking
def offset_for_a_time_after_all(world: Any) -> Any:
    _fill(world)
    found = world.consumer().offsets_for_times({world.tp(): 9_999_999_999_999})
    return {tp.partition: offset for tp, offset in found.items()}


@blocking
def offset_for_a_negative_time(world: Any) -> Any:
    return world.consumer().offsets_for_times({world.tp(): -1})


@blocking
def partitions_for_a_known_topic(world: Any) -> Any:
    return world.consumer().partitions_for_topic(world.topic)


@blocking
def an_unknown_setting(world: Any) -> Any:
    return world.consumer(no_such_setting=1)


# -- both ------------------------------------------------------------------------------------------------------------


class _Raised:
    """An error as an outcome."""

    def __init__(self, error: BaseException) -> None:
        self.names = [kind.__name__ for kind in type(error).__mro__]
        self.error = error

    def __repr__(self) -> str:
        return f"raised {self.error!r}"


def _equal(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, _Raised) and isinstance(ours, _Raised):
        return theirs.names[0] in ours.names
    return not isinstance(theirs, _Raised) and not isinstance(ours, _Raised) and bool(theirs == ours)


async def _outcome(call: Call, package: str, cluster: Cluster) -> Any:
    world = World(package, cluster)
    try:
        return await asyncio.wait_for(call(world), 2 * _LONG_S)
    except (Exception, asyncio.CancelledError) as error:
        return _Raised(error)
    finally:
        await world.end()


def _blocking_outcome(call: Callable[[Any], Any], package: str, cluster: Cluster) -> Any:
    world = World(package, cluster)
    try:
        return call(world)
    except StopIteration:
        return _Raised(StopIteration())
    except Exception as error:
        return _Raised(error)
    finally:
        for client in world.opened:
            try:
                client.close()
            except Exception:  # the outcome is that of the call
                pass


def _compare(name: str, theirs: Any, ours: Any) -> None:
    if name in DIFFERS:
        assert not _equal(theirs, ours), f"{name} has the original's outcome now: remove it from DIFFERS"
    else:
        assert _equal(theirs, ours), f"the original {theirs!r}, ours {ours!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", AIO)
def test_a_call_of_aiokafka(cluster: Cluster, name: str) -> None:
    async def both() -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                await _outcome(AIO[name], package, cluster) for package in ("aiokafka", "pyconsumer.compat.aiokafka")
            ]

    _compare(name, *asyncio.run(both()))


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKING)
def test_a_call_of_kafka_python(cluster: Cluster, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _compare(
            name,
            *(_blocking_outcome(BLOCKING[name], package, cluster) for package in ("kafka", "pyconsumer.compat.kafka")),
        )


def test_a_hundred_calls_are_compared() -> None:
    assert len(AIO) + len(BLOCKING) >= 100
    assert DIFFERS.keys() <= {*AIO, *BLOCKING}
    page = (Path(__file__).parents[2] / "docs" / "porting.md").read_text(encoding="utf-8")
    assert [row for row in DIFFERS.values() if f"| {row}" not in page] == []
