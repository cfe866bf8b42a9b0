"""Random schedules of faults, each protocol: no rule is broken. A failure prints the trace and how to replay it.

Each run plays the same schedules of each protocol (see ``seeds``). PYCONSUMER_SIM_SEEDS sets another number,
PYCONSUMER_SIM_FIRST another first seed; ``random`` draws one, named by each failure and at the end of the run.
``tox -e sim`` sets both.
"""

from __future__ import annotations

import pytest

from tests.simulation.seeds import COUNT, FIRST
from tests.simulation.world import PROTOCOLS, BrokenRule, play

_BLOCK = 20


@pytest.mark.spec("client:RZ-01", "transactions:ASG-06", "client:IC-15")
@pytest.mark.parametrize("block", range(-(-COUNT // _BLOCK)))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_rule_is_broken(protocol: str, block: int, simulated: dict[str, int]) -> None:
    start = FIRST + block * _BLOCK
    seeds = range(start, min(start + _BLOCK, FIRST + COUNT))
    print(f"{protocol}: seeds {seeds.start} to {seeds.stop - 1}")
    broken = []
    for seed in seeds:
        simulated[protocol] = simulated.get(protocol, 0) + 1
        try:
            play(protocol, seed)
        except BrokenRule as error:
            broken.append(seed)
            print(error)
    assert not broken, (
        f"{protocol}: schedules {broken} broke a rule; the traces are above (PYCONSUMER_SIM_FIRST={FIRST})"
    )
