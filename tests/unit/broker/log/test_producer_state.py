"""Sequences of idempotent producers: the table of the rules, snapshots, expiry."""

from __future__ import annotations

import pytest

from pyconsumer.broker.log.producer_state import ProducerState
from pyconsumer.errors import InvalidProducerEpochError, OutOfOrderSequenceNumberError
from pyconsumer.protocol.records.batch import BatchInfo, scan
from tests.unit.broker.support import NOW_MS, batch, log_in, records_of

_MAX = 2**31 - 1


def info(sequence: int, *, epoch: int = 0, offset: int = 0, records: int = 1, producer_id: int = 1) -> BatchInfo:
    """The header of a stored batch."""
    header = scan(batch(*[b"v"] * records, producer_id=producer_id, epoch=epoch, sequence=sequence))[0]
    return header._replace(base_offset=offset, last_offset=offset + records - 1)


def state_after(last: int | None, epoch: int = 0) -> ProducerState:
    """A producer that has sent single records up to the sequence ``last``."""
    state = ProducerState()
    if last is not None:
        for sequence in range(max(0, last - 9), last + 1):
            state.add([info(sequence, epoch=epoch, offset=100 + sequence % 1000)])
    return state


class TestTable:
    @pytest.mark.parametrize(
        ("last", "epoch", "base", "base_epoch"),
        [
            pytest.param(None, 0, 0, 0),
            pytest.param(4, 0, 5, 0),
            pytest.param(_MAX, 0, 0, 0),
            pytest.param(4, 0, 0, 1),
            pytest.param(None, 0, 7, 0),
        ],
    )
    def test_accepted(self, last: int | None, epoch: int, base: int, base_epoch: int) -> None:
        assert state_after(last, epoch).check([info(base, epoch=base_epoch)]) is None

    @pytest.mark.parametrize(
        ("last", "base"),
        [
            pytest.param(4, 4),
            pytest.param(4, 0),
        ],
    )
    def test_duplicate_of_a_remembered_batch(self, last: int, base: int) -> None:
        known = state_after(last).check([info(base)])
        assert known is not None
        assert known.first_offset == 100 + base

    @pytest.mark.parametrize(
        ("last", "base"),
        [
            pytest.param(9, 2),
            pytest.param(4, 6),
        ],
    )
    def test_out_of_order(self, last: int, base: int) -> None:
        with pytest.raises(OutOfOrderSequenceNumberError):
            state_after(last).check([info(base)])

    def test_an_older_epoch_is_fenced(self) -> None:
        with pytest.raises(InvalidProducerEpochError):
            state_after(4, epoch=1).check([info(5, epoch=0)])

    def test_a_new_epoch_starts_at_sequence_0_and_forgets_the_batches(self) -> None:
        state = state_after(4)
        with pytest.raises(OutOfOrderSequenceNumberError):
            state.check([info(5, epoch=1)])
        state.add([info(0, epoch=1, offset=50)])
        entry = state.get(1)
        assert entry is not None
        assert (entry.epoch, len(entry.batches)) == (1, 1)

    def test_a_batch_that_overlaps_an_earlier_one_is_out_of_order(self) -> None:
        state = ProducerState()
        state.add([info(0, records=3)])
        with pytest.raises(OutOfOrderSequenceNumberError):
            state.check([info(1, records=3)])
        with pytest.raises(OutOfOrderSequenceNumberError):
            state.check([info(0, records=2)])

    def test_a_batch_across_the_end_of_the_numbers(self) -> None:
        state = ProducerState()
        state.add([info(_MAX - 1, records=4)])
        assert state.check([info(2)]) is None
        known = state.check([info(_MAX - 1, records=4)])
        assert known is not None
        assert known.first_sequence == _MAX - 1

    def test_producers_do_not_touch_each_other(self) -> None:
        state = state_after(4)
        assert state.check([info(0, producer_id=2)]) is None
        assert state.check([info(9, producer_id=-1)]) is None

    def test_several_batches_of_one_append_follow_each_other(self) -> None:
        state = state_after(4)
        assert state.check([info(5), info(6)]) is None
        with pytest.raises(OutOfOrderSequenceNumberError):
            state.check([info(5), info(7)])


class TestInTheLog:
    def test_a_duplicate_is_stored_once_and_answered_as_before(self) -> None:
        log = log_in(None, log_append_time=True)
        first = log.append(batch(b"a", b"b", producer_id=3, epoch=0, sequence=0), 0)
        again = log.append(batch(b"a", b"b", producer_id=3, epoch=0, sequence=0), 0)
        assert again[:3] == first[:3]
        assert (again.duplicate, again.size_bytes, log.log_end_offset) == (True, 0, 2)

    def test_the_same_content_sent_twice_on_purpose_is_stored_twice(self) -> None:
        log = log_in(None)
        for sequence in (0, 1):
            log.append(batch(b"msg", key=b"key", producer_id=3, epoch=0, sequence=sequence), 0)
        assert [(r.key, r.value) for r in records_of(log)] == [(b"key", b"msg")] * 2
        headers = scan(log.read(0, 1000, 2, at_least_one=True))
        assert [(h.producer_id, h.base_sequence) for h in headers] == [(3, 0), (3, 1)]


class TestSnapshot:
    def test_it_holds_the_last_batch_of_each_producer(self) -> None:
        state = state_after(4)
        state.add([info(8, producer_id=2, epoch=5, offset=300, records=2)])
        copy = ProducerState()
        copy.load(state.snapshot(), 302)
        assert copy.next_offset == 302
        for entry in state:
            other = copy.get(entry.producer_id)
            assert other is not None
            assert (other.epoch, list(other.batches)) == (entry.epoch, [entry.batches[-1]])

    def test_every_cut_and_every_flipped_byte_is_noticed(self) -> None:
        content = state_after(4).snapshot()
        for at in range(len(content)):
            with pytest.raises(ValueError, match=r"its (header|version|checksum|length)"):
                ProducerState().load(content[:at], 0)
            damaged = bytearray(content)
            damaged[at] ^= 1
            with pytest.raises(ValueError, match=r"its (header|version|checksum|length)"):
                ProducerState().load(bytes(damaged), 0)


def test_idle_producers_are_forgotten() -> None:
    state = ProducerState()
    state.add([info(0, producer_id=1), info(0, producer_id=2)._replace(max_timestamp=NOW_MS + 5000)])
    state.expire(NOW_MS + 6000, 2000)
    assert [entry.producer_id for entry in state] == [2]
