"""Hooks that MkDocs calls while it builds the site; the work is done in ``tests/support/site``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from mkdocs.structure.files import File

from tests.support.site.pages import api_navigation, example_navigation, generated_pages, render


def on_config(config: Any) -> Any:
    """Put the generated pages in the navigation, where it has the names ``API`` and ``Examples``."""
    config.nav = _filled(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links that a code host follows, and diagrams that it draws, into the site's."""

    def known(path: str) -> bool:
        file = files.get_file_from_path(path)
        return file is not None and file.inclusion.is_included()

    return render(markdown, page.file.src_uri, known)


def _filled(entries: Any) -> Any:
    made = {"API": api_navigation, "Examples": example_navigation}
    filled: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, inside),) = entry.items()
            if inside == "generated":
                inside = made[title]()
            elif isinstance(inside, list):
                inside = _filled(inside)
            entry = {title: inside}
        filled.append(entry)
    return filled
