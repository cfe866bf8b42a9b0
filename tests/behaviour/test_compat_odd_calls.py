"""Everyday calls of aiokafka, right and wrong ones, run with the original and with ours.

Each row is run while the client works, and after its end. Outcomes are compared: the value, or the class of the error.
Differences that remain are in :data:`DIFFERENT`, with words of the row of docs/porting.md that has them. After ``stop``
all calls of ours may raise ``IllegalStateError``, which is one row.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster

LONGEST_S = 2.0


def _tp(package: Any, topic: str, number: int = 0) -> Any:
    return package.TopicPartition(topic, number)


_Call = Callable[[Any, Any, str], Any]

#: Calls of a consumer without a group, in this order. The topic has 5 records in its one partition.
CONSUMER: Final[dict[str, _Call]] = {
    "assignment": lambda c, k, t: c.assignment(),
    "subscription": lambda c, k, t: c.subscription(),
    "paused-none": lambda c, k, t: set(c.paused()) if hasattr(c, "paused") else None,
    "subscribe-nothing": lambda c, k, t: c.subscribe(),
    "subscribe-both": lambda c, k, t: c.subscribe([t], pattern=t),
    "subscribe-bad-pattern": lambda c, k, t: c.subscribe(pattern="("),
    "subscribe-bad-listener": lambda c, k, t: c.subscribe([t], listener=object()),
    "subscribe-number": lambda c, k, t: c.subscribe(5),
    "position-unassigned": lambda c, k, t: c.position(_tp(k, t)),
    "seek-unassigned": lambda c, k, t: c.seek(_tp(k, t), 0),
    "pause-unassigned": lambda c, k, t: c.pause(_tp(k, t)),
    "highwater-unassigned": lambda c, k, t: c.highwater(_tp(k, t)),
    "commit-without-group": lambda c, k, t: c.commit(),
    "committed-without-group": lambda c, k, t: c.committed(_tp(k, t)),
    "assign": lambda c, k, t: c.assign([_tp(k, t)]),
    "assigned": lambda c, k, t: set(c.assignment()) == {_tp(k, t)},
    "subscribe-after-assign": lambda c, k, t: c.subscribe([t]),
    "position-not-a-partition": lambda c, k, t: c.position("x"),
    "seek": lambda c, k, t: c.seek(_tp(k, t), 2),
    "position": lambda c, k, t: c.position(_tp(k, t)),
    "seek-negative": lambda c, k, t: c.seek(_tp(k, t), -1),
    "seek-text": lambda c, k, t: c.seek(_tp(k, t), "1"),
    "seek-other": lambda c, k, t: c.seek(_tp(k, t, 7), 1),
    "pause": lambda c, k, t: c.pause(_tp(k, t)),
    "paused": lambda c, k, t: set(c.paused()) == {_tp(k, t)},
    "resume": lambda c, k, t: c.resume(_tp(k, t)),
    "partitions-of-known": lambda c, k, t: c.partitions_for_topic(t),
    "partitions-of-unknown": lambda c, k, t: c.partitions_for_topic(t + "-none"),
    "topics": lambda c, k, t: _names(c.topics(), t),
    "beginning": lambda c, k, t: c.beginning_offsets([_tp(k, t)]),
    "end": lambda c, k, t: c.end_offsets([_tp(k, t)]),
    "times": lambda c, k, t: c.offsets_for_times({_tp(k, t): 0}),
    "times-negative": lambda c, k, t: c.offsets_for_times({_tp(k, t): -1}),
    "seek-to-end": lambda c, k, t: c.seek_to_end(_tp(k, t)),
    "position-at-end": lambda c, k, t: c.position(_tp(k, t)),
    "seek-to-beginning": lambda c, k, t: c.seek_to_beginning(_tp(k, t)),
    "position-at-beginning": lambda c, k, t: c.position(_tp(k, t)),
    "seek-to-end-unassigned": lambda c, k, t: c.seek_to_end(_tp(k, t, 7)),
    "unsubscribe": lambda c, k, t: _no_result(c.unsubscribe()),
    "assignment-after": lambda c, k, t: set(c.assignment()),
}
#: Calls of a producer.
PRODUCER: Final[dict[str, _Call]] = {
    "partitions-for": lambda c, k, t: c.partitions_for(t),
    "send-number": lambda c, k, t: c.send(t, 5),
    "send-number-key": lambda c, k, t: c.send(t, b"v", key=5),
    "send-bad-partition": lambda c, k, t: c.send(t, b"v", partition=77),
    "send-negative-partition": lambda c, k, t: c.send(t, b"v", partition=-1),
    "send-topic-number": lambda c, k, t: c.send(5, b"v"),
    "send-bad-headers": lambda c, k, t: c.send(t, b"v", headers=[("a", 1)]),
    "send-too-large": lambda c, k, t: c.send(t, b"v" * 2_000_000),
    "begin-without-id": lambda c, k, t: c.begin_transaction(),
    "commit-without-id": lambda c, k, t: c.commit_transaction(),
    "abort-without-id": lambda c, k, t: c.abort_transaction(),
    "send-good": lambda c, k, t: _no_result(c.send(t, b"v")),
    "flush": lambda c, k, t: _no_result(c.flush()),
}
#: Reads, at the end of a consumer.
_READS: Final[dict[str, _Call]] = {
    "getone": lambda c, k, t: c.getone(),
    "getmany": lambda c, k, t: c.getmany(timeout_ms=10),
    "getmany-zero": lambda c, k, t: c.getmany(timeout_ms=10, max_records=0),
    "iterate": lambda c, k, t: c.__aiter__().__anext__(),
    "stop-again": lambda c, k, t: c.stop(),
    "start-again": lambda c, k, t: c.start(),
}

_UNASSIGNED: Final = "with no assigned partitions"
_NO_BYTES: Final = "`send` of a number, or of headers"
#: Differences that remain while the client works, by call, with words of the row that names them.
DIFFERENT: Final[dict[str, str]] = {
    "seek-unassigned": _UNASSIGNED,
    "pause-unassigned": _UNASSIGNED,
    "highwater-unassigned": _UNASSIGNED,
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
_PAGE: Final = Path(__file__).parents[2] / "docs" / "porting.md"


async def _names(found: Any, topic: str) -> bool:
    return topic in (await found if inspect.isawaitable(found) else found)


async def _no_result(found: Any) -> None:
    if inspect.isawaitable(found):
        await found


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return value if isinstance(value, (int, str, bool, type(None))) else "a value"


async def _outcome(call: _Call, client: Any, package: Any, topic: str) -> Any:
    try:
        async with asyncio.timeout(LONGEST_S):
            found = call(client, package, topic)
            return _shown(await found if inspect.isawaitable(found) else found)
    except TimeoutError:
        return "waits"
    except Exception as error:
        return {each.__name__ for each in type(error).__mro__} - {"object", "BaseException", "Exception", "KafkaError"}


_LAST_OF_PRODUCER: Final[dict[str, _Call]] = {
    "stop-again": lambda c, k, t: c.stop(),
    "start-again": lambda c, k, t: c.start(),
}


async def _of_aiokafka(package: Any, kind: str, address: str, topic: str) -> dict[str, Any]:
    make = getattr(package, kind)
    calls = {**CONSUMER, **_READS} if kind == "AIOKafkaConsumer" else {**PRODUCER, **_LAST_OF_PRODUCER}
    found: dict[str, Any] = {}
    never = make(bootstrap_servers=address)
    found["stop-before-start"] = await _outcome(lambda c, k, t: c.stop(), never, package, topic)
    found["stop-again-before-start"] = await _outcome(lambda c, k, t: c.stop(), never, package, topic)
    client = make(bootstrap_servers=address)
    await client.start()
    for name, call in calls.items():
        if name not in ("getone", "iterate", "stop-again", "getmany"):
            found[f"started {name}"] = await _outcome(call, client, package, topic)
    found["stop"] = await _outcome(lambda c, k, t: c.stop(), client, package, topic)
    for name, call in calls.items():
        found[f"stopped {name}"] = await _outcome(call, client, package, topic)
    return found


def _same(theirs: Any, ours: Any) -> bool:
    """Return whether outcomes agree. Our errors may have more classes than theirs."""
    if isinstance(theirs, set) and isinstance(ours, set):
        return bool(theirs & ours)
    return bool(theirs == ours)


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["AIOKafkaConsumer", "AIOKafkaProducer"])
async def test_calls_of_aiokafka_have_the_same_outcomes(kind: str, cluster: Cluster, make_topic: Any) -> None:
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    outcomes = []
    for name in ("aiokafka", "pyconsumer.compat.aiokafka"):
        topic = make_topic()
        fill(cluster, topic, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = await _of_aiokafka(importlib.import_module(name), kind, cluster.bootstrap_servers, topic)
        outcomes.append({key: _renamed(value, topic) for key, value in found.items()})
    theirs, ours = outcomes
    different = {key: (theirs[key], ours[key]) for key in theirs if not _same(theirs[key], ours[key])}
    unknown = {
        key: value
        for key, value in different.items()
        if key.partition(" ")[2] not in DIFFERENT
        and not (key.startswith("stopped ") and "IllegalStateError" in value[1])
    }
    assert unknown == {}
    assert {"IllegalStateError", "AssertionError"} <= ours["started start-again"] & ours["stopped start-again"]
    assert ours["stop-before-start"] is ours["stop-again-before-start"] is ours["stopped stop-again"] is None


def test_the_page_has_the_differences() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    assert [words for words in DIFFERENT.values() if words not in page] == []
    assert "| calls after `stop` answer from memory" in page


def _renamed(value: Any, topic: str) -> Any:
    return (
        re.sub(r"timestamp=\d{6,}", "timestamp=T", value.replace(topic, "TOPIC")) if isinstance(value, str) else value
    )
