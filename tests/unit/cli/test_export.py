"""The collector of ``pyconsumer groups export``."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

pytest.importorskip("prometheus_client")  # the extra [prometheus]

from pyconsumer.cli.export import GroupLags


def test_a_scrape_that_waits_for_another_one_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    begun, end = threading.Event(), threading.Event()

    class Admin:
        def list_groups(self, *, timeout_ms: float) -> list[Any]:
            begun.set()
            end.wait(30)
            return []

        def _run(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {}

        def list_offsets(self, *_: Any, **__: Any) -> dict[Any, Any]:
            return {}

    lags = GroupLags(Admin(), ".*", "", 100)  # type: ignore[arg-type]
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.extend(lags.collect()))
    thread.start()
    try:
        assert begun.wait(30)
        began = time.monotonic()
        (up,) = lags.collect()
        assert time.monotonic() - began < 20
    finally:
        end.set()
        thread.join()
    assert [sample.value for sample in up.samples] == [0]
    assert "the scrape before this one has not ended" in capsys.readouterr().err
    assert [sample.value for sample in first[-1].samples] == [1]
    assert [sample.value for sample in list(lags.collect())[-1].samples] == [1]
