"""Queued batches: readiness, order, sequence numbers, memory and time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.producer.accumulator import Appended, CallThatWaits, RecordAccumulator
from pyconsumer.producer.implementation import BatchBuilder, ProducerBatch
from pyconsumer.protocol.records import iter_records, scan
from pyconsumer.structs import TopicPartition

pytestmark = pytest.mark.usefixtures("implementation")

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)


def accumulator(**changes: object) -> RecordAccumulator:
    settings: dict[str, object] = {
        "batch_size": 200,
        "linger": 1.0,
        "delivery_timeout": 10.0,
        "buffer_memory": 1000,
        "codec": "none",
    }
    return RecordAccumulator(**(settings | changes))  # type: ignore[arg-type]


def add(target: RecordAccumulator, tp: TopicPartition = P0, value: bytes = b"v" * 20, now: float = 0.0) -> Appended:
    return target.append(tp, 1000, None, value, (), len(value) + 21, now)


def take(source: RecordAccumulator, tp: TopicPartition, producer: tuple[int, int] | None) -> ProducerBatch:
    """The next batch of a partition, built."""
    batch = source.take(tp, producer)
    source.build(batch)
    return batch


def values(batch: ProducerBatch) -> list[bytes | None]:
    return [record.value for record in iter_records(memoryview(batch.data or b""))]


def test_a_batch_waits_for_its_linger_time() -> None:
    waiting = accumulator()
    first = add(waiting, now=5.0)
    second = add(waiting, now=5.5)

    assert (first.wake_sender, second.wake_sender) == (True, False)
    assert second.batch is first.batch
    assert (first.position, second.position) == (0, 1)
    assert waiting.ready_at(P0) == 6.0


@pytest.mark.parametrize("reason", ["flushing", "closing"])
def test_a_batch_does_not_linger_while_the_producer_flushes_or_closes(reason: str) -> None:
    waiting = accumulator()
    add(waiting)
    setattr(waiting, reason, 1)

    assert waiting.ready_at(P0) == 0.0


@pytest.mark.parametrize("calls", ["flush_calls", "calls_for_memory"])
def test_a_batch_does_not_linger_while_a_call_waits_and_lingers_again_when_the_call_is_gone(calls: str) -> None:
    waiting = accumulator()
    add(waiting, now=5.0)
    call = CallThatWaits()
    getattr(waiting, calls).add(call)

    assert waiting.ready_at(P0) == 0.0
    del call  # as after Ctrl-C, which may leave the call before it has removed its object
    assert waiting.ready_at(P0) == 6.0


def test_a_full_batch_is_ready_and_the_next_record_starts_another() -> None:
    waiting = accumulator()
    appended = [add(waiting, value=b"%020d" % n) for n in range(12)]
    batches = list(dict.fromkeys(item.batch for item in appended))

    assert len(batches) > 1
    assert waiting.ready_at(P0) == 0.0
    taken = []
    while P0 in set(waiting.busy_partitions()):
        batch = take(waiting, P0, None)
        assert len(batch.data or b"") <= 200
        taken += values(batch)
        waiting.done(batch)
    assert taken == [b"%020d" % n for n in range(12)]


def test_a_ready_batch_grows_until_it_is_sent() -> None:
    waiting = accumulator(largest_batch=1000)
    first = add(waiting).batch
    for _ in range(20):
        assert add(waiting).batch is first
    assert waiting.ready_at(P0) == 0.0
    in_flight = take(waiting, P0, None)
    grown = add(waiting).batch
    assert grown is not in_flight
    while add(waiting).batch is grown:
        pass

    assert in_flight.record_count == 21
    waiting.done(in_flight)
    assert 900 < waiting.next_size(P0) <= 1000
    assert 900 < len(take(waiting, P0, None).data or b"") <= 1000


def test_compressed_batches_grow_up_to_the_uncompressed_limit() -> None:
    waiting = accumulator(largest_batch=20_000, codec="gzip", batch_size=400, buffer_memory=1 << 20)
    for _ in range(10):
        first = add(waiting, value=b"x" * 50).batch
        while add(waiting, value=b"x" * 50).batch is first:
            pass
        while P0 in set(waiting.busy_partitions()):
            waiting.done(take(waiting, P0, None))

    assert 15_000 < first.record_count * 58 < 25_000


def test_a_topic_whose_broker_rejected_a_large_batch_gets_batches_of_batch_size() -> None:
    waiting = accumulator(largest_batch=1000, buffer_memory=10_000)
    for _ in range(10):
        add(waiting)
    batch = take(waiting, P0, None)
    builders = []
    for record in iter_records(memoryview(batch.data or b"")):
        builders.append(BatchBuilder("none"))
        builders[-1].try_append(record.timestamp, None, record.value)
    waiting.split(batch, builders, 200)
    for _ in range(20):
        add(waiting)
    while P0 in set(waiting.busy_partitions()):
        sent = take(waiting, P0, None)
        assert len(sent.data or b"") <= 200
        waiting.done(sent)


def test_a_topic_with_a_limit_below_batch_size_gets_batches_of_that_size() -> None:
    waiting = accumulator(buffer_memory=10_000)
    for _ in range(4):
        add(waiting)
    batch = take(waiting, P0, None)
    builders = []
    for record in iter_records(memoryview(batch.data or b"")):
        builders.append(BatchBuilder("none"))
        builders[-1].try_append(record.timestamp, None, record.value)
    waiting.split(batch, builders, 100)
    for _ in range(8):
        add(waiting)
    sizes = []
    while P0 in set(waiting.busy_partitions()):
        sent = take(waiting, P0, None)
        sizes.append(len(sent.data or b""))
        waiting.done(sent)
    assert len(sizes) > 8
    assert max(sizes) <= 100


def test_batch_size_0_gives_each_record_its_own() -> None:
    waiting = accumulator(batch_size=0)

    assert add(waiting).batch is not add(waiting).batch
    assert waiting.ready_at(P0) == 0.0


def test_one_batch_of_a_partition_is_in_flight_at_a_time() -> None:
    waiting = accumulator(batch_size=0)
    add(waiting)
    add(waiting)
    add(waiting, P1)
    first = take(waiting, P0, None)

    assert waiting.ready_at(P0) is None
    assert waiting.ready_at(P1) == 0.0
    waiting.done(first)
    assert waiting.ready_at(P0) == 0.0


def test_a_failed_batch_goes_to_the_front_after_its_backoff() -> None:
    waiting = accumulator(batch_size=0)
    add(waiting, value=b"a")
    add(waiting, value=b"b")
    batch = take(waiting, P0, None)
    waiting.put_back(batch, 7.5)

    assert waiting.ready_at(P0) == 7.5
    again = take(waiting, P0, None)
    assert again is batch
    assert again.attempts == 2
    assert values(again) == [b"a"]


def test_sequence_numbers_continue_and_stay_with_a_retried_batch() -> None:
    waiting = accumulator()
    for _ in range(3):
        add(waiting)
    first = take(waiting, P0, (9, 1))
    waiting.put_back(first, 0.0)
    assert take(waiting, P0, (9, 1)).base_sequence == 0
    waiting.done(first)
    add(waiting)
    second = take(waiting, P0, (9, 1))

    assert second.base_sequence == 3
    header = scan(memoryview(second.data or b""))[0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 3)


def test_a_renumbered_batch_restarts_at_sequence_0_with_the_new_producer_id() -> None:
    waiting = accumulator(batch_size=0)
    add(waiting)
    add(waiting)
    waiting.done(take(waiting, P0, (9, 1)))
    retried = take(waiting, P0, (9, 1))
    waiting.renumber(retried)
    waiting.put_back(retried, 0.0)
    again = take(waiting, P0, (10, 0))

    assert again is retried
    assert (again.base_sequence, again.producer) == (0, (10, 0))
    assert scan(memoryview(again.data or b""))[0].producer_id == 10


def test_a_batch_that_may_have_arrived_keeps_its_number_when_the_producer_id_changes() -> None:
    waiting = accumulator(batch_size=0)
    for _ in range(3):
        add(waiting)
    waiting.done(take(waiting, P0, (9, 0)))
    waiting.put_back(take(waiting, P0, (9, 0)), 0.0)
    again = take(waiting, P0, (10, 0))
    assert (again.base_sequence, again.producer) == (1, (9, 0))
    waiting.done(again)
    behind = take(waiting, P0, (10, 0))
    assert (behind.base_sequence, behind.producer) == (0, (10, 0))


def test_the_sequence_of_a_batch_that_was_certainly_not_written_is_reused() -> None:
    waiting = accumulator(batch_size=0)
    add(waiting)
    add(waiting)
    refused = take(waiting, P0, (9, 0))
    waiting.reuse_sequence(refused)
    waiting.done(refused)

    assert take(waiting, P0, (9, 0)).base_sequence == 0


def test_partitions_take_turns_by_their_oldest_batch() -> None:
    waiting = accumulator(batch_size=0)
    add(waiting, P1, now=1.0)
    add(waiting, P0, now=2.0)
    add(waiting, P1, now=3.0)

    assert list(waiting.busy_partitions()) == [P1, P0]
    waiting.done(take(waiting, P1, None))
    assert list(waiting.busy_partitions()) == [P0, P1]


def test_full_batches_that_wait_are_counted_when_the_sender_asks() -> None:
    waiting = accumulator(batch_size=200, largest_batch=800)
    assert waiting.loads("t") == {}
    for _ in range(15):
        add(waiting, P1)  # 41 bytes each
    add(waiting, P0)
    assert waiting.loads("t") == {}
    waiting.count_loads()
    first = waiting.loads("t")
    assert first == {1: 3}
    assert waiting.loads("other") == {}

    add(waiting, P0)
    waiting.count_loads()
    assert waiting.loads("t") is first, "the same numbers are the same object"
    take(waiting, P1, None)
    waiting.count_loads()
    assert waiting.loads("t") == {}


def test_dropping_queued_batches_keeps_those_in_flight() -> None:
    waiting = accumulator(batch_size=0)
    in_flight = add(waiting).batch
    take(waiting, P0, None)
    dropped = add(waiting).batch

    assert waiting.drop_waiting() == [dropped]
    assert waiting.memory_used == in_flight.memory
    waiting.put_back(in_flight, 0.0)
    assert waiting.ready_at(P0) == 0.0


def test_memory_is_counted_until_a_batch_is_done() -> None:
    waiting = accumulator(buffer_memory=100)
    assert waiting.has_room(5000)  # alone it always fits
    add(waiting)
    add(waiting)

    assert waiting.memory_used == 82
    assert waiting.has_room(18)
    assert not waiting.has_room(19)
    waiting.done(take(waiting, P0, None))
    assert waiting.memory_used == 0
    assert waiting.is_empty


def test_a_batch_is_incomplete_until_it_is_acknowledged_or_failed() -> None:
    waiting = accumulator(batch_size=0)
    old = add(waiting, P0, now=0.0).batch
    young = add(waiting, P1, now=5.0).batch
    waiting.expired(11.0)
    waiting.done(take(waiting, P1, None))
    assert set(waiting.incomplete()) == {old.result, young.result}
    waiting.settled(old.result)
    assert waiting.incomplete() == [young.result]


def test_queued_and_in_flight_batches_expire_after_the_delivery_timeout() -> None:
    waiting = accumulator(batch_size=0)
    in_flight = add(waiting, P1, now=0.0).batch
    take(waiting, P1, None)
    old = add(waiting, P0, now=1.0).batch
    young = add(waiting, P0, now=4.0).batch

    assert waiting.next_deadline() == 10.0
    assert waiting.expired(9.9) == []
    assert set(waiting.expired(11.0)) == {in_flight, old}
    assert waiting.expired(11.0) == []
    assert waiting.next_deadline() == 14.0  # what has expired in flight does not keep the sender awake
    assert waiting.memory_used == young.memory
    assert waiting.ready_at(P1) is None  # muted until its answer comes
    waiting.done(in_flight)
    assert waiting.memory_used == young.memory


def test_a_split_batch_keeps_order_memory_and_results() -> None:
    waiting = accumulator()
    appended = [add(waiting, value=b"%d" % n) for n in range(5)]
    batch = take(waiting, P0, (1, 0))
    add(waiting, value=b"later")
    used = waiting.memory_used
    builders = []
    for chunk in ([0, 1], [2, 3], [4]):
        builder = BatchBuilder("none")
        for n in chunk:
            builder.try_append(1000, None, b"%d" % n)
        builders.append(builder)

    waiting.split(batch, builders, 200)

    assert waiting.memory_used == used
    seen, sequences = [], []
    for offset in (100, 200, 300, 400):
        part = take(waiting, P0, (1, 0))
        seen += values(part)
        sequences.append(part.base_sequence)
        part.result.finish(offset, -1, None)
        waiting.done(part)
    assert seen == [b"0", b"1", b"2", b"3", b"4", b"later"]
    assert sequences == [0, 2, 4, 5]
    assert waiting.memory_used == 0
    assert batch.result.done
    assert [(r.base_offset, i) for r, i in (batch.result.of(item.position) for item in appended)] == [
        (100, 0),
        (100, 1),
        (200, 0),
        (200, 1),
        (300, 0),
    ]


def test_compressed_batches_come_closer_to_the_batch_size_with_experience() -> None:
    waiting = accumulator(codec="gzip", batch_size=400, buffer_memory=1 << 20)
    counts = []
    for _ in range(12):
        count = 1
        first = add(waiting, value=b"x" * 50).batch
        while not first.closed and add(waiting, value=b"x" * 50).batch is first:
            count += 1
        counts.append(count)
        while P0 in set(waiting.busy_partitions()):
            waiting.done(take(waiting, P0, None))

    assert counts[-1] >= 2 * counts[0]


def test_dropping_all_batches_frees_the_accumulator() -> None:
    waiting = accumulator(batch_size=0)
    add(waiting)
    add(waiting)
    take(waiting, P0, None)

    assert len(waiting.drop_all()) == 2
    assert waiting.is_empty
    assert waiting.memory_used == 0


def interrupted_at(step: int, call: Callable[[], object]) -> bool:
    """Make a call, with Ctrl-C before the n-th line of ``append`` in it. Return whether it got that far."""
    left = step

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code is not RecordAccumulator.append.__code__:
            return None
        if event == "line":
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_at_any_line_of_an_append_leaves_a_consistent_batch() -> None:
    step = 1
    while True:
        waiting = accumulator()
        if not interrupted_at(step, lambda waiting=waiting: add(waiting)):  # type: ignore[misc]
            break
        batch = add(waiting, value=b"later").batch

        assert list(waiting.busy_partitions()) == [P0], step
        assert waiting.incomplete() == [batch.result], step
        assert waiting.next_deadline() == 10.0, step
        assert waiting.memory_used == batch.memory, step
        assert take(waiting, P0, None) is batch, step
        assert b"later" in values(batch), step
        waiting.done(batch)
        assert waiting.memory_used == 0, step
        step += 1
    assert step > 12


def test_a_partition_lost_by_an_interrupt_is_found_by_the_next_append() -> None:
    waiting = accumulator()
    add(waiting)
    waiting._busy.clear()  # as after two Ctrl-C in a row

    assert add(waiting).wake_sender
    assert list(waiting.busy_partitions()) == [P0]
    assert not add(waiting).wake_sender


def test_topics_with_records_that_wait_or_are_in_flight() -> None:
    waiting = accumulator()
    assert waiting.topics() == set()
    add(waiting, P0)
    add(waiting, TopicPartition("u", 0))
    batch = take(waiting, P0, None)
    assert waiting.topics() == {"t", "u"}
    waiting.done(batch)
    assert waiting.topics() == {"u"}
