"""Measures prose: counts the marks of sentences that are read twice, for each 1,000 words.

``python -m tests.support.prose`` prints a row for each part: a package's docstrings, its messages, each user page, the
compiled sources, and the names and docstrings of each folder of tests. Arguments choose parts by their beginnings.
``--show`` prints the places. ``tests/unit/test_language.py`` holds each part to ``BUDGETS``.

Prose is text without code: text in backticks, in code blocks, after ``>>>`` and in links' targets counts as one
word. The file map is left out, for its rows are docstrings. A message is a text in a ``raise``, in a call of a logger
or of ``warn``.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support import syntax_trees
from tests.support.compiled_prose import compiled
from tests.support.kept_readings import KeptReadings
from tests.support.syntax_trees import parse, walk

__all__ = ["BUDGETS", "MEASURES", "Count", "Text", "count", "docstrings_of", "heading", "parts", "summary"]

ROOT = Path(__file__).parents[2]

LONGEST_SENTENCE = 35  #: in words

_WORD = re.compile(r"[A-Za-z0-9][\w'’./:+-]*")
_CODE = re.compile(r"``.+?``|`[^`]+`|:\w+:`[^`]+`", re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```|^<!-- file map.*?^<!-- end of the file map -->|^<!--.*?-->", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\([^)]*\)")
_ITEM = re.compile(r"^\s*(?:[-*+] |\d+\. |\|.*|#+ .*|>>> .*|\.\.\. .*|.*\S {2,}\S.*|.*-> .*|=[ =]*$)", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])[\"'”)*_]*\s+(?=[A-Z`*_\"“(\[])|\n\s*\n|(?<=:)\s*\n")
_FIELD = re.compile(r"^\s{4,}(?:[\w*]+(?:, [\w*]+)*): ", re.MULTILINE)  # an item of "Args:", "Raises:"

#: What is counted, each per 1,000 words but for long sentences, which are counted one by one.
MEASURES = {
    "semicolons": re.compile(r";"),
    "what": re.compile(r"\bwhat\b", re.IGNORECASE),
    "nobody": re.compile(r"\b(?:nobody|nothing|neither|nor)\b", re.IGNORECASE),
    # words that the project once used in a sense of its own
    "private": re.compile(
        r"\b(anew|in vain|for good|meanwhile|go(?:es|ing|ne)? on|went on|so many|so long|untold|homeless|farewell|"
        r"t(?:ell|ells|old|elling)|hand(?:s|ed|ing)? out|part(?:s|ed)? from|parked|pass(?:es|ed|ing)? over|"
        r"put(?:s|ting)? aside|look(?:s|ed)? at again)\b",
        re.IGNORECASE,
    ),
}

#: The most of each measure for each 1,000 words, and of sentences of more than ``LONGEST_SENTENCE`` words at all.
BUDGETS = {"semicolons": 4.0, "what": 1.0, "nobody": 1.5, "private": 1.0, "long": 0.0}


class Text(NamedTuple):
    """A piece of prose and its place, such as ``pyconsumer/clock.py:12``."""

    place: str
    text: str


@dataclass(slots=True)
class Count:
    """The words of a part, and the places of each measure."""

    words: int = 0
    places: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in (*MEASURES, "long")})

    def rate(self, measure: str) -> float:
        """Return the number for each 1,000 words. For ``long`` the number itself."""
        found = len(self.places[measure])
        return float(found) if measure == "long" else 1000 * found / max(self.words, 1)

    def row(self) -> str:
        """Return the words and the rates in the columns of ``heading``."""
        return f"{self.words:7,} " + " ".join(f"{self.rate(name):11.1f}" for name in BUDGETS)

    def over_budget(self) -> dict[str, int]:
        """Return how often each measure is found above its budget. A part of few words may have each measure once."""
        excess = {
            name: len(places) - math.ceil(BUDGETS[name] * (1 if name == "long" else self.words / 1000))
            for name, places in self.places.items()
        }
        return {name: more for name, more in excess.items() if more > 0}

    def add(self, other: Count) -> None:
        """Add the count of another part."""
        self.words += other.words
        for name, places in other.places.items():
            self.places[name].extend(places)


def heading() -> str:
    """Return the heading of the columns of ``Count.row``."""
    return f"{'words':>7} " + " ".join(f"{name:>11}" for name in BUDGETS)


def count(texts: list[Text]) -> Count:
    """Count words and measures in pieces of prose."""
    result = Count()
    for place, text in texts:
        bare = _CODE.sub("CODE", text)
        result.words += len(_WORD.findall(bare))
        for name, pattern in MEASURES.items():
            for match in pattern.finditer(bare):
                start, end = max(0, match.start() - 60), match.end() + 40
                result.places[name].append(f"{place}: ...{' '.join(bare[start:end].split())}...")
        for sentence in _sentences(bare):
            if (length := len(_WORD.findall(sentence))) > LONGEST_SENTENCE:
                result.places["long"].append(f"{place}: {length} words: {' '.join(sentence.split())}")
    return result


def _sentences(text: str) -> Iterator[str]:
    broken = _FIELD.sub("\n\n", _ITEM.sub(lambda match: "\n\n" + match[0], text))
    for piece in _END.split(broken):
        if piece.lstrip().startswith("|"):
            yield from piece.split("|")  # a row of a table: each cell is for itself
        else:
            yield piece


# -- where prose stands ------------------------------------------------------------------------------------------------


def parts() -> dict[str, list[Text]]:
    """Return all prose of the repository that a reader or a user reads, part by part."""
    package = ROOT / "pyconsumer"
    found: dict[str, list[Text]] = {}
    sources = sorted(path for path in package.rglob("*.py*") if path.suffix in {".py", ".pyi"})
    tests = sorted((ROOT / "tests").rglob("*.py"))
    read = dict(zip([*sources, *tests], _modules.of([*sources, *tests]), strict=True))
    for path, module in read.items():
        if package in path.parents:
            inside = path.relative_to(package).parts
            name = inside[0] if len(inside) > 1 else "ground"
            found.setdefault(f"docstrings of {name}", []).extend(module.docstrings)
            found.setdefault(f"messages of {name}", []).extend(module.messages)
        else:
            folder = "/".join(path.relative_to(ROOT).parts[:-1][:3])
            found.setdefault(folder, []).extend([*module.docstrings, *module.names])
    found["examples"] = docstrings_of(sorted((ROOT / "examples").rglob("*.py")))
    found["compiled sources"] = [Text(prose.place, prose.text) for prose in compiled()]
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]:
        found[path.relative_to(ROOT).as_posix()] = [_page(path)]
    return found


def summary(counts: dict[str, Count]) -> list[str]:
    """Return a table of all docstrings, messages, compiled sources, tests, examples and pages."""
    groups: dict[str, Count] = {}
    for part, found in counts.items():
        first = part.partition(" of ")[0]
        name = "pages" if first.endswith(".md") else "tests" if first.startswith("tests") else first
        groups.setdefault(name, Count()).add(found)
    return [f"{'':16} {heading()}", *(f"{name:16} {found.row()}" for name, found in groups.items())]


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def docstrings_of(paths: list[Path]) -> list[Text]:
    """Return the docstrings of modules with their places."""
    return [text for module in _modules.of(paths) for text in module.docstrings]


class _Module(NamedTuple):
    docstrings: list[Text]
    names: list[Text]  # of tests
    messages: list[Text]


_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn", "secho", "echo", "note"}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _read(path: Path) -> _Module:
    module = _Module([], [], [])
    for node in walk(parse(path)):
        if isinstance(node, _DOCUMENTED):
            if text := ast.get_docstring(node):
                module.docstrings.append(Text(_place(path, node.body[0].lineno), text))
            if not isinstance(node, ast.Module) and node.name.startswith("test_"):
                name = node.name.removeprefix("test_").replace("_", " ")
                module.names.append(Text(_place(path, node.lineno), name))
        elif isinstance(node, ast.Raise):
            if node.exc is not None:
                module.messages.extend(_message(path, node.lineno, node.exc))
        elif isinstance(node, ast.Call) and _name_of(node.func) in _LOGS:
            module.messages.extend(_message(path, node.lineno, node))
    return module


_modules = KeptReadings("prose", _read, [sys.modules[__name__], syntax_trees], place=ROOT)


def _message(path: Path, line: int, inside: ast.AST) -> Iterator[Text]:
    pieces = [each.value for each in walk(inside) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if text := " ".join(piece for piece in pieces if " " in piece):
        yield Text(_place(path, line), text)


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _page(path: Path) -> Text:
    text = _TARGET.sub("]", _BLOCK.sub("", path.read_text(encoding="utf-8")))
    return Text(path.relative_to(ROOT).as_posix(), text)


def main() -> None:
    """Print the table, or the places of the parts whose names begin with those given."""
    wanted = [each for each in sys.argv[1:] if each != "--show"]
    print(f"{'':34} {heading()}")
    for part, texts in parts().items():
        if wanted and not part.startswith(tuple(wanted)):
            continue
        found = count(texts)
        print(f"{part:34} {found.row()}")
        if "--show" in sys.argv:
            for name, places in found.places.items():
                for place in places:
                    print(f"    {name}: {place}")


if __name__ == "__main__":
    from tests.support.prose import main as of_the_imported_module  # whose values are kept, under its name

    of_the_imported_module()
