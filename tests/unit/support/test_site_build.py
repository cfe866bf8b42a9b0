"""The site is built without a warning, and its pages load no file from another host."""

from __future__ import annotations

import json
import os
import re
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.process import run
from tests.support.site.pages import generated_pages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("material") is None:
        if os.environ.get("CI"):
            pytest.fail("pip install '.[docs]'")
        pytest.skip("needs pyconsumer[docs]")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = run(
        [*command, "--config-file", "docs/site/mkdocs.yml"],
        timeout_s=120,
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
    ).check()
    assert built.stdout + built.stderr == ""
    return folder


def test_every_page_is_built(site: Path) -> None:
    wanted = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} | set(
        generated_pages()
    )
    for page in wanted:
        html = page.replace("README.md", "index.md").removesuffix(".md") + ".html"
        assert (site / html).is_file(), page


class _Loads(HTMLParser):
    """Collects the addresses that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.addresses += [given.get("src") or "", given.get("srcset") or ""]
        if tag == "link" and given.get("rel") != "canonical":
            self.addresses.append(given.get("href") or "")


def test_pages_load_no_file_from_another_host(site: Path) -> None:
    for path in [*site.rglob("*.html")]:
        loads = _Loads()
        loads.feed(path.read_text("utf-8"))
        assert [each for each in loads.addresses if re.match(r"\w+:|//", each)] == [], path.name
        assert 'class="mermaid"' not in path.read_text("utf-8"), "the theme would take a script from another host"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", path.read_text("utf-8")), path.name


def test_the_search_finds_the_pages(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"guide.html", "api/pyconsumer.KafkaConsumer.html", "examples/produce.html", "changelog.html"} <= found
