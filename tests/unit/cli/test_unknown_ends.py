"""Partitions whose end is unknown: ``groups describe`` and ``groups export`` show the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer import OffsetAndMetadata, TopicPartition
from pyconsumer.admin import GroupDescription
from pyconsumer.admin.first_records import FirstRecords
from pyconsumer.admin.log_ends import LogEnds
from pyconsumer.cli import _run, groups, positions
from pyconsumer.structs import BrokerMetadata, OffsetAndTimestamp

_T = [TopicPartition("t", number) for number in range(3)]
_REASON = "its leader, node 2: no response to LIST_OFFSETS from h:9092 within 5 s"


class Admin:
    """A cluster whose node 2 is frozen. It leads partitions 1 and 2."""

    def __init__(self) -> None:
        self.aged: list[TopicPartition] = []
        self.frozen: dict[TopicPartition, str] = {}  # after the ends were read

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_groups(self, **_: Any) -> list[Any]:
        return [self.described()]

    def described(self) -> GroupDescription:
        return GroupDescription("g", "Empty", "consumer", "", (), BrokerMetadata(0, "h", 1))

    def first_records(self, _: object, wanted: dict[TopicPartition, int], timeout_ms: int) -> FirstRecords:
        self.aged += wanted
        known = {tp: OffsetAndTimestamp(at, 0) for tp, at in wanted.items() if tp not in self.frozen}
        return FirstRecords(known, {tp: self.frozen[tp] for tp in wanted if tp in self.frozen})


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    monkeypatch.setattr(groups, "KafkaAdminClient", lambda options: made)
    monkeypatch.setattr(positions, "descriptions_of", lambda *_: {"g": made.described()})
    monkeypatch.setattr(positions, "offsets_of", lambda *_: {"g": dict.fromkeys(_T, OffsetAndMetadata(4))})
    found = LogEnds({_T[0]: 10}, {_T[1]: _REASON, _T[2]: _REASON})
    monkeypatch.setattr(positions, "ends_of", lambda *_: found)
    monkeypatch.setattr(positions, "first_records_of", made.first_records)
    return made


def test_describe_shows_the_reason_below_the_table(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["groups", "describe", "g", "--lag-time"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "lag of 1 of 3 partitions: 6",
        f"end of 2 of 3 partitions unknown: {_REASON}",
    ]
    assert admin.aged == [_T[0]], "the frozen leader is not asked once more"


def test_describe_as_json_has_the_reason(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["groups", "describe", "g", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["partitions"]
    assert [(one["lag"], one.get("end_unknown")) for one in shown] == [(6, None), (None, _REASON), (None, _REASON)]


def test_the_export_has_minus_one_and_an_error_line(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client")
    from pyconsumer.cli.export import GroupLags

    families = {one.name: one for one in GroupLags(admin, ".*", "", 1000).collect()}  # type: ignore[arg-type]
    assert [one.value for one in families["kafka_consumergroup_lag"].samples] == [6, -1, -1]
    assert [one.value for one in families["pyconsumer_groups_up"].samples] == [1]
    assert capsys.readouterr().err == f"Error: end of t-1, t-2 unknown: {_REASON}\n"


def test_the_error_line_names_the_first_of_many_partitions(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("prometheus_client")
    from pyconsumer.cli.export import GroupLags

    many = [TopicPartition("t", number) for number in range(1203)]
    monkeypatch.setattr(positions, "offsets_of", lambda *_: {"g": dict.fromkeys(many, OffsetAndMetadata(4))})
    monkeypatch.setattr(positions, "ends_of", lambda *_: LogEnds({}, dict.fromkeys(many, _REASON)))
    list(GroupLags(admin, ".*", "", 1000).collect())  # type: ignore[arg-type]
    assert capsys.readouterr().err == f"Error: end of t-0, t-1, t-2 and 1,200 more unknown: {_REASON}\n"


def test_a_leader_that_freezes_after_the_ends_were_read_has_a_reason_everywhere(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("prometheus_client")
    from pyconsumer.cli.export import GroupLags

    admin.frozen = {_T[0]: _REASON}
    at = {"g": {_T[0]: OffsetAndMetadata(4)}, "h": {_T[0]: OffsetAndMetadata(5)}}
    monkeypatch.setattr(positions, "descriptions_of", lambda *_: dict.fromkeys(at, admin.described()))
    monkeypatch.setattr(positions, "offsets_of", lambda *_: at)
    assert _run(["groups", "describe", "g", "--lag-time"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"lag time of 1 of 1 partitions unknown: {_REASON}"
    assert admin.aged == [_T[0]], "groups at several offsets ask it once"

    assert _run(["groups", "describe", "g", "--lag-time", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (row["lag"], row["lag_time_s"], row["lag_time_unknown"]) == (6, None, _REASON)

    families = {one.name: one for one in GroupLags(admin, ".*", "", 1000, lag_time=True).collect()}  # type: ignore[arg-type]
    assert {one.value for one in families["kafka_consumergroup_lag_seconds"].samples} == {-1}
    assert capsys.readouterr().err == f"Error: lag time of t-0 unknown: {_REASON}\n", "two groups have it"
