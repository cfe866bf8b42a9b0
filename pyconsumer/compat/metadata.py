"""The distribution that ``importlib.metadata`` finds for a copied client."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, DistributionFinder
from pathlib import PurePath
from typing import Final

from pyconsumer import __version__
from pyconsumer.compat.layers import Layer

__all__ = ["CopiedDistribution", "distributions_of"]

_TEXTS: Final = ("METADATA", "PKG-INFO")


class CopiedDistribution(Distribution):
    """A distribution that has the name and version of another client and requires pyconsumer.

    Args:
        name: name of the distribution.
        version: the version of the client whose API pyconsumer has.
        package: the client's top-level package.
    """

    def __init__(self, name: str, version: str, package: str) -> None:
        self._texts = {
            "top_level.txt": f"{package}\n",
            "INSTALLER": "pyconsumer\n",
            **dict.fromkeys(
                _TEXTS,
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                f"Summary: The API of {name} {version} by pyconsumer.compat.{package}\n"
                f"Requires-Dist: pyconsumer (=={__version__})\n",
            ),
        }

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """Return the text of a metadata file, or None if there is no such file."""
        return self._texts.get(os.fspath(filename))

    def locate_file(self, path: str | os.PathLike[str]) -> PurePath:  # type: ignore[override]
        """Return the path of a file. The distribution has no files."""
        return PurePath(path)


def distributions_of(layers: Iterable[Layer], context: DistributionFinder.Context | None) -> Iterator[Distribution]:
    """Yield those distributions of redirected clients that a search asks for.

    Args:
        layers: the clients whose imports are redirected.
        context: the search. It may be for a name. A search in specific folders, such as pip's, finds none of these
            distributions.
    """
    if context is not None and "path" in vars(context):
        return
    wanted = None if context is None or context.name is None else _normalized(context.name)
    for layer in layers:
        if wanted is None or wanted == layer.distribution:
            yield CopiedDistribution(layer.distribution, layer.version, layer.name)


def _normalized(name: str) -> str:
    """Return a distribution's name in the form of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
