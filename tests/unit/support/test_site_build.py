"""The site as Markdown is whole, and each tool that is installed makes the same pages, links and anchors of it.

Pages load no file from another host.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.process import run
from tests.support.site.writer import write

pytest.importorskip("pyspark", reason="the reference has the pages of pyconsumer.spark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+?)(?: \{ #(\S+) \})?$", re.MULTILINE)
Link = tuple[str, str]  #: the page or file, by its path in the site without the suffix of a page, and the anchor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as Markdown, with its configuration."""
    build = tmp_path_factory.mktemp("build")
    write(build)
    return build


def _pages(folder: Path) -> dict[str, str]:
    """The text of each page without blocks of code, by its path without the suffix."""
    root = folder / "pages"
    texts = {path.relative_to(root).with_suffix("").as_posix(): path.read_text("utf-8") for path in root.rglob("*.md")}
    return {name: _FENCE.sub("", text) for name, text in texts.items()}


def _links(page: str, text: str) -> set[Link]:
    """The links of a page to the site's own pages and files."""
    prose = re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "", code[0]), text)
    own = (target for target in _LINK.findall(prose) if not re.match(r"[a-z]+:", target))
    return {_resolved(page, target) for target in own}


def _resolved(page: str, target: str) -> Link:
    name, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), name)) if name else page
    return re.sub(r"\.(?:md|html)$", "", path), anchor


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings: their own, or the text as a code host makes an anchor of it."""
    found = set()
    for heading, own in _HEADING.findall(text):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(own or plain.strip().replace(" ", "-"))
    return found


def test_links_of_the_markdown_lead_somewhere(folder: Path) -> None:
    """Without any site tool."""
    pages = _pages(folder)
    anchors = {name: _anchors(text) for name, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for name, anchor in _links(page, text):
            there = name in pages or (folder / "pages" / name).is_file()
            if not there or (anchor and anchor not in anchors[name]):
                broken.append((page, name, anchor))
    assert broken == []
    assert len(pages) > 70


def test_the_navigation_has_each_page_of_the_folder(folder: Path) -> None:
    navigation = (folder / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    named = re.findall(r"^ +- (?:.+: )?(\S+)\.md$", navigation, re.MULTILINE)
    assert sorted(named) == sorted(_pages(folder))


# -- as HTML ---------------------------------------------------------------------------------------------------------


def _mkdocs(folder: Path) -> None:
    built = run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", "mkdocs.yml"],
        timeout_s=120,
        cwd=folder,
        env={"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
    ).check()
    assert built.stdout + built.stderr == ""


def _zensical(folder: Path) -> None:
    run([sys.executable, "-m", "zensical", "build", "--config-file", "mkdocs.yml"], timeout_s=120, cwd=folder).check()


_TOOLS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "mkdocs": ("material", _mkdocs),
    "zensical": ("zensical", _zensical),
}
_USED = [name for name, (module, _) in _TOOLS.items() if name == "mkdocs" or find_spec(module)]


@pytest.fixture(scope="module", params=_USED)
def site(request: pytest.FixtureRequest, folder: Path) -> Path:
    """The HTML of a tool."""
    module, build = _TOOLS[request.param]
    if find_spec(module) is None:
        if os.environ.get("CI"):
            pytest.fail("pip install '.[docs]'")
        pytest.skip("needs pyconsumer[docs]")
    build(folder)
    return folder / "site"


class _Page(HTMLParser):
    """Collects links, anchors, and the addresses that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        self.links |= {given.get("href") or "", given.get("src") or ""}
        self.loads += [given.get("src") or "", given.get("srcset") or ""]
        if tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given.get("href") or "")


def _parsed(site: Path) -> dict[str, _Page]:
    found = {}
    for path in site.rglob("*.html"):
        page = found[path.relative_to(site).with_suffix("").as_posix()] = _Page()
        page.feed(path.read_text("utf-8"))
    return found


def test_pages_links_and_anchors_are_those_of_the_markdown(site: Path, folder: Path) -> None:
    built = _parsed(site)
    pages = _pages(folder)
    assert set(pages) == built.keys() - {"404"}
    for name, text in pages.items():
        links = {_resolved(name, target) for target in built[name].links if not re.match(r"[a-z]+:", target)}
        assert _links(name, text) - links == set(), name
        assert _anchors(text) - built[name].anchors == set(), name


def test_pages_load_no_file_from_another_host(site: Path) -> None:
    for name, page in _parsed(site).items():
        assert [each for each in page.loads if re.match(r"\w+:|//", each)] == [], name
    for path in site.rglob("*.html"):
        assert 'class="mermaid"' not in path.read_text("utf-8"), "the theme would take a script from another host"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", path.read_text("utf-8")), path.name


def test_the_search_finds_the_pages(site: Path) -> None:
    (index,) = [path for name in ("search_index.json", "search.json") for path in site.rglob(name)]
    found = json.dumps(json.loads(index.read_text("utf-8")))
    wanted = ("guide.html", "api/pyconsumer.KafkaConsumer.html", "examples/produce.html", "changelog.html")
    assert [page for page in wanted if page not in found] == []
