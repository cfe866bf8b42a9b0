"""Deliveries: which records of them are acknowledged, and how."""

from __future__ import annotations

import math

from pyconsumer.consumer.share.acknowledgements import Delivery, Source
from pyconsumer.structs import AcknowledgeType, TopicPartition
from tests.unit.consumer.builders import record

_SOURCE = Source(1, b"i" * 16, TopicPartition("t", 0))


def delivery(*runs: tuple[int, int]) -> Delivery:
    records = [record(offset) for first, last in runs for offset in range(first, last + 1)]
    counts = [(first, last, number) for number, (first, last) in enumerate(runs, 1)]
    return Delivery(_SOURCE, records, list(runs), counts, math.inf)


def take(one: Delivery) -> list[tuple[int, int]]:
    """Take the acknowledged records out."""
    pieces = one.pieces(accept_rest=False)
    one.take_out(pieces)
    return [(piece.first, piece.last) for piece in pieces]


def test_one_acknowledgement_may_cover_ranges_with_different_delivery_counts() -> None:
    one = delivery((0, 4), (5, 9))  # acquired once and twice
    for offset in range(2, 8):
        one.choose(offset, AcknowledgeType.ACCEPT)
    assert take(one) == [(2, 7)]
    assert one.runs == [(0, 1), (8, 9)]
    for offset in (0, 1, 8, 9):
        one.choose(offset, AcknowledgeType.ACCEPT)
    take(one)
    assert one.runs == []
    assert one.first_open is None


def test_a_renewal_that_keeps_the_records_names_those_that_are_not_acknowledged() -> None:
    one = delivery((0, 9))
    one.choose(3, AcknowledgeType.ACCEPT)
    take(one)
    pieces = one.renewal()
    assert [(piece.first, piece.last, piece.stays) for piece in pieces] == [(0, 2, True), (4, 9, True)]
    assert one.is_renewing
    one.lock_until(5.0)
    assert (one.is_renewing, one.locked_until) == (False, 5.0)
    assert one.runs == [(0, 2), (4, 9)]
