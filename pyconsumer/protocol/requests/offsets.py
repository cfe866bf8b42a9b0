"""OffsetCommit and OffsetFetch of one group, in every version.

The versions differ so: topic ids take the place of names from 10 on; OffsetFetch names many groups from 8 on (this asks
for one) and knows ``require_stable`` from 7 on (KIP-447); an error of the whole group has a field of its own from
OffsetFetch 2 on, before that each partition carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pyconsumer.errors import ProtocolError, UnsupportedVersionError
from pyconsumer.protocol.messages.offset_commit import (
    FIRST_VERSION_WITH_TOPIC_IDS,
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
    "LAST_VERSION_WITH_NAMES",
    "FetchedOffsets",
    "newest_version",
    "offset_commit_request",
    "offset_fetch_request",
    "read_offset_commit",
    "read_offset_fetch",
    "topic_ids",
]

LAST_VERSION_WITH_NAMES = FIRST_VERSION_WITH_TOPIC_IDS - 1
"""Of OffsetCommit and OffsetFetch: the newest version where the id of a topic is not known."""

_FIRST_VERSION_WITH_GROUPS = 8
_FIRST_VERSION_WITH_STABLE = 7
_FIRST_VERSION_WITH_ALL_PARTITIONS = 2


class FetchedOffsets(NamedTuple):
    """An OffsetFetch response: the group's error code, each partition's offset (None for none) and error code."""

    error_code: int
    offsets: dict[TopicPartition, OffsetAndMetadata | None]
    errors: dict[TopicPartition, int]


def topic_ids(topics: Collection[str], id_of: Callable[[str], bytes]) -> dict[str, bytes] | None:
    """Return the id of each topic; None if one of them is not known."""
    ids = {topic: id_of(topic) for topic in topics}
    return None if ZERO_UUID in ids.values() else ids


def newest_version(ids: Mapping[str, bytes] | None) -> int | None:
    """Return the newest version that can name the topics with these ids; None, which is the newest of all, with ids."""
    return LAST_VERSION_WITH_NAMES if ids is None else None


def offset_commit_request(
    version: int,
    *,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
    ids: Mapping[str, bytes] | None = None,
) -> OffsetCommitRequest:
    """Return an OffsetCommit.

    Args:
        generation_id, member_id, group_instance_id: the member that commits; by default none, which a group accepts
            only while it has no members.
        ids: of the topics, needed from version 10 on.
    """
    by_id = ids if ids and version >= FIRST_VERSION_WITH_TOPIC_IDS else None
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        entry = topics.get(topic)
        if entry is None:
            entry = topics[topic] = OffsetCommitRequestTopic(
                name=topic,
                topic_id=by_id[topic] if by_id else ZERO_UUID,
                partitions=[],
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
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=list(topics.values()),
    )


def read_offset_commit(
    version: int, response: OffsetCommitResponse, ids: Mapping[str, bytes] | None = None
) -> dict[TopicPartition, int]:
    """Return the error code of each partition."""
    name_of = _names(ids)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    return {
        TopicPartition(name_of(topic.topic_id) if by_id else topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


def offset_fetch_request(
    version: int,
    *,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    ids: Mapping[str, bytes] | None = None,
    require_stable: bool = True,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> OffsetFetchRequest:
    """Return an OffsetFetch of one group.

    Args:
        partitions: None for all that the group has offsets of.
        ids: of the topics, needed from version 10 on.
        require_stable: the broker answers UNSTABLE_OFFSET_COMMIT for offsets of unfinished transactions, in versions
            that know it.
        member_id, member_epoch: the member that asks, under the consumer protocol (KIP-848); by default none. Versions
            before 9 do not know it.

    Raises:
        UnsupportedVersionError: this version cannot ask for all partitions.
    """
    stable = require_stable and version >= _FIRST_VERSION_WITH_STABLE
    numbers: dict[str, list[int]] | None = None
    if partitions is not None:
        numbers = {}
        for topic, partition in sorted(partitions):
            numbers.setdefault(topic, []).append(partition)
    elif version < _FIRST_VERSION_WITH_ALL_PARTITIONS:
        raise UnsupportedVersionError("the broker cannot list all offsets of a group (OffsetFetch 2 is needed)")
    if version < _FIRST_VERSION_WITH_GROUPS:
        old = None if numbers is None else [OffsetFetchRequestTopic(name, found) for name, found in numbers.items()]
        return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)
    by_id = ids if ids and version >= FIRST_VERSION_WITH_TOPIC_IDS else None
    topics = None
    if numbers is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, topic_id=by_id[name] if by_id else ZERO_UUID, partition_indexes=found)
            for name, found in numbers.items()
        ]
    group = OffsetFetchRequestGroup(group_id=group_id, member_id=member_id, member_epoch=member_epoch, topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def read_offset_fetch(
    version: int, response: OffsetFetchResponse, *, group_id: str, ids: Mapping[str, bytes] | None = None
) -> FetchedOffsets:
    """Return the offsets and error codes of a response.

    Raises:
        ProtocolError: the response is about other groups or topics.
    """
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    errors: dict[TopicPartition, int] = {}

    def take(topic: str, partition: int, offset: int, epoch: int, metadata: str | None, code: int) -> None:
        tp = TopicPartition(topic, partition)
        if code:
            errors[tp] = code
        else:
            offsets[tp] = OffsetAndMetadata(offset, metadata or "", epoch) if offset >= 0 else None

    if version < _FIRST_VERSION_WITH_GROUPS:
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
        name = name_of(topic.topic_id) if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
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
