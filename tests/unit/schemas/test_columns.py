"""Typed columns of all formats: schemas that are known without the registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.generic import PendingError
from pyconsumer.schemas import AvroDeserializer, JSONDeserializer, Schema, SchemaReference
from tests.support.fake_registry import FakeRegistry

OBJECT = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})

FORMATS = [
    pytest.param(lambda schema, client: JSONDeserializer(schema, None, client), OBJECT, "JSON", id="json"),
    pytest.param(lambda schema, client: AvroDeserializer(client, schema), RECORD, "AVRO", id="avro"),
]


@pytest.mark.parametrize(("make", "text", "kind"), FORMATS)
def test_a_schema_of_yours_is_settled_at_once(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], text: str, kind: str
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError(f"a poll would race with {thread}")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    registry = FakeRegistry()
    columns = make(Schema(text, kind), registry).columns("value")
    columns.settle(["orders"])
    assert columns.is_settled
    assert registry.calls == []


@pytest.mark.parametrize(("make", "text", "kind"), FORMATS)
def test_a_schema_with_references_waits_for_them(make: Callable[..., Any], text: str, kind: str) -> None:
    registry = FakeRegistry()
    registry.add("other", Schema(text.replace('"R"', '"Other"'), kind))
    registry.open.clear()
    name = "Other" if kind == "AVRO" else "other.json"
    columns = make(Schema(text, kind, [SchemaReference(name, "other", 1)]), registry).columns("value")
    with pytest.raises(PendingError) as pending:
        columns.settle(["orders"])
    registry.open.set()
    pending.value.arrival.result(30)
    columns.settle(["orders"])
    assert columns.is_settled
