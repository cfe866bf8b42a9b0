"""``python -m tests.benchmarks.schema_formats``: JSON and Protobuf values of a registry, beside confluent-kafka's.

The processor time of this process for a value, without a broker and with the schemas at hand. The record has seven
fields. Columns of JSON stand beside ``orjson.loads`` and ``pyarrow.array``. Those of Protobuf stand beside ``ptars``,
if that is installed. It needs ``pyconsumer[peers]``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa

from pyconsumer.generic import PendingError, wait_for_arrival
from pyconsumer.protocol.avro import ColumnsDecoder
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.records.columns import BinaryColumn
from pyconsumer.schemas import (
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    SerializationContext,
)
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import compiled

__all__ = ["SCHEMA", "main", "order_class", "values", "ways"]

_KINDS: Final = {
    "id": ("integer", "int64"),
    "customer": ("string", "string"),
    "amount": ("number", "double"),
    "count": ("integer", "int32"),
    "is_paid": ("boolean", "bool"),
    "note": (["null", "string"], "optional string"),
    "at": ("integer", "int64"),
}
SCHEMA: Final = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {name: {"type": kind} for name, (kind, _) in _KINDS.items()},
        "required": [name for name in _KINDS if name != "note"],
    }
)
_PROTO: Final = " ".join(f"{kind} {name} = {number};" for number, (name, (_, kind)) in enumerate(_KINDS.items(), 1))
_CONTEXT: Final = SerializationContext("orders", MessageField.VALUE)


def order_class() -> Any:
    """Return the class of the messages."""
    return compiled(f'syntax = "proto3"; message Order {{ {_PROTO} }}').message([0])


def values(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": 1_000_000 + number,
            "customer": f"customer-{number:06}",
            "amount": number * 1.25,
            "count": number % 7,
            "is_paid": number % 3 == 0,
            "note": None if number % 2 else f"note {number}",
            "at": 1_767_225_600_000 + number,
        }
        for number in range(count)
    ]


def ways(count: int, *, with_peers: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the ways by name. Each call handles all values and returns what it has made of them."""
    registry, given = FakeRegistry(), values(count)
    record = SimpleNamespace(topic="orders", headers=[])
    write, read = JSONSerializer(SCHEMA, registry), JSONDeserializer(None, schema_registry_client=registry)
    data: list[Any] = [write(each, _CONTEXT) for each in given]
    read(data[0], _CONTEXT)
    writing, reading = write.bind("value"), read.bind("value").of_record
    yield "JSON: write", lambda: [writing.serialize("orders", None, each) for each in given]
    yield "JSON: read", lambda: [reading(record, each) for each in data]
    columns = JSONDeserializer(SCHEMA, None, registry)
    fetched = BinaryColumn.of(data)  # as a poll has them
    yield "JSON: columns", lambda: _columns(columns, fetched, count)
    kind = order_class()
    messages = [kind(**{name: each for name, each in one.items() if each is not None}) for one in given]
    proto, unproto = ProtobufSerializer(kind, registry), ProtobufDeserializer(kind, None, registry)
    encoded: list[Any] = [proto(each, _CONTEXT) for each in messages]
    unproto(encoded[0], _CONTEXT)
    writing_proto, reading_proto = proto.bind("value"), unproto.bind("value").of_record
    yield "Protobuf: write", lambda: [writing_proto.serialize("orders", None, each) for each in messages]
    yield "Protobuf: read", lambda: [reading_proto(record, each) for each in encoded]
    fetched_messages = BinaryColumn.of(encoded)
    yield "Protobuf: columns", lambda: _columns(unproto, fetched_messages, count)
    if with_peers:
        yield from _peers(given, data, messages, kind)


def _columns(deserializer: Any, column: BinaryColumn, count: int) -> Any:
    columns = deserializer.columns("value")
    while True:
        try:
            columns.settle(["orders"])
            break
        except PendingError as pending:
            wait_for_arrival(pending.arrival)
    side = columns.select(None)
    decoder = ColumnsDecoder(side.layout.columns)
    while True:
        read, programs, odd, limit, stop = side.prepare_column(decoder, column, None, count)
        if not isinstance(stop, PendingError):
            break
        wait_for_arrival(stop.arrival)
    decoder.append_column(read, limit, programs, odd, stop=True)
    return arrow_array(pa, side.layout, arrow_type(pa, side.layout), decoder.finish())


def _peers(
    given: list[Any], data: list[Any], messages: list[Any], kind: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    import orjson
    from confluent_kafka.schema_registry import SchemaRegistryClient, json_schema, protobuf
    from confluent_kafka.serialization import SerializationContext as Context

    client, context = SchemaRegistryClient.new_client({"url": "mock://formats"}), Context("orders", "value")
    write, read = json_schema.JSONSerializer(SCHEMA, client), json_schema.JSONDeserializer(None, None, client)
    framed = [write(each, context) for each in given]
    yield "JSON: write, confluent-kafka", lambda: [write(each, context) for each in given]
    yield "JSON: read, confluent-kafka", lambda: [read(each, context) for each in framed]
    shape = _columns(JSONDeserializer(SCHEMA), BinaryColumn.of(data), len(data)).type
    yield (
        "JSON: columns, orjson and pyarrow.array",
        lambda: pa.array([orjson.loads(memoryview(each)[5:]) for each in data], shape),
    )
    yield (
        "JSON: columns, orjson and from_pylist",
        lambda: pa.Table.from_pylist([orjson.loads(memoryview(each)[5:]) for each in data], pa.schema(list(shape))),
    )
    try:
        from ptars import HandlerPool  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        handler = HandlerPool([kind.DESCRIPTOR.file]).get_for_message(kind.DESCRIPTOR)
        bare = [each.SerializeToString() for each in messages]
        yield "Protobuf: columns, ptars", lambda: handler.list_to_record_batch(bare)
    proto, unproto = protobuf.ProtobufSerializer(kind, client), protobuf.ProtobufDeserializer(kind, None, client)
    encoded = [proto(each, context) for each in messages]
    yield "Protobuf: write, confluent-kafka", lambda: [proto(each, context) for each in messages]
    yield "Protobuf: read, confluent-kafka", lambda: [unproto(each, context) for each in encoded]


def main(count: int = 10_000, *, seconds: float = 1.0) -> None:
    """Print the processor time of each way (microseconds a value)."""
    for name, way in ways(count, with_peers=True):
        way()
        start, calls = time.process_time(), 0
        while calls == 0 or time.process_time() - start < seconds:
            way()
            calls += 1
        print(f"{name:<42} {(time.process_time() - start) / calls / count * 1e6:8.2f} us")


if __name__ == "__main__":
    main()
