"""The driver for an event loop: it runs blocking calls, which are generators, as coroutines.

:class:`TaskDriver` has the running of a call, :class:`LoopDriver` is the driver of clients with sockets.

State: the loop of the first call, the calls that wait, one timer, and whether the loop watches the client's descriptor.
Everything happens in the thread of the loop.

Rules
* The loop watches one file descriptor, that of the network client's selector, and one timer. There is no second loop
  and no helper thread.
* Sockets are served whenever they are ready, also while no call waits. So responses arrive while the application awaits
  something else. Positions change only inside the application's calls, as with the blocking driver. So does group
  membership, unless the client has a task for it (:mod:`pyconsumer.compat.aiokafka.background`): then it changes inside
  that task's calls. The driver itself never calls the application.
* A call serves the sockets before it waits, as the blocking driver does. Then it waits for its future, for any event,
  or until its time.
* A call that never has to wait would block the loop. So if no call has yielded to the loop for ``LONGEST_TURN_S``, the
  next one does so before it changes anything. Unless another call waits, no sockets are served at that moment, as with
  the blocking driver: responses that are read while the buffer is full make the next requests smaller.
* While a call has all that it needs, the system receives the next response ahead
  (:meth:`.NetworkClient.arm_read_ahead`). A socket is not reported as readable then, so the sockets are served in the
  next iteration of the loop, before it waits.
* A cancelled call throws ``CancelledError`` into its generator where it waits. Its requests stay in flight, and their
  responses are processed when they arrive.
* The loop holds no strong reference to the client, so that a client that was dropped without ``close`` is noticed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture, Steps, Wait

__all__ = ["LONGEST_TURN_S", "LoopDriver", "TaskDriver", "own_loop", "yield_to_loop"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Calls that do not wait yield to the loop after this time (seconds).
LONGEST_TURN_S: Final = 0.005


def own_loop(name: str, mine: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop:
    """Return the running loop, after checking that the object may be used in it.

    Args:
        name: name of the object, for messages.
        mine: the loop of the object's first call, or None before the first call.

    Raises:
        IllegalStateError: no loop is running in this thread, or the running loop is not ``mine``.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise IllegalStateError(f"{name} needs a running event loop: call it in a coroutine") from None
    if mine is not None and loop is not mine:
        other = "was closed" if mine.is_closed() else "is another one"
        raise IllegalStateError(
            f"this {name} belongs to the event loop of its first call, which {other}: create one in each loop, and "
            "close it there"
        )
    return loop


async def yield_to_loop() -> None:
    """Let all tasks run that are ready or whose timer has expired.

    A sleeping task resumes two iterations after its timer: the first iteration completes its future, the second one
    resumes it. In each iteration the caller comes first. So the caller must yield three times.
    """
    for _ in range(3):
        await asyncio.sleep(0)


class _Waiter:
    """A call that waits for ``request`` (None: for any event), at most until ``until`` (monotonic seconds)."""

    __slots__ = ("interruptible", "request", "resumed", "until")

    def __init__(
        self, resumed: asyncio.Future[None], request: RequestFuture[Any] | None, until: float, interruptible: bool
    ) -> None:
        self.resumed = resumed
        self.request = request
        self.until = until
        self.interruptible = interruptible

    def resume(self, error: BaseException | None = None) -> None:
        """Let the call continue, or raise ``error`` in it. No effect if it has continued already."""
        if self.resumed.done():
            return
        if error is None:
            self.resumed.set_result(None)
        else:
            self.resumed.set_exception(error)


class TaskDriver(ABC):
    """Runs blocking calls, which are generators, as coroutines.

    It is the driver for event loops in :mod:`pyconsumer.network.futures`.

    Args:
        name: name of the application's object, for messages.
        now: returns the present time.

    Attributes:
        turn_began: when a call of this driver last yielded to the loop (monotonic seconds).
    """

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self.turn_began = -math.inf
        self._name = name
        self._now = now
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the running loop. At the first call, that loop becomes the loop of this driver.

        Raises:
            IllegalStateError: no loop is running in this thread, or it is not the loop of the first call.
        """
        loop = self._loop = own_loop(self._name, self._loop)
        return loop

    async def run(self, steps: Steps[T], deadline: float = math.inf, *, interruptible: bool = False) -> T:
        """Run a blocking call to its end and return its result. See :func:`pyconsumer.network.futures.drive`.

        Args:
            steps: the generator.
            deadline: monotonic seconds.
            interruptible: True if :meth:`interrupt` may end the call.

        Raises:
            KafkaTimeoutError: the call did not finish before the deadline.
            BaseException: any error of the generator, or of a callback.
        """
        self.bind()
        overdue = False
        try:
            wait = next(steps)
            while True:
                error: BaseException | None = None
                try:
                    if wait.awaitable is not None:
                        await wait.awaitable
                    elif wait.future is None or not wait.future.done:
                        late = self._now() >= deadline
                        if late and overdue:
                            raise KafkaTimeoutError("the call did not finish in time")
                        overdue = late
                        await self._wait(wait, min(wait.until, deadline), interruptible)
                except BaseException as raised:
                    error = raised
                wait = steps.send(None) if error is None else steps.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result

    @abstractmethod
    async def _wait(self, wait: Wait, until: float, interruptible: bool) -> None:
        """Wait as ``wait`` says, at most until ``until`` (monotonic seconds). An error is thrown into the call."""


class LoopDriver(TaskDriver):
    """Runs the calls of one client on one event loop: the loop in which its first call was made.

    Args:
        client: the network client.
        name: name of the application's object, for messages.
        check: called after each wait. If it raises an error, the error is thrown into the call.
    """

    def __init__(
        self,
        client: NetworkClient,
        name: str,
        *,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name, client.clock.now)
        self._client = client
        self._check = check
        client.before_read_ahead(_weakly(self._schedule_service))
        self._fileno = -1
        self._watches = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf  # by the loop's time
        self._waiters: dict[_Waiter, None] = {}
        self._yielding = 0  # calls inside let_others_run
        self._service_is_scheduled = False
        self._stopped: BaseException | None = None
        self._events = 0  # how many times serving the sockets has received something or failed a request, or recheck

    # -- the loop ----------------------------------------------------------------------------------------------------

    @property
    def loop_is_closed(self) -> bool:
        """Return whether the loop of this driver was closed."""
        return self._loop is not None and self._loop.is_closed()

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the running loop (see :meth:`TaskDriver.bind`), and let it watch the client's file descriptor."""
        loop = asyncio._get_running_loop()
        if loop is not None and loop is self._loop and self._watches:
            return loop
        loop = super().bind()
        if not self._watches and not self._client.closed:
            self._fileno = self._client.fileno()
            loop.add_reader(self._fileno, _weakly(self._on_readable))
            self._watches = True
        return loop

    def serve_soon(self) -> None:
        """Serve the sockets soon, because a call that does not wait has enqueued a request."""
        if self._loop is not None and not self._loop.is_closed():
            self._arm(-math.inf)

    def recheck(self) -> None:
        """Resume all calls, because one of them has made a change for which others may wait.

        A call that is yielding to other tasks before its wait is not resumed. It sees later that the count has changed.
        """
        self._events += 1
        for waiter in list(self._waiters):
            waiter.resume()

    def _on_event(self) -> None:
        try:
            self._serve()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # The next call watches the descriptor again; until then the loop would call this again and again.
            self._stop_watching()
            if not self._waiters:
                _log.exception("%s: an error occurred while serving its connections", self._name)
            for waiter in list(self._waiters):
                waiter.resume(error)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        self._on_event()

    def _schedule_service(self) -> bool:
        """Serve the sockets in the next iteration of the loop, before it waits, and return False if it is closed."""
        if self._loop is None or self._loop.is_closed():
            return False
        if not self._service_is_scheduled:
            self._service_is_scheduled = True
            self._loop.call_soon(_weakly(self._on_scheduled_service))
        return True

    def _on_scheduled_service(self) -> None:
        self._service_is_scheduled = False
        self._on_readable()

    def _on_readable(self) -> None:
        if self._yielding and not self._waiters:
            self._schedule_service()  # not now: no call waits, and the one that yields continues before the loop waits
        else:
            self._on_event()

    def _serve(self) -> bool:
        """Serve the sockets without waiting, resume calls whose wait is over, return whether anything happened."""
        if self._client.closed:
            return True
        due, happened = self._client.step(self._now())
        self._events += happened
        now = self._now()
        for waiter in list(self._waiters):
            request = waiter.request
            if happened or now >= waiter.until or (request is not None and request.done):
                waiter.resume()
            else:
                due = min(due, waiter.until)
        self._arm(due)
        return happened

    def _arm(self, at: float) -> None:
        """Set the timer for serving the sockets, unless it is set to an earlier time, which does no harm."""
        if self._loop is None:
            return
        when = self._loop.time() + max(0.0, at - self._now())  # the client's clock may have been moved ahead
        if when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, _weakly(self._on_timer))

    def _stop_watching(self) -> None:
        """Remove the client's descriptor from the loop, before it is closed or after an error."""
        if self._watches and self._loop is not None:
            self._watches = False
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fileno)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def let_others_run(self) -> None:
        """Yield to the loop.

        Callers do so if no call has yielded for :data:`LONGEST_TURN_S`, before they change anything.
        """
        if not self._client.closed:
            self._client.arm_read_ahead()
        self._yielding += 1
        try:
            await yield_to_loop()
        finally:
            self._yielding -= 1
        self.turn_began = self._now()

    async def _wait(self, wait: Wait, until: float, interruptible: bool) -> None:
        request = wait.future
        seen = self._events
        if self._now() - self.turn_began > LONGEST_TURN_S:
            await self.let_others_run()  # an event in the meantime does not resume this call, which is not a waiter yet
        if interruptible and self._stopped is not None:
            raise self._stopped
        happened = self._serve_again() or self._events != seen
        self._check()
        over = happened if request is None else request.done
        if over or self._now() >= until:
            return
        loop = self.bind()
        waiter = _Waiter(loop.create_future(), request, until, interruptible)
        self._waiters[waiter] = None
        self._arm(until)
        try:
            await waiter.resumed
        finally:
            self._waiters.pop(waiter, None)
            self.turn_began = self._now()
        self._check()

    def _serve_again(self) -> bool:
        if self._client.closed:
            raise IllegalStateError(f"the {self._name} was closed")
        return self._serve()

    # -- the end -----------------------------------------------------------------------------------------------------

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in the interruptible calls, now or at their next wait. A callback is not interrupted."""
        self._stopped = error
        for waiter in list(self._waiters):
            if waiter.interruptible:
                waiter.resume(error)

    def close(self) -> None:
        """Close the client at once. Its requests fail, and all calls are resumed."""
        self._stop_watching()
        self._client.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in list(self._waiters):
            if self._loop is not None and not self._loop.is_closed():
                waiter.resume()

    def abandon(self) -> None:
        """Close the file descriptors of a client that was dropped without ``close``. Any thread may call this."""
        loop, client, fileno, watches = self._loop, self._client, self._fileno, self._watches
        self._watches = False
        if loop is None or not watches or loop.is_closed():
            client.abandon()
            return

        def forget() -> None:
            loop.remove_reader(fileno)  # before the system reuses its number
            client.abandon()

        try:
            loop.call_soon_threadsafe(forget)
        except RuntimeError:  # the loop has just been closed
            client.abandon()


def _weakly(method: Callable[[], T]) -> Callable[[], T | None]:
    """Return a function that calls a bound method while its object exists, and returns None after that."""
    found = weakref.WeakMethod(method)

    def call() -> T | None:
        target = found()
        return None if target is None else target()

    return call
