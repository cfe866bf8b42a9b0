"""The report of a run says which schedules it played."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import FIRST

_played: dict[str, int] = {}


@pytest.fixture(scope="session")
def simulated() -> dict[str, int]:
    """Return how many schedules of each protocol were played."""
    return _played


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line with the counts and the first seed."""
    if _played:
        counts = ", ".join(f"{count} {protocol}" for protocol, count in _played.items())
        terminalreporter.line(f"simulated schedules: {counts}; PYCONSUMER_SIM_FIRST={FIRST}")
