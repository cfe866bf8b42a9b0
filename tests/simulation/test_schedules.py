"""Random schedules of faults, each protocol: no rule is broken. A failure prints the trace and how to replay it.

Each run plays ``SCHEDULES`` of each protocol, from a fresh seed on that the end of its report names; it can be given as
PYCONSUMER_SIM_FIRST, to play the same ones. PYCONSUMER_SIM_SEEDS sets the number of each protocol; ``tox -e sim`` does.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.simulation.world import PROTOCOLS, BrokenRule, play

SCHEDULES = 500
_BLOCK = 20

COUNT = int(os.environ.get("PYCONSUMER_SIM_SEEDS") or SCHEDULES)
FIRST = int(os.environ.get("PYCONSUMER_SIM_FIRST") or random.SystemRandom().randrange(10**6) * 100_000)


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
    assert not broken, f"{protocol}: schedules {broken} broke a rule; the traces are above"
