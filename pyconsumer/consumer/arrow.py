"""``poll_arrow``: chooses the columns and builds the record batch. Only this module imports pyarrow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.consumer.arguments import check_max_records
from pyconsumer.protocol.records import BinaryColumn, Columns, ColumnsBuilder
from pyconsumer.protocol.records.arrow import binary_array, header_list, header_struct, number_array
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.consumer.delegate import ConsumerDelegate

__all__ = ["DEFAULT_COLUMNS", "MAX_BYTES", "ArrowColumns", "ArrowPoll", "arrow_columns"]

#: Limit (bytes) of keys, values and headers in one batch; the last record may exceed it.
MAX_BYTES: Final = 8 * 1024 * 1024

DEFAULT_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_COLUMNS: Final = (*DEFAULT_COLUMNS, "timestamp_type", "leader_epoch")

Runs = Sequence[tuple[TopicPartition, int]]
"""Partitions with numbers of rows, in the order of the rows."""


def arrow_columns(names: Iterable[str] | None, dictionary_topic: bool) -> ArrowColumns:
    """Return the :class:`ArrowColumns` for these names. The result is cached, because building a schema is slow."""
    wanted = names if names is None or isinstance(names, str) else tuple(names)
    return _arrow_columns(wanted, dictionary_topic)


@lru_cache(maxsize=16)
def _arrow_columns(names: tuple[str, ...] | str | None, dictionary_topic: bool) -> ArrowColumns:
    return ArrowColumns(names, dictionary_topic=dictionary_topic)


class ArrowColumns:
    """A selection of columns and their Arrow types.

    Args:
        names: names of the columns, in order. By default :data:`DEFAULT_COLUMNS`.
        dictionary_topic: True encodes the topic column as a dictionary.

    Raises:
        ValueError: a column is unknown, or is named twice.
        ImportError: pyarrow is not installed.
    """

    def __init__(self, names: Iterable[str] | None = None, *, dictionary_topic: bool = False) -> None:
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("poll_arrow needs pyarrow: pip install pyconsumer[arrow]") from error
        if isinstance(names, str):
            raise TypeError(f"columns are a list of names, not one name: {names!r}")
        self._pa: Any = pyarrow
        self._names = DEFAULT_COLUMNS if names is None else tuple(names)
        unknown = [name for name in self._names if name not in _COLUMNS]
        if unknown or not self._names:
            raise ValueError(f"columns are one or more of {', '.join(_COLUMNS)}, not {', '.join(map(repr, unknown))}")
        if len(set(self._names)) < len(self._names):
            raise ValueError(f"a column is named twice: {', '.join(self._names)}")
        topic = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) if dictionary_topic else pyarrow.string()
        types = {
            "topic": topic,
            "partition": pyarrow.int32(),
            "offset": pyarrow.int64(),
            "timestamp": pyarrow.timestamp("ms", tz="UTC"),
            "key": pyarrow.binary(),
            "value": pyarrow.binary(),
            "headers": pyarrow.list_(header_struct(pyarrow)),
            "timestamp_type": pyarrow.int32(),
            "leader_epoch": pyarrow.int32(),
        }
        never_null = ("topic", "partition", "offset", "headers", "timestamp_type", "leader_epoch")
        self.schema = pyarrow.schema(
            [pyarrow.field(name, types[name], nullable=name not in never_null) for name in self._names]
        )

    def builder(self) -> ColumnsBuilder:
        """Return an empty builder, which collects the rows."""
        return ColumnsBuilder(
            with_keys="key" in self._names, with_values="value" in self._names, with_headers="headers" in self._names
        )

    def batch(self, builder: ColumnsBuilder, runs: Runs) -> pyarrow.RecordBatch:
        """Return the collected rows as one record batch. Its columns share the builder's memory."""
        columns = builder.build()
        arrays = [self._array(field.name, field.type, columns, runs) for field in self.schema]
        return self._pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, kind: Any, columns: Columns, runs: Runs) -> Any:
        pa = self._pa
        if name == "topic":
            return self._topics(kind, runs)
        if name == "partition":
            return self._repeated((tp.partition, count) for tp, count in runs)
        if name == "offset":
            return number_array(pa, columns.offsets, kind)
        if name == "timestamp":
            return number_array(pa, columns.timestamps, kind)
        if name == "key":
            return binary_array(pa, columns.keys, kind)
        if name == "value":
            return binary_array(pa, columns.values, kind)
        if name == "headers":
            return header_list(pa, columns.headers, kind)
        return number_array(pa, columns.timestamp_types if name == "timestamp_type" else columns.leader_epochs, kind)

    def _topics(self, kind: Any, runs: Runs) -> Any:
        pa = self._pa
        numbers: dict[str, int] = {}
        for tp, _ in runs:
            numbers.setdefault(tp.topic, len(numbers))
        names = binary_array(pa, BinaryColumn.of([name.encode() for name in numbers]), pa.string())
        indices = self._repeated((numbers[tp.topic], count) for tp, count in runs)
        topics = pa.DictionaryArray.from_arrays(indices, names)
        return topics if pa.types.is_dictionary(kind) else topics.cast(kind)

    def _repeated(self, runs: Iterable[tuple[int, int]]) -> Any:
        """Return an array of repeated numbers. Not by ``pyarrow.repeat``: the first scalar would import pandas."""
        numbers = b"".join([number.to_bytes(4, sys.byteorder, signed=True) * count for number, count in runs])
        return number_array(self._pa, memoryview(numbers).cast("i"), self._pa.int32())


class ArrowPoll:
    """One call of ``poll_arrow``: checks its arguments, takes buffered records, and returns them as columns.

    Args:
        delegate: the :class:`ConsumerDelegate` of the consumer.
        max_records, columns, dictionary_topic: the arguments of the call.

    Raises:
        ImportError, TypeError, ValueError: see ``poll_arrow``.
    """

    __slots__ = ("_builder", "_columns", "_delegate", "_max_records")

    def __init__(
        self,
        delegate: ConsumerDelegate,
        max_records: int | None,
        columns: Iterable[str] | None,
        *,
        dictionary_topic: bool,
    ) -> None:
        self._delegate = delegate
        self._columns = arrow_columns(columns, dictionary_topic)
        self._max_records = sys.maxsize if max_records is None else check_max_records(max_records)
        self._builder = self._columns.builder()

    def take(self) -> list[tuple[TopicPartition, int]] | None:
        """Take records out of the buffer. Return None if there are none and no position has moved."""
        try:
            return self._delegate.take_columns(self._builder, self._max_records, MAX_BYTES)
        except MemoryError:
            self._put_back()
            raise

    def batch(self, runs: Runs | None) -> pyarrow.RecordBatch:
        """Return the taken records as a record batch."""
        try:
            return self._columns.batch(self._builder, runs or ())
        except MemoryError:
            self._put_back()
            raise

    def _put_back(self) -> None:
        """Revert the positions: without memory for them, the records have not reached the application."""
        self._delegate.fetcher.buffer.roll_back()
