"""One request to the broker that can answer it, repeated until it succeeds or time is up. No I/O: generators only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyconsumer.clock import Clock
from pyconsumer.errors import (
    BrokerNotAvailableError,
    CoordinatorNotAvailableError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.admin.config import AdminConfig
    from pyconsumer.network.client import ClientResponse, NetworkClient
    from pyconsumer.network.metadata import Metadata

__all__ = ["Calls", "Target"]

_LEAST_FOR_AN_ATTEMPT = 0.01  # seconds

R = TypeVar("R", bound=Message)
Target = Callable[[float], "Steps[int | None]"]
"""Chooses the node of a request: ``target(deadline)``; None stands for any."""


class Calls:
    """Sender of the admin client's requests.

    Args:
        config, client, metadata, clock: the admin client's.
    """

    def __init__(self, config: AdminConfig, client: NetworkClient, metadata: Metadata, clock: Clock) -> None:
        self.config = config
        self.client = client
        self.metadata = metadata
        self.clock = clock
        self._backoff = Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def call(
        self,
        api_key: ApiKey,
        request: Message | Callable[[int], Message],
        answer: type[R],
        deadline: float,
        *,
        target: Target | None = None,
        node: int | None = None,
        check: Callable[[R], KafkaError | None] | None = None,
        min_version: int = 0,
        max_version: int | None = None,
        what: str = "",
    ) -> Steps[R]:
        """Send a request until its response has no retriable error.

        Args:
            answer: class of the response.
            deadline: monotonic seconds.
            target: chooses the node, again for every attempt; None or a result of None: any broker.
            node: instead of a target, the node to ask, once: its caller makes other attempts, perhaps elsewhere.
            check: the error in an answer, None if it is good. An error that is not retriable is raised at once.
            what: for the message of a time-out.

        Raises:
            KafkaTimeoutError: no good answer in time; the cause is the last error.
            KafkaError: an error that is not retriable.
        """
        attempts = 0
        last: KafkaError | None = None
        try:
            while True:
                chosen = node
                if target is not None:
                    chosen = yield from target(deadline)
                left = deadline - self.clock.now()
                timeout = round(max(0.001, min(self.config.request_timeout_ms / 1000, left)), 3)
                if chosen is None:
                    future = self.client.send_any(
                        api_key, request, timeout=timeout, min_version=min_version, max_version=max_version
                    )
                else:
                    future = self.client.send(
                        chosen, api_key, request, timeout=timeout, min_version=min_version, max_version=max_version
                    )
                response = yield from self._settle(future, deadline, what or api_key.name)
                if isinstance(response, KafkaError):
                    error: KafkaError | None = response
                else:
                    message = response.message
                    assert isinstance(message, answer)
                    error = check(message) if check is not None else None
                    if error is None:
                        return message
                assert error is not None
                self._raise_refusal()
                if not error.retriable or node is not None or attempts >= self.config.retries:
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

    def pause(self, failures: int, deadline: float) -> Steps[None]:
        """Wait before another attempt, for at most half of the time left: the last attempts come closer together.

        Raises:
            KafkaTimeoutError: there is no time for one.
        """
        left = deadline - self.clock.now()
        if left <= _LEAST_FOR_AN_ATTEMPT:
            raise KafkaTimeoutError("no time is left for another attempt")
        until = self.clock.now() + min(self._backoff.delay(failures), left / 2)
        while self.clock.now() < until:
            yield Wait(None, until)

    def _settle(
        self, future: RequestFuture[ClientResponse], deadline: float, what: str
    ) -> Steps[ClientResponse | KafkaError]:
        """Wait for a future; an error is returned, not raised.

        Raises:
            KafkaTimeoutError: the deadline has passed before the request's own.
        """
        try:
            while not future.done:
                yield Wait(future, deadline)
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(f"{what} got no answer in time: {self.client.failures()}") from error
        return future.value if future.exception is None else future.exception

    # ------------------------------------------------------------ targets

    def known_cluster(self, deadline: float) -> Steps[None]:
        """Wait until metadata has arrived once.

        Raises:
            AuthenticationError: the cluster refuses us. KafkaTimeoutError: no answer in time.
        """
        while self.metadata.update_count == 0:
            yield from self._fresh_metadata(deadline, deadline, "the cluster did not answer")

    def _fresh_metadata(self, until: float, deadline: float, what: str) -> Steps[None]:
        """Ask for metadata and wait until something happened, or ``until``.

        Raises:
            AuthenticationError: the cluster refuses us. KafkaTimeoutError: the deadline has passed.
        """
        self._raise_refusal()
        if self.clock.now() >= deadline:
            raise KafkaTimeoutError(f"{what} in time: {self.client.failures()}")
        self.metadata.request_update()
        yield Wait(None, min(until, deadline))

    def _raise_refusal(self) -> None:
        """Raise what makes further attempts pointless: a refused login, or that no broker has answered in time."""
        refused, self.metadata.fatal_error = self.metadata.fatal_error, None
        if refused is not None:
            raise refused

    def controller(self, deadline: float) -> Steps[int | None]:
        """Return the controller, or any broker if none is known (KRaft brokers forward requests to the controller)."""
        yield from self.known_cluster(deadline)
        node = self.metadata.controller_id
        # After starting over with bootstrap_servers, the controller of before is no broker that is known.
        return node if node is not None and node >= 0 and self.metadata.broker(node) is not None else None

    def node(self, node_id: int) -> Target:
        """Return a target that is always the same broker."""

        def choose(deadline: float) -> Steps[int | None]:
            while self.metadata.broker(node_id) is None:
                if self.metadata.update_count and self.clock.now() >= deadline:
                    raise BrokerNotAvailableError(f"there is no broker {node_id}")
                yield from self._fresh_metadata(deadline, deadline, f"broker {node_id} was not found")
            return node_id

        return choose

    def leader(self, tp: TopicPartition) -> Target:
        """Return a target that is the leader of a partition."""

        def choose(deadline: float) -> Steps[int | None]:
            self.metadata.add_topic(tp.topic)
            seen = self.metadata.update_count
            while True:
                found = self.metadata.leader(tp)
                if found is not None and found.leader >= 0:
                    return found.leader
                error = self.metadata.topic_error(tp.topic)
                if error is not None and not error.retriable:
                    raise error
                absence = self.metadata.absence(tp, seen)
                if absence is not None:
                    raise absence
                if self.clock.now() >= deadline and self.metadata.update_count > seen:
                    raise error or LeaderNotAvailableError(f"{tp} has no leader")
                until = self.clock.now() + self._backoff.delay(0)
                yield from self._fresh_metadata(until, deadline, f"the leader of {tp} was not found")

        return choose

    def coordinator(self, group_id: str) -> Target:
        """Return a target that is the coordinator of a group."""
        return self._coordinator(group_id, f"group {group_id!r}", of_transactions=False)

    def transaction_coordinator(self, transactional_id: str) -> Target:
        """Return a target that is the coordinator of a transactional id."""
        return self._coordinator(transactional_id, f"transactional id {transactional_id!r}", of_transactions=True)

    def _coordinator(self, key: str, what: str, *, of_transactions: bool) -> Target:
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
