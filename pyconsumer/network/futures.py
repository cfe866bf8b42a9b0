"""Futures of requests, and ``drive``, which runs a blocking call up to its deadline.

A :class:`RequestFuture` belongs to one thread. It is completed, and its callbacks run, inside the ``poll`` of the
client that made it, so it needs no lock, and it cannot be waited for by itself.

A blocking call (``poll``, ``commit``, ``send``, ``close``) is written once, as a generator (:data:`Steps`) that does no
I/O and never sleeps. To wait, it yields a :class:`Wait`, and a driver resumes it:

* with a future: when the future is done or ``until`` has passed, whichever comes first.
* without one: after anything was received or has failed, or at ``until``. It checks its condition and yields again.
* with a change: after another thread has announced it (a :class:`Change`), or at ``until``. A producer's calls wait so
  for the thread that sends.
* with :data:`YIELD`: at once. A call that does a lot lets others run there, if the driver's thread has others.
* possibly earlier than that. It re-reads the state it depends on and yields the same wait again.
* with an awaitable, which a callback of the application has returned: after it has ended. Its error is thrown into the
  generator. A driver that does not run on an event loop throws a ``TypeError`` instead.
* when the call's deadline has passed and it still wants to wait, with a ``KafkaTimeoutError`` thrown into it. A wakeup
  is thrown into it as ``WakeupError``. In both cases its ``finally`` blocks run.

There are three drivers:

* thread: :func:`drive` blocks until the call is finished. ``NetworkClient.run``, the consumer and ``KafkaProducer`` use
  it. While it waits for a change, it serves no socket.
* loop: ``pyconsumer.aio.driver.TaskDriver`` suspends the calling task. It has two kinds:
  ``LoopDriver`` serves the sockets of a client, and knows no changes. That of ``AsyncKafkaProducer`` has no socket, and
  waits for changes alone.
* resumable: :class:`ResumableCall` never blocks. It runs a call as far as possible each time it is asked to, so that a
  consumer's ``poll`` can advance several calls and wait once for all of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError, RequestCancelledError

__all__ = [
    "YIELD",
    "Change",
    "RequestFuture",
    "ResumableCall",
    "Steps",
    "Wait",
    "drive",
    "refuse_awaitable",
    "wait_for_callback",
]

T = TypeVar("T")
S = TypeVar("S")

_PENDING: Any = object()


class RequestFuture(Generic[T]):
    """A value or an error that is set later. It is set exactly once.

    Attributes:
        exception: the error, or None.
    """

    __slots__ = ("_callbacks", "_value", "exception")

    def __init__(self) -> None:
        self._value: T = _PENDING
        self.exception: KafkaError | None = None
        self._callbacks: list[Callable[[RequestFuture[T]], object]] | None = None

    @classmethod
    def of(cls, value: T) -> RequestFuture[T]:
        """Return a future that has already succeeded."""
        future: RequestFuture[T] = cls()
        future.complete(value)
        return future

    @classmethod
    def failure(cls, error: KafkaError) -> RequestFuture[T]:
        """Return a future that has already failed."""
        future: RequestFuture[T] = cls()
        future.fail(error)
        return future

    @property
    def done(self) -> bool:
        """Return whether the future has succeeded or failed."""
        return self._value is not _PENDING or self.exception is not None

    @property
    def succeeded(self) -> bool:
        """Return whether there is a value."""
        return self._value is not _PENDING

    @property
    def failed(self) -> bool:
        """Return whether there is an error."""
        return self.exception is not None

    @property
    def value(self) -> T:
        """Return the value.

        Raises:
            IllegalStateError: there is no value, because the future is not done or has failed.
        """
        if self._value is _PENDING:
            raise IllegalStateError("the request has failed" if self.exception else "the request is not done yet")
        return self._value

    @property
    def retriable(self) -> bool:
        """Return whether the future has failed with an error that may disappear by itself."""
        return self.exception is not None and self.exception.retriable

    def result(self) -> T:
        """Return the value, or raise the error.

        Raises:
            KafkaError: the future's error.
            IllegalStateError: the future is not done yet.
        """
        if self.exception is not None:
            raise self.exception
        return self.value

    def complete(self, value: T) -> None:
        """Set the value, and run the callbacks.

        Raises:
            IllegalStateError: the future is done already.
        """
        if self._value is not _PENDING or self.exception is not None:
            raise IllegalStateError("a request future is completed once only")
        self._value = value
        if self._callbacks:
            self._fire()

    def fail(self, error: KafkaError) -> None:
        """Set the error, and run the callbacks.

        Raises:
            IllegalStateError: the future is done already.
        """
        if self.done:
            raise IllegalStateError("a request future is completed once only")
        self.exception = error
        self._fire()

    def add_callback(self, callback: Callable[[RequestFuture[T]], object]) -> None:
        """Call ``callback(future)`` when the future is done. If it is done already, call it at once.

        Callbacks run in the order in which they were added.
        """
        if self._value is not _PENDING or self.exception is not None:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def follow_with(self, other: RequestFuture[Any], follow: Callable[[RequestFuture[T]], object]) -> None:
        """Complete ``other`` by ``follow(future)`` once this one is done, also if Ctrl-C ends the first attempt.

        Other callbacks are called once at most, and Ctrl-C in one of them ends it. A future that depends on another one
        must not stay pending for that reason.

        Args:
            other: the future that depends on this one. If it is done, its own callbacks that are left are called.
            follow: completes ``other``.
        """
        self.add_callback(_Follow(other, follow))

    def compose(self, convert: Callable[[T], S]) -> RequestFuture[S]:
        """Return a future of ``convert(value)``. It fails with this future's error, or with an error of ``convert``."""
        composed: RequestFuture[S] = RequestFuture()

        def follow(future: RequestFuture[T]) -> None:
            if future.exception is not None:
                composed.fail(future.exception)
                return
            try:
                value = convert(future._value)
            except KafkaError as error:
                composed.fail(error)
            else:
                composed.complete(value)

        self.follow_with(composed, follow)
        return composed

    def chain(self, other: RequestFuture[T]) -> None:
        """Complete ``other`` with the same result as this future, unless ``other`` is done earlier."""

        def follow(future: RequestFuture[T]) -> None:
            if future.exception is not None:
                other.fail(future.exception)
            else:
                other.complete(future._value)

        self.follow_with(other, follow)

    @property
    def is_finished(self) -> bool:
        """Return whether it is done and no callback is left to run."""
        return self.done and not self._callbacks

    def finish(self) -> None:
        """Run callbacks that were left out because of Ctrl-C. Normally there are none."""
        if self.done:
            self._fire()

    def _fire(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks[0]
                if type(callback) is _Follow:
                    callback(self)
                    if callbacks and callbacks[0] is callback:  # it may have served the network, which ran the others
                        del callbacks[0]
                else:
                    callbacks.pop(0)(self)
            except BaseException as error:
                # Ctrl-C, or a fault in a callback: the rest must still be notified of the result.
                if isinstance(error, Exception) and callbacks and callbacks[0] is callback:
                    del callbacks[0]
                self._fire()
                raise

    def __repr__(self) -> str:
        if self.exception is not None:
            return f"<RequestFuture failed: {self.exception!r}>"
        return "<RequestFuture succeeded>" if self.done else "<RequestFuture pending>"


class _Follow:
    """A callback that completes another future. It may be called twice."""

    __slots__ = ("_follow", "_other")

    def __init__(self, other: RequestFuture[Any], follow: Callable[[RequestFuture[Any]], object]) -> None:
        self._other = other
        self._follow = follow

    def __call__(self, future: RequestFuture[Any]) -> None:
        if self._other.done:
            self._other.finish()
        else:
            self._follow(future)


class Change(Protocol):
    """A change of shared state that another thread announces.

    Attributes:
        in_turn: True if calls wait for something that only one of them can take, such as memory. On an event loop, one
            call then waits for the change. The others wait for their turn, in the order in which they came.
    """

    @property
    def in_turn(self) -> bool: ...

    def wait(self, until: float, now: Callable[[], float]) -> object:
        """Block this thread until the change is announced, or until the time ``until`` (monotonic seconds)."""
        ...

    def on_announced(self, call: Callable[[], object]) -> object:
        """Call a function when the change is announced, in the thread that announces it.

        If it was announced before, call the function now.
        """
        ...


class Wait(NamedTuple):
    """A wait for ``future``, at most until the time ``until`` (monotonic seconds, or inf).

    With None, wait for any event.

    With an ``awaitable``, wait for that alone, however long it takes, because it is the application's code. With a
    ``change``, wait until it is announced, at most until ``until``.
    """

    future: RequestFuture[Any] | None
    until: float
    awaitable: Awaitable[Any] | None = None
    change: Change | None = None


#: Continues at once.
YIELD: Final = Wait(None, -math.inf)


def wait_for_callback(result: object) -> Iterator[Wait]:
    """Yield a wait for the result of a callback, if that result is an awaitable."""
    if isinstance(result, Awaitable):
        yield Wait(None, math.inf, result)


def refuse_awaitable(awaitable: Awaitable[Any]) -> TypeError:
    """Return the error for a callback that is a coroutine function, in a place where it cannot be awaited."""
    name = getattr(awaitable, "__qualname__", type(awaitable).__name__)
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()  # or Python would warn that it was never awaited
    return TypeError(
        f"the callback {name} is a coroutine function, which only pyconsumer.aio.AsyncKafkaConsumer awaits: use that, "
        "or a plain function"
    )


Steps = Generator[Wait, None, T]
"""A blocking call as a generator, which returns a T."""


def drive(
    steps: Steps[T],
    deadline: float,
    poll: Callable[[float, RequestFuture[Any] | None], object],
    now: Callable[[], float],
) -> T:
    """Run a blocking call to its end and return its result.

    Args:
        steps: the generator.
        deadline: monotonic seconds. The first wait at or after the deadline polls once without blocking. The second one
            raises KafkaTimeoutError.
        poll: a function ``poll(until, future)`` that waits for anything except a change. Its errors are thrown into the
            generator.
        now: returns the present time.

    Raises:
        KafkaTimeoutError: the deadline has passed.
        BaseException: any error of the generator or of ``poll``.
    """
    overdue = False
    try:
        wait = next(steps)
        while True:
            future = wait.future
            error: BaseException | None = None
            if wait is YIELD:
                pass
            elif wait.awaitable is not None:
                error = refuse_awaitable(wait.awaitable)
            elif future is None or not future.done:
                late = now() >= deadline
                if late and overdue:
                    error = KafkaTimeoutError("the call did not finish in time")
                else:
                    overdue = late
                    try:
                        if wait.change is None:
                            poll(min(wait.until, deadline), future)
                        else:
                            wait.change.wait(min(wait.until, deadline), now)
                    except BaseException as raised:
                        error = raised
            wait = steps.send(None) if error is None else steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except BaseException:
        # Ctrl-C may have come between two steps. The generator's `finally` blocks run now, and not only when the
        # traceback is dropped, which keeps the generator alive.
        with contextlib.suppress(RuntimeError):  # it wants to wait even so
            steps.close()
        raise


class ResumableCall(Generic[T]):
    """A blocking call that is run step by step, and that never blocks.

    Args:
        steps: the generator.
        deadline: the time at which the call fails with ``KafkaTimeoutError`` (monotonic seconds).
    """

    def __init__(self, steps: Steps[T], deadline: float) -> None:
        self._steps = steps
        self._deadline = deadline
        self._wait: Wait | None = None
        self.done = False
        self.result: T | None = None
        self.error: KafkaError | None = None

    @property
    def due_at(self) -> float:
        """Return the latest time for the next :meth:`advance`."""
        if self.done:
            return math.inf
        return min(self._deadline, self._wait.until if self._wait is not None else -math.inf)

    def advance(self, now: float) -> bool:
        """Run the call as far as possible now. Return whether it is done."""
        looked = False
        while not self.done:
            wait = self._wait
            if now >= self._deadline:
                self._resume(KafkaTimeoutError("the time given has passed"))
                if not self.done:
                    self.close()
                    self.done, self.error = True, KafkaTimeoutError("the time given has passed")
                break
            if wait is not None and now < wait.until:
                if wait.future is not None:
                    if not wait.future.done:
                        break
                elif looked:
                    break  # it waits for anything to happen, and has looked at what has
            elif wait is not None and looked and wait.future is None:
                break
            self._resume(None)
            looked = True
        return self.done

    def _resume(self, error: KafkaError | None) -> None:
        if getattr(self._steps, "gi_frame", self) is None:
            self.done, self.error = True, RequestCancelledError("interrupted")  # Ctrl-C ended it, or hid its end
            return
        try:
            self._wait = self._steps.send(None) if error is None else self._steps.throw(error)
        except StopIteration as stop:
            self.result, self.done = stop.value, True
        except KafkaError as failure:
            self.error, self.done = failure, True

    def close(self) -> None:
        """Abandon the call. The ``finally`` blocks of its generator are run."""
        self._steps.close()
        self.done = True
