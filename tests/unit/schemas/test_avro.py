"""Tests of Avro's serializer and deserializer on a registry in memory."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import threading
from concurrent.futures import wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.avro import AvroDecodeError, AvroEncodeError, AvroResolutionError, AvroSchemaError
from pyconsumer.schemas import (
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    InvalidSchemaError,
    MessageField,
    Rule,
    RuleSet,
    Schema,
    SchemaFramingError,
    SchemaNotFoundError,
    SchemaReference,
    SchemaRegistryAccessError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    SerializationContext,
    header_schema_id_serializer,
    loading,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from pyconsumer.schemas.loading import Loader
from tests.support.fake_registry import FakeRegistry

ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


def documented(argument: str, part: str) -> str:
    """Return the function of ``docs/schemas.md`` for an argument, as text."""
    page = (Path(__file__).parents[3] / "docs" / "schemas.md").read_text(encoding="utf-8")
    found: list[str] = [text for text in re.findall(rf"`{argument}=(lambda [^`]+)`", page) if part in text]
    assert len(found) == 1
    return found[0]


def arrive(call: Any) -> Any:
    """Call until it needs to wait no more."""
    while True:
        try:
            return call()
        except PendingError as pending:
            wait([pending.arrival], 10)  # type: ignore[list-item]


class TestSerializer:
    def test_a_value_follows_the_id_of_its_registered_schema(self, registry: FakeRegistry) -> None:
        data = AvroSerializer(registry, ORDER)({"id": 1}, VALUE)
        assert data == b"\0\0\0\0\1\2\0"
        assert registry.calls == ["register"]
        assert registry.get_latest_version("orders-value").schema_id == 1

    def test_a_schema_is_settled_once_for_each_topic(self, registry: FakeRegistry) -> None:
        serializer = AvroSerializer(registry, ORDER)
        for _ in range(3):
            serializer({"id": 1}, VALUE)
            serializer({"id": 1}, SerializationContext("other", MessageField.KEY))
        assert registry.calls == ["register", "register"]

    @pytest.mark.parametrize(
        ("conf", "subject"),
        [
            ({}, "orders-value"),
            ({"subject.name.strategy": record_subject_name_strategy}, "shop.Order"),
            ({"subject.name.strategy": topic_record_subject_name_strategy}, "orders-shop.Order"),
            ({"subject.name.strategy.type": "RECORD"}, "shop.Order"),
            ({"subject.name.strategy": lambda ctx, name: f"{ctx.topic}!{name}"}, "orders!shop.Order"),
        ],
    )
    def test_the_strategy_names_the_subject(self, registry: FakeRegistry, conf: Any, subject: str) -> None:
        AvroSerializer(registry, ORDER, conf=conf)({"id": 1}, VALUE)
        assert registry.get_latest_version(subject).schema_id == 1

    def test_a_strategy_by_record_needs_a_name(self, registry: FakeRegistry) -> None:
        serializer = AvroSerializer(registry, '"int"', conf={"subject.name.strategy": record_subject_name_strategy})
        with pytest.raises(ConfigurationError, match="needs a schema with a name"):
            serializer(1, VALUE)

    def test_without_registration_the_schema_is_looked_up(self, registry: FakeRegistry) -> None:
        serializer = AvroSerializer(registry, ORDER, conf={"auto.register.schemas": False})
        with pytest.raises(SerializationError, match=r"is not registered under 'orders-value'.*register it first"):
            serializer({"id": 1}, VALUE)
        registry.add("x", '"int"')
        registry.add("orders-value", ORDER)
        later = AvroSerializer(registry, ORDER, conf={"auto.register.schemas": False})
        assert later({"id": 1}, VALUE)[:5] == b"\0\0\0\0\2"  # type: ignore[index]

    @pytest.mark.parametrize(
        ("error", "registers", "message"),
        [
            (SchemaNotFoundError(404, 40403, "Schema not found"), False, "is not registered under"),
            (IncompatibleSchemaError(409, 409, "incompatible"), True, "cannot be registered under"),
        ],
        ids=["lookup", "registration"],
    )
    def test_a_refused_schema_is_asked_for_again_after_a_second(
        self, registry: FakeRegistry, error: Exception, registers: bool, message: str
    ) -> None:
        now = 0.0
        serializer = AvroSerializer(registry, ORDER, conf={"auto.register.schemas": registers})
        serializer._loader._now = lambda: now
        registry.error = error
        for at, calls in ((0.0, 1), (0.9, 1), (1.1, 2)):
            now = at
            with pytest.raises(SerializationError, match=message):
                serializer({"id": 1}, VALUE)
            assert len(registry.calls) == calls
        registry.add("orders-value", ORDER)
        registry.error, now = None, 2.2
        assert serializer({"id": 1}, VALUE) == b"\0\0\0\0\1\2\0"

    def test_a_forbidden_registration_says_what_to_do(self, registry: FakeRegistry) -> None:
        serializer = AvroSerializer(registry, ORDER)
        registry.error = SchemaRegistryAccessError(403, 40301, "User is denied operation Write")
        advice = r"the topic 'orders': User is denied .*permissions of that user.*auto\.register\.schemas=False"
        with pytest.raises(SchemaUnavailableError, match=advice) as raised:
            serializer({"id": 1}, VALUE)
        assert not raised.value.retriable
        registry.error = None
        registry.add("orders-value", ORDER)
        obeys = AvroSerializer(registry, ORDER, conf={"auto.register.schemas": False})
        assert obeys({"id": 1}, VALUE) == b"\0\0\0\0\1\2\0"
        assert registry.calls == ["register", "lookup"]

    def test_the_documented_lines_write_and_read_dataclasses(self, registry: FakeRegistry) -> None:
        @dataclass
        class Order:
            id: int
            note: str | None = None

        names = {"dataclasses": dataclasses, "Order": Order}
        write = AvroSerializer(registry, ORDER, eval(documented("to_dict", "dataclasses.asdict"), names))
        read = AvroDeserializer(registry, None, eval(documented("from_dict", "Order("), names))
        assert read(write(Order(7, "x"), VALUE), VALUE) == Order(7, "x")

    def test_the_documented_lines_write_and_read_models_of_pydantic(self, registry: FakeRegistry) -> None:
        pydantic = pytest.importorskip("pydantic", reason="needs pydantic")
        model = pydantic.create_model("Order", id=(int, ...), note=(str | None, None))
        write = AvroSerializer(registry, ORDER, eval(documented("to_dict", "model_dump")))
        read = AvroDeserializer(registry, None, eval(documented("from_dict", "Order("), {"Order": model}))
        assert read(write(model(id=7, note="x"), VALUE), VALUE) == model(id=7, note="x")

    def test_the_latest_version_or_an_id_gives_the_schema(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", ORDER)
        registry.add("orders-value", '"long"')
        latest = AvroSerializer(registry, conf={"auto.register.schemas": False, "use.latest.version": True})
        assert latest(1, VALUE) == b"\0\0\0\0\2\2"
        by_id = AvroSerializer(registry, conf={"use.schema.id": 1})
        assert by_id({"id": 1}, VALUE) == b"\0\0\0\0\1\2\0"

    def test_the_guid_goes_into_a_header(self, registry: FakeRegistry) -> None:
        serializer = AvroSerializer(registry, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
        headers: list[Any] = [("a", b"b")]
        ctx = SerializationContext("orders", MessageField.KEY, headers)
        data = serializer({"id": 1}, ctx)
        assert data == b"\2\0"
        assert headers[1:] == [("__key_schema_id", b"\1" + bytes(15) + b"\1")]
        assert AvroDeserializer(registry)(data, ctx) == {"id": 1, "note": None}

    def test_bound_it_returns_the_header_to_add(self, registry: FakeRegistry) -> None:
        serializer = AvroSerializer(registry, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
        side = serializer.bind("value")
        data, added = arrive(lambda: side.serialize("orders", [("a", b"b")], {"id": 1}))
        assert (data, [name for name, _ in added]) == (b"\2\0", ["__value_schema_id"])

    def test_to_dict_gets_the_object_and_its_context(self, registry: FakeRegistry) -> None:
        @dataclass
        class Order:
            id: int

        seen: list[SerializationContext] = []

        def to_dict(order: Order, ctx: SerializationContext) -> dict[str, Any]:
            seen.append(ctx)
            return asdict(order)

        serializer = AvroSerializer(registry, ORDER, to_dict)
        assert serializer(Order(1), VALUE) == b"\0\0\0\0\1\2\0"
        assert arrive(lambda: serializer.bind("value").serialize("t", None, Order(1))) is not None
        assert (seen[0].topic, seen[0].field, seen[1].topic) == ("orders", "value", "t")

    def test_none_stays_none(self, registry: FakeRegistry) -> None:
        assert AvroSerializer(registry, ORDER)(None, VALUE) is None
        assert AvroSerializer(registry, ORDER).bind("value").serialize("t", None, None) is None
        assert AvroDeserializer(registry)(None, VALUE) is None

    def test_a_value_that_does_not_fit_is_an_error(self, registry: FakeRegistry) -> None:
        with pytest.raises(AvroEncodeError, match=r"^id: 'x'"):
            AvroSerializer(registry, ORDER)({"id": "x"}, VALUE)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"conf": {"no.such": 1}}, "has no setting 'no.such'"),
            ({"conf": {"auto.register.schemas": "yes"}}, "is True or False"),
            ({"conf": {"use.latest.version": True}}, "auto.register.schemas=False"),
            ({"conf": {"use.schema.id": "1"}}, "use.schema.id is a number"),
            ({"conf": {"subject.name.strategy.type": "ASSOCIATED"}}, "is one of TOPIC"),
            ({"conf": {"subject.name.strategy": "topic"}}, "is a function"),
            ({"conf": {"validate.strict": True}}, "no validate.strict"),
            ({"schema_str": None}, "needs schema_str"),
            ({"rule_conf": {"a": 1}}, "runs no rules"),
            ({"to_dict": 3}, "to_dict is a function"),
        ],
    )
    def test_settings_are_checked(self, registry: FakeRegistry, arguments: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            AvroSerializer(registry, **{"schema_str": ORDER, **arguments})

    def test_a_bad_schema_is_refused_at_once(self, registry: FakeRegistry) -> None:
        with pytest.raises(AvroSchemaError, match="no JSON"):
            AvroSerializer(registry, "{")
        with pytest.raises(AvroSchemaError, match="no JSON"):
            AvroDeserializer(registry, "{")


class TestDeserializer:
    def test_a_value_comes_back(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", ORDER)
        deserializer = AvroDeserializer(registry)
        assert deserializer(b"\0\0\0\0\1\2\2\2x", VALUE) == {"id": 1, "note": "x"}
        assert deserializer.deserialize("orders", [], b"\0\0\0\0\1\2\0") == {"id": 1, "note": None}
        assert registry.calls == ["id 1"]

    def test_bound_it_says_what_it_needs_and_does_not_wait(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", ORDER)
        registry.open.clear()
        side = AvroDeserializer(registry).bind("value")
        with pytest.raises(PendingError, match="the schema 1") as first:
            side.deserialize("orders", [], b"\0\0\0\0\1\2\0")
        with pytest.raises(PendingError) as second:
            side.deserialize("orders", [], b"\0\0\0\0\1\2\0")
        assert first.value.arrival is second.value.arrival
        registry.open.set()
        first.value.arrival.result(10)
        assert side.deserialize("orders", [], b"\0\0\0\0\1\2\0") == {"id": 1, "note": None}
        assert registry.calls == ["id 1"]

    def test_a_reader_schema_gives_the_form(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", ORDER)
        fields = [{"name": "id", "type": "double"}, {"name": "more", "type": "int", "default": 7}]
        reader = json.dumps({"type": "record", "name": "Order", "fields": fields})
        assert AvroDeserializer(registry, reader)(b"\0\0\0\0\1\2\0", VALUE) == {"id": 1.0, "more": 7}

    def test_the_latest_version_gives_the_form(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", '"int"')
        registry.add("orders-value", '"double"')
        deserializer = AvroDeserializer(registry, conf={"use.latest.version": True})
        assert repr(deserializer(b"\0\0\0\0\1\2", VALUE)) == "1.0"
        assert repr(arrive(lambda: deserializer.bind("value").deserialize("orders", [], b"\0\0\0\0\1\2"))) == "1.0"

    def test_from_dict_gets_the_value_and_its_context(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", ORDER)
        deserializer = AvroDeserializer(registry, None, lambda value, ctx: (ctx.topic, ctx.field, value["id"]))
        assert deserializer(b"\0\0\0\0\1\2\0", VALUE) == ("orders", "value", 1)
        assert arrive(lambda: deserializer.bind("key").deserialize("t", [], b"\0\0\0\0\1\2\0")) == ("t", "key", 1)

    def test_record_names_on_request(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", f'["null", {ORDER}]')
        assert AvroDeserializer(registry, return_record_name=True)(b"\0\0\0\0\1\2\2\0", VALUE)[0] == "shop.Order"

    @pytest.mark.parametrize(
        ("data", "error", "message"),
        [
            (b"", SchemaFramingError, "is empty"),
            (b'{"a": 1}', SchemaFramingError, "7b 22 61 22"),
            (b"\0\0\0\0\x09\2\0", SchemaFramingError, "does not have the schema 9.*00 00 00 00 09 02 00"),
            (b"\0\0\0\0\0\0\0\0\5\2\0", SchemaFramingError, "Apicurio"),
            (b"\0\0\0\0\2\2", SerializationError, "the schema 2 is of the format JSON"),
            (b"\0\0\0\0\1\2", AvroDecodeError, "^the schema 1: note: the bytes end"),
            (b"\0\0\0\0\3\2", AvroResolutionError, "a string of the writer is no"),
        ],
    )
    def test_errors_name_the_id_and_the_cause(
        self, registry: FakeRegistry, data: bytes, error: type[Exception], message: str
    ) -> None:
        registry.add("orders-value", ORDER)
        registry.add("j", Schema("{}", "JSON"))
        registry.add("s", '"string"')
        side = AvroDeserializer(registry, ORDER if data[4:5] == b"\3" else None).bind("value")
        for _ in range(2):
            with pytest.raises(error, match=message):
                arrive(lambda: side.deserialize("orders", [], data))

    def test_a_registry_that_is_down_is_no_error_of_the_value_and_is_asked_again(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", ORDER)
        side = AvroDeserializer(registry).bind("value")
        registry.error = SchemaRegistryUnavailableError(-1, -1, "refused")
        with pytest.raises(SchemaUnavailableError, match="the schema 1: refused") as caught:
            arrive(lambda: side.deserialize("orders", [], b"\0\0\0\0\1\2\0"))
        assert caught.value.retriable
        registry.error = SchemaRegistryAccessError(401, 40101, "who are you")
        with pytest.raises(SchemaUnavailableError, match="who are you") as caught:
            arrive(lambda: side.deserialize("orders", [], b"\0\0\0\0\1\2\0"))
        assert not caught.value.retriable
        registry.error = None
        assert arrive(lambda: side.deserialize("orders", [], b"\0\0\0\0\1\2\0")) == {"id": 1, "note": None}

    @pytest.mark.parametrize(
        ("error", "is_retriable"),
        [
            (SchemaRegistryError(302, -1, "moved"), True),
            (SchemaRegistryError(400, 400, "bad request"), True),
            (SchemaRegistryError(407, -1, "proxy login"), True),
            (SchemaRegistryError(200, -1, "the response is no JSON: '<html>'"), True),
            (SchemaNotFoundError(404, -1, "a page"), True),
            (SchemaNotFoundError(404, 404, "HTTP 404 Not Found"), True),
            (InvalidSchemaError(422, 42201, "invalid"), True),
            (SchemaRegistryAccessError(403, 40301, "forbidden"), False),
            (ConfigurationError("no subject"), False),
            (MemoryError(), True),
            (RuntimeError("can't start new thread"), True),
            (ValueError("odd"), True),
            (RecursionError("deep"), True),
        ],
        ids=repr,
    )
    def test_an_error_on_the_way_to_the_schema_is_none_of_the_record_and_not_kept(
        self, registry: FakeRegistry, error: Exception, is_retriable: bool
    ) -> None:
        registry.add("orders-value", ORDER)
        side = AvroDeserializer(registry).bind("value")
        registry.error = error
        with pytest.raises(SchemaUnavailableError, match="the schema 1: ") as caught:
            arrive(lambda: side.deserialize("orders", [], b"\0\0\0\0\1\2\0"))
        assert caught.value.retriable is is_retriable
        registry.error = None
        assert arrive(lambda: side.deserialize("orders", [], b"\0\0\0\0\1\2\0")) == {"id": 1, "note": None}

    def test_a_schema_without_a_text_is_an_error_of_the_registry(self, registry: FakeRegistry) -> None:
        registry.add("orders-value", Schema(None))
        with pytest.raises(SchemaUnavailableError, match="no text of the schema"):
            AvroDeserializer(registry)(b"\0\0\0\0\1\2", VALUE)


class TestReferences:
    ITEM = '{"type": "record", "name": "shop.Item", "fields": [{"name": "n", "type": "int"}]}'

    def test_they_are_fetched_and_may_meet_again(self, registry: FakeRegistry) -> None:
        registry.add("item", self.ITEM)
        ref = SchemaReference("shop.Item", "item", 1)
        for name in ("A", "B"):
            text = json.dumps({"type": "record", "name": name, "fields": [{"name": "i", "type": "shop.Item"}]})
            registry.add(name, Schema(text, "AVRO", [ref]))
        both = Schema('["A", "B"]', "AVRO", [SchemaReference("A", "A", 1), SchemaReference("B", "B", 1)])
        serializer = AvroSerializer(registry, both)
        data = serializer(("B", {"i": {"n": 1}}), VALUE)
        assert data is not None
        assert AvroDeserializer(registry)(data, VALUE) == {"i": {"n": 1}}
        assert AvroDeserializer(registry, both)(data, VALUE) == {"i": {"n": 1}}

    def test_a_circle_is_an_error(self, registry: FakeRegistry) -> None:
        registry.add("a", Schema('"int"', "AVRO", [SchemaReference("b", "b", 1)]))
        registry.add("b", Schema('"long"', "AVRO", [SchemaReference("a", "a", 1)]))
        with pytest.raises(AvroSchemaError, match="form a circle: b version 1 > a version 1 > b version 1"):
            AvroDeserializer(registry)(b"\0\0\0\0\1\2", VALUE)

    def test_a_missing_reference_is_an_error(self, registry: FakeRegistry) -> None:
        registry.add("a", Schema('"int"', "AVRO", [SchemaReference("b", "b", 1)]))
        with pytest.raises(SchemaFramingError, match=r"Version not found"):
            AvroDeserializer(registry)(b"\0\0\0\0\1\2", VALUE)


class TestRules:
    @pytest.mark.parametrize(
        ("mode", "disabled", "reads", "writes"),
        [
            ("READ", False, False, True),
            ("WRITE", False, True, False),
            ("WRITEREAD", None, False, False),
            ("WRITEREAD", True, True, True),
            ("UPGRADE", False, True, True),
        ],
    )
    def test_a_rule_that_would_apply_is_an_error(
        self, registry: FakeRegistry, mode: str, disabled: bool | None, reads: bool, writes: bool
    ) -> None:
        rules = RuleSet(domain_rules=[Rule(name="check", mode=mode, type="CEL", disabled=disabled)])
        schema = Schema('"int"', rule_set=rules)
        registry.add("orders-value", schema)
        calls = [
            (reads, lambda: AvroDeserializer(registry)(b"\0\0\0\0\1\2", VALUE)),
            (writes, lambda: AvroSerializer(registry, schema)(1, VALUE)),
        ]
        for allowed, call in calls:
            if allowed:
                assert call() is not None
            else:
                with pytest.raises(SerializationError, match=rf"the rule 'check' \(CEL, {mode}\)"):
                    call()


class TestLoader:
    def test_an_error_of_a_schema_is_kept_and_an_unknown_one_for_a_second(self) -> None:
        now = 0.0
        registry = FakeRegistry()
        loader: Loader[Any] = Loader(registry.get_schema, now=lambda: now)
        for at, calls in ((0.0, 1), (0.9, 1), (1.1, 2)):
            now = at
            with pytest.raises(Exception, match="Schema not found"):
                arrive(lambda: loader.get(5, "x"))
            assert len(registry.calls) == calls

    def test_all_that_wait_for_a_schema_share_the_failure_of_one_job(self) -> None:
        registry = FakeRegistry()
        registry.error = SchemaRegistryUnavailableError(-1, -1, "refused")
        registry.open.clear()
        loader: Loader[Any] = Loader(registry.get_schema)
        errors: list[Exception] = []
        count = 5
        joined = threading.Semaphore(0)
        get = loader.get

        def count_joined(key: Any, name: str) -> Any:
            try:
                return get(key, name)
            finally:
                joined.release()

        loader.get = count_joined  # type: ignore[method-assign]

        def wait_for_it() -> None:
            try:
                loader.wait(1, "the schema 1")
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=wait_for_it) for _ in range(count)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert joined.acquire(timeout=30)
        registry.open.set()
        for thread in threads:
            thread.join(30)
        assert [type(error) for error in errors] == [SchemaUnavailableError] * count
        assert registry.calls == ["id 1"]

    def test_a_thread_that_cannot_start_is_no_error_of_the_record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", fail)
        loader: Loader[Any] = Loader(FakeRegistry().get_schema)
        with pytest.raises(SchemaUnavailableError, match="can't start new thread"):
            loader.get(1, "the schema 1")

    def test_results_that_end_are_loaded_again(self) -> None:
        now = 0.0
        registry = FakeRegistry()
        registry.add("a", '"int"')
        loader: Loader[Any] = Loader(registry.get_schema, 10.0, now=lambda: now)
        for at, calls in ((0.0, 1), (9.9, 1), (10.1, 2)):
            now = at
            assert arrive(lambda: loader.get(1, "x")).schema_str == '"int"'
            assert len(registry.calls) == calls

    def test_a_result_that_ended_is_kept_while_it_cannot_be_loaded_again(self) -> None:
        now = 0.0
        registry = FakeRegistry()
        registry.add("a", '"int"')
        loader: Loader[Any] = Loader(registry.get_latest_version, 10.0, now=lambda: now)
        assert arrive(lambda: loader.get("a", "x")).schema_id == 1
        registry.error = SchemaRegistryUnavailableError(-1, -1, "refused")
        now = 10.1
        assert arrive(lambda: loader.get("a", "x")).schema_id == 1
        assert loader.wait("a", "x").schema_id == 1
        assert len(registry.calls) == 2, "it is not tried with each record"
        registry.error = None
        registry.add("a", '"long"')
        registry.open.clear()
        now = 11.2
        assert loader.get("a", "x").schema_id == 1, "a try after a failure holds up no record"
        job = loader._jobs["a"]
        registry.open.set()
        job.result(30)
        assert loader.get("a", "x").schema_id == 2
        assert len(registry.calls) == 3
        registry.error = SchemaNotFoundError(404, 40401, "Subject not found")
        now = 21.3
        with pytest.raises(SchemaNotFoundError):
            arrive(lambda: loader.get("a", "x"))

    @pytest.mark.parametrize("lifetime_s", [math.inf, 10.0])
    def test_the_number_of_results_is_bounded(self, lifetime_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loading, "MOST_RESULTS", 3)
        loads: list[int] = []
        loader: Loader[Any] = Loader(lambda key: loads.append(key) or key, lifetime_s, now=lambda: 0.0)  # type: ignore[func-returns-value]
        for key in (1, 2, 3, 1, 4, 1):
            assert arrive(lambda: loader.get(key, "x")) == key  # noqa: B023
        assert loads == [1, 2, 3, 4, 1]


def test_confluents_classes_write_and_read_the_same_bytes() -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    client = theirs.SchemaRegistryClient.new_client({"url": "mock://avro"})
    context = pytest.importorskip("confluent_kafka.serialization").SerializationContext("orders", "value")
    value = {"id": 5, "note": "x"}
    data = avro.AvroSerializer(client, ORDER)(value, context)
    ours = AvroSerializer(client, ORDER)(value, VALUE)
    assert ours is not None
    assert ours[5:] == data[5:]  # that registry gives a schema another id when it is asked in another way
    assert avro.AvroDeserializer(client)(ours, context) == value
    assert AvroDeserializer(client)(data, VALUE) == value == avro.AvroDeserializer(client)(data, context)
