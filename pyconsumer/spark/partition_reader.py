"""A task of the source: reads one offset range from the partition's leader.

A :class:`PartitionReader` has the state of one read: the position, the cause of the last failure, since when the topic
or the records are missing. It belongs to the task that created it. At most one fetch is in flight.

Rules

1. The next fetch is sent before the records of the current one are decoded, so that broker and network work while
   Spark consumes. Between two blocks of records the client polls its sockets.
2. Offsets without a visible record (control batches, aborted transactions, compacted records) are skipped.
3. Temporary failures are retried: a lost connection, a change of leader, a response without records. If the position
   has not moved for ``poll_timeout_ms``, the read fails and reports the last of them.
4. Data is lost if an offset of the range is not in the log any more. Then the log begins later, or it ends
   before (planned ranges lie within the log), or the topic was deleted. That is an error, or a warning, after
   which the read continues at the next existing offset. A new leader may not know the end of its log at once, so an end
   counts if fetches have reported it for a while and ListOffsets agrees. A topic counts as deleted if the cluster has
   not known it for a while.

:func:`record_batch` turns columns into Arrow record batches, without copying keys and values.
"""

from __future__ import annotations

import bisect
import logging
import math
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyconsumer import errors
from pyconsumer.errors import CorruptRecordError, Errors, KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from pyconsumer.network.calls import wait_until
from pyconsumer.network.client import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pyconsumer.protocol.records import Columns, ColumnsBuilder, Cursor
from pyconsumer.protocol.records.arrow import binary_array, header_list, header_struct, number_array
from pyconsumer.protocol.records.columns import bitmap_of
from pyconsumer.protocol.requests.fetch import FetchSettings, fetch_request, newest_version
from pyconsumer.spark.client_cache import SparkClient
from pyconsumer.spark.errors import DataLossError, ReadError
from pyconsumer.spark.offset_ranges import OffsetRange
from pyconsumer.spark.offset_reader import OffsetReader
from pyconsumer.spark.offsets_json import EARLIEST
from pyconsumer.spark.schema import arrow_schema
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = [
    "PartitionReader",
    "record_batch",
]

_log = logging.getLogger("pyconsumer.spark")

_MAX_INT32: Final = 0x7FFFFFFF

#: A log that has ended before the range for this time counts as truncated (rule 4).
_TRUNCATED_AFTER_S: Final = 3.0
#: A topic that the cluster has not known for this time counts as deleted (rule 4).
_DELETED_AFTER_S: Final = 10.0
#: Returned in place of data if the topic was deleted.
_DELETED: Final = PartitionData()


class PartitionReader:
    """Reads one offset range, once.

    Args:
        spark_client: the client. It is borrowed for the read.
        offsets: the range to read.
        fail_on_data_loss: True raises an error if data was lost (rule 4).
        poll_timeout_ms: the longest time without progress, in ms (rule 3).
    """

    def __init__(
        self, spark_client: SparkClient, offsets: OffsetRange, *, fail_on_data_loss: bool, poll_timeout_ms: int
    ) -> None:
        self._spark_client = spark_client
        self._client = spark_client.client
        self._metadata = spark_client.metadata
        self._config = spark_client.config
        self._range = offsets
        self._tp = offsets.topic_partition
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout = poll_timeout_ms / 1000
        self._partition_bytes = self._config.max_partition_fetch_bytes
        self._replica = -1  # the follower to read from, as the leader advised (KIP-392)
        self._cause = "no response has arrived"
        self._unknown_since = math.inf  # when the cluster began to report that the topic does not exist
        self._at_end_since = math.inf  # when the leader began to report that the log ends at the position

    def blocks(self, max_records: int, max_bytes: int, names: Collection[str]) -> Iterator[tuple[Columns, int]]:
        """Yield the records in offset order, in blocks.

        A block has columns, and the number of rows that belong to the range.

        Args:
            max_records: the most rows in a block.
            max_bytes: a block ends when its columns have this size.
            names: the columns to read. ``key``, ``value`` and ``headers`` are decoded only if they are named.

        Raises:
            DataLossError: data was lost, and ``fail_on_data_loss`` is True.
            CorruptRecordError: a batch is damaged.
            ReadError: no record could be read within ``poll_timeout_ms``, or access was denied.
        """
        self._metadata.set_topics([self._tp.topic])
        make = partial(
            ColumnsBuilder, with_keys="key" in names, with_values="value" in names, with_headers="headers" in names
        )
        position, end = self._range.start, self._range.end
        ahead: RequestFuture[ClientResponse] | None = None
        while position < end:
            data = self._fetch(position, ahead)
            ahead = None
            if data is None:
                position = self._after_out_of_range(position)
                continue
            if data is _DELETED:
                text = f"{self._tp}: the topic was deleted before offset {position} was read"
                position = self._report_data_loss(text, end)
                continue
            cursor = self._cursor(data, position)
            if cursor.end_offset < end:
                ahead = self._send(cursor.end_offset)
                self._client.flush()
            while not cursor.exhausted and cursor.next_offset < end:
                builder = make()
                cursor.take_into(builder, min(max_records, end - cursor.next_offset), max_bytes)
                columns = builder.build(*self._tp)
                # Not all offsets have a record, so the last block may contain rows beyond the range.
                count = bisect.bisect_left(columns.offsets, end)
                if count:
                    yield columns, count
                    if ahead is not None and not ahead.done:
                        self._client.poll_no_wakeup()
            position = cursor.end_offset if cursor.exhausted else cursor.next_offset

    # -- one fetch ---------------------------------------------------------------------------------------------------

    def _fetch(self, position: int, ahead: RequestFuture[ClientResponse] | None) -> PartitionData | None:
        """Return the data at ``position``, at least one batch, None if it is out of range, or ``_DELETED``."""
        deadline = self._client.clock.now() + self._poll_timeout
        try:
            return self._client.run(self._fetch_steps(position, ahead), deadline)
        except KafkaTimeoutError as error:
            reason = self._client.failures() or self._cause
            raise ReadError(
                f"no record could be read for {self._poll_timeout:g} s (kafkaConsumer.pollTimeoutMs): {reason}",
                self._tp,
                position,
            ) from error
        except ReadError:
            raise
        except KafkaError as error:
            raise ReadError(str(error), self._tp, position) from error

    def _fetch_steps(self, position: int, future: RequestFuture[ClientResponse] | None) -> Steps[PartitionData | None]:
        while True:
            if self._is_deleted():
                return _DELETED
            if future is None:
                future = self._send(position)
            if future is None:
                self._cause = "the partition has no leader"
                yield from self._pause()
                continue
            while not future.done:
                yield Wait(future, math.inf)
            error = future.exception
            if error is None:
                data = self._partition_of(future.value)
                error = errors.for_code(data.error_code) if data.error_code else None
                if error is None:
                    if data.records is not None and len(data.records):
                        self._at_end_since = math.inf
                        return data
                    if data.preferred_read_replica >= 0 and self._replica != data.preferred_read_replica:
                        self._replica = data.preferred_read_replica
                    else:
                        if (yield from self._is_beyond_end(position, data)):
                            return None
                        self._cause = (
                            f"the broker has no records there (high watermark {data.high_watermark},"
                            f" last stable offset {data.last_stable_offset})"
                        )
                        yield from self._pause()
                    future = None
                    continue
                if data.error_code == Errors.OFFSET_OUT_OF_RANGE and self._replica < 0:
                    return None
            if self._replica >= 0:
                self._replica = -1  # back to the leader, at once
            elif not error.retriable:
                raise error
            else:
                self._cause = str(error)
                yield from self._pause()
            future = None

    def _is_deleted(self) -> bool:
        """Return whether the cluster has not known the topic for a while (rule 4)."""
        now = self._client.clock.now()
        if not isinstance(self._metadata.topic_error(self._tp.topic), UnknownTopicOrPartitionError):
            self._unknown_since = math.inf
        elif self._unknown_since > now:
            self._unknown_since = now
        return now - self._unknown_since >= _DELETED_AFTER_S

    def _is_beyond_end(self, position: int, data: PartitionData) -> Steps[bool]:
        """Return whether the log ends at or before the position, and was truncated (rule 4)."""
        now = self._client.clock.now()
        if self._replica >= 0 or not 0 <= data.high_watermark <= position:
            self._at_end_since = math.inf
        elif self._at_end_since > now:
            self._at_end_since = now
        elif now - self._at_end_since >= _TRUNCATED_AFTER_S:
            self._at_end_since = math.inf
            end = yield from OffsetReader(self._spark_client).log_end(self._tp)
            return end <= position
        return False

    def _send(self, position: int) -> RequestFuture[ClientResponse] | None:
        """Enqueue a fetch, and return None if the partition has no known leader."""
        leader = self._metadata.leader(self._tp)
        if leader is None or leader.leader < 0:
            return None
        topic_id = self._metadata.topic_id(self._tp.topic)
        node = self._replica if self._metadata.broker(self._replica) is not None else leader.leader
        settings = FetchSettings(
            self._config.fetch_max_wait_ms,
            1,
            max(self._config.fetch_max_bytes, self._partition_bytes),
            self._config.read_committed,
            self._config.client_rack,
        )
        fields = (topic_id, position, self._partition_bytes, leader.leader_epoch)
        request = fetch_request(settings, [(self._tp, fields)])
        return self._client.send(node, FetchRequest, request, max_version=newest_version([topic_id]))

    def _partition_of(self, received: ClientResponse) -> PartitionData:
        response = received.message
        assert isinstance(response, FetchResponse)
        if response.error_code:
            return PartitionData(partition_index=self._tp.partition, error_code=response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                if data.partition_index == self._tp.partition:
                    return data
        # A broker that throttles us responds without partitions.
        return PartitionData(partition_index=self._tp.partition)

    def _pause(self) -> Steps[None]:
        """Request new metadata, and wait for the retry backoff."""
        self._metadata.request_update()
        clock = self._client.clock
        yield from wait_until(clock, clock.now() + self._config.retry_backoff_ms / 1000)

    # -- its response ------------------------------------------------------------------------------------------------

    def _cursor(self, data: PartitionData, position: int) -> Cursor:
        aborted = None
        if self._config.read_committed:
            aborted = [(found.producer_id, found.first_offset) for found in data.aborted_transactions or ()]
        cursor = Cursor(
            self._tp,
            data.records or b"",
            fetch_offset=position,
            check_crcs=self._config.check_crcs,
            aborted=aborted,
        )
        if not cursor.batch_count and cursor.has_incomplete_batch:
            # Brokers send the first batch whole, however large it is. One that does not gets a larger limit.
            if self._partition_bytes >= _MAX_INT32:
                raise CorruptRecordError("the batch is cut off", topic_partition=self._tp, offset=position)
            self._partition_bytes = min(2 * self._partition_bytes, _MAX_INT32)
        return cursor

    def _after_out_of_range(self, position: int) -> int:
        """Report that ``position`` is out of range, and return where to continue.

        Raises:
            DataLossError: data was lost, and ``fail_on_data_loss`` is True.
        """
        end = self._range.end
        cluster = OffsetReader(self._spark_client)
        earliest = cluster.offsets({self._tp: EARLIEST})[self._tp] or 0
        if earliest <= position:
            text = f"{self._tp}: offset {position} lies beyond the end of the log, which was truncated or recreated"
            resume_at = end
        else:
            text = (
                f"{self._tp}: offsets {position} to {min(earliest, end) - 1} are missing, because the log begins at"
                f" {earliest}: they were deleted, for instance by retention"
            )
            resume_at = min(earliest, end)
        return self._report_data_loss(text, resume_at)

    def _report_data_loss(self, text: str, resume_at: int) -> int:
        """Raise DataLossError, or log a warning and return ``resume_at``."""
        if self._fail_on_data_loss:
            raise DataLossError(
                "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
                f"{text}. With failOnDataLoss=false the query continues without the lost records",
            )
        _log.warning("%s. Continuing at offset %d", text, resume_at)
        return resume_at


def record_batch(columns: Columns, count: int, names: tuple[str, ...]) -> pa.RecordBatch:
    """Return the first ``count`` rows as a record batch.

    Args:
        names: the columns to take.

    Raises:
        ReadError: a timestamp is out of Spark's range. Spark stores microseconds in 64 bits.
    """
    import pyarrow as pa

    schema = arrow_schema(names)
    arrays = [_BUILDERS[name](pa, columns) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch if count == len(columns) else batch.slice(0, count)


def _timestamps(pa: Any, columns: Columns) -> Any:
    ms = number_array(pa, columns.timestamps, pa.timestamp("ms", tz="UTC"))
    try:
        return ms.cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid:
        limit = 0x7FFFFFFFFFFFFFFF // 1000
        at = next(i for i, timestamp in enumerate(columns.timestamps) if abs(timestamp) > limit)
        raise ReadError(
            f"the record's timestamp, {columns.timestamps[at]} ms, is out of Spark's range. Use the option columns to"
            " leave the timestamp out",
            TopicPartition(columns.topic, columns.partition),
            columns.offsets[at],
        ) from None


def _headers(pa: Any, columns: Columns) -> Any:
    column = columns.headers
    assert column is not None
    kind = pa.list_(pa.field("element", header_struct(pa)))
    # A record without headers has null, not an empty list.
    present = bytes([begin < end for begin, end in pairwise(column.offsets)])
    return header_list(pa, column, kind, bitmap_of(present), present.count(0))


_BUILDERS: Final[dict[str, Callable[[Any, Columns], Any]]] = {
    "key": lambda pa, columns: binary_array(pa, columns.keys, pa.binary()),
    "value": lambda pa, columns: binary_array(pa, columns.values, pa.binary()),
    "topic": lambda pa, columns: pa.repeat(pa.scalar(columns.topic, pa.string()), len(columns)),
    "partition": lambda pa, columns: pa.repeat(pa.scalar(columns.partition, pa.int32()), len(columns)),
    "offset": lambda pa, columns: number_array(pa, columns.offsets, pa.int64()),
    "timestamp": _timestamps,
    "timestampType": lambda pa, columns: number_array(pa, columns.timestamp_types, pa.int32()),
    "headers": _headers,
    "key_bytes": lambda pa, columns: binary_array(pa, columns.keys, pa.binary()),
    "value_bytes": lambda pa, columns: binary_array(pa, columns.values, pa.binary()),
}
