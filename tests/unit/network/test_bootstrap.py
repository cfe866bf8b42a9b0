"""No broker at start: the log lines, and the limit that a user may set."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from pyconsumer.errors import BootstrapResolutionError, KafkaError, NoBrokersAvailableError
from pyconsumer.network.bootstrap import BootstrapWatch

CAUSE = "TCP connection to a:1 failed: Connection refused"


def wait(watch: BootstrapWatch, start: float, seconds: float, **more: Any) -> list[tuple[float, KafkaError]]:
    """Poll whenever it is due, for this long. Return the errors with their times."""
    first = more.get("first", True)
    errors = []
    now = start
    while now <= start + seconds:
        error = watch.waiting(now, **({"first": True, "all_failed": True, "causes": lambda: CAUSE} | more))
        if error is not None:
            errors.append((now - start, error))
        now = watch.due_at(first=first)
        assert now > start
    return errors


def test_the_first_line_is_logged_at_once_and_later_ones_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    watch = BootstrapWatch("a:1, b:2")
    assert watch.due_at(first=True) == math.inf
    assert not wait(watch, 1000.0, 1500.0)
    shown = [record.getMessage() for record in caplog.records]
    assert shown[0] == f"no broker at a:1, b:2 has responded yet, trying again: {CAUSE}"
    assert [text.split(" responded ")[1].partition(",")[0] for text in shown[1:]] == [
        f"for {n} s" for n in (10, 30, 70, 150, 310, 610, 910, 1210)
    ]
    assert {(record.name, record.levelno) for record in caplog.records} == {("pyconsumer.network", logging.WARNING)}
    watch.responded(2600.0)
    assert caplog.records[-1].getMessage() == "a broker has responded after 1600.0 s"


def test_a_cluster_that_is_there_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    watch = BootstrapWatch("a:1, b:2")
    watch.waiting(0.0, first=True, all_failed=False, causes=lambda: CAUSE)  # a has failed, b is under way
    watch.responded(1.0)
    assert caplog.records == []
    assert watch.due_at(first=True) == math.inf


def test_an_address_that_never_answers_is_reported_after_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    watch = BootstrapWatch("a:1")
    for now in (0.0, 4.9):
        watch.waiting(now, first=True, all_failed=False, causes=lambda: CAUSE)
    assert caplog.records == []
    watch.waiting(5.0, first=True, all_failed=False, causes=lambda: CAUSE)
    assert "yet" in caplog.records[0].getMessage()


def test_the_limit_is_an_error_repeatedly_until_the_first_response() -> None:
    watch = BootstrapWatch("a:1", 3.0)
    errors = wait(watch, 0.0, 10.0)
    assert [at for at, _ in errors] == [3.0, 6.0, 9.0]
    assert isinstance(errors[0][1], NoBrokersAvailableError)
    assert str(errors[0][1]) == f"no broker at a:1 has responded within 3 s (bootstrap_timeout_ms): {CAUSE}"
    watch.responded(11.0)
    assert wait(watch, 20.0, 100.0, first=False) == [], "a cluster that is lost later is no such error"
    assert wait(BootstrapWatch("a:1"), 0.0, 5000.0) == [], "without a limit there is none"


def test_names_resolved_in_time_are_no_error_even_without_a_reachable_broker() -> None:
    watch = BootstrapWatch("a:1", resolve_timeout=3.0)
    watch.waiting(0.0, first=True, all_failed=False, causes=lambda: CAUSE, resolved=False)
    assert watch.due_at(first=True) == 3.0
    watch.waiting(2.0, first=True, all_failed=False, causes=lambda: CAUSE, resolved=True)
    assert wait(watch, 2.0, 100.0, resolved=False) == []


def test_names_that_are_not_found_are_reported_once() -> None:
    watch = BootstrapWatch("a:1", resolve_timeout=3.0)
    errors = wait(watch, 0.0, 100.0, resolved=False)
    assert [(at, type(error)) for at, error in errors] == [(3.0, BootstrapResolutionError)]
