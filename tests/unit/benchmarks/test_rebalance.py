"""Tests of the simulated groups of the rebalance benchmark."""

from __future__ import annotations

import pytest

from tests.benchmarks.simulated_groups import measure


def longest(assignor: str, event: str, *, in_step: bool = False) -> float:
    """Seconds. At most 20 ms of it is the time between two polls."""
    (found,) = measure(assignor, 5, 1, in_step=in_step)["rounds"]
    assert len(found[event]["gaps_s"]) >= 8, "of 10 partitions two may move"
    return float(max(found[event]["gaps_s"]))


@pytest.mark.slow
@pytest.mark.parametrize("event", ["join", "leave"])
def test_the_pause_of_partitions_that_stay_in_a_rebalance(event: str) -> None:
    assert longest("cooperative-sticky", event) <= 0.021
    assert longest("range", event) > 0.5, "an eager member waits for the others' heartbeats"
    assert longest("range", event, in_step=True) < 0.1
