"""Public names of versions of kafka-python, which ``tests/behaviour/test_compat_kafka.py`` looks for in our package.

``python -m tests.support.kafka_python_names WHEEL...`` writes ``tests/vectors/kafka_python_names.json`` from wheels, as
``pip download --no-deps kafka-python==2.2.15`` leaves them. Each is imported in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["NAMES", "main"]

#: Of each version: names at the top, settings, methods with their arguments, errors, fields of values.
NAMES = Path(__file__).parents[1] / "vectors" / "kafka_python_names.json"

_LOOK = """
import inspect, json, sys
sys.path.insert(0, sys.argv[1])
import kafka, kafka.errors, kafka.structs
from kafka.consumer.fetcher import ConsumerRecord
from kafka.producer.future import RecordMetadata

clients = {}
for name in ("KafkaConsumer", "KafkaProducer", "KafkaAdminClient"):
    client = getattr(kafka, name)
    clients[name] = {
        "settings": sorted(client.DEFAULT_CONFIG),
        "methods": {
            each: [one for one in inspect.signature(method).parameters if one != "self"]
            for each, method in inspect.getmembers(client, callable)
            if not each.startswith("_")
        },
    }
errors = sorted(
    name
    for name, value in vars(kafka.errors).items()
    if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == "kafka.errors"
)
fields = {"ConsumerRecord": list(ConsumerRecord._fields), "RecordMetadata": list(RecordMetadata._fields)}
for name in ("TopicPartition", "OffsetAndMetadata", "OffsetAndTimestamp"):
    fields[name] = list(getattr(kafka.structs, name)._fields)
found = {"top": sorted(set(kafka.__all__)), "clients": clients, "errors": errors, "fields": fields}
print(json.dumps([kafka.__version__, found]))
"""


def main(wheels: list[str]) -> None:
    """Write the names of these versions."""
    found: dict[str, Any] = {}
    for wheel in wheels:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _LOOK, str(Path(wheel).resolve())], capture_output=True, text=True, check=True
        )
        version, names = json.loads(done.stdout)
        found[version] = names
    NAMES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
