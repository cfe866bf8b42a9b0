"""Growing pauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.network.backoff import Backoff


def test_the_backoff_doubles_up_to_the_maximum() -> None:
    backoff = Backoff(0.1, 1.0, random=lambda: 0.5)
    assert [round(backoff.delay(n), 6) for n in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize(("number", "expected"), [(0.0, 0.08), (0.5, 0.1), (1.0, 0.12)])
def test_jitter_is_twenty_percent_to_each_side(number: float, expected: float) -> None:
    assert Backoff(0.1, 1.0, random=lambda: number).delay(0) == pytest.approx(expected)


@given(st.floats(0, 10), st.floats(0, 100), st.integers(-1, 10**9), st.floats(0, 1, exclude_max=True))
def test_the_backoff_stays_between_zero_and_the_maximum(
    initial: float, more: float, failures: int, number: float
) -> None:
    backoff = Backoff(initial, initial + more, random=lambda: number)
    assert 0 <= backoff.delay(failures) <= backoff.maximum


def test_a_maximum_below_the_first_pause_makes_the_backoff_fixed() -> None:
    backoff = Backoff.ms(500, 200, random=lambda: 0.5)
    assert {backoff.delay(n) for n in range(5)} == {0.2}


@pytest.mark.parametrize("options", [{"factor": 0.5}, {"jitter": 1.0}, {"jitter": -0.1}])
def test_invalid_arguments_are_rejected(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="growth"):
        Backoff(0.1, 1.0, **options)


def test_the_maximum_is_not_below_the_first_pause() -> None:
    with pytest.raises(ValueError, match="longest"):
        Backoff(1.0, 0.1)
