"""Files of Protobuf message types: text, base64, descriptor sets, imports, and what is refused."""

from __future__ import annotations

import base64
import sys

import pytest

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.protobuf.files import is_built_in, message_class, message_path, parse_file
from tests.support.proto_files import CUSTOMER, SHOP, compiled, shop, shop_class


def test_text_and_base64_give_the_same_file() -> None:
    again = parse_file(shop().base64, shop().imports)
    assert again.proto == shop().proto
    assert again.base64 == shop().base64
    order = again.message([0])(id=1, customer={"name": "Ada"}, counts={"a": 2}, note="n", cash=True)
    order.at.FromJsonString("2026-01-31T18:00:00Z")
    found = shop_class(0).FromString(order.SerializeToString())
    assert (found.id, found.customer.name, found.counts["a"], found.note) == (1, "Ada", 2, "n")
    assert found.at.ToJsonString() == "2026-01-31T18:00:00Z"


@pytest.mark.parametrize(
    ("path", "name"),
    [((0,), "shop.Order"), ((1,), "shop.Other"), ((0, 0), "shop.Order.Line"), ((0, 0, 0), "shop.Order.Line.Part")],
)
def test_a_path_names_a_type(path: tuple[int, ...], name: str) -> None:
    found = shop().message(path)
    assert found.DESCRIPTOR.full_name == name  # type: ignore[attr-defined]
    assert message_path(found.DESCRIPTOR) == list(path)  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", [(2,), (0, 9), (-1,), (1, 0)])
def test_a_path_may_name_nothing(path: tuple[int, ...]) -> None:
    with pytest.raises(SerializationError, match="has no message type"):
        shop().message(path)


def test_a_descriptor_set_gives_the_class_of_a_name() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    customer = compiled(CUSTOMER).proto
    named = type(customer)()
    named.CopyFrom(customer)
    named.name = "customer.proto"
    data = FileDescriptorSet(file=[named, shop().proto]).SerializeToString()
    assert message_class(data, "shop.Order")(id=3).id == 3
    with pytest.raises(SerializationError, match=r"no message type 'shop\.Nothing'"):
        message_class(data, "shop.Nothing")
    with pytest.raises(SerializationError, match="no FileDescriptorSet"):
        message_class(b"\xff", "shop.Order")
    with pytest.raises(SerializationError, match=r"imports 'customer\.proto'"):
        message_class(FileDescriptorSet(file=[shop().proto]).SerializeToString(), "shop.Order")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message A {", "schema.proto:1"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        ('syntax = "proto3"; import "a.proto"; message A {}', "a.proto"),
        ('syntax = "proto3"; import "/etc/hostname"; message A {}', "hostname"),
        ("AAAA", "no serialized Protobuf file"),
        (base64.b64encode(b"\xff\xff").decode(), "no serialized Protobuf file"),
    ],
)
def test_what_is_no_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        parse_file(text, {})


def test_an_import_without_a_reference_is_named() -> None:
    with pytest.raises(SerializationError, match=r"imports 'customer.proto', and no reference has that name"):
        parse_file(shop().base64, {})


def test_without_the_libraries_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "grpc_tools", None)
        assert parse_file(shop().base64, shop().imports).proto.package == "shop"
        with pytest.raises(ConfigurationError, match=r"needs grpcio-tools: pip install pyconsumer\[protobuf\]"):
            parse_file(SHOP, shop().imports)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
        for call in (lambda: parse_file("", {}), lambda: message_class(b"", "a")):
            with pytest.raises(ConfigurationError, match=r"pip install pyconsumer\[protobuf\]"):
                call()


def test_built_in_files() -> None:
    assert is_built_in("google/protobuf/any.proto")
    assert not is_built_in("google/cloud/a.proto")
