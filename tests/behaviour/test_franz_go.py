"""Groups of franz-go's members, on every broker: they must see the same. Left out where there is no Go."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.go import franz_program
from tests.support.process import run

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]  # Go builds the program first

MakeTopic = Callable[..., str]
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
PARTITIONS = 4


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        found = franz_program("group")
    except AssertionError as error:
        pytest.skip(f"franz-go cannot be built here: {error}")
    if found is None:
        pytest.skip("there is no Go")
    return found


def play(program: Path, cluster: Cluster, topic: str, strategy: str, *, static: bool) -> dict[str, Any]:
    given = {
        "servers": cluster.bootstrap_servers,
        "topic": topic,
        "partitions": PARTITIONS,
        "group": f"g-{topic}",
        "strategy": strategy,
        "static": static,
    }
    done = run([str(program), json.dumps(given)], timeout_s=200).check()
    found: dict[str, Any] = json.loads(done.stdout)
    print(topic, strategy, found)
    return found


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_members_come_and_go_and_each_record_is_read_once(
    program: Path, cluster: Cluster, make_topic: MakeTopic, static: bool
) -> None:
    with ThreadPoolExecutor(len(STRATEGIES)) as pool:
        plays = {
            strategy: pool.submit(play, program, cluster, make_topic(PARTITIONS), strategy, static=static)
            for strategy in STRATEGIES
        }
    for strategy, done in plays.items():
        found = done.result()
        assert found["sent"] == found["read"] > 60, strategy
        assert found["again"] == 0, (strategy, found["events"])
        events = found["events"]
        if not static:
            assert events[-1] == f"two revoked {PARTITIONS}", (strategy, events)
        else:  # nobody else hears that a static member was away
            back = events.index("one comes back")
            assert events[back + 1] == "one assigned 2", (strategy, events)
