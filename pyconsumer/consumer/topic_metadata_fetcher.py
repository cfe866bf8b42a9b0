"""The calls ``topics`` and ``partitions_for_topic``."""

from __future__ import annotations

from pyconsumer import errors
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.errors import KafkaError, KafkaTimeoutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import wait_until
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

__all__ = ["TopicMetadataFetcher", "none_in_time"]


class TopicMetadataFetcher:
    """Requests the cluster's topics and their partitions.

    Args:
        context: settings, client, metadata and clock of the consumer.
    """

    def __init__(self, context: ConsumerContext) -> None:
        self._config, self._client, self._metadata, _, self._clock = context

    def partitions_for(self, topic: str, deadline: float) -> Steps[set[int] | None]:
        """Return the numbers of a topic's partitions, or None if there is no such topic."""
        found = self._metadata.partitions_for(topic)
        if found:
            return {p.partition for p in found}
        self._metadata.add_transient_topics((topic,))
        try:
            wish = self._metadata.request_update()
            while True:
                found = self._metadata.partitions_for(topic)
                if found:
                    return {p.partition for p in found}
                if self._metadata.is_settled(wish) and self._is_final(topic):
                    return None
                yield Wait(None, deadline)
        except KafkaTimeoutError:
            code = self._metadata.topic_errors.get(topic)
            cause = str(errors.for_code(code, topic)) if code else self._connections()
            raise none_in_time(f"metadata for topic {topic}", cause) from None
        finally:
            self._metadata.clear_transient_topics()

    def update(self, deadline: float) -> Steps[None]:
        """Request the metadata of the topics in use again, and wait for the response."""
        wish = self._metadata.request_update()
        while not self._metadata.is_settled(wish):
            yield Wait(None, deadline)

    def _connections(self) -> str:
        return f"connections: {self._client.failures()}"

    def _is_final(self, topic: str) -> bool:
        """Return whether metadata says definitively that there is no such topic."""
        code = self._metadata.topic_errors.get(topic)
        if code is None:
            return True
        error = errors.for_code(code, topic)
        if not error.retriable:
            raise error
        return code == errors.Errors.UNKNOWN_TOPIC_OR_PARTITION

    def names(self, deadline: float) -> Steps[set[str]]:
        """Return the names of all topics that are visible to this client."""
        topics = yield from self._all("list of topics", deadline)
        hide = self._config.exclude_internal_topics
        return {t.name for t in topics if t.name and not t.error_code and not (hide and t.is_internal)}

    def existing_partitions(self, topic: str, deadline: float) -> Steps[set[int]]:
        """Return the numbers of a topic's partitions, or none if it is not visible. The broker creates no topic."""
        found = self._metadata.partitions_for(topic)
        if found:
            return {p.partition for p in found}
        topics = yield from self._all(f"metadata for topic {topic}", deadline)
        return {p.partition_index for t in topics if t.name == topic for p in t.partitions}

    def _all(self, what: str, deadline: float) -> Steps[list[MetadataResponseTopic]]:
        """Return all topics that are visible to this client. ``what`` is the result in words, for an error."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        backoff = Backoff.ms(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        failures = 0
        cause: KafkaError | None = None
        try:
            while True:
                future = self._client.send_any(MetadataRequest, request)
                while not future.done:
                    yield Wait(future, deadline)
                cause = future.exception
                if cause is None or not cause.retriable:
                    break
                yield from wait_until(self._clock, self._clock.now() + backoff.delay(failures), deadline)
                failures += 1
        except KafkaTimeoutError:
            raise none_in_time(what, str(cause) if cause else self._connections()) from cause
        response = future.result().message
        assert isinstance(response, MetadataResponse)
        return response.topics


def none_in_time(what: str, cause: str) -> KafkaTimeoutError:
    """Return the error of a call that got no result before its deadline.

    ``what`` is the missing result, in words.
    """
    return KafkaTimeoutError(f"no {what} within the time given; {cause}")
