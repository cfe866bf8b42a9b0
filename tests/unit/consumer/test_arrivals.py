"""The wait of polls for things that deserializers need."""

from __future__ import annotations

from concurrent.futures import Future

from pyconsumer.consumer.arrivals import Arrivals
from pyconsumer.generic import PendingError


class World:
    """Arrivals, and the time."""

    def __init__(self) -> None:
        self.time = 100.0
        self.wakes: list[None] = []
        self.arrivals = Arrivals(lambda: self.wakes.append(None), lambda: self.time)

    def expect(self, future: Future[None]) -> None:
        self.arrivals.expect(PendingError(future, "a schema"), 1.0)


def test_a_poll_waits_for_the_least_time_and_no_longer_than_that_beyond_its_deadline() -> None:
    world, future = World(), Future[None]()
    assert world.arrivals.extended(100.0) == 100.0
    world.expect(future)
    assert world.arrivals.extended(100.0) == 101.0
    assert world.arrivals.extended(105.0) == 105.0
    world.time = 100.7
    assert world.arrivals.extended(100.7) == 101.0, "of the first poll that needed it"


def test_a_need_that_is_noticed_after_the_deadline_does_not_exceed_the_calls_time() -> None:
    world, future = World(), Future[None]()
    world.time = 100.5  # the records came during the call
    world.expect(future)
    assert world.arrivals.extended(100.0) == 101.0


def test_two_partitions_that_wait_for_two_schemas_do_not_extend_the_wait_again_and_again() -> None:
    world, first, second = World(), Future[None](), Future[None]()
    for _ in range(20):
        world.expect(first)
        world.expect(second)
        world.time += 0.1
    assert world.arrivals.extended(100.0) == 101.0
    first.set_result(None)
    second.set_result(None)
    assert len(world.wakes) == 2
    assert world.arrivals.extended(100.0) == 100.0
