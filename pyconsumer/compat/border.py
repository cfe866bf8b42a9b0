"""The border of a layer: what our clients raise gets the class that the copied client raises.

Rules

1. An error that crosses has a class of two bases: the copied client's, then ours. So ``except aiokafka.errors.X`` and
   ``except pyconsumer.errors.Y`` both catch it. Such a class is made once for each pair. It has the copied client's
   name, flags, code and text of ``str``.
2. The class of the object itself is changed, so its traceback, its notes and its attributes stay.
3. An exception of the program's own serializer or deserializer crosses as it is, and ours is a note of it.
4. Where the copied client's class is no ``KafkaError``, that of the layer does not catch the error.
5. Nothing is called for a call that succeeds. A class is guarded by one line, ``@border.guard``: each of its public
   methods, coroutines and properties, the inherited ones included. A method that is marked by :func:`crosses` does it
   by itself, without the frame of a wrapper.
6. Errors that crossed can be pickled and copied. A pickle names the modules of this package.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

from pyconsumer import errors as ours
from pyconsumer.errors import BrokerResponseError, InvalidOffsetError, KafkaError, SerializationError

__all__ = ["Border", "Translated", "crosses", "make_classes", "pair", "text_of"]

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
Theirs = type[BaseException]

#: The special methods of clients that may raise.
_SPECIAL: Final = frozenset(
    ("__init__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__next__", "__aiter__", "__anext__")
)


#: Bases that stand for an error only if no other class does.
_MIXINS: Final = (ours.InvalidMetadataError, ours.RetriableError, ours.KafkaError)


class Translated(Exception):
    """The mark of a class that was made from two. It is the first base, so it decides the layout of the objects."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        theirs, mine = type(self).__bases__[1:]
        return _rebuilt_pair, (theirs, mine, self.args), self.__dict__ or None

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__reduce_ex__(4)


_pairs: dict[tuple[type, type], type[Any]] = {}


def pair(theirs: type, mine: type) -> type[Any]:
    """Return the class that is both an error of a copied client and one of ours. It is the same at each call."""
    made = _pairs.get((theirs, mine))
    if made is None:
        made = type(theirs.__name__, (Translated, theirs, mine), {"__doc__": mine.__doc__})
        made.__module__, made.__qualname__ = theirs.__module__, theirs.__qualname__
        if issubclass(mine, BrokerResponseError):
            # Ours sets `message` of every class. A code that the copied client does not know stays.
            kept = mine if getattr(theirs, "errno", None) == -1 else theirs
            for name in ("errno", "message"):
                if hasattr(kept, name):
                    setattr(made, name, getattr(kept, name))
        made = _pairs.setdefault((theirs, mine), made)
    return made


def _rebuilt_pair(theirs: type, mine: type, args: tuple[Any, ...]) -> Any:
    made = pair(theirs, mine)
    error = mine.__new__(made, *args)
    error.args = args
    return error


def _rebuilt(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


def text_of(error: BaseException) -> str:
    """Return the text of an error without the name and code that the copied client's ``str`` puts before it."""
    kept = error.__dict__.get("text")
    if kept is not None:
        return str(kept)
    if isinstance(error, Translated):
        if isinstance(error, BrokerResponseError):
            return Exception.__str__(error) or " ".join((error.__doc__ or "").split())
        mine: Any = type(error).__bases__[2]
        return str(mine.__str__(error))
    return Exception.__str__(error)


# -- the classes of a layer ------------------------------------------------------------------------------------------


def _shown(self: BaseException) -> str:
    """As both copied clients show an error: its class, then its text."""
    name = type(self).__name__
    text = text_of(self)
    return f"{name}: {text}" if text or self.args else name


def _shown_with_code(self: Any) -> str:
    return f"[Error {getattr(self, 'errno', None)}] {_shown(self)}"


def _reduced(self: BaseException) -> tuple[Any, ...]:
    """Pickle without ``__init__``, whose arguments need not be those of the error."""
    return _rebuilt, (type(self), self.args), self.__dict__ or None


def make_classes(table: str, module: str, special: Mapping[str, Mapping[str, Any]]) -> dict[str, type[Any]]:
    """Return the error classes of a layer by name, other names included.

    Args:
        table: the rows: see :mod:`pyconsumer.compat.error_table`.
        module: the name of the module that the classes belong to.
        special: further attributes of some classes.
    """
    found: dict[str, type[Any]] = {}
    builtin = {"Exception": Exception, "RuntimeError": RuntimeError}
    for row in table.strip().splitlines():
        name, bases, *rest = row.split()
        if bases == "=":
            found[name] = found[rest[0]]
            continue
        errno, message, flags = rest
        space: dict[str, Any] = {"__module__": module, "__qualname__": name}
        if errno != "-":
            space["errno"] = int(errno)
            mine = ours.BY_CODE.get(int(errno))
            space["description"] = " ".join(((mine and mine.__doc__) or "No error.").split())
            space["__doc__"] = space["description"]
        if message != "-":
            space["message"] = message
        if name == "KafkaError":
            space |= {"retriable": False, "invalid_metadata": False, "__str__": _shown, "__reduce__": _reduced}
        elif name == "BrokerResponseError":
            space["__str__"] = _shown_with_code
        for flag in flags.split(","):
            if flag != "-":
                space[{"retriable": "retriable", "refresh": "invalid_metadata"}[flag]] = True
        space |= special.get(name, {})
        found[name] = type(name, tuple(builtin.get(base) or found[base] for base in bases.split(",")), space)
    return found


# -- the border ------------------------------------------------------------------------------------------------------


def crosses(function: F) -> F:
    """Mark a method that hands its errors to :meth:`Border.crossed` by itself, so that it gets no wrapper."""
    function.crosses_by_itself = True  # type: ignore[attr-defined]
    return function


class Border:
    """The translation of errors for one layer, or for one client of it.

    Args:
        classes: the layer's error classes by name.
        of: the name of their class for the name of ours: see :mod:`pyconsumer.compat.error_table`.
        by_code: the layer's classes by error code.
        rule: the name of their class for an error, or None. It is asked first.
        partitions: the first argument of an error that names partitions.
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
        """Return the border of a client that has a rule of its own."""
        return Border(self._classes, self._of, self._by_code, partitions=self._partitions, rule=rule)

    def kind(self, error: KafkaError | type[KafkaError]) -> type[Any]:
        """Return the layer's class for an error of ours, or for a class."""
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
        """Return what the program gets for an error: the same object with a class of two bases, as a rule.

        An error that is not ours, and one that has crossed before, is returned as it is.
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
            error.args = (self._partitions(error),)
        error.__class__ = pair(theirs, type(error))
        return error

    # -- methods -----------------------------------------------------------------------------------------------------

    def guard(self, cls: C) -> C:
        """Class decorator: translate what the public methods, coroutines and properties of a class raise."""
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
        """Return a function or coroutine function that translates what the given one raises."""
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
        """Wait for something, and translate what it raises."""
        try:
            return await awaitable
        except Exception as error:
            other = self.crossed(error)
            if other is error:
                raise
        raise other

    def callback(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callback to which errors among its arguments come translated."""
        crossed = self.crossed

        @functools.wraps(function, updated=())
        def translated(*args: Any, **kwargs: Any) -> Any:
            return function(*[crossed(arg) if isinstance(arg, Exception) else arg for arg in args], **kwargs)

        return translated

    def context(self, manager: Any) -> GuardedContext:
        """Return a context manager, plain or asynchronous, that translates what the given one raises."""
        return GuardedContext(self, manager)


class GuardedContext:
    """A context manager whose begin and end translate errors. An error of the block itself passes as it is."""

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
