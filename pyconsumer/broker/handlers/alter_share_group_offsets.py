"""AlterShareGroupOffsets: set where the share partitions of an empty group begin (KIP-932)."""

from __future__ import annotations

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.handlers.share_group_heartbeat import has_share_groups
from pyconsumer.errors import BrokerResponseError, Errors
from pyconsumer.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]


async def handle(
    broker: Broker, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    """Set the offsets. The response is sent when the share coordinators have stored them."""
    code: int = Errors.UNSUPPORTED_VERSION
    if has_share_groups(broker):
        code = broker.group_coordinator.check_share_group(request.group_id)
    if code != Errors.NONE:
        return AlterShareGroupOffsetsResponse(error_code=code)
    results: dict[TopicPartition, int] = {}
    wanted: dict[TopicPartition, int] = {}
    for topic in request.topics:
        denied = context.access is not None and not context.access.may(ResourceType.TOPIC, topic.topic_name)
        for one in topic.partitions:
            tp = TopicPartition(topic.topic_name, one.partition_index)
            if denied:
                results[tp] = Errors.TOPIC_AUTHORIZATION_FAILED
            else:
                wanted[tp] = one.start_offset
    try:
        altered = await wait_for(broker.group_coordinator.share_offsets.alter(request.group_id, wanted))
        results |= altered
    except BrokerResponseError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.errno, error_message=str(error))
    topics: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for tp, found in results.items():
        if tp.topic not in topics:
            topic_id = broker.topic_id(tp.topic) or ZERO_UUID
            topics[tp.topic] = AlterShareGroupOffsetsResponseTopic(topic_name=tp.topic, topic_id=topic_id)
        topics[tp.topic].partitions.append(
            AlterShareGroupOffsetsResponsePartition(partition_index=tp.partition, error_code=found)
        )
    return AlterShareGroupOffsetsResponse(responses=list(topics.values()))
