"""Clients of other languages use topics, groups, offsets and transactions: on both brokers they see the same.

Not part of a bare ``tox``, as they are fetched and compiled first: ``tox -e clients``. A test without Go or npm fails.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tests.support.clients as programs
from tests.support.cluster import Cluster
from tests.support.go import go_program
from tests.support.java import cache_folder
from tests.support.process import run

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]  # what they need is fetched first

_FOLDER = Path(programs.__file__).parent


def _result_of(command: list[str], *, cwd: Path | None = None) -> dict[str, Any]:
    done = run(command, cwd=cwd, timeout_s=240).check()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _built(name: str) -> str:
    program = go_program(_FOLDER / "go", name)
    assert program is not None, "there is no Go"
    return str(program)


def _first_address(cluster: Cluster) -> str:
    return cluster.bootstrap_servers.split(",")[0]


@pytest.fixture(scope="module")
def kafkajs() -> Path:
    """The folder with the program and its client, which npm has put there."""
    npm = shutil.which("npm")
    assert npm is not None, "there is no npm"
    folder = cache_folder() / "kafkajs"
    shutil.copytree(_FOLDER / "kafkajs", folder, dirs_exist_ok=True)
    run([npm, "install", "--silent", "--no-package-lock"], cwd=folder, timeout_s=300).check()
    return folder


@pytest.mark.parametrize("version", ["2.1.0", "3.6.0", "4.0.0", "4.3.1"])
def test_sarama(cluster: Cluster, topic_name: str, version: str) -> None:
    seen = _result_of([_built("sarama"), _first_address(cluster), version, topic_name])

    assert seen == {
        "retention as set": True,
        "read": 501,
        "aborted": 0,
        "committed": 1,
        "twice": 0,
        "group": "Stable",
        "listed": "consumer",
        "offsets": True,
        "offset of a transaction": 1,
    }


def test_kafka_go(cluster: Cluster, topic_name: str) -> None:
    seen = _result_of([_built("segmentio"), _first_address(cluster), topic_name])

    assert seen == {"read": 300, "committed": 300}


def test_kafkajs(cluster: Cluster, topic_name: str, kafkajs: Path) -> None:
    seen = _result_of(["node", "program.js", _first_address(cluster), topic_name], cwd=kafkajs)

    assert seen == {
        "created": True,
        "listed": True,
        "brokers": 1,
        "retention": "3600000",
        "ends": 1001,
        "members": 2,
        "committed": 1001,
        "offsetOfTransaction": "7",
        "aborted": False,
        "committedIsRead": True,
        "first": "5",
        "deleted": True,
    }
