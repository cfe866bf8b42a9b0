"""The list of rules beside a module of tests: its file, and the names in it.

A test gets topics and groups with a random part at the end. In a list their names are prefixes without that part, so
that the list fits the next run, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyconsumer.acls import AclBinding, PatternType

__all__ = ["SUFFIX", "fill_in", "list_of", "pattern_in", "rules_of", "write_list"]

#: Takes the place of ``.py`` in the name of the module of tests.
SUFFIX: Final = ".kafka-acls"
_TEST: Final = "# test: "
_HEADER: Final = "# What the tests of this module need. Written by pytest --kafka-acls=record.\n"


def list_of(module: Path) -> Path:
    """Return the file with the rules for a module of tests."""
    return module.with_suffix(SUFFIX)


def _read(path: Path) -> dict[str, list[str]]:
    """Return the lines with rules by test. Lines above the first test hold for all tests, under an empty name."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    test = ""
    for line in map(str.strip, lines):
        if line.startswith(_TEST):
            test = line.removeprefix(_TEST).strip()
            found.setdefault(test, [])
        elif line and not line.startswith("#"):
            found.setdefault(test, []).append(line)
    return found


def rules_of(path: Path, test: str) -> list[AclBinding]:
    """Return the rules for a test. Raises ``ConfigurationError`` if a line is no rule."""
    from pyconsumer.acls import parse_acl

    found = _read(path)
    return [acl for line in [*found.get("", ()), *found.get(test, ())] for acl in parse_acl(line)]


def write_list(path: Path, tests: Mapping[str, Iterable[AclBinding]]) -> int:
    """Replace the rules of tests in a list, and keep the others. Return how many rules were written."""
    from pyconsumer.broker.access.recorder import without_contained

    fresh = {test: [str(acl) for acl in without_contained(acls)] for test, acls in tests.items()}
    found = {"": [], **_read(path), **fresh}
    shared = found.pop("")
    parts = [_HEADER, "".join(f"{line}\n" for line in shared)]
    parts += [f"\n{_TEST}{test}\n" + "".join(f"{line}\n" for line in lines) for test, lines in sorted(found.items())]
    path.write_text("".join(parts), encoding="utf-8")
    return sum(map(len, fresh.values()))


def pattern_in(run: str, name: str) -> tuple[str, PatternType]:
    """Return the name or prefix by which a list names a resource.

    Args:
        run: the random part of the names in this run of pytest.
    """
    from pyconsumer.acls import PatternType

    before, found, _ = name.partition(f"-{run}-")
    return (f"{before}-", PatternType.PREFIXED) if found else (name, PatternType.LITERAL)


def fill_in(line: str, names: Mapping[str, str]) -> str:
    """Return the line of a mark with the names of a test's topic and group in place of ``{kafka_topic}`` and such."""

    def quoted(found: re.Match[str]) -> str:
        return json.dumps(names[found[1]]) if found[1] in names else found[0]

    return re.sub(r"\{(\w+)\}", quoted, line)
