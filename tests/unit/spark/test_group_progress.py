"""Progress of a stream as offsets of a group."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.spark.progress import GroupProgress
from tests.unit.spark.fake_cluster import A0


class Group:
    """A group's progress, an admin client that only counts, and a clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(100.0)
        self.made = 0
        self.closed = 0
        self.sent: list[int] = []
        self.error: Exception | None = None
        self.progress = GroupProgress("g", self.connect, now=self.clock.now)

    def connect(self) -> Any:
        self.made += 1
        return self

    def alter_group_offsets(self, group_id: str, offsets: Any, *, timeout_ms: int) -> None:
        assert group_id == "g"
        if self.error is not None:
            raise self.error
        self.sent.append(offsets[A0].offset)

    def close(self) -> None:
        self.closed += 1


def test_the_same_position_is_committed_once_and_again_before_it_expires() -> None:
    group = Group()
    group.progress.commit({A0: 5})
    group.progress.commit({A0: 5})
    group.progress.commit({A0: 6})
    assert group.sent == [5, 6]
    group.clock.advance(600.0)
    group.progress.commit({A0: 6})
    assert group.sent == [5, 6, 6]
    assert group.made == 1


def test_after_a_failure_there_is_a_pause() -> None:
    group = Group()
    group.error = KafkaTimeoutError("no coordinator")
    group.progress.commit({A0: 5})
    group.error = None
    group.progress.commit({A0: 6})
    assert group.sent == []
    group.clock.advance(30.0)
    group.progress.commit({A0: 7})
    assert group.sent == [7]


def test_no_partitions_are_no_commit() -> None:
    group = Group()
    group.progress.commit({})
    assert group.made == 0
    group.progress.close()
    assert group.closed == 0
    group.progress.commit({A0: 1})
    group.progress.close()
    assert group.closed == 1


def test_errors_that_are_not_kafkas_are_not_hidden() -> None:
    group = Group()
    group.error = RuntimeError("ours")
    with pytest.raises(RuntimeError):
        group.progress.commit({A0: 1})
