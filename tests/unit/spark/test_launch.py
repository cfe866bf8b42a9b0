"""The settings of a session of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from pyconsumer.spark import launch

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A POSIX system with a short temporary folder and the newest Spark, of which nothing runs."""
    monkeypatch.setattr(launch.os, "name", "posix")
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", object())
    monkeypatch.setattr(launch, "_socket_folder", lambda: "/tmp/x")


def test_python_workers_of_this_machine_use_unix_sockets() -> None:
    assert launch._prepare("local[2]", {"a": 1}) == {"a": 1, ENABLED: True, FOLDER: "/tmp/x"}


def test_those_of_a_cluster_do_not() -> None:
    assert launch._prepare("spark://host:7077", {"a": 1}) == {"a": 1}


def test_what_the_user_says_counts() -> None:
    assert launch._prepare("local", {ENABLED: False})[ENABLED] is False


@pytest.mark.parametrize("version", ["4.0.1", "3.5.6"])
def test_not_where_spark_does_not_know_them(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    assert launch._prepare("local", {}) == {}


@pytest.mark.parametrize("version", ["4.1.0", "4.1.0.dev1", "5.0.0"])
def test_but_where_it_does(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    assert launch._prepare("local", {})[ENABLED] is True


@pytest.mark.parametrize(("length", "used"), [(60, True), (61, False)])
def test_not_where_their_paths_would_be_too_long(monkeypatch: pytest.MonkeyPatch, length: int, used: bool) -> None:
    monkeypatch.setattr(launch, "_socket_folder", lambda: "/" + (length - 1) * "x")
    assert (ENABLED in launch._prepare("local", {})) is used


def test_their_folder_is_ours_alone_and_goes_with_the_process() -> None:
    program = "from pyconsumer.spark import launch; print(launch._socket_folder(), launch._socket_folder())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = map(Path, done.stdout.split())
    assert first == second
    assert first.name.startswith("pyconsumer-sockets-")
    assert not first.exists()


def test_not_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.os, "name", "nt")
    assert launch._prepare("local", {}) == {}


def test_not_with_pipelined_functions() -> None:
    conf: dict[str, Any] = {"spark.python.udf.pipelined.enabled": True}
    assert launch._prepare("local", conf) == conf


def test_a_session_that_runs_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", object())
    assert launch._prepare("local", {}) == {}
