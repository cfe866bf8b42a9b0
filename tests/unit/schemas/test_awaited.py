"""The serializers and deserializers that are awaited."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import pyconsumer.schemas as schemas
from pyconsumer.errors import SchemaUnavailableError, SerializationError
from pyconsumer.schemas import MessageField, SchemaRegistryUnavailableError, SerializationContext
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import shop_class

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
JSON = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
VALUE = SerializationContext("orders", MessageField.VALUE)
FORMATS = ["Avro", "JSON", "Protobuf"]


def made(form: str, prefix: str, registry: Any) -> tuple[Any, Any, Any]:
    """Return a serializer, a deserializer and a value, of the classes whose names begin with a prefix."""
    write = getattr(schemas, f"{prefix}{form}Serializer")
    read = getattr(schemas, f"{prefix}{form}Deserializer")
    if form == "Avro":
        return write(registry, AVRO), read(registry), {"id": 7}
    if form == "JSON":
        return write(JSON, registry), read(None, None, registry), {"id": 7}
    kind = shop_class(0, 0)
    return write(kind, registry), read(kind, None, registry), kind(sku="a")


@pytest.mark.asyncio
@pytest.mark.parametrize("form", FORMATS)
async def test_they_write_and_read_as_those_that_wait(form: str) -> None:
    write, read, value = made(form, "Async", FakeRegistry())
    assert await write is write  # as confluent-kafka's are made
    plain_write, plain_read, _ = made(form, "", FakeRegistry())
    data = await write(value, VALUE)
    assert data == plain_write(value, VALUE)
    assert await read(data, VALUE) == value
    assert await read(data) == plain_read(plain_write(value, VALUE)) == value
    assert (await write(None, VALUE), await read(None, VALUE)) == (None, None)


@pytest.mark.asyncio
@pytest.mark.parametrize("form", FORMATS)
async def test_the_loop_goes_on_while_a_schema_is_fetched(form: str) -> None:
    registry = FakeRegistry()
    write, _, value = made(form, "Async", registry)
    registry.open.clear()
    waiting = asyncio.ensure_future(write(value, VALUE))
    for _ in range(20):
        await asyncio.sleep(0.001)  # would not return if the loop were blocked
    assert not waiting.done()
    registry.open.set()
    assert (await waiting)[:4] == bytes(4)


@pytest.mark.asyncio
async def test_a_wait_that_is_cancelled_leaves_the_others() -> None:
    registry = FakeRegistry()
    write, _, value = made("Avro", "Async", registry)
    registry.open.clear()
    first, second = (asyncio.ensure_future(write(value, VALUE)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    registry.open.set()
    assert await second is not None
    assert registry.calls == ["register"]


@pytest.mark.asyncio
@pytest.mark.parametrize("form", FORMATS)
async def test_errors_are_those_of_the_plain_classes(form: str) -> None:
    registry = FakeRegistry()
    write, read, value = made(form, "Async", registry)
    with pytest.raises(SerializationError):
        await read(b"\0", VALUE)
    registry.error = SchemaRegistryUnavailableError(503)
    with pytest.raises(SchemaUnavailableError) as raised:
        await write(value, VALUE)
    assert raised.value.retriable
    registry.error = None
    assert await write(value, VALUE) is not None


@pytest.mark.asyncio
@pytest.mark.parametrize("form", FORMATS)
async def test_our_clients_bind_them(form: str) -> None:
    write, read, value = made(form, "Async", FakeRegistry())
    data = await write(value, VALUE)
    assert write.bind("value").serialize("orders", None, value) == data
    assert await read(data, VALUE) == value
    assert read.bind("value").deserialize("orders", None, data) == value


@pytest.mark.asyncio
async def test_a_registry_client_closes_by_confluents_name() -> None:
    client = schemas.AsyncSchemaRegistryClient("http://127.0.0.1:1")
    await client.aclose()
    with pytest.raises(Exception, match="closed"):
        await client.get_subjects()
