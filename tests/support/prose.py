"""Measures prose: how often it has what makes readers read twice, for each 1,000 words.

``python -m tests.support.prose`` prints a row for each part: a package's docstrings, its messages, each user page, and
the names and docstrings of each folder of tests. Arguments choose parts by their beginnings.
``--show`` prints the places.

Prose is text without code: what stands in backticks, in code blocks, after ``>>>`` and in links' targets counts as one
word. A message is a text in a ``raise``, in a call of a logger or of ``warn``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.syntax_trees import tree_of, walk

__all__ = ["BUDGETS", "MEASURES", "Count", "Text", "count", "page", "parts"]

ROOT = Path(__file__).parents[2]

LONGEST_SENTENCE = 35  #: in words

_WORD = re.compile(r"[A-Za-z0-9][\w'’./:+-]*")
_CODE = re.compile(r"``.+?``|`[^`]+`|:\w+:`[^`]+`", re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```|^<!-- file map.*?^<!-- end of the file map -->|^<!--.*?-->", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\([^)]*\)")
_ITEM = re.compile(r"^\s*(?:[-*+] |\d+\. |\|.*|#+ .*|>>> .*|\.\.\. .*)", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])[\"'”)*_]*\s+(?=[A-Z`*_\"“(\[])|\n\s*\n|(?<=:)\s*\n")
_FIELD = re.compile(r"^\s{4,}(?:[\w*]+(?:, [\w*]+)*): ", re.MULTILINE)  # an item of "Args:", "Raises:"

#: What is counted, each per 1,000 words but for long sentences, which are counted one by one.
MEASURES = {
    "semicolons": re.compile(r";"),
    "what": re.compile(r"\bwhat\b", re.IGNORECASE),
    "nobody": re.compile(r"\b(?:nobody|nothing|neither|nor)\b", re.IGNORECASE),
}


#: The most of each that user pages may have.
BUDGETS = {"semicolons": 4.0, "what": 1.0, "nobody": 1.5, "long": 0.0}


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
        """Return the number for each 1,000 words; for ``long`` the number itself."""
        found = len(self.places[measure])
        return float(found) if measure == "long" else 1000 * found / max(self.words, 1)


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
    for path in sorted(package.rglob("*.py*")):
        if path.suffix in {".py", ".pyi"}:
            inside = path.relative_to(package).parts
            name = inside[0] if len(inside) > 1 else "ground"
            found.setdefault(f"docstrings of {name}", []).extend(_docstrings(path))
            found.setdefault(f"messages of {name}", []).extend(_messages(path))
    for path in sorted((ROOT / "tests").rglob("*.py")):
        folder = "/".join(path.relative_to(ROOT).parts[:-1][:3])
        found.setdefault(folder, []).extend([*_docstrings(path), *_names_of_tests(path)])
    for path in sorted((ROOT / "examples").rglob("*.py")):
        found.setdefault("examples", []).extend(_docstrings(path))
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]:
        found[path.relative_to(ROOT).as_posix()] = [page(path)]
    return found


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{line}"


def _docstrings(path: Path) -> list[Text]:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in walk(tree_of(path)) if isinstance(node, kinds)]
    return [Text(_place(path, node.body[0].lineno), text) for node in nodes if (text := ast.get_docstring(node))]


def _names_of_tests(path: Path) -> list[Text]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    tests = [node for node in walk(tree_of(path)) if isinstance(node, kinds) and node.name.startswith("test_")]
    return [Text(_place(path, test.lineno), test.name.removeprefix("test_").replace("_", " ")) for test in tests]


_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn", "secho", "echo", "note"}


def _messages(path: Path) -> list[Text]:
    found = []
    for node in walk(tree_of(path)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            inside: ast.AST = node.exc
        elif isinstance(node, ast.Call) and _name_of(node.func) in _LOGS:
            inside = node
        else:
            continue
        pieces = [each.value for each in walk(inside) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if text := " ".join(piece for piece in pieces if " " in piece):
            found.append(Text(_place(path, node.lineno), text))
    return found


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def page(path: Path) -> Text:
    """Return the prose of a page, without the file map, whose rows are docstrings."""
    text = _TARGET.sub("]", _BLOCK.sub("", path.read_text(encoding="utf-8")))
    return Text(path.relative_to(ROOT).as_posix(), text)


def main() -> None:
    """Print the table, or the places of the parts whose names begin with those given."""
    wanted = [each for each in sys.argv[1:] if each != "--show"]
    print(f"{'':34} {'words':>7} " + " ".join(f"{name:>11}" for name in (*MEASURES, "long")))
    for part, texts in parts().items():
        if wanted and not part.startswith(tuple(wanted)):
            continue
        found = count(texts)
        print(f"{part:34} {found.words:7,} " + " ".join(f"{found.rate(name):11.1f}" for name in (*MEASURES, "long")))
        if "--show" in sys.argv:
            for name, places in found.places.items():
                for place in places:
                    print(f"    {name}: {place}")


if __name__ == "__main__":
    main()
