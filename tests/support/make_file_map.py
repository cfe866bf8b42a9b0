"""Writes the file map of docs/how-it-works.md: a line for each module, from the first sentence of its docstring.

``python -m tests.support.make_file_map`` writes it. A test compares the page with the tree.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tests.support.kept_readings import KeptReadings
from tests.support.syntax_trees import parse

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-it-works.md"
BEGIN = "<!-- file map: made by python -m tests.support.make_file_map -->\n"
END = "<!-- end of the file map -->\n"
#: Folders whose modules are one of a kind and named after their contents: a line for the folder serves.
_FOLDERS = {
    "protocol/messages": "one module per API: its request and response, field by field, with version ranges",
    "broker/handlers": "one module per API, named as in `protocol/messages`: decode, check, call, encode",
    "cli": "the command `pyconsumer`: one module per subcommand, and what they share, such as `options`",
    "cli/demo": "`pyconsumer demo`: flights, members of a group, a Spark job, the screen",
}


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring on one line, without markup of Sphinx."""
    text = " ".join((ast.get_docstring(parse(path)) or "").split())
    sentence = re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".:")
    sentence = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", sentence)
    return sentence.replace("``", "`").replace("|", "\\|")


_sentences = KeptReadings("file-map", first_sentence, [sys.modules[__name__]], place=ROOT / "pyconsumer")


def file_map() -> str:
    """Return the map as Markdown: a heading and a table for each package, modules in alphabetical order."""
    package = ROOT / "pyconsumer"
    lines: list[str] = []
    for folder in [package, *sorted(path for path in package.rglob("*") if path.is_dir())]:
        name = folder.relative_to(package).as_posix()
        modules = sorted(path for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py"))
        if not (modules or name == "cli/demo") or "__pycache__" in name:
            continue
        lines += [
            f"\n**`{name if name != '.' else 'pyconsumer'}`**" + (f": {_FOLDERS[name]}" if name in _FOLDERS else "")
        ]
        if name not in _FOLDERS:
            lines += ["", "| module | contents |", "|---|---|"]
            rows = zip(modules, _sentences.of(modules), strict=True)
            lines += [f"| `{path.stem}` | {sentence} |" for path, sentence in rows]
    return "\n".join(lines).lstrip("\n") + "\n"


def page_with_map() -> str:
    """Return the page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{file_map()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_map(), encoding="utf-8")
