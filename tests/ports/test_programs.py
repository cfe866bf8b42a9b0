"""Each program prints the same lines with the original and with our layer, in every environment and both ways.

Rules

1. The original's lines are those of this session, on the same broker, from the environment that has the original.
2. Our runs load no file of an original, whether it is installed or not.
3. On the embedded broker each program runs in each environment, by the command and by ``install``. On Apache Kafka it
   runs once, by the command, in the environment without originals.
"""

from __future__ import annotations

import json
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ports.environments import ENVIRONMENTS, python_of
from tests.support.cluster import Cluster
from tests.support.process import Finished, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_FOLDER: Final = Path(__file__).parent
_FASTSTREAM: Final = (
    "publish_and_subscribe",
    "batches",
    "patterns",
    "acknowledgements",
    "nack_on_error",
    "workers",
    "transactions",
    "creation",
    "reading_by_hand",
    "requests",
    "in_memory",
    "application",
    "fastapi",
    "prometheus",
    "opentelemetry",
)
#: Program, scene, and the environment whose original it is written for.
PROGRAMS: Final = [
    *(("faststream_scenes", name, "with") for name in _FASTSTREAM),
    ("jobs_of_kq", "", "with"),
    ("spans_of_kafka", "", "with"),
    ("spans_of_aiokafka", "", "with"),
    ("spans_of_elastic", "", "old"),
    ("schemas_of_a_registry", "", "old"),
]


def _names(program: tuple[str, str, str]) -> str:
    return program[1] or program[0]


def _lines(done: Finished, prefix: str, address: str) -> list[Any]:
    text = done.check().stdout.replace(prefix, "PREFIX").replace(address, "ADDRESS")
    return [json.loads(line) for line in text.splitlines() if line.startswith("[") and '"version"' not in line]


def _run(cluster: Cluster, python: str, way: list[str], program: tuple[str, str, str]) -> tuple[list[Any], list[str]]:
    """Return the lines of a program, and the modules of originals that it loaded."""
    prefix = f"p{uuid.uuid4().hex[:8]}"
    address = cluster.bootstrap_servers.split(",")[0]
    path = str(_FOLDER / "programs" / f"{program[0]}.py")
    done = run([python, "-W", "ignore", *way, path, address, program[1], prefix], timeout_s=120)
    loaded = [line for line in done.stderr.splitlines() if line.startswith("originals: ")]
    lines = _lines(done, prefix, address)
    return lines, json.loads(loaded[-1].removeprefix("originals: "))


@cache
def _original(cluster: Cluster, program: tuple[str, str, str]) -> list[Any]:
    lines, loaded = _run(cluster, python_of(program[2]), [str(_FOLDER / "look.py")], program)
    assert loaded, "the original was not loaded"
    assert lines
    return lines


def _way(name: str) -> list[str]:
    look = str(_FOLDER / "look.py")
    if name == "install":
        return [look, "--install", "aiokafka,kafka"]
    return ["-m", "pyconsumer.compat", "aiokafka,kafka", look]


@pytest.mark.parametrize("program", PROGRAMS, ids=_names)
@pytest.mark.parametrize("environment", sorted(ENVIRONMENTS))
@pytest.mark.parametrize("way", ["command", "install"])
def test_a_program_has_the_originals_outcome(
    embedded_cluster: Cluster, program: tuple[str, str, str], environment: str, way: str
) -> None:
    lines, loaded = _run(embedded_cluster, python_of(environment), _way(way), program)
    assert loaded == []
    assert lines == _original(embedded_cluster, program)


@pytest.mark.kafka
@pytest.mark.parametrize("program", PROGRAMS, ids=_names)
def test_a_program_has_the_originals_outcome_on_apache_kafka(
    apache_cluster: Cluster, program: tuple[str, str, str]
) -> None:
    lines, loaded = _run(apache_cluster, python_of("without"), _way("command"), program)
    assert loaded == []
    assert lines == _original(apache_cluster, program)
