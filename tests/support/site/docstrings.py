"""Docstrings as Markdown: sections of arguments, roles such as ``:meth:`poll```, and blocks after ``::``."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["markdown"]

_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")
_TITLES = {"Args": "Arguments"}
_ROLE = re.compile(r":(?:\w+:)?(\w+):`~?([^`]+)`")
_LITERAL = re.compile(r"``(.+?)``", re.DOTALL)
_ITEM = re.compile(r"(\*{0,2}[\w.]+(?:(?:,| and| or) \*{0,2}[\w.]+)*): (.*)", re.DOTALL)

Resolve = Callable[[str], str | None]
"""A function that returns the address of a documented name, or None."""


def markdown(text: str, resolve: Resolve) -> str:
    """Return a docstring as Markdown.

    Args:
        text: as ``inspect.getdoc`` returns it.
        resolve: finds the address of a name that a role refers to.
    """
    parts: list[str] = []
    lines = text.splitlines()
    while lines:
        section = _section_name(lines[0])
        if section:
            body, lines = _indented(lines[1:])
            parts.append(f"**{_TITLES.get(section, section)}**\n\n{_section(section, body, resolve)}")
        elif lines[0].endswith("::"):
            intro = lines[0][:-1].rstrip(": ")
            code, lines = _indented(lines[1:])
            parts.append((f"{_inline(intro, resolve)}:\n\n" if intro else "") + _fence(code))
        else:
            end = next((at for at, line in enumerate(lines) if _begins_block(line) and at), len(lines))
            parts.append(_inline("\n".join(lines[:end]), resolve))
            lines = lines[end:]
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def _begins_block(line: str) -> bool:
    return line.endswith("::") or bool(_section_name(line))


def _section_name(line: str) -> str:
    """Return the section that a line such as ``Args:`` begins, or an empty string."""
    found = re.fullmatch(r"(\w+)(?: \(.*\))?:", line)
    return found[1] if found and found[1] in _SECTIONS else ""


def _indented(lines: list[str]) -> tuple[list[str], list[str]]:
    """Split the indented lines, without their indentation, from the following ones."""
    end = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    block = lines[:end]
    margin = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
    return [line[margin:] for line in block], lines[end:]


def _fence(code: list[str]) -> str:
    return "```python\n" + "\n".join(code).strip("\n") + "\n```"


def _section(name: str, body: list[str], resolve: Resolve) -> str:
    items: list[str] = []
    for line in body:
        if line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        elif line.strip():
            items.append(line.strip())
    if name in ("Returns", "Yields"):
        return _inline(" ".join(items), resolve)
    return "\n".join(f"* {_item(item, resolve)}" for item in items)


def _item(item: str, resolve: Resolve) -> str:
    found = _ITEM.fullmatch(item)
    if not found:
        return _inline(item, resolve)
    names = re.sub(r"[*\w.]+", lambda name: name[0] if name[0] in ("and", "or") else f"`{name[0]}`", found[1])
    return f"{names}: {_inline(found[2], resolve)}"


def _inline(text: str, resolve: Resolve) -> str:
    def role(found: re.Match[str]) -> str:
        name = found[2].partition("<")[2].rstrip(">") or found[2]
        shown = name.rpartition(".")[2] if found[1] in ("class", "meth", "func", "data", "exc", "attr") else name
        code = f"`{shown.lstrip('.')}`"
        address = resolve(name)
        return f"[{code}]({address})" if address else code

    return _LITERAL.sub(r"`\1`", _ROLE.sub(role, text))
