"""Random schedules of one share partition: no rule is broken, and a broken one is noticed.

PYCONSUMER_SIM_SEEDS sets how many schedules are played, and PYCONSUMER_SIM_FIRST the first (see ``seeds``).
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.share import coordinator, state
from pyconsumer.broker.share.runs import Run, Runs
from pyconsumer.broker.share.share_partition import Outcome, SharePartition
from pyconsumer.broker.share.state import ACQUIRED, AVAILABLE
from tests.simulation.seeds import FIRST
from tests.simulation.share.world import BrokenRule, play

_COUNT = int(os.environ.get("PYCONSUMER_SIM_SEEDS") or 200)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", "pyconsumer.broker.share")


@pytest.mark.parametrize("block", range(4))
def test_no_rule_is_broken(block: int) -> None:
    for seed in range(FIRST + block, FIRST + _COUNT, 4):
        play(seed)


def _first_broken(most: int = 60) -> str:
    """Play schedules until one breaks a rule. Return the rule."""
    for seed in range(1, most + 1):
        try:
            play(seed)
        except BrokenRule as error:
            return str(error).partition("rule ")[2][:1]
    return "none"


def _confirmed_without_a_write(share: SharePartition, changed: list[Run]) -> Deferred[Outcome]:
    for run in changed:
        run.end(written=True)
    return Deferred.of(Outcome())


def _dropped_all(runs: Runs) -> int | None:
    last = max((run.last for run in runs), default=None)
    runs.replace(())
    return None if last is None else last + 1


def _ended_all(share: SharePartition) -> None:
    for run in share.runs:
        if run.is_held:
            run.become(AVAILABLE)


_BREAKS: dict[str, tuple[Any, str, Any, str]] = {
    "an acknowledgement is confirmed before it is stored": (SharePartition, "_write", _confirmed_without_a_write, "1"),
    "the older of two states holds": (state, "combine", lambda before, after, start: tuple(before), "1"),
    "locked records are free": (
        Run,
        "is_free",
        property(lambda run: run.state in (AVAILABLE, ACQUIRED) and run.target is None),
        "2",
    ),
    "records in transition are free": (Run, "is_free", property(lambda run: run.state in (AVAILABLE, ACQUIRED)), "2"),
    "a delivery is not counted": (
        Run,
        "acquire",
        lambda run, member, deadline: Run.__init__(run, run.first, run.last, ACQUIRED, run.count, member, deadline),
        "3",
    ),
    "aborted records are delivered": (SharePartition, "_archive_aborted", lambda share, found, *ends: list(found), "4"),
    "the start offset moves past free records": (Runs, "drop_done", _dropped_all, "15"),
    "locks end early": (SharePartition, "expire_locks", _ended_all, "2"),
    "a coordinator forgets updates": (coordinator.ShareState, "changed_by", lambda kept, value: kept, "1"),
}


@pytest.mark.parametrize("name", _BREAKS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, replacement, rule = _BREAKS[name]
    monkeypatch.setattr(owner, attribute, replacement)
    assert _first_broken() in tuple(rule)
