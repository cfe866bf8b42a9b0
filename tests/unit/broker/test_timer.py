"""Timers: their order, and calls of a timer while it runs."""

from __future__ import annotations

import pytest

from pyconsumer.broker.timer import Timer


def test_a_timer_set_by_a_timer_runs_in_the_next_call() -> None:
    """Without it a timer without a period would keep the driver for ever."""
    timer = Timer()
    ran: list[float] = []

    def again() -> None:
        ran.append(timer.schedule(5.0 - len(ran), again).when)
        assert len(ran) < 5

    timer.schedule(10.0, again)
    timer.schedule(10.0, lambda: ran.append(0.0))
    assert timer.run_due(10.0) == 2
    assert ran == [5.0, 0.0]
    assert timer.next_deadline() == 5.0
    assert timer.run_due(10.0) == 1
    assert ran == [5.0, 0.0, 3.0]


def test_the_driver_is_notified_of_an_earlier_time() -> None:
    notified: list[float] = []
    timer = Timer()

    def work() -> None:
        timer.schedule(9.0, lambda: None)
        timer.schedule(50.0, lambda: None)

    timer.schedule(10.0, work)
    timer.schedule(10.0, lambda: timer.schedule(20.0, lambda: None) and None)
    timer.on_earlier = notified.append
    timer.run_due(10.0)
    assert notified[-1] == timer.next_deadline() == 9.0


def test_other_timers_survive_one_that_raises() -> None:
    timer = Timer()
    ran: list[str] = []

    def breaks() -> None:
        timer.schedule(1.0, lambda: ran.append("new"))
        raise ValueError("no")

    timer.schedule(2.0, breaks)
    timer.schedule(3.0, lambda: ran.append("old"))
    with pytest.raises(ValueError, match="no"):
        timer.run_due(3.0)
    assert timer.run_due(3.0) == 2
    assert ran == ["new", "old"]


def test_a_timer_cancelled_by_another_does_not_run() -> None:
    timer = Timer()
    later = timer.schedule(2.0, lambda: pytest.fail("it was cancelled"))
    timer.schedule(1.0, later.cancel)
    assert timer.run_due(2.0) == 1
    assert timer.next_deadline() is None
