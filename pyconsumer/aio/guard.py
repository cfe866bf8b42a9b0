"""``TaskGuard``: rejects calls from the wrong thread, process or task. It never waits.

State: the loop and its thread, the task that makes the exclusive call, and whether the object is closing or closed.
Only the thread of the loop changes it.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from threading import get_ident
from types import TracebackType

from pyconsumer.consumer.guard import forks
from pyconsumer.errors import ConcurrentAccessError, IllegalStateError

__all__ = ["TaskGuard"]


def _nobody() -> None:
    """Return no task."""


class TaskGuard:
    """Guards the calls of one object on an event loop.

    Every task of the loop may read state, seek, pause and commit. *Exclusive* calls (``poll``, ``subscribe``) are
    allowed to one task at a time, and a second exclusive call is rejected. If the same task makes the second call, it
    is made inside a callback.

    Args:
        name: name of the guarded object, for messages.
    """

    __slots__ = (
        "_call",
        "_caller",
        "_forks",
        "_loop",
        "_name",
        "_on_enter",
        "_pid",
        "_task",
        "_thread",
        "_waiters",
        "closed",
        "closing",
    )

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._forks = forks.count
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._task: asyncio.Task[object] | None = None
        #: Returns the task that made the last exclusive call. One that has failed must be free to report that.
        self._caller: Callable[[], asyncio.Task[object] | None] = _nobody
        self._call = ""
        self._on_enter: Callable[[], object] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        #: True after :meth:`close`: every further call is refused.
        self.closed = False
        #: True while the object is being closed: no exclusive call may begin.
        self.closing = False

    @property
    def forked(self) -> bool:
        """Return whether this process was forked from the one that created the object."""
        return self._forks != forks.count

    def call_on_enter(self, callback: Callable[[], object] | None) -> None:
        """Set a function that is called at the start of each call. With None, no function is called."""
        self._on_enter = callback

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make ``loop``, which runs in this thread, the loop of the object."""
        self._loop = loop
        self._thread = get_ident()

    def begin_closing(self) -> None:
        """Reject further exclusive calls."""
        self.closing = True

    def close(self) -> None:
        """Reject every further call."""
        self.closing = self.closed = True

    def enter(self) -> None:
        """Check a call of any kind.

        Raises:
            ConcurrentAccessError: the call was made in another thread than the loop's, or in a forked process.
            IllegalStateError: the object is closed.
        """
        if self._forks != forks.count:
            raise ConcurrentAccessError(
                f"this {self._name} belongs to process {self._pid}: create a new one after a fork"
            )
        if self._thread is not None and self._thread != get_ident():
            raise ConcurrentAccessError(
                f"this {self._name} belongs to the thread of its event loop. From other threads use only wakeup(), or "
                "asyncio.run_coroutine_threadsafe"
            )
        if self._on_enter is not None:
            self._on_enter()
        if self.closed:
            raise IllegalStateError(f"this {self._name} is closed")

    __enter__ = enter

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End a call that did not wait: there is no trace of it."""

    def refuse_in_callback(self, name: str) -> None:
        """Check that no exclusive call is in progress.

        Args:
            name: name of the call that is about to be made.

        Raises:
            IllegalStateError: the call was made in a callback of the exclusive call.
            ConcurrentAccessError: another task is making an exclusive call.
        """
        if self._task is None:
            return
        if self._task is asyncio.current_task(self._loop):
            raise IllegalStateError(f"{name} must not be called from a callback")
        raise ConcurrentAccessError(
            f"{name} was called while task {self._task.get_name()!r} is in {self._call}: only one task at a time may "
            "poll, or change the subscription or assignment"
        )

    def begin(self, name: str) -> None:
        """Begin an exclusive call in the running loop. If this does not raise, :meth:`end` must follow.

        Args:
            name: name of the call.

        Raises:
            ConcurrentAccessError, IllegalStateError: an error of :meth:`enter` or :meth:`refuse_in_callback`, or the
                object is being closed.
        """
        loop = self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        if self._task is not None or self.closing or self._on_enter is not None or self._forks != forks.count:
            self.enter()
            self.refuse_in_callback(name)
            if self.closing:
                raise IllegalStateError(f"this {self._name} is closed")
        self._task = task = asyncio.current_task(loop)
        if self._caller() is not task:
            self._caller = _nobody if task is None else weakref.ref(task)
        self._call = name

    def end(self) -> None:
        """End the exclusive call."""
        self._task = None
        if self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    @property
    def inside(self) -> bool:
        """Return whether an exclusive call is in progress. Any thread may ask."""
        return self._task is not None

    @property
    def busy(self) -> bool:
        """Return whether a task is making an exclusive call."""
        return self._task is not None

    def has_busy_caller(self) -> bool:
        """Return whether another task is still working on the result of the last exclusive call, or was cancelled."""
        if self._task is not None:
            return False
        caller = self._caller()
        if caller is None or caller is asyncio.current_task(self._loop):
            return False
        return not caller.done() or caller.cancelled()

    def in_callback(self) -> bool:
        """Return whether the exclusive call in progress was made by this task. This task is then in a callback."""
        return self._task is not None and self._task is asyncio.current_task(self._loop)

    async def until_free(self, seconds: float) -> None:
        """Wait until no exclusive call is in progress, at most this many seconds."""
        if self._task is None:
            return
        ended = asyncio.get_running_loop().create_future()
        self._waiters.append(ended)
        await asyncio.wait([ended], timeout=max(0.0, seconds))
