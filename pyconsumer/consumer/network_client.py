"""The consumer's network client: its wait, ``wakeup`` and errors of the cluster.

It is a :class:`~pyconsumer.network.client.NetworkClient`, and everything in the consumer's own thread talks to it:
requests are queued in its :class:`~pyconsumer.network.client_requests.UnsentRequests`, a poll sends them, and their
futures are completed in the same thread. It adds

* *wakeup*: ``wakeup()`` from another thread makes the current or next poll raise ``WakeupError``, once, unless wakeups
  are disabled. It never interrupts a callback.
* *cluster errors*: polls raise the errors that metadata responses reported (authentication failed, topic not
  authorized).

Only the consumer's own thread uses it, except for ``wakeup()`` and ``wake_poll()``. The heartbeat thread has a client
of its own, so no lock is needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pyconsumer.errors import WakeupError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.metadata import Metadata
from pyconsumer.settings.config import ClientConfig

__all__ = ["ConsumerNetworkClient"]


class ConsumerNetworkClient(NetworkClient):
    """The network client of a consumer: sends its requests, and can be woken up. See the module.

    Args:
        config, metadata, options: see :class:`NetworkClient`.

    Attributes:
        wakeup_waits: True if :meth:`wakeup` was called and ``WakeupError`` has not been raised since.
    """

    metadata: Metadata

    def __init__(self, config: ClientConfig, metadata: Metadata, **options: Any) -> None:
        super().__init__(config, metadata=metadata, **options)
        self.wakeup_waits = False
        self._wakeups_disabled = 0
        self._keeps_topic_errors = False

    # -- waiting -----------------------------------------------------------------------------------------------------

    def poll(self, until: float, future: RequestFuture[Any] | None = None, *, disable_wakeup: bool = False) -> None:
        """Send, receive and run callbacks. Wait like :meth:`NetworkClient.poll`.

        Args:
            until: monotonic seconds. If the time has passed, the sockets are served once, without waiting.
            future: the call returns when this future is done. With None it returns when anything was received or has
                failed.
            disable_wakeup: True raises no ``WakeupError`` in this call. The wakeup is kept for a later call.

        Raises:
            WakeupError: ``wakeup()`` was called. Responses that have arrived are kept.
            AuthenticationError, UnsupportedVersionError: the cluster cannot be used with these settings.
            TopicAuthorizationFailedError, InvalidTopicError: the broker has rejected a topic of this consumer.
        """
        if self._completed.outcomes:
            self._completed.fire()
        quiet = disable_wakeup or self._wakeups_disabled > 0
        if self.wakeup_waits and not quiet:
            until = -math.inf  # serve the sockets once, then raise
        while True:
            super().poll(until, future)
            if self.wakeup_waits and not quiet:
                self.raise_wakeup()
            # With wakeups disabled, a wakeup only ends the poll early: wait again.
            if not quiet or future is None or future.done or self.clock.now() >= until:
                break
        if self.metadata.has_error:
            self.raise_cluster_error()

    def poll_no_wakeup(self, until: float = -math.inf, future: RequestFuture[Any] | None = None) -> None:
        """Poll without raising ``WakeupError``. By default, serve the sockets once without waiting."""
        self.poll(until, future, disable_wakeup=True)

    def wakeup(self) -> None:
        """Make the current poll raise ``WakeupError``, or the next one if none is running.

        Any thread and any signal handler may call this.
        """
        self.wakeup_waits = True
        super().wakeup()

    def wake_poll(self) -> None:
        """Make the current poll, or the next one, return early, because another thread has made a change."""
        super().wakeup()

    def raise_wakeup(self) -> None:
        """Raise ``WakeupError`` if :meth:`wakeup` was called and wakeups are enabled. This clears the wakeup."""
        if self.wakeup_waits and not self._wakeups_disabled:
            self.wakeup_waits = False
            raise WakeupError("wakeup() was called")

    @contextmanager
    def disable_wakeups(self) -> Iterator[None]:
        """Raise no ``WakeupError`` within this block. A pending one is raised by the first poll after it.

        Blocks may be nested.
        """
        self._wakeups_disabled += 1
        try:
            yield
        finally:
            self._wakeups_disabled -= 1

    def raise_cluster_error(self) -> None:
        """Raise, once, an error that metadata responses have reported. See :meth:`poll`."""
        error = self.metadata.take_fatal_error()
        if error is None and not self._keeps_topic_errors:
            error = self.metadata.take_topic_error()
        if error is not None:
            raise error

    def keep_topic_errors(self) -> None:
        """From now on, keep the errors of topics for :meth:`raise_topic_error`."""
        self._keeps_topic_errors = True

    def raise_topic_error(self, topics: Collection[str] = ()) -> None:
        """Raise, once, an error that :meth:`poll` would raise of one of these topics, by default of any."""
        if self.metadata.has_error:
            error = self.metadata.take_topic_error(topics or None)
            if error is not None:
                raise error

    # -- requests ----------------------------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """Return whether a request is waiting to be sent.

        A request that was queued after the last poll is waiting, too.
        """
        return bool(self._unsent.queues)

    def has_pending_requests(self) -> bool:
        """Return whether any request is unsent or in flight."""
        return self.unsent() + self.in_flight() > 0
