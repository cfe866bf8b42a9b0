"""Docstrings and comments of the sources in Cython and C, which ``ast`` cannot read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Prose", "compiled", "prose_of_c", "prose_of_cython"]

ROOT = Path(__file__).parents[2]

#: The tokens of Cython that matter here. A ``head`` is the start of a statement that declares
#: something, up to its arguments: whatever stands in front of a docstring is one. Other strings are matched so that
#: nothing in them is taken for a comment.
_CYTHON = re.compile(
    r'"""(?P<block>.*?)"""'
    r"|#:?(?P<comment>[^\n]*(?:\n *#[^\n]*)*)"
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    r"|^ *(?:c?p?def|class)\b(?P<head>[^\n(\"'#]*)",
    re.DOTALL | re.MULTILINE,
)
_C = re.compile(r"""/\*(?P<comment>.*?)\*/|//(?P<line>[^\n]*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


class Prose(NamedTuple):
    """A docstring or a comment, and its place, such as ``columns.pxi`` or ``columns.pxi:build``."""

    place: str
    text: str
    is_docstring: bool = False


def compiled() -> Iterator[Prose]:
    """Yield the docstrings and comments of our Cython and C sources."""
    paths = (path for folder in (ROOT / "pyconsumer").rglob("native") for path in folder.iterdir())
    for path in sorted(paths):
        place = path.relative_to(ROOT).as_posix()
        if path.suffix in {".pyx", ".pxi"}:
            yield from prose_of_cython(place, path.read_text(encoding="utf-8"))
        elif path.suffix in {".c", ".h"}:
            yield from prose_of_c(place, path.read_text(encoding="utf-8"))


def prose_of_cython(place: str, text: str) -> Iterator[Prose]:
    """Yield docstrings, at a place such as ``columns.pxi:build``, and comments, also those of embedded C."""
    head: list[str] = []
    for token in _CYTHON.finditer(text):
        if token["head"] is not None:
            head = re.findall(r"\w+", token["head"])
        elif token["comment"] is not None:
            yield Prose(place, re.sub(r"\n *#:? *", " ", token["comment"]).strip())
        elif token["block"] is not None and head[:1] == ["extern"]:
            yield from prose_of_c(place, token["block"])
        elif token["block"] is not None:
            yield Prose(":".join((place, *head[-1:])), inspect.cleandoc(token["block"]), is_docstring=True)


def prose_of_c(place: str, text: str) -> Iterator[Prose]:
    """Yield the comments of a source in C."""
    for token in _C.finditer(text):
        comment = token["comment"] if token["comment"] is not None else token["line"]
        if comment is not None:
            yield Prose(place, re.sub(r"\n[ *]*", " ", comment).strip())
