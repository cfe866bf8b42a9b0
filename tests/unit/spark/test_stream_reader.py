"""The pitfalls of PySpark's streaming API, each as Spark's runner meets it."""

from __future__ import annotations

import inspect
import json
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StructField, StructType

from pyconsumer.errors import ConfigurationError, GroupAuthorizationFailedError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.progress import GroupProgress
from pyconsumer.spark.readers import Driver, StreamReader
from pyconsumer.spark.source import KafkaDataSource
from pyconsumer.spark.stream_planner import StreamPlanner
from pyconsumer.spark.typed_values import Settled
from tests.unit.spark.fake_cluster import A0, A1, FakeCluster

LEAST = {"kafka.bootstrap.servers": "x", "subscribe": "a"}
NO_LIMIT = ReadMaxRows(2**63 - 1)


class FakeAdmin:
    """Takes commits of a group."""

    def __init__(self) -> None:
        self.commits: list[dict[Any, int]] = []
        self.error: Exception | None = None
        self.calls = 0

    def alter_group_offsets(self, group_id: str, offsets: dict[Any, Any], *, timeout_ms: int) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error
        self.commits.append({tp: found.offset for tp, found in offsets.items()})

    def close(self) -> None:
        pass


def reader(cluster: FakeCluster, admin: FakeAdmin | None = None, **options: str) -> StreamReader:
    parsed = SourceOptions.parse(LEAST | options)
    progress = GroupProgress("g", lambda: admin) if admin else None  # type: ignore[arg-type,return-value]
    return StreamReader(parsed, lambda _: Driver(StreamPlanner(parsed, cluster), progress, lambda: None))


def through(position: Any) -> Any:
    """A position as Spark returns it: written as JSON, compared as text, read again."""
    return json.loads(json.dumps(position))


def test_offsets_have_the_form_of_sparks_connector() -> None:
    made = reader(FakeCluster(a0=5, a1=7), startingOffsets="earliest")
    assert made.initialOffset() == {"a": {"0": 0, "1": 0}}
    end = made.latestOffset(through(made.initialOffset()), NO_LIMIT)
    assert json.dumps(end) == '{"a": {"0": 5, "1": 7}}'
    assert made.reportLatestOffset() == end


def test_positions_have_one_order_of_keys() -> None:
    cluster = FakeCluster(a2=1, a0=1, a1=1)
    cluster.logs = dict(reversed(list(cluster.logs.items())))
    made = reader(cluster, startingOffsets="earliest")
    assert list(made.latestOffset(through(made.initialOffset()), NO_LIMIT)["a"]) == ["0", "1", "2"]


def test_without_new_records_the_same_position_is_returned() -> None:
    made = reader(FakeCluster(a0=5, a1=7))
    # As Spark's connector may have written it: in another order.
    position = {"a": {"1": 7, "0": 5}}
    assert made.latestOffset(position, NO_LIMIT) is position


def test_the_first_batch_from_the_latest_offset_is_empty() -> None:
    cluster = FakeCluster(a0=5)
    made = reader(cluster)
    start = through(made.initialOffset())
    cluster.logs[A0] = (0, 9)
    assert made.latestOffset(start, NO_LIMIT) is start
    assert made.initialOffset() == start
    assert made.partitions(start, start) == []
    assert made.latestOffset(start, NO_LIMIT) == {"a": {"0": 9}}


def test_spark_recognises_limits_and_available_now() -> None:
    made = reader(FakeCluster(a0=5))
    assert len(inspect.signature(made.latestOffset).parameters) > 0
    assert isinstance(made, SupportsTriggerAvailableNow)


def test_the_read_limit_distinguishes_trigger_once() -> None:
    made = reader(FakeCluster(a0=50), startingOffsets="earliest", maxOffsetsPerTrigger="10")
    assert made.getDefaultReadLimit() == ReadMaxRows(10)
    start = through(made.initialOffset())
    assert made.latestOffset(start, made.getDefaultReadLimit()) == {"a": {"0": 10}}
    assert made.latestOffset(start, ReadAllAvailable()) == {"a": {"0": 50}}
    assert reader(FakeCluster(a0=5)).getDefaultReadLimit() == NO_LIMIT


def test_ranges_become_tasks() -> None:
    made = reader(FakeCluster(a0=10, a1=2), startingOffsets="earliest", maxRecordsPerPartition="5")
    tasks = made.partitions({"a": {"0": 0, "1": 0}}, {"a": {"0": 10, "1": 2}})
    assert [tuple(task.value) for task in tasks] == [("a", 0, 0, 5), ("a", 0, 5, 10), ("a", 1, 0, 2)]
    assert made.partitions({"a": {"0": 10}}, {"a": {"0": 10}}) == []


def test_progress_is_committed_after_each_batch_including_the_last() -> None:
    cluster, admin = FakeCluster(a0=5), FakeAdmin()
    made = reader(cluster, admin, startingOffsets="earliest", commitToGroup="g")
    start = through(made.initialOffset())
    end = made.latestOffset(start, NO_LIMIT)
    assert admin.commits == []  # nothing has been read yet
    assert made.latestOffset(end, NO_LIMIT) is end  # an idle trigger, or the end of AvailableNow
    assert admin.commits == [{A0: 5}]
    made.latestOffset(end, NO_LIMIT)
    assert admin.commits == [{A0: 5}]


def test_commits_of_sparks_own_offsets_send_no_request() -> None:
    admin = FakeAdmin()
    made = reader(FakeCluster(a0=5), admin, commitToGroup="g")
    made.commit({"a": {"0": 5}})
    made.commit("no offsets at all")
    assert admin.calls == 0


def test_a_commit_that_fails_does_not_end_the_query(caplog: pytest.LogCaptureFixture) -> None:
    cluster, admin = FakeCluster(a0=5, a1=0), FakeAdmin()
    admin.error = GroupAuthorizationFailedError("group g")
    made = reader(cluster, admin, startingOffsets="earliest", commitToGroup="g")
    end = made.latestOffset({"a": {"0": 0, "1": 0}}, NO_LIMIT)
    assert end == {"a": {"0": 5, "1": 0}}
    cluster.logs[A1] = (0, 1)
    assert made.latestOffset(end, NO_LIMIT) == {"a": {"0": 5, "1": 1}}
    assert admin.calls == 1  # not tried again at once
    assert (
        caplog.text.count("could not commit the progress to group 'g'; the query continues: GroupAuthorizationFailed")
        == 1
    )


def test_stop_need_not_be_called_and_may_be_called_early() -> None:
    made = reader(FakeCluster(a0=5))
    made.stop()
    made.initialOffset()
    made.stop()
    made.stop()


def test_the_reader_travels_without_its_connection() -> None:
    made = reader(FakeCluster(a0=5))
    made.initialOffset()
    copy = pickle.loads(pickle.dumps(made))
    assert copy.options == made.options
    assert copy._made is None


def test_a_task_without_a_range_has_no_records() -> None:
    assert list(reader(FakeCluster(a0=5)).read(InputPartition(None))) == []


def test_a_checkpoint_of_another_source_is_rejected() -> None:
    made = reader(FakeCluster(a0=5))
    for position in ({"index": 5}, 7, {"a": {"x": 5}}, {"a": {"0": "5"}}):
        with pytest.raises(ConfigurationError, match=r"instead of Kafka offsets.*checkpointLocation of its own"):
            made.latestOffset(position, NO_LIMIT)


def test_the_source_makes_stream_readers_by_keyword(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KafkaDataSource(options=CaseInsensitiveDict(LEAST | {"columns": "value"}))
    schema = StructType([StructField("value", BinaryType())])
    assert isinstance(source.streamReader(schema=schema), StreamReader)
    wrong = KafkaDataSource(options=CaseInsensitiveDict(LEAST | {"columns": "value", "endingOffsets": "latest"}))
    with pytest.raises(ConfigurationError, match="a stream has no end"):
        wrong.streamReader(schema=schema)
    monkeypatch.setattr("pyconsumer.spark.source.STREAMS", False)
    with pytest.raises(ConfigurationError, match=r"streams need PySpark 4.2"):
        source.streamReader(schema=schema)


def test_filters_are_not_taken() -> None:
    # With the usual settings Spark refuses a source that overrides pushFilters.
    from pyspark.sql.datasource import DataSourceReader

    from pyconsumer.spark.readers import BatchReader

    assert BatchReader.pushFilters is DataSourceReader.pushFilters


# -- typed columns -----------------------------------------------------------------------------------------------------


def typed(schema_id: int, **options: str) -> StreamReader:
    """A reader of a topic whose latest schema of values has this id."""
    values = {"value.format": "avro", "schema.registry.url": "http://localhost:8081", "startingOffsets": "earliest"}
    parsed = SourceOptions.parse(LEAST | values | {name.replace("__", "."): value for name, value in options.items()})
    driver = Driver(StreamPlanner(parsed, FakeCluster(a0=5)), None, lambda: None)
    return StreamReader(parsed, lambda _: driver, {"value": Settled("avro", '"long"', schema_id)})


def test_offsets_have_the_id_of_a_schema_that_is_not_pinned() -> None:
    made = typed(7)
    assert json.dumps(made.initialOffset()) == '{"a": {"0": 0}, "#schemas": {"value": 7}}'
    start = through(made.initialOffset())
    end = through(made.latestOffset(start, NO_LIMIT))
    assert end == {"a": {"0": 5}, "#schemas": {"value": 7}}
    assert made.latestOffset(end, NO_LIMIT) is end
    assert [found.value.end for found in made.partitions(start, end)] == [5]
    again = pickle.loads(pickle.dumps(made))
    assert again.settled == made.settled


def test_offsets_of_pinned_columns_have_no_id() -> None:
    for pin in ({"value__schema__id": "7"}, {"value__schema__version": "1"}, {"value__schema": '"long"'}):
        made = typed(7, **pin)
        assert made.initialOffset() == {"a": {"0": 0}}
        assert made.latestOffset({"a": {"0": 0}}, NO_LIMIT) == {"a": {"0": 5}}


def test_another_latest_schema_after_a_restart_fails_before_the_first_batch() -> None:
    start = {"a": {"0": 2}, "#schemas": {"value": 7}}
    end = {"a": {"0": 4}, "#schemas": {"value": 7}}
    said = r"began with schema 7 of the values, and the latest one is 9.*value\.schema\.id=7.*value\.schema\.id=9"
    with pytest.raises(ConfigurationError, match=said):
        typed(9).latestOffset(start, NO_LIMIT)
    with pytest.raises(ConfigurationError, match=said):  # a batch that is run again, the first one included
        typed(9).partitions({"a": {"0": 0}}, end)
    for pinned in (typed(7, value__schema__id="7"), typed(9, value__schema__id="9")):
        assert pinned.latestOffset(start, NO_LIMIT) == {"a": {"0": 5}}
        assert [found.value.start for found in pinned.partitions(start, end)] == [2]


def test_checkpoints_of_raw_queries_go_both_ways() -> None:
    assert typed(9).latestOffset({"a": {"0": 2}}, NO_LIMIT) == {"a": {"0": 5}, "#schemas": {"value": 9}}
    raw = reader(FakeCluster(a0=5), startingOffsets="earliest")
    assert raw.latestOffset({"a": {"0": 2}, "#schemas": {"value": 7}}, NO_LIMIT) == {"a": {"0": 5}}
