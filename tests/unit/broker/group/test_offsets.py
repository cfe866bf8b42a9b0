"""The offset cache of one group: staging, ordering, transactions, expiry."""

from __future__ import annotations

import pytest

from pyconsumer.broker.group.common.offsets import CommitRecord, CommittedOffset, GroupOffsets
from pyconsumer.errors import IllegalStateError
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import TP0, TP1


def record(position: int | None, offset: int) -> CommitRecord:
    return CommitRecord(position, CommittedOffset(offset, commit_timestamp=1000))


def test_which_of_two_commits_is_older() -> None:
    assert record(1, 9).older_than(record(2, 5))
    assert not record(2, 9).older_than(record(2, 5))
    assert not record(3, 9).older_than(record(2, 5))
    for left, right in ((None, 1), (1, None)):
        with pytest.raises(IllegalStateError):
            record(left, 0).older_than(record(right, 0))


def test_loaded_offsets_are_merged() -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(1, 1)}, {7: {TP0: record(2, 2)}})
    cache.initialize({TP1: record(3, 3)}, {7: {TP1: record(4, 4)}, 8: {TP0: record(5, 5)}})
    assert cache.committed == {TP0: record(1, 1), TP1: record(3, 3)}
    assert cache.pending_transactional == {7: {TP0: record(2, 2), TP1: record(4, 4)}, 8: {TP0: record(5, 5)}}


def test_a_commit_becomes_visible_once_it_is_in_the_log_and_never_replaces_a_later_one() -> None:
    cache = GroupOffsets()
    cache.on_commit_appended(TP0, record(1, 1))
    assert cache.committed == {}  # nobody waits for it any more
    cache.prepare({TP0: record(5, 5).value})
    assert cache.committed == {}
    cache.on_commit_appended(TP0, record(5, 5))
    assert (cache.committed, cache.pending) == ({TP0: record(5, 5)}, {})
    cache.prepare({TP0: record(3, 3).value})
    cache.on_commit_appended(TP0, record(3, 3))
    assert (cache.committed, cache.pending) == ({TP0: record(5, 5)}, {})
    cache.prepare({TP0: record(5, 6).value})
    cache.on_commit_appended(TP0, record(5, 6))
    assert cache.committed == {TP0: record(5, 5)}  # equally old is not older


def test_a_commit_that_ended_has_a_place() -> None:
    cache = GroupOffsets()
    cache.prepare({TP0: record(None, 1).value})
    with pytest.raises(IllegalStateError):
        cache.on_commit_appended(TP0, record(None, 1))


@pytest.mark.parametrize("order", ["first first", "last first", "first fails", "last fails first", "last fails"])
def test_two_commits_that_overlap(order: str) -> None:
    cache = GroupOffsets()
    c1, c2 = record(1, 1), record(2, 2)
    cache.prepare({TP0: c1.value})
    cache.prepare({TP0: c2.value})
    if order == "first first":
        cache.on_commit_appended(TP0, c1)
        assert (cache.committed, cache.pending) == ({TP0: c1}, {TP0: [c2.value]})
        cache.on_commit_appended(TP0, c2)
    elif order == "last first":
        cache.on_commit_appended(TP0, c2)
        assert (cache.committed, cache.pending) == ({TP0: c2}, {TP0: [c1.value]})
        cache.on_commit_appended(TP0, c1)
    elif order == "first fails":
        cache.fail_pending(TP0, c1.value)
        assert (cache.committed, cache.pending) == ({}, {TP0: [c2.value]})
        cache.on_commit_appended(TP0, c2)
    elif order == "last fails first":
        cache.fail_pending(TP0, c2.value)
        assert (cache.committed, cache.pending) == ({}, {TP0: [c1.value]})
        cache.on_commit_appended(TP0, c1)
    else:
        cache.on_commit_appended(TP0, c1)
        cache.fail_pending(TP0, c2.value)
    assert (cache.committed, cache.pending) == ({TP0: c1 if "last fails" in order else c2}, {})


def test_a_failed_commit_keeps_the_committed_offset() -> None:
    cache = GroupOffsets()
    assert not cache.has_offsets
    cache.initialize({TP0: record(1, 1)}, {})
    cache.prepare({TP0: record(2, 2).value})
    cache.fail_pending(TP0, record(2, 2).value)
    assert (cache.committed, cache.pending) == ({TP0: record(1, 1)}, {})
    assert cache.has_offsets
    only_pending = GroupOffsets()
    only_pending.prepare({TP0: record(2, 2).value})
    assert only_pending.has_offsets


@pytest.mark.parametrize("commit", [True, False])
def test_transactional_offsets_become_visible_at_the_commit(commit: bool) -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(1, 1)}, {})
    cache.prepare_transactional(7, {TP0: record(None, 5).value, TP1: record(None, 6).value})
    with pytest.raises(IllegalStateError):
        cache.complete_transaction(7, commit=True)
    assert cache.pending_transactional[7][TP0].appended_batch_offset is None
    cache.on_transactional_appended(7, TP0, record(3, 5))
    cache.on_transactional_appended(7, TP1, record(3, 6))
    assert cache.has_pending(TP0)
    assert cache.has_pending_transactional(TP0)
    assert cache.committed == {TP0: record(1, 1)}
    cache.complete_transaction(7, commit=commit)
    assert cache.committed == ({TP0: record(3, 5), TP1: record(3, 6)} if commit else {TP0: record(1, 1)})
    assert not cache.has_pending(TP0)
    cache.complete_transaction(7, commit=commit)


def test_a_plain_commit_after_a_transactional_one_wins() -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(9, 9)}, {7: {TP0: record(3, 3)}})
    cache.complete_transaction(7, commit=True)
    assert cache.committed == {TP0: record(9, 9)}


def test_a_failed_transactional_commit() -> None:
    cache = GroupOffsets()
    one, two = record(None, 1).value, record(None, 2).value
    cache.fail_transactional(7, TP0, one)
    cache.prepare_transactional(7, {TP0: one, TP1: one})
    cache.fail_transactional(7, TP0, two)  # another one was staged in between
    assert set(cache.pending_transactional[7]) == {TP0, TP1}
    cache.fail_transactional(7, TP0, one)
    assert set(cache.pending_transactional[7]) == {TP1}
    cache.on_transactional_appended(7, TP1, record(4, 2))  # not the staged one
    assert cache.pending_transactional[7][TP1].appended_batch_offset is None
    cache.fail_transactional(7, TP1, one)
    assert cache.pending_transactional == {}


def test_removal_covers_every_kind_of_offset_of_a_partition() -> None:
    cache = GroupOffsets()
    assert cache.partitions == []
    cache.initialize({TP0: record(1, 1)}, {7: {TP0: record(3, 3)}})
    assert cache.partitions == [TP0]
    cache.prepare({TP1: record(None, 5).value})
    cache.prepare_transactional(8, {TopicPartition("u", 0): record(None, 6).value})
    assert cache.partitions == [TP0, TP1, TopicPartition("u", 0)]


@pytest.mark.parametrize(("position", "stays"), [(4, False), (6, True)])
def test_a_pending_offset_is_removed_by_a_later_tombstone(position: int, stays: bool) -> None:
    """Either append may end first."""
    cache = GroupOffsets()
    cache.prepare({TP0: record(position, 1).value})
    cache.prepare_transactional(7, {TP1: record(None, 2).value})
    woken: list[str] = []
    cache.when_settled([TP0], lambda: woken.append("settled"))
    assert cache.remove_before([TP0, TP1], 5) == []
    assert not woken
    cache.on_commit_appended(TP0, record(position, 1))
    cache.on_transactional_appended(7, TP1, record(position, 2))
    assert woken == ["settled"]
    assert (list(cache.committed), list(cache.pending_transactional)) == (([TP0], [7]) if stays else ([], []))
    cache.complete_transaction(7, commit=True)
    assert set(cache.committed) == ({TP0, TP1} if stays else set())


def test_a_commit_after_a_tombstone_stays_although_an_earlier_one_is_still_pending() -> None:
    cache = GroupOffsets()
    cache.prepare({TP0: record(1, 1).value})
    cache.remove_before([TP0], 5)
    cache.remove_before([TP0], 3)  # ended later, and is covered by the other
    cache.prepare({TP0: record(6, 6).value})
    cache.on_commit_appended(TP0, record(6, 6))
    cache.on_commit_appended(TP0, record(1, 1))
    assert (cache.committed, cache.pending) == ({TP0: record(6, 6)}, {})


@pytest.mark.parametrize("end", ["appended", "failed", "transaction", "failed transaction"])
def test_a_tombstone_is_forgotten_with_the_last_commit_that_was_on_its_way(end: str) -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(1, 1)}, {})
    if "transaction" in end:
        cache.prepare_transactional(7, {TP0: record(None, 2).value})
    else:
        cache.prepare({TP0: record(None, 2).value})
    cache.remove_before([TP0, TP1], 5)
    assert cache._tombstones == {TP0: 5}
    if end == "appended":
        cache.on_commit_appended(TP0, record(2, 2))
    elif end == "failed":
        cache.fail_pending(TP0, record(2, 2).value)
    elif end == "transaction":
        cache.complete_transaction(7, commit=False)
    else:
        cache.fail_transactional(7, TP0, record(2, 2).value)
    assert cache._tombstones == {}
    assert not cache.has_offsets


def test_a_tombstone_covers_earlier_offsets_in_the_log() -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(1, 1), TP1: record(8, 2)}, {7: {TP0: record(3, 3)}, 8: {TP0: record(6, 6)}})
    cache.prepare_transactional(9, {TP0: record(None, 9).value})
    assert cache.remove_before([TP0, TP1], 5) == [TP0]
    assert list(cache.committed) == [TP1]
    assert list(cache.pending_transactional) == [8, 9]


def test_waiting_until_commits_have_ended() -> None:
    cache = GroupOffsets()
    woken: list[str] = []
    cache.when_settled([TP0], lambda: woken.append("nothing open"))
    cache.prepare({TP0: record(1, 1).value, TP1: record(1, 1).value})
    cache.when_settled([TP0, TP1], lambda: woken.append("both"))
    cache.when_settled([TP1], lambda: woken.append("one"))
    cache.on_commit_appended(TP1, record(1, 1))
    assert woken == ["nothing open", "one"]
    cache.fail_pending(TP0, record(1, 1).value)
    assert woken == ["nothing open", "one", "both"]
    cache.prepare({TP0: record(2, 2).value})
    cache.when_settled([TP0], lambda: woken.append("the end"))
    cache.settle_all()
    assert woken[-1] == "the end"


RETENTION = 1000


@pytest.mark.parametrize(("age", "over"), [(RETENTION - 1, False), (RETENTION, True), (RETENTION + 1, True)])
def test_the_limit_is_inclusive(age: int, over: bool) -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(1, 1)}, {})
    assert cache.expired(1000 + age, RETENTION, lambda value: value.commit_timestamp) == ([TP0] if over else [])
    assert cache.expired(1000 + age, RETENTION, lambda _: 1000 + age, frozenset()) == []


@pytest.mark.parametrize(("now", "over"), [(4999, False), (5000, True), (5001, True)])
def test_an_expiry_of_its_own_counts_alone(now: int, over: bool) -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: CommitRecord(1, CommittedOffset(1, commit_timestamp=0, expire_timestamp=5000))}, {})
    assert cache.expired(now, 1, lambda value: value.commit_timestamp) == ([TP0] if over else [])


def test_offsets_that_do_not_expire() -> None:
    cache = GroupOffsets()
    cache.initialize({TP0: record(1, 1)}, {})

    def find(*topics: str) -> list[object]:
        return list(cache.expired(10**9, RETENTION, lambda value: value.commit_timestamp, frozenset(topics)))

    assert find("other") == [TP0]
    assert find("t") == []
    cache.prepare({TP0: record(2, 2).value})
    assert find() == []
    cache.fail_pending(TP0, record(2, 2).value)
    cache.prepare_transactional(7, {TP0: record(2, 2).value})
    assert find() == []
