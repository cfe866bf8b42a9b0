"""Import of a package's public names at their first use, so that importing the package is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(names: dict[str, Any], homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package (PEP 562).

    Args:
        names: the ``globals()`` of the package, which must have ``__all__``. Imported names are stored there.
        homes: for each lazy name, the module that defines it. Or the name of a module that is itself the value.
    """
    package = names["__name__"]

    def import_name(name: str) -> Any:
        import importlib

        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(home)
        value = names[name] = module if home == f"{package}.{name}" else getattr(module, name)
        return value

    return import_name, lambda: sorted({*names, *names["__all__"]})
