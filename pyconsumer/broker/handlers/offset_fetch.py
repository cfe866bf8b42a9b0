"""OffsetFetch: the committed offsets of groups."""

from __future__ import annotations

from pyconsumer.acls import ResourceType
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.common.results import FetchedOffset
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.errors import Errors, UnknownTopicIdError
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_MANY_GROUPS = 8
_BY_TOPIC_ID = 10

_UNKNOWN_TOPIC_ID = FetchedOffset(error_code=UnknownTopicIdError.errno)


async def handle(broker: GroupBroker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Return the committed offsets of a group. From version 8 on a request may be about several groups (KIP-709).

    If the list of topics is null, return all committed offsets.
    """
    if context.api_version < _MANY_GROUPS:
        return await _one_group(broker, request, context)
    response = OffsetFetchResponse()
    for group in request.groups:
        response.groups.append(await _group(broker, group, request.require_stable, context))
    return response


async def _one_group(broker: GroupBroker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    partitions = None
    if request.topics is not None:
        partitions = [
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        ]
    denied = _denied(context, partitions)
    if denied and partitions is not None:
        partitions = [tp for tp in partitions if tp not in denied]
    error_code, found = await wait_for(
        broker.group_coordinator.fetch_offsets(request.group_id, partitions, require_stable=request.require_stable)
    )
    found = _visible(context, request.topics is None, found) | denied
    if error_code != Errors.NONE and context.api_version < 2:
        # The response has no error code of the group.
        found = dict.fromkeys(partitions or (), FetchedOffset(error_code=error_code))
    topics: dict[str, OffsetFetchResponseTopic] = {}
    for (name, index), one in found.items():
        topics.setdefault(name, OffsetFetchResponseTopic(name=name)).partitions.append(
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=one.error_code,
            )
        )
    return OffsetFetchResponse(error_code=error_code, topics=list(topics.values()))


async def _group(
    broker: GroupBroker, group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup:
    group_id, requested = group.group_id, group.topics
    by_id = context.api_version >= _BY_TOPIC_ID
    partitions: list[TopicPartition] | None = None
    topic_ids: dict[str, bytes] = {}
    unknown: list[OffsetFetchResponseTopics] = []
    if requested is not None:
        partitions = []
        for topic in requested:
            name = broker.topic_name(topic.topic_id) if by_id else topic.name
            if name is None:
                entries = [_partition(index, _UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
                unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=entries))
                continue
            if by_id:
                topic_ids[name] = topic.topic_id
            partitions += [TopicPartition(name, index) for index in topic.partition_indexes]
    denied = _denied(context, partitions)
    if denied and partitions is not None:
        partitions = [tp for tp in partitions if tp not in denied]
    error_code, found = await wait_for(
        broker.group_coordinator.fetch_offsets(
            group_id,
            partitions,
            require_stable=require_stable,
            topic_ids=topic_ids,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
    )
    if error_code != Errors.NONE:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=error_code)
    found = _visible(context, requested is None, found) | denied
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for (name, index), one in found.items():
        if name not in topics:
            topic_id = topic_ids.get(name) or broker.topic_id(name) if by_id else ZERO_UUID
            if topic_id is None:
                continue  # the topic was deleted, and this version of the response needs its id
            topics[name] = OffsetFetchResponseTopics(name="" if by_id else name, topic_id=topic_id)
        topics[name].partitions.append(_partition(index, one))
    return OffsetFetchResponseGroup(group_id=group_id, topics=[*topics.values(), *unknown])


def _denied(context: RequestContext, partitions: list[TopicPartition] | None) -> dict[TopicPartition, FetchedOffset]:
    """Return an error for each partition of a topic that the client may not see."""
    if context.access is None or not partitions:
        return {}
    topics = context.access.denied(ResourceType.TOPIC, (tp.topic for tp in partitions))
    refusal = FetchedOffset(error_code=context.access.error(ResourceType.TOPIC))
    return {tp: refusal for tp in partitions if tp.topic in topics}


def _visible(
    context: RequestContext, all_topics: bool, found: dict[TopicPartition, FetchedOffset]
) -> dict[TopicPartition, FetchedOffset]:
    """Leave topics that the client may not see out of a response about all topics."""
    access = context.access
    if access is None or not all_topics:
        return found
    return {tp: one for tp, one in found.items() if access.may(ResourceType.TOPIC, tp.topic, log_denied=False)}


def _partition(index: int, one: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=one.error_code,
    )
