"""The result of a request that may not have come yet.

A :class:`RequestFuture` belongs to one thread. It is completed, and its callbacks run, inside the ``poll`` of the
client that made it, so there is no lock and no waiting here; who waits is in :mod:`pyconsumer.network.waiting`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyconsumer.errors import IllegalStateError, KafkaError

__all__ = ["RequestFuture"]

T = TypeVar("T")
S = TypeVar("S")

_PENDING: Any = object()


class RequestFuture(Generic[T]):
    """A value, or an error, that comes later. It is completed exactly once."""

    __slots__ = ("_callbacks", "_exception", "_value")

    def __init__(self) -> None:
        self._value: T = _PENDING
        self._exception: KafkaError | None = None
        self._callbacks: list[Callable[[RequestFuture[T]], object]] | None = None

    @classmethod
    def of(cls, value: T) -> RequestFuture[T]:
        """A future that has succeeded already."""
        future: RequestFuture[T] = cls()
        future._value = value
        return future

    @classmethod
    def failure(cls, error: KafkaError) -> RequestFuture[T]:
        """A future that has failed already."""
        future: RequestFuture[T] = cls()
        future._exception = error
        return future

    @property
    def done(self) -> bool:
        """Whether it has succeeded or failed."""
        return self._value is not _PENDING or self._exception is not None

    @property
    def succeeded(self) -> bool:
        """Whether there is a value."""
        return self._value is not _PENDING

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return self._exception is not None

    @property
    def value(self) -> T:
        """The value.

        Raises:
            IllegalStateError: there is none, because it is not done or has failed.
        """
        if self._value is _PENDING:
            raise IllegalStateError("the request has failed" if self._exception else "the request is not done yet")
        return self._value

    @property
    def exception(self) -> KafkaError | None:
        """The error; None while there is none."""
        return self._exception

    @property
    def retriable(self) -> bool:
        """Whether it has failed with an error that may pass by itself."""
        return self._exception is not None and self._exception.retriable

    def result(self) -> T:
        """The value, or raise the error.

        Raises:
            KafkaError: what it failed with.
            IllegalStateError: it is not done yet.
        """
        if self._exception is not None:
            raise self._exception
        return self.value

    def complete(self, value: T) -> None:
        """Succeed, and run the callbacks.

        Raises:
            IllegalStateError: it is done already.
        """
        if self.done:
            raise IllegalStateError("a request future is completed once only")
        self._value = value
        self._fire()

    def fail(self, error: KafkaError) -> None:
        """Fail, and run the callbacks.

        Raises:
            IllegalStateError: it is done already.
        """
        if self.done:
            raise IllegalStateError("a request future is completed once only")
        self._exception = error
        self._fire()

    def add_callback(self, callback: Callable[[RequestFuture[T]], object]) -> None:
        """Call ``callback(future)`` once it is done: at once if it is done already, in order otherwise."""
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def compose(self, convert: Callable[[T], S]) -> RequestFuture[S]:
        """A future of ``convert(value)``. It fails with the same error, or with the KafkaError that convert raises."""
        composed: RequestFuture[S] = RequestFuture()

        def follow(future: RequestFuture[T]) -> None:
            if composed.done:
                return
            if future._exception is not None:
                composed.fail(future._exception)
                return
            try:
                value = convert(future._value)
            except KafkaError as error:
                composed.fail(error)
            else:
                composed.complete(value)

        self.add_callback(follow)
        return composed

    def chain(self, other: RequestFuture[T]) -> None:
        """Complete ``other`` in the same way as this one, unless it is done before."""

        def follow(future: RequestFuture[T]) -> None:
            if other.done:
                return
            if future._exception is not None:
                other.fail(future._exception)
            else:
                other.complete(future._value)

        self.add_callback(follow)

    def finish(self) -> None:
        """Run the callbacks that Ctrl-C kept from running when it was completed; there are none as a rule."""
        if self.done:
            self._fire()

    def _fire(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                callbacks.pop(0)(self)
            except BaseException:
                # Ctrl-C, or a fault in a callback: the rest must still hear of the result.
                self._fire()
                raise

    def __repr__(self) -> str:
        if self._exception is not None:
            return f"<RequestFuture failed: {self._exception!r}>"
        return "<RequestFuture succeeded>" if self.done else "<RequestFuture pending>"
