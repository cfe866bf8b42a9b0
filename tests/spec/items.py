"""Reads, checks and counts the requirement lists. This module reads no tests."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LISTS = ("client", "broker", "transactions")
FOLDER = Path(__file__).parent

OPEN = "open"
DONE = "done"
DIFFERS = "differs"
DESIGN = "design"
SAME = "same as"
NOT_APPLICABLE = "not applicable"
SETTLED = (DONE, DIFFERS, DESIGN)  # the kinds that claim something about the product, which a test shows
RESOLVED = (OPEN, DONE, DESIGN, DIFFERS, NOT_APPLICABLE)  # what a `same as` can turn out to be
KINDS = (*RESOLVED, SAME)

ITEM_ID = re.compile(r"[A-Z]{2,4}-(?:EX|P|R)?\d{1,3}[a-z]?")
FULL_ID = re.compile(rf"(?:{'|'.join(LISTS)}):{ITEM_ID.pattern}")

_PREFIXED_STATUS = re.compile(r"(differs|design|not applicable): (\S(?:.*\S)?)")
_SAME_STATUS = re.compile(rf"same as (?:({'|'.join(LISTS)}):)?({ITEM_ID.pattern})")
_REFERENCE = re.compile(rf"(?<![\w:-])(?:({'|'.join(LISTS)}):)?({ITEM_ID.pattern})(?![\w-])")


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a list. `kind` is the status without its text, or `""` when the status is none of the known ones."""

    list_name: str
    item_id: str
    sentence: str
    status: str
    section: str
    line: int

    @property
    def full_id(self) -> str:
        return f"{self.list_name}:{self.item_id}"

    @property
    def kind(self) -> str:
        if self.status in (OPEN, DONE):
            return self.status
        if found := _PREFIXED_STATUS.fullmatch(self.status):
            return found[1]
        return SAME if _SAME_STATUS.fullmatch(self.status) else ""

    @property
    def claims(self) -> bool:
        """True if the status claims something about the product that a test can show."""
        return self.kind in SETTLED and "; no test: " not in self.status

    @property
    def target(self) -> str | None:
        """The full id that a `same as` points at."""
        found = _SAME_STATUS.fullmatch(self.status)
        return f"{found[1] or self.list_name}:{found[2]}" if found else None


class ListFormatError(ValueError):
    """A line that is not `id <TAB> sentence <TAB> status`."""


def read_list(path: Path) -> list[Item]:
    """The items of one list in their order. The list's name is the file's."""
    items = []
    section = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("#"):
            section = line.lstrip("# ").rstrip()
            continue
        fields = line.split("\t")
        if len(fields) != 3 or not ITEM_ID.fullmatch(fields[0]):
            raise ListFormatError(f"{path.name}:{number}: want id, sentence and status between tabs: {line[:80]!r}")
        items.append(Item(path.stem, fields[0], fields[1], fields[2], section, number))
    return items


def read_lists(folder: Path = FOLDER) -> list[Item]:
    """All items of the three lists."""
    return [item for name in LISTS for item in read_list(folder / f"{name}.tsv")]


def problems(items: Iterable[Item]) -> list[str]:
    """Return the faults of the lists themselves, one line a problem, with file and line number."""
    items = list(items)
    by_id: dict[str, Item] = {}
    found = []
    for item in items:
        if item.full_id in by_id:
            found.append(f"{_place(item)}: second line for this id, the first is line {by_id[item.full_id].line}")
        by_id.setdefault(item.full_id, item)
    prefixes = {item.item_id.partition("-")[0] for item in items}
    for item in items:
        if not item.kind:
            found.append(f"{_place(item)}: unknown status {item.status!r}")
        if not item.sentence.endswith(".") or item.sentence != item.sentence.strip():
            found.append(f"{_place(item)}: not a sentence: {item.sentence[-40:]!r}")
        if item.target is not None:
            target = by_id.get(item.target)
            if target is None:
                found.append(f"{_place(item)}: same as {item.target}, which does not exist")
            elif target.target is not None:
                found.append(f"{_place(item)}: same as {item.target}, which itself only points at {target.target}")
        found.extend(_dangling(item, by_id, prefixes))
    return found + _disagreeing(items, by_id)


def resolve(items: Iterable[Item], among: Iterable[Item] | None = None) -> dict[str, str]:
    """Return the kind of each item by full id. A `same as` has the kind of its target, looked up in `among`.

    Raises ListFormatError if a target does not exist or is a `same as` itself.
    """
    items = list(items)
    by_id = {item.full_id: item for item in (items if among is None else among)}
    resolved = {}
    for item in items:
        target = item if item.target is None else by_id.get(item.target)
        if target is None or target.kind == SAME:
            raise ListFormatError(f"{_place(item)}: {item.status}: that item is missing or itself only a 'same as'")
        resolved[item.full_id] = target.kind
    return resolved


def count_by_section(items: Iterable[Item], kinds: Mapping[str, str]) -> dict[tuple[str, str], dict[str, int]]:
    """(list, section) -> the number of items of each kind in `kinds` (see `resolve`), in the order of the lists."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for item in items:
        row = counts.setdefault((item.list_name, item.section), dict.fromkeys(RESOLVED, 0))
        kind = kinds[item.full_id]
        row[kind] = row.get(kind, 0) + 1
    return counts


def _place(item: Item) -> str:
    return f"{item.list_name}.tsv:{item.line}: {item.item_id}"


def _disagreeing(items: Iterable[Item], by_id: Mapping[str, Item]) -> list[str]:
    """Items with the sentence of an earlier one but another status, after each `same as` was resolved."""
    found = []
    first: dict[str, Item] = {}
    for item in items:
        other = first.setdefault(" ".join(item.sentence.casefold().split()), item)
        here, there = (by_id.get(one.target or one.full_id, one) for one in (item, other))
        if here.kind != there.kind:
            found.append(
                f"{_place(item)}: {here.kind or here.status!r}, but {other.full_id} says the same and is {there.kind}"
            )
    return found


def _dangling(item: Item, by_id: Mapping[str, Item], prefixes: Container[str]) -> list[str]:
    """References to absent items. Text such as KIP-345 or UTF-16 has a prefix that no list uses."""
    text = item.sentence if item.kind == SAME else f"{item.sentence} {item.status}"
    missing = []
    for list_name, item_id in _REFERENCE.findall(text):
        where = list_name or item.list_name
        if item_id.partition("-")[0] in prefixes and f"{where}:{item_id}" not in by_id:
            missing.append(f"{_place(item)}: names {where}:{item_id}, which does not exist")
    return missing
