"""The settings of a session of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark import launch

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A POSIX system with a short temporary folder and the newest Spark. No program runs."""
    monkeypatch.setattr(launch.os, "name", "posix")
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", object())
    monkeypatch.setattr(launch, "_socket_folder", lambda: "/tmp/x")


def test_python_workers_of_this_machine_use_unix_sockets() -> None:
    assert launch._prepare("local[2]", {"a": 1}) == {"a": 1, ENABLED: True, FOLDER: "/tmp/x"}


def test_those_of_a_cluster_do_not() -> None:
    assert launch._prepare("spark://host:7077", {"a": 1}) == {"a": 1}


def test_settings_of_the_user_are_kept() -> None:
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


@pytest.mark.slow
def test_their_folder_is_ours_alone_and_goes_with_the_process() -> None:
    program = "from pyconsumer.spark import launch; print(launch._socket_folder(), launch._socket_folder())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = map(Path, done.stdout.split())
    assert first == second
    assert first.name.startswith("pyconsumer-sockets-")
    assert not first.exists()


@pytest.mark.slow
def test_its_folders_stay_when_a_forked_process_ends() -> None:
    program = (
        "import os, sys; from pyconsumer.spark import launch\n"
        "folders = [launch.package_zip().parent, launch._temporary_folder(), launch._socket_folder()]\n"
        "child = os.fork()\n"
        "if not child: sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "for folder in folders: print(folder, os.path.exists(folder))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    folders = [line.split() for line in done.stdout.splitlines()]
    assert [stayed for _, stayed in folders] == ["True"] * 3
    assert [folder for folder, _ in folders if Path(folder).exists()] == []


def test_not_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "os", SimpleNamespace(**vars(os) | {"name": "nt"}))  # paths need the true one
    assert launch._prepare("local", {}) == {}


def test_not_with_pipelined_functions() -> None:
    conf: dict[str, Any] = {"spark.python.udf.pipelined.enabled": True}
    assert launch._prepare("local", conf) == conf


def test_a_session_that_runs_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", object())
    assert launch._prepare("local", {}) == {}


# -- register


class FakeContext:
    """As much of a SparkContext as ``register`` uses."""

    def __init__(self, python: str, master: str = "local[2]") -> None:
        self.pythonExec = python
        self.master = master
        self._python_includes: list[str] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802
        self._python_includes.append(path)


class FakeSession:
    """A session whose registry fails with a message."""

    _jvm = None

    def __init__(self, context: FakeContext, refusal: str = "") -> None:
        self.sparkContext = context
        self.dataSource = self
        self.refusal = refusal

    def register(self, source: type) -> None:
        if self.refusal:
            raise ValueError(self.refusal)


def python_that_says(folder: Path, text: str) -> str:
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_a_source_found_by_spark_is_registered() -> None:
    """PySpark 4.0 rejects the name of the source then."""
    launch.register(FakeSession(FakeContext(sys.executable), "[DATA_SOURCE_ALREADY_EXISTS] Data source 'pyconsumer'"))
    with pytest.raises(ValueError, match="another"):
        launch.register(FakeSession(FakeContext(sys.executable), "another"))


@pytest.mark.slow
def test_workers_that_could_not_run_are_reported_with_the_remedy(tmp_path: Path) -> None:
    own = f"{sys.version_info[0]} {sys.version_info[1]}"
    for said, reason in ((f"{own} False", "lacks pyarrow"), ("3 8 True", "is Python 3.8, not 3")):
        folder = tmp_path / reason[:2]
        folder.mkdir()
        python = python_that_says(folder, said)
        with pytest.raises(ConfigurationError, match=rf"{reason}.*PYSPARK_PYTHON.*session\(\)"):
            launch.register(FakeSession(FakeContext(python)))
        launch.register(FakeSession(FakeContext(python, "spark://host:7077")))  # theirs is on another machine
    launch.register(FakeSession(FakeContext(python_that_says(tmp_path, f"{own} True"))))
    launch.register(FakeSession(FakeContext("no such program")))
