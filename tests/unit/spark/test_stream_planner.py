"""The offsets of micro-batches, run as Spark runs them: with crashes, and with logs that change in between."""

from __future__ import annotations

import logging

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.errors import DataLossError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.stream_planner import Offsets, StreamPlanner
from pyconsumer.structs import TopicPartition
from tests.unit.spark.fake_cluster import A0, A1, A2, FakeCluster

LEAST = {"kafka.bootstrap.servers": "x", "subscribe": "a"}


class Query:
    """A streaming query with a checkpoint, as far as its source is concerned.

    Attributes:
        offsets: ends of the batches that were written down.
        commits: how many of them were finished.
        read: (partition, start, end) of each range, by batch.
    """

    def __init__(self, cluster: FakeCluster, **options: str) -> None:
        self.cluster = cluster
        self.options = SourceOptions.parse(LEAST | {name.replace("__", "."): text for name, text in options.items()})
        self.clock = ManualClock(1000.0)
        self.offsets: list[Offsets] = []
        self.commits = 0
        self.read: list[list[tuple[int, int, int]]] = []
        self.start()

    def start(self, *, available_now: bool = False) -> None:
        """Start, for the first time or again. A batch that was not finished is run again."""
        self.planner = StreamPlanner(self.options, self.cluster, now=self.clock.now, sleep=self.clock.advance)
        if available_now:
            self.planner.prepare_available_now()
        if self.commits < len(self.offsets):
            self._run()

    def _position(self) -> Offsets:
        return self.offsets[self.commits - 1] if self.commits else self.planner.initial()

    def plan(self, *, limited: bool = True) -> bool:
        """Log the next batch, if there is one."""
        assert self.commits == len(self.offsets)
        self.clock.advance(1.0)
        start = self._position()
        end = self.planner.latest(start, limited=limited)
        if self.offsets and end == start:
            return False
        self.offsets.append(end)
        return True

    def _run(self) -> None:
        start = self.offsets[self.commits - 1] if self.commits else self.planner.initial()
        ranges = self.planner.ranges(start, self.offsets[self.commits])
        self.read.append([(found.partition, found.start, found.end) for found in ranges])
        self.commits += 1

    def trigger(self, *, limited: bool = True) -> list[tuple[int, int, int]] | None:
        """Run one trigger. Return its offsets, or None if there was no batch."""
        if not self.plan(limited=limited):
            return None
        self._run()
        return self.read[-1]

    def run_available(self) -> list[tuple[int, int, int]]:
        """Run with Trigger.AvailableNow. Return all offsets of its batches."""
        done = len(self.read)
        self.start(available_now=True)
        for _ in range(100):
            if self.trigger() is None:
                return [found for batch in self.read[done:] for found in batch]
        raise AssertionError("it does not end")


def grow(cluster: FakeCluster, tp: TopicPartition, count: int) -> None:
    start, end = cluster.logs[tp]
    cluster.logs[tp] = (start, end + count)


# -- where it begins ---------------------------------------------------------------------------------------------------


def test_from_the_earliest_the_first_batch_reads() -> None:
    query = Query(FakeCluster(a0=5, a1=3), startingOffsets="earliest")
    assert query.trigger() == [(0, 0, 5), (1, 0, 3)]
    assert query.trigger() is None
    grow(query.cluster, A1, 2)
    assert query.trigger() == [(1, 3, 5)]


def test_a_stream_begins_with_records_that_arrive_from_now_on() -> None:
    query = Query(FakeCluster(a0=5))
    assert query.trigger() == []  # it only writes down where the query begins
    assert query.trigger() is None
    grow(query.cluster, A0, 2)
    assert query.trigger() == [(0, 5, 7)]


def test_the_initial_offset_is_requested_twice_and_stays() -> None:
    query = Query(FakeCluster(a0=5))
    first = query.planner.initial()
    grow(query.cluster, A0, 100)
    assert query.planner.initial() is first


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"a":{"0":-1}}'},
        {"startingTimestamp": "99999", "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=str,
)
def test_a_crash_in_the_first_batch_loses_no_record(options: dict[str, str]) -> None:
    query = Query(FakeCluster(a0=5), **options)
    assert query.plan()
    assert query.offsets == [{A0: 5}]
    grow(query.cluster, A0, 10)  # while it is down
    query.start()
    assert query.read == [[]]
    assert query.trigger() == [(0, 5, 15)]


def test_the_first_batch_is_not_empty_if_the_start_does_not_move() -> None:
    for starting in ("earliest", '{"a":{"0":2}}', '{"a":{"0":-2}}'):
        query = Query(FakeCluster(a0=5), startingOffsets=starting)
        begin = 2 if "2}" in starting and "-2" not in starting else 0
        assert query.plan()
        query.start()  # after a crash
        assert query.read == [[(0, begin, 5)]]


def test_offsets_and_times() -> None:
    assert Query(FakeCluster(a0=9), startingOffsets='{"a":{"0":4}}').trigger() == [(0, 4, 9)]
    query = Query(FakeCluster(a0=9), startingTimestamp="650")
    assert query.trigger() == []
    assert query.trigger() == [(0, 7, 9)]


def test_a_stream_begins_at_the_position_of_a_group() -> None:
    cluster = FakeCluster(a0=9, a1=4)
    cluster.groups["g"] = {A0: 6}
    query = Query(cluster, startingOffsets="group", commitToGroup="g")
    assert query.trigger() == []
    cluster.groups["g"] = {A0: 9, A1: 4}  # somebody else commits: this no longer counts
    assert query.trigger() == [(0, 6, 9), (1, 0, 4)]


def test_a_group_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets=group needs.*commitToGroup or kafka.group.id"):
        Query(FakeCluster(a0=1), startingOffsets="group")
    Query(FakeCluster(a0=1), startingOffsets="group", kafka__group__id="g")


def test_a_stream_has_no_end() -> None:
    for name, text in (("endingOffsets", "latest"), ("endingTimestamp", "5"), ("endingOffsetsByTimestamp", "{}")):
        with pytest.raises(ConfigurationError, match=f"option {name} is for batch reads: a stream has no end"):
            Query(FakeCluster(a0=1), **{name: text})


# -- batches that are run again ----------------------------------------------------------------------------------------


def test_an_unfinished_batch_is_run_again_unchanged() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest")
    query.trigger()
    grow(query.cluster, A0, 5)
    assert query.plan()
    grow(query.cluster, A0, 5)
    query.start()
    assert query.read[-1] == [(0, 5, 10)]
    assert query.trigger() == [(0, 10, 15)]


def test_a_checkpoint_is_all_that_counts_after_a_restart() -> None:
    query = Query(FakeCluster(a0=5))
    query.trigger()
    grow(query.cluster, A0, 5)
    query.start()
    assert query.trigger() == [(0, 5, 10)]


def test_a_group_that_moves_back_has_no_effect_after_the_first_batch() -> None:
    cluster = FakeCluster(a0=9)
    cluster.groups["g"] = {A0: 6}
    query = Query(cluster, startingOffsets="group", commitToGroup="g")
    query.trigger()
    cluster.groups["g"] = {A0: 0}
    query.start()
    assert query.trigger() == [(0, 6, 9)]


# -- limits ------------------------------------------------------------------------------------------------------------


def test_offsets_of_a_batch_are_limited() -> None:
    query = Query(FakeCluster(a0=30, a1=10), startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert query.trigger() == [(0, 0, 15), (1, 0, 5)]
    assert query.trigger() == [(0, 15, 30), (1, 5, 10)]
    assert query.trigger() is None


def test_trigger_once_reads_all_records() -> None:
    query = Query(FakeCluster(a0=30), startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert query.trigger(limited=False) == [(0, 0, 30)]


def test_bytes_of_a_batch_are_limited() -> None:
    cluster = FakeCluster(a0=100, a1=100)
    cluster.bytes_each = {A0: 1000.0, A1: 3000.0}
    query = Query(cluster, startingOffsets="earliest", maxBytesPerTrigger="40k")
    assert query.trigger() == [(0, 0, 10), (1, 0, 10)]
    query = Query(cluster, startingOffsets="earliest", maxBytesPerTrigger="40k", maxOffsetsPerTrigger="8")
    assert query.trigger() == [(0, 0, 4), (1, 0, 4)]


def test_estimated_sizes_are_kept() -> None:
    cluster = FakeCluster(a0=100)
    cluster.bytes_each = {A0: 100.0}
    query = Query(cluster, startingOffsets="earliest", maxBytesPerTrigger="1000")
    assert query.trigger() == [(0, 0, 10)]
    cluster.bytes_each = {}
    assert query.trigger() == [(0, 10, 20)]


def test_a_batch_waits_for_enough_offsets() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    assert query.trigger() == [(0, 0, 5)]  # the first one does not wait
    grow(query.cluster, A0, 9)
    assert query.trigger() is None
    grow(query.cluster, A0, 1)
    assert query.trigger() == [(0, 5, 15)]
    grow(query.cluster, A0, 1)
    query.clock.advance(58.0)
    assert query.trigger() is None
    query.clock.advance(1.0)
    assert query.trigger() == [(0, 15, 16)]


def test_the_minimum_is_checked_before_the_maximum() -> None:
    query = Query(FakeCluster(a0=9), startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    assert query.trigger() == [(0, 0, 5)]
    assert query.trigger() is None
    grow(query.cluster, A0, 1)
    assert query.trigger() == [(0, 5, 10)]


def test_limits_that_contradict_each_other() -> None:
    with pytest.raises(
        ConfigurationError, match=r"minOffsetsPerTrigger \(6\) must not be greater than maxOffsets.*\(5\)"
    ):
        Query(FakeCluster(a0=9), minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")


# -- all that is available now -----------------------------------------------------------------------------------------


def test_available_now_reads_up_to_its_target_in_limited_batches() -> None:
    query = Query(FakeCluster(a0=25), startingOffsets="earliest", maxOffsetsPerTrigger="10")
    query.start(available_now=True)
    grow(query.cluster, A0, 100)  # later than the target
    assert [query.trigger() for _ in range(4)] == [[(0, 0, 10)], [(0, 10, 20)], [(0, 20, 25)], None]


def test_a_target_before_the_start_reads_no_record() -> None:
    query = Query(FakeCluster(a0=5))
    query.start(available_now=True)
    grow(query.cluster, A0, 3)  # between the target and the first look at the start
    assert query.trigger() == []
    assert query.offsets == [{A0: 8}]
    assert query.trigger() is None
    assert query.run_available() == []
    grow(query.cluster, A0, 2)
    assert query.run_available() == [(0, 8, 10)]


def test_available_now_ends_with_fewer_records_than_the_minimum() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest", minOffsetsPerTrigger="10")
    assert query.run_available() == [(0, 0, 5)]
    grow(query.cluster, A0, 1)
    assert query.run_available() == [(0, 5, 6)]


def test_available_now_after_a_crash_in_the_first_batch_still_reads() -> None:
    cluster = FakeCluster(a0=9)
    cluster.groups["g"] = {A0: 4}
    query = Query(cluster, startingOffsets="group", commitToGroup="g")
    assert query.plan()
    assert query.run_available() == [(0, 4, 9)]


def test_available_now_with_partitions_added_during_a_stop() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest")
    assert query.run_available() == [(0, 0, 5)]
    query.cluster.logs[A1] = (0, 2)
    assert query.run_available() == [(1, 0, 2)]


def test_available_now_skips_partitions_added_after_its_target() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest")
    query.start(available_now=True)
    query.cluster.logs[A1] = (0, 2)
    assert query.trigger() == [(0, 0, 5)]
    assert query.run_available() == [(1, 0, 2)]


# -- partitions that come and go ---------------------------------------------------------------------------------------


def test_new_partitions_are_read_from_their_beginning() -> None:
    query = Query(FakeCluster(a0=5))
    query.trigger()
    query.cluster.logs[A1] = (0, 3)
    assert query.trigger() == [(1, 0, 3)]
    query.cluster.logs[A2] = (0, 0)
    assert query.trigger() == []  # an empty one is written down at once
    grow(query.cluster, A2, 1)
    assert query.trigger() == [(2, 0, 1)]


def test_a_topic_that_comes_later() -> None:
    query = Query(FakeCluster(), subscribe="a")
    assert query.trigger() == []
    query.cluster.logs[A0] = (0, 3)
    assert query.trigger() == [(0, 0, 3)]


def test_the_first_records_of_a_new_partition_must_be_there() -> None:
    query = Query(FakeCluster(a0=5))
    query.trigger()
    query.cluster.logs[A1] = (2, 3)
    with pytest.raises(DataLossError, match=r"ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO.*a-1 begins at offset 2"):
        query.trigger()
    assert len(query.offsets) == 1
    lenient = Query(FakeCluster(a0=5), failOnDataLoss="false")
    lenient.trigger()
    lenient.cluster.logs[A1] = (2, 3)
    assert lenient.trigger() == [(1, 2, 3)]


def test_a_first_batch_deleted_before_its_repetition_is_lost_data() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest")
    assert query.plan()
    query.cluster.logs[A0] = (8, 9)  # while it is down
    with pytest.raises(DataLossError, match=r"PARTITION_OFFSET_CHANGED\] a-0: its offset went back from 8 to 5"):
        query.start()


def test_a_topic_deleted_since_partitions_were_listed_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    query = Query(FakeCluster(a0=5, a1=5), startingOffsets="earliest", failOnDataLoss="false")
    query.trigger()
    query.clock.advance(10.0)
    assert query.trigger() is None
    del query.cluster.logs[A1]  # the list of partitions is still fresh enough
    assert query.planner.latest(query.offsets[-1]) == {A0: 5}
    assert "partitions that the query reads were deleted: a-1" in caplog.text


@pytest.mark.parametrize("lenient", [True, False])
def test_a_named_topic_may_be_missing_once_the_query_has_begun(lenient: bool) -> None:
    query = Query(FakeCluster(a0=5, a1=5), startingOffsets="earliest", failOnDataLoss=str(not lenient).lower())
    query.planner.initial()
    assert query.cluster.missing_ok is False  # a wrong name raises
    query.planner.prepare_available_now()
    assert query.cluster.missing_ok is lenient


def test_deleted_partitions_are_lost_data() -> None:
    query = Query(FakeCluster(a0=5, a1=5), startingOffsets="earliest")
    query.trigger()
    del query.cluster.logs[A1]
    with pytest.raises(
        DataLossError,
        match=r"PARTITIONS_DELETED\] partitions that the query reads were deleted: a-1.*failOnDataLoss=false",
    ):
        query.trigger()
    assert len(query.offsets) == 1


def test_deleted_partitions_can_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    query = Query(FakeCluster(a0=5, a1=5), startingOffsets="earliest", failOnDataLoss="false")
    query.trigger()
    del query.cluster.logs[A1]
    grow(query.cluster, A0, 1)
    assert query.trigger() == [(0, 5, 6)]
    assert query.offsets[-1] == {A0: 6}
    assert query.trigger() is None
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


def test_a_log_that_ends_before_our_position_is_lost_data() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest")
    query.trigger()
    query.cluster.logs[A0] = (0, 3)
    with pytest.raises(DataLossError, match=r"PARTITION_OFFSET_CHANGED\] a-0 ends at offset 3, before offset 5"):
        query.trigger()
    assert len(query.offsets) == 1
    query.cluster.logs[A0] = (0, 6)
    assert query.trigger() == [(0, 5, 6)]


def test_a_recreated_log_can_be_read_from_its_end() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest", failOnDataLoss="false")
    query.trigger()
    query.cluster.logs[A0] = (0, 3)
    assert query.trigger() == []
    assert query.offsets[-1] == {A0: 3}
    grow(query.cluster, A0, 4)
    assert query.trigger() == [(0, 3, 7)]


def test_a_new_leader_that_lags_for_a_moment_does_no_harm() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets="earliest")
    query.trigger()
    query.cluster.stale = [{A0: 4}, {A0: 4}]
    assert query.trigger() is None


def test_a_start_beyond_the_end_is_reported() -> None:
    query = Query(FakeCluster(a0=5), startingOffsets='{"a":{"0":50}}')
    with pytest.raises(DataLossError, match="a-0 ends at offset 5, before offset 50"):
        query.trigger()
    query.start(available_now=True)
    with pytest.raises(DataLossError, match="a-0 ends at offset 5, before offset 50"):
        query.trigger()


# -- requests and reports ----------------------------------------------------------------------------------------------


def test_partitions_are_listed_once_a_second() -> None:
    query = Query(FakeCluster(a0=5))
    start = query.planner.initial()
    listed = query.cluster.listed
    for _ in range(50):
        query.planner.latest(start)
    assert query.cluster.listed == listed
    query.clock.advance(1.0)
    query.planner.latest(start)
    assert query.cluster.listed == listed + 1


def test_the_latest_known_offsets_are_the_true_ends() -> None:
    query = Query(FakeCluster(a0=30), startingOffsets="earliest", maxOffsetsPerTrigger="10")
    assert query.planner.latest_known is None
    query.trigger()
    assert query.offsets == [{A0: 10}]
    assert query.planner.latest_known == {A0: 30}


def test_progress_needs_a_batch_that_was_read() -> None:
    query = Query(FakeCluster(a0=5))
    start = query.planner.initial()
    assert not query.planner.is_progress(start)
    assert query.planner.is_progress({A0: 6})
    query.start()
    assert query.planner.is_progress(start)  # from a checkpoint
