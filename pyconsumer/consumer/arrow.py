"""``poll_arrow``: chooses the columns and builds the record batch. Only this module imports pyarrow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal

from pyconsumer.consumer.arguments import check_max_records
from pyconsumer.errors import SchemaUnavailableError
from pyconsumer.generic import PendingError
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.protocol.records import BinaryColumn, Columns, ColumnsBuilder
from pyconsumer.protocol.records.arrow import binary_array, header_list, header_struct, number_array, text_array
from pyconsumer.protocol.records.columns import HeaderColumn, bitmap_of
from pyconsumer.structs import TopicPartition
from pyconsumer.telemetry import hooks

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.consumer.delegate import ConsumerDelegate
    from pyconsumer.consumer.typed_arrow import TypedRows

__all__ = ["DEFAULT_COLUMNS", "MAX_BYTES", "ArrowColumns", "ArrowPoll", "arrow_columns"]

#: Limit (bytes) of keys, values and headers in one batch; the last record may exceed it.
MAX_BYTES: Final = 8 * 1024 * 1024

DEFAULT_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_COLUMNS: Final = (*DEFAULT_COLUMNS, "timestamp_type", "leader_epoch")
#: By column, its attribute of the rows, and the format of its numbers.
_NUMBERS: Final[dict[str, tuple[str, Literal["q", "i"]]]] = {
    "offset": ("offsets", "q"),
    "timestamp": ("timestamps", "q"),
    "timestamp_type": ("timestamp_types", "i"),
    "leader_epoch": ("leader_epochs", "i"),
}
_OF_RUNS: Final = ("topic", "partition")  # columns that have one value for all rows of a partition
_MOST_KEPT: Final = 4 * 1024 * 1024  # bytes of the columns of topics that are kept for the next batches

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
        self._kept: dict[str, Any] = {}
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
        return self._pa.RecordBatch.from_arrays(self.arrays(builder.build(), runs), schema=self.schema)

    def arrays(self, columns: Columns, runs: Runs) -> list[Any]:
        """Return the arrays of some rows, in the order of the schema."""
        return [
            self._of_runs(field.name, field.type, runs)
            if field.name in _OF_RUNS
            else self._array(field.name, field.type, columns)
            for field in self.schema
        ]

    def joined(self, parts: Sequence[tuple[TopicPartition, Columns, int]]) -> list[Any]:
        """Return the arrays of some parts, in the order of the schema. Of each part the first rows are taken."""
        runs = [(tp, used) for tp, _, used in parts]
        rows = [(columns, used) for _, columns, used in parts]
        return [
            self._of_runs(field.name, field.type, runs)
            if field.name in _OF_RUNS
            else self._joined(field.name, field.type, rows)
            for field in self.schema
        ]

    def _joined(self, name: str, kind: Any, parts: Sequence[tuple[Columns, int]]) -> Any:
        """Return one column of some parts. An array of each part is made only if the part has to be moved."""
        pa = self._pa
        if len(parts) == 1:
            return self._array(name, kind, parts[0][0]).slice(0, parts[0][1])
        count = sum([used for _, used in parts])
        if name in _NUMBERS:
            attribute, form = _NUMBERS[name]
            joined = b"".join([memoryview(getattr(columns, attribute))[:used] for columns, used in parts])
            return number_array(pa, memoryview(joined).cast(form), kind)
        if name == "headers":
            if not any(columns.headers is not None and len(columns.headers.names) for columns, _ in parts):
                none = BinaryColumn.of([])
                offsets: Any = memoryview(bytes(4 * (count + 1))).cast("i")
                return header_list(pa, HeaderColumn(offsets, none, none), kind)
        elif all(_is_null(columns.keys if name == "key" else columns.values) for columns, _ in parts):
            return pa.nulls(count, kind)
        return pa.concat_arrays([self._array(name, kind, columns).slice(0, used) for columns, used in parts])

    def _of_runs(self, name: str, kind: Any, runs: Runs) -> Any:
        """Return a column that has one value for each run of rows."""
        if name == "topic":
            return self._topics(kind, runs)
        return self._repeated((tp.partition, count) for tp, count in runs)

    def _array(self, name: str, kind: Any, columns: Columns) -> Any:
        pa = self._pa
        if name in _NUMBERS:
            return number_array(pa, getattr(columns, _NUMBERS[name][0]), kind)
        if name == "headers":
            return header_list(pa, columns.headers, kind)
        return binary_array(pa, columns.keys if name == "key" else columns.values, kind)

    def _topics(self, kind: Any, runs: Runs) -> Any:
        pa = self._pa
        numbers: dict[str, int] = {}
        for tp, _ in runs:
            numbers.setdefault(tp.topic, len(numbers))
        if pa.types.is_dictionary(kind):
            indices = self._repeated((numbers[tp.topic], count) for tp, count in runs)
            return pa.DictionaryArray.from_arrays(indices, text_array(pa, numbers))
        # Not by run_end_decode: pyarrow's compute functions would take 40 MB of memory.
        if len(numbers) == 1:
            return self._column_of(runs[0][0].topic, sum([count for _, count in runs]))
        found = [self._column_of(tp.topic, count) for tp, count in runs if count]
        return pa.concat_arrays(found) if found else text_array(pa, [])

    def _column_of(self, topic: str, count: int) -> Any:
        """Return a column of one topic. It is the beginning of a longer one, which is made once by doubling."""
        column = self._kept.get(topic)
        if column is None or len(column) < count:
            column = text_array(self._pa, [topic] * 64) if column is None else column
            while len(column) < count:
                column = self._pa.concat_arrays([column, column])
            self._kept.pop(topic, None)
            if sum([each.nbytes for each in list(self._kept.values())]) + column.nbytes > _MOST_KEPT:
                self._kept.clear()
            if column.nbytes <= _MOST_KEPT:
                self._kept[topic] = column
        return column.slice(0, count)

    def _repeated(self, runs: Iterable[tuple[int, int]]) -> Any:
        """Return an array of repeated numbers. Not by ``pyarrow.repeat``, for the reason of ``text_array``."""
        numbers = b"".join([number.to_bytes(4, sys.byteorder, signed=True) * count for number, count in runs])
        return number_array(self._pa, memoryview(numbers).cast("i"), self._pa.int32())


class _TypedColumns:
    """The columns of a poll with typed keys or values, in order.

    Args:
        names: the names of the columns.
        sides: by ``"key"`` and ``"value"``, the columns of that side.
        dictionary_topic: see :class:`ArrowColumns`.
        with_reasons: True adds the columns ``key_error`` and ``value_error``.
    """

    def __init__(
        self, names: Sequence[str], sides: dict[str, Any], *, dictionary_topic: bool, with_reasons: bool
    ) -> None:
        self.sides = sides
        self.raw = tuple([name for name in names if name not in sides])
        # A column of offsets stands for none: a batch has a length.
        self._raw_columns = arrow_columns(self.raw or ("offset",), dictionary_topic)
        import pyarrow

        self._pa: Any = pyarrow
        self._types = {side: columns.arrow_type(pyarrow) for side, columns in sides.items()}
        fields = []
        for name in names:
            kind = self._types.get(name)
            fields.append(self._raw_columns.schema.field(name) if kind is None else pyarrow.field(name, kind))
        if with_reasons:
            fields += [pyarrow.field(f"{side}_error", pyarrow.string()) for side in sides]
        self.schema = pyarrow.schema(fields)

    def batch(self, rows: TypedRows) -> pyarrow.RecordBatch:
        """Return the rows as one record batch."""
        from pyconsumer.protocol.avro.arrow import arrow_array

        pa = self._pa
        found: dict[str, Any] = dict(zip(self.raw, self._raw_arrays(rows), strict=False))
        for side, buffers in rows.finish().items():
            found[side] = arrow_array(pa, self.sides[side].layout, self._types[side], buffers)
            reasons = rows.reasons[side]
            texts = [reasons.get(row) for row in range(len(rows))] if reasons else None
            found[f"{side}_error"] = text_array(pa, texts) if texts else pa.nulls(len(rows), pa.string())
        batch = pa.RecordBatch.from_arrays([found[name] for name in self.schema.names], schema=self.schema)
        if rows.left_out:
            kept = bytearray(b"\1" * len(rows))
            for row in rows.left_out:
                kept[row] = 0
            mask = pa.Array.from_buffers(pa.bool_(), len(rows), [None, pa.py_buffer(bitmap_of(bytes(kept)))], 0)
            batch = batch.filter(mask)
        return batch

    def _raw_arrays(self, rows: TypedRows) -> list[Any]:
        if not rows.parts:
            return [self._pa.nulls(0, field.type) for field in self._raw_columns.schema]
        return self._raw_columns.joined(rows.parts)


class ArrowPoll:
    """One call of ``poll_arrow``: checks its arguments, takes buffered records, and returns them as columns.

    Args:
        delegate: the :class:`ConsumerDelegate` of the consumer.
        max_records, columns, dictionary_topic, key, value: the arguments of the call.

    Raises:
        ImportError, TypeError, ValueError: see ``poll_arrow``.
    """

    __slots__ = (
        "_builder",
        "_columns",
        "_delegate",
        "_dictionary_topic",
        "_names",
        "_rows",
        "_sides",
        "_typed",
        "max_records",
    )

    def __init__(
        self,
        delegate: ConsumerDelegate,
        max_records: int | None,
        columns: Iterable[str] | None,
        *,
        dictionary_topic: bool,
        key: Any = None,
        value: Any = None,
    ) -> None:
        self._delegate = delegate
        self.max_records = sys.maxsize if max_records is None else check_max_records(max_records)
        self._typed: _TypedColumns | None = None
        self._rows: TypedRows | None = None
        self._sides: dict[str, Any] = {}
        if key is None and value is None:
            self._columns = arrow_columns(columns, dictionary_topic)
            self._builder = self._columns.builder()
            return
        from pyconsumer.consumer.typed_arrow import typed_columns

        if isinstance(columns, str):
            raise TypeError(f"columns are a list of names, not one name: {columns!r}")
        given = {"key": key, "value": value}
        self._sides = {side: typed_columns(of, side) for side, of in given.items() if of is not None}
        self._names = None if columns is None else tuple(columns)
        if self._names == ():
            raise ValueError(f"columns are one or more of {', '.join(_COLUMNS)}, or parts such as value.id")
        self._dictionary_topic = dictionary_topic
        delegate.may_wait_for_schemas()

    @property
    def is_unsettled(self) -> bool:
        """Return whether the schema of the result is still to be found: run :meth:`settle` before the poll."""
        return bool(self._sides) and not all(columns.is_settled for columns in self._sides.values())

    def settle(self, deadline: float) -> Steps[None]:
        """Find the schema of the result. Raises as ``poll_arrow``."""
        delegate = self._delegate
        while topics := self._topics():
            try:
                return self._settle(topics)
            except PendingError as pending:
                end = delegate.expect([pending], deadline)
                if pending.arrival.done():
                    continue
                if delegate.clock.now() >= end:
                    raise SchemaUnavailableError(
                        f"the columns are not known yet: {pending}. Poll again", retriable=True
                    ) from None
            yield Wait(None, end)

    def _topics(self) -> set[str]:
        """Return the topics that are subscribed, or of which partitions are assigned."""
        subscriptions = self._delegate.subscriptions
        return subscriptions.subscription() | {tp.topic for tp in subscriptions.assigned_list()}

    def _settle(self, topics: Iterable[str]) -> None:
        for columns in self._sides.values():
            columns.settle(topics)

    def _prepare(self) -> TypedRows:
        """Return the rows, whose schema is settled."""
        if self._rows is None:
            from pyconsumer.consumer.typed_arrow import TypedRows, typed_names

            names, parts = typed_names(self._names, DEFAULT_COLUMNS, list(self._sides))
            deserialization = self._delegate.fetcher.deserialization
            sides = {side: self._sides[side].select(paths) for side, paths in parts.items()}
            self._typed = _TypedColumns(
                names,
                sides,
                dictionary_topic=self._dictionary_topic,
                with_reasons=deserialization.policy == "null",
            )
            self._rows = TypedRows(sides, deserialization, with_keys="key" in self._typed.raw)
        return self._rows

    def _take_typed(self, most: int) -> list[tuple[TopicPartition, int]] | None:
        if self.is_unsettled:
            topics = self._topics()
            if not topics:
                return None
            try:
                self._settle(topics)
            except PendingError as pending:
                self._delegate.expect([pending])
                return None
        return self._delegate.take_columns(self._prepare(), most, MAX_BYTES)

    def take(self, most: int) -> list[tuple[TopicPartition, int]] | None:
        """Take up to ``most`` records out of the buffer. Return None if there are none and no position has moved."""
        try:
            if self._sides:
                return self._take_typed(most)
            return self._delegate.take_columns(self._builder, most, MAX_BYTES)
        except MemoryError:
            self._put_back()
            raise

    def batch(self, runs: Runs | None) -> pyarrow.RecordBatch:
        """Return the taken records as a record batch."""
        batch = self._batch(runs)
        if hooks.active is not None:
            self._delegate.observation.columns(list(runs or ()), partial(_headers, batch))
        return batch

    def _batch(self, runs: Runs | None) -> pyarrow.RecordBatch:
        try:
            if self._sides:
                if self.is_unsettled:
                    raise SchemaUnavailableError(
                        "no topic is known yet, so the schema of the columns is not: poll again, or give the"
                        " AvroDeserializer a schema_str",
                        retriable=True,
                    )
                rows = self._prepare()
                assert self._typed is not None
                return self._typed.batch(rows)
            return self._columns.batch(self._builder, runs or ())
        except MemoryError:
            self._put_back()
            raise

    def _put_back(self) -> None:
        """Revert the positions: without memory for them, the records have not reached the application."""
        self._delegate.fetcher.buffer.roll_back()


def _is_null(column: BinaryColumn | None) -> bool:
    """Return whether no row has a string."""
    return column is not None and column.null_count == len(column)


def _headers(batch: pyarrow.RecordBatch, most: int) -> list[list[tuple[str, bytes | None]]]:
    """Return the headers of the first rows, or nothing if there is no such column."""
    if "headers" not in batch.schema.names:
        return []
    rows = batch.column("headers").slice(0, most).to_pylist()
    return [[(one["key"], one["value"]) for one in row or ()] for row in rows]
