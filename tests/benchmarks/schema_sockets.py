"""``python -m tests.benchmarks.schema_sockets``: values of a registry from the socket to columns and objects.

An embedded broker with its registry runs in this process. Each way runs in a process of its own, in turn with the
others. The first quarter of its records does not count, so start, connections and the fetch of the schema do not. A
slow way reads fewer records. The records are those of :mod:`tests.benchmarks.schema_records`. All ways of our consumer
that return columns read keys, offsets, times and headers, too.

The figures are records per second, and seconds of the processor per million records, all threads of the program. The
broker is not in them. Ratios of the processor time are those to compare on a busy machine. A start is the processor
time of a new process up to its first batch, the interpreter and all imports included.

It needs ``pyconsumer[peers]``, ``pyruhvro``, ``ptars`` and ``orjson``. A way whose package is missing is left out.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    SerializationContext,
)
from tests.benchmarks.measure import answer
from tests.benchmarks.schema_records import (
    DIFFERENT,
    PARTITIONS,
    SCHEMAS,
    json_schema,
    message_class,
    messages_of,
    plain_values_of,
    values_of,
)
from tests.support.process import run

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "RATIOS", "WAYS", "fill", "main", "measure", "ratios", "topic_of"]

FORMATS: Final = ("Avro", "Protobuf", "JSON")


# -- the ways, each in a process of its own -------------------------------------------------------


def _consumer(arguments: dict[str, Any], **settings: Any) -> KafkaConsumer[Any, Any]:
    consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
        bootstrap_servers=arguments["servers"], auto_offset_reset="earliest", **settings
    )
    consumer.assign([TopicPartition(arguments["topic"], number) for number in range(PARTITIONS)])
    return consumer


def _batches(arguments: dict[str, Any], **more: Any) -> Iterator[pa.RecordBatch]:
    with _consumer(arguments) as consumer:
        while True:
            yield consumer.poll_arrow(timeout_ms=1000, **more)


def _ours(arguments: dict[str, Any]) -> Any:
    """Return our deserializer of a format."""
    registry = SchemaRegistryClient(arguments["registry"])
    if arguments["format"] == "Avro":
        return AvroDeserializer(registry)
    if arguments["format"] == "JSON":
        return JSONDeserializer(None, schema_registry_client=registry)
    return ProtobufDeserializer(message_class(arguments["workload"]), None, registry)


def _confluents(arguments: dict[str, Any]) -> Any:
    """Return confluent-kafka's deserializer of a format."""
    from confluent_kafka.schema_registry import SchemaRegistryClient as Registry
    from confluent_kafka.schema_registry import avro, json_schema, protobuf

    registry = Registry({"url": arguments["registry"]})
    if arguments["format"] == "Avro":
        return avro.AvroDeserializer(registry)
    if arguments["format"] == "JSON":
        return json_schema.JSONDeserializer(None, schema_registry_client=registry)
    return protobuf.ProtobufDeserializer(message_class(arguments["workload"]), None, registry)


def _bytes(arguments: dict[str, Any]) -> Iterator[int]:
    return (batch.num_rows for batch in _batches(arguments))


def _columns(arguments: dict[str, Any]) -> Iterator[int]:
    return (batch.num_rows for batch in _batches(arguments, value=_ours(arguments)))


def _only_values(arguments: dict[str, Any]) -> Iterator[int]:
    return (batch.num_rows for batch in _batches(arguments, value=_ours(arguments), columns=["value"]))


def _objects(arguments: dict[str, Any]) -> Iterator[int]:
    with _consumer(arguments, value_deserializer=_ours(arguments)) as consumer:
        while True:
            records = list(consumer.poll(timeout_ms=1000).records())
            assert all(record.value is not None for record in records)
            yield len(records)


def _confluent(arguments: dict[str, Any]) -> Iterator[int]:
    import confluent_kafka
    from confluent_kafka.serialization import MessageField as Field
    from confluent_kafka.serialization import SerializationContext as Context

    topic = arguments["topic"]
    deserializer, context = _confluents(arguments), Context(topic, Field.VALUE)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": arguments["servers"], "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    try:
        while True:
            messages = consumer.consume(1000, timeout=1.0)
            assert all(deserializer(message.value(), context) is not None for message in messages)
            yield len(messages)
    finally:
        consumer.close()


def _confluents_class(arguments: dict[str, Any]) -> Iterator[int]:
    """Read by our consumer, with the class called for each value."""
    from confluent_kafka.serialization import MessageField as Field
    from confluent_kafka.serialization import SerializationContext as Context

    deserializer, context = _confluents(arguments), Context(arguments["topic"], Field.VALUE)
    with _consumer(arguments) as consumer:
        while True:
            records = list(consumer.poll(timeout_ms=1000).records())
            assert all(deserializer(record.value, context) is not None for record in records)
            yield len(records)


def _pyruhvro(arguments: dict[str, Any]) -> Iterator[int]:
    import pyruhvro  # type: ignore[import-not-found,import-untyped,unused-ignore]

    text = json.dumps(SCHEMAS[arguments["workload"]])
    with _consumer(arguments) as consumer:
        while True:
            values = [record.value[5:] for record in consumer.poll(timeout_ms=1000).records() if record.value]
            yield pyruhvro.deserialize_array(values, text).num_rows if values else 0


def _ptars(arguments: dict[str, Any]) -> Iterator[int]:
    from ptars import HandlerPool, PtarsConfig  # type: ignore[import-not-found,unused-ignore]

    kind = message_class(arguments["workload"])
    pool = HandlerPool([kind.DESCRIPTOR.file], PtarsConfig(confluent_wire_policy="protobuf"))
    handler = pool.get_for_message(kind.DESCRIPTOR)
    for batch in _batches(arguments):
        yield handler.array_to_record_batch(batch["value"]).num_rows if batch.num_rows else 0


def _orjson(arguments: dict[str, Any]) -> Iterator[int]:
    import orjson
    import pyarrow as pa

    shape = pa.schema(list(next(_batches(arguments, value=_ours(arguments))).schema.field("value").type))
    maps = [field.name for field in shape if pa.types.is_map(field.type)]
    for batch in _batches(arguments):
        rows = [orjson.loads(value[5:]) for value in batch["value"].to_pylist()]
        for name in maps:
            for row in rows:
                row[name] = list(row[name].items())
        yield pa.Table.from_pylist(rows, shape).num_rows


_Way = Callable[[dict[str, Any]], Iterator[int]]
_OF_EACH: Final[dict[str, tuple[_Way, float]]] = {
    "bytes": (_bytes, 1.0),
    "columns": (_columns, 1.0),
    "only values": (_only_values, 1.0),
    "objects": (_objects, 0.2),
    "confluent": (_confluent, 0.04),
    "confluent's class": (_confluents_class, 0.04),
}

#: The ways by name. Each has its function and the part of the records that it reads.
WAYS: Final[dict[str, tuple[_Way, float]]] = {
    **{f"{kind} {way}": of for kind in FORMATS for way, of in _OF_EACH.items()},
    "Avro pyruhvro": (_pyruhvro, 0.5),
    "Protobuf ptars": (_ptars, 1.0),
    "JSON orjson": (_orjson, 0.2),
}

#: By way and the other one: the ratio that it must reach with seven fields, and the goal. With 30 fields 0.7 of it.
RATIOS: Final[dict[tuple[str, str], tuple[float, float]]] = {
    ("Avro columns", "Avro pyruhvro"): (1.4, 2.0),
    ("Avro columns", "Avro confluent"): (200.0, 300.0),
    ("Avro columns", "Avro bytes"): (0.20, 0.3),
    ("Protobuf columns", "Protobuf ptars"): (1.4, 2.0),
    ("Protobuf columns", "Protobuf confluent"): (80.0, 150.0),
    ("JSON columns", "JSON orjson"): (3.0, 5.0),
    ("Avro objects", "Avro confluent"): (3.0, 10.0),
    ("Protobuf objects", "Protobuf confluent"): (3.0, 8.0),
    ("JSON objects", "JSON confluent"): (3.0, 3.0),
}


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(arguments: dict[str, Any]) -> dict[str, float]:
    """Read records of a topic by one way. The first quarter does not count.

    Args:
        arguments: ``way``, ``format``, ``servers``, ``registry``, ``topic``, ``workload`` and ``records``.

    Returns:
        The seconds, those of the processor, and the number of records that count.
    """
    batches, records = WAYS[arguments["way"]][0](arguments), arguments["records"]
    count = skipped = 0
    used, began = 0.0, 0.0
    for size in batches:
        count += size
        if not skipped and count >= records // 4:
            skipped, used, began = count, _used(), time.perf_counter()
        if count >= records:
            break
    found = {"seconds": time.perf_counter() - began, "cpu": _used() - used, "records": count - skipped}
    batches.close()  # type: ignore[attr-defined]  # all are generators
    return found


def ratios(rates: dict[str, float]) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield way, other way, ratio, must and goal, for all of :data:`RATIOS` that were measured."""
    for (way, other), (must, goal) in RATIOS.items():
        if way in rates and other in rates:
            yield way, other, rates[way] / rates[other], must, goal


# -- the whole ------------------------------------------------------------------------------------


def topic_of(workload: str, kind: str) -> str:
    """Return the topic of a workload and format."""
    return f"{workload}-{kind.lower()}"


def fill(cluster: EmbeddedCluster, registry: SchemaRegistryClient, workload: str, kind: str, records: int) -> int:
    """Write the topic of a workload and format. Return the mean size of a value in bytes."""
    topic = topic_of(workload, kind)
    cluster.create_topic(topic, partitions=PARTITIONS)
    if kind == "Avro":
        serializer: Any = AvroSerializer(registry, json.dumps(SCHEMAS[workload]))
        values = list(values_of(workload))
    elif kind == "JSON":
        serializer, values = JSONSerializer(json_schema(workload), registry), plain_values_of(workload)
    else:
        of = message_class(workload)
        serializer, values = ProtobufSerializer(of, registry), messages_of(workload, of)
    data: list[Any] = [serializer(value, SerializationContext(topic, MessageField.VALUE)) for value in values]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=20, batch_size=262_144) as producer:
        for number in range(records // DIFFERENT):
            producer.send_many(topic, data, partition=number % PARTITIONS)
    return round(sum(map(len, data)) / len(data))


@click.command(help="Measure values of a registry as columns and objects, beside bytes and other libraries.")
@click.argument("ways", nargs=-1, type=click.Choice(list(WAYS)))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1))
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(100_000))
@click.option("--workload", "workloads", multiple=True, type=click.Choice(list(SCHEMAS)), help="By default both.")
@click.option("--starts", default=5, show_default=True, help="How many starts of each kind are measured.")
def main(ways: tuple[str, ...], runs: int, records: int, workloads: tuple[str, ...], starts: int) -> None:
    kinds = [kind for kind in FORMATS if not ways or any(way.startswith(kind) for way in ways)]
    with EmbeddedCluster(schema_registry=True) as cluster:
        registry = SchemaRegistryClient(cluster.schema_registry_url)
        for workload in workloads or tuple(SCHEMAS):
            sizes = {kind: fill(cluster, registry, workload, kind, records) for kind in kinds}
            texts = ", ".join(f"{size} bytes in {kind}" for kind, size in sizes.items())
            click.echo(f"{workload}: {records:,} records of {texts}, {runs} runs, medians")
            _report(_measured(cluster, workload, ways or tuple(WAYS), runs, records), workload)
            if starts:
                _report_starts(cluster, workload, kinds, starts)
        registry.close()


def _measured(
    cluster: EmbeddedCluster, workload: str, ways: tuple[str, ...], runs: int, records: int
) -> dict[str, list[tuple[float, float]]]:
    """Return the rate, and the processor time per million records, of each run of each way."""
    found: dict[str, list[tuple[float, float]]] = {}
    arguments = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url, "workload": workload}
    for _ in range(runs):
        for way in ways:
            kind = way.split()[0]
            given = {
                "way": way,
                "format": kind,
                "topic": topic_of(workload, kind),
                "records": int(records * WAYS[way][1]),
            }
            try:
                command = [sys.executable, "-m", "tests.benchmarks.schema_sockets", json.dumps(arguments | given)]
                spent = answer(run(command, timeout_s=600))
            except AssertionError as error:
                click.echo(f"  {way}: failed: {str(error).strip().splitlines()[-1]}")
                continue
            pair = spent["records"] / spent["seconds"], spent["cpu"] / spent["records"] * 1e6
            found.setdefault(way, []).append(pair)
    return found


def _report(found: dict[str, list[tuple[float, float]]], workload: str) -> None:
    factor = 1.0 if workload == "seven" else 0.7
    rates = {way: statistics.median(rate for rate, _ in runs) for way, runs in found.items()}
    costs = {way: statistics.median(cost for _, cost in runs) for way, runs in found.items()}
    for way, rate in rates.items():
        click.echo(f"  {way}: {rate:,.0f}/s, {costs[way]:.3f} CPU s per million")
    by_processor = dict(zip(costs, (1 / cost for cost in costs.values()), strict=True))
    for (way, other, ratio, must, goal), (*_, of_processor, _m, _g) in zip(
        ratios(rates), ratios(by_processor), strict=True
    ):
        click.echo(
            f"  {way} : {other} = {ratio:.2f} in rate, {of_processor:.2f} in processor time"
            f" (must {must * factor:.2f}, goal {goal * factor:.2f})"
        )


def _report_starts(cluster: EmbeddedCluster, workload: str, kinds: list[str], starts: int) -> None:
    """Print the processor time up to the first batch, as bytes and as columns in turn."""
    for kind in kinds:
        arguments = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url}
        arguments |= {"topic": topic_of(workload, kind)}
        found: dict[str, list[float]] = {"": [], kind: []}
        for _ in range(starts):
            for of, costs in found.items():
                given = json.dumps(arguments | {"format": of})
                command = [sys.executable, "-m", "tests.benchmarks.schema_start", given]
                costs.append(answer(run(command, timeout_s=60))["cpu"])
        raw, typed = (statistics.median(costs) for costs in found.values())
        click.echo(f"  start, {kind}: {raw:.3f} s for bytes, {typed:.3f} s for columns: {typed - raw:.3f} s more (0.2)")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        print(json.dumps(measure(json.loads(sys.argv[1]))))
    else:
        main()
