"""From options to offsets, on a fake cluster."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.errors import OffsetsError
from pyconsumer.spark.offset_ranges import OffsetRange, batch_ranges
from pyconsumer.spark.options import SourceOptions
from tests.unit.spark.fake_cluster import A0, A1, FakeCluster


def small_cluster() -> FakeCluster:
    """Two partitions of topic a: offsets 10 to 19 and 5 to 5 (empty)."""
    cluster = FakeCluster()
    cluster.logs = {A0: (10, 20), A1: (5, 5)}
    return cluster


def plan(cluster: FakeCluster | None = None, **extra: str) -> list[tuple[int, int]]:
    options = SourceOptions.parse({"kafka.bootstrap.servers": "x", "subscribe": "a", **extra})
    return [(found.start, found.end) for found in batch_ranges(options, cluster or small_cluster())]


def test_all_offsets_by_default() -> None:
    assert plan() == [(10, 20), (5, 5)]


def test_starts_are_looked_up_before_ends() -> None:
    cluster = small_cluster()
    plan(cluster)
    assert [set(asked.values()) for asked in cluster.asked] == [{-2}, {-1}]


def test_an_empty_plan_without_topics() -> None:
    cluster = FakeCluster()
    cluster.logs = {}
    assert plan(cluster) == []


def test_offsets_with_placeholders() -> None:
    assert plan(startingOffsets='{"a":{"0":12,"1":-2}}', endingOffsets='{"a":{"0":15,"1":-1}}') == [(12, 15), (5, 5)]


@pytest.mark.parametrize("names", ['{"a":{"0":12}}', '{"a":{"0":12,"1":5,"2":5}}', '{"a":{"0":12,"1":5},"b":{"0":1}}'])
def test_offsets_must_name_exactly_the_partitions(names: str) -> None:
    with pytest.raises(OffsetsError, match="KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        plan(startingOffsets=names)
    times = names.replace("12", "1200")
    with pytest.raises(OffsetsError, match="KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        plan(startingOffsetsByTimestamp=times)


def test_one_time_for_all() -> None:
    assert plan(startingTimestamp="1250", startingOffsetsByTimestampStrategy="latest") == [(13, 20), (5, 5)]
    assert plan(endingTimestamp="1250") == [(10, 13), (5, 5)]


def test_times_by_partition() -> None:
    times = '{"a":{"0":1500,"1":99999}}'
    assert plan(startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest") == [(15, 20), (5, 5)]
    assert plan(endingOffsetsByTimestamp=times) == [(10, 15), (5, 5)]


def test_a_start_after_the_last_record_is_an_error_unless_configured() -> None:
    with pytest.raises(OffsetsError, match=r"startingTimestamp.*a-0 \(9999\), a-1 \(9999\).*Strategy=latest"):
        plan(startingTimestamp="9999")
    assert plan(startingTimestamp="9999", startingOffsetsByTimestampStrategy="latest") == [(20, 20), (5, 5)]


def test_an_end_after_the_last_record_is_the_end() -> None:
    assert plan(endingTimestamp="9999") == [(10, 20), (5, 5)]


def test_a_start_after_its_end() -> None:
    with pytest.raises(OffsetsError, match=r"\[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET\] a-0.*18.*15"):
        plan(startingOffsets='{"a":{"0":18,"1":5}}', endingOffsets='{"a":{"0":15,"1":5}}')
    with pytest.raises(OffsetsError, match=r"\[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET\] a-0"):
        plan(startingTimestamp="1800", endingTimestamp="1500", startingOffsetsByTimestampStrategy="latest")


def test_an_end_that_is_not_reached_yet_is_lost_data() -> None:
    ends = '{"a":{"0":99,"1":5}}'
    with pytest.raises(OffsetsError, match=r"KAFKA_DATA_LOSS.*a-0 ends at offset 20, before offset 99"):
        plan(endingOffsets=ends)
    assert plan(endingOffsets=ends, failOnDataLoss="false") == [(10, 20), (5, 5)]


def test_rules_of_batches_are_checked_first() -> None:
    with pytest.raises(ConfigurationError):
        plan(startingOffsets="latest")


def test_ranges_carry_their_partition() -> None:
    options = SourceOptions.parse({"kafka.bootstrap.servers": "x", "subscribe": "a"})
    assert batch_ranges(options, small_cluster())[0] == OffsetRange("a", 0, 10, 20)


def test_the_position_of_a_group() -> None:
    cluster = small_cluster()
    cluster.groups["g"] = {A0: 15}
    assert plan(cluster, startingOffsets="group", **{"kafka.group.id": "g"}) == [(15, 20), (5, 5)]
