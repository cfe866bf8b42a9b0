"""Writes the site as a folder of Markdown, and a configuration with the whole navigation.

The folder has no notation of one tool but for two extensions of Markdown that MkDocs and its successors read:
``{ #anchor }`` after a heading of the API, and HTML between blocks, which diagrams are.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.support.site.pages import ROOT, api_navigation, example_navigation, generated_pages, own_pages, render

__all__ = ["ROOT", "write"]

_CONFIG = ROOT / "docs" / "site" / "mkdocs.yml"
_STYLES = ROOT / "docs" / "site" / "site.css"
_GENERATED = re.compile(r"^( *)- (\w+): generated$", re.MULTILINE)


def write(folder: Path) -> list[str]:
    """Write ``pages`` and ``mkdocs.yml`` into a folder, in the place of old ones.

    Args:
        folder: where they are written, such as ``build``. The tool puts its HTML into ``site`` beside them.

    Returns:
        the pages, by their paths in the site.
    """
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    written = {**own_pages(), **generated_pages()}
    images = {path.relative_to(ROOT / "docs").as_posix(): path for path in sorted((ROOT / "docs").glob("*.png"))}
    there = {*written, *images}
    for name, text in written.items():
        _put(pages / name, render(text, name, there.__contains__))
    for name, path in [*images.items(), ("stylesheets/site.css", _STYLES)]:
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, pages / name)
    _put(folder / "mkdocs.yml", _GENERATED.sub(_navigation, _CONFIG.read_text("utf-8")))
    return sorted(written)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _navigation(found: re.Match[str]) -> str:
    """Return a part of the navigation that is made from code, as YAML."""
    margin, title = found.groups()
    entries = {"API": api_navigation, "Examples": example_navigation}[title]()
    return "\n".join([f"{margin}- {title}:", *_yaml(entries, margin + "    ")])


def _yaml(entries: object, margin: str) -> list[str]:
    lines: list[str] = []
    assert isinstance(entries, list)
    for entry in entries:
        if isinstance(entry, str):
            lines.append(f"{margin}- {entry}")
            continue
        ((title, inside),) = entry.items()
        if isinstance(inside, str):
            lines.append(f"{margin}- {title}: {inside}")
        else:
            lines += [f"{margin}- {title}:", *_yaml(inside, margin + "    ")]
    return lines
