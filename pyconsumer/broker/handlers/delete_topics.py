"""DeleteTopics: delete topics by name or, from version 6 on, by id (KIP-516)."""

from __future__ import annotations

from collections import Counter

from pyconsumer.acls import ResourceType
from pyconsumer.broker.access.authorizer import Access
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text, too_late
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
)
from pyconsumer.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pyconsumer.protocol.primitives import ZERO_UUID

__all__ = ["handle"]


async def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete the topics that exist. The other topics get the controller's errors."""
    wanted = request.topics if context.api_version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    counts = Counter((topic.name, topic.topic_id) for topic in wanted)
    both = {broker.topic_id(topic.name) for topic in wanted if topic.name is not None}
    quota = context.mutation_quota(broker.controller.rates, strict_since=5)
    results = []
    deleted: dict[str, DeletableTopicResult] = {}
    for topic in {(topic.name, topic.topic_id): topic for topic in wanted}.values():
        if topic.name is None and topic.topic_id in both:
            continue  # the result is that of the name
        try:
            if request.timeout_ms <= 0:
                raise too_late()
            if counts[topic.name, topic.topic_id] > 1:
                raise InvalidRequestError("Duplicate topic name or id.")
            name, topic_id = _resolve(broker, topic, context.access)
            if any(other.topic_id == topic_id for other in wanted) and topic.name is not None:
                raise InvalidRequestError("The provided topic name maps to an ID that was already supplied.")
            if not broker.config.boolean("delete.topic.enable"):
                raise TopicDeletionDisabledError("Topic deletion is disabled.")
            quota.record(len(broker.controller.topic(name).partitions))
            deleted[name] = result = DeletableTopicResult(name, topic_id)
        except BrokerResponseError as error:
            code, text = code_and_text(error)
            result = DeletableTopicResult(topic.name, topic.topic_id, code, text)
        results.append(result)
    try:
        broker.controller.delete_topics(list(deleted))
    except OSError as error:
        failure = code_and_text(error)
        results = [
            result if result.error_code else DeletableTopicResult(result.name, result.topic_id, *failure)
            for result in results
        ]
    context.throttle(quota.throttle_ms)
    return DeleteTopicsResponse(responses=results)


def _resolve(broker: Broker, topic: DeleteTopicState, access: Access | None) -> tuple[str, bytes]:
    if topic.name is not None:
        if topic.topic_id != ZERO_UUID:
            raise InvalidRequestError("You may not specify both topic name and topic id.")
        _check(access, topic.name, "existence")
        topic_id = broker.controller.topic(topic.name).topic_id
        _check(access, topic.name)
        return topic.name, topic_id
    if topic.topic_id == ZERO_UUID:
        raise InvalidRequestError("Neither topic name nor id were specified.")
    name = broker.topic_name(topic.topic_id)
    if name is None:
        raise UnknownTopicIdError("there is no topic with this id")
    _check(access, name)
    return name, topic.topic_id


def _check(access: Access | None, name: str, purpose: str = "") -> None:
    if access is not None and not access.may(ResourceType.TOPIC, name, purpose):
        raise TopicAuthorizationFailedError("Topic authorization failed.")
