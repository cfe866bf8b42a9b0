"""Finished records: the offsets that may be committed while records are processed in any order."""

from __future__ import annotations

import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyconsumer import OffsetAndMetadata, RecordProgress, TopicPartition
from pyconsumer.consumer.arguments import offsets_after
from pyconsumer.consumer.auto_offset_reset import EARLIEST
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.partition_state import FetchPosition
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.errors import ConfigurationError, IllegalStateError
from tests.unit.consumer.builders import record

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)


def next_offset(progress: RecordProgress, tp: TopicPartition = A) -> int | None:
    found = progress.take().get(tp)
    return None if found is None else found.offset


def test_records_finished_without_a_gap_may_be_committed_once() -> None:
    progress = RecordProgress()
    records = [record(n) for n in (3, 4, 7, 8)]  # 5 and 6 are not there: compaction, or the end of a transaction
    progress.add(records)
    assert (len(progress), next_offset(progress)) == (4, None)
    assert progress.finish(records[1])
    assert (len(progress), next_offset(progress)) == (3, None)
    assert progress.finish(records[0])
    assert next_offset(progress) == 5
    assert next_offset(progress) is None, "it was taken"
    assert progress.finish(records[3])
    assert progress.finish(records[2])
    assert (len(progress), next_offset(progress)) == (0, 9)


def test_a_record_counts_once_and_only_if_it_was_added() -> None:
    progress = RecordProgress()
    assert not progress.finish(record(1))
    progress.add(record(1))
    assert progress.finish(record(1))
    assert not progress.finish(record(1))
    assert not progress.finish(record(2))


def test_partitions_that_went_away_count_no_longer() -> None:
    progress = RecordProgress()
    progress.add([record(1), record(1, topic="b")])
    progress.finish(record(1))
    progress.drop([A])
    assert progress.take() == {}
    assert not progress.finish(record(1))
    assert (len(progress), progress.wait([A], timeout_ms=0), progress.wait(timeout_ms=0)) == (1, True, False)


def test_records_read_again_replace_themselves_and_later_ones() -> None:
    progress = RecordProgress()
    progress.add([record(n) for n in range(5)])
    progress.finish(record(3))
    progress.add(record(2))  # after a seek to 2
    for n in (0, 1):
        progress.finish(record(n))
    assert (len(progress), next_offset(progress)) == (1, 2), "3 and 4 will come again"
    progress.add([record(3), record(4)])
    progress.finish(record(2))
    assert next_offset(progress) == 3


def test_waiting_ends_with_the_last_record() -> None:
    progress = RecordProgress()
    progress.add([record(1), record(1, topic="b")])
    waited = threading.Thread(target=lambda: progress.wait([A]))
    waited.start()
    progress.finish(record(1, topic="b"))
    assert not progress.wait(timeout_ms=0)
    progress.finish(record(1))
    waited.join(20)
    assert not waited.is_alive()


@settings(deadline=None)
@given(st.sets(st.integers(0, 30), min_size=1), st.randoms(use_true_random=False))
def test_unfinished_records_are_never_below_the_offset_to_commit(offsets: set[int], random: object) -> None:
    progress = RecordProgress()
    known = sorted(offsets)
    progress.add([record(n) for n in known])
    order = list(known)
    random.shuffle(order)  # type: ignore[attr-defined]
    open_ones, committed = set(known), 0
    for n in order:
        assert progress.finish(record(n))
        open_ones.remove(n)
        committed = next_offset(progress) or committed
        assert committed <= min(open_ones, default=99)
        assert not [k for k in known if committed <= k < min(open_ones, default=99)], "all that is finished counts"
    assert committed == known[-1] + 1


# ---------------------------------------------------------------- storing


def stored(*partitions: TopicPartition) -> SubscriptionState:
    subscriptions = SubscriptionState(EARLIEST, store_positions=False)
    subscriptions.subscribe({tp.topic for tp in partitions})
    subscriptions.assign_from_subscribed(partitions)
    return subscriptions


def test_only_stored_offsets_are_committed() -> None:
    subscriptions = stored(A, B)
    subscriptions.seek(A, FetchPosition(7))
    assert subscriptions.all_consumed() == {}
    subscriptions.store_offsets({A: OffsetAndMetadata(3)})
    assert subscriptions.all_consumed() == {A: OffsetAndMetadata(3)}


def test_stored_offsets_end_with_the_assignment() -> None:
    subscriptions = stored(A, B)
    subscriptions.store_offsets({A: OffsetAndMetadata(3), B: OffsetAndMetadata(4)})
    subscriptions.assign_from_subscribed([B])
    assert subscriptions.all_consumed() == {B: OffsetAndMetadata(4)}, "kept as its partition was"
    with pytest.raises(IllegalStateError, match="not assigned to this consumer: a-0"):
        subscriptions.store_offsets({B: OffsetAndMetadata(9), A: OffsetAndMetadata(3)})
    assert subscriptions.all_consumed() == {B: OffsetAndMetadata(4)}, "nothing of such a call is stored"
    subscriptions.assign_from_subscribed([A, B])
    assert subscriptions.all_consumed() == {B: OffsetAndMetadata(4)}, "another owner may have committed since"


def test_storing_needs_its_setting_and_a_group() -> None:
    subscriptions = SubscriptionState(EARLIEST)
    subscriptions.assign_from_user([A])
    with pytest.raises(IllegalStateError, match="enable_auto_offset_store=False"):
        subscriptions.store_offsets({A: OffsetAndMetadata(3)})
    with pytest.raises(ConfigurationError, match="needs a group_id"):
        CONSUMER_SETTINGS.build({"bootstrap_servers": "a:1", "enable.auto.offset.store": "false"})


def test_which_offsets_may_be_stored() -> None:
    after = {A: OffsetAndMetadata(6, "", record(5).leader_epoch)}
    assert offsets_after(record(5)) == after
    assert offsets_after([record(5), record(4)]) == after, "the highest offset counts, in whatever order"
    assert offsets_after(ConsumerRecords({A: [record(4), record(5)]})) == after
    assert offsets_after({A: 3}) == {A: 3}
    for wrong in (5, [5], "a"):
        with pytest.raises(TypeError, match="records, or a dictionary of TopicPartition to offset, are needed"):
            offsets_after(wrong)


def test_gaps_travel_in_the_metadata_and_are_not_processed_again() -> None:
    progress = RecordProgress(gaps=True)
    records = [record(n) for n in (3, 4, 7, 8, 9)]
    progress.add(records)
    for one in (records[1], records[2], records[4]):
        progress.finish(one)
    taken = progress.take()[A]
    assert taken.offset == 3
    assert progress.take() == {}, "nothing has changed"

    successor = RecordProgress(gaps=True)
    successor.restore(A, taken)
    assert [one.offset for one in successor.add(records)] == [3, 8]
    successor.finish(records[0])
    assert successor.take()[A].offset == 8
    successor.finish(records[3])
    assert successor.take()[A] == OffsetAndMetadata(10, "", records[4].leader_epoch)


def test_only_records_above_the_offset_were_finished_and_are_committed() -> None:
    progress = RecordProgress(gaps=True)
    progress.add([record(n) for n in (5, 6, 7)])
    progress.finish(record(6))
    first = progress.take()[A]
    progress.finish(record(7))
    second = progress.take()[A]
    assert (first.offset, second.offset) == (5, 5)
    assert first.metadata != second.metadata


def test_without_gaps_the_metadata_is_empty_and_only_a_move_is_taken() -> None:
    progress = RecordProgress()
    progress.add([record(n) for n in (5, 6, 7)])
    progress.finish(record(5))
    assert progress.take()[A].metadata == ""
    progress.finish(record(7))
    assert progress.take() == {}
    assert progress.take(again=True)[A].offset == 6


def test_restored_records_count_no_longer_after_a_seek_back() -> None:
    progress = RecordProgress(gaps=True)
    before = RecordProgress(gaps=True)
    before.add([record(n) for n in (5, 6, 7)])
    before.finish(record(6))
    progress.restore(A, before.take()[A])
    assert [one.offset for one in progress.add([record(2), record(5), record(6)])] == [2, 5, 6]


def test_a_polls_end_counts_when_its_records_are_finished() -> None:
    progress = RecordProgress()
    after = {A: (9, "", 3)}  # 7 and 8 are markers of transactions
    progress.add(ConsumerRecords({A: [record(5), record(6)]}, after))
    progress.finish(record(5))
    assert next_offset(progress) == 6
    progress.finish(record(6))
    assert next_offset(progress) == 9
    progress.add(ConsumerRecords({}, {A: (12, "", 3)}))
    assert next_offset(progress) == 12


def test_the_oldest_unfinished_record_of_each_partition() -> None:
    progress = RecordProgress()
    progress.add([record(5), record(6), record(1, topic="b")])
    progress.finish(record(5))
    progress.finish(record(1, topic="b"))
    assert progress.unfinished() == {A: 6}


def test_a_position_that_went_back_is_committed_lower() -> None:
    progress = RecordProgress(gaps=True)
    progress.add([record(n) for n in range(90, 100)])
    for n in range(90, 100):
        progress.finish(record(n))
    assert progress.take()[A].offset == 100
    progress.add([record(n) for n in (50, 51, 52)])  # the topic was made again
    progress.finish(record(51))
    assert progress.take()[A].offset == 50
    progress.finish(record(50))
    assert progress.take()[A].offset == 52


def test_restored_records_that_were_not_read_yet_stay_in_the_metadata() -> None:
    before = RecordProgress(gaps=True)
    before.add([record(n) for n in range(10, 30)])
    for n in range(20, 30):
        before.finish(record(n))
    second = RecordProgress(gaps=True)
    second.restore(A, before.take()[A])
    second.add(record(10))
    second.finish(record(10))
    third = RecordProgress(gaps=True)
    third.restore(A, second.take()[A])
    assert [one.offset for one in third.add([record(n) for n in range(11, 31)])] == [*range(11, 20), 30]


def test_finished_records_take_no_memory_while_an_older_one_is_not_finished() -> None:
    progress = RecordProgress(gaps=True)
    progress.add(record(0))
    for n in range(1, 20_001):
        progress.add(record(n))
        progress.finish(record(n))
    assert progress.take()[A].offset == 0
    assert len(pickle.dumps(progress.unfinished())) < 200
    assert len(progress) == 1
