"""The number of examples that property tests try: few by default, all in ``tox -e tests``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: ``PYCONSUMER_EXAMPLES=full`` tries all examples, hypothesis's default of 100 among others.
FULL = os.environ.get("PYCONSUMER_EXAMPLES") == "full"


def examples(full: int) -> int:
    """Return how many examples to try of those of a full run: a tenth, and at least two."""
    return full if FULL else max(2, full // 10)


def load_profile() -> None:
    """Let tests without settings of their own try as many examples as this run should have.

    No test fails because the machine is slow: an example has no deadline of its own, and its generation has none.
    With ``CI`` the examples are the same in each run, so that its verdict is about the change.
    """
    settings.register_profile(
        "pyconsumer",
        max_examples=examples(100),
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("pyconsumer")
