"""Fetch sessions: their cached partitions, the parts left out, and errors that restart a session (KIP-227)."""

from __future__ import annotations

import pytest

from pyconsumer.broker.fetch_sessions import FetchContext, FetchSessions, PartitionKey
from pyconsumer.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData


def request(
    session_id: int, epoch: int, *partitions: int, forget: tuple[int, ...] = (), offset: int = 0
) -> FetchRequest:
    wanted = [FetchPartition(index, fetch_offset=offset) for index in partitions]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic("t", partitions=wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic("t", partitions=list(forget))] if forget else [],
    )


def key(index: int) -> PartitionKey:
    return "t", bytes(16), index


def answers(context: FetchContext, *with_data: int, high_watermark: int = 5, error: int = 0) -> list[int]:
    """Answer every partition of a request. Return those that are sent."""
    given = [
        (
            found,
            PartitionData(found[2], error, high_watermark, records=b"data" if found[2] in with_data else b""),
        )
        for found, _ in context.partitions
    ]
    return [found[2] for found, _ in context.select(given)]


def begin(sessions: FetchSessions, *partitions: int, version: int = 12, now: float = 0.0) -> FetchContext:
    return sessions.context(request(0, 0, *partitions), version, now)


def indexes(context: FetchContext) -> list[int]:
    return [found[2] for found, _ in context.partitions]


def test_a_full_request_gets_all_partitions_and_a_session() -> None:
    sessions = FetchSessions(10)
    context = begin(sessions, 0, 1, 2)
    assert context.session_id > 0
    assert answers(context, 1) == [0, 1, 2]


def test_an_incremental_fetch_gets_the_changes() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0, 1, 2)
    answers(first)
    second = sessions.context(request(first.session_id, 1), 12, 0)
    assert indexes(second) == [0, 1, 2]
    assert answers(second, 2) == [2]
    third = sessions.context(request(first.session_id, 2), 12, 0)
    assert indexes(third) == [0, 1, 2]
    assert answers(third, high_watermark=6) == [0, 1, 2]


def test_partitions_with_data_go_to_the_end_of_the_line() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0, 1, 2)
    answers(first, 0)
    second = sessions.context(request(first.session_id, 1), 12, 0)
    assert indexes(second) == [1, 2, 0]


def test_an_error_is_sent_and_so_is_its_recovery() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0)
    answers(first)
    assert answers(sessions.context(request(first.session_id, 1), 12, 0), error=6) == [0]
    assert answers(sessions.context(request(first.session_id, 2), 12, 0)) == [0]
    assert answers(sessions.context(request(first.session_id, 3), 12, 0)) == []


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0, 1)
    second = sessions.context(request(first.session_id, 1, 1, 5, forget=(0,), offset=77), 12, 0)
    assert [(found[2], cached.wanted.fetch_offset) for found, cached in second.partitions] == [(1, 77), (5, 77)]


def test_a_session_without_partitions_ends() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0)
    assert sessions.context(request(first.session_id, 1, forget=(0,)), 12, 0).session_id == 0
    assert len(sessions) == 0


def test_the_final_epoch_ends_a_session() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0)
    context = sessions.context(request(first.session_id, -1, 0), 12, 0)
    assert (context.session_id, len(sessions)) == (0, 0)
    assert answers(context) == [0]


def test_a_new_full_request_replaces_the_session() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0)
    second = sessions.context(request(first.session_id, 0, 1), 12, 0)
    assert len(sessions) == 1
    assert indexes(second) == [1]


def test_errors() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0)
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.context(request(first.session_id ^ 1, 1), 12, 0)
    for epoch in (2, 5):
        with pytest.raises(InvalidFetchSessionEpochError):
            sessions.context(request(first.session_id, epoch), 12, 0)
    with pytest.raises(FetchSessionTopicIdError):
        sessions.context(request(first.session_id, 1), 13, 0)


def test_epochs_restart_at_one() -> None:
    sessions = FetchSessions(10)
    first = begin(sessions, 0)
    sessions._sessions[first.session_id].epoch = 2**31 - 1
    sessions.context(request(first.session_id, 2**31 - 1), 12, 0)
    sessions.context(request(first.session_id, 1), 12, 0)


class TestSlots:
    def test_without_a_free_one_a_client_fetches_in_full(self) -> None:
        sessions = FetchSessions(1)
        assert begin(sessions, 0, 1).session_id
        assert begin(sessions, 0).session_id == 0
        assert begin(FetchSessions(0), 0).session_id == 0

    def test_a_session_unused_for_two_minutes_may_be_evicted(self) -> None:
        sessions = FetchSessions(1)
        old = begin(sessions, 0, 1)
        assert begin(sessions, 0, now=121.0).session_id
        with pytest.raises(FetchSessionIdNotFoundError):
            sessions.context(request(old.session_id, 1), 12, 121.0)

    def test_a_larger_client_takes_the_place_of_a_smaller(self) -> None:
        sessions = FetchSessions(2)
        begin(sessions, 0, 1, 2)
        small = begin(sessions, 0)
        assert begin(sessions, 0, 1).session_id
        with pytest.raises(FetchSessionIdNotFoundError):
            sessions.context(request(small.session_id, 1), 12, 0)
