"""The future of a request."""

from __future__ import annotations

import pytest

from pyconsumer.errors import IllegalStateError, KafkaConnectionError, KafkaError, NotCoordinatorError, ProtocolError
from pyconsumer.network.futures import RequestFuture


def test_a_pending_future_has_no_value_and_no_error() -> None:
    future: RequestFuture[int] = RequestFuture()
    assert not future.done
    assert not future.succeeded
    assert not future.failed
    assert future.exception is None
    with pytest.raises(IllegalStateError, match="not done"):
        future.value  # noqa: B018
    with pytest.raises(IllegalStateError):
        future.result()
    assert "pending" in repr(future)


def test_a_future_is_completed_only_once() -> None:
    future: RequestFuture[int] = RequestFuture()
    future.complete(1)
    for again in (lambda: future.complete(2), lambda: future.fail(KafkaError())):
        with pytest.raises(IllegalStateError, match="once"):
            again()
    failed: RequestFuture[int] = RequestFuture.failure(KafkaError("x"))
    with pytest.raises(IllegalStateError, match="once"):
        failed.complete(1)


def test_a_value_only_after_success_an_error_only_after_failure() -> None:
    succeeded = RequestFuture.of(None)
    assert succeeded.done
    assert succeeded.value is None
    assert succeeded.result() is None
    assert succeeded.exception is None
    error = NotCoordinatorError()
    failed: RequestFuture[int] = RequestFuture.failure(error)
    assert failed.exception is error
    assert failed.retriable
    assert not succeeded.retriable
    assert not RequestFuture.failure(ProtocolError()).retriable
    with pytest.raises(IllegalStateError, match="has failed"):
        failed.value  # noqa: B018
    with pytest.raises(NotCoordinatorError):
        failed.result()


def test_callbacks_run_in_order_and_a_late_one_at_once() -> None:
    heard: list[tuple[str, int]] = []
    future: RequestFuture[int] = RequestFuture()
    future.add_callback(lambda f: heard.append(("first", f.value)))
    future.add_callback(lambda f: heard.append(("second", f.value)))
    assert heard == []
    future.complete(7)
    future.add_callback(lambda f: heard.append(("late", f.value)))
    assert heard == [("first", 7), ("second", 7), ("late", 7)]


def test_a_callback_that_raises_does_not_keep_the_result_from_the_others() -> None:
    heard: list[int] = []
    future: RequestFuture[int] = RequestFuture()

    def interrupted(f: RequestFuture[int]) -> None:
        raise KeyboardInterrupt

    future.add_callback(interrupted)
    future.add_callback(lambda f: heard.append(f.value))
    with pytest.raises(KeyboardInterrupt):
        future.complete(3)
    assert heard == [3]
    assert future.succeeded


def test_compose_converts_the_value_or_hands_the_error_on() -> None:
    source: RequestFuture[int] = RequestFuture()
    text = source.compose(str)
    source.complete(12)
    assert text.value == "12"

    broken: RequestFuture[int] = RequestFuture()
    composed = broken.compose(str)
    error = KafkaConnectionError("gone")
    broken.fail(error)
    assert composed.exception is error

    def refuse(value: int) -> str:
        raise NotCoordinatorError

    assert isinstance(RequestFuture.of(1).compose(refuse).exception, NotCoordinatorError)


def test_chain_completes_another_future_in_the_same_way() -> None:
    source: RequestFuture[int] = RequestFuture()
    target: RequestFuture[int] = RequestFuture()
    source.chain(target)
    source.complete(5)
    assert target.value == 5
    failing: RequestFuture[int] = RequestFuture()
    other: RequestFuture[int] = RequestFuture()
    failing.chain(other)
    failing.fail(KafkaError("x"))
    assert other.failed


def test_a_follower_that_is_done_already_is_left_alone() -> None:
    source: RequestFuture[int] = RequestFuture()
    target: RequestFuture[int] = RequestFuture()
    source.chain(target)
    composed = source.compose(str)
    target.complete(1)
    composed.fail(KafkaError("given up"))
    source.complete(2)
    assert target.value == 1
    assert composed.failed


def test_a_callback_may_finish_the_request_that_it_hangs_on() -> None:
    request, seen = RequestFuture[int](), list[int]()
    after = request.compose(lambda value: value + 1)

    def callback(future: RequestFuture[int]) -> None:
        seen.append(future.value)
        request.finish()  # as a call does that serves the network

    after.add_callback(callback)
    request.complete(1)
    assert seen == [2]
    assert request.is_finished
