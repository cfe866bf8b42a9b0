"""Dead letters and the records that come back out of them, without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer import ConsumerRecord, KafkaProducer
from pyconsumer.workers import DeadLetters, ProducerRecord, replay


def record(offset: int, topic: str, headers: Any = (), timestamp: int = 5, key: Any = b"k") -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(topic, 0, offset, timestamp, 0, key, b"v", list(headers), 4)


def letter_of(one: ConsumerRecord[Any, Any], error: BaseException, attempts: int = 1) -> ConsumerRecord[Any, Any]:
    """Return the dead letter of a record, as a consumer of its topic gets it."""
    with KafkaProducer(bootstrap_servers="127.0.0.1:1") as producer:
        key, value, headers = DeadLetters(producer, "dead").of_record(one, error, attempts, 5)
    return ConsumerRecord("dead", 0, 0, 6, 0, key, value, headers, 4)


def test_a_record_comes_back_out_of_its_letter() -> None:
    one = record(3, topic="orders", headers=[("a", b"1"), ("a", None)], timestamp=1234)
    sent = replay(letter_of(one, ValueError("no")))
    assert sent == ProducerRecord("orders", b"v", b"k", [("a", b"1"), ("a", None)], timestamp_ms=1234)


def test_a_record_without_a_timestamp_gets_that_of_the_sending() -> None:
    one = record(3, topic="orders", key=None, timestamp=-1)
    assert replay(letter_of(one, ValueError("no"))) == ProducerRecord("orders", b"v", None, [])


def test_the_letter_of_a_letter_has_one_set_of_headers() -> None:
    first = letter_of(record(3, topic="orders", headers=[("a", b"1")]), ValueError("first"), attempts=4)
    second = letter_of(first, TypeError("second"))
    assert len(second.headers) == len(dict(second.headers)) == 9
    found = dict(second.headers)
    assert (found["a"], found["dead-letter.topic"], found["dead-letter.error"]) == (b"1", b"dead", b"second")


@pytest.mark.parametrize("headers", [[], [("dead-letter.topic", None)], [("dead-letter.offset", b"1")]])
def test_a_record_that_is_no_letter_is_refused(headers: Any) -> None:
    with pytest.raises(ValueError, match="other-0 offset 7 is no dead letter"):
        replay(record(7, topic="other", headers=headers))


def test_the_text_of_the_exception_is_cut_between_two_characters() -> None:
    letter = letter_of(record(3, topic="orders"), ValueError("\u20ac" * 400))
    assert dict(letter.headers)["dead-letter.error"] == ("\u20ac" * 333).encode()
