"""``AIOKafkaAdminClient``: aiokafka's calls over :class:`pyconsumer.aio.AsyncKafkaAdminClient`.

Requests have the newest version that aiokafka knows, so that responses have aiokafka's fields (:mod:`.responses`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from pyconsumer.aio import AsyncKafkaAdminClient
from pyconsumer.compat.aiokafka.admin import responses
from pyconsumer.compat.aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from pyconsumer.compat.aiokafka.admin.new_partitions import NewPartitions
from pyconsumer.compat.aiokafka.admin.new_topic import NewTopic
from pyconsumer.compat.aiokafka.admin.records_to_delete import RecordsToDelete
from pyconsumer.compat.aiokafka.admin.responses import Response, Shape
from pyconsumer.compat.aiokafka.border import border
from pyconsumer.compat.aiokafka.checks import check_settings
from pyconsumer.compat.aiokafka.client import AIOKafkaClient, KnownCluster
from pyconsumer.compat.aiokafka.structs import OffsetAndMetadata, TopicPartition
from pyconsumer.compat.aiokafka.tokens import await_tokens, begin
from pyconsumer.compat.kafka.settings import translate
from pyconsumer.errors import (
    BrokerResponseError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotControllerError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    for_code,
)
from pyconsumer.network.calls import Calls, Target
from pyconsumer.network.futures import Steps
from pyconsumer.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from pyconsumer.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pyconsumer.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request
from pyconsumer.protocol.requests.offsets import offset_fetch_request
from pyconsumer.protocol.schema import Message

__all__ = ["AIOKafkaAdminClient"]

R = TypeVar("R")

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "request_timeout_ms": 40_000,
    "sasl_mechanism": "PLAIN",
}
_FIRST_VERSION_WITH_CREATION_FLAG: Final = 4  # of Metadata
_LAST_VERSION_WITHOUT_OPERATIONS: Final = 2  # of DescribeGroups


@border.guard
class AIOKafkaAdminClient:
    """An admin client for programs that were written for aiokafka.

    Args:
        configs: settings of aiokafka and of pyconsumer. ``loop`` has no effect.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or is not supported.

    A call takes at most ``request_timeout_ms``. The argument ``timeout_ms`` is the time that the broker may take.

    Attributes:
        admin: the wrapped :class:`pyconsumer.aio.AsyncKafkaAdminClient`.
    """

    def __init__(self, **configs: Any) -> None:
        if configs.pop("loop", None) is not None:
            warnings.warn("loop has no effect: the running loop is used", DeprecationWarning, stacklevel=3)
        if configs.get("api_version") is not None:
            warnings.warn("api_version has no effect: versions are negotiated", DeprecationWarning, stacklevel=3)
        check_settings(configs)
        self._tokens = await_tokens(configs, _DEFAULTS["request_timeout_ms"])
        self.admin = AsyncKafkaAdminClient(translate(configs, defaults=_DEFAULTS))
        self._request_timeout_ms: int = self.admin.config.request_timeout_ms
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Connect. A second call has no effect.

        Raises:
            KafkaConnectionError: no broker could be reached within ``request_timeout_ms``. You must close the client
                all the same.
            IllegalStateError: the client was closed.
        """
        if self._closed:
            raise IllegalStateError("the admin client is closed: make a new one")
        if self._started:
            return
        timeout_ms = begin(self._tokens, self._request_timeout_ms)
        try:
            await self.admin.describe_cluster(timeout_ms=timeout_ms)
        except KafkaTimeoutError as error:
            raise KafkaConnectionError(f"no broker could be reached: {error}") from error
        self._started = True

    async def close(self) -> None:
        """Close the connections. A second call has no effect."""
        self._closed = True
        await self.admin.close()

    @property
    def _client(self) -> AIOKafkaClient:
        """The brokers that are known, for programs that read aiokafka's network client."""
        config = self.admin.config
        return KnownCluster(config.client_id, config.bootstrap_servers, self.admin.calls.metadata)

    # -- topics ------------------------------------------------------------------------------------------------------

    async def create_topics(
        self, new_topics: Iterable[NewTopic], timeout_ms: int | None = None, validate_only: bool = False
    ) -> Response:
        """Create topics.

        Args:
            timeout_ms: the time that the broker may take, in ms. By default ``request_timeout_ms``.
            validate_only: True only checks the request.

        Returns:
            ``topic_errors``: name, error code (0 for success) and message of each topic. No error is raised for a
                topic.
        """
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.num_partitions,
                    replication_factor=topic.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
                        for number, brokers in topic.replica_assignments.items()
                    ],
                    configs=[
                        CreatableTopicConfig(name=name, value=None if value is None else str(value))
                        for name, value in topic.topic_configs.items()
                    ],
                )
                for topic in new_topics
            ],
            timeout_ms=timeout_ms or self._request_timeout_ms,
            validate_only=validate_only,
        )
        return await self._to_controller(responses.CREATE_TOPICS, request, "topic_errors")

    async def delete_topics(self, topics: Iterable[str], timeout_ms: int | None = None) -> Response:
        """Delete topics with their data.

        Returns:
            ``topic_error_codes``: name and error code (0 for success) of each topic. No error is raised for a topic.
        """
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=timeout_ms or self._request_timeout_ms)
        return await self._to_controller(responses.DELETE_TOPICS, request, "topic_error_codes")

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> Response:
        """Increase the numbers of partitions.

        Returns:
            ``topic_errors``: name, error code and message of each topic.

        Raises:
            KafkaError: the first error of a topic.
        """
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=new.total_count, assignments=_assignments(new))
                for name, new in topic_partitions.items()
            ],
            timeout_ms=timeout_ms or self._request_timeout_ms,
            validate_only=validate_only,
        )
        response = await self._to_controller(responses.CREATE_PARTITIONS, request, "topic_errors")
        for topic, code, message in response.topic_errors:
            if code:
                raise for_code(code, f"the partitions of topic {topic!r} could not be created: {message}")
        return response

    async def list_topics(self) -> list[str]:
        """Return the names of all topics, including Kafka's own."""
        return [topic["topic"] for topic in await self.describe_topics()]

    async def describe_topics(self, topics: Iterable[str] | None = None) -> list[Any]:
        """Return topics as dictionaries, by default all topics. A topic that does not exist has ``error_code`` 3."""
        found = await self._get_cluster_metadata(topics)
        described: list[Any] = found.to_object()["topics"]
        return described

    async def describe_cluster(self) -> dict[str, Any]:
        """Return the brokers, the controller's id and the cluster's id."""
        found = (await self._get_cluster_metadata()).to_object()
        del found["topics"]
        return found

    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, RecordsToDelete], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete records of partitions. Return the first remaining offset of each partition.

        Raises:
            NotLeaderOrFollowerError: a partition does not exist.
            LeaderNotAvailableError: a partition has no leader.
            OffsetOutOfRangeError: an offset is above the end of the log.
        """
        described = await self.describe_topics(sorted({tp.topic for tp in records_to_delete}))
        leaders = {
            TopicPartition(topic["topic"], each["partition"]): each["leader"]
            for topic in described
            for each in topic["partitions"]
        }
        for tp in records_to_delete:
            if tp not in leaders:
                raise NotLeaderOrFollowerError(f"{tp.topic}-{tp.partition} does not exist")
            if leaders[tp] == -1:
                raise LeaderNotAvailableError(f"{tp.topic}-{tp.partition} has no leader")
        offsets = {tp: records.before_offset for tp, records in records_to_delete.items()}
        try:
            return dict(await self.admin.delete_records(offsets, timeout_ms=timeout_ms or self._request_timeout_ms))
        except KafkaTimeoutError as error:
            raise _cause(error) from error

    # -- settings ----------------------------------------------------------------------------------------------------

    async def describe_configs(
        self, config_resources: Iterable[ConfigResource], include_synonyms: bool = False
    ) -> list[Response]:
        """Return settings of topics and brokers.

        There is one response for each broker that is described, and one for all topics.

        Args:
            config_resources: the resources. Each has the names of the requested settings as ``configs``, or None for
                all settings.
            include_synonyms: True includes all values of each setting, in order of precedence.
        """
        brokers, others = _by_target(config_resources)
        asked = [*brokers.items(), *([(None, others)] if others else [])]
        found = []
        for node, resources in asked:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.resource_type,
                        resource_name=str(resource.name),
                        configuration_keys=list(resource.configs) if resource.configs else None,
                    )
                    for resource in resources
                ],
                include_synonyms=include_synonyms,
            )
            found.append(await self._request(responses.DESCRIBE_CONFIGS, request, node=node))
        return found

    async def alter_configs(self, config_resources: Iterable[ConfigResource]) -> list[Response]:
        """Replace all settings of topics and brokers. Settings that are not given return to their defaults.

        Returns:
            One response for all topics, then one for each broker. No error is raised for a resource.
        """
        brokers, others = _by_target(config_resources)
        found = []
        for node, resources in [(None, others), *brokers.items()]:
            request = AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=resource.resource_type,
                        resource_name=str(resource.name),
                        configs=[
                            AlterableConfig(name=name, value=None if value is None else str(value))
                            for name, value in (resource.configs or {}).items()
                        ],
                    )
                    for resource in resources
                ]
            )
            found.append(await self._request(responses.ALTER_CONFIGS, request, node=node))
        return found

    # -- groups ------------------------------------------------------------------------------------------------------

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[Response]:
        """Return groups and their members, with one response for each coordinator.

        Args:
            group_coordinator_id: the id of the broker that coordinates all these groups. By default it is looked up.
            include_authorized_operations: True adds a number to each group that stands for the operations the user may
                do.
        """
        by_node: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            node = await self.find_coordinator(group_id) if group_coordinator_id is None else group_coordinator_id
            by_node.setdefault(node, []).append(group_id)
        last = responses.DESCRIBE_GROUPS.last_version
        versions = (last, last) if include_authorized_operations else (0, _LAST_VERSION_WITHOUT_OPERATIONS)
        found = []
        for node, groups in by_node.items():
            request = DescribeGroupsRequest(groups, include_authorized_operations)
            found.append(await self._request(responses.DESCRIBE_GROUPS, request, node=node, versions=versions))
        return found

    async def list_consumer_groups(self, broker_ids: Iterable[int] | None = None) -> list[tuple[Any, ...]]:
        """Return pairs of group id and protocol type, of all groups or of those that some brokers coordinate.

        Raises:
            KafkaError: the error of a broker.
        """
        if broker_ids is None:
            broker_ids = [broker["node_id"] for broker in (await self.describe_cluster())["brokers"]]
        found: set[tuple[Any, ...]] = set()
        for node in broker_ids:
            response = await self._request(
                responses.LIST_GROUPS,
                ListGroupsRequest(),
                node=node,
                error=lambda response: _error(response.error_code, "listing groups"),
            )
            found.update(response.groups)
        return list(found)

    async def find_coordinator(self, group_id: str, coordinator_type: int = 0) -> int:
        """Return the id of a group's coordinator. With ``coordinator_type`` 1: that of a transactional id.

        Raises:
            KafkaError: the error of the broker.
        """

        def request(version: int) -> Message:
            return find_coordinator_request(group_id, version, of_transactions=coordinator_type == 1)

        response = await self._request(
            responses.FIND_COORDINATOR,
            request,
            error=lambda response: _error(response.error_code, f"finding the coordinator of {group_id!r}"),
        )
        found: int = response.coordinator_id
        return found

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, for the given partitions or for all.

        -1 for a given partition that has no committed offset.

        Raises:
            KafkaError: the error of the coordinator.
        """
        wanted = None if partitions is None else [TopicPartition(*tp) for tp in partitions]

        def request(version: int) -> Message:
            return offset_fetch_request(version, group_id=group_id, partitions=wanted, require_stable=False)

        node = await self.find_coordinator(group_id) if group_coordinator_id is None else group_coordinator_id
        response = await self._request(
            responses.OFFSET_FETCH, request, node=node, error=lambda response: _offsets_error(response, group_id)
        )
        return {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata)
            for topic, found in response.topics
            for partition, offset, metadata, _ in found
        }

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _get_cluster_metadata(self, topics: Iterable[str] | None = None) -> Response:
        names = None if topics is None else list(topics)

        def request(version: int) -> Message:
            wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            return MetadataRequest(topics=wanted, allow_auto_topic_creation=version < _FIRST_VERSION_WITH_CREATION_FLAG)

        versions = (1, responses.METADATA.last_version)  # version 0 has no form for "no topic"
        return await self._request(responses.METADATA, request, versions=versions)

    async def _to_controller(self, shape: Shape, request: Message, errors: str) -> Response:
        """Send a request to the controller, and again to the next one if that has moved.

        Args:
            errors: the field with the error code of each topic, which is the second value there.
        """

        def moved(response: Response) -> KafkaError | None:
            codes = {each[1] for each in response.get_item(errors)}
            return NotControllerError("the controller has moved") if NotControllerError.errno in codes else None

        return await self._request(shape, request, target=lambda calls: calls.controller, error=moved)

    async def _request(
        self,
        shape: Shape,
        request: Message | Callable[[int], Message],
        *,
        node: int | None = None,
        target: Callable[[Calls], Target] | None = None,
        versions: tuple[int, int] | None = None,
        error: Callable[[Response], KafkaError | None] = lambda response: None,
    ) -> Response:
        """Send a request until it succeeds, and return the response as aiokafka does.

        Args:
            node: the id of the broker, None for any.
            target: chooses the broker.
            versions: the first and the last version, by default up to aiokafka's last one.
            error: the error in a response. The request is repeated if it is retriable, and the error raised if not.

        Raises:
            NodeNotReadyError: there is no such broker, or the client was not started.
            RequestTimedOutError: there was no response within ``request_timeout_ms``.
            KafkaError: the error in the response.
        """
        if self._closed:
            raise IllegalStateError("the admin client is closed")
        if not self._started:
            raise NodeNotReadyError("the admin client is not connected: call start() first")
        found: list[Response] = []
        sent = 0
        first, last = versions or (0, shape.last_version)

        def build(version: int) -> Message:
            nonlocal sent
            sent = version
            return request(version) if callable(request) else request

        def check(message: Message) -> KafkaError | None:
            found[:] = [shape.response(message, sent)]
            return error(found[0])

        def steps(calls: Calls, deadline: float) -> Steps[None]:
            yield from calls.call(
                shape.api_key,
                build,
                shape.message,
                deadline,
                target=target(calls) if target is not None else None if node is None else _known(calls, node),
                check=check,
                min_version=first,
                max_version=last,
            )

        try:
            await self.admin.calls.run(steps, self._request_timeout_ms)
        except KafkaTimeoutError as timeout:
            raise _cause(timeout) from timeout
        return found[0]

    def __repr__(self) -> str:
        return repr(self.admin).replace("AsyncKafkaAdminClient", "AIOKafkaAdminClient")


def _known(calls: Calls, node: int) -> Target:
    """Return a target that is a broker. One that metadata does not have is an error at once."""

    def choose(deadline: float) -> Steps[int | None]:
        yield from calls.known_cluster(deadline)
        if calls.metadata.broker(node) is None:
            calls.metadata.request_update()
            raise NodeNotReadyError(f"there is no broker {node}")
        return node

    return choose


def _by_target(resources: Iterable[ConfigResource]) -> tuple[dict[int | None, list[ConfigResource]], list[Any]]:
    """Return the resources that are brokers by id, and the others."""
    brokers: dict[int | None, list[ConfigResource]] = {}
    others = []
    for resource in resources:
        if resource.resource_type == ConfigResourceType.BROKER:
            brokers.setdefault(int(resource.name), []).append(resource)
        else:
            others.append(resource)
    return brokers, others


def _assignments(new: NewPartitions) -> list[CreatePartitionsAssignment] | None:
    if new.new_assignments is None:
        return None
    return [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in new.new_assignments]


def _error(code: int, text: str) -> KafkaError | None:
    return for_code(code, text) if code else None


def _offsets_error(response: Response, group_id: str) -> KafkaError | None:
    """Return the error of a group, or the first one of a partition."""
    of_group = vars(response).get("error_code", 0)
    if of_group:
        return for_code(of_group, f"group {group_id!r}")
    for topic, partitions in response.topics:
        for partition, _, _, code in partitions:
            if code:
                return for_code(code, f"{topic}-{partition} of group {group_id!r}")
    return None


def _cause(error: KafkaTimeoutError) -> KafkaError:
    """Return aiokafka's error for a call that did not succeed in time: the broker's, or a time-out of the request."""
    cause = error.__cause__
    return cause if isinstance(cause, BrokerResponseError) else RequestTimedOutError(str(error))
