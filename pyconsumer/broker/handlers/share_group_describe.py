"""ShareGroupDescribe: the state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.group.share.group import ShareGroupMember
from pyconsumer.broker.handlers.describe_groups import GROUP_OPERATIONS
from pyconsumer.broker.handlers.metadata import AUTHORIZED_OPERATIONS_OMITTED
from pyconsumer.broker.handlers.share_group_heartbeat import has_share_groups
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

__all__ = ["handle"]

_ASSIGNOR = "simple"


async def handle(
    broker: Broker, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    """Return each group. A group that this broker does not have gets an error code."""
    if not has_share_groups(broker):
        code = Errors.UNSUPPORTED_VERSION
        return ShareGroupDescribeResponse(
            groups=[DescribedGroup(error_code=code, group_id=group_id) for group_id in request.group_ids]
        )
    operations = GROUP_OPERATIONS if request.include_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
    return ShareGroupDescribeResponse(groups=[_describe(broker, one, operations) for one in request.group_ids])


def _describe(broker: Broker, group_id: str, operations: int) -> DescribedGroup:
    error_code, text, group = broker.group_coordinator.find_share_group(group_id)
    if group is None:
        return DescribedGroup(error_code=error_code, error_message=text, group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=_ASSIGNOR,
        members=[_member(broker, member) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(broker: Broker, member: ShareGroupMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=_assignment(broker, member.assigned),
    )


def _assignment(broker: Broker, partitions: Mapping[bytes, Iterable[int]]) -> Assignment:
    found = []
    for topic_id, indexes in partitions.items():
        name = broker.topic_name(topic_id)
        if name is not None:
            found.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes)))
    return Assignment(topic_partitions=found)
