"""The cells of the benchmarks: their topics and settings."""

from __future__ import annotations

import pytest

from tests.benchmarks.cells import APACHE, CORE, EMBEDDED, GRID, MAIN, Cell


def test_the_grid_is_every_combination_once_and_one_topic_in_lz4() -> None:
    assert len(GRID) == len(set(GRID)) == len({cell.name for cell in GRID}) == 2 * 3 * 2 * 2 * 3 + 1
    assert [cell for cell in GRID if cell.codec == "lz4"] == [Cell(codec="lz4")]
    assert {cell.size_bytes for cell in GRID} == {100, 1000, 1_000_000}
    assert {cell.partitions for cell in GRID} == {1, 4, 1000}
    assert {cell.broker for cell in GRID} == {APACHE, EMBEDDED}


def test_fourteen_cells_are_the_core() -> None:
    assert len(CORE) == len(set(CORE)) == 14
    assert set(CORE) < set(GRID)
    assert CORE[0] == MAIN
    # Each size, codec, number of partitions and broker is among them, with keys and without.
    for name in ("size_bytes", "codec", "keyed", "partitions", "broker"):
        assert {getattr(cell, name) for cell in CORE} == {getattr(cell, name) for cell in GRID}, name


@pytest.mark.parametrize("scale", [1.0, 0.01, 1e-6])
@pytest.mark.parametrize("quick", [True, False])
def test_every_partition_gets_the_same_number_of_records(scale: float, quick: bool) -> None:
    for cell in GRID:
        records = cell.records(quick=quick, scale=scale)
        assert records >= cell.partitions
        assert records % cell.partitions == 0


def test_a_run_of_the_main_cell_reads_a_million_records_of_each_partition() -> None:
    assert MAIN.records(quick=True) == 4_000_000
    assert MAIN.records(quick=False) == 500_000


def test_names_for_people_and_for_options() -> None:
    assert MAIN.title == "100 B, 4 partitions"
    assert MAIN.name == "kafka-100-none-plain-4"
    other = Cell(1000, "zstd", True, 1000, EMBEDDED)
    assert other.title == "1 kB, zstd, keys and headers, 1,000 partitions"
    assert other.name == "embedded-1000-zstd-keyed-1000"
    assert Cell(partitions=1).title == "100 B, 1 partition"
