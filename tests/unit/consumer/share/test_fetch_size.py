"""``FetchSize``: the bytes that a ShareFetch asks for."""

from __future__ import annotations

from pyconsumer.consumer.share.fetch_size import FetchSize

MOST = 50_000_000


def test_the_first_fetch_asks_for_all() -> None:
    assert FetchSize(MOST, 1, 500).of(3) == MOST


def test_after_a_full_response_each_partition_gets_a_few_times_its_bytes() -> None:
    size = FetchSize(MOST, 1, 500)
    size.on_response(592, 65_000)
    assert (size.of(1), size.of(3)) == (260_000, 780_000)
    size.on_response(500, 10_000)
    assert size.of(1) == 40_000


def test_after_any_other_response_it_asks_for_all_again() -> None:
    for acquired, found in ((499, 65_000), (0, 0)):
        size = FetchSize(MOST, 1, 500)
        size.on_response(500, 65_000)
        size.on_response(acquired, found)
        assert size.of(1) == MOST


def test_it_keeps_within_the_settings() -> None:
    size = FetchSize(MOST, 1_000_000, 500)
    size.on_response(500, 65_000)
    assert size.of(2) == 2_000_000  # a fetch that waits for fetch_min_bytes would never see as many
    size.on_response(500, MOST)
    assert size.of(1) == size.of(1000) == MOST
