"""Wire types by the names of Kafka's protocol guide, varints, UUIDs, and the helpers of generated codecs. No state.

Numbers are big-endian. An *unsigned varint* is base 128, least significant group first, at most 5 bytes for 32 bits. A
*varint* is the same after zigzag (record format v2). A *compact* length is an unsigned varint of length + 1, with 0 for
null.
"""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn

from pyconsumer.errors import ProtocolError

__all__ = [
    "ZERO_UUID",
    "StoredRecords",
    "encode_uvarint",
    "encode_varint",
    "read_uvarint_tail",
    "read_varint",
    "uuid_from_str",
    "uuid_to_str",
]

Buffer = bytes | bytearray | memoryview


class StoredRecords:
    """Records of a response that are in a file of the broker. They are read while the response is sent.

    Encoding needs only their length. The object stands in the place of a buffer, in a ``records`` field and among the
    parts of a frame. The code that sends the frame handles this type separately.
    """

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        raise NotImplementedError


#: The UUID that stands for "none" (Kafka's ``Uuid.ZERO_UUID``).
ZERO_UUID = bytes(16)

_ONE_BYTE = tuple(bytes((n,)) for n in range(128))


def encode_uvarint(value: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1 as an unsigned varint."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if value < 0:
        raise ProtocolError(f"{value} cannot be encoded as an unsigned varint")
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode a signed number of up to 64 bits as a varint."""
    return encode_uvarint((value << 1) ^ (value >> 63))


def read_uvarint_tail(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint, after its first byte, which is 128 or more.

    Raises:
        IndexError: the data ends inside the number. (The callers raise ``ProtocolError`` instead.)
        ProtocolError: the number is longer than 5 bytes, or does not fit into 32 bits.
    """
    byte = buffer[position]
    value = first & 0x7F | (byte & 0x7F) << 7
    position += 1
    if byte < 128:
        return value, position
    for shift in (14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise ProtocolError(f"varint {value} does not fit into 32 bits")
            return value, position
    raise ProtocolError("a varint is longer than 5 bytes")


def read_varint(buffer: Buffer, position: int, max_bytes: int = 10) -> tuple[int, int]:
    """Read a varint (at most 5 bytes for 32 bits, 10 for 64). Return ``(value, position after it)``."""
    value = 0
    try:
        for index in range(max_bytes):
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 128:
                return (value >> 1) ^ -(value & 1), position
    except IndexError:
        raise ProtocolError("the data ends inside a varint") from None
    raise ProtocolError(f"a varint is longer than {max_bytes} bytes")


def uuid_to_str(value: bytes) -> str:
    """Return a UUID in Kafka's notation: its 16 bytes in URL-safe base64, without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_from_str(text: str) -> bytes:
    """Return the 16 bytes of a UUID in Kafka's notation. Raises ``ValueError`` if the text is not in this notation."""
    try:
        value = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        value = b""
    if len(value) != 16 or len(text) != 22:
        raise ValueError(f"{text!r} is not a UUID in Kafka's form: 22 characters of URL-safe base64")
    return value


# The errors of generated codecs.


def bad_null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is null, which this version does not allow")


def bad_length(name: str, length: int, left: int) -> NoReturn:
    raise ProtocolError(f"{name} claims {length} bytes or elements, but only {left} bytes are left")


def too_long(name: str, length: int, limit: int) -> NoReturn:
    raise ProtocolError(f"{name} has {length} bytes, more than the {limit} that the protocol allows")


def bad_tag_size(name: str, size: int, used: int) -> NoReturn:
    raise ProtocolError(f"tagged field {name} claims {size} bytes, but its value has {used}")


_MAX_VERSION = 32767


class WireType(NamedTuple):
    """A primitive type with its name in Kafka.

    For a type of fixed size it also has the ``struct`` letter and the size in bytes.
    """

    name: str
    letter: str = ""
    size: int = 0


BOOL = WireType("bool", "?", 1)


INT8 = WireType("int8", "b", 1)


INT16 = WireType("int16", "h", 2)


UINT16 = WireType("uint16", "H", 2)


INT32 = WireType("int32", "i", 4)


INT64 = WireType("int64", "q", 8)


FLOAT64 = WireType("float64", "d", 8)


UUID = WireType("uuid", "16s", 16)


STRING = WireType("string")


BYTES = WireType("bytes")


RECORDS = WireType("records")


class Versions(NamedTuple):
    """A range of versions. Both ends are included. It is empty if ``first > last``."""

    first: int
    last: int

    @classmethod
    @functools.cache
    def parse(cls, text: str | None) -> Versions:
        """Parse Kafka's notation: ``"3"``, ``"3-5"``, ``"3+"`` or ``"none"``."""
        if text is None or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _MAX_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == _MAX_VERSION:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class FieldSpec(NamedTuple):
    """The declaration of one field of a struct.

    ``type`` is a wire type or a :class:`Struct` class. For an array it is the type of the elements. ``tag`` is -1 for a
    field that is never a tagged field.
    """

    name: str
    type: WireType | type[Struct]
    is_array: bool
    versions: Versions
    nullable: Versions
    default: Any
    tag: int
    tagged: Versions
    ignorable: bool
    compact: bool

    @property
    def type_name(self) -> str:
        """The name of the type in Kafka, such as ``[]int32``."""
        name = self.type.name if isinstance(self.type, WireType) else self.type.__name__
        return f"[]{name}" if self.is_array else name


Encoder = Callable[[Any, Callable[[Buffer], None]], None]


Decoder = Callable[[Buffer, int], tuple[Any, int]]


class Struct:
    """A part of a message. The decorator ``structure`` of the module ``schema`` makes such a class.

    Every field has Kafka's default.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[FieldSpec, ...]] = ()

    @classmethod
    def declare_fields(cls, fields: tuple[FieldSpec, ...]) -> None:
        """Set the fields in their order. The decorators of :mod:`pyconsumer.protocol.schema` call this."""
        cls.FIELDS = fields

    @classmethod
    def take_constructor(cls, constructor: Callable[..., None]) -> None:
        """Set the compiled ``__init__``. The first call of the constructor does this."""
        cls.__init__ = constructor  # type: ignore[method-assign]

    def __repr__(self) -> str:
        values = ", ".join(f"{spec.name}={getattr(self, spec.name)!r}" for spec in self.FIELDS)
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, spec.name) == getattr(other, spec.name) for spec in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]
