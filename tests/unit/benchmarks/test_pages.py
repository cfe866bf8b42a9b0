"""Tables, plots and pages of results."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.benchmarks import __main__ as program
from tests.benchmarks import consume, rebalance, report
from tests.benchmarks.cells import CORE, GRID, MAIN
from tests.benchmarks.report import update
from tests.benchmarks.results import Results, Run, Series
from tests.benchmarks.tables import Table, figure, markdown_table
from tests.benchmarks.workloads import WORKLOADS

_ABOUT = {
    "command": "python -m tests.benchmarks",
    "machine": "a machine",
    "date": "2026-11-22",
    "rounds": 3,
    "load": 0.25,
}
_ROW = {"name": "pyconsumer, eager", "note": "", "median": 20.0, "min": 10.0, "max": 30.0}


def filled(path: Path | None = None, *, grid: bool = False) -> Results:
    """Two rounds of every core cell and one cell of the grid, in which one contender always fails."""
    results = Results(path)
    results.append({"about": _ABOUT})
    for cell in GRID if grid else CORE:
        for round_ in (1, 2):
            if round_ == 1 or cell in CORE:
                scope = results.scope("consume", cell.name)
                scope.add(round_, Run("pyconsumer", "ours", 4e6, 0.5 * round_, 0.5, 80_000_000))
                scope.add(round_, Run("Java, same loop", "theirs", 4e6, 2.0, 3.0, 500_000_000))
                scope.add(round_, Run("kafka-python", "3.0", error="TimeoutError: no|thing"))
    return results


@pytest.mark.slow
def test_each_page_gets_its_tables(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tables = [
        Table("rebalance-join", "Joining", "ms", "So it was done.", "", [_ROW], rebalance.PAGE),
        Table("consume", "Consuming", "records/s", "So it was done.", "", [_ROW | {"cpu_s_per_million": None}]),
    ]
    written = update(tmp_path, tables, _ABOUT, ["consume", "rebalance"])
    assert {path.name for path in written} == {
        f"{page}.{kind}" for page in ("benchmarks", rebalance.PAGE) for kind in ("md", "png", "json")
    }
    assert all(path.exists() for path in written)
    text = (tmp_path / f"{rebalance.PAGE}.md").read_text()
    assert text.startswith("# The cost of a rebalance\n")
    assert "| **pyconsumer, eager** | 20.0 | 10.0 | 30.0 |" in text
    assert "Consuming" not in text
    main = (tmp_path / "benchmarks.md").read_text()
    assert "(benchmarks.png)" in main
    assert "(benchmarks-times.png)" not in main, "there is no such plot yet"
    assert "on a machine, 2026-11-22; load average at the start: 0.25." in main
    assert list(json.loads((tmp_path / "benchmarks.json").read_text())["tables"]) == ["consume"]


@pytest.fixture
def _no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: a plot takes longer than the rest of a page."""
    monkeypatch.setattr(report, "PAGES", {name: replace(page, plots={}) for name, page in report.PAGES.items()})


@pytest.mark.usefixtures("_no_plots")
def test_a_new_table_replaces_the_old_one_in_the_order_of_the_workloads(tmp_path: Path) -> None:
    for name, title in (("produce", "Producing"), ("consume", "Old"), ("consume", "New"), ("other", "Other")):
        update(tmp_path, [Table(name, title, "records/s", "", "", [_ROW])], _ABOUT, list(WORKLOADS))
    text = (tmp_path / "benchmarks.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## New", "## Producing", "## Other"]


@pytest.mark.usefixtures("_no_plots")
def test_a_table_of_another_call_names_that_call(tmp_path: Path) -> None:
    update(tmp_path, [Table("produce", "Producing", "records/s", "How.", "", [_ROW])], _ABOUT, list(WORKLOADS))
    later = _ABOUT | {"command": "python -m tests.benchmarks consume", "machine": "another", "rounds": 1}
    update(tmp_path, [Table("consume", "Consuming", "records/s", "How.", "", [_ROW])], later, list(WORKLOADS))
    text = (tmp_path / "benchmarks.md").read_text()
    assert "on another, 2026-11-22" in text
    assert text.count("How.\n\n*3 rounds, made by `python -m tests.benchmarks` on a machine, 2026-11-22.*\n\n|") == 1
    assert text.index("## Consuming") < text.index("## Producing") < text.index("*3 rounds, made by")


def test_a_table_of_contenders() -> None:
    runs = [Run("pyconsumer", "ours", 1e6, seconds, 0.1, 50_000_000) for seconds in (0.1, 0.2, 0.4)]
    table = Table("consume", "Consuming", "records/s", "", "Java").take(
        [
            Series("pyconsumer", "ours", runs),
            Series("Java", "4.3.1", [Run("Java", "", 1e6, 1.0)]),
            Series("kafka-python", "3.0", errors=["late", "a|b"]),
        ]
    )
    assert markdown_table(asdict(table)).splitlines() == [
        "|  | median records/s | min | max | x Java | CPU s per million | peak MB | note |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
        "| **pyconsumer** | 5,000,000 | 2,500,000 | 10,000,000 | 5.00 | 0.10 | 50 | ours |",
        "| Java | 1,000,000 | 1,000,000 | 1,000,000 | 1.00 |  |  | 4.3.1 |",
        r"| kafka-python |  |  |  |  |  |  | 3.0; failed: a\|b |",
    ]


def test_cells_one_below_the_other() -> None:
    rates, costs, peaks = consume.tables(filled())[1:]
    lines = markdown_table(asdict(rates)).splitlines()
    assert lines[0] == "|  | **pyconsumer** | Java, same loop | kafka-python |"
    assert lines[2] == "| 100 B, 4 partitions | 6,000 (4,000-8,000) | 2,000 | failed |"
    assert lines[-1].startswith("| 1 kB, zstd, keys and headers, 4 partitions, embedded broker | 6,000 ")
    assert len(lines) == 2 + len(CORE)
    assert "| 100 B, 4 partitions | 0.125 | 0.75 | failed |" in markdown_table(asdict(costs))
    assert "| 100 B, 4 partitions | 80.0 | 500 | failed |" in markdown_table(asdict(peaks))


def test_the_brokers_time_has_a_table_if_it_was_measured() -> None:
    results = filled()
    for cell in CORE:
        of_broker = {"broker_cpu_s": 0.25}
        results.scope("consume", cell.name).add(3, Run("pyconsumer", "ours", 4e6, 0.5, 0.5, 80_000_000, of_broker))
    matrix = next(table for table in consume.tables(results) if table.name == "consume-core-broker")
    assert "| 100 B, 4 partitions | 0.25 |" in markdown_table(asdict(matrix))


def test_the_main_cell_has_a_complete_table() -> None:
    table = consume.tables(filled())[0]
    assert isinstance(table, Table)
    assert [item["name"] for item in table.series] == ["pyconsumer", "Java, same loop", "kafka-python"]
    assert "4,000,000 records of 100 bytes" in table.text
    assert "**pyconsumer** | 6,000,000 | 4,000,000 | 8,000,000 | 3.00 | 0.12 | 80 | ours |" in markdown_table(
        asdict(table)
    )


@pytest.mark.parametrize("value", [0.001234, 1.234, 12.34, 123.4, 1234.5, 6_682_976.1])
@pytest.mark.parametrize("unit", ["records/s", "thousand records/s", "ms"])
def test_figures_are_short(value: float, unit: str) -> None:
    text = figure(value, unit)
    assert len(text) <= 9
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.05, abs=0.05)


def test_the_grid_has_a_page_of_its_own() -> None:
    tables = consume.tables(filled(grid=True))
    grid = [table for table in tables if table.page == consume.GRID_PAGE]
    assert len(grid) == 6
    assert [len(table.rows) for table in grid] == [37] * 3 + [36] * 3  # type: ignore[union-attr]
    assert not [table for table in consume.tables(filled()) if table.page == consume.GRID_PAGE]


@pytest.mark.slow
def test_pages_are_made_from_the_file_alone(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file, docs = tmp_path / "results.jsonl", tmp_path / "docs"
    results = filled(file, grid=True)
    scope = results.scope("latency")
    for round_ in (1, 2):
        for name in ("pyconsumer", "Java"):
            scope.add(round_, Run(name, "", 5000, cpu_s=0.3, values={"p50_ms": 0.4, "p99_ms": 1.0 + round_}))
    done = CliRunner().invoke(
        program.main, ["--report-only", "--results", str(file), "--docs", str(docs)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in docs.iterdir()) == [
        "benchmarks-grid-embedded.png",
        "benchmarks-grid-kafka.png",
        "benchmarks-grid.json",
        "benchmarks-grid.md",
        "benchmarks-times.png",
        "benchmarks-topics.png",
        "benchmarks.json",
        "benchmarks.md",
        "benchmarks.png",
    ]
    text = (docs / "benchmarks.md").read_text()
    assert "## Latency end to end, p99" in text
    assert "| **pyconsumer** | 2.5 | 2.0 | 3.0 | 1.00 | 60.00 |" in text
    assert len(Results.load(file).lines) == len(results.lines), "nothing was run"


def test_report_only_needs_a_file() -> None:
    done = CliRunner().invoke(program.main, ["--report-only"])
    assert done.exit_code == 2
    assert "--report-only needs --results" in done.output


def test_the_command_on_the_page_names_no_files_of_this_machine() -> None:
    given = ["consume", "--results", "/home/me/r.jsonl", "--docs=/tmp/d", "--rounds", "3", "--results=x"]
    assert program._command(given) == "python -m tests.benchmarks consume --rounds 3"


def test_cells_are_listed() -> None:
    done = CliRunner().invoke(program.main, ["--list-cells"])
    assert done.output.splitlines()[0] == f"{MAIN.name}: Apache Kafka, {MAIN.title}"
    assert len(done.output.splitlines()) == len(GRID)
