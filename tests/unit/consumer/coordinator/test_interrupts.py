"""Ctrl-C between the decision to send and the sending: a request that was never sent is not in flight for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.consumer.coordinator import heartbeat_thread
from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.errors import RetriableCommitFailedError
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest
from pyconsumer.protocol.messages.offset_commit import OffsetCommitRequest
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.structs import OffsetAndMetadata
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.script import NODE
from tests.unit.consumer.coordinator.support import T0, Bench, automatic


def interrupting(bench: Bench, patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes before the next request is sent."""
    real = bench.network.send

    def send(*arguments: Any, **more: Any) -> Any:
        patch.setattr(bench.network, "send", real)
        raise KeyboardInterrupt

    patch.setattr(bench.network, "send", send)


def interrupted_poll(bench: Bench, patch: pytest.MonkeyPatch) -> None:
    interrupting(bench, patch)
    with pytest.raises(KeyboardInterrupt):
        bench.poll()
    assert bench.network.sent == []
    bench.coordinator.recover()


def finish(bench: Bench) -> None:
    """Answer all requests of the member until it is stable."""
    for _ in range(10):
        call = bench.poll()
        assert call.error is None
        if call.result:
            return
        if not bench.network.sent:
            bench.clock.advance_to(max(bench.coordinator.next_due_at, bench.clock.now()))
            continue
        kind = type(bench.network.sent[-1].request)
        if kind is FindCoordinatorRequest:
            bench.network.find(NODE)
        elif kind is JoinGroupRequest:
            bench.answer_join()
        else:
            assert kind is SyncGroupRequest
            bench.answer_sync(T0)
    raise AssertionError("the member does not get on")


def subscribed() -> Bench:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    return bench


def test_a_search_is_sent_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = subscribed()
    interrupted_poll(bench, monkeypatch)
    assert not bench.core.discovery.is_in_flight(USER)
    finish(bench)
    assert bench.subscriptions.assignment() == {T0}


def test_a_join_is_sent_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = subscribed()
    bench.poll()
    bench.network.find(NODE)
    interrupted_poll(bench, monkeypatch)
    finish(bench)
    assert bench.subscriptions.assignment() == {T0}


def test_a_sync_that_was_not_sent_means_another_join(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = subscribed()
    bench.meet_coordinator()
    interrupting(bench, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bench.answer_join()
    bench.coordinator.recover()
    finish(bench)
    assert bench.subscriptions.assignment() == {T0}


def test_requests_in_flight_stay_in_flight() -> None:
    bench = subscribed()
    bench.poll()
    bench.coordinator.recover()
    bench.meet_coordinator()
    bench.coordinator.recover()
    assert bench.poll().result is False
    bench.answer_join()
    bench.coordinator.recover()
    bench.poll()
    bench.answer_sync(T0)
    bench.coordinator.recover()
    assert bench.poll().result is True


def test_a_commit_that_was_not_sent_fails_and_does_not_delay_close(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = automatic()
    ends: list[object] = []
    interrupting(bench, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bench.coordinator.commit_async({T0: OffsetAndMetadata(1)}, lambda offsets, error: ends.append(error))
    assert bench.coordinator._committer.pending_async == 1
    bench.coordinator.recover()
    bench.poll()
    assert [type(error) for error in ends] == [RetriableCommitFailedError]
    future = bench.coordinator.commit_async({T0: OffsetAndMetadata(2)}, lambda offsets, error: ends.append(error))
    bench.coordinator.recover()
    assert not future.done
    bench.answer_commit()
    assert future.succeeded
    call = Call(bench.coordinator._committer.flush(200.0), bench.clock)
    assert call.done


def test_a_commit_that_waits_for_the_coordinator_keeps_waiting() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscriptions.assign_from_user([T0])
    future = bench.coordinator.commit_async({T0: OffsetAndMetadata(2)}, lambda offsets, error: None)
    bench.coordinator.recover()
    assert not future.done
    bench.network.find(NODE)
    bench.network.take(OffsetCommitRequest)


# -- the heartbeat thread ----------------------------------------------------------------------------------------------


class WithThread(Bench):
    driver = ConsumerCoordinator


@pytest.fixture
def joining() -> Iterator[WithThread]:
    """A member whose next poll starts the heartbeat thread."""
    bench = WithThread()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.poll()
    bench.network.find(NODE)
    yield bench
    if bench.coordinator._heartbeat is not None:
        bench.coordinator.abandon("the test is over")


def heartbeat_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("pyconsumer-heartbeat")}


@pytest.mark.concurrent
def test_a_thread_whose_start_was_interrupted_ends_when_it_is_replaced(
    joining: WithThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = heartbeat_threads()
    real, hidden = HeartbeatThread.start, []

    def start(self: HeartbeatThread) -> None:
        real(self)
        hidden.append(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HeartbeatThread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            joining.poll()
        # Ctrl-C fell into Thread.start: the thread runs, and looks as if it did not.
        patch.setattr(HeartbeatThread, "alive", property(lambda self: self not in hidden))
        patch.setattr(HeartbeatThread, "start", real)
        joining.coordinator.recover()
        joining.poll()
        (first,) = hidden
        assert joining.coordinator._heartbeat is not first
        first._thread.join(10)
        assert not first._thread.is_alive()
    joining.coordinator.abandon("the test is over")
    for thread in heartbeat_threads() - before:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.concurrent
def test_close_ends_a_thread_whose_start_was_interrupted(joining: WithThread, monkeypatch: pytest.MonkeyPatch) -> None:
    real = HeartbeatThread.start

    def start(self: HeartbeatThread) -> None:
        real(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(HeartbeatThread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        joining.poll()
    thread = joining.coordinator._heartbeat
    assert thread is not None
    Call(joining.coordinator.close(0.0), joining.clock)
    thread._thread.join(10)
    assert not thread._thread.is_alive()


def test_a_thread_that_was_never_started_is_replaced(joining: WithThread, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Never:
        ident = None

        def __init__(self, **options: Any) -> None:
            made.append(options)

        def start(self) -> None:
            raise KeyboardInterrupt

        def is_alive(self) -> bool:
            return False

    monkeypatch.setattr(heartbeat_thread, "threading", SimpleNamespace(Thread=Never))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            joining.poll()
        joining.coordinator.recover()
        assert joining.coordinator._heartbeat is not None
        assert joining.coordinator._heartbeat._client is None
    assert len(made) == 2
