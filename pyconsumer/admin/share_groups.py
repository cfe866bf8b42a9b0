"""Admin calls for the offsets of share groups: read, set and delete them (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyconsumer.admin.groups import naming_members
from pyconsumer.admin.types import ShareOffset
from pyconsumer.errors import KafkaError, NonEmptyGroupError, ProtocolError, for_code
from pyconsumer.network.calls import Calls
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
)
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["alter_offsets", "delete_offsets", "offsets_of"]


def offsets_of(
    calls: Calls, group_id: str, partitions: Iterable[TopicPartition] | None, deadline: float
) -> Steps[dict[TopicPartition, ShareOffset]]:
    """Return where share partitions begin, for the given ones or for all. Those without an offset are left out."""
    topics: list[describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic] | None = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for tp in partitions:
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        topics = [
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
            for name, indexes in by_topic.items()
        ]
    group = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)

    def check(response: describe_share_group_offsets.DescribeShareGroupOffsetsResponse) -> KafkaError | None:
        if not response.groups:
            return ProtocolError("the coordinator's response contains no group")
        found = response.groups[0]
        return for_code(found.error_code, found.error_message) if found.error_code else None

    response = yield from calls.call(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[group]),
        describe_share_group_offsets.DescribeShareGroupOffsetsResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        what=f"reading the offsets of share group {group_id!r}",
    )
    offsets: dict[TopicPartition, ShareOffset] = {}
    for topic in response.groups[0].topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.topic_name, one.partition_index)
            if one.error_code:
                raise for_code(one.error_code, one.error_message or str(tp))
            if one.start_offset >= 0:
                lag = None if one.lag < 0 else one.lag
                offsets[tp] = ShareOffset(one.start_offset, one.leader_epoch, lag)
    return offsets


def alter_offsets(calls: Calls, group_id: str, offsets: Mapping[TopicPartition, int], deadline: float) -> Steps[None]:
    """Set where share partitions begin. The group must have no members. If it does not exist, it is created.

    Raises:
        NonEmptyGroupError: the group has members. The message names them.
        GroupIdNotFoundError, KafkaError: the coordinator's error.
    """
    topics: dict[str, alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic] = {}
    for tp, offset in offsets.items():
        new = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=tp.topic)
        topics.setdefault(tp.topic, new).partitions.append(
            alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
                partition_index=tp.partition, start_offset=offset
            )
        )

    def check(response: alter_share_group_offsets.AlterShareGroupOffsetsResponse) -> KafkaError | None:
        return for_code(response.error_code, response.error_message) if response.error_code else None

    def steps() -> Steps[None]:
        response = yield from calls.call(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(topics.values())),
            alter_share_group_offsets.AlterShareGroupOffsetsResponse,
            deadline,
            target=calls.coordinator(group_id),
            check=check,
            what=f"setting the offsets of share group {group_id!r}",
        )
        for topic in response.responses:
            for one in topic.partitions:
                if one.error_code:
                    raise for_code(one.error_code, f"{topic.topic_name}-{one.partition_index} of group {group_id!r}")

    yield from naming_members(steps(), NonEmptyGroupError, "stop them first", calls, group_id, deadline)


def delete_offsets(calls: Calls, group_id: str, topics: Iterable[str], deadline: float) -> Steps[None]:
    """Delete the offsets of topics. The group must have no members.

    Raises:
        NonEmptyGroupError: the group has members. The message names them.
        GroupIdNotFoundError, KafkaError: the coordinator's error.
    """
    request = delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )

    def check(response: delete_share_group_offsets.DeleteShareGroupOffsetsResponse) -> KafkaError | None:
        return for_code(response.error_code, response.error_message) if response.error_code else None

    def steps() -> Steps[None]:
        response = yield from calls.call(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            request,
            delete_share_group_offsets.DeleteShareGroupOffsetsResponse,
            deadline,
            target=calls.coordinator(group_id),
            check=check,
            what=f"forgetting offsets of share group {group_id!r}",
        )
        for one in response.responses:
            if one.error_code:
                raise for_code(one.error_code, one.error_message or f"{one.topic_name} of group {group_id!r}")

    yield from naming_members(steps(), NonEmptyGroupError, "stop them first", calls, group_id, deadline)
