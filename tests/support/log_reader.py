"""Reads whole partitions by plain requests, so that tests judge producers without our consumer."""

from __future__ import annotations

from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.records import ConsumerRecord, Cursor, scan
from pyconsumer.protocol.records.batch import BatchInfo
from pyconsumer.structs import TopicPartition
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient

__all__ = ["end_offset", "leader_of", "read_batches", "read_partition"]


def end_offset(client: RawClient, topic: str, partition: int = 0) -> int:
    """The high watermark of a partition."""
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])]
    )
    answer = client.request(request, 5).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


def leader_of(cluster: Cluster, topic: str, partition: int) -> RawClient:
    """A connection to the leader of a partition. Close it."""
    with cluster.raw() as client:
        node = client.leaders(topic)[partition]
        return RawClient(client.brokers()[node])


def _chunks(cluster: Cluster, topic: str, partition: int) -> list[bytes]:
    chunks: list[bytes] = []
    with leader_of(cluster, topic, partition) as client:
        end = end_offset(client, topic, partition)
        at = 0
        while at < end:
            request = FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic, partitions=[FetchPartition(partition, fetch_offset=at, partition_max_bytes=1 << 20)]
                    )
                ],
            )
            answer = client.request(request, 11).responses[0].partitions[0]
            assert answer.error_code == 0
            records = bytes(answer.records or b"")
            assert records, f"no data at offset {at} of {topic}-{partition} which ends at {end}"
            chunks.append(records)
            at = scan(memoryview(records))[-1].next_offset
    return chunks


def read_batches(cluster: Cluster, topic: str, partition: int = 0) -> list[BatchInfo]:
    """Headers of all batches, in order."""
    return [batch for chunk in _chunks(cluster, topic, partition) for batch in scan(memoryview(chunk))]


def read_partition(cluster: Cluster, topic: str, partition: int = 0) -> list[ConsumerRecord]:
    """All records up to the high watermark, in order."""
    records: list[ConsumerRecord] = []
    at = 0
    for chunk in _chunks(cluster, topic, partition):
        cursor = Cursor(TopicPartition(topic, partition), memoryview(chunk), fetch_offset=at)
        while not cursor.exhausted:
            records += cursor.take(1000)
        at = cursor.next_offset
    return records
