"""Requests that are repeated until they succeed: to a leader, a coordinator, the controller. Generators, no I/O.

:class:`Calls` chooses the broker (any one, a certain one, the controller, a partition's leader, a coordinator), sends,
and decides whether an error is worth another attempt. The functions beside it are the steps that other blocking calls
are made of: to group partitions by leader, to wait, to wait for newer metadata.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pyconsumer.clock import Clock
from pyconsumer.errors import (
    BrokerNotAvailableError,
    CoordinatorNotAvailableError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    ProtocolError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.client_requests import ClientResponse, RequestBuilder
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.requests.list_offsets import first_version, list_offsets_request, read_offsets
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, OffsetAndTimestamp, TopicPartition

__all__ = ["Bell", "Calls", "RequestSender", "Target", "await_update", "group_by_leader", "wait_until"]

_LEAST_FOR_AN_ATTEMPT = 0.01  # seconds

T = TypeVar("T")
R = TypeVar("R", bound=Message)
Target = Callable[[float], "Steps[int | None]"]
"""Chooses the node of a request: ``target(deadline)``. None stands for any."""


class RequestSender(Protocol):
    """The part of a network client that sends requests. ``NetworkClient`` and ``ConsumerNetworkClient`` have it."""

    def send(
        self,
        node: int | BrokerMetadata,
        api: int | type[Message],
        request: Message | RequestBuilder,
        *,
        timeout: float | None = None,
        connection: str = "main",
        min_version: int = 0,
        max_version: int | None = None,
    ) -> RequestFuture[ClientResponse]: ...

    def send_any(
        self,
        api: int | type[Message],
        request: Message | RequestBuilder,
        *,
        timeout: float | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> RequestFuture[ClientResponse]: ...

    def failures(self) -> str: ...


def group_by_leader(
    partitions: Iterable[TopicPartition], leader: Callable[[TopicPartition], tuple[int, int]]
) -> tuple[dict[int, dict[TopicPartition, int]], set[TopicPartition]]:
    """Group partitions by leader, each with its leader epoch. Return the groups, and the partitions without a leader.

    Args:
        leader: returns a partition's leader and leader epoch. A negative leader means that none is known.
    """
    groups: dict[int, dict[TopicPartition, int]] = {}
    leaderless: set[TopicPartition] = set()
    for tp in partitions:
        node_id, epoch = leader(tp)
        if node_id < 0:
            leaderless.add(tp)
        else:
            groups.setdefault(node_id, {})[tp] = epoch
    return groups, leaderless


def wait_until(clock: Clock, moment: float, deadline: float = math.inf) -> Steps[None]:
    """Wait until ``moment`` (monotonic seconds), but not longer than to the deadline."""
    moment = min(moment, deadline)
    while clock.now() < moment:
        yield Wait(None, moment)


def await_update(metadata: Metadata, clock: Clock, *, deadline: float = math.inf, backoff: float = 0.0) -> Steps[None]:
    """Wait for metadata that is requested now, but at least for the backoff (seconds).

    The response to a request that is in flight does not count: it may lack topics that have been added since.
    """
    wish = metadata.request_update()
    yield from wait_until(clock, clock.now() + backoff, deadline)
    while not metadata.is_settled(wish):
        yield Wait(None, deadline)


class Bell:
    """Ends a wait when any of several futures is done."""

    def __init__(self) -> None:
        self._next: RequestFuture[None] = RequestFuture()

    def watch(self, future: RequestFuture[Any]) -> None:
        """Ring when a future is done."""
        future.add_callback(self._ring)

    def wait(self, until: float) -> Steps[None]:
        """Wait for the next future that is done, at most until a time in monotonic seconds."""
        self._next = RequestFuture()
        yield Wait(self._next, until)

    def _ring(self, _: object) -> None:
        if not self._next.done:
            self._next.complete(None)


class Calls:
    """Sends requests, and repeats them until they succeed or the time is up.

    Args:
        client, metadata, clock: those of the client object that makes the calls.
        request_timeout: the longest time for one attempt, in seconds.
        retries: the largest number of repeated attempts in a call.
        backoff: the pauses between attempts.
    """

    def __init__(
        self,
        client: RequestSender,
        metadata: Metadata,
        clock: Clock,
        *,
        request_timeout: float,
        backoff: Backoff,
        retries: float = math.inf,
    ) -> None:
        self.client = client
        self.metadata = metadata
        self.clock = clock
        self.request_timeout = request_timeout
        self.retries = retries
        self._backoff = backoff

    def call(
        self,
        api_key: ApiKey,
        request: Message | Callable[[int], Message],
        response_class: type[R],
        deadline: float,
        *,
        target: Target | None = None,
        check: Callable[[R], KafkaError | None] | None = None,
        min_version: int = 0,
        max_version: int | None = None,
        what: str = "",
    ) -> Steps[R]:
        """Send a request until its response has no retriable error.

        Args:
            deadline: monotonic seconds.
            target: chooses the node, for every attempt. If it is None or returns None, any broker will do.
            check: returns the error in a response, or None if the response is good. An error that is not retriable is
                raised at once.
            what: name of the call, for the message of a timeout.

        Raises:
            KafkaTimeoutError: no good response arrived in time. The cause is the last error.
            KafkaError: an error that is not retriable.
        """
        attempts = 0
        last: KafkaError | None = None
        try:
            while True:
                chosen = None if target is None else (yield from target(deadline))
                left = deadline - self.clock.now()
                timeout = round(max(0.001, min(self.request_timeout, left)), 3)
                if chosen is None:
                    future = self.client.send_any(
                        api_key, request, timeout=timeout, min_version=min_version, max_version=max_version
                    )
                else:
                    future = self.client.send(
                        chosen, api_key, request, timeout=timeout, min_version=min_version, max_version=max_version
                    )
                response = yield from self.settle(future, deadline, what or api_key.name)
                if isinstance(response, KafkaError):
                    error: KafkaError | None = response
                else:
                    message = response.message
                    assert isinstance(message, response_class)
                    error = check(message) if check is not None else None
                    if error is None:
                        return message
                assert error is not None
                self._raise_refusal()
                if not error.retriable or attempts >= self.retries:
                    raise error
                last = error
                if error.invalid_metadata:
                    self.metadata.request_update()
                yield from self.pause(attempts, deadline)
                attempts += 1
        except KafkaTimeoutError as timeout_error:
            if last is None or timeout_error is last:
                raise
            raise KafkaTimeoutError(f"{what or api_key.name} did not succeed in time: {last}") from last

    def send(
        self, node: int, api_key: ApiKey, request: Message | Callable[[int], Message], deadline: float, **options: Any
    ) -> RequestFuture[ClientResponse]:
        """Queue a request for a node, once.

        Its timeout is that of one attempt, or the rest of the call's time if that is less.
        """
        left = deadline - self.clock.now()
        timeout = round(max(0.001, min(self.request_timeout, left)), 3)
        return self.client.send(node, api_key, request, timeout=timeout, **options)

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        deadline: float,
        ask: Callable[[int, Mapping[TopicPartition, int]], RequestFuture[ClientResponse]],
        read: Callable[[Any], Mapping[TopicPartition, tuple[int, T]]],
        *,
        what: str,
        must_exist: bool = False,
    ) -> Steps[dict[TopicPartition, T]]:
        """Send requests about partitions to their leaders, all at once, until all leaders have responded.

        If a leader has moved, its request is sent again to the new leader.

        Args:
            deadline: monotonic seconds.
            ask: queues a request to a node about some of the partitions. It gets their leader epochs, too.
            read: reads a response. It returns an error code and a result for each partition.
            what: name of the call, for messages.
            must_exist: see :meth:`leader`.

        Raises:
            KafkaError: an error of a request or a partition that is not retriable. KafkaTimeoutError: the time is up.
        """
        done: dict[TopicPartition, T] = {}
        pending = list(partitions)
        failures = 0
        while pending:
            for tp in pending:
                yield from self.leader(tp, must_exist=must_exist)(deadline)
            groups, leaderless = group_by_leader(pending, self.leader_and_epoch)
            sent = [(node, group, ask(node, group)) for node, group in groups.items()]
            last: KafkaError | None = (
                LeaderNotAvailableError(f"{min(leaderless)} has no leader") if leaderless else None
            )
            for node, group, future in sent:
                response = yield from self.settle(future, deadline, what)
                if isinstance(response, KafkaError):  # a node that was lost leads no partition any more
                    if not response.retriable or failures >= self.retries or self.clock.now() >= deadline:
                        raise response
                    last = response
                    continue
                found = read(response.message)
                for tp in group:
                    if tp not in found:
                        raise ProtocolError(f"node {node} left {tp} out of its response")
                    code, result = found[tp]
                    if not code:
                        done[tp] = result
                        continue
                    last = for_code(code, str(tp))
                    if not last.retriable or failures >= self.retries:
                        raise last
            pending = [tp for tp in pending if tp not in done]
            if last is not None:
                self.metadata.request_update()
                try:
                    yield from self.pause(failures, deadline)
                except KafkaTimeoutError:
                    raise KafkaTimeoutError(
                        f"{what}: no response for {len(pending)} partitions in time, last error: {last}"
                    ) from last
                failures += 1
        return done

    def leader_and_epoch(self, tp: TopicPartition) -> tuple[int, int]:
        """Return the leader of a partition and its epoch, as far as they are known. -1 stands for an unknown one."""
        found = self.metadata.leader(tp)
        return (-1, -1) if found is None else (found.leader, found.leader_epoch)

    def find_leaders(
        self, partitions: Collection[TopicPartition], deadline: float, *, fresh: bool = False
    ) -> Steps[None]:
        """Follow the topics of partitions. If one of the leaders is unknown, wait for one update.

        Args:
            deadline: monotonic seconds.
            fresh: True waits for the update in any case.

        Raises:
            KafkaTimeoutError: no broker has sent metadata in time.
        """
        for topic in {tp.topic for tp in partitions}:
            self.metadata.add_topic(topic)
        if fresh or any(self.leader_and_epoch(tp)[0] < 0 for tp in partitions):
            yield from await_update(self.metadata, self.clock, deadline=deadline)

    def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        deadline: float,
        *,
        isolation_level: int = 0,
        must_exist: bool = False,
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return the first offset at or after a time in ms for each partition, or None if there is none.

        The times -1, -2 and -3 have a special meaning in ListOffsets.

        Args:
            isolation_level: 0 for read_uncommitted, 1 for read_committed.
            must_exist: see :meth:`leader`.

        Raises:
            KafkaError: see :meth:`ask_leaders`.
        """
        least = first_version(timestamps, isolation_level)

        def ask(node: int, asked: Mapping[TopicPartition, int]) -> RequestFuture[ClientResponse]:
            request = list_offsets_request({tp: timestamps[tp] for tp in asked}, isolation_level=isolation_level)
            return self.send(node, ApiKey.LIST_OFFSETS, request, deadline, min_version=least)

        what = "looking up offsets"
        return (yield from self.ask_leaders(timestamps, deadline, ask, read_offsets, what=what, must_exist=must_exist))

    def pause(self, failures: int, deadline: float) -> Steps[None]:
        """Wait before another attempt, for at most half of the remaining time.

        So the last attempts come closer together.

        Raises:
            KafkaTimeoutError: there is no time left for another attempt.
        """
        left = deadline - self.clock.now()
        if left <= _LEAST_FOR_AN_ATTEMPT:
            raise KafkaTimeoutError("no time is left for another attempt")
        yield from wait_until(self.clock, self.clock.now() + min(self._backoff.delay(failures), left / 2))

    def settle(
        self, future: RequestFuture[ClientResponse], deadline: float, what: str
    ) -> Steps[ClientResponse | KafkaError]:
        """Wait for a future. An error is returned, not raised.

        Raises:
            KafkaTimeoutError: the deadline has passed before the request's own.
        """
        try:
            while not future.done:
                yield Wait(future, deadline)
        except KafkaTimeoutError:
            raise KafkaTimeoutError(f"{what} got no response in time: {self.client.failures()}") from None
        return future.value if future.exception is None else future.exception

    # ------------------------------------------------------------ targets

    def known_cluster(self, deadline: float) -> Steps[None]:
        """Wait until metadata has arrived once.

        Raises:
            AuthenticationError: the cluster rejects this client. KafkaTimeoutError: no response arrived in time.
        """
        while self.metadata.update_count == 0:
            yield from self._fresh_metadata(deadline, deadline, "the cluster did not respond")

    def _fresh_metadata(self, until: float, deadline: float, what: str) -> Steps[int]:
        """Ask for metadata and wait until something happened, or ``until``. Return the number of the wish.

        Raises:
            AuthenticationError: the cluster refuses us. KafkaTimeoutError: the deadline has passed.
        """
        self._raise_refusal()
        if self.clock.now() >= deadline:
            raise KafkaTimeoutError(f"{what} in time: {self.client.failures()}")
        wish = self.metadata.request_update()
        yield Wait(None, min(until, deadline))
        return wish

    def _raise_refusal(self) -> None:
        """Raise an error that makes further attempts pointless: a refused login, or no response of a broker in time."""
        refused = self.metadata.take_fatal_error()
        if refused is not None:
            raise refused

    def controller(self, deadline: float) -> Steps[int | None]:
        """Return the controller.

        If it is unknown, return any broker (KRaft brokers forward requests to the controller).
        """
        yield from self.known_cluster(deadline)
        node = self.metadata.controller_id
        # After starting over with bootstrap_servers, the controller of before is no broker that is known.
        return node if node is not None and node >= 0 and self.metadata.broker(node) is not None else None

    def node(self, node_id: int) -> Target:
        """Return a target (see :meth:`call`) that is always the same broker."""

        def choose(deadline: float) -> Steps[int | None]:
            while self.metadata.broker(node_id) is None:
                if self.metadata.update_count and self.clock.now() >= deadline:
                    raise BrokerNotAvailableError(f"there is no broker {node_id}")
                yield from self._fresh_metadata(deadline, deadline, f"broker {node_id} was not found")
            return node_id

        return choose

    def leader(self, tp: TopicPartition, *, must_exist: bool = False) -> Target:
        """Return a target (see :meth:`call`): the leader of a partition.

        Args:
            must_exist: True fails as soon as new metadata lacks the topic, because it was deleted. False waits, because
                the topic may be about to be created.
        """

        def choose(deadline: float) -> Steps[int | None]:
            self.metadata.add_topic(tp.topic)
            seen, wish = self.metadata.update_count, math.inf
            while True:
                found = self.metadata.leader(tp)
                if found is not None and found.leader >= 0:
                    return found.leader
                error = self.metadata.topic_error(tp.topic)
                if error is not None and not error.retriable:
                    raise error
                if must_exist and self.metadata.settled >= wish and self.metadata.topic(tp.topic) is None:
                    raise error or UnknownTopicOrPartitionError(tp.topic)
                absence = self.metadata.absence(tp, seen)
                if absence is not None:
                    raise absence
                if self.clock.now() >= deadline and self.metadata.update_count > seen:
                    raise error or LeaderNotAvailableError(f"{tp} has no leader")
                until = self.clock.now() + self._backoff.delay(0)
                asked = yield from self._fresh_metadata(until, deadline, f"the leader of {tp} was not found")
                wish = min(wish, asked)

        return choose

    def coordinator(self, group_id: str) -> Target:
        """Return a target (see :meth:`call`): the coordinator of a group."""
        return self._coordinator(group_id, f"group {group_id!r}", of_transactions=False)

    def transaction_coordinator(self, transactional_id: str) -> Target:
        """Return a target (see :meth:`call`): the coordinator of a transactional id."""
        return self._coordinator(transactional_id, f"transactional id {transactional_id!r}", of_transactions=True)

    def coordinators(self, group_ids: Sequence[str], deadline: float) -> Steps[dict[str, int | KafkaError]]:
        """Return the node that coordinates each group, or the group's error.

        One request asks for all groups (KIP-699). It is repeated only if it found no coordinator at all, so the error
        of a group may be retriable. Brokers before 3.0 are asked for one group at a time.

        Raises:
            KafkaError: the request failed, and no retry helps. KafkaTimeoutError: nothing was found in time.
        """
        from pyconsumer.protocol.messages.find_coordinator import (
            FIRST_VERSION_WITH_KEYS,
            FindCoordinatorRequest,
            FindCoordinatorResponse,
        )
        from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator

        found: dict[str, int | KafkaError] = {}

        def build(version: int) -> FindCoordinatorRequest:
            return find_coordinator_request(group_ids[0], version, more=group_ids[1:])

        def check(response: FindCoordinatorResponse) -> KafkaError | None:
            for group_id in group_ids:
                try:
                    found[group_id] = read_coordinator(group_id, FIRST_VERSION_WITH_KEYS, response).node_id
                except KafkaError as error:
                    found[group_id] = error
            errors = [one for one in found.values() if isinstance(one, KafkaError) and one.retriable]
            return errors[0] if len(errors) == len(found) else None

        try:
            yield from self.call(
                ApiKey.FIND_COORDINATOR,
                build,
                FindCoordinatorResponse,
                deadline,
                check=check,
                min_version=FIRST_VERSION_WITH_KEYS,
                what="finding the coordinators of groups",
            )
        except UnsupportedVersionError:
            for group_id in group_ids:
                try:
                    node = yield from self.coordinator(group_id)(deadline)
                except KafkaTimeoutError:
                    raise
                except KafkaError as error:
                    found[group_id] = error
                else:
                    found[group_id] = -1 if node is None else node
        for node in {node for node in found.values() if isinstance(node, int)}:
            yield from self.node(node)(deadline)
        return found

    def _coordinator(self, key: str, what: str, *, of_transactions: bool) -> Target:
        from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
        from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator

        sent_version = FindCoordinatorRequest.MIN_VERSION

        def build(version: int) -> FindCoordinatorRequest:
            nonlocal sent_version
            sent_version = version
            return find_coordinator_request(key, version, of_transactions=of_transactions)

        def check(response: FindCoordinatorResponse) -> KafkaError | None:
            try:
                read_coordinator(key, sent_version, response, what=what)
            except KafkaError as error:
                return error
            return None

        def choose(deadline: float) -> Steps[int | None]:
            response = yield from self.call(
                ApiKey.FIND_COORDINATOR,
                build,
                FindCoordinatorResponse,
                deadline,
                check=check,
                min_version=1 if of_transactions else 0,
                what=f"finding the coordinator of {what}",
            )
            node = read_coordinator(key, sent_version, response, what=what).node_id
            if node < 0:
                raise CoordinatorNotAvailableError(f"{what} has no coordinator")
            return (yield from self.node(node)(deadline))

        return choose
