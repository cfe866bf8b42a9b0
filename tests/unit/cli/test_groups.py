"""Tests of the output of ``groups describe`` for moving groups. For real groups: ``behaviour/test_group_tools.py``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from pyconsumer.admin import GroupDescription, MemberDescription
from pyconsumer.cli.groups import _print
from pyconsumer.structs import BrokerMetadata, TopicPartition


def shown(capsys: pytest.CaptureFixture[str], group: GroupDescription) -> str:
    _print(Console(width=200, markup=False), group, [])
    return capsys.readouterr().out


def member(name: str, has: str, **more: object) -> MemberDescription:
    return MemberDescription(f"id-{name}", None, name, "/h", partitions(has), ("t",), **more)  # type: ignore[arg-type]


def partitions(numbers: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", int(number)) for number in numbers)


def group(*members: MemberDescription, **more: object) -> GroupDescription:
    node = BrokerMetadata(3, "one", 9092)
    return GroupDescription("g", "Stable", "consumer", "uniform", members, node, **more)  # type: ignore[arg-type]


def test_a_classic_group_has_no_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, group(member("a", "01"), member("b", "")))
    assert out.startswith("group g: Stable, 2 members, type classic, assignor uniform, coordinator 3 (one:9092)\n")
    assert "epoch" not in out
    assert "to be" not in out
    assert "none" in out


def test_a_classic_group_with_another_protocol_type_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, replace(group(), protocol_type="connect", group_type=""))
    assert ", type unknown, protocol type connect, assignor" in out


def test_epochs_and_pending_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    newer = {"group_type": "consumer", "epoch": 5, "assignment_epoch": 5}
    settled = shown(capsys, group(member("a", "01", epoch=5, target=partitions("01")), **newer))
    assert "1 member, type consumer, epoch 5, assignor uniform" in settled
    assert "to be" not in settled
    moving = group(
        member("a", "012", epoch=4, target=partitions("01")),
        member("b", "", epoch=5, target=partitions("2")),
        **(newer | {"epoch": 6}),
    )
    out = shown(capsys, moving)
    assert "type consumer, epoch 6 (assignment of 5), assignor" in out
    lines = [line.split("\t") for line in out.splitlines() if "id-" in line]
    assert [line[3:] for line in lines] == [["id-a", "t:0,1,2", "4", "t:0,1"], ["id-b", "none", "5", "t:2"]]


def test_control_characters_of_clients_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    found = group(member("evil\x1b[2J\nline", "01"))
    out = shown(capsys, replace(found, group_id="g\x1b]0;title\x07\r"))
    assert not set(out) & set("\x1b\x07\r")
    assert out.startswith("group g\\x1b]0;title\\x07\\r: Stable")
    assert "evil\\x1b[2J\\nline" in out
