"""``install``: redirects the imports of another client to pyconsumer.

Rules

1. One finder, first in ``sys.meta_path``, serves all installed names. ``aiokafka.errors`` is the module object of
   ``pyconsumer.compat.aiokafka.errors`` under a second name in ``sys.modules``. It runs once, under our name, and gets
   its second name when it is imported by either.
2. Modules below an installed name are looked for in our package alone, so none of the original is loaded beside ours.
   One that has no counterpart is an ``ImportError``, which names its row in ``docs/porting.md``.
3. ``importlib.metadata`` finds a distribution with the name and the version that the layer copies. An installed one is
   found after it, so it makes no difference.
4. ``install`` refuses if modules of the original have been imported: objects of it would be in use already.
5. ``PYCONSUMER_COMPAT`` names what is installed, so Pythons that the program starts get the same. They read it by
   ``pyconsumer-compat.pth``, which the wheel puts beside the package.
6. This module imports nothing heavy: with the variable set, each Python that starts pays for it.
7. Hooks that wrapt has for the original's names run when ours are imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Container, Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyconsumer.compat.layers import COMPAT, LAYERS

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
    from importlib.metadata import Distribution, DistributionFinder
else:  # importlib.abc imports inspect, and the import system needs the methods alone
    Loader = MetaPathFinder = object

__all__ = ["VARIABLE", "install", "installed", "names_of", "uninstall"]

#: The environment variable with the names of clients, separated by commas.
VARIABLE: Final = "PYCONSUMER_COMPAT"
_MOST_SHOWN: Final = 20  #: modules in a message
_CLIENTS: Final = " or ".join(repr(name) for name in LAYERS)


def names_of(text: str) -> tuple[str, ...]:
    """Return the clients in a text, in which they are separated by commas.

    Raises:
        ValueError: a name is unknown, or the text is empty.
    """
    return _checked(name.strip() for name in text.split(",") if name.strip())


def _checked(names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(names))
    for name in found:
        if name not in LAYERS:
            raise ValueError(f"pyconsumer has no layer for {name!r}, only for {_CLIENTS}")
    if not found:
        raise ValueError(f"no client is named: give {_CLIENTS}, or both")
    return found


def install(*names: str) -> None:
    """Redirect the imports of other clients to pyconsumer, in this process and in each Python that it starts.

    Call it in the first line of the program. A second call for the same client has no effect.

    Args:
        names: ``"aiokafka"`` or ``"kafka"``, or both.

    Raises:
        ValueError: a name is not ``"aiokafka"`` or ``"kafka"``.
        ImportError: modules of the original client were imported before. The message names the modules that use them.

    Example::

        import pyconsumer.compat

        pyconsumer.compat.install("aiokafka")
        from aiokafka import AIOKafkaConsumer  # ours
    """
    wanted = [name for name in _checked(names) if name not in _FINDER.names]
    for name in wanted:
        _check_not_imported(name)
    _FINDER.names.update(wanted)
    for name in wanted:
        for module in [each for each in sys.modules if _is_below(each, LAYERS[name].home)]:
            _add_name(sys.modules[module], module.removeprefix(COMPAT))
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    _forget_distributions()
    _write_variable()


def uninstall(*names: str) -> None:
    """Stop redirecting imports: later imports get the original clients again.

    Modules and objects that the program already has are not changed.

    Args:
        names: ``"aiokafka"`` or ``"kafka"``, or both. If a client is not installed, it is ignored.

    Raises:
        ValueError: a name is not ``"aiokafka"`` or ``"kafka"``.

    Example::

        pyconsumer.compat.uninstall("aiokafka")
    """
    for name in _checked(names):
        if name not in _FINDER.names:
            continue
        _FINDER.names.discard(name)
        for module in [each for each in sys.modules if _is_below(each, name)]:
            del sys.modules[module]
    if not _FINDER.names and _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    _forget_distributions()
    _write_variable()


def installed() -> frozenset[str]:
    """Return the clients whose imports are redirected to pyconsumer.

    Example::

        assert pyconsumer.compat.installed() == {"aiokafka"}
    """
    return frozenset(_FINDER.names)


def _forget_distributions() -> None:
    """Let ``importlib.metadata`` look again, if it has looked. Since Python 3.12 the call itself would import it."""
    if "importlib.metadata" in sys.modules:
        importlib.invalidate_caches()


def _write_variable() -> None:
    if _FINDER.names:
        os.environ[VARIABLE] = ",".join(sorted(_FINDER.names))
    else:
        os.environ.pop(VARIABLE, None)


def _is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _check_not_imported(name: str) -> None:
    """Raise if modules of the original are loaded."""
    loaded = {
        module: found
        for module, found in list(sys.modules.items())
        if _is_below(module, name) and isinstance(found, ModuleType) and not found.__name__.startswith("pyconsumer.")
    }
    if not loaded:
        return
    holders = sorted(module for module, found in list(sys.modules.items()) if _holds(module, found, loaded))
    shown = [*holders[:_MOST_SHOWN], *([f"{len(holders) - _MOST_SHOWN} more"] if len(holders) > _MOST_SHOWN else [])]
    held = f" These modules hold something of it: {', '.join(shown)}." if holders else ""
    raise ImportError(
        f"{name} was imported before pyconsumer.compat.install({name!r}).{held} Make the call the first line of the"
        f" program, or start it by `python -m pyconsumer.compat {name}`",
        name=name,
    )


def _holds(module: str, found: Any, loaded: Container[str]) -> bool:
    """Return whether a global name of a module is a module, class, function or object of the original."""
    if module in loaded or not isinstance(found, ModuleType):
        return False
    return any(_home_of(value) in loaded for value in list(vars(found).values()))


def _home_of(value: Any) -> str:
    try:
        if isinstance(value, ModuleType):
            return value.__name__
        home = getattr(value, "__module__", "")
        return home if isinstance(home, str) else ""
    except Exception:  # a proxy that has no object yet
        return ""


class _Alias(Loader):
    """Gives a module of ours as that of another name."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._home)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__spec__.name if module.__spec__ is not None else self._home
        module.__spec__ = self._spec  # the import system has replaced it, and importlib.reload needs ours
        _add_name(module, alias)

    def get_code(self, name: str) -> Any:
        """Return the code of our module, for ``python -m``."""
        loader: Any = getattr(importlib.util.find_spec(self._home), "loader", None)
        return loader.get_code(self._home)


class _Named(SourceFileLoader):
    """Loads a module of ours, and gives it the other name, too: ``from aiokafka import errors`` imports it by ours."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _add_name(module, module.__name__.removeprefix(COMPAT))


class _Missing(Loader):
    """Refuses a module of an original that has no counterpart, when it is imported."""

    def __init__(self, module: str, row: str, instead: str) -> None:
        self._module = module
        self._row = row
        self._instead = instead

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.get_code(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Never called."""

    def get_code(self, name: str) -> NoReturn:
        """Refuse it, for ``python -m``, too."""
        raise ImportError(
            f"{self._module} has no counterpart in pyconsumer.compat. See `{self._row}` in the table of modules in"
            f" docs/porting.md: {self._instead}",
            name=self._module,
        )


def _add_name(module: ModuleType, alias: str) -> None:
    """Let another name lead to a module of ours, and run the hooks that wrapt has for that name.

    It looks the hooks up by ``module.__name__``, which is ours.
    """
    sys.modules[alias] = module
    notify: Any = getattr(sys.modules.get("wrapt"), "notify_module_loaded", None)
    if notify is None:
        return
    own = module.__name__
    module.__name__ = alias
    try:
        notify(module)
    finally:
        module.__name__ = own


def _missing_spec(fullname: str, original: str) -> ModuleSpec | None:
    from pyconsumer.compat.missing import row_of

    row = row_of(original)
    return None if row is None else ModuleSpec(fullname, _Missing(original, *row))


class _Finder(MetaPathFinder):
    """Finds the modules and the distributions of the installed names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of an installed name, None for other modules."""
        if fullname.startswith(COMPAT):
            return self._spec_of_ours(fullname, path)
        if fullname.partition(".")[0] not in self.names:
            return None
        home = f"{COMPAT}{fullname}"
        ours = importlib.util.find_spec(home)
        if ours is not None:
            folders = ours.submodule_search_locations
            spec = ModuleSpec(fullname, _Alias(home), origin=ours.origin, is_package=folders is not None)
            if spec.submodule_search_locations is not None:
                spec.submodule_search_locations.extend(folders or ())
            return spec

        # Neither has a module without row. The folder of our package is the only one that other finders look into.
        return _missing_spec(fullname, fullname)

    def _spec_of_ours(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        alias = fullname.removeprefix(COMPAT)
        if alias.partition(".")[0] not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None:
            return _missing_spec(fullname, alias)
        if type(spec.loader) is not SourceFileLoader:
            return spec
        return importlib.util.spec_from_file_location(
            fullname,
            spec.loader.path,
            loader=_Named(fullname, spec.loader.path),
            submodule_search_locations=spec.submodule_search_locations,
        )

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Return the distributions of the installed names, for ``importlib.metadata``."""
        from pyconsumer.compat.metadata import distributions_of

        return distributions_of([LAYERS[name] for name in sorted(self.names)], context)


_FINDER: Final = _Finder()
