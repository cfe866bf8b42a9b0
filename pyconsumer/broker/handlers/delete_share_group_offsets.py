"""DeleteShareGroupOffsets: delete the offsets of topics of an empty share group (KIP-932)."""

from __future__ import annotations

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.share.offsets import TopicOutcome
from pyconsumer.broker.handlers.share_group_heartbeat import has_share_groups
from pyconsumer.errors import BrokerResponseError, Errors
from pyconsumer.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    """Delete the offsets. The response is sent when the share coordinators have deleted them."""
    code: int = Errors.UNSUPPORTED_VERSION
    if has_share_groups(broker):
        code = broker.group_coordinator.check_share_group(request.group_id)
    if code != Errors.NONE:
        return DeleteShareGroupOffsetsResponse(error_code=code)
    results: dict[str, TopicOutcome] = {}
    wanted = []
    for topic in request.topics:
        if context.access is not None and not context.access.may(ResourceType.TOPIC, topic.topic_name):
            code = context.access.error(ResourceType.TOPIC)
            results[topic.topic_name] = TopicOutcome(None, code, "Topic authorization failed.")
        else:
            wanted.append(topic.topic_name)
    try:
        deleted = await wait_for(broker.group_coordinator.share_offsets.delete(request.group_id, wanted))
        results |= deleted
    except BrokerResponseError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.errno, error_message=str(error))
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=one.topic_id or ZERO_UUID,
                error_code=one.error_code,
                error_message=one.error_message,
            )
            for name, one in results.items()
        ]
    )
