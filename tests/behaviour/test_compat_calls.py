"""Everyday calls, right and wrong, before ``start`` and after ``stop``: the original and our layer have one outcome.

Rules

1. A call is a function of a world, which has the package. Its outcome is a value, or an error. Two errors are equal if
   the class of ours is, or is derived from, a class with the name of the original's.
2. Each call runs first on the original and then on ours, on the same broker, with topics of its own.
3. A call that differs is in ``DIFFERS`` with the reason, which docs/porting.md gives, too. If the outcomes become
   equal, the test fails, and the entry goes.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import warnings
from pathlib import Path
from typing import Any, Final

import pytest

from tests.behaviour.compat_calls_aiokafka import session_of_aiokafka
from tests.behaviour.compat_calls_kafka import session_of_kafka_python
from tests.behaviour.compat_world import AIO, BLOCKING, blocking_outcome, equal, outcome
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster

pytest.importorskip("aiokafka")
pytest.importorskip("kafka")

_STARTED = "a second `start` of a producer"
_NO_PARTITION = "`send` to a partition that does not exist"
_STATES = "a call that does not fit the state of a transaction"
_NO_OFFSET = "a negative offset in `commit`"
#: Calls whose outcome differs, and the beginning of the row of docs/porting.md.
DIFFERS: Final[dict[str, str]] = {
    "stop_a_consumer_twice": "a second `stop` of a consumer",
    "start_a_producer_twice": _STARTED,
    "send_after_stop": "calls after `stop`",
    "send_without_value_and_key": "`send` without key and value",
    "send_to_a_wrong_partition": _NO_PARTITION,
    "send_to_a_negative_partition": _NO_PARTITION,
    "send_with_a_wrong_topic": "`send` to a name that cannot be a topic's",
    "commit_without_a_transaction": _STATES,
    "begin_twice": _STATES,
    "commit_a_negative_offset": _NO_OFFSET,
    "send_nothing": "`send` without key and value",
    "pause_an_unassigned_one": "`pause` and `resume` of a partition that is not assigned",
}


_NO_BYTES: Final = "`send` of a number, or of headers"
#: The same for the calls of a session, while the client works. After ``stop`` all calls of ours may raise
#: ``IllegalStateError``, which is one row.
IN_SESSIONS: Final[dict[str, str]] = {
    "position-not-a-partition": "`position` of a value that is no partition",
    "send-number": _NO_BYTES,
    "send-number-key": _NO_BYTES,
    "send-bad-headers": _NO_BYTES,
    "send-bad-partition": "`send` to a partition that does not exist",
    "send-negative-partition": "`send` to a partition that does not exist",
    "send-topic-number": "`send` to a topic that is no text",
    "send-too-large": "`send` of a record that is too large",
    "start-again": "a second `start` of a producer",
}


_WRONG_TYPES: Final = "an argument of a wrong type: `AttributeError`"
#: The same for sessions of kafka-python, while the client works. After ``close`` all calls of ours may raise
#: ``IllegalStateError``, which is one row.
IN_SESSIONS_OF_KAFKA: Final[dict[str, str]] = {
    "subscribe-set": "`subscribe` to a set of names",
    "assign-numbers": _WRONG_TYPES,
    "assign-text": _WRONG_TYPES,
    "times-text": _WRONG_TYPES,
    "send-text-partition": _WRONG_TYPES,
    "commit-number": "`commit` of a number",
    "commit-negative": "a negative offset in `commit` and",
    "send-header-none": "a header without a value",
    "send-timestamp-negative": "a negative timestamp of a record",
}


def _compare(name: str, theirs: Any, ours: Any) -> None:
    if name in DIFFERS:
        assert not equal(theirs, ours), f"{name} has the original's outcome now: remove it from DIFFERS"
    else:
        assert equal(theirs, ours), f"the original {theirs!r}, ours {ours!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", AIO)
def test_a_call_of_aiokafka(cluster: Cluster, name: str) -> None:
    async def both() -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                await outcome(AIO[name], package, cluster) for package in ("aiokafka", "pyconsumer.compat.aiokafka")
            ]

    _compare(name, *asyncio.run(both()))


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKING)
def test_a_call_of_kafka_python(cluster: Cluster, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _compare(
            name,
            *(blocking_outcome(BLOCKING[name], package, cluster) for package in ("kafka", "pyconsumer.compat.kafka")),
        )


def test_a_hundred_calls_are_compared() -> None:
    assert len(AIO) + len(BLOCKING) >= 100
    assert DIFFERS.keys() <= {*AIO, *BLOCKING}
    page = (Path(__file__).parents[2] / "docs" / "porting.md").read_text(encoding="utf-8")
    assert [row for row in DIFFERS.values() if f"| {row}" not in page] == []
    assert [words for words in {**IN_SESSIONS, **IN_SESSIONS_OF_KAFKA}.values() if words not in page] == []
    assert "| calls after `close` answer from memory" in page
    assert "| calls after `stop` answer from memory" in page


def _same(theirs: Any, ours: Any) -> bool:
    """Return whether outcomes agree. Our errors may have more classes than theirs."""
    if isinstance(theirs, set) and isinstance(ours, set):
        return bool(theirs & ours)
    return bool(theirs == ours)


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["AIOKafkaConsumer", "AIOKafkaProducer"])
async def test_sessions_of_aiokafka_have_the_same_outcomes(kind: str, cluster: Cluster, make_topic: Any) -> None:
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    outcomes = []
    for name in ("aiokafka", "pyconsumer.compat.aiokafka"):
        topic = make_topic()
        fill(cluster, topic, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = await session_of_aiokafka(importlib.import_module(name), kind, cluster.bootstrap_servers, topic)
        outcomes.append({key: _renamed(value, topic) for key, value in found.items()})
    theirs, ours = outcomes
    different = {key: (theirs[key], ours[key]) for key in theirs if not _same(theirs[key], ours[key])}
    unknown = {
        key: value
        for key, value in different.items()
        if key.partition(" ")[2] not in IN_SESSIONS
        and not (key.startswith("stopped ") and "IllegalStateError" in value[1])
    }
    assert unknown == {}
    assert {"IllegalStateError", "AssertionError"} <= ours["started start-again"] & ours["stopped start-again"]
    assert ours["stop-before-start"] is ours["stop-again-before-start"] is ours["stopped stop-again"] is None


def _renamed(value: Any, topic: str) -> Any:
    return (
        re.sub(r"timestamp=\d{6,}", "timestamp=T", value.replace(topic, "TOPIC")) if isinstance(value, str) else value
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["consumer", "member", "producer"])
def test_sessions_of_kafka_python_have_the_same_outcomes(kind: str, cluster: Cluster, make_topic: Any) -> None:
    found = []
    for name in ("kafka", "pyconsumer.compat.kafka"):
        topic = make_topic()
        fill(cluster, topic, 5)
        found.append(session_of_kafka_python(importlib.import_module(name), kind, cluster.bootstrap_servers, topic))
    theirs, ours = found
    different = {call for call in theirs if not _same_calls(theirs[call], ours[call])}
    closed = {call for call in different if call.startswith("closed ")} - {"closed assigned"}
    assert [(call, ours[call]) for call in closed if "IllegalStateError" not in ours[call]] == []
    assert {call: (theirs[call], ours[call]) for call in different - closed - {"closed assigned"}} == {
        call: (theirs[call], ours[call]) for call in (f"open {name}" for name in IN_SESSIONS_OF_KAFKA) if call in theirs
    }


def _same_calls(theirs: Any, ours: Any) -> bool:
    """Return whether outcomes agree. An error of ours has the original's class among its own."""
    if isinstance(theirs, list) and isinstance(ours, list) and "BaseException" in theirs:
        return theirs[0] in ours
    return bool(theirs == ours)
