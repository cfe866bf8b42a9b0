"""The condition under which the sender's thread announces changes."""

from __future__ import annotations

import math
import threading
import time

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.producer.condition import ChangeCondition, NextChange


@pytest.fixture
def condition() -> ChangeCondition:
    return ChangeCondition(threading.Lock())


def next_of(condition: ChangeCondition) -> NextChange:
    with condition:
        return condition.next_change()


def announce(condition: ChangeCondition) -> None:
    with condition:
        condition.notify_all()


def test_a_change_that_was_announced_before_the_wait_ends_it_at_once(condition: ChangeCondition) -> None:
    change = next_of(condition)
    announce(condition)
    change.wait(math.inf, time.monotonic)
    called: list[int] = []
    change.on_announced(lambda: called.append(1))
    assert called == [1]


def test_a_time_that_has_passed_ends_a_wait(condition: ChangeCondition) -> None:
    clock = ManualClock(5.0)
    next_of(condition).wait(5.0, clock.now)
    assert clock.now() == 5.0


def test_each_change_calls_back_once(condition: ChangeCondition) -> None:
    called: list[int] = []
    next_of(condition).on_announced(lambda: called.append(1))
    assert called == []
    announce(condition)
    announce(condition)
    assert called == [1]
    later = next_of(condition)
    later.on_announced(lambda: called.append(2))
    assert called == [1], "the changes before it do not count"


@pytest.mark.concurrent
def test_a_thread_is_woken_by_a_change(condition: ChangeCondition) -> None:
    change = next_of(condition)
    looked = threading.Event()

    def now() -> float:
        looked.set()  # with the lock held, which only the wait releases
        return 0.0

    waiting = threading.Thread(target=change.wait, args=(math.inf, now), daemon=True)
    waiting.start()
    assert looked.wait(60)
    announce(condition)
    waiting.join(60)
    assert not waiting.is_alive()
