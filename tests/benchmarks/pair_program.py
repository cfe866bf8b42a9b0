"""The program that :mod:`tests.benchmarks.pairs` runs in turn with one package and with another.

It uses only names that both packages have, and prints the results as JSON.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import spark_program
from tests.benchmarks.client_program import Watch, peak_bytes

_PATIENCE_MS = 10_000


def read(arguments: dict[str, Any], *, group: bool = False, arrow: bool = False) -> dict[str, Any]:
    """Read a topic to its last record, the second time of two."""
    from pyconsumer import KafkaConsumer, TopicPartition

    settings: dict[str, Any] = {"bootstrap_servers": arguments["servers"], "auto_offset_reset": "earliest"}
    settings |= arguments.get("login", {})

    def once() -> dict[str, float]:
        more = {"group_id": f"pairs-{uuid.uuid4()}", "auto_commit_interval_ms": 200} if group else {}
        with KafkaConsumer(**settings, **more) as consumer:
            if group:
                consumer.subscribe([arguments["topic"]])
                while not consumer.assignment():
                    consumer.poll(timeout_ms=100, max_records=1)
                consumer.seek_to_beginning()
            else:
                consumer.assign(
                    [TopicPartition(arguments["topic"], number) for number in range(arguments["partitions"])]
                )
            watch = Watch()
            watch.start()
            left = arguments["records"]
            while left > 0:
                if arrow:
                    count = consumer.poll_arrow(timeout_ms=_PATIENCE_MS).num_rows
                else:
                    count = consumer.poll(timeout_ms=_PATIENCE_MS).count()
                if not count:
                    raise TimeoutError(f"no record came within {_PATIENCE_MS / 1000:g} s; {left} are missing")
                left -= count
            watch.stop()
            return watch.found

    once()
    return once()


def produce(arguments: dict[str, Any]) -> dict[str, Any]:
    """Send records of 100 bytes, each with its future, and wait until the last one is acknowledged."""
    from pyconsumer import KafkaProducer

    value = b"v" * 100
    with KafkaProducer(bootstrap_servers=arguments["servers"], **arguments.get("login", {})) as producer:
        for _ in range(1000):
            producer.send(arguments["topic"], value)
        producer.flush()
        watch = Watch()
        watch.start()
        for _ in range(arguments["records"]):
            future = producer.send(arguments["topic"], value)
        producer.flush()
        future.result(timeout=60)
        watch.stop()
        return watch.found


def import_(_: dict[str, Any]) -> dict[str, Any]:
    """Import the consumer."""
    watch = Watch()
    watch.start()
    from pyconsumer import KafkaConsumer  # noqa: F401

    watch.stop()
    return watch.found


def spark(arguments: dict[str, Any]) -> dict[str, Any]:
    """Read all columns by Spark and discard them. Processor time of all its processes."""
    return spark_program.main({**arguments, "format": "pyconsumer", "columns": "", "jars": []})


#: Samplers of OpenTelemetry by which the clients can be observed: the SDK's ``ALWAYS_OFF`` counts as no provider.
SAMPLERS = ("drops", "always_off", "always_on")


def observe(name: str) -> None:
    """Let OpenTelemetry observe the clients of this process. Spans that are recorded are counted, and dropped."""
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider, sampling

    from pyconsumer.opentelemetry import PyconsumerInstrumentor
    from tests.support.spans import Drops

    sampler = {"drops": Drops(), "always_off": sampling.ALWAYS_OFF, "always_on": sampling.ALWAYS_ON}[name]
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SpanProcessor())
    PyconsumerInstrumentor().instrument(tracer_provider=provider)


PROGRAMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "poll": read,
    "group": lambda arguments: read(arguments, group=True),
    "columns": lambda arguments: read(arguments, arrow=True),
    "produce": produce,
    "import": import_,
    "spark": spark,
}


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one of :data:`PROGRAMS`. Fail unless the package comes from the folder that was meant."""
    if arguments.get("sampler"):
        observe(arguments["sampler"])
    found = PROGRAMS[arguments["program"]](arguments)
    import pyconsumer

    folder = str(Path(pyconsumer.__file__).resolve().parents[1])
    if folder != arguments["folder"]:
        raise AssertionError(f"measured the package in {folder} instead of that in {arguments['folder']}")
    files = [str(getattr(module, "__file__", "")) for name, module in sys.modules.items() if "pyconsumer." in name]
    return {**found, "peak_bytes": peak_bytes(), "compiled": any(file.endswith((".so", ".pyd")) for file in files)}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
