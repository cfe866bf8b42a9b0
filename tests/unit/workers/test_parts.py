"""The parts of partitions in the room of workers."""

from __future__ import annotations

from pyconsumer import TopicPartition
from pyconsumer.workers.parts import Parts

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_the_partitions_with_the_fewest_records_are_polled_first_up_to_their_part() -> None:
    parts = Parts(600)
    assert parts.plan({}, {A, B, C}, 0.0) == (set(), 200)
    assert parts.plan({A: 200}, {A, B, C}, 0.0) == ({A}, 200)
    assert parts.plan({A: 150, B: 60, C: 70}, {A, B, C}, 0.0) == ({A}, 140)
    assert parts.plan({A: 200, B: 200, C: 200}, {A, B, C}, 0.0) == (set(), 25)


def test_one_partition_has_all_the_room() -> None:
    assert Parts(600).plan({A: 300}, {A}, 0.0) == (set(), 600)


def test_a_part_is_no_smaller_than_a_poll_should_be() -> None:
    many = {TopicPartition("t", number) for number in range(100)}
    assert Parts(600).plan({A: 25}, many, 0.0) == ({A}, 25)


def test_a_partition_may_have_half_of_the_room_while_the_others_are_empty() -> None:
    parts = Parts(600)
    parts.nothing_came(10.0)
    assert parts.plan({A: 250}, {A, B, C}, 10.0) == ({A}, 200), "that poll left none out"
    parts.poll_begins(leaves_out=True)
    parts.nothing_came(10.0)
    assert parts.plan({A: 250}, {A, B, C}, 10.05) == (set(), 200)
    assert parts.plan({A: 300}, {A, B, C}, 10.05) == ({A}, 200)
    assert parts.plan({A: 250}, {A, B, C}, 10.2) == ({A}, 200)


def test_a_function_is_quick_if_the_whole_room_is_done_in_50_ms() -> None:
    parts = Parts(600)
    assert not parts.is_quick(0, 10.0)
    assert not parts.is_quick(1000, 10.01), "too early to tell"
    assert parts.is_quick(1200, 10.1)
    assert parts.is_quick(1200, 10.12), "until the next look"
    assert not parts.is_quick(1300, 10.2)
