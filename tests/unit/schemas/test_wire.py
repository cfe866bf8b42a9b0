"""The bytes that name a schema: Confluent's prefix and headers, and other registries' framings by name."""

from __future__ import annotations

from uuid import UUID

import pytest

from pyconsumer.schemas import MessageField, SchemaFramingError
from pyconsumer.schemas.wire import (
    looks_like_apicurio,
    read_framed,
    read_indexes,
    with_header,
    with_prefix,
    write_indexes,
)

_GUID = UUID("5d6220ec-aca0-c44b-c04b-455760334643")


def test_the_prefix_is_a_zero_and_four_bytes_big_endian() -> None:
    data = with_prefix(0x01020304, b"value")
    assert data == b"\x00\x01\x02\x03\x04value"
    found = read_framed(data)
    assert (found.schema_id, found.guid, found.indexes, bytes(found.payload)) == (0x01020304, None, (), b"value")


@pytest.mark.parametrize("schema_id", [-1, 1 << 32])
def test_an_id_has_32_bits(schema_id: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        with_prefix(schema_id, b"")


@pytest.mark.parametrize("field", MessageField)
def test_the_header_has_the_guid_and_leaves_the_value_alone(field: MessageField) -> None:
    name, value = with_header(str(_GUID), field)
    assert name == ("__key_schema_id" if field == "key" else "__value_schema_id")
    assert value == b"\x01" + _GUID.bytes
    found = read_framed(b"\x00\x00\x00\x00\x05plain", [("other", b"x"), (name, value)], field)
    assert (found.schema_id, found.guid, bytes(found.payload)) == (None, _GUID, b"\x00\x00\x00\x00\x05plain")


def test_the_last_header_of_the_name_counts() -> None:
    first, last = with_header(UUID(int=1), "value"), with_header(UUID(int=2), "value")
    assert read_framed(b"", [first, last]).guid == UUID(int=2)
    assert read_framed(b"", dict([first])).guid == UUID(int=1)


def test_a_header_of_the_other_side_is_not_taken() -> None:
    found = read_framed(b"\x00\x00\x00\x00\x05", [with_header(_GUID, "key")], "value")
    assert found.schema_id == 5


@pytest.mark.parametrize(
    ("indexes", "data"),
    [
        ([0], b"\x00"),
        ([1], b"\x02\x02"),
        ([0, 0], b"\x04\x00\x00"),
        ([2, 300], b"\x04\x04\xd8\x04"),
        ([64], b"\x02\x80\x01"),
    ],
)
def test_indexes_of_protobuf_are_zigzag_varints(indexes: list[int], data: bytes) -> None:
    assert write_indexes(indexes) == data
    assert read_indexes(data + b"rest") == (tuple(indexes), len(data))
    framed = with_prefix(7, b"value", indexes)
    found = read_framed(framed, protobuf=True)
    assert (found.schema_id, found.indexes, bytes(found.payload)) == (7, tuple(indexes), b"value")


def test_indexes_follow_the_guid_in_the_header() -> None:
    name, value = with_header(_GUID, "value", [1, 2])
    found = read_framed(b"value", [(name, value)], protobuf=True)
    assert (found.guid, found.indexes, bytes(found.payload)) == (_GUID, (1, 2), b"value")


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\x04\x00", b"\x80", b"\x02\xff\xff\xff\xff\xff", b"\x02\x01", b"\xfe\xff\x7f"]
)
def test_damaged_indexes_are_an_error(data: bytes) -> None:
    with pytest.raises(SchemaFramingError):
        read_indexes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the value is empty"),
        (b"\x00\x00\x00", "ends within the schema's id: 3 of 5 bytes: 00 00 00"),
        (b"\x01\x00", "ends within the schema's id: 2 of 17 bytes"),
        (b'{"a": 1}', "magic byte 0.* but with 7b 22 61 22 3a 20 31 7d.* without a schema registry's serializer"),
        (b"\x03\x00" + _GUID.bytes + b"x", "AWS Glue.*5d6220ec-aca0-c44b-c04b-455760334643"),
        (b"\x03\x05" + _GUID.bytes + b"x", "AWS Glue"),
    ],
)
def test_a_value_without_an_id_is_an_error_with_the_first_bytes(data: bytes, message: str) -> None:
    with pytest.raises(SchemaFramingError, match=message):
        read_framed(data)


def test_a_header_that_holds_no_id_is_an_error() -> None:
    with pytest.raises(SchemaFramingError, match="the header __value_schema_id does not hold a schema's id: 07"):
        read_framed(b"", [("__value_schema_id", b"\x07")])


def test_ids_of_eight_bytes_are_recognised() -> None:
    assert looks_like_apicurio(b"\x00" + (17).to_bytes(8, "big") + b"value")
    assert not looks_like_apicurio(with_prefix(17, b"value"))
