"""``AccessGuard``: allows one thread at a time, in the process that created the consumer. It refuses, and never waits.

It is about calls of the consumer. Who may run a rebalance listener is decided in
:mod:`.coordinator.listener_invoker`. :class:`Guard` is the interface of this guard and of the one for event loops,
:class:`pyconsumer.aio.guard.TaskGuard`.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from types import FrameType, TracebackType
from typing import Final, Protocol

from pyconsumer.errors import ConcurrentAccessError, IllegalStateError, WakeupError

__all__ = ["AccessGuard", "Guard", "forks"]

NO_THREAD = -1


class Forks:
    """The number of forks between the first process and this one. Reading it is cheaper than the system call getpid.

    Attributes:
        count: the number of forks.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """Add one to the count."""
        self.count += 1


forks: Final = Forks()
os.register_at_fork(after_in_child=forks.add)


class Guard(Protocol):
    """Checks the calls of one consumer. A call that does not wait is made inside ``with guard:``.

    Attributes:
        closed: True after :meth:`close`. Every further call is then rejected.
    """

    closed: bool

    @property
    def forked(self) -> bool:
        """Return whether this process was forked from the one that created the consumer."""
        ...

    @property
    def inside(self) -> bool:
        """Return whether a call is in progress. Any thread may ask."""
        ...

    def begin(self, name: str) -> None:
        """Begin an exclusive call, such as ``poll``, which no callback may make. :meth:`end` must follow."""
        ...

    def end(self) -> None:
        """End a call."""
        ...

    def refuse_in_callback(self, name: str) -> None:
        """Raise ``IllegalStateError`` if the current call was made inside another call's callback.

        The message contains ``name``.
        """
        ...

    def call_on_enter(self, callback: Callable[[], object] | None) -> None:
        """Set a function that is called at the start of each call. With None, no function is called."""
        ...

    def close(self) -> None:
        """Reject every further call."""
        ...

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class AccessGuard:
    """Held during each public call. Calls nest within one thread.

    Use it as ``with guard:``, or where that is too slow::

        try:
            guard.begin("poll")
            ...
        finally:
            guard.end()

    with ``begin`` inside ``try``, because Ctrl-C may come after the guard is acquired and before ``begin`` returns. One
    atomic operation (``dict.setdefault``) acquires the guard and stores the owner. So an interrupted thread finds
    itself as the owner. Ctrl-C may also come just before the guard is released, which then never happens. So a call
    that seems to be nested checks that the outer call is on the stack.

    No system call is made. After a fork the child process increases a counter, and the guard compares it.

    Args:
        user: the object whose methods are guarded. If it is not given, nested calls are not checked.
        name: the object's name in messages.
        on_call: called at the start of each call that uses ``with``.
        on_interrupt: called after a call has ended with Ctrl-C, or with another exception that is not an ``Exception``.
    """

    __slots__ = (
        "_forks",
        "_name",
        "_on_call",
        "_on_enter",
        "_on_interrupt",
        "_on_wakeup",
        "_owner",
        "_pid",
        "_user",
        "closed",
        "depth",
    )

    def __init__(
        self,
        user: object | None = None,
        name: str = "KafkaConsumer",
        *,
        on_call: Callable[[], object] | None = None,
        on_interrupt: Callable[[], object] | None = None,
    ) -> None:
        self._user = None if user is None else weakref.ref(user)
        self._owner: dict[None, int] = {}
        #: Number of calls that are nested now.
        self.depth = 0
        self._pid = os.getpid()
        self._forks = forks.count
        self._name = name
        self._on_call = on_call
        self._on_interrupt = on_interrupt
        self._on_wakeup: Callable[[], object] | None = None
        self._on_enter: Callable[[], object] | None = None
        #: True after :meth:`close`: every further call is refused.
        self.closed = False

    @property
    def forked(self) -> bool:
        """Return whether this process was forked from the one that created the consumer."""
        return self._forks != forks.count

    @property
    def inside(self) -> bool:
        """Return whether a call is in progress. Any thread may ask."""
        return self.depth > 0

    @property
    def owner(self) -> int:
        """Id of the thread that holds the guard, or :data:`NO_THREAD`."""
        return self._owner.get(None, NO_THREAD)

    def call_on_enter(self, callback: Callable[[], object] | None) -> None:
        """Set a function that is called at the start of each call. With None, no function is called."""
        self._on_enter = callback

    def call_on_wakeup(self, callback: Callable[[], object]) -> None:
        """Set a function that is called after a call that uses ``with`` has raised ``WakeupError``."""
        self._on_wakeup = callback

    def close(self) -> None:
        """Reject every further call."""
        self.closed = True

    def begin(self, name: str) -> None:
        """Begin a call that no callback may make. :meth:`end` must follow, also if ``begin`` raises.

        Args:
            name: name of the call. An empty name allows the call in callbacks.

        Raises:
            ConcurrentAccessError: another thread is inside a call, or this is a forked process.
            IllegalStateError: the guard is closed, or a callback makes the call.
        """
        if self._forks != forks.count:
            raise ConcurrentAccessError(
                f"this {self._name} belongs to process {self._pid}: create a new one after a fork"
            )
        me = get_ident()
        owner = self._owner.setdefault(None, me)
        if owner != me:
            raise ConcurrentAccessError(
                f"{self._name} is not thread-safe: thread {owner} is using it,"
                " and only wakeup() may be called from another thread"
            )
        if self.depth and not self._is_nested():
            self.depth = 0
        self.depth += 1
        if self._on_enter is not None:
            self._on_enter()
        if self.closed:
            raise IllegalStateError(f"this {self._name} is closed")
        if name and self.depth > 1:
            self.refuse_in_callback(name)

    def refuse_in_callback(self, name: str) -> None:
        """Check that the current call is not nested in another one.

        Raises:
            IllegalStateError: it is nested, so it was made in a callback.
        """
        if self.depth > 1:
            raise IllegalStateError(f"{name} must not be called from a callback")

    def end(self) -> None:
        """End a call. This has no effect in a thread that is not inside a call."""
        if self._owner.get(None) != get_ident():
            return
        depth = self.depth - 1
        if depth > 0:
            self.depth = depth
        else:
            self.depth = 0
            self._owner.clear()

    def _is_nested(self) -> bool:
        """Return whether the stack has a method of the user besides the one being entered and its helpers."""
        user = None if self._user is None else self._user()
        if user is None:
            return True
        frame: FrameType | None = sys._getframe(1)
        inside = True
        while frame is not None:
            found = frame.f_locals.get("self")
            if found is user:
                if not inside:
                    return True
            elif found is not self:
                inside = False
            frame = frame.f_back
        return False

    def __enter__(self) -> None:
        try:
            self.begin("")
            if self._on_call is not None:
                self._on_call()
        except BaseException:
            self.end()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
        if kind is None:
            return
        if issubclass(kind, WakeupError):
            if self._on_wakeup is not None:
                self._on_wakeup()
        elif not issubclass(kind, Exception) and self._on_interrupt is not None:
            self._on_interrupt()
