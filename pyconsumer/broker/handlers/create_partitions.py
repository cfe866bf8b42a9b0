"""CreatePartitions: a topic gets more partitions (KIP-195)."""

from __future__ import annotations

from collections import Counter

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError, InvalidRequestError
from pyconsumer.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

__all__ = ["handle"]


async def handle(broker: Broker, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Add partitions where that can be; the other topics are answered with the controller's errors."""
    counts = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        try:
            if counts[topic.name] > 1:
                raise InvalidRequestError("Duplicate topic name.")
            assignments = topic.assignments
            nodes = None if assignments is None else [assignment.broker_ids for assignment in assignments]
            added = broker.controller.plan_partitions(topic.name, topic.count, nodes)
            if not request.validate_only:
                broker.controller.create_partitions(topic.name, added)
            results.append(CreatePartitionsTopicResult(topic.name))
        except (BrokerResponseError, OSError) as error:
            code, text = code_and_text(error)
            results.append(CreatePartitionsTopicResult(topic.name, code, text))
    return CreatePartitionsResponse(results=results)
