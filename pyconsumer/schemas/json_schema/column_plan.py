"""Plans for columns of JSON: a type of columns as a table of nodes, which the compiled decoder walks.

Rules

1. The compiled decoder reads plain documents. It gives each other one to Python. So there is one set of verdicts, that
   of :mod:`.documents` and :mod:`.shapes`. Not plain are errors, values that become JSON text, and two members of one
   name. Nor are escaped names, escaped surrogates, maps of more than 32 keys, ``1.0`` as an integer, and numbers of
   more than 18 digits.
2. Python makes Avro of a document, by the type of the columns, and the decoder reads that.
3. A value counts as its Avro does (rule 3 of :mod:`pyconsumer.protocol.avro._pure_columns`).
4. Parts without a column are checked, and not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro import AvroSchema, AvroType, Encoder, write_plan
from pyconsumer.protocol.avro._pure import RefusedError, ValueCursor
from pyconsumer.protocol.avro._pure_columns import ColumnProgram, ColumnsDecoder, ValueProgram
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.column_plan import ColumnPlan, column_plan
from pyconsumer.protocol.avro.layout import Layout
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.schemas.json_schema.shapes import JSON_TEXT, NOT_NULL, REQUIRED

__all__ = ["DocumentPlan", "DocumentProgram", "document_program"]

_FREE_BYTES: Final = 16
_NULL, _BOOLEAN, _INTEGER, _NUMBER, _STRING, _OTHER, _LIST, _MAP, _RECORD = range(9)
_KINDS: Final = {
    "null": _NULL,
    "boolean": _BOOLEAN,
    "long": _INTEGER,
    "double": _NUMBER,
    "string": _STRING,
    "array": _LIST,
    "map": _MAP,
    "record": _RECORD,
}


class _Node(NamedTuple):
    """A node of a plan. ``native/documents.pxi`` has the same numbers of kinds.

    Attributes:
        kind: see ``_KINDS``.
        nullable: True if null is a value.
        column: the index of its column, -1 without one.
        item: of a list or map, the node of its items.
        first, many: of an object, its members.
        counted: the bytes that an object counts.
        null_counted: the bytes that a null counts.
    """

    kind: int
    nullable: bool = False
    column: int = -1
    item: int = -1
    first: int = 0
    many: int = 0
    counted: int = 0
    null_counted: int = 0


class DocumentPlan:
    """A table of nodes. The first one is that of the whole document.

    Args:
        schema: the type of the columns.
        layout: its columns, or a part of them.
        fit: makes a value of that type of a document in bytes. It raises a ``SerializationError``.
        is_plain: False gives all documents to Python.

    Attributes:
        layout: the columns.
        columns: the plan for the documents that Python has read.
        nodes, members: the table. A member is its name, its node, and whether it is required.
    """

    def __init__(self, schema: AvroSchema, layout: Layout, fit: Callable[[bytes], Any], *, is_plain: bool) -> None:
        self.layout = layout
        self.columns: ColumnPlan = column_plan(schema, layout)
        self.nodes: list[_Node] = []
        self.members: list[tuple[bytes, int, bool]] = []
        self._fit = fit
        self._encode = Encoder(write_plan(schema)).encode
        if is_plain:
            self._add(schema.root, 0)
        else:
            self.nodes.append(_Node(_OTHER))

    def encode(self, data: bytes) -> bytes:
        """Return a document as Avro.

        Raises:
            SerializationError: it is none, or does not fit.
        """
        return self._encode(self._fit(data), b"")

    def refusal(self, program: Any, data: bytes) -> SerializationError:
        """Return the error of a document that a decoder has refused."""
        label = "" if program.label is None else f"the schema {program.label}: "
        try:
            self.encode(data)
        except SerializationError as error:
            return type(error)(f"{label}{error}")
        return SerializationError(f"{label}the document is too large")

    def _add(self, kind: AvroType, column: int) -> int:
        number = len(self.nodes)
        self.nodes.append(_Node(_OTHER))
        nullable = kind.kind == "union" or kind.kind == "null"
        if kind.kind == "union":
            kind = next(branch for branch in kind.branches if branch.kind != "null")
        self.nodes[number] = self._node(kind, nullable, column)
        return number

    def _node(self, kind: AvroType, nullable: bool, column: int) -> _Node:
        of = None if column < 0 else self.layout.columns[column]
        null_bytes = 0 if of is None or of.null_bytes <= _FREE_BYTES else of.null_bytes
        found = _Node(_OTHER if kind.doc == JSON_TEXT else _KINDS[kind.kind], nullable, column, null_counted=null_bytes)
        if kind.kind in ("array", "map"):
            return found._replace(item=self._add(kind.items, -1 if of is None else of.children[-1]))
        if kind.kind != "record":
            return found
        members = []
        for each in kind.fields:
            has_column = of is not None and each.name in of.parts
            child = of.children[of.parts[each.name]] if of is not None and has_column else -1
            node = self._add(each.type, child)
            if each.doc == NOT_NULL:
                self.nodes[node] = self.nodes[node]._replace(nullable=False)
            members.append((each.name.encode("utf-8", "surrogatepass"), node, each.doc == REQUIRED))
        first = len(self.members)
        self.members.extend(members)
        return found._replace(first=first, many=len(members), counted=64 + 8 * len(members))


class DocumentProgram(ValueProgram):
    """A plan of JSON: the twin of the compiled one.

    Args:
        plan: the plan.
        label: the id of the schema that the documents name, for messages.
    """

    def __init__(self, plan: DocumentPlan, label: Any = None) -> None:
        super().__init__(plan)
        self.label = label
        self._inner = ColumnProgram(plan.columns)

    def read_into(self, decoder: ColumnsDecoder, cursor: ValueCursor) -> None:
        """Append one document."""
        try:
            encoded = self.plan.encode(cursor.take(cursor.end - cursor.at))
        except SerializationError as error:
            raise RefusedError(str(error)) from None
        inner = ValueCursor(encoded, 0, cursor.room)
        self._inner.read_into(decoder, inner)
        cursor.charge(cursor.room - inner.room)


_native, _ = load_compiled("pyconsumer.protocol.avro._native", REVISION)
document_program: Final[Any] = DocumentProgram if _native is None else _native.DocumentProgram
