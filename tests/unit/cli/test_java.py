"""The end of a Java process that a command has started."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pyconsumer.cli.java import _started, java_of_block

#: Each starts a process below it, prints its id, and ends with its standard input, as Java and PySpark's daemon do.
WORKER = "import os, sys; os.setpgid(0, 0); print(flush=True); sys.stdin.read(); import asyncio"
JAVA = (
    "import subprocess, sys;"
    f"p = subprocess.Popen([sys.executable, '-c', {WORKER!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE);"
    "p.stdout.readline(); print(p.pid, flush=True); sys.stdin.read()"
)


@pytest.mark.concurrent
def test_java_and_its_child_processes_have_ended_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    context = pytest.importorskip("pyspark").SparkContext
    monkeypatch.setattr(context, "_gateway", None)
    monkeypatch.setattr(context, "_jvm", None)
    with subprocess.Popen([sys.executable, "-c", JAVA], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with java_of_block() as java:
            worker = int(process.stdout.readline())
            context._gateway = SimpleNamespace(proc=process, shutdown=lambda: None)
            java.remember_workers()
            assert _started(worker)
        assert (process.returncode, _started(worker)) == (0, "")
        assert context._gateway is None


@pytest.mark.concurrent
def test_java_that_runs_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    context = pytest.importorskip("pyspark").SparkContext
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        gateway = SimpleNamespace(proc=process, shutdown=process.kill)
        monkeypatch.setattr(context, "_gateway", gateway)
        with java_of_block():
            pass
        assert context._gateway is gateway
        assert process.poll() is None
        process.communicate(b"\n")
