"""The text of ``pyconsumer --version``."""

from __future__ import annotations

from pyconsumer.protocol.compiled import source_tree
from pyconsumer.protocol.records import describe
from pyconsumer.protocol.records.compression import describe_codecs

__all__ = ["version_text"]


def version_text(version: str) -> str:
    """Return what ``pyconsumer --version`` prints: the version, where the package is from, how records are decoded, and
    which library decompresses each codec.

    Args:
        version: that of the package.
    """
    tree = source_tree()
    where = "" if tree is None else f" (source tree {tree})"
    return "\n".join((f"pyconsumer {version}{where}, record decoder: {describe()}", *describe_codecs()))
