"""Registries that judge ours, and programs with clients of other languages: a module of Go, a package of npm.

The judges are franz-go's ``srfake`` and Apicurio. They share no code with ours.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.broker.ports import hold_port
from pyconsumer.schemas import AsyncSchemaRegistryClient
from tests.support.go import go_program
from tests.support.java import cache_folder, fetch_jars, locked, what_java_says
from tests.support.process import GuardedProcess, wait_until

__all__ = ["FOLDER", "KINDS", "OTHER_REGISTRIES", "OnALoop", "Registries"]

FOLDER = Path(__file__).parent

#: Whether the registries of others run. They are fetched and compiled first: ``tox -e registries`` asks for them.
OTHER_REGISTRIES = bool(os.environ.get("PYCONSUMER_OTHER_REGISTRIES"))

#: The registries by name. Apicurio has two versions of the API, on one server.
KINDS = ("embedded", "srfake", "apicurio-v7", "apicurio-v8")

_APICURIO = "io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all"
_APICURIOS_JAVA = 21


class OnALoop:
    """The calls of the client for asyncio, each on a loop of its own thread."""

    def __init__(self, conf: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncSchemaRegistryClient(conf)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._runner.run(found(*args, **kwargs))

        return call

    def close_client(self) -> None:
        """Close the client alone. Its calls can still be made, and fail."""
        self._runner.run(self._client.close())

    def close(self) -> None:
        self.close_client()
        self._runner.close()


class Registries:
    """The registries of a test run, each started when it is first asked for."""

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._stack = ExitStack()

    def url(self, kind: str) -> str:
        """Return the address of a registry of :data:`KINDS`."""
        server, _, version = kind.partition("-")
        if server not in self._urls:
            start = {"embedded": _embedded, "srfake": _srfake, "apicurio": _apicurio}[server]
            self._urls[server] = self._stack.enter_context(start())
        return f"{self._urls[server]}/apis/ccompat/{version}" if version else self._urls[server]

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _embedded() -> Iterator[str]:
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster:
        yield cluster.schema_registry_url


@contextmanager
def _srfake() -> Iterator[str]:
    program = go_program(FOLDER, "srfake")
    assert program is not None, "there is no Go"
    [port] = _free_ports(1)
    with _served([str(program), f"127.0.0.1:{port}"], f"http://127.0.0.1:{port}", "/subjects", {}) as url:
        yield url


@contextmanager
def _apicurio() -> Iterator[str]:
    jar = _unpacked(fetch_jars(cache_folder() / "apicurio-3.3.3" / "libs", [_APICURIO], alone=True))
    port, other = _free_ports(2)
    env = {
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "QUARKUS_HTTP_PORT": str(port),
        "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
        "QUARKUS_MANAGEMENT_PORT": str(other),
    }
    command = [_new_java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
    with _served(command, f"http://127.0.0.1:{port}", "/apis/ccompat/v8/subjects", env) as url:
        yield url


@contextmanager
def _served(command: list[str], url: str, path: str, env: Mapping[str, str]) -> Iterator[str]:
    """Run a server, and wait until it answers."""

    def answers() -> bool:
        assert process.running, output.read_text()
        try:
            with urllib.request.urlopen(f"{url}{path}", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        output = Path(folder, "output")
        process = stack.enter_context(GuardedProcess(command, env=env, output=output))
        wait_until(answers, 180, f"{command[0]} answers", 0.2)
        yield url


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        return [stack.enter_context(hold_port("127.0.0.1", 0)).getsockname()[1] for _ in range(count)]


def _unpacked(libs: Path) -> Path:
    """Return the jar to run. The archive is unpacked once."""
    [archive] = libs.glob("*.tar.gz")
    folder = libs.parent / "unpacked"
    with locked(libs.parent / ".lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=libs.parent) as temporary, tarfile.open(archive) as tar:
                fresh = Path(temporary, "unpacked")
                tar.extractall(fresh, filter="data")
                fresh.rename(folder)
    return folder / "quarkus-run.jar"


def _new_java() -> str:
    """Return a Java that Apicurio runs on: that of the PATH, or one beside it."""
    java = shutil.which("java")
    assert java is not None, "there is no Java"
    beside = sorted(Path(java).resolve().parents[2].glob("*/bin/java"), reverse=True)
    for found in (java, *map(str, beside)):
        version = re.search(r'version "(\d+)', what_java_says(found))
        if version is not None and int(version[1]) >= _APICURIOS_JAVA:
            return found
    raise AssertionError(f"there is no Java {_APICURIOS_JAVA} or newer")
