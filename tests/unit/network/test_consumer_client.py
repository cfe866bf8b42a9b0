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
from pyconsumer.network.client import ClientResponse, NetworkClient, RequestTimeoutError
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.metadata import MetadataResponseTopic
from pyconsumer.structs import BrokerMetadata
from tests.support.ports import unused_address
from tests.unit.network.broker import SILENCE, ScriptedBroker

MakeClient = Callable[..., NetworkClient]
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
def client(broker: ScriptedBroker, make_client: MakeClient) -> ConsumerNetworkClient:
    """Knows the cluster of one broker (node 0), which answers heartbeats."""
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    found = ConsumerNetworkClient(make_client(broker.address))
    know_cluster(found)
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def silent(broker: ScriptedBroker, make_client: MakeClient, clock: ManualClock) -> ConsumerNetworkClient:
    """The same on a manual clock; heartbeats get no answer."""
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    found = ConsumerNetworkClient(make_client(broker.address, clock=clock, config={"metadata_max_age_ms": 10**9}))
    know_cluster(found)
    return found


@pytest.mark.spec("client:NC-05", "client:NC-06", "client:NC-08", "client:NC-09", "client:NC-65")
def test_its_parts_and_settings(client: ConsumerNetworkClient, make_client: MakeClient) -> None:
    assert client.client.metadata is client.metadata
    assert client.clock is client.client.clock
    assert client.retry_backoff == 0.1
    assert client.request_timeout == 30.0
    client.raise_wakeup()
    with pytest.raises(ValueError, match="metadata"):
        ConsumerNetworkClient(make_client(metadata=None))


@pytest.mark.spec("client:NC-03", "client:NC-04", "client:NC-16", "client:NC-18")
def test_send_queues_and_poll_does_the_work(broker: ScriptedBroker, client: ConsumerNetworkClient) -> None:
    future = heartbeat(client)
    assert client.client.unsent(0) == 1
    assert broker.count(ApiKey.HEARTBEAT) == 0
    client.poll(soon(client), future)
    assert future.value.message.error_code == 0
    assert client.client.unsent(0) == 0


@pytest.mark.spec("client:NC-44", "client:NC-66", "client:NC-24")
def test_flush_sends_waits_for_nothing_and_raises_no_wakeup(
    broker: ScriptedBroker, client: ConsumerNetworkClient
) -> None:
    heard: list[str] = []
    future = heartbeat(client)
    future.add_callback(lambda f: heard.append("called"))
    client.wakeup()
    client.flush()
    assert client.client.in_flight(0) == 1
    assert broker.arrived.acquire(timeout=60)
    assert heard == []
    with pytest.raises(WakeupError):
        client.poll(soon(client), future)


# -- wakeup ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("client:NC-40", "client:NC-13", "client:KC-10")
def test_wakeup_from_another_thread_interrupts_a_poll(client: ConsumerNetworkClient) -> None:
    thread = threading.Timer(0.05, client.wakeup)
    thread.start()
    with pytest.raises(WakeupError):
        client.poll(math.inf)
    thread.join()


@pytest.mark.spec("client:NC-40")
def test_a_wakeup_makes_the_selector_readable(client: ConsumerNetworkClient) -> None:
    client.wakeup()
    ready, _, _ = select.select([client.client.fileno()], [], [], 10)
    assert ready
    assert client.wakeup_waits


@pytest.mark.spec("client:NC-41", "client:NC-42", "client:NC-43")
def test_a_wakeup_before_a_poll_is_raised_by_it_once(client: ConsumerNetworkClient) -> None:
    client.wakeup()
    client.wakeup()
    with pytest.raises(WakeupError):
        client.poll(math.inf)
    client.poll(client.clock.now())
    future = heartbeat(client)
    client.poll(soon(client), future)
    assert future.succeeded


@pytest.mark.spec("client:NC-09", "client:NC-44", "client:NC-20", "client:NC-45")
def test_where_wakeups_are_disabled_none_is_raised_and_none_is_lost(client: ConsumerNetworkClient) -> None:
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


@pytest.mark.spec("client:NC-30", "client:NC-45")
def test_a_poll_that_raises_a_wakeup_loses_no_answer(broker: ScriptedBroker, client: ConsumerNetworkClient) -> None:
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


@pytest.mark.spec("client:NC-38")
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


@pytest.mark.spec("client:NC-31")
def test_ctrl_c_comes_out_even_where_wakeups_are_disabled(
    client: ConsumerNetworkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(timeout: float | None = None) -> Iterator[Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client.client._selector, "select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.poll_no_wakeup(math.inf)
    future = heartbeat(client)
    client.poll(soon(client), future)
    assert future.succeeded


# -- poll --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("client:NC-26", "client:NC-27")
def test_a_future_that_is_done_is_not_waited_for(silent: ConsumerNetworkClient, clock: ManualClock) -> None:
    before = clock.now()
    silent.poll(math.inf, RequestFuture.of(1))  # returns, although nothing will ever come
    assert clock.now() == before
    assert not silent.has_pending_requests()


@pytest.mark.spec("client:NC-21")
def test_what_an_earlier_poll_left_is_completed_before_anything_else(
    broker: ScriptedBroker, make_client: MakeClient, clock: ManualClock
) -> None:
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    client = ConsumerNetworkClient(
        make_client(broker.address, clock=clock, max_in_flight=1, config={"metadata_max_age_ms": 10**9})
    )
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
    client.disconnect_async(0, cause="no need")
    client.poll(-math.inf)
    assert states == ["ready"], "before the connection was closed"
    assert blocking.failed


@pytest.mark.spec("client:NC-23", "client:GP-41", "client:NC-12", "client:NC-29")
def test_a_node_is_disconnected_at_the_start_of_the_next_poll_before_anything_is_sent(
    broker: ScriptedBroker, silent: ConsumerNetworkClient
) -> None:
    sent = heartbeat(silent, connection="coordinator")
    while silent.client.in_flight(0, "coordinator") == 0:
        silent.poll(-math.inf)
    unsent = heartbeat(silent, connection="coordinator")
    silent.disconnect_async(0, "coordinator", cause="no coordinator any more")
    assert silent.connection_state(0, "coordinator") == "ready"
    silent.poll(-math.inf)
    for future in (sent, unsent):
        assert isinstance(future.exception, KafkaConnectionError)
        assert "no coordinator any more" in str(future.exception)
    assert silent.connection_state(0, "coordinator") == "disconnected"
    assert silent.connection_state(0) == "ready"


@pytest.mark.spec("client:NC-33", "client:GP-45")
def test_what_is_not_sent_in_time_fails_by_a_timeout(
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


@pytest.mark.spec("client:NC-34")
def test_other_nodes_queues_are_left_alone(silent: ConsumerNetworkClient) -> None:
    kept = heartbeat(silent, timeout=1000.0)
    silent.poll(-math.inf)
    assert not kept.done


@pytest.mark.spec("client:NC-57", "client:NC-58", "client:NC-32")
def test_a_node_that_is_not_ready_keeps_its_queue_and_holds_up_no_other(
    broker: ScriptedBroker, client: ConsumerNetworkClient, cleanup: ExitStack
) -> None:
    from tests.unit.network.broker import silent_port

    host, _, port = cleanup.enter_context(silent_port()).rpartition(":")
    stuck = [heartbeat(client, BrokerMetadata(7, host, int(port))) for _ in range(3)]
    fine = heartbeat(client)
    client.poll(soon(client), fine)
    assert fine.succeeded
    assert not any(future.done for future in stuck)
    assert client.client.unsent(7) == 3
    assert client.connection_state(7) == "connecting"


@pytest.mark.spec("client:NC-37")
def test_what_makes_the_cluster_unusable_is_raised_once(client: ConsumerNetworkClient) -> None:
    client.metadata.fatal_error = AuthenticationError("refused")
    with pytest.raises(AuthenticationError):
        client.poll(-math.inf)
    client.poll(-math.inf)


@pytest.mark.spec("client:NC-37", "client:FE-55")
def test_a_topic_that_may_not_be_read_is_raised(broker: ScriptedBroker, client: ConsumerNetworkClient) -> None:
    answer = broker.metadata()
    answer.topics = [MetadataResponseTopic(error_code=29, name="secret")]
    broker.on(ApiKey.METADATA, lambda request: answer)
    client.metadata.set_topics({"secret"})
    client.metadata.request_update()
    with pytest.raises(TopicAuthorizationFailedError, match="secret"):
        poll_until_soon(client)


# -- questions and helpers ---------------------------------------------------------------------------------------------


@pytest.mark.spec("client:NC-65")
def test_what_is_pending_is_counted_by_node_and_in_total(client: ConsumerNetworkClient) -> None:
    heartbeat(client)
    heartbeat(client)
    client.send_any(HeartbeatRequest, HEARTBEAT)
    assert (client.pending_requests(0), client.pending_requests()) == (2, 3)
    assert client.has_pending_requests(0)
    assert not client.has_pending_requests(1)


@pytest.mark.spec("client:NC-65")
def test_a_node_that_was_lost_is_unavailable_for_a_while(
    client: ConsumerNetworkClient, silent: ConsumerNetworkClient, cleanup: ExitStack
) -> None:
    assert not silent.is_unavailable(0)
    host, _, port = cleanup.enter_context(unused_address()).rpartition(":")
    future = heartbeat(silent, BrokerMetadata(7, host, int(port)))
    silent.poll(math.inf, future)
    assert silent.is_unavailable(7)
    assert silent.backoff_until(7) > silent.clock.now()
    assert f"{host}:{port}" in silent.failures()
    silent.raise_auth_failure(7)
    assert silent.api_versions(7) is None


@pytest.mark.spec("client:NC-65", "client:NC-51")
def test_a_login_that_a_node_refused_is_raised_when_asked(client: ConsumerNetworkClient) -> None:
    client.raise_auth_failure(0)
    error = AuthenticationError("refused")
    client.client._pool.node(0).auth_error = error
    with pytest.raises(AuthenticationError):
        client.raise_auth_failure(0)


@pytest.mark.spec("client:NC-64", "client:NC-65", "client:FC-03", "client:FC-08")
def test_the_least_loaded_node_and_connecting_ahead(client: ConsumerNetworkClient) -> None:
    assert client.least_loaded_node() == 0
    client.try_connect(0, "coordinator")
    while client.connection_state(0, "coordinator") != "ready":
        client.poll(client.clock.now() + 0.01)
    assert client.api_versions(0, "coordinator") is not None


@pytest.mark.spec("client:NC-19")
def test_a_request_may_have_a_timeout_of_its_own(silent: ConsumerNetworkClient, clock: ManualClock) -> None:
    future = heartbeat(silent, timeout=305.0)
    silent.poll(-math.inf)
    clock.advance(304.0)
    silent.poll(-math.inf)
    assert not future.done
    clock.advance(1.0)
    silent.poll(-math.inf)
    assert isinstance(future.exception, KafkaTimeoutError)


@pytest.mark.spec("client:NC-67")
def test_it_can_be_closed(client: ConsumerNetworkClient) -> None:
    future = heartbeat(client)
    client.close()
    assert future.failed
    assert client.client.closed
