"""Error classes of kafka-python and aiokafka: made from a table, or derived from both sides' errors.

A class of two bases is an error of the copied client and one of ours. It has the copied client's name, flags, code and
text of ``str``. It is made once for each pair. Its objects can be pickled and copied. A pickle names the modules
of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyconsumer import errors as ours
from pyconsumer.errors import BrokerResponseError

__all__ = ["Translated", "make_classes", "pair", "text_of"]


class Translated(Exception):
    """Marks a class that derives both from a copied client's error and from an error of pyconsumer.

    This class comes first among the base classes, so it decides the memory layout of the objects.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        theirs, mine = type(self).__bases__[1:]
        return _rebuilt_pair, (theirs, mine, self.args), self.__dict__ or None

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__reduce_ex__(4)


_pairs: dict[tuple[type, type], type[Any]] = {}


def pair(theirs: type, mine: type) -> type[Any]:
    """Return the class that derives from ``theirs`` (the copied client's error) and ``mine`` (pyconsumer's).

    Each call with the same classes returns the same class.
    """
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
    error.__setstate__({"args": args})
    return error


def _rebuilt(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.__setstate__({"args": args})
    return error


def text_of(error: BaseException) -> str:
    """Return the text of an error. The copied client's ``str`` puts name and code before it, and these are left out."""
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
    """Return the error classes of a layer by name. Aliases are included.

    Args:
        table: the rows of the table (see :mod:`pyconsumer.compat.error_table`).
        module: name of the module to which the classes belong.
        special: additional attributes of some classes.
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
