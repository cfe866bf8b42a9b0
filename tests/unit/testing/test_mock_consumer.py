"""The consumer without a cluster: it takes KafkaConsumer's place wherever a ``Consumer`` is asked for."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection

import pytest

from pyconsumer import Consumer, ConsumerRebalanceListener, ConsumerRecord, KafkaConsumer, OffsetAndMetadata
from pyconsumer.errors import (
    CommitFailedError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    NoOffsetForPartitionError,
    WakeupError,
)
from pyconsumer.structs import TopicPartition
from pyconsumer.testing import AsyncMockConsumer, ManualClock, MockConsumer, make_record, make_records

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def program(consumer: Consumer) -> list[str]:
    """Run a program as a user would write it: it only uses the interface."""
    seen: list[str] = []
    try:
        while True:
            records = consumer.poll(100).records()
            seen.extend(f"{r.topic}-{r.partition}@{r.offset}: {r.value}" for r in records)
            consumer.commit()
    except WakeupError:
        return seen
    finally:
        consumer.close()


def record(offset: int, partition: int = 0, value: str = "v", timestamp: int = -1) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, timestamp=timestamp, value=value)


class Noting(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(revoked)))

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(assigned)))


def test_a_program_runs_with_the_mock_as_with_the_real_consumer() -> None:
    consumer = MockConsumer("earliest", group_id="g")
    consumer.subscribe(["t"])
    consumer.update_beginning_offsets({T0: 0, T1: 5})

    def later() -> None:
        consumer.rebalance([T0, T1])
        consumer.add_record(record(0, value="a"))
        consumer.add_record(record(7, 1, value="b"))

    consumer.schedule_poll_task(later)
    consumer.schedule_poll_task(lambda: consumer.add_record(record(1, value="c")))
    consumer.schedule_poll_task(consumer.wakeup)
    assert program(consumer) == ["t-0@0: a", "t-1@7: b", "t-0@1: c"]
    assert consumer.closed
    assert consumer.committed([T0, T1]) == {T0: 2, T1: 8}


def test_both_have_every_method_of_the_interface_with_the_same_arguments() -> None:
    real = KafkaConsumer(bootstrap_servers="localhost:9")
    try:
        for each in (real, MockConsumer()):
            assert isinstance(each, Consumer)
    finally:
        real.close(0)
    wanted = [name for name, _ in inspect.getmembers(Consumer, inspect.isfunction) if not name.startswith("_")]
    assert {"poll", "subscribe", "assign", "seek", "commit", "committed", "close", "wakeup", "metrics"} <= set(wanted)
    for name in [*wanted, "__iter__", "__next__", "__enter__", "__exit__"]:
        expected = list(inspect.signature(getattr(Consumer, name)).parameters)
        for cls in (KafkaConsumer, MockConsumer):
            assert getattr(cls, name) is not getattr(Consumer, name), f"{cls.__name__} has no {name} of its own"
            assert list(inspect.signature(getattr(cls, name)).parameters) == expected, (cls, name)


def test_rebalances_call_the_listener_as_the_group_does() -> None:
    consumer, listener = MockConsumer("earliest"), Noting()
    with pytest.raises(IllegalStateError):
        consumer.rebalance([T0])
    consumer.subscribe(["t"], listener=listener)
    consumer.rebalance([T0])
    consumer.rebalance([T0, T1])
    consumer.rebalance([T1])
    consumer.unsubscribe()
    assert listener.calls == [
        ("assigned", [T0]),
        ("assigned", [T1]),
        ("revoked", [T0]),
        ("assigned", []),
        ("revoked", [T1]),
    ]
    assert (consumer.subscription(), consumer.assignment()) == (set(), set())


def test_a_consumer_starts_by_its_reset_policy() -> None:
    for policy, position in (("earliest", 3), ("latest", 9)):
        consumer = MockConsumer(policy)
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="the test has not set an offset"):
            consumer.position(T0)
        consumer.update_beginning_offsets({T0: 3})
        consumer.update_end_offsets({T0: 9})
        assert consumer.position(T0) == position
        consumer = MockConsumer(policy)
        consumer.assign([T0])
        consumer.commit({T0: 5})
        assert consumer.position(T0) == 5
    consumer = MockConsumer("none")
    consumer.assign([T0])
    with pytest.raises(NoOffsetForPartitionError):
        consumer.poll()
    consumer.seek(T0, OffsetAndMetadata(4))
    assert consumer.position(T0) == 4


@pytest.mark.parametrize("first", ["the end", "the assignment"])
def test_latest_starts_at_the_end_before_added_records(first: str) -> None:
    consumer = MockConsumer()
    consumer.subscribe(["t"])
    if first == "the end":
        consumer.update_end_offsets({T0: 0})
    consumer.rebalance([T0])
    if first == "the assignment":
        consumer.update_end_offsets({T0: 0})
    for offset in range(2):
        consumer.add_record(record(offset))
    assert [r.offset for r in consumer.poll().records()] == [0, 1]
    assert consumer.end_offsets([T0]) == {T0: 2}
    consumer.rebalance([])
    consumer.rebalance([T0])  # nothing was committed, and what was there before is not new any more
    consumer.add_record(record(2))
    assert [r.offset for r in consumer.poll().records()] == [2]


def test_seeks_to_the_ends_wait_until_the_position_is_needed() -> None:
    consumer = MockConsumer("none")
    consumer.assign([T0, T1])
    consumer.commit({T0: 7, T1: 7})
    consumer.seek_to_beginning(T0)
    consumer.seek_to_end(T1)
    assert consumer.current_lag(T0) is None
    consumer.update_beginning_offsets({T0: 3})
    consumer.update_end_offsets({T1: 9})
    assert (consumer.position(T0), consumer.position(T1)) == (3, 9)
    consumer.add_record(record(9, 1))
    consumer.seek_to_end(T1)
    consumer.add_record(record(10, 1))  # after the seek, so it is read
    assert [r.offset for r in consumer.poll().records()] == [10]
    consumer.seek_to_end()
    consumer.seek(T0, 5)
    consumer.seek(T1, 10)
    assert (consumer.position(T0), [r.offset for r in consumer.poll().records()]) == (5, [10])


def test_limits_pauses_seeks_and_iteration() -> None:
    consumer = MockConsumer(max_poll_records=2)
    consumer.assign([T0, T1])
    consumer.seek(T0, 0)
    consumer.seek(T1, 0)
    for offset in range(4):
        consumer.add_record(record(offset, timestamp=offset * 10))
    assert [r.offset for r in consumer.poll().records()] == [0, 1]
    assert consumer.current_lag(T0) == 2
    consumer.pause(T0)
    assert not consumer.poll()
    assert consumer.paused() == {T0}
    consumer.resume(T0)
    assert [r.offset for r in consumer] == [2, 3]
    consumer.update_beginning_offsets({T0: 1, T1: 0})
    consumer.seek_to_beginning(T0)
    assert [r.offset for r in consumer.poll(max_records=1).records()] == [1]
    consumer.seek_to_end(T0)
    assert consumer.position(T0) == 4
    found = consumer.offsets_for_times({T0: 15})[T0]
    assert found is not None
    assert found.offset == 2
    assert (consumer.end_offsets([T0]), consumer.beginning_offsets([T0])) == ({T0: 4}, {T0: 1})
    assert (consumer.partitions_for_topic("t"), consumer.topics()) == ({0}, {"t"})


def test_invalid_calls_are_rejected_as_by_a_consumer() -> None:
    consumer = MockConsumer(group_id=None)
    with pytest.raises(IllegalStateError):
        consumer.poll()
    consumer.subscribe(["t"])
    consumer.unsubscribe()
    consumer.assign([T0])
    for call in (lambda: consumer.seek(T1, 0), lambda: consumer.pause(T1), lambda: consumer.position(T1)):
        with pytest.raises(IllegalStateError):
            call()
    with pytest.raises(ValueError, match="negative"):
        consumer.seek(T0, -1)
    with pytest.raises(InvalidGroupIdError):
        consumer.commit()
    consumer.set_poll_error(KafkaError("once"))
    consumer.seek(T0, 0)
    with pytest.raises(KafkaError, match="once"):
        consumer.poll()
    assert not consumer.poll()
    with consumer:
        consumer.add_record(record(3))
        with pytest.raises(ValueError, match="does not come after"):
            consumer.add_record(record(3))
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


def test_subscriptions_that_a_consumer_rejects_are_rejected() -> None:
    consumer = MockConsumer()
    for topics in ("orders", None):
        with pytest.raises(TypeError, match="topics must be a list of names"):
            consumer.subscribe(topics)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ConsumerRebalanceListener"):
        consumer.subscribe(["t"], listener=print)  # type: ignore[arg-type]
    for mistake in ({"topics": ["t"], "pattern": "t.*"}, {"topics": [""]}, {"topics": [5]}, {"pattern": ""}):
        with pytest.raises(ValueError, match=r"topic|pattern"):
            consumer.subscribe(**mistake)  # type: ignore[arg-type]
    assert consumer.subscription() == set()
    consumer.subscribe(pattern="t.*")
    with pytest.raises(IllegalStateError, match="exclude one another"):
        consumer.subscribe(["t"])
    consumer.subscribe()
    consumer.subscribe(["t"])
    with pytest.raises(IllegalStateError, match="exclude one another"):
        consumer.subscribe(pattern="t.*")
    consumer.unsubscribe()
    consumer.assign([T0])
    with pytest.raises(IllegalStateError, match="exclude one another"):
        consumer.subscribe(["t"])
    with pytest.raises(ValueError, match="does not support auto_offset_reset='by_duration"):
        MockConsumer("by_duration:PT1H")


def test_commits_are_kept_and_passed_to_the_callback() -> None:
    consumer, notified = MockConsumer("earliest"), []
    consumer.assign([T0])
    consumer.seek(T0, 7)
    consumer.commit_async(callback=lambda offsets, error: notified.append((offsets, error)))
    assert notified == [({T0: OffsetAndMetadata(7)}, None)]
    consumer.commit({T0: OffsetAndMetadata(9, "note")})
    assert consumer.committed(T0, metadata=True) == OffsetAndMetadata(9, "note")
    assert consumer.committed(T1) is None
    consumer.enforce_rebalance("because")
    assert consumer.rebalances_asked == ["because"]
    assert consumer.group_metadata().group_id == "mock"


def joined(listener: ConsumerRebalanceListener | None = None, **options: object) -> MockConsumer:
    consumer: MockConsumer = MockConsumer("earliest", group_id="g", **options)  # type: ignore[arg-type]
    consumer.subscribe(["t"], listener=listener)
    consumer.rebalance([T0, T1])
    consumer.update_beginning_offsets({T0: 0, T1: 0})
    return consumer


def test_commits_fail_as_planned_and_only_that_often() -> None:
    consumer, notified = joined(), []
    consumer.fail_next("commit", CommitFailedError("too late"), times=2)
    for _ in range(2):
        with pytest.raises(CommitFailedError, match="too late"):
            consumer.commit({T0: 1})
    assert consumer.committed(T0) is None
    consumer.commit({T0: 1})
    consumer.fail_next("commit_async", KafkaError("lost"))
    future = consumer.commit_async({T0: 2}, lambda offsets, error: notified.append((offsets, str(error))))
    assert isinstance(future.exception, KafkaError)
    assert notified == [({T0: OffsetAndMetadata(2)}, "lost")]
    assert consumer.committed(T0) == 1
    for call, run in (
        ("position", lambda: consumer.position(T0)),
        ("committed", lambda: consumer.committed(T0)),
        ("end_offsets", lambda: consumer.end_offsets([])),
        ("beginning_offsets", lambda: consumer.beginning_offsets([])),
        ("offsets_for_times", lambda: consumer.offsets_for_times({})),
        ("partitions_for_topic", lambda: consumer.partitions_for_topic("t")),
        ("topics", lambda: consumer.topics()),
        ("poll", lambda: consumer.poll()),
        ("close", lambda: consumer.close()),
    ):
        consumer.fail_next(call, KafkaError(call))
        with pytest.raises(KafkaError, match=call):
            run()
    assert consumer.closed
    with pytest.raises(ValueError, match="a MockConsumer can fail in poll, commit"):
        consumer.fail_next("subscribe", KafkaError())
    with pytest.raises(TypeError, match="the error must be an exception"):
        consumer.fail_next("poll", "no error")  # type: ignore[arg-type]


def test_lost_partitions_call_the_listener_and_cannot_be_committed() -> None:
    class Losing(Noting):
        def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
            self.calls.append(("lost", sorted(lost)))

    listener = Losing()
    consumer = joined(listener)
    consumer.lose()
    assert listener.calls[-1] == ("lost", [T0, T1])
    assert consumer.assignment() == set()
    assert consumer.group_metadata().generation_id == -1
    with pytest.raises(CommitFailedError):
        consumer.commit({T0: 1})
    assert isinstance(consumer.commit_async({T0: 1}).exception, CommitFailedError)
    consumer.rebalance([T1])
    consumer.commit({T1: 1})
    with pytest.raises(IllegalStateError, match="no topic is subscribed"):
        MockConsumer().lose()


def test_automatic_commits_cover_the_records_of_the_last_poll() -> None:
    consumer = joined(enable_auto_commit=True)
    consumer.add_records(make_records("t", ["a", "b"]))
    assert consumer.poll(max_records=1).count() == 1
    assert consumer.committed(T0) is None
    consumer.poll(max_records=1)
    assert consumer.committed(T0) == 1
    consumer.close()
    assert consumer.committed(T0) == 2


def test_time_that_the_test_moves_ends_the_membership() -> None:
    clock = ManualClock()
    consumer = joined(clock=clock, max_poll_interval_ms=1_000)
    clock.advance(1.0)
    consumer.commit({T0: 0})
    clock.advance(0.001)
    with pytest.raises(CommitFailedError):
        consumer.commit({T0: 0})
    consumer.poll()
    assert consumer.assignment() == set()


def test_no_record_is_lost_when_another_partition_has_no_position() -> None:
    consumer: MockConsumer = MockConsumer("none")
    consumer.assign([T0, T1])
    consumer.seek(T0, 0)
    consumer.add_record(record(0))
    with pytest.raises(NoOffsetForPartitionError):
        consumer.poll()
    consumer.seek(T1, 0)
    assert [r.offset for r in consumer.poll().records()] == [0]


def test_columns_have_the_content_of_the_records() -> None:
    pytest.importorskip("pyarrow")
    consumer = joined(value_deserializer=bytes.decode)
    consumer.add_records(make_records("t", [b"a", None], keys=[b"k", b"k"], headers={"h": b"1"}))
    batch = consumer.poll_arrow(columns=["topic", "offset", "value", "headers"])
    assert batch.to_pydict() == {
        "topic": ["t", "t"],
        "offset": [0, 1],
        "value": [b"a", None],
        "headers": [[{"key": "h", "value": b"1"}]] * 2,
    }
    assert consumer.poll_arrow().num_rows == 0
    consumer.add_record(make_record("t", "text", offset=2))
    with pytest.raises(TypeError, match="must be bytes, as they were sent"):
        consumer.poll_arrow()


def test_coroutines_are_rejected_by_the_blocking_mock_and_awaited_on_a_loop() -> None:
    class Waiting(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:  # type: ignore[override]
            seen.append(sorted(assigned))

    seen: list[list[TopicPartition]] = []
    consumer = MockConsumer("earliest")
    consumer.subscribe(["t"], listener=Waiting())
    with pytest.raises(TypeError, match="coroutine function"):
        consumer.rebalance([T0])

    async def on_a_loop() -> None:
        other: AsyncMockConsumer = AsyncMockConsumer("earliest")
        other.subscribe(["t"], listener=Waiting())
        other.mock.update_beginning_offsets({T0: 0})
        other.mock.schedule_poll_task(lambda: other.rebalance([T0]))
        await other.poll()
        assert seen == [[T0]]
        notified = []

        async def callback(offsets: object, error: object) -> None:
            notified.append(error)

        await other.commit_async({T0: 1}, callback)
        assert not notified
        await other.poll()
        assert notified == [None]
        other.mock.fail_next("commit_async", KafkaError("lost"))
        with pytest.raises(KafkaError, match="lost"):
            await other.commit_async({T0: 1})

    asyncio.run(on_a_loop())


def test_an_empty_list_is_refused_on_an_event_loop_where_it_would_have_to_wait() -> None:
    """As by the consumer: to unsubscribe is a coroutine."""
    consumer: AsyncMockConsumer = AsyncMockConsumer()
    for call in (consumer.subscribe, consumer.assign):
        with pytest.raises(ValueError, match="await unsubscribe"):
            call([])
    consumer.assign([T0])
    assert consumer.assignment() == {T0}
