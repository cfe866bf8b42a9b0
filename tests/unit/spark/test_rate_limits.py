"""Tests of the size of a micro-batch."""

from __future__ import annotations

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.spark.stream_planner import MinimumGate, limit_bytes, limit_offsets
from pyconsumer.structs import TopicPartition
from tests.unit.spark.fake_cluster import A0, A1, A2


def ends(begins: tuple[int, ...], until: tuple[int, ...], most: int) -> list[int]:
    partitions = [TopicPartition("a", number) for number in range(len(begins))]
    limited = limit_offsets(dict(zip(partitions, begins, strict=True)), dict(zip(partitions, until, strict=True)), most)
    return [limited[tp] for tp in partitions]


@pytest.mark.parametrize(
    ("begins", "until", "most", "expected"),
    [
        ((0, 0), (100, 300), 40, [10, 30]),  # in proportion
        ((0, 0), (100, 300), 400, [100, 300]),
        ((0, 0), (100, 300), 2**63 - 1, [100, 300]),
        ((5, 7), (5, 107), 10, [5, 17]),  # nothing waits in the first
        ((0, 0, 0), (1, 1, 1000), 10, [1, 1, 9]),  # a share below one is one
        ((0, 0, 0), (3, 3, 3), 1, [1, 1, 1]),
        ((9, 0), (5, 10), 4, [5, 4]),  # an end before its begin stays
        ((), (), 4, []),
    ],
)
def test_offsets_are_shared_in_proportion(
    begins: tuple[int, ...], until: tuple[int, ...], most: int, expected: list[int]
) -> None:
    assert ends(begins, until, most) == expected


def test_bytes_are_shared_in_proportion() -> None:
    begins, until = {A0: 0, A1: 10}, {A0: 1000, A1: 110}
    # 100 kB wait in the first, 300 kB in the second.
    assert limit_bytes(begins, until, 40_000, {A0: 100.0, A1: 3000.0}) == {A0: 100, A1: 20}
    assert limit_bytes(begins, until, 400_000, {A0: 100.0, A1: 3000.0}) == until


def test_a_partition_without_an_estimate_counts_as_the_others() -> None:
    begins, until = {A0: 0, A1: 0, A2: 0}, {A0: 100, A1: 100, A2: 100}
    assert limit_bytes(begins, until, 3000, {A0: 150.0, A1: 50.0}) == {A0: 10, A1: 10, A2: 10}
    assert limit_bytes(begins, until, 1024 * 30, {}) == {A0: 10, A1: 10, A2: 10}


def test_a_batch_waits_for_enough_or_for_the_delay() -> None:
    clock = ManualClock(100.0)
    gate = MinimumGate(10, 60.0, clock.now)
    assert gate.passes(1)  # the first one does not wait
    assert not gate.passes(9)
    assert gate.passes(10)
    clock.advance(59.9)
    assert not gate.passes(9)
    clock.advance(0.1)
    assert gate.passes(9)
    assert not gate.passes(9)


def test_without_a_minimum_every_batch_passes() -> None:
    gate = MinimumGate(None, 60.0, ManualClock(0.0).now)
    assert gate.passes(1)
    assert gate.passes(1)
