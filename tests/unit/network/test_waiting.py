"""Driving a blocking call that is written as a generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaTimeoutError, WakeupError
from pyconsumer.network.futures import YIELD, RequestFuture, Steps, Wait, drive


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


def test_a_call_that_only_yields_continues_at_once() -> None:
    poller = Poller()

    def steps() -> Steps[str]:
        yield YIELD
        yield YIELD
        return "done"

    assert poller.run(steps(), 0.0) == "done"
    assert poller.polls == []


class Announcement:
    """A change that is announced at a time of the test's clock."""

    in_turn = False

    def __init__(self, clock: ManualClock, at: float) -> None:
        self.clock = clock
        self.at = at

    def wait(self, until: float, now: Callable[[], float]) -> None:
        assert now == self.clock.now
        self.clock.advance_to(min(self.at, until))

    def on_announced(self, call: Callable[[], object]) -> None:
        raise AssertionError("a thread waits, and is not called back")


@pytest.mark.parametrize(("until", "ends"), [(10.0, 2.0), (1.0, 1.0)])
def test_a_change_is_waited_for_until_the_time_of_the_wait(until: float, ends: float) -> None:
    poller = Poller()

    def steps() -> Steps[float]:
        yield Wait(None, until, change=Announcement(poller.clock, 2.0))
        return poller.clock.now()

    assert poller.run(steps()) == ends
    assert poller.polls == [], "no socket is served"


def test_a_change_is_not_waited_for_beyond_the_deadline() -> None:
    poller = Poller()

    def steps() -> Steps[None]:
        while True:
            yield Wait(None, math.inf, change=Announcement(poller.clock, 100.0))

    with pytest.raises(KafkaTimeoutError):
        poller.run(steps(), 4.0)
    assert poller.clock.now() == 4.0


def test_ctrl_c_between_two_steps_runs_the_finally_blocks_at_once() -> None:
    """Once they ran when the traceback was dropped, so a handler of the error still saw the state of the call."""
    cleaned: list[str] = []

    def steps() -> Steps[None]:
        try:
            yield Wait(None, 1.0)
        finally:
            cleaned.append("yes")

    def interrupted() -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        drive(steps(), math.inf, Poller().poll, interrupted)
    assert cleaned == ["yes"]
    assert caught.value.__traceback__ is not None
