"""``python -m tests.benchmarks.schema_sockets``: JSON and Protobuf from the socket to columns, beside other libraries.

As :mod:`tests.benchmarks.schemas`, with the record of seven fields of :mod:`tests.benchmarks.schema_formats`. All ways
read keys, offsets and times, too. It needs ``ptars``, ``orjson`` and ``pyconsumer[peers]``.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import (
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    SerializationContext,
)
from tests.benchmarks.measure import answer
from tests.benchmarks.schema_formats import SCHEMA, order_class, values
from tests.benchmarks.schemas import spent_on
from tests.support.process import run

__all__ = ["WAYS", "main"]

_DIFFERENT: Final = 1_000
_SHAPE: Final = pa.schema(
    [("id", "int64"), ("customer", "string"), ("amount", "double"), ("count", "int64"), ("is_paid", "bool"),
     ("note", "string"), ("at", "int64")]
)  # fmt: skip


def _batches(arguments: dict[str, Any], **more: Any) -> Iterator[pa.RecordBatch]:
    with KafkaConsumer(bootstrap_servers=arguments["servers"], auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(arguments["topic"], 0)])
        while True:
            yield consumer.poll_arrow(timeout_ms=1000, **more)


def _json(arguments: dict[str, Any]) -> Iterator[int]:
    registry = SchemaRegistryClient(arguments["registry"])
    return (batch.num_rows for batch in _batches(arguments, value=JSONDeserializer(SCHEMA, None, registry)))


def _orjson(arguments: dict[str, Any]) -> Iterator[int]:
    import orjson

    for batch in _batches(arguments):
        rows = [orjson.loads(value[5:]) for value in batch["value"].to_pylist()]
        yield pa.Table.from_pylist(rows, _SHAPE).num_rows


def _protobuf(arguments: dict[str, Any]) -> Iterator[int]:
    deserializer = ProtobufDeserializer(order_class(), None, SchemaRegistryClient(arguments["registry"]))
    return (batch.num_rows for batch in _batches(arguments, value=deserializer))


def _ptars(arguments: dict[str, Any]) -> Iterator[int]:
    from ptars import HandlerPool, PtarsConfig  # type: ignore[import-not-found,unused-ignore]

    kind: Any = order_class()
    pool = HandlerPool([kind.DESCRIPTOR.file], PtarsConfig(confluent_wire_policy="protobuf"))
    handler = pool.get_for_message(kind.DESCRIPTOR)
    for batch in _batches(arguments):
        yield handler.array_to_record_batch(batch["value"]).num_rows if batch.num_rows else 0


#: The ways by name: the function, the topic, and the part of the records that it reads.
WAYS: Final[dict[str, tuple[Callable[[dict[str, Any]], Iterator[int]], str, float]]] = {
    "JSON columns": (_json, "json", 1.0),
    "JSON orjson": (_orjson, "json", 0.5),
    "Protobuf columns": (_protobuf, "protobuf", 1.0),
    "Protobuf ptars": (_ptars, "protobuf", 1.0),
}


def main(records: int = 1_000_000, runs: int = 3) -> None:
    """Print the processor time of each way (seconds per million records), the median of some runs."""
    with EmbeddedCluster(schema_registry=True) as cluster:
        registry = SchemaRegistryClient(cluster.schema_registry_url)
        kind: Any = order_class()
        given = values(_DIFFERENT)
        messages = [kind(**{name: each for name, each in one.items() if each is not None}) for one in given]
        made = {
            "json": (JSONSerializer(SCHEMA, registry), given),
            "protobuf": (ProtobufSerializer(kind, registry), messages),
        }
        for topic, (serializer, rows) in made.items():
            cluster.create_topic(topic, partitions=1)
            data: list[Any] = [serializer(row, SerializationContext(topic, "value")) for row in rows]
            with KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, linger_ms=20, batch_size=262_144
            ) as producer:
                for _ in range(records // _DIFFERENT):
                    producer.send_many(topic, data, partition=0)
        costs: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(runs):
            for name, (_, topic, part) in WAYS.items():
                given_to = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url}
                asked = given_to | {"topic": topic, "way": name, "records": int(records * part)}
                command = [sys.executable, "-m", "tests.benchmarks.schema_sockets", json.dumps(asked)]
                spent = answer(run(command, timeout_s=300))
                costs[name].append(spent["cpu"] / spent["records"] * 1e6)
        for name, found in costs.items():
            print(f"{name}: {statistics.median(found):.3f} CPU s per million, least {min(found):.3f}")
        registry.close()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        arguments = json.loads(sys.argv[1])
        print(json.dumps(spent_on(WAYS[arguments["way"]][0](arguments), arguments["records"])))
    else:
        main(*map(int, sys.argv[1:]))
