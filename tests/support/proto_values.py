"""Random message types and messages of Protobuf, and the value that a column must show for a message."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Proto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

__all__ = ["ProtoValues", "shown"]

_NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 13, 15, 16, 17, 18)
_WELL_KNOWN = ("Timestamp", "Duration", "Int64Value", "UInt32Value", "StringValue", "BoolValue", "DoubleValue", "Any")
_KEYS = (3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18)


class ProtoValues:
    """Makes a file of message types, and messages of the first one.

    Args:
        seed: of the random numbers.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.syntax = self.random.choice(("proto2", "proto3"))
        self._messages = 0
        file = descriptor_pb2.FileDescriptorProto(name=f"random{seed}.proto", syntax=self.syntax)
        file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("any", "duration", "timestamp", "wrappers"))
        enum = file.enum_type.add(name="E")
        for name, number in (("E_ZERO", 0), ("E_ONE", 1), ("E_NINE", 9), ("E_MINUS", -3)):
            enum.value.add(name=name, number=number)
        self._message(file.message_type.add(name="M"), 0)
        self.proto = file
        self.type: Any = GetMessageClass(self._pool(file).FindMessageTypeByName("M"))

    @staticmethod
    def _pool(file: Any) -> Any:
        from google.protobuf import any_pb2, duration_pb2, timestamp_pb2, wrappers_pb2

        pool = DescriptorPool()
        for known in (any_pb2, duration_pb2, timestamp_pb2, wrappers_pb2):
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        pool.Add(file)
        return pool

    def _message(self, message: Any, level: int, way: str = ".M") -> None:
        rng = self.random
        numbers = rng.sample([*range(1, 16), *range(16, 40), 255, 256, 257, 1000, 100_000], rng.randrange(1, 9))
        oneof = -1
        for place, number in enumerate(numbers):
            field = message.field.add(name=f"f{place}", number=number, label=Proto.LABEL_OPTIONAL)
            kind = rng.random()
            if kind < 0.12 and level < 3:
                field.type = Proto.TYPE_MESSAGE
                self._map(message, field, level, way)
                continue
            if kind < 0.35:
                field.label = Proto.LABEL_REPEATED
            elif kind < 0.5:
                if oneof < 0:
                    oneof = len(message.oneof_decl)
                    message.oneof_decl.add(name="o")
                field.oneof_index = oneof
            self._type(message, field, level, way)
        if self.syntax == "proto3":
            for field in message.field:
                if rng.random() < 0.2 and field.label == Proto.LABEL_OPTIONAL and not field.HasField("oneof_index"):
                    field.proto3_optional = True
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field.name}")

    def _map(self, message: Any, field: Any, level: int, way: str) -> None:
        entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
        entry.options.map_entry = True
        field.label, field.type_name = Proto.LABEL_REPEATED, f"{way}.{entry.name}"
        entry.field.add(name="key", number=1, label=1, type=self.random.choice(_KEYS))
        value = entry.field.add(name="value", number=2, label=1)
        self._type(message, value, level, way, in_map=True)

    def _type(self, message: Any, field: Any, level: int, way: str, *, in_map: bool = False) -> None:
        rng = self.random
        kind = rng.random()
        if kind < 0.55:
            field.type = rng.choice(_NUMBERS)
            if field.label == Proto.LABEL_REPEATED and rng.random() < 0.5:
                field.options.packed = rng.random() < 0.5
            if self.syntax == "proto2" and field.label == Proto.LABEL_OPTIONAL and not in_map and rng.random() < 0.3:
                field.default_value = "true" if field.type == 8 else "7"
        elif kind < 0.7:
            field.type = rng.choice((9, 12))
        elif kind < 0.78:
            field.type, field.type_name = Proto.TYPE_ENUM, ".E"
        elif kind < 0.88 or level >= 3:
            field.type, field.type_name = Proto.TYPE_MESSAGE, f".google.protobuf.{rng.choice(_WELL_KNOWN)}"
        else:
            self._messages += 1
            inner = message.nested_type.add(name=f"M{self._messages}")
            field.type_name = f"{way}.{inner.name}"
            is_group = self.syntax == "proto2" and not in_map and rng.random() < 0.3
            field.type = Proto.TYPE_GROUP if is_group else Proto.TYPE_MESSAGE
            if is_group:
                field.name = inner.name.lower()
            self._message(inner, level + 1, f"{way}.{inner.name}")

    # -- values ----------------------------------------------------------------------------------------------------

    def message(self) -> Any:
        """Return a random message of the first type."""
        made = self.type()
        self._set(made, 0)
        return made

    def _set(self, made: Any, level: int) -> None:
        rng = self.random
        for field in made.DESCRIPTOR.fields:
            if rng.random() < 0.35:
                continue
            target = getattr(made, field.name)
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                for _ in range(rng.randrange(3)):
                    key = self._scalar(field.message_type.fields_by_number[1])
                    value = field.message_type.fields_by_number[2]
                    if value.message_type is None:
                        target[key] = self._scalar(value)
                    else:
                        self._fill(target[key], level)
            elif field.is_repeated:
                for _ in range(rng.choice((0, 1, 2, 5))):
                    if field.message_type is None:
                        target.append(self._scalar(field))
                    else:
                        self._fill(target.add(), level)
            elif field.message_type is not None:
                target.SetInParent()
                self._fill(target, level)
            else:
                setattr(made, field.name, self._scalar(field))

    def _fill(self, made: Any, level: int) -> None:
        if made.DESCRIPTOR.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            made.seconds = self.random.choice((0, 1, -5, 1_700_000_000, 10**11))
            made.nanos = self.random.choice((0, 999, 1000, 999_999_999))
        elif made.DESCRIPTOR.full_name == "google.protobuf.Any":
            made.type_url, made.value = "a/b", b"c"
        else:
            self._set(made, level + 1)

    def _scalar(self, field: Any) -> Any:
        rng, kind = self.random, field.type
        if field.enum_type is not None:
            return rng.choice((0, 1, 9, -3) if field.enum_type.is_closed else (0, 1, 9, -3, 5, -(2**31)))
        if kind in (1, 2):
            return rng.choice((0.0, -0.0, 1.5, -2.25, float("inf")))
        if kind == 8:
            return rng.random() < 0.5
        if kind in (9, 12):
            text = rng.choice(("", "a", "Zürich", "x" * 40, "日本"))
            return text if kind == 9 else text.encode()
        size = 32 if kind in (5, 7, 13, 15, 17) else 64
        unsigned = kind in (4, 6, 7, 13)
        low, high = (0, 2**size - 1) if unsigned else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
        return rng.choice((0, 1, high, low, rng.randint(low, high), 300))

    def mixed(self, *parts: bytes) -> bytes:
        """Return the fields of some messages in another order, with unknown ones between them."""
        fields: list[bytes] = []
        for part in parts:
            fields += _fields(part)
        self.random.shuffle(fields)
        unknown = (b"\xf8\x3f\x05", b"\xfa\x3f\x02ab", b"\xfb\x3f\x08\x01\xfc\x3f")
        return b"".join([*fields, self.random.choice(unknown), *fields[: self.random.randrange(3)]])


def _fields(data: bytes) -> list[bytes]:
    """Cut valid bytes into their fields."""
    found, at = [], 0
    while at < len(data):
        end = _field_end(data, at)
        found.append(data[at:end])
        at = end
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _field_end(data: bytes, at: int) -> int:
    tag, at = _number(data, at)
    wire = tag & 7
    if wire == 0:
        return _number(data, at)[1]
    if wire == 2:
        size, at = _number(data, at)
        return at + size
    if wire == 3:
        while _number(data, at)[0] & 7 != 4:
            at = _field_end(data, at)
        return _number(data, at)[1]
    return at + (8 if wire == 1 else 4)


# -- what a column shows ---------------------------------------------------------------------------


def shown(message: Any) -> dict[str, Any]:
    """Return a message as ``to_pylist`` shows it, with moments as microseconds. Maps are dictionaries."""
    return {field.name: _shown_field(message, field) for field in message.DESCRIPTOR.fields}


def _shown_field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_number[2]
        return {key: _item(value[key], of) for key in value}
    if field.is_repeated:
        return [_item(each, field) for each in value]
    if field.message_type is not None:
        return _item(value, field) if message.HasField(field.name) else None
    if not field.has_presence or message.HasField(field.name):
        return _item(value, field)
    in_oneof = field.containing_oneof is not None and len(field.containing_oneof.fields) > 1
    return _item(value, field) if field.has_default_value and not in_oneof else None


def _item(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else found.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        nanos = value.nanos
        return value.seconds * 10**6 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return value.value
    return shown(value)
