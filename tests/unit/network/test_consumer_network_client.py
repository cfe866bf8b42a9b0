"""The consumer's driver on top of the network client."""

from __future__ import annotations

import math
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    WakeupError,
)
from pyconsumer.network.client import ClientResponse, RequestTimeoutError
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.metadata import MetadataResponseTopic
from pyconsumer.structs import BrokerMetadata
from tests.support.ports import unused_address
from tests.unit.network.broker import SILENCE, ScriptedBroker

MakeClient = Callable[..., ConsumerNetworkClient]
HEARTBEAT = HeartbeatRequest(group_id="g")


def heartbeat(client: ConsumerNetworkClient, node: int | BrokerMetadata = 0, **options: Any) -> RequestFuture[Any]:
    return client.send(node, HeartbeatRequest, HEARTBEAT, **options)


def soon(client: ConsumerNetworkClient) -> float:
    return client.clock.now() + 20


def poll_until_soon(client: ConsumerNetworkClient) -> None:
    deadline = soon(client)
    while client.clock.now() < deadline:
        client.poll(deadline)


def know_cluster(client: ConsumerNetworkClient) -> None:
    while not client.metadata.update_count:
        client.poll(soon(client))


@pytest.fixture
def client(broker: ScriptedBroker, make_consumer_client: MakeClient) -> ConsumerNetworkClient:
    """Knows the cluster of one broker (node 0), which answers heartbeats."""
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    found = make_consumer_client(broker.address)
    know_cluster(found)
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def silent(broker: ScriptedBroker, make_consumer_client: MakeClient, clock: ManualClock) -> ConsumerNetworkClient:
    """The same on a manual clock. Heartbeats get no response."""
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    found = make_consumer_client(broker.address, clock=clock, config={"metadata_max_age_ms": 10**9})
    know_cluster(found)
    return found


def test_its_parts(client: ConsumerNetworkClient) -> None:
    assert client.metadata.update_count
    assert not client.wakeup_waits
    client.raise_wakeup()  # there is none


def test_send_queues_and_poll_does_the_work(broker: ScriptedBroker, client: ConsumerNetworkClient) -> None:
    future = heartbeat(client)
    assert client.unsent(0) == 1
    assert broker.count(ApiKey.HEARTBEAT) == 0
    client.poll(soon(client), future)
    assert future.value.message.error_code == 0
    assert client.unsent(0) == 0


def test_flush_sends_without_waiting_and_raises_no_wakeup(
    broker: ScriptedBroker, client: ConsumerNetworkClient
) -> None:
    heard: list[str] = []
    future = heartbeat(client)
    future.add_callback(lambda f: heard.append("called"))
    client.wakeup()
    client.flush()
    assert client.in_flight(0) == 1
    assert broker.arrived.acquire(timeout=60)
    assert heard == []
    with pytest.raises(WakeupError):
        client.poll(soon(client), future)


# -- wakeup ------------------------------------------------------------------------------------------------------------


def test_wakeup_from_another_thread_interrupts_a_poll(client: ConsumerNetworkClient) -> None:
    thread = threading.Timer(0.05, client.wakeup)
    thread.start()
    with pytest.raises(WakeupError):
        client.poll(math.inf)
    thread.join()


def test_a_wakeup_makes_the_selector_readable(client: ConsumerNetworkClient) -> None:
    client.wakeup()
    ready, _, _ = select.select([client.fileno()], [], [], 10)
    assert ready
    assert client.wakeup_waits


def test_a_wakeup_before_a_poll_is_raised_by_it_once(client: ConsumerNetworkClient) -> None:
    client.wakeup()
    client.wakeup()
    with pytest.raises(WakeupError):
        client.poll(math.inf)
    client.poll(client.clock.now())
    future = heartbeat(client)
    client.poll(soon(client), future)
    assert future.succeeded


def test_disabled_wakeups_are_kept_and_raised_later(client: ConsumerNetworkClient) -> None:
    client.wakeup()
    future = heartbeat(client)
    client.poll_no_wakeup(soon(client), future)
    assert future.succeeded
    with client.disable_wakeups(), client.disable_wakeups():
        client.wakeup()
        second = heartbeat(client)
        client.poll(soon(client), second)
        client.raise_wakeup()
        assert second.succeeded
    with pytest.raises(WakeupError):
        client.poll(soon(client))
    client.poll(client.clock.now())


def test_a_poll_that_raises_a_wakeup_keeps_every_response(
    broker: ScriptedBroker, client: ConsumerNetworkClient
) -> None:
    heard: list[str] = []
    future = heartbeat(client)
    future.add_callback(lambda f: heard.append("called"))
    client.flush()
    assert broker.arrived.acquire(timeout=60)
    client.wakeup()
    with pytest.raises(WakeupError):
        client.poll(math.inf)
    if not future.done:  # the answer was still on its way
        client.poll(soon(client), future)
    assert heard == ["called"]


def test_callbacks_have_run_when_a_wakeup_is_raised(silent: ConsumerNetworkClient, clock: ManualClock) -> None:
    heard: list[str] = []
    future = heartbeat(silent, timeout=5.0)
    future.add_callback(lambda f: heard.append("called"))
    silent.poll(-math.inf)
    clock.advance(6.0)
    silent.wakeup()
    with pytest.raises(WakeupError):
        silent.poll(math.inf)
    assert heard == ["called"]


def test_a_wakeup_never_interrupts_a_callback(client: ConsumerNetworkClient) -> None:
    heard: list[str] = []

    def callback(future: RequestFuture[ClientResponse]) -> None:
        client.wakeup()
        heard.append("to the end")

    future = heartbeat(client)
    future.add_callback(callback)
    with pytest.raises(WakeupError):
        client.poll(soon(client), future)
    assert heard == ["to the end"]
    assert future.succeeded


def test_a_wakeup_is_thrown_into_a_blocking_call(client: ConsumerNetworkClient) -> None:
    seen: list[str] = []

    def steps() -> Steps[None]:
        try:
            yield Wait(None, math.inf)
        finally:
            seen.append("cleaned up")

    client.wakeup()
    with pytest.raises(WakeupError):
        client.run(steps())
    assert seen == ["cleaned up"]


def test_ctrl_c_is_raised_even_with_disabled_wakeups(
    client: ConsumerNetworkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(timeout: float | None = None) -> Iterator[Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client._selector, "select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.poll_no_wakeup(math.inf)
    future = heartbeat(client)
    client.poll(soon(client), future)
    assert future.succeeded


# -- poll --------------------------------------------------------------------------------------------------------------


def test_a_future_that_is_done_is_not_waited_for(silent: ConsumerNetworkClient, clock: ManualClock) -> None:
    before = clock.now()
    silent.poll(math.inf, RequestFuture.of(1))  # returns, although nothing will ever come
    assert clock.now() == before
    assert not silent.has_pending_requests()


def test_requests_left_by_an_earlier_poll_are_completed_first(
    broker: ScriptedBroker, make_consumer_client: MakeClient, clock: ManualClock
) -> None:
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    client = make_consumer_client(broker.address, clock=clock, max_in_flight=1, config={"metadata_max_age_ms": 10**9})
    know_cluster(client)
    blocking = heartbeat(client, timeout=1000.0)
    first, second = heartbeat(client, timeout=5.0), heartbeat(client, timeout=5.0)
    states: list[str] = []

    def interrupted(future: RequestFuture[ClientResponse]) -> None:
        raise KeyboardInterrupt

    first.add_callback(interrupted)
    second.add_callback(lambda future: states.append(client.connection_state(0)))
    client.poll(-math.inf)
    clock.advance(6.0)
    with pytest.raises(KeyboardInterrupt):
        client.poll(-math.inf)
    assert states == []
    client.poll(-math.inf)
    assert states == ["ready"]
    assert not blocking.done


def test_a_node_is_disconnected_at_once_and_its_requests_fail_at_the_next_poll(
    broker: ScriptedBroker, silent: ConsumerNetworkClient
) -> None:
    sent = heartbeat(silent, connection="coordinator")
    while silent.in_flight(0, "coordinator") == 0:
        silent.poll(-math.inf)
    unsent = heartbeat(silent, connection="coordinator")
    silent.disconnect(0, "coordinator", cause="no coordinator any more")
    assert silent.connection_state(0, "coordinator") == "disconnected"
    assert not sent.done
    assert not unsent.done
    silent.poll(-math.inf)
    for future in (sent, unsent):
        assert isinstance(future.exception, KafkaConnectionError)
        assert "no coordinator any more" in str(future.exception)
    assert silent.connection_state(0) == "ready"


def test_requests_not_sent_in_time_fail_by_a_timeout(
    silent: ConsumerNetworkClient, clock: ManualClock, cleanup: ExitStack
) -> None:
    host, _, port = cleanup.enter_context(unused_address()).rpartition(":")
    nowhere = BrokerMetadata(7, host, int(port))
    first = heartbeat(silent, nowhere)
    silent.poll(math.inf, first)
    assert first.failed
    late = heartbeat(silent, nowhere, timeout=0.0)
    silent.poll(-math.inf)
    assert isinstance(late.exception, RequestTimeoutError)


def test_other_nodes_queues_are_left_alone(silent: ConsumerNetworkClient) -> None:
    kept = heartbeat(silent, timeout=1000.0)
    silent.poll(-math.inf)
    assert not kept.done


def test_a_node_that_is_not_ready_keeps_its_queue_and_does_not_block_others(
    broker: ScriptedBroker, client: ConsumerNetworkClient, cleanup: ExitStack
) -> None:
    from tests.unit.network.broker import silent_port

    host, _, port = cleanup.enter_context(silent_port()).rpartition(":")
    stuck = [heartbeat(client, BrokerMetadata(7, host, int(port))) for _ in range(3)]
    fine = heartbeat(client)
    client.poll(soon(client), fine)
    assert fine.succeeded
    assert not any(future.done for future in stuck)
    assert client.unsent(7) == 3
    assert client.connection_state(7) == "connecting"


def test_a_fatal_cluster_error_is_raised_once(client: ConsumerNetworkClient) -> None:
    client.metadata.fatal_error = AuthenticationError("refused")
    with pytest.raises(AuthenticationError):
        client.poll(-math.inf)
    client.poll(-math.inf)


def test_a_topic_that_may_not_be_read_is_raised(broker: ScriptedBroker, client: ConsumerNetworkClient) -> None:
    answer = broker.metadata()
    answer.topics = [MetadataResponseTopic(error_code=29, name="secret")]
    broker.on(ApiKey.METADATA, lambda request: answer)
    client.metadata.set_topics({"secret"})
    client.metadata.request_update()
    with pytest.raises(TopicAuthorizationFailedError, match="secret"):
        poll_until_soon(client)


# -- questions and helpers ---------------------------------------------------------------------------------------------


def test_it_says_whether_anything_is_pending(client: ConsumerNetworkClient) -> None:
    assert not client.has_pending_requests()
    future = heartbeat(client)
    assert client.has_pending_requests(), "unsent"
    client.flush()
    assert (client.unsent(), client.in_flight()) == (0, 1)
    assert client.has_pending_requests(), "in flight"
    client.poll(soon(client), future)
    assert not client.has_pending_requests()


def test_a_request_may_have_a_timeout_of_its_own(silent: ConsumerNetworkClient, clock: ManualClock) -> None:
    future = heartbeat(silent, timeout=305.0)
    silent.poll(-math.inf)
    clock.advance(304.0)
    silent.poll(-math.inf)
    assert not future.done
    clock.advance(1.0)
    silent.poll(-math.inf)
    assert isinstance(future.exception, KafkaTimeoutError)


def test_it_can_be_closed(client: ConsumerNetworkClient) -> None:
    future = heartbeat(client)
    client.close()
    assert future.failed
    assert client.closed
