"""The simulation itself: it notices broken rules, replays exactly, and works as documented."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.__main__ import main
from tests.simulation.broken import CASES
from tests.simulation.replays import digest_of
from tests.simulation.world import PROTOCOLS, BrokenRule, World, play

_ENOUGH = 60  # schedules until a broken rule must have been noticed
_NOTICED_BY = {
    "no-fencing": "was stored, although the group is in generation|moved the offset of",
    "no-revoking": "was assigned|were not revoked first|belongs to|it was told to own|but the assignment is",
    "no-expelling": "has had no owner for|is not settled",
    "no-loading": "is committed for",
    "no-hurry": "although its generation is lost",
    "no-withholding": "belongs to",
    "no-waiting": "which waits",
    "no-follow-up": "has had no owner for|is not settled",
    "no-giving-up": "belongs to",
    "no-callback": "were assigned before and never given up|were not revoked first|the assignment is",
}


def _failure(rule: str, protocol: str) -> BrokenRule:
    for seed in range(_ENOUGH):
        try:
            play(protocol, seed, broken=rule)
        except BrokenRule as error:
            return error
    raise AssertionError(f"{rule} was not noticed in {_ENOUGH} schedules")


@pytest.mark.parametrize(("rule", "protocol"), CASES)
def test_a_broken_rule_is_noticed(rule: str, protocol: str) -> None:
    error = _failure(rule, protocol)
    first = str(error).partition("\n")[0]
    assert any(text in first for text in _NOTICED_BY[rule].split("|")), first


def test_a_failure_prints_its_trace_and_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    error = str(_failure("no-fencing", "eager"))
    command = next(line for line in error.splitlines() if line.startswith("replay: "))
    arguments = command.removeprefix("replay: python -m tests.simulation ").split()
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(error), "the replay is the same to the last line"
    assert "assigned [" in error
    assert "fault: " in error


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_schedule_without_failure_says_so(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--protocol", protocol, "--seed", "3", "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "the faults are over" in printed
    assert f"{protocol}: 1 schedules from seed 3, 0 failed" in printed


def _digest(hash_seed: str) -> str:
    """The traces of some schedules in a process of its own, where strings have other hashes."""
    code = (
        "from tests.simulation.world import PROTOCOLS, play\n"
        "for protocol in PROTOCOLS:\n"
        "    for seed in (1, 10):\n"
        "        print('\\n'.join(play(protocol, seed).lines()))\n"
    )
    return digest_of(code, hash_seed)


@pytest.mark.slow
def test_a_seed_means_the_same_schedule_in_every_process() -> None:
    assert _digest("1") == _digest("2")


@pytest.mark.slow
def test_the_schedules_have_every_fault_and_every_callback() -> None:
    faults: Counter[str] = Counter()
    callbacks: Counter[str] = Counter()
    commits = delays = 0
    for protocol in PROTOCOLS:
        for seed in range(12):
            world: World = play(protocol, seed)
            faults.update(world.faults)
            callbacks.update(world.callbacks)
            commits += world.rules.commits
            delays += world.waiting.delayed
    common = {"append", "callback", "crash", "cut", "enforce", "fenced", "hole", "join", "leave", "move", "outage"}
    assert set(faults) == common | {"answer", "bounce", "pause", "restart", "stall", "swallow", "takeover"}
    assert min(callbacks.values()) > 10, callbacks
    assert commits > 1000
    assert delays > 2


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["consumer", "both"])
def test_commits_meet_an_epoch_that_has_moved_while_they_were_under_way(protocol: str) -> None:
    """KIP-848: the coordinator refuses them, and the member commits again. Rules about commits hold all the same."""
    assert any(play(protocol, seed).brokers.stale_commits for seed in range(60))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_that_go_as_bytes_change_nothing(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = []
    for every in (1, 1_000_000):
        monkeypatch.setattr("tests.simulation.world._AS_BYTES", every)
        worlds.append(play(protocol, 7))
    assert worlds[0].as_bytes
    assert not worlds[1].as_bytes
    assert list(worlds[0].lines()) == list(worlds[1].lines())
