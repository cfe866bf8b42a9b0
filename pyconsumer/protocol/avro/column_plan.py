"""Plans for columns: a writer's schema and a layout, as a flat table of steps that the decoders of columns walk.

A plan is made once for each writer's schema and layout. The compiled decoder and its twin read the same one.

Rules

1. Types resolve by the rules of :mod:`.plan`. Of a writer's schema that has the reader's form, each type resolves.
2. A step writes into one column. So a type that stands in two places has two steps, and a plan is as large as the
   layout, times the branches of the writer's unions. It has at most :data:`MOST_STEPS` steps.
3. Parts of the writer's schema that no column needs are skipped, by the nodes of a plan of their own, which may be
   recursive.
4. A number of the writer's logical type becomes one of the reader's unit. Without a logical type of the writer, it has
   the reader's unit. A column may store it in another unit, by its factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyconsumer.protocol.avro.errors import AvroResolutionError, AvroSchemaError
from pyconsumer.protocol.avro.layout import Column, Kind, Layout
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
from pyconsumer.protocol.avro.plan import Plan, skip_plan
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.types import AvroType, Logical

__all__ = ["MOST_STEPS", "ColumnPlan", "Do", "Step", "column_plan"]

#: A plan has at most this number of steps.
MOST_STEPS: Final = 100_000
_DAY_MILLIS: Final = 86_400_000
#: A null that takes more bytes of memory than this counts towards the bound of a value.
_FREE_BYTES: Final = 16


class Do:
    """The operations of steps. ``native/columns.pxi`` has the same numbers.

    a, b, c and the object of a :class:`Step` mean, by operation:

    * NULL: c = the bytes that count.
    * INT: a number of 32 bits into a column of 32 bits. LONG: a = 0 if the number is written as int, 1 as long. b is a
      factor.
    * TIME: a as for LONG. b = the factor, c = the first number that is no time of a day.
    * FLOAT, DOUBLE: a float or a double. A float may go into a column of doubles.
    * ROUNDED, AS_DOUBLE: an integer as float or as double. a as for LONG.
    * BYTES, TEXT, UUID: with their length. FIXED: a = size. UUID_FIXED: 16 bytes as text.
    * DECIMAL: a = size, -1 for bytes, b = the most bytes, c = precision.
    * ENUM: the object has the reader's index by the writer's, -1 for one that is refused.
    * RECORD: a = first link, b = number of links, c = the bytes that count. A link is a step.
    * LIST, MAP: a = the step of the items.
    * UNION: a = first link, b = number of branches.
    * MEMBER: a = the step of the member, -1 if no column needs it. Then b = the node of the skip plan. Else b = the
      position of the member. c = the bytes that count.
    * DEFAULT: a = the step, the object has the bytes.
    * REFUSED: the object is the reason.
    * SKIP: a = the node of the skip plan. The object has the name of the field.
    """

    NULL, BOOLEAN, INT, LONG, TIME, FLOAT, DOUBLE, ROUNDED, AS_DOUBLE, BYTES, TEXT, UUID, FIXED = range(13)
    UUID_FIXED, DECIMAL, ENUM, RECORD, LIST, MAP, UNION, MEMBER, DEFAULT, REFUSED, SKIP = range(13, 24)


class Step(NamedTuple):
    """One step of a plan. See :class:`Do`. ``column`` is the index of its column, -1 if it has none."""

    do: int
    column: int = -1
    a: int = 0
    b: int = 0
    c: int = 0
    of: Any = None


@dataclass(slots=True)
class ColumnPlan:
    """A table of steps. The first one is that of the whole value.

    Attributes:
        steps: by number.
        links: the steps of records and unions.
        skips: the plan of the parts that are skipped.
        layout: the columns.
    """

    layout: Layout
    steps: list[Step] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    skips: Plan = field(default_factory=Plan)


def column_plan(writer: AvroSchema, layout: Layout) -> ColumnPlan:
    """Return the plan for reading values of a writer's schema into columns.

    Raises:
        AvroResolutionError: the writer's schema does not resolve with that of the layout.
        AvroSchemaError: the plan would be too large.
    """
    planner = _Planner(layout)
    planner.value(writer.root, layout.reader.root, 0, "")
    return planner.finish()


class _Planner:
    def __init__(self, layout: Layout) -> None:
        self.plan = ColumnPlan(layout)
        self._columns = layout.columns
        self._skipped: list[AvroType] = []

    def finish(self) -> ColumnPlan:
        """Make the plan of the skipped parts, and fill in its nodes."""
        skips, nodes = skip_plan(self._skipped)
        plan = ColumnPlan(self.plan.layout, self.plan.steps, self.plan.links, skips)
        for number, step in enumerate(plan.steps):
            if step.do == Do.SKIP:
                plan.steps[number] = step._replace(a=nodes[step.a])
            elif step.do == Do.MEMBER and step.a < 0:
                plan.steps[number] = step._replace(b=nodes[step.b])
        return plan

    def value(self, writer: AvroType, reader: AvroType, column: int, where: str) -> int:
        """Plan a type of the writer for one of the reader, and return the number of its step."""
        number = self._add(Step(Do.REFUSED))
        self.plan.steps[number] = self._step(writer, reader, column, where)
        return number

    def _add(self, step: Step) -> int:
        if len(self.plan.steps) >= MOST_STEPS:
            raise AvroSchemaError(f"the plan of these two schemas has more than {MOST_STEPS} steps")
        self.plan.steps.append(step)
        return len(self.plan.steps) - 1

    def _link(self, steps: list[int]) -> int:
        start = len(self.plan.links)
        self.plan.links.extend(steps)
        return start

    def _skip(self, kind: AvroType) -> int:
        """Return the place of a type in the list of those that are skipped."""
        self._skipped.append(kind)
        return len(self._skipped) - 1

    def _step(self, writer: AvroType, reader: AvroType, column: int, where: str) -> Step:
        if writer.kind == "union":
            steps = [self._branch(branch, reader, column, where) for branch in writer.branches]
            return Step(Do.UNION, -1, self._link(steps), len(steps))
        if reader.kind == "union":
            return self._in_union(writer, reader, column, where)
        if writer.kind in NAMED and writer.kind == reader.kind and not same_name(writer, reader):
            raise AvroResolutionError(
                f"{at(where)}the writer's {writer.kind} {writer.name!r} is not the reader's {reader.name!r}: give the"
                " reader's that alias"
            )
        if writer.kind == "record" and reader.kind == "record":
            return self._record(writer, reader, column, where)
        if writer.kind == reader.kind and writer.kind in ("array", "map"):
            is_map = writer.kind == "map"
            items = self._columns[column].children[-1]
            place = where + ("{}" if is_map else "[]")
            return Step(Do.MAP if is_map else Do.LIST, column, self.value(writer.items, reader.items, items, place))
        return _scalar(writer, reader, column, self._columns[column], where)

    def _branch(self, branch: AvroType, reader: AvroType, column: int, where: str) -> int:
        """Plan a branch of a writer's union. One that does not resolve is an error of its values."""
        steps, links, skipped = len(self.plan.steps), len(self.plan.links), len(self._skipped)
        try:
            return self.value(branch, reader, column, where)
        except AvroResolutionError as error:
            del self.plan.steps[steps:], self.plan.links[links:], self._skipped[skipped:]
            return self._add(Step(Do.REFUSED, of=str(error)))

    def _in_union(self, writer: AvroType, reader: AvroType, column: int, where: str) -> Step:
        chosen = chosen_branch(writer, reader.branches)
        if chosen is None:
            names = ", ".join(branch.label for branch in reader.branches)
            raise AvroResolutionError(f"{at(where)}no branch of the reader's union ({names}) takes a {writer.label}")
        target = self._columns[column]
        if chosen.kind == "null":
            return Step(Do.NULL, column, c=_counted(target.null_bytes))
        if target.is_merged:
            return _scalar(writer, AvroType(chosen.kind), column, target, where)
        if not (target.is_union and target.type is reader):
            return self._step(writer, chosen, column, where)
        branches = [branch for branch in reader.branches if branch.kind != "null"]
        place = next(i for i, branch in enumerate(branches) if branch is chosen)
        position = target.parts.get(f"member{place}", -1)
        others = sum([self._columns[child].null_bytes for i, child in enumerate(target.children) if i != position])
        if position < 0:
            return Step(Do.MEMBER, column, -1, self._skip(writer), _counted(others))
        inner = self.value(writer, chosen, target.children[position], where)
        return Step(Do.MEMBER, column, inner, position, _counted(others))

    def _record(self, writer: AvroType, reader: AvroType, column: int, where: str) -> Step:
        target = self._columns[column]
        of_writer = matched_fields(writer, reader)
        steps: list[int] = []
        for written in writer.fields:
            wanted = of_writer.get(written.name)
            if wanted is None or wanted.name not in target.parts:
                steps.append(self._add(Step(Do.SKIP, a=self._skip(written.type), of=written.name)))
                continue
            child = target.children[target.parts[wanted.name]]
            steps.append(
                self.value(written.type, wanted.type, child, f"{where}.{wanted.name}" if where else wanted.name)
            )
        matched = {wanted.name for wanted in of_writer.values()}
        for missing in reader.fields:
            if missing.name in matched:
                continue
            if missing.default_bytes is None:
                raise AvroResolutionError(
                    f"{at(where)}the reader's field {missing.name!r} of {reader.name!r} is not in the writer's schema,"
                    " and has no default"
                )
            if missing.name in target.parts:
                child = target.children[target.parts[missing.name]]
                inner = self.value(missing.type, missing.type, child, missing.name)
                steps.append(self._add(Step(Do.DEFAULT, -1, inner, of=missing.default_bytes)))
        counted = 64 + 8 * max(len(steps), len(target.children))
        return Step(Do.RECORD, column, self._link(steps), len(steps), counted)


def _counted(null_bytes: int) -> int:
    return null_bytes if null_bytes > _FREE_BYTES else 0


def _scalar(writer: AvroType, reader: AvroType, column: int, target: Column, where: str) -> Step:
    """Return the step of a type without parts."""
    written, wanted = writer.kind, reader.kind
    if written != wanted and wanted not in PROMOTIONS.get(written, ()):
        raise AvroResolutionError(f"{at(where)}a {writer.label} of the writer is no {reader.label} of the reader")
    if wanted == "null":
        return Step(Do.NULL, column)
    if wanted == "boolean":
        return Step(Do.BOOLEAN, column)
    if wanted == "enum":
        numbers = {symbol: number for number, symbol in enumerate(reader.symbols)}
        other = -1 if reader.default is None else numbers[reader.default]
        return Step(Do.ENUM, column, of=tuple([numbers.get(symbol, other) for symbol in writer.symbols]))
    if wanted == "fixed" and writer.size != reader.size:
        raise AvroResolutionError(
            f"{at(where)}the writer's {writer.name!r} has {writer.size} bytes, the reader's {reader.size}"
        )
    if not is_exact(writer.logical, reader.logical):
        raise AvroResolutionError(
            f"{at(where)}the writer's logical type {described(writer.logical)} cannot be read as the reader's"
            f" {described(reader.logical)}"
        )
    if wanted in ("int", "long"):
        return _whole(writer, reader.logical, column, target)
    is_long = int(written == "long")
    if wanted in ("float", "double"):
        if written in ("int", "long"):
            return Step(Do.ROUNDED if wanted == "float" else Do.AS_DOUBLE, column, is_long)
        return Step(Do.FLOAT if written == "float" else Do.DOUBLE, column)
    name = "" if reader.logical is None else reader.logical.name
    if name == "decimal":
        assert reader.logical is not None
        size = reader.size if wanted == "fixed" else -1
        return Step(Do.DECIMAL, column, size, 4096, reader.logical.precision)
    if name == "uuid":
        return Step(Do.UUID if wanted == "string" else Do.UUID_FIXED, column)
    if wanted == "fixed":
        return Step(Do.FIXED, column, reader.size)
    return Step(Do.TEXT if wanted == "string" else Do.BYTES, column)


def _whole(writer: AvroType, wanted: Logical | None, column: int, target: Column) -> Step:
    """Return the step of a number that is stored as an integer (rule 4)."""
    is_long = int(writer.kind == "long")
    factor = 1
    if wanted is not None and writer.logical is not None and writer.logical != wanted:
        factor = 1000  # from milliseconds to microseconds: others do not resolve
    if wanted is not None and wanted.name.startswith("time-"):
        in_millis = wanted.name == "time-millis" or factor != 1
        return Step(Do.TIME, column, is_long, factor, _DAY_MILLIS if in_millis else 1000 * _DAY_MILLIS)
    if target.kind == Kind.INT:
        return Step(Do.INT, column)
    return Step(Do.LONG, column, is_long, factor * target.factor)
