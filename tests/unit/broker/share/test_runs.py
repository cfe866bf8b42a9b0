"""Runs of a share partition whose transitions are being written."""

from __future__ import annotations

from pyconsumer.broker.share.runs import Run, Runs
from pyconsumer.broker.share.state import ACKNOWLEDGED, ACQUIRED


def test_a_run_that_the_log_start_cuts_ends_its_transition() -> None:
    run = Run(0, 9, ACQUIRED, 1, "m")
    runs = Runs()
    runs.replace([run])
    run.begin(ACKNOWLEDGED)
    runs.drop_before(5)
    run.end(written=True)
    assert [(one.first, one.last, one.state) for one in runs] == [(5, 9, ACKNOWLEDGED)]
    runs.drop_before(10)
    assert len(runs) == 0
