"""Pending calls of a transaction, and the requests that they still need."""

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
    """The outcome of a call, which comes later.

    Attributes:
        error: the reason why it failed.
        last_failure: the last thing that went wrong, for those who do not wait any longer.
        taken: somebody has waited for the outcome and seen it.
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
        """Return whether the outcome is there."""
        return self._done.is_set()

    def succeed(self) -> None:
        """Set success, unless there is an outcome."""
        self._end()

    def note(self, error: KafkaError) -> None:
        """Note why the outcome is not there yet."""
        self.last_failure = error

    def fail(self, error: KafkaError) -> None:
        """Set the reason of a failure, unless there is an outcome."""
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
        """Call a function when the outcome is there, in the sender's thread, or now if it is there."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(call)
                return
        call()

    def wait(self, timeout: float) -> bool:
        """Wait for the outcome, ``timeout`` seconds at most, and return whether it is there, and thereby taken."""
        self.taken = self._done.wait(min(timeout, threading.TIMEOUT_MAX))
        return self.taken


class PendingRequest:
    """A request that waits for its turn, or for its response.

    Attributes:
        key: the transactional id or the group whose coordinator FindCoordinator looks up.
        details: the content of the message, by kind of request.
        max_version: newest version that may be used.
        retry_at: monotonic seconds before which it is not sent.
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
        """Return whether it goes to the coordinator of a group."""
        return self.kind is RequestKind.COMMIT_OFFSETS

    def follow(self, result: TransactionResult) -> None:
        """Report the outcome to another result."""
        self.result = result

    def repeat_at(self, moment: float) -> None:
        """Count an attempt that failed. The next one is not made before this moment."""
        self.attempts += 1
        self.retry_at = moment
