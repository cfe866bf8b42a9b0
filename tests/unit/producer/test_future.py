"""The future of a sent record."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import pytest

from pyconsumer.errors import IllegalStateError, KafkaTimeoutError, LeaderNotAvailableError, MessageTooLargeError
from pyconsumer.producer.future import mark_sender_thread
from pyconsumer.producer.implementation import BatchResult, FutureRecordMetadata
from pyconsumer.structs import RecordMetadata, TopicPartition

pytestmark = pytest.mark.usefixtures("implementation")
TP = TopicPartition("t", 3)


def pair(index: int = 2) -> tuple[BatchResult, FutureRecordMetadata]:
    result = BatchResult(TP)
    return result, FutureRecordMetadata(result, index, 1234, 5, -1)


def test_success_returns_the_place_of_the_record() -> None:
    result, future = pair()
    assert not future.is_done
    assert future.value is None
    result.finish(100, -1, None)

    assert future.get(0) == RecordMetadata("t", 3, 102, 1234, 5, -1)
    assert future.succeeded()
    assert not future.failed()
    assert future.get(0).topic_partition == TP


def test_log_append_time_replaces_the_timestamp() -> None:
    result, future = pair()
    result.finish(100, 9999, None)

    assert future.get(0).timestamp == 9999


def test_without_acknowledgement_the_offset_is_unknown() -> None:
    result, future = pair()
    result.finish(-1, -1, None)

    assert future.get(0).offset == -1


def test_failure_is_raised_by_get() -> None:
    result, future = pair()
    result.finish(-1, -1, MessageTooLargeError())

    assert future.failed()
    with pytest.raises(MessageTooLargeError):
        future.get()


def test_the_timeout_of_get_names_the_record_and_the_last_error() -> None:
    result, future = pair()
    with pytest.raises(KafkaTimeoutError) as caught:
        future.get(0)
    assert str(caught.value) == "no result for the record to t-3 within 0 s"
    assert caught.value.__cause__ is None
    result.attempt_failed(LeaderNotAvailableError("an election"))
    with pytest.raises(KafkaTimeoutError) as caught:
        future.get(0)
    assert str(caught.value).endswith(
        "within 0 s; the last error was: LEADER_NOT_AVAILABLE (error code 5): an election"
    )
    assert caught.value.__cause__ is result.last_failure


def test_get_waits_no_longer_than_its_timeout() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"t-3 within 0.01 s"):
        pair()[1].get(0.01)


@pytest.mark.parametrize("seconds", [2**63 / 1000, float("inf")])
def test_a_time_that_no_lock_can_wait_for_is_waited_for_as_long_as_possible(seconds: float) -> None:
    result, future = pair(0)
    later = threading.Timer(0.05, result.finish, (7, -1, None))
    later.start()
    assert future.get(seconds).offset == 7
    later.join()


def test_a_callback_cannot_wait_for_another_record() -> None:
    first, second = pair()[0], pair()[1]
    seen: list[BaseException] = []

    def sender() -> None:
        mark_sender_thread(lambda error: None)
        first.finish(0, -1, None)

    def callback(_: object) -> None:
        try:
            second.get()
        except IllegalStateError as error:
            seen.append(error)

    FutureRecordMetadata(first, 0, 0, -1, -1).add_callback(callback)
    thread = threading.Thread(target=sender)
    thread.start()
    thread.join(10)
    assert len(seen) == 1


def test_get_wakes_up_when_the_result_comes() -> None:
    result, future = pair(0)
    thread = threading.Thread(target=result.finish, args=(7, -1, None))
    thread.start()

    assert future.get(60).offset == 7
    thread.join()


def test_callbacks_run_once_in_order_before_and_after() -> None:
    result, future = pair(0)
    seen: list[object] = []
    future.add_callback(lambda prefix, metadata: seen.append((prefix, metadata.offset)), "a")
    future.add_errback(lambda error: seen.append(error))
    result.finish(1, -1, None)
    result.finish(2, -1, None)
    future.add_callback(lambda metadata: seen.append(metadata.offset))

    assert seen == [("a", 1), 1]


def test_errbacks_get_the_error() -> None:
    result, future = pair()
    seen: list[object] = []
    future.add_both(seen.append)
    error = MessageTooLargeError()
    result.finish(-1, -1, error)

    assert seen == [error]


def test_a_callback_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    result, future = pair()
    seen: list[object] = []
    future.add_callback(lambda metadata: 1 / 0)
    future.add_callback(seen.append)
    with caplog.at_level(logging.ERROR):
        result.finish(0, -1, None)

    assert len(seen) == 1
    assert "a callback of a sent record raised" in caplog.text


def test_waiting_threads_continue_after_the_callbacks() -> None:
    result, future = pair()
    seen: list[bool] = []

    def call(metadata: RecordMetadata) -> None:
        waiting = threading.Thread(target=lambda: seen.append(result.wait(0.01)))
        waiting.start()
        waiting.join()

    future.add_callback(call)
    result.finish(0, -1, None)
    assert seen == [False]
    assert result.wait(0)


def test_a_callback_may_request_its_own_result() -> None:
    seen: list[RecordMetadata] = []

    def send() -> None:
        mark_sender_thread(lambda error: None)
        result, future = pair()
        future.add_callback(lambda metadata: seen.append(future.get()))
        result.finish(0, -1, None)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(10)
    assert [metadata.offset for metadata in seen] == [2]


def test_a_split_batch_fails_only_for_the_records_of_the_part_that_failed() -> None:
    result = BatchResult(TP)
    futures = [FutureRecordMetadata(result, index, 0, -1, -1) for index in range(3)]
    parts = [BatchResult(TP), BatchResult(TP)]
    result.split([(0, parts[0]), (2, parts[1])])
    parts[0].finish(10, -1, None)
    assert not futures[0].is_done
    parts[1].finish(-1, -1, MessageTooLargeError())

    assert [future.succeeded() for future in futures] == [True, True, False]
    assert futures[1].get(0).offset == 11
    assert isinstance(futures[2].exception, MessageTooLargeError)


def test_a_pending_or_done_future_can_be_awaited() -> None:
    async def program() -> list[int]:
        first, done = pair(0)
        first.finish(5, -1, None)
        second, later = pair(1)
        threading.Timer(0.05, second.finish, (5, -1, None)).start()
        return [(await done).offset, (await later).offset]

    assert asyncio.run(program()) == [5, 6]


def test_an_awaited_failure_is_raised_and_a_cancelled_wait_does_not_affect_the_future() -> None:
    async def program() -> None:
        result, future = pair(0)
        waiting = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        result.finish(-1, -1, MessageTooLargeError())
        with pytest.raises(MessageTooLargeError):
            await future
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(program())


def test_a_loop_that_has_ended_before_the_result_does_not_harm_the_sender() -> None:
    result, future = pair(0)

    async def program() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(future, 0.01)

    asyncio.run(program())
    assert result.finish(3, -1, None)
    assert future.get(0).offset == 3
