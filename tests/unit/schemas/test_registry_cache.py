"""The cache of a registry's client, with a clock that the tests move."""

from __future__ import annotations

import random
import threading

from pyconsumer.clock import ManualClock
from pyconsumer.schemas.registry.cache import ABANDONED, Failure, SchemaCache, Value

_KEY = ("id", "", 1)


def _cache(capacity: int = 10) -> tuple[SchemaCache, ManualClock]:
    clock = ManualClock()
    return SchemaCache(capacity, clock), clock


def test_an_answer_without_a_time_is_kept_for_ever() -> None:
    cache, clock = _cache()
    _, flight, leads = cache.begin(_KEY)
    assert leads
    cache.finish(_KEY, flight, "schema")
    clock.advance(1e9)
    assert cache.begin(_KEY)[0] == Value("schema")
    assert cache.peek(_KEY) == "schema"


def test_an_answer_with_a_time_is_asked_for_again_after_it() -> None:
    cache, clock = _cache()
    cache.finish(_KEY, cache.begin(_KEY)[1], "old", 60.0)
    clock.advance(59.9)
    assert cache.peek(_KEY) == "old"
    clock.advance(0.1)
    assert cache.peek(_KEY) is None
    assert cache.begin(_KEY)[2]


def test_an_error_is_kept_only_if_a_time_is_given() -> None:
    cache, clock = _cache()
    cache.fail(_KEY, cache.begin(_KEY)[1], KeyError("x"))
    outcome, flight, leads = cache.begin(_KEY)
    assert (outcome, leads) == (None, True)
    error = KeyError("y")
    cache.fail(_KEY, flight, error, 1.0)
    assert cache.begin(_KEY)[0] == Failure(error)
    assert cache.peek(_KEY) is None
    clock.advance(1.0)
    assert cache.begin(_KEY)[2]


def test_calls_for_the_same_thing_join_one_flight() -> None:
    cache, _ = _cache()
    _, flight, leads = cache.begin(_KEY)
    assert leads
    others = [cache.begin(_KEY) for _ in range(5)]
    assert [(found, joined is flight, leads) for found, joined, leads in others] == [(None, True, False)] * 5
    cache.finish(_KEY, flight, "schema")
    assert flight.result() == Value("schema")


def test_a_flight_that_is_given_back_is_led_by_another() -> None:
    cache, _ = _cache()
    flight = cache.begin(_KEY)[1]
    cache.abandon(_KEY, flight)
    assert flight.result() is ABANDONED
    assert cache.begin(_KEY)[2]


def test_a_flight_whose_time_is_over_is_given_back_by_the_next_caller() -> None:
    cache, clock = _cache()
    flight = cache.begin(_KEY, clock.now() + 5)[1]
    assert cache.begin(_KEY, clock.now() + 10)[1] is flight
    clock.advance(5)
    _, second, leads = cache.begin(_KEY, clock.now() + 10)
    assert leads
    assert flight.result() is ABANDONED
    cache.finish(_KEY, flight, "late")
    assert cache.peek(_KEY) is None
    cache.finish(_KEY, second, "schema")
    assert cache.peek(_KEY) == "schema"


def test_an_answer_from_before_a_change_is_not_kept() -> None:
    cache, _ = _cache()
    key = ("latest", "orders-value")
    flight = cache.begin(key)[1]
    cache.forget("latest", where=lambda key: key[1] == "orders-value")
    _, second, leads = cache.begin(key)
    assert leads
    cache.finish(key, flight, "before")
    assert cache.peek(key) is None
    cache.finish(key, second, "after")
    assert cache.peek(key) == "after"


def test_each_kind_is_bounded_and_the_least_used_goes_first() -> None:
    cache, _ = _cache(capacity=3)
    for number in range(3):
        cache.put(("id", "", number), number)
        cache.put(("guid", number), number)
    assert cache.peek(("id", "", 0)) == 0
    cache.put(("id", "", 3), 3)
    assert [cache.peek(("id", "", number)) for number in range(4)] == [0, None, 2, 3]
    assert len(cache) == 6


def test_forgetting_takes_the_named_kinds_alone() -> None:
    cache, _ = _cache()
    cache.put(("id", "", 1), 1)
    cache.put(("latest", "a"), 2)
    cache.put(("latest", "b"), 3)
    cache.forget("latest", where=lambda key: key[1] == "a")
    assert [cache.peek(key) for key in (("id", "", 1), ("latest", "a"), ("latest", "b"))] == [1, None, 3]
    cache.forget()
    assert len(cache) == 0


def test_a_forked_child_has_no_flights_and_keeps_the_answers() -> None:
    cache, _ = _cache()
    cache.put(("guid", 1), 1)
    cache.begin(_KEY)
    cache.after_fork()
    assert cache.begin(_KEY)[2]
    assert cache.peek(("guid", 1)) == 1


def test_threads_that_ask_at_once_lead_one_call_each_time() -> None:
    cache, _ = _cache(capacity=1000)
    led: list[int] = []
    start = threading.Barrier(8)

    def ask(seed: int) -> None:
        start.wait()
        for number in random.Random(seed).sample(range(200), 200):
            key = ("id", "", number)
            found, flight, leads = cache.begin(key)
            if leads:
                led.append(number)
                cache.finish(key, flight, number)
            else:
                assert (found or flight.result(10)) == Value(number)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(led) == list(range(200))
