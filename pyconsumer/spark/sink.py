"""The sink: rows become records. At least once: a task that fails is run again, and what it had sent stays.

A task sends the rows of its part in their order, and a producer keeps the order within each partition; so records of
one key stay in order if all rows of the key are in one part, as after ``repartition("key")``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyconsumer.errors import KafkaError
from pyconsumer.producer import KafkaProducer
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.producers import borrow_producer
from pyconsumer.spark.sink_columns import SinkColumns
from pyconsumer.spark.sink_options import SinkOptions

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before PySpark 4.1; the source says so when a stream is written
    STREAM_WRITES = False
    DataSourceStreamArrowWriter = object
else:
    STREAM_WRITES = True

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STREAM_WRITES", "BatchWriter", "RecordsWritten", "StreamWriter", "write_batches"]

_log = logging.getLogger("pyconsumer.spark")

#: Rows that become Python values at a time.
_SLICE_ROWS: Final = 5_000


@dataclass
class RecordsWritten(WriterCommitMessage):  # type: ignore[misc]
    """What a task tells the driver: how many records were acknowledged."""

    records: int


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write``.

    Args:
        options: checked ones; they travel to the tasks.
        columns: where in a row what is.
    """

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RecordsWritten:
        """Send the rows of a task and wait until all are acknowledged."""
        return RecordsWritten(write_batches(self.options, self.columns, iterator))

    def commit(self, messages: list[RecordsWritten | None]) -> None:
        """All tasks are done; nothing is left to do."""
        _log.info("%d records were written", _count(messages))

    def abort(self, messages: list[RecordsWritten | None]) -> None:
        """A task failed for good. What was written stays: a topic cannot be cut."""
        _log.warning("the write failed; %d records or more stay in their topics", _count(messages))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream``; arguments as those of :class:`BatchWriter`."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RecordsWritten:
        """Send the rows of a task and wait until all are acknowledged."""
        return RecordsWritten(write_batches(self.options, self.columns, iterator))

    def commit(self, messages: list[RecordsWritten | None], batchId: int) -> None:  # noqa: N803
        """All tasks are done; nothing is left to do."""
        _log.debug("batch %d: %d records were written", batchId, _count(messages))

    def abort(self, messages: list[RecordsWritten | None], batchId: int) -> None:  # noqa: N803
        """A task failed for good; the batch is run again when the query is, and its records come twice."""
        _log.warning("batch %d failed; %d records or more stay in their topics", batchId, _count(messages))


def _count(messages: list[RecordsWritten | None]) -> int:
    return sum(message.records for message in messages if message is not None)


def write_batches(options: SinkOptions, columns: SinkColumns, batches: Iterator[pa.RecordBatch]) -> int:
    """Send all rows and wait until the brokers have acknowledged them; returns how many.

    Raises:
        WriteError: a record could not be sent; the cause is chained.
    """
    count = 0
    failures: list[KafkaError] = []
    with borrow_producer(options.client) as producer:
        for batch in batches:
            for at in range(0, batch.num_rows, _SLICE_ROWS):
                count += _send_rows(producer, batch.slice(at, _SLICE_ROWS), options, columns, failures)
                if failures:
                    raise _failed(failures[0])
        producer.flush()
        if failures:
            raise _failed(failures[0])
    return count


def _send_rows(
    producer: KafkaProducer,
    batch: pa.RecordBatch,
    options: SinkOptions,
    columns: SinkColumns,
    failures: list[KafkaError],
) -> int:
    rows: int = batch.num_rows

    def values(place: int | None, default: Any = None) -> list[Any]:
        return [default] * rows if place is None else list(batch.column(place).to_pylist())

    topics = values(None, options.topic) if options.topic is not None else values(columns.topic)
    times = [None] * rows if columns.timestamp is None else _milliseconds(batch.column(columns.timestamp))
    for topic, key, value, partition, headers, time_ms in zip(
        topics,
        _binary(batch, columns.key),
        _binary(batch, columns.value),
        values(columns.partition),
        values(columns.headers),
        times,
        strict=True,
    ):
        if topic is None:
            raise WriteError("[KAFKA_NULL_TOPIC_IN_DATA] the topic of a row is null")
        pairs = None if headers is None else [(header["key"], header["value"]) for header in headers]
        try:
            future = producer.send(topic, value, key, pairs, partition, time_ms)
        except (KafkaError, ValueError) as error:
            raise _failed(error, f" to topic {topic!r}") from error
        future.add_errback(failures.append)
    return rows


def _binary(batch: pa.RecordBatch, place: int | None) -> list[bytes | None]:
    """Keys or values. Spark does not check that a string is UTF-8, so strings are taken as the bytes that they are."""
    import pyarrow as pa

    if place is None:
        return [None] * batch.num_rows
    column = batch.column(place)
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return list(column.to_pylist())


def _milliseconds(column: Any) -> list[int | None]:
    import pyarrow as pa

    return [None if us is None else us // 1000 for us in column.cast(pa.int64()).to_pylist()]


def _failed(error: Exception, where: str = "") -> WriteError:
    failed = WriteError(f"a record{where} could not be written: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
