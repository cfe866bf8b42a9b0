"""Breaks rules on purpose, to see that the tests of an area notice: ``python -m tests.spec.mutations``.

`mutations.tsv` holds one broken rule a line: the id of the row, the file, the text before and after, and the test that
noticed. The text before stands exactly once in its file, or a test says that the line is out of date. In both texts
``\\n`` stands for the end of a line.

Without arguments all of them are tried. ``client:HB broker:`` tries only rows whose ids begin so, and ``--new`` only
those that have not been tried. ``--draw COMMIT 40`` prints rows drawn at random, none of them in the file yet.

Each is tried in a copy of the sources, first on the area's tests without a broker, then on those with one.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.spec.areas import ROOT, area_of
from tests.spec.items import FOLDER, Item, read_lists

__all__ = ["MISSED", "MUTATIONS", "UNTRIED", "Mutation", "draw", "problems_of_mutations", "read_mutations"]

MUTATIONS = FOLDER / "mutations.tsv"
UNTRIED = "-"
MISSED = "not noticed"
_COPIED = ("pyconsumer", "tests", "pyproject.toml", "setup.py", "docs", "examples", "README.md", "CHANGELOG.md")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Mutation:
    """One rule that is broken, and the test that noticed, ``MISSED`` or ``UNTRIED``."""

    full_id: str
    path: str
    before: str
    after: str
    noticed_by: str

    def apply(self, root: Path) -> None:
        """Break the rule in a copy of the sources."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(self.before, self.after), encoding="utf-8")

    def undo(self, root: Path) -> None:
        """Restore the file from the sources."""
        shutil.copyfile(ROOT / self.path, root / self.path)


def read_mutations(path: Path = MUTATIONS) -> list[Mutation]:
    """Return the mutations in the order of the file."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        full_id, file, before, after, noticed_by = line.split("\t")
        found.append(Mutation(full_id, file, before.replace("\\n", "\n"), after.replace("\\n", "\n"), noticed_by))
    return found


def write_mutations(mutations: Iterable[Mutation], path: Path = MUTATIONS) -> None:
    """Replace the file."""
    lines = []
    for one in mutations:
        before, after = (text.replace("\n", "\\n") for text in (one.before, one.after))
        lines.append("\t".join((one.full_id, one.path, before, after, one.noticed_by)) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


def problems_of_mutations(mutations: Iterable[Mutation], items: Iterable[Item], root: Path = ROOT) -> list[str]:
    """Return the mutations that cannot be applied, one line each."""
    known = {item.full_id for item in items}
    found = []
    for one in mutations:
        file = root / one.path
        count = file.read_text(encoding="utf-8").count(one.before) if file.is_file() else 0
        if one.full_id not in known:
            found.append(f"{one.full_id}: no such row")
        if count != 1:
            found.append(f"{one.full_id}: {one.before!r} stands {count} times in {one.path}, not once")
        if one.before == one.after:
            found.append(f"{one.full_id}: {one.path} stays as it is")
    return found


def draw(commit: str, count: int, items: Iterable[Item], mutations: Iterable[Mutation]) -> list[Item]:
    """Return rows that claim something about the product, drawn by a commit's hash, without those tried before."""
    tried = {one.full_id for one in mutations}
    choice = sorted((item for item in items if item.claims and item.full_id not in tried), key=lambda it: it.full_id)
    return random.Random(commit).sample(choice, count)


def try_mutation(mutation: Mutation, root: Path) -> Mutation:
    """Break one rule in a copy of the sources, run the tests of its area, and return the test that noticed.

    Raises:
        RuntimeError: the tests could not be run, or the one that noticed fails without the broken rule, too.
    """
    area = area_of(mutation.full_id)
    mutation.apply(root)
    try:
        noticed_by = _first_failure(area.tests, root) or _first_failure(area.behaviour, root)
    finally:
        mutation.undo(root)
    if noticed_by is not None and _first_failure((noticed_by,), root) is not None:
        raise RuntimeError(f"{noticed_by} fails whether {mutation.full_id} is broken or not")
    return replace(mutation, noticed_by=noticed_by or MISSED)


def _first_failure(paths: Sequence[str], root: Path) -> str | None:
    """Run tests until one fails. Return it, None if all pass."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"),
            *("-m", "not kafka and not spark and not slow", "--timeout", "120"),
            *dict.fromkeys(paths),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if ended.returncode == 1 and (found := _FAILED.search(ended.stdout)):
        return found[1]
    if ended.returncode != 0:
        text = ended.stdout[-2000:] + ended.stderr[-2000:]
        raise RuntimeError(f"pytest ended with status {ended.returncode}:\n{text}")
    return None


def copy_sources(root: Path) -> None:
    """Copy the files for the tests, with the compiled parts."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
        else:
            shutil.copyfile(source, root / name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The status is 1 if no test notices a broken rule."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spec.mutations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("only", nargs="*", metavar="ID", help="only rows whose ids begin so")
    parser.add_argument("--new", action="store_true", help="only those that have not been tried")
    parser.add_argument("--draw", nargs=2, metavar=("COMMIT", "COUNT"), help="print rows drawn by a commit's hash")
    options = parser.parse_args(arguments)
    items, mutations = read_lists(), read_mutations()
    if options.draw:
        for item in draw(options.draw[0], int(options.draw[1]), items, mutations):
            print(f"{item.full_id}\t{item.sentence}\t{item.status}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        root = Path(folder)
        copy_sources(root)
        for place, one in enumerate(mutations):
            if options.only and not any(one.full_id.startswith(text) for text in options.only):
                continue
            if options.new and one.noticed_by != UNTRIED:
                continue
            mutations[place] = try_mutation(one, root)
            print(f"{one.full_id} {one.path}: {mutations[place].noticed_by}", flush=True)
            write_mutations(mutations)
    return int(any(one.noticed_by == MISSED for one in mutations))


if __name__ == "__main__":
    sys.exit(main())
