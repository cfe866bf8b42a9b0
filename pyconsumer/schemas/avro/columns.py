"""Typed columns of Avro: the schema of the result, and the plans of the writers' schemas. No pyarrow.

Rules

1. The result has one schema for the life of an ``AvroDeserializer`` and its side: that of ``schema_str``. Without it,
   the latest version of the topics' subjects at the first poll. These must be one schema for all topics.
2. ``settle`` fixes it. It never waits: it raises ``PendingError`` while the registry is asked.
3. All schemas of the writers that a batch needs are asked for before the first is waited for. Rows before the first one
   that waits are read.
4. A row whose schema does not exist, is of another format or does not resolve is an error of that row. That the
   registry cannot be reached is none: it stops before the row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro import AvroError, AvroSchema, ColumnProgram
from pyconsumer.protocol.avro._pure_columns import Odd, rows_of
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.errors import SchemaFramingError, SchemaNotFoundError
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name, read_framed

if TYPE_CHECKING:
    from pyconsumer.protocol.records.columns import BinaryColumn, HeaderColumn

__all__ = ["AvroColumns", "AvroSide", "common_schema"]

_MOST_SELECTIONS: Final = 16
_MOST_PENDING: Final = 16  # schemas that one part asks for at once
_WAYS_OUT: Final = (
    "give the AvroDeserializer a schema_str, which all values are read as, or poll these topics by consumers of their"
    " own"
)


class AvroColumns:
    """The typed columns of one side of an ``AvroDeserializer``.

    Args:
        owner: the ``AvroDeserializer``.
        field: key or value.
    """

    def __init__(self, owner: Any, field: MessageField) -> None:
        self._owner = owner
        self._field = field
        self._reader: AvroSchema | None = None
        self._readers: Loader[AvroSchema] = Loader(self._load_reader)
        self._writers: Loader[AvroSchema] = Loader(owner.load_writer)
        self._selections: dict[Any, AvroSide] = {}

    @property
    def is_settled(self) -> bool:
        """Return whether the schema of the result is known."""
        return self._reader is not None

    def settle(self, topics: Iterable[str]) -> None:
        """Fix the schema of the result (rule 1).

        Args:
            topics: the topics that are read.

        Raises:
            PendingError: the registry has been asked.
            ConfigurationError: the topics have several schemas, or their subjects cannot be named.
            SchemaUnavailableError: the registry does not answer, or has no such subject.
        """
        if self._reader is None:
            names = tuple(sorted(set(topics)))
            try:
                self._reader = self._readers.get(names, f"the schema of the {self._field}s of {', '.join(names)}")
            except SchemaNotFoundError as error:
                raise SchemaUnavailableError(
                    f"the columns of the {self._field} are not known, since a topic has no schema yet: {error}. Poll"
                    f" again later, or {_WAYS_OUT}"
                ) from error

    def select(self, paths: Sequence[Sequence[str]] | None) -> AvroSide:
        """Return the columns of the settled schema, or a part of them.

        Raises:
            ConfigurationError: the schema has no columns, or no such part.
        """
        key = None if paths is None else tuple([tuple(path) for path in paths])
        found = self._selections.get(key)
        if found is None:
            if len(self._selections) >= _MOST_SELECTIONS:
                self._selections.clear()
            assert self._reader is not None
            layout = make_layout(self._reader, paths, side=str(self._field))
            found = self._selections[key] = AvroSide(layout, self._field, self._writers)
        return found

    def _load_reader(self, topics: tuple[str, ...]) -> AvroSchema:
        """Find the schema of the result, in a thread of the loader."""
        owner = self._owner
        given = owner.reader_schema
        if given is not None:
            return parse_with_references(owner.client, given, strict=True)
        found: dict[str, tuple[str, Any]] = {}
        for topic in topics:
            try:
                subject, latest = owner.load_latest(topic, self._field)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"the columns of the topic {topic} are not known: {error}. {_WAYS_OUT}"
                ) from None
            found[topic] = subject, latest
        return parse_with_references(owner.client, common_schema(found, self._field, _WAYS_OUT), strict=False)


def common_schema(found: Mapping[str, tuple[str, Any]], field: MessageField, ways_out: str) -> Any:
    """Return the schema that some topics have in common (rule 1).

    Args:
        found: by topic, its subject and its schema.
        field: key or value.
        ways_out: what to do, for messages.

    Raises:
        ConfigurationError: the topics have several schemas, or one that is not Avro.
        SerializationError: a rule applies that is not run here.
    """
    for subject, schema in found.values():
        if (schema.schema_type or "AVRO") != "AVRO":
            raise ConfigurationError(f"the subject {subject} is of the format {schema.schema_type}, not AVRO")
        refuse_rules(schema, "read", f"the schema of {subject}")
    if len({_identity(schema) for _, schema in found.values()}) > 1:
        raise ConfigurationError(
            f"the topics {', '.join(found)} have different schemas of the {field}, and a batch has one: {ways_out}"
        )
    return next(iter(found.values()))[1]


def _identity(schema: Any) -> str:
    references = [(r.name, r.subject, r.version) for r in schema.references or ()]
    try:
        return json.dumps([json.loads(schema.schema_str), references], sort_keys=True)
    except ValueError:
        return f"{schema.schema_str} {references}"


class AvroSide:
    """The columns of one side, and the programs of the writers' schemas that have been seen.

    Attributes:
        layout: the columns.
    """

    def __init__(self, layout: Layout, field: MessageField, writers: Loader[AvroSchema]) -> None:
        self.layout = layout
        self._field = field
        self._writers = writers
        self._programs: dict[Any, Any] = {}

    def prepare(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Find the programs of some rows.

        Args:
            decoder: a ``ColumnsDecoder``.
            column: the keys or values.
            headers: of the same rows.
            count: the number of rows.

        Returns:
            The programs by id, the rows that are odd, the number of rows that can be read now, and the error that stops
            the next one. It may be a ``PendingError``.
        """
        named = _named(headers, header_name(self._field), count)
        if named:  # the bytes of these rows have no id
            rows = [None if row in named else data for row, data in enumerate(rows_of(column, count))]
            scanned = decoder.scan(rows, self._programs)
        else:
            scanned = decoder.scan_column(column, count, self._programs)
        if not scanned.missing and not scanned.odd and not named:
            return self._programs, {}, count, None
        programs = dict(self._programs)
        odd: dict[int, Odd] = {}
        limit, stop = count, None
        wanted: list[tuple[int, Any]] = [(row, key) for key, row in scanned.missing.items()]
        for row in sorted({*scanned.odd, *named}):
            data = _string(column, row)
            if data is None:
                continue
            try:
                pairs = None if row not in named else [(header_name(self._field), named[row])]
                framed = read_framed(data, pairs, self._field)
            except SchemaFramingError as error:
                odd[row] = Odd(error, 0)
                continue
            key = framed.schema_id if framed.schema_id is not None else framed.guid
            odd[row] = Odd(key, len(data) - len(framed.payload))
            wanted.append((row, key))
        found: dict[Any, Any] = {}
        pending = 0
        for row, key in sorted(wanted, key=lambda pair: pair[0]):
            if pending == _MOST_PENDING:  # the rows from the first of them on are not read now
                break
            if key not in found:
                found[key] = self._program(key)
            if isinstance(found[key], (PendingError, SchemaUnavailableError)):
                pending += 1
                if row < limit:
                    limit, stop = row, found[key]
            else:
                programs[key] = found[key]
        for row, (key, start) in odd.items():
            if not isinstance(key, Exception):
                odd[row] = Odd(programs.get(key), start)
        return programs, odd, limit, stop

    def identity(self, column: BinaryColumn, headers: HeaderColumn | None, row: int) -> Any:
        """Return the id or the GUID of the schema that a row names. This is for a row that was refused.

        Raises:
            SchemaFramingError: it names none.
        """
        named = _named(headers, header_name(self._field), row + 1).get(row)
        pairs = None if named is None else [(header_name(self._field), named)]
        framed = read_framed(_string(column, row) or b"", pairs, self._field)
        return framed.schema_id if framed.schema_id is not None else framed.guid

    def _program(self, key: Any) -> Any:
        """Return a program, or the error in its place."""
        found = self._programs.get(key)
        if found is not None:
            return found
        try:
            writer = self._writers.get(key, f"the schema {key}")
            found = self._programs[key] = ColumnProgram(column_plan(writer, self.layout))
        except SchemaNotFoundError as error:
            return SchemaFramingError(f"the registry does not have the schema {key} that the bytes name: {error}")
        except ConfigurationError as error:
            return SchemaUnavailableError(f"the schema {key}: {error}", retriable=False)
        except AvroError as error:
            return type(error)(f"the schema {key}: {error}")
        except (PendingError, SerializationError) as error:
            return error
        return found


def _named(headers: HeaderColumn | None, name: str, count: int) -> dict[int, bytes]:
    """Return the last header of a name by row."""
    if headers is None or not len(headers.names):
        return {}
    sought = name.encode()
    if sought not in bytes(headers.names.data):
        return {}
    found = {}
    for row in range(count):
        for place in range(headers.offsets[row], headers.offsets[row + 1]):
            if _string(headers.names, place) == sought:
                found[row] = _string(headers.values, place) or b""
    return found


def _string(column: BinaryColumn, row: int) -> bytes | None:
    bitmap = column.bitmap
    if bitmap is not None and not bitmap[row >> 3] >> (row & 7) & 1:
        return None
    return bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
