"""Each program prints the same lines with the original and with our layer, in every environment and both ways.

Rules

1. The original's lines are those of this session, on the same broker, from the environment that has the original. It
   runs once for each broker.
2. Our runs load no file of an original, whether it is installed or not.
3. On both brokers each program runs in each environment, by the command and by ``install``.
4. The scenes of one program run at the same time in one process, for to start one takes longer than a scene. A scene
   that fails says so in a line of its own, and the others continue.
5. A session has one broker of each kind: all tests on it run in one process of pytest-xdist.
6. Lines may differ only where ``_MAY_DIFFER`` names a row of docs/porting.md.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.benchmarks.measure import ROOT
from tests.ports.environments import ENVIRONMENTS, python_of
from tests.support.cluster import Cluster
from tests.support.process import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

_FOLDER: Final = Path(__file__).parent
_LOOK: Final = str(_FOLDER / "look.py")
#: Longer than the deadlines inside the programs, which have the reason in their lines.
_LONG_S: Final = 400.0
_WAYS: Final = {
    "original": [_LOOK],
    "install": [_LOOK, "--install", "aiokafka,kafka"],
    "command": ["-m", "pyconsumer.compat", "aiokafka,kafka", _LOOK],
}
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
_CASES_OF_AIOKAFKA: Final = (
    "start_on_a_new_topic",
    "start_on_an_empty_topic",
    "start_without_partitions",
    "start_with_a_pattern",
    "records",
    "errors",
    "listener_that_raises",
    "settings",
    "standby",
    "slow_handler",
    "values",
)
#: Program and scenes, and the environment whose original it is written for.
_PROGRAMS: Final = {
    "faststream_scenes": (_FASTSTREAM, "with"),
    "streams_of_kstreams": (("kstreams",), "with"),
    "jobs_of_kq": (("kq",), "with"),
    "spans_of_kafka": (("opentelemetry_of_kafka",), "with"),
    "spans_of_aiokafka": (("opentelemetry_of_aiokafka",), "with"),
    "spans_of_elastic": (("elastic_apm",), "old"),
    "schemas_of_a_registry": (("schema_registry",), "old"),
    "cases_of_aiokafka": (_CASES_OF_AIOKAFKA, "with"),
    "cases_of_kafka": (("kafka_values", "kafka_settings"), "with"),
}
_OUR_WORDS: Final = "an error's `description`, and the text after the name and code in its `str`"
_VIEWS: Final = "internal names with an underscore"
_OUR_MODULES: Final = (
    "`import aiokafka.errors` imports the module `pyconsumer.compat.aiokafka.errors` under a second name"
)
#: The beginnings of the lines that may differ, and a row (or a sentence) of docs/porting.md that says so.
_MAY_DIFFER: Final = {
    "records": {"hash": _OUR_MODULES, "class[...]": _OUR_MODULES},
    "errors": {"getone: except ConsumerStoppedError": _OUR_WORDS, "text of ProducerFenced": _OUR_WORDS},
    "settings": {
        "producer {'transactional_id': 'PREFIX', 'acks': 1}": "settings that do not fit together: `ValueError`",
        "stop of consumer": "`stop` of a consumer without a group, at once after `start`: `CancelledError`",
    },
    "values": {
        "class of producer": _VIEWS,
        "producer.client._client_id": "a client id that is not given",
        "consumer._fetcher": _VIEWS,
    },
    "kafka_values": {
        "class of": "`KafkaClient`, `BrokerConnection`",
        "bootstrap_connected": "`bootstrap_connected` is false after the first connection",
    },
}
_SCENES: Final = [(program, scene) for program, (scenes, _) in _PROGRAMS.items() for scene in scenes]


@dataclass(frozen=True)
class _Outcome:
    """A run of a program.

    Attributes:
        lines: the printed lines of each scene.
        loaded: the modules of originals that it loaded.
        errors: its output for people.
    """

    lines: dict[str, list[Any]]
    loaded: list[str]
    errors: str


@cache
def _outcome(cluster: Cluster, program: str, environment: str, way: str) -> _Outcome:
    """Run a program with all its scenes, once in a session."""
    prefix = f"p{uuid.uuid4().hex[:8]}"
    address = cluster.bootstrap_servers.split(",")[0]
    scenes = _PROGRAMS[program][0]
    path = str(_FOLDER / "programs" / f"{program}.py")
    done = run(
        [python_of(environment), "-W", "ignore", *_WAYS[way], path, address, ",".join(scenes), prefix],
        timeout_s=_LONG_S,
    ).check()
    loaded = [line for line in done.stderr.splitlines() if line.startswith("originals: ")]
    lines: dict[str, list[Any]] = {scene: [] for scene in scenes}
    for line in done.stdout.replace(prefix, "PREFIX").replace(address, "ADDRESS").splitlines():
        if line.startswith("["):
            scene, *found = json.loads(line)
            lines[scene].append(found)
    return _Outcome(lines, json.loads(loaded[-1].removeprefix("originals: ")), done.stderr)


def _original(cluster: Cluster, program: str, scene: str) -> list[Any]:
    found = _outcome(cluster, program, _PROGRAMS[program][1], "original")
    assert found.loaded, "the original was not loaded"
    assert found.lines[scene][-1] == ["done"], f"{found.lines[scene]}\n{found.errors}"
    return found.lines[scene]


@pytest.mark.parametrize("cluster_kind", ["embedded", pytest.param("apache", marks=pytest.mark.kafka)], indirect=True)
@pytest.mark.parametrize("way", ["command", "install"])
@pytest.mark.parametrize("environment", sorted(ENVIRONMENTS))
@pytest.mark.parametrize(("program", "scene"), _SCENES, ids=[scene for _, scene in _SCENES])
def test_a_program_has_the_originals_outcome(
    cluster: Cluster, program: str, scene: str, environment: str, way: str
) -> None:
    ours = _outcome(cluster, program, environment, way)
    assert ours.loaded == []
    found, expected = ours.lines[scene], _original(cluster, program, scene)
    assert _that_must_be_equal(scene, found) == _that_must_be_equal(scene, expected), ours.errors


def _that_must_be_equal(scene: str, lines: list[Any]) -> list[Any]:
    """Return the lines of a scene. Of a line that may differ only the name stays."""
    may_differ = tuple(_MAY_DIFFER.get(scene, ()))
    return [[line[0]] if str(line[0]).startswith(may_differ) else line for line in lines]


def test_each_difference_has_a_row() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "porting.md").read_text(encoding="utf-8"))
    rows = {row for of_scene in _MAY_DIFFER.values() for row in of_scene.values()}
    assert [row for row in rows if row not in page] == []
