"""``python -m tests.benchmarks.schema_spark``: typed columns in Spark, beside other ways to Avro values.

A local session of two tasks reads a topic of Avro values of seven fields, and discards the rows. The embedded broker is
in this process, the session in another one. The ways are read in turn, after a first round that does not count. The
figures are medians: records per second, and the processor time of Python, the JVM and all of their children.

* ``raw``: our source, the values as bytes. ``typed``: our source, ``value.format=avro``, with the embedded registry.
* ``fastavro``: raw values and a Python UDF with ``fastavro.schemaless_reader``. It reads a fifth of the records.
* ``from_avro``: Spark's own connector and ``from_avro``. The prefix is cut off by ``substring``. Maven fetches both.
"""

from __future__ import annotations

import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import SchemaRegistryClient
from tests.benchmarks.measure import answer
from tests.benchmarks.schema_records import PARTITIONS, SCHEMAS
from tests.benchmarks.schema_sockets import fill, topic_of
from tests.benchmarks.spark_program import cpu_s
from tests.support.java import cache_folder, fetch_jars
from tests.support.process import run
from tests.support.spark import connector_jars, start_spark

__all__ = ["main"]

_SCHEMA: Final = SCHEMAS["seven"]
_AVRO: Final = "org.apache.spark:spark-avro_2.13:4.2.0"

#: By way and the other one: the ratio that it must reach, and the goal.
_RATIOS: Final = {
    ("typed", "fastavro"): (10.0, 10.0),
    ("typed", "from_avro"): (2.0, 3.0),
    ("typed", "raw"): (0.4, 0.5),
}


def _ways(spark: Any, at: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    from pyspark.sql import functions
    from pyspark.sql.avro.functions import from_avro

    options = {"kafka.bootstrap.servers": at["servers"], "subscribe": at["topic"]}

    def ours(**more: str) -> Any:
        return spark.read.format("pyconsumer").options(**options, columns="value", **more).load()

    def typed() -> Any:
        return ours(**{"value.format": "avro", "schema.registry.url": at["registry"]})

    def jvm() -> Any:
        frame = spark.read.format("kafka").options(**options).load()
        return frame.select(from_avro(functions.expr("substring(value, 6)"), json.dumps(_SCHEMA)).alias("value"))

    ends = json.dumps({at["topic"]: {str(number): at["records"] // 5 // PARTITIONS for number in range(PARTITIONS)}})
    decode = functions.udf(_decode, typed().schema["value"].dataType)
    return {
        "raw": ours,
        "typed": typed,
        "fastavro": lambda: ours(endingOffsets=ends).select(decode("value").alias("value")),
        "from_avro": jvm,
    }


def _decode(value: bytes) -> dict[str, Any]:
    import fastavro

    found: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), _parsed(), None)
    return dict(found)


def _parsed(found: list[Any] = []) -> Any:  # noqa: B006  # parsed once a worker
    if not found:
        import fastavro

        found.append(fastavro.parse_schema(_SCHEMA))
    return found[0]


def _measured(at: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Return the rate, and the processor time per million records, of each run of each way."""
    found: dict[str, list[tuple[float, float]]] = {}
    libs = fetch_jars(cache_folder() / "spark-avro-4.2.0" / "libs", [_AVRO], alone=True)
    jars = ",".join(map(str, [*connector_jars(), *libs.glob("*.jar")]))
    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark(Path(folder), connector=False, spark__driver__memory="2g", spark__jars=jars)
        try:
            for number in range(at["runs"] + 1):
                for way, frame in _ways(spark, at).items():
                    cpu, start = cpu_s(), time.perf_counter()
                    frame().write.format("noop").mode("overwrite").save()
                    seconds, used = time.perf_counter() - start, cpu_s() - cpu
                    count = at["records"] // 5 if way == "fastavro" else at["records"]
                    if number:
                        found.setdefault(way, []).append((count / seconds, used / count * 1e6))
        finally:
            spark.stop()
    return found


@click.command(help="Measure typed columns in Spark beside raw values, a UDF with fastavro, and from_avro.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1))
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(10_000))
def main(runs: int, records: int) -> None:
    with EmbeddedCluster(schema_registry=True) as cluster:
        registry = SchemaRegistryClient(cluster.schema_registry_url)
        fill(cluster, registry, "seven", "Avro", records)
        at = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url}
        given = at | {"topic": topic_of("seven", "Avro"), "records": records, "runs": runs}
        command = [sys.executable, "-m", "tests.benchmarks.schema_spark", json.dumps(given)]
        found = answer(run(command, timeout_s=1800))
        registry.close()
    rates = {way: statistics.median(rate for rate, _ in each) for way, each in found.items()}
    costs = {way: statistics.median(cost for _, cost in each) for way, each in found.items()}
    for way, rate in rates.items():
        click.echo(f"{way}: {rate:,.0f}/s, {costs[way]:.2f} CPU s per million")
    for (way, other), (must, goal) in _RATIOS.items():
        ratio, of_processor = rates[way] / rates[other], costs[other] / costs[way]
        click.echo(
            f"{way} : {other} = {ratio:.2f} in rate, {of_processor:.2f} in processor time (must {must}, goal {goal})"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        print(json.dumps(_measured(json.loads(sys.argv[1]))))
    else:
        main()
