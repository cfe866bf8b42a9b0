"""Counts of steps are those of the function alone."""

from __future__ import annotations

import gc

import pytest

from tests.support.steps import steps_of


def _makes_objects() -> list[list[int]]:
    return [[] for _ in range(1000)]


def test_a_garbage_collection_in_between_is_not_counted() -> None:
    collections = 0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal collections
        collections += 1

    alone = steps_of(_makes_objects)
    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(10)
    try:
        counted = steps_of(_makes_objects)
        enabled = gc.isenabled()
        _makes_objects()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)

    assert counted == alone > 1000
    assert enabled
    assert collections > 0


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_as_before(enabled: bool) -> None:
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError):
            steps_of(lambda: 1 // 0)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
