"""The programs in ``examples/`` run as they stand, and print the expected lines."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import urllib.request
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, run, wait_until
from tests.support.spark_streams import patiently

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

#: What each of them prints, line by line.
_OUTPUT = {
    "produce.py": (
        r"the last order is at offset \d+ of orders-\d",
        r"refused: the record has 2000084 bytes.*max_request_size.*",
        r"10 orders delivered",
    ),
    "manual_assignment.py": ("from the start: 60 records", "from minute 50: 10 records"),
    "consume_group.py": (
        r"member 0 had partitions \[.*\] at the end",
        r"member 1 had partitions \[.*\] at the end",
        "1000 clicks counted",
        "committed offsets add up to 1000",
    ),
    "asyncio_service.py": ("1000 transfers booked, and the group left",),
    "graceful_stop.py": (
        "30 jobs done, ended by SIGTERM",
        "members left in the group: 0",
        "70 jobs done, ended by SIGTERM",
        "100 of 100 jobs, each done once",
    ),
    "dead_letters.py": (
        r"read \[20, 22, 24\]",
        r"b'\{\"celsius\": 21' of readings-json-0@1: Expecting ',' delimiter.*",
        r"b'off' of readings-json-0@3: Expecting value.*",
    ),
    "exactly_once.py": (
        "crashed in the middle of a batch",
        "crashed in the middle of a batch",
        "1000 orders billed",
        "1000 invoices, 1000 of them different",
    ),
    "custom_assignors.py": (
        r"one of two: member 0 has \[.*\], member 1 has \[.*\]",
        r"random: member 0 has \[.*\], member 1 has \[.*\]",
        r"by rack: member 0 has \[.*\], member 1 has \[.*\]",
        r"to all: member 0 has \[0, 1, 2, 3, 4, 5\], member 1 has \[0, 1, 2, 3, 4, 5\]",
        "read 60 records",
        "read 3 records",
    ),
    "health_server.py": (r"alive 200 1", r"ready 200 1"),
    "rebalance_listener.py": (
        r"assigned \[0, 1, 2, 3\]",
        r"revoked \[0, 1, 2, 3\]",
        r"assigned \[\d, \d\]",
        r"revoked \[\d, \d\]",
    ),
}
#: What is logged, where something is.
_LOGGED = {"dead_letters.py": r"(\[client_id=\S+, group_id=thermometer\] skipped a record: .*\n){2}"}
#: Those with tests of their own, below or in test_example_logins.py.
_OTHERS = {
    "azure_login.py",  # tests/unit/test_logins.py
    "embedded_broker_test.py",
    "fastapi_service.py",
    "google_login.py",  # tests/unit/test_logins.py
    "msk_iam.py",
    "oauth_login.py",
    "spark_batch.py",
    "spark_pipeline.py",
}


def _check(name: str, *arguments: str) -> None:
    finished = run([sys.executable, "-W", "error", str(EXAMPLES / name), *arguments], timeout_s=60, cwd=ROOT).check()
    assert re.fullmatch(_LOGGED.get(name, ""), finished.stderr), finished.stderr
    assert len(finished.lines) == len(_OUTPUT[name]), finished.stdout
    for line, wanted in zip(finished.lines, _OUTPUT[name], strict=True):
        assert re.fullmatch(wanted, line), finished.stdout


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == _OUTPUT.keys() | _OTHERS


@pytest.mark.slow
@pytest.mark.parametrize("name", _OUTPUT)
def test_an_example_runs_as_it_stands(name: str) -> None:
    _check(name)


@pytest.mark.parametrize("name", _OUTPUT)
def test_an_example_runs_on_a_cluster_that_is_there(name: str, cluster: Cluster) -> None:
    _check(name, "-b", cluster.bootstrap_servers)


@pytest.mark.slow
def test_the_example_of_testing_passes() -> None:
    installed = any(entry.name == "pyconsumer" for entry in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "pyconsumer.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    finished = run([*command, str(EXAMPLES / "embedded_broker_test.py")], timeout_s=60, cwd=ROOT).check()
    assert re.search(r"^1 passed", finished.stdout, re.MULTILINE), finished.stdout


def _ask(url: str, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as response:
        return json.load(response)


@pytest.mark.slow
def test_the_web_service_counts_cups_and_leaves_its_group(cluster: Cluster) -> None:
    for needed in ("fastapi", "uvicorn"):
        if not os.environ.get("CI"):
            pytest.importorskip(needed)
    command = [sys.executable, "-W", "error", str(EXAMPLES / "fastapi_service.py"), "--port", "0"]
    service = GuardedProcess([*command, "-b", cluster.bootstrap_servers], cwd=ROOT)
    try:
        address = r"running on (http://[\d.:]+)"
        wait_until(lambda: re.search(address, service.stderr) or not service.running, 60, "the service listens")
        found = re.search(address, service.stderr)
        assert found, service.stderr
        for cups in (1, 2):
            assert _ask(f"{found[1]}/orders/tea?cups={cups}", "POST").keys() == {"partition", "offset"}
        wait_until(lambda: _ask(f"{found[1]}/totals") == {"tea": 3}, 60, "the consumer has counted")
        for probe in ("alive", "ready"):  # another answer than 200 raises
            assert _ask(f"{found[1]}/{probe}") == {"consumer": True, "producer": True}
    finally:
        service.stop()
    assert "the group has been left\n" in service.stdout
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert admin.describe_groups(["totals"])["totals"].members == ()


@pytest.fixture
def run_on_spark(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Runs a program as it stands, but in the Spark session of the run, since a Java of its own takes 10 s and more.

    (That a program's own session works, the tutorial's report and the demo show.)
    """
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr("pyconsumer.spark.launch.session", lambda master, **conf: spark)

    def run_it(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        patiently(lambda: runpy.run_path(str(EXAMPLES / name), run_name="__main__"))
        return capsys.readouterr().out.splitlines()

    return run_it


@pytest.mark.spark
@pytest.mark.slow
def test_the_spark_example_counts_words(run_on_spark: Callable[..., list[str]]) -> None:
    assert run_on_spark("spark_batch.py") == ["be 2", "to 2", "is 1"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(480)
def test_the_spark_pipeline_keeps_each_reading_once(
    run_on_spark: Callable[..., list[str]], new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    servers = new_cluster("embedded").bootstrap_servers  # of its own: the program names its topics
    assert run_on_spark("spark_pipeline.py", "-b", servers, "--folder", str(tmp_path)) == [
        "raw-readings: 609",
        "readings: 569",
        "means-by-minute: 93",
        "cellar: 31 minutes",
        "garden: 31 minutes",
        "roof: 31 minutes",
    ]
    assert (tmp_path / "pipeline.png").read_bytes().startswith(b"\x89PNG")
