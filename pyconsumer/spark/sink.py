"""Writes rows as records, at least once or exactly once.

At least once: a task that fails is run again, and the records that it has sent stay in the topic.

A task sends the rows of its Spark partition in order, and the producer keeps that order within each Kafka partition. So
the records of a key are in order if all rows of the key are in one Spark partition, as after ``repartition("key")``.

Options and columns have the names, types and meaning of Spark's own Kafka connector.

Spark creates a writer on the driver and pickles it to the tasks. It has no state but options and columns. Order of the
calls: ``write`` in each task, then ``commit`` or ``abort`` on the driver.
"""

from __future__ import annotations

import itertools
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.producer.producer import KafkaProducer, detach_transaction
from pyconsumer.spark.client_cache import borrow_producer
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.exactly_once import Delivery, abort_batch, commit_batch, task_transaction
from pyconsumer.spark.option_values import read_flag, read_number, read_text, read_word, split_options
from pyconsumer.spark.sink_config import producer_settings
from pyconsumer.spark.transaction_record import Names, TaskReport
from pyconsumer.spark.value_options import SIDE_OPTIONS, ValueOptions, split_registry
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from pyconsumer.producer.future_records import FutureRecords
    from pyconsumer.spark.typed_values import WrittenSide


__all__ = [
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
    "deliveryGuarantee",
    "transactionalIdPrefix",
    "progressTopic",
    "onMissingProgress",
    "txnAppId",
    "txnVersion",
    "checkpointLocation",  # an option for Spark, which passes it on
    *SIDE_OPTIONS,
)
_PREFIX: Final = "pyconsumer-spark"
_OF_EXACTLY_ONCE: Final = ("transactionalIdPrefix", "progressTopic", "onMissingProgress", "txnAppId", "txnVersion")

_HINTS_OF_SINK: Final = {
    "topics": "to choose the topic use the option topic",
    "subscribe": "that is for reading; to choose the topic to write to use the option topic",
    "bootstrap.servers": "the option is called kafka.bootstrap.servers",
    "path": "save() and start() take no path; to choose the topic use the option topic",
}


@dataclass(frozen=True)
class SinkOptions:
    """The checked options of the sink.

    Attributes:
        topic: the topic for all records. None: the column ``topic`` has the topic of each record.
        timestamps: True writes the column ``timestamp`` as the records' timestamp. (Spark's own connector cannot do
            that.)
        kafka_options: ``kafka.*`` options by Kafka's names.
        delivery: the options of exactly-once writes. None for at-least-once writes.
        app_id, version: name and number of a batch write. They identify a write that is repeated.
        values: the formats of keys and values. None if both are bytes or text.
    """

    topic: str | None
    timestamps: bool
    kafka_options: Mapping[str, str] = field(repr=False)  # passwords are among them
    delivery: Delivery | None = field(default=None, repr=False)
    app_id: str | None = None
    version: int = 0
    values: ValueOptions | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check the options that a user has given.

        Raises:
            ConfigurationError: an option is unknown, invalid or missing, or contradicts another one.
        """
        registry, rest = split_registry(options)
        client, own = split_options(rest, _KNOWN_OF_SINK, _HINTS_OF_SINK)
        values = ValueOptions.parse(own, registry)
        read_flag(own, "includeHeaders", False)  # no effect, as in Spark's own connector: headers are written if there
        topic = read_text(own, "topic")
        guarantee = read_word(own, "deliveryGuarantee", "at-least-once", ("at-least-once", "exactly-once"))
        timestamps = read_flag(own, "includeTimestamp", False)
        if guarantee == "at-least-once":
            producer_settings(client)
            for name in _OF_EXACTLY_ONCE:
                if name in own:
                    raise ConfigurationError(f"option {name} needs deliveryGuarantee=exactly-once")
            return cls(topic, timestamps, client, values=values)
        delivery = _delivery(own, topic, client)
        version = read_number(own, "txnVersion", 0, 0)
        return cls(topic, timestamps, client, delivery, _app_id(own), version, values)


def _delivery(own: Mapping[str, str], topic: str | None, client: Mapping[str, str]) -> Delivery:
    prefix = read_text(own, "transactionalIdPrefix") or _PREFIX
    producer_settings(client, transactional_id=prefix)
    progress = read_text(own, "progressTopic") or topic
    if progress is None:
        raise ConfigurationError(
            "deliveryGuarantee=exactly-once keeps its progress as the committed offset of a topic's partition: if the"
            " option topic is not given, name a topic for that by progressTopic. It must exist, and no"
            " record is written to it"
        )
    may_begin = read_word(own, "onMissingProgress", "error", ("error", "begin")) == "begin"
    return Delivery(prefix, TopicPartition(progress, 0), may_begin, client)


def _app_id(own: Mapping[str, str]) -> str | None:
    app_id = read_text(own, "txnAppId")
    if (app_id is None) != ("txnVersion" not in own):
        raise ConfigurationError(
            "options txnAppId and txnVersion must be given together: they are the name and number of a write"
        )
    if app_id is not None and not re.fullmatch(r"[\w-]{1,100}", app_id, re.ASCII):
        raise ConfigurationError(f"option txnAppId must be 1 to 100 letters, digits, - and _, not {app_id!r}")
    return app_id


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
    """The positions of the columns in a row. None for a column that does not exist or is not used."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None


def sink_columns(
    schema: Any, topic: str | None, *, timestamps: bool = False, typed: Collection[str] = ()
) -> SinkColumns:
    """Find the columns of the sink in a Spark schema. Other columns are ignored.

    Args:
        topic: the option ``topic``. If it is given, the column ``topic`` is ignored.
        timestamps: True uses the column ``timestamp``, which is then required.
        typed: ``key`` and ``value`` if they have a format. It decides which types they may have.

    Raises:
        ConfigurationError: a required column is missing, or a column has a wrong type or is there twice.
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
        if found not in types and name not in typed:
            raise ConfigurationError(f"column {name} must be {' or '.join(types)}, not {found}")
        places[name] = place
    if "key" in typed and "key" not in places:
        raise ConfigurationError(f"option key.format needs a column named key. The columns are: {_listed(schema)}")
    if "value" not in places:
        raise ConfigurationError(
            f"a column named value, of type binary or string, is required. The columns are: {_listed(schema)}"
        )
    if topic is None and "topic" not in places:
        raise ConfigurationError(
            "no topic to write to is given: set the option topic, or add a column named topic. The columns are:"
            f" {_listed(schema)}"
        )
    if timestamps and "timestamp" not in places:
        raise ConfigurationError(
            f"option includeTimestamp needs a column named timestamp. The columns are: {_listed(schema)}"
        )
    return SinkColumns(**places)


def _listed(schema: Any) -> str:
    return ", ".join(field.name for field in schema.fields) or "none"


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # PySpark 4.0 passes Arrow batches to any writer with the base class for batch writes
    from pyspark.sql.datasource import DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[misc,no-redef]
        """A stand-in for the class that PySpark has from 4.1 on."""


_log = logging.getLogger("pyconsumer.spark")

#: Rows that are converted to Python values at a time.
_SLICE_ROWS: Final = 5_000


@dataclass
class RecordsWritten(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the driver: the number of acknowledged records. For exactly-once also the task's report."""

    records: int
    report: TaskReport | None = None


class _Writer:
    """The base of both writers.

    Args:
        options: the options of the sink, which travel to the tasks.
        columns: the positions of the columns in a row.
        written: the schemas of keys and values that have a format.

    Attributes:
        of_checkpoint: whether the numbers of batches come from a checkpoint.
        token: identifies this write, if the user has given no name.
    """

    of_checkpoint = True

    def __init__(
        self, options: SinkOptions, columns: SinkColumns, written: Mapping[str, WrittenSide] | None = None
    ) -> None:
        self.options = options
        self.columns = columns
        self.written = written or {}
        self.token = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RecordsWritten:
        """Send the rows of a task and wait until all are acknowledged.

        Raises:
            WriteError: a record could not be written, or with exactly-once, the query's progress is missing or
                unreadable, or does not match the checkpoint.
        """
        delivery = self.options.delivery
        if self.written:
            from pyconsumer.spark.typed_writes import encoded_batches  # which other tasks do without

            places = {"key": self.columns.key, "value": self.columns.value}
            iterator = encoded_batches(self.written, places, iterator)
        if delivery is None:
            return RecordsWritten(write_batches(self.options, self.columns, iterator))
        names, batch = self._identity(delivery)
        return write_in_transaction(
            self.options, self.columns, iterator, names, batch, of_checkpoint=self.of_checkpoint
        )

    def _identity(self, delivery: Delivery) -> tuple[Names, int]:
        """Return, in a task, the names of its query and the number of its batch."""
        raise NotImplementedError

    def _commit(self, messages: list[RecordsWritten | None]) -> None:
        delivery, reports = self.options.delivery, _reports(messages)
        if delivery is not None and reports:
            commit_batch(delivery, reports, of_checkpoint=self.of_checkpoint, reached=self.reached)

    def _abort(self, messages: list[RecordsWritten | None], what: str) -> None:
        delivery, reports = self.options.delivery, _reports(messages)
        if delivery is None:
            _log.warning("%s failed. At least %d records that it has written stay in the topic", what, _count(messages))
        elif reports:
            try:
                abort_batch(delivery, reports)
            except KafkaError as error:
                _log.warning("%s failed, and its transactions may stay open for a while: %s", what, error)

    def reached(self, step: str) -> None:
        """Ignore the step: tests override this to kill the process when a step is reached."""


class BatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]
    """The writer of ``df.write``. Its arguments are those of its base class."""

    of_checkpoint = False

    def commit(self, messages: list[RecordsWritten | None]) -> None:
        """Finish the write, because all tasks have succeeded. With exactly-once, commit their transactions.

        Raises:
            WriteError, KafkaError: see :func:`.commit_batch`.
        """
        self._commit(messages)
        _log.info("%d records were written", _count(messages))

    def abort(self, messages: list[RecordsWritten | None]) -> None:
        """End the write, because a task has failed permanently.

        With at-least-once, the records that were written stay in the topic.
        """
        self._abort(messages, "the write")

    def _identity(self, delivery: Delivery) -> tuple[Names, int]:
        return Names(delivery.prefix, self.options.app_id or self.token, self.token), self.options.version


class StreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """The writer of ``df.writeStream``. Its arguments are those of its base class."""

    def commit(self, messages: list[RecordsWritten | None], batchId: int) -> None:  # noqa: N803
        """Finish a batch, because all tasks have succeeded. With exactly-once, commit their transactions.

        Raises:
            WriteError, KafkaError: see :func:`.commit_batch`.
        """
        self._commit(messages)
        _log.debug("batch %d: %d records were written", batchId, _count(messages))

    def abort(self, messages: list[RecordsWritten | None], batchId: int) -> None:  # noqa: N803
        """End a batch, because a task has failed permanently. A restart repeats it.

        With at-least-once, that makes duplicates.
        """
        self._abort(messages, f"batch {batchId}")

    def _identity(self, delivery: Delivery) -> tuple[Names, int]:
        query, run, batch = (_property(name) for name in _QUERY_RUN_BATCH)
        return Names(delivery.prefix, query, run), int(batch)


#: The local properties of a task that have the ids of its query and run, and the number of its batch.
_QUERY_RUN_BATCH: Final = ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")


def _property(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if not value:
        raise WriteError(
            f"deliveryGuarantee=exactly-once needs the local property {name} of Spark's tasks, which this version of"
            " Spark does not set"
        )
    return str(value)


def _count(messages: list[RecordsWritten | None]) -> int:
    return sum(message.records for message in messages if message is not None)


def _reports(messages: list[RecordsWritten | None]) -> list[TaskReport]:
    return [message.report for message in messages if message is not None and message.report is not None]


def write_batches(options: SinkOptions, columns: SinkColumns, batches: Iterator[pa.RecordBatch]) -> int:
    """Send all rows, and wait until the brokers have acknowledged them. Return the number of records.

    Raises:
        WriteError: a record could not be written. Its ``__cause__`` is the reason.
    """
    with borrow_producer(options.kafka_options) as producer:
        return _send_all(producer, options, columns, batches)


def write_in_transaction(
    options: SinkOptions,
    columns: SinkColumns,
    batches: Iterator[pa.RecordBatch],
    names: Names,
    batch: int,
    *,
    of_checkpoint: bool,
) -> RecordsWritten:
    """Send all rows of a task in a transaction and leave the transaction open. The driver commits or aborts it.

    Raises:
        WriteError: a record could not be written, and the transaction was aborted. Its ``__cause__`` is the reason.

    The errors of :func:`.task_transaction` are raised as well.
    """
    from pyspark import TaskContext

    assert options.delivery is not None
    context = TaskContext.get()
    assert context is not None
    started_ms = int(time.time() * 1000)
    first = next((rows for rows in batches if rows.num_rows), None)
    if first is None:
        return RecordsWritten(0, TaskReport(names, batch, None, started_ms))
    attempt = (context.partitionId(), context.attemptNumber())
    with task_transaction(options.delivery, names, batch, *attempt, of_checkpoint=of_checkpoint) as producer:
        if producer is None:
            for _ in batches:  # Spark keeps the state of stateful operators only if their rows are read to the end
                pass
            return RecordsWritten(0, TaskReport(names, batch, None, started_ms))
        count = _send_all(producer, options, columns, itertools.chain([first], batches))
        transaction = detach_transaction(producer)
    return RecordsWritten(count, TaskReport(names, batch, transaction, started_ms))


def _send_all(
    producer: KafkaProducer, options: SinkOptions, columns: SinkColumns, batches: Iterable[pa.RecordBatch]
) -> int:
    count = 0
    failures: list[KafkaError] = []
    sent: deque[FutureRecords] = deque()
    plain = options.topic is not None and columns[2:] == (None, None, None, None)
    for batch in batches:
        for at in range(0, batch.num_rows, _SLICE_ROWS):
            rows = batch.slice(at, _SLICE_ROWS)
            if plain:
                sent.append(_send_plain(producer, str(options.topic), rows, columns))
                while sent and sent[0].done():
                    _note_failure(sent.popleft(), failures)
            else:
                _send_rows(producer, rows, options, columns, failures)
            count += rows.num_rows
            if failures:
                raise _failed(failures[0])
    producer.flush()
    for records in sent:
        _note_failure(records, failures)
    if failures:
        raise _failed(failures[0])
    return count


def _send_plain(producer: KafkaProducer, topic: str, rows: pa.RecordBatch, columns: SinkColumns) -> FutureRecords:
    """Send keys and values alone, which takes a third less time than sending row by row."""
    keys = None if columns.key is None else _binary(rows, columns.key)
    try:
        return producer.send_many(topic, _binary(rows, columns.value), keys)
    except (KafkaError, ValueError) as error:
        raise _failed(error, f" to topic {topic!r}") from error


def _note_failure(records: FutureRecords, failures: list[KafkaError]) -> None:
    if (error := records.exception) is not None:
        failures.append(error)


def _send_rows(
    producer: KafkaProducer,
    batch: pa.RecordBatch,
    options: SinkOptions,
    columns: SinkColumns,
    failures: list[KafkaError],
) -> None:
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


def _binary(batch: pa.RecordBatch, place: int | None) -> list[bytes | None]:
    """Return keys or values. Spark does not check that strings are UTF-8, so their bytes are taken undecoded."""
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
