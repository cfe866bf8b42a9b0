"""``CompletedFetch``: the records of one partition from one response."""

from __future__ import annotations

import traceback
from concurrent.futures import Future

from pyconsumer.generic import PendingError
from tests.unit.consumer.builders import batch, tp
from tests.unit.consumer.worlds import Desk

_T0 = tp(0)


def test_an_error_that_is_raised_again_at_each_wake_keeps_no_frames() -> None:
    fetch = Desk(_T0).add(_T0, batch(0, 3))
    fetch.wait_for(0, "reader", PendingError(Future(), "schema 5"))
    depths = []
    for _ in range(3):
        error = fetch.awaited("reader")
        assert error is not None
        try:
            raise error
        except PendingError as raised:
            depths.append(len(traceback.extract_tb(raised.__traceback__)))
    assert depths == [1, 1, 1]
