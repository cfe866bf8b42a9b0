"""Prose keeps to its budgets, and docstrings begin with a verb or a noun, never with What, Whether, Where, Who or How.

``tests/support/prose.py`` has the measures and their budgets for each 1,000 words. All parts are within them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import prose
from tests.support.compiled_prose import compiled, prose_of_cython

pytestmark = pytest.mark.xdist_group("sources")

ROOT = Path(__file__).parents[2]

_BEGINS_WRONG = re.compile(r"(What|Whether|Where|Who|How)\b")


def _docstrings(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield a place such as ``pyconsumer/clock.py:12`` and the docstring there, by default of the package."""
    modules = (path for folder in folders or ("pyconsumer",) for path in (ROOT / folder).rglob("*.py*"))
    yield from prose.docstrings_of(sorted(path for path in modules if path.suffix in {".py", ".pyi"}))


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = _docstrings("pyconsumer", "examples")
    assert [place for place, text in found if _BEGINS_WRONG.match(text)] == []


def test_docstrings_of_compiled_sources_begin_with_a_verb_or_a_noun() -> None:
    found = [each for each in compiled() if each.is_docstring]
    assert len(found) > 70
    assert [each.place for each in found if _BEGINS_WRONG.match(each.text)] == []


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
    assert list(prose_of_cython("a.pxi", source)) == [
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


def test_prose_is_within_its_budgets(record_property: Callable[[str, object], None]) -> None:
    counts = {part: prose.count(texts) for part, texts in prose.parts().items()}
    record_property("table", ["prose, for each 1,000 words", *prose.summary(counts)])
    above = {part: excess for part, found in counts.items() if (excess := found.over_budget())}
    assert above == {}, "python -m tests.support.prose PART --show has the places"
