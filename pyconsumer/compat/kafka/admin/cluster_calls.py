"""Admin calls that only kafka-python has: elections, log directories, API versions, removal of members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import pyconsumer
from pyconsumer.errors import ElectionNotNeededError, KafkaError, NotControllerError, for_code
from pyconsumer.network.calls import Calls
from pyconsumer.network.futures import Steps
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyconsumer.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from pyconsumer.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from pyconsumer.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingTopicReassignment,
)

__all__ = [
    "Client",
    "PartitionResult",
    "ReplicaElectionResult",
    "elect_leaders",
    "first_error",
    "log_dirs",
    "reassignments",
    "remove_members",
    "versions",
]

R = TypeVar("R")

_FIRST_VERSION_WITH_FEATURES = 3  # of ApiVersions
_FIRST_VERSION_WITH_MEMBERS = 3  # of LeaveGroup


class Client(pyconsumer.KafkaAdminClient):
    """pyconsumer's admin client with additional calls."""

    @property
    def metadata(self) -> Metadata:
        """The known brokers."""
        return self._calls.metadata

    def run(self, steps: Callable[[Calls, float], Steps[R]], timeout_ms: int | None = None) -> R:
        """Run a call.

        Args:
            steps: the call, as a function of this client's requests and of the deadline (monotonic seconds).

        Raises:
            KafkaTimeoutError: the call did not succeed in time.
        """
        return self._run(lambda deadline: steps(self._calls, deadline), timeout_ms)


class PartitionResult(NamedTuple):
    """The outcome of an election: an error code. 0 means success, 84 that no election was needed."""

    partition_id: int
    error_code: int
    error_message: str | None


class ReplicaElectionResult(NamedTuple):
    """The outcomes of the elections in a topic."""

    topic: str
    partition_result: list[PartitionResult]


def elect_leaders(
    calls: Calls, deadline: float, *, election_type: int, partitions: Mapping[str, Iterable[int]], timeout_ms: int
) -> Steps[ElectLeadersResponse]:
    """Elect the preferred leaders of partitions.

    With ``election_type`` 1, elect any replica of a partition without a leader.

    Args:
        timeout_ms: the time that the controller may take, in ms.

    Raises:
        KafkaError: the whole request was rejected.
    """

    def check(response: ElectLeadersResponse) -> KafkaError | None:
        return for_code(response.error_code, "electing leaders") if response.error_code else _moved(response)

    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=[TopicPartitions(name, list(numbers)) for name, numbers in partitions.items()],
        timeout_ms=timeout_ms,
    )
    return calls.call(
        ApiKey.ELECT_LEADERS,
        request,
        ElectLeadersResponse,
        deadline,
        target=calls.controller,
        check=check,
        what="electing leaders",
    )


def _moved(response: ElectLeadersResponse) -> KafkaError | None:
    codes = {each.error_code for topic in response.replica_election_results for each in topic.partition_result}
    return NotControllerError("the controller has moved") if NotControllerError.errno in codes else None


def first_error(results: Iterable[ReplicaElectionResult]) -> KafkaError | None:
    """Return the first error of elections. A partition that needed no election does not count as an error."""
    for topic, partitions in results:
        for number, code, message in partitions:
            if code not in (0, ElectionNotNeededError.errno):
                return for_code(code, f"{topic}-{number}: {message}")
    return None


def log_dirs(
    calls: Calls, deadline: float, *, broker: int, partitions: Mapping[str, Iterable[int]]
) -> Steps[list[DescribeLogDirsResult]]:
    """Return the folders of a broker's logs, with the sizes of its replicas.

    Raises:
        BrokerNotAvailableError: there is no such broker.
        KafkaError: the request was rejected.
    """

    def check(response: DescribeLogDirsResponse) -> KafkaError | None:
        return for_code(response.error_code, f"log directories of {broker}") if response.error_code else None

    response = yield from calls.call(
        ApiKey.DESCRIBE_LOG_DIRS,
        DescribeLogDirsRequest([DescribableLogDirTopic(name, list(numbers)) for name, numbers in partitions.items()]),
        DescribeLogDirsResponse,
        deadline,
        target=calls.node(broker),
        check=check,
        what=f"describing the log directories of broker {broker}",
    )
    return response.results


def reassignments(
    calls: Calls, deadline: float, *, partitions: Mapping[str, Iterable[int]] | None, timeout_ms: int
) -> Steps[list[OngoingTopicReassignment]]:
    """Return the partitions whose replicas are being moved. By default, look at all topics.

    Args:
        timeout_ms: the time that the controller may take, in ms.

    Raises:
        KafkaError: the request was rejected.
    """

    def check(response: ListPartitionReassignmentsResponse) -> KafkaError | None:
        return for_code(response.error_code, response.error_message) if response.error_code else None

    topics = None
    if partitions is not None:
        topics = [ListPartitionReassignmentsTopics(name, list(numbers)) for name, numbers in partitions.items()]
    response = yield from calls.call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ListPartitionReassignmentsRequest(timeout_ms, topics),
        ListPartitionReassignmentsResponse,
        deadline,
        target=calls.controller,
        check=check,
        what="listing reassignments",
    )
    return response.topics


def versions(calls: Calls, deadline: float, *, of_controller: bool = False) -> Steps[ApiVersionsResponse]:
    """Return the APIs and features of a broker.

    Args:
        of_controller: True asks the controller. False asks any broker.
    """
    request = ApiVersionsRequest(client_software_name="pyconsumer", client_software_version=pyconsumer.__version__)
    return calls.call(
        ApiKey.API_VERSIONS,
        request,
        ApiVersionsResponse,
        deadline,
        target=calls.controller if of_controller else None,
        min_version=_FIRST_VERSION_WITH_FEATURES,
        check=lambda response: for_code(response.error_code) if response.error_code else None,
        what="asking for versions",
    )


def remove_members(
    calls: Calls, deadline: float, *, group_id: str, members: Iterable[Any]
) -> Steps[dict[str | None, int]]:
    """Remove members from a group. Return the error code for each member, by member id or instance id.

    Raises:
        KafkaError: the coordinator's error for the whole request.
    """

    def check(response: LeaveGroupResponse) -> KafkaError | None:
        return for_code(response.error_code, f"group {group_id!r}") if response.error_code else None

    response = yield from calls.call(
        ApiKey.LEAVE_GROUP,
        LeaveGroupRequest(
            group_id=group_id,
            members=[
                MemberIdentity(member.member_id or "", member.group_instance_id, member.reason) for member in members
            ],
        ),
        LeaveGroupResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        min_version=_FIRST_VERSION_WITH_MEMBERS,
        what=f"removing members of group {group_id!r}",
    )
    return {each.member_id or each.group_instance_id: each.error_code for each in response.members}
