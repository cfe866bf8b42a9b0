"""``ShareDelegate`` without a network: the records that a poll takes, its errors, and Ctrl-C."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
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
from pyconsumer.consumer.share.last_delivery import MOST_LETTERS
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

    def poll(self, most: int = 100, *, as_bytes: bool = False) -> list[Any]:
        """Return the values that a poll returns without waiting."""
        self.session.is_busy = True  # nothing is sent
        self.delegate.note_returned()
        steps = self.delegate.fetched(0.0, most, as_bytes=as_bytes)
        try:
            while True:
                next(steps)
        except StopIteration as end:
            return [] if end.value is None else [record.value for record in end.value.records()]
        except BaseException as error:
            self.delegate.on_interrupt(error)
            raise

    def queued(self) -> list[tuple[int, int, int]]:
        """Return the acknowledgements that wait to be sent."""
        return [(piece.first, piece.last, piece.kind) for queued in self.session.queue for piece in queued.pieces]

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


def test_a_held_record_that_comes_again_ends_its_earlier_delivery(world: World) -> None:
    world.start()
    world.delegate.hold()
    world.buffer(0, b"0", b"1", locked_until=world.delegate.clock.now() + 60)
    world.buffer(1, b"0", locked_until=world.delegate.clock.now() + 60)
    assert world.poll() == [b"0", b"1", b"0"]
    earlier, other = world.delegate.held()
    world.delegate.renew(earlier)
    world.buffer(0, b"1", first=1, locked_until=world.delegate.clock.now() + 60)  # the renewal came too late
    assert world.poll() == [b"1"]
    later = world.delegate.held()[-1]
    earlier.lock_until(world.delegate.clock.now() + 60)  # the broker took the renewal for one of the later delivery
    assert earlier.locked_until == -math.inf
    assert min(other.locked_until, later.locked_until) > world.delegate.clock.now()
    sent = len(world.queued())
    earlier.choose(1, AcknowledgeType.RELEASE)
    later.choose(1, AcknowledgeType.ACCEPT)
    world.delegate.held()
    assert world.queued()[sent:] == [(1, 1, AcknowledgeType.ACCEPT)]


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


def test_records_that_came_as_bytes_are_deserialized_by_a_poll_that_returns_them_again(world: World) -> None:
    world.start(value_deserializer=int, share_acknowledgement_mode="explicit", on_record_error="skip")
    delegate = world.delegate
    world.buffer(0, b"1", b"x", b"3")
    world.buffer(1, b"4")
    assert world.poll(as_bytes=True) == [b"1", b"x", b"3", b"4"]
    delegate.keep_unseen()  # Ctrl-C in poll_arrow
    assert world.poll(2) == [1, 3]
    assert world.queued() == [(1, 1, AcknowledgeType.REJECT)]
    for offset in (0, 2):
        delegate.acknowledge(_TP, offset, AcknowledgeType.ACCEPT)
    assert world.poll() == [4]
    delegate.keep_unseen()
    assert world.poll(as_bytes=True) == [4], "the columns have the bytes: see Delivery.raw_records"


def test_records_that_were_renewed_as_columns_are_deserialized_by_the_next_poll(world: World) -> None:
    world.start(value_deserializer=int, share_acknowledgement_mode="explicit")
    world.buffer(0, b"1", b"2", b"3")
    assert world.poll(as_bytes=True) == [b"1", b"2", b"3"]
    for offset, kind in enumerate((AcknowledgeType.RENEW, AcknowledgeType.ACCEPT, AcknowledgeType.RENEW)):
        world.delegate.acknowledge(_TP, offset, kind)
    assert world.poll() == []
    (queued,) = world.session.take_queue()
    world.buffer(1, b"4")
    world.delegate.fetcher._finish(queued, None, 100.0)
    assert world.poll() == [1, 3]
    for offset in (0, 2):
        world.delegate.acknowledge(_TP, offset, AcknowledgeType.ACCEPT)
    assert world.poll() == [4]


class Letters:
    """A sink that takes records in the background, until the test says so."""

    def __init__(self) -> None:
        self.begun: list[Future[None]] = []

    def begin(self, error: RecordDeserializationError) -> Future[None]:
        self.begun.append(Future())
        return self.begun[-1]

    def send(self, error: RecordDeserializationError) -> None:
        raise AssertionError("records are taken in the background")


def in_last_delivery(world: World, count: int) -> Letters:
    """Release records in their last delivery."""
    sink = Letters()
    world.start(share_acknowledgement_mode="explicit", on_record_error=sink)
    settled = {"delivery_limit": 1, "refresh": lambda: False, "is_settled": True, "next_due_at": 0.0}
    world.delegate.group = SimpleNamespace(**settled, recover=lambda: None)  # type: ignore[assignment]
    world.buffer(0, *[b"v"] * count)
    assert len(world.poll()) == count
    for offset in range(count):
        world.delegate.acknowledge(_TP, offset, AcknowledgeType.RELEASE)
    return sink


def test_a_sink_has_few_records_at_a_time(world: World) -> None:
    sink = in_last_delivery(world, 40)
    most = 0
    while len(world.queued()) < 40:
        world.delegate.commit_async()
        running = [future for future in sink.begun if not future.done()]
        most = max(most, len(running))
        running[0].set_result(None)
        world.delegate.commit_async()
    assert (most, len(sink.begun)) == (MOST_LETTERS, 40)
    assert {kind for _, _, kind in world.queued()} == {AcknowledgeType.REJECT}


def test_a_second_commit_waits_for_the_letters_of_the_first_one(world: World) -> None:
    sink = in_last_delivery(world, 2)
    world.session.is_busy = True
    now = world.delegate.clock.now()
    for _ in range(2):
        assert isinstance(finish(world.delegate.commit(now - 1))[_TP], KafkaTimeoutError)
    assert len(sink.begun) == 2
    for sent in sink.begun:
        sent.set_result(None)
    steps = world.delegate.commit(now + 60)
    next(steps)  # it waits for the broker
    assert world.queued() == [(0, 0, AcknowledgeType.REJECT), (1, 1, AcknowledgeType.REJECT)]
    for queued in world.session.drop_queue():
        world.delegate.fetcher._finish(queued, None)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == {_TP: None}


def commit_interrupted(delegate: ShareDelegate, *, after: bool) -> None:
    """Let Ctrl-C come before or after an acknowledgement is queued, and recover."""
    acknowledge = delegate.fetcher.acknowledge

    def interrupted(queued: Queued) -> None:
        delegate.fetcher.acknowledge = acknowledge  # type: ignore[method-assign]
        if after:
            acknowledge(queued)
        raise KeyboardInterrupt

    delegate.fetcher.acknowledge = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        delegate.commit_async()
    delegate.recover()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_ctrl_c_loses_no_acknowledgement_and_queues_none_twice(world: World, mode: str, after: bool) -> None:
    world.start(share_acknowledgement_mode=mode)
    delegate = world.delegate
    world.buffer(0, b"1", b"2")
    world.buffer(1, b"3")
    assert len(world.poll()) == 3
    if mode == "explicit":
        for partition, offset in ((0, 0), (0, 1), (1, 0)):
            delegate.acknowledge(TopicPartition("t", partition), offset, AcknowledgeType.ACCEPT)
    commit_interrupted(delegate, after=after)
    assert world.poll() == []
    assert sorted(world.queued()) == [(0, 0, AcknowledgeType.ACCEPT), (0, 1, AcknowledgeType.ACCEPT)]


@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_queues_the_outcome_of_a_letter_once(world: World, after: bool) -> None:
    sink = in_last_delivery(world, 1)
    delegate = world.delegate
    delegate.commit_async()
    sink.begun[0].set_exception(KafkaError("full"))
    commit_interrupted(delegate, after=after)
    delegate.commit_async()
    assert world.queued() == [(0, 0, AcknowledgeType.RELEASE)]
    with pytest.raises(KafkaError, match="full"):
        world.poll()
    assert world.poll() == [], "the error comes once"
