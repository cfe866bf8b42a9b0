"""Requests of a transaction that wait, and the outcome of its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.errors import KafkaError
from pyconsumer.producer.transaction_errors import RequestKind

__all__ = ["ADDS", "PendingRequest", "TransactionResult"]

#: The order of requests that add to a transaction.
ADDS: Final = 2
_ORDER: Final = {
    RequestKind.FIND_COORDINATOR: 0,
    RequestKind.INIT_PRODUCER_ID: 1,
    RequestKind.ADD_PARTITIONS: ADDS,
    RequestKind.ADD_OFFSETS: ADDS,
    RequestKind.COMMIT_OFFSETS: ADDS,
    RequestKind.END: 3,
}


class TransactionResult:
    """The outcome of a call, which is set later.

    Attributes:
        error: the reason why the call failed.
        last_failure: the last failure of an attempt, for calls that have stopped waiting.
        taken: True if a call has waited for the outcome and has seen it.
    """

    __slots__ = ("_callbacks", "_done", "_lock", "call", "error", "last_failure", "taken")

    def __init__(self, call: str) -> None:
        self.call = call
        self.error: KafkaError | None = None
        self.last_failure: KafkaError | None = None
        self.taken = False
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def done(self) -> bool:
        """Return whether the outcome is set."""
        return self._done.is_set()

    def succeed(self) -> None:
        """Set the outcome to success, unless an outcome is set already."""
        self._end()

    def note(self, error: KafkaError) -> None:
        """Store the reason why there is no outcome yet."""
        self.last_failure = error

    def fail(self, error: KafkaError) -> None:
        """Set the outcome to failure, with its reason, unless an outcome is set already."""
        if not self.done:
            self.error = error
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for call in callbacks:
            call()

    def on_done(self, call: Callable[[], object]) -> None:
        """Call a function when the outcome is set, in the sender's thread. If it is set already, call it now."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(call)
                return
        call()

    def wait(self, timeout: float) -> bool:
        """Wait for the outcome, at most ``timeout`` seconds. Return whether it is set. If so, it counts as taken."""
        self.taken = self._done.wait(min(timeout, threading.TIMEOUT_MAX))
        return self.taken


class PendingRequest:
    """A request that waits to be sent, or for its response.

    Attributes:
        key: the transactional id or the group for which FindCoordinator looks up the coordinator.
        details: the content of the message, depending on the kind of request.
        max_version: the newest version of the request that may be used.
        retry_at: the time before which the request is not sent, in monotonic seconds.
    """

    __slots__ = ("attempts", "details", "is_bump", "key", "kind", "max_version", "order", "result", "retry_at")

    def __init__(
        self,
        kind: RequestKind,
        result: TransactionResult,
        details: Any = None,
        *,
        key: str = "",
        is_bump: bool = False,
        max_version: int | None = None,
    ) -> None:
        self.kind = kind
        self.result = result
        self.details = details
        self.key = key
        self.is_bump = is_bump
        self.max_version = max_version
        self.order = 4 if is_bump else _ORDER[kind]
        self.attempts = 0
        self.retry_at = 0.0

    @property
    def of_group(self) -> bool:
        """Return whether the request goes to the coordinator of a group."""
        return self.kind is RequestKind.COMMIT_OFFSETS

    def follow(self, result: TransactionResult) -> None:
        """Report the outcome of this request to another result, too."""
        self.result = result

    def repeat_at(self, moment: float) -> None:
        """Count a failed attempt. The next attempt is not made before ``moment``."""
        self.attempts += 1
        self.retry_at = moment
