"""CreatePartitions: add partitions to topics (KIP-195)."""

from __future__ import annotations

from collections import Counter

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.elections import PartitionState
from pyconsumer.broker.error_responses import code_and_text, too_late
from pyconsumer.errors import BrokerResponseError, InvalidRequestError
from pyconsumer.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

__all__ = ["handle"]


async def handle(broker: Broker, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Add partitions to the topics for which that is possible. The other topics get the controller's errors."""
    counts = Counter(topic.name for topic in request.topics)
    quota = context.mutation_quota(broker.controller.rates, strict_since=3)
    failed: dict[str, BaseException] = {}
    planned: dict[str, list[PartitionState]] = {}
    for topic in request.topics:
        try:
            if request.timeout_ms <= 0:
                raise too_late()
            if counts[topic.name] > 1:
                raise InvalidRequestError("Duplicate topic name.")
            assignments = topic.assignments
            nodes = None if assignments is None else [assignment.broker_ids for assignment in assignments]
            added = broker.controller.plan_partitions(topic.name, topic.count, nodes)
            quota.record(len(added))
            planned[topic.name] = added
        except BrokerResponseError as error:
            failed[topic.name] = error
    if not request.validate_only:
        try:
            broker.controller.create_partitions_of(planned)
        except OSError as error:
            failed |= dict.fromkeys(planned, error)
    results = [
        CreatePartitionsTopicResult(topic.name, *(code_and_text(failed[topic.name]) if topic.name in failed else ()))
        for topic in {topic.name: topic for topic in request.topics}.values()
    ]
    context.throttle(quota.throttle_ms)
    return CreatePartitionsResponse(results=results)
