"""Random schedules of members of a share group with three real brokers: no rule is broken, and a broken one is noticed.

PYCONSUMER_SIM_SEEDS sets how many schedules are played, and PYCONSUMER_SIM_FIRST the first (see ``seeds``).
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from pyconsumer.broker.group.share.group import ShareGroup, SharePartitionsInfo
from pyconsumer.broker.share.partitions import SharePartitions
from pyconsumer.broker.share.runs import Run
from pyconsumer.broker.share.sessions import ShareSession
from pyconsumer.broker.share.state import ACQUIRED, AVAILABLE
from tests.simulation.seeds import FIRST
from tests.simulation.share.members import BrokenRule, play_members

_COUNT = int(os.environ.get("PYCONSUMER_SIM_SEEDS") or 10)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "pyconsumer.broker")


@pytest.mark.parametrize("block", range(2))
def test_no_rule_is_broken(block: int) -> None:
    for seed in range(FIRST + block, FIRST + _COUNT, 2):
        play_members(seed)


def _first_broken(most: int = 60) -> str:
    """Play schedules until one breaks a rule. Return the rule."""
    for seed in range(1, most + 1):
        try:
            play_members(seed)
        except BrokenRule as error:
            return str(error).rpartition("rule ")[2][:1]
    return "none"


_BREAKS: dict[str, tuple[Any, str, Any, str]] = {
    "locked records are free": (
        Run,
        "is_free",
        property(lambda run: run.state in (AVAILABLE, ACQUIRED) and run.target is None),
        "2",
    ),
    "a fetch outlives its session": (ShareSession, "end", lambda session: None, "7"),
    "sessions outlive their connections": (SharePartitions, "_on_disconnect", lambda *where: None, "6"),
    "initialized partitions are forgotten": (
        SharePartitionsInfo,
        "end",
        lambda info, topics, *, successful: info,
        "5",
    ),
    "topics that are gone count as unassigned": (
        ShareGroup,
        "has_unassigned",
        lambda group, exists: bool(group.members) and len(group.partitions.initialized) != 2,
        "6",
    ),
}


@pytest.mark.parametrize("name", _BREAKS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, replacement, rule = _BREAKS[name]
    monkeypatch.setattr(owner, attribute, replacement)
    assert _first_broken() == rule
