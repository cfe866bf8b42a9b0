"""Tests of Protobuf's serializer and deserializer on a registry in memory."""

from __future__ import annotations

from concurrent.futures import wait
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro import ColumnsDecoder
from pyconsumer.protocol.protobuf.files import ProtoFile, parse_file
from pyconsumer.protocol.records.columns import BinaryColumn
from pyconsumer.schemas import (
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    Rule,
    RuleSet,
    Schema,
    SchemaFramingError,
    SchemaId,
    SchemaReference,
    SerializationContext,
    header_schema_id_serializer,
    prefix_schema_id_deserializer,
)
from pyconsumer.schemas.protobuf import parsing
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import CUSTOMER, SHOP, compiled, shop, shop_class

VALUE = SerializationContext("orders", MessageField.VALUE)
#: A customer, and as well a path of five indexes before an empty message.
LOOKS_LIKE_A_PATH = b"\x0a\4bdfh"
#: It has types at the paths [0, 0, 0, 0] and [1, 5, 0, 5].
DEEP = f"""
syntax = "proto3"; package deep;
message A {{ message B {{ message C {{ message D {{ string s = 1; }} }} }} }}
message E {{
  {"".join(f"message N{number} {{}}" for number in range(5))}
  message F {{
    message G {{
      {"".join(f"message N{number} {{}}" for number in range(5))}
      message H {{ string s = 1; }}
    }}
  }}
}}
"""


def columns_of(deserializer: ProtobufDeserializer, rows: list[bytes | None]) -> list[Any]:
    """Return the first column of some values, and in the place of a refused one a part of the reason."""
    side = deserializer.columns("value")
    side.settle(["orders"])
    found = side.select(None)
    column = BinaryColumn.of(rows)
    decoder = ColumnsDecoder(found.layout.columns)
    while True:
        programs, odd, _, stop = found.prepare(decoder, column, None, len(rows))
        if stop is None:
            break
        assert isinstance(stop, PendingError)
        wait([stop.arrival], 10)  # type: ignore[list-item]
    used, bad = decoder.append_column(column, len(rows), programs, odd)
    assert used == len(rows)
    values = decoder.finish()[1]
    ends, data = memoryview(values.ends).cast("i"), bytes(values.data)
    strings: list[Any] = [None if row is None else data[ends[at] : ends[at + 1]] for at, row in enumerate(rows)]
    for one in bad:
        text = str(one.plan) if isinstance(one.plan, Exception) else ""
        strings[one.row] = next((part for part in ("or a message alone", "begin") if part in text), "")
    return strings


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


class TestSerializer:
    def test_a_message_follows_the_id_and_the_path_of_its_type(self, registry: FakeRegistry) -> None:
        order = shop_class(0)(id=1)
        assert ProtobufSerializer(shop_class(0), registry)(order, VALUE) == b"\0\0\0\0\2\0\x08\1"
        assert registry.calls == ["register", "lookup", "register"]  # the import comes first
        found = registry.get_latest_version("orders-value").schema
        assert found == Schema(shop().base64, "PROTOBUF", [SchemaReference("customer.proto", "customer.proto", 1)])
        customer = registry.get_latest_version("customer.proto").schema
        assert customer.schema_type == "PROTOBUF"

    @pytest.mark.parametrize(
        ("path", "new", "old"),
        [
            ((1,), b"\2\2", b"\1\1"),
            ((0, 0), b"\4\0\0", b"\2\0\0"),
            ((0, 0, 0), b"\6\0\0\0", b"\3\0\0\0"),
            ((0,), b"\0", b"\0"),
        ],
    )
    def test_the_path_in_both_forms(self, registry: FakeRegistry, path: Any, new: bytes, old: bytes) -> None:
        kind = shop_class(*path)
        for conf, expected in (({}, new), ({"use.deprecated.format": True}, old)):
            data = ProtobufSerializer(kind, registry, conf)(kind(), VALUE)
            assert data is not None
            assert data[5:] == expected
            assert ProtobufDeserializer(kind, conf, registry)(data, VALUE) == kind()

    def test_the_guid_and_the_path_go_into_a_header(self, registry: FakeRegistry) -> None:
        kind = shop_class(0, 0)
        conf = {"schema.id.serializer": header_schema_id_serializer}
        ctx = SerializationContext("orders", MessageField.VALUE, [])
        assert ProtobufSerializer(kind, registry, conf)(kind(sku="x"), ctx) == b"\x0a\1x"
        assert ctx.headers == [("__value_schema_id", b"\1" + bytes(15) + b"\2\4\0\0")]
        for message_type in (kind, None):
            found = ProtobufDeserializer(message_type, None, registry)(b"\x0a\1x", ctx)
            assert found.sku == "x"
        with pytest.raises(ConfigurationError, match="not into a header"):
            ProtobufSerializer(kind, registry, {**conf, "use.deprecated.format": True})

    def test_the_subjects_of_references_follow_a_strategy(self, registry: FakeRegistry) -> None:
        conf = {"reference.subject.name.strategy": lambda ctx, file: f"{ctx.topic}!{file.name}"}
        ProtobufSerializer(shop_class(0), registry, conf)(shop_class(0)(), VALUE)
        assert registry.get_latest_version("orders!customer.proto").schema_id == 1

    def test_without_registration_all_files_are_looked_up(self, registry: FakeRegistry) -> None:
        conf = {"auto.register.schemas": False}
        with pytest.raises(SerializationError, match=r"not registered under 'customer.proto', and auto.register"):
            ProtobufSerializer(shop_class(0), registry, conf)(shop_class(0)(), VALUE)
        ProtobufSerializer(shop_class(0), registry)(shop_class(0)(), VALUE)
        registry.calls.clear()
        assert ProtobufSerializer(shop_class(0), registry, conf)(shop_class(0)(), VALUE) == b"\0\0\0\0\2\0"
        assert registry.calls == ["lookup", "lookup"]

    def test_the_latest_version_or_an_id_gives_the_schema(self, registry: FakeRegistry) -> None:
        registry.add("x", '"long"')
        registry.add("orders-value", Schema(CUSTOMER, "PROTOBUF"))
        kind = compiled(CUSTOMER).message([0])
        latest = ProtobufSerializer(kind, registry, {"auto.register.schemas": False, "use.latest.version": True})
        assert latest(kind(name="x"), VALUE) == b"\0\0\0\0\2\0\x0a\1x"
        assert ProtobufSerializer(kind, registry, {"use.schema.id": 2})(kind(), VALUE) == b"\0\0\0\0\2\0"
        with pytest.raises(SerializationError, match="of the format AVRO, not PROTOBUF"):
            ProtobufSerializer(kind, registry, {"use.schema.id": 1})(kind(), VALUE)

    def test_the_full_name_names_the_subject(self, registry: FakeRegistry) -> None:
        kind = shop_class(0, 0)
        ProtobufSerializer(kind, registry, {"subject.name.strategy.type": "RECORD"})(kind(), VALUE)
        assert registry.get_latest_version("shop.Order.Line").schema_id == 2

    def test_another_message_is_an_error(self, registry: FakeRegistry) -> None:
        serializer = ProtobufSerializer(shop_class(0), registry)
        for value in (shop_class(1)(), {"id": 1}, b"x"):
            with pytest.raises(SerializationError, match="this serializer writes Order"):
                serializer(value, VALUE)
        assert serializer(None, VALUE) is None

    def test_a_message_without_a_required_field_is_an_error(self, registry: FakeRegistry) -> None:
        kind = compiled('syntax = "proto2"; message A { required int32 n = 1; }').message([0])
        with pytest.raises(SerializationError, match="required"):
            ProtobufSerializer(kind, registry)(kind(), VALUE)
        registry.add("a", Schema(compiled(CUSTOMER).base64, "PROTOBUF"))
        assert ProtobufDeserializer(kind, None, registry)(b"\0\0\0\0\1\0", VALUE) == kind()  # as FromString does

    def test_settings_are_checked(self, registry: FakeRegistry) -> None:
        kind = shop_class(0)
        for message_type, conf, message in (
            (kind(), {}, "is a class of messages"),
            (dict, {}, "is a class of messages"),
            (kind, {"skip.known.types": 1}, "skip.known.types of ProtobufSerializer is True or False"),
            (kind, {"reference.subject.name.strategy": 1}, "is a function"),
            (kind, {"validation.rules.execution": "AFTER_DOMAIN_RULES"}, "runs no rules"),
            (kind, {"validate": True}, "no setting 'validate'"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                ProtobufSerializer(message_type, registry, conf)
        for arguments, message in (
            ((None,), "needs message_type or schema_registry_client"),
            ((kind(),), "is a class of messages"),
            ((kind, {"use.deprecated.format": 1}), "True or False"),
            ((kind, {}, registry, {"a": 1}), "runs no rules"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                ProtobufDeserializer(*arguments)


class TestDeserializer:
    def write(self, registry: FakeRegistry, *path: int, **fields: Any) -> bytes:
        kind = shop_class(*path)
        data = ProtobufSerializer(kind, registry)(kind(**fields), VALUE)
        assert data is not None
        return data

    def test_with_a_class_and_without_one(self, registry: FakeRegistry) -> None:
        data = self.write(registry, 0, id=5, customer={"name": "Ada"})
        for message_type in (shop_class(0), None):
            found = ProtobufDeserializer(message_type, None, registry)(data, VALUE)
            assert (found.id, found.customer.name) == (5, "Ada")
        inner = ProtobufDeserializer(None, None, registry)(self.write(registry, 0, 0, sku="x"), VALUE)
        assert inner.DESCRIPTOR.full_name == "shop.Order.Line"
        assert ProtobufDeserializer(None, None, registry)(None, VALUE) is None

    def test_without_a_registry_the_id_is_skipped(self) -> None:
        kind = shop_class(1)
        assert ProtobufDeserializer(kind)(b"\0\0\0\0\x07\2\2\x0a\1x", VALUE) == kind(raw=b"x")

    def test_without_a_registry_columns_start_no_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        side = ProtobufDeserializer(shop_class(1)).columns("value")
        found = side.select(None)
        monkeypatch.setattr("threading.Thread.start", lambda thread: pytest.fail("a thread was started"))
        column = BinaryColumn.of([b"\0\0\0\0%c\2\2\x0a\1x" % number for number in range(3)])
        decoder = ColumnsDecoder(found.layout.columns)
        programs, odd, ready, stop = found.prepare(decoder, column, None, 3)
        assert (ready, stop) == (3, None)
        assert decoder.append_column(column, 3, programs, odd) == (3, [])

    def test_the_schema_may_be_text_with_references(self, registry: FakeRegistry) -> None:
        registry.add("customer", Schema(CUSTOMER, "PROTOBUF"))
        references = [
            SchemaReference("customer.proto", "customer", 1),
            SchemaReference("google/protobuf/timestamp.proto", "nowhere", 1),
        ]
        registry.add("orders-value", Schema(SHOP, "PROTOBUF", references))
        found = ProtobufDeserializer(None, None, registry)(b"\0\0\0\0\2\0\x08\5", VALUE)
        assert found.id == 5

    def test_the_types_of_a_schema_share_one_file(
        self, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The path comes from the record, so garbage must not start a compiler for each one."""
        parsed: list[str] = []

        def counted(text: str, *more: Any) -> Any:
            parsed.append(text)
            return parse_file(text, *more)

        monkeypatch.setattr(parsing, "parse_file", counted)
        data = self.write(registry, 0, id=5)
        deserializer = ProtobufDeserializer(None, None, registry)
        assert deserializer(data, VALUE).id == 5
        for path in range(2, 20):
            with pytest.raises(SerializationError, match="has no message type"):
                deserializer(data[:5] + bytes((2, 2 * path)) + b"\x08\5", VALUE)
        assert len(parsed) == 2  # the schema, and the one that it imports

    def test_bad_bytes_are_errors(self, registry: FakeRegistry) -> None:
        data = self.write(registry, 0, note="é")
        deserializer = ProtobufDeserializer(shop_class(0), None, registry)
        for bad, message in (
            (data[:-1], "the schema 2: the bytes are no message of its type"),
            (data[:-2] + b"\xff\xff", "no message of its type"),  # no UTF-8, which proto3 demands
            (data[:5], "ends within its Protobuf message indexes"),
            (b"{}", "does not begin with a schema's id"),
            (b"\0\0\0\0\x09\0", "does not have the schema 9"),
        ):
            with pytest.raises(SerializationError, match=message):
                deserializer(bad, VALUE)
        with pytest.raises(SerializationError, match=r"has no message type \[9\]"):
            ProtobufDeserializer(None, None, registry)(b"\0\0\0\0\2\2\x12", VALUE)
        registry.add("x", '"long"')
        with pytest.raises(SerializationError, match="of the format AVRO, not PROTOBUF"):
            deserializer(b"\0\0\0\0\3\0", VALUE)

    @pytest.mark.parametrize(
        "message",
        [b"\x08\7\x12\5alice", b"\x08\2\x12\5alice", b"\x12\5alice", b"\x0a\5alice", b"\x0a\x80\x80\x80\x80\x80", b""],
    )
    @pytest.mark.parametrize("is_given", [True, False])
    def test_values_without_a_path_as_kafkajs_writes_them(
        self, registry: FakeRegistry, message: bytes, is_given: bool
    ) -> None:
        """The message follows the id at once. Its first bytes are no path. The error names the way to read them."""
        registry.add("a", Schema(compiled(CUSTOMER).base64, "PROTOBUF"))
        kind = compiled(CUSTOMER).message((0,)) if is_given else None
        value = b"\0\0\0\0\1" + message
        with pytest.raises(SchemaFramingError, match=r'schema.id.deserializer: see .* "Values without a path"'):
            ProtobufDeserializer(kind, None, registry)(value, VALUE)

        def without_a_path(data: bytes, ctx: SerializationContext, schema_id: SchemaId) -> bytes:
            schema_id.id, schema_id.message_indexes = int.from_bytes(data[1:5], "big"), [0]
            return data[5:]

        found = ProtobufDeserializer(kind, {"schema.id.deserializer": without_a_path}, registry)
        if b"alice" in message or not message:
            assert found(value, VALUE).SerializeToString() == message

    @pytest.mark.parametrize("is_given", [True, False])
    @pytest.mark.parametrize("own", [{}, {"schema.id.deserializer": prefix_schema_id_deserializer}])
    def test_a_message_without_a_path_that_looks_like_one_is_an_error(
        self, registry: FakeRegistry, is_given: bool, own: dict[str, Any]
    ) -> None:
        registry.add("a", Schema(compiled(CUSTOMER).base64, "PROTOBUF"))
        kind = compiled(CUSTOMER).message((0,)) if is_given else None
        for prefix in (b"\0\0\0\0\1", b"\1" + bytes(15) + b"\1"):
            with pytest.raises(SchemaFramingError, match=r"path \[2, 49, 50, 51, 52\] .* \"Values without a path\""):
                ProtobufDeserializer(kind, own, registry)(prefix + LOOKS_LIKE_A_PATH, VALUE)
        record = SimpleNamespace(topic="orders", headers=[])
        bound = ProtobufDeserializer(kind, own, registry).bind("value")
        with pytest.raises(SchemaFramingError, match="or a message alone"):
            bound.of_record(record, b"\0\0\0\0\1" + LOOKS_LIKE_A_PATH)

    @pytest.mark.parametrize("is_given", [True, False])
    @pytest.mark.parametrize("conf", [{}, {"use.deprecated.format": True}])
    @pytest.mark.parametrize("path", [(0, 0, 0, 0), (1, 5, 0, 5)])
    def test_a_long_path_is_read(
        self, registry: FakeRegistry, is_given: bool, conf: dict[str, Any], path: tuple[int, ...]
    ) -> None:
        file = compiled(DEEP)
        kind = file.message(path)
        for text in ("", "hello"):
            data = ProtobufSerializer(kind, registry, conf)(kind(s=text), VALUE)
            found = ProtobufDeserializer(kind if is_given else None, conf, registry)(data, VALUE)
            assert (found.DESCRIPTOR.full_name, found.s) == (kind.DESCRIPTOR.full_name, text)

    @pytest.mark.parametrize("with_registry", [True, False])
    def test_columns_refuse_a_message_without_a_path_that_looks_like_one(
        self, registry: FakeRegistry, with_registry: bool
    ) -> None:
        kind = compiled(CUSTOMER).message((0,))
        low = registry.add("a", Schema(compiled(CUSTOMER).base64, "PROTOBUF"))
        prefix = b"\0" + low.to_bytes(4, "big")
        rows = [
            prefix + b"\0\x0a\1x",
            prefix + LOOKS_LIKE_A_PATH,
            None,
            prefix + b"\2\2\x0a\1y",
            prefix,
            prefix + b"\x08\0\0\0\0\x0a\1z",  # no message: it has a field 0
            b"{}",
        ]
        deserializer = ProtobufDeserializer(kind, None, registry if with_registry else None)
        assert columns_of(deserializer, rows) == [b"x", "or a message alone", None, b"y", "", b"z", "begin"]
        for rows in ([], [None], [prefix + LOOKS_LIKE_A_PATH], [prefix + LOOKS_LIKE_A_PATH, None]):
            assert columns_of(deserializer, rows) == [row and "or a message alone" for row in rows]
        if not with_registry:  # an id of more than 24 bits
            rows = [b"\0\xff" + bytes(3) + rest for rest in (b"\0\x0a\1x", LOOKS_LIKE_A_PATH, b"\2\2\x0a\1y")]
            assert columns_of(deserializer, rows) == [b"x", "or a message alone", b"y"]

    def test_a_rule_for_reading_is_an_error(self, registry: FakeRegistry) -> None:
        rule = Rule("mask", mode="READ", type="CEL")  # type: ignore[arg-type]
        registry.add("a", Schema(compiled(CUSTOMER).base64, "PROTOBUF", rule_set=RuleSet(None, [rule])))
        with pytest.raises(SerializationError, match="'mask'"):
            ProtobufDeserializer(None, None, registry)(b"\0\0\0\0\1\0", VALUE)

    @pytest.mark.parametrize("is_given", [True, False])
    def test_bound_it_waits_for_no_registry(self, registry: FakeRegistry, is_given: bool) -> None:
        data = self.write(registry, 0, id=1)
        side = ProtobufDeserializer(shop_class(0) if is_given else None, None, registry).bind("value")
        record = SimpleNamespace(topic="orders", headers=[])
        registry.open.clear()
        with pytest.raises(PendingError) as raised:
            side.of_record(record, data)
        registry.open.set()
        wait([raised.value.arrival], 10)  # type: ignore[list-item]
        assert side.of_record(record, data).id == 1
        calls = list(registry.calls)
        assert side.of_record(record, data[:-1] + b"\2").id == 2
        with pytest.raises(SerializationError, match="the schema 2: the bytes are no message"):
            side.of_record(record, data[:-1])
        assert registry.calls == calls

    def test_the_latest_version_is_asked_for_its_rules(self, registry: FakeRegistry) -> None:
        data = self.write(registry, 0, id=1)
        deserializer = ProtobufDeserializer(shop_class(0), {"use.latest.version": True}, registry)
        assert deserializer(data, VALUE).id == 1
        assert "latest" in registry.calls

    def test_a_registry_that_is_down_is_no_error_of_the_value(self, registry: FakeRegistry) -> None:
        data = self.write(registry, 0, id=1)
        registry.error = OSError("down")
        with pytest.raises(SchemaUnavailableError):
            ProtobufDeserializer(shop_class(0), None, registry)(data, VALUE)

    def test_a_framing_error_names_the_place(self, registry: FakeRegistry) -> None:
        with pytest.raises(SchemaFramingError):
            ProtobufDeserializer(shop_class(0), None, registry)(b"", VALUE)


@pytest.mark.parametrize("path", [(0,), (1,), (0, 0), (0, 0, 0)])
@pytest.mark.parametrize("header", [False, True])
def test_confluents_classes_write_and_read_the_same_bytes(path: tuple[int, ...], header: bool) -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    own = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    client = theirs.SchemaRegistryClient.new_client({"url": "mock://protobuf"})
    kind = shop_class(*path)
    message = kind(**{(0,): {"id": 5, "counts": {"a": 1}}, (1,): {"raw": b"\xff"}}.get(path, {}))
    conf = {"schema.id.serializer": theirs.header_schema_id_serializer} if header else {}
    context = serialization.SerializationContext("orders", "value", [])
    mine = SerializationContext("orders", MessageField.VALUE, [])
    data = own.ProtobufSerializer(kind, client, conf)(message, context)
    if header:
        conf = {"schema.id.serializer": header_schema_id_serializer}
    ours = ProtobufSerializer(kind, client, conf)(message, mine)
    assert ours is not None
    assert ours[0 if header else 5 :] == data[0 if header else 5 :]
    assert (
        [(name, value[17:]) for name, value in mine.headers]
        == [  # type: ignore[union-attr,misc]
            (name, value[17:]) for name, value in context.headers
        ]
    )
    assert own.ProtobufDeserializer(kind, None, client)(ours, mine) == message
    for message_type in (kind, None):
        found = ProtobufDeserializer(message_type, None, client)(
            data, SerializationContext("orders", MessageField.VALUE, context.headers)
        )
        assert found.SerializeToString() == message.SerializeToString()


def test_a_bad_schema_is_an_error_of_its_record() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    with pytest.raises(SerializationError, match="cannot be compiled"):
        parse_file('syntax = "proto3"; message M {} // \ud800', {})
    with pytest.raises(SerializationError, match="no such file"):
        ProtoFile(FileDescriptorProto(name="a.proto", dependency=["google/protobuf/nosuch.proto"]), {}).pool()
