"""OffsetCommit and OffsetFetch in all their versions: values in, messages out, and back. No I/O, no state.

What differs: topic ids instead of names since version 10 of both; many groups in one OffsetFetch since 8 (we ask for
one); ``require_stable`` since 7 (KIP-447); an error of the whole group since OffsetFetch 2, before that each partition
carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pyconsumer.consumer.coordinator.group_state import Generation
from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "FetchedOffsets",
    "commit_request",
    "commit_results",
    "fetch_request",
    "fetch_results",
    "last_version_without_ids",
    "topic_ids",
]

last_version_without_ids = 9
"""Of OffsetCommit and OffsetFetch: what to stay at where an id is not known."""

_IDS = last_version_without_ids + 1
_GROUPS = 8
_STABLE = 7


class FetchedOffsets(NamedTuple):
    """An OffsetFetch response: the group's error code, each partition's offset (None for none) and error code."""

    error_code: int
    offsets: dict[TopicPartition, OffsetAndMetadata | None]
    errors: dict[TopicPartition, int]


def topic_ids(topics: Collection[str], id_of: Callable[[str], bytes]) -> dict[str, bytes] | None:
    """The id of each topic, None if one of them is not known."""
    ids = {topic: id_of(topic) for topic in topics}
    return None if ZERO_UUID in ids.values() else ids


def commit_request(
    version: int,
    *,
    group_id: str,
    generation: Generation,
    group_instance_id: str | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[str, bytes] | None,
) -> OffsetCommitRequest:
    """An OffsetCommit.

    Args:
        generation: who commits; without one (partitions assigned by hand) the group must have no members.
        ids: by topic, needed since version 10.
    """
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        entry = topics.get(topic)
        if entry is None:
            entry = topics[topic] = OffsetCommitRequestTopic(
                name=topic, topic_id=ids[topic] if version >= _IDS and ids else ZERO_UUID, partitions=[]
            )
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata or "",
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=group_instance_id,
        topics=list(topics.values()),
    )


def commit_results(
    version: int, response: OffsetCommitResponse, ids: Mapping[str, bytes] | None
) -> dict[TopicPartition, int]:
    """The error code of each partition of an OffsetCommit response."""
    name_of = _names(ids)
    return {
        TopicPartition(name_of(topic.topic_id) if version >= _IDS else topic.name, partition.partition_index): (
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch_request(
    version: int,
    *,
    group_id: str,
    partitions: Collection[TopicPartition],
    ids: Mapping[str, bytes] | None,
    require_stable: bool = True,
) -> OffsetFetchRequest:
    """An OffsetFetch of one group.

    Args:
        ids: by topic, needed since version 10.
        require_stable: offsets of unfinished transactions are answered with UNSTABLE_OFFSET_COMMIT (where the version
            knows it).
    """
    numbers: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        numbers.setdefault(topic, []).append(partition)
    stable = require_stable and version >= _STABLE
    if version < _GROUPS:
        old = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(ns)) for topic, ns in numbers.items()]
        return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)
    topics = [
        OffsetFetchRequestTopics(
            name=topic, topic_id=ids[topic] if version >= _IDS and ids else ZERO_UUID, partition_indexes=list(ns)
        )
        for topic, ns in numbers.items()
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=stable)


def fetch_results(
    version: int, response: OffsetFetchResponse, *, group_id: str, ids: Mapping[str, bytes] | None
) -> FetchedOffsets:
    """Return what an OffsetFetch response says.

    Raises:
        ProtocolError: our group is not in it.
    """
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    errors: dict[TopicPartition, int] = {}

    def take(topic: str, partition: int, offset: int, epoch: int, metadata: str | None, code: int) -> None:
        tp = TopicPartition(topic, partition)
        if code:
            errors[tp] = code
        else:
            offsets[tp] = OffsetAndMetadata(offset, metadata or "", epoch) if offset >= 0 else None

    if version < _GROUPS:
        for old in response.topics:
            for p in old.partitions:
                take(
                    old.name,
                    p.partition_index,
                    p.committed_offset,
                    p.committed_leader_epoch,
                    p.metadata,
                    p.error_code,
                )
        return FetchedOffsets(response.error_code, offsets, errors)
    group = next((group for group in response.groups if group.group_id == group_id), None)
    if group is None:
        raise ProtocolError(f"the answer to OffsetFetch of group {group_id} is about other groups")
    name_of = _names(ids)
    for topic in group.topics:
        name = name_of(topic.topic_id) if version >= _IDS else topic.name
        for q in topic.partitions:
            take(name, q.partition_index, q.committed_offset, q.committed_leader_epoch, q.metadata, q.error_code)
    return FetchedOffsets(group.error_code, offsets, errors)


def _names(ids: Mapping[str, bytes] | None) -> Callable[[bytes], str]:
    by_id = {bytes(topic_id): name for name, topic_id in (ids or {}).items()}

    def name_of(topic_id: bytes) -> str:
        name = by_id.get(bytes(topic_id))
        if name is None:
            raise ProtocolError(f"an answer names a topic id that was not asked for: {bytes(topic_id).hex()}")
        return name

    return name_of
