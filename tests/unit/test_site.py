"""The site of the documentation has every page, and can draw every diagram."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.site.diagrams import svg

DOCS = Path(__file__).parents[2] / "docs"
_PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
#: Pages that are made of files of the top level.
_MADE = {"index.md", "changelog.md", "contributing.md", "security-policy.md", "code-of-conduct.md"}


def test_the_navigation_has_every_page_once() -> None:
    navigation = (DOCS / "site" / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    named = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", navigation, re.MULTILINE)
    pages = [page.replace("README.md", "index.md") for page in _PAGES]
    assert sorted(named) == sorted([*pages, *_MADE]), "add the page to nav in docs/site/mkdocs.yml"


def test_every_page_with_code_is_run_by_a_test() -> None:
    tests = "".join(path.read_text("utf-8") for path in (DOCS.parent / "tests" / "behaviour").glob("test_*.py"))
    with_code = [page for page in _PAGES if "```python\n" in (DOCS / page).read_text("utf-8")]
    assert len(with_code) > 5
    assert [page for page in with_code if Path(page).name not in tests] == []


@pytest.mark.parametrize("page", _PAGES)
def test_the_diagrams_of_a_page_can_be_drawn(page: str) -> None:
    for source in re.findall(r"^```mermaid\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL):
        assert svg(source).startswith("<svg")
