"""`python -m tests.spec`: the state of the requirement lists, and their open items."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.spec.areas import area_of
from tests.spec.items import (
    DESIGN,
    DIFFERS,
    DONE,
    FOLDER,
    KINDS,
    NOT_APPLICABLE,
    OPEN,
    RESOLVED,
    SAME,
    Item,
    count_by_section,
    read_lists,
    resolve,
)
from tests.spec.mutations import read_mutations
from tests.spec.page import PAGE, page

_COLUMNS = {OPEN: "open", DONE: "done", DESIGN: "design", DIFFERS: "differs", NOT_APPLICABLE: "not appl."}


def main(arguments: Sequence[str] | None = None, *, folder: Path = FOLDER) -> int:
    """Runs the command. Returns the exit status (0, or 2 for a wrong call)."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="LIST|LIST:PREFIX", help="only these, for example client broker:JG")
    parser.add_argument("--list", action="store_true", help="print each open item with its sentence")
    parser.add_argument("--status", choices=KINDS, default=OPEN, help="with --list: this status instead of open")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--page", action="store_true", help=f"write {PAGE.name}, which maps rows to areas and their tests"
    )
    options = parser.parse_args(arguments)

    everything = read_lists(folder)
    items = [item for item in everything if not options.only or _wanted(item, options.only)]
    kinds = resolve(items, everything)
    if options.page:
        PAGE.write_text(page(everything, read_mutations()), encoding="utf-8")
        print(PAGE)
    elif options.json:
        json.dump(_as_json(items, kinds), sys.stdout, indent=1, ensure_ascii=False)
        print()
    elif options.list:
        for item in items:
            if options.status in (kinds[item.full_id], item.kind):
                print(f"{item.full_id}\t{item.sentence}" + ("" if item.status == item.kind else f"\t{item.status}"))
    else:
        _print_counts(items, kinds)
    return 0


def _wanted(item: Item, only: Sequence[str]) -> bool:
    return any(item.list_name == text or item.full_id.startswith(text if ":" in text else f"{text}:") for text in only)


def _print_counts(items: list[Item], kinds: dict[str, str]) -> None:
    counts = count_by_section(items, kinds)
    width = max((len(section) for _, section in counts), default=0)
    heads = "".join(f"{head:>10}" for head in _COLUMNS.values())
    for name in dict.fromkeys(list_name for list_name, _ in counts):
        print(f"{name:<{width + 2}}{heads}")
        rows = {section: row for (list_name, section), row in counts.items() if list_name == name}
        for section, row in rows.items():
            print(f"  {section:<{width}}" + "".join(f"{row[kind] or '-':>10}" for kind in _COLUMNS))
        totals = "".join(f"{sum(row[kind] for row in rows.values()):>10}" for kind in _COLUMNS)
        print(f"  {'all':<{width}}{totals}\n")
    still_open = [item.full_id for item in items if kinds[item.full_id] == OPEN]
    print(f"{len(still_open)} of {len(items)} items are open")
    same = sum(item.kind == SAME for item in items)
    print(f"{same} say 'same as' and count as the item that they point at")


def _as_json(items: list[Item], kinds: dict[str, str]) -> dict[str, object]:
    return {
        "counts": {kind: sum(one == kind for one in kinds.values()) for kind in RESOLVED},
        "sections": [
            {"list": name, "section": section, **row} for (name, section), row in count_by_section(items, kinds).items()
        ],
        "items": [
            {
                "id": item.full_id,
                "section": item.section,
                "sentence": item.sentence,
                "status": item.status,
                "kind": kinds[item.full_id],
                "area": area_of(item.full_id).name,
            }
            for item in items
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
