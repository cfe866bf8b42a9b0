"""Calls of aiokafka that test_compat_calls.py compares with ours: one by one, and in sessions of one client."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final

from tests.behaviour.compat_world import LONG_S, aio

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
    return await asyncio.wait_for(producer.send(world.topic, b"x"), 5)  # the original waits for ever


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
    return (await asyncio.wait_for(consumer.getone(), LONG_S)).headers


@aio
async def send_with_a_wrong_topic(world: Any) -> Any:
    producer = await world.started(world.producer(request_timeout_ms=3000))  # the original waits all of it
    return await producer.send_and_wait("no topic!", b"x")


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
    return (await asyncio.wait_for(consumer.getone(), LONG_S)).value


# -- aiokafka: reading -----------------------------------------------------------------------------------------------


async def _filled(world: Any, count: int = 5) -> None:
    producer = await world.started(world.producer())
    for n in range(count):
        await producer.send_and_wait(world.topic, b"%d" % n, partition=0)


@aio
async def getone(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic))
    return [(await asyncio.wait_for(consumer.getone(), LONG_S)).value for _ in range(3)]


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
    record = await asyncio.wait_for(consumer.getone(), LONG_S)
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
    return (await asyncio.wait_for(consumer.getone(world.tp()), LONG_S)).offset


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
    found = (await world.started(world.consumer(world.topic))).highwater(world.tp())
    return found or None  # 0 once a fetch of the empty partition has been answered


# -- aiokafka: commits -----------------------------------------------------------------------------------------------


@aio
async def commit_without_a_group(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic))).commit()


@aio
async def commit_positions(world: Any) -> Any:
    await _filled(world)
    consumer = await world.started(world.consumer(world.topic, group_id=world.group, enable_auto_commit=False))
    await asyncio.wait_for(consumer.getone(), LONG_S)
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


# -- aiokafka: batches -----------------------------------------------------------------------------------------------


@aio
async def metadata_of_a_batch(world: Any) -> Any:
    producer = await world.started(world.producer())
    batch = producer.create_batch()
    for n in range(3):
        batch.append(key=None, value=b"%d" % n, timestamp=1_700_000_000_000 + n)
    found = await (await producer.send_batch(batch, world.topic, partition=1))
    return [found.partition, found.offset, found.timestamp, found.timestamp_type]


@aio
async def records_of_a_batch(world: Any) -> Any:
    producer = await world.started(world.producer())
    batch = producer.create_batch()
    batch.append(key=b"k", value=None, timestamp=1_700_000_000_000, headers=[("a", b"1")])
    batch.append(key=None, value=b"v", timestamp=1_700_000_000_001)
    await (await producer.send_batch(batch, world.topic, partition=0))
    consumer = await world.started(world.consumer(world.topic))
    found = [await asyncio.wait_for(consumer.getone(), LONG_S) for _ in range(2)]
    return [(each.key, each.value, each.timestamp, each.headers) for each in found]


@aio
async def a_batch_without_a_partition(world: Any) -> Any:
    """FastStream sends its batches so."""
    asked = []

    def last(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        asked.append((key, sorted(partitions)))
        return max(partitions)

    chosen = []
    for more in ({"partitioner": last}, {}):
        producer = await world.started(world.producer(**more))
        batch = producer.create_batch()
        batch.append(key=b"k", value=b"v", timestamp=None)
        found = await (await producer.send_batch(batch, world.topic, partition=None))
        chosen.append(found.partition if more else found.partition in (await producer.partitions_for(world.topic)))
    return chosen, asked


@aio
async def a_batch_is_full(world: Any) -> Any:
    batch = (await world.started(world.producer(max_batch_size=1000))).create_batch()
    taken = [batch.append(key=None, value=bytes(size), timestamp=None) is None for size in (600, 600, 10)]
    return [taken, batch.record_count()]


@aio
async def a_batch_is_closed(world: Any) -> Any:
    batch = (await world.started(world.producer())).create_batch()
    batch.append(key=None, value=b"x", timestamp=None)
    batch.close()
    return [batch.append(key=None, value=b"y", timestamp=None), batch.closed(), batch.record_count()]


@aio
async def a_text_in_a_batch(world: Any) -> Any:
    batch = (await world.started(world.producer())).create_batch()
    return batch.append(key=None, value="text", timestamp=None)


@aio
async def a_batch_for_a_wrong_topic(world: Any) -> Any:
    producer = await world.started(world.producer(transactional_id=world.group))
    batch = producer.create_batch()
    batch.append(key=None, value=b"x", timestamp=None)
    return await producer.send_batch(batch, world.topic, partition=0)


@aio
async def a_batch_after_stop(world: Any) -> Any:
    producer = await world.started(world.producer())
    await producer.send_and_wait(world.topic, b"x")
    batch = producer.create_batch()
    batch.append(key=None, value=b"x", timestamp=None)
    await producer.stop()
    return await producer.send_batch(batch, world.topic, partition=0)


@aio
async def a_batch_that_is_too_large(world: Any) -> Any:
    producer = await world.started(world.producer(max_batch_size=3_000_000))
    batch = producer.create_batch()
    for _ in range(2):
        batch.append(key=None, value=bytes(1_000_000), timestamp=None)
    return await (await producer.send_batch(batch, world.topic, partition=0))


# -- aiokafka: settings ----------------------------------------------------------------------------------------------


@aio
async def a_wrong_security_protocol(world: Any) -> Any:
    return world.consumer(security_protocol="SOME")


@aio
async def tls_without_a_context(world: Any) -> Any:
    return world.producer(security_protocol="SSL")


@aio
async def plain_without_a_name(world: Any) -> Any:
    return world.consumer(security_protocol="SASL_PLAINTEXT")


@aio
async def a_wrong_isolation_level(world: Any) -> Any:
    return await world.started(world.consumer(isolation_level="READ_SOME"))


# -- aiokafka: more of subscriptions and values ----------------------------------------------------------------------


@aio
async def send_a_text_as_key(world: Any) -> Any:
    return await (await world.started(world.producer())).send_and_wait(world.topic, b"x", key="text")


@aio
async def deserializers_of_text_and_no_value(world: Any) -> Any:
    producer = await world.started(world.producer())
    await producer.send_and_wait(world.topic, None, b"k", 0)
    consumer = await world.started(world.consumer(world.topic, value_deserializer=bytes.decode))
    return await asyncio.wait_for(consumer.getone(), LONG_S)


@aio
async def a_deserializer_and_no_key(world: Any) -> Any:
    await _filled(world, 1)
    consumer = await world.started(world.consumer(world.topic, key_deserializer=lambda key: key or "none"))
    return (await asyncio.wait_for(consumer.getone(), LONG_S)).key


@aio
async def subscribe_by_a_pattern_in_place_of_topics(world: Any) -> Any:
    return world.consumer(world.topic).subscribe(pattern="a.*")


@aio
async def subscribe_to_other_topics(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    consumer.subscribe(["other"])
    return sorted(consumer.subscription())


@aio
async def assign_other_partitions(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp()])
    consumer.assign([world.tp(1)])
    return [tp.partition for tp in consumer.assignment()]


@aio
async def subscribe_to_the_same_topics(world: Any) -> Any:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    class Heard(world.package.ConsumerRebalanceListener):  # type: ignore[name-defined]
        def on_partitions_revoked(self, revoked: Any) -> None:
            heard.put_nowait(("revoked", len(revoked)))

        def on_partitions_assigned(self, assigned: Any) -> None:
            heard.put_nowait(("assigned", len(assigned)))

    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    consumer.subscribe([world.topic], listener=Heard())
    return [await asyncio.wait_for(heard.get(), LONG_S) for _ in range(2)]


@aio
async def unsubscribe_and_look(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    consumer.unsubscribe()
    return [consumer.subscription(), consumer.assignment()]


@aio
async def unsubscribe_and_commit(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic, group_id=world.group))
    consumer.unsubscribe()
    return await consumer.commit({world.tp(): 1})


@aio
async def commit_without_topics(world: Any) -> Any:
    return await (await world.started(world.consumer(group_id=world.group))).commit()


@aio
async def commit_to_a_text(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic, group_id=world.group))).commit({"text": 1})


@aio
async def commit_metadata_that_is_no_text(world: Any) -> Any:
    return await (await world.started(world.consumer(world.topic, group_id=world.group))).commit({world.tp(): (1, 2)})


@aio
async def names_of_clients(world: Any) -> Any:
    consumer = await world.started(world.consumer(world.topic, client_id="c", max_poll_records=7))
    producer = await world.started(world.producer(client_id="p"))
    found = [consumer._client._client_id, consumer._closed, consumer._max_poll_records, consumer._group_id]
    found += [bool(consumer._client.cluster.brokers()), producer.client._client_id, producer._closed]
    found += [producer._sender.sender_task.done(), await producer.client.force_metadata_update()]
    await producer.client.add_topic(world.topic)
    found.append(world.topic in producer.client.cluster.topics())
    await consumer.stop()
    return [*found, consumer._closed]


# -- sessions: each call while the client works, and after its end ---------------------------------------------------


LONGEST_S = 2.0


def _tp(package: Any, topic: str, number: int = 0) -> Any:
    return package.TopicPartition(topic, number)


_Call = Callable[[Any, Any, str], Any]

#: Calls of a consumer without a group, in this order. The topic has 5 records in its one partition.
CONSUMER: Final[dict[str, _Call]] = {
    "assignment": lambda c, k, t: c.assignment(),
    "subscription": lambda c, k, t: c.subscription(),
    "paused-none": lambda c, k, t: set(c.paused()) if hasattr(c, "paused") else None,
    "subscribe-nothing": lambda c, k, t: c.subscribe(),
    "subscribe-both": lambda c, k, t: c.subscribe([t], pattern=t),
    "subscribe-bad-pattern": lambda c, k, t: c.subscribe(pattern="("),
    "subscribe-bad-listener": lambda c, k, t: c.subscribe([t], listener=object()),
    "subscribe-number": lambda c, k, t: c.subscribe(5),
    "position-unassigned": lambda c, k, t: c.position(_tp(k, t)),
    "seek-unassigned": lambda c, k, t: c.seek(_tp(k, t), 0),
    "pause-unassigned": lambda c, k, t: c.pause(_tp(k, t)),
    "highwater-unassigned": lambda c, k, t: c.highwater(_tp(k, t)),
    "commit-without-group": lambda c, k, t: c.commit(),
    "committed-without-group": lambda c, k, t: c.committed(_tp(k, t)),
    "assign": lambda c, k, t: c.assign([_tp(k, t)]),
    "assigned": lambda c, k, t: set(c.assignment()) == {_tp(k, t)},
    "subscribe-after-assign": lambda c, k, t: c.subscribe([t]),
    "position-not-a-partition": lambda c, k, t: c.position("x"),
    "seek": lambda c, k, t: c.seek(_tp(k, t), 2),
    "position": lambda c, k, t: c.position(_tp(k, t)),
    "seek-negative": lambda c, k, t: c.seek(_tp(k, t), -1),
    "seek-text": lambda c, k, t: c.seek(_tp(k, t), "1"),
    "seek-other": lambda c, k, t: c.seek(_tp(k, t, 7), 1),
    "pause": lambda c, k, t: c.pause(_tp(k, t)),
    "paused": lambda c, k, t: set(c.paused()) == {_tp(k, t)},
    "resume": lambda c, k, t: c.resume(_tp(k, t)),
    "partitions-of-known": lambda c, k, t: c.partitions_for_topic(t),
    "partitions-of-unknown": lambda c, k, t: c.partitions_for_topic(t + "-none"),
    "topics": lambda c, k, t: _names(c.topics(), t),
    "beginning": lambda c, k, t: c.beginning_offsets([_tp(k, t)]),
    "end": lambda c, k, t: c.end_offsets([_tp(k, t)]),
    "times": lambda c, k, t: c.offsets_for_times({_tp(k, t): 0}),
    "times-negative": lambda c, k, t: c.offsets_for_times({_tp(k, t): -1}),
    "seek-to-end": lambda c, k, t: c.seek_to_end(_tp(k, t)),
    "position-at-end": lambda c, k, t: c.position(_tp(k, t)),
    "seek-to-beginning": lambda c, k, t: c.seek_to_beginning(_tp(k, t)),
    "position-at-beginning": lambda c, k, t: c.position(_tp(k, t)),
    "seek-to-end-unassigned": lambda c, k, t: c.seek_to_end(_tp(k, t, 7)),
    "unsubscribe": lambda c, k, t: _no_result(c.unsubscribe()),
    "assignment-after": lambda c, k, t: set(c.assignment()),
}
#: Calls of a producer.
PRODUCER: Final[dict[str, _Call]] = {
    "partitions-for": lambda c, k, t: c.partitions_for(t),
    "send-number": lambda c, k, t: c.send(t, 5),
    "send-number-key": lambda c, k, t: c.send(t, b"v", key=5),
    "send-bad-partition": lambda c, k, t: c.send(t, b"v", partition=77),
    "send-negative-partition": lambda c, k, t: c.send(t, b"v", partition=-1),
    "send-topic-number": lambda c, k, t: c.send(5, b"v"),
    "send-bad-headers": lambda c, k, t: c.send(t, b"v", headers=[("a", 1)]),
    "send-too-large": lambda c, k, t: c.send(t, b"v" * 2_000_000),
    "begin-without-id": lambda c, k, t: c.begin_transaction(),
    "commit-without-id": lambda c, k, t: c.commit_transaction(),
    "abort-without-id": lambda c, k, t: c.abort_transaction(),
    "send-good": lambda c, k, t: _no_result(c.send(t, b"v")),
    "flush": lambda c, k, t: _no_result(c.flush()),
}
#: Reads, at the end of a consumer.
_READS: Final[dict[str, _Call]] = {
    "getone": lambda c, k, t: c.getone(),
    "getmany": lambda c, k, t: c.getmany(timeout_ms=10),
    "getmany-zero": lambda c, k, t: c.getmany(timeout_ms=10, max_records=0),
    "iterate": lambda c, k, t: c.__aiter__().__anext__(),
    "stop-again": lambda c, k, t: c.stop(),
    "start-again": lambda c, k, t: c.start(),
}


async def _names(found: Any, topic: str) -> bool:
    return topic in (await found if inspect.isawaitable(found) else found)


async def _no_result(found: Any) -> None:
    if inspect.isawaitable(found):
        await found


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return value if isinstance(value, (int, str, bool, type(None))) else "a value"


async def _step_outcome(call: _Call, client: Any, package: Any, topic: str) -> Any:
    try:
        async with asyncio.timeout(LONGEST_S):
            found = call(client, package, topic)
            return _shown(await found if inspect.isawaitable(found) else found)
    except TimeoutError:
        return "waits"
    except Exception as error:
        return {each.__name__ for each in type(error).__mro__} - {"object", "BaseException", "Exception", "KafkaError"}


_LAST_OF_PRODUCER: Final[dict[str, _Call]] = {
    "stop-again": lambda c, k, t: c.stop(),
    "start-again": lambda c, k, t: c.start(),
}


async def session_of_aiokafka(package: Any, kind: str, address: str, topic: str) -> dict[str, Any]:
    make = getattr(package, kind)
    calls = {**CONSUMER, **_READS} if kind == "AIOKafkaConsumer" else {**PRODUCER, **_LAST_OF_PRODUCER}
    found: dict[str, Any] = {}
    never = make(bootstrap_servers=address)
    found["stop-before-start"] = await _step_outcome(lambda c, k, t: c.stop(), never, package, topic)
    found["stop-again-before-start"] = await _step_outcome(lambda c, k, t: c.stop(), never, package, topic)
    client = make(bootstrap_servers=address)
    await client.start()
    for name, call in calls.items():
        if name not in ("getone", "iterate", "stop-again", "getmany"):
            found[f"started {name}"] = await _step_outcome(call, client, package, topic)
    found["stop"] = await _step_outcome(lambda c, k, t: c.stop(), client, package, topic)
    for name, call in calls.items():
        found[f"stopped {name}"] = await _step_outcome(call, client, package, topic)
    return found
