"""The page that maps the rows of the lists to the areas that guard them: made by ``python -m tests.spec --page``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.spec.areas import AREAS, ROOT, Area
from tests.spec.items import DESIGN, DIFFERS, DONE, NOT_APPLICABLE, OPEN, Item, resolve
from tests.spec.mutations import Mutation

__all__ = ["PAGE", "page"]

PAGE = ROOT / "docs/proof/requirements.md"
_KINDS = {DONE: "done", DESIGN: "design", DIFFERS: "differs", NOT_APPLICABLE: "not applicable", OPEN: "open"}

_HEAD = """\
# Requirements, the tests that guard them, and rules broken on purpose

Made by `python -m tests.spec --page`. Don't edit it.

The requirement lists are [tests/spec](../../tests/spec): one sentence a row, with its status. A row belongs to an area
of the product, and the tests of that area guard all of its rows together. Tests do not name rows: an audit broke the
rules of 55 rows on purpose. The tests of the area noticed 95 % of that, the tests that named the rows only 60 %.

Each line of the tables below is a rule that was broken on purpose: the row, the file, and the test that failed. You can
repeat it:

```sh
python -m tests.spec.mutations client:HB
```
"""


def page(items: Sequence[Item], mutations: Sequence[Mutation]) -> str:
    """Return the page's text."""
    kinds = resolve(items)
    parts = [_HEAD]
    heads = " | ".join(_KINDS.values())
    parts.append(f"| area | {heads} | rules broken |\n|---|{'---|' * len(_KINDS)}---|\n")
    for area in AREAS:
        rows = _of(area, items)
        counts = Counter(kinds[item.full_id] for item in rows)
        tried = sum(one.full_id.partition("-")[0] in area.prefixes for one in mutations)
        cells = " | ".join(str(counts[kind]) for kind in _KINDS)
        parts.append(f"| [{area.name}](#{_anchor(area.name)}) | {cells} | {tried} |\n")
    parts += [_section(area, mutations) for area in AREAS]
    return "".join(parts)


def _of(area: Area, items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.full_id.partition("-")[0] in area.prefixes]


def _anchor(name: str) -> str:
    return "".join(c for c in name.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _section(area: Area, mutations: Iterable[Mutation]) -> str:
    lines = [f"\n## {area.name[0].upper()}{area.name[1:]}\n"]
    lines.append("Rows: " + ", ".join(f"`{prefix}`" for prefix in area.prefixes) + ".\n")
    lines.append("Tests: " + ", ".join(f"`{path}`" for path in dict.fromkeys((*area.tests, *area.behaviour))) + ".\n")
    rows = [one for one in mutations if one.full_id.partition("-")[0] in area.prefixes]
    if rows:
        lines += ["| row | file | noticed by |", "|---|---|---|"]
        lines += [f"| {one.full_id} | `{one.path}` | `{one.noticed_by}` |" for one in rows]
        lines.append("")
    return "\n".join(lines)
