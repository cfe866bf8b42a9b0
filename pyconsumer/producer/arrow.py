"""``send_arrow``: the rows of an Arrow table as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from pyconsumer.network.futures import Steps
from pyconsumer.producer.future import BatchResult, FutureRecordMetadata
from pyconsumer.producer.future_records import FutureRecords

__all__ = ["batches_of", "send_steps"]

_COLUMNS: Final = ("value", "key", "partition", "timestamp")
_ROWS: Final = 10_000

Rows = tuple[list[Any], list[Any] | None, list[Any] | None, list[Any] | None]


def batches_of(table: pa.Table | pa.RecordBatch) -> Iterator[Rows]:
    """Yield values, keys, partitions and times, some rows at a time. A missing column is None.

    Raises:
        ValueError: the column ``value`` is missing, or a column is unknown or has a wrong type.
    """
    names = table.schema.names
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise ValueError(f"column {unknown[0]!r} is none of those that are sent: {', '.join(_COLUMNS)}")
    if "value" not in names:
        raise ValueError(f"there must be a column named value, but the columns are {', '.join(names) or 'none'}")
    if len(set(names)) != len(names):
        raise ValueError(f"a column is there twice: {', '.join(names)}")
    whole = pa.table(table) if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    columns = {name: _checked(name, whole.column(name)) for name in names}
    for start in range(0, whole.num_rows, _ROWS):
        rows = {name: column.slice(start, _ROWS).to_pylist() for name, column in columns.items()}
        yield rows["value"], rows.get("key"), rows.get("partition"), rows.get("timestamp")


def send_steps(
    send_many: Callable[..., Steps[FutureRecords]],
    send_at_once: Callable[..., FutureRecordMetadata | None],
    send: Callable[..., Steps[FutureRecordMetadata]],
    topic: str,
    table: pa.Table | pa.RecordBatch,
    partition: int | None,
) -> Steps[FutureRecords]:
    """Send the rows of a table. This is a generator, which also yields between batches.

    Args:
        send_many: a function that sends lists of values and keys.
        send_at_once: a function that sends a record if there is an open batch for it. Otherwise it returns None.
        send: a function that sends one record.
    """
    runs: list[tuple[BatchResult, int, int]] = []
    sent = 0
    try:
        for values, keys, partitions, times in batches_of(table):
            if partitions is None and times is None:
                runs += (yield from send_many(topic, values, keys, partition, None)).runs
                sent += len(values)
                continue
            for row, value in enumerate(values):
                record = (
                    topic,
                    value,
                    None if keys is None else keys[row],
                    None,
                    partition if partitions is None or partitions[row] is None else partitions[row],
                    None if times is None else times[row],
                )
                future = send_at_once(*record)
                if future is None:
                    future = yield from send(*record)
                runs.append((*future.place, 1))
                sent += 1
    except Exception as error:
        error.add_note(f"{sent} rows of the table were accepted before this batch of rows, and are sent")
        raise
    return FutureRecords(runs)


def _checked(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if name == "partition":
        good = pa.types.is_integer(kind)
        wanted = "integers"
    elif name == "timestamp":
        good = pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
        wanted = "timestamps or milliseconds since the epoch"
        if pa.types.is_timestamp(kind):
            return column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    else:
        good = any(
            check(kind)
            for check in (
                pa.types.is_binary,
                pa.types.is_string,
                pa.types.is_large_binary,
                pa.types.is_large_string,
                pa.types.is_fixed_size_binary,
                pa.types.is_null,
            )
        )
        wanted = "binary or string"
    if not good:
        raise ValueError(f"column {name} must be {wanted}, not {kind}")
    return column
