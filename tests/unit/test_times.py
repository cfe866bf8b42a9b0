"""Every time that an application passes to a call is checked by one function, whose error says how to write it."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, RecordProgress, TopicPartition
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.clock import checked_timestamp, seconds_of
from pyconsumer.quotas import QuotaEntity
from pyconsumer.testing import AsyncMockConsumer, MockConsumer, MockProducer, make_record

T0 = TopicPartition("t", 0)
NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}

WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "text": ("5", TypeError, r"must be a number of milliseconds, not '5'"),
    "nan": (math.nan, ValueError, r"must be a number of milliseconds, not nan"),
    "negative": (-1, ValueError, r"must not be negative: -1"),
    "bool": (True, TypeError, r"must be a number of milliseconds, not True"),
    "timedelta": (timedelta(seconds=5), TypeError, r"not datetime\.timedelta\(seconds=5\): write 5000$"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_time_that_is_none(wrong: str) -> None:
    given, error, text = WRONG[wrong]
    with pytest.raises(error, match=f"^timeout_ms .*{text}"):
        seconds_of(given)


def test_numbers_of_all_kinds_are_times() -> None:
    numpy = pytest.importorskip("numpy")
    for given in (1500, 1500.0, Decimal(1500), Fraction(1500), numpy.int32(1500), numpy.float32(1500)):
        assert seconds_of(given) == 1.5
    assert seconds_of(0) == 0
    assert seconds_of(math.inf) == seconds_of(10**400) == seconds_of(Decimal(10**400)) == 1e9, "31 years"
    with pytest.raises(TypeError):
        seconds_of(numpy.array([1, 2]))


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (-1, ValueError, "must not be negative: -1"),
        (2**63, ValueError, r"must be less than 2\*\*63: 9223372036854775808"),
        ("now", TypeError, "must be whole milliseconds since 1970, not 'now'"),
        (1.5, TypeError, "must be whole milliseconds since 1970, not 1.5"),
        (True, TypeError, "must be whole milliseconds since 1970, not True"),
        (datetime(2026, 1, 1, tzinfo=UTC), TypeError, "whole milliseconds since 1970, .*: write 1767225600000$"),
    ],
)
def test_a_point_in_time_that_is_none(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        checked_timestamp(given)


def test_whole_numbers_of_all_kinds_are_points_in_time() -> None:
    numpy = pytest.importorskip("numpy")
    assert checked_timestamp(numpy.int64(7)) == 7
    assert type(checked_timestamp(numpy.int64(7))) is int
    assert checked_timestamp(2**63 - 1) == 2**63 - 1


# -- each call of each client ----------------------------------------------------------------------------------------

_ARGUMENTS: dict[str, Any] = {
    "partition": T0,
    "partitions": [T0],
    "offsets": {T0: 1},
    "timestamps": {T0: 1},
    "topic": "t",
    "group_id": "g",
    "group_ids": ["g"],
    "names": ["t"],
    "topics": ["t"],
    "new_topics": ["t"],
    "topic_partitions": {"t": 2},
    "resources": [],
    "changes": {},
    "configs": {},
    "transactional_ids": ["x"],
    "start_offset": 0,
    "group_metadata": "g",
    "acls": ["alice: READ topic t"],
    "filters": ["alice: READ topic t"],
    "alterations": [],
    "hmac": b"x",
}
_OF_CALL: dict[tuple[str, str], Any] = {
    ("list_offsets", "partitions"): {T0: 1},
    ("first_records", "offsets"): {T0: 1},
    ("alter_client_quotas", "alterations"): {QuotaEntity(user="u"): {"producer_byte_rate": 1.0}},
}


def made(kind: Any) -> Any:
    if kind in (KafkaConsumer, AsyncKafkaConsumer):
        consumer = kind(group_id="g", **NOWHERE)
        consumer.assign([T0])
        return consumer
    if kind in (KafkaProducer, AsyncKafkaProducer):
        return kind(transactional_id="x", **NOWHERE)
    if kind in (MockConsumer, AsyncMockConsumer):
        consumer = kind("earliest", group_id="g")
        consumer.assign([T0])
        return consumer
    return kind() if kind is MockProducer else kind(**NOWHERE)


def calls_with_a_timeout(kind: Any) -> list[str]:
    return [
        name
        for name, method in inspect.getmembers(kind, callable)
        if not name.startswith("_") and "timeout_ms" in inspect.signature(method).parameters
    ]


_CLIENTS = [
    KafkaConsumer,
    KafkaProducer,
    KafkaAdminClient,
    AsyncKafkaConsumer,
    AsyncKafkaProducer,
    AsyncKafkaAdminClient,
]


@pytest.mark.parametrize(("kind", "call"), [(kind, call) for kind in _CLIENTS for call in calls_with_a_timeout(kind)])
def test_every_call_rejects_an_invalid_time_before_any_effect(kind: Any, call: str) -> None:
    async def run(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
        outcome = method(**arguments)
        if inspect.isawaitable(outcome):
            await outcome

    async def reject(given: Any, error: type[Exception], text: str) -> None:
        client = made(kind)
        method = getattr(client, call)
        required = [
            name
            for name, parameter in inspect.signature(method).parameters.items()
            if parameter.default is inspect.Parameter.empty and parameter.kind not in (2, 4)
        ]
        arguments = {name: _OF_CALL.get((call, name)) or _ARGUMENTS[name] for name in required}
        arguments["timeout_ms"] = given
        try:
            with pytest.raises(error, match=text):
                await run(method, arguments)
        finally:
            await run(client.close, {} if "Admin" in kind.__name__ else {"timeout_ms": 0})

    async def program() -> None:
        for wrong in WRONG.values():
            await reject(*wrong)

    asyncio.run(program())


def test_other_functions_reject_it_too() -> None:
    progress = RecordProgress()
    progress.add(make_record("t", b"x"))
    with pytest.raises(TypeError, match="must be a number of milliseconds, not '5'"):
        progress.wait(timeout_ms="5")  # type: ignore[arg-type]
    with MockConsumer("earliest") as consumer:
        consumer.assign([T0])
        with pytest.raises(ValueError, match="must be a number of milliseconds, not nan"):
            consumer.poll(math.nan)
        with pytest.raises(ValueError, match=r"less than 2\*\*63"):
            consumer.offsets_for_times({T0: 2**64})


def test_offsets_for_times() -> None:
    consumer, admin = KafkaConsumer(**NOWHERE), KafkaAdminClient(**NOWHERE)  # type: ignore[arg-type]
    with consumer, admin:
        for ask in (consumer.offsets_for_times, admin.list_offsets):
            with pytest.raises(ValueError, match=r"^the time for t-0 must be less than 2\*\*63: 18446744073709551616"):
                ask({T0: 2**64}, timeout_ms=100)  # type: ignore[operator]
            with pytest.raises(TypeError, match=r"^the time for t-0 must be whole milliseconds since 1970, not 'now'"):
                ask({T0: "now"}, timeout_ms=100)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0,), r"close\(\) takes its time by name, since other clients count in seconds: write close\(timeout_ms=0\)$"),
        ((5,), r"close\(timeout_ms=5000\) means 5 s, and close\(timeout_ms=5\) means 5 ms$"),
        (("x",), r"since other clients count in seconds$"),
    ],
)
def test_a_producers_time_without_its_name(given: Any, text: str) -> None:
    producer = KafkaProducer(**NOWHERE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=text):
        producer.close(*given)
    producer.close(timeout_ms=0)


def test_kafka_pythons_seconds() -> None:
    from pyconsumer.compat.kafka import KafkaProducer as TheirProducer

    producer = TheirProducer(api_version=(2, 6), **NOWHERE)
    for given, error, text in (
        ("5", TypeError, "timeout must be a number of seconds, not '5'"),
        (timedelta(seconds=5), TypeError, "write 5$"),
        (-1, ValueError, "timeout must not be negative: -1"),
    ):
        with pytest.raises(error, match=text):
            producer.flush(timeout=given)
    producer.close(timeout=0)
