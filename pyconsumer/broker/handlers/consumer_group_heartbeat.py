"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, stays or leaves (KIP-848)."""

from __future__ import annotations

from functools import partial

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """Return the member's epoch and assignment as soon as the changes are in the log.

    While the feature ``group.version`` is 0, the result is UNSUPPORTED_VERSION.
    """
    if broker.controller.features.get("group.version", 0) < 1:
        return ConsumerGroupHeartbeatResponse(error_code=Errors.UNSUPPORTED_VERSION)
    visible = None
    if context.access is not None:
        visible = partial(context.access.may, ResourceType.TOPIC, log_denied=False)
        if context.access.denied(ResourceType.TOPIC, request.subscribed_topic_names or ()):
            return ConsumerGroupHeartbeatResponse(error_code=context.access.error(ResourceType.TOPIC))
    result = await wait_for(
        broker.group_coordinator.consumer_group_heartbeat(
            request,
            version=context.api_version,
            client_id=context.client_id,
            client_host=context.client_host,
            visible=visible,
        )
    )
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in result.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
