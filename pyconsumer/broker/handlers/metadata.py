"""Metadata: the brokers, the topics and the leaders of their partitions. Missing topics may be created."""

from __future__ import annotations

from pyconsumer.acls import ResourceType, operation_bits
from pyconsumer.broker.access.authorizer import Access
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS, TopicState, check_topic_name
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.topic_names import CLUSTER_METADATA, plain_name
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID

__all__ = ["AUTHORIZED_OPERATIONS_OMITTED", "CLUSTER_OPERATIONS", "TOPIC_OPERATIONS", "handle"]


_BY_TOPIC_ID = 12  # the version from which topics are found by their ids


#: Without access control all operations are allowed.
TOPIC_OPERATIONS = operation_bits(ResourceType.TOPIC)
CLUSTER_OPERATIONS = operation_bits(ResourceType.CLUSTER)
#: Kafka's value in a response to a request that does not ask for them.
AUTHORIZED_OPERATIONS_OMITTED = -(1 << 31)


async def handle(broker: Broker, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Return the requested topics. If the list of topics is null (in version 0: empty), return all topics."""
    controller = broker.controller
    wanted = request.topics
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
    if wanted is None or (context.api_version == 0 and not wanted):
        topics = [
            _topic(broker, topic, operations)
            for topic in list(controller.topics.values())
            if context.access is None or context.access.may(ResourceType.TOPIC, topic.name, log_denied=False)
        ]
    else:
        if context.api_version < _BY_TOPIC_ID and any(each.topic_id != ZERO_UUID for each in wanted):
            refused = [MetadataResponseTopic(InvalidRequestError.errno, each.name or "") for each in wanted]
            return MetadataResponse(topics=refused)
        if len(wanted) > 1:
            wanted = list({(each.name, each.topic_id): each for each in wanted}.values())
        denied: list[MetadataResponseTopic] = []
        if context.access is not None:
            wanted, denied = _admitted(broker, wanted, request.allow_auto_topic_creation, context.access)
        failed = await _create_missing(broker, wanted, request.allow_auto_topic_creation)
        topics = [_requested(broker, topic, failed, context.api_version, operations) for topic in wanted]
        topics += denied
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*node) for node in broker.endpoints(context.listener)],
        cluster_id=controller.cluster_id,
        controller_id=controller.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
        ),
    )


def _admitted(
    broker: Broker, wanted: list[MetadataRequestTopic], may_create: bool, access: Access
) -> tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]:
    """Return the topics that the client may see, and the errors for the others.

    An error says nothing about whether a topic exists. A topic that the request would create also needs that right.
    """
    there = broker.controller.topics
    admitted, denied = [], []
    for topic in wanted:
        by_id = topic.topic_id != ZERO_UUID
        name = broker.topic_name(topic.topic_id) if by_id else topic.name
        if name is None:
            admitted.append(topic)
        elif not access.may(ResourceType.TOPIC, name) or (
            name not in there
            and may_create
            and broker.config.boolean("auto.create.topics.enable")
            and not access.may(ResourceType.TOPIC, name, "creation")
        ):
            code = access.error(ResourceType.TOPIC)
            is_internal = not by_id and name in INTERNAL_TOPICS
            denied.append(MetadataResponseTopic(code, None if by_id else name, topic.topic_id, is_internal))
        else:
            admitted.append(topic)
    return admitted, denied


async def _create_missing(broker: Broker, wanted: list[MetadataRequestTopic], may_create: bool) -> dict[str, int]:
    """Create the missing topics in one change. Return the error codes of those that cannot be created."""
    controller = broker.controller
    failed: dict[str, int] = {}
    planned: dict[str, TopicState] = {}  # by names in metrics, which must differ
    for topic in wanted:
        name = topic.name
        if name is None or topic.topic_id != ZERO_UUID or name in controller.topics or name in failed:
            continue
        same = planned.get(plain_name(name))
        try:
            if same is None:
                found = _plan(broker, name, may_create)
                if found is not None:
                    planned[plain_name(name)] = found
            elif same.name != name:
                raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {same.name}")
        except (BrokerResponseError, OSError) as error:
            failed[name] = code_and_text(error)[0]
    if planned:
        try:
            await wait_for(controller.create_topics_in_steps(list(planned.values()), broker.call_soon))
        except OSError as error:
            failed |= {topic.name: code_and_text(error)[0] for topic in planned.values()}
    return failed


def _plan(broker: Broker, name: str, may_create: bool) -> TopicState | None:
    """Return the topic to create. An internal topic is created here, and None is returned."""
    check_topic_name(name)
    if not may_create or name == CLUSTER_METADATA or not broker.config.boolean("auto.create.topics.enable"):
        raise UnknownTopicOrPartitionError(name)
    try:
        if name in INTERNAL_TOPICS:
            broker.controller.ensure_internal(name)
            return None
        return broker.controller.plan_topic(name)
    except KafkaError as error:
        if isinstance(error, BrokerResponseError):
            raise
        raise UnknownTopicOrPartitionError(str(error)) from None


def _requested(
    broker: Broker, wanted: MetadataRequestTopic, failed: dict[str, int], version: int, operations: int
) -> MetadataResponseTopic:
    controller = broker.controller
    name = wanted.name
    if wanted.topic_id != ZERO_UUID:
        known = controller.name_of(wanted.topic_id)
        if known is None:
            return MetadataResponseTopic(UnknownTopicIdError.errno, name if version < 12 else None, wanted.topic_id)
        name = known
    if name is None:
        return MetadataResponseTopic(InvalidRequestError.errno, "" if version < 12 else None)
    topic = controller.topics.get(name)
    if topic is None:
        code = failed.get(name, UnknownTopicOrPartitionError.errno)
        is_internal = name in INTERNAL_TOPICS
        return MetadataResponseTopic(code, name, is_internal=is_internal, topic_authorized_operations=operations)
    return _topic(broker, topic, operations)


def _topic(broker: Broker, topic: TopicState, operations: int) -> MetadataResponseTopic:
    alive = broker.controller.brokers
    partitions = []
    for index, state in enumerate(topic.partitions):
        has_leader = state.leader in alive
        partitions.append(
            MetadataResponsePartition(
                0 if has_leader else LeaderNotAvailableError.errno,
                index,
                state.leader if has_leader else -1,
                state.leader_epoch,
                list(state.replicas),
                list(state.isr),
                [node for node in state.replicas if node not in alive],
            )
        )
    is_internal = topic.name in INTERNAL_TOPICS
    return MetadataResponseTopic(0, topic.name, topic.topic_id, is_internal, partitions, operations)
