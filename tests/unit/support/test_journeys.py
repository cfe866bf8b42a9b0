"""The journeys through the package stay short, and the tool that counts them follows functions that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.process import run

ROOT = Path(__file__).parents[3]

#: The most modules that each journey may have on its way.
AIMS = {
    "a record, from the socket to the user": 18,
    "a commit, in the client": 16,
    "a commit, in the broker": 15,
    "a rebalance, above the socket": 16,
    "a Spark batch, in pyconsumer.spark": 9,
}


@pytest.mark.slow
@pytest.mark.spark
def test_journeys_are_within_their_aims() -> None:
    least: dict[str, int] = {}
    for _ in range(3):  # on a busy machine a call that comes late takes another way, so the shortest of some counts
        output = run([sys.executable, "-m", "tests.support.journeys"], timeout_s=120, cwd=ROOT).check().stdout
        counts = {title: int(count) for title, count in re.findall(r"^(a .*): (\d+) on its way", output, re.MULTILINE)}
        assert counts.keys() == AIMS.keys(), output
        assert "every hand-over was met" in output
        least = {title: min(count, least.get(title, count)) for title, count in counts.items()}
        if all(count <= AIMS[title] for title, count in least.items()):
            return
    raise AssertionError(f"{least} is above {AIMS}:\n{output}")
