"""Buffered responses, before their records are returned."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import Future
from typing import Any

import pytest

from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.fetch_buffer import FetchBuffer
from pyconsumer.consumer.partition_state import FetchPosition
from pyconsumer.errors import CorruptRecordError, RecordDeserializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.records import ColumnsBuilder, ConsumerRecord, ControlRecordType, build_end_transaction_marker
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.unit.consumer.builders import batch, batches
from tests.unit.consumer.worlds import Desk

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_1200_records_come_as_500_500_and_200() -> None:
    desk = Desk(A)
    desk.add(A, batches(0, 1200, 100))

    taken = [desk.collect(500)[A] for _ in range(3)]

    assert [len(offsets) for offsets in taken] == [500, 500, 200]
    assert [offset for offsets in taken for offset in offsets] == list(range(1200))
    assert desk.collect() == {}


def test_responses_are_returned_in_the_order_of_their_arrival() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 3))
    desk.add(B, batch(0, 2))
    desk.add(A, batch(3, 3))

    assert desk.collect(4) == {A: [0, 1, 2], B: [0]}
    assert desk.collect() == {B: [1], A: [3, 4, 5]}


def test_two_responses_of_one_partition_make_one_list() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 2))
    desk.add(A, batch(2, 2))

    assert desk.collect() == {A: [0, 1, 2, 3]}


def test_the_position_follows_the_returned_records() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 10, leader_epoch=6))
    assert desk.position(A) == 0

    desk.collect(4)
    assert desk.position(A) == 4
    assert desk.subscriptions.all_consumed() == {A: OffsetAndMetadata(4, "", 6)}

    assert desk.collect() == {A: [4, 5, 6, 7, 8, 9]}
    assert desk.collect() == {}
    assert desk.position(A) == 10


def test_hidden_records_move_the_position_and_add_no_key() -> None:
    desk = Desk(A)
    marker = build_end_transaction_marker(
        ControlRecordType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
    )
    desk.add(A, marker)

    assert desk.collect() == {}
    assert desk.position(A) == 1


def test_records_of_unassigned_partitions_are_dropped() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 3))
    desk.add(B, batch(0, 3))
    desk.subscriptions.assign_from_user([B])
    desk.apply()

    assert desk.collect() == {B: [0, 1, 2]}


def test_a_partition_assigned_again_does_not_get_its_old_records() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 3))
    desk.subscriptions.assign_from_user([B])
    desk.subscriptions.assign_from_user([A, B])
    desk.subscriptions.seek(A, FetchPosition(0))

    assert desk.collect() == {}


def test_seek_drops_buffered_records_and_their_memory_at_once() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 3))
    assert desk.budget.held > 0

    desk.subscriptions.seek(A, FetchPosition(2))
    desk.apply()

    assert desk.budget.held == 0
    assert desk.collect() == {}
    assert desk.position(A) == 2


def test_a_paused_partition_keeps_its_data_for_after_resume_and_in_order() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 2))
    desk.add(A, batch(2, 2))
    desk.add(B, batch(0, 2))
    desk.subscriptions.pause(A)
    desk.apply()

    assert desk.collect() == {B: [0, 1]}
    desk.add(A, batch(4, 2))  # it was under way
    assert desk.collect() == {}
    assert not desk.buffer

    desk.subscriptions.resume(A)
    desk.apply()
    assert desk.collect() == {A: [0, 1, 2, 3, 4, 5]}


def test_records_kept_for_a_pause_do_not_keep_their_frame() -> None:
    desk = Desk(A, B)
    frame = bytearray(batch(0, 3) + bytes(100_000))

    class Watched(bytearray):
        pass

    big = Watched(frame)
    gone = weakref.ref(big)
    size = len(frame) - 100_000
    desk.add(A, memoryview(big)[:size])
    del big
    desk.subscriptions.pause(A)
    desk.apply()
    desk.collect()
    gc.collect()

    assert gone() is None
    desk.subscriptions.resume(A)
    desk.apply()
    assert desk.collect() == {A: [0, 1, 2]}


def test_a_pause_in_the_middle_of_a_response_keeps_each_record_once() -> None:
    desk = Desk(A, B)
    frame = memoryview(batch(0, 9) + bytes(100_000))
    desk.add(A, frame[: len(frame) - 100_000])
    assert desk.collect(4) == {A: [0, 1, 2, 3]}
    desk.subscriptions.pause(A)
    desk.apply()
    assert desk.collect() == {}

    desk.subscriptions.resume(A)
    desk.apply()

    assert desk.collect() == {A: [4, 5, 6, 7, 8]}


def test_an_error_comes_after_the_records_before_it() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 2))
    desk.error(B, RuntimeError("no"))
    desk.add(A, batch(2, 2))

    assert desk.collect() == {A: [0, 1]}
    with pytest.raises(RuntimeError, match="no"):
        desk.collect()
    assert desk.collect() == {A: [2, 3]}
    assert desk.collect() == {}


def test_an_outdated_error_is_skipped() -> None:
    desk = Desk(A, B)
    desk.error(B, None)
    desk.add(A, batch(0, 2))

    assert desk.collect() == {A: [0, 1]}


def test_while_an_error_waits_its_partition_is_blocked() -> None:
    desk = Desk(A, B)
    desk.error(B, RuntimeError("no"))
    assert desk.subscriptions.state(B).fetch_blocked

    with pytest.raises(RuntimeError):
        desk.collect()

    assert not desk.subscriptions.state(B).fetch_blocked


def test_records_before_an_error_do_not_unblock_its_partition() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 2))
    desk.error(A, RuntimeError("no"))
    assert desk.collect() == {A: [0, 1]}
    assert desk.subscriptions.state(A).fetch_blocked


def damaged(first: int, count: int) -> bytes:
    data = bytearray(batch(first, count))
    data[-1] ^= 0xFF
    return bytes(data)


def test_corrupt_data_raises_until_a_seek_while_other_partitions_continue() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 2) + damaged(2, 2))
    desk.add(A, batch(4, 2))
    desk.add(B, batch(0, 1))

    assert desk.collect() == {A: [0, 1]}
    with pytest.raises(CorruptRecordError) as caught:
        desk.collect()
    assert (caught.value.topic_partition, caught.value.offset) == (A, 2)
    assert desk.position(A) == 2
    assert desk.collect() == {B: [0]}
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            desk.collect()

    desk.subscriptions.seek(A, FetchPosition(4))
    desk.apply()
    desk.add(A, batch(4, 2))
    assert desk.collect() == {A: [4, 5]}


def test_a_header_that_makes_no_sense_blocks_further_fetches_of_its_partition() -> None:
    desk = Desk(A, B)
    data = bytearray(batch(0, 2) + batch(2, 2))
    data[len(batch(0, 2)) + 16] = 9

    desk.add(A, bytes(data))

    assert desk.subscriptions.state(A).fetch_blocked
    assert desk.collect() == {A: [0, 1]}
    with pytest.raises(CorruptRecordError):
        desk.collect()


def test_the_budget_includes_paused_fetches() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 10))
    desk.add(A, batch(10, 10))
    desk.add(B, batch(0, 10))
    desk.subscriptions.pause(A)
    assert desk.budget.paused == 0
    assert desk.collect() == {B: list(range(10))}
    assert desk.budget.paused == desk.budget.held > 0
    desk.add(A, batch(20, 10))  # it had been asked for before
    assert desk.budget.paused == desk.budget.held

    desk.subscriptions.resume(A)
    desk.apply()
    assert desk.budget.paused == 0 < desk.budget.held
    desk.subscriptions.pause(A)
    desk.collect()
    assert desk.budget.paused == desk.budget.held > 0
    desk.subscriptions.seek(A, FetchPosition(5))
    desk.apply()
    assert desk.budget.paused == desk.budget.held == 0


def test_the_budget_includes_buffered_records() -> None:
    desk = Desk(A)
    data = batch(0, 10)
    desk.add(A, data)
    assert desk.budget.held == len(data)
    state = desk.subscriptions.state(A)
    assert state.buffered_fetches == 1

    desk.collect()

    assert desk.budget.held == 0
    assert state.buffered_fetches == 0


def test_the_budget_includes_decompressed_bytes() -> None:
    desk = Desk(A)
    data = batch(0, 200, codec="gzip", size=500)
    desk.add(A, data)
    desk.collect(1)

    assert desk.budget.held > 100_000

    desk.collect()
    assert desk.budget.held == 0


def frame_of(*sets: bytes, overhead: int = 50) -> tuple[bytearray, list[memoryview]]:
    """A response with these record sets, and the views of it."""
    frame = bytearray(b"".join(bytes(overhead) + data for data in sets))
    views, end = [], 0
    for data in sets:
        end += overhead + len(data)
        views.append(memoryview(frame)[end - len(data) : end])
    return frame, views


def is_free(frame: bytearray) -> bool:
    """Return whether the buffer has no views left."""
    gc.collect()  # an error's traceback may have one
    try:
        frame.append(0)
    except BufferError:
        return False
    del frame[-1:]
    return True


def test_a_response_is_held_whole_until_its_last_partition_is_returned() -> None:
    desk = Desk(A, B)
    frame, views = frame_of(batch(0, 10), batch(0, 10))
    desk.add(A, views.pop(0))
    desk.add(B, views.pop(0))
    assert desk.budget.held == len(frame)

    assert desk.collect(15) == {A: list(range(10)), B: [0, 1, 2, 3, 4]}
    assert desk.budget.held >= len(frame)  # and what decoding takes
    assert not is_free(frame)
    desk.subscriptions.seek(B, FetchPosition(3))
    desk.apply()

    assert (desk.budget.held, is_free(frame)) == (0, True)


def test_columns_expect_the_size_of_buffered_records_without_paused_ones() -> None:
    class Columns:
        """Records the expected size."""

        expected = -1
        weight = 0

        def expect(self, size_bytes: int) -> None:
            self.expected = size_bytes

        def __len__(self) -> int:
            return 0

    desk = Desk(A, B)
    _, views = frame_of(batch(0, 200), batch(0, 10))
    sizes = [len(view) for view in views]
    desk.add(A, views.pop(0))
    desk.add(B, views.pop(0))

    def expected(most: int = 1 << 20) -> int:
        columns = Columns()
        desk.buffer.collect_columns(columns, 0, most)  # type: ignore[arg-type]
        return columns.expected

    assert (expected(), expected(100)) == (sum(sizes), 100)
    desk.collect(200)
    assert expected() == sizes[1]
    desk.collect()
    assert expected() == 0


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_paused_partition_holds_its_own_part_of_a_response(place: str) -> None:
    desk = Desk(A, B)
    frame, views = frame_of(batch(0, 10), batch(0, 20))
    size = len(views[0])
    order = (A, B) if place == "first" else (B, A)
    desk.add(order[0], views.pop(0) if place == "first" else views.pop(1))
    desk.add(order[1], views.pop())
    assert desk.collect(5) == {order[0]: [0, 1, 2, 3, 4]}
    desk.subscriptions.pause(A)
    desk.collect()
    desk.collect()

    assert (desk.budget.held, desk.budget.paused) == (size, size)
    assert is_free(frame)
    desk.subscriptions.resume(A)
    desk.apply()
    assert desk.collect() == {A: list(range(5 if place == "first" else 0, 10))}
    assert (desk.budget.held, desk.budget.paused) == (0, 0)


def test_a_paused_partition_with_most_of_a_response_keeps_the_whole() -> None:
    desk = Desk(A, B)
    frame, views = frame_of(batch(0, 1), batch(0, 20))
    desk.add(B, views.pop(0))
    desk.add(A, views.pop(0))
    desk.subscriptions.pause(A)

    assert desk.collect() == {B: [0]}
    assert desk.collect() == {}
    assert (desk.budget.held, desk.budget.paused, is_free(frame)) == (len(frame), len(frame), False)
    desk.subscriptions.resume(A)
    desk.apply()
    assert desk.collect() == {A: list(range(20))}
    assert (desk.budget.held, desk.budget.paused, is_free(frame)) == (0, 0, True)


def test_a_partition_with_a_damaged_batch_does_not_keep_the_others_memory() -> None:
    desk = Desk(A, B)
    damaged = bytearray(batch(0, 5))
    damaged[-1] ^= 1
    frame, views = frame_of(bytes(damaged), batch(0, 20))
    desk.add(A, views.pop(0))
    desk.add(B, views.pop(0))
    with pytest.raises(CorruptRecordError):
        desk.collect()

    assert desk.collect() == {B: list(range(20))}
    assert (desk.budget.held, is_free(frame)) == (len(damaged), True)
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            desk.collect()
    desk.subscriptions.seek(A, FetchPosition(5))
    desk.apply()
    assert desk.budget.held == 0


def test_clearing_lets_go_of_all_memory() -> None:
    desk = Desk(A, B)
    frame, views = frame_of(batch(0, 10), batch(0, 10))
    desk.add(A, views.pop(0))
    desk.add(B, views.pop(0))
    desk.buffer.clear()

    assert (desk.budget.held, is_free(frame)) == (0, True)
    desk.add(A, batch(10, 1))
    assert desk.budget.held == len(batch(10, 1))


def test_a_drained_partition_can_be_fetched_again() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 10))
    desk.add(A, batch(10, 10))
    desk.subscriptions.take_changed()

    desk.collect(5)
    assert not desk.subscriptions.changed
    desk.collect(5)
    assert desk.subscriptions.take_changed() == [A]
    desk.collect(10)
    assert not desk.subscriptions.changed  # it was in the request already


def test_a_poll_that_was_interrupted_takes_its_moves_back() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 5))
    desk.add(A, batch(5, 5))
    desk.collect(3)

    desk.collect(4)
    desk.buffer.roll_back()
    desk.apply()

    assert desk.position(A) == 3
    assert desk.subscriptions.state(A).fetch_offset == 3
    assert desk.collect() == {}
    desk.add(A, batch(0, 5), at=3)
    assert desk.collect() == {A: [3, 4]}
    desk.collect()
    desk.buffer.roll_back()
    assert desk.position(A) == 5


def test_the_records_in_hand_are_those_of_the_last_call() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 3))
    desk.add(B, batch(0, 3))
    assert desk.buffer.in_hand() == {}
    desk.collect(2)
    assert desk.buffer.in_hand() == {desk.subscriptions.state(A): 0}
    desk.collect(3)
    assert desk.buffer.in_hand() == {desk.subscriptions.state(A): 2, desk.subscriptions.state(B): 0}
    desk.buffer.note_delivered()
    assert desk.buffer.in_hand() == {}


# -- record by record ------------------------------------------------------------------------------------------------


def test_iteration_moves_the_position_record_by_record() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 3))

    for offset in range(3):
        record = desk.buffer.next_record(500)
        assert record is not None
        assert record.offset == offset
        assert desk.position(A) == offset + 1
    assert desk.buffer.next_record(500) is None


def test_a_seek_during_iteration_drops_the_rest() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 10))
    desk.buffer.next_record(500)

    desk.subscriptions.seek(A, FetchPosition(7))

    assert desk.buffer.next_record(500) is None
    assert desk.position(A) == 7


def test_poll_continues_after_iteration() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 6))
    for _ in range(2):
        desk.buffer.next_record(4)

    assert desk.collect(3) == {A: [2, 3, 4]}
    assert desk.collect() == {A: [5]}


def test_a_pause_during_iteration_keeps_the_rest() -> None:
    desk = Desk(A, B)
    frame = memoryview(batch(0, 4) + bytes(100_000))
    desk.add(A, frame[: len(frame) - 100_000])
    desk.buffer.next_record(500)
    desk.subscriptions.pause(A)
    desk.apply()
    assert desk.buffer.next_record(500) is None

    desk.subscriptions.resume(A)
    desk.apply()

    record = desk.buffer.next_record(500)
    assert record is not None
    assert record.offset == 1


# -- columns ---------------------------------------------------------------------------------------------------------


def test_columns_move_the_position_too() -> None:
    desk = Desk(A, B)
    desk.add(A, batch(0, 10))
    desk.add(B, batch(0, 5))

    columns = ColumnsBuilder()
    assert desk.buffer.collect_columns(columns, 12, 1 << 20) == [(A, 10), (B, 2)]

    assert list(columns.build().offsets) == [*range(10), 0, 1]
    assert (desk.position(A), desk.position(B)) == (10, 2)


def test_columns_after_iteration_begin_at_the_position() -> None:
    desk = Desk(A)
    desk.add(A, batch(0, 10))
    desk.buffer.next_record(500)

    columns = ColumnsBuilder()
    assert desk.buffer.collect_columns(columns, 100, 1 << 20) == [(A, 9)]

    assert list(columns.build().offsets) == list(range(1, 10))


# -- deserializers ---------------------------------------------------------------------------------------------------


def refuse(*bad: int) -> Any:
    def value(data: bytes) -> int:
        number = int(data)
        if number in bad:
            raise ValueError(f"bad {number}")
        return number

    return value


def test_good_records_come_before_the_error_of_a_bad_one_and_the_error_repeats() -> None:
    desk = Desk(A, convert=Deserialization(None, refuse(3)))
    desk.add(A, batch(0, 6))

    assert desk.collect() == {A: [0, 1, 2]}
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as caught:
            desk.collect()
        assert (caught.value.topic_partition, caught.value.offset) == (A, 3)
        assert desk.position(A) == 3

    desk.subscriptions.seek(A, FetchPosition(4))
    desk.apply()
    desk.add(A, batch(4, 2))
    assert desk.collect() == {A: [4, 5]}


def test_an_error_of_the_second_partition_waits_until_the_first_ones_records_are_returned() -> None:
    desk = Desk(A, B, convert=Deserialization(None, refuse(50)))
    desk.add(A, batch(0, 3))
    desk.add(B, batch(50, 2), at=50)

    assert desk.collect() == {A: [0, 1, 2]}
    with pytest.raises(RecordDeserializationError):
        desk.collect()


def test_a_skipped_record_is_left_out() -> None:
    desk = Desk(A, convert=Deserialization(None, refuse(0, 2, 5), "skip"))
    desk.add(A, batch(0, 6))

    assert desk.collect() == {A: [1, 3, 4]}
    assert desk.position(A) == 6


def test_iteration_raises_at_the_bad_record_too() -> None:
    desk = Desk(A, convert=Deserialization(None, refuse(1)))
    desk.add(A, batch(0, 3))
    first = desk.buffer.next_record(500)
    assert first is not None
    assert first.value == 0

    for _ in range(2):
        with pytest.raises(RecordDeserializationError):
            desk.buffer.next_record(500)
        assert desk.position(A) == 1


def test_a_deserializer_that_seeks_gets_the_records_there() -> None:
    desk = Desk(A)

    def value(data: bytes) -> bytes:
        desk.subscriptions.seek(A, FetchPosition(40))
        return data

    desk.buffer = FetchBuffer(desk.subscriptions, desk.budget, Deserialization(None, value))
    desk.add(A, batch(0, 3))

    assert desk.collect() == {}
    assert desk.position(A) == 40


class _WaitsForSchemas:
    """A conversion of records whose partitions wait for something."""

    def __init__(self, *waiting: TopicPartition) -> None:
        self.arrivals = {tp: Future[None]() for tp in waiting}

    def __call__(self, records: list[ConsumerRecord[Any, Any]]) -> Any:
        arrival = self.arrivals.get(records[0].topic_partition)
        if arrival is None or arrival.done():
            return records, len(records), None
        return [], 0, PendingError(arrival, "a schema")


def test_a_partition_that_waits_for_a_schema_does_not_hold_up_the_others() -> None:
    convert = _WaitsForSchemas(A)
    desk = Desk(A, B, convert=convert)
    desk.add(A, batch(0, 2))
    desk.add(B, batch(0, 2))

    assert desk.collect() == {B: [0, 1]}
    with pytest.raises(PendingError):
        desk.collect()
    convert.arrivals[A].set_result(None)
    assert desk.collect() == {A: [0, 1]}


def test_iteration_takes_the_records_of_another_partition_while_one_waits_for_a_schema() -> None:
    convert = _WaitsForSchemas(A)
    desk = Desk(A, B, convert=convert)
    desk.add(A, batch(0, 1))
    desk.add(B, batch(0, 1))

    record = desk.buffer.next_record(1)
    assert record is not None
    assert record.topic_partition == B
    with pytest.raises(PendingError):
        desk.buffer.next_record(1)


def test_everything_that_the_partitions_wait_for_is_known() -> None:
    convert = _WaitsForSchemas(A, B)
    desk = Desk(A, B, convert=convert)
    desk.add(A, batch(0, 1))
    desk.add(B, batch(0, 1))

    with pytest.raises(PendingError):
        desk.collect()
    assert [pending.arrival for pending in desk.buffer.pending] == [convert.arrivals[A], convert.arrivals[B]]
    convert.arrivals[B].set_result(None)
    assert desk.collect() == {B: [0]}
