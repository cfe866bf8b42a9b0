"""Admin calls for groups: list, describe and delete them, and read, change and delete their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pyconsumer.admin.types import GroupDescription, GroupListing, MemberDescription
from pyconsumer.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    KafkaError,
    NonEmptyGroupError,
    ProtocolError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    for_code,
)
from pyconsumer.network.calls import Calls
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pyconsumer.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
)
from pyconsumer.protocol.requests.offsets import (
    LAST_VERSION_WITH_NAMES,
    FetchedOffsets,
    offset_commit_request,
    offset_fetch_request,
    read_offset_commit,
    read_offset_fetch,
)
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["commit_offsets", "delete", "delete_offsets", "describe", "list_all", "naming_members", "offsets_of"]

#: Of ConsumerGroupDescribe 1 (KIP-1099).
_MEMBER_TYPES = {0: "classic", 1: "consumer"}

Described = TypeVar(
    "Described",
    describe_groups.DescribeGroupsResponse,
    consumer_group_describe.ConsumerGroupDescribeResponse,
    share_group_describe.ShareGroupDescribeResponse,
)


def list_all(
    calls: Calls, deadline: float, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> Steps[list[GroupListing]]:
    """Return the groups of all brokers, by id.

    Args:
        states, types: return only groups with these states and types, such as ``Stable`` and ``consumer``. Empty for
            all.

    Raises:
        UnsupportedVersionError: a broker is too old for this filter.
        KafkaError: a broker did not answer.
    """
    yield from calls.known_cluster(deadline)
    found: dict[str, GroupListing] = {}
    states, types = list(states), list(types)
    for broker in calls.metadata.brokers():
        response = yield from calls.call(
            ApiKey.LIST_GROUPS,
            list_groups.ListGroupsRequest(states_filter=states, types_filter=types),
            list_groups.ListGroupsResponse,
            deadline,
            target=calls.node(broker.node_id),
            check=lambda response: for_code(response.error_code) if response.error_code else None,
            min_version=5 if types else 4 if states else 0,
            what="listing groups",
        )
        for item in response.groups:
            found[item.group_id] = GroupListing(
                item.group_id, item.protocol_type, item.group_state, item.group_type, broker.node_id
            )
    return [found[group_id] for group_id in sorted(found)]


def describe(calls: Calls, group_id: str, deadline: float) -> Steps[GroupDescription]:
    """Describe a group of the classic or of the consumer protocol (KIP-848), or a share group (KIP-932).

    Raises:
        GroupIdNotFoundError: there is no such group, or it has another type.
        KafkaError: the coordinator's error.
    """
    try:
        return (yield from _describe_classic(calls, group_id, deadline))
    except GroupIdNotFoundError as not_classic:
        # To the older request a newer group does not exist; a broker without such groups may not know the newer one.
        try:
            return (yield from _describe_newer(calls, group_id, deadline))
        except UnsupportedVersionError:
            raise not_classic from None
        except GroupIdNotFoundError as not_newer:
            try:
                return (yield from _describe_shared(calls, group_id, deadline))
            except (UnsupportedVersionError, GroupIdNotFoundError):
                raise not_newer from None


def _describe_classic(calls: Calls, group_id: str, deadline: float) -> Steps[GroupDescription]:
    request = describe_groups.DescribeGroupsRequest(groups=[group_id])
    response_class = describe_groups.DescribeGroupsResponse
    response = yield from _ask(calls, ApiKey.DESCRIBE_GROUPS, request, response_class, group_id, deadline)
    group = response.groups[0]
    if group.group_state == "Dead":  # how brokers before DescribeGroups 6 say that there is none (KIP-1043)
        raise GroupIdNotFoundError(f"group {group_id!r} does not exist")
    coordinator = yield from _coordinator_of(calls, group_id, deadline)
    members = tuple(_member(item, group.protocol_type) for item in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, coordinator
    )


def _describe_newer(calls: Calls, group_id: str, deadline: float) -> Steps[GroupDescription]:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group_id])
    response_class = consumer_group_describe.ConsumerGroupDescribeResponse
    response = yield from _ask(calls, ApiKey.CONSUMER_GROUP_DESCRIBE, request, response_class, group_id, deadline)
    group = response.groups[0]
    coordinator = yield from _coordinator_of(calls, group_id, deadline)
    members = tuple(
        MemberDescription(
            item.member_id,
            item.instance_id,
            item.client_id,
            item.client_host,
            _assigned(item.assignment),
            tuple(sorted(item.subscribed_topic_names)),
            item.member_epoch,
            _assigned(item.target_assignment),
            item.subscribed_topic_regex or None,
            item.rack_id,
            _MEMBER_TYPES.get(item.member_type),
        )
        for item in group.members
    )
    return GroupDescription(
        group.group_id,
        group.group_state,
        "consumer",
        group.assignor_name,
        members,
        coordinator,
        "consumer",
        group.group_epoch,
        group.assignment_epoch,
    )


def _describe_shared(calls: Calls, group_id: str, deadline: float) -> Steps[GroupDescription]:
    request = share_group_describe.ShareGroupDescribeRequest(group_ids=[group_id])
    response_class = share_group_describe.ShareGroupDescribeResponse
    response = yield from _ask(calls, ApiKey.SHARE_GROUP_DESCRIBE, request, response_class, group_id, deadline)
    group = response.groups[0]
    coordinator = yield from _coordinator_of(calls, group_id, deadline)
    members = tuple(
        MemberDescription(
            item.member_id,
            None,
            item.client_id,
            item.client_host,
            _assigned(item.assignment),
            tuple(sorted(item.subscribed_topic_names)),
            item.member_epoch,
            rack_id=item.rack_id,
        )
        for item in group.members
    )
    return GroupDescription(
        group.group_id,
        group.group_state,
        "share",
        group.assignor_name,
        members,
        coordinator,
        "share",
        group.group_epoch,
        group.assignment_epoch,
    )


def _ask(
    calls: Calls, api_key: ApiKey, request: Message, response_class: type[Described], group_id: str, deadline: float
) -> Steps[Described]:
    """Ask the coordinator to describe a group, and return a response that contains it."""

    def check(response: Described) -> KafkaError | None:
        if not response.groups:
            return ProtocolError("the coordinator's response contains no group")
        group = response.groups[0]
        return for_code(group.error_code, group.error_message) if group.error_code else None

    return (
        yield from calls.call(
            api_key,
            request,
            response_class,
            deadline,
            target=calls.coordinator(group_id),
            check=check,
            what=f"describing group {group_id!r}",
        )
    )


def _coordinator_of(calls: Calls, group_id: str, deadline: float) -> Steps[BrokerMetadata]:
    node = yield from calls.coordinator(group_id)(deadline)
    coordinator = calls.metadata.broker(-1 if node is None else node)
    if coordinator is None:
        raise ProtocolError(f"the coordinator of group {group_id!r} is not a known broker")
    return coordinator


def _assigned(
    assignment: consumer_group_describe.Assignment | share_group_describe.Assignment,
) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(entry.topic_name, partition)
            for entry in assignment.topic_partitions
            for partition in entry.partitions
        )
    )


def _member(item: describe_groups.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    assigned: list[TopicPartition] = []
    topics: list[str] = []
    if protocol_type == "consumer":
        try:
            if item.member_assignment:
                assignment, _ = ConsumerProtocolAssignment.decode_with_version(item.member_assignment)
                assigned = [
                    TopicPartition(entry.topic, partition)
                    for entry in assignment.assigned_partitions
                    for partition in entry.partitions
                ]
            if item.member_metadata:
                topics = ConsumerProtocolSubscription.decode_with_version(item.member_metadata)[0].topics
        except ProtocolError:
            pass  # a member may use a format of its own; the rest of the description still stands
    return MemberDescription(
        item.member_id,
        item.group_instance_id,
        item.client_id,
        item.client_host,
        tuple(sorted(assigned)),
        tuple(sorted(topics)),
    )


def naming_members(
    call: Steps[object], refusal: type[KafkaError], advice: str, calls: Calls, group_id: str, deadline: float
) -> Steps[None]:
    """Make a call that fails while the group has members. The error names them and the remedy.

    Args:
        call: the steps of the call.
        refusal: its error if there are members.
        advice: the end of the error's text, after who they are.
    """
    try:
        yield from call
    except refusal as error:
        try:
            group = yield from describe(calls, group_id, deadline)
        except KafkaError:
            who = "has members"  # of a kind that cannot be described, or they have just left: the refusal stands
        else:
            who = group.who() or "had members a moment ago"
        raise type(error)(f"group {group_id!r} {who}; {advice}") from error


def delete(calls: Calls, group_id: str, deadline: float) -> Steps[None]:
    """Remove an empty group with its offsets.

    Raises:
        NonEmptyGroupError: the group has members. The message names them.
        GroupIdNotFoundError, KafkaError: the coordinator's error.
    """

    def check(response: delete_groups.DeleteGroupsResponse) -> KafkaError | None:
        code = response.results[0].error_code if response.results else 0
        return for_code(code, f"group {group_id!r}") if code else None

    call = calls.call(
        ApiKey.DELETE_GROUPS,
        delete_groups.DeleteGroupsRequest(groups_names=[group_id]),
        delete_groups.DeleteGroupsResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        what=f"deleting group {group_id!r}",
    )
    advice = "stop them before it is deleted"
    yield from naming_members(call, NonEmptyGroupError, advice, calls, group_id, deadline)


def offsets_of(
    calls: Calls, group_id: str, partitions: Iterable[TopicPartition] | None, deadline: float
) -> Steps[dict[TopicPartition, OffsetAndMetadata]]:
    """Return the committed offsets of a group, for the given partitions or for all.

    Partitions without a committed offset are left out.
    """
    wanted = None if partitions is None else list(partitions)
    sent_version = offset_fetch.OffsetFetchRequest.MIN_VERSION

    def build(version: int) -> offset_fetch.OffsetFetchRequest:
        nonlocal sent_version
        sent_version = version
        return offset_fetch_request(version, group_id=group_id, partitions=wanted, require_stable=False)

    def read(response: offset_fetch.OffsetFetchResponse) -> FetchedOffsets:
        return read_offset_fetch(sent_version, response, group_id=group_id)

    def check(response: offset_fetch.OffsetFetchResponse) -> KafkaError | None:
        code = read(response).error_code
        return for_code(code, f"group {group_id!r}") if code else None

    response = yield from calls.call(
        ApiKey.OFFSET_FETCH,
        build,
        offset_fetch.OffsetFetchResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        max_version=LAST_VERSION_WITH_NAMES,
        what=f"reading the offsets of group {group_id!r}",
    )
    found = read(response)
    for tp, code in found.errors.items():
        raise for_code(code, str(tp))
    return {tp: offset for tp, offset in found.offsets.items() if offset is not None}


def commit_offsets(
    calls: Calls, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float
) -> Steps[None]:
    """Set the offsets of a group that has no members.

    Raises:
        UnknownMemberIdError: the group has members. The message names them.
        KafkaError: the coordinator's error.
    """

    def check(response: offset_commit.OffsetCommitResponse) -> KafkaError | None:
        for tp, code in read_offset_commit(LAST_VERSION_WITH_NAMES, response).items():
            if code:
                return for_code(code, f"{tp} of group {group_id!r}")
        return None

    call = calls.call(
        ApiKey.OFFSET_COMMIT,
        offset_commit_request(LAST_VERSION_WITH_NAMES, group_id=group_id, offsets=offsets),
        offset_commit.OffsetCommitResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        max_version=LAST_VERSION_WITH_NAMES,
        what=f"setting the offsets of group {group_id!r}",
    )
    advice = "stop them, or have one of them seek and commit"
    yield from naming_members(call, UnknownMemberIdError, advice, calls, group_id, deadline)


def delete_offsets(calls: Calls, group_id: str, partitions: Iterable[TopicPartition], deadline: float) -> Steps[None]:
    """Delete committed offsets (KIP-496).

    Raises:
        GroupSubscribedToTopicError: members of the group read one of these topics. The message names them.
        GroupIdNotFoundError, KafkaError: the coordinator's error.
    """
    topics: dict[str, offset_delete.OffsetDeleteRequestTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, offset_delete.OffsetDeleteRequestTopic(name=tp.topic))
        topic.partitions.append(offset_delete.OffsetDeleteRequestPartition(partition_index=tp.partition))

    def check(response: offset_delete.OffsetDeleteResponse) -> KafkaError | None:
        if response.error_code:
            return for_code(response.error_code, f"group {group_id!r}")
        for result in response.topics:
            for item in result.partitions:
                if item.error_code:
                    return for_code(item.error_code, f"{result.name}-{item.partition_index} of group {group_id!r}")
        return None

    call = calls.call(
        ApiKey.OFFSET_DELETE,
        offset_delete.OffsetDeleteRequest(group_id=group_id, topics=list(topics.values())),
        offset_delete.OffsetDeleteResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        what=f"forgetting offsets of group {group_id!r}",
    )
    advice = "stop those that read these topics"
    yield from naming_members(call, GroupSubscribedToTopicError, advice, calls, group_id, deadline)
