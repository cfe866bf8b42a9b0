"""Schedules of groups of the consumer protocol, mixed with classic members. The rules: :mod:`.consumer_groups`."""

from __future__ import annotations

import os

import pytest

from tests.simulation.consumer_groups import run

#: Schedules in the suite; ``PYCONSUMER_SIM_CONSUMER_GROUPS`` asks for more.
_COUNT = int(os.environ.get("PYCONSUMER_SIM_CONSUMER_GROUPS") or 20)
_FIRST = int(os.environ.get("PYCONSUMER_SIM_CONSUMER_GROUPS_FIRST") or 1)


@pytest.mark.parametrize("first", range(_FIRST, _FIRST + _COUNT, 5))
def test_one_owner_no_lost_commit_and_nobody_starves(first: int) -> None:
    for seed in range(first, min(first + 5, _FIRST + _COUNT)):
        run(seed)
