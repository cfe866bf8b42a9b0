"""Offsets from partition leaders: resets, validation (KIP-320), offsets by time, ends of logs.

The functions at the top are pure: they group by leader and read responses. :class:`OffsetFetcher` sends requests and
applies the responses to :class:`SubscriptionState`. Calls of the user are generators.

Rules

1. A reset or validation that was sent is not sent again before ``request_timeout_ms``. One that failed is retried after
   ``retry_backoff_ms``, with new metadata.
2. A response counts only if policy or position are still those of the request.
3. While a reset or validation is in flight, fetches from that node are held back (:meth:`OffsetFetcher.is_asked`). A
   broker responds in order, so the fetch would complete no sooner. And if it waited for records of the partitions known
   so far, the others could not be fetched in the meantime. (Java sends it.)
4. A reset that lacks only a leader is not tried again before metadata has changed (``leaders_version``). After each
   such change, partitions that have a leader now are due, and metadata is requested again for the others.
5. The first error of a partition that no retry can help is kept. The next ``poll`` raises the first of all, and the
   others are forgotten: they come again. A call that reads some partitions alone raises only an error of these. An
   error ends with the assignment of its partitions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyconsumer import errors
from pyconsumer.consumer.auto_offset_reset import LATEST, LATEST_TIMESTAMP, NONE, ResetPolicy
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.partition_state import FetchPosition, LeaderAndEpoch, current_leader
from pyconsumer.errors import Errors, KafkaError, KafkaTimeoutError, NoOffsetForPartitionError, UnsupportedVersionError
from pyconsumer.network.calls import await_update, group_by_leader
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyconsumer.protocol.requests.list_offsets import first_version, list_offsets_request, read_offsets
from pyconsumer.structs import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client import ClientResponse

__all__ = ["ListedOffsets", "OffsetFetcher", "read_listed_offsets"]

_log = logging.getLogger("pyconsumer.consumer")

_EXPECTED: Final = frozenset(
    (
        Errors.LEADER_NOT_AVAILABLE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.OFFSET_NOT_AVAILABLE,
    )
)
"""Errors that are retried without a warning: our metadata is stale, or the broker is not ready."""
_FIRST_EPOCH_VERSION: Final = 3
"""Older versions of OffsetForLeaderEpoch need permissions on the cluster that consumers do not have."""


class ListedOffsets(NamedTuple):
    """The content of a ListOffsets response.

    It has the offsets found, the partitions to request again, and the topics to which access was denied.
    """

    found: dict[TopicPartition, OffsetAndTimestamp | None]
    retry: set[TopicPartition]
    unauthorized: set[str]


def read_listed_offsets(response: ListOffsetsResponse) -> ListedOffsets:
    """Read a response. An offset that does not exist is returned as None."""
    result = ListedOffsets({}, set(), set())
    for tp, (code, offset) in read_offsets(response).items():
        if code == Errors.NONE:
            result.found[tp] = offset
        elif code == Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            result.found[tp] = None
        elif code == Errors.TOPIC_AUTHORIZATION_FAILED:
            result.unauthorized.add(tp.topic)
        else:
            if code not in _EXPECTED:
                _log.warning("ListOffsets for %s: %s", tp, errors.for_code(code))
            result.retry.add(tp)
    return result


class OffsetFetcher:
    """Requests offsets from partition leaders.

    Args:
        context: settings, client, metadata, subscriptions and clock of the consumer.
    """

    def __init__(self, context: ConsumerContext) -> None:
        config, self._client, self._metadata, self._subscriptions, self._clock = context
        self._read_committed = config.read_committed
        self._retry_backoff = config.retry_backoff_ms / 1000
        self._request_timeout = config.request_timeout_ms / 1000
        self._errors: list[tuple[KafkaError, frozenset[TopicPartition]]] = []  # each with its partitions
        self._seen_leaders = -1
        self._last: dict[int, RequestFuture[Any]] = {}  # the last reset or validation sent to each node

    def is_asked(self, node_id: int) -> bool:
        """Return whether a reset or a validation is in flight to a node."""
        last = self._last.get(node_id)
        return last is not None and not last.done

    def recover(self) -> None:
        """Hold back no fetch, after Ctrl-C that may have come before a request was sent or its end was noted."""
        self._last.clear()

    def raise_error(self, only: Collection[TopicPartition] = ()) -> None:
        """Raise, once, the error of a reset or validation that ran in the background.

        Args:
            only: raise errors of these partitions alone. By default the first error is raised, and the others are
                forgotten.
        """
        if not self._errors:
            return
        assigned = self._subscriptions.by_partition
        self._errors = [held for held in self._errors if not held[1].isdisjoint(assigned)]
        for index, (error, partitions) in enumerate(self._errors):
            if not only:
                self._errors.clear()
                raise error
            if not partitions.isdisjoint(only):
                del self._errors[index]
                raise error

    @property
    def has_error(self) -> bool:
        """Return whether there is an error for :meth:`raise_error`."""
        return bool(self._errors)

    # -- offsets by time ---------------------------------------------------------------------------------------------

    def fetch_offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Look up offsets by time in ms. The time -2 is the start of the log, and -1 its end.

        Returns:
            The offset and timestamp for each partition, or None if there is no such record.

        Raises:
            TopicAuthorizationFailedError: the broker denied access to a topic.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
            KafkaTimeoutError: not all leaders responded by the deadline (monotonic seconds).
        """
        since = self._metadata.update_count
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        causes: list[KafkaError] = []
        missing = dict(timestamps)
        self._metadata.add_transient_topics({tp.topic for tp in missing})
        try:
            while missing:
                yield from self._fetch_offsets_once(missing, found, deadline, causes)
                missing = {tp: at for tp, at in missing.items() if tp not in found}
                for tp in missing:
                    absence = self._metadata.absence(tp, since)
                    if absence is not None:
                        raise absence
        except KafkaTimeoutError:
            names = ", ".join(map(str, sorted(missing)))
            reason = f"; the last error was: {causes[-1]}" if causes else f"; connections: {self._client.failures()}"
            cause = causes[-1] if causes else None
            raise KafkaTimeoutError(f"no offsets for {names} within the time given{reason}") from cause
        finally:
            self._metadata.clear_transient_topics()
        return found

    def _fetch_offsets_once(
        self,
        missing: Mapping[TopicPartition, int],
        found: dict[TopicPartition, OffsetAndTimestamp | None],
        deadline: float,
        causes: list[KafkaError],
    ) -> Steps[None]:
        """Send one request to every leader. ``causes`` collects the retriable errors."""
        groups, leaderless = group_by_leader(missing, self._leader)
        futures = [self._send_list_offsets(node_id, group, missing) for node_id, group in groups.items()]
        retry: set[TopicPartition] = set()
        unauthorized: set[str] = set()
        for future in futures:
            while not future.done:
                yield Wait(future, deadline)
            if future.exception is not None:
                if not future.exception.retriable:
                    raise future.exception
                causes.append(future.exception)
                retry |= missing.keys() - found.keys()
                continue
            listed = future.value
            found |= listed.found
            retry |= listed.retry
            unauthorized |= listed.unauthorized
        if unauthorized:
            raise errors.for_code(Errors.TOPIC_AUTHORIZATION_FAILED, ", ".join(sorted(unauthorized)))
        error = self._metadata.take_topic_error({tp.topic for tp in missing})
        if error is not None:
            raise error
        if retry or leaderless:
            backoff = self._retry_backoff if retry else 0.0
            yield from await_update(self._metadata, self._clock, deadline=deadline, backoff=backoff)

    def _send_list_offsets(
        self, node_id: int, partitions: Mapping[TopicPartition, int], timestamps: Mapping[TopicPartition, int]
    ) -> RequestFuture[ListedOffsets]:
        wanted = {tp: timestamps[tp] for tp in partitions}
        level = int(self._read_committed)
        request = list_offsets_request(wanted, isolation_level=level, leader_epochs=partitions)
        future = self._client.send(node_id, ListOffsetsRequest, request, min_version=first_version(wanted, level))
        return future.compose(_listed)

    def _leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        return current_leader(self._metadata, tp)

    def request_end_offset(self, tp: TopicPartition) -> None:
        """Request the end of an assigned partition in the background, so that its lag becomes known."""
        groups, _ = group_by_leader((tp,), self._leader)
        for node_id, group in groups.items():
            future = self._send_list_offsets(node_id, group, {tp: LATEST_TIMESTAMP})
            future.add_callback(lambda done: self._on_end_offset(done, tp))

    def _on_end_offset(self, future: RequestFuture[ListedOffsets], tp: TopicPartition) -> None:
        state = self._subscriptions.get(tp)
        if state is None:
            return
        found = future.value.found.get(tp) if future.succeeded else None
        state.on_end_offset(None if found is None else found.offset, read_committed=self._read_committed)

    # -- resets ------------------------------------------------------------------------------------------------------

    def apply_leaders(self) -> None:
        """If metadata has changed since the last call, make those partitions due whose leader was unknown (rule 4)."""
        version = self._metadata.leaders_version
        if version != self._seen_leaders:
            self._seen_leaders = version
            if self._subscriptions.on_leaders(self._leader):
                self._metadata.request_update()

    def reset_positions(self, now: float) -> None:
        """Send ListOffsets for the partitions whose reset is due. The call does not wait for responses."""
        wanted: dict[TopicPartition, ResetPolicy] = {}
        for state in self._subscriptions.needing_reset(now):
            wanted[state.topic_partition] = state.reset_policy or self._subscriptions.default_reset
        unreset = [tp for tp, policy in wanted.items() if policy == NONE]
        if unreset:
            self._keep_error(_no_policy(unreset), unreset)
            wanted = {tp: policy for tp, policy in wanted.items() if policy != NONE}
        if not wanted:
            return
        wall_ms = self._clock.wall_ms()
        timestamps = {tp: policy.timestamp(wall_ms) for tp, policy in wanted.items()}
        groups, leaderless = group_by_leader(wanted, self._leader)
        if leaderless:
            self._subscriptions.retry_later(leaderless, math.inf, awaits_leader=True)
            self._metadata.request_update()
        for node_id, group in groups.items():
            self._subscriptions.retry_later(group, now + self._request_timeout)
            future = self._send_list_offsets(node_id, group, timestamps)
            self._last[node_id] = future
            future.add_callback(lambda done, group=group: self._on_reset(done, group, wanted))  # type: ignore[misc]

    def _on_reset(
        self,
        future: RequestFuture[ListedOffsets],
        asked: Collection[TopicPartition],
        policies: Mapping[TopicPartition, ResetPolicy],
    ) -> None:
        if future.exception is not None:
            self._on_failure(asked, future.exception)
            return
        listed = future.value
        for tp, found in listed.found.items():
            policy = policies.get(tp)
            if policy is None:
                continue
            if found is None:
                if policy != LATEST and policy.name == "by_duration":
                    # No record is that recent, so the policy means the end of the log.
                    self._fall_back_to_latest(tp, policy)
                continue
            self._metadata.see_epoch(tp, found.leader_epoch)
            position = FetchPosition(found.offset, -1, self._leader(tp))
            if self._subscriptions.complete_reset(tp, policy, position):
                _log.info("%s: position reset to offset %d (%s)", tp, found.offset, policy)
        if listed.retry:
            self._postpone(listed.retry, self._clock.now())
        if listed.unauthorized:
            denied = [tp for tp in asked if tp.topic in listed.unauthorized]
            self._keep_unauthorized(denied)
            self._postpone(denied, self._clock.now())

    def _fall_back_to_latest(self, tp: TopicPartition, policy: ResetPolicy) -> None:
        state = self._subscriptions.get(tp)
        if state is not None and state.reset_policy == policy:
            self._subscriptions.request_reset(tp, LATEST)

    # -- validation --------------------------------------------------------------------------------------------------

    def validate_positions(self, now: float) -> None:
        """Send OffsetForLeaderEpoch for the positions whose validation is due. The call does not wait for responses."""
        positions: dict[int, dict[TopicPartition, FetchPosition]] = {}
        leaderless: set[TopicPartition] = set()
        for state in self._subscriptions.needing_validation(now):
            position = state.fetch_position
            if position is None:
                continue
            if position.leader.leader < 0 or self._metadata.broker(position.leader.leader) is None:
                leaderless.add(state.topic_partition)
                continue
            positions.setdefault(position.leader.leader, {})[state.topic_partition] = position
        self._postpone(leaderless, now, awaits_leader=True)
        for node_id, group in positions.items():
            self._subscriptions.retry_later(group, now + self._request_timeout)
            future = self._client.send(
                node_id, OffsetForLeaderEpochRequest, _end_of_epoch_request(group), min_version=_FIRST_EPOCH_VERSION
            )
            self._last[node_id] = future
            future.add_callback(lambda done, group=group: self._on_validation(done, group))  # type: ignore[misc]

    def _on_validation(
        self, future: RequestFuture[ClientResponse], asked: Mapping[TopicPartition, FetchPosition]
    ) -> None:
        if isinstance(future.exception, UnsupportedVersionError):
            # The broker is too old for this: continue without validation, as before KIP-320.
            for tp in asked:
                self._subscriptions.complete_validation(tp)
            return
        if future.exception is not None:
            self._on_failure(asked, future.exception)
            return
        response = future.value.message
        assert isinstance(response, OffsetForLeaderEpochResponse)
        retry: set[TopicPartition] = set()
        unauthorized: set[TopicPartition] = set()
        for topic in response.topics:
            for found in topic.partitions:
                tp = TopicPartition(topic.topic, found.partition)
                position = asked.get(tp)
                if position is None:
                    continue
                if found.error_code == Errors.TOPIC_AUTHORIZATION_FAILED:
                    unauthorized.add(tp)
                    retry.add(tp)
                elif found.error_code:
                    if found.error_code not in _EXPECTED | {Errors.UNKNOWN_TOPIC_OR_PARTITION}:
                        _log.warning("OffsetForLeaderEpoch for %s: %s", tp, errors.for_code(found.error_code))
                    retry.add(tp)
                else:
                    self._on_end_of_epoch(tp, position, found.leader_epoch, found.end_offset)
        if retry:
            self._postpone(retry, self._clock.now())
        if unauthorized:
            self._keep_unauthorized(unauthorized)

    def _on_end_of_epoch(self, tp: TopicPartition, asked: FetchPosition, epoch: int, end_offset: int) -> None:
        error = self._subscriptions.on_end_of_epoch(tp, asked, epoch, end_offset)
        if error is not None:
            self._keep_error(error, (tp,))
        elif epoch < 0 or end_offset < asked.offset:
            _log.warning("%s: the log was truncated below position %d, to offset %d", tp, asked.offset, end_offset)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _on_failure(self, partitions: Collection[TopicPartition], error: KafkaError) -> None:
        self._postpone(partitions, self._clock.now())
        if not error.retriable:
            self._keep_error(error, partitions)

    def _postpone(self, partitions: Iterable[TopicPartition], now: float, *, awaits_leader: bool = False) -> None:
        """Retry after the backoff with new metadata, or as soon as these have a leader if only that is missing."""
        postponed = list(partitions)
        if postponed:
            self._subscriptions.retry_later(postponed, now + self._retry_backoff, awaits_leader=awaits_leader)
            self._metadata.request_update()

    def _keep_unauthorized(self, partitions: Collection[TopicPartition]) -> None:
        names = ", ".join(sorted({tp.topic for tp in partitions}))
        self._keep_error(errors.for_code(Errors.TOPIC_AUTHORIZATION_FAILED, names), partitions)

    def _keep_error(self, error: KafkaError, partitions: Iterable[TopicPartition]) -> None:
        concerned = frozenset(partitions)
        if all(held.isdisjoint(concerned) for _, held in self._errors):
            self._errors.append((error, concerned))


def _no_policy(partitions: Collection[TopicPartition]) -> NoOffsetForPartitionError:
    """Return the error for topics that were created again, without a policy for where to begin."""
    names = ", ".join(map(str, sorted(partitions)))
    return NoOffsetForPartitionError(
        f"the topic was deleted and created again under {names}, whose positions were in the old one, and"
        " auto_offset_reset is none: seek, or choose a reset policy",
        partitions=dict.fromkeys(partitions),
    )


def _listed(response: ClientResponse) -> ListedOffsets:
    message = response.message
    assert isinstance(message, ListOffsetsResponse)
    return read_listed_offsets(message)


def _end_of_epoch_request(positions: Mapping[TopicPartition, FetchPosition]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, position in positions.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = OffsetForLeaderTopic(topic=tp.topic, partitions=[])
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=tp.partition,
                current_leader_epoch=position.leader.epoch,
                leader_epoch=position.offset_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
