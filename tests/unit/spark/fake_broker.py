"""A connection to a broker that exists in memory only: one partition, Fetch and ListOffsets, a fake clock."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaError
from pyconsumer.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.protocol.records import scan
from pyconsumer.spark.client_config import build_config
from pyconsumer.structs import BrokerMetadata, PartitionMetadata, TopicPartition
from tests.support.fake_network import FakeNetwork, SentRequest

TP = TopicPartition("events", 2)


class FakeConnection:
    """As much of :class:`pyconsumer.spark.client_cache.SparkClient` as the readers use.

    Args:
        batches: the log. Each response to a fetch holds one of them, the first that ends after the fetch offset.
        log_start: offsets below are out of range.
        options: ``kafka.*`` options.

    Attributes:
        fetched: offset and node of each fetch, when it was sent.
        troubles: failures of the next fetches: an error code, or an error for their future.
        on_fetch: called with each request.
    """

    def __init__(
        self, *batches: bytes, log_start: int = 0, aborted: list[tuple[int, int]] | None = None, **options: str
    ):
        self.config = build_config({"bootstrap.servers": "x", **{k.replace("_", "."): v for k, v in options.items()}})
        self.clock = ManualClock(100.0)
        self.batches = list(batches)
        self.log_start = log_start
        self.aborted = aborted
        self.end = max((scan(found)[-1].next_offset for found in batches), default=0)
        self.reported_end = self.end  # by ListOffsets
        self.fetched: list[tuple[int, int]] = []
        self.requests: list[FetchRequest] = []
        self.troubles: list[Any] = []
        self.preferred_replica = -1
        self.leader_known = True
        self.updates = 0
        self.on_fetch: Callable[[], None] = lambda: None
        self.client = FakeNetwork(self.clock, respond=self._respond)
        self.client.trouble = ""
        self.metadata: Any = SimpleNamespace(
            set_topics=lambda topics: None,
            add_topic=lambda topic: None,
            leader=lambda tp: PartitionMetadata(*TP, 1, 7) if self.leader_known else None,
            broker=lambda node: BrokerMetadata(node, "x", 1) if node >= 0 else None,
            topic_id=lambda topic: b"i" * 16,
            request_update=self._request_update,
            is_settled=lambda wish: self.metadata.update_count >= wish,
            settled=0,
            update_count=0,
            topic=lambda name: object(),
            topic_error=lambda name: None,
            absence=lambda tp, since: None,
            take_fatal_error=lambda: None,
        )

    def _request_update(self) -> int:
        self.updates += 1
        return int(self.metadata.update_count) + 1

    def _respond(self, sent: SentRequest) -> None:
        if not isinstance(sent.request, FetchRequest):
            sent.answer(self._list_offsets(sent.request))
            return
        position = sent.request.topics[0].partitions[0].fetch_offset
        node = sent.node
        assert node is not None
        self.fetched.append((position, node))
        self.requests.append(sent.request)
        self.on_fetch()
        trouble = self.troubles.pop(0) if self.troubles else 0
        if isinstance(trouble, KafkaError):
            sent.fail(trouble)
        elif trouble is not None:
            sent.answer(self._fetch(position, trouble, node))

    def _fetch(self, position: int, code: int, node: int) -> FetchResponse:
        data = PartitionData(partition_index=TP.partition, error_code=code, high_watermark=self.end)
        if not code and not self.log_start <= position <= self.end:
            data.error_code = 1
        elif not code and self.preferred_replica >= 0 and node != self.preferred_replica:
            data.preferred_read_replica = self.preferred_replica
        elif not code:
            data.records = next((b for b in self.batches if scan(b)[-1].next_offset > position), None)
            if self.aborted is not None:
                data.aborted_transactions = [AbortedTransaction(producer_id=p, first_offset=o) for p, o in self.aborted]
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=b"i" * 16, partitions=[data])])

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0]
        offset = self.log_start if asked.timestamp == -2 else self.reported_end
        answer = ListOffsetsPartitionResponse(partition_index=TP.partition, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TP.topic, partitions=[answer])])
