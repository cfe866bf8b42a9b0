"""Odd requests of transactional and idempotent producers, other than Produce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyconsumer.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pyconsumer.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pyconsumer.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.list_transactions import ListTransactionsRequest
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
from tests.support.odd.batches import TRANSACTIONAL, batch
from tests.support.odd.world import Case, World, asking, name_of

__all__ = ["CASES"]


def begun(version: int = 4, **changes: Any) -> Case:
    """Return the case of InitProducerId with a new transactional id. The id that is given is left out."""

    def case(world: World) -> str:
        request = InitProducerIdRequest(world.fresh("x"), 60_000)
        for key, value in changes.items():
            setattr(request, key, value)
        return world.asked(request, version, "producer_epoch")

    return case


class Producer:
    """A transactional producer that has its id."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.id = world.fresh("x")
        answer = world.client.request(InitProducerIdRequest(self.id, 60_000), 4)
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def init(self, producer_id: int, epoch: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(self.id, 60_000, producer_id, epoch)

    def add(self, *topics: tuple[str, tuple[int, ...]], **changes: Any) -> AddPartitionsToTxnRequest:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, list(each)) for name, each in topics],
        )
        for key, value in changes.items():
            setattr(request, f"v3_and_below_{key}", value)
        return request

    def added(self) -> tuple[str, int]:
        """Add a new partition to the transaction."""
        at = self.world.partition()
        answer = self.world.client.request(self.add((at[0], (at[1],))), 3)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        return at

    def end(self, *, commit: bool = True, **changes: Any) -> EndTxnRequest:
        request = EndTxnRequest(self.id, self.producer_id, self.epoch, commit)
        for key, value in changes.items():
            setattr(request, key, value)
        return request

    def add_group(self, group: str, **changes: Any) -> AddOffsetsToTxnRequest:
        request = AddOffsetsToTxnRequest(self.id, self.producer_id, self.epoch, group)
        for key, value in changes.items():
            setattr(request, key, value)
        return request

    def commit(self, group: str, name: str, offset: int = 5, **changes: Any) -> TxnOffsetCommitRequest:
        parts = [TxnOffsetCommitRequestPartition(changes.pop("partition", 0), offset)]
        request = TxnOffsetCommitRequest(
            self.id, group, self.producer_id, self.epoch, topics=[TxnOffsetCommitRequestTopic(name, partitions=parts)]
        )
        for key, value in changes.items():
            setattr(request, key, value)
        return request


def of(make: Callable[[Producer], Any], version: int | None = None, *show: str) -> Case:
    return lambda world: world.asked(make(Producer(world)), version, *show)


def added(make: Callable[[Producer], AddPartitionsToTxnRequest]) -> Case:
    """Return the case of an AddPartitionsToTxn, whose answer has codes under another name."""

    def case(world: World) -> str:
        answer = world.client.request(make(Producer(world)), 3)
        found = [
            name_of(part.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        ]
        return ", ".join(sorted(found)) or "nothing"

    return case


def in_transaction(make: Callable[[Producer], Any], version: int | None = None, *show: str) -> Case:
    """Return the case of a request of a producer with a partition in its transaction."""

    def case(world: World) -> str:
        producer = Producer(world)
        producer.added()
        return world.asked(make(producer), version, *show)

    return case


INIT: dict[str, Case] = {
    "good": begun(),
    "version 5": begun(5),
    "an empty transactional id": begun(transactional_id=""),
    "no transactional id": begun(transactional_id=None),
    "timeout 0": begun(transaction_timeout_ms=0),
    "timeout -1": begun(transaction_timeout_ms=-1),
    "timeout 900000": begun(transaction_timeout_ms=900_000),
    "timeout 900001": begun(transaction_timeout_ms=900_001),
    "timeout 0, no transactional id": begun(transactional_id=None, transaction_timeout_ms=0),
    "timeout -1, no transactional id": begun(transactional_id=None, transaction_timeout_ms=-1),
    "an id without epoch": begun(producer_id=7),
    "an epoch without id": begun(producer_epoch=0),
    "an id that nobody has": begun(producer_id=10**12, producer_epoch=0),
    "id -2": begun(producer_id=-2, producer_epoch=0),
    "an id that nobody has, no transactional id": begun(transactional_id=None, producer_id=10**12, producer_epoch=0),
    "its own id and epoch": of(lambda p: p.init(p.producer_id, p.epoch), 4, "producer_epoch"),
    "its own id and an old epoch": of(lambda p: p.init(p.producer_id, -1), 4, "producer_epoch"),
    "its own id and an epoch to come": of(lambda p: p.init(p.producer_id, 5), 4, "producer_epoch"),
    "another's id": of(lambda p: p.init(p.producer_id + 10**6, 0), 4, "producer_epoch"),
}

ADD: dict[str, Case] = {
    "good": added(lambda p: p.add((p.world.topic(), (0,)))),
    "a partition twice": added(lambda p: p.add((p.world.topic(), (0, 0)))),
    "an unknown topic": added(lambda p: p.add((p.world.fresh(), (0,)))),
    "a good and an unknown topic": added(lambda p: p.add((p.world.topic(), (0,)), (p.world.fresh(), (0,)))),
    "an unknown partition": added(lambda p: p.add((p.world.topic(), (1,)))),
    "partition -1": added(lambda p: p.add((p.world.topic(), (-1,)))),
    "an empty topic name": added(lambda p: p.add(("", (0,)))),
    "the internal topic": added(lambda p: p.add(("__consumer_offsets", (0,)))),
    "no topics": added(lambda p: p.add()),
    "an unknown transactional id": added(lambda p: p.add((p.world.topic(), (0,)), transactional_id="odd-nobody")),
    "an empty transactional id": added(lambda p: p.add((p.world.topic(), (0,)), transactional_id="")),
    "another producer id": added(lambda p: p.add((p.world.topic(), (0,)), producer_id=10**12)),
    "producer id -1": added(lambda p: p.add((p.world.topic(), (0,)), producer_id=-1)),
    "an old epoch": added(lambda p: p.add((p.world.topic(), (0,)), producer_epoch=-1)),
    "an epoch to come": added(lambda p: p.add((p.world.topic(), (0,)), producer_epoch=1)),
}

END: dict[str, Case] = {
    "a commit": in_transaction(lambda p: p.end(), 3),
    "an abort": in_transaction(lambda p: p.end(commit=False), 3),
    "a commit of nothing": of(lambda p: p.end(), 3),
    "an abort of nothing": of(lambda p: p.end(commit=False), 3),
    "a commit of nothing by version 5": of(lambda p: p.end(), 5, "producer_epoch"),
    "an abort of nothing by version 5": of(lambda p: p.end(commit=False), 5, "producer_epoch"),
    "an unknown transactional id": in_transaction(lambda p: p.end(transactional_id="odd-nobody"), 3),
    "an empty transactional id": in_transaction(lambda p: p.end(transactional_id=""), 3),
    "another producer id": in_transaction(lambda p: p.end(producer_id=10**12), 3),
    "an old epoch": in_transaction(lambda p: p.end(producer_epoch=-1), 3),
    "an epoch to come": in_transaction(lambda p: p.end(producer_epoch=1), 3),
    "an epoch to come by version 5": in_transaction(lambda p: p.end(producer_epoch=1), 5, "producer_epoch"),
}

OFFSETS: dict[str, Case] = {
    "AddOffsetsToTxn: good": of(lambda p: p.add_group(p.world.fresh()), 3),
    "AddOffsetsToTxn: an empty group id": of(lambda p: p.add_group(""), 3),
    "AddOffsetsToTxn: an unknown transactional id": of(lambda p: p.add_group("g", transactional_id="odd-nobody"), 3),
    "AddOffsetsToTxn: an empty transactional id": of(lambda p: p.add_group("g", transactional_id=""), 3),
    "AddOffsetsToTxn: another producer id": of(lambda p: p.add_group("g", producer_id=10**12), 3),
    "AddOffsetsToTxn: an epoch to come": of(lambda p: p.add_group("g", producer_epoch=1), 3),
    "TxnOffsetCommit: without AddOffsetsToTxn": of(lambda p: p.commit(p.world.fresh(), p.world.topic()), 4),
    "TxnOffsetCommit: version 5": of(lambda p: p.commit(p.world.fresh(), p.world.topic()), 5),
    "TxnOffsetCommit: an empty group id": of(lambda p: p.commit("", p.world.topic()), 5),
    "TxnOffsetCommit: an unknown topic": of(lambda p: p.commit(p.world.fresh(), p.world.fresh()), 5),
    "TxnOffsetCommit: an unknown partition": of(lambda p: p.commit(p.world.fresh(), p.world.topic(), partition=9), 5),
    "TxnOffsetCommit: offset -1": of(lambda p: p.commit(p.world.fresh(), p.world.topic(), -1), 5),
    "TxnOffsetCommit: no topics": of(lambda p: p.commit(p.world.fresh(), "", topics=[]), 5),
    "TxnOffsetCommit: an unknown member": of(
        lambda p: p.commit(p.world.fresh(), p.world.topic(), member_id="nobody", generation_id_or_member_epoch=1), 5
    ),
    "TxnOffsetCommit: generation 1 without member": of(
        lambda p: p.commit(p.world.fresh(), p.world.topic(), generation_id_or_member_epoch=1), 5
    ),
    "TxnOffsetCommit: another producer id": of(
        lambda p: p.commit(p.world.fresh(), p.world.topic(), producer_id=10**12), 5
    ),
    "TxnOffsetCommit: an epoch to come": of(lambda p: p.commit(p.world.fresh(), p.world.topic(), producer_epoch=1), 5),
    "TxnOffsetCommit: an unknown transactional id": of(
        lambda p: p.commit(p.world.fresh(), p.world.topic(), transactional_id="odd-nobody"), 5
    ),
    "TxnOffsetCommit: an empty transactional id": of(
        lambda p: p.commit(p.world.fresh(), p.world.topic(), transactional_id=""), 5
    ),
}


def produced(version: int = 11, *, is_added: bool = True, **fields: Any) -> Case:
    """Return the case of a transactional batch. Fields named as those of :func:`batch` replace the producer's."""

    def case(world: World) -> str:
        producer = Producer(world)
        at = producer.added() if is_added else world.partition()
        known = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "sequence": 0,
            "attributes": TRANSACTIONAL,
        }
        transactional_id = fields.get("transactional_id", producer.id)
        rest = {key: value for key, value in fields.items() if key != "transactional_id"}
        code, offset, _ = world.send_batch(
            batch(**(known | rest)), at, version=version, transactional_id=transactional_id
        )
        return name_of(code) + ("" if code else f" at {offset}")

    return case


PRODUCE: dict[str, Case] = {
    "good": produced(),
    "version 12 without AddPartitionsToTxn": produced(12, is_added=False),
    "version 11 without AddPartitionsToTxn": produced(11, is_added=False),
    "version 10 without AddPartitionsToTxn": produced(10, is_added=False),
    "outside the transaction": produced(attributes=0),
    "outside the transaction, not added": produced(attributes=0, is_added=False),
    "no transactional id": produced(transactional_id=None),
    "another transactional id": produced(transactional_id="odd-nobody"),
    "another transactional id by version 12": produced(12, is_added=False, transactional_id="odd-nobody"),
    "an old epoch": produced(producer_epoch=-1),
    "an epoch to come": produced(producer_epoch=1),
    "an epoch to come by version 12": produced(12, is_added=False, producer_epoch=1),
    "another producer id": produced(producer_id=10**12),
    "another producer id by version 12": produced(12, is_added=False, producer_id=10**12),
    "sequence 5": produced(sequence=5),
    "sequence 5 by version 12": produced(12, is_added=False, sequence=5),
    "sequence -1": produced(sequence=-1),
    "a control batch": produced(attributes=TRANSACTIONAL | 0x20),
}


def mark(world: World, **changes: Any) -> WriteTxnMarkersRequest:
    name, index = world.partition()
    values = {"producer_id": 10**9, "producer_epoch": 0, "coordinator_epoch": 0} | changes
    topics = values.pop("topics", [WritableTxnMarkerTopic(name, [index])])
    return WriteTxnMarkersRequest([WritableTxnMarker(topics=topics, transaction_result=True, **values)])


DESCRIBED: dict[str, Case] = {
    "WriteTxnMarkers: of an unknown producer": asking(mark, 1),
    "WriteTxnMarkers: an unknown topic": asking(lambda w: mark(w, topics=[WritableTxnMarkerTopic(w.fresh(), [0])]), 1),
    "WriteTxnMarkers: none": asking(lambda w: WriteTxnMarkersRequest([]), 1),
    "DescribeTransactions: an unknown id": asking(lambda w: DescribeTransactionsRequest([w.fresh()])),
    "DescribeTransactions: an empty id": asking(lambda w: DescribeTransactionsRequest([""])),
    "DescribeTransactions: none": asking(lambda w: DescribeTransactionsRequest([])),
    "DescribeTransactions: an id twice": asking(lambda w: DescribeTransactionsRequest([w.fresh()] * 2)),
    "ListTransactions: an unknown state": asking(lambda w: ListTransactionsRequest(["nonsense"]), 1),
    "ListTransactions: producer id -1": asking(lambda w: ListTransactionsRequest([], [-1]), 1),
    "ListTransactions: a duration of 0": asking(lambda w: ListTransactionsRequest([], [10**12], 0), 1),
    "ListTransactions: a pattern that is none": asking(lambda w: ListTransactionsRequest([], [10**12], -1, "("), 2),
    "DescribeProducers: good": asking(lambda w: DescribeProducersRequest([TopicRequest(w.topic(), [0])])),
    "DescribeProducers: an unknown topic": asking(lambda w: DescribeProducersRequest([TopicRequest(w.fresh(), [0])])),
    "DescribeProducers: an empty name": asking(lambda w: DescribeProducersRequest([TopicRequest("", [0])])),
    "DescribeProducers: partition -1": asking(lambda w: DescribeProducersRequest([TopicRequest(w.topic(), [-1])])),
    "DescribeProducers: a partition twice": asking(
        lambda w: DescribeProducersRequest([TopicRequest(w.topic(), [0, 0])])
    ),
}

CASES: dict[str, Case] = {
    f"{kind}: {words}" if kind else words: case
    for kind, table in {
        "InitProducerId": INIT,
        "AddPartitionsToTxn": ADD,
        "EndTxn": END,
        "": OFFSETS,
        "Produce in a transaction": PRODUCE,
    }.items()
    for words, case in table.items()
} | DESCRIBED
