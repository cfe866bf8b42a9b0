"""ShareGroupHeartbeat: a member of a share group joins, stays or leaves (KIP-932)."""

from __future__ import annotations

from typing import Final

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

__all__ = ["SHARE_VERSION", "handle", "has_share_groups", "is_member_id"]

#: The feature that allows share groups.
SHARE_VERSION: Final = "share.version"
_LONGEST_MEMBER_ID: Final = 36


def has_share_groups(broker: Broker) -> bool:
    """Return whether share groups are enabled. While they are not, the error is UNSUPPORTED_VERSION."""
    return broker.controller.features.get(SHARE_VERSION, 0) >= 1


def is_member_id(member_id: str | None) -> bool:
    """Return whether a client may have this member id."""
    return bool(member_id) and len(member_id or "") <= _LONGEST_MEMBER_ID


async def handle(
    broker: Broker, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    """Return the member's epoch and assignment as soon as the changes are in the log."""
    if not has_share_groups(broker):
        return ShareGroupHeartbeatResponse(error_code=Errors.UNSUPPORTED_VERSION)
    if not is_member_id(request.member_id):
        text = "Invalid member id in the request."
        return ShareGroupHeartbeatResponse(error_code=Errors.INVALID_REQUEST, error_message=text)
    if context.access is not None and context.access.denied(ResourceType.TOPIC, request.subscribed_topic_names or ()):
        return ShareGroupHeartbeatResponse(error_code=context.access.error(ResourceType.TOPIC))
    result = await wait_for(
        broker.group_coordinator.share_group_heartbeat(
            request, client_id=context.client_id, client_host=context.client_host
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
    return ShareGroupHeartbeatResponse(
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
