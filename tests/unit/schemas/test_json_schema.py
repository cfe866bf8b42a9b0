"""Tests of JSON's serializer and deserializer on a registry in memory."""

from __future__ import annotations

import json
import sys
from concurrent.futures import wait
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.schemas import (
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    Rule,
    RuleSet,
    Schema,
    SchemaFramingError,
    SchemaReference,
    SerializationContext,
    header_schema_id_serializer,
)
from pyconsumer.schemas.json_schema.documents import dump_document, load_document
from pyconsumer.schemas.json_schema.validation import JsonSchema, Validator
from tests.support.fake_registry import FakeRegistry

ORDER = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": ["null", "string"]}},
        "required": ["id"],
    }
)
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


class TestSerializer:
    def test_a_value_follows_the_id_of_its_registered_schema(self, registry: FakeRegistry) -> None:
        data = JSONSerializer(ORDER, registry)({"id": 1, "note": "é"}, VALUE)
        assert data == b"\0\0\0\0\1" + '{"id":1,"note":"é"}'.encode()
        assert registry.get_latest_version("orders-value").schema == Schema(ORDER, "JSON")
        assert JSONSerializer(ORDER, registry)(None, VALUE) is None

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"id": "x"}, r'^\$\.id: "x" is not of type "integer"'),
            ({"note": None}, r'^\$: "id" is a required property'),
            ({"id": 1, "note": b"x"}, "Unsupported type"),
        ],
    )
    def test_a_value_that_does_not_fit_is_an_error(self, registry: FakeRegistry, value: Any, message: str) -> None:
        with pytest.raises(SerializationError, match=message):
            JSONSerializer(ORDER, registry)(value, VALUE)

    def test_without_validation_any_json_is_written(self, registry: FakeRegistry) -> None:
        serializer = JSONSerializer(ORDER, registry, conf={"validate": False})
        assert serializer({"id": "x"}, VALUE) == b'\0\0\0\0\1{"id":"x"}'
        for value in (float("nan"), {"id": "\ud800"}, object()):
            with pytest.raises(SerializationError, match="cannot be written as JSON"):
                serializer(value, VALUE)

    def test_to_dict_and_json_encode_make_the_value(self, registry: FakeRegistry) -> None:
        @dataclass
        class Order:
            id: int

        serializer = JSONSerializer(
            ORDER,
            registry,
            lambda order, ctx: asdict(order) | {"note": ctx.topic},
            json_encode=lambda value: json.dumps(value).encode(),
        )
        assert serializer(Order(1), VALUE) == b'\0\0\0\0\1{"id": 1, "note": "orders"}'

    def test_the_title_names_the_subject(self, registry: FakeRegistry) -> None:
        JSONSerializer(ORDER, registry, conf={"subject.name.strategy.type": "TOPIC_RECORD"})({"id": 1}, VALUE)
        assert registry.get_latest_version("orders-Order").schema_id == 1
        nameless = JSONSerializer("{}", registry, conf={"subject.name.strategy.type": "RECORD"})
        with pytest.raises(ConfigurationError, match="needs a schema with a name"):
            nameless(1, VALUE)

    def test_the_guid_goes_into_a_header(self, registry: FakeRegistry) -> None:
        serializer = JSONSerializer(ORDER, registry, conf={"schema.id.serializer": header_schema_id_serializer})
        ctx = SerializationContext("orders", MessageField.VALUE, [])
        assert serializer({"id": 1}, ctx) == b'{"id":1}'
        assert ctx.headers == [("__value_schema_id", b"\1" + bytes(15) + b"\1")]
        assert JSONDeserializer(None, schema_registry_client=registry)(b'{"id":1}', ctx) == {"id": 1}

    def test_the_latest_version_or_an_id_gives_the_schema(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema(ORDER, "JSON"))
        registry.add("orders-value", Schema('{"type": "integer"}', "JSON"))
        latest = JSONSerializer(None, registry, conf={"auto.register.schemas": False, "use.latest.version": True})
        assert latest(1, VALUE) == b"\0\0\0\0\0021"
        by_id = JSONSerializer(None, registry, conf={"use.schema.id": 1})
        assert by_id({"id": 1}, VALUE) == b'\0\0\0\0\1{"id":1}'

    def test_settings_are_checked(self, registry: FakeRegistry) -> None:
        for arguments, message in (
            ({"conf": {"validate": 1}}, "validate of JSONSerializer is True or False"),
            ({"conf": {"validation.rules.execution": "BEFORE_DOMAIN_RULES"}}, "runs no rules"),
            ({"conf": {"use.latest.version": True}}, "needs auto.register.schemas=False"),
            ({"rule_conf": {"x": 1}}, "JSONSerializer runs no rules"),
            ({"json_encode": 1}, "json_encode is a function"),
            ({"to_dict": 1}, "to_dict is a function"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                JSONSerializer(ORDER, registry, **arguments)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="needs schema_str"):
            JSONSerializer(None, registry)
        with pytest.raises(ConfigurationError, match="of the format AVRO, not JSON"):
            JSONSerializer(Schema(ORDER), registry)

    @pytest.mark.parametrize("text", ["", "1", '{"type": "nothing"}', '{"$ref": "#/x"}', '{"pattern": "("}'])
    def test_a_text_that_is_no_schema_is_an_error_at_once(self, registry: FakeRegistry, text: str) -> None:
        with pytest.raises(SerializationError):
            JSONSerializer(text, registry)

    def test_the_latest_version_may_be_of_another_format(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", '"long"')
        serializer = JSONSerializer(None, registry, conf={"auto.register.schemas": False, "use.latest.version": True})
        with pytest.raises(SerializationError, match="of the format AVRO, not JSON"):
            serializer(1, VALUE)

    def test_a_rule_for_writing_is_an_error(self, registry: FakeRegistry) -> None:
        rule = Rule("mask", mode="WRITE", type="CEL")  # type: ignore[arg-type]
        schema = Schema(ORDER, "JSON", rule_set=RuleSet(None, [rule]))
        with pytest.raises(SerializationError, match="'mask'"):
            JSONSerializer(schema, registry)({"id": 1}, VALUE)


class TestDeserializer:
    def test_a_value_is_checked_against_its_schema(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema(ORDER, "JSON"))
        deserializer = JSONDeserializer(None, schema_registry_client=registry)
        assert deserializer(b'\0\0\0\0\1{"id": 1}', VALUE) == {"id": 1}
        assert deserializer(None, VALUE) is None
        with pytest.raises(SerializationError, match=r'the schema 1: \$\.id: "x" is not of type "integer"'):
            deserializer(b'\0\0\0\0\1{"id": "x"}', VALUE)
        unchecked = JSONDeserializer(None, None, registry, {"validate": False})
        assert unchecked(b'\0\0\0\0\1{"id": "x"}', VALUE) == {"id": "x"}

    def test_the_readers_schema_comes_before_the_writers(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema("{}", "JSON"))
        registry.add("orders-value", Schema(ORDER, "JSON"))
        data = b'\0\0\0\0\1{"note": 1}'
        assert JSONDeserializer(None, None, registry)(data, VALUE) == {"note": 1}
        for deserializer in (
            JSONDeserializer(ORDER, None, registry),
            JSONDeserializer(None, None, registry, {"use.latest.version": True}),
            JSONDeserializer(ORDER),  # without a registry
        ):
            with pytest.raises(SerializationError, match="required property"):
                deserializer(data, VALUE)
        assert JSONDeserializer(None)(data, VALUE) == {"note": 1}

    def test_from_dict_and_json_decode_make_the_object(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema(ORDER, "JSON"))
        deserializer = JSONDeserializer(
            None,
            lambda value, ctx: (ctx.topic, value),
            registry,
            json_decode=lambda data: json.loads(data) | {"note": "n"},
        )
        assert deserializer(b'\0\0\0\0\1{"id": 1}', VALUE) == ("orders", {"id": 1, "note": "n"})

    def test_bound_it_waits_for_no_registry(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema(ORDER, "JSON"))
        side = JSONDeserializer(None, None, registry).bind("value")
        record = SimpleNamespace(topic="orders", headers=[])
        registry.open.clear()
        with pytest.raises(PendingError) as raised:
            side.of_record(record, b'\0\0\0\0\1{"id":1}')
        registry.open.set()
        wait([raised.value.arrival], 10)  # type: ignore[list-item]
        assert side.of_record(record, b'\0\0\0\0\1{"id":1}') == {"id": 1}
        assert side.deserialize("orders", [], b'\0\0\0\0\1{"id":2}') == {"id": 2}
        calls = list(registry.calls)
        assert side.of_record(record, b'\0\0\0\0\1{"id":3}') == {"id": 3}
        for data, message in ((b"\0\0\0\0\1{", "the schema 1: the bytes are no JSON"), (b"\0\0\0", "ends within")):
            with pytest.raises(SerializationError, match=message):
                side.of_record(record, data)
        assert registry.calls == calls

    def test_an_unknown_id_and_another_format_are_errors_of_the_value(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", '"long"')
        deserializer = JSONDeserializer(None, None, registry)
        with pytest.raises(SchemaFramingError, match=r"does not have the schema 9 .* 00 00 00 00 09 7b 7d"):
            deserializer(b"\0\0\0\0\x09{}", VALUE)
        with pytest.raises(SerializationError, match="of the format AVRO, not JSON"):
            deserializer(b"\0\0\0\0\1{}", VALUE)
        with pytest.raises(SchemaFramingError, match="does not begin with a schema's id"):
            deserializer(b'{"id": 1}', VALUE)
        from pyconsumer.schemas import AvroDeserializer

        registry.add("x", Schema(ORDER, "JSON"))
        with pytest.raises(SerializationError, match="of the format JSON, not AVRO"):
            AvroDeserializer(registry)(b"\0\0\0\0\2{}", VALUE)

    def test_without_the_library_only_unchecked_values_are_read(
        self, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
        registry.add("orders-value", Schema(ORDER, "JSON"))
        data = b'\0\0\0\0\1{"id":1}'
        assert JSONDeserializer(None, None, registry, {"validate": False})(data, VALUE) == {"id": 1}
        with pytest.raises(SchemaUnavailableError, match=r"pip install pyconsumer\[json-schema\]") as raised:
            JSONDeserializer(None, None, registry)(data, VALUE)
        assert raised.value.retriable is False


class TestReferences:
    INNER = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})

    def schema(self, registry: FakeRegistry, outer: Any, name: str = "inner.json") -> Schema:
        registry.add("inner", Schema(self.INNER, "JSON"))
        return Schema(json.dumps(outer), "JSON", [SchemaReference(name, "inner", 1)])

    @pytest.mark.parametrize(
        ("outer", "name"),
        [
            ({"$ref": "inner.json"}, "inner.json"),
            ({"$ref": "inner.json#"}, "inner.json"),
            ({"$id": "http://example.com/a/outer.json", "$ref": "inner.json"}, "inner.json"),
            ({"$ref": "http://example.com/inner"}, "http://example.com/inner"),
        ],
    )
    def test_a_reference_is_found_by_its_name(self, registry: FakeRegistry, outer: Any, name: str) -> None:
        serializer = JSONSerializer(self.schema(registry, outer, name), registry)
        data = serializer({"n": 1}, VALUE)
        assert data == b'\0\0\0\0\2{"n":1}'
        with pytest.raises(SerializationError, match="not of type"):
            serializer({"n": "x"}, VALUE)
        assert JSONDeserializer(None, None, registry)(data, VALUE) == {"n": 1}

    def test_references_have_references(self, registry: FakeRegistry) -> None:
        middle = Schema('{"items": {"$ref": "inner.json"}}', "JSON", [SchemaReference("inner.json", "inner", 1)])
        registry.add("inner", Schema(self.INNER, "JSON"))
        registry.add("middle", middle)
        outer = Schema('{"$ref": "middle.json"}', "JSON", [SchemaReference("middle.json", "middle", 1)])
        serializer = JSONSerializer(outer, registry)
        assert serializer([{"n": 1}], VALUE) == b'\0\0\0\0\3[{"n":1}]'
        with pytest.raises(SerializationError, match=r"\$\[0\].n"):
            serializer([{"n": "x"}], VALUE)

    def test_nothing_is_fetched_from_elsewhere(self, registry: FakeRegistry) -> None:
        with pytest.raises(SerializationError, match=r"no reference 'http://127.0.0.1:1/x'.*nothing is fetched"):
            JSONSerializer('{"$ref": "http://127.0.0.1:1/x"}', registry)

    def test_a_circle_is_refused(self, registry: FakeRegistry) -> None:
        registry.add("a", Schema('{"$ref": "b"}', "JSON", [SchemaReference("b", "b", 1)]))
        registry.add("b", Schema('{"$ref": "a"}', "JSON", [SchemaReference("a", "a", 1)]))
        with pytest.raises(SerializationError, match=r"circle: b version 1 > a version 1 > b version 1"):
            JSONDeserializer(None, None, registry)(b"\0\0\0\0\1{}", VALUE)


class TestDocuments:
    @pytest.mark.parametrize(
        ("data", "value"),
        [
            (b' {"a": 1, "a": 2}\n', {"a": 2}),
            (b"1.0", 1.0),
            (b"123456789012345678901234567890", 123456789012345678901234567890),
            (b'"\\ud83d\\ude00"', "😀"),
            (b"[" * 64 + b"]" * 64, ...),
            (b'"' + b"[" * 65 + b'"', "[" * 65),
        ],
    )
    def test_documents_that_are_read(self, data: bytes, value: Any) -> None:
        found = load_document(data)
        assert value is ... or (found == value and type(found) is type(value))

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "there are none"),
            (b"{} {}", "Extra data"),
            (b"NaN", "no number of JSON"),
            (b"-Infinity", "no number of JSON"),
            (b"\xef\xbb\xbf{}", "Expecting value.*ef bb bf"),
            (b'"\xff"', "codec can't decode"),
            (b'"\\ud800"', "surrogate"),
            (b"{", "they begin with 7b"),
            (b"9" * 5000, "digits"),
            (b"[" * 65 + b"]" * 65, "more than 64 levels"),
            (b'{"a":' * 65 + b"1" + b"}" * 65, "more than 64 levels"),
            (b"[" * 100_000 + b"]" * 100_000, "more than 64 levels"),
        ],
    )
    def test_documents_that_are_refused(self, data: bytes, message: str) -> None:
        with pytest.raises(SerializationError, match=message):
            load_document(data)

    def test_a_circle_is_not_written(self) -> None:
        circle: dict[str, Any] = {}
        circle["a"] = circle
        with pytest.raises(SerializationError):
            dump_document(circle)

    def test_a_pattern_cannot_take_for_ever(self) -> None:
        check = Validator(JsonSchema({"pattern": "^(a+)+$"}, {})).check
        with pytest.raises(SerializationError):
            check("a" * 5000 + "!")

    @pytest.mark.parametrize(
        ("schema", "value", "fits"),
        [
            ({"type": "integer"}, 1.0, True),
            ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, 1.0, False),
            ({"$schema": "http://example.com/own", "type": "integer"}, "x", False),
            ({"$schema": "http://example.com/own", "type": "integer"}, 1, True),
            ({"format": "date"}, "no date", True),
            (True, 1, True),
            (False, 1, False),
        ],
    )
    def test_drafts_and_formats(self, schema: Any, value: Any, fits: bool) -> None:
        check = Validator(JsonSchema(schema, {})).check
        if fits:
            check(value)
        else:
            with pytest.raises(SerializationError):
                check(value)


_CASES: list[tuple[Any, list[Any]]] = [
    (json.loads(ORDER), [{"id": 1}, {"id": 1.0}, {"id": 2**60}, {"id": True}, {"id": None}, {}, [], "x", None]),
    ({"enum": [1, "a", None, {"b": [1]}]}, [1, 1.0, "a", "b", {"b": [1]}, {"b": [1.0]}, True]),
    ({"type": "array", "items": {"type": "number", "minimum": 0, "multipleOf": 0.5}}, [[], [0.5, 1], [-1], [0.3], {}]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 3, 2.5, "x"]),
    ({"type": "string", "minLength": 2, "pattern": "^é"}, ["é", "éa", "ab", 1]),
    (
        {"additionalProperties": {"type": "string"}, "maxProperties": 1},
        [{}, {"a": "b"}, {"a": 1}, {"a": "b", "c": "d"}],
    ),
    ({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}, [{"a": 1}, {"a": "x"}]),
    ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"uniqueItems": True}, [[1, 1.0], [1, 2], [1, True], [[], []]]),
]


@pytest.mark.parametrize(("schema", "values"), _CASES)
def test_confluents_classes_write_and_read_the_same_bytes(schema: Any, values: list[Any]) -> None:
    pytest.importorskip("jsonschema")
    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    own = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    context = serialization.SerializationContext("orders", "value")
    client = theirs.SchemaRegistryClient.new_client({"url": "mock://json"})
    text = json.dumps(schema)
    serializers = own.JSONSerializer(text, client), JSONSerializer(text, client)
    deserializers = own.JSONDeserializer(None, None, client), JSONDeserializer(None, None, client)
    for value in values:
        found = []
        for serializer, ctx in zip(serializers, (context, VALUE), strict=True):
            try:
                found.append(serializer(value, ctx))
            except (SerializationError, serialization.SerializationError):
                found.append("refused")
        mine = found[1]
        assert found[0] == mine or (mine[5:] == found[0][5:] and mine[:1] == b"\0"), value
        if not isinstance(mine, bytes):
            continue
        for data in found:
            assert deserializers[0](data, context) == value == deserializers[1](data, VALUE)


def test_an_avro_serializer_is_not_a_json_one(registry: FakeRegistry) -> None:
    with pytest.raises(ConfigurationError, match="of the format JSON, not AVRO"):
        AvroSerializer(registry, Schema(ORDER, "JSON"))
