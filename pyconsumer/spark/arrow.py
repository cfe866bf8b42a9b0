"""Columns of records as Arrow record batches, without a copy of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.protocol.records import Columns
from pyconsumer.protocol.records.arrow import binary_array, header_list, header_struct, number_array
from pyconsumer.protocol.records.columns import bitmap_of
from pyconsumer.spark.errors import ReadError
from pyconsumer.spark.schema import arrow_schema
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["record_batch"]


def record_batch(columns: Columns, count: int, names: tuple[str, ...]) -> pa.RecordBatch:
    """A batch of the first ``count`` rows with some of the columns.

    Raises:
        ReadError: a timestamp is too far away for Spark, which counts microseconds in 64 bits.
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
            f"its timestamp, {columns.timestamps[at]} ms, is out of Spark's range; leave the column out by the option"
            " columns",
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
}
