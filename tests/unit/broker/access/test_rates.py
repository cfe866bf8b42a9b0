"""Rates of clients against their quotas, with a clock of the test."""

from __future__ import annotations

import pytest

from pyconsumer.broker.access import rates as module
from pyconsumer.broker.access.meters import Rate, TokenBucket
from pyconsumer.broker.access.quotas import QuotaAlteration, QuotaStore
from pyconsumer.broker.access.rates import ClientRates
from pyconsumer.errors import ThrottlingQuotaExceededError
from pyconsumer.quotas import DEFAULT_ENTITY, QuotaEntity

_SETTINGS = {
    "quota.window.num": 11,
    "quota.window.size.seconds": 1,
    "controller.quota.window.num": 11,
    "controller.quota.window.size.seconds": 1,
}


def rates(entity: QuotaEntity, **values: float) -> ClientRates:
    quotas = QuotaStore(lambda undo, change: None)
    assert quotas.alter([QuotaAlteration(entity.parts, list(values.items()))]) == {entity.parts: None}
    return ClientRates(quotas, _SETTINGS.__getitem__)


def test_a_rate_begins_with_a_burst_and_counts_idle_time_before_it() -> None:
    rate = Rate(11, 1.0)
    rate.record(100, 5.0)
    assert rate.throttle_ms(10, 5.0) == 0  # 100 in ten seconds
    rate.record(1, 5.5)
    assert rate.throttle_ms(10, 5.5) == 0
    rate.record(9, 5.5)
    assert rate.throttle_ms(10, 5.5) == 500  # 110 in 10.5 s
    assert rate.throttle_ms(10, 6.0) == 1000  # the windows before have become one less
    assert rate.throttle_ms(10, 15.9) == 100
    assert not rate.is_idle(16.4)
    assert rate.throttle_ms(10, 16.5) == 0
    assert rate.is_idle(16.5)


def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate(11, 1.0)
    rate.record(100, 0.0)
    rate.record(50, 0.5)
    assert rate.throttle_ms(10, 0.5) == 4500
    rate.record(-50, 0.5)
    assert rate.throttle_ms(10, 0.5) == 0


def test_a_throttled_fetch_is_not_counted() -> None:
    found = rates(QuotaEntity(user="u"), consumer_byte_rate=10)
    assert found.most_fetched("User:u", "c") == 100
    assert found.most_fetched("User:other", "c") is None
    assert found.fetched("User:u", "c", 100, 0.0) == 0
    assert found.fetched("User:u", "c", 50, 0.0) == 5000
    assert found.fetched("User:u", "other client", 5, 0.5) == 0
    assert found.fetched("User:other", "c", 10_000, 0.5) == 0
    assert found.produced("User:u", "c", 10_000, 0.5) == 0


def test_a_bucket_may_go_below_zero_once() -> None:
    found = rates(QuotaEntity(client_id="c"), controller_mutation_rate=2)
    quota = found.mutation("User:u", "c", 100.0, strict=True)
    quota.record(20)
    quota.record(6)
    assert quota.throttle_ms == 0
    with pytest.raises(ThrottlingQuotaExceededError):
        quota.record(1)
    assert quota.throttle_ms == 2000
    quota = found.mutation("User:u", "c", 101.0, strict=False)
    quota.record(4)
    assert quota.throttle_ms == 3000
    found.mutation("User:u", "c", 104.0, strict=True).record(100)
    assert found.mutation("User:u", "other", 104.0, strict=True).throttle_ms == 0
    bucket = TokenBucket(11)
    assert bucket.is_idle(0.0)


def test_records_that_were_acquired_count_also_above_the_quota() -> None:
    found = rates(QuotaEntity(user="u"), consumer_byte_rate=10)
    assert found.delivered("User:u", "c", 0, 0.0) == 0
    assert found.delivered("User:u", "c", 150, 0.0) == 5000
    assert found.delivered("User:u", "c", 0, 0.5) == 4500
    assert found.fetched("User:u", "c", 1, 0.5) > 4000
    assert found.delivered("User:other", "c", 10_000, 0.0) == 0


def test_connections_that_are_not_accepted_do_not_count() -> None:
    found = rates(QuotaEntity(ip="10.0.0.1"), connection_creation_rate=1)
    assert [found.connected("10.0.0.1", 0.0) for _ in range(12)] == [0] * 10 + [1000, 1000]
    assert found.connected("10.0.0.2", 0.0) == 0


def test_rates_of_idle_clients_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 4)
    found = rates(QuotaEntity(client_id=""), producer_byte_rate=1)
    for number in range(20):
        found.produced("User:u", f"client {number}", 100, 20.0 * number)
    assert len(found._rates) <= 5
    for number in range(20):  # all of them are in use
        found.produced("User:u", f"busy {number}", 100, 1000.0)
    assert len(found._rates) >= 20


def test_one_batch_that_is_larger_than_the_quota_is_not_refused_for_ever() -> None:
    found = rates(QuotaEntity(user="u"), consumer_byte_rate=10)
    assert found.fetched("User:u", "c", 100_000, 0.0) == 0
    assert found.fetched("User:u", "c", 100_000, 1.0) > 0
    assert found.fetched("User:u", "c", 100_000, 30.0) == 0


def test_long_client_ids_are_not_kept() -> None:
    found = rates(QuotaEntity(client_id=DEFAULT_ENTITY), producer_byte_rate=10)
    long = "x" * 30_000
    assert found.produced("User:u", long, 500, 0.0) > 0
    assert found.produced("User:u", long + "y", 50, 0.0) == 0
    kept = [*found._levels, *found._rates._found]
    assert max(len(part) for key in kept for part in key if part) < 100


@pytest.mark.parametrize("limit", [5e-324, 1e-300])
def test_a_quota_near_zero_throttles_for_the_longest_time(limit: float) -> None:
    rate, bucket = Rate(11, 1.0), TokenBucket(11)
    rate.record(1000, 0.0)
    assert rate.throttle_ms(limit, 0.0) > 1_000_000
    bucket.take(5, limit, 0.0)
    assert bucket.throttle_ms(limit, 0.0) > 1_000_000
