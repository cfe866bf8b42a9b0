"""The ledger of a group finds lost records, rewinds, and records processed twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.ledger import Commit, GroupLog, Ledger


def feed(ledger: Ledger, *events: tuple[str, str, Any]) -> None:
    for at, (member, what, data) in enumerate(events):
        names = {"processed": "records", "committed": "offsets", "refused": "offsets", "failed": "detail"}
        ledger.note(json.dumps({"at": at, "member": member, "what": what, names.get(what, "partitions"): data}))


def test_partitions_are_followed() -> None:
    ledger = Ledger()
    feed(ledger, ("a", "assigned", [0, 1, 2]), ("a", "revoked", [1]), ("a", "lost", [2]), ("a", "assigned", [5]))
    assert ledger.members["a"].owned == {0, 5}
    assert ledger.members["a"].of("lost") == [[2]]


def test_events_after_the_end_are_not_noted() -> None:
    ledger = Ledger()
    feed(ledger, ("a", "assigned", [0, 1]))
    ledger.close()
    feed(ledger, ("a", "revoked", [0, 1]), ("b", "processed", [[0, 0, 7]]))
    assert (ledger.members["a"].owned, list(ledger.members), ledger.processed) == ({0, 1}, ["a"], {})


def test_an_unprocessed_record_is_missing() -> None:
    ledger = Ledger()
    ledger.written(0, 0, 0)
    ledger.written(1, 0, 1)
    feed(ledger, ("a", "processed", [[0, 0, 0]]))
    assert ledger.missing() == [1]


def test_repeated_records_are_counted_for_the_previous_member() -> None:
    ledger = Ledger()
    feed(ledger, *((name, "processed", [[0, 0, 7]]) for name in ("a", "b", "a")))
    assert ledger.repeated == {"a": 1, "b": 1}


def test_a_start_below_the_committed_offset_is_a_rewind() -> None:
    records = [[0, number, number] for number in range(3)]
    before = ("a", "processed", records), ("a", "committed", [[0, 2]])
    right, wrong = Ledger(), Ledger()
    feed(right, *before, ("b", "processed", records[2:]))
    assert right.rewinds() == []
    feed(wrong, *before, ("b", "processed", records[1:]))
    assert wrong.rewinds() == ["b processed 0@1 after a committed 2"]


def test_a_member_that_learns_of_its_expulsion_later_does_not_rewind() -> None:
    ledger = Ledger()
    records = [[0, number, number] for number in range(3)]
    feed(ledger, ("a", "processed", records), ("a", "committed", [[0, 2]]), ("b", "processed", records))
    assert ledger.rewinds()
    ledger.note(json.dumps({"at": 9, "member": "b", "what": "lost", "partitions": [0]}))
    assert not ledger.rewinds()


def test_a_decreasing_offset_is_found() -> None:
    commits = [Commit(0, 0, 5, "a"), Commit(1, 1, 1, "a"), Commit(2, 0, 4, "b")]
    with pytest.raises(AssertionError, match="went back"):
        Ledger()._check_order(GroupLog(commits, []))


def test_records_repeated_by_a_late_commit_of_kafka_python_count_as_no_fault() -> None:
    ledger = Ledger()
    records = [[0, number, number] for number in range(6)]
    feed(ledger, ("a", "processed", records[:5]), ("a", "committed", [[0, 5]]), ("b", "processed", records[3:]))
    assert (ledger.repeated, len(ledger.rewinds())) == ({"a": 2}, 2)
    commits = [Commit(0, 0, 5, "a"), Commit(1, 0, 4, "kafka-python-7"), Commit(2, 0, 6, "b")]
    ledger._check_order(GroupLog(commits, []))
    assert (ledger.repeated, ledger.rewinds()) == ({"a": 1}, ["b processed 0@3 after a committed 5"])


@pytest.mark.parametrize(("member", "rewinds"), [("kafka-python-7", 0), ("a", 2)])
def test_a_late_commit_of_kafka_python_is_not_held_against_the_next_owner(member: str, rewinds: int) -> None:
    ledger = Ledger()
    records = [[0, number, number] for number in range(6)]
    feed(
        ledger,
        (member, "processed", records[:5]),
        (member, "committed", [[0, 3]]),
        ("b", "assigned", [0]),
        (member, "committed", [[0, 5]]),
        ("b", "processed", records[3:]),
        ("c", "assigned", [0]),
        ("c", "processed", records[4:5]),
    )
    who_came_later = f"c processed 0@4 after {member} committed 5"
    assert len(ledger.rewinds()) == rewinds + 1
    assert who_came_later in ledger.rewinds()


def test_an_acknowledged_commit_that_is_not_in_the_log_is_found() -> None:
    ledger = Ledger()
    feed(ledger, ("a", "committed", [[0, 5], [1, 6]]))
    with pytest.raises(AssertionError, match=r"commits of a .* \[\(1, 6\)\]"):
        ledger._check_acknowledged_commits(GroupLog([Commit(0, 0, 5, "a"), Commit(1, 1, 6, "b")], []))


def test_waiting_ends_with_a_member_that_failed() -> None:
    ledger = Ledger()
    feed(ledger, ("a", "failed", "ValueError"))
    with pytest.raises(AssertionError, match="a failed: ValueError"):
        ledger.wait(lambda: False, 60.0, "anything")
