"""The batch reader and the stream reader, which Spark calls. They plan on the driver and read in the tasks.

A :class:`BatchReader` looks up its ranges once. A :class:`StreamReader` translates Spark's calls into those of
:mod:`pyconsumer.spark.stream_planner`. Spark creates two of the latter for a query. One stays in a child process of the
driver, the *offset process*, which plans. It alone has state: its client and the planner, made at the first call. The
other is pickled and reads in the tasks. They share only the options.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.spark.client_cache import SparkClient, borrow, connect
from pyconsumer.spark.offset_ranges import OffsetRange, batch_ranges, divide
from pyconsumer.spark.offset_reader import OffsetReader
from pyconsumer.spark.offsets_json import offsets_from_spark, offsets_to_spark, schemas_from_spark
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.partition_reader import PartitionReader, record_batch
from pyconsumer.spark.progress import GroupProgress
from pyconsumer.spark.stream_planner import StreamPlanner
from pyconsumer.spark.subscription import Assign, Subscribe
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from pyconsumer.spark.typed_values import Settled


__all__ = [
    "STREAMS",
    "BatchReader",
    "RangePartition",
    "StreamReader",
    "named_topics",
    "read_range",
]

#: Rows of a record batch: usually those of a whole fetch response, because each batch has a fixed cost on both sides of
#: Spark's socket. Batches of 10,000 rows made a task 10 % slower.
_BATCH_ROWS: Final = 100_000

_BATCH_BYTES: Final = 8 * 1024 * 1024


def named_topics(options: SourceOptions) -> set[str]:
    """Return the topics that the options name. For a pattern, ask the brokers.

    Raises:
        KafkaError: the cluster cannot be reached.
    """
    if isinstance(options.subscription, Subscribe):
        return set(options.subscription.topics)
    if isinstance(options.subscription, Assign):
        return {tp.topic for tp in options.subscription.partitions}
    with connect(options.kafka_options) as spark_client:
        cluster = OffsetReader(
            spark_client, attempts=options.fetch_offset_attempts, retry_ms=options.fetch_offset_retry_ms
        )
        return {tp.topic for tp in cluster.partitions(options.subscription)}


class RangePartition(InputPartition):  # type: ignore[misc]
    """A task of a read. ``value`` is its range of offsets."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads fixed ranges of offsets. They are looked up once per DataFrame, so "latest" means the latest at that time.

    Args:
        options: the options of the source. They are sent to the tasks.
        settled: the schemas of typed columns, which are sent, too.
    """

    def __init__(self, options: SourceOptions, settled: Mapping[str, Settled] | None = None) -> None:
        self.options = options
        self.settled = settled or {}

    def partitions(self) -> list[InputPartition]:
        """Return one or more tasks for each partition with data. See :mod:`pyconsumer.spark.offset_ranges`.

        Raises:
            OffsetsError: the offsets or timestamps of the options do not match the partitions, or each other.
            KafkaError: the cluster cannot be reached, a topic does not exist, or access was denied.
        """
        options = self.options
        with connect(options.kafka_options) as spark_client:
            cluster = OffsetReader(
                spark_client, attempts=options.fetch_offset_attempts, retry_ms=options.fetch_offset_retry_ms
            )
            ranges = batch_ranges(options, cluster)
        cut = divide(
            ranges,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return [RangePartition(found) for found in cut]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task.

        If there are no tasks, Spark passes a partition with None, or None itself (4.1).
        """
        if partition is None or partition.value is None:
            return iter(())
        return read_range(self.options, OffsetRange(*partition.value), self.settled)


def read_range(
    options: SourceOptions, offsets: OffsetRange, settled: Mapping[str, Settled] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow record batches. The options name the columns.

    Args:
        options: the options of the source.
        offsets: the range.
        settled: the schemas of typed columns.

    Raises:
        DataLossError, CorruptRecordError: see :meth:`.PartitionReader.blocks`.
        ReadError: see there, and :meth:`.TypedRows.batches`.
    """
    typed = None
    names: Collection[str] = options.columns
    if settled:
        from pyconsumer.spark.typed_rows import TypedRows, raw_columns  # which other tasks do without

        typed, names = TypedRows(options, settled), raw_columns(options)
    with borrow(options.kafka_options) as spark_client:
        reader = PartitionReader(
            spark_client,
            offsets,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        )
        for columns, count in reader.blocks(_BATCH_ROWS, _BATCH_BYTES, names):
            if typed is None:
                yield record_batch(columns, count, options.columns)
            else:
                yield from typed.batches(columns, count)


try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before PySpark 4.2; KafkaDataSource.streamReader raises
    STREAMS = False
    ReadAllAvailable = ReadMaxRows = SupportsTriggerAvailableNow = object
else:
    STREAMS = True


_log = logging.getLogger("pyconsumer.spark")

_NO_LIMIT: Final = 0x7FFFFFFFFFFFFFFF


class Driver(NamedTuple):
    """The objects that the process for offsets needs."""

    planner: StreamPlanner
    progress: GroupProgress | None
    close: Callable[[], object]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads the micro-batches of a stream.

    Args:
        options: the options of the source. They are sent to the tasks.
        connect: a function that makes the planner and its parts. It is called once, when Spark asks for the first
            offset.
        settled: the schemas of typed columns. They are sent to the tasks.
    """

    def __init__(
        self,
        options: SourceOptions,
        connect: Callable[[SourceOptions], Driver] | None = None,
        settled: Mapping[str, Settled] | None = None,
    ) -> None:
        options.stream_start()
        self.options = options
        self.settled = settled or {}
        self._schemas = _unpinned(options, self.settled)
        self._connect = connect or _connect
        self._made: Driver | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.options, None, self.settled))

    @property
    def _driver(self) -> Driver:
        if self._made is None:
            self._made = self._connect(self.options)
        return self._made

    # -- in the offset process ---------------------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Make the present ends of the logs the end of the query."""
        self._driver.planner.prepare_available_now()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return a limit for Spark. It has no meaning, except that ``Trigger.Once`` passes another one.

        The real limits are options.
        """
        return ReadMaxRows(self.options.max_offsets or _NO_LIMIT)

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        """Return the offsets at which a new query starts.

        Raises:
            OffsetsError: the offsets or timestamps of the options do not match the partitions.
            KafkaError: the cluster cannot be reached, a topic does not exist, or access was denied.
        """
        return offsets_to_spark(self._driver.planner.initial(), self._schemas)

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802
        """Return the end of the next batch. If there is no data, return ``start``.

        Also commit the progress to the group.

        Raises:
            ConfigurationError: the query began with another schema of a column that is not pinned.
            DataLossError: records are missing, and ``failOnDataLoss`` is true.
            KafkaError: the cluster cannot be reached, or access was denied.
        """
        planner, progress, _ = self._driver
        position = self._checked(start)
        if progress is not None and planner.is_progress(position):
            progress.commit(position)
        end = planner.latest(position, limited=not isinstance(limit, ReadAllAvailable))
        return start if end == position else offsets_to_spark(end, self._schemas)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Return the ends of all partitions, for Spark's progress report. Return None before the first batch."""
        latest = self._driver.planner.latest_known
        return None if latest is None else offsets_to_spark(latest)

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """Return the tasks of a batch.

        Raises:
            ConfigurationError: as for :meth:`latestOffset`.
            DataLossError: records are missing, and ``failOnDataLoss`` is true.
        """
        ranges = self._driver.planner.ranges(self._checked(start), self._checked(end))
        cut = divide(
            ranges,
            min_partitions=self.options.min_partitions,
            max_records_per_partition=self.options.max_records_per_partition,
        )
        return [RangePartition(found) for found in cut]

    def _checked(self, position: Any) -> dict[TopicPartition, int]:
        """Return the offsets of a position from the checkpoint, after checking its schemas."""
        offsets = offsets_from_spark(position)
        for side, before in schemas_from_spark(position).items():
            now = self._schemas.get(side, before)
            if now != before:
                raise ConfigurationError(
                    f"the query began with schema {before} of the {side}s, and the latest one is {now} now. To keep the"
                    f" columns as they were, set {side}.schema.id={before}. To change to the new ones, set"
                    f" {side}.schema.id={now}"
                )
        return offsets

    def commit(self, end: Any) -> None:
        """Do nothing, because Spark does not call this for the last batch.

        :meth:`latestOffset` commits the progress.
        """

    def stop(self) -> None:
        """Close the clients. Spark may not call this, so no other work may be done here."""
        if self._made is None:
            return
        made, self._made = self._made, None
        try:
            made.close()
        except KafkaError as error:
            _log.debug("a client could not be closed cleanly: %s", error)

    # -- in the tasks ------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task."""
        if partition.value is None:
            return iter(())
        return read_range(self.options, OffsetRange(*partition.value), self.settled)


def _unpinned(options: SourceOptions, settled: Mapping[str, Settled]) -> dict[str, int]:
    """Return the ids of the schemas that no option pins."""
    sides = {} if options.values is None else options.values.sides
    return {
        side: found.schema_id
        for side, found in settled.items()
        if found.schema_id is not None and not sides[side].is_pinned
    }


def _connect(options: SourceOptions) -> Driver:
    spark_client = SparkClient(options.kafka_options, warn=True)
    cluster = OffsetReader(
        spark_client,
        attempts=options.fetch_offset_attempts,
        retry_ms=options.fetch_offset_retry_ms,
        retry_timeouts=True,
    )
    progress = None
    if options.commit_to_group is not None:
        progress = GroupProgress(options.commit_to_group, spark_client.admin)

    def close() -> None:
        spark_client.close()
        if progress is not None:
            progress.close()

    return Driver(StreamPlanner(options, cluster), progress, close)
