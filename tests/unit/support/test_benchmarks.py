"""The benchmarks themselves: what the simulated groups show, and the pages that are written of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.rebalance import PAGE
from tests.benchmarks.simulated_groups import measure


def longest(assignor: str, event: str, *, in_step: bool = False) -> float:
    """Seconds; at most 20 ms of it is the time between two polls."""
    (found,) = measure(assignor, 5, 1, in_step=in_step)["rounds"]
    assert len(found[event]["gaps_s"]) >= 8, "of 10 partitions two may move"
    return float(max(found[event]["gaps_s"]))


@pytest.mark.spec("client:IC-02", "client:IC-04")
@pytest.mark.parametrize("event", ["join", "leave"])
def test_what_a_rebalance_costs_partitions_that_stay(event: str) -> None:
    assert longest("cooperative-sticky", event) <= 0.021
    assert longest("range", event) > 0.5, "an eager member waits for the others' heartbeats"
    assert longest("range", event, in_step=True) < 0.1


def test_each_page_gets_its_tables(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tests.benchmarks.report import update
    from tests.benchmarks.workloads import Table

    row = {"name": "pyconsumer, eager", "note": "", "median": 20.0, "min": 10.0, "max": 30.0}
    tables = [
        Table("rebalance-join", "Joining", "ms", "So it was done.", "", [row], PAGE),
        Table("consume", "Consuming", "records/s", "So it was done.", "", [row | {"cpu_s_per_million": None}]),
    ]
    written = update(tmp_path, tables, "python -m tests.benchmarks", 3, ["consume", "rebalance"], 0.25)
    assert {path.name for path in written} == {
        f"{page}.{kind}" for page in ("benchmarks", PAGE) for kind in ("md", "png", "json")
    }
    text = (tmp_path / f"{PAGE}.md").read_text()
    assert text.startswith("# What a rebalance costs\n")
    assert "| **pyconsumer, eager** | 20.0 | 10.0 | 30.0 |" in text
    assert "Consuming" not in text
    assert list(json.loads((tmp_path / "benchmarks.json").read_text())["tables"]) == ["consume"]
