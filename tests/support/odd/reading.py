"""Odd requests of consumers outside groups: Fetch, ListOffsets, OffsetForLeaderEpoch, Metadata, DeleteRecords."""

from __future__ import annotations

from typing import Any

from pyconsumer.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.odd.batches import batch, now_ms
from tests.support.odd.world import Case, World, asking

__all__ = ["CASES"]

LAST = 2**31 - 1


def filled(world: World) -> tuple[str, int]:
    """Return a partition with three batches of one record each."""
    at = world.partition()
    first = now_ms() - 1000
    for index in range(3):
        assert world.send_batch(batch(first_timestamp=first + index), at)[0] == 0
    return at


def fetch(version: int = 12, *, topic: str | None = None, **changes: Any) -> Case:
    """Return the case of a Fetch of one partition. Changes go to the partition or to the request."""

    def case(world: World) -> str:
        name, index = filled(world)
        part = FetchPartition(index, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=1)
        for key, value in changes.items():
            setattr(part if hasattr(part, key) and key != "max_bytes" else request, key, value)
        name = name if topic is None else topic
        by_id = {"topic_id": world.id_of(name)} if version >= 13 else {"topic": name}
        request.topics = [FetchTopic(partitions=[part], **by_id)]  # type: ignore[arg-type]
        return fetched(world, request, version)

    return case


def fetched(world: World, request: FetchRequest, version: int = 12) -> str:
    answer = world.client.request(request, version)
    for topic in answer.responses:
        for part in topic.partitions:
            part.records = len(part.records or b"") // len(batch())
    shown = ", ".join(world.seen(answer, ("high_watermark", "log_start_offset", "records")))
    return shown + (" with a session" if answer.session_id else "")


def plain(topic: FetchTopic | None, **changes: Any) -> FetchRequest:
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[] if topic is None else [topic], **changes)


def wanted(name: str, *partitions: int, **changes: Any) -> FetchTopic:
    return FetchTopic(name, partitions=[FetchPartition(n, partition_max_bytes=1 << 20, **changes) for n in partitions])


def session(*steps: tuple[int, int]) -> Case:
    """Return the case of a session that is begun, then asked with ids (added to its own) and epochs."""

    def case(world: World) -> str:
        name, index = filled(world)
        begun = world.client.request(plain(wanted(name, index), session_epoch=0), 12)
        found = []
        for id_, epoch in steps:
            answer = world.client.request(plain(None, session_id=begun.session_id + id_, session_epoch=epoch), 12)
            found += world.seen(answer)
        return ", ".join(found)

    return case


def forgotten(world: World) -> str:
    name, index = filled(world)
    begun = world.client.request(plain(wanted(name, index), session_epoch=0), 12)
    request = plain(None, session_id=begun.session_id, session_epoch=1)
    request.forgotten_topics_data = [ForgottenTopic("never-asked", partitions=[0, 0, -1])]
    return fetched(world, request)


FETCH: dict[str, Case] = {
    "good": fetch(),
    "good, by topic id": fetch(16),
    "version 4": fetch(4),
    "offset 1": fetch(fetch_offset=1),
    "the end": fetch(fetch_offset=3),
    "beyond the end": fetch(fetch_offset=4),
    "offset -1": fetch(fetch_offset=-1),
    "offset -2": fetch(fetch_offset=-2),
    "offset 2**63 - 1": fetch(fetch_offset=2**63 - 1),
    "leader epoch 0": fetch(current_leader_epoch=0),
    "leader epoch 1": fetch(current_leader_epoch=1),
    "leader epoch -2": fetch(current_leader_epoch=-2),
    "last fetched epoch 0": fetch(last_fetched_epoch=0, fetch_offset=3),
    "last fetched epoch 0 beyond the end": fetch(last_fetched_epoch=0, fetch_offset=9),
    "last fetched epoch 7": fetch(last_fetched_epoch=7, fetch_offset=3),
    "last fetched epoch -2": fetch(last_fetched_epoch=-2),
    "log start offset 100": fetch(log_start_offset=100),
    "partition_max_bytes 0": fetch(partition_max_bytes=0),
    "partition_max_bytes 1": fetch(partition_max_bytes=1),
    "partition_max_bytes -1": fetch(partition_max_bytes=-1),
    "max_bytes 0": fetch(max_bytes=0),
    "max_bytes 1": fetch(max_bytes=1),
    "max_bytes -1": fetch(max_bytes=-1),
    "min_bytes -1": fetch(min_bytes=-1, fetch_offset=3),
    "min_bytes 2**31 - 1": fetch(min_bytes=LAST),
    "min_bytes 0 at the end": fetch(min_bytes=0, fetch_offset=3, max_wait_ms=LAST),
    "max_wait_ms -1 at the end": fetch(max_wait_ms=-1, fetch_offset=3),
    "isolation level 1": fetch(isolation_level=1),
    "isolation level 2": fetch(isolation_level=2),
    "isolation level -1": fetch(isolation_level=-1),
    "replica id -2": fetch(replica_id=-2),
    "replica id 99": fetch(replica_id=99),
    "replica id 99 by version 16": fetch(16, replica_state=ReplicaState(99, -1)),
    "another cluster": fetch(cluster_id="another"),
    "a rack": fetch(rack_id="nowhere"),
    "an unknown topic": fetch(topic="odd-nobody-made-it"),
    "an empty topic name": fetch(topic=""),
    "an illegal topic name": fetch(topic="a b"),
    "an unknown partition": asking(lambda w: plain(wanted(filled(w)[0], 99)), 12),
    "partition -1": asking(lambda w: plain(wanted(filled(w)[0], -1)), 12),
    "an unknown topic id": asking(lambda w: plain(FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition(0)])), 16),
    "topic id 0": asking(lambda w: plain(FetchTopic(topic_id=bytes(16), partitions=[FetchPartition(0)])), 16),
    "no topics": asking(lambda w: plain(None), 12),
    "no partitions": asking(lambda w: plain(wanted(filled(w)[0])), 12),
    "a partition twice": asking(lambda w: (lambda at: plain(wanted(at[0], at[1], at[1])))(filled(w)), 12),
    "no session, epoch 1": fetch(session_epoch=1),
    "no session, epoch -1": fetch(session_epoch=-1),
    "no session, epoch 0": fetch(session_epoch=0),
    "no session, epoch -2": fetch(session_epoch=-2),
    "an unknown session": fetch(session_id=123456, session_epoch=1),
    "an unknown session, epoch 0": fetch(session_id=123456, session_epoch=0),
    "an unknown session, epoch -1": fetch(session_id=123456, session_epoch=-1),
    "session id -1": fetch(session_id=-1, session_epoch=1),
    "a session's next epoch": session((0, 1), (0, 2)),
    "a session's epoch twice": session((0, 1), (0, 1)),
    "a session's epoch left out": session(
        (0, 2),
    ),
    "another session id": session(
        (1, 1),
    ),
    "a session that was ended": session((0, -1), (0, 1)),
    "a session begun again": session((0, 0), (0, 1)),
    "forgetting what nobody asked for": forgotten,
}


def listed(timestamp: int = -1, version: int = 10, *, partition: int | None = None, **changes: Any) -> Case:
    def case(world: World) -> str:
        name, index = filled(world)
        part = ListOffsetsPartition(index if partition is None else partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1)
        for key, value in changes.items():
            setattr(part if hasattr(part, key) else request, key, value)
        request.topics = [ListOffsetsTopic(name, [part])]
        return world.asked(request, version, "offset", "leader_epoch")

    return case


def offsets_of(world: World, *topics: tuple[str, tuple[int, ...]]) -> ListOffsetsRequest:
    parts = [ListOffsetsTopic(name, [ListOffsetsPartition(n, timestamp=-1) for n in each]) for name, each in topics]
    return ListOffsetsRequest(replica_id=-1, topics=parts)


LIST_OFFSETS: dict[str, Case] = {
    "good": listed(),
    "earliest": listed(-2),
    "the greatest timestamp": listed(-3),
    "the greatest timestamp by version 6": listed(-3, 6),
    "local": listed(-4),
    "local by version 7": listed(-4, 7),
    "tiered": listed(-5),
    "timestamp -6": listed(-6, 10),
    "timestamp -6 by version 11": listed(-6, 11),
    "timestamp -7": listed(-7),
    "timestamp -7 by version 1": listed(-7, 1),
    "timestamp -100": listed(-100, 11),
    "timestamp 0": listed(0),
    "timestamp 2**63 - 1": listed(2**63 - 1),
    "timestamp -2**63": listed(-(2**63)),
    "leader epoch 0": listed(current_leader_epoch=0),
    "leader epoch 9": listed(current_leader_epoch=9),
    "leader epoch -2": listed(current_leader_epoch=-2),
    "isolation level 1": listed(isolation_level=1),
    "isolation level 2": listed(isolation_level=2),
    "isolation level -1": listed(isolation_level=-1),
    "replica id -2": listed(replica_id=-2),
    "replica id -3": listed(replica_id=-3),
    "replica id 99": listed(replica_id=99),
    "timeout -1": listed(timeout_ms=-1),
    "an unknown partition": listed(partition=99),
    "partition -1": listed(partition=-1),
    "an unknown topic": asking(lambda w: offsets_of(w, (w.fresh(), (0,))), 10),
    "an empty name": asking(lambda w: offsets_of(w, ("", (0,))), 10),
    "an illegal name": asking(lambda w: offsets_of(w, ("a b", (0,))), 10),
    "no topics": asking(lambda w: offsets_of(w), 10),
    "no partitions": asking(lambda w: offsets_of(w, (w.topic(), ())), 10),
    "a partition twice": asking(lambda w: offsets_of(w, (w.topic(), (0, 0))), 10),
    "a topic twice": asking(lambda w: offsets_of(w, *[(w.topic(), (0,))] * 2), 10),
    "a partition twice by version 1": asking(lambda w: offsets_of(w, (w.topic(), (0, 0))), 1),
}


def epoch_end(epoch: int = 0, current: int = -1, *, partition: int | None = None, replica_id: int = -1) -> Case:
    def case(world: World) -> str:
        name, index = filled(world)
        part = OffsetForLeaderPartition(index if partition is None else partition, current, epoch)
        request = OffsetForLeaderEpochRequest(replica_id, [OffsetForLeaderTopic(name, [part])])
        return world.asked(request, 4, "leader_epoch", "end_offset")

    return case


def ends_of(*topics: tuple[str, tuple[int, ...]]) -> OffsetForLeaderEpochRequest:
    parts = [OffsetForLeaderTopic(name, [OffsetForLeaderPartition(n, -1, 0) for n in each]) for name, each in topics]
    return OffsetForLeaderEpochRequest(-1, parts)


LEADER_EPOCHS: dict[str, Case] = {
    "good": epoch_end(),
    "epoch 7": epoch_end(7),
    "epoch -1": epoch_end(-1),
    "epoch -2": epoch_end(-2),
    "current epoch 0": epoch_end(0, 0),
    "current epoch 9": epoch_end(0, 9),
    "current epoch -2": epoch_end(0, -2),
    "replica id -2": epoch_end(replica_id=-2),
    "replica id 99": epoch_end(replica_id=99),
    "an unknown partition": epoch_end(partition=99),
    "partition -1": epoch_end(partition=-1),
    "an unknown topic": asking(lambda w: ends_of((w.fresh(), (0,))), 4),
    "an empty name": asking(lambda w: ends_of(("", (0,))), 4),
    "no topics": asking(lambda w: ends_of(), 4),
    "a partition twice": asking(lambda w: ends_of((w.topic(), (0, 0))), 4),
}


def named(*names: str | None, create: bool = False, **more: Any) -> MetadataRequest:
    return MetadataRequest(
        [MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create, **more
    )


def of_ids(*ids: bytes, name: str | None = None) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(each, name) for each in ids], allow_auto_topic_creation=False)


METADATA: dict[str, Case] = {
    "an unknown topic": asking(lambda w: named(w.fresh()), 12),
    "an empty name": asking(lambda w: named(""), 12),
    "a blank": asking(lambda w: named(" "), 12),
    "a dot": asking(lambda w: named("."), 12),
    "a name of 250 letters": asking(lambda w: named("x" * 250), 12),
    "an illegal name that is to be made": asking(lambda w: named("a/b", create=True), 12),
    "an empty name that is to be made": asking(lambda w: named("", create=True), 12),
    "a name of 250 letters that is to be made": asking(lambda w: named("x" * 250, create=True), 12),
    "an internal topic's name that is to be made": asking(
        lambda w: named("__consumer_offsets", create=True), 12, "is_internal"
    ),
    "the name of the cluster's metadata": asking(lambda w: named("__cluster_metadata"), 12),
    "the name of the cluster's metadata that is to be made": asking(
        lambda w: named("__cluster_metadata", create=True), 12
    ),
    "a topic twice": asking(lambda w: named(*[w.topic()] * 2), 12),
    "an unknown topic twice": asking(lambda w: named(*[w.fresh()] * 2), 12),
    "an unknown topic id": asking(lambda w: of_ids(b"?" * 16), 12),
    "an unknown topic id twice": asking(lambda w: of_ids(b"?" * 16, b"?" * 16), 12),
    "topic id 0 and no name": asking(lambda w: of_ids(bytes(16)), 12),
    "a topic id and another name": asking(lambda w: of_ids(w.id_of(w.topic()), name="another"), 12),
    "a topic id by version 11": asking(lambda w: of_ids(w.id_of(w.topic()), name=""), 11),
    "a null name by version 11": asking(lambda w: named(None), 11),
    "permitted operations by version 10": asking(
        lambda w: named(
            w.topic(), include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        ),
        10,
        "topic_authorized_operations",
    ),
}


def until(offset: int, *, partition: int | None = None, timeout_ms: int = 10_000, times: int = 1) -> Case:
    def case(world: World) -> str:
        name, index = filled(world)
        parts = [DeleteRecordsPartition(index if partition is None else partition, offset)] * times
        return world.asked(DeleteRecordsRequest([DeleteRecordsTopic(name, parts)], timeout_ms), 2, "low_watermark")

    return case


def deleted_of(world: World, name: str) -> DeleteRecordsRequest:
    return DeleteRecordsRequest([DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)])], 10_000)


DELETE_RECORDS: dict[str, Case] = {
    "offset 1": until(1),
    "offset 0": until(0),
    "offset -1, the end": until(-1),
    "offset -2": until(-2),
    "beyond the end": until(4),
    "timeout 0": until(1, timeout_ms=0),
    "timeout -1": until(1, timeout_ms=-1),
    "an unknown partition": until(1, partition=99),
    "partition -1": until(1, partition=-1),
    "a partition twice": until(1, times=2),
    "an unknown topic": asking(lambda w: deleted_of(w, w.fresh()), 2, "low_watermark"),
    "an empty name": asking(lambda w: deleted_of(w, ""), 2, "low_watermark"),
    "an internal topic": asking(lambda w: deleted_of(w, "__consumer_offsets"), 2, "low_watermark"),
    "a compacted topic": asking(lambda w: deleted_of(w, w.topic(config={"cleanup.policy": "compact"})), 2),
    "no topics": asking(lambda w: DeleteRecordsRequest([], 10_000), 2),
}

CASES: dict[str, Case] = {
    f"{kind}: {words}": case
    for kind, table in {
        "Fetch": FETCH,
        "ListOffsets": LIST_OFFSETS,
        "OffsetForLeaderEpoch": LEADER_EPOCHS,
        "Metadata": METADATA,
        "DeleteRecords": DELETE_RECORDS,
    }.items()
    for words, case in table.items()
}
