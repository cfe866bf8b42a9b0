"""Writes the site as Markdown into ``build/pages``, and ``build/mkdocs.yml`` beside it."""

from __future__ import annotations

from tests.support.site.writer import ROOT, write

if __name__ == "__main__":
    pages = write(ROOT / "build")
    print(f"{len(pages)} pages in {ROOT / 'build' / 'pages'}")
