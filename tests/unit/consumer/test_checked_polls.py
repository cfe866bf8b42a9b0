"""Polls with buffered records run all checks once in 10 ms, and after each possible change.

This is rule 6 of :mod:`pyconsumer.consumer.delegate`.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pyconsumer import KafkaConsumer
from pyconsumer.consumer.delegate import CHECK_LIFETIME_S
from pyconsumer.protocol.records import IMPLEMENTATION
from tests.unit.consumer.worlds import A, B, FakeCoordinator, Reader


class Polls:
    """A member of a group with records of A, the clock of its polls, and a count of their checks."""

    def __init__(self, **settings: Any) -> None:
        self.reader = Reader(**settings)
        self.consumer = self.reader.consumer
        self.group = FakeCoordinator(self.reader.delegate.subscriptions)
        self.reader.delegate.coordinator = self.group  # type: ignore[assignment]
        self.began = self.now = self.reader.delegate.clock.now()
        self.consumer._now = lambda: self.now
        self.reader.fill(A, 0, 100)
        self.next = 0

    def looks(self) -> int:
        """Poll, and return the number of full polls."""
        before = len(self.group.polls_at)
        assert [record.offset for record in self.consumer.poll(0, 2).records()] == [self.next, self.next + 1]
        self.next += 2
        return len(self.group.polls_at) - before

    def close(self) -> None:
        self.reader.delegate.coordinator = None
        self.consumer.close(0)


@pytest.fixture
def polls() -> Iterator[Polls]:
    made = Polls()
    yield made
    made.close()


def test_polls_with_buffered_records_run_all_checks_once_in_10_ms(polls: Polls) -> None:
    assert [polls.looks() for _ in range(3)] == [1, 0, 0]
    polls.now = polls.began + 0.999 * CHECK_LIFETIME_S
    assert polls.looks() == 0
    polls.now = polls.began + CHECK_LIFETIME_S
    assert [polls.looks() for _ in range(3)] == [1, 0, 0]


def test_a_poll_runs_all_checks_when_the_group_has_work_due(polls: Polls) -> None:
    polls.group.next_due_at = polls.began + CHECK_LIFETIME_S / 2
    assert [polls.looks() for _ in range(2)] == [1, 0]
    polls.now = polls.group.next_due_at
    polls.group.next_due_at += 1
    assert [polls.looks() for _ in range(2)] == [1, 0]


def test_every_poll_runs_all_checks_while_the_group_awaits_a_response(polls: Polls) -> None:
    polls.reader.delegate._check_response_at = polls.began + 1
    polls.group.awaits_response = True
    assert [polls.looks() for _ in range(3)] == [1, 1, 1]
    polls.group.awaits_response = False
    assert [polls.looks() for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.pause(B),
        lambda consumer: consumer.seek(B, 7),
        lambda consumer: consumer.assignment(),
        lambda consumer: consumer.position(B, timeout_ms=0),
    ],
)
def test_any_other_call_ends_the_pause_of_checks(polls: Polls, call: Callable[[KafkaConsumer], object]) -> None:
    assert [polls.looks() for _ in range(2)] == [1, 0]
    call(polls.consumer)
    assert [polls.looks() for _ in range(2)] == [1, 0]


def test_a_call_from_a_deserializer_ends_the_pause_of_checks() -> None:
    def value(data: bytes) -> bytes:
        if rewind:
            polls.consumer.seek(B, rewind.pop())
        return data

    rewind: list[int] = []
    polls = Polls(value_deserializer=value)
    assert [polls.looks() for _ in range(2)] == [1, 0]
    rewind.append(3)
    assert [polls.looks() for _ in range(3)] == [0, 1, 0]
    polls.close()


def test_ctrl_c_ends_the_pause_of_checks() -> None:
    def value(data: bytes) -> bytes:
        if interrupt:
            raise interrupt.pop()
        return data

    interrupt: list[KeyboardInterrupt] = []
    polls = Polls(value_deserializer=value)
    assert [polls.looks() for _ in range(2)] == [1, 0]
    interrupt.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        polls.consumer.poll(0, 2)
    assert polls.reader.delegate.checked.next_check_at == -math.inf
    polls.close()


def test_reading_the_sockets_ends_the_pause_of_checks(polls: Polls) -> None:
    assert [polls.looks() for _ in range(2)] == [1, 0]
    polls.reader.delegate.subscriptions.note_changed(B)  # so that the poll sends the next fetches
    assert [polls.looks() for _ in range(3)] == [0, 1, 0]
    assert polls.reader.delegate.checked.next_check_at > polls.began
    polls.reader.delegate.fetcher.buffer.clear()
    assert not polls.consumer.poll(0)
    assert polls.reader.delegate.checked.next_check_at == -math.inf


def test_a_change_in_the_heartbeat_thread_ends_the_pause_of_checks() -> None:
    reader = Reader(group_id="g", enable_auto_commit=False)
    reader.fill(A, 0, 10)
    group, checked = reader.delegate.coordinator, reader.delegate.checked
    assert group is not None
    began = reader.delegate.clock.now()
    reader.consumer._now = lambda: began
    for _ in range(2):  # the first one looks at metadata
        reader.consumer.poll(0, 1)
    assert began < checked.next_check_at <= began + CHECK_LIFETIME_S

    group._changed_in_background()

    assert checked.next_check_at == -math.inf
    reader.consumer.close(0)


@pytest.mark.skipif(IMPLEMENTATION != "native", reason="counts calls of the compiled decoder")
def test_a_poll_between_checks_takes_few_calls_with_or_without_a_group(polls: Polls) -> None:
    alone = Reader()
    alone.fill(A, 0, 100)
    alone.consumer._now = polls.consumer._now
    called: list[list[str]] = []
    for consumer in (polls.consumer, alone.consumer):
        consumer.poll(0, 2)
        calls: list[str] = []

        def note(frame: FrameType, event: str, _: object, calls: list[str] = calls) -> None:
            if event == "call":
                calls.append(frame.f_code.co_qualname)

        gc.disable()  # finalizers are no calls of the poll
        sys.setprofile(note)
        try:
            consumer.poll(0, 2)
        finally:
            sys.setprofile(None)
            gc.enable()
        called.append(calls)
    alone.consumer.close(0)

    assert called[0] == called[1]
    assert len(called[0]) <= 14  # the test's clock and the lag's counter among them; 24 and 34 before
