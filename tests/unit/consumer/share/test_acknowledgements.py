"""Acknowledgements of share consumers: deliveries, pieces, and the batches of a request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.consumer.share.acknowledgements import (
    GAP,
    Delivery,
    Piece,
    Source,
    batches_of,
    without_overlaps,
)
from pyconsumer.protocol.messages.share_fetch import AcknowledgementBatch
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition

_SOURCE = Source(1, b"i" * 16, TopicPartition("t", 0))
_KINDS = list(AcknowledgeType)


def delivery(*offsets: int) -> Delivery:
    records: list[ConsumerRecord[bytes, bytes]] = [ConsumerRecord("t", 0, offset) for offset in offsets]
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = runs[-1][0], offset
        else:
            runs.append((offset, offset))
    return Delivery(_SOURCE, records, runs, [(offsets[0], offsets[-1], 3)], 9.0)


def spread(batches: list[AcknowledgementBatch]) -> dict[int, int]:
    """Return the type of each offset, as a broker reads it."""
    found: dict[int, int] = {}
    for batch in batches:
        size = batch.last_offset - batch.first_offset + 1
        types = batch.acknowledge_types
        assert len(types) in (1, size)
        for at in range(size):
            found[batch.first_offset + at] = types[at if len(types) > 1 else 0]
    return found


def test_all_records_are_accepted_as_runs() -> None:
    found = delivery(3, 4, 5, 9)
    assert [(piece.first, piece.last, piece.kind) for piece in found.accept_all()] == [(3, 5, 1), (9, 9, 1)]
    assert found.first_open is None
    assert not found.holds(3)


def test_an_acknowledgement_is_replaced_until_it_is_taken() -> None:
    found = delivery(3, 4, 5)
    assert found.first_open == 3
    found.choose(3, AcknowledgeType.ACCEPT)
    found.choose(3, AcknowledgeType.REJECT)
    assert found.first_open == 4
    assert [piece[:3] for piece in found.take_chosen()] == [(3, 3, AcknowledgeType.REJECT)]
    assert found.runs == [(4, 5)]
    assert not found.holds(3)
    assert found.holds(4)
    assert found.delivery_count(5) == 3
    assert found.delivery_count(6) == 0


def test_a_renewal_keeps_its_records() -> None:
    found = delivery(3, 5, 6)
    found.choose(5, AcknowledgeType.RENEW)
    found.choose(6, AcknowledgeType.RENEW)
    (piece,) = found.take_chosen()
    assert piece.delivery is not None
    assert [record.offset for record in piece.delivery.records] == [5, 6]
    assert found.runs == [(3, 3)]


def test_a_delivery_is_split_where_iteration_has_stopped() -> None:
    found = delivery(3, 4, 7, 8)
    rest = found.split(8)
    assert rest is not None
    assert (found.runs, rest.runs) == ([(3, 4), (7, 7)], [(8, 8)])
    assert [record.offset for record in rest.records] == [8]
    assert found.split(9) is None


def test_long_runs_are_batches_of_their_own_and_short_ones_share_one() -> None:
    pieces = [Piece(0, 99, 1, 0.0), Piece(100, 100, 2, 0.0), Piece(101, 101, 0, 0.0), Piece(105, 105, 1, 0.0)]
    assert batches_of(pieces) == [
        AcknowledgementBatch(0, 99, [1]),
        AcknowledgementBatch(100, 101, [2, GAP]),
        AcknowledgementBatch(105, 105, [1]),
    ]


def test_an_offset_is_named_once() -> None:
    first, second, third = Piece(5, 9, 1, 0.0), Piece(9, 12, 2, 0.0), Piece(1, 4, 1, 0.0)
    assert without_overlaps([first, second, third]) == ([third, first], [second])
    assert without_overlaps([first, Piece(1, 5, 1, 0.0)])[1] == [Piece(1, 5, 1, 0.0)]
    assert without_overlaps([first, Piece(6, 7, 1, 0.0)])[1] == [Piece(6, 7, 1, 0.0)]


@given(st.dictionaries(st.integers(0, 80), st.sampled_from(_KINDS), min_size=1), st.data())
def test_a_request_says_what_the_application_said(chosen: dict[int, AcknowledgeType], data: st.DataObject) -> None:
    found = delivery(*sorted(chosen))
    first = data.draw(st.sets(st.sampled_from(sorted(chosen))))
    pieces = []
    for part in (first, set(chosen) - first):
        for offset in part:
            assert found.holds(offset)
            found.choose(offset, chosen[offset])
        pieces += found.take_chosen()
    assert found.runs == []
    taken, left = without_overlaps(pieces)
    assert left == []
    assert spread(batches_of(taken)) == chosen
