"""Random schedules of faults, each protocol: no rule is broken. A failure prints the trace and how to replay it.

Each run plays the same schedules of each protocol (see ``seeds``). PYCONSUMER_SIM_SEEDS sets another number,
PYCONSUMER_SIM_FIRST another first seed. ``random`` draws one, named by each failure and at the end of the run.
``tox -e sim`` sets both.
"""

from __future__ import annotations

import pytest

from tests.simulation.replays import BLOCK, play_block
from tests.simulation.seeds import COUNT, FIRST
from tests.simulation.world import PROTOCOLS, play


@pytest.mark.parametrize("block", range(-(-COUNT // BLOCK)))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_rule_is_broken(protocol: str, block: int, simulated: dict[str, int]) -> None:
    broken = play_block(protocol, block, lambda seed: play(protocol, seed), simulated)
    assert not broken, (
        f"{protocol}: schedules {broken} broke a rule; the traces are above (PYCONSUMER_SIM_FIRST={FIRST})"
    )


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        ("both", 5117),
        ("both", 20110),
        ("both", 23207),
        ("both", 23596),
        ("both", 26315),
        ("consumer", 5184),
        ("consumer", 20148),
        # A commit that the network held came after its member, in the same epoch, had given up the partition.
        ("consumer", 36008908),
    ],
)
def test_schedules_that_once_broke_a_rule(protocol: str, seed: int) -> None:
    """Two owners, partitions without one, a commit of an earlier life. (A changed simulation changes the meaning.)"""
    play(protocol, seed)
