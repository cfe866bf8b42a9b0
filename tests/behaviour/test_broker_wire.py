"""The broker's answers, byte for byte on a socket, in every version that it advertises."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from pyconsumer.broker.handlers import SERVED
from pyconsumer.errors import Errors, for_code
from pyconsumer.protocol.api import API, ApiKey
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyconsumer.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pyconsumer.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyconsumer.protocol.messages.describe_cluster import DescribeClusterRequest
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import BatchBuilder, iter_records
from tests.support.cluster import COMMON_CONFIG, Cluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def versions(api: ApiKey) -> list[int]:
    return list(range(API[api].min_version, API[api].max_version + 1))


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RawClient]:
    with cluster.raw() as raw:
        yield raw


@pytest.fixture
def new_topic(cluster: Cluster, topic_name: str) -> str:
    cluster.create_topic(topic_name, 2)
    with cluster.raw() as raw:
        wait_for_leaders(raw, topic_name, 2)
    return topic_name


def wait_for_leaders(client: RawClient, name: str, count: int) -> None:
    """Apache Kafka names a leader before the leader itself knows."""
    wanted = [ListOffsetsPartition(index, timestamp=-1) for index in range(count)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, wanted)])
    wait_until(lambda: not any(part.error_code for part in client.request(request).topics[0].partitions), 60, "leaders")


@pytest.fixture
def node(client: RawClient) -> int:
    """The broker's node id."""
    return min(client.brokers())


def topic_id(client: RawClient, name: str) -> bytes:
    return bytes(client.request(MetadataRequest([MetadataRequestTopic(name=name)])).topics[0].topic_id)


def built(*values: bytes, codec: str = "none", timestamp_ms: int | None = None) -> bytes:
    builder = BatchBuilder(codec)
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    for index, value in enumerate(values):
        builder.try_append(now_ms + index, b"k", value)
    return builder.build()


def produce(
    client: RawClient, name: str, *values: bytes, version: int | None = None, partition: int = 0, **batch: object
):
    chosen = API[ApiKey.PRODUCE].max_version if version is None else version
    by_id = {"topic_id": topic_id(client, name)} if chosen >= 13 else {"name": name}
    data = [PartitionProduceData(partition, built(*values, **batch))]  # type: ignore[arg-type]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(partition_data=data, **by_id)])  # type: ignore[arg-type]
    return client.request(request, chosen).responses[0].partition_responses[0]


def fetch(
    client: RawClient,
    name: str,
    offset: int = 0,
    *,
    version: int | None = None,
    partition: int = 0,
    max_bytes: int = 1 << 20,
    **options: int,
):
    chosen = API[ApiKey.FETCH].max_version if version is None else version
    by_id = {"topic_id": topic_id(client, name)} if chosen >= 13 else {"topic": name}
    wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    settings = {"max_wait_ms": 0, "min_bytes": 1} | options
    request = FetchRequest(topics=[FetchTopic(partitions=[wanted], **by_id)], **settings)  # type: ignore[arg-type]
    return client.request(request, chosen)


def first(response):
    return response.responses[0].partitions[0]


def values_of(partition) -> list[bytes | None]:
    return [record.value for record in iter_records(partition.records)]


@pytest.mark.newest
class TestApiVersions:
    @pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
    def test_advertised_versions_are_served(self, cluster: Cluster, client: RawClient, version: int) -> None:
        answer = client.request(ApiVersionsRequest("test", "1.0"), version)
        assert answer.error_code == 0
        keys = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        if cluster.embedded:
            assert set(keys) == set(map(int, SERVED))
        for key in set(keys) & set(map(int, API)):
            least = 0 if key == ApiKey.PRODUCE else API[ApiKey(key)].min_version  # KAFKA-18659
            assert keys[key] == (least, API[ApiKey(key)].max_version)

    def test_a_version_from_the_future_is_answered_in_version_0(self, client: RawClient) -> None:
        header = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff" + b"\0"
        client.send_bytes(len(header).to_bytes(4, "big") + header)
        frame = client.receive_frame()
        answer = ApiVersionsResponse.decode(frame[4:], 0)
        assert (frame[:4], answer.error_code) == ((7).to_bytes(4, "big"), 35)
        assert [(entry.api_key, entry.max_version) for entry in answer.api_keys] == [(18, 5)]
        assert client.request(ApiVersionsRequest("test", "1.0")).error_code == 0

    @pytest.mark.parametrize("name", ["", "a b", "-a", "a-"])
    def test_a_client_that_names_itself_wrongly(self, client: RawClient, name: str) -> None:
        assert client.request(ApiVersionsRequest(name, "1.0"), 3).error_code == 42

    def test_a_connection_that_was_meant_for_another_broker_is_rejected(self, client: RawClient) -> None:
        """KIP-1242."""
        found = client.request(DescribeClusterRequest())
        node_id = found.brokers[0].broker_id

        def ask(cluster_id: str | None, node_id: int) -> int:
            code: int = client.request(ApiVersionsRequest("test", "1.0", cluster_id, node_id), 5).error_code
            return code

        assert ask(found.cluster_id, node_id) == 0
        assert ask(None, -1) == 0
        assert ask(None, node_id) == Errors.INVALID_REQUEST
        assert ask(found.cluster_id, -1) == Errors.INVALID_REQUEST
        assert ask("another", node_id) == Errors.REBOOTSTRAP_REQUIRED
        assert ask(found.cluster_id, node_id + 1) == Errors.REBOOTSTRAP_REQUIRED


class TestConnection:
    def test_an_unknown_api_closes_it(self, client: RawClient) -> None:
        client.send_bytes(bytes.fromhex("0000000a 7000 0000 00000001 ffff"))
        assert client.closed_by_broker

    def test_an_api_that_is_not_served_closes_it(self, client: RawClient) -> None:
        client.send_bytes(bytes.fromhex("0000000a 001a 0000 00000001 ffff"))
        assert client.closed_by_broker

    def test_a_version_that_is_not_served_closes_it(self, client: RawClient) -> None:
        client.send_bytes(bytes.fromhex("0000000a 0003 0063 00000001 ffff"))
        assert client.closed_by_broker

    @pytest.mark.parametrize("size", [-1, 0, 2**31 - 1, 104_857_601])
    def test_an_illegal_size_closes_it(self, client: RawClient, size: int) -> None:
        client.send_bytes(size.to_bytes(4, "big", signed=True))
        assert client.closed_by_broker

    def test_a_request_that_makes_no_sense_closes_it(self, client: RawClient) -> None:
        client.send_bytes(bytes.fromhex("0000000e 0003 0004 00000001 ffff 7fffffff"))
        assert client.closed_by_broker

    def test_another_protocol_closes_it(self, client: RawClient) -> None:
        client.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert client.closed_by_broker

    def test_pipelined_requests_are_answered_in_their_order(self, client: RawClient, new_topic: str) -> None:
        ids = [client.send(MetadataRequest([])) for _ in range(50)]
        assert [client.receive()[0] for _ in ids] == ids

    def test_a_request_in_single_bytes_is_read(self, cluster: Cluster) -> None:
        host, port = cluster.bootstrap_servers.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10) as sock:
            for byte in bytes.fromhex("0000000a 0012 0000 00000009 ffff"):
                sock.sendall(bytes((byte,)))
            head = sock.recv(8, socket.MSG_WAITALL)
        assert head[4:] == (9).to_bytes(4, "big")

    def test_a_waiting_fetch_does_not_keep_others_waiting(self, cluster: Cluster, new_topic: str) -> None:
        with cluster.raw() as waiting, cluster.raw() as other:
            by_id = topic_id(waiting, new_topic)
            wanted = FetchPartition(0, partition_max_bytes=1000)
            sent = waiting.send(
                FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=[FetchTopic(topic_id=by_id, partitions=[wanted])])
            )
            assert produce(other, new_topic, b"now").error_code == 0
            correlation_id, answer = waiting.receive()
        assert (correlation_id, values_of(first(answer))) == (sent, [b"now"])


class TestMetadata:
    @pytest.mark.parametrize("version", versions(ApiKey.METADATA))
    def test_a_topic_in_every_version(self, client: RawClient, new_topic: str, node: int, version: int) -> None:
        answer = client.request(MetadataRequest([MetadataRequestTopic(name=new_topic)]), version)
        topic = answer.topics[0]
        assert (topic.name, topic.error_code) == (new_topic, 0)
        assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions] == [
            (0, node, [node]),
            (1, node, [node]),
        ]
        assert [broker.node_id for broker in answer.brokers] == [node]

    @pytest.mark.parametrize("version", versions(ApiKey.METADATA))
    def test_all_topics(self, client: RawClient, new_topic: str, version: int) -> None:
        answer = client.request(MetadataRequest([] if version == 0 else None), version)
        assert new_topic in {topic.name for topic in answer.topics}

    def test_none(self, client: RawClient, new_topic: str) -> None:
        assert client.request(MetadataRequest([])).topics == []

    def test_by_id(self, client: RawClient, new_topic: str) -> None:
        found = topic_id(client, new_topic)
        answer = client.request(
            MetadataRequest([MetadataRequestTopic(found, None), MetadataRequestTopic(b"x" * 16, None)])
        )
        assert {(t.name, t.error_code) for t in answer.topics} == {(new_topic, 0), (None, 100)}

    def test_a_topic_is_made_if_that_is_wanted(self, client: RawClient, topic_name: str) -> None:
        asked = [MetadataRequestTopic(name=topic_name)]
        assert client.request(MetadataRequest(asked, allow_auto_topic_creation=False)).topics[0].error_code == 3
        wait_until(lambda: client.request(MetadataRequest(asked)).topics[0].error_code == 0, 60, "the topic")

    def test_an_illegal_name(self, client: RawClient) -> None:
        assert client.request(MetadataRequest([MetadataRequestTopic(name="a b")])).topics[0].error_code == 17

    def test_the_internal_topic_is_marked(self, client: RawClient) -> None:
        request = MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")])
        wait_until(lambda: client.request(request).topics[0].error_code == 0, 60, "the topic")
        topic = client.request(request).topics[0]
        assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 5)

    def test_permitted_operations(self, client: RawClient, new_topic: str) -> None:
        asked = MetadataRequest([MetadataRequestTopic(name=new_topic)], include_topic_authorized_operations=True)
        assert client.request(asked).topics[0].topic_authorized_operations == 3576


class TestProduceAndFetch:
    @pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
    def test_produce_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        answer = produce(client, new_topic, b"a", b"b", version=version)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert produce(client, new_topic, b"c", version=version).base_offset == 2

    @pytest.mark.parametrize("version", versions(ApiKey.FETCH))
    def test_fetch_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        produce(client, new_topic, b"a", b"b")
        part = first(fetch(client, new_topic, version=version))
        assert (part.error_code, part.high_watermark, values_of(part)) == (0, 2, [b"a", b"b"])
        assert part.last_stable_offset == 2

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_compressed_batches_come_back_as_they_were_sent(
        self, client: RawClient, new_topic: str, codec: str
    ) -> None:
        sent = built(b"x" * 1000, codec=codec)
        data = [PartitionProduceData(0, sent)]
        client.request(ProduceRequest(acks=1, topic_data=[TopicProduceData(new_topic, partition_data=data)]), 9)
        assert bytes(first(fetch(client, new_topic)).records)[16:] == sent[16:]

    def test_zstd_needs_version_7(self, client: RawClient, new_topic: str) -> None:
        assert produce(client, new_topic, b"a", version=6, codec="zstd").error_code == 76

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (lambda r: setattr(r, "acks", 2), 21),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "index", 7), 3),
            (lambda r: setattr(r.topic_data[0], "name", "nobody-made-it"), 3),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "records", b""), 87),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "records", b"\x02" * 70), 87),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "records", built(b"a")[:-1] + b"?"), 2),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "records", built(b"a") * 2), 87),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "records", built(b"a" * 1_048_588)), 10),
            (lambda r: setattr(r.topic_data[0].partition_data[0], "records", built(b"a", timestamp_ms=2**50)), 32),
        ],
        ids=lambda value: str(value) if isinstance(value, int) else "",
    )
    def test_refused_requests(
        self,
        cluster: Cluster,
        client: RawClient,
        new_topic: str,
        change: Callable[[ProduceRequest], None],
        code: int,
    ) -> None:
        data = [PartitionProduceData(0, built(b"a"))]
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(new_topic, partition_data=data)])
        change(request)
        answer = client.request(request, 9).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (code, -1), for_code(answer.error_code)
        assert answer.error_message or not cluster.embedded
        assert first(fetch(client, new_topic)).high_watermark == 0

    def test_clients_cannot_write_to_the_internal_topic(self, client: RawClient) -> None:
        asked = MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")])
        wait_until(lambda: client.request(asked).topics[0].error_code == 0, 60, "the topic")
        assert produce(client, "__consumer_offsets", b"a").error_code == 17

    def test_without_acks_there_is_no_answer(self, client: RawClient, new_topic: str) -> None:
        data = [PartitionProduceData(0, built(b"a"))]
        client.send(ProduceRequest(acks=0, topic_data=[TopicProduceData(new_topic, partition_data=data)]), 9)
        assert values_of(first(fetch(client, new_topic))) == [b"a"]

    def test_without_acks_an_error_closes_the_connection(self, client: RawClient) -> None:
        data = [PartitionProduceData(0, built(b"a"))]
        client.send(ProduceRequest(acks=0, topic_data=[TopicProduceData("nobody-made-it", partition_data=data)]), 9)
        assert client.closed_by_broker

    def test_an_unknown_topic_id(self, client: RawClient) -> None:
        topic = TopicProduceData(topic_id=b"?" * 16, partition_data=[PartitionProduceData(0, built(b"a"))])
        answer = client.request(ProduceRequest(acks=1, topic_data=[topic]), 13)
        assert answer.responses[0].partition_responses[0].error_code == 100
        wanted = FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition(0)])
        assert first(client.request(FetchRequest(topics=[wanted]), 13)).error_code == 100

    @pytest.mark.parametrize(("offset", "code"), [(3, 1), (-5, 1), (2, 0), (0, 0)])
    def test_offsets_out_of_range(self, client: RawClient, new_topic: str, offset: int, code: int) -> None:
        produce(client, new_topic, b"a", b"b")
        assert first(fetch(client, new_topic, offset)).error_code == code

    def test_the_byte_limits(self, client: RawClient, new_topic: str) -> None:
        for _ in range(3):
            produce(client, new_topic, b"x" * 5000)
        size = len(first(fetch(client, new_topic)).records) // 3
        assert len(first(fetch(client, new_topic, max_bytes=1)).records) == size
        assert len(first(fetch(client, new_topic, max_bytes=size + 100)).records) == size + 100
        by_id = topic_id(client, new_topic)
        for index in (0, 1):
            produce(client, new_topic, b"y" * 5000, partition=index)
        wanted = [FetchPartition(index, partition_max_bytes=1 << 20) for index in (0, 1)]
        request = FetchRequest(max_bytes=1, topics=[FetchTopic(topic_id=by_id, partitions=wanted)])
        answer = client.request(request)
        assert [len(part.records) for part in answer.responses[0].partitions] == [size, 0]

    def test_a_fetch_waits_for_min_bytes_or_its_time(self, cluster: Cluster, client: RawClient, new_topic: str) -> None:
        start = time.monotonic()
        assert not first(fetch(client, new_topic, max_wait_ms=150, min_bytes=1)).records
        assert time.monotonic() - start >= 0.15
        with cluster.raw() as waiting:
            by_id = topic_id(waiting, new_topic)
            wanted = FetchPartition(0, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic_id=by_id, partitions=[wanted])]
            waiting.send(FetchRequest(max_wait_ms=20_000, min_bytes=5000, topics=topics))
            produce(client, new_topic, b"x" * 3000)
            produce(client, new_topic, b"y" * 3000)
            assert len(first(waiting.receive()[1]).records) > 6000

    def test_deletion_of_the_topic_ends_the_wait(self, cluster: Cluster, client: RawClient, new_topic: str) -> None:
        with cluster.raw() as waiting:
            wanted = FetchPartition(0, partition_max_bytes=1 << 20)
            waiting.send(
                FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=[FetchTopic(new_topic, partitions=[wanted])]), 12
            )
            client.delete_topic(new_topic)
            assert first(waiting.receive()[1]).error_code == 3

    def test_sessions_send_only_new_data(self, client: RawClient, new_topic: str) -> None:
        by_id = topic_id(client, new_topic)
        wanted = [FetchPartition(index, partition_max_bytes=1 << 20) for index in (0, 1)]
        begun = client.request(FetchRequest(session_epoch=0, topics=[FetchTopic(topic_id=by_id, partitions=wanted)]))
        assert begun.session_id
        assert len(begun.responses[0].partitions) == 2
        produce(client, new_topic, b"a", partition=1)
        news = client.request(FetchRequest(session_id=begun.session_id, session_epoch=1))
        assert [(p.partition_index, values_of(p)) for p in news.responses[0].partitions] == [(1, [b"a"])]
        wrong = client.request(FetchRequest(session_id=begun.session_id, session_epoch=1))
        assert (wrong.error_code, wrong.responses) == (71, [])
        assert client.request(FetchRequest(session_id=begun.session_id ^ 1, session_epoch=2)).error_code == 70

    @pytest.mark.parametrize(("epoch", "code"), [(0, 0), (5, 75)])
    def test_leader_epochs_are_compared(self, client: RawClient, new_topic: str, epoch: int, code: int) -> None:
        wanted = FetchPartition(0, current_leader_epoch=epoch, partition_max_bytes=100)
        topics = [FetchTopic(topic_id=topic_id(client, new_topic), partitions=[wanted])]
        assert first(client.request(FetchRequest(topics=topics))).error_code == code


class TestListOffsets:
    def ask(self, client: RawClient, name: str, timestamp: int, version: int = 11, **partition: int):
        wanted = ListOffsetsPartition(partition.pop("index", 0), timestamp=timestamp, **partition)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, [wanted])])
        return client.request(request, version).topics[0].partitions[0]

    @pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
    def test_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        now_ms = int(time.time() * 1000)
        produce(client, new_topic, b"a", b"b", b"c", timestamp_ms=now_ms)
        assert self.ask(client, new_topic, -1, version).offset == 3
        assert self.ask(client, new_topic, -2, version).offset == 0
        found = self.ask(client, new_topic, now_ms + 1, version)
        assert (found.offset, found.timestamp, found.error_code) == (1, now_ms + 1, 0)
        assert self.ask(client, new_topic, now_ms + 3, version).offset == -1

    @pytest.mark.parametrize(("timestamp", "since", "offset"), [(-3, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)])
    def test_special_timestamps(
        self, client: RawClient, new_topic: str, timestamp: int, since: int, offset: int
    ) -> None:
        produce(client, new_topic, b"a")
        found = self.ask(client, new_topic, timestamp, since)
        assert (found.error_code, found.offset) == (0, offset)
        assert self.ask(client, new_topic, timestamp, since - 1).error_code == 35

    def test_errors(self, client: RawClient, new_topic: str) -> None:
        assert self.ask(client, "nobody-made-it", -1).error_code == 3
        assert self.ask(client, new_topic, -1, index=9).error_code == 3
        assert self.ask(client, new_topic, -1, current_leader_epoch=9).error_code == 75
        twice = [ListOffsetsPartition(0, timestamp=-1)] * 2
        answer = client.request(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(new_topic, twice)]))
        assert [part.error_code for part in answer.topics[0].partitions] == [42]


class TestTopics:
    @pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
    def test_create_in_every_version(self, client: RawClient, topic_name: str, version: int) -> None:
        asked = CreatableTopic(topic_name, 3, 1, configs=[CreatableTopicConfig("retention.ms", "7000")])
        result = client.request(CreateTopicsRequest([asked]), version).topics[0]
        assert (result.error_code, result.error_message) == (0, None)
        wait_until(lambda: set(client.leaders(topic_name)) == {0, 1, 2}, 60, "the leaders")
        if version >= 5:
            config = {item.name: (item.value, item.config_source) for item in result.configs}
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            assert config["retention.ms"] == ("7000", 1)
            assert config["cleanup.policy"] == ("delete", 5)
        if version >= 7:
            assert result.topic_id == topic_id(client, topic_name)

    def test_on_trial_only(self, client: RawClient, topic_name: str) -> None:
        result = client.request(CreateTopicsRequest([CreatableTopic(topic_name, -1, -1)], validate_only=True)).topics[0]
        assert (result.error_code, result.num_partitions) == (0, 1)
        assert client.leaders(topic_name) == {}

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            (CreatableTopic("", 1, 1), 17),
            (CreatableTopic("fine", 0, 1), 37),
            (CreatableTopic("fine", 1, 2), 38),
            (CreatableTopic("fine", 1, 1, configs=[CreatableTopicConfig("retention.ms", "x")]), 40),
        ],
        ids=[17, 37, 38, 40],
    )
    def test_errors(self, client: RawClient, asked: CreatableTopic, code: int) -> None:
        result = client.request(CreateTopicsRequest([asked])).topics[0]
        assert result.error_code == code
        assert result.error_message

    def test_a_topic_twice(self, client: RawClient, new_topic: str, topic_name: str) -> None:
        assert client.request(CreateTopicsRequest([CreatableTopic(new_topic, 1, 1)])).topics[0].error_code == 36
        twice = [CreatableTopic("other", 1, 1)] * 2
        assert [t.error_code for t in client.request(CreateTopicsRequest(twice)).topics] == [42]
        close = CreatableTopic(new_topic.replace("-", "."), 1, 1), CreatableTopic(new_topic.replace("-", "_"), 1, 1)
        assert [client.request(CreateTopicsRequest([t])).topics[0].error_code for t in close] == [0, 17]

    @pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
    def test_delete_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        request = DeleteTopicsRequest(topic_names=[new_topic, "nobody-made-it"], timeout_ms=10_000)
        if version >= 6:
            request = DeleteTopicsRequest(
                [DeleteTopicState(new_topic), DeleteTopicState("nobody-made-it")], timeout_ms=10_000
            )
        answer = client.request(request, version)
        assert {(t.name, t.error_code) for t in answer.responses} == {(new_topic, 0), ("nobody-made-it", 3)}
        wait_until(lambda: client.leaders(new_topic) == {}, 60, "the end of the topic")

    def test_delete_by_id(self, client: RawClient, new_topic: str) -> None:
        found = topic_id(client, new_topic)
        asked = [DeleteTopicState(None, found), DeleteTopicState(None, b"?" * 16), DeleteTopicState("both", found)]
        answer = client.request(DeleteTopicsRequest(asked, timeout_ms=10_000))
        assert {(t.name, t.error_code) for t in answer.responses} == {(new_topic, 0), (None, 100), ("both", 42)}

    @pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
    def test_more_partitions_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        trial = CreatePartitionsRequest([CreatePartitionsTopic(new_topic, 4, None)], 10_000, validate_only=True)
        assert client.request(trial, version).results[0].error_code == 0
        assert len(client.leaders(new_topic)) == 2
        request = CreatePartitionsRequest([CreatePartitionsTopic(new_topic, 4, None)], 10_000)
        assert client.request(request, version).results[0].error_code == 0
        wait_until(lambda: len(client.leaders(new_topic)) == 4, 60, "the new partitions")
        wait_for_leaders(client, new_topic, 4)
        assert client.request(request, version).results[0].error_code == 37
        assert produce(client, new_topic, b"a", partition=3).error_code == 0

    @pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
    def test_delete_records_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        produce(client, new_topic, b"a", b"b", b"c")

        def delete(offset: int):
            wanted = [DeleteRecordsTopic(new_topic, [DeleteRecordsPartition(0, offset)])]
            return client.request(DeleteRecordsRequest(wanted), version).topics[0].partitions[0]

        assert (delete(2).low_watermark, delete(2).error_code) == (2, 0)
        assert first(fetch(client, new_topic, 1)).error_code == 1
        assert first(fetch(client, new_topic, 2)).log_start_offset == 2
        assert delete(4).error_code == 1
        assert delete(-1).low_watermark == 3


class TestConfigs:
    def described(self, client: RawClient, kind: int, name: str, *keys: str, version: int | None = None):
        asked = DescribeConfigsResource(kind, name, list(keys) or None)
        request = DescribeConfigsRequest([asked], include_synonyms=True)
        return client.request(request, version).results[0]

    def alter(
        self, client: RawClient, kind: int, name: str, *changes: tuple[str, int, str | None], trial: bool = False
    ):
        configs = [AlterableConfig(key, operation, value) for key, operation, value in changes]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)], trial)
        return client.request(request).responses[0]

    @pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CONFIGS))
    def test_describe_in_every_version(self, client: RawClient, new_topic: str, version: int) -> None:
        result = self.described(client, TOPIC, new_topic, "max.message.bytes", version=version)
        entry = result.configs[0]
        assert (entry.name, entry.value, entry.config_source) == ("max.message.bytes", "1048588", 5)
        assert [(s.name, s.value) for s in entry.synonyms] == [("message.max.bytes", "1048588")]

    def test_all_settings_of_topic_and_broker(self, client: RawClient, new_topic: str, node: int) -> None:
        topic = {entry.name: entry.value for entry in self.described(client, TOPIC, new_topic).configs}
        assert topic["segment.bytes"] == "1073741824"
        assert "internal.segment.bytes" not in topic
        broker = {entry.name: entry for entry in self.described(client, BROKER, str(node)).configs}
        assert broker["group.min.session.timeout.ms"].value == "500"
        assert broker["group.min.session.timeout.ms"].config_source == 4
        assert broker["num.partitions"].read_only

    def test_set_append_subtract_and_remove(self, client: RawClient, new_topic: str) -> None:
        assert self.alter(client, TOPIC, new_topic, ("retention.ms", SET, "5000")).error_code == 0
        assert self.alter(client, TOPIC, new_topic, ("cleanup.policy", APPEND, "compact")).error_code == 0

        def now() -> dict[str, str]:
            found = self.described(client, TOPIC, new_topic, "retention.ms", "cleanup.policy").configs
            return {entry.name: entry.value for entry in found}

        # Apache Kafka answers when its controller has the change; the broker that is asked follows.
        both = {"retention.ms": "5000", "cleanup.policy": "delete,compact"}
        wait_until(lambda: now() == both, 60, "both changes")
        self.alter(client, TOPIC, new_topic, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
        removed = {"retention.ms": str(COMMON_CONFIG["log.retention.ms"]), "cleanup.policy": "compact"}
        wait_until(lambda: now() == removed, 60, "the removal")

    def test_a_change_works_at_once(self, client: RawClient, new_topic: str) -> None:
        assert produce(client, new_topic, b"x" * 500).error_code == 0
        self.alter(client, TOPIC, new_topic, ("max.message.bytes", SET, "200"))
        wait_until(lambda: produce(client, new_topic, b"x" * 500).error_code == 10, 60, "the limit")

    def test_a_broker_setting_works_for_topics_without_their_own(self, client: RawClient, new_topic: str) -> None:
        try:
            assert self.alter(client, BROKER, "", ("log.retention.ms", SET, "77000")).error_code == 0

            def now() -> tuple[str, int]:
                entry = self.described(client, TOPIC, new_topic, "retention.ms").configs[0]
                return entry.value, entry.config_source

            wait_until(lambda: now() == ("77000", 3), 60, "the new value")
            found = {entry.name: entry.value for entry in self.described(client, BROKER, "").configs}
            assert found["log.retention.ms"] == "77000"
        finally:
            self.alter(client, BROKER, "", ("log.retention.ms", DELETE, None))

    def test_on_trial_only(self, client: RawClient, new_topic: str) -> None:
        assert self.alter(client, TOPIC, new_topic, ("retention.ms", SET, "1"), trial=True).error_code == 0
        kept = self.described(client, TOPIC, new_topic, "retention.ms").configs[0].value
        assert kept == str(COMMON_CONFIG["log.retention.ms"])

    @pytest.mark.parametrize(
        ("kind", "name", "change", "code"),
        [
            (TOPIC, None, ("retention.ms", SET, "soon"), 40),
            (TOPIC, None, ("nonsense", SET, "1"), 40),
            (TOPIC, None, ("retention.ms", APPEND, "1"), 40),
            (TOPIC, None, ("retention.ms", SET, None), 42),
            (TOPIC, "nobody-made-it", ("retention.ms", SET, "1"), 3),
            (BROKER, "", ("num.partitions", SET, "4"), 42),
            (BROKER, "7", ("log.retention.ms", SET, "4"), 42),
            (99, "0", ("log.retention.ms", SET, "4"), 42),
        ],
    )
    def test_errors(self, client: RawClient, new_topic: str, kind: int, name: str | None, change, code: int) -> None:
        answer = self.alter(client, kind, name if name is not None else new_topic, change)
        assert answer.error_code == code
        assert answer.error_message

    def test_describing_missing_resources(self, client: RawClient) -> None:
        assert self.described(client, TOPIC, "nobody-made-it").error_code == 3
        assert self.described(client, BROKER, "7").error_code == 42
        assert self.described(client, 99, "x").error_code == 42


class TestOthers:
    @pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
    def test_producer_ids_differ(self, client: RawClient, version: int) -> None:
        request = InitProducerIdRequest(None, 60_000)
        wait_until(lambda: client.request(request, version).error_code == 0, 60, "producer ids")
        answers = [client.request(request, version) for _ in range(3)]
        assert len({answer.producer_id for answer in answers}) == 3
        assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(0, 0)] * 3

    @pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
    def test_the_end_of_a_leader_epoch(self, client: RawClient, new_topic: str, version: int) -> None:
        produce(client, new_topic, b"a", b"b")

        def ask(index: int, epoch: int, current: int = -1):
            wanted = [OffsetForLeaderPartition(index, current, epoch)]
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(new_topic, wanted)])
            found = client.request(request, version).topics[0].partitions[0]
            return found.error_code, found.leader_epoch, found.end_offset

        assert ask(0, 0) == (0, 0, 2)
        assert ask(0, 5) == (0, -1, -1)
        assert ask(0, 0, current=5)[0] == 75
        assert ask(9, 0)[0] == 3

    @pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
    def test_the_cluster(self, client: RawClient, node: int, version: int) -> None:
        answer = client.request(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
        assert (answer.error_code, answer.controller_id, len(answer.brokers)) == (0, node, 1)
        assert answer.cluster_id == client.request(MetadataRequest([])).cluster_id
        assert answer.cluster_authorized_operations == 8096

    def test_controllers_cannot_be_asked_here(self, client: RawClient) -> None:
        assert client.request(DescribeClusterRequest(endpoint_type=2)).error_code == 114
