"""ConsumerGroupDescribe: the epochs, members and assignments of groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import NO_TARGET, ConsumerGroupMember
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.broker.handlers.describe_groups import GROUP_OPERATIONS
from pyconsumer.broker.handlers.metadata import AUTHORIZED_OPERATIONS_OMITTED
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

__all__ = ["handle"]

_CLASSIC, _CONSUMER = 0, 1  # member types


async def handle(
    broker: GroupBroker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Return each group. A group that this broker does not have gets an error code."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
    groups = [_describe(broker, group_id, operations) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(broker: GroupBroker, group_id: str, operations: int) -> DescribedGroup:
    coordinator = broker.group_coordinator
    error_code, group = coordinator.describe_consumer_group(group_id)
    if group is None:
        message = None
        if error_code == Errors.GROUP_ID_NOT_FOUND:
            exists = coordinator.manager.get_group(group_id) is not None
            message = f"Group {group_id} is not a consumer group." if exists else f"Group {group_id} not found."
        return DescribedGroup(error_code=error_code, error_message=message, group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or coordinator.config.assignors[0],
        members=[_member(broker, group, member) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(broker: GroupBroker, group: ConsumerGroup, member: ConsumerGroupMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(broker, group.assignment_with_pending(member)),
        target_assignment=_assignment(broker, group.targets.get(member.member_id, NO_TARGET)),
        member_type=_CLASSIC if member.uses_classic_protocol else _CONSUMER,
    )


def _assignment(broker: GroupBroker, partitions: Mapping[bytes, Iterable[int]]) -> Assignment:
    found = []
    for topic_id, indexes in partitions.items():
        name = broker.topic_name(topic_id)
        if name is not None:
            found.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes)))
    return Assignment(topic_partitions=found)
