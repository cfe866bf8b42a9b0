"""The mocks act as the clients do: one set of tests runs on both, and on their faces for event loops.

The clients read and write an embedded cluster. A test that a mock alone can fail shows a rule that the mock has wrong.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import (
    ApplicationRecoverableError,
    CommitFailedError,
    ConfigurationError,
    IllegalStateError,
    InvalidGroupIdError,
    InvalidTopicError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetsOutOfRangeError,
    RecordDeserializationError,
    SerializationError,
    TransactionAbortableError,
    WakeupError,
)
from pyconsumer.testing import (
    AsyncMockConsumer,
    AsyncMockProducer,
    MockConsumer,
    MockProducer,
    RunningClock,
    make_records,
)
from tests.support.cluster import Cluster
from tests.support.event_loops import new_event_loop
from tests.support.process import wait_until

_FACES = ["client", "mock", "async client", "async mock"]
FIRST_MS = 1_700_000_000_000


class OnLoop:
    """An object of ``pyconsumer.aio`` whose calls are made on an event loop, one after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self.inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            async def run() -> Any:
                outcome = found(*args, **options)
                return await outcome if inspect.iscoroutine(outcome) else outcome

            return self._loop.run_until_complete(run())

        return call


class World:
    """A cluster with one topic, real or played by a mock."""

    def __init__(self, face: str, cluster: Cluster, topic: str, partitions: int, opened: ExitStack) -> None:
        self.is_mock = "mock" in face
        self.topic = topic
        self.partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self.clock = RunningClock()
        self._servers = cluster.bootstrap_servers
        self._loop = new_event_loop() if "async" in face else None
        self._values: list[bytes] = []
        self._opened = opened
        if self._loop is not None:
            opened.callback(self._loop.close)

    def _face(self, made: Any) -> Any:
        shown = made if self._loop is None else OnLoop(self._loop, made)
        self._opened.callback(lambda: self._close(shown))
        return shown

    @staticmethod
    def _close(made: Any) -> None:
        try:
            made.close(timeout_ms=0)
        except IllegalStateError:
            pass  # the test has closed it

    # -- consumers

    def fill(self, *values: bytes) -> None:
        """Put records into partition 0, with times that grow by a millisecond."""
        self._values += values
        if not self.is_mock:
            with KafkaProducer(bootstrap_servers=self._servers) as producer:
                for number, value in enumerate(values):
                    producer.send(self.topic, value, partition=0, timestamp_ms=FIRST_MS + number)

    def consumer(self, policy: str = "earliest", group_id: str | None = None, **settings: Any) -> Any:
        if self.is_mock:
            kind: Any = AsyncMockConsumer if self._loop is not None else MockConsumer
            return self._face(kind(policy, group_id=group_id, clock=self.clock, **settings))
        kind = AsyncKafkaConsumer if self._loop is not None else KafkaConsumer
        made = kind(
            bootstrap_servers=self._servers,
            auto_offset_reset=policy,
            group_id=group_id,
            clock=self.clock,
            **{"enable_auto_commit": False, **settings},
        )
        return self._face(made)

    def mock(self, made: Any) -> Any:
        """Return the part of a mock that the test plays."""
        inner = made.inner if self._loop is not None else made
        return inner.mock if self._loop is not None else inner

    def log(self, consumer: Any) -> None:
        """Let a mock know the log that a cluster has."""
        if self.is_mock:
            mock = self.mock(consumer)
            mock.update_partitions(self.topic, len(self.partitions))
            mock.update_beginning_offsets(dict.fromkeys(self.partitions, 0))
            mock.update_end_offsets(dict.fromkeys(self.partitions, 0))
            mock.add_records(make_records(self.topic, self._values, timestamp_ms=FIRST_MS))

    def assign(self, consumer: Any) -> None:
        consumer.assign(self.partitions)
        self.log(consumer)

    def join(self, consumer: Any) -> None:
        """Wait until the group has assigned everything."""
        if self.is_mock:
            (consumer if self._loop is not None else self.mock(consumer)).rebalance(self.partitions)
            self.log(consumer)
            return
        consumer.pause()
        wait_until(
            lambda: consumer.poll(100, max_records=1) is not None and consumer.assignment() == set(self.partitions),
            30,
            "the group has assigned the topic",
        )
        consumer.seek_to_beginning()

    def leave(self, consumer: Any, error: BaseException | None) -> None:
        """Leave the ``with`` block of a consumer."""
        leave = consumer.__exit__ if self._loop is None else consumer.__getattr__("__aexit__")
        leave(None if error is None else type(error), error, None)

    # -- producers

    def producer(self, **settings: Any) -> Any:
        if self.is_mock:
            kind: Any = AsyncMockProducer if self._loop is not None else MockProducer
            return self._face(kind(default_partitions=len(self.partitions), **settings))
        kind = AsyncKafkaProducer if self._loop is not None else KafkaProducer
        return self._face(kind(bootstrap_servers=self._servers, clock=self.clock, **settings))

    def fence(self, producer: Any, transactional_id: str) -> None:
        """Let another producer with the same name take over."""
        if self.is_mock:
            self.mock(producer).fence()
            return
        with KafkaProducer(bootstrap_servers=self._servers, transactional_id=transactional_id) as other:
            other.init_transactions()

    def committed_values(self, producer: Any) -> list[bytes | None]:
        """Return the records of a reader of committed records."""
        if self.is_mock:
            return [record.value_bytes for record in self.mock(producer).history]
        found: list[bytes | None] = []
        with KafkaConsumer(
            bootstrap_servers=self._servers, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as reader:
            reader.assign(self.partitions)
            ends = reader.end_offsets(self.partitions)
            while any(reader.position(tp) < ends[tp] for tp in self.partitions):
                found += [record.value for record in reader.poll(1000).records()]
        return found

    def group_offsets(self, producer: Any, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        if self.is_mock:
            found: dict[TopicPartition, int] = {}
            for offsets in self.mock(producer).offsets_history:
                found |= {tp: each.offset for tp, each in offsets.get(group_id, {}).items()}
            return found
        with KafkaConsumer(bootstrap_servers=self._servers, group_id=group_id) as reader:
            return {tp: at for tp, at in reader.committed(self.partitions).items() if at is not None}


@pytest.fixture(params=_FACES)
def world(request: pytest.FixtureRequest, embedded: Cluster, topic_name: str) -> Iterator[Callable[..., World]]:
    """Makes the world of a test: ``world(partitions=1, config={})``."""
    with ExitStack() as opened:

        def make(partitions: int = 1, config: dict[str, object] | None = None) -> World:
            embedded.create_topic(topic_name, partitions, config=config)
            return World(request.param, embedded, topic_name, partitions, opened)

        yield make


def values_of(records: Any) -> list[Any]:
    return [record.value for record in records.records()]


def read(consumer: Any, count: int) -> list[Any]:
    """Poll until there are that many records."""
    found: list[Any] = []

    def enough() -> bool:
        found.extend(values_of(consumer.poll(200)))
        return len(found) >= count

    wait_until(enough, 30, f"{count} records")
    return found


class Noting(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(tp.partition for tp in revoked)))

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(tp.partition for tp in assigned)))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(tp.partition for tp in lost)))


# --- consumers


def test_partitions_assigned_by_hand(world: Callable[..., World]) -> None:
    here = world(partitions=2)
    here.fill(b"a", b"b", b"c")
    first, second = here.partitions
    consumer = here.consumer()
    with pytest.raises(IllegalStateError):
        consumer.poll(0)
    here.assign(consumer)
    assert read(consumer, 3) == [b"a", b"b", b"c"]
    assert consumer.position(first) == 3
    assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert consumer.end_offsets([first, second]) == {first: 3, second: 0}
    assert consumer.current_lag(first) == 0
    consumer.seek(first, 1)
    assert values_of(consumer.poll(10_000, max_records=1)) == [b"b"]
    consumer.pause(first)
    assert consumer.paused() == {first}
    assert not consumer.poll(0)
    consumer.resume(first)
    assert read(consumer, 1) == [b"c"]
    consumer.seek_to_beginning(first)
    assert consumer.position(first) == 0
    consumer.seek_to_end()
    assert consumer.position(first) == 3
    found = consumer.offsets_for_times({first: FIRST_MS + 1, second: 0})
    assert (found[first].offset, found[first].timestamp, found[second]) == (1, FIRST_MS + 1, None)
    assert consumer.partitions_for_topic(here.topic) == {0, 1}
    assert here.topic in consumer.topics()
    assert consumer.assignment() == {first, second}


def test_the_group_assigns_and_keeps_offsets(world: Callable[..., World], group_id: str) -> None:
    here = world()
    here.fill(b"a", b"b")
    (tp,) = here.partitions
    consumer, listener = here.consumer(group_id=group_id), Noting()
    consumer.subscribe([here.topic], listener=listener)
    assert consumer.subscription() == {here.topic}
    here.join(consumer)
    assert read(consumer, 2) == [b"a", b"b"]
    assert consumer.committed(tp) is None
    consumer.commit()
    assert consumer.committed(tp) == 2
    told: list[Any] = []
    consumer.commit_async({tp: OffsetAndMetadata(1, "note")}, lambda offsets, error: told.append((offsets, error)))
    wait_until(lambda: consumer.poll(10) is not None and bool(told), 30, "the callback of the commit")
    assert told == [({tp: OffsetAndMetadata(1, "note")}, None)]
    assert consumer.committed([tp], metadata=True) == {tp: OffsetAndMetadata(1, "note")}
    metadata = consumer.group_metadata()
    assert metadata.group_id == group_id
    assert metadata.generation_id >= 0
    assert metadata.member_id
    consumer.unsubscribe()
    assert (consumer.subscription(), consumer.assignment()) == (set(), set())
    assert listener.calls == [("assigned", [0]), ("revoked", [0])]


def test_stored_offsets_are_committed(world: Callable[..., World], group_id: str) -> None:
    place = world(2)
    first, second = place.partitions
    place.fill(*(b"%d" % number for number in range(6)))
    consumer = place.consumer(group_id=group_id, enable_auto_offset_store=False, enable_auto_commit=True)
    consumer.subscribe([place.topic])
    place.join(consumer)
    records = consumer.poll(10_000, max_records=4)
    while not records.count():
        records = consumer.poll(200, max_records=4)
    consumer.commit()
    assert consumer.committed(first) is None
    consumer.store_offsets(list(records.records())[1])
    consumer.store_offsets({second: 0})
    with pytest.raises(IllegalStateError, match="not assigned"):
        consumer.store_offsets({first: 3, TopicPartition(place.topic, 9): 1})
    with pytest.raises(ValueError, match="negative"):
        consumer.store_offsets({first: -1})
    consumer.commit()
    assert consumer.committed([first, second]) == {first: 2, second: 0}
    consumer.close()
    positions = place.consumer(group_id=group_id)
    positions.assign(place.partitions)
    with pytest.raises(IllegalStateError, match="enable_auto_offset_store=False"):
        positions.store_offsets({first: 1})
    with pytest.raises(InvalidGroupIdError):
        place.consumer().store_offsets({first: 1})
    with pytest.raises(ConfigurationError, match="needs a group_id"):
        place.consumer(enable_auto_offset_store=False)


def test_closing_in_good_order_commits_and_an_error_does_not(world: Callable[..., World], group_id: str) -> None:
    here = world()
    here.fill(*[b"%d" % number for number in range(10)])
    tp = here.partitions[0]

    def program(group: str, end: Callable[[Any], object]) -> Any:
        """Read one record, end, and return the committed offset."""
        consumer = here.consumer(group_id=group, enable_auto_commit=True)
        consumer.subscribe([here.topic])
        here.join(consumer)
        consumer.resume(tp)
        records = consumer.poll(10_000, max_records=1)
        while not records.count():
            records = consumer.poll(200, max_records=1)
        end(consumer)
        other = consumer if here.is_mock else here.consumer(group_id=group)
        return other.committed(tp)

    def unsubscribe(consumer: Any) -> None:
        consumer.unsubscribe()
        consumer.close()

    assert program(group_id, lambda consumer: consumer.close()) == 1
    assert program(f"{group_id}-left", lambda consumer: here.leave(consumer, None)) == 1
    assert program(f"{group_id}-failed", lambda consumer: here.leave(consumer, ValueError())) in (None, 0)
    assert program(f"{group_id}-unsubscribed", unsubscribe) in (None, 0)


def test_closing_revokes(world: Callable[..., World], group_id: str) -> None:
    here = world()
    consumer, listener = here.consumer(group_id=group_id), Noting()
    consumer.subscribe([here.topic], listener=listener)
    here.join(consumer)
    consumer.close()
    assert listener.calls == [("assigned", [0]), ("revoked", [0])]
    consumer.close()
    for call in (lambda: consumer.poll(0), lambda: consumer.assignment(), lambda: consumer.commit()):
        with pytest.raises(IllegalStateError):
            call()


def test_a_consumer_that_does_not_poll_loses_its_partitions(world: Callable[..., World], group_id: str) -> None:
    """The clock is the test's, so five minutes pass at once."""
    here = world()
    consumer, listener = here.consumer(group_id=group_id, max_poll_interval_ms=300_000), Noting()
    consumer.subscribe([here.topic], listener=listener)
    here.join(consumer)
    (tp,) = here.partitions
    consumer.commit({tp: 0})
    here.clock.advance(301)

    def refused() -> bool:
        try:
            consumer.commit({tp: 0})
        except CommitFailedError:
            return True
        return False

    wait_until(refused, 30, "the consumer has left its group")
    consumer.poll(0)
    assert listener.calls[:2] == [("assigned", [0]), ("lost", [0])]
    here.join(consumer)
    consumer.commit({tp: 0})
    assert listener.calls[2] == ("assigned", [0])


def test_an_exception_of_the_listener_comes_out_of_the_call(world: Callable[..., World], group_id: str) -> None:
    class Refusing(Noting):
        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            with pytest.raises(IllegalStateError, match="callback"):
                self._poll()
            raise ValueError("not now")

        def _poll(self) -> None:
            if not hasattr(consumer, "inner"):
                consumer.poll()
            polled = consumer.inner.poll()  # its loop runs already
            while True:
                polled.send(None)

    here = world()
    consumer = here.consumer(group_id=group_id)
    consumer.subscribe([here.topic], listener=Refusing())
    here.join(consumer)
    with pytest.raises((ValueError, KafkaError), match="not now"):
        consumer.unsubscribe()
    assert consumer.subscription() == set()


def test_positions_that_are_not_in_the_log(world: Callable[..., World]) -> None:
    here = world()
    here.fill(b"a", b"b")
    (tp,) = here.partitions
    strict = here.consumer("none")
    here.assign(strict)
    with pytest.raises(NoOffsetForPartitionError):
        strict.poll(10_000)
    strict.seek(tp, 9)
    with pytest.raises(OffsetsOutOfRangeError) as caught:
        strict.poll(10_000)
    assert caught.value.partitions == {tp: 9}
    for policy, expected in (("earliest", 0), ("latest", 2)):
        consumer = here.consumer(policy)
        here.assign(consumer)
        if here.is_mock:
            here.mock(consumer).update_end_offsets({tp: 2})
        consumer.seek(tp, 9)
        found = read(consumer, 2) if policy == "earliest" else values_of(consumer.poll(300))
        assert found == [b"a", b"b"][expected:]
        assert consumer.position(tp) == 2


def test_a_record_that_cannot_be_deserialized(world: Callable[..., World]) -> None:
    here = world()
    here.fill(b"1", b"2", b"three", b"4")
    (tp,) = here.partitions
    consumer = here.consumer(value_deserializer=int)
    here.assign(consumer)
    assert read(consumer, 2) == [1, 2]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as caught:
            consumer.poll(10_000)
        error = caught.value
        assert (error.topic_partition, error.offset, error.origin, error.value) == (tp, 2, "value", b"three")
        assert consumer.position(tp) == 2
    consumer.seek(tp, 3)
    assert read(consumer, 1) == [4]
    skipping = here.consumer(value_deserializer=int, on_record_error="skip")
    here.assign(skipping)
    assert read(skipping, 3) == [1, 2, 4]


def test_calls_at_the_wrong_moment(world: Callable[..., World], group_id: str) -> None:
    here = world()
    (tp,) = here.partitions
    other = TopicPartition("other", 0)
    alone = here.consumer()
    here.assign(alone)
    for refused, error in (
        (lambda: alone.commit(), InvalidGroupIdError),
        (lambda: alone.committed(tp), InvalidGroupIdError),
        (lambda: alone.group_metadata(), InvalidGroupIdError),
        (lambda: alone.seek(other, 0), IllegalStateError),
        (lambda: alone.position(other), IllegalStateError),
        (lambda: alone.pause(other), IllegalStateError),
        (lambda: alone.subscribe([here.topic]), IllegalStateError),
        (lambda: alone.seek(tp, -1), ValueError),
        (lambda: alone.poll(-1), ValueError),
        (lambda: alone.poll(0, max_records=0), ValueError),
        (lambda: alone.assign("orders"), TypeError),
        (lambda: alone.assign(tp), TypeError),
    ):
        with pytest.raises(error):
            refused()
    member = here.consumer(group_id=group_id)
    member.subscribe([here.topic])
    for refused, error in (
        (lambda: member.assign([tp]), IllegalStateError),
        (lambda: member.subscribe(pattern="o.*"), IllegalStateError),
        (lambda: member.subscribe("orders"), TypeError),
        (lambda: member.subscribe([here.topic], pattern="o.*"), ValueError),
        (lambda: member.subscribe([here.topic], listener=print), TypeError),
        (lambda: member.commit({tp: -1}), ValueError),
        (lambda: member.commit([tp]), TypeError),
    ):
        with pytest.raises(error):
            refused()
    member.wakeup()
    with pytest.raises(WakeupError):
        member.poll(10_000)


# --- producers


def result(future: Any, here: World) -> Any:
    """Return the outcome of a send. An event loop is not needed for that."""
    return future.get(timeout=30)


def test_records_go_where_their_keys_say(world: Callable[..., World]) -> None:
    here = world(partitions=3)
    producer = here.producer()
    places = [
        result(producer.send(here.topic, b"value", key, None, None, 1234), here).partition
        for key in (b"a", b"b", b"c", b"d")
    ]
    assert places == [0, 1, 2, 2] or len(set(places)) > 1  # murmur2, see the next line
    from pyconsumer.producer.partitioner import partition_for_key

    assert places == [partition_for_key(key, 3) for key in (b"a", b"b", b"c", b"d")]
    metadata = result(producer.send(here.topic, "text", key="k", partition=1, timestamp_ms=99), here)
    assert (metadata.topic, metadata.partition, metadata.timestamp) == (here.topic, 1, 99)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (1, 4)
    assert metadata.offset == places.count(1)
    assert producer.partitions_for(here.topic) == {0, 1, 2}
    assert "producer-metrics" in producer.metrics()
    assert producer.metrics()["producer-metrics"]["record-send-total"] == 5
    tombstone = result(producer.send(here.topic, key=b"k"), here)
    assert tombstone.serialized_value_size == -1


def test_many_records_have_one_future(world: Callable[..., World]) -> None:
    here = world()
    producer = here.producer()
    sent = producer.send_many(here.topic, [b"a", b"b", b"c"])
    found = sent.get(timeout=30)
    assert sum(each.record_count for each in found) == len(sent) == 3
    assert found[0].topic_partition == here.partitions[0]
    assert found[0].offset == 0
    with pytest.raises(ValueError, match="3 values and 1 keys"):
        producer.send_many(here.topic, [b"a", b"b", b"c"], [b"k"])


def test_arguments_that_a_producer_refuses(world: Callable[..., World]) -> None:
    here = world()
    producer = here.producer(value_serializer=str.encode)
    for refused, error in (
        (lambda: producer.send("no topic", "v"), InvalidTopicError),
        (lambda: producer.send(here.topic, 5), SerializationError),
        (lambda: producer.send(here.topic, "v", 5), SerializationError),
        (lambda: producer.send(here.topic, "v", headers=[("name", "text")]), SerializationError),
        (lambda: producer.send(here.topic, "v", partition=1), ValueError),
        (lambda: producer.send(here.topic, "v", partition=-1), ValueError),
        (lambda: producer.send(here.topic, "v", timestamp_ms=-1), ValueError),
        (lambda: producer.flush(5), TypeError),
        (lambda: producer.close(5), TypeError),
        (lambda: producer.init_transactions(), IllegalStateError),
        (lambda: producer.begin_transaction(), IllegalStateError),
    ):
        with pytest.raises(error):
            refused()
    future = producer.send(here.topic, "v", headers=[("name", b"1"), ("none", None)])
    producer.flush()
    assert future.is_done
    assert future.succeeded()
    assert not future.failed()
    assert (future.exception, future.value.offset) == (None, 0)
    producer.close()
    with pytest.raises(IllegalStateError):
        producer.send(here.topic, "v")


def test_callbacks_hear_of_success(world: Callable[..., World]) -> None:
    here = world()
    producer = here.producer()
    told: list[Any] = []
    producer.send(here.topic, b"v").add_callback(told.append).add_errback(lambda error: told.append(error))
    producer.flush()
    assert [metadata.offset for metadata in told] == [0]


def test_transactions(world: Callable[..., World], group_id: str) -> None:
    here = world()
    (tp,) = here.partitions
    name = f"{here.topic}-id"
    producer = here.producer(transactional_id=name)
    for refused in (
        lambda: producer.send(here.topic, b"v"),
        lambda: producer.begin_transaction(),
        lambda: producer.commit_transaction(),
        lambda: producer.abort_transaction(),
    ):
        with pytest.raises(IllegalStateError):
            refused()
    producer.init_transactions()
    assert producer.is_initialized
    for refused in (
        lambda: producer.init_transactions(),
        lambda: producer.send(here.topic, b"v"),
        lambda: producer.commit_transaction(),
        lambda: producer.send_offsets_to_transaction({tp: 1}, group_id),
    ):
        with pytest.raises(IllegalStateError):
            refused()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError):
        producer.begin_transaction()
    producer.send(here.topic, b"aborted")
    producer.send_offsets_to_transaction({tp: 7}, group_id)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(here.topic, b"committed")
    producer.send_offsets_to_transaction({tp: OffsetAndMetadata(9)}, group_id)
    producer.commit_transaction()
    producer.begin_transaction()  # an empty one
    producer.commit_transaction()
    assert here.committed_values(producer) == [b"committed"]
    assert here.group_offsets(producer, group_id) == {tp: 9}
    with pytest.raises(ValueError, match="names no group"):
        producer.send_offsets_to_transaction({tp: 9}, "")


def test_a_record_that_fails_makes_the_transaction_fail(world: Callable[..., World]) -> None:
    here = world(config={"max.message.bytes": 100})
    options = {"auto_complete": False} if here.is_mock else {}
    producer = here.producer(transactional_id=f"{here.topic}-id", **options)
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send(here.topic, b"v" * 1000)
    if here.is_mock:
        here.mock(producer).error_next(KafkaError("too large for the topic"))
    with pytest.raises(TransactionAbortableError):
        producer.commit_transaction()
    assert future.failed()
    with pytest.raises(TransactionAbortableError):
        producer.send(here.topic, b"v")
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(here.topic, b"small")
    producer.commit_transaction()
    assert here.committed_values(producer) == [b"small"]


def test_a_producer_that_was_fenced(world: Callable[..., World]) -> None:
    here = world()
    name = f"{here.topic}-id"
    producer = here.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(here.topic, b"lost")
    producer.flush()
    here.fence(producer, name)
    with pytest.raises(ApplicationRecoverableError):
        producer.commit_transaction()
    for call in (lambda: producer.begin_transaction(), lambda: producer.send(here.topic, b"v")):
        with pytest.raises(ApplicationRecoverableError):
            call()
    assert here.committed_values(producer) == []
