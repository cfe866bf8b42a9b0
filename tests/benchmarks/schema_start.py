"""The program that :mod:`tests.benchmarks.schema_sockets` runs for each start, up to the first batch."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from pyconsumer import KafkaConsumer, TopicPartition


def first_batch(arguments: dict[str, Any]) -> None:
    """Read a topic's first batch, as bytes or as columns of a format."""
    more: dict[str, Any] = {}
    if arguments["format"]:
        from pyconsumer import schemas

        registry = schemas.SchemaRegistryClient(arguments["registry"])
        if arguments["format"] == "Avro":
            more["value"] = schemas.AvroDeserializer(registry)
        elif arguments["format"] == "JSON":
            more["value"] = schemas.JSONDeserializer(None, schema_registry_client=registry)
        else:
            more["value"] = schemas.ProtobufDeserializer(None, None, registry)
    with KafkaConsumer(bootstrap_servers=arguments["servers"], auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(arguments["topic"], 0)])
        while not consumer.poll_arrow(timeout_ms=1000, max_records=1000, **more).num_rows:
            pass


if __name__ == "__main__":
    first_batch(json.loads(sys.argv[1]))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"cpu": used.ru_utime + used.ru_stime}))
