"""Calls of kafka-python that test_compat_calls.py compares with ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tests.behaviour.compat_world import LONG_S, blocking

# -- kafka-python ----------------------------------------------------------------------------------------------------


@blocking
def send(world: Any) -> Any:
    found = world.producer().send(world.topic, b"x", partition=1).get(LONG_S)
    return [found.partition, found.offset, found.topic == world.topic]


@blocking
def send_nothing(world: Any) -> Any:
    return world.producer().send(world.topic)


@blocking
def send_a_text(world: Any) -> Any:
    return world.producer().send(world.topic, "text").get(LONG_S).offset


@blocking
def send_when_closed(world: Any) -> Any:
    producer = world.producer()
    producer.close()
    return producer.send(world.topic, b"x")


@blocking
def send_to_partition_seven(world: Any) -> Any:
    return world.producer(max_block_ms=1000).send(world.topic, b"x", partition=7).get(LONG_S)


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
    producer.flush(LONG_S)


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


@blocking
def iterate_after_close(world: Any) -> Any:
    consumer = world.consumer(world.topic)
    consumer.close()
    return list(consumer)


@blocking
def send_a_text_as_key(world: Any) -> Any:
    return world.producer().send(world.topic, b"x", key="text").get(LONG_S).offset


@blocking
def a_deserializer_and_no_value(world: Any) -> Any:
    producer = world.producer()
    producer.send(world.topic, None, b"k", partition=0).get(LONG_S)
    consumer = world.consumer(world.topic, value_deserializer=repr, consumer_timeout_ms=10_000)
    return next(consumer).value


@blocking
def a_deserializer_and_no_key(world: Any) -> Any:
    _fill(world, 1)
    consumer = world.consumer(world.topic, key_deserializer=lambda key: key or "none", consumer_timeout_ms=10_000)
    return next(consumer).key


@blocking
def subscription_of_assigned_partitions(world: Any) -> Any:
    consumer = world.consumer()
    consumer.assign([world.tp()])
    return consumer.subscription()


@blocking
def subscribe_by_a_pattern_in_place_of_topics(world: Any) -> Any:
    return world.consumer(world.topic).subscribe(pattern="a.*")


@blocking
def subscribe_to_other_topics(world: Any) -> Any:
    consumer = world.consumer(world.topic)
    consumer.subscribe(["other"])
    return sorted(consumer.subscription())


@blocking
def seek_to_the_beginning_of_an_unassigned_one(world: Any) -> Any:
    return world.consumer().seek_to_beginning(world.tp())


@blocking
def seek_to_the_end_of_an_unassigned_one(world: Any) -> Any:
    return world.consumer().seek_to_end(world.tp())


@blocking
def seek_to_the_beginning_of_nothing(world: Any) -> Any:
    return world.consumer().seek_to_beginning()


@blocking
def seek_no_partition(world: Any) -> Any:
    return world.consumer().seek("no partition", 1)


@blocking
def names_of_a_consumer(world: Any) -> Any:
    consumer = world.consumer(world.topic, client_id="c", group_id=world.group)
    consumer.topics()
    found = [consumer._closed, bool(consumer._client.cluster.brokers()), consumer._subscription.subscription]
    consumer.close()
    return [*found[:2], found[2] == {world.topic}, consumer._closed]


@blocking
def names_of_a_producer(world: Any) -> Any:
    producer = world.producer(client_id="p")
    producer.partitions_for(world.topic)
    found = [producer._closed, producer._metadata.controller is None, world.topic in producer._metadata.topics()]
    producer.close()
    return [*found, producer._closed]


# -- sessions: each call while the client works, and after its end ---------------------------------------------------


def _tp(package: Any, topic: str, number: int = 0) -> Any:
    return package.TopicPartition(topic, number)


def _offsets(package: Any, topic: str, offset: int) -> Any:
    return {_tp(package, topic): package.OffsetAndMetadata(offset, "m", -1)}


def _anew(consumer: Any, topics: Any, listener: Any = None) -> None:
    consumer.unsubscribe()
    consumer.subscribe(topics, listener=listener)


def _read(consumer: Any) -> int:
    end, count = time.monotonic() + LONG_S, 0
    while not count and time.monotonic() < end:
        count = sum(map(len, consumer.poll(10_000).values()))  # one that ends too soon stops kafka-python's joining
    return count


def _sent(future: Any) -> Any:
    found = future.get(timeout=LONG_S)
    sizes = found.serialized_key_size, found.serialized_value_size
    return [future.succeeded(), future.failed(), future.is_done, future.exception, future.value == found, *sizes]


_Call = Callable[[Any, Any, str], Any]

#: Calls of a consumer without a group, in this order. The topic has 5 records in its one partition.
CONSUMER: Final[dict[str, _Call]] = {
    "assignment": lambda c, k, t: c.assignment(),
    "subscription": lambda c, k, t: c.subscription(),
    "paused-none": lambda c, k, t: c.paused(),
    "bootstrap-connected": lambda c, k, t: c.bootstrap_connected(),
    "config": lambda c, k, t: [c.config["fetch_min_bytes"], c.config.get("nothing"), "group_id" in c.config],
    "poll-nothing": lambda c, k, t: dict(c.poll(0)),
    "poll-negative": lambda c, k, t: c.poll(-1),
    "poll-no-records": lambda c, k, t: c.poll(0, max_records=0),
    "subscribe-nothing": lambda c, k, t: c.subscribe(),
    "subscribe-both": lambda c, k, t: c.subscribe([t], pattern=t),
    "subscribe-number": lambda c, k, t: c.subscribe(5),
    "subscribe-wrong-name": lambda c, k, t: _anew(c, ["a b"]),
    "subscribe-empty-name": lambda c, k, t: _anew(c, [""]),
    "subscribe-dots": lambda c, k, t: _anew(c, [".."]),
    "subscribe-long-name": lambda c, k, t: _anew(c, ["a" * 250]),
    "subscribe-numbers": lambda c, k, t: _anew(c, [5]),
    "subscribe-set": lambda c, k, t: _anew(c, {"a"}),
    "subscribe-wrong-listener": lambda c, k, t: _anew(c, ["a"], object()),
    "unsubscribe": lambda c, k, t: c.unsubscribe(),
    "position-unassigned": lambda c, k, t: c.position(_tp(k, t)),
    "seek-unassigned": lambda c, k, t: c.seek(_tp(k, t), 0),
    "highwater-unassigned": lambda c, k, t: c.highwater(_tp(k, t)),
    "commit-without-group": lambda c, k, t: c.commit(),
    "commit-async-without-group": lambda c, k, t: c.commit_async(),
    "committed-without-group": lambda c, k, t: c.committed(_tp(k, t)),
    "group-without-group": lambda c, k, t: c.group_metadata().group_id,
    "assign-numbers": lambda c, k, t: c.assign([5]),
    "assign-text": lambda c, k, t: c.assign("x"),
    "assign": lambda c, k, t: c.assign([_tp(k, t)]),
    "assigned": lambda c, k, t: c.assignment() == {_tp(k, t)},
    "subscribe-after-assign": lambda c, k, t: c.subscribe([t]),
    "position-not-a-partition": lambda c, k, t: c.position("x"),
    "seek": lambda c, k, t: c.seek(_tp(k, t), 2),
    "position": lambda c, k, t: c.position(_tp(k, t)),
    "seek-negative": lambda c, k, t: c.seek(_tp(k, t), -1),
    "seek-text": lambda c, k, t: c.seek(_tp(k, t), "1"),
    "seek-other": lambda c, k, t: c.seek(_tp(k, t, 7), 1),
    "seek-not-a-partition": lambda c, k, t: c.seek("x", 1),
    "pause": lambda c, k, t: c.pause(_tp(k, t)),
    "pause-not-a-partition": lambda c, k, t: c.pause("x"),
    "paused": lambda c, k, t: c.paused() == {_tp(k, t)},
    "resume": lambda c, k, t: c.resume(_tp(k, t)),
    "highwater-before": lambda c, k, t: c.highwater(_tp(k, t)),
    "read": lambda c, k, t: _read(c),
    "highwater": lambda c, k, t: c.highwater(_tp(k, t)),
    "position-after": lambda c, k, t: c.position(_tp(k, t)),
    "next-at-the-end": lambda c, k, t: next(c),
    "partitions": lambda c, k, t: c.partitions_for_topic(t),
    "partitions-of-unknown": lambda c, k, t: c.partitions_for_topic(f"{t}-none"),
    "unknown-was-created": lambda c, k, t: f"{t}-none" in c.topics(),
    "topics": lambda c, k, t: t in c.topics(),
    "beginning": lambda c, k, t: list(c.beginning_offsets([_tp(k, t)]).values()),
    "end": lambda c, k, t: list(c.end_offsets([_tp(k, t)]).values()),
    "end-of-nothing": lambda c, k, t: c.end_offsets([]),
    "times": lambda c, k, t: [found.offset for found in c.offsets_for_times({_tp(k, t): 0}).values()],
    "times-negative": lambda c, k, t: c.offsets_for_times({_tp(k, t): -1}),
    "times-text": lambda c, k, t: c.offsets_for_times({_tp(k, t): "x"}),
    "seek-to-end": lambda c, k, t: c.seek_to_end(_tp(k, t)),
    "position-at-end": lambda c, k, t: c.position(_tp(k, t)),
    "seek-to-beginning": lambda c, k, t: c.seek_to_beginning(_tp(k, t)),
    "position-at-beginning": lambda c, k, t: c.position(_tp(k, t)),
    "seek-to-end-unassigned": lambda c, k, t: c.seek_to_end(_tp(k, t, 7)),
    "seek-to-beginning-text": lambda c, k, t: c.seek_to_beginning("x"),
    "metrics": lambda c, k, t: isinstance(c.metrics(), dict),
    "assign-nothing": lambda c, k, t: c.assign([]),
    "unsubscribe-twice": lambda c, k, t: [c.unsubscribe(), c.unsubscribe()],
    "assignment-after": lambda c, k, t: c.assignment(),
    "subscription-after": lambda c, k, t: c.subscription(),
}
#: Calls of a member of a group.
MEMBER: Final[dict[str, _Call]] = {
    "read": lambda c, k, t: _read(c),
    "subscription": lambda c, k, t: c.subscription() == {t},
    "assigned": lambda c, k, t: c.assignment() == {_tp(k, t)},
    "seek-other": lambda c, k, t: c.seek(_tp(k, t, 7), 1),
    "committed-nothing": lambda c, k, t: c.committed(_tp(k, t)),
    "committed-text": lambda c, k, t: c.committed("x"),
    "commit": lambda c, k, t: c.commit(),
    "committed": lambda c, k, t: c.committed(_tp(k, t)),
    "commit-offsets": lambda c, k, t: c.commit(_offsets(k, t, 3)),
    "committed-metadata": lambda c, k, t: tuple(c.committed(_tp(k, t), metadata=True))[:2],
    "commit-number": lambda c, k, t: c.commit({_tp(k, t): 3}),
    "commit-text": lambda c, k, t: c.commit({"x": k.OffsetAndMetadata(3, "m", -1)}),
    "commit-empty": lambda c, k, t: c.commit({}),
    "commit-list": lambda c, k, t: c.commit([1]),
    "commit-negative": lambda c, k, t: c.commit(_offsets(k, t, -3)),
    "commit-async": lambda c, k, t: c.commit_async(_offsets(k, t, 4)) is not None,
    "assign-with-topics": lambda c, k, t: c.assign([_tp(k, t)]),
    "pattern-with-topics": lambda c, k, t: c.subscribe(pattern="a"),
    "subscribe-again": lambda c, k, t: c.subscribe([t]),
    "group": lambda c, k, t: c.group_metadata().group_id == f"group-{t}",
}
#: Calls of a producer.
PRODUCER: Final[dict[str, _Call]] = {
    "partitions-for": lambda c, k, t: c.partitions_for(t),
    "send": lambda c, k, t: _sent(c.send(t, b"v")),
    "send-number": lambda c, k, t: c.send(t, 5),
    "send-number-key": lambda c, k, t: c.send(t, b"v", key=5),
    "send-text": lambda c, k, t: c.send(t, "v"),
    "send-wrong-partition": lambda c, k, t: c.send(t, b"v", partition=77),
    "send-negative-partition": lambda c, k, t: c.send(t, b"v", partition=-1),
    "send-text-partition": lambda c, k, t: c.send(t, b"v", partition="0"),
    "send-topic-number": lambda c, k, t: c.send(5, b"v"),
    "send-no-topic": lambda c, k, t: c.send(None, b"v"),
    "send-wrong-topic": lambda c, k, t: c.send("a b", b"v"),
    "send-wrong-header": lambda c, k, t: c.send(t, b"v", headers=[("a", 1)]),
    "send-headers-in-a-dict": lambda c, k, t: c.send(t, b"v", headers={"a": b"1"}),
    "send-header-none": lambda c, k, t: _sent(c.send(t, b"v", headers=[("a", None)])),
    "send-too-large": lambda c, k, t: c.send(t, b"v" * 2_000_000),
    "send-bytearray": lambda c, k, t: _sent(c.send(t, bytearray(b"v"))),
    "send-timestamp": lambda c, k, t: c.send(t, b"v", timestamp_ms=5).get(LONG_S).timestamp,
    "send-timestamp-text": lambda c, k, t: c.send(t, b"v", timestamp_ms="x"),
    "send-timestamp-negative": lambda c, k, t: c.send(t, b"v", timestamp_ms=-5) and None,
    "begin-without-id": lambda c, k, t: c.begin_transaction(),
    "init-without-id": lambda c, k, t: c.init_transactions(),
    "commit-without-id": lambda c, k, t: c.commit_transaction(),
    "abort-without-id": lambda c, k, t: c.abort_transaction(),
    "flush": lambda c, k, t: c.flush(),
    "flush-in-time": lambda c, k, t: c.flush(timeout=1),
    "metrics": lambda c, k, t: isinstance(c.metrics(), dict),
}


def session_of_kafka_python(package: Any, kind: str, address: str, topic: str) -> dict[str, Any]:
    """Return the outcome of each call: a value, or the names of the error's classes."""
    if kind == "producer":
        client, calls = package.KafkaProducer(bootstrap_servers=address, max_block_ms=1500), PRODUCER
    else:
        settings = {"bootstrap_servers": address, "auto_offset_reset": "earliest", "consumer_timeout_ms": 500}
        if kind == "member":
            settings |= {"group_id": f"group-{topic}", "enable_auto_commit": False}
        topics, calls = ((topic,), MEMBER) if kind == "member" else ((), CONSUMER)
        client = package.KafkaConsumer(*topics, **settings)
    found = {}
    try:
        for name, call in calls.items():
            found[f"open {name}"] = _outcome(call, client, package, topic)
    finally:
        client.close()
    for name, call in calls.items():
        if name != "read":
            found[f"closed {name}"] = _outcome(call, client, package, topic)
    found["close-again"] = _outcome(lambda c, k, t: c.close(), client, package, topic)
    return found


def _outcome(call: _Call, client: Any, package: Any, topic: str) -> Any:
    try:
        return call(client, package, topic)
    except Exception as error:
        return [each.__name__ for each in type(error).__mro__]
