"""Typed columns of all formats: the schema of the result, and the schemas of the rows. No pyarrow.

Rules

1. The result has one schema for the life of a deserializer and its side: that of ``schema_str``. Without it, the latest
   version of the topics' subjects at the first poll. These must be one schema for all topics.
2. ``settle`` fixes it. It never waits: it raises ``PendingError`` while the registry is asked. A ``schema_str`` without
   references needs no registry, so it is settled at once.
3. All schemas of the writers that a batch needs are asked for before the first is waited for. Rows before the first one
   that waits are read.
4. A row whose schema does not exist, is of another format or does not resolve is an error of that row. That the
   registry cannot be reached is none: it stops before the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro._pure_columns import Odd, rows_of
from pyconsumer.protocol.avro.arrow import arrow_type
from pyconsumer.schemas.errors import SchemaFramingError, SchemaNotFoundError
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import header_name, read_framed

if TYPE_CHECKING:
    from pyconsumer.protocol.avro.layout import Layout
    from pyconsumer.protocol.records.columns import BinaryColumn, HeaderColumn

__all__ = [
    "FramedSide",
    "TypedColumns",
    "common_schema",
    "found_or_error",
    "framing_of",
    "named_rows",
    "row_bytes",
    "schemas_of_rows",
]

R = TypeVar("R")

_MOST_SELECTIONS: Final = 16
_MOST_PROGRAMS: Final = 1000  # of schemas, kept for one side. Ids come from the network
_MOST_PENDING: Final = 16  # schemas that one part asks for at once


class TypedColumns(Generic[R]):
    """The typed columns of one side of a deserializer.

    Args:
        owner: the deserializer.
        field: key or value.
    """

    def __init__(self, owner: Any, field: MessageField) -> None:
        self._owner = owner
        self._field = field
        self._reader: R | None = None
        self._readers: Loader[R] = Loader(self._load_reader)
        self._selections: dict[Any, Any] = {}

    # -- what a format defines -----------------------------------------------------------------------------------------

    #: The argument that gives the schema of the result.
    _GIVEN = "a schema_str"

    @property
    def _ways_out(self) -> str:
        return (
            f"give the deserializer {self._GIVEN}, which all values are read as, or poll these topics by consumers of"
            " their own"
        )

    def _parse(self, schema: Any, *, is_own: bool) -> R:
        """Parse a schema. This may wait. ``is_own``: it is the user's, and not the registry's."""
        raise NotImplementedError

    def _side(self, reader: R, paths: Sequence[Sequence[str]] | None) -> Any:
        """Return the columns of a schema, or a part of them. They have ``layout`` and ``prepare_column``."""
        raise NotImplementedError

    # -- used by a poll ------------------------------------------------------------------------------------------------

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
            given = self._owner.reader_schema
            if given is not None and not given.references:
                self._reader = self._parse(given, is_own=True)
                return
            names = tuple(sorted(set(topics)))
            try:
                self._reader = self._readers.get(names, f"the schema of the {self._field}s of {', '.join(names)}")
            except SchemaNotFoundError as error:
                raise SchemaUnavailableError(
                    f"the columns of the {self._field} are not known, since a topic has no schema yet: {error}. Poll"
                    f" again later, or {self._ways_out}"
                ) from error

    def select(self, paths: Sequence[Sequence[str]] | None) -> Any:
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
            found = self._selections[key] = self._side(self._reader, paths)
        return found

    def _load_reader(self, topics: tuple[str, ...]) -> R:
        """Find the schema of the result, in a thread of the loader."""
        owner = self._owner
        given = owner.reader_schema
        if given is not None:
            return self._parse(given, is_own=True)
        found: dict[str, tuple[str, Any]] = {}
        for topic in topics:
            try:
                found[topic] = owner.load_latest(topic, self._field)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"the columns of the topic {topic} are not known: {error}. {self._ways_out}"
                ) from None
        return self._parse(common_schema(found, self._field, self._ways_out, owner.FORMAT), is_own=False)


class FramedSide:
    """The columns of one side, and the programs of the schemas that rows have named.

    Args:
        layout: the columns.
        field: key or value.

    Attributes:
        layout: the columns.
        rows_before: the number of rows of the last batch.
    """

    def __init__(self, layout: Layout, field: MessageField) -> None:
        self.layout = layout
        self.rows_before = 0
        self._arrow: Any = None
        self._field = field
        self._programs: dict[Any, Any] = {}

    # -- what a format defines -----------------------------------------------------------------------------------------

    def _find(self, key: Any) -> Any:
        """Return what is known of a schema, or the error in its place."""
        raise NotImplementedError

    def _program(self, key: Any, found: Any) -> Any:
        """Return the program of a schema, for rows that begin with its id."""
        raise NotImplementedError

    def _framing(self, data: bytes, header: bytes | None) -> tuple[Any, int, tuple[int, ...]]:
        """Return the id or GUID that a row names, the index of its value, and the path of its type.

        Raises:
            SchemaFramingError: it names none.
        """
        return *framing_of(data, header, self._field), ()

    def _odd_program(self, key: Any, found: Any, indexes: tuple[int, ...]) -> Any:
        """Return the program of a row whose framing was read, or the error in its place."""
        return self._program(key, found)

    # -- used by a poll, and by Spark ----------------------------------------------------------------------------------

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
        named = named_rows(headers, header_name(self._field), count)
        if named:  # the bytes of these rows have no id
            rows = [None if row in named else data for row, data in enumerate(rows_of(column, count))]
            scanned = decoder.scan(rows, self._programs)
        else:
            scanned = decoder.scan_column(column, count, self._programs)
        if not scanned.missing and not scanned.odd and not named:
            return self._programs, {}, count, None
        odd: dict[int, Odd] = {}
        framed: dict[int, tuple[Any, int, tuple[int, ...]]] = {}
        wanted: list[tuple[int, Any]] = [(row, key) for key, row in scanned.missing.items()]
        for row in sorted({*scanned.odd, *named}):
            data = row_bytes(column, row)
            if data is None:
                continue
            try:
                framed[row] = self._framing(data, named.get(row))
            except SchemaFramingError as error:
                odd[row] = Odd(error, 0)
                continue
            wanted.append((row, framed[row][0]))
        found, limit, stop = schemas_of_rows(wanted, count, self._find)
        programs = dict(self._programs)
        for key in scanned.missing:
            one = found.get(key)
            if isinstance(one, Exception):
                if not isinstance(one, (PendingError, SchemaUnavailableError)):
                    programs[key] = one
            elif key in found:
                programs[key] = self._program(key, one)
                if len(self._programs) >= _MOST_PROGRAMS:
                    self._programs.clear()
                self._programs[key] = programs[key]
        for row, (key, start, indexes) in framed.items():
            one = found.get(key)
            is_error = isinstance(one, Exception) or key not in found
            odd[row] = Odd(one if is_error else self._odd_program(key, one, indexes), start)
        return programs, odd, limit, stop

    def prepare_column(
        self, decoder: Any, column: BinaryColumn, headers: HeaderColumn | None, count: int
    ) -> tuple[BinaryColumn, Mapping[Any, Any], dict[int, Odd], int, Exception | None]:
        """Do as :meth:`prepare`, and return the column to decode first."""
        return column, *self.prepare(decoder, column, headers, count)

    def arrow_type(self, pa: Any) -> Any:
        """Return the Arrow type of the columns. It is made once.

        Args:
            pa: the module ``pyarrow``.
        """
        if self._arrow is None:
            self._arrow = arrow_type(pa, self.layout)
        return self._arrow

    def note_rows(self, count: int) -> None:
        """Note the number of rows of a batch. The next one is expected to have as many."""
        self.rows_before = count

    def identity(self, column: BinaryColumn, headers: HeaderColumn | None, row: int) -> Any:
        """Return the id or the GUID of the schema that a row names. This is for a row that was refused.

        Raises:
            SchemaFramingError: it names none.
        """
        named = named_rows(headers, header_name(self._field), row + 1).get(row)
        return self._framing(row_bytes(column, row) or b"", named)[0]


def common_schema(
    found: Mapping[str, tuple[str, Any]],
    field: MessageField,
    ways_out: str,
    kind: str = "AVRO",
    direction: Literal["read", "write"] = "read",
) -> Any:
    """Return the schema that some topics have in common (rule 1).

    Args:
        found: by topic, its subject and its schema.
        field: key or value.
        ways_out: what to do, for messages.
        kind: the format.
        direction: ``"read"`` or ``"write"``.

    Raises:
        ConfigurationError: the topics have several schemas, or one of another format.
        SerializationError: a rule applies that is not run here.
    """
    for subject, schema in found.values():
        if (schema.schema_type or "AVRO") != kind:
            raise ConfigurationError(f"the subject {subject} is of the format {schema.schema_type}, not {kind}")
        refuse_rules(schema, direction, f"the schema of {subject}")
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


def schemas_of_rows(
    wanted: list[tuple[int, Any]], count: int, get: Callable[[Any], Any]
) -> tuple[dict[Any, Any], int, Exception | None]:
    """Get the schemas of some rows (rule 3).

    Args:
        wanted: rows, and the ids or GUIDs that they name.
        count: the number of all rows.
        get: returns what there is for an id, or an error in its place.

    Returns:
        What there is by id, the number of rows that can be read now, and the error that stops the next one.
    """
    limit: int = count
    stop: Exception | None = None
    found: dict[Any, Any] = {}
    pending = 0
    for row, key in sorted(wanted, key=lambda pair: pair[0]):
        if pending == _MOST_PENDING:  # the rows from the first of them on are not read now
            break
        if key not in found:
            found[key] = get(key)
        if isinstance(found[key], (PendingError, SchemaUnavailableError)):
            pending += 1
            if row < limit:
                limit, stop = row, found[key]
    return found, limit, stop


def found_or_error(key: Any, find: Callable[[], Any]) -> Any:
    """Return what a function finds for a schema, or the error in its place (rule 4)."""
    try:
        return find()
    except SchemaNotFoundError as error:
        return SchemaFramingError(f"the registry does not have the schema {key} that the bytes name: {error}")
    except ConfigurationError as error:
        return SchemaUnavailableError(f"the schema {key}: {error}", retriable=False)
    except (PendingError, SerializationError) as error:
        return error


def framing_of(data: bytes, header: bytes | None, field: MessageField) -> tuple[Any, int]:
    """Return the id or the GUID that a row names, and the index at which its value begins.

    Args:
        data: the row.
        header: its header with a GUID, None without one.
        field: key or value.

    Raises:
        SchemaFramingError: it names none.
    """
    framed = read_framed(data, None if header is None else [(header_name(field), header)], field)
    key = framed.schema_id if framed.schema_id is not None else framed.guid
    return key, len(data) - len(framed.payload)


def named_rows(headers: HeaderColumn | None, name: str, count: int) -> dict[int, bytes]:
    """Return the last header of a name by row."""
    if headers is None or not len(headers.names):
        return {}
    sought = name.encode()
    if sought not in bytes(headers.names.data):
        return {}
    found = {}
    for row in range(count):
        for place in range(headers.offsets[row], headers.offsets[row + 1]):
            if row_bytes(headers.names, place) == sought:
                found[row] = row_bytes(headers.values, place) or b""
    return found


def row_bytes(column: BinaryColumn, row: int) -> bytes | None:
    """Return a string of a column."""
    bitmap = column.bitmap
    if bitmap is not None and not bitmap[row >> 3] >> (row & 7) & 1:
        return None
    return bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
