"""A raw client of transactions for brokers without sockets. Each method sends one request to the responsible broker."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.transaction.metadata import TransactionRecord
from pyconsumer.broker.transaction.records import metadata_from_value
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyconsumer.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pyconsumer.protocol.records import BatchBuilder, Cursor, iter_records, read_end_transaction_marker, scan
from pyconsumer.protocol.transaction_topic import decode_key
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers

__all__ = [
    "ADDING_WAITS_S",
    "SINK",
    "Producer",
    "Read",
    "end_offset",
    "leader_of",
    "log_bytes",
    "markers_of",
    "read",
    "states_of",
    "write_marker",
]

SINK = TopicPartition("sink", 0)
_LATEST = -1


class Read(NamedTuple):
    """The response of a fetch: visible values under the isolation level, high watermark, LSO, aborted transactions."""

    values: list[bytes]
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]] | None


#: Seconds for which brokers wait before they answer that another transition is under way.
ADDING_WAITS_S = 0.1


def ask(brokers: Brokers, node: int, message: Any, version: int, *, within: float = 0.0) -> Any:
    """Return the response, which must come without a wait, or after ``within`` seconds if it waits."""
    answers = brokers.request(node, message, version)
    brokers.run()
    if within and not answers:
        brokers.advance(within)
    assert answers, f"no answer to {message}"
    return answers[0]


def leader_of(brokers: Brokers, tp: TopicPartition) -> int:
    return brokers.controller.topics[tp.topic].partitions[tp.partition].leader


class Producer:
    """A transactional producer that checks no rule itself. After InitProducerId it knows its id and epoch."""

    def __init__(self, brokers: Brokers, transactional_id: str = "id") -> None:
        self.brokers = brokers
        self.transactional_id = transactional_id
        self.producer = (-1, -1)
        self.sequences: dict[TopicPartition, int] = {}

    @property
    def coordinator(self) -> int:
        broker = next(iter(self.brokers.alive.values()))
        number = broker.transaction_coordinator.partition_for(self.transactional_id)
        return leader_of(self.brokers, TopicPartition(TRANSACTION_TOPIC, number))

    def init(
        self, *, timeout_ms: int = 60_000, producer: tuple[int, int] = (-1, -1), version: int = 5
    ) -> tuple[int, int, int]:
        """InitProducerId: error code, id and epoch."""
        request = InitProducerIdRequest(self.transactional_id, timeout_ms, *producer)
        answer = ask(self.brokers, self.coordinator, request, version)
        if answer.error_code == Errors.NONE:
            if (answer.producer_id, answer.producer_epoch) != self.producer:
                self.sequences.clear()
            self.producer = (answer.producer_id, answer.producer_epoch)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(self, *partitions: TopicPartition, version: int = 3) -> list[int]:
        """AddPartitionsToTxn: an error code for each partition."""
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
        )
        answer = ask(self.brokers, self.coordinator, request, version, within=ADDING_WAITS_S)
        results = answer.results_by_topic_v3_and_below
        return [one.partition_error_code for topic in results for one in topic.results_by_partition]

    def verify(self, tp: TopicPartition) -> int:
        """AddPartitionsToTxn with VerifyOnly, as brokers send it."""
        topics = [AddPartitionsToTxnTopic(tp.topic, [tp.partition])]
        one = AddPartitionsToTxnTransaction(self.transactional_id, *self.producer, True, topics)
        answer = ask(self.brokers, self.coordinator, AddPartitionsToTxnRequest([one]), 4)
        found: int = answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
        return found

    def add_offsets(self, group_id: str = "g") -> int:
        """AddOffsetsToTxn."""
        request = self.offsets_request(group_id)
        code: int = ask(self.brokers, self.coordinator, request, 4, within=ADDING_WAITS_S).error_code
        return code

    def offsets_request(self, group_id: str = "g") -> AddOffsetsToTxnRequest:
        """Return the request that adds a group's offsets."""
        return AddOffsetsToTxnRequest(self.transactional_id, *self.producer, group_id)

    def commit_offset(
        self, offset: int, tp: TopicPartition = SINK, group_id: str = "g", *, version: int = 4, **member: Any
    ) -> int:
        """TxnOffsetCommit of one partition."""
        committed = [TxnOffsetCommitRequestPartition(tp.partition, offset, -1, "")]
        topics = [TxnOffsetCommitRequestTopic(tp.topic, self.topic_id(tp.topic), committed)]
        request = TxnOffsetCommitRequest(self.transactional_id, group_id, *self.producer, topics=topics, **member)
        node = leader_of(self.brokers, TopicPartition(OFFSETS_TOPIC, 0))
        answer = ask(self.brokers, node, request, version, within=ADDING_WAITS_S)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic. A random one if there is no such topic."""
        known = self.brokers.controller.topics.get(topic)
        return uuid.uuid4().bytes if known is None else known.topic_id

    def committed(self, tp: TopicPartition = SINK, group_id: str = "g", *, stable: bool = True) -> tuple[int, int]:
        """OffsetFetch: error code and offset."""
        topics = [OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=topics)], require_stable=stable)
        answer = ask(self.brokers, leader_of(self.brokers, TopicPartition(OFFSETS_TOPIC, 0)), request, 8)
        found = answer.groups[0].topics[0].partitions[0]
        return found.error_code, found.committed_offset

    def send(
        self,
        *values: bytes,
        to: TopicPartition = SINK,
        version: int = 11,
        transactional: bool = True,
        sequence: int | None = None,
    ) -> int:
        """Produce one batch. Return the error code."""
        request = self.batch(*values, to=to, transactional=transactional, sequence=sequence)
        answer = ask(self.brokers, leader_of(self.brokers, to), request, version, within=ADDING_WAITS_S)
        code: int = answer.responses[0].partition_responses[0].error_code
        if code == Errors.NONE and sequence is None:
            self.sequences[to] = self.sequences.get(to, 0) + len(values or (b"v",))
        return code

    def batch(
        self, *values: bytes, to: TopicPartition = SINK, transactional: bool = True, sequence: int | None = None
    ) -> ProduceRequest:
        """Return the request that produces one batch."""
        builder = BatchBuilder("none")
        for value in values or (b"v",):
            builder.try_append(self.brokers.clock.wall_ms(), None, value)
        first = self.sequences.get(to, 0) if sequence is None else sequence
        data = builder.build(
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=first,
            is_transactional=transactional,
        )
        topics = [TopicProduceData(to.topic, partition_data=[PartitionProduceData(to.partition, data)])]
        return ProduceRequest(self.transactional_id if transactional else None, -1, 1000, topics)

    def end(self, *, commit: bool, version: int = 4) -> int:
        """EndTxn. Its id and epoch are adopted."""
        request = EndTxnRequest(self.transactional_id, *self.producer, commit)
        answer = ask(self.brokers, self.coordinator, request, version)
        if answer.error_code == Errors.NONE and version >= 5:
            self.producer = (answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        code: int = answer.error_code
        return code

    @property
    def record(self) -> TransactionRecord:
        """The state at the coordinator."""
        code, record = self.brokers.alive[self.coordinator].transaction_coordinator.describe(self.transactional_id)
        assert code == Errors.NONE
        assert record is not None
        return record

    @property
    def state(self) -> str:
        return self.record.state.label


def read(brokers: Brokers, tp: TopicPartition = SINK, *, committed: bool = True, offset: int = 0) -> Read:
    """Fetch a partition from an offset on."""
    wanted = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=tp.topic, partitions=[wanted])]
    request = FetchRequest(isolation_level=int(committed), topics=topics, max_bytes=1 << 20)
    data = ask(brokers, leader_of(brokers, tp), request, 12).responses[0].partitions[0]
    assert data.error_code == Errors.NONE
    aborted = None
    if data.aborted_transactions is not None:
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions]
    cursor = Cursor(tp, bytes(data.records or b""), fetch_offset=offset, aborted=aborted)
    values = [record.value for record in cursor.take(10_000)]
    return Read(values, data.high_watermark, data.last_stable_offset, aborted)


def end_offset(brokers: Brokers, tp: TopicPartition = SINK, *, committed: bool = True) -> int:
    """ListOffsets: the latest one for an isolation level."""
    topics = [ListOffsetsTopic(tp.topic, [ListOffsetsPartition(tp.partition, timestamp=_LATEST)])]
    request = ListOffsetsRequest(isolation_level=int(committed), topics=topics)
    found: int = ask(brokers, leader_of(brokers, tp), request, 7).topics[0].partitions[0].offset
    return found


def write_marker(
    brokers: Brokers,
    producer: tuple[int, int],
    tp: TopicPartition = SINK,
    *,
    commit: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 1,
) -> int:
    """WriteTxnMarkers for one partition. Return its error code."""
    topics = [WritableTxnMarkerTopic(tp.topic, [tp.partition])]
    marker = WritableTxnMarker(*producer, commit, topics, coordinator_epoch, transaction_version=transaction_version)
    answer = ask(brokers, leader_of(brokers, tp), WriteTxnMarkersRequest([marker]), 2)
    code: int = answer.markers[0].topics[0].partitions[0].error_code
    return code


def log_bytes(brokers: Brokers, tp: TopicPartition) -> memoryview:
    """All batches of a partition's leader."""
    log = brokers.leader(*tp).log
    return memoryview(log.read(0, 1 << 20, log.log_end_offset, at_least_one=True))


def markers_of(brokers: Brokers, tp: TopicPartition = SINK) -> list[tuple[int, int, str, int]]:
    """The control batches of a partition: producer id, epoch, kind and coordinator epoch."""
    view = log_bytes(brokers, tp)
    found = []
    for info in scan(view):
        if info.is_control:
            marker = read_end_transaction_marker(view, info)
            assert marker is not None
            found.append((info.producer_id, info.producer_epoch, marker.type.name, marker.coordinator_epoch))
    return found


def states_of(brokers: Brokers, transactional_id: str = "id") -> Mapping[str, list[TransactionRecord | None]]:
    """The records of an id in ``__transaction_state``, oldest first, by its name. None stands for a tombstone."""
    found: dict[str, list[TransactionRecord | None]] = {}
    for index in range(len(brokers.controller.topics[TRANSACTION_TOPIC].partitions)):
        for record in iter_records(log_bytes(brokers, TopicPartition(TRANSACTION_TOPIC, index))):
            name = decode_key(record.key or b"") or ""
            value = record.value
            found.setdefault(name, []).append(None if value is None else metadata_from_value(name, value).record)
    return found
