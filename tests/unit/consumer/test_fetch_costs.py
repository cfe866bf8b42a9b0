"""Costs of fetching, in counts that are equal on every machine: steps of Python, allocations, copies, system calls."""

from __future__ import annotations

import socket
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.consumer import arrow, completed_fetch, deserializers
from pyconsumer.consumer.completed_fetch import CompletedFetch
from pyconsumer.consumer.partition_state import FetchPosition, LeaderAndEpoch
from pyconsumer.protocol.messages.fetch import FetchResponse
from pyconsumer.protocol.records import BatchBuilder
from tests.support.steps import steps_of
from tests.unit.consumer.builders import batches, data, finish, leaders_of_t, offsets_of, response
from tests.unit.consumer.worlds import ConsumerWorld
from tests.unit.protocol.records.helpers import Decoder, decoder_named

T0 = TopicPartition("t", 0)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Decoder:
    """The consumer reads with the compiled decoder."""
    found = decoder_named("native")
    if found is None:
        pytest.skip("the compiled decoder was not built")
    monkeypatch.setattr(completed_fetch, "Cursor", found.Cursor)
    monkeypatch.setattr(arrow, "ColumnsBuilder", found.ColumnsBuilder)
    monkeypatch.setattr(deserializers, "convert", found.convert)
    return found


def buffered(*parts: bytes, **options: Any) -> ConsumerWorld:
    """A consumer with buffered record sets of partition 0, whose first record was taken."""
    world = ConsumerWorld(T0, **options)
    world.start(T0)
    steps = world.poll(count=1)
    next(steps)
    world.answer(T0, b"".join(parts))
    finish(steps)
    return world


# -- per record ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deserializer", [None, bytes.decode])
def test_a_poll_takes_as_many_steps_for_many_records_as_for_few(native: Decoder, deserializer: Any) -> None:
    world = buffered(batches(0, 9000, each=100), value_deserializer=deserializer)
    now = world.clock.now()
    found: list[Any] = []
    world.buffered(now, 10)  # steps of the first time

    few = steps_of(lambda: found.append(world.buffered(now, 10)))
    many = steps_of(lambda: found.append(world.buffered(now, 5000)))

    assert [records.count() for records in found] == [10, 5000]
    assert many == few < 1000


def test_columns_take_as_many_steps_for_many_records_as_for_few(native: Decoder) -> None:
    world = buffered(batches(0, 9000, each=100))
    delegate, now = world.delegate, world.clock.now()
    columns = arrow.ArrowColumns()
    found: list[Any] = []

    def take(count: int) -> None:
        builder = columns.builder()
        runs = delegate.buffered(now, lambda most: delegate.take_columns(builder, most, arrow.MAX_BYTES), count)
        found.append(columns.batch(builder, runs or []).num_rows)

    take(3000)  # steps of the first time: the column of topics is long enough for 4096 rows
    few = steps_of(lambda: take(10))
    many = steps_of(lambda: take(4000))

    assert found == [3000, 10, 4000]
    assert many == few


def test_a_record_costs_three_allocations(native: Decoder) -> None:
    """Objects of the record, its key and its value."""
    builder = BatchBuilder()
    for number in range(3000):
        builder.try_append(0, b"key%d" % number, b"value%d" % number, [])
    world = buffered(builder.build(leader_epoch=3))
    now = world.clock.now()
    kept = [world.buffered(now, 10)]

    before = sys.getallocatedblocks()
    kept.append(world.buffered(now, 2000))
    blocks = sys.getallocatedblocks() - before

    assert [records and records.count() for records in kept] == [10, 2000]
    assert blocks <= 3 * 2000 + 50


def test_a_row_costs_no_allocation(native: Decoder) -> None:
    cursor = native.Cursor(T0, batches(0, 5000, each=100), fetch_offset=0)

    before = sys.getallocatedblocks()
    columns = cursor.take_columns(5000)
    blocks = sys.getallocatedblocks() - before

    assert len(columns.offsets) == 5000
    assert blocks <= 50


def test_a_response_is_not_copied_before_it_is_read(native: Decoder) -> None:
    builder = BatchBuilder()
    for _ in range(1000):
        builder.try_append(0, None, b"v" * 1000, [])
    record_set = builder.build()
    state = ConsumerWorld(T0).subscriptions.state(T0)
    CompletedFetch(state, batches(0, 1), fetch_offset=0)  # what is made the first time
    tracemalloc.start()
    try:
        fetch = CompletedFetch(state, memoryview(record_set), fetch_offset=0)
        highest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(record_set) > 1_000_000
    assert highest < 10_000
    assert len(fetch.take(10_000, None)) == 1000


# -- per partition ---------------------------------------------------------------------------------------------------


def round_of(partitions: int) -> int:
    """Steps of polls that fetch and return the records of one of many partitions."""
    assigned = [TopicPartition("t", number) for number in range(partitions)]
    world = ConsumerWorld(*assigned)
    leaders = {number: (1 + number % 2, 3) for number in range(partitions)}
    world.metadata.update(leaders_of_t(leaders), 12, world.clock.now())
    world.start(*assigned)
    polling = world.poll()
    next(polling)
    for sent in world.client.take_all():
        asked = [TopicPartition("t", p.partition) for topic in sent.request.topics for p in topic.partitions]
        sent.answer(response({tp: data() for tp in asked}))
    next(polling)
    idle = {sent.node: sent for sent in world.client.take_all()}
    found: list[Any] = []

    def run() -> None:
        nonlocal polling
        for first in range(0, 30, 10):
            idle.pop(1).answer(response({T0: data(batches(first, 10))}))
            found.append(finish(polling))
            idle.update({sent.node: sent for sent in world.client.take_all()})
            polling = world.poll()
            next(polling)
            idle.update({sent.node: sent for sent in world.client.take_all()})

    steps = steps_of(run)
    assert [offsets_of(records[T0]) for records in found] == [list(range(at, at + 10)) for at in (0, 10, 20)]
    return steps


def test_thousands_of_partitions_cost_no_more_steps_than_a_few() -> None:
    assert round_of(2000) == round_of(40)


def test_a_partition_with_records_costs_a_bounded_number_of_steps(native: Decoder) -> None:
    """Request, encode, decode, check, buffer and return one batch of each of many partitions."""
    count = 200
    assigned = [TopicPartition("t", number) for number in range(count)]
    world = ConsumerWorld(*assigned)
    world.metadata.update(leaders_of_t(dict.fromkeys(range(count), (1, 3))), 12, world.clock.now())
    world.start(*assigned)
    polling = world.poll(count=1_000_000)
    next(polling)

    def exchange(wire: bytes) -> None:
        nonlocal polling
        (sent,) = world.client.take_all()
        sent.give(FetchResponse.decode(memoryview(wire), 17))  # the request was encoded when it was sent
        found.append(finish(polling))
        polling = world.poll(count=1_000_000)
        next(polling)

    found: list[Any] = []
    rounds = [response({tp: data(batches(at, 5)) for tp in assigned}).encode(17) for at in (0, 5, 10)]
    exchange(rounds[0])  # codecs and the session
    exchange(rounds[1])

    steps = steps_of(lambda: exchange(rounds[2]))

    assert [records.count() for records in found] == [5 * count] * 3
    assert steps / count < 1200  # 1,182 with Python 3.11, 50 of them for the lag as time; 1,970 before each was counted


# -- calls of the system ---------------------------------------------------------------------------------------------


@pytest.fixture
def consumer() -> Iterator[KafkaConsumer]:
    made = KafkaConsumer(bootstrap_servers="127.0.0.1:1")
    yield made
    made.close(0)


@pytest.mark.parametrize("how", ["poll", "poll_arrow", "iteration"])
def test_buffered_records_are_returned_without_a_system_call(consumer: KafkaConsumer, how: str) -> None:
    consumer.assign([T0])
    delegate = consumer._delegate
    delegate.subscriptions.seek(T0, FetchPosition(0, -1, LeaderAndEpoch(1, 3)))
    delegate.fetcher.apply_changes(delegate.clock.now())
    delegate.fetcher.buffer.add(CompletedFetch(delegate.subscriptions.state(T0), batches(0, 1000), fetch_offset=0))
    calls = {
        "poll": lambda: consumer.poll(1000, 10).count(),
        "poll_arrow": lambda: consumer.poll_arrow(1000, 10).num_rows,
        "iteration": lambda: sum(next(consumer) is not None for _ in range(10)),
    }
    modules = {"_socket", "select", "posix", "_ssl", "signal"}
    sleep, seen = time.sleep, set[str]()

    def profile(_: Any, event: str, called: Any) -> None:
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            module = getattr(called, "__module__", None) or type(owner).__module__
            if module in modules or called is sleep or isinstance(owner, socket.socket):
                seen.add(f"{module}.{called.__name__}")

    assert calls[how]() == 10
    sys.setprofile(profile)
    try:
        counts = [calls[how]() for _ in range(5)]
    finally:
        sys.setprofile(None)
    assert counts == [10] * 5
    assert seen == set()
