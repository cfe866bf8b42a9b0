"""Words that the project used in a sense of its own are gone from docstrings, public pages and compiled sources.

A docstring begins with a verb or a noun, and not with a word such as Whether, Where or How. A retired word that is
right where it stands gets an entry in ``_RIGHT_USE``, with the reason. Of the compiled sources, Cython and C, comments
are read, too. Names of tests have no such word, and no "what" or "nobody".
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.xdist_group("sources")

ROOT = Path(__file__).parents[2]

_BEGINS_WRONG = re.compile(r"(What|Whether|Where|Who|How)\b")
_RETIRED = re.compile(
    r"\b(anew|in vain|for good|meanwhile|go(?:es|ing|ne)? on|went on|so many|so long|untold|homeless|farewell|"
    r"t(?:ell|ells|old|elling)|hand(?:s|ed|ing)? out|part(?:s|ed)? from|parked|pass(?:es|ed|ing)? over|"
    r"put(?:s|ting)? aside|look(?:s|ed)? at again)\b",
    re.IGNORECASE,
)
#: (place, the words in lower case): the reason why they are right there.
_RIGHT_USE: dict[tuple[str, str], str] = {}
_PAGES = ("README.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))


def _docstrings(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield a place such as ``pyconsumer/clock.py:Clock.now`` and the docstring there, by default of the package."""
    modules = (path for folder in folders or ("pyconsumer",) for path in (ROOT / folder).rglob("*.py*"))
    for path in sorted(path for path in modules if path.suffix in {".py", ".pyi"}):
        yield from _docstrings_of(path)


@functools.cache
def _docstrings_of(path: Path) -> list[tuple[str, str]]:
    place = path.relative_to(ROOT).as_posix()
    found = []
    for name, node in _named(ast.parse(path.read_text(encoding="utf-8")), ""):
        if text := ast.get_docstring(node):
            found.append((f"{place}:{name}".rstrip(":"), text))
    return found


def _named(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    yield name, node
    for child in ast.walk(node) if isinstance(node, ast.Module) else ():
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, child


#: The tokens of Cython that matter here. ``ast`` cannot parse it. A ``head`` is the start of a statement that declares
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


class _Prose(NamedTuple):
    place: str
    text: str
    is_docstring: bool = False


def _compiled() -> Iterator[_Prose]:
    """Yield the docstrings and comments of our Cython and C sources."""
    paths = (path for folder in (ROOT / "pyconsumer").rglob("native") for path in folder.iterdir())
    for path in sorted(paths):
        place = path.relative_to(ROOT).as_posix()
        if path.suffix in {".pyx", ".pxi"}:
            yield from _prose_of_cython(place, path.read_text(encoding="utf-8"))
        elif path.suffix in {".c", ".h"}:
            yield from _prose_of_c(place, path.read_text(encoding="utf-8"))


def _prose_of_cython(place: str, text: str) -> Iterator[_Prose]:
    """Yield docstrings, at a place such as ``columns.pxi:build``, and comments, also those of embedded C."""
    head: list[str] = []
    for token in _CYTHON.finditer(text):
        if token["head"] is not None:
            head = re.findall(r"\w+", token["head"])
        elif token["comment"] is not None:
            yield _Prose(place, re.sub(r"\n *#:? *", " ", token["comment"]).strip())
        elif token["block"] is not None and head[:1] == ["extern"]:
            yield from _prose_of_c(place, token["block"])
        elif token["block"] is not None:
            yield _Prose(":".join((place, *head[-1:])), inspect.cleandoc(token["block"]), is_docstring=True)


def _prose_of_c(place: str, text: str) -> Iterator[_Prose]:
    for token in _C.finditer(text):
        comment = token["comment"] if token["comment"] is not None else token["line"]
        if comment is not None:
            yield _Prose(place, re.sub(r"\n[ *]*", " ", comment).strip())


def _prose(page: str) -> str:
    """A page without its blocks of code and its text in backticks."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = _docstrings("pyconsumer", "examples", "docs/site")
    assert [place for place, text in found if _BEGINS_WRONG.match(text)] == []


def test_docstrings_of_compiled_sources_begin_with_a_verb_or_a_noun() -> None:
    found = [prose for prose in _compiled() if prose.is_docstring]
    assert len(found) > 70
    assert [prose.place for prose in found if _BEGINS_WRONG.match(prose.text)] == []


def test_prose_of_cython_and_c_is_read() -> None:
    source = r'''# one
# two
"""The module."""
cdef extern from "time.h" nogil:
    """
    /* of
     * C */
    static const char *text = "/* no comment */"; // to the end
    """
    int64_t now()  #: after code
cdef inline Memory take(
    str name, bytes more
):
    """Take it.

    And more.
    """
    return f("# no comment", '\'"""', "\"# nor this")
cdef class Memory:
    """Memory."""
    cdef char *start  # its start
'''
    assert list(_prose_of_cython("a.pxi", source)) == [
        ("a.pxi", "one two", False),
        ("a.pxi", "The module.", True),
        ("a.pxi", "of C", False),
        ("a.pxi", "to the end", False),
        ("a.pxi", "after code", False),
        ("a.pxi:take", "Take it.\n\nAnd more.", True),
        ("a.pxi:Memory", "Memory.", True),
        ("a.pxi", "its start", False),
    ]


_MODULE = re.compile(r":mod:`~?([.\w]+)`")


def _is_place(name: str, inside: str) -> bool:
    """Return whether a module's name, as written in the docstring of a place, is one of ours or of Python."""
    if not name.startswith((".", "pyconsumer")):
        return name in sys.stdlib_module_names
    up = len(name) - len(name.lstrip("."))
    folder = ROOT.joinpath(inside.partition(":")[0]).parents[up - 1] if up else ROOT
    found = folder.joinpath(*name.lstrip(".").split("."))
    return found.is_dir() or found.with_suffix(".py").exists()


def test_modules_named_in_docstrings_exist() -> None:
    named = [(place, name) for place, text in _docstrings() for name in _MODULE.findall(text)]
    assert len(named) > 50
    assert [(place, name) for place, name in named if not _is_place(name, place)] == []


_TEST = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
_VAGUE = re.compile(rf"{_RETIRED.pattern}|\b(?:what|nobody|nothing|neither|nor)\b")


@pytest.mark.parametrize("folder", ["unit", "vectors", "spec"])
def test_names_of_tests_have_no_retired_or_vague_word(folder: str) -> None:
    paths = sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    names = [(path.name, name) for path in paths for name in _TEST.findall(path.read_text(encoding="utf-8"))]
    assert names
    assert [(place, name) for place, name in names if _VAGUE.search(name.replace("_", " "))] == []


def test_retired_words_are_gone() -> None:
    compiled = [(prose.place, prose.text) for prose in _compiled()]
    assert len(compiled) > 250
    texts = [*_docstrings(), *((page, _prose(page)) for page in _PAGES), *compiled]
    found = {(place, match.lower()) for place, text in texts for match in _RETIRED.findall(" ".join(text.split()))}
    assert found == _RIGHT_USE.keys()
