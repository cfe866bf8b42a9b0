"""Requests for many topics: one write of the cluster's file, and other requests are served during the opening."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker import cluster_file
from pyconsumer.broker.log.storage import append_line, replace_file
from pyconsumer.errors import (
    InvalidRequestError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import batch


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path, 1)
    made.controller.create_topic("there")
    yield made
    made.stop()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the writes to the cluster's files."""
    sizes: list[int] = []

    def replaced(path: Path, content: bytes) -> None:
        sizes.append(len(content))
        replace_file(path, content)

    def appended(path: Path, line: bytes, size: int) -> None:
        sizes.append(len(line))
        append_line(path, line, size)

    monkeypatch.setattr(cluster_file, "replace_file", replaced)
    monkeypatch.setattr(cluster_file, "append_line", appended)
    return sizes


def metadata(*names: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True)


def created(partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic("large", partitions, 1)])


@pytest.mark.parametrize(
    ("request_", "version"), [(metadata(*(f"t{index}" for index in range(200))), 9), (created(200), 7)]
)
def test_many_topics_are_one_write_and_other_requests_are_answered_in_between(
    brokers: Brokers, written: list[int], request_: Any, version: int
) -> None:
    answers = brokers.request(0, request_, version)
    assert len(written) == 1
    assert written[0] < 200 * 200
    assert not answers
    probes = 0
    while not answers:
        assert len(brokers.request(0, metadata("there"), 9)) == 1
        assert brokers.step()
        probes += 1
    assert probes >= 9
    assert len(written) == 1
    assert all(not topic.error_code for topic in answers[0].topics)
    assert len(brokers.alive[0].partitions) == 201


def test_a_topic_deleted_in_between_is_not_opened(brokers: Brokers) -> None:
    answers = brokers.request(0, created(200), 7)
    brokers.controller.delete_topic("large")
    brokers.run()
    assert len(answers) == 1
    assert [tp.topic for tp in brokers.alive[0].partitions] == ["there"]


def test_names_that_collide_within_a_request(brokers: Brokers) -> None:
    (answer,) = brokers.request(0, metadata("a.b", "a_b", "a.b"), 9)
    assert [topic.error_code for topic in answer.topics] == [0, InvalidTopicError.errno]


def test_a_topic_name_of_any_length_gets_a_response(brokers: Brokers) -> None:
    (answer,) = brokers.request(0, CreateTopicsRequest([CreatableTopic("x" * 32767, 1, 1)]), 7)
    assert answer.topics[0].error_code == InvalidTopicError.errno
    assert len(answer.topics[0].error_message) < 200
    assert "it is longer than 249 characters (32767)" in answer.topics[0].error_message


def test_the_metadata_log_of_kafka_cannot_be_created(brokers: Brokers) -> None:
    (answer,) = brokers.request(0, CreateTopicsRequest([CreatableTopic("__cluster_metadata", 1, 1)]), 7)
    assert answer.topics[0].error_code == InvalidRequestError.errno
    (answer,) = brokers.request(0, metadata("__cluster_metadata"), 9)
    assert answer.topics[0].error_code == UnknownTopicOrPartitionError.errno
    assert list(brokers.controller.topics) == ["there"]


def test_a_log_that_is_not_open_yet_has_no_leader_and_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers(tmp_path, 3)
    answers = brokers.request(0, CreateTopicsRequest([CreatableTopic("new", 30, 3)]), 7)
    assert not answers
    leaders = [one.leader for one in brokers.controller.topics["new"].partitions]
    with pytest.raises(NotLeaderOrFollowerError, match="not opened the log of new-29 yet"):
        brokers.alive[leaders[29]].partition("new", 29)
    brokers.run()
    assert answers[0].topics[0].error_code == 0
    for index, leader in enumerate(leaders):
        brokers.alive[leader].partition("new", index).append(batch(b"a"))
    brokers.run()
    assert {brokers.alive[0].partitions["new", index].log.log_end_offset for index in range(30)} == {1}
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]
    brokers.stop()
