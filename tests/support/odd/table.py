"""The table of answers, ``tests/vectors/odd_requests.tsv``: reading, writing, comparing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pyconsumer.errors import Errors, for_code
from tests.support.odd import admin, groups, produce, reading, transactions, wire
from tests.support.odd.world import Case

__all__ = ["AREAS", "PATH", "Row", "cases", "meaning", "read", "write"]

PATH = Path(__file__).parents[2] / "vectors" / "odd_requests.tsv"

AREAS: dict[str, dict[str, Case]] = {
    "produce": produce.CASES,
    "reading": reading.CASES,
    "groups": groups.CASES,
    "transactions": transactions.CASES,
    "admin": admin.CASES,
    "bytes": wire.CASES,
}

_HEAD = """\
# Odd requests and what Apache Kafka answers, made by `python -m tests.support.odd`. Only the last two columns are
# written by hand: the embedded broker's answer where it is another one, and the reason.
"""
_COLUMNS = "area\tinput\tApache Kafka\tembedded broker\treason"
_CODE = re.compile(r"[A-Z][A-Z_0-9]{3,}")


class Row(NamedTuple):
    """An input and its answers. ``ours`` and ``reason`` are empty where the embedded broker answers as Kafka does."""

    area: str
    words: str
    kafka: str
    ours: str = ""
    reason: str = ""

    @property
    def expected(self) -> str:
        """The embedded broker's answer."""
        return self.ours or self.kafka


def cases() -> dict[tuple[str, str], Case]:
    """Return all inputs by area and words."""
    return {(area, words): case for area, table in AREAS.items() for words, case in table.items()}


def read(path: Path = PATH) -> dict[tuple[str, str], Row]:
    """Return the rows of the table by area and words."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines[0] == _COLUMNS, "the table's columns"
    rows = [Row(*line.split("\t")) for line in lines[1:]]
    return {(row.area, row.words): row for row in rows}


def write(rows: Iterable[Row], path: Path = PATH) -> None:
    lines = ["\t".join(row).rstrip("\t") + "\t" * (4 - "\t".join(row).rstrip("\t").count("\t")) for row in rows]
    path.write_text(_HEAD + "\n".join([_COLUMNS, *lines]) + "\n", encoding="utf-8")


def meaning(answer: str) -> list[str]:
    """Return an answer as a client takes it: each code is accepted, to be retried, or rejected as fatal.

    An answer without a code is a closed connection, or none at all: a client takes both as lost, and retries.
    """
    found = []
    for code in _CODE.findall(answer):
        if code in Errors.__members__:
            number = Errors[code]
            found.append("accepted" if not number else "retry" if for_code(number).retriable else "refused")
    return found
