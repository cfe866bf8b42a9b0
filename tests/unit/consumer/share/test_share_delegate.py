"""``ShareDelegate`` without a network: the records that a poll takes, its errors, and Ctrl-C."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer import KafkaShareConsumer
from pyconsumer.clock import SystemClock
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.acknowledgements import Piece, Source
from pyconsumer.consumer.share.acquired_fetch import AcquiredFetch
from pyconsumer.consumer.share.delegate import ShareDelegate
from pyconsumer.consumer.share.session import Queued, ShareSession, Ticket
from pyconsumer.errors import KafkaError, KafkaTimeoutError, RecordDeserializationError, ShareSessionNotFoundError
from pyconsumer.protocol.messages.share_fetch import AcquiredRecords
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import AcknowledgeType, TopicPartition
from tests.unit.consumer.builders import finish

_ID = b"i" * 16
_TP = TopicPartition("t", 0)


class World:
    """A delegate with an open session and three assigned partitions. The test fills its buffer."""

    def __init__(self) -> None:
        self._open: list[ShareDelegate] = []

    def start(self, **settings: object) -> None:
        self.use(ShareDelegate.open({"bootstrap_servers": "127.0.0.1:1", "group_id": "g", **settings}, SystemClock()))

    def use(self, delegate: ShareDelegate) -> None:
        self._open.append(delegate)
        self.delegate = delegate
        delegate.topics = frozenset(("t",))
        delegate.coordinator.assignment = {TopicPartition("t", number): _ID for number in range(3)}
        self.session = delegate.fetcher.sessions[1] = ShareSession(1)
        self.session.epoch = 1

    def buffer(self, partition: int, *values: bytes, first: int = 0, locked_until: float = math.inf) -> None:
        """Buffer acquired records with the offsets from ``first`` on."""
        builder = BatchBuilder("none")
        for value in values:
            builder.try_append(1, None, value)
        fetch = AcquiredFetch(
            Source(1, _ID, TopicPartition("t", partition)),
            builder.build(first),
            [AcquiredRecords(first, first + len(values) - 1, 1)],
            locked_until=locked_until,
        )
        self.delegate.fetcher.buffer.append(fetch)

    def poll(self, most: int = 100) -> list[Any]:
        """Return the values that a poll returns without waiting."""
        self.session.is_busy = True  # nothing is sent
        self.delegate.note_returned()
        steps = self.delegate.fetched(0.0, most)
        try:
            while True:
                next(steps)
        except StopIteration as end:
            return [] if end.value is None else [record.value for record in end.value.records()]
        except BaseException as error:
            self.delegate.on_interrupt(error)
            raise

    def close(self) -> None:
        for delegate in self._open:
            delegate.abandon("the test has ended")
            with suppress(Exception):
                delegate.client.close()


def accepted(offset: int) -> Queued:
    return Queued(Source(1, _ID, _TP), [Piece(offset, offset, AcknowledgeType.ACCEPT, math.inf)])


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def interrupt(*args: object) -> None:
    raise KeyboardInterrupt


def interrupted(values: dict[bytes, int]) -> Callable[[bytes], int]:
    """Return a deserializer that Ctrl-C interrupts at these values. Each has the number of times."""

    def read(data: bytes) -> int:
        if values.get(data, 0):
            values[data] -= 1
            raise KeyboardInterrupt
        return int(data)

    return read


def test_an_error_behind_records_of_another_partition_is_raised_by_the_next_poll(world: World) -> None:
    world.start(value_deserializer=int)
    world.buffer(0, b"1")
    world.buffer(1, b"x", b"2")
    assert world.poll() == [1]
    with pytest.raises(RecordDeserializationError, match="released"):
        world.poll()
    assert world.poll() == [2]


def test_close_does_not_wait_for_the_group_after_ctrl_c(world: World) -> None:
    world.start()
    ends: list[float] = []

    def leave(deadline: float) -> Iterator[Any]:
        ends.append(deadline)
        yield from ()

    world.delegate.coordinator.close = leave  # type: ignore[method-assign, assignment]
    for error in (KeyboardInterrupt(), KafkaTimeoutError("late")):
        world.session.is_busy = True  # a request is in flight
        steps = world.delegate.close(math.inf)
        next(steps)
        with pytest.raises(type(error)):
            steps.throw(error)
    assert ends == [-math.inf, math.inf]


def test_ctrl_c_in_the_records_of_another_partition_keeps_the_first_ones(world: World) -> None:
    world.start(value_deserializer=interrupted({b"2": 1}))
    world.buffer(0, b"1")
    world.buffer(1, b"2")
    with pytest.raises(KeyboardInterrupt):
        world.poll()
    assert world.delegate.delivery_count(TopicPartition("t", 0), 0) == 0  # no commit accepts it
    assert world.poll() == [1]
    assert world.poll() == [2]


def test_ctrl_c_behind_the_take_keeps_its_records(world: World) -> None:
    world.start()
    world.buffer(0, b"1")
    metrics = world.delegate.metrics
    world.delegate.metrics = SimpleNamespace(on_polled=interrupt)  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            world.poll()
    world.delegate.metrics = metrics
    assert world.poll() == [b"1"]
    assert world.poll() == []


def test_ctrl_c_between_the_poll_of_iteration_and_its_first_record_keeps_the_records(world: World) -> None:
    class Interrupted(ConsumerRecords[Any, Any]):
        def records(self, *args: object) -> Any:
            raise KeyboardInterrupt

    class Consumer(KafkaShareConsumer[Any, Any]):
        def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[Any, Any]:
            assert world.poll() == [b"1", b"2"]
            return Interrupted({_TP: [found]})

    found: Any = object()
    consumer = Consumer(bootstrap_servers="127.0.0.1:1", group_id="g")
    world.use(consumer._delegate)
    world.buffer(0, b"1", b"2")
    with pytest.raises(KeyboardInterrupt):
        next(consumer)
    assert world.poll() == [b"1", b"2"]
    world.session.is_busy = False
    world.session.reset()
    consumer.close(timeout_ms=0)


def test_records_whose_lock_has_expired_are_not_returned(world: World) -> None:
    world.start()
    world.buffer(0, b"1", locked_until=0.0)
    world.buffer(1, b"2")
    assert world.poll() == [b"2"]
    world.buffer(0, b"3")
    assert world.poll() == [b"3"]
    fetcher = world.delegate.fetcher
    for kept in (fetcher.again, fetcher.renewed):
        world.buffer(0, b"4")
        (fetch,) = fetcher.buffer
        delivery = fetch.take(1, None)
        assert delivery is not None
        fetcher.buffer.clear()
        delivery.lock_until(0.0)
        kept.append(delivery)
        world.buffer(1, b"5")
        assert world.poll() == [b"5"]


def test_the_last_returned_records_are_given_back(world: World) -> None:
    world.start()
    world.buffer(0, b"1")
    world.buffer(1, b"2")
    world.buffer(0, b"3", first=5)
    assert world.poll() == [b"1", b"3", b"2"]
    world.delegate.give_back(1)
    assert world.poll() == [b"2"]


def test_an_error_of_the_callback_is_raised_after_all_outcomes_were_reported(world: World) -> None:
    world.start()
    seen: list[tuple[set[int], KafkaError | None]] = []

    def callback(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        seen.append((offsets[_TP], error))
        raise ValueError(f"call {len(seen)}")

    world.delegate.set_callback(callback)
    late = KafkaTimeoutError("late")
    for at, error in enumerate((None, late)):
        world.delegate._on_outcome(accepted(at), error)
    with pytest.raises(ValueError, match="call 1"):
        world.poll()
    assert seen == [({0}, None), ({1}, late)]
    assert world.poll() == []


def test_close_ends_acknowledgements_that_were_not_sent(world: World) -> None:
    world.start()
    world.delegate.coordinator.close = lambda deadline: iter(())  # type: ignore[method-assign, assignment, return-value]
    ticket = Ticket()
    world.delegate.fetcher.acknowledge(accepted(0)._replace(ticket=ticket))
    assert ticket.pending == 1
    finish(world.delegate.close(0.0))
    assert isinstance(ticket.results[_TP], ShareSessionNotFoundError)
    assert ticket.pending == 0
