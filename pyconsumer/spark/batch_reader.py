"""The batch source: plans on the driver, reads in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyconsumer.spark.arrow import record_batch
from pyconsumer.spark.connections import borrow, connect
from pyconsumer.spark.lookups import ClusterLookups
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.planning import OffsetRange, divide
from pyconsumer.spark.range_reader import RangeReader
from pyconsumer.spark.resolve import batch_ranges

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchReader", "RangePartition", "read_range"]

#: Rows of a record batch: usually all of a fetch's answer, for each batch costs Spark something, on both sides of its
#: socket. Against batches of 10,000 that was 10 % of the time of a task.
_BATCH_ROWS: Final = 100_000
_BATCH_BYTES: Final = 8 * 1024 * 1024


class RangePartition(InputPartition):  # type: ignore[misc]
    """A task: one range of offsets, in ``value``."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads fixed ranges. They are looked up once for each loaded DataFrame: "latest" is frozen then.

    Args:
        options: checked ones; they travel to the tasks.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """One or more tasks for each partition of a topic that has data; see :mod:`pyconsumer.spark.planning`."""
        options = self.options
        with connect(options.client) as connection:
            lookups = ClusterLookups(
                connection, attempts=options.fetch_offset_attempts, retry_ms=options.fetch_offset_retry_ms
            )
            ranges = batch_ranges(options, lookups)
        cut = divide(
            ranges,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return [RangePartition(found) for found in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task. Spark makes up a partition of None where there is none: it has no records."""
        if partition.value is None:
            return iter(())
        return read_range(self.options, OffsetRange(*partition.value))


def read_range(options: SourceOptions, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow record batches with the columns that the options name."""
    with borrow(options.client) as connection:
        reader = RangeReader(
            connection,
            offsets,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        )
        for columns, count in reader.blocks(_BATCH_ROWS, _BATCH_BYTES, options.columns):
            yield record_batch(columns, count, options.columns)
