"""The Elastic APM agent on kafka-python: ``spans_of_elastic.py ADDRESS SCENE PREFIX``."""

from __future__ import annotations

import json
import sys
from typing import Any

import elasticapm
from elasticapm.transport.base import Transport

_, address, wanted, prefix = sys.argv
events: list[tuple[str, Any]] = []


def show(name: str, value: Any) -> None:
    print(json.dumps([wanted, name, value]).replace(prefix, "TOPIC").replace(address, "ADDRESS"), flush=True)


class Kept(Transport):
    """Keeps the events that the agent would send."""

    def queue(self, event_type: str, data: Any, flush: bool = False) -> None:
        events.append((event_type, data))

    def start_thread(self, pid: int | None = None) -> None:
        pass

    def close(self) -> None:
        pass


elasticapm.instrument()
from kafka import KafkaConsumer, KafkaProducer  # noqa: E402 - after the agent, as its documentation asks

client = elasticapm.Client(
    service_name="program",
    transport_class=f"{__name__}.Kept",
    metrics_interval="0ms",
    central_config=False,
    cloud_provider="none",
    span_compression_enabled=False,  # which depends on how long the sends take
)
producer = KafkaProducer(bootstrap_servers=address)
client.begin_transaction("request")
show("sent", producer.send(prefix, b"one").get(120).offset)
show("sent", producer.send(prefix, value=b"two", headers=[("a", b"1")]).get(120).offset)
client.end_transaction("send")

consumer = KafkaConsumer(prefix, bootstrap_servers=[address], auto_offset_reset="earliest", consumer_timeout_ms=120_000)
client.begin_transaction("request")
record = next(consumer)
show("record", [record[0], record.offset, sorted(name for name, _ in record.headers)])
show("poll", sum(map(len, consumer.poll(timeout_ms=120_000).values())))
client.end_transaction("read")
consumer.close()
producer.close()
for kind, data in events:
    if kind in ("span", "transaction"):
        context = data.get("context") or {}
        found = [kind, data["name"], data["type"], data.get("subtype"), data.get("action")]
        message, destination = context.get("message"), context.get("destination") or {}
        show("event", [*found, message, destination.get("service"), sorted(destination)])
print(json.dumps([wanted, "done"]), flush=True)
