"""Admin calls for topics: list, describe, create and delete them, add partitions, delete records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from pyconsumer.acls import AclOperation, operations_of
from pyconsumer.admin.types import ClusterDescription, NewPartitions, NewTopic, TopicDescription
from pyconsumer.errors import (
    KafkaError,
    NotControllerError,
    ProtocolError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from pyconsumer.network.calls import Calls, wait_until
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    metadata,
)
from pyconsumer.protocol.primitives import uuid_to_str
from pyconsumer.structs import BrokerMetadata, PartitionMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client_requests import ClientResponse
    from pyconsumer.network.futures import RequestFuture, Steps

T = TypeVar("T")
_Results = dict[str, KafkaError | None]
_LEAST_PAUSE_S: Final = 0.1

__all__ = ["create", "delete", "delete_before", "describe", "describe_cluster", "raise_partitions"]


def _controller_moved(codes: Iterable[tuple[int, str | None]]) -> KafkaError | None:
    """Only this error makes a repeat safe: others mean that part of the request was carried out."""
    for code, text in codes:
        if code == NotControllerError.errno:
            return for_code(code, text)
    return None


def _metadata(
    calls: Calls, names: list[str] | None, deadline: float, *, operations: bool = False
) -> Steps[metadata.MetadataResponse]:
    def build(version: int) -> metadata.MetadataRequest:
        topics = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
        return metadata.MetadataRequest(
            topics=topics, allow_auto_topic_creation=version < 4, include_topic_authorized_operations=operations
        )

    return (
        yield from calls.call(
            ApiKey.METADATA,
            build,
            metadata.MetadataResponse,
            deadline,
            min_version=8 if operations else 1,
            what="reading the cluster's metadata",
        )
    )


def describe(
    calls: Calls, names: list[str] | None, deadline: float, *, operations: bool = False
) -> Steps[list[TopicDescription]]:
    """Describe topics, in the order of ``names``. Without names, describe all topics in alphabetical order.

    Args:
        operations: also ask which operations this client may do.

    Raises:
        UnknownTopicOrPartitionError: one of the topics does not exist.
        KafkaError: the broker's error for one of the topics.
    """
    response = yield from _metadata(calls, names, deadline, operations=operations)
    found: dict[str, TopicDescription] = {}
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code and (names is not None or topic.error_code != UnknownTopicOrPartitionError.errno):
            missing = topic.error_code == UnknownTopicOrPartitionError.errno
            raise for_code(topic.error_code, f"topic {name!r} does not exist" if missing else f"topic {name!r}")
        partitions = [
            PartitionMetadata(
                name,
                item.partition_index,
                item.leader_id,
                item.leader_epoch,
                tuple(item.replica_nodes),
                tuple(item.isr_nodes),
                tuple(item.offline_replicas),
                item.error_code,
            )
            for item in topic.partitions
        ]
        found[name] = TopicDescription(
            name,
            uuid_to_str(topic.topic_id),
            topic.is_internal,
            tuple(sorted(partitions, key=lambda item: item.partition)),
            operations_of(topic.topic_authorized_operations),
        )
    if names is None:
        return [found[name] for name in sorted(found)]
    left_out = [name for name in names if name not in found]
    if left_out:
        raise ProtocolError(f"the broker's response leaves out topic {left_out[0]!r}")
    return [found[name] for name in names]


def describe_cluster(calls: Calls, deadline: float, *, operations: bool = False) -> Steps[ClusterDescription]:
    """Return the brokers by id, the controller and the cluster id.

    Args:
        operations: also ask which operations this client may do with the cluster.
    """
    allowed = (yield from _cluster_operations(calls, deadline)) if operations else None
    response = yield from _metadata(calls, [], deadline)
    brokers = [BrokerMetadata(item.node_id, item.host, item.port, item.rack) for item in response.brokers]
    return ClusterDescription(response.cluster_id, response.controller_id, tuple(sorted(brokers)), allowed)


def _cluster_operations(calls: Calls, deadline: float) -> Steps[frozenset[AclOperation] | None]:
    from pyconsumer.protocol.messages import describe_cluster as message  # few programs need it

    response = yield from calls.call(
        ApiKey.DESCRIBE_CLUSTER,
        message.DescribeClusterRequest(include_cluster_authorized_operations=True),
        message.DescribeClusterResponse,
        deadline,
        check=lambda response: for_code(response.error_code, response.error_message) if response.error_code else None,
        what="reading the authorized operations",
    )
    return operations_of(response.cluster_authorized_operations)


def create(
    calls: Calls, topics: list[NewTopic], deadline: float, *, validate_only: bool = False
) -> Steps[dict[str, KafkaError | None]]:
    """Create topics. Return each topic's error by name, or None for success."""

    def attempt(names: Collection[str]) -> Steps[tuple[_Results, int]]:
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.replica_assignments else topic.num_partitions,
                    replication_factor=-1 if topic.replica_assignments else topic.replication_factor,
                    assignments=[
                        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
                        for index, nodes in sorted(topic.replica_assignments.items())
                    ],
                    configs=[
                        create_topics.CreatableTopicConfig(name=name, value=None if value is None else str(value))
                        for name, value in topic.topic_configs.items()
                    ],
                )
                for topic in topics
                if topic.name in names
            ],
            timeout_ms=_left_ms(calls, deadline),
            validate_only=validate_only,
        )
        response = yield from calls.call(
            ApiKey.CREATE_TOPICS,
            request,
            create_topics.CreateTopicsResponse,
            deadline,
            target=calls.controller,
            check=lambda response: _controller_moved((item.error_code, item.error_message) for item in response.topics),
            what="creating topics",
        )
        return _results((item.name, item.error_code, item.error_message) for item in response.topics), (
            response.throttle_time_ms
        )

    return (yield from _within_quota(calls, {topic.name for topic in topics}, attempt, deadline))


def delete(calls: Calls, names: list[str], deadline: float) -> Steps[dict[str, KafkaError | None]]:
    """Delete topics. Return each topic's error by name, or None for success."""

    def attempt(left: Collection[str]) -> Steps[tuple[_Results, int]]:
        wanted = [name for name in names if name in left]

        def build(version: int) -> delete_topics.DeleteTopicsRequest:
            timeout_ms = _left_ms(calls, deadline)
            if version >= 6:
                topics = [delete_topics.DeleteTopicState(name=name) for name in wanted]
                return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)
            return delete_topics.DeleteTopicsRequest(topic_names=wanted, timeout_ms=timeout_ms)

        response = yield from calls.call(
            ApiKey.DELETE_TOPICS,
            build,
            delete_topics.DeleteTopicsResponse,
            deadline,
            target=calls.controller,
            check=lambda response: _controller_moved(
                (item.error_code, item.error_message) for item in response.responses
            ),
            what="deleting topics",
        )
        return _results((item.name or "", item.error_code, item.error_message) for item in response.responses), (
            response.throttle_time_ms
        )

    return (yield from _within_quota(calls, set(names), attempt, deadline))


def raise_partitions(
    calls: Calls, wanted: Mapping[str, int | NewPartitions], deadline: float, *, validate_only: bool = False
) -> Steps[dict[str, KafkaError | None]]:
    """Increase the number of partitions of topics. Return each topic's error by name, or None for success."""
    topics = []
    for name, count in wanted.items():
        new = count if isinstance(count, NewPartitions) else NewPartitions(count)
        assignments = None
        if new.new_assignments is not None:
            assignments = [
                create_partitions.CreatePartitionsAssignment(broker_ids=list(nodes)) for nodes in new.new_assignments
            ]
        topics.append(
            create_partitions.CreatePartitionsTopic(name=name, count=new.total_count, assignments=assignments)
        )

    def attempt(names: Collection[str]) -> Steps[tuple[_Results, int]]:
        response = yield from calls.call(
            ApiKey.CREATE_PARTITIONS,
            create_partitions.CreatePartitionsRequest(
                topics=[topic for topic in topics if topic.name in names],
                timeout_ms=_left_ms(calls, deadline),
                validate_only=validate_only,
            ),
            create_partitions.CreatePartitionsResponse,
            deadline,
            target=calls.controller,
            check=lambda response: _controller_moved(
                (item.error_code, item.error_message) for item in response.results
            ),
            what="creating partitions",
        )
        return _results((item.name, item.error_code, item.error_message) for item in response.results), (
            response.throttle_time_ms
        )

    return (yield from _within_quota(calls, set(wanted), attempt, deadline))


def delete_before(
    calls: Calls, offsets: Mapping[TopicPartition, int], deadline: float
) -> Steps[dict[TopicPartition, int]]:
    """Delete the records before an offset of each partition, and return the new start of each log.

    The offset -1 means the high watermark.

    Raises:
        KafkaError: the broker's error for one partition. Other partitions may have been changed.
    """

    def ask(node: int, asked: Mapping[TopicPartition, int]) -> RequestFuture[ClientResponse]:
        topics: dict[str, delete_records.DeleteRecordsTopic] = {}
        for tp in asked:
            topic = topics.setdefault(tp.topic, delete_records.DeleteRecordsTopic(name=tp.topic))
            topic.partitions.append(delete_records.DeleteRecordsPartition(tp.partition, offsets[tp]))
        request = delete_records.DeleteRecordsRequest(
            topics=list(topics.values()), timeout_ms=_left_ms(calls, deadline)
        )
        return calls.send(node, ApiKey.DELETE_RECORDS, request, deadline)

    def read(response: delete_records.DeleteRecordsResponse) -> dict[TopicPartition, tuple[int, int]]:
        return {
            TopicPartition(result.name, item.partition_index): (item.error_code, item.low_watermark)
            for result in response.topics
            for item in result.partitions
        }

    return (yield from calls.ask_leaders(offsets, deadline, ask, read, what="deleting records"))


def _within_quota(
    calls: Calls,
    names: Collection[str],
    attempt: Callable[[Collection[str]], Steps[tuple[_Results, int]]],
    deadline: float,
) -> Steps[_Results]:
    """Change topics, and repeat it for those that a quota has refused, until the time is up (KIP-599).

    Args:
        attempt: changes topics. It returns their results, and the time (ms) for which the broker throttles.
    """
    found: _Results = {}
    while True:
        results, throttle_ms = yield from attempt(names)
        found |= results
        names = {name for name, error in results.items() if isinstance(error, ThrottlingQuotaExceededError)}
        again_at = calls.clock.now() + max(throttle_ms / 1000, _LEAST_PAUSE_S)
        if not names or again_at >= deadline:
            return found
        yield from wait_until(calls.clock, again_at, deadline)


def _results(items: Iterable[tuple[str, int, str | None]]) -> _Results:
    return {name: _named(code, text, name) for name, code, text in items}


def _left_ms(calls: Calls, deadline: float) -> int:
    return max(1, min(round(calls.request_timeout * 1000), round((deadline - calls.clock.now()) * 1000)))


def _named(code: int, text: str | None, name: str) -> KafkaError | None:
    if not code:
        return None
    if code == TopicAlreadyExistsError.errno:
        return TopicAlreadyExistsError(text or f"topic {name!r} exists already")
    return for_code(code, text or f"topic {name!r}")
