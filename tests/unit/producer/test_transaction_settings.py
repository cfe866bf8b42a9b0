"""Settings that idempotence and transactions require, and the error codes of both."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.errors import (
    ConfigurationError,
    DuplicateSequenceNumberError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
    for_code,
)
from pyconsumer.producer.config import PRODUCER_SETTINGS, ProducerConfig


def build(**options: Any) -> ProducerConfig:
    return PRODUCER_SETTINGS.build({"bootstrap_servers": "localhost:9", **options})


@pytest.mark.parametrize("idempotence", [{"enable_idempotence": True}, {"transactional_id": "id"}], ids=["asked", "id"])
@pytest.mark.parametrize(
    ("conflict", "words"),
    [
        ({"retries": 0}, "retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "max_in_flight_requests_per_connection=6"),
        ({"acks": 1}, "acks=1"),
        ({"acks": 0}, "acks=0"),
    ],
    ids=["retries", "in-flight", "acks-1", "acks-0"],
)
def test_an_invalid_setting_is_named(idempotence: dict[str, Any], conflict: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match="needs acks='all', retries above 0 and at most 5 requests") as raised:
        build(**idempotence, **conflict)
    assert str(raised.value).endswith(words)


def test_a_setting_equal_to_its_default_counts_as_given() -> None:
    with pytest.raises(ConfigurationError, match="acks=1"):
        build(transactional_id="id", acks=1)
    assert build(transactional_id="id", acks="all").acks == build(transactional_id="id", acks=-1).acks == -1


def test_a_conflict_disables_idempotence_unless_it_was_requested() -> None:
    assert not build(acks=1).enable_idempotence
    assert not build(retries=0).enable_idempotence
    assert build(transactional_id="id").enable_idempotence


def test_a_transactional_id_needs_idempotence() -> None:
    with pytest.raises(ConfigurationError, match="transactional_id needs enable_idempotence, which is switched off"):
        build(transactional_id="id", enable_idempotence=False)
    with pytest.raises(ConfigurationError, match="transactional_id"):
        build(transactional_id="")
    assert build(transactional_id="id", max_in_flight_requests_per_connection=5, retries=1).acks == -1


@pytest.mark.parametrize(
    ("item", "code", "expected"),
    [
        ("transactions:ERR-18", 45, OutOfOrderSequenceNumberError),
        ("transactions:ERR-19", 46, DuplicateSequenceNumberError),
        ("transactions:ERR-25", 52, TransactionCoordinatorFencedError),
        ("transactions:ERR-27", 59, UnknownProducerIdError),
    ],
)
def test_error_codes(item: str, code: int, expected: type[KafkaError]) -> None:
    assert type(for_code(code)) is expected
