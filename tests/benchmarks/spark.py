"""The workload ``spark``: our source and Spark's own connector read a topic and discard the rows."""

from __future__ import annotations

from tests.benchmarks import spark_program
from tests.benchmarks.cells import MAIN, Cell
from tests.benchmarks.measure import Contender, alternate, checked, child
from tests.benchmarks.results import Results, Run
from tests.benchmarks.setup import Setup, Topic, installed
from tests.benchmarks.tables import Table
from tests.support.spark import connector_jars

__all__ = ["measure", "tables"]

_THEIRS = "Spark's own connector"
#: Of each: the name of its table, what is read, which columns (none: all).
_CHOICES = {
    "7 columns": ("spark-7", MAIN, ""),
    "value only": ("spark-value", MAIN, "value"),
    "7 columns of 1 kB, zstd": ("spark-zstd", Cell(1000, "zstd"), ""),
}


def measure(setup: Setup) -> None:
    """Seven columns, the value only, and seven columns of larger records that are compressed."""
    version = installed("pyspark")
    if version is None:
        setup.say("left out: pyspark is not installed")
        return
    jars = [str(path) for path in connector_jars()]
    if not jars:
        setup.say("Spark's own connector is left out: Maven, which fetches it, is not there")
    names = {"pyconsumer": "pyconsumer"} | ({_THEIRS: "kafka"} if jars else {})
    todo = [
        (choice, scope)
        for choice in _CHOICES
        if not all(
            (scope := setup.results.scope("spark", choice)).done(name, number)
            for name in names
            for number in range(1, setup.rounds + 1)
        )
    ]
    if not todo:
        return
    topics: dict[Cell, Topic] = {}

    def run(topic: Topic, format_: str, columns: str) -> Run:
        found = child(
            spark_program.__name__,
            topic.arguments() | {"format": format_, "columns": columns, "jars": jars},
        )
        checked(format_, found, topic.truth, ("records", "crc32_sum"))
        return Run("", amount=topic.records, seconds=found["seconds"], cpu_s=found["cpu_s"])

    try:
        for choice, scope in todo:
            setup.say(f"  {choice}")
            _, cell, columns = _CHOICES[choice]
            if cell not in topics:
                records = cell.records(quick=True, scale=setup.scale)
                topics[cell] = setup.fill(
                    setup.apache, records, cell.size_bytes, partitions=cell.partitions, codec=cell.codec
                )
            contenders = [
                Contender(
                    name,
                    lambda format_=format_, topic=topics[cell], columns=columns: run(topic, format_, columns),  # type: ignore[misc]
                    _note(name),
                )
                for name, format_ in names.items()
            ]
            alternate(setup.wanted(contenders), setup.rounds, setup.say, scope)
    finally:
        for topic in topics.values():
            topic.delete()


def _note(name: str) -> str:
    versions = f"Spark {installed('pyspark')}"
    return f"{installed('pyconsumer')}, {versions}" if name == "pyconsumer" else f"4.2.0, {versions}"


def tables(results: Results) -> list[Table]:
    found = []
    for choice in _CHOICES:
        series = results.scope("spark", choice).series()
        if series:
            records = max((run.amount for item in series for run in item.runs), default=0)
            text = (
                f"`local[2]`, {records:,.0f} records ({_CHOICES[choice][1].title}) of "
                "Apache Kafka, a batch into the sink `noop`, three times in a row in a session that has read the topic "
                "twice before. The session is made by `pyconsumer.spark.session()`: Unix sockets lead to "
                "the Python workers, and the connector has none. CPU is that of the virtual machine and of all Python "
                "processes. Count and checksum of the values are compared."
            )
            table = Table(_CHOICES[choice][0], f"Spark, {choice}", "records/s", text, _THEIRS)
            found.append(table.take(series))
    return found
