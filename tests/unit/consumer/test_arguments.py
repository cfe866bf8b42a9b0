"""Arguments of a wrong kind: the error names the expected and the given kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.consumer.deserializers import Deserialization
from tests.unit.consumer.builders import record

T0 = TopicPartition("t", 0)


@pytest.fixture
def consumer() -> Iterator[KafkaConsumer]:
    with KafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g", enable_auto_commit=False) as made:
        yield made


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "assign a string": (lambda c: c.assign("abc"), "a list of TopicPartition is needed, not 'abc'"),
    "assign one partition": (lambda c: c.assign(T0), r"not TopicPartition\(.*\): write \[TopicPartition\(.*\)\]"),
    "assign strings": (lambda c: c.assign(["abc"]), "a partition must be a TopicPartition .*, not 'abc'"),
    "assign a number": (lambda c: c.assign(3), "a list of TopicPartition is needed, not 3"),
    "assign no number": (lambda c: c.assign([("t", "0")]), r"not \('t', '0'\)"),
    "subscribe to a number": (lambda c: c.subscribe(3), "topics must be a list of names, not 3"),
    "subscribe to a string": (lambda c: c.subscribe("t"), "a list of names, not the string 't'"),
    "subscribe to no pattern": (lambda c: c.subscribe(pattern=3), "a string or a compiled pattern, not 3"),
    "commit a name": (lambda c: c.commit({"x": 1}), "a partition must be a TopicPartition .*, not 'x'"),
    "commit a list": (lambda c: c.commit([T0]), "a dictionary of TopicPartition to offset is needed"),
    "commit text": (lambda c: c.commit_async({T0: "1"}), "must be a whole number, not '1'"),
    "seek a name": (lambda c: c.seek("t", 0), "a partition must be a TopicPartition .*, not 't'"),
    "seek text": (lambda c: c.seek(T0, "0"), "a whole number or an OffsetAndMetadata, not '0'"),
    "seek a list to the end": (lambda c: c.seek_to_end([T0]), "a partition must be a TopicPartition"),
    "pause": (lambda c: c.pause("t"), "a partition must be a TopicPartition .*, not 't'"),
    "resume": (lambda c: c.resume([T0]), "a partition must be a TopicPartition"),
    "position": (lambda c: c.position("t"), "a partition must be a TopicPartition .*, not 't'"),
    "committed": (lambda c: c.committed("t"), "a list of TopicPartition is needed, not 't'"),
    "committed of a number": (lambda c: c.committed(3), "a list of TopicPartition is needed, not 3"),
    "offsets for a list": (lambda c: c.offsets_for_times([T0]), "a dictionary of TopicPartition to time in ms"),
    "offsets for text": (lambda c: c.offsets_for_times({T0: "now"}), "whole milliseconds since 1970, not 'now'"),
    "end of a name": (lambda c: c.end_offsets("t"), "a list of TopicPartition is needed, not 't'"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_names_the_expected_and_the_given_kind(consumer: KafkaConsumer, name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(TypeError, match=message):
        call(consumer)


@pytest.mark.parametrize(("policy", "advised"), [("raise", True), ("skip", False), (lambda error: "skip", False)])
def test_advice_fits_the_handling_of_a_bad_record(policy: Any, advised: bool, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(data: bytes | None) -> None:
        raise ValueError("no")

    _, _, error = Deserialization(None, refuse, policy)([record(1)])
    text = str(error) if error is not None else caplog.text
    assert "cannot be deserialized: ValueError: no" in text
    assert ("Seek past it" in text) is advised
