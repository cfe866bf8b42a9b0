"""``python -m tests.benchmarks.schemas``: Avro values from the socket to columns and objects, beside other ways.

An embedded broker with its registry runs in this process. Each way runs in a process of its own, in turn with the
others. The first quarter of its records does not count, so start, connections and the fetch of the schema do not. A
slow way reads fewer records. Both records are of :data:`SCHEMAS`: seven fields as in most comparisons, and 30 fields
with nested records, a list and a map. (They have no decimal, which pyruhvro does not read.)

The figures are records per second, and seconds of the processor per million records, all threads of the program. The
broker is not in them. Ratios of the processor time are those to compare on a busy machine.
"""

from __future__ import annotations

import datetime
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import (
    AvroDeserializer,
    AvroSerializer,
    MessageField,
    SchemaRegistryClient,
    SerializationContext,
)
from tests.benchmarks.measure import answer
from tests.support.process import run

__all__ = ["RATIOS", "SCHEMAS", "WAYS", "fill", "main", "measure", "ratios", "spent_on", "values_of"]

_PARTITIONS: Final = 4
_DIFFERENT: Final = 1_000  # values of a topic, which are repeated


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


_TIME: Final = {"type": "long", "logicalType": "timestamp-millis"}
_ADDRESS: Final = _record(
    "Address", ("street", "string"), ("number", "int"), ("city", "string"), ("zip", "string"), ("country", "string")
)
_CUSTOMER: Final = _record(
    "Customer",
    ("id", "long"),
    ("name", "string"),
    ("mail", ["null", "string"]),
    ("is_new", "boolean"),
    ("score", "double"),
    ("address", _ADDRESS),
)
_ITEM: Final = _record("Item", ("sku", "string"), ("count", "int"), ("price", "double"), ("note", ["null", "string"]))

#: The schemas by name of the workload.
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "seven": _record(
        "Order",
        ("id", "long"),
        ("customer", "string"),
        ("amount", "double"),
        ("count", "int"),
        ("is_paid", "boolean"),
        ("note", ["null", "string"]),
        ("at", _TIME),
    ),
    "nested": _record(
        "Sale",
        ("id", "long"),
        ("at", _TIME),
        ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT", "BACK"]}),
        ("is_gift", "boolean"),
        ("total", "double"),
        ("weight", "float"),
        ("customer", _CUSTOMER),
        ("items", {"type": "array", "items": _ITEM}),
        ("tags", {"type": "map", "values": "string"}),
        ("channel", "string"),
        ("campaign", ["null", "string"]),
        ("shop", "int"),
        ("till", "int"),
        ("discount", ["null", "double"]),
        ("day", {"type": "int", "logicalType": "date"}),
    ),
}


def values_of(workload: str) -> Iterator[dict[str, Any]]:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for number in range(_DIFFERENT):
        at = start + datetime.timedelta(seconds=number)
        note = None if number % 2 else f"note {number}"
        if workload == "seven":
            yield {
                "id": 1_000_000 + number,
                "customer": f"customer-{number:06}",
                "amount": number * 1.25,
                "count": number % 7,
                "is_paid": number % 3 == 0,
                "note": note,
                "at": at,
            }
            continue
        address = {"street": "Main Street", "number": number, "city": "Vienna", "zip": "1010", "country": "AT"}
        items = [{"sku": f"sku-{n}", "count": n + 1, "price": 9.5 * n, "note": note} for n in range(number % 4)]
        yield {
            "id": 1_000_000 + number,
            "at": at,
            "state": ("NEW", "PAID", "SENT", "BACK")[number % 4],
            "is_gift": number % 5 == 0,
            "total": number + 0.99,
            "weight": 0.5 * number,
            "customer": {
                "id": number,
                "name": f"customer-{number:06}",
                "mail": note,
                "is_new": number % 2 == 0,
                "score": 0.1 * number,
                "address": address,
            },
            "items": items,
            "tags": {"color": "red", "size": "m"} if number % 2 else {},
            "channel": "web",
            "campaign": note,
            "shop": number % 50,
            "till": number % 5,
            "discount": None if number % 3 else 0.05,
            "day": at.date(),
        }


# -- the ways, each in a process of its own -------------------------------------------------------


def _consumer(arguments: dict[str, Any]) -> KafkaConsumer[Any, Any]:
    consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
        bootstrap_servers=arguments["servers"], auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(arguments["topic"], number) for number in range(_PARTITIONS)])
    return consumer


def _arrow(arguments: dict[str, Any], **more: Any) -> Iterator[int]:
    with _consumer(arguments) as consumer:
        while True:
            yield consumer.poll_arrow(timeout_ms=1000, **more).num_rows


def _columns(arguments: dict[str, Any]) -> Iterator[int]:
    return _arrow(arguments, value=AvroDeserializer(SchemaRegistryClient(arguments["registry"])))


def _only_values(arguments: dict[str, Any]) -> Iterator[int]:
    deserializer = AvroDeserializer(SchemaRegistryClient(arguments["registry"]))
    return _arrow(arguments, value=deserializer, columns=["value"])


def _objects(arguments: dict[str, Any]) -> Iterator[int]:
    deserializer = AvroDeserializer(SchemaRegistryClient(arguments["registry"]))
    consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
        bootstrap_servers=arguments["servers"], auto_offset_reset="earliest", value_deserializer=deserializer
    )
    with consumer:
        consumer.assign([TopicPartition(arguments["topic"], number) for number in range(_PARTITIONS)])
        while True:
            records = list(consumer.poll(timeout_ms=1000).records())
            assert all(record.value is not None for record in records)
            yield len(records)


def _pyruhvro(arguments: dict[str, Any]) -> Iterator[int]:
    import pyruhvro  # type: ignore[import-not-found,unused-ignore]

    text = json.dumps(SCHEMAS[arguments["workload"]])
    with _consumer(arguments) as consumer:
        while True:
            values = [record.value[5:] for record in consumer.poll(timeout_ms=1000).records()]
            yield pyruhvro.deserialize_array(values, text).num_rows if values else 0


def _confluent(arguments: dict[str, Any]) -> Iterator[int]:
    import confluent_kafka
    from confluent_kafka.schema_registry import SchemaRegistryClient as Registry
    from confluent_kafka.schema_registry.avro import AvroDeserializer as Deserializer
    from confluent_kafka.serialization import MessageField as Field
    from confluent_kafka.serialization import SerializationContext as Context

    topic = arguments["topic"]
    deserializer = Deserializer(Registry({"url": arguments["registry"]}))
    context = Context(topic, Field.VALUE)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": arguments["servers"], "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(_PARTITIONS)])
    try:
        while True:
            messages = consumer.consume(1000, timeout=1.0)
            assert all(deserializer(message.value(), context) is not None for message in messages)
            yield len(messages)
    finally:
        consumer.close()


#: The ways by name, each with the part of the records that it reads.
WAYS: Final[dict[str, tuple[Callable[[dict[str, Any]], Iterator[int]], float]]] = {
    "bytes": (_arrow, 1.0),
    "columns": (_columns, 1.0),
    "only values": (_only_values, 1.0),
    "objects": (_objects, 0.2),
    "pyruhvro": (_pyruhvro, 0.5),
    "confluent": (_confluent, 0.02),
}

#: By way and the other one: the ratio that it must reach with seven fields, and the goal. With 30 fields 0.7 of it.
RATIOS: Final[dict[tuple[str, str], tuple[float, float]]] = {
    ("columns", "bytes"): (0.20, 0.3),
    ("columns", "pyruhvro"): (1.4, 2.0),
    ("columns", "confluent"): (200.0, 300.0),
    ("objects", "confluent"): (3.0, 10.0),
}


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(arguments: dict[str, Any]) -> dict[str, float]:
    """Read records of a topic by one way. The first quarter does not count.

    Args:
        arguments: ``way``, ``servers``, ``registry``, ``topic``, ``workload`` and ``records``.

    Returns:
        The seconds, those of the processor, and the number of records that count.
    """
    return spent_on(WAYS[arguments["way"]][0](arguments), arguments["records"])


def spent_on(batches: Iterator[int], records: int) -> dict[str, float]:
    """Read records, given the sizes of their batches. Return as :func:`measure`."""
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


def fill(cluster: EmbeddedCluster, registry: SchemaRegistryClient, workload: str, records: int) -> int:
    """Write the topic of a workload. Return the mean size of a value in bytes."""
    cluster.create_topic(workload, partitions=_PARTITIONS)
    serializer = AvroSerializer(registry, json.dumps(SCHEMAS[workload]))
    context = SerializationContext(workload, MessageField.VALUE)
    values = [serializer(value, context) for value in values_of(workload)]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=20, batch_size=262_144) as producer:
        for number in range(records // _DIFFERENT):
            producer.send_many(workload, values, partition=number % _PARTITIONS)
    return round(sum(map(len, values)) / len(values))


@click.command(help="Measure Avro values as columns and objects, beside bytes and other libraries.")
@click.argument("ways", nargs=-1, type=click.Choice(list(WAYS)))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1))
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(100_000))
@click.option("--workload", "workloads", multiple=True, type=click.Choice(list(SCHEMAS)), help="By default both.")
def main(ways: tuple[str, ...], runs: int, records: int, workloads: tuple[str, ...]) -> None:
    with EmbeddedCluster(schema_registry=True) as cluster:
        registry = SchemaRegistryClient(cluster.schema_registry_url)
        for workload in workloads or tuple(SCHEMAS):
            size = fill(cluster, registry, workload, records)
            click.echo(f"{workload}: {records:,} records, values of {size} bytes, {runs} runs, medians")
            _report(_measured(cluster, workload, ways or tuple(WAYS), runs, records), workload)
        registry.close()


def _measured(
    cluster: EmbeddedCluster, workload: str, ways: tuple[str, ...], runs: int, records: int
) -> dict[str, list[tuple[float, float]]]:
    """Return the rate, and the processor time per million records, of each run of each way."""
    found: dict[str, list[tuple[float, float]]] = {}
    arguments = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url}
    arguments |= {"topic": workload, "workload": workload}
    for _ in range(runs):
        for way in ways:
            try:
                given = arguments | {"way": way, "records": int(records * WAYS[way][1])}
                command = [sys.executable, "-m", "tests.benchmarks.schemas_program", json.dumps(given)]
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


if __name__ == "__main__":
    main()
