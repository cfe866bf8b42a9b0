"""``install``: the imports of another client lead to our layer, whether that client is installed or not.

Rules

1. One finder, first in ``sys.meta_path``, serves all installed names. ``aiokafka.errors`` is the module object of
   ``pyconsumer.compat.aiokafka.errors`` under a second name in ``sys.modules``. It runs once, under our name.
2. The finder answers for each module below an installed name. A module without counterpart raises
   ``ModuleNotFoundError``. So no module of the original is ever loaded beside ours.
3. ``importlib.metadata`` finds a distribution with the name and the version that the layer copies. An installed one is
   found after it, so it makes no difference.
4. ``install`` refuses if modules of the original have been imported: objects of it would be in use already.
5. ``PYCONSUMER_COMPAT`` names what is installed, so Pythons that the program starts get the same. They read it by
   ``pyconsumer-compat.pth``, which the wheel puts beside the package.
6. This module imports nothing heavy: with the variable set, each Python that starts pays for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.metadata import Distribution, DistributionFinder

__all__ = ["LAYERS", "VARIABLE", "Layer", "install", "install_named", "installed", "names_of", "uninstall"]

#: The environment variable with the names of clients, separated by commas.
VARIABLE: Final = "PYCONSUMER_COMPAT"


@dataclass(frozen=True)
class Layer:
    """A client whose imports can lead to ours.

    Attributes:
        name: of its package.
        distribution: its name at PyPI.
        version: the version whose API our layer has.
    """

    name: str
    distribution: str
    version: str

    @property
    def home(self) -> str:
        """The name of our package."""
        return f"pyconsumer.compat.{self.name}"


#: The layers by the name of the package.
LAYERS: Final = {
    layer.name: layer for layer in (Layer("aiokafka", "aiokafka", "0.14.0"), Layer("kafka", "kafka-python", "3.0.12"))
}
_CLIENTS: Final = " or ".join(repr(name) for name in LAYERS)


def names_of(text: str) -> tuple[str, ...]:
    """Return the clients that a text with commas names.

    Raises:
        ValueError: one is not known, or there is none.
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
    """Let the imports of other clients lead to ours, in this process and in each Python that it starts.

    Call it as the first line of the program. A second call for the same client does nothing.

    Args:
        names: ``"aiokafka"`` or ``"kafka"``, or both.

    Raises:
        ValueError: a name is not one of these.
        ImportError: modules of the original were imported before. The message names the modules that use them.

    Example::

        import pyconsumer.compat

        pyconsumer.compat.install("aiokafka")
        from aiokafka import AIOKafkaConsumer  # ours
    """
    wanted = [name for name in _checked(names) if name not in _FINDER.names]
    for name in wanted:
        _check_not_imported(name)
    for name in wanted:
        _FINDER.names.add(name)
        known = sys.modules.get(LAYERS[name].home)
        if known is not None:
            sys.modules[name] = known
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    importlib.invalidate_caches()
    _write_variable()


def uninstall(*names: str) -> None:
    """Let later imports lead to the originals again. Objects that the program holds stay ours.

    Args:
        names: ``"aiokafka"`` or ``"kafka"``, or both. A client that is not installed is ignored.

    Raises:
        ValueError: a name is not one of these.

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
    importlib.invalidate_caches()
    _write_variable()


def installed() -> frozenset[str]:
    """Return the clients whose imports lead to ours.

    Example::

        assert pyconsumer.compat.installed() == {"aiokafka"}
    """
    return frozenset(_FINDER.names)


def install_named(text: str) -> None:
    """Install the clients of the environment variable, when Python starts. A wrong name ends this Python.

    Args:
        text: the value of the variable.

    A client that is not ours would read the program's topics silently, so there is no other way to go on.
    """
    try:
        install(*names_of(text))
    except ValueError as error:
        sys.stderr.write(f"{VARIABLE}={text}: {error}\n")
        sys.stderr.flush()
        os._exit(2)


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
        module
        for module, found in list(sys.modules.items())
        if _is_below(module, name) and not getattr(found, "__name__", "").startswith("pyconsumer.")
    }
    if not loaded:
        return
    holders = sorted(_holders(name, loaded))
    held = f" These modules use it already: {', '.join(holders)}." if holders else ""
    raise ImportError(
        f"{name} was imported before pyconsumer.compat.install({name!r}).{held} Make the call the first line of the"
        f" program, or start it by `python -m pyconsumer.compat {name}`",
        name=name,
    )


def _holders(name: str, loaded: set[str]) -> Iterator[str]:
    """Yield the other modules that have a module, a class or a function of the original as a global name."""
    for module, found in list(sys.modules.items()):
        if _is_below(module, name) or not isinstance(found, ModuleType):
            continue
        for value in list(vars(found).values()):
            home = value.__name__ if isinstance(value, ModuleType) else _home_of(value)
            if home in loaded:
                yield module
                break


def _home_of(value: Any) -> str:
    if isinstance(value, type) or callable(value):
        home = getattr(value, "__module__", "")
        return home if isinstance(home, str) else ""
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
        module.__spec__ = self._spec  # the import system has replaced it
        _run_import_hooks(module, alias)

    def is_package(self, name: str) -> bool:
        spec = importlib.util.find_spec(self._home)
        return spec is not None and spec.submodule_search_locations is not None

    def get_code(self, name: str) -> Any:
        """Return the code of our module, for ``runpy``."""
        find = getattr(self._loader, "get_code", None)
        return None if find is None else find(self._home)

    def get_source(self, name: str) -> str | None:
        """Return the source of our module, for ``inspect``."""
        find = getattr(self._loader, "get_source", None)
        source: str | None = None if find is None else find(self._home)
        return source

    @property
    def _loader(self) -> Any:
        spec = importlib.util.find_spec(self._home)
        return None if spec is None else spec.loader


def _run_import_hooks(module: ModuleType, alias: str) -> None:
    """Run the hooks that wrapt has for the other name: it looks them up by ``module.__name__``, which is ours."""
    wrapt: Any = sys.modules.get("wrapt")
    if wrapt is None or not hasattr(wrapt, "notify_module_loaded"):
        return

    class Named(wrapt.ObjectProxy):  # type: ignore[misc]
        """The module with its other name."""

        __name__ = alias

    wrapt.notify_module_loaded(Named(module))


class _Finder(MetaPathFinder):
    """Finds the modules and the distributions of the installed names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of an installed name, None for other modules.

        Raises:
            ModuleNotFoundError: our layer has no such module.
        """
        top = fullname.partition(".")[0]
        if top not in self.names:
            return None
        home = f"pyconsumer.compat.{fullname}"
        try:
            ours = importlib.util.find_spec(home)
        except ModuleNotFoundError:
            ours = None
        if ours is None:
            raise ModuleNotFoundError(
                f"{fullname} has no counterpart in pyconsumer.compat. The table in docs/porting.md names the modules of"
                f" {LAYERS[top].distribution} that are not there, and their replacements",
                name=fullname,
            )
        folders = ours.submodule_search_locations
        spec = ModuleSpec(fullname, _Alias(home), origin=ours.origin, is_package=folders is not None)
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.extend(folders or ())
        return spec

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Return the distributions of the installed names, for ``importlib.metadata``."""
        from pyconsumer.compat.metadata import distributions_of

        wanted = None if context is None or context.name is None else _normalized(context.name)
        layers = [LAYERS[name] for name in sorted(self.names)]
        return distributions_of(
            (layer.distribution, layer.version, layer.name)
            for layer in layers
            if wanted is None or wanted == _normalized(layer.distribution)
        )


def _normalized(name: str) -> str:
    """Return a distribution's name in the form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


_FINDER: Final = _Finder()
