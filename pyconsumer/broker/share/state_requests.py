"""Requests about the states of share partitions, which have topics with partitions, and so do their responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.broker.share.coordinator import StateResult
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["serve_states"]

T = TypeVar("T")


async def serve_states(
    request: Any,
    serve: Callable[[ShareStateKey, Any], Deferred[StateResult]],
    make_topic: Callable[..., T],
    make_partition: Callable[..., Any],
    more: Callable[[StateResult], Mapping[str, Any]] = lambda answer: {},
) -> list[T]:
    """Serve each share partition of a request. Return the results of a response.

    The share coordinator of all of them is this broker.

    Args:
        request: has ``group_id`` and ``topics``, and each topic its ``partitions``.
        serve: starts the work for a share partition. It gets the partition in the request.
        make_topic, make_partition: the classes of a topic and of a partition in the response.
        more: the fields of a partition in the response besides its number and error.
    """
    wanted = {
        ShareStateKey(request.group_id, bytes(topic.topic_id), one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    found = await wait_for(for_each({key: serve(key, one) for key, one in wanted.items()}))
    results: dict[bytes, Any] = {}
    for key, answer in found.items():
        result = results.setdefault(key.topic_id, make_topic(topic_id=key.topic_id))
        result.partitions.append(
            make_partition(
                partition=key.partition,
                error_code=answer.error_code,
                error_message=answer.error_message,
                **more(answer),
            )
        )
    return list(results.values())
