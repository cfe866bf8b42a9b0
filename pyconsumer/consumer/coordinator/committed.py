"""Reading committed offsets of the group, as a generator.

An answer counts only if it is stable: offsets of a transaction that is not finished are asked for again (KIP-447).
Whoever asks for the same partitions in the same generation joins the request that is under way, unless a commit was
acknowledged since it was sent: its answer may be older than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pyconsumer.consumer.coordinator.commits import pause, timed_out
from pyconsumer.consumer.coordinator.link import CoordinatorLink
from pyconsumer.consumer.coordinator.offset_requests import (
    FetchedOffsets,
    fetch_request,
    fetch_results,
    last_version_without_ids,
    topic_ids,
)
from pyconsumer.consumer.coordinator.reactions import OFFSET_FETCH, Reaction, react
from pyconsumer.consumer.coordinator.state import Generation
from pyconsumer.errors import KafkaError, TopicAuthorizationFailedError, for_code
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.future import RequestFuture
from pyconsumer.network.peer import ClientResponse
from pyconsumer.network.waiting import Steps, Wait
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchRequest
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommittedOffsets"]

_Committed = dict[TopicPartition, OffsetAndMetadata | None]


class CommittedOffsets:
    """Fetches committed offsets.

    Args:
        link: to the coordinator.
        topic_id: id of a topic, zeros if unknown.
        refresh_metadata: asks for newer metadata.
        backoff: pauses between attempts.
        commits: how many commits were acknowledged so far.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        *,
        topic_id: Callable[[str], bytes],
        refresh_metadata: Callable[[], object],
        backoff: Backoff,
        commits: Callable[[], int],
    ) -> None:
        self._link = link
        self._topic_id = topic_id
        self._refresh_metadata = refresh_metadata
        self._backoff = backoff
        self._commits = commits
        self._under_way: RequestFuture[_Committed] | None = None
        self._question: tuple[frozenset[TopicPartition], Generation, int] | None = None  # what that asks, and when

    def fetch(self, partitions: Collection[TopicPartition], deadline: float) -> Steps[_Committed]:
        """The committed offset of each partition, None where there is none.

        Raises:
            KafkaTimeoutError: not done by the deadline; the last error is its cause.
            TopicAuthorizationFailedError, GroupAuthorizationFailedError: as named.
        """
        wanted = frozenset(TopicPartition(*tp) for tp in partitions)
        group_id = self._link.core.settings.group_id
        failures = 0
        cause: KafkaError | None = None
        while wanted:
            known = yield from self._link.ensure(deadline)
            if not known:
                what = f"no offsets of group {group_id} were read in time"
                raise timed_out(what, self._link.missing, cause or self._link.last_failure)
            future = self._request(wanted)
            while not future.done:
                if self._link.clock.now() >= deadline:
                    what = f"no offsets of group {group_id} were read in time"
                    raise timed_out(what, "the answer to OffsetFetch", cause)
                yield Wait(future, deadline)
            cause = future.exception
            if cause is None:
                return dict(future.value)
            if not cause.retriable:
                raise cause
            yield from pause(self._link, self._backoff.delay(failures), deadline, cause)
            failures += 1
        return {}

    def _request(self, wanted: frozenset[TopicPartition]) -> RequestFuture[_Committed]:
        question = wanted, self._link.core.generation, self._commits()
        if self._under_way is None or self._under_way.done or self._question != question:
            self._question = question
            self._under_way = self._send(wanted)
        return self._under_way

    def _send(self, wanted: frozenset[TopicPartition]) -> RequestFuture[_Committed]:
        node = self._link.core.coordinator
        if node is None:
            return RequestFuture.failure(for_code(15, "the coordinator was lost"))
        term = self._link.core.lookup.term
        group_id = self._link.core.settings.group_id
        ids = topic_ids({tp.topic for tp in wanted}, self._topic_id)
        result: RequestFuture[_Committed] = RequestFuture()

        def answered(done: RequestFuture[ClientResponse]) -> None:
            try:
                if done.exception is not None:
                    self._link.failed(node.node_id, done.exception, term)
                    raise done.exception
                found = fetch_results(done.value.api_version, done.value.message, group_id=group_id, ids=ids)
                self._judge(found, node.node_id)
            except KafkaError as error:
                result.fail(error)
            else:
                with self._link.lock:
                    self._link.core.lookup.answered()
                result.complete({tp: found.offsets.get(tp) for tp in wanted})

        self._link.send(
            node,
            OffsetFetchRequest,
            lambda version: fetch_request(version, group_id=group_id, partitions=wanted, ids=ids),
            max_version=None if ids is not None else last_version_without_ids,
        ).add_callback(answered)
        return result

    def _judge(self, found: FetchedOffsets, node_id: int) -> None:
        """Raise what an OffsetFetch response means, if it is not success."""
        group_id = self._link.core.settings.group_id
        if found.error_code:
            self._raise(found.error_code, f"reading offsets of group {group_id}", node_id)
        forbidden = {tp.topic for tp, code in found.errors.items() if react(OFFSET_FETCH, code) is Reaction.COLLECT}
        for tp, code in found.errors.items():
            if tp.topic not in forbidden:
                self._raise(code, f"reading the offset of {tp} for group {group_id}", node_id)
        if forbidden:
            raise TopicAuthorizationFailedError(", ".join(sorted(forbidden)))

    def _raise(self, code: int, what: str, node_id: int) -> None:
        reaction = react(OFFSET_FETCH, code)
        error = for_code(code, what)
        if reaction is Reaction.REDISCOVER:
            with self._link.lock:
                self._link.core.on_coordinator_lost(node_id, error.code_name, self._link.clock.now())
            self._link.changed()
        elif reaction is Reaction.REFRESH_METADATA:
            self._refresh_metadata()
        elif reaction is Reaction.RAISE and error.retriable:
            raise KafkaError(str(error))
        raise error
