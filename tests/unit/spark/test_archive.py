"""The archive's query, which is restarted when Spark did not wait for a slow machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.errors import KafkaError
from pyconsumer.spark import archive as pipelines
from pyconsumer.spark.archive import Archived
from pyconsumer.spark.errors import reason_from_spark

SLOW = "[STREAM_FAILED] Query terminated\norg.apache.spark.SparkException: Python worker failed to connect back."
BROKEN = (
    "[STREAM_FAILED] Query terminated\n"
    "pyconsumer.spark.errors.DataLossError: [KAFKA_DATA_LOSS] t-0 ends before\n\tat org.apache.spark.A"
)


def batch(number: int, rows: int, end: int) -> SimpleNamespace:
    """Return Spark's progress for a batch of a topic that has 10 records."""
    source = {"endOffset": json.dumps({"t": {"0": end}}), "latestOffset": json.dumps({"t": {"0": 10}})}
    return SimpleNamespace(batchId=number, numInputRows=rows, sources=[source])


class Query:
    """A query that ran some batches, and ended with success or with an error."""

    def __init__(self, batches: Sequence[Any], error: str | None = None) -> None:
        self.recentProgress = batches
        self.isActive = False
        self.stopped = False
        self._error = error

    def exception(self) -> str | None:
        return self._error

    def stop(self) -> None:
        self.stopped = True


class Spark:
    """A session whose streams end in the given queries, one after the other. It is reader and writer, too."""

    def __init__(self, *queries: Query) -> None:
        self.queries = list(queries)
        self.readStream = self.writeStream = self

    def _same(self, *_: object, **__: object) -> Spark:
        return self

    format = options = option = load = foreachBatch = trigger = _same  # noqa: N815

    def start(self) -> Query:
        return self.queries.pop(0)


def run(spark: Spark, seen: list[Archived]) -> Archived:
    files: Any = SimpleNamespace(
        batches=lambda: ["batch=0000000000", "batch=0000000001"],
        partitions=lambda batch: [],  # so their columns are not compared
    )
    return pipelines._archive(spark, files, "folder", "t", {}, [], False, seen.append)


def test_a_query_that_spark_did_not_wait_for_is_restarted_and_counts_each_batch_once() -> None:
    first, second = batch(0, 6, 6), batch(1, 4, 10)
    queries = [Query([], SLOW), Query([first], SLOW), Query([first, second, batch(2, 0, 10)])]
    seen: list[Archived] = []

    assert run(Spark(*queries), seen) == Archived(2, 10, 0)
    assert seen == [Archived(1, 6, 4), Archived(2, 10, 0)]
    assert all(query.stopped for query in queries)


def test_patience_ends() -> None:
    spark = Spark(*(Query([], SLOW) for _ in range(20)))
    with pytest.raises(KafkaError, match=r"archiving t failed: .*Query terminated"):
        run(spark, [])
    assert len(spark.queries) == 10


def test_other_failures_are_raised_at_once_with_their_cause() -> None:
    spark = Spark(Query([batch(0, 6, 6)], BROKEN), Query([]))
    with pytest.raises(KafkaError, match=r"archiving t failed: pyconsumer.*DataLossError: .* t-0 ends before$"):
        run(spark, [])
    assert len(spark.queries) == 1


def test_the_line_with_the_reason_is_found() -> None:
    java = "An error occurred while calling None.x.\n: org.apache.spark.SparkException: Could not parse 'foo'\n\tat x.y"
    assert reason_from_spark(java) == "org.apache.spark.SparkException: Could not parse 'foo'"
    assert reason_from_spark(BROKEN).startswith("pyconsumer.spark.errors.DataLossError: ")
    assert reason_from_spark("\n  something else\nand more") == "something else"
    assert reason_from_spark("") == "for an unknown reason"
