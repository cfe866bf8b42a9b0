"""A share session: its epochs, its partitions and its queue."""

from __future__ import annotations

import math

import pytest

from pyconsumer.consumer.share.acknowledgements import Piece, Source
from pyconsumer.consumer.share.session import LOST_SESSION, Key, Queued, ShareSession, Ticket
from pyconsumer.errors import Errors, KafkaTimeoutError
from pyconsumer.structs import AcknowledgeType, TopicPartition

_A, _B = TopicPartition("a", 0), TopicPartition("b", 0)
_KEY_A, _KEY_B = Key(b"a" * 16, _A), Key(b"b" * 16, _B)
_SOURCE = Source(1, *_KEY_A)


def queued(first: int, last: int, kind: int = AcknowledgeType.ACCEPT) -> Queued:
    return Queued(_SOURCE, [Piece(first, last, kind, math.inf)])


def test_epochs_count_up_and_begin_again_at_1() -> None:
    session = ShareSession(1)
    assert session.begin() == 0
    assert not session.is_open
    session.on_success()
    assert session.begin() == 1
    assert session.is_busy
    session.on_success()
    assert (session.begin(), session.is_open) == (2, True)
    session.epoch = 0x7FFFFFFF
    session.on_success()
    assert session.begin() == 1
    assert session.begin(close=True) == -1


def _wanted(*keys: Key) -> dict[int, Key]:
    return dict(enumerate(keys))


def test_a_request_names_changes_only() -> None:
    session = ShareSession(1)
    assert session.want(_wanted(_KEY_A)) == ([_KEY_A], [])
    assert session.want(
        dict(
            enumerate(
                (
                    _KEY_A,
                    _KEY_B,
                )
            )
        )
    ) == ([_KEY_B], [])
    again = Key(b"c" * 16, _A)  # of a topic that was created again
    assert session.want(
        dict(
            enumerate(
                (
                    again,
                    _KEY_B,
                )
            )
        )
    ) == ([again], [_KEY_A])


@pytest.mark.parametrize("code", sorted(LOST_SESSION))
def test_a_session_that_the_broker_does_not_know_is_opened_again(code: int) -> None:
    session = ShareSession(1)
    session.want(_wanted(_KEY_A))
    session.begin()
    session.on_success()
    session.begin()
    session.on_refusal(code, retry_at=5.0)
    assert (session.epoch, session.is_busy, session.retry_at, session.failures) == (0, False, 5.0, 1)
    assert session.want(_wanted(_KEY_A)) == ([_KEY_A], [])


def test_another_error_continues_the_session() -> None:
    session = ShareSession(1)
    session.begin()
    session.on_success()
    session.begin()
    session.on_refusal(Errors.UNKNOWN_SERVER_ERROR, retry_at=5.0)
    assert session.epoch == 2
    session.epoch = 0x7FFFFFFF
    session.on_refusal(Errors.UNKNOWN_SERVER_ERROR, retry_at=5.0)
    assert session.epoch == 1
    session.on_failure(6.0)
    assert session.epoch == 0


def test_a_session_that_was_refused_at_its_beginning_is_opened_again_with_all_partitions() -> None:
    session = ShareSession(1)
    session.want(_wanted(_KEY_A))
    session.begin()
    session.on_refusal(Errors.UNKNOWN_SERVER_ERROR, retry_at=5.0)
    assert not session.is_open
    assert session.want(_wanted(_KEY_A)) == ([_KEY_A], [])


def test_what_would_name_an_offset_twice_waits_for_the_next_request() -> None:
    session = ShareSession(1)
    first, second, third = queued(1, 5), queued(5, 6), queued(7, 9, AcknowledgeType.RENEW)
    for each in (first, second, third):
        session.enqueue(each)
    assert session.has_renewals
    assert session.take_queue() == [first, third]
    assert session.take_queue() == [second]
    assert not session.has_renewals


def test_a_ticket_keeps_the_first_error_of_a_partition() -> None:
    ticket = Ticket()
    ticket.add(_A)
    ticket.add(_A)
    ticket.add(_B)
    late = KafkaTimeoutError("late")
    ticket.end(_A, late)
    ticket.end(_A, None)
    assert (ticket.pending, ticket.unfinished()) == (1, [_B])
    ticket.end(_B, None)
    assert ticket.results == {_A: late, _B: None}
