"""Driving a blocking call that is written as a generator."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaTimeoutError, WakeupError
from pyconsumer.network.futures import RequestFuture, Steps, Wait, drive


class Poller:
    """Advances the clock to the end of each wait, and completes futures at set times."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.polls: list[float] = []
        self.due: list[tuple[float, RequestFuture[Any]]] = []

    def poll(self, until: float, future: RequestFuture[Any] | None) -> None:
        self.polls.append(until)
        for at, pending in self.due:
            if at <= until and not pending.done:
                self.clock.advance_to(at)
                pending.complete("done")
                return
        self.clock.advance_to(until)

    def run(self, steps: Steps[Any], deadline: float = math.inf) -> Any:
        return drive(steps, deadline, self.poll, self.clock.now)


def test_the_result_of_the_generator_is_returned() -> None:
    def steps() -> Steps[int]:
        yield Wait(None, 1.0)
        return 5

    assert Poller().run(steps()) == 5


def test_a_future_that_is_done_already_is_not_waited_for() -> None:
    poller = Poller()

    def steps() -> Steps[int]:
        future = RequestFuture.of(3)
        yield Wait(future, math.inf)
        return future.value

    assert poller.run(steps()) == 3
    assert poller.polls == []


def test_it_is_resumed_when_the_future_is_done() -> None:
    poller = Poller()
    future: RequestFuture[str] = RequestFuture()
    poller.due.append((2.0, future))

    def steps() -> Steps[str]:
        while not future.done:
            yield Wait(future, 10.0)
        return future.value

    assert poller.run(steps(), 10.0) == "done"
    assert poller.clock.now() == 2.0


def test_no_wait_exceeds_the_deadline_and_the_second_late_one_fails() -> None:
    poller = Poller()
    looked: list[float] = []

    def steps() -> Steps[None]:
        while True:
            looked.append(poller.clock.now())
            yield Wait(RequestFuture(), math.inf)

    with pytest.raises(KafkaTimeoutError):
        poller.run(steps(), 4.0)
    assert poller.polls == [4.0, 4.0]
    assert looked == [0.0, 4.0, 4.0]


def test_an_expired_deadline_allows_one_check_without_waiting() -> None:
    poller = Poller()

    def steps() -> Steps[str]:
        yield Wait(None, 60.0)
        return "looked"

    assert poller.run(steps(), 0.0) == "looked"
    assert poller.polls == [0.0]


def test_an_error_of_polling_is_raised_in_the_generator() -> None:
    cleaned: list[str] = []

    def poll(until: float, future: RequestFuture[Any] | None) -> None:
        raise WakeupError

    def steps() -> Steps[None]:
        try:
            yield Wait(None, 1.0)
        finally:
            cleaned.append("yes")

    with pytest.raises(WakeupError):
        drive(steps(), math.inf, poll, ManualClock().now)
    assert cleaned == ["yes"]


def test_the_generator_may_continue_after_an_error() -> None:
    errors = [WakeupError()]

    def poll(until: float, future: RequestFuture[Any] | None) -> None:
        if errors:
            raise errors.pop()

    def steps() -> Steps[str]:
        try:
            yield Wait(None, 1.0)
        except WakeupError:
            yield Wait(None, 2.0)
        return "closed in good order"

    assert drive(steps(), math.inf, poll, ManualClock().now) == "closed in good order"


def test_an_error_of_the_generator_is_raised() -> None:
    def steps() -> Steps[None]:
        yield Wait(None, 0.0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        Poller().run(steps())
