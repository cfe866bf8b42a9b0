"""OffsetCommit and OffsetFetch for one group, in every version.

Differences between versions: topic ids replace names in 10 (both APIs). OffsetFetch has an error code for the whole
group since 2 (before, each partition has it), ``require_stable`` since 7 (KIP-447) and several groups since 8
(KIP-709).
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
    "FIRST_VERSION_WITH_GROUPS",
    "LAST_VERSION_WITH_NAMES",
    "FetchedOffsets",
    "newest_version",
    "offset_commit_request",
    "offset_fetch_request",
    "offset_fetch_request_of_groups",
    "read_offset_commit",
    "read_offset_fetch",
    "topic_ids",
]

LAST_VERSION_WITH_NAMES = FIRST_VERSION_WITH_TOPIC_IDS - 1
"""The newest version of OffsetCommit and OffsetFetch for a topic whose id is unknown."""

FIRST_VERSION_WITH_GROUPS = 8
"""The first version of OffsetFetch that can ask for several groups (KIP-709)."""

_FIRST_VERSION_WITH_STABLE = 7
_FIRST_VERSION_WITH_ALL_PARTITIONS = 2


class FetchedOffsets(NamedTuple):
    """The content of an OffsetFetch response.

    It has the group's error code, and for each partition an offset, None or an error code.
    """

    error_code: int
    offsets: dict[TopicPartition, OffsetAndMetadata | None]
    errors: dict[TopicPartition, int]


def topic_ids(topics: Collection[str], id_of: Callable[[str], bytes]) -> dict[str, bytes] | None:
    """Return the id of each topic, or None if one of them is unknown."""
    ids = {topic: id_of(topic) for topic in topics}
    return None if ZERO_UUID in ids.values() else ids


def newest_version(ids: Mapping[str, bytes] | None) -> int | None:
    """Return the newest version for these ids.

    Without ids it is ``LAST_VERSION_WITH_NAMES``. With ids it is None, which means any version.
    """
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
    """Return an OffsetCommit request.

    Args:
        generation_id, member_id, group_instance_id: the member that commits. By default there is no member. The
            coordinator accepts that only if the group has no members.
        ids: the ids of the topics. Versions from 10 on need them.
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
    """Return the error code of each partition.

    Raises:
        ProtocolError: the response contains another topic id than ``ids``.
    """
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
    """Return an OffsetFetch request for one group.

    Args:
        partitions: None for all partitions with a committed offset.
        ids: the ids of the topics. Versions from 10 on need them.
        require_stable: True requests the error UNSTABLE_OFFSET_COMMIT for a partition with a pending transactional
            offset. Versions before 7 ignore this.
        member_id, member_epoch: the member of the consumer protocol that sends the request (KIP-848). By default no
            member. Versions before 9 leave it out.

    Raises:
        UnsupportedVersionError: this version cannot request all partitions.
    """
    stable = require_stable and version >= _FIRST_VERSION_WITH_STABLE
    numbers: dict[str, list[int]] | None = None
    if partitions is not None:
        numbers = {}
        for topic, partition in sorted(partitions):
            numbers.setdefault(topic, []).append(partition)
    elif version < _FIRST_VERSION_WITH_ALL_PARTITIONS:
        raise UnsupportedVersionError("the broker cannot list all offsets of a group (OffsetFetch 2 is needed)")
    if version < FIRST_VERSION_WITH_GROUPS:
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


def offset_fetch_request_of_groups(
    version: int, wanted: Mapping[str, Collection[TopicPartition] | None], *, require_stable: bool
) -> OffsetFetchRequest:
    """Return an OffsetFetch request for several groups. See :func:`offset_fetch_request`.

    Args:
        wanted: the partitions of each group, or None for all. Versions before 8 take one group.
    """
    requests = [
        offset_fetch_request(version, group_id=group_id, partitions=partitions, require_stable=require_stable)
        for group_id, partitions in wanted.items()
    ]
    if version < FIRST_VERSION_WITH_GROUPS:
        (request,) = requests
        return request
    groups = [group for request in requests for group in request.groups]
    return OffsetFetchRequest(groups=groups, require_stable=requests[0].require_stable)


def read_offset_fetch(
    version: int, response: OffsetFetchResponse, *, group_id: str, ids: Mapping[str, bytes] | None = None
) -> FetchedOffsets:
    """Return the offsets and error codes of a response.

    Raises:
        ProtocolError: the response lacks the group, or contains another topic id than ``ids``.
    """
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    errors: dict[TopicPartition, int] = {}

    def take(topic: str, partition: int, offset: int, epoch: int, metadata: str | None, code: int) -> None:
        tp = TopicPartition(topic, partition)
        if code:
            errors[tp] = code
        else:
            offsets[tp] = OffsetAndMetadata(offset, metadata or "", epoch) if offset >= 0 else None

    if version < FIRST_VERSION_WITH_GROUPS:
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
        raise ProtocolError(f"the response to OffsetFetch lacks group {group_id}")
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
            raise ProtocolError(f"the response contains a topic id that was not requested: {bytes(topic_id).hex()}")
        return name

    return name_of
