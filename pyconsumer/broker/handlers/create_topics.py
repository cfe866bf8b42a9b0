"""CreateTopics: create topics, or only check whether they could be created (``validate_only``)."""

from __future__ import annotations

from collections import Counter

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import TOPIC_SETTINGS, resolve_topic
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import TopicState
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.error_responses import code_and_text, too_late
from pyconsumer.broker.settings import format_value
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
)
from pyconsumer.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

__all__ = ["handle"]


async def handle(broker: Broker, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create the topics that can be created. The other topics get the controller's errors."""
    if request.timeout_ms <= 0:
        names = {topic.name: None for topic in request.topics}
        return CreateTopicsResponse(topics=[_failed(name, too_late()) for name in names])
    counts = Counter(topic.name for topic in request.topics)
    quota = context.mutation_quota(broker.controller.rates, strict_since=6)
    planned: list[TopicState] = []
    results: list[CreatableTopicResult] = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise InvalidRequestError("Duplicate topic name.")
            plan = _plan(broker, topic)
            quota.record(len(plan.partitions))
        except BrokerResponseError as error:
            results.append(_failed(topic.name, error))
            continue
        planned.append(plan)
        results.append(_created(broker, plan))
    if planned and not request.validate_only:
        try:
            await wait_for(broker.controller.create_topics_in_steps(planned, broker.call_soon))
        except OSError as error:  # none of them was created
            results = [result if result.error_code else _failed(result.name, error) for result in results]
    context.throttle(quota.throttle_ms)
    return CreateTopicsResponse(topics=results)


def _plan(broker: Broker, topic: CreatableTopic) -> TopicState:
    config: dict[str, str] = {}
    for item in topic.configs:
        if item.value is None:
            raise InvalidConfigError(f"Null value not supported for topic configs: {item.name}")
        config[item.name] = item.value
    assignments = {item.partition_index: item.broker_ids for item in topic.assignments}
    if len(assignments) < len(topic.assignments):
        raise InvalidReplicaAssignmentError("a partition has two assignments of replicas")
    return broker.controller.plan_topic(topic.name, topic.num_partitions, topic.replication_factor, config, assignments)


def _failed(name: str, error: Exception) -> CreatableTopicResult:
    code, text = code_and_text(error)
    return CreatableTopicResult(name, error_code=code, error_message=text, configs=None)


def _created(broker: Broker, plan: TopicState) -> CreatableTopicResult:
    configs = []
    for name in TOPIC_SETTINGS:
        found = resolve_topic(name, plan.config, broker.config)
        configs.append(CreatableTopicConfigs(name, format_value(found.value), False, int(found.source), False))
    return CreatableTopicResult(
        plan.name,
        plan.topic_id,
        0,
        None,
        num_partitions=len(plan.partitions),
        replication_factor=len(plan.partitions[0].replicas),
        configs=configs,
    )
