"""``consume --idle-ms`` without a cluster, on a clock that only polls advance."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer import ConsumerRecord, TopicPartition
from pyconsumer.cli import _run, consume
from pyconsumer.clock import ManualClock
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.testing import MockConsumer

T0 = TopicPartition("t", 0)


class Reader(MockConsumer):
    """A member that gets its partition, and a record in it, at given times. A poll takes as long as it may."""

    def __init__(self, clock: ManualClock, *, assigned_at: float | None, record_at: float) -> None:
        super().__init__("earliest")
        self._clock, self._assigned_at, self._record_at = clock, assigned_at, record_at
        self.update_partitions("t", 1)
        self.update_beginning_offsets({T0: 0})

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords:
        self._clock.advance(timeout_ms / 1000)
        now = self._clock.now()
        if self._assigned_at is not None and now >= self._assigned_at and not self.assignment():
            self.rebalance([T0])
        if self.assignment() and now >= self._record_at and not self.position(T0):
            self.add_record(ConsumerRecord("t", 0, 0, value=b"x"))
        return super().poll(0, max_records)


def ran_for(monkeypatch: pytest.MonkeyPatch, arguments: list[str], **times: Any) -> float:
    """Return the duration of the command."""
    clock = ManualClock()
    monkeypatch.setattr(consume, "time", SimpleNamespace(monotonic=clock.now))
    monkeypatch.setattr(consume, "KafkaConsumer", lambda options: Reader(clock, **times))
    began = clock.now()
    assert _run(["consume", "t", *arguments]) == 0
    return clock.now() - began


def test_the_time_until_partitions_are_given_is_not_idle(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    took = ran_for(monkeypatch, ["-g", "g", "--idle-ms", "1000"], assigned_at=3.2, record_at=3.9)
    assert capfdbinary.readouterr().out == b"x\n"
    assert 4.9 <= took <= 5.5


def test_partitions_that_come_late_in_a_poll_leave_the_whole_idle_time(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    ran_for(monkeypatch, ["-g", "g", "--idle-ms", "100"], assigned_at=0.05, record_at=0.15)
    assert capfdbinary.readouterr().out == b"x\n"


def test_a_member_without_an_assignment_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["-g", "g", "--idle-ms", "1000", "--timeout-ms", "5000"]
    took = ran_for(monkeypatch, arguments, assigned_at=None, record_at=0.0)
    assert 5.0 <= took <= 6.5
