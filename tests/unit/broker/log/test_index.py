"""Offset and time indexes: lookups, truncation, and the content of their files."""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.broker.log.index import OffsetIndex, TimeIndex
from pyconsumer.broker.log.storage import FileStorage, MemoryStorage


def offset_index(*entries: tuple[int, int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(MemoryStorage(), "0.index", base)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_offset_lookup_gives_the_entry_at_or_before() -> None:
    index = offset_index((104, 500), (110, 900), (111, 1300))
    assert [index.position_before(offset) for offset in (100, 103, 104, 109, 110, 111, 10**12)] == [
        *(0, 0, 500, 500, 900, 1300, 1300)
    ]
    assert [index.position_at_or_before(p) for p in (0, 499, 500, 1299, 1300, 9999)] == [0, 0, 500, 900, 1300, 1300]


def test_offset_entries_above_a_position_are_truncated() -> None:
    index = offset_index((104, 500), (110, 900), (111, 1300))
    index.truncate_to_position(900)
    assert (len(index), index.last_entry) == (1, (104, 500))


def test_the_files_are_kafkas(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    offsets, times = OffsetIndex(storage, "a.index", 1000), TimeIndex(storage, "a.timeindex", 1000)
    offsets.append(1005, 4096)
    times.maybe_append(1_700_000_000_000, 1005)
    offsets.write()
    times.write()
    assert (tmp_path / "a.index").read_bytes() == struct.pack(">ii", 5, 4096)
    assert (tmp_path / "a.timeindex").read_bytes() == struct.pack(">qi", 1_700_000_000_000, 5)


def test_written_entries_are_read_again_and_appended_to(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    for start in (0, 700):  # more than are kept back before they are written
        index = OffsetIndex(storage, "a.index", 0)
        assert len(index) == start
        for number in range(start, start + 700):
            index.append(number * 3 + 1, number * 10)
        index.flush()
    assert OffsetIndex(storage, "a.index", 0).position_before(1399 * 3 + 1) == 13990


def test_zeros_that_kafka_leaves_behind_the_entries_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.index").write_bytes(struct.pack(">iiii", 5, 100, 9, 200) + bytes(800))
    (tmp_path / "a.timeindex").write_bytes(struct.pack(">qiqi", 50, 5, 60, 9) + bytes(1200))
    assert OffsetIndex(FileStorage(tmp_path), "a.index", 0).last_entry == (9, 200)
    assert TimeIndex(FileStorage(tmp_path), "a.timeindex", 0).last_entry == (60, 9)


def test_truncations_and_later_appends_reach_the_file(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    index = OffsetIndex(storage, "a.index", 0)
    for number in range(10):
        index.append(number + 1, number * 100 + 100)
    index.write()
    index.truncate_to_position(500)
    index.append(5, 555)
    index.write()
    assert OffsetIndex(storage, "a.index", 0).last_entry == (5, 555)
    index.reset()
    assert (tmp_path / "a.index").stat().st_size == 0


def test_a_time_entry_needs_a_greater_timestamp() -> None:
    index = TimeIndex(MemoryStorage(), "0.timeindex", 0)
    for timestamp, offset in ((10, 1), (10, 2), (9, 3), (11, 4)):
        index.maybe_append(timestamp, offset)
    assert (len(index), index.last_entry) == (2, (11, 4))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(0, 60))
def test_the_index_never_skips_a_record_at_or_after_a_time(times: list[int], wanted: int) -> None:
    index = TimeIndex(MemoryStorage(), "0.timeindex", 0)
    greatest = -1
    for offset, timestamp in enumerate(times):
        if timestamp > greatest:
            greatest = timestamp
            index.maybe_append(timestamp, offset)
    start = index.offset_before(wanted)
    assert all(timestamp < wanted for timestamp in times[:start])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(0, 400))
def test_the_position_is_that_of_the_last_entry_at_or_before(steps: list[int], wanted: int) -> None:
    offsets = [sum(steps[: index + 1]) for index in range(len(steps))]
    index = offset_index(*((offset, offset * 7) for offset in offsets), base=0)
    found = bisect_right(offsets, wanted)
    assert index.position_before(wanted) == (offsets[found - 1] * 7 if found else 0)
