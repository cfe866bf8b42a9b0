"""The text of ``pyconsumer --version``."""

from __future__ import annotations

from pyconsumer.protocol.compiled import source_tree
from pyconsumer.protocol.records import describe
from pyconsumer.protocol.records.compression import describe_codecs

__all__ = ["version_text"]


def version_text(version: str) -> str:
    """Return the text of ``pyconsumer --version``.

    It has the version, the place of the package, the decoder of records, and the library for each codec.

    Args:
        version: the version of the package.
    """
    tree = source_tree()
    where = "" if tree is None else f" (source tree {tree})"
    return "\n".join((f"pyconsumer {version}{where}, record decoder: {describe()}", *describe_codecs()))
