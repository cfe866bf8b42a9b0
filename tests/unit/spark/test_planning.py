"""Cutting ranges into tasks: the rules of Spark's own connector."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.spark.offset_ranges import OffsetRange, divide


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 1, 1 + size) for number, size in enumerate(sizes)]


def cut(*sizes: int, minimum: int | None = None, maximum: int | None = None) -> list[tuple[int, int, int]]:
    found = divide(ranges(*sizes), min_partitions=minimum, max_records_per_partition=maximum)
    return [(part.partition, part.start, part.end) for part in found]


def test_a_task_for_each_range_that_is_not_empty() -> None:
    assert cut(5, 0, 1) == [(0, 1, 6), (2, 1, 2)]


def test_enough_ranges_are_left_unchanged() -> None:
    assert cut(5, 3, minimum=2) == [(0, 1, 6), (1, 1, 4)]


def test_one_range_is_cut_evenly_and_its_last_parts_are_the_larger_ones() -> None:
    assert cut(10, minimum=4) == [(0, 1, 3), (0, 3, 5), (0, 5, 8), (0, 8, 11)]


def test_small_ranges_stay_whole_and_large_ones_share_the_rest() -> None:
    found = cut(1, 1, 98, minimum=10)
    assert found[:2] == [(0, 1, 2), (1, 1, 2)]
    assert len(found) == 2 + 8


def test_shares_are_rounded_half_up() -> None:
    # 7 tasks for 3 equal ranges: 2.33 each
    assert len(cut(10_000, 10_000, 10_000, minimum=7)) == 6
    # 5 tasks for 2 equal ranges: 2.5 each
    assert len(cut(100, 100, minimum=5)) == 6


def test_no_part_is_empty_with_fewer_offsets_than_parts() -> None:
    assert cut(3, minimum=10) == [(0, 1, 2), (0, 2, 3), (0, 3, 4)]


def test_a_range_has_at_most_the_given_number_of_offsets() -> None:
    assert cut(10, 2, maximum=4) == [(0, 1, 4), (0, 4, 7), (0, 7, 11), (1, 1, 3)]


def test_the_maximum_comes_first_then_the_minimum() -> None:
    assert len(cut(10, maximum=5, minimum=2)) == 2
    assert len(cut(10, maximum=5, minimum=4)) == 4


@given(
    st.lists(st.integers(0, 10**12), max_size=8),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(10**10, 10**12),
)
def test_parts_cover_each_range_exactly_once(sizes: list[int], minimum: int | None, maximum: int | None) -> None:
    parts = divide(ranges(*sizes), min_partitions=minimum, max_records_per_partition=maximum)
    assert all(part.size > 0 for part in parts)
    for whole in ranges(*sizes):
        own = [part for part in parts if part.partition == whole.partition]
        edges = [whole.start, *(part.end for part in own)]
        assert [part.start for part in own] == edges[:-1]
        assert edges[-1] == whole.end
        if maximum is not None:
            assert all(part.size <= maximum for part in own)


@pytest.mark.parametrize("minimum", [None, 4])
def test_an_empty_range_makes_no_task(minimum: int | None) -> None:
    assert cut(minimum=minimum) == []
    assert cut(0, 0, minimum=minimum) == []
