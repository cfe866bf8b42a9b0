"""Random schedules of faults, each protocol: no rule is broken. A failure prints the trace and how to replay it.

The ordinary suite plays the same ``SCHEDULES`` of each protocol every time. ``tox -e sim`` sets PYCONSUMER_SIM_SEEDS to
the number of each protocol, and begins at a fresh seed, which it prints; PYCONSUMER_SIM_FIRST sets the first seed.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.simulation.world import PROTOCOLS, BrokenRule, play

SCHEDULES = 300
_BLOCK = 20

_wanted = os.environ.get("PYCONSUMER_SIM_SEEDS")
COUNT = int(_wanted) if _wanted else SCHEDULES
_first = os.environ.get("PYCONSUMER_SIM_FIRST")
FIRST = int(_first) if _first else (random.SystemRandom().randrange(10**6) * 1000 if _wanted else 0)


@pytest.mark.spec("client:RZ-01", "transactions:ASG-06", "client:IC-15")
@pytest.mark.parametrize("block", range(-(-COUNT // _BLOCK)))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_rule_is_broken(protocol: str, block: int) -> None:
    start = FIRST + block * _BLOCK
    seeds = range(start, min(start + _BLOCK, FIRST + COUNT))
    print(f"{protocol}: seeds {seeds.start} to {seeds.stop - 1}")
    broken = []
    for seed in seeds:
        try:
            play(protocol, seed)
        except BrokenRule as error:
            broken.append(seed)
            print(error)
    assert not broken, f"{protocol}: schedules {broken} broke a rule; the traces are above"
