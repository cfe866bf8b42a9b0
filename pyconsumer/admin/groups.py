"""Admin calls for groups: list, describe and delete them, and read, change and delete their offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyconsumer.acls import operations_of
from pyconsumer.admin.outcomes import results_of
from pyconsumer.admin.types import GroupDescription, GroupListing, MemberDescription
from pyconsumer.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    KafkaError,
    KafkaTimeoutError,
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
)
from pyconsumer.protocol.requests.offsets import (
    FIRST_VERSION_WITH_GROUPS,
    LAST_VERSION_WITH_NAMES,
    offset_commit_request,
    offset_fetch_request_of_groups,
    read_offset_commit,
    read_offset_fetch,
)
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client_requests import ClientResponse
    from pyconsumer.network.futures import RequestFuture, Steps
    from pyconsumer.protocol.messages import share_group_describe

__all__ = [
    "ask_coordinators",
    "commit_offsets",
    "delete",
    "delete_offsets",
    "describe",
    "describe_all",
    "list_all",
    "naming_members",
    "offsets_of",
]

#: Of ConsumerGroupDescribe 1 (KIP-1099).
_MEMBER_TYPES = {0: "classic", 1: "consumer"}

#: The largest number of groups in a request. A description has the metadata of all members.
MOST_GROUPS = 100

Result = TypeVar("Result")


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
    """Describe a group. See :func:`describe_all`.

    Raises:
        KafkaError: the group's error.
    """
    return results_of((yield from describe_all(calls, [group_id], deadline)))[group_id]


def describe_all(
    calls: Calls, group_ids: Iterable[str], deadline: float, *, operations: bool = False
) -> Steps[dict[str, GroupDescription | KafkaError]]:
    """Describe groups of the classic or of the consumer protocol (KIP-848), and share groups (KIP-932).

    An error of a group is its result. It is ``GroupIdNotFoundError`` if there is no such group, or if it has another
    type.

    Args:
        operations: also ask which operations this client may do.
    """

    def ask(
        api_key: ApiKey,
        names: Iterable[str],
        request: Callable[[list[str]], Message],
        read_one: Callable[[Any, BrokerMetadata], GroupDescription],
    ) -> Steps[dict[str, GroupDescription | KafkaError]]:
        return ask_coordinators(
            calls,
            names,
            deadline,
            lambda node, some: calls.send(node, api_key, request(some), deadline),
            _described(read_one, calls),
            what="describing groups",
        )

    classic = yield from ask(
        ApiKey.DESCRIBE_GROUPS,
        group_ids,
        lambda some: describe_groups.DescribeGroupsRequest(groups=some, include_authorized_operations=operations),
        _read_classic,
    )
    newer = _missing(classic)
    if not newer:
        return classic
    # To the older request a newer group does not exist; a broker without such groups may not know the newer one.
    others = yield from ask(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        newer,
        lambda some: consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=some, include_authorized_operations=operations
        ),
        _read_newer,
    )
    found = {**classic, **_known(others)}
    shared = _missing(others)
    if not shared:
        return found
    from pyconsumer.protocol.messages import share_group_describe  # few programs need it

    last = yield from ask(
        ApiKey.SHARE_GROUP_DESCRIBE,
        shared,
        lambda some: share_group_describe.ShareGroupDescribeRequest(
            group_ids=some, include_authorized_operations=operations
        ),
        _read_shared,
    )
    # If there is no such group at all, the older error says so.
    return {**found, **{name: one for name, one in _known(last).items() if not isinstance(one, GroupIdNotFoundError)}}


def _missing(found: Mapping[str, Result | KafkaError]) -> list[str]:
    return [group_id for group_id, one in found.items() if isinstance(one, GroupIdNotFoundError)]


def _known(found: Mapping[str, Result | KafkaError]) -> dict[str, Result | KafkaError]:
    """Return the results without those of groups whose type the coordinator does not serve."""
    return {group_id: one for group_id, one in found.items() if not isinstance(one, UnsupportedVersionError)}


def ask_coordinators(
    calls: Calls,
    group_ids: Iterable[str],
    deadline: float,
    ask: Callable[[int, list[str]], RequestFuture[ClientResponse]],
    read: Callable[[int, Any, str], Result | KafkaError],
    *,
    what: str,
    most: int = MOST_GROUPS,
) -> Steps[dict[str, Result | KafkaError]]:
    """Ask the coordinators of groups, all at once, until each group has a result. An error of a group is its result.

    A group with a retriable error is asked for again, and its coordinator is looked up again. A coordinator that does
    not answer costs its own groups their results, and no others.

    Args:
        ask: queues a request to a node about some of its groups.
        read: returns the result or the error of a group. It gets the node and its response.
        what: name of the call, for messages.
        most: the largest number of groups in a request.

    Raises:
        KafkaError: the coordinators could not be asked for, and no retry helps.
    """
    found: dict[str, Result | KafkaError] = {}
    pending = list(dict.fromkeys(group_ids))
    failures = 0
    late: KafkaTimeoutError | None = None
    while pending:
        try:
            nodes = yield from calls.coordinators(pending, deadline)
        except KafkaTimeoutError as error:
            late = error
            break
        results: dict[str, Result | KafkaError] = {}
        by_node: dict[int, list[str]] = {}
        for group_id, node in nodes.items():
            if isinstance(node, KafkaError):
                results[group_id] = node
            else:
                by_node.setdefault(node, []).append(group_id)
        sent = [
            (node, some, ask(node, some))
            for node, owned in by_node.items()
            for some in (owned[at : at + most] for at in range(0, len(owned), most))
        ]
        for node, some, future in sent:
            response: ClientResponse | KafkaError
            if late is None or future.done:
                try:
                    response = yield from calls.settle(future, deadline, what)
                except KafkaTimeoutError as error:
                    response = late = error
            else:
                response = late
            for group_id in some:
                if isinstance(response, KafkaError):
                    results[group_id] = response
                else:
                    results[group_id] = read(node, response.message, group_id)
        again = failures < calls.retries and late is None
        pending = [name for name, one in results.items() if again and isinstance(one, KafkaError) and one.retriable]
        found.update((name, one) for name, one in results.items() if name not in pending)
        if pending:
            try:
                yield from calls.pause(failures, deadline)
            except KafkaTimeoutError:
                late = KafkaTimeoutError(f"{what} did not succeed in time: {results[pending[0]]}")
                break
            failures += 1
    if late is not None:
        found.update(dict.fromkeys(pending, late))
    return found


def _described(
    describe_one: Callable[[Any, BrokerMetadata], GroupDescription], calls: Calls
) -> Callable[[int, Any, str], GroupDescription | KafkaError]:
    def read(node: int, response: Any, group_id: str) -> GroupDescription | KafkaError:
        group = next((group for group in response.groups if group.group_id == group_id), None)
        if group is None:
            return ProtocolError(f"the coordinator's response does not contain group {group_id!r}")
        if group.error_code:
            return for_code(group.error_code, group.error_message or f"group {group_id!r}")
        coordinator = calls.metadata.broker(node)
        if coordinator is None:
            return ProtocolError(f"the coordinator of group {group_id!r} is not a known broker")
        try:
            return replace(
                describe_one(group, coordinator), authorized_operations=operations_of(group.authorized_operations)
            )
        except GroupIdNotFoundError as error:
            return error

    return read


def _read_classic(group: describe_groups.DescribedGroup, coordinator: BrokerMetadata) -> GroupDescription:
    if group.group_state == "Dead":  # how brokers before DescribeGroups 6 say that there is none (KIP-1043)
        raise GroupIdNotFoundError(f"group {group.group_id!r} does not exist")
    members = tuple(_member(item, group.protocol_type) for item in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, coordinator
    )


def _read_newer(group: consumer_group_describe.DescribedGroup, coordinator: BrokerMetadata) -> GroupDescription:
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


def _read_shared(group: share_group_describe.DescribedGroup, coordinator: BrokerMetadata) -> GroupDescription:
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
    calls: Calls, wanted: Mapping[str, Collection[TopicPartition] | None], deadline: float
) -> Steps[dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]]:
    """Return the committed offsets of groups, for the given partitions or for all (None). An error is its result.

    Partitions without a committed offset are left out. A group that does not exist has none.
    """
    versions: dict[int, int] = {}  # by node, of the last request

    def ask(least: int) -> Callable[[int, list[str]], RequestFuture[ClientResponse]]:
        def send(node: int, some: list[str]) -> RequestFuture[ClientResponse]:
            def build(version: int) -> offset_fetch.OffsetFetchRequest:
                versions[node] = version
                asked = {group_id: wanted[group_id] for group_id in some}
                return offset_fetch_request_of_groups(version, asked, require_stable=False)

            return calls.send(
                node, ApiKey.OFFSET_FETCH, build, deadline, min_version=least, max_version=LAST_VERSION_WITH_NAMES
            )

        return send

    def read(
        node: int, response: offset_fetch.OffsetFetchResponse, group_id: str
    ) -> dict[TopicPartition, OffsetAndMetadata] | KafkaError:
        try:
            found = read_offset_fetch(versions[node], response, group_id=group_id)
        except ProtocolError as error:
            return error
        if found.error_code:
            refused = for_code(found.error_code, f"group {group_id!r}")
            return {} if isinstance(refused, GroupIdNotFoundError) else refused
        for tp, code in found.errors.items():
            return for_code(code, f"{tp} of group {group_id!r}")
        return {tp: offset for tp, offset in found.offsets.items() if offset is not None}

    what = "reading the offsets of groups"
    found: dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError] = {}
    left = list(wanted)
    if len(left) > 1:
        found = yield from ask_coordinators(calls, left, deadline, ask(FIRST_VERSION_WITH_GROUPS), read, what=what)
        left = [group_id for group_id, one in found.items() if isinstance(one, UnsupportedVersionError)]
    if left:
        found.update((yield from ask_coordinators(calls, left, deadline, ask(0), read, what=what, most=1)))
    return found


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
