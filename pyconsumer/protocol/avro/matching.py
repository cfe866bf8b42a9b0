"""Decides which types of a writer's and a reader's schema belong together. The rules are those of :mod:`.plan`."""

from __future__ import annotations

from typing import Final

from pyconsumer.protocol.avro.types import AvroType, Field, Logical

__all__ = [
    "NAMED",
    "PROMOTIONS",
    "at",
    "chosen_branch",
    "described",
    "is_exact",
    "matched_fields",
    "same_name",
]

#: Rule 1: the reader's types by the writer's.
PROMOTIONS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
NAMED: Final = ("record", "enum", "fixed")

#: The reader's logical types that hold each value of a writer's one.
_FINER: Final = {
    "time-millis": "time-micros",
    "timestamp-millis": "timestamp-micros",
    "local-timestamp-millis": "local-timestamp-micros",
}


def is_exact(written: Logical | None, wanted: Logical | None) -> bool:
    """Return True if each value of a writer's logical type is one of the reader's (rule 7)."""
    if written is None or wanted is None or written == wanted:
        return True
    return _FINER.get(written.name) == wanted.name


def described(logical: Logical | None) -> str:
    """Return a logical type for a message."""
    assert logical is not None
    return f"decimal({logical.precision}, {logical.scale})" if logical.name == "decimal" else logical.name


def at(where: str) -> str:
    """Return the beginning of a message about a place in the reader's schema."""
    return f"{where}: " if where else ""


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def same_name(writer: AvroType, reader: AvroType) -> bool:
    """Return whether two named types match by their names (rule 2)."""
    return _short(writer.name) == _short(reader.name) or writer.name in reader.aliases


def matched_fields(writer: AvroType, reader: AvroType) -> dict[str, Field]:
    """Return the reader's fields by the names that the writer has for them (rule 3)."""
    written = {f.name for f in writer.fields}
    found = {f.name: f for f in reader.fields if f.name in written}
    for wanted in reader.fields:
        if wanted.name in written:
            continue
        for alias in wanted.aliases:
            if alias in written and alias not in found:
                found[alias] = wanted
                break
    return found


def chosen_branch(writer: AvroType, branches: list[AvroType]) -> AvroType | None:
    """Return the branch of a reader's union for a writer's type (rule 6)."""
    alike = [branch for branch in branches if branch.kind == writer.kind]
    if writer.kind not in NAMED:
        if alike:
            return alike[0]
    else:
        for branch in alike:
            if branch.name == writer.name:
                return branch
        for branch in alike:
            if same_name(writer, branch) and (writer.kind != "fixed" or writer.size == branch.size):
                return branch
        return None
    promoted = PROMOTIONS.get(writer.kind, ())
    return next((branch for branch in branches if branch.kind in promoted), None)
