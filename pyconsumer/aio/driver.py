"""The driver on an event loop: runs blocking calls, which are generators, as coroutines.

Rules
* Everything happens on one loop, in its thread. The loop watches one descriptor, the one that the network client's
  selector stands behind, and one timer. There is no second loop and no helper thread.
* Sockets are served whenever there is something to do, also while no call waits. So answers arrive while the
  application awaits something else. What depends on the application (its group, its positions) moves only inside its
  calls, as with the blocking driver.
* A call looks at the sockets before it waits, as the blocking driver does; then it waits for its future, for anything
  to happen, or for its time.
* A call that finds everything it needs would never give up the loop. So a call gives it up first if none has for
  ``LONGEST_TURN_S``, before it changes anything. What arrives in these rounds is read later, as by the blocking driver,
  unless another call waits: responses that are read while the buffer is full make the next requests smaller.
* While a call has what it needs, the system receives the next answer ahead (:meth:`NetworkClient.leave`). A socket is
  not reported then, so the sockets are served in the loop's next round in which it might wait.
* A cancelled call throws ``CancelledError`` into its generator at the place where it waits. Its requests stay under
  way, and their answers are handled when they arrive.
* Nothing that the loop holds keeps the client alive, so that one that was dropped without ``close`` is noticed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture, Steps

__all__ = ["LONGEST_TURN_S", "LoopDriver", "give_way", "own_loop"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: A call that never waits gives up the loop after this time (seconds).
LONGEST_TURN_S: Final = 0.005


def own_loop(name: str, mine: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop:
    """Return the running loop, to which an object belongs from its first call on.

    Args:
        name: of the object, for messages.
        mine: the loop of its first call; None if this is it.

    Raises:
        IllegalStateError: no loop runs in this thread, or another one than ``mine``.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise IllegalStateError(f"{name} works on a running event loop: await its calls in a task") from None
    if mine is not None and loop is not mine:
        other = "was closed" if mine.is_closed() else "is another one"
        raise IllegalStateError(
            f"this {name} belongs to the event loop of its first call, which {other}: make one in each loop, and close "
            "it there"
        )
    return loop


async def give_way() -> None:
    """Let all others run that are ready, and those that a timer makes ready now.

    A task that sleeps runs two rounds after its timer: the first one completes its future, the second one resumes it,
    and whoever gave up the loop comes before it in each.
    """
    for _ in range(3):
        await asyncio.sleep(0)


class _Waiter:
    """A call that waits: for ``request`` (None: for anything to happen), at most until ``until`` (monotonic)."""

    __slots__ = ("interruptible", "request", "resumed", "until")

    def __init__(
        self, resumed: asyncio.Future[None], request: RequestFuture[Any] | None, until: float, interruptible: bool
    ) -> None:
        self.resumed = resumed
        self.request = request
        self.until = until
        self.interruptible = interruptible

    def resume(self, error: BaseException | None = None) -> None:
        """Let the call continue, unless it does so already."""
        if self.resumed.done():
            return
        if error is None:
            self.resumed.set_result(None)
        else:
            self.resumed.set_exception(error)


class LoopDriver:
    """Runs the calls of one client on the event loop in which the first of them is made.

    Args:
        client: does the I/O.
        name: of the object that the application uses, for messages.
        check: called when a wait is over; what it raises is thrown into the call.

    Attributes:
        turn_began: when the loop was last given up, as far as this driver knows (monotonic seconds).
    """

    def __init__(
        self,
        client: NetworkClient,
        name: str,
        *,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self.turn_began = -math.inf
        self._client = client
        self._name = name
        self._check = check
        self._now = client.clock.now
        client.on_leave(_weakly(self._arrange_step))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fileno = -1
        self._watches = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf  # by the loop's time
        self._waiters: dict[_Waiter, None] = {}
        self._giving_way = 0  # calls that let others run and wait for nothing
        self._step_is_arranged = False
        self._stopped: BaseException | None = None
        self._happenings = 0  # turns in which anything was received or failed

    # -- the loop ----------------------------------------------------------------------------------------------------

    @property
    def loop_is_closed(self) -> bool:
        """Return whether the loop that this belongs to was closed."""
        return self._loop is not None and self._loop.is_closed()

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; the first call makes it the one of this driver.

        Raises:
            IllegalStateError: no loop runs in this thread, or another one than before.
        """
        loop = asyncio._get_running_loop()
        if loop is not None and loop is self._loop and self._watches:
            return loop
        loop = self._loop = own_loop(self._name, self._loop)
        if not self._watches and not self._client.closed:
            self._fileno = self._client.fileno()
            loop.add_reader(self._fileno, _weakly(self._on_readable))
            self._watches = True
        return loop

    def kick(self) -> None:
        """Serve the sockets soon: something was queued by a call that does not wait."""
        if self._loop is not None and not self._loop.is_closed():
            self._arm(-math.inf)

    def _on_event(self) -> None:
        try:
            self._serve()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # The next call watches again; until then the loop must not come back here at once.
            self._stop_watching()
            if not self._waiters:
                _log.exception("%s: serving its connections failed", self._name)
            for waiter in list(self._waiters):
                waiter.resume(error)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        self._on_event()

    def _arrange_step(self) -> bool:
        """Serve the sockets in the loop's next round, before it waits; return False if the loop is closed."""
        if self._loop is None or self._loop.is_closed():
            return False
        if not self._step_is_arranged:
            self._step_is_arranged = True
            self._loop.call_soon(_weakly(self._on_arranged_step))
        return True

    def _on_arranged_step(self) -> None:
        self._step_is_arranged = False
        self._on_readable()

    def _on_readable(self) -> None:
        if self._giving_way and not self._waiters:
            self._arrange_step()  # the call continues in a moment and has what it needs; nor does the loop wait then
        else:
            self._on_event()

    def _serve(self) -> bool:
        """Serve the sockets without waiting, and resume the calls whose wait is over; whether anything happened."""
        if self._client.closed:
            return True
        due, happened = self._client.step(self._now())
        self._happenings += happened
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
        """See to it that the sockets are served at a time. An earlier timer stays: serving too early does no harm."""
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
        """Let the loop forget the client's descriptor, before it is closed or after serving it has failed."""
        if self._watches and self._loop is not None:
            self._watches = False
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fileno)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def breathe(self) -> None:
        """Let others run, where a call has kept the loop for :data:`LONGEST_TURN_S`, before it changes anything."""
        if not self._client.closed:
            self._client.leave()
        self._giving_way += 1
        try:
            await give_way()
        finally:
            self._giving_way -= 1
        self.turn_began = self._now()

    async def run(self, steps: Steps[T], deadline: float = math.inf, *, interruptible: bool = False) -> T:
        """Run a blocking call to its end and return its result; see :func:`pyconsumer.network.futures.drive`.

        Args:
            steps: the generator.
            deadline: monotonic seconds.
            interruptible: whether :meth:`interrupt` ends it.

        Raises:
            KafkaTimeoutError: the deadline has passed.
            BaseException: what the generator or a callback raised.
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
                        await self._wait(min(wait.until, deadline), wait.future, interruptible)
                except BaseException as raised:
                    error = raised
                wait = steps.send(None) if error is None else steps.throw(error)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _wait(self, until: float, request: RequestFuture[Any] | None, interruptible: bool) -> None:
        seen = self._happenings
        if self._now() - self.turn_began > LONGEST_TURN_S:
            await self.breathe()  # an event may be served meanwhile, and this call is not among those it resumes
        if interruptible and self._stopped is not None:
            raise self._stopped
        happened = self._serve_again() or self._happenings != seen
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
        """End the interruptible calls, now or at their next wait, with an error. A callback is not interrupted."""
        self._stopped = error
        for waiter in list(self._waiters):
            if waiter.interruptible:
                waiter.resume(error)

    def close(self) -> None:
        """Close the client at once; all calls continue and see what has become of them."""
        self._stop_watching()
        self._client.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in list(self._waiters):
            if self._loop is not None and not self._loop.is_closed():
                waiter.resume()

    def abandon(self) -> None:
        """Close the descriptors of a client that was dropped without ``close``. Any thread may call this."""
        loop, client, fileno, watches = self._loop, self._client, self._fileno, self._watches
        self._watches = False
        if loop is None or not watches or loop.is_closed():
            client.abandon()
            return

        def forget() -> None:
            loop.remove_reader(fileno)  # before its number is given to somebody else
            client.abandon()

        try:
            loop.call_soon_threadsafe(forget)
        except RuntimeError:  # it was closed in this moment
            client.abandon()


def _weakly(method: Callable[[], T]) -> Callable[[], T | None]:
    """Return a function that calls a bound method as long as its object lives; after that it returns None."""
    found = weakref.WeakMethod(method)

    def call() -> T | None:
        target = found()
        return None if target is None else target()

    return call
