"""Settings of workers: messages name the setting and the refused value."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, KafkaShareConsumer
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import ConfigurationError
from pyconsumer.workers import AsyncWorkers, DeadLetters, Retry, Workers

NOWHERE = "127.0.0.1:1"  # no test here connects


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"attempts": 0}, "attempts must be a whole number of at least 1, not 0"),
        ({"backoff_ms": -1}, "backoff_ms must not be negative"),
        ({"jitter": 2}, "jitter must be a number from 0 to 1, not 2"),
        ({"give_up_on": ValueError}, "give_up_on must be a tuple of exception classes"),
        ({"give_up_on": (KeyboardInterrupt,)}, "give_up_on must be a tuple of exception classes"),
    ],
)
def test_a_retry_out_of_range_is_refused(values: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Retry(**values)


def test_pauses_double_up_to_the_longest() -> None:
    retry = Retry(backoff_ms=100, max_backoff_ms=350, jitter=0)
    assert [retry.pause(n) for n in (1, 2, 3, 4, 5_000)] == [0.1, 0.2, 0.35, 0.35, 0.35]
    spread = {Retry(backoff_ms=100, jitter=0.5).pause(1) for _ in range(100)}
    assert 0.05 <= min(spread) < max(spread) <= 0.15


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"group_id": None}, "Workers need a consumer with a group_id"),
        ({"enable_auto_commit": True}, "Workers need a consumer with enable_auto_commit=False"),
    ],
)
def test_a_consumer_that_does_not_fit_is_refused(more: Any, problem: str) -> None:
    settings = {"group_id": "g", "enable_auto_commit": False, "bootstrap_servers": NOWHERE} | more
    with KafkaConsumer(**settings) as consumer, pytest.raises(ConfigurationError, match=problem):
        Workers(consumer, print)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"order": "topic"}, "order must be one of 'key', 'partition', None, not 'topic'"),
        ({"run_in": "tasks"}, "run_in must be one of 'threads', 'processes', 'inline', not 'tasks'"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, not 0"),
        ({"on_revoke": True}, "on_revoke must be one of 'wait', 'abandon', not True"),
        ({"retry": 5}, "retry must be a Retry, not 5"),
        ({"dead_letters": "dead"}, "dead_letters must be a DeadLetters, not 'dead'"),
        ({"max_buffered": 0}, "max_buffered must be a whole number of at least 1, not 0"),
        ({"timeout_ms": "1 s"}, "timeout_ms must be a number of milliseconds, not '1 s'"),
        ({"close_timeout_ms": -1}, "close_timeout_ms must not be negative: -1"),
        ({"revoke_timeout_ms": -1}, "revoke_timeout_ms must not be negative: -1"),
        ({"revoke_timeout_ms": "1 s"}, "revoke_timeout_ms must be a number of milliseconds, not '1 s'"),
        ({"producer": "invoices"}, "the producer of these workers must be a KafkaProducer, not 'invoices'"),
    ],
)
def test_a_setting_out_of_range_is_refused(more: Any, problem: str) -> None:
    with (
        KafkaConsumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer,
        pytest.raises(ConfigurationError, match=problem),
    ):
        Workers(consumer, print, **more)


def test_a_function_that_a_process_cannot_get_is_refused() -> None:
    with (
        KafkaConsumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer,
        pytest.raises(ConfigurationError, match="a function of a module"),
    ):
        Workers(consumer, lambda record: None, run_in="processes")


@pytest.mark.asyncio
async def test_each_kind_of_workers_has_its_kind_of_consumer() -> None:
    settings: Any = {"group_id": "g", "enable_auto_commit": False, "bootstrap_servers": NOWHERE}
    with KafkaConsumer(**settings) as consumer, pytest.raises(ConfigurationError, match="without asyncio use Workers"):
        AsyncWorkers(consumer, print)  # type: ignore[arg-type]
    async with AsyncKafkaConsumer(**settings) as other:
        with pytest.raises(ConfigurationError, match="use AsyncWorkers"):
            Workers(other, print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"acks": 1}, 'a producer with acks="all", not 1'),
        ({"value_serializer": str.encode}, "a producer without serializers"),
    ],
)
def test_a_producer_that_loses_dead_letters_is_refused(more: Any, problem: str) -> None:
    if "acks" in more:
        more = more | {"enable_idempotence": False}
    with (
        KafkaProducer(bootstrap_servers=NOWHERE, **more) as producer,
        pytest.raises(ConfigurationError, match=problem),
    ):
        DeadLetters(producer, "dead")


@pytest.mark.parametrize("producer", [None, "dead"])
def test_dead_letters_refuse_an_object_that_is_no_producer(producer: Any) -> None:
    with pytest.raises(ConfigurationError, match="a KafkaProducer or an AsyncKafkaProducer, not"):
        DeadLetters(producer, "dead")


def test_dead_letters_of_a_consumer_need_a_producer_that_fits() -> None:
    settings: Any = {"bootstrap_servers": NOWHERE}
    with KafkaProducer(**settings, transactional_id="x") as producer:
        letters = DeadLetters(producer, "dead")
        with pytest.raises(ConfigurationError, match="need a producer without a transactional_id"):
            KafkaConsumer(**settings, on_record_error=letters)
        with (
            KafkaConsumer(**settings, group_id="g", enable_auto_commit=False) as consumer,
            pytest.raises(ConfigurationError, match="a producer without a transactional_id"),
        ):
            Workers(consumer, print, dead_letters=letters)


@pytest.mark.asyncio
async def test_a_blocking_consumer_refuses_dead_letters_of_an_event_loop() -> None:
    async with AsyncKafkaProducer(bootstrap_servers=NOWHERE) as producer:
        letters = DeadLetters(producer, "dead")
        with pytest.raises(ConfigurationError, match="need a KafkaProducer"):
            KafkaConsumer(bootstrap_servers=NOWHERE, on_record_error=letters)


class Later:
    async def __call__(self, record: Any) -> None:
        pass


@pytest.mark.parametrize("handle", [Later(), Later().__call__])
def test_workers_refuse_a_coroutine_function_that_nobody_would_await(handle: Any) -> None:
    settings = {"group_id": "g", "enable_auto_commit": False, "bootstrap_servers": NOWHERE}
    with KafkaConsumer(**settings) as consumer, pytest.raises(ConfigurationError, match="use AsyncWorkers"):
        Workers(consumer, handle)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({}, "no order among its members: set order=None"),
        ({"order": "key"}, "a share group has no order among its members"),
        ({"order": None, "exactly_once": True}, "exactly_once needs a consumer group"),
    ],
)
def test_workers_on_a_share_consumer_refuse_an_order_and_transactions(more: Any, problem: str) -> None:
    with (
        KafkaShareConsumer(bootstrap_servers=NOWHERE, group_id="g") as consumer,
        pytest.raises(ConfigurationError, match=problem),
    ):
        Workers(consumer, print, **more)
