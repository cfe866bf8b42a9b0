"""One thread at a time, in the process that made the consumer. A guard, not a lock: it refuses, it never waits."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from pyconsumer.errors import ConcurrentAccessError, IllegalStateError

__all__ = ["AccessGuard"]

NO_THREAD = -1


_forks = 0


def _after_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_after_fork)


class AccessGuard:
    """Held during each public call; calls nest within one thread.

    Use it as ``with guard:``, or where that is too slow::

        try:
            guard.acquire()
            ...
        finally:
            guard.release()

    with ``acquire`` inside ``try``: Ctrl-C may come between its taking the guard and its return. Who is inside is
    written in the step that claims the guard (``dict.setdefault``), so an interrupted thread finds
    itself, not a stranger.
    No system call is made: a fork is noticed by a count that each child process raises.

    Args:
        name: of the object, for messages.
    """

    __slots__ = ("_depth", "_forks", "_name", "_owner", "_pid", "closed")

    def __init__(self, name: str = "KafkaConsumer") -> None:
        self._owner: dict[None, int] = {}
        self._depth = 0
        self._pid = os.getpid()
        self._forks = _forks
        self._name = name
        #: After close() every call is refused.
        self.closed = False

    @property
    def forked(self) -> bool:
        """Whether this is another process than the one that made the consumer."""
        return self._forks != _forks

    @property
    def owner(self) -> int:
        """Id of the thread inside, :data:`NO_THREAD` if there is none."""
        return self._owner.get(None, NO_THREAD)

    @property
    def depth(self) -> int:
        """How many calls are nested now."""
        return self._depth

    def acquire(self) -> None:
        """Enter a call. ``release`` must follow, also when this raises.

        Raises:
            ConcurrentAccessError: another thread is inside one, or this is another process after a fork.
            IllegalStateError: it is closed.
        """
        if self._forks != _forks:
            raise ConcurrentAccessError(f"this {self._name} belongs to process {self._pid}; make a new one after fork")
        me = threading.get_ident()
        owner = self._owner.setdefault(None, me)
        if owner != me:
            raise ConcurrentAccessError(
                f"{self._name} is not thread-safe: thread {owner} is using it;"
                " only wakeup() may be called from another thread"
            )
        self._depth += 1
        if self.closed:
            raise IllegalStateError(f"this {self._name} is closed")

    def release(self) -> None:
        """Leave a call; nothing happens in a thread that is not inside."""
        if self._owner.get(None) != threading.get_ident():
            return
        self._depth -= 1
        if self._depth <= 0:
            self._depth = 0
            self._owner.clear()

    def __enter__(self) -> None:
        try:
            self.acquire()
        except BaseException:
            self.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
