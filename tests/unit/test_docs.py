"""The documentation: its links lead somewhere, and its Python compiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.make_file_map import PAGE, page_with_map

ROOT = Path(__file__).parents[2]
_PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in _LINK.findall(_FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in _anchors(path.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_the_documentation_compiles(page: Path) -> None:
    for language, code in _FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            compile(code, str(page), "exec")


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_a_table_have_as_many_cells_as_its_head(page: Path) -> None:
    """A row that is wrapped ends the table."""
    wrong = []
    cells = 0  #: of the table at hand, 0 outside of one
    for line in _FENCE.sub("", page.read_text(encoding="utf-8")).splitlines():
        if not line.startswith("|"):
            cells = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line)))
        cells = cells or found
        if found != cells or not line.rstrip().endswith("|"):
            wrong.append(line)
    assert wrong == []


def test_the_file_map_is_current() -> None:
    """Every module is in the map, with the first sentence of its docstring."""
    assert PAGE.read_text(encoding="utf-8") == page_with_map(), "run python -m tests.support.make_file_map"


def test_the_files_to_look_into_exist() -> None:
    """Each row of "Where to look" names files or folders of the package."""
    section = PAGE.read_text(encoding="utf-8").partition("## Where to look")[2].partition("\n## ")[0]
    rows = [row.rpartition(" | ")[2] for row in section.splitlines() if row.startswith("| ") and "`" in row]
    named = {name for row in rows for name in re.findall(r"`([\w/]+(?:\.py)?)`", row) if "/" in name or "." in name}
    assert len(named) > 90
    assert [name for name in sorted(named) if not (ROOT / "pyconsumer" / name).exists()] == []


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "proof").glob("*.md"))], ids=lambda page: page.name
)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """Commands of the evidence can be repeated: they name files and modules of this tree."""
    text = page.read_text(encoding="utf-8")
    files = set(re.findall(r"\b(?:tests|pyconsumer)/[\w/]+(?:\.\w+)?", text))
    modules = {name.replace(".", "/") for name in re.findall(r"python -m\s+(tests[.\w]*\w)", text)}
    assert {name for name in files if not (ROOT / name).exists()} == set()
    assert {name for name in modules if not ((ROOT / name).is_dir() or (ROOT / f"{name}.py").exists())} == set()


_ROW_NAMES = re.compile(r"`([^`]+)`")


def _missing_in_row(row: str, default: Path) -> list[str]:
    """Return the names of test files and of tests in a row that do not exist.

    A word after a file's name is a part of a test's name in that file, with blanks for underscores.
    """
    missing: list[str] = []
    places: list[Path] = []
    for name in _ROW_NAMES.findall(row):
        if name.endswith(".py") or name.startswith("tests/"):
            places = [ROOT / name if "/" in name else default / name]
            missing += [name for place in places if not place.exists()]
        elif re.fullmatch(r"[a-z][a-z0-9_ ]*", name) and places and places[0].is_file():
            wanted = name.replace(" ", "_")
            tests = re.findall(r"def (test_\w+|_\w+)", places[0].read_text(encoding="utf-8"))
            missing += [f"{places[0].name}: {name}"] if not any(wanted in test for test in tests) else []
    return missing


@pytest.mark.parametrize(
    ("page", "folder"),
    [("observability", "unit/metrics"), ("access", "behaviour"), ("share-groups", "behaviour"), ("work", "behaviour")],
)
def test_the_tests_that_are_evidence_exist(page: str, folder: str) -> None:
    text = (ROOT / "docs" / "proof" / f"{page}.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    assert [one for row in rows if len(row) == 5 for one in _missing_in_row(row[3], ROOT / "tests" / folder)] == []


def test_missing_evidence_is_found() -> None:
    broken = _missing_in_row("`test_none.py`, `test_health.py`: `no_such_test`", ROOT / "tests" / "unit" / "metrics")
    assert broken == ["test_none.py", "test_health.py: no_such_test"]
