"""Checks whether messages of one Protobuf file can be read with another one, by the rules of Confluent's registry.

The rules follow Protobuf's own ("Updating A Message Type", protobuf.dev) and Confluent's ("Protobuf compatibility
rules", docs.confluent.io). The kinds of differences have the registry's names.

Rules

1. The package stays. A message type may be added or moved to another place, and not be removed.
2. A field may be added, removed or renamed, since its number names it. A required one may not be added or removed.
3. A field may change its type within a group: whole numbers with bool and enum, zigzag numbers, text and bytes, fixed
   numbers of 32 bits, of 64 bits. A message stays one of the same name, and a map stays a map.
4. A number may not become repeated, or be so no more.
5. One field may move into a new oneof. Two may only if they were in one together. None may move into a oneof that was
   there. A field that leaves a oneof must stay in the message, unless the whole oneof goes.
6. Enums may change. Services and options are not compared.
7. Editions, extensions and groups are not covered: :class:`UncheckedError` is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyconsumer.broker.registry.json_compatibility import UncheckedError
from pyconsumer.protocol.protobuf.files import ProtoFile

__all__ = ["incompatibilities"]

# Numbers of ``FieldDescriptorProto.Type``.
_GROUP, _MESSAGE = 10, 11
_REQUIRED, _REPEATED = 2, 3
_GROUPS: Final = (
    (3, 4, 5, 8, 13, 14),  # int64, uint64, int32, bool, uint32, enum
    (17, 18),  # sint32, sint64
    (9, 12),  # string, bytes
    (7, 15),  # fixed32, sfixed32
    (6, 16),  # fixed64, sfixed64
    (2,),  # float
    (1,),  # double
)
_GROUP_OF: Final = {number: group for group, numbers in enumerate(_GROUPS) for number in numbers}
_TEXTS: Final = _GROUP_OF[9]


def incompatibilities(reader: ProtoFile, writer: ProtoFile) -> list[str]:
    """Return the reasons for which ``reader`` cannot read all messages of ``writer``. Empty if it can.

    Raises:
        UncheckedError: no rule covers a change.
    """
    if reader.proto == writer.proto and not reader.imports and not writer.imports:
        return []
    for file in (reader, writer):
        if file.proto.syntax == "editions" or file.proto.extension:
            raise UncheckedError("no rule covers editions and extensions")
    if reader.proto.package != writer.proto.package:
        return [f"PACKAGE_CHANGED at #/: {writer.proto.package!r} became {reader.proto.package!r}"]
    comparison = _Comparison(_types(reader), _types(writer))
    known = dict(_messages(reader.proto.message_type, ""))
    found: list[str] = []
    for name, message in _messages(writer.proto.message_type, ""):
        if name not in known:
            found.append(f"MESSAGE_REMOVED at #/{name}")
        else:
            found += comparison.messages(known[name], message, f"#/{name}")
    return found


def _messages(messages: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Yield message types and those within them, by their names in the file. Entries of maps are none."""
    for message in messages:
        if not message.options.map_entry:
            name = f"{before}{message.name}"
            yield name, message
            yield from _messages(message.nested_type, f"{name}/")


def _types(file: ProtoFile) -> dict[str, tuple[str, Any]]:
    """Return the message types that a file may name, by full name: their names without the package, and themselves."""
    found: dict[str, tuple[str, Any]] = {}
    seen: set[int] = set()

    def add(each: ProtoFile) -> None:
        if id(each) in seen:
            return
        seen.add(id(each))
        package = f".{each.proto.package}." if each.proto.package else "."
        nested(each.proto.message_type, package, "")
        for one in each.imports.values():
            add(one)

    def nested(messages: Any, package: str, before: str) -> None:
        for message in messages:
            name = f"{before}{message.name}"
            found[f"{package}{name}"] = (name, message)
            nested(message.nested_type, package, f"{name}.")

    add(file)
    return found


class _Comparison:
    """The state of one comparison: types by full name on both sides, and the pairs that are being compared."""

    def __init__(self, ours: dict[str, tuple[str, Any]], theirs: dict[str, tuple[str, Any]]) -> None:
        self._ours = ours
        self._theirs = theirs
        self._open: set[tuple[int, int]] = set()

    def messages(self, ours: Any, theirs: Any, path: str) -> list[str]:
        pair = id(ours), id(theirs)
        if pair in self._open:
            return []
        self._open.add(pair)
        if ours.extension_range or theirs.extension_range or ours.extension or theirs.extension:
            raise UncheckedError(f"{path}: no rule covers extensions")
        mine = {field.number: field for field in ours.field}
        before = {field.number: field for field in theirs.field}
        found = []
        for number in sorted({*mine, *before}):
            place = f"{path}/{number}"
            if number not in mine or number not in before:
                is_added = number in mine
                if (mine if is_added else before)[number].label == _REQUIRED:
                    found.append(f"REQUIRED_FIELD_{'ADDED' if is_added else 'REMOVED'} at {place}")
            else:
                found += self._fields(mine[number], before[number], place)
        return found + _oneofs(ours, theirs, mine, before, path)

    def _fields(self, ours: Any, theirs: Any, path: str) -> list[str]:
        if _GROUP in (ours.type, theirs.type):
            raise UncheckedError(f"{path}: no rule covers groups")
        if (ours.label == _REQUIRED) != (theirs.label == _REQUIRED):
            return [f"REQUIRED_FIELD_{'ADDED' if ours.label == _REQUIRED else 'REMOVED'} at {path}"]
        mine, before = self._ours.get(ours.type_name), self._theirs.get(theirs.type_name)
        maps = [each is not None and each[1].options.map_entry for each in (mine, before)]
        if (ours.type == _MESSAGE) != (theirs.type == _MESSAGE) or maps[0] != maps[1]:
            return [f"FIELD_KIND_CHANGED at {path}"]
        if ours.type != _MESSAGE:
            group = _GROUP_OF[ours.type]
            if group != _GROUP_OF[theirs.type]:
                return [f"FIELD_SCALAR_KIND_CHANGED at {path}"]
            if group != _TEXTS and (ours.label == _REPEATED) != (theirs.label == _REPEATED):
                return [f"FIELD_NUMERIC_LABEL_CHANGED at {path}"]
            return []
        if mine is None or before is None:  # a file that all readers know
            return [] if ours.type_name == theirs.type_name else [f"FIELD_NAMED_TYPE_CHANGED at {path}"]
        if maps[0]:
            return self.messages(mine[1], before[1], path)
        if mine[0] != before[0]:
            return [f"FIELD_NAMED_TYPE_CHANGED at {path}: {before[0]} became {mine[0]}"]
        reasons = self.messages(mine[1], before[1], path)
        return [f"FIELD_NAMED_TYPE_CHANGED at {path}", *reasons] if reasons else []


def _oneofs(ours: Any, theirs: Any, mine: dict[int, Any], before: dict[int, Any], path: str) -> list[str]:
    """Return the reasons of rule 5."""
    found = []
    old = {number: _oneof(theirs, field) for number, field in before.items()}
    names = {name for name in old.values() if name}
    members: dict[str, list[int]] = {}
    for number, field in mine.items():
        name = _oneof(ours, field)
        if name and number in before:
            members.setdefault(name, []).append(number)
    for name, numbers in members.items():
        origins = {old[number] for number in numbers}
        if name in names:
            if origins != {name}:
                found.append(f"FIELD_MOVED_TO_EXISTING_ONEOF at {path}/{name}")
        elif len(numbers) > 1 and (len(origins) > 1 or origins == {""}):
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if origins == {""} else "FIELD_MOVED_TO_EXISTING_ONEOF"
            found.append(f"{kind} at {path}/{name}")
    for name in sorted(names):
        numbers = [number for number, each in old.items() if each == name]
        gone = [number for number in numbers if number not in mine]
        if gone and (len(gone) < len(numbers) or name in {_oneof(ours, field) for field in mine.values()}):
            found += [f"ONEOF_FIELD_REMOVED at {path}/{name}/{number}" for number in gone]
    return found


def _oneof(message: Any, field: Any) -> str:
    """Return the name of a field's oneof, "" without one. That of an optional field of proto3 is none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)
