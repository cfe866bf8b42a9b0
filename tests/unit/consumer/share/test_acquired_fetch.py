"""The acquired records of a ShareFetch response: ranges, gaps, records that cannot be read, and damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.share.acknowledgements import GAP, Piece, Source
from pyconsumer.consumer.share.acquired_fetch import AcquiredFetch
from pyconsumer.errors import CorruptRecordError, ProtocolError, RecordDeserializationError
from pyconsumer.protocol.messages.share_fetch import AcquiredRecords
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import AcknowledgeType, TopicPartition

_SOURCE = Source(1, b"i" * 16, TopicPartition("t", 0))
_RELEASE, _REJECT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def batch(base: int, offsets: Iterable[int], *, value: Callable[[int], bytes] = lambda offset: b"v") -> bytes:
    """Return a batch with records at these offsets."""
    builder = BatchBuilder("none")
    for offset in offsets:
        builder.try_append(1, None, value(offset), relative_offset=offset - base)
    return builder.build(base)


def fetch(data: bytes, *ranges: tuple[int, int]) -> AcquiredFetch:
    acquired = [AcquiredRecords(first, last, 1) for first, last in ranges]
    return AcquiredFetch(_SOURCE, data, acquired, locked_until=1.0)


def spread(pieces: Sequence[Piece]) -> dict[int, int]:
    found: dict[int, int] = {}
    for piece in pieces:
        for offset in range(piece.first, piece.last + 1):
            assert offset not in found
            found[offset] = piece.kind
    return found


def drain(found: AcquiredFetch, most: int = 3, convert: Any = None) -> list[int]:
    offsets: list[int] = []
    while not found.is_done:
        delivery = found.take(most, convert)
        if delivery is None:
            assert found.is_done
            break
        assert len(delivery.records) <= most
        own = [record.offset for record in delivery.records]
        assert [offset for first, last in delivery.runs for offset in range(first, last + 1)] == own
        offsets += own
    return offsets


def test_only_acquired_records_are_delivered() -> None:
    found = fetch(batch(0, range(10)) + batch(10, range(10, 20)), (2, 3), (8, 11), (19, 19))
    assert drain(found) == [2, 3, 8, 9, 10, 11, 19]
    assert found.extra == []


def test_an_acquired_offset_without_a_record_is_a_gap_and_one_that_did_not_come_is_released() -> None:
    found = fetch(batch(0, [0, 1, 4, 5, 9]), (0, 12))
    assert drain(found) == [0, 1, 4, 5, 9]
    assert spread(found.extra) == {2: GAP, 3: GAP, 6: GAP, 7: GAP, 8: GAP, 10: _RELEASE, 11: _RELEASE, 12: _RELEASE}


def test_what_nobody_takes_is_released() -> None:
    found = fetch(batch(0, range(6)), (0, 5))
    delivery = found.take(2, None)
    assert delivery is not None
    assert delivery.runs == [(0, 1)]
    found.release()
    assert spread(found.extra) == dict.fromkeys(range(2, 6), _RELEASE)
    assert found.is_done


def test_a_record_that_cannot_be_read_is_released_after_the_good_ones() -> None:
    found = fetch(batch(0, range(4), value=lambda at: b"x" if at == 2 else b"%d" % at), (0, 3))
    convert = Deserialization(None, int)
    first = found.take(10, convert)
    assert first is not None
    assert [record.value for record in first.records] == [0, 1]
    with pytest.raises(RecordDeserializationError):
        found.take(10, convert)
    assert spread(found.extra) == {2: _RELEASE}
    last = found.take(10, convert)
    assert last is not None
    assert [record.value for record in last.records] == [3]
    assert found.is_done


def test_ctrl_c_loses_no_record() -> None:
    found = fetch(batch(0, range(4)) + batch(4, [4, 6, 7]), (0, 7))
    turns = 0

    def convert(raw: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns in (1, 3):
            raise KeyboardInterrupt
        return raw[:2], len(raw[:2]), None

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            found.take(10, convert)
    assert drain(found, 10, convert) == [0, 1, 2, 3, 4, 6, 7]
    assert spread(found.extra) == {5: GAP}


def test_ctrl_c_rejects_a_skipped_record_once() -> None:
    found = fetch(batch(0, range(4), value=lambda at: b"x" if at == 1 else b"%d" % at), (0, 3))
    deserialize = Deserialization(None, int, "skip")
    stops = [True]

    def convert(raw: Any) -> Any:
        if raw[0].offset == 2 and stops.pop():
            raise KeyboardInterrupt
        return deserialize(raw[:2])

    with pytest.raises(KeyboardInterrupt):
        found.take(10, convert)
    stops.append(False)
    extra = found.take_extra()  # as after each take
    assert drain(found, 10, convert) == [0, 2, 3]
    assert spread([*extra, *found.extra]) == {1: _REJECT}


def test_a_skipped_record_is_rejected() -> None:
    found = fetch(batch(0, range(4), value=lambda at: b"x" if at % 2 else b"%d" % at), (0, 3))
    assert drain(found, 10, Deserialization(None, int, "skip")) == [0, 2]
    assert spread(found.extra) == {1: _REJECT, 3: _REJECT}


def test_a_damaged_batch_is_rejected_and_the_rest_released() -> None:
    damaged = bytearray(batch(4, range(4, 8)))
    damaged[-1] ^= 0xFF
    found = fetch(batch(0, range(4)) + bytes(damaged) + batch(8, range(8, 10)), (1, 9))
    first = found.take(100, None)
    assert first is not None
    assert first.runs == [(1, 3)]
    with pytest.raises(CorruptRecordError):
        found.take(100, None)
    assert spread(found.extra) == dict.fromkeys(range(4, 8), _REJECT) | {8: _RELEASE, 9: _RELEASE}
    assert found.is_done


@pytest.mark.parametrize("ranges", [((5, 4),), ((0, 3), (3, 4)), ((-1, 3),)])
def test_ranges_that_are_out_of_order_are_refused(ranges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ProtocolError):
        fetch(batch(0, range(10)), *ranges)


@given(
    st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=4),
    st.sets(st.integers(0, 50), min_size=1),
    st.integers(1, 9),
)
def test_every_acquired_offset_is_delivered_or_acknowledged_once(
    batches: list[set[int]], acquired: set[int], most: int
) -> None:
    data = b""
    there: set[int] = set()
    end = 0
    for number, offsets in enumerate(batches):
        own = [12 * number + each for each in sorted(offsets)]
        data += batch(own[0], own)
        there |= set(own)
        end = own[-1] + 1
    ranges: list[tuple[int, int]] = []
    for offset in sorted(acquired):
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = ranges[-1][0], offset
        else:
            ranges.append((offset, offset))
    found = fetch(data, *ranges)
    assert drain(found, most) == sorted(acquired & there)
    assert spread(found.extra) == {offset: GAP if offset < end else _RELEASE for offset in acquired - there}
