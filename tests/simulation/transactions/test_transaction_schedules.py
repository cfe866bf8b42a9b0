"""Random schedules of transactions under each version: no rule is broken, and a rule that is broken is noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.replays import BLOCK, digest_of, play_block
from tests.simulation.seeds import COUNT
from tests.simulation.transactions.__main__ import main
from tests.simulation.transactions.broken import CASES, RULES
from tests.simulation.transactions.world import play
from tests.simulation.world import BrokenRule

_VERSIONS = (0, 1, 2)
_ENOUGH = 300  # schedules until a broken rule must have been noticed
#: Schedules that are tried first, for rules that few of them show.
_LIKELY = {"no-verification": (295, 74, 122)}


@pytest.mark.parametrize("block", range(-(-COUNT // BLOCK)))
@pytest.mark.parametrize("version", _VERSIONS)
def test_no_rule_of_transactions_is_broken(version: int, block: int, simulated: dict[str, int]) -> None:
    broken = play_block(f"transactions-{version}", block, lambda seed: play(version, seed), simulated)
    assert not broken, f"version {version}: schedules {broken} broke a rule; the traces are above"


def _failure(rule: str, version: int) -> BrokenRule:
    for seed in (*_LIKELY.get(rule, ()), *range(1, _ENOUGH)):
        try:
            play(version, seed, broken=rule)
        except BrokenRule as error:
            return error
    raise AssertionError(f"{rule} was not noticed in {_ENOUGH} schedules of version {version}")


@pytest.mark.parametrize(("rule", "version"), CASES)
def test_a_broken_rule_of_transactions_is_noticed(rule: str, version: int) -> None:
    assert "replay: python -m tests.simulation.transactions" in str(_failure(rule, version))


def test_every_rule_can_be_broken() -> None:
    assert {rule for rule, _ in CASES} == set(RULES)


def test_a_replay_is_the_same_to_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = str(_failure("no-pending", 2))
    command = next(line for line in error.splitlines() if line.startswith("replay: "))
    assert main(command.removeprefix("replay: python -m tests.simulation.transactions ").split()) == 1
    assert capsys.readouterr().out.startswith(error)


def test_a_schedule_without_failure_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "2", "--seed", "3", "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "the faults are over" in printed
    assert "transaction.version 2: 1 schedules from seed 3, 0 failed" in printed


@pytest.mark.slow
def test_the_schedules_have_every_fault_and_every_fate() -> None:
    faults: Counter[str] = Counter()
    fates: Counter[str] = Counter()
    for version in _VERSIONS:
        for seed in range(15):
            world = play(version, seed)
            faults.update(world.faults)
            fates.update(world.ledger.fates)
    assert set(faults) == {
        *("answer", "crash", "cut", "exhaust", "feature", "hole", "kill", "lag", "late", "moment", "move"),
        *("outage", "pause", "swallow", "twin"),
    }
    assert set(fates) == {"commit asked for", "committed", "abort asked for", "aborted"}
    assert fates["committed"] > 500


def _digest(hash_seed: str) -> str:
    """The traces of some schedules in a process of its own, where strings have other hashes."""
    code = (
        "from tests.simulation.transactions.world import play\n"
        "for version in (0, 1, 2):\n"
        "    for seed in (1, 5, 31, 38):\n"
        "        print(play(version, seed).trace)\n"
    )
    return digest_of(code, hash_seed)


@pytest.mark.slow
def test_a_seed_means_the_same_schedule_in_every_process() -> None:
    assert _digest("1") == _digest("2")
