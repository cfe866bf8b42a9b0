"""Servers and launchers start our clients in each of their processes, by the command and by the variable.

An application writes a line for each process that starts it: its id, and the module that has aiokafka's consumer there.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.ports.environments import python_of
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, run, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_OURS: Final = "pyconsumer.compat.aiokafka.consumer.consumer"
_LONG_S: Final = 300.0
_FIRST_PAUSE_S: Final = 5.0
_NOTE: Final = """
import os
import aiokafka

def note():
    with open(os.environ["STARTS"], "a") as file:
        file.write(f"{os.getpid()} {aiokafka.AIOKafkaConsumer.__module__}\\n")
"""
_APPLICATIONS: Final = {
    "of_faststream": """
        import os
        from faststream import FastStream
        from faststream.kafka import KafkaBroker
        from note import note

        broker = KafkaBroker(os.environ["ADDRESS"])
        app = FastStream(broker)

        @app.after_startup
        async def started():
            note()
        """,
    "of_fastapi": """
        import contextlib
        from fastapi import FastAPI
        from note import note

        @contextlib.asynccontextmanager
        async def lifespan(app):
            note()
            yield

        app = FastAPI(lifespan=lifespan)
        """,
    "of_wsgi": """
        from note import note

        note()

        def app(environment, start_response):
            start_response("200 OK", [])
            return [b""]
        """,
    "of_opentelemetry": """
        from note import aiokafka, note

        assert hasattr(aiokafka.AIOKafkaProducer.send, "__wrapped__"), "not instrumented"
        note()
        """,
}
_NO_EXPORTERS: Final = dict.fromkeys(("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"), "none")
#: Application, command, the number of processes that start it, and whether a change of its file starts it anew.
_SERVERS: Final = {
    "faststream": ("of_faststream", "faststream run APP", 1, False),
    "faststream with workers": ("of_faststream", "faststream run APP --workers 2", 2, False),
    "faststream with reload": ("of_faststream", "faststream run APP --reload", 1, True),
    "uvicorn with workers": ("of_fastapi", "uvicorn APP --port 0 --workers 2", 2, False),
    "uvicorn with reload": ("of_fastapi", "uvicorn APP --port 0 --reload", 1, True),
    "gunicorn": ("of_wsgi", "gunicorn APP --bind 127.0.0.1:0 --workers 2", 2, False),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the applications."""
    (tmp_path / "note.py").write_text(_NOTE)
    for name, text in _APPLICATIONS.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    return tmp_path


def _command(python: str, way: str, words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the variables that start a command of an environment on our clients."""
    command = [str(Path(python).with_name(words[0])), *words[1:]]
    if way == "variable":
        return command, {"PYCONSUMER_COMPAT": "aiokafka,kafka"}
    return [python, "-m", "pyconsumer.compat", "aiokafka,kafka", "--", *command], {"PYCONSUMER_COMPAT": ""}


def _starts(folder: Path) -> dict[int, str]:
    file = folder / "starts"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return {int(process): module for process, module in lines}


@contextmanager
def _server(folder: Path, command: list[str], env: dict[str, str]) -> Iterator[None]:
    output = folder / "output"
    server = GuardedProcess(command, output=output, env=env, cwd=folder)
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{output.read_text()}") from None
    finally:
        server.stop()


def _change_until_it_starts_anew(folder: Path, application: str) -> None:
    """Change an application, at times that are twice as far apart each time.

    The watcher may begin to look after the first change, and a change ends a start that is still slow.
    """
    before = len(_starts(folder))
    due, pause_s = time.monotonic(), _FIRST_PAUSE_S

    def started() -> bool:
        nonlocal due, pause_s
        if time.monotonic() >= due:
            due, pause_s = time.monotonic() + pause_s, 2 * pause_s
            with (folder / application).open("a") as file:
                file.write("# changed\n")
        return len(_starts(folder)) > before

    wait_until(started, _LONG_S, "a process has started after a change")


def _variables(folder: Path, address: str) -> dict[str, str]:
    return {"STARTS": str(folder / "starts"), "ADDRESS": address, "PYTHONPATH": str(folder), **_NO_EXPORTERS}


@pytest.mark.parametrize("way", ["command", "variable"])
@pytest.mark.parametrize("server", _SERVERS)
@pytest.mark.parametrize("environment", ["with", "without"])
def test_each_process_of_a_server_has_our_clients(
    cluster: Cluster, folder: Path, environment: str, server: str, way: str
) -> None:
    application, line, processes, reloads = _SERVERS[server]
    command, env = _command(python_of(environment), way, line.replace("APP", f"{application}:app").split())
    with _server(folder, command, env | _variables(folder, cluster.bootstrap_servers)):
        wait_until(lambda: len(_starts(folder)) >= processes, _LONG_S, f"{processes} processes have started")
        if reloads:
            _change_until_it_starts_anew(folder, f"{application}.py")
    assert set(_starts(folder).values()) == {_OURS}


@pytest.mark.parametrize("environment", ["with", "without"])
@pytest.mark.parametrize("order", ["outside", "inside", "variable"])
def test_opentelemetrys_launcher_instruments_our_clients(folder: Path, environment: str, order: str) -> None:
    python = python_of(environment)
    launcher = str(Path(python).with_name("opentelemetry-instrument"))
    ours = [python, "-m", "pyconsumer.compat", "aiokafka,kafka"]
    command = {
        "outside": [*ours, "--", launcher, python, "of_opentelemetry.py"],
        "inside": [launcher, *ours, "of_opentelemetry.py"],
        "variable": [launcher, python, "of_opentelemetry.py"],
    }[order]
    variable = {"PYCONSUMER_COMPAT": "aiokafka,kafka" if order == "variable" else ""}
    run(command, timeout_s=_LONG_S, cwd=folder, env=variable | _variables(folder, "")).check()
    assert set(_starts(folder).values()) == {_OURS}
