"""Random Avro schemas, values of them and damaged bytes, all from one seed, for tests that compare coders."""

from __future__ import annotations

import random
import string
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyconsumer.protocol.avro.schema import AvroType

__all__ = ["Values", "damaged", "evolved"]

_SCALARS = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
)
_DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 5,
    "long": -5,
    "float": 0.5,
    "double": -0.25,
    "bytes": "\x00\xff",
    "string": "default",
}


class Values:
    """Makes schemas and values.

    Args:
        seed: the same seed makes the same ones.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._count = 0

    # -- schemas -------------------------------------------------------------------------------------------------------

    def schema(self, depth: int = 3) -> Any:
        """Return the JSON value of a schema."""
        chosen = self.random.random()
        if depth <= 0 or chosen < 0.3:
            return self.random.choice(_SCALARS)
        if chosen < 0.4:
            return dict(self.random.choice(_LOGICAL))
        if chosen < 0.5:
            return self._named()
        if chosen < 0.6:
            return {"type": "array", "items": self.schema(depth - 1)}
        if chosen < 0.68:
            return {"type": "map", "values": self.schema(depth - 1)}
        if chosen < 0.8:
            return self._union(depth)
        return self.record(depth)

    def record(self, depth: int = 3) -> dict[str, Any]:
        """Return a record's schema."""
        name = self._name("R")
        fields: list[dict[str, Any]] = []
        for _ in range(self.random.randrange(0, 6)):
            kind: Any = self.schema(depth - 1)
            if self.random.random() < 0.1:
                kind = ["null", name]
            entry: dict[str, Any] = {"name": self._name("f"), "type": kind}
            if isinstance(kind, str) and kind in _DEFAULTS and self.random.random() < 0.4:
                entry["default"] = _DEFAULTS[kind]
            elif isinstance(kind, list) and kind and kind[0] == "null" and self.random.random() < 0.5:
                entry["default"] = None
            fields.append(entry)
        return {"type": "record", "name": name, "fields": fields}

    def _named(self) -> dict[str, Any]:
        kind = self.random.randrange(4)
        if kind == 0:
            return {"type": "enum", "name": self._name("E"), "symbols": [f"S{n}" for n in range(1 + self._below(5))]}
        if kind == 1:
            return {"type": "fixed", "name": self._name("F"), "size": self._below(9)}
        if kind == 2:
            decimal = {"logicalType": "decimal", "precision": 9, "scale": 2}
            return {"type": "fixed", "name": self._name("F"), "size": 5, **decimal}
        return {"type": "fixed", "name": self._name("F"), "size": 12, "logicalType": "duration"}

    def _union(self, depth: int) -> list[Any]:
        if self.random.random() < 0.5:
            found: list[Any] = ["null"]
            other = self.schema(depth - 1)
            if other != "null" and not isinstance(other, list):
                found.append(other)
        else:
            found = list(self.random.sample(_SCALARS, self.random.randrange(1, 4)))
            if self.random.random() < 0.5:
                found.append(self.record(depth - 1))
            if self.random.random() < 0.3:
                found.append({"type": "array", "items": self.schema(depth - 1)})
        self.random.shuffle(found)
        return found

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _below(self, limit: int) -> int:
        return self.random.randrange(limit)

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, kind: AvroType, depth: int = 6) -> Any:
        """Return a value of a type. In a union, its branch is named, so that the choice of a branch plays no part."""
        name = kind.kind
        if kind.logical is not None and not kind.logical.name.endswith("nanos"):
            return self._logical_value(kind)
        if name == "union":
            branches = kind.branches
            if depth <= 0:
                branches = [b for b in branches if b.kind == "null"] or branches
            branch = self.random.choice(branches)
            value = self.value(branch, depth - 1)
            return None if branch.kind == "null" else (branch.label, value)
        if name == "record":
            return {f.name: self.value(f.type, depth - 1) for f in kind.fields}
        if name in ("array", "map"):
            count = 0 if depth <= 0 else self.random.choice((0, 1, 2, 5))
            if name == "array":
                return [self.value(kind.items, depth - 1) for _ in range(count)]
            return {self._text(): self.value(kind.items, depth - 1) for _ in range(count)}
        return self._scalar(kind)

    def _scalar(self, kind: AvroType) -> Any:
        pick = self.random
        if kind.kind == "null":
            return None
        if kind.kind == "boolean":
            return pick.random() < 0.5
        if kind.kind in ("int", "long"):
            bits = 31 if kind.kind == "int" else 63
            return pick.choice((0, -1, (1 << bits) - 1, -1 << bits, pick.getrandbits(pick.randrange(1, bits + 1))))
        if kind.kind == "float":
            return pick.choice((0.0, -0.5, 1e10, float("inf"))) if pick.random() < 0.5 else float(pick.getrandbits(20))
        if kind.kind == "double":
            return pick.choice((0.0, float("-inf"), 1e300, pick.random()))
        if kind.kind == "string":
            return self._text()
        if kind.kind == "enum":
            return pick.choice(kind.symbols)
        return pick.randbytes(kind.size if kind.kind == "fixed" else pick.randrange(20))

    def _text(self) -> str:
        letters = string.ascii_letters if self.random.random() < 0.8 else "aé中\U0001f600\0"
        return "".join(self.random.choices(letters, k=self.random.choice((0, 1, 5, 70))))

    def _logical_value(self, kind: AvroType) -> Any:
        assert kind.logical is not None
        name, pick = kind.logical.name, self.random
        if name == "date":
            return date.fromordinal(pick.choice((1, 719162, 719163, 3652059, pick.randrange(1, 3652060))))
        if name.startswith("time-"):
            micros = pick.randrange(86_400_000_000)
            return (datetime.min + timedelta(microseconds=micros // 1000 * 1000 if "millis" in name else micros)).time()
        if "timestamp" in name:
            micros = pick.choice((0, -1_000, 253402300799_999_000, -62135596800_000_000, pick.getrandbits(52)))
            if "millis" in name:
                micros = micros // 1000 * 1000
            found = datetime(1970, 1, 1) + timedelta(microseconds=micros)
            return found if name.startswith("local") else found.replace(tzinfo=UTC)
        if name == "uuid":
            return UUID(int=pick.getrandbits(128))
        if name == "duration":
            return tuple(pick.getrandbits(32) for _ in range(3))
        most = 10**kind.logical.precision - 1
        number = pick.choice((0, -1, most, -most, pick.randrange(-most, most)))
        return Decimal(f"{number}E{-kind.logical.scale}")  # exact, whatever the number of digits


def evolved(source: Any, pick: random.Random) -> Any:
    """Return a schema that a later version may have: fields moved, dropped, added, renamed, types promoted."""
    if isinstance(source, str):
        later = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
        return later.get(source, source) if pick.random() < 0.3 else source
    if isinstance(source, list):
        found = [evolved(part, pick) if isinstance(part, dict) else part for part in source]
        if pick.random() < 0.2 and "null" not in found:
            found.insert(0, "null")
        return found
    made = dict(source)
    for part in ("items", "values"):
        if part in made:
            made[part] = evolved(made[part], pick)
    if made["type"] == "enum" and pick.random() < 0.5:
        made["symbols"] = [*made["symbols"][1:], "Z"]
        if pick.random() < 0.7:
            made["default"] = "Z"
    if made["type"] == "record":
        fields = [{**f, "type": evolved(f["type"], pick)} for f in made["fields"] if pick.random() < 0.8]
        for place, entry in enumerate(fields):
            entry.pop("default", None)
            if pick.random() < 0.2:
                fields[place] = {**entry, "name": f"new_{entry['name']}", "aliases": [entry["name"]]}
        if pick.random() < 0.6:
            fields.append({"name": "added", "type": ["null", "string"], "default": None})
        if pick.random() < 0.4:
            fields.append({"name": "more", "type": {"type": "array", "items": "int"}, "default": [1, 2]})
        pick.shuffle(fields)
        made["fields"] = fields
    return made


def damaged(data: bytes, pick: random.Random) -> bytes:
    """Return bytes with some damage."""
    changed = bytearray(data)
    for _ in range(pick.randrange(1, 4)):
        kind = pick.randrange(4)
        place = pick.randrange(len(changed) + 1)
        if kind == 0 and changed:
            changed[place % len(changed)] = pick.choice((0, 1, 2, 0x7F, 0x80, 0xFF, pick.randrange(256)))
        elif kind == 1:
            del changed[place : place + pick.randrange(1, 4)]
        elif kind == 2:
            changed[place:place] = pick.randbytes(pick.randrange(1, 4))
        else:
            del changed[place:]
    return bytes(changed)
