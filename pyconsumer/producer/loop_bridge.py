"""Calls from the sender's thread into event loops, for asyncio. Those of one batch, or of several, cross together."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["call_in_loop", "called", "settled"]

from pyconsumer.background_log import Log

_log = Log(__name__)


class Result(Protocol):
    """A result that the sender's thread sets."""

    @property
    def done(self) -> bool:
        """Return whether the result is set."""
        ...

    def on_done(self, call: Callable[[], None]) -> None:
        """Call a function when the result is set, in the sender's thread. If it is set already, call it now."""
        ...


class _Mailbox:
    """Functions that a loop is to call. Any thread may add one. The loop is woken for the first of them only."""

    __slots__ = ("_calls", "_is_woken")

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._is_woken = False

    def add(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._is_woken = False  # before the calls are taken: one that is added from now on wakes the loop again
        while self._calls:
            self._calls.popleft()()


_mailboxes: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox]] = weakref.WeakKeyDictionary()


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Call a function soon in a loop's thread, in the order of the calls. Nothing happens if the loop is closed."""
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes.setdefault(loop, _Mailbox())
    try:
        mailbox.add(loop, call)
    except RuntimeError:
        _log.debug("an event loop that waited for the producer is closed")


_Waiting = dict[Result, list[asyncio.Future[None]]]

_waiting: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting]] = weakref.WeakKeyDictionary()


async def settled(result: Result) -> None:
    """Wait on the running loop until a result is set.

    One call into the loop resumes all tasks that wait for the same result.
    """
    if result.done:
        return
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    results = _waiting.setdefault(loop, {})
    if result in results:
        results[result].append(future)
    else:
        results[result] = [future]

        def finish() -> None:
            for each in results.pop(result):
                if not each.done():  # it may have been cancelled
                    each.set_result(None)

        result.on_done(lambda: call_in_loop(loop, finish))
    await future


async def called(register: Callable[[Callable[[], None]], object]) -> None:
    """Pass a new function to ``register``, and wait on the running loop until any thread calls that function."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def finish() -> None:
        if not future.done():  # it may have been cancelled
            future.set_result(None)

    register(lambda: call_in_loop(loop, finish))
    await future
