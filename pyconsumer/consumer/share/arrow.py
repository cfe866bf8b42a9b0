"""``poll_arrow`` and ``acknowledge`` of a share consumer, for columns.

Rules

1. A batch has the records of one poll, with their delivery counts. Keys and values are the bytes that came.
2. A batch, a part of it, or a table of several parts is acknowledged by its columns ``topic``, ``partition`` and
   ``offset``. All of its rows are acknowledged, or none.
3. A mask has a value for each row: a type, or True to accept and False to release. A row with null is left as it is.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.consumer.arrow import DEFAULT_COLUMNS, arrow_columns
from pyconsumer.consumer.share.acknowledgements import Delivery
from pyconsumer.protocol.records.arrow import number_array
from pyconsumer.structs import AcknowledgeType, TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ShareColumns", "acknowledged_rows", "count_field"]

_COUNT: Final = "delivery_count"
_NEEDED: Final = ("topic", "partition", "offset")

Rows = dict[tuple[TopicPartition, AcknowledgeType], list[int]]
"""Offsets by partition and type."""


def count_field() -> pyarrow.Field:
    """Return the column of delivery counts."""
    import pyarrow

    return pyarrow.field(_COUNT, pyarrow.int32(), nullable=False)


class ShareColumns:
    """The columns of one ``poll_arrow`` of a share consumer.

    Args:
        names: names of the columns, in order. By default those of :data:`DEFAULT_COLUMNS`, and ``delivery_count``.
        dictionary_topic: True encodes the topic column as a dictionary.

    Raises:
        ValueError: a column is unknown, or is named twice.
        ImportError: pyarrow is not installed.
    """

    def __init__(self, names: Iterable[str] | None, *, dictionary_topic: bool = False) -> None:
        if isinstance(names, str):
            raise TypeError(f"columns are a list of names, not one name: {names!r}")
        wanted = (*DEFAULT_COLUMNS, _COUNT) if names is None else tuple(names)
        if wanted.count(_COUNT) > 1:
            raise ValueError(f"a column is named twice: {', '.join(wanted)}")
        others = tuple(name for name in wanted if name != _COUNT)
        # A column of offsets stands for none: a batch has a length.
        self._columns = arrow_columns(others or (("offset",) if wanted else ()), dictionary_topic)
        import pyarrow

        self._pa: Any = pyarrow
        known = self._columns.schema
        self._schema = pyarrow.schema([count_field() if name == _COUNT else known.field(name) for name in wanted])

    def batch(self, deliveries: Sequence[Delivery]) -> pyarrow.RecordBatch:
        """Return the records of deliveries as one record batch."""
        builder = self._columns.builder()
        runs: list[tuple[TopicPartition, int]] = []
        for delivery in deliveries:
            builder.add(delivery.raw_records())
            runs.append((delivery.source.topic_partition, len(delivery.records)))
        arrays = dict(
            zip(self._columns.schema.names, self._columns.arrays(builder.build(), runs), strict=True),
        )
        arrays[_COUNT] = self._counts(deliveries)
        return self._pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)

    def _counts(self, deliveries: Sequence[Delivery]) -> Any:
        numbers = b"".join(
            count.to_bytes(4, sys.byteorder, signed=True) * rows
            for delivery in deliveries
            for count, rows in _count_runs(delivery)
        )
        return number_array(self._pa, memoryview(numbers).cast("i"), self._pa.int32())


def _count_runs(delivery: Delivery) -> Iterator[tuple[int, int]]:
    """Yield delivery counts with numbers of records, in the order of the records."""
    records = delivery.records
    start = 0
    for _, last, count in delivery.counts:
        end = bisect_right(records, last, start, key=attrgetter("offset"))
        if end > start:
            yield count, end - start
        start = end


def acknowledged_rows(batch: Any, kind: Any) -> Rows:
    """Return the offsets of a record batch or table, by partition and type.

    Args:
        batch: has the columns ``topic``, ``partition`` and ``offset``.
        kind: a type for all rows, or a mask (rule 3).

    Raises:
        ValueError: a column is missing, or the mask has another length.
    """
    missing = [name for name in _NEEDED if name not in batch.schema.names]
    if missing:
        raise ValueError(f"a batch is acknowledged by its columns {', '.join(_NEEDED)}: it has no {', '.join(missing)}")
    offsets = batch.column("offset").to_pylist()
    if not offsets:
        return {}
    topics, partitions = batch.column("topic"), batch.column("partition")
    if isinstance(kind, int) and not isinstance(kind, bool) and len(topics.unique()) == len(partitions.unique()) == 1:
        return {(TopicPartition(topics[0].as_py(), partitions[0].as_py()), AcknowledgeType(kind)): offsets}
    rows: Rows = {}
    columns = zip(topics.to_pylist(), partitions.to_pylist(), _kinds(kind, len(offsets)), offsets, strict=False)
    for topic, partition, each, offset in columns:
        if each is not None:
            rows.setdefault((TopicPartition(topic, partition), each), []).append(offset)
    return rows


def _kinds(kind: Any, count: int) -> Iterable[AcknowledgeType | None]:
    """Return the type of each row."""
    if isinstance(kind, int) and not isinstance(kind, bool):
        return repeat(AcknowledgeType(kind), count)
    to_list = getattr(kind, "to_pylist", None) or getattr(kind, "tolist", None)
    mask = list(kind) if to_list is None else to_list()
    if len(mask) != count:
        raise ValueError(f"the mask has {len(mask)} values for {count} rows")
    return [_kind(value) for value in mask]


def _kind(value: Any) -> AcknowledgeType | None:
    if value is None:
        return None
    if value is True or value is False:
        return AcknowledgeType.ACCEPT if value else AcknowledgeType.RELEASE
    return AcknowledgeType(value)
