"""Members whose group is driven between their reads: over 1,000 rebalances with faults, and no record is missing."""

from __future__ import annotations

import pytest

from tests.simulation.apart import play_apart
from tests.simulation.replays import BLOCK, play_block
from tests.simulation.seeds import COUNT_APART, FIRST

PROTOCOLS = ("eager", "static", "cooperative", "consumer", "both")


@pytest.mark.parametrize("block", range(-(-COUNT_APART // BLOCK)))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_record_is_missing_and_no_other_rule_is_broken(protocol: str, block: int, simulated: dict[str, int]) -> None:
    rebalances = kept = 0

    def play(seed: int) -> None:
        nonlocal rebalances, kept
        world = play_apart(protocol, seed)
        rebalances += world.callbacks["assigned"]
        kept += world.kept

    broken = play_block(f"apart-{protocol}", block, play, simulated, COUNT_APART)
    assert not broken, (
        f"{protocol}: schedules {broken} broke a rule; the traces are above (PYCONSUMER_SIM_FIRST={FIRST})"
    )
    if COUNT_APART % BLOCK == 0:
        assert rebalances > 60, "four blocks of five protocols make more than 1,000"
        assert kept > 10, "members go on at their positions"
