"""The consumer's network client: :class:`~pyconsumer.network.client.NetworkClient` with wakeups and cluster errors.

The network client queues requests and does all I/O in the thread that polls. This adds

* *wakeup*: ``wakeup()`` from another thread makes the current or next poll raise ``WakeupError``, once, unless wakeups
  are disabled; it never interrupts a callback;
* *cluster errors*: polls raise the errors that metadata responses reported (authentication failed, topic not
  authorized);
* *deferred disconnects*: a callback can ask to disconnect a node that is not the coordinator any more; this happens at
  the start of the next poll;
* *queries* of the coordinator and the fetcher: pending requests, unavailable nodes, authentication failures.

Only the consumer's own thread uses it, except for ``wakeup()``. The heartbeat thread has its own client, so no lock is
needed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pyconsumer.clock import Clock
from pyconsumer.errors import AuthenticationError, KafkaConnectionError, WakeupError
from pyconsumer.network.client import ClientResponse, NetworkClient, RequestBuilder
from pyconsumer.network.futures import RequestFuture, Steps, drive
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.api import BrokerVersions
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

__all__ = ["ConsumerNetworkClient"]

T = TypeVar("T")


class ConsumerNetworkClient:
    """See the module's docstring.

    Args:
        client: does the I/O; it must have metadata. It is closed by :meth:`close`.
    """

    def __init__(self, client: NetworkClient) -> None:
        if client.metadata is None:
            raise ValueError("a consumer's client needs metadata")
        self.client = client
        self.metadata: Metadata = client.metadata
        self.clock: Clock = client.clock
        self.request_timeout = client.config.request_timeout_ms / 1000
        self.retry_backoff = client.config.retry_backoff_ms / 1000
        #: True if :meth:`wakeup` was called and WakeupError has not been raised yet.
        self.wakeup_waits = False
        self._wakeups_disabled = 0
        self._to_disconnect: deque[tuple[int, str, str]] = deque()

    # -- requests ----------------------------------------------------------------------------------------------------

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
    ) -> RequestFuture[ClientResponse]:
        """Queue a request for a node; see :meth:`NetworkClient.send`. No I/O happens before the next poll."""
        return self.client.send(
            node,
            api,
            request,
            timeout=timeout,
            connection=connection,
            min_version=min_version,
            max_version=max_version,
        )

    def send_any(
        self,
        api: int | type[Message],
        request: Message | RequestBuilder,
        *,
        timeout: float | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> RequestFuture[ClientResponse]:
        """Queue a request for the least loaded node; see :meth:`NetworkClient.send_any`."""
        return self.client.send_any(api, request, timeout=timeout, min_version=min_version, max_version=max_version)

    def flush(self) -> None:
        """Send what can be sent now and wait for nothing. Raises no WakeupError and runs no callback."""
        self.client.flush()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def poll(self, until: float, future: RequestFuture[Any] | None = None, *, disable_wakeup: bool = False) -> None:
        """Send, receive, run callbacks; wait as :meth:`NetworkClient.poll` does.

        Args:
            until: monotonic seconds; with a time in the past the sockets are served once, without waiting.
            future: return when it is done; with None, when anything was received or failed.
            disable_wakeup: do not raise WakeupError in this call; a wakeup stays for a later one.

        Raises:
            WakeupError: ``wakeup()`` was called. Responses that have arrived are not lost.
            AuthenticationError, UnsupportedVersionError: the cluster cannot be used with these settings.
            TopicAuthorizationFailedError, InvalidTopicError: of a topic that the consumer is interested in.
        """
        self.client.fire()
        self.disconnect_pending()
        quiet = disable_wakeup or self._wakeups_disabled > 0
        if self.wakeup_waits and not quiet:
            until = -math.inf  # serve the sockets once, then raise
        while True:
            self.client.poll(until, future)
            if not quiet:
                self.raise_wakeup()
            # With wakeups disabled, a wakeup only ends client.poll early: wait again.
            if not quiet or future is None or future.done or self.clock.now() >= until:
                break
        self.raise_cluster_error()

    def poll_no_wakeup(self, until: float = -math.inf, future: RequestFuture[Any] | None = None) -> None:
        """Poll as :meth:`poll` does, but raise no WakeupError; by default serve the sockets once without waiting."""
        self.poll(until, future, disable_wakeup=True)

    def run(self, steps: Steps[T], deadline: float = math.inf) -> T:
        """Run a blocking call written as a generator; see :func:`pyconsumer.network.futures.drive`.

        Errors of :meth:`poll` are thrown into the generator.
        """
        return drive(steps, deadline, self.poll, self.clock.now)

    def wakeup(self) -> None:
        """Make the current poll, or the next one, raise WakeupError. Any thread and any signal handler may call it."""
        self.wakeup_waits = True
        self.client.wakeup()

    def raise_wakeup(self) -> None:
        """Raise WakeupError if :meth:`wakeup` was called and wakeups are not disabled, and clear the wakeup."""
        if self.wakeup_waits and not self._wakeups_disabled:
            self.wakeup_waits = False
            raise WakeupError("wakeup() was called")

    @contextmanager
    def disable_wakeups(self) -> Iterator[None]:
        """Raise no WakeupError in this block; the first poll after it raises a pending one. May be nested."""
        self._wakeups_disabled += 1
        try:
            yield
        finally:
            self._wakeups_disabled -= 1

    def raise_cluster_error(self) -> None:
        """Raise an error that metadata responses reported; once. See :meth:`poll`."""
        error = self.metadata.take_fatal_error() or self.metadata.take_topic_error()
        if error is not None:
            raise error

    # -- nodes -------------------------------------------------------------------------------------------------------

    def pending_requests(self, node_id: int | None = None, connection: str = "main") -> int:
        """Return the number of requests that are unsent or in flight, on one connection or (None) on all."""
        return self.client.unsent(node_id, connection) + self.client.in_flight(node_id, connection)

    def has_pending_requests(self, node_id: int | None = None, connection: str = "main") -> bool:
        """Return whether there are any; see :meth:`pending_requests`."""
        return self.pending_requests(node_id, connection) > 0

    def is_unavailable(self, node_id: int, connection: str = "main") -> bool:
        """Return whether the node could not be reached or was lost, and its backoff is not over."""
        return self.client.connection_state(node_id, connection) == "backoff"

    def backoff_until(self, node_id: int, connection: str = "main") -> float:
        """Return when that backoff is over, in monotonic seconds; -inf if there is none."""
        return self.client.backoff_until(node_id, connection)

    def raise_auth_failure(self, node_id: int, connection: str = "main") -> None:
        """Raise the AuthenticationError of the last attempt to connect to the node, if it failed with one."""
        error = self.client.node_error(node_id, connection)
        if isinstance(error, AuthenticationError):
            raise error

    def connection_state(self, node_id: int, connection: str = "main") -> str:
        """Return ``disconnected``, ``backoff``, ``connecting`` or ``ready``."""
        return self.client.connection_state(node_id, connection)

    def try_connect(self, node: int | BrokerMetadata, connection: str = "main") -> None:
        """Begin to connect at the next poll, without a request."""
        self.client.connect(node, connection)

    def disconnect_async(self, node_id: int, connection: str = "main", *, cause: str = "") -> None:
        """Disconnect at the start of the next poll: fail the unsent requests, then close the connection."""
        self._to_disconnect.append((node_id, connection, cause or "disconnected by this client"))
        self.client.wakeup()

    def disconnect_pending(self) -> None:
        """Carry out what :meth:`disconnect_async` asked for. :meth:`poll` does this by itself."""
        while self._to_disconnect:
            node_id, connection, cause = self._to_disconnect.popleft()
            self.client.fail_unsent(node_id, connection, KafkaConnectionError(f"not sent: {cause}"))
            self.client.disconnect(node_id, connection, cause=cause)

    def least_loaded_node(self) -> int | None:
        """Return the best node for a request that any node can answer; None if no node can be used now."""
        return self.client.least_loaded_node()

    def api_versions(self, node_id: int, connection: str = "main") -> BrokerVersions | None:
        """Return the API versions that a node supports; None while it is not connected."""
        return self.client.api_versions(node_id, connection)

    def failures(self) -> str:
        """Return the last error, or the stage and address, of each node that is not ready, for messages."""
        return self.client.failures()

    def close(self) -> None:
        """Close all connections at once."""
        self.client.close()
