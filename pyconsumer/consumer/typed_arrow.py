"""``poll_arrow(key=..., value=...)``: keys and values as typed columns. pyarrow comes from :mod:`.arrow`.

Rules

1. A part is the rows of one fetch. It is decoded before the position moves past it. So a row that stops the poll is the
   first of the next one, and no error is raised after a position has moved.
2. A row that cannot be decoded goes the way of ``on_record_error``. ``raise``: rows before it are returned first, then
   the error is raised, and the position stays at that row. ``skip``, a function and a sink: the row is left out.
   ``null``: the key or value is null, and the column ``key_error`` or ``value_error`` has the reason.
3. A row whose schema must be fetched first stops the poll as well. The policy is not asked.
4. A null key or value, such as a tombstone, is a null.
5. A batch ends early when its typed columns are large (rule 6 of :mod:`pyconsumer.protocol.avro._pure_columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.consumer.completed_fetch import CompletedFetch
from pyconsumer.consumer.deserializers import Deserialization, failure_of, located
from pyconsumer.errors import ConfigurationError, SchemaUnavailableError
from pyconsumer.protocol.records import Columns, ColumnsBuilder
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.protocol.records import BinaryColumn

__all__ = ["SIDES", "TypedRows", "typed_columns", "typed_names"]

SIDES: Final = ("key", "value")


def typed_columns(deserializer: Any, side: str) -> Any:
    """Return the typed columns of a deserializer.

    Raises:
        TypeError: it has none.
    """
    columns = getattr(deserializer, "columns", None)
    if not callable(columns) or isinstance(deserializer, type):
        raise TypeError(f"poll_arrow({side}=...) takes a deserializer of a registry's schemas, not {deserializer!r}")
    return columns(side)


def typed_names(
    names: Sequence[str] | None, default: Sequence[str], sides: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, list[list[str]] | None]]:
    """Return the names of the columns, and the wanted parts of each typed one. None is the whole.

    Raises:
        ValueError: a part is named twice, or the parts of a column that is not typed.
    """
    found: list[str] = []
    parts: dict[str, list[list[str]] | None] = {}
    for name in default if names is None else names:
        side, dot, path = name.partition(".")
        if side not in sides:
            found.append(name)
            continue
        if side not in parts:
            found.append(side)
            parts[side] = [] if dot else None
            if dot:
                parts[side] = [path.split(".")]
            continue
        known = parts[side]
        steps = path.split(".")
        if not dot or known is None or any(each[: len(steps)] == steps[: len(each)] for each in known):
            raise ValueError(f"the column {name} is named twice, or beside its whole")
        known.append(steps)
    return tuple(found), parts


class TypedRows:
    """The rows of one call of ``poll_arrow``.

    Args:
        sides: by ``"key"`` and ``"value"``, the columns of a side. None for one that is not wanted.
        deserialization: has the policy of ``on_record_error``.

    Attributes:
        reader: the identity of the columns, which the next call has, too, if it asks for the same ones.
        parts: the raw columns of each part, with the number of its rows.
        left_out: the numbers of rows that are left out.
        reasons: by side, the reason of each row that is null because of an error.
    """

    def __init__(self, sides: dict[str, Any], deserialization: Deserialization, *, with_keys: bool) -> None:
        from pyconsumer.protocol.avro import ColumnsDecoder

        self._sides = sides
        self.reader: object = tuple(sides.values())
        self._deserialization = deserialization
        self._decoders = {side: ColumnsDecoder(columns.layout.columns) for side, columns in sides.items()}
        for side, columns in sides.items():
            self._decoders[side].expect(columns.rows_before)
        self._with_keys = with_keys or "key" in sides
        self._count = 0
        self.parts: list[tuple[TopicPartition, Columns, int]] = []
        self.left_out: list[int] = []
        self.reasons: dict[str, dict[int, str]] = {side: {} for side in sides}

    def __len__(self) -> int:
        return self._count

    def new_part(self) -> ColumnsBuilder:
        """Return the builder of a part. Headers may name schemas."""
        return ColumnsBuilder(with_keys=self._with_keys, with_values=True, with_headers=True)

    def accept(self, fetch: CompletedFetch, builder: ColumnsBuilder, start: int) -> tuple[int, int, Exception | None]:
        """Decode a part.

        Args:
            fetch: its fetch.
            builder: the raw rows. It is built here.
            start: the offset at which the fetch began.

        Returns:
            The number of rows that are taken, the offset of the next one, and the error that stops it.
        """
        try:
            return self._accepted(fetch, builder.build(), start)
        except BaseException:
            for decoder in self._decoders.values():
                decoder.truncate(self._count)
            raise

    def _accepted(self, fetch: CompletedFetch, columns: Columns, start: int) -> tuple[int, int, Exception | None]:
        count = limit = len(columns)
        stop: Exception | None = None
        stopped = ""
        policy = self._deserialization.policy
        bad: list[tuple[int, int, Any]] = []
        for order, side in enumerate(self._sides):
            decoder, column = self._decoders[side], self._strings(columns, side)
            column, programs, odd, ready, reason = self._sides[side].prepare_column(
                decoder, column, columns.headers, limit
            )
            if ready < limit:
                limit, stop, stopped = ready, reason, side
            used, found = decoder.append_column(column, limit, programs, odd, stop=policy == "raise")
            if used < limit:
                limit, stop = used, None
                if found and found[-1].row == used:
                    bad.append((used, order, found.pop()))
            bad += [(one.row, order, one) for one in found]
        bad.sort(key=lambda entry: entry[:2])
        limit, stop = self._decide(fetch, columns, start, bad, limit, stop)
        offset = columns.offsets[limit] if limit < count else -1
        if isinstance(stop, SchemaUnavailableError) and not fetch.dropped:
            stop = located(stop, fetch.record_at(offset, start), stopped)
        for decoder in self._decoders.values():
            decoder.truncate(self._count + limit)
        if limit:
            # Memory that is given back at once is in the processor's cache when the next part takes it.
            columns.forget(keys="key" in self._sides, values="value" in self._sides)
            self.parts.append((fetch.topic_partition, columns, limit))
            self._count += limit
        return limit, offset, stop

    def _decide(
        self,
        fetch: CompletedFetch,
        columns: Columns,
        start: int,
        bad: list[tuple[int, int, Any]],
        limit: int,
        stop: Exception | None,
    ) -> tuple[int, Exception | None]:
        """Apply the policy to the bad rows, in order. Return the number of rows that are taken, and the error."""
        policy = self._deserialization.policy
        sides = list(self._sides)
        records: Any = None
        last = -1
        for row, order, one in bad:
            if row > limit or (row == limit and stop is not None) or (row == last and policy != "null"):
                continue
            if row == limit and policy != "raise":
                continue
            side = sides[order]
            error = self._error(side, columns, row, one)
            if policy == "null":
                self.reasons[side][self._count + row] = str(error)
                continue
            if records is None:
                records = fetch.records_from(start, limit + 1)
            failure = failure_of(records[row], side, error, policy)
            decided = self._deserialization.decide(failure)
            if decided is not None:
                return row, decided
            self._deserialization.count_skipped()
            self.left_out.append(self._count + row)
            last = row
        return limit, stop

    def _error(self, side: str, columns: Columns, row: int, bad: Any) -> Exception:
        from pyconsumer.protocol.avro._pure_columns import explain
        from pyconsumer.protocol.avro.plan import MAX_DECODED_BYTES

        if isinstance(bad.plan, Exception):
            return bad.plan
        if bad.plan is None:
            return ConfigurationError(f"the {side} has no schema")
        column = self._strings(columns, side)
        data = bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
        return explain(bad.plan, data, bad.start, MAX_DECODED_BYTES)

    @staticmethod
    def _strings(columns: Columns, side: str) -> BinaryColumn:
        found = columns.keys if side == "key" else columns.values
        assert found is not None
        return found

    def finish(self) -> dict[str, Any]:
        """Return the finished buffers of each side."""
        for columns in self._sides.values():
            columns.note_rows(self._count)
        return {side: decoder.finish() for side, decoder in self._decoders.items()}

    def drop_last(self, rows: int) -> None:
        """Drop the last part, because its fetch has become stale."""
        self.parts.pop()
        self._count -= rows
        self.left_out = [row for row in self.left_out if row < self._count]
        for side, decoder in self._decoders.items():
            decoder.truncate(self._count)
            self.reasons[side] = {row: why for row, why in self.reasons[side].items() if row < self._count}
