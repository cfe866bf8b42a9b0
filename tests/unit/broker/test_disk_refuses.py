"""A disk that fails for a while: clients get an error, no partial change is visible, and brokers make up for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker.cluster_file import ClusterFile
from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.internal_topic import InternalTopicLog
from pyconsumer.broker.log.manager import LogManager
from pyconsumer.errors import Errors, InvalidTopicError, KafkaStorageError, TopicAlreadyExistsError
from pyconsumer.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import NOW_MS, batch, fill_disk, no_space, records_of, topic_config


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path)
    yield made
    made.stop()


class TestTheClusterFile:
    """The client gets an error for each change that cannot be written, and for no other."""

    @pytest.fixture(autouse=True)
    def full(self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
        brokers.controller.create_topic("there", 1)
        fill_disk(monkeypatch)

    @staticmethod
    def ask(brokers: Brokers, request: Any, version: int) -> Any:
        answers = brokers.request(0, request, version)
        brokers.run()
        return answers[0]

    def test_create_topics(self, brokers: Brokers) -> None:
        wanted = [CreatableTopic(name, 1, 1) for name in ("a", "there", "b", "not/legal")]
        answer = self.ask(brokers, CreateTopicsRequest(wanted), 7)
        assert {topic.name: topic.error_code for topic in answer.topics} == {
            "a": KafkaStorageError.errno,
            "there": TopicAlreadyExistsError.errno,
            "b": KafkaStorageError.errno,
            "not/legal": InvalidTopicError.errno,
        }
        assert "No space left" in answer.topics[0].error_message
        assert list(brokers.controller.topics) == ["there"]

    def test_delete_topics(self, brokers: Brokers) -> None:
        answer = self.ask(brokers, DeleteTopicsRequest(topic_names=["there"], timeout_ms=1000), 5)
        assert answer.responses[0].error_code == KafkaStorageError.errno
        assert list(brokers.controller.topics) == ["there"]

    def test_create_partitions(self, brokers: Brokers) -> None:
        answer = self.ask(brokers, CreatePartitionsRequest([CreatePartitionsTopic("there", 5, None)], 1000), 3)
        assert answer.results[0].error_code == KafkaStorageError.errno
        assert len(brokers.controller.topics["there"].partitions) == 1

    def test_settings(self, brokers: Brokers) -> None:
        change = AlterConfigsResource(2, "there", [AlterableConfig("retention.ms", 0, "5")])
        answer = self.ask(brokers, IncrementalAlterConfigsRequest([change]), 1)
        assert answer.responses[0].error_code == KafkaStorageError.errno
        assert brokers.controller.topics["there"].config == {}

    def test_a_topic_that_metadata_would_create(self, brokers: Brokers) -> None:
        wanted = [MetadataRequestTopic(name=name) for name in ("new", "there")]
        answer = self.ask(brokers, MetadataRequest(wanted, allow_auto_topic_creation=True), 9)
        assert [topic.error_code for topic in answer.topics] == [KafkaStorageError.errno, 0]
        assert len(answer.brokers) == 3

    def test_the_topic_of_the_coordinators(self, brokers: Brokers) -> None:
        answer = self.ask(brokers, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert answer.coordinators[0].error_code == 15
        assert "No space left" in answer.coordinators[0].error_message


class TestLogs:
    def test_a_log_that_cannot_be_opened_is_retried(self, brokers: Brokers, tmp_path: Path) -> None:
        in_the_way = tmp_path / "broker-0" / "t-1"
        in_the_way.write_bytes(b"")
        brokers.controller.create_topic("t", 3, 3)
        brokers.run()
        here = brokers.alive[0].partitions
        assert sorted(tp.partition for tp in here if tp.topic == "t") == [0, 2]
        brokers.advance(5.0)
        assert sorted(tp.partition for tp in here if tp.topic == "t") == [0, 2]
        in_the_way.unlink()
        brokers.advance(2.0)
        assert sorted(tp.partition for tp in here if tp.topic == "t") == [0, 1, 2]
        for index in range(3):
            brokers.leader("t", index).append(batch(b"a"))
        brokers.advance(5.0)
        for index in range(3):
            assert [record.value for record in records_of(brokers.replica(0, "t", index).log)] == [b"a"]

    def test_a_broker_that_stopped_in_between_opens_no_log(self, brokers: Brokers, tmp_path: Path) -> None:
        in_the_way = tmp_path / "broker-0" / "t-1"
        in_the_way.write_bytes(b"")
        brokers.controller.create_topic("t", 3, 3)
        brokers.kill(0)
        in_the_way.unlink()
        brokers.advance(5.0)
        assert not in_the_way.exists()

    def test_a_folder_that_cannot_be_removed_is_removed_at_the_next_start(
        self, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        brokers.controller.create_topic("t", 2, 3)
        brokers.run()
        with monkeypatch.context() as patch:
            patch.setattr(LogManager, "_discard", no_space)
            brokers.controller.delete_topic("t")
            brokers.run()
        assert not any(tp.topic == "t" for tp in brokers.alive[0].partitions)
        assert (tmp_path / "broker-0" / "t-0").exists()
        brokers.kill(0)
        brokers.restart(0)
        assert not (tmp_path / "broker-0" / "t-0").exists()

    def test_a_recreated_topic_waits_until_the_old_folder_is_removed(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        brokers.controller.create_topic("t", 1, 3)
        brokers.leader().append(batch(b"old"))
        with monkeypatch.context() as patch:
            patch.setattr(LogManager, "_discard", no_space)
            brokers.controller.delete_topic("t")
            brokers.controller.create_topic("t", 1, 3)
            brokers.advance(3.0)
            assert not any(tp.topic == "t" for tp in brokers.alive[0].partitions)
        brokers.advance(4.0)
        assert [len(records_of(brokers.replica(node).log)) for node in range(3)] == [0, 0, 0]


class TestMessages:
    """The broker's log names the partition, the file and the system's error. Clients learn only the partition."""

    @pytest.fixture
    def folder(self, brokers: Brokers, tmp_path: Path) -> Path:
        brokers.controller.create_topic("t", 1, 1)
        brokers.leader().append(batch(b"a"))
        return tmp_path / f"broker-{brokers.leader().node_id}"

    @staticmethod
    def line(folder: Path, action: str) -> str:
        file = folder / "t-0" / f"{0:020d}.log"
        return f"cannot {action} t-0 in {folder}: [Errno 28] No space left on device: '{file}'"

    @staticmethod
    def ask(brokers: Brokers, request: Any, version: int) -> Any:
        answers = brokers.request(brokers.leader().node_id, request, version)
        brokers.run()
        return answers[0]

    def test_produce(
        self, brokers: Brokers, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch(b"b"))])
        with monkeypatch.context() as patch:
            patch.setattr("os.pwrite", no_space)
            answer = self.ask(brokers, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 9)
        part = answer.responses[0].partition_responses[0]
        assert part.error_code == Errors.KAFKA_STORAGE_ERROR
        assert part.error_message == "the broker cannot append to t-0: its disk reported an error, which is in its log"
        assert [record.getMessage() for record in caplog.records] == [self.line(folder, "append to")]

    def test_reads(
        self, brokers: Brokers, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        fetch = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])
        find = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=1)])
        with monkeypatch.context() as patch:
            patch.setattr("os.pread", no_space)
            fetched = self.ask(brokers, FetchRequest(max_wait_ms=500, max_bytes=1000, topics=[fetch]), 11)
            found = self.ask(brokers, ListOffsetsRequest(topics=[find]), 5)
        assert fetched.responses[0].partitions[0].error_code == Errors.KAFKA_STORAGE_ERROR
        assert found.topics[0].partitions[0].error_code == Errors.KAFKA_STORAGE_ERROR
        assert [record.getMessage() for record in caplog.records] == [self.line(folder, "read")] * 2

    def test_a_commit(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers.controller.ensure_internal(OFFSETS_TOPIC)
        brokers.run()
        led = brokers.leader(OFFSETS_TOPIC, 0).node_id
        with monkeypatch.context() as patch:
            patch.setattr("os.pwrite", no_space)
            stored = InternalTopicLog.of_offsets(brokers.alive[led]).append(0, [(b"key", b"value")], NOW_MS)
        assert stored.value.error_code == Errors.KAFKA_STORAGE_ERROR
        [record] = caplog.records
        assert record.getMessage().startswith("cannot append to __consumer_offsets-0: [Errno 28] No space")
        assert "__consumer_offsets-0/0000" in record.getMessage()

    def test_a_log_that_cannot_be_flushed_does_not_block_others(
        self, brokers: Brokers, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers.controller.create_topic("u", 1, 3)
        brokers.leader("u").append(batch(b"a"))
        brokers.run()
        logs = brokers.alive[brokers.leader().node_id].logs
        for log in logs.logs.values():
            log.config = topic_config(flush_ms=0)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", no_space)
            logs.flush_due()
        first, second = (record.getMessage() for record in caplog.records)
        assert first == self.line(folder, "flush").replace(": [", " to disk: [")
        assert second.startswith(f"cannot flush u-0 in {folder} to disk: ")
        logs.flush_due()
        assert [log.recovery_point for log in logs.logs.values()] == [1, 1]


class TestOneWriteOfTheClusterFile:
    """A request for many topics costs one write, which succeeds or fails as a whole."""

    @pytest.fixture
    def changes(self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        for name in ("a", "b", "c"):
            brokers.controller.create_topic(name, 1)
        written: list[Any] = []
        save = ClusterFile.save

        def counted(file: ClusterFile, change: Any, snapshot: Any) -> None:
            written.append(change)
            save(file, change, snapshot)

        monkeypatch.setattr(ClusterFile, "save", counted)
        return written

    def test_delete_topics(self, brokers: Brokers, changes: list[Any]) -> None:
        [answer] = brokers.request(0, DeleteTopicsRequest(topic_names=["a", "none", "b"], timeout_ms=1000), 5)
        assert [result.error_code for result in answer.responses] == [0, Errors.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert [len(change["deleted"]) for change in changes] == [2]
        assert list(brokers.controller.topics) == ["c"]

    def test_a_topic_named_by_name_and_by_id_is_not_deleted(self, brokers: Brokers, changes: list[Any]) -> None:
        by_id = DeleteTopicState(None, brokers.controller.topic("a").topic_id)
        [answer] = brokers.request(0, DeleteTopicsRequest([DeleteTopicState("a"), by_id], timeout_ms=1000), 6)
        assert [result.error_code for result in answer.responses] == [Errors.INVALID_REQUEST]
        assert not changes

    def test_create_partitions(self, brokers: Brokers, changes: list[Any]) -> None:
        wanted = [CreatePartitionsTopic(name, count, None) for name, count in (("a", 2), ("b", 1), ("c", 3))]
        [answer] = brokers.request(0, CreatePartitionsRequest(wanted, 1000), 3)
        assert [result.error_code for result in answer.results] == [0, Errors.INVALID_PARTITIONS, 0]
        assert [list(change["partitions"]) for change in changes] == [["a", "c"]]
        assert [len(topic.partitions) for topic in brokers.controller.topics.values()] == [2, 1, 3]
