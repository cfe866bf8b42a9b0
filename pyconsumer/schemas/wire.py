"""The bytes that name the schema of a key or a value, as Confluent's serializers write them.

* Before the value: a magic byte 0 and the schema's id in four bytes, big endian.
* In a header, ``__key_schema_id`` or ``__value_schema_id``: a magic byte 1 and the 16 bytes of the schema's GUID. The
  value stands in the record alone.
* Protobuf: the path of the message type follows, as a list of indexes in the file. It is written in zigzag varints, the
  count first. A single 0 stands for the path ``[0]``.

Some writers leave that path out. A message begins with a tag, which is 8 or more. So a first byte below 8 is a path.
From 8 on it is a path of four or more indexes, or a message without a path. If the bytes are a whole message as well,
that is an error, since no reader can tell.

A reader takes the header if there is one, otherwise the prefix. Source: Confluent's wire format
(docs.confluent.io, "Serdes overview"), and the bytes of confluent-kafka 2.16.

Framings of other registries are recognised by their form, for the error alone. They are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from pyconsumer.schemas.errors import SchemaFramingError
from pyconsumer.schemas.subjects import MessageField

__all__ = [
    "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID",
    "Framed",
    "header_name",
    "looks_like_apicurio",
    "may_begin_message",
    "read_framed",
    "read_indexes",
    "with_header",
    "with_prefix",
    "write_indexes",
]

KEY_SCHEMA_ID: Final = "__key_schema_id"
VALUE_SCHEMA_ID: Final = "__value_schema_id"

_ID_MAGIC: Final = 0
_GUID_MAGIC: Final = 1
_PREFIX_BYTES: Final = 5
_GUID_BYTES: Final = 17
_MOST_INDEXES: Final = 1_000  #: a path has one index for each level of nesting
#: Added to an error of the path.
_NO_PATH: Final = (
    ". If the message follows the id at once, as kafkajs writes it, read it with a schema.id.deserializer: see"
    ' docs/schemas.md, "Values without a path"'
)
#: The least tag of Protobuf: the field 1, as a varint.
_LEAST_TAG: Final = 8
_MOST_ID: Final = (1 << 32) - 1
#: AWS Glue: a version byte 3, a compression byte (0: none, 5: zlib) and 16 bytes of a UUID.
_GLUE_BYTES: Final = 18
#: Apicurio 2: the magic byte 0 and an id of eight bytes. Ids are small, so four zero bytes follow the magic byte.
_APICURIO_BYTES: Final = 9


class Framed(NamedTuple):
    """A key or value without its framing.

    Attributes:
        schema_id: the schema's id in the registry. None if ``guid`` names it.
        guid: the schema's GUID. None if ``schema_id`` names it.
        indexes: of a Protobuf message, the path of its type. Empty for other formats.
        payload: the remaining bytes, a view of the given ones.
    """

    schema_id: int | None
    guid: UUID | None
    indexes: tuple[int, ...]
    payload: memoryview


def header_name(field: MessageField | str) -> str:
    """Return the name of the header with the schema's GUID."""
    return KEY_SCHEMA_ID if str(field) == "key" else VALUE_SCHEMA_ID


def read_framed(
    data: bytes | bytearray | memoryview,
    headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None = None,
    field: MessageField | str = MessageField.VALUE,
    *,
    protobuf: bool = False,
    zigzag: bool = True,
) -> Framed:
    """Return the id and the payload of a key or value: by the header if there is one, otherwise by the prefix.

    Args:
        data: the key or the value.
        headers: the record's headers. The last one of the name counts, as ``Headers.lastHeader`` in Java.
        field: the side, which gives the header's name.
        protobuf: True if the path of a message type follows the id.
        zigzag: False reads that path as it was written before 2021.

    Raises:
        SchemaFramingError: there is no id, or a path that may be a message. The text has the first bytes, and names
            another registry's framing.
    """
    view = memoryview(data)
    found = _last_header(headers, header_name(field)) if headers else None
    if found is not None:
        head = memoryview(found)
        if len(head) < 1 or head[0] not in (_ID_MAGIC, _GUID_MAGIC):
            raise SchemaFramingError(f"the header {header_name(field)} does not hold a schema's id: {_hex(head)}")
        schema_id, guid, rest = _read_id(head, f"the header {header_name(field)}")
        indexes = read_indexes(rest)[0] if protobuf else ()
        return Framed(schema_id, guid, indexes, view)
    if not len(view) or view[0] not in (_ID_MAGIC, _GUID_MAGIC):
        raise SchemaFramingError(_no_prefix(view, field))
    schema_id, guid, rest = _read_id(view, f"the {field}")
    if protobuf:
        indexes, used = read_indexes(rest, zigzag=zigzag)
        if may_begin_message(rest[0]):
            _refuse_message(rest, indexes)
        return Framed(schema_id, guid, indexes, rest[used:])
    return Framed(schema_id, guid, (), rest)


def may_begin_message(byte: int) -> bool:
    """Return whether the first byte of a path may as well be that of a message. No short path has such a byte."""
    return byte >= _LEAST_TAG


def _refuse_message(rest: memoryview, indexes: tuple[int, ...]) -> None:
    from pyconsumer.protocol.protobuf.files import is_message  # which other formats do without

    if is_message(bytes(rest)):
        raise SchemaFramingError(
            f"the bytes after the id are the path {list(indexes)} of a message type and a message, or a message alone"
            f"{_NO_PATH}"
        )


def _read_id(view: memoryview, place: str) -> tuple[int | None, UUID | None, memoryview]:
    size = _PREFIX_BYTES if view[0] == _ID_MAGIC else _GUID_BYTES
    if len(view) < size:
        raise SchemaFramingError(f"{place} ends within the schema's id: {len(view)} of {size} bytes: {_hex(view)}")
    if view[0] == _ID_MAGIC:
        return int.from_bytes(view[1:_PREFIX_BYTES], "big"), None, view[_PREFIX_BYTES:]
    return None, UUID(bytes=bytes(view[1:_GUID_BYTES])), view[_GUID_BYTES:]


def _last_header(headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None], name: str) -> bytes | None:
    if isinstance(headers, Mapping):
        return headers.get(name)
    found = None
    for key, value in headers:
        if key == name:
            found = value
    return found


def _no_prefix(view: memoryview, field: MessageField | str) -> str:
    if not len(view):
        return f"the {field} is empty: it has no schema id"
    if len(view) >= _GLUE_BYTES and view[0] == 3 and view[1] in (0, 5):
        return (
            f"the {field} has the framing of AWS Glue's registry (3, compression, schema version {_glue_id(view)}),"
            " which is not read. Write it with Confluent's framing"
        )
    return (
        f"the {field} does not begin with a schema's id (magic byte 0) but with {_hex(view)}, and the record has no"
        f" header {header_name(field)}. It was written without a schema registry's serializer"
    )


def _glue_id(view: memoryview) -> UUID:
    return UUID(bytes=bytes(view[2:_GLUE_BYTES]))


def looks_like_apicurio(data: bytes | bytearray | memoryview) -> bool:
    """Return whether a prefix may be Apicurio 2's: the magic byte 0 and an id of eight bytes.

    Read as Confluent's framing the id is 0, which no registry gives. So ask this when the id 0 is unknown.
    """
    view = memoryview(data)
    return len(view) >= _APICURIO_BYTES and view[:_PREFIX_BYTES] == bytes(_PREFIX_BYTES)


def _hex(view: memoryview) -> str:
    return view[:8].hex(" ") or "no bytes"


def with_prefix(
    schema_id: int,
    payload: bytes | bytearray | memoryview,
    indexes: Sequence[int] | None = None,
    *,
    zigzag: bool = True,
) -> bytes:
    """Return a key or value with the schema's id before it.

    Args:
        schema_id: the id, from 0 to 2**32 - 1.
        payload: the encoded value.
        indexes: of a Protobuf message, the path of its type. None for other formats.
        zigzag: False writes that path as before 2021.

    Raises:
        ValueError: the id is out of range.
    """
    if not 0 <= schema_id <= _MOST_ID:
        raise ValueError(f"a schema's id has 32 bits, and {schema_id} does not fit")
    head = b"\x00" + schema_id.to_bytes(4, "big")
    return b"".join((head, payload) if indexes is None else (head, write_indexes(indexes, zigzag=zigzag), payload))


def with_header(guid: UUID | str, field: MessageField | str, indexes: Sequence[int] | None = None) -> tuple[str, bytes]:
    """Return the header that names the schema of a key or value by its GUID. Arguments as :func:`with_prefix`."""
    value = b"\x01" + (guid if isinstance(guid, UUID) else UUID(guid)).bytes
    return header_name(field), value if indexes is None else value + write_indexes(indexes)


def write_indexes(indexes: Sequence[int], *, zigzag: bool = True) -> bytes:
    """Return the path of a Protobuf message type. The most frequent path, ``[0]``, takes one byte.

    Args:
        indexes: the path.
        zigzag: False writes plain varints, as before 2021.
    """
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(number << 1 if zigzag else number) for number in (len(indexes), *indexes))


def _varint(rest: int) -> bytes:
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_indexes(view: bytes | memoryview, *, zigzag: bool = True) -> tuple[tuple[int, ...], int]:
    """Return the path of a Protobuf message type, and the number of bytes that it takes.

    Args:
        view: bytes that begin with the path.
        zigzag: False reads plain varints, as they were written before 2021.

    Raises:
        SchemaFramingError: the bytes are no such path.
    """
    count, at = _read_varint(view, 0, zigzag)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise SchemaFramingError(f"a path of {count} Protobuf message indexes cannot be{_NO_PATH}")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(view, at, zigzag)
        if index < 0:
            raise SchemaFramingError(f"a Protobuf message index cannot be {index}{_NO_PATH}")
        indexes.append(index)
    return tuple(indexes), at


def _read_varint(view: bytes | memoryview, at: int, zigzag: bool) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(view):
            raise SchemaFramingError(f"the value ends within its Protobuf message indexes{_NO_PATH}")
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1) if zigzag else value, at
        shift += 7
        if shift > 28:
            raise SchemaFramingError(f"a Protobuf message index has at most 32 bits{_NO_PATH}")
