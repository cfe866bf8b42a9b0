"""Calls of kafka-python that test_compat_calls.py compares with ours."""

from __future__ import annotations

from typing import Any

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
