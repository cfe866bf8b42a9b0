"""Fetch sessions on their own (KIP-227, KIP-516)."""

from __future__ import annotations

import pytest

from pyconsumer.consumer.fetch_session import FetchSessionHandler, SessionPartition
from pyconsumer.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": bytes([1] * 16), "b": bytes([2] * 16)}
BY_NAME, BY_ID = 12, 13


def part(tp: TopicPartition, offset: int = 0, *, topic_id: bytes | None = None, epoch: int = 1) -> SessionPartition:
    return SessionPartition(IDS[tp.topic] if topic_id is None else topic_id, offset, 1000, 5, epoch)


def answer(
    *partitions: TopicPartition, session_id: int = 0, error: int = 0, throttle: int = 0, ids: dict[str, bytes] = IDS
) -> FetchResponse:
    topics: dict[str, FetchableTopicResponse] = {}
    for tp in partitions:
        topic = topics.setdefault(
            tp.topic, FetchableTopicResponse(topic=tp.topic, topic_id=ids[tp.topic], partitions=[])
        )
        topic.partitions.append(PartitionData(partition_index=tp.partition))
    return FetchResponse(
        throttle_time_ms=throttle, error_code=error, session_id=session_id, responses=list(topics.values())
    )


def opened(*partitions: TopicPartition, session_id: int = 77) -> FetchSessionHandler:
    session = FetchSessionHandler(1)
    session.plan({tp: part(tp) for tp in partitions}, ())
    assert session.on_response(answer(*partitions, session_id=session_id), BY_ID).problem is None
    return session


def test_the_first_request_is_full_and_opens_a_session() -> None:
    session = FetchSessionHandler(1)

    request = session.plan({A0: part(A0), B0: part(B0)}, ())

    assert (request.session_id, request.epoch, request.is_full) == (0, 0, True)
    assert list(request.to_send) == [A0, B0]
    assert request.use_topic_ids


def test_only_changes_are_sent_after_a_full_response() -> None:
    session = opened(A0, A1, B0)

    request = session.plan({A0: part(A0, 5), A1: part(A1)}, [B0])

    assert (request.session_id, request.epoch) == (77, 1)
    assert request.to_send == {A0: part(A0, 5)}
    assert request.to_forget == [(B0, IDS["b"])]
    assert set(session.partitions) == {A0, A1}


def test_epochs_count_up_and_wrap() -> None:
    session = opened(A0)
    for epoch in (1, 2, 3):
        assert session.plan({}, ()).epoch == epoch
        assert session.on_response(answer(session_id=77), BY_ID).problem is None
    session.next_epoch = 0x7FFFFFFF
    session.on_response(answer(session_id=77), BY_ID)

    assert session.plan({}, ()).epoch == 1


def test_a_broker_without_room_for_a_session_gets_full_requests() -> None:
    session = FetchSessionHandler(1)
    session.plan({A0: part(A0), A1: part(A1)}, ())
    assert session.on_response(answer(A0, A1), BY_ID).problem is None

    request = session.plan({A0: part(A0, 9)}, ())

    assert (request.session_id, request.epoch) == (0, 0)
    assert list(request.to_send.values()) == [part(A1), part(A0, 9)]  # who brought data goes to the end


def test_a_session_closed_by_the_broker_starts_again() -> None:
    session = opened(A0)
    session.plan({}, ())

    assert session.on_response(answer(), BY_ID).problem is None

    assert (session.plan({}, ()).session_id, session.next_epoch) == (0, 0)


@pytest.mark.parametrize(("error", "expected"), [(70, (0, 0)), (71, (77, 0)), (-1, (77, 0)), (107, (77, 0))])
def test_an_error_rejects_the_response(error: int, expected: tuple[int, int]) -> None:
    session = opened(A0, A1)
    session.plan({A0: part(A0, 3)}, ())

    assert session.on_response(answer(A0, error=error, session_id=77), BY_ID).problem is not None

    request = session.plan({}, ())
    assert (request.session_id, request.epoch) == expected
    assert request.to_send == {A0: part(A0, 3), A1: part(A1)}


def test_a_lost_connection_closes_the_session_and_opens_one() -> None:
    session = opened(A0)
    session.plan({}, ())

    session.on_failure()

    request = session.plan({}, ())
    assert (request.session_id, request.epoch) == (77, 0)
    assert list(request.to_send) == [A0]


def test_a_full_response_must_have_all_requested_partitions() -> None:
    session = FetchSessionHandler(1)
    session.plan({A0: part(A0), A1: part(A1)}, ())

    judged = session.on_response(answer(A0, session_id=5), BY_ID)

    assert judged.problem == "a full response lacks a-1"
    assert (session.session_id, session.next_epoch) == (0, 0)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_response_must_have_only_partitions_of_the_session(version: int) -> None:
    session = opened(A0)
    session.plan({}, ())

    judged = session.on_response(answer(A0, A1, session_id=77), version)

    assert judged.problem == "a-1 was not requested"
    assert (session.session_id, session.next_epoch) == (77, 0)


def test_a_response_must_not_have_a_partition_twice() -> None:
    session = opened(A0)
    session.plan({}, ())

    assert session.on_response(answer(A0, A0, session_id=77), BY_ID).problem == "a-0 comes twice"


def test_an_empty_full_response_with_a_throttle_time_is_a_signal() -> None:
    session = FetchSessionHandler(1)
    session.plan({A0: part(A0)}, ())

    judged = session.on_response(answer(throttle=50), BY_ID)

    assert judged.throttled
    assert judged.problem is not None
    assert (session.session_id, session.next_epoch) == (0, 0)


def test_each_partition_comes_with_its_requested_parameters() -> None:
    session = opened(A0, A1)
    session.plan({A0: part(A0, 5, epoch=9)}, ())

    judged = session.on_response(answer(A0, A1, session_id=77), BY_ID)

    assert [(tp, asked) for tp, _, asked in judged.partitions] == [(A0, part(A0, 5, epoch=9)), (A1, part(A1))]


def test_a_new_fetch_epoch_at_the_same_offset_is_not_sent_again() -> None:
    session = opened(A0)

    assert session.plan({A0: part(A0, epoch=2)}, ()).to_send == {}
    assert session.partitions[A0].fetch_epoch == 2


def test_without_the_id_of_one_topic_names_are_used() -> None:
    session = FetchSessionHandler(1)

    request = session.plan({A0: part(A0), B0: part(B0, topic_id=ZERO_UUID)}, ())

    assert not request.use_topic_ids


def test_a_session_is_reopened_when_topic_ids_become_usable() -> None:
    session = FetchSessionHandler(1)
    session.plan({A0: part(A0), B0: part(B0, topic_id=ZERO_UUID)}, ())
    session.on_response(answer(A0, B0, session_id=77), BY_NAME)
    assert session.next_epoch == 1

    request = session.plan({}, [B0])

    assert (request.session_id, request.epoch, request.use_topic_ids) == (77, 0, True)
    assert list(request.to_send) == [A0]


def test_a_recreated_topic_is_forgotten_by_its_old_id_and_added_by_its_new_one() -> None:
    session = opened(A0)
    new_id = bytes([9] * 16)

    request = session.plan({A0: part(A0, topic_id=new_id)}, ())

    assert request.to_send == {A0: part(A0, topic_id=new_id)}
    assert request.to_forget == [(A0, IDS["a"])]
    assert session.on_response(answer(A0, session_id=77), BY_ID).problem is not None


def test_an_unknown_topic_id_in_a_response_is_rejected() -> None:
    session = opened(A0)
    session.plan({}, ())

    judged = session.on_response(answer(A0, session_id=77, ids={"a": bytes([8] * 16)}), BY_ID)

    assert judged.problem is not None
    assert "was not requested" in judged.problem


def test_without_incremental_sessions_every_request_is_full_with_epoch_minus_one() -> None:
    session = FetchSessionHandler(1, incremental=False)
    for _ in range(2):
        request = session.plan({A0: part(A0)}, ())
        assert (request.session_id, request.epoch) == (0, -1)
        assert list(request.to_send) == [A0]
        assert session.on_response(answer(A0, session_id=0), BY_ID).problem is None


def test_a_session_is_closed_once() -> None:
    session = opened(A0)

    request = session.close_request()

    assert request is not None
    assert (request.session_id, request.epoch, request.to_send) == (77, -1, {})
    assert session.close_request() is None
