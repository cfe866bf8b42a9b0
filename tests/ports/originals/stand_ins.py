"""Modules of an original that have no counterpart, so that its tests can be imported. Each use of a name fails."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["provide"]


class _Refusal(type):
    """The class of the names: reading an attribute of one, or calling it, fails."""

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(f"{cls.__module__}.{cls.__name__} was internal to the original")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AttributeError(f"{cls.__module__}.{cls.__name__} was internal to the original")


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Refusal(name, (), {"__module__": self.__name__})


def provide(*names: str) -> list[Any]:
    """Let these modules be imported, and return them."""
    made: list[Any] = []
    for name in names:
        parent, _, last = name.rpartition(".")
        if parent not in sys.modules:
            provide(parent)
        module = _StandIn(name)
        module.__path__ = []
        sys.modules[name] = module
        setattr(sys.modules[parent], last, module)
        made.append(module)
    return made
