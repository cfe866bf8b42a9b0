"""Which broker coordinates which group: several coordinators, each with some partitions of the internal topic."""

from __future__ import annotations

from pyconsumer.errors import Errors
from tests.unit.broker.group.support import World, value_of


def test_each_group_has_one_coordinator_and_each_broker_coordinates_some() -> None:
    brokers = [World(start=False) for _ in range(3)]
    for number, world in enumerate(brokers):
        world.coordinator.start()
        world.lead(partitions=range(number, world.storage.partitions, len(brokers)))
    coordinators = set()
    for group in (f"group-{number}" for number in range(60)):
        (partition,) = {world.partition(group) for world in brokers}
        codes = []
        for world in brokers:
            answer = world.join(group=group)
            world.advance(10)
            codes.append(value_of(answer).error_code)
        expected = [Errors.NOT_COORDINATOR] * len(brokers)
        expected[partition % len(brokers)] = 0
        assert codes == expected
        coordinators.add(partition % len(brokers))
    assert coordinators == {0, 1, 2}
