"""Runs as lines of JSON. An aborted benchmark continues where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.measure import Contender, WrongAnswerError, alternate, checked
from tests.benchmarks.results import Results, Run


def test_runs_come_back_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    scope = Results.load(path).scope("consume", "a-cell")
    run = Run("pyconsumer", "0.1.0", 1000, 0.5, 0.25, 1 << 20, {"p50_ms": 1.5})
    scope.add(1, run)
    scope.add(2, run)
    (series,) = Results.load(path).scope("consume", "a-cell").series()
    assert series.runs == [run, run]
    assert (series.name, series.note, series.errors) == ("pyconsumer", "0.1.0", [])
    assert run.rate == 2000
    assert run.cpu_s_per_million == 250
    assert not Results.load(path).scope("consume", "another").series()
    assert not Results.load(path).scope("produce", "a-cell").series()


def test_a_line_that_was_cut_off_is_dropped_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Results.load(path).scope("consume").add(1, Run("a"))
    with path.open("a") as file:
        file.write('{"workload": "con')
    Results.load(path).scope("consume").add(1, Run("b"))
    assert [series.name for series in Results.load(path).scope("consume").series()] == ["a", "b"]


def test_an_aborted_benchmark_continues_where_it_stopped() -> None:
    scope = Results().scope("consume")
    calls: list[str] = []

    def contender(name: str, *, breaks_at: int = 0) -> Contender:
        def measure() -> Run:
            calls.append(name)
            if len(calls) == breaks_at:
                raise KeyboardInterrupt
            return Run("", amount=1, seconds=1)

        return Contender(name, measure)

    with pytest.raises(KeyboardInterrupt):
        alternate([contender("a"), contender("b", breaks_at=4)], 3, lambda _: None, scope)
    assert calls == ["a", "b", "a", "b"]
    calls.clear()
    alternate([contender("a"), contender("b")], 3, lambda _: None, scope)
    assert calls == ["b", "a", "b"]
    assert [len(series.runs) for series in scope.series()] == [3, 3]


def test_a_failing_contender_does_not_stop_the_others_and_is_retried() -> None:
    scope = Results().scope("consume")
    said: list[str] = []
    answers = iter(
        [WrongAnswerError("bad: records is 3, it should be 4"), AssertionError("not done\n-- stderr\noops\n")]
    )

    def measure() -> Run:
        error = next(answers, None)
        if error:
            raise error
        return Run("", amount=1, seconds=1)

    contenders = [Contender("bad", measure), Contender("good", lambda: Run("", amount=1, seconds=1))]
    alternate(contenders, 2, said.append, scope)
    bad, good = scope.series()
    assert bad.errors == ["bad: records is 3, it should be 4", "oops"]
    assert (len(bad.runs), len(good.runs)) == (0, 2)
    assert sum("FAILED" in text for text in said) == 2
    alternate(contenders, 2, said.append, scope)
    bad, good = scope.series()
    assert (len(bad.runs), len(good.runs)) == (2, 2)


def test_a_wrong_answer_raises() -> None:
    checked("it", {"records": 2, "more": 1}, {"records": 2, "more": 2}, ["records"])
    with pytest.raises(WrongAnswerError, match="it: checksums is"):
        checked("it", {"checksums": [1] * 1000}, {"checksums": [2] * 1000}, ["checksums"])


def test_the_description_of_several_calls() -> None:
    results = Results()
    assert results.about()["command"] == ""
    for command, rounds, load in (("bench", 5, 2.0), ("bench --grid", 1, 0.5), ("bench", 5, 0.1)):
        results.append({"about": {"command": command, "machine": "mine", "rounds": rounds, "load": load}})
    assert results.about() == {"command": "bench\n$ bench --grid", "machine": "mine", "rounds": 5, "load": 2.0}


def test_the_newest_table_of_each_name_is_kept() -> None:
    results = Results()
    for title in ("old", "new"):
        results.append({"workload": "rebalance", "table": {"name": "rebalance-join", "title": title}})
    assert results.tables("rebalance") == [{"name": "rebalance-join", "title": "new"}]
