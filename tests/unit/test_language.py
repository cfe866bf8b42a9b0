"""Words that the project used in a sense of its own are gone from docstrings and public pages.

A docstring begins with a verb or a noun, never with What, Whether, Where, Who or How. A retired word that is right
where it stands gets an entry in ``_RIGHT_USE``, with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

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
    for path in sorted(path for folder in folders or ("pyconsumer",) for path in (ROOT / folder).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, node in _named(tree, ""):
            if text := ast.get_docstring(node):
                yield f"{place}:{name}".rstrip(":"), text


def _named(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    yield name, node
    for child in ast.walk(node) if isinstance(node, ast.Module) else ():
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, child


def _prose(page: str) -> str:
    """A page without its blocks of code and without what stands in backticks."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = _docstrings("pyconsumer", "examples", "docs/site")
    assert [place for place, text in found if _BEGINS_WRONG.match(text)] == []


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


def test_retired_words_are_gone() -> None:
    texts = [*_docstrings(), *((page, _prose(page)) for page in _PAGES)]
    found = {(place, match.lower()) for place, text in texts for match in _RETIRED.findall(text)}
    assert found == _RIGHT_USE.keys()
