"""Random schedules of real share consumers and real brokers: no rule is broken, and a broken one is noticed."""

from __future__ import annotations

import pytest

from tests.simulation.replays import BLOCK, digest_of, play_block
from tests.simulation.seeds import COUNT
from tests.simulation.share.__main__ import main
from tests.simulation.share.broken import NOTICED, RULES
from tests.simulation.share.consumers import play_consumers
from tests.simulation.world import BrokenRule

_ENOUGH = 60  # schedules until a broken rule must have been noticed


@pytest.mark.parametrize("block", range(-(-COUNT // BLOCK)))
def test_no_rule_of_share_consumers_is_broken(block: int, simulated: dict[str, int]) -> None:
    broken = play_block("share consumers", block, play_consumers, simulated)
    assert not broken, f"schedules {broken} broke a rule; the traces are above"


@pytest.mark.parametrize("seed", [409301])  # a fetch that waited took a record whose renewal came too late
def test_a_schedule_that_broke_a_rule_breaks_none_any_more(seed: int) -> None:
    assert play_consumers(seed).finals


def _failure(rule: str) -> str:
    for seed in range(1, _ENOUGH):
        try:
            play_consumers(seed, broken=rule)
        except BrokenRule as error:
            return str(error)
    raise AssertionError(f"{rule} was not noticed in {_ENOUGH} schedules")


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_of_share_consumers_is_noticed(rule: str) -> None:
    assert f"rule {NOTICED[rule]}:" in _failure(rule)


def test_a_replay_is_the_same_to_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = _failure("twice")
    command = next(line for line in error.splitlines() if line.startswith("replay: "))
    assert main(command.removeprefix("replay: python -m tests.simulation.share ").split()) == 1
    assert capsys.readouterr().out.startswith(error)


@pytest.mark.slow
def test_a_seed_means_the_same_schedule_in_every_process() -> None:
    code = (
        "from tests.simulation.share.consumers import play_consumers\n"
        "for seed in (1, 5, 10, 17):\n"
        "    world = play_consumers(seed)\n"
        "    print(world.trace, sorted(world.finals), world.now)\n"
    )
    assert digest_of(code, "1") == digest_of(code, "2")
