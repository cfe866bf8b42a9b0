"""The OpenTelemetry instrumentation of kafka-python: ``spans_of_kafka.py ADDRESS SCENE PREFIX``."""

from __future__ import annotations

import json
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from opentelemetry.instrumentation.kafka import KafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_, address, wanted, prefix = sys.argv


def show(name: str, value: Any) -> None:
    print(json.dumps([wanted, name, value]).replace(prefix, "TOPIC").replace(address, "ADDRESS"), flush=True)


def hook(span: Any, record: Any, args: Any, kwargs: Any) -> None:
    show("hook", [type(record).__name__, record.topic, record.offset])


exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
KafkaInstrumentor().instrument(tracer_provider=provider, consume_hook=hook)

producer = KafkaProducer(bootstrap_servers=address)
show("sent", producer.send(prefix, b"one").get(120).offset)
show("sent", producer.send(prefix, value=b"two", key=b"k", headers=[("a", b"1")]).get(120).offset)
consumer = KafkaConsumer(prefix, bootstrap_servers=[address], auto_offset_reset="earliest", consumer_timeout_ms=120_000)
for _ in range(2):
    record = next(consumer)
    names = sorted(name for name, _ in record.headers)
    show("record", [record.offset, record.value.decode(), names])
consumer.close()
producer.close()
spans = exporter.get_finished_spans()
show("spans", [[span.name, span.kind.name, dict(span.attributes or {})] for span in spans])
show("traces", len({span.context.trace_id for span in spans if span.context}))
KafkaInstrumentor().uninstrument()
print(json.dumps([wanted, "done"]), flush=True)
