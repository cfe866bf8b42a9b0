"""The distributions that ``importlib.metadata`` finds for the clients whose imports lead to ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution
from pathlib import PurePath
from typing import Final

from pyconsumer import __version__

__all__ = ["CopiedDistribution", "distributions_of"]

_TEXTS: Final = ("METADATA", "PKG-INFO")


class CopiedDistribution(Distribution):
    """A distribution with the name and the version of another client, which requires ours.

    Args:
        name: of the distribution.
        version: whose API the layer has.
        package: its top-level package.
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
        """Return the text of a file of the metadata, None if there is no such file."""
        return self._texts.get(os.fspath(filename))

    def locate_file(self, path: str | os.PathLike[str]) -> PurePath:  # type: ignore[override]
        """Return the path of a file. There are none."""
        return PurePath(path)


def distributions_of(layers: Iterable[tuple[str, str, str]]) -> Iterator[Distribution]:
    """Yield a distribution for each name, version and top-level package."""
    for name, version, package in layers:
        yield CopiedDistribution(name, version, package)
