"""The OpenTelemetry instrumentation of aiokafka: ``spans_of_aiokafka.py ADDRESS SCENE PREFIX``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from opentelemetry.instrumentation.aiokafka import AIOKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_, address, wanted, prefix = sys.argv


def show(name: str, value: Any) -> None:
    print(json.dumps([wanted, name, value]).replace(prefix, "TOPIC").replace(address, "ADDRESS"), flush=True)


exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
AIOKafkaInstrumentor().instrument(tracer_provider=provider)


async def program() -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address, client_id="maker")
    await producer.start()
    show("sent", (await producer.send_and_wait(prefix, b"one")).offset)
    show("sent", (await (await producer.send(prefix, value=b"two", key=b"k", headers=[("a", b"1")]))).offset)
    for n in range(3):
        await producer.send_and_wait(prefix, b"more %d" % n)
    await producer.stop()
    consumer = AIOKafkaConsumer(
        prefix, bootstrap_servers=[address], group_id=f"{prefix}-g", client_id="reader", auto_offset_reset="earliest"
    )
    await consumer.start()
    record = await asyncio.wait_for(consumer.getone(), 120)
    show("getone", [record.offset, sorted(name for name, _ in record.headers)])
    async for record in consumer:
        show("iteration", [record.offset, sorted(name for name, _ in record.headers)])
        break
    found = await consumer.getmany(timeout_ms=120_000, max_records=10)
    show("getmany", [[record.offset for record in records] for records in found.values()])
    await consumer.stop()


asyncio.run(program())
spans = exporter.get_finished_spans()
show("spans", sorted([span.name, span.kind.name, sorted((span.attributes or {}).items())] for span in spans))
AIOKafkaInstrumentor().uninstrument()
print(json.dumps([wanted, "done"]), flush=True)
