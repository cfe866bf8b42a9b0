"""``groups watch``: its rows, their display, and its retries."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from pyconsumer import OffsetAndMetadata, TopicPartition
from pyconsumer.admin import GroupDescription, MemberDescription, ShareOffset
from pyconsumer.admin.first_records import FirstRecords
from pyconsumer.admin.log_ends import LogEnds
from pyconsumer.cli import _run, positions, watch
from pyconsumer.cli.watch import Watch, _picture
from pyconsumer.clock import ManualClock
from pyconsumer.errors import GroupIdNotFoundError, KafkaConnectionError, KafkaError
from pyconsumer.structs import BrokerMetadata

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Admin:
    """A cluster with one group, g, whose member owns both partitions and has committed for one."""

    def __init__(self) -> None:
        self.committed = 100
        self.end = 1000
        self.error: KafkaError | None = None
        self.calls: list[str] = []

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None: ...

    def describe(self, names: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        self.calls.append("describe")
        if self.error is not None:
            raise self.error
        member = MemberDescription("m", None, "client\x1b", "/h", (T0, T1), ("t",))
        node = BrokerMetadata(0, "h", 1)
        group = GroupDescription("g", "Stable", "consumer", "range", (member,), node)
        shared = replace(group, group_type="share")
        known = {"g": group, "s": shared}
        return {name: known.get(name[0], GroupIdNotFoundError("no such group")) for name in names}

    def share_offsets(self, names: Iterable[str]) -> dict[str, dict[TopicPartition, ShareOffset]]:
        self.calls.append("share offsets")
        return {name: {T0: ShareOffset(7, 0, 3)} for name in names}

    def first_records(self, _: object, wanted: dict[TopicPartition, int], timeout_ms: int) -> FirstRecords:
        self.calls.append("first records")
        return FirstRecords(dict.fromkeys(wanted), {})

    def offsets(self, names: Iterable[str]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        self.calls.append("offsets")
        return {name: {T0: OffsetAndMetadata(self.committed)} for name in names}

    def ends(self, wanted: Iterable[TopicPartition]) -> LogEnds:
        self.calls.append("ends")
        return LogEnds(dict.fromkeys(wanted, self.end), {})


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    clock = ManualClock()

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        made.committed += 50

    monkeypatch.setattr(watch, "KafkaAdminClient", lambda options: made)
    monkeypatch.setattr(positions, "descriptions_of", lambda admin, names, timeout_ms: admin.describe(names))
    monkeypatch.setattr(positions, "offsets_of", lambda admin, names, timeout_ms: admin.offsets(names))
    monkeypatch.setattr(positions, "share_offsets_of", lambda admin, names, timeout_ms: admin.share_offsets(names))
    monkeypatch.setattr(positions, "ends_of", lambda admin, wanted, timeout_ms: admin.ends(wanted))
    monkeypatch.setattr(positions, "first_records_of", made.first_records)
    time = SimpleNamespace(sleep=sleep, monotonic=clock.now, time=lambda: 1e9)
    monkeypatch.setattr(watch, "time", time)
    monkeypatch.setattr(watch.Watch.__init__, "__kwdefaults__", {"clock": clock.now, "now_ms": lambda: 1e12})
    return made


def test_without_a_terminal_watch_prints_plain_lines(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["groups", "watch", "g", "-n", "2", "-i", "5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "time\tgroup\ttopic\tpartition\tcommitted\tend\tlag\tclient",
        "2001-09-09T01:46:40Z\tg\tt\t0\t100\t1000\t900\tclient\\x1b",
        "2001-09-09T01:46:40Z\tg\tt\t1\t-\t1000\t-\tclient\\x1b",
        "2001-09-09T01:46:40Z\tg\tt\t0\t150\t1000\t850\tclient\\x1b",
        "2001-09-09T01:46:40Z\tg\tt\t1\t-\t1000\t-\tclient\\x1b",
    ]


def test_a_look_at_many_groups_is_few_calls(admin: Admin) -> None:
    seen = Watch(admin, [f"g{number}" for number in range(50)], 1000)  # type: ignore[arg-type]
    assert [look.lag for look in seen.look()] == [900] * 50
    assert admin.calls == ["describe", "offsets", "ends"]


def test_groups_of_both_kinds_with_their_lag_as_time_are_few_calls(admin: Admin) -> None:
    names = [f"{kind}{number}" for kind in "gs" for number in range(25)]
    found = positions.positions_of(admin, names, 1000, lag_time=True)  # type: ignore[arg-type]
    shown = []
    for name in names:
        one = found[name]
        assert not isinstance(one, KafkaError)
        shown.append([(row.committed, row.lag, row.lag_time, row.owner is None) for row in one[1]])
    assert (
        shown
        == [[(100, 900, 0.0, False), (None, None, None, False)]] * 25
        + [[(7, 3, 0.0, True), (None, None, None, True)]] * 25
    )
    # Two offsets of one partition are two calls, however many groups there are.
    assert admin.calls == ["describe", "offsets", "share offsets", "ends", *["first records"] * 2]


def test_json(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["groups", "watch", "g", "other", "-n", "2", "-i", "5", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["group"], line["state"], line["lag"]) for line in lines] == [
        ("g", "Stable", 900),
        ("other", "does not exist", None),
        ("g", "Stable", 850),
        ("other", "does not exist", None),
    ]
    assert [part["per_second"] for line in lines for part in line["partitions"]] == [None, None, 10.0, None]


def test_a_table_for_people(admin: Admin) -> None:
    out = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    admin.committed, admin.end = 2_000_000, 3_000_000
    seen = Watch(admin, ["g"], 1000)  # type: ignore[arg-type]
    seen.look()
    out.print(_picture(seen.look()))
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    assert shown.startswith("group g: Stable, 1 member, lag 1,000,000, 2001-09-09T01:46:40Z\n")
    assert "\x1b[2J" not in shown
    for text in ("2,000,000", "3,000,000", "client\\x1b", "per second"):
        assert text in shown


def test_the_first_poll_raises_errors_and_later_ones_show_them(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["groups", "watch", "nobody", "-n", "1"]) == 1
    assert capsys.readouterr().err.startswith("Error: GROUP_ID_NOT_FOUND")
    seen = Watch(admin, ["g"], 1000)  # type: ignore[arg-type]
    assert seen.look()[0].lag == 900
    admin.error = KafkaConnectionError("the broker has gone")
    (look,) = seen.look()
    assert (look.state, look.rows, look.lag) == ("the broker has gone", (), None)
    admin.error = None
    assert seen.look()[0].lag == 900
