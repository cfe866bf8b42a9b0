"""Plans: a schema, or a writer's and a reader's, as a flat table that decoders and encoders walk.

A plan is made once for each schema. The compiled decoder and its twin read the same one.

Rules of resolution (Avro 1.12, "Schema Resolution")

1. An int is promoted to long, float and double, a long to float and double, a float to double. Strings and bytes become
   each other.
2. Records, enums and fixed types match if their unqualified names are equal, or an alias of the reader's is the name of
   the writer's. Fixed types must also have one size.
3. A record's fields match by name, then by an alias of the reader's. Fields of the writer alone are skipped. Those of
   the reader alone take their default, and without one the schemas do not resolve.
4. A symbol that the reader's enum does not have becomes its default. Without one that value is an error, and others are
   not.
5. A writer's union is resolved branch by branch. A branch that does not resolve is an error when a value has it.
6. Of a reader's union the first branch of the same type and full name counts, then the first that matches by rule 2,
   then the first that matches by promotion (as in Java).
7. Logical types are those of the reader. If the writer's type has another one, both must be times, or timestamps of
   one kind, from milliseconds to microseconds. Decimals must have one scale and one precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyconsumer.protocol.avro.errors import AvroResolutionError
from pyconsumer.protocol.avro.matching import (
    NAMED,
    PROMOTIONS,
    at,
    chosen_branch,
    described,
    is_exact,
    matched_fields,
    same_name,
)
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.types import NO_DEFAULT, AvroType, Field

__all__ = ["MAX_DECODED_BYTES", "MAX_LEVELS", "Node", "Op", "Plan", "Shape", "read_plan", "skip_plan", "write_plan"]

#: By default a value may decode to this many bytes, counted as in ``_pure``.
MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
#: Records, arrays and maps may be nested this deep in a value.
MAX_LEVELS: Final = 64


class Op:
    """The operations of nodes. ``native/_native.pyx`` has the same numbers.

    a, b, c and the object of a :class:`Node` mean, by operation:

    * FIXED, UUID_FIXED, DURATION: a = size. DECIMAL: a = size, -1 for bytes, b = scale, c = precision.
    * ENUM: the object has the reader's symbols by the writer's index, None for one that is refused.
    * ARRAY, MAP: a = node of the items.
    * UNION: a = first link, b = number of branches.
    * RECORD: a = first link, b = number of links, c = the larger one of b and the number of keys. The object is a
      :class:`Shape`.
    * NAMED: a = node. The object is the name: the value becomes a pair (name, value).
    * DEFAULT: a = node. The object has the bytes of the default, which are read instead of the data.
    * REFUSED: the object is the reason.
    * AS_FLOAT, AS_DOUBLE, TIMESTAMP, TIME_MICROS: c = 1 if the number is written as long, 0 as int.
    * TIMESTAMP: a = units per second. b = 1 if it is an instant, 0 if it is local.
    """

    NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM = range(10)
    ARRAY, MAP, UNION, RECORD, NAMED, DEFAULT, REFUSED, AS_FLOAT, AS_DOUBLE = range(10, 19)
    DATE, TIME_MILLIS, TIME_MICROS, TIMESTAMP, DECIMAL, UUID, UUID_FIXED, DURATION = range(19, 27)


class Node(NamedTuple):
    """One type of a plan. See :class:`Op`."""

    op: int
    a: int = 0
    b: int = 0
    c: int = 0
    of: Any = None


class Shape(NamedTuple):
    """A record of a plan.

    Attributes:
        name: its full name.
        template: a dictionary of the reader's fields in order. Its values are the defaults that never change, else
            None. A decoded record is a copy of it.
    """

    name: str
    template: dict[str, Any]


class Link(NamedTuple):
    """One branch of a union, or one step of a record.

    Attributes:
        node: the index of its node.
        key: name of the field, None if it is skipped. Of a union's branch: its name.
        default: to encode a record without this field. None if there is no default.
    """

    node: int
    key: str | None = None
    default: bytes | None = None


@dataclass(slots=True)
class Plan:
    """A table of nodes. The first one is that of the whole value."""

    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def write_plan(schema: AvroSchema) -> Plan:
    """Return the plan for encoding values."""
    planner = _Planner(return_record_name=False)
    planner.same(schema.root)
    return planner.plan


def read_plan(writer: AvroSchema, reader: AvroSchema | None = None, *, return_record_name: bool = False) -> Plan:
    """Return the plan for decoding values of one schema into the form of another.

    Args:
        writer: the schema of the data.
        reader: the wanted schema, None for the same.
        return_record_name: a record in a union becomes a pair of its full name and the record.

    Raises:
        AvroResolutionError: the schemas do not resolve.
    """
    planner = _Planner(return_record_name=return_record_name)
    if reader is None or reader is writer:
        planner.resolve(writer.root, writer.root, "")
    else:
        planner.resolve(writer.root, reader.root, "")
    return planner.plan


def skip_plan(types: Iterable[AvroType]) -> tuple[Plan, list[int]]:
    """Return a plan for going past values of some types, and the node of each type."""
    planner = _Planner(return_record_name=False)
    nodes = [planner.resolve(kind, kind, "") for kind in types]
    if not nodes:
        planner.plan.nodes.append(Node(Op.NULL))
    return planner.plan, nodes


_SAME: Final = {
    "null": Op.NULL,
    "boolean": Op.BOOLEAN,
    "int": Op.INT,
    "long": Op.LONG,
    "float": Op.FLOAT,
    "double": Op.DOUBLE,
    "bytes": Op.BYTES,
    "string": Op.STRING,
}
_CONSTANT: Final = ("null", "boolean", "int", "long", "string")


class _Planner:
    def __init__(self, *, return_record_name: bool) -> None:
        self.plan = Plan()
        self._named = return_record_name
        self._known: dict[tuple[int, int], int] = {}  # by the identities of both types
        self._refused: dict[tuple[int, int], tuple[str, str]] = {}  # the places and the messages, by the same

    def same(self, kind: AvroType) -> int:
        """Plan a type as it is written, without the reader's part of it."""
        return self._planned(kind, kind, "", self._fill_same)

    def resolve(self, writer: AvroType, reader: AvroType, where: str) -> int:
        """Plan a writer's type for a reader's one, and return the index of its node."""
        if reader.kind == "union" and writer.kind != "union":
            return self._in_union(writer, reader, where)
        return self._planned(writer, reader, where, self._fill)

    def _planned(
        self, writer: AvroType, reader: AvroType, where: str, fill: Callable[[AvroType, AvroType, str], Node]
    ) -> int:
        pair = id(writer), id(reader)
        found = self._known.get(pair)
        if found is None:
            if pair in self._refused:
                place, text = self._refused[pair]
                raise AvroResolutionError(_moved(text, place, where))
            found = self._known[pair] = len(self.plan.nodes)
            self.plan.nodes.append(Node(Op.NULL))
            try:
                self.plan.nodes[found] = fill(writer, reader, where)
            except AvroResolutionError as error:
                self._refused[pair] = where, str(error)
                raise
        return found

    def _add(self, node: Node) -> int:
        self.plan.nodes.append(node)
        return len(self.plan.nodes) - 1

    def _link(self, links: list[Link]) -> int:
        start = len(self.plan.links)
        self.plan.links.extend(links)
        return start

    # -- encoding --------------------------------------------------------------------------------------------------

    def _fill_same(self, kind: AvroType, _: AvroType, where: str) -> Node:
        if kind.kind == "union":
            branches = [Link(self.same(branch), branch.label) for branch in kind.branches]
            return Node(Op.UNION, self._link(branches), len(branches))
        if kind.kind == "record":
            steps = [Link(self.same(f.type), f.name, f.default_bytes) for f in kind.fields]
            shape = Shape(kind.name, dict.fromkeys(f.name for f in kind.fields))
            return Node(Op.RECORD, self._link(steps), len(steps), len(steps), shape)
        if kind.kind in ("array", "map"):
            return Node(Op.ARRAY if kind.kind == "array" else Op.MAP, self.same(kind.items))
        return self._scalar(kind, kind, where)

    # -- decoding --------------------------------------------------------------------------------------------------

    def _fill(self, writer: AvroType, reader: AvroType, where: str) -> Node:
        if writer.kind == "union":
            branches = [Link(self._branch(branch, reader, where), branch.label) for branch in writer.branches]
            return Node(Op.UNION, self._link(branches), len(branches))
        if writer.kind in NAMED and writer.kind == reader.kind and not same_name(writer, reader):
            raise AvroResolutionError(
                f"{at(where)}the writer's {writer.kind} {writer.name!r} is not the reader's {reader.name!r}: give the"
                " reader's that alias"
            )
        if writer.kind == "record" and reader.kind == "record":
            return self._record(writer, reader, where)
        if writer.kind == reader.kind and writer.kind in ("array", "map"):
            part = "[]" if writer.kind == "array" else "{}"
            return Node(
                Op.ARRAY if writer.kind == "array" else Op.MAP, self.resolve(writer.items, reader.items, where + part)
            )
        return self._scalar(writer, reader, where)

    def _branch(self, branch: AvroType, reader: AvroType, where: str) -> int:
        """Plan a branch of a writer's union (rule 5)."""
        nodes, links, known = len(self.plan.nodes), len(self.plan.links), len(self._known)
        try:
            if reader.kind == "union":
                return self._in_union(branch, reader, where)
            return self.resolve(branch, reader, where)
        except AvroResolutionError as error:
            del self.plan.nodes[nodes:], self.plan.links[links:]
            for pair in list(self._known)[known:]:
                del self._known[pair]
            return self._add(Node(Op.REFUSED, of=str(error)))

    def _in_union(self, writer: AvroType, reader: AvroType, where: str) -> int:
        """Plan a writer's type for the branch of a reader's union that it fits (rule 6)."""
        chosen = chosen_branch(writer, reader.branches)
        if chosen is None:
            names = ", ".join(branch.label for branch in reader.branches)
            raise AvroResolutionError(f"{at(where)}no branch of the reader's union ({names}) takes a {writer.label}")
        if not (self._named and chosen.kind == "record"):
            return self.resolve(writer, chosen, where)
        found = self._add(Node(Op.NULL))  # before its record, which may contain it
        self.plan.nodes[found] = Node(Op.NAMED, self.resolve(writer, chosen, where), of=chosen.name)
        return found

    def _record(self, writer: AvroType, reader: AvroType, where: str) -> Node:
        of_writer = matched_fields(writer, reader)
        steps: list[Link] = []
        for written in writer.fields:
            wanted = of_writer.get(written.name)
            if wanted is None:
                steps.append(Link(self.resolve(written.type, written.type, "")))
            else:
                place = f"{where}.{wanted.name}" if where else wanted.name
                steps.append(Link(self.resolve(written.type, wanted.type, place), wanted.name))
        template: dict[str, Any] = dict.fromkeys(f.name for f in reader.fields)
        matched = {wanted.name for wanted in of_writer.values()}
        for missing in reader.fields:
            if missing.name in matched:
                continue
            if missing.default_bytes is None:
                raise AvroResolutionError(
                    f"{at(where)}the reader's field {missing.name!r} of {reader.name!r} is not in the writer's schema,"
                    " and has no default"
                )
            if (constant := _constant(missing)) is not NO_DEFAULT:
                template[missing.name] = constant
                continue
            node = self.resolve(missing.type, missing.type, "")
            steps.append(Link(self._add(Node(Op.DEFAULT, node, of=missing.default_bytes)), missing.name))
        most = max(len(steps), len(template))
        return Node(Op.RECORD, self._link(steps), len(steps), most, Shape(reader.name, template))

    # -- scalars ---------------------------------------------------------------------------------------------------

    def _scalar(self, writer: AvroType, reader: AvroType, where: str) -> Node:
        written, wanted = writer.kind, reader.kind
        if written != wanted and wanted not in PROMOTIONS.get(written, ()):
            raise AvroResolutionError(f"{at(where)}a {writer.label} of the writer is no {reader.label} of the reader")
        if wanted == "enum":
            has = frozenset(reader.symbols)
            return Node(Op.ENUM, of=tuple(s if s in has else reader.default for s in writer.symbols))
        if wanted == "fixed" and writer.size != reader.size:
            raise AvroResolutionError(
                f"{at(where)}the writer's {writer.name!r} has {writer.size} bytes, the reader's {reader.size}"
            )
        if not is_exact(writer.logical, reader.logical):
            raise AvroResolutionError(
                f"{at(where)}the writer's logical type {described(writer.logical)} cannot be read as the reader's"
                f" {described(reader.logical)}"
            )
        logical = _logical_node(writer, reader)
        if logical is not None:
            return logical
        if wanted == "fixed":
            return Node(Op.FIXED, reader.size)
        if wanted in ("float", "double") and written in ("int", "long"):
            return Node(Op.AS_FLOAT if wanted == "float" else Op.AS_DOUBLE, c=int(written == "long"))
        if wanted == "long":
            return Node(Op.LONG if written == "long" else Op.INT)
        if wanted == "double":
            return Node(Op.DOUBLE if written == "double" else Op.FLOAT)
        return Node(_SAME[wanted])


def _logical_node(writer: AvroType, reader: AvroType) -> Node | None:
    """Return the node of a reader's logical type, None if it has none that Python has a type for."""
    logical = reader.logical
    if logical is None:
        return None
    if writer.logical is not None:
        logical = writer.logical  # its unit is that of the bytes, and Python's types are those of both
    name = logical.name
    is_long = int(writer.kind == "long")
    if name.endswith(("timestamp-millis", "timestamp-micros")):
        units = 1000 if name.endswith("millis") else 1_000_000
        return Node(Op.TIMESTAMP, units, int(not name.startswith("local")), is_long)
    if name == "time-micros":
        return Node(Op.TIME_MICROS, c=is_long)
    if name == "decimal":
        size = reader.size if reader.kind == "fixed" else -1
        return Node(Op.DECIMAL, size, logical.scale, logical.precision)
    if name == "uuid":
        return Node(Op.UUID) if reader.kind == "string" else Node(Op.UUID_FIXED, 16)
    if name == "duration":
        return Node(Op.DURATION, 12)
    op = {"date": Op.DATE, "time-millis": Op.TIME_MILLIS}.get(name)
    return None if op is None else Node(op)  # nanoseconds stay numbers: Python's types have none


def _constant(missing: Field) -> Any:
    """Return the default of a field if it is one object for all records, else ``NO_DEFAULT``."""
    kind = missing.type
    if kind.kind == "union":
        assert missing.default_bytes is not None
        branch = missing.default_bytes[0] >> 1
        if branch >= 64:
            return NO_DEFAULT
        kind = kind.branches[branch]
    return missing.default if kind.kind in _CONSTANT and kind.logical is None else NO_DEFAULT


def _moved(text: str, place: str, where: str) -> str:
    """Return an error's message for another place."""
    rest = text.removeprefix(place)
    if not place and where:
        return f"{where}: {rest}"
    return f"{where}{rest}" if where else rest.lstrip(".: ")
