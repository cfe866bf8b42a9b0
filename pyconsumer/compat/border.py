"""Translation of pyconsumer's errors into those of the copied client.

Rules

1. An error that crosses has a class of two bases: the copied client's, then ours. So ``except aiokafka.errors.X`` and
   ``except pyconsumer.errors.Y`` both catch it. :mod:`pyconsumer.compat.error_classes` makes these classes.
2. The class of the object itself is changed, so its traceback, its notes and its attributes stay.
3. An exception of the program's own serializer or deserializer crosses as it is, and ours is a note of it.
4. Where the copied client's class is no ``KafkaError``, that of the layer does not catch the error.
5. A call that succeeds only passes a ``try``. A class is guarded by one line, ``@border.guard``: each of its public
   methods, coroutines and properties, the inherited ones included. A method that is marked by :func:`crosses` does it
   by itself, without the frame of a wrapper.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

from pyconsumer import errors as ours
from pyconsumer.compat.error_classes import Translated, pair
from pyconsumer.errors import BrokerResponseError, InvalidOffsetError, KafkaError, SerializationError

__all__ = ["Border", "GuardedContext", "crosses"]

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

#: The special methods of clients that may raise.
_SPECIAL: Final = frozenset(
    ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__next__", "__aiter__", "__anext__")
)
#: Bases that stand for an error only if no other class does.
_MIXINS: Final = (ours.InvalidMetadataError, ours.RetriableError, ours.KafkaError)


def crosses(function: F) -> F:
    """Mark a method that calls :meth:`Border.crossed` for its errors itself. It is then not wrapped."""
    vars(function)["crosses_by_itself"] = True
    return function


class Border:
    """Translates errors for one layer (the copy of another client's API), or for one client of the layer.

    Args:
        classes: the layer's error classes by name.
        of: the name of the layer's class, by the name of pyconsumer's class (see :mod:`pyconsumer.compat.error_table`).
        by_code: the layer's error classes by error code.
        rule: a function of an error that returns the name of the layer's class, or None. It is tried first.
        partitions: for an error class about partitions, the first argument of the error.
    """

    def __init__(
        self,
        classes: Mapping[str, type[Any]],
        of: Mapping[str, str],
        by_code: Mapping[Any, type[Any]],
        *,
        partitions: Callable[[InvalidOffsetError], Any],
        rule: Callable[[KafkaError], str | None],
    ) -> None:
        self._classes = classes
        self._of = of
        self._by_code = by_code
        self._partitions = partitions
        self._rule = rule

    def ruled(self, rule: Callable[[KafkaError], str | None]) -> Border:
        """Return the border of a client that has its own ``rule``."""
        return Border(self._classes, self._of, self._by_code, partitions=self._partitions, rule=rule)

    def kind(self, error: KafkaError | type[KafkaError]) -> type[Any]:
        """Return the layer's class for an error of pyconsumer, or for its class."""
        if isinstance(error, type):
            mine: type[Any] = error
        else:
            mine = type(error)
            name = self._rule(error)
            if name is not None:
                return self._classes[name]
        if issubclass(mine, Translated):
            return mine.__bases__[1]
        for cls in mine.__mro__:
            if cls.__module__ != ours.__name__:
                continue
            name = self._of.get(cls.__name__)
            if name is not None and cls not in _MIXINS:
                return self._classes[name]
            if cls is BrokerResponseError:
                return self._classes["BrokerResponseError"]
            if issubclass(cls, BrokerResponseError):
                return self._by_code.get(cls.errno, self._classes["UnknownError"])
        for base in _MIXINS:
            if issubclass(mine, base) and base.__name__ in self._of:
                return self._classes[self._of[base.__name__]]
        return self._classes["KafkaError"]

    def crossed(self, error: Exception) -> Exception:
        """Return the error for the program.

        As a rule it is the same object, with a class that derives from both error classes.

        Errors that are not pyconsumer's, or that were translated before, are returned unchanged.
        """
        if not isinstance(error, KafkaError) or isinstance(error, Translated):
            return error
        if isinstance(error, SerializationError):
            cause = error.__cause__
            if isinstance(cause, Exception):
                note = f"pyconsumer: {error}"
                if note not in getattr(cause, "__notes__", ()):
                    cause.add_note(note)
                return cause
            error.__class__ = pair(TypeError, type(error))
            return error
        theirs = self.kind(error)
        if isinstance(error, InvalidOffsetError):  # both copied clients give the partitions as an argument
            error.__dict__["text"] = str(error)
            error.__setstate__({"args": (self._partitions(error),)})
        error.__class__ = pair(theirs, type(error))
        return error

    # -- methods -----------------------------------------------------------------------------------------------------

    def guard(self, cls: C) -> C:
        """Return a class decorator. It translates the errors of public methods, coroutines and properties."""
        for name in dir(cls):
            if name.startswith("_") and name not in _SPECIAL:
                continue
            found = inspect.getattr_static(cls, name)
            if isinstance(found, property) and found.fget is not None:
                setattr(cls, name, property(self.guarded(found.fget), found.fset, found.fdel, found.__doc__))
            elif inspect.isfunction(found) and not hasattr(found, "crosses_by_itself"):
                setattr(cls, name, crosses(self.guarded(found)))
        return cls

    def guarded(self, function: F) -> F:
        """Return a function or coroutine function that translates the errors of ``function``."""
        crossed = self.crossed
        guarded: Any
        if inspect.iscoroutinefunction(function):

            async def guarded(*args: Any, **kwargs: Any) -> Any:
                try:
                    return await function(*args, **kwargs)
                except Exception as error:
                    other = crossed(error)
                    if other is error:
                        raise
                raise other

        elif function.__name__ == "__next__":

            def guarded(self: Any) -> Any:
                try:
                    return function(self)
                except Exception as error:
                    other = crossed(error)
                    if other is error:
                        raise
                raise other

        else:

            def guarded(*args: Any, **kwargs: Any) -> Any:
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    other = crossed(error)
                    if other is error:
                        raise
                raise other

        wrapped: Any = functools.wraps(function)(guarded)
        return wrapped  # type: ignore[no-any-return]

    # -- futures, callbacks and contexts -----------------------------------------------------------------------------

    async def awaited(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for an awaitable. If it fails, translate the error."""
        try:
            return await awaitable
        except Exception as error:
            other = self.crossed(error)
            if other is error:
                raise
        raise other

    def callback(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callback. Errors among its arguments are translated before ``function`` gets them."""
        crossed = self.crossed

        @functools.wraps(function, updated=())
        def translated(*args: Any, **kwargs: Any) -> Any:
            return function(*[crossed(arg) if isinstance(arg, Exception) else arg for arg in args], **kwargs)

        return translated

    def context(self, manager: Any) -> GuardedContext:
        """Return a context manager, ordinary or asynchronous, that translates the errors of ``manager``."""
        return GuardedContext(self, manager)


class GuardedContext:
    """Translates the errors of a context manager's entry and exit. Errors of the block itself are not translated."""

    def __init__(self, border: Border, manager: Any) -> None:
        self._border = border
        self._manager = manager

    def __enter__(self) -> Any:
        return self._border.guarded(type(self._manager).__enter__)(self._manager)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return self._border.guarded(type(self._manager).__exit__)(self._manager, kind, error, trace)

    async def __aenter__(self) -> Any:
        return await self._border.awaited(self._manager.__aenter__())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return await self._border.awaited(self._manager.__aexit__(kind, error, trace))
