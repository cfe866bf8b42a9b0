"""Faults that the embedded broker commits on request, its limits, and its work from time to time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import BatchBuilder, iter_records, scan
from tests.support.process import wait_until
from tests.support.raw_client import RawClient


@pytest.fixture(scope="module", params=[True, False], ids=["thread", "process"])
def shared(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(data_dir=":memory:", in_thread=request.param) as running:
        running.create_topic("t", 1)
        running.create_topic("u", 1)
        yield running


@pytest.fixture
def faulty(shared: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield shared
    shared.faults.clear()


def produce(client: RawClient, topic: str, *values: bytes, key: bytes | None = None):
    return client.request(_produce_request(topic, *values, key=key), 9).responses[0].partition_responses[0]


def _produce_request(topic: str, *values: bytes, key: bytes | None = None) -> ProduceRequest:
    builder = BatchBuilder()
    for value in values:
        builder.try_append(int(time.time() * 1000), key, value)
    data = [PartitionProduceData(0, builder.build())]
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(topic, partition_data=data)])


def end_offset(address: str, topic: str, timestamp: int = -1) -> int:
    with RawClient(address) as client:
        wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp)])]
        answer = client.request(ListOffsetsRequest(replica_id=-1, topics=wanted))
        return int(answer.topics[0].partitions[0].offset)


class TestFaults:
    def test_an_error_instead_of_the_work(self, faulty: EmbeddedCluster) -> None:
        rule = faulty.faults.add("error", "Produce", error_code=6, count=2)
        before = end_offset(faulty.bootstrap_servers, "t")
        with RawClient(faulty.bootstrap_servers) as client:
            assert [produce(client, "t", b"a").error_code for _ in range(3)] == [6, 6, 0]
        assert faulty.faults.hits(rule) == 2
        assert end_offset(faulty.bootstrap_servers, "t") == before + 1

    def test_only_for_a_topic(self, faulty: EmbeddedCluster) -> None:
        faulty.faults.add("error", "Produce", error_code=6, topic="u", count=None)
        with RawClient(faulty.bootstrap_servers) as client:
            assert produce(client, "t", b"a").error_code == 0
            assert produce(client, "u", b"a").error_code == 6

    def test_a_late_answer_keeps_the_order(self, faulty: EmbeddedCluster) -> None:
        faulty.faults.add("delay", "Metadata", delay_ms=200)
        with RawClient(faulty.bootstrap_servers) as client:
            assert client.versions
            start = time.monotonic()
            ids = [client.send(MetadataRequest([])) for _ in range(3)]
            assert [client.receive()[0] for _ in ids] == ids
            assert time.monotonic() - start >= 0.2

    def test_a_dropped_request_is_never_answered(self, faulty: EmbeddedCluster) -> None:
        faulty.faults.add("drop_request", "Produce")
        before = end_offset(faulty.bootstrap_servers, "t")
        with RawClient(faulty.bootstrap_servers) as client:
            client.send(_produce_request("t", b"a"), 9)
            later = client.send(MetadataRequest([]))
            assert client.receive()[0] == later
        assert end_offset(faulty.bootstrap_servers, "t") == before

    def test_a_dropped_response_comes_after_the_work(self, faulty: EmbeddedCluster) -> None:
        faulty.faults.add("drop_response", "Produce")
        before = end_offset(faulty.bootstrap_servers, "t")
        with RawClient(faulty.bootstrap_servers) as client:
            client.send(_produce_request("t", b"a"), 9)
            later = client.send(MetadataRequest([]))
            assert client.receive()[0] == later
        assert end_offset(faulty.bootstrap_servers, "t") == before + 1

    def test_a_disconnect(self, faulty: EmbeddedCluster) -> None:
        faulty.faults.add("disconnect", "Metadata")
        with RawClient(faulty.bootstrap_servers) as client:
            client.send(MetadataRequest([]), 5)
            assert client.closed_by_broker

    def test_an_answer_cut_in_the_middle(self, faulty: EmbeddedCluster) -> None:
        faulty.faults.add("cut", "Metadata")
        with RawClient(faulty.bootstrap_servers) as client:
            client.send(MetadataRequest(None), 5)
            with pytest.raises(ConnectionError):
                client.receive_frame()

    def test_mistakes(self, faulty: EmbeddedCluster) -> None:
        with pytest.raises(ConfigurationError, match="no API"):
            faulty.faults.add("error", "Fetsch")
        with pytest.raises(ConfigurationError, match="no fault"):
            faulty.faults.add("explode", "Fetch")

    def test_a_removed_rule_has_no_effect(self, faulty: EmbeddedCluster) -> None:
        rule = faulty.faults.add("error", "Produce", error_code=6, count=None)
        faulty.faults.remove(rule)
        with RawClient(faulty.bootstrap_servers) as client:
            assert produce(client, "t", b"a").error_code == 0


class TestLimits:
    @pytest.mark.slow
    def test_an_idle_connection_is_closed_and_a_waiting_one_is_not(self) -> None:
        with (
            EmbeddedCluster(data_dir=":memory:", config={"connections.max.idle.ms": 1000}) as cluster,
            RawClient(cluster.bootstrap_servers) as idle,
        ):
            cluster.create_topic("t", 1)
            wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])]
            with RawClient(cluster.bootstrap_servers) as waiting:
                waiting.send(FetchRequest(max_wait_ms=3000, min_bytes=1, topics=wanted), 12)
                assert idle.closed_by_broker
                assert waiting.receive()[1].error_code == 0

    @pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
    def test_no_more_connections_than_allowed(self, setting: str) -> None:
        with EmbeddedCluster(data_dir=":memory:", config={setting: 2}) as cluster:
            with RawClient(cluster.bootstrap_servers) as first, RawClient(cluster.bootstrap_servers) as second:
                assert first.brokers() == second.brokers()
                with RawClient(cluster.bootstrap_servers) as third:
                    assert third.closed_by_broker

            def served() -> bool:
                try:
                    with RawClient(cluster.bootstrap_servers) as again:
                        return bool(again.brokers())
                except OSError:
                    return False

            wait_until(served, 60, "a free place")

    def test_the_largest_request(self) -> None:
        config = {"socket.request.max.bytes": 1000}
        with (
            EmbeddedCluster(data_dir=":memory:", config=config) as cluster,
            RawClient(cluster.bootstrap_servers) as client,
        ):
            client.send_bytes((1001).to_bytes(4, "big"))
            assert client.closed_by_broker

    @pytest.mark.slow
    def test_a_client_that_does_not_read_is_not_given_more(self) -> None:
        """Answers wait in the client's connection, one at a time, not in the broker's memory."""
        with EmbeddedCluster(data_dir=":memory:", config={"message.max.bytes": 1 << 24}) as cluster:
            cluster.create_topic("t", 1)
            with RawClient(cluster.bootstrap_servers) as client:
                for _ in range(4):
                    assert produce(client, "t", b"x" * (1 << 23)).error_code == 0
            with RawClient(cluster.bootstrap_servers) as slow, RawClient(cluster.bootstrap_servers) as other:
                wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1 << 25)])]
                ids = [slow.send(FetchRequest(topics=wanted), 12) for _ in range(20)]
                assert other.brokers()
                for expected in ids:
                    correlation_id, answer = slow.receive()
                    assert (correlation_id, len(scan(answer.responses[0].partitions[0].records))) == (expected, 3)

    def test_a_client_that_goes_away_is_forgotten_with_its_requests(self) -> None:
        with EmbeddedCluster(data_dir=":memory:", in_thread=True) as cluster:
            cluster.create_topic("t", 1)
            for _ in range(3):
                with RawClient(cluster.bootstrap_servers) as client:
                    wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])]
                    client.send(FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=wanted), 12)
            with RawClient(cluster.bootstrap_servers) as client:
                assert produce(client, "t", b"a").error_code == 0

    def test_half_a_request_is_no_request(self) -> None:
        with EmbeddedCluster(data_dir=":memory:") as cluster:
            host, port = cluster.bootstrap_servers.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as sock:
                sock.sendall(b"\0\0\0\x20half")
            with RawClient(cluster.bootstrap_servers) as client:
                assert client.brokers()


class TestPeriodicWork:
    def test_old_segments_are_removed(self) -> None:
        config = {"log.retention.check.interval.ms": 50, "log.initial.task.delay.ms": 0}
        with EmbeddedCluster(config=config) as cluster:
            cluster.create_topic("t", 1, config={"retention.ms": 300})
            with RawClient(cluster.bootstrap_servers) as client:
                produce(client, "t", b"a", b"b")
            wait_until(lambda: end_offset(cluster.bootstrap_servers, "t", -2) == 2, 60, "the end of the segment")
            assert end_offset(cluster.bootstrap_servers, "t") == 2

    def test_compacted_topics_are_compacted(self) -> None:
        with EmbeddedCluster(config={"log.cleaner.backoff.ms": 20}) as cluster:
            own = {"cleanup.policy": "compact", "internal.segment.bytes": 200, "min.cleanable.dirty.ratio": 0.01}
            cluster.create_topic("t", 1, config=own)

            def records() -> list[bytes | None]:
                wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])]
                found: list[bytes | None] = []
                with RawClient(cluster.bootstrap_servers) as client:
                    offset = 0
                    while True:
                        wanted[0].partitions[0].fetch_offset = offset
                        part = client.request(FetchRequest(topics=wanted), 12).responses[0].partitions[0]
                        batches = scan(part.records)
                        if not batches:
                            return found
                        found += [record.value for record in iter_records(part.records)]
                        offset = batches[-1].next_offset

            with RawClient(cluster.bootstrap_servers) as client:
                for number in range(20):
                    produce(client, "t", b"%d" % number + b"x" * 100, key=b"k")
            wait_until(lambda: len(records()) <= 2, 60, "the compaction")
            assert records()[-1] == b"19" + b"x" * 100

    def test_checkpoints_are_written(self) -> None:
        config = {"log.flush.offset.checkpoint.interval.ms": 100, "log.segment.bytes": 1 << 20}
        with EmbeddedCluster(config=config) as cluster:
            cluster.create_topic("t", 1)
            with RawClient(cluster.bootstrap_servers) as client:
                for _ in range(5):
                    produce(client, "t", b"x" * 500_000)
            assert cluster.data_dir is not None
            path = cluster.data_dir / "broker-0" / "recovery-point-offset-checkpoint"
            wait_until(lambda: path.exists() and path.read_text() == "0\n1\nt 0 4\n", 60, "the recovery point")
