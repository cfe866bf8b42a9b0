"""Pages of the site: those of ``docs/``, those that are made of other files and of code, and the links between them.

The README is the home page, the changelog and each example have a page, and so has the API. Links are written for a
code host. Those that lead out of ``docs/`` become links to these pages, or plain text where the site has none.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.site.api import PACKAGES, api_pages
from tests.support.site.diagrams import svg

__all__ = ["ROOT", "api_navigation", "example_navigation", "generated_pages", "own_pages", "render"]

ROOT = Path(__file__).parents[3]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
_NAMES = {"asyncio": "asyncio", "fastapi": "FastAPI", "iam": "IAM", "msk": "Amazon MSK", "oauth": "OAuth"}
_EXAMPLES = """\
# Examples

Short programs that run as they stand: most start an embedded broker, or take the address of a cluster by
`-b HOST:PORT`. All of them are tested.

"""
_LIST_AFTER_TEXT = re.compile(r"^(?![*|#>]|\s|\d+\.)(.+)\n(?=(?:[*-]|\d+\.) )", re.MULTILINE)


def own_pages() -> dict[str, str]:
    """Return the pages of ``docs/``, by path in the site, where a README is the index of its folder."""
    docs = ROOT / "docs"
    pages: dict[str, str] = {}
    for path in sorted(docs.rglob("*.md")):
        name = path.relative_to(docs).as_posix()
        place = _place(f"docs/{name}")
        assert place is not None
        pages[place] = _moved(path.read_text("utf-8"), place, base=posixpath.join("docs", posixpath.dirname(name)))
    return pages


def generated_pages() -> dict[str, str]:
    """Return the pages that no file of ``docs/`` holds, by path in the site."""
    pages = {page: _moved((ROOT / name).read_text("utf-8"), page) for name, page in _TOP.items()}
    pages["index.md"] = "---\nhide:\n  - navigation\n---\n\n" + pages["index.md"]
    pages.update(_example_pages())
    pages.update(api_pages())
    return pages


def api_navigation() -> list[dict[str, object]]:
    """Return the part of the navigation for the API, package by package."""
    pages = list(api_pages())
    navigation: list[dict[str, object]] = []
    for package in PACKAGES:
        inside = [page for page in pages if re.fullmatch(rf"api/{re.escape(package)}\.[A-Z]\w*\.md", page)]
        entries: list[object] = [f"api/{package}.md"]
        entries += [{page.removesuffix(".md").rpartition(".")[2]: page} for page in inside]
        navigation.append({package: entries if inside else f"api/{package}.md"})
    return navigation


def example_navigation() -> list[dict[str, str]]:
    """Return the part of the navigation for the examples."""
    return [{"Overview": "examples/index.md"}, *({title: page} for page, title, _, _ in _examples())]


# -- examples ---------------------------------------------------------------------------------------------------------


def _examples() -> Iterator[tuple[str, str, Path | None, list[Path]]]:
    """Yield the page, the title, the folder and the files of each example. A folder is one example."""
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix == ".py":
            yield f"examples/{path.stem}.md", _title(path.stem), None, [path]
        elif path.is_dir() and (files := sorted(path.rglob("*.py"))):
            yield f"examples/{path.name}.md", _title(path.name), path, files


def _title(name: str) -> str:
    words = name.split("_")
    return " ".join(_NAMES.get(word, word if at else word.capitalize()) for at, word in enumerate(words))


def _example_pages() -> dict[str, str]:
    lines: list[str] = []
    pages: dict[str, str] = {}
    for page, title, folder, files in _examples():
        parts = [f"# {title}"]
        if folder and (about := folder / "README.md").exists():
            text = about.read_text("utf-8")
            parts = [_moved(text, page, base=folder.relative_to(ROOT).as_posix())]
            lines.append(f"* [{title}]({posixpath.basename(page)})")
        elif not folder:
            text = ast.get_docstring(ast.parse(files[0].read_text("utf-8"))) or ""
            first, _, rest = text.partition("\n\n")
            parts += [_code(first), _code(rest)]
            lines.append(f"* [{title}]({posixpath.basename(page)}): {_code(first).replace(chr(10), ' ')}")
        else:
            lines.append(f"* [{title}]({posixpath.basename(page)})")
        for file in files:
            name = file.relative_to(ROOT).as_posix()
            if folder:
                parts.append(f"## {file.relative_to(folder)}")
            parts.append(f'```python title="{name}"\n{_without_docstring(file, folder is None)}```')
        pages[page] = "\n\n".join(parts) + "\n"
    pages["examples/index.md"] = _EXAMPLES + "\n".join(lines) + "\n"
    return pages


def _code(text: str) -> str:
    """Return a docstring of an example as Markdown, which indented blocks are, too."""
    return re.sub(r"^:$", "", re.sub(r"::$", ":", text.replace("``", "`"), flags=re.MULTILINE), flags=re.MULTILINE)


def _without_docstring(path: Path, cut: bool) -> str:
    text = path.read_text("utf-8")
    body = ast.parse(text).body
    if cut and body and isinstance(body[0], ast.Expr) and body[0].end_lineno:
        return "\n".join(text.splitlines()[body[0].end_lineno :]).lstrip("\n") + "\n"
    return text


# -- links and blocks -------------------------------------------------------------------------------------------------


def _moved(text: str, page: str, *, base: str = "") -> str:
    """Return a page of another folder, with links as they are where the site has it."""
    return _outside_fences(text, lambda part: _LINK.sub(lambda found: _relink(found, base, page), part))


def render(text: str, page: str, known: Callable[[str], bool]) -> str:
    """Return the Markdown of a page as the site needs it.

    Args:
        text: with links between pages of the site, else as a code host shows it.
        page: its path in the site.
        known: returns whether the site has a page or file.
    """
    if page.startswith("api/"):
        return text
    text = _outside_fences(text, lambda part: _LIST_AFTER_TEXT.sub(r"\1\n\n", part))
    text = _outside_fences(text, lambda part: _LINK.sub(lambda found: _keep(found, page, known), part))
    return _FENCE.sub(_block, text)


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for found in re.finditer(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL):
        parts += [change(text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*parts, change(text[end:])])


def _relink(found: re.Match[str], base: str, page: str) -> str:
    """Return a link of a file in the repository as one between pages of the site."""
    mark, text, target = found.groups()
    if re.match(r"[a-z]+:|#", target):
        return found[0]
    name, hash_, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(base, name))
    place = _place(path)
    if place is None:
        return text
    return f"{mark}[{text}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{hash_}{anchor})"


def _place(path: str) -> str | None:
    """Return where the site has a file of the repository, None if nowhere."""
    if path in _TOP:
        return _TOP[path]
    if path == "examples":
        return "examples/index.md"
    if path.startswith("examples/"):
        return f"examples/{path.split('/')[1].removesuffix('.py')}.md"
    if not path.startswith("docs/"):
        return None
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path.removeprefix("docs/"))


def _keep(found: re.Match[str], page: str, known: Callable[[str], bool]) -> str:
    """Return a link as it is, or its text if the site has no such place (a folder, a file with measurements)."""
    mark, text, target = found.groups()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
    if mark or re.match(r"[a-z]+:|#", target) or path.endswith(".md") or known(path):
        return found[0]
    return text


def _block(found: re.Match[str]) -> str:
    language, code = found.groups()
    if language == "mermaid":
        return f'<div class="diagram">{svg(code)}</div>\n'
    return found[0]
