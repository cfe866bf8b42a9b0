"""Admin calls for the offsets of share groups: read, set and delete them (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyconsumer.admin.groups import ask_coordinators, naming_members
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
    from pyconsumer.network.client_requests import ClientResponse
    from pyconsumer.network.futures import RequestFuture, Steps

__all__ = ["alter_offsets", "delete_offsets", "offsets_of"]


def offsets_of(
    calls: Calls, wanted: Mapping[str, Iterable[TopicPartition] | None], deadline: float
) -> Steps[dict[str, dict[TopicPartition, ShareOffset] | KafkaError]]:
    """Return where share partitions of groups begin, for the given ones or for all (None). An error is its result.

    Partitions without an offset are left out. Each coordinator gets one request for up to 100 groups.
    """

    def ask(node: int, some: list[str]) -> RequestFuture[ClientResponse]:
        asked = [
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id=group_id, topics=_topics(wanted[group_id])
            )
            for group_id in some
        ]
        request = describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=asked)
        return calls.send(node, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, deadline)

    return ask_coordinators(calls, wanted, deadline, ask, _read_offsets, what="reading the offsets of share groups")


def _topics(
    partitions: Iterable[TopicPartition] | None,
) -> list[describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return [
        describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
        for name, indexes in by_topic.items()
    ]


def _read_offsets(
    node: int, response: describe_share_group_offsets.DescribeShareGroupOffsetsResponse, group_id: str
) -> dict[TopicPartition, ShareOffset] | KafkaError:
    group = next((group for group in response.groups if group.group_id == group_id), None)
    if group is None:
        return ProtocolError(f"the coordinator's response does not contain group {group_id!r}")
    if group.error_code:
        return for_code(group.error_code, group.error_message or f"share group {group_id!r}")
    offsets: dict[TopicPartition, ShareOffset] = {}
    for topic in group.topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.topic_name, one.partition_index)
            if one.error_code:
                return for_code(one.error_code, one.error_message or f"{tp} of share group {group_id!r}")
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
