"""The clock that a test advances: waiting code checks the time again."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.testing import RunningClock

pytestmark = pytest.mark.concurrent

#: Nobody listens there.
_NOBODY = "127.0.0.1:1"


def test_the_clock_runs_and_can_be_advanced() -> None:
    clock = RunningClock()
    before, wall = clock.now(), clock.wall_ms()
    assert clock.advance(100) - before >= 100
    assert clock.wall_ms() - wall >= 100_000
    assert (clock.ahead, clock.now() - time.monotonic() >= 99) == (100, True)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="time cannot go back"):
            clock.advance(wrong)


def test_the_clock_keeps_no_watcher_alive() -> None:
    class Watcher:
        calls = 0

        def look(self) -> None:
            Watcher.calls += 1

    clock, watcher = RunningClock(), Watcher()
    clock.on_advance(watcher.look)
    clock.advance(1)
    del watcher
    gc.collect()
    clock.advance(1)
    assert Watcher.calls == 1


def _soon(clock: RunningClock, seconds: float) -> threading.Timer:
    timer = threading.Timer(0.2, clock.advance, (seconds,))
    timer.start()
    return timer


def test_a_consumer_that_waits_ends_when_its_time_has_passed() -> None:
    clock = RunningClock()
    with KafkaConsumer(bootstrap_servers=_NOBODY, clock=clock) as consumer:
        timer = _soon(clock, 3600)
        with pytest.raises(KafkaTimeoutError):
            consumer.topics(timeout_ms=3_000_000)
        timer.join()


def test_a_producer_that_waits_ends_when_its_time_has_passed() -> None:
    clock = RunningClock()
    with KafkaProducer(bootstrap_servers=_NOBODY, clock=clock, max_block_ms=3_000_000) as producer:
        timer = _soon(clock, 3600)
        with pytest.raises(KafkaTimeoutError):
            producer.send("t", b"v")
        timer.join()
