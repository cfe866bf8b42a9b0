"""The site of the documentation has every page, and can draw every diagram."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.site.diagrams import svg

DOCS = Path(__file__).parents[2] / "docs"
_PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
#: Pages that are made while the site is built.
_MADE = {"index.md", "changelog.md"}


def test_the_navigation_has_every_page_once() -> None:
    navigation = (DOCS / "site" / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    named = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(named) == sorted([*_PAGES, *_MADE]), "add the page to nav in docs/site/mkdocs.yml"


@pytest.mark.parametrize("page", _PAGES)
def test_the_diagrams_of_a_page_can_be_drawn(page: str) -> None:
    for source in re.findall(r"^```mermaid\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL):
        assert svg(source).startswith("<svg")
