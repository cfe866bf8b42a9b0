"""Lag as time: the age of the first uncommitted record, from the records that a consumer has fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.consumer.completed_fetch import CompletedFetch
from pyconsumer.consumer.lag_time import MOST_MARKS, age_of
from pyconsumer.consumer.partition_state import FetchPosition, TopicPartitionState
from pyconsumer.protocol.records import BatchBuilder, ColumnsBuilder, ControlRecordType, build_end_transaction_marker
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.unit.consumer.builders import batch, batches
from tests.unit.consumer.worlds import Desk

A = TopicPartition("a", 0)
NOW = 1_000_000  # ms. The record at offset 7 of a batch of the builders is of 1,007 ms


def since(desk: Desk, *, by_position: bool = False) -> float | None:
    """Return the timestamp from which the lag counts: -1 for no lag, None if it is unknown."""
    age = state_of(desk).lag_time(NOW, read_committed=False, by_position=by_position)
    return None if age is None else -1 if age == 0 else round(NOW - age * 1000)


def state_of(desk: Desk) -> TopicPartitionState:
    return desk.subscriptions.state(A)


def desk_with(data: bytes, *, end: int, **more: Any) -> Desk:
    desk = Desk(A)
    state_of(desk).update_log_offsets(end, end, 0)
    desk.add(A, data, **more)
    return desk


def commit(desk: Desk, offset: int) -> None:
    desk.subscriptions.note_committed({A: OffsetAndMetadata(offset)})


def marker(at: int) -> bytes:
    return build_end_transaction_marker(
        ControlRecordType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=5,
        base_offset=at,
    )


def test_without_a_fetch_only_a_lag_of_0_is_known() -> None:
    desk = Desk(A)
    assert since(desk) is None
    state_of(desk).update_log_offsets(0, 0, 0)
    assert since(desk) == -1
    state_of(desk).update_log_offsets(3, 3, 0)
    assert since(desk) is None, "records that nobody has fetched"


def test_the_first_record_counts_from_its_arrival_until_its_commit() -> None:
    desk = desk_with(batches(0, 30, 10), end=30)
    assert since(desk) == 1000, "it waits in the buffer"
    desk.collect(10)
    assert since(desk) == 1000, "it was returned, and is not committed"
    desk.collect(10)
    commit(desk, 10)
    assert since(desk) == 1010
    commit(desk, 20)
    assert since(desk) == 1020, "all that was returned is committed, and a record waits"
    desk.collect(10)
    assert since(desk) == 1020
    commit(desk, 30)
    assert since(desk) == -1
    state_of(desk).update_log_offsets(40, 40, 0)
    assert since(desk) is None, "the next records have not arrived"


def test_a_commit_within_the_records_of_a_poll_counts_from_the_first_of_them() -> None:
    desk = desk_with(batch(0, 10), end=10)
    desk.collect(4)
    desk.collect(4)
    commit(desk, 6)
    assert since(desk) == 1004
    commit(desk, 8)
    assert since(desk) == 1008, "the next record, in the middle of its batch"


def test_a_marker_after_the_commit_is_no_lag() -> None:
    desk = desk_with(batch(0, 4), end=5)
    desk.collect()
    commit(desk, 4)
    assert since(desk) is None, "the offset that is left may be a record"
    desk.add(A, marker(4))
    assert desk.collect() == {}
    assert since(desk) == -1
    desk.add(A, batch(5, 2))
    state_of(desk).update_log_offsets(7, 7, 0)
    desk.collect()
    assert since(desk) == 1005, "the commit is below the marker"


def test_a_gap_of_compaction_above_the_commit() -> None:
    desk = Desk(A)
    commit(desk, 0)
    state_of(desk).update_log_offsets(9, 9, 0)
    desk.add(A, batch(7, 2))
    desk.collect(1)
    assert since(desk) == 1007
    commit(desk, 3)
    assert since(desk) == 1007, "in the gap"


def test_records_of_aborted_transactions_leave_no_lag() -> None:
    builder = BatchBuilder()
    builder.try_append(1000, None, b"x", [])
    abort = build_end_transaction_marker(
        ControlRecordType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5, base_offset=1
    )
    desk = desk_with(builder.build(0, 1, 0, 0, True) + abort, end=2, aborted=[(1, 0)])
    commit(desk, 0)
    assert desk.collect() == {}
    assert since(desk) == -1


def test_a_seek_forgets_the_records_behind_it_and_keeps_those_before_it() -> None:
    desk = desk_with(batches(0, 30, 10), end=30)
    commit(desk, 0)
    desk.collect(10)
    desk.collect(10)
    desk.subscriptions.seek(A, FetchPosition(10))
    desk.apply()
    assert since(desk) == 1000
    desk.subscriptions.seek(A, FetchPosition(0))
    desk.apply()
    assert since(desk) is None
    desk.add(A, batch(0, 5))
    desk.collect()
    assert since(desk) == 1000


def test_without_commits_of_its_own_the_position_counts() -> None:
    desk = Desk(A)
    desk.subscriptions.count_by_position()
    state_of(desk).update_log_offsets(20, 20, 0)
    desk.add(A, batches(0, 20, 10))
    desk.collect(10)
    assert since(desk, by_position=True) == 1010
    assert state_of(desk).lag_marks is None, "no memory without need"
    desk.collect(10)
    assert since(desk, by_position=True) == -1


def _iterate(desk: Desk) -> None:
    assert desk.buffer.next_record(500) is not None
    ahead = desk.buffer.prefetched()
    for _ in range(4):
        ahead.pop()
    desk.buffer.commit_taken()


def _columns(desk: Desk) -> None:
    desk.buffer.collect_columns(ColumnsBuilder(), 5, 1_000_000)


@pytest.mark.parametrize("read", [_iterate, _columns, lambda desk: desk.collect(5)])
def test_all_ways_to_read_leave_the_same_lag(read: Callable[[Desk], object]) -> None:
    desk = desk_with(batches(0, 20, 4), end=20)
    commit(desk, 0)
    read(desk)
    assert since(desk) == 1000
    read(desk)
    commit(desk, 5)
    assert since(desk) == 1005
    commit(desk, 10)
    assert since(desk) == 1010


def test_a_record_without_a_time_and_one_of_the_future() -> None:
    assert age_of(None, NOW) is None
    assert age_of(-1, NOW) is None
    assert age_of(NOW + 5000, NOW) == 0.0
    assert age_of(0, NOW) == 1000.0


def test_marks_are_few_when_nothing_is_committed() -> None:
    desk = Desk(A)
    state_of(desk).update_log_offsets(1000, 1000, 0)
    for at in range(1000):
        desk.add(A, batch(at, 1))
        desk.collect()
    marks = state_of(desk).lag_marks
    assert marks is not None
    assert len(marks) <= 2 * MOST_MARKS
    assert since(desk) == 1000
    commit(desk, 990)
    assert 1980 < (since(desk) or 0) <= 1990, "some marks were dropped"


def test_a_commit_that_goes_back_leaves_an_unknown_age() -> None:
    desk = desk_with(batch(0, 20), end=20)
    desk.collect()
    commit(desk, 20)
    assert since(desk) == -1
    assert state_of(desk).lag_marks == [], "no memory without need"
    commit(desk, 5)
    assert since(desk) is None
    commit(desk, 20)
    assert since(desk) == -1


def test_the_marks_of_a_topic_made_again_are_forgotten() -> None:
    desk = desk_with(batch(0, 5), end=5)
    desk.collect()
    commit(desk, 5)
    state_of(desk).forget_log()
    assert (state_of(desk).committed, state_of(desk).lag_marks) == (-1, None)
    assert since(desk) is None


def test_a_fetch_with_a_damaged_header_counts_as_far_as_it_goes() -> None:
    desk = desk_with(batch(0, 2) + b"\xff" * 80, end=2)
    assert since(desk) == 1000
    assert isinstance(CompletedFetch(state_of(desk), b"", fetch_offset=0).next_timestamp, type(None))


def test_marks_are_bounded_within_one_fetch() -> None:
    """Records are taken one by one, and nothing is committed until the end."""
    desk = desk_with(batch(0, 200), end=200)
    for _ in range(200):
        desk.collect(1)
    marks = state_of(desk).lag_marks
    assert marks is not None
    assert len(marks) <= 2 * MOST_MARKS
    assert marks[0] == 0
    commit(desk, 199)
    assert len(marks) == 2, "of the records that are not committed"


def test_marks_end_when_records_count_by_position() -> None:
    desk = desk_with(batch(0, 3), end=3)
    desk.collect(1)
    desk.subscriptions.count_by_position()
    desk.collect(1)
    assert state_of(desk).lag_marks is None
