"""DescribeShareGroupOffsets: where the share partitions of groups begin, and their lag (KIP-932, KIP-1226)."""

from __future__ import annotations

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.share.states import StateSummary
from pyconsumer.broker.handlers.share_group_heartbeat import has_share_groups
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    """Return the offsets of each group. Topics that the client may not see are left out, or have an error."""
    return DescribeShareGroupOffsetsResponse(groups=[await _describe(broker, one, context) for one in request.groups])


async def _describe(
    broker: Broker, group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    code: int = Errors.UNSUPPORTED_VERSION
    if has_share_groups(broker):
        code = broker.group_coordinator.check_share_group(group.group_id)
    if code != Errors.NONE:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=code)
    wanted = denied = None
    if group.topics is not None:
        listed = [TopicPartition(topic.topic_name, index) for topic in group.topics for index in topic.partitions]
        wanted = [tp for tp in listed if _may(context, tp.topic)]
        denied = [tp for tp in listed if not _may(context, tp.topic)]
    found = await wait_for(broker.group_coordinator.share_offsets.describe(group.group_id, wanted))
    topics: dict[str, DescribeShareGroupOffsetsResponseTopic] = {}
    for tp, summary in found.items():
        if wanted is not None or _may(context, tp.topic):
            _topic(broker, topics, tp.topic).partitions.append(_partition(tp.partition, summary))
    for tp in denied or ():
        refused = DescribeShareGroupOffsetsResponsePartition(
            partition_index=tp.partition,
            start_offset=-1,
            error_code=Errors.TOPIC_AUTHORIZATION_FAILED,
            error_message="Topic authorization failed.",
        )
        topic = topics.setdefault(tp.topic, DescribeShareGroupOffsetsResponseTopic(topic_name=tp.topic))
        topic.partitions.append(refused)
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=list(topics.values()))


def _may(context: RequestContext, topic: str) -> bool:
    return context.access is None or context.access.may(ResourceType.TOPIC, topic)


def _topic(
    broker: Broker, topics: dict[str, DescribeShareGroupOffsetsResponseTopic], name: str
) -> DescribeShareGroupOffsetsResponseTopic:
    found = topics.get(name)
    if found is None:
        topic_id = broker.topic_id(name) or ZERO_UUID
        found = topics[name] = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
    return found


def _partition(index: int, summary: StateSummary) -> DescribeShareGroupOffsetsResponsePartition:
    if summary.error_code != Errors.NONE:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1)
    lag = -1
    if summary.start_offset >= 0 and summary.complete_count >= 0 and summary.end_offset >= 0:
        lag = max(0, summary.end_offset - summary.start_offset - summary.complete_count)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch, lag=lag
    )
