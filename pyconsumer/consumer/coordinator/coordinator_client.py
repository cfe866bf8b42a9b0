"""Sends requests to the group's coordinator, finds it, and notices its loss. A thin driver.

Requests use a connection of their own to the coordinator, so that a pending JoinGroup holds up no fetch. When the
coordinator is lost, that connection is dropped: a request may be pending on it, and later ones would wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

from pyconsumer.clock import Clock
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.membership import GroupMember
from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.calls import RequestSender
from pyconsumer.network.client_requests import ClientResponse, RequestBuilder
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

__all__ = ["COORDINATOR", "CoordinatorClient"]

COORDINATOR = "coordinator"
"""Name of the connection that is kept for the coordinator."""

M = TypeVar("M", bound=GroupMember)


class CoordinatorClient(Generic[M]):
    """Sends requests to the group's coordinator, and looks the coordinator up. See the module.

    Args:
        client: the network client of the user's thread.
        core: the membership.
        lock: the lock that guards the core.
        clock: the source of time.
        changed: called after each change of the core.
        disconnect: closes the coordinator's connection to a node.
    """

    def __init__(
        self,
        client: RequestSender,
        core: M,
        lock: RLock,
        clock: Clock,
        *,
        changed: Callable[[], object],
        disconnect: Callable[[int], object],
    ) -> None:
        self.client = client
        self.core = core
        self.lock = lock
        self.clock = clock
        self.changed = changed
        self._disconnect = disconnect
        self._search: RequestFuture[ClientResponse] | None = None
        self._used: tuple[int, int] | None = None  # node id and term of the connection in use
        self.last_failure: KafkaError | None = None
        """The error of the last search for the coordinator; None if that found it."""
        self.on_search_end: Callable[[KafkaError | None], object] = lambda error: None

    def call_after_search(self, on_done: Callable[[KafkaError | None], object]) -> None:
        """Set a function that is called after each search for the coordinator.

        It gets the error, or None if the coordinator was found.
        """
        self.on_search_end = on_done

    def find(self) -> bool:
        """Return whether the coordinator is known. If not, send FindCoordinator as soon as that is due."""
        with self.lock:
            if self.core.coordinator is not None:
                return True
            if not self.core.discovery.start(USER, self.clock.now()):
                return False
        self.send_find_coordinator()
        return False

    def send_find_coordinator(self) -> None:
        """Send FindCoordinator, as the core has just asked."""
        self._drop_old()
        group_id = self.core.settings.group_id
        self.core.log.debug("looking for the coordinator")
        search = self.client.send_any(
            FindCoordinatorRequest, lambda version: find_coordinator_request(group_id, version)
        )
        search.add_callback(self._on_response)
        self._search = search

    def recover(self) -> None:
        """Repair the state after Ctrl-C.

        A FindCoordinator that was never sent, or whose end was missed, counts as ended.
        """
        if self._search is None or self._search.done:
            with self.lock:
                if self.core.discovery.is_in_flight(USER):
                    self.core.discovery.cancelled(USER)

    def ensure(self, deadline: float) -> Steps[bool]:
        """Wait until the coordinator is known. Return False if it is unknown at the deadline.

        Raises:
            KafkaError: no retry can find the coordinator, for instance because access to the group is denied.
        """
        while True:
            with self.lock:
                error = self.core.take_error()
            if error is not None:
                raise error
            if self.find():
                return True
            if self.clock.now() >= deadline:
                return False
            with self.lock:
                due = self.core.discovery.due_at(USER)
            pending: RequestFuture[Any] | None = self._search
            yield Wait(pending if pending is not None and not pending.done else None, min(deadline, due))

    @property
    def missing(self) -> str:
        """Return a description of the coordinator, for the message of a call that waited for it too long."""
        return f"the group's coordinator (connections: {self.client.failures()})"

    def _on_response(self, future: RequestFuture[ClientResponse]) -> None:
        now = self.clock.now()
        failure: KafkaError | None = None
        try:
            response = future.result()
            node = read_coordinator(self.core.settings.group_id, response.api_version, response.message)
        except KafkaError as error:
            failure = error.with_traceback(None)  # which would keep this frame, and so the consumer, alive
            with self.lock:
                self.core.on_coordinator_not_found(USER, error, now)
        else:
            self.core.log.debug("node %d names %s as coordinator", response.node_id, node)
            with self.lock:
                self.core.on_coordinator_found(USER, node, now)
        self.last_failure = failure
        self.changed()
        self.on_search_end(failure)

    def send(
        self,
        node: BrokerMetadata,
        api: type[Message],
        request: Message | RequestBuilder,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> RequestFuture[ClientResponse]:
        """Send a request to the coordinator, over the connection that is reserved for it."""
        self._drop_old()
        self._used = node.node_id, self.core.discovery.term
        return self.client.send(node, api, request, timeout=timeout, connection=COORDINATOR, max_version=max_version)

    def failed(self, node_id: int, error: KafkaError, term: int) -> None:
        """Record that a request to the coordinator got no response.

        Args:
            term: the coordinator's term when the request was sent. If the coordinator has been lost since, the failure
                comes from the dropped connection, and the present coordinator is not affected, even if it is the same
                node.
        """
        if isinstance(error, KafkaConnectionError) and term == self.core.discovery.term:
            with self.lock:
                self.core.on_coordinator_lost(node_id, error, self.clock.now())
            self.changed()

    def _drop_old(self) -> None:
        if self._used is not None and self._used[1] != self.core.discovery.term:
            node_id, self._used = self._used[0], None
            self._disconnect(node_id)
