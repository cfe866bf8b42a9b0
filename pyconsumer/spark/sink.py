"""The sink: rows become records. At least once: a task that fails is run again, and what it had sent stays.

A task sends the rows of its part in their order, and a producer keeps the order within each partition; so records of
one key stay in order if all rows of the key are in one part, as after ``repartition("key")``.

Options and columns have the names, types and meaning of Spark's own Kafka connector.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.producer import KafkaProducer
from pyconsumer.spark.client_cache import borrow_producer
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.option_values import read_flag, read_text, split_options
from pyconsumer.spark.sink_config import producer_settings

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = [
    "STREAM_WRITES",
    "BatchWriter",
    "RecordsWritten",
    "SinkColumns",
    "SinkOptions",
    "StreamWriter",
    "sink_columns",
    "write_batches",
]

_KNOWN_OF_SINK: Final = (
    "topic",
    "includeHeaders",
    "includeTimestamp",
    "checkpointLocation",  # Spark's own; it comes along
)

_HINTS_OF_SINK: Final = {
    "topics": "the topic to write to is named by topic",
    "subscribe": "that is for reading; the topic to write to is named by topic",
    "bootstrap.servers": "it is called kafka.bootstrap.servers",
    "path": "save() and start() take no path; the topic to write to is named by the option topic",
}


@dataclass(frozen=True)
class SinkOptions:
    """Checked options.

    Attributes:
        topic: where all records go, stronger than the column of that name; None: the column decides.
        timestamps: whether the column ``timestamp`` becomes the records' time; Spark's own connector cannot do that.
        client: ``kafka.*`` options by Kafka's names.
    """

    topic: str | None
    timestamps: bool
    client: Mapping[str, str] = field(repr=False)  # passwords are among them

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check options as a user gave them.

        Raises:
            ConfigurationError: an unknown, illegal, missing or contradicting one.
        """
        client, own = split_options(options, _KNOWN_OF_SINK, _HINTS_OF_SINK)
        read_flag(own, "includeHeaders", False)  # as in Spark's own connector it changes nothing: the column decides
        producer_settings(client)
        topic = read_text(own, "topic")
        return cls(topic, read_flag(own, "includeTimestamp", False), client)


_BYTES: Final = ("binary", "string")

_HEADERS: Final = "array<struct<key:string,value:binary>>"

_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}


class SinkColumns(NamedTuple):
    """Places of the columns in a row; None for one that is not there or does not count."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None


def sink_columns(schema: Any, topic: str | None, *, timestamps: bool = False) -> SinkColumns:
    """Find the columns in a schema of Spark's; others are skipped.

    Args:
        topic: the option that is stronger than the column.
        timestamps: whether a column ``timestamp`` counts, and is needed.

    Raises:
        ConfigurationError: there is no column ``value``, none that names the topic, or one has a wrong type.
    """
    names = [field.name.lower() for field in schema.fields]
    places: dict[str, int] = {}
    for name, types in _TYPES.items():
        if name not in names or (name == "topic" and topic is not None) or (name == "timestamp" and not timestamps):
            continue
        if names.count(name) > 1:
            raise ConfigurationError(f"there are {names.count(name)} columns named {name}")
        place = names.index(name)
        found = schema.fields[place].dataType.simpleString()
        if found not in types:
            raise ConfigurationError(f"column {name} must be {' or '.join(types)}, not {found}")
        places[name] = place
    if "value" not in places:
        raise ConfigurationError(f"there must be a column named value, binary or string; there are {_listed(schema)}")
    if topic is None and "topic" not in places:
        raise ConfigurationError(
            f"nothing names the topic: give the option topic, or a column named topic; there are {_listed(schema)}"
        )
    if timestamps and "timestamp" not in places:
        raise ConfigurationError(f"includeTimestamp needs a column named timestamp; there are {_listed(schema)}")
    return SinkColumns(**places)


def _listed(schema: Any) -> str:
    return ", ".join(field.name for field in schema.fields) or "none"


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before PySpark 4.1; the source says so when a stream is written
    STREAM_WRITES = False
    DataSourceStreamArrowWriter = object
else:
    STREAM_WRITES = True


_log = logging.getLogger("pyconsumer.spark")

#: Rows that become Python values at a time.
_SLICE_ROWS: Final = 5_000


@dataclass
class RecordsWritten(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the driver: the number of acknowledged records."""

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
        """A task failed permanently. What was written stays: a topic cannot be cut."""
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
        """A task failed permanently; the batch is run again when the query is, and its records come twice."""
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
