"""The network client against a scripted broker on a real socket."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NotCoordinatorError,
    ProtocolError,
    RequestCancelledError,
    UnsupportedVersionError,
)
from pyconsumer.network.client import ClientResponse, NetworkClient, RequestTimeoutError, _max_response_bytes
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.api import ApiKey, encode_response
from pyconsumer.protocol.messages.fetch import FetchRequest, FetchResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.produce import ProduceRequest
from pyconsumer.structs import BrokerMetadata, TopicPartition
from tests.unit.network.broker import CLOSE, SILENCE, AutoSelector, ScriptedBroker, api_versions_response, make_config

MakeClient = Callable[..., NetworkClient]
HEARTBEAT = HeartbeatRequest(group_id="g")


def soon(client: NetworkClient, seconds: float = 20.0) -> float:
    return client.clock.now() + seconds


def wait_metadata(client: NetworkClient) -> None:
    assert client.metadata is not None
    while not client.metadata.update_count:
        client.poll(soon(client))


def heartbeat(client: NetworkClient, node: int | BrokerMetadata = 0, **options: Any) -> RequestFuture[ClientResponse]:
    return client.send(node, HeartbeatRequest, HEARTBEAT, **options)


def settle(client: NetworkClient, *futures: RequestFuture[Any]) -> None:
    for future in futures:
        client.poll(soon(client), future)
        assert future.done


@pytest.fixture
def client(broker: ScriptedBroker, make_client: MakeClient) -> NetworkClient:
    """A client that knows the cluster of one broker (node 0), which answers heartbeats."""
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    found = make_client(broker.address)
    wait_metadata(found)
    return found


# -- requests and answers ----------------------------------------------------------------------------------------------


def test_a_request_connects_negotiates_and_is_answered(broker: ScriptedBroker, make_client: MakeClient) -> None:
    broker.on(ApiKey.API_VERSIONS, api_versions_response(HEARTBEAT=(0, 3)))
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=27))
    client = make_client(metadata=None)
    future = heartbeat(client, BrokerMetadata(5, "127.0.0.1", broker.port))
    assert not future.done
    settle(client, future)
    response = future.value
    assert (response.message.error_code, response.api_version, response.node_id) == (27, 3, 5)
    assert response.latency >= 0
    assert client.connection_state(5) == "ready"
    assert [request.client_id for request in broker.received] == ["test", "test"]
    assert broker.received[1].message.group_id == "g"


def test_send_only_queues(broker: ScriptedBroker, client: NetworkClient) -> None:
    before = len(broker.received)
    future = heartbeat(client)
    assert not future.done
    assert (client.unsent(0), client.in_flight(0)) == (1, 0)
    assert (client.unsent(), client.in_flight()) == (1, 0)
    assert len(broker.received) == before
    client.flush()
    assert (client.unsent(0), client.in_flight(0)) == (0, 1)
    assert not future.done
    settle(client, future)
    assert (client.unsent(0), client.in_flight(0)) == (0, 0)


def test_requests_are_sent_in_the_order_of_their_queue(broker: ScriptedBroker, client: NetworkClient) -> None:
    futures = [client.send(0, HeartbeatRequest, HeartbeatRequest(group_id=f"g{n}")) for n in range(20)]
    settle(client, *futures)
    assert [r.message.group_id for r in broker.received if r.api_key == ApiKey.HEARTBEAT] == [
        f"g{n}" for n in range(20)
    ]


def test_a_builder_gets_the_version_that_was_negotiated(broker: ScriptedBroker, client: NetworkClient) -> None:
    seen: list[int] = []

    def build(version: int) -> HeartbeatRequest:
        seen.append(version)
        return HEARTBEAT

    settle(client, client.send(0, ApiKey.HEARTBEAT, build, max_version=2))
    assert seen == [2]
    assert broker.received[-1].version == 2


def test_a_version_that_the_broker_does_not_have_fails_that_request_alone(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    broker.on(ApiKey.API_VERSIONS, api_versions_response(HEARTBEAT=(0, 2)))
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    client = make_client(broker.address)
    wait_metadata(client)
    too_new, fine = heartbeat(client, min_version=3), heartbeat(client)
    settle(client, too_new, fine)
    assert isinstance(too_new.exception, UnsupportedVersionError)
    assert fine.succeeded
    assert fine.value.api_version == 2


def test_a_builder_that_raises_fails_its_request(client: NetworkClient) -> None:
    def refuse(version: int) -> HeartbeatRequest:
        raise NotCoordinatorError

    def broken(version: int) -> HeartbeatRequest:
        raise ZeroDivisionError

    future = client.send(0, HeartbeatRequest, refuse)
    settle(client, future)
    assert isinstance(future.exception, NotCoordinatorError)
    future = client.send(0, HeartbeatRequest, broken)
    with pytest.raises(ZeroDivisionError):
        client.poll(soon(client), future)
    settle(client, future, heartbeat(client))
    assert isinstance(future.exception, ProtocolError)


def test_a_request_without_response_succeeds_once_it_is_written(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(ApiKey.PRODUCE, SILENCE)
    future = client.send(0, ProduceRequest, ProduceRequest(acks=0), expect_response=False)
    settle(client, future)
    assert future.value.message is None
    assert client.in_flight(0) == 0
    settle(client, heartbeat(client))
    assert broker.count(ApiKey.PRODUCE) == 1


def test_a_large_response_is_received_whole(broker: ScriptedBroker, client: NetworkClient) -> None:
    records = bytes(range(256)) * (3 << 12)  # 3 MiB

    def fetch(request: Any) -> FetchResponse:
        from pyconsumer.protocol.messages import fetch as messages

        data = messages.PartitionData(partition_index=0, records=records)
        return FetchResponse(responses=[messages.FetchableTopicResponse(topic="t", partitions=[data])])

    broker.on(ApiKey.FETCH, fetch)
    future = client.send(0, FetchRequest, FetchRequest(), max_version=12)
    settle(client, future)
    found = future.value.message.responses[0].partitions[0].records
    assert isinstance(found, memoryview)
    assert bytes(found) == records


def test_a_large_request_is_written_in_parts(broker: ScriptedBroker, client: NetworkClient) -> None:
    group = "g" * 30_000
    futures = [
        client.send(0, HeartbeatRequest, HeartbeatRequest(group_id=group, member_id="m" * 30_000)) for _ in range(300)
    ]
    settle(client, *futures)
    assert all(future.succeeded for future in futures)


def test_the_number_of_requests_in_flight_is_limited(broker: ScriptedBroker, make_client: MakeClient) -> None:
    gate = threading.Semaphore(0)

    def answer(request: Any) -> HeartbeatResponse:
        gate.acquire(timeout=20)
        return HeartbeatResponse()

    broker.on(ApiKey.HEARTBEAT, answer)
    client = make_client(broker.address, max_in_flight=2)
    wait_metadata(client)
    futures = [heartbeat(client) for _ in range(5)]
    client.poll(-math.inf)
    assert (client.in_flight(0), client.unsent(0)) == (2, 3)
    for _ in futures:
        gate.release()
    settle(client, *futures)


def test_a_throttled_node_gets_no_request_for_its_throttle_time(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    clock = ManualClock(100.0)
    broker.on(ApiKey.HEARTBEAT, [HeartbeatResponse(throttle_time_ms=2000), HeartbeatResponse()])
    client = make_client(broker.address, clock=clock, selector=AutoSelector(clock))
    wait_metadata(client)
    settle(client, heartbeat(client))
    began = clock.now()
    settle(client, heartbeat(client))
    assert clock.now() == pytest.approx(began + 2.0)


def test_the_coordinator_has_a_connection_of_its_own(broker: ScriptedBroker, client: NetworkClient) -> None:
    settle(client, heartbeat(client), heartbeat(client, connection="coordinator"))
    first, second = [r.connection for r in broker.received if r.api_key == ApiKey.HEARTBEAT]
    assert first != second
    assert client.connection_state(0, "coordinator") == "ready"
    assert client._pool.key(1, "coordinator") == 2147483646
    with pytest.raises(ValueError, match="coordinator"):
        heartbeat(client, connection="other")


def test_a_coordinators_connection_that_fails_makes_no_node_unreachable(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    settle(client, heartbeat(client))
    broker.on(ApiKey.HEARTBEAT, CLOSE)
    for _ in range(2):
        settle(client, heartbeat(client, connection="coordinator"))
    assert client.node_error(0, "coordinator") is not None
    assert (client.unreachable_since(0), client.unreachable_since(None)) == (None, None)
    broker.on(ApiKey.METADATA, CLOSE)
    for _ in range(2):
        settle(client, heartbeat(client))
    assert client.unreachable_since(0) is not None


def test_a_waiting_request_on_one_connection_does_not_block_the_other(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    gate = threading.Event()

    def wait_for_gate(request: Any) -> HeartbeatResponse:
        gate.wait(20)
        return HeartbeatResponse()

    fetching = client.send(0, FetchRequest, FetchRequest(), connection="coordinator")
    broker.on(ApiKey.FETCH, lambda request: (gate.wait(20), FetchResponse())[1])
    settle(client, heartbeat(client))
    assert not fetching.done
    gate.set()
    settle(client, fetching)


# -- polling -----------------------------------------------------------------------------------------------------------


def test_a_poll_until_now_checks_once_without_waiting(broker: ScriptedBroker, make_client: MakeClient) -> None:
    clock = ManualClock(10.0)
    selector = AutoSelector(clock)
    client = make_client(broker.address, clock=clock, selector=selector)
    wait_metadata(client)
    for until in (clock.now(), -math.inf):
        before = (clock.now(), selector.selects)
        client.poll(until)
        assert (clock.now(), selector.selects) == (before[0], before[1] + 1)


@pytest.mark.parametrize("seconds", [1.5, 7.0])
def test_a_poll_waits_as_long_as_it_may_and_no_longer(
    broker: ScriptedBroker, make_client: MakeClient, seconds: float
) -> None:
    """The wait is one select: neither 5 s nor the retry backoff without requests in flight cuts it into several."""
    clock = ManualClock(10.0)
    selector = AutoSelector(clock)
    client = make_client(broker.address, clock=clock, selector=selector)
    wait_metadata(client)
    client.poll(-math.inf)
    now, selects = clock.now(), selector.selects
    client.poll(now + seconds)
    assert clock.now() == pytest.approx(now + seconds)
    assert selector.selects == selects + 1


def test_a_poll_wakes_at_the_earliest_deadline_of_all_nodes(broker: ScriptedBroker, make_client: MakeClient) -> None:
    clock = ManualClock(10.0)
    client = make_client(broker.address, clock=clock, selector=AutoSelector(clock))
    wait_metadata(client)
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    began = clock.now()
    other = BrokerMetadata(7, "127.0.0.1", broker.port)
    heartbeat(client, timeout=20.0)
    first = heartbeat(client, other, timeout=7.0)
    ended: list[float] = []
    first.add_callback(lambda future: ended.append(clock.now() - began))
    client.poll(began + 300.0, first)
    assert isinstance(first.exception, RequestTimeoutError)
    assert ended == [pytest.approx(7.0)]


def test_a_poll_without_a_future_returns_after_any_event(broker: ScriptedBroker, client: NetworkClient) -> None:
    futures = [heartbeat(client), heartbeat(client)]
    client.poll(soon(client))
    assert any(future.done for future in futures)


def test_callbacks_run_inside_poll_in_the_thread_that_polls(client: NetworkClient) -> None:
    heard: list[tuple[str, int]] = []
    future = heartbeat(client)
    future.add_callback(lambda f: heard.append(("called", threading.get_ident())))
    client.flush()
    assert heard == []
    settle(client, future)
    assert heard == [("called", threading.get_ident())]


def test_a_request_sent_by_a_callback_leaves_with_the_same_poll(broker: ScriptedBroker, client: NetworkClient) -> None:
    more: list[RequestFuture[ClientResponse]] = []
    future = heartbeat(client)
    future.add_callback(lambda f: more.append(heartbeat(client)))
    client.poll(soon(client), future)
    assert client.unsent(0) == 0
    settle(client, more[0])


def test_a_callback_may_close_the_client(client: NetworkClient) -> None:
    future, other = heartbeat(client), heartbeat(client, 77)
    future.add_callback(lambda f: client.close())
    client.poll(soon(client), future)
    assert client.closed
    assert other.failed


def test_wakeup_from_another_thread_ends_the_wait(client: NetworkClient) -> None:
    thread = threading.Timer(0.05, client.wakeup)
    thread.start()
    client.poll(math.inf)
    thread.join(20)
    assert thread.finished.is_set(), "nothing else ends that poll"


def test_wakeup_before_a_poll_ends_that_poll(client: NetworkClient) -> None:
    client.wakeup()
    client.poll(math.inf)


def test_a_blocking_call_is_driven_to_its_result(client: NetworkClient) -> None:
    def steps(deadline: float) -> Steps[int]:
        total = 0
        for _ in range(3):
            future = heartbeat(client)
            while not future.done:
                yield Wait(future, deadline)
            total += 1 + future.value.message.error_code
        return total

    assert client.run(steps(math.inf)) == 3


def test_a_blocking_call_ends_by_its_deadline_with_a_silent_broker(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    clock = ManualClock(10.0)
    client = make_client(broker.address, clock=clock, selector=AutoSelector(clock))
    wait_metadata(client)
    broker.on(ApiKey.HEARTBEAT, SILENCE)

    def steps() -> Steps[None]:
        future = heartbeat(client)
        while not future.done:
            yield Wait(future, math.inf)

    deadline = clock.now() + 5.0
    with pytest.raises(KafkaTimeoutError):
        client.run(steps(), deadline)
    assert clock.now() == pytest.approx(deadline)


def test_a_foreign_event_loop_can_run_the_client_step_by_step(client: NetworkClient) -> None:
    import select

    future = heartbeat(client)
    while not future.done:
        due, _ = client.step(client.clock.now())
        if not future.done:
            select.select([client.fileno()], [], [], min(10.0, max(0.0, due - client.clock.now())))
    assert future.succeeded


# -- nodes that are lost -----------------------------------------------------------------------------------------------


def test_a_missing_response_fails_the_request_and_closes_the_connection(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    clock = ManualClock(10.0)
    client = make_client(broker.address, clock=clock)
    wait_metadata(client)
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    short, long = heartbeat(client, timeout=5.0), heartbeat(client)
    client.poll(-math.inf)
    clock.advance(4.9)
    client.poll(-math.inf)
    assert not short.done
    clock.advance(0.1)
    client.poll(-math.inf)
    error = short.exception
    assert isinstance(error, RequestTimeoutError)
    assert isinstance(error, KafkaTimeoutError)
    assert isinstance(error, KafkaConnectionError)
    assert "HEARTBEAT" in str(error)
    assert broker.address in str(error)
    assert "5 s" in str(error)
    assert isinstance(long.exception, KafkaConnectionError)
    assert not isinstance(long.exception, KafkaTimeoutError)
    assert client.connection_state(0) == "backoff"
    assert broker.ended.acquire(timeout=60)


def test_a_response_that_came_between_polls_is_not_overdue(broker: ScriptedBroker, make_client: MakeClient) -> None:
    import select

    clock = ManualClock(10.0)
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    client = make_client(broker.address, clock=clock)
    wait_metadata(client)
    future = heartbeat(client)
    client.flush()
    assert select.select([client.fileno()], [], [], 10)[0]
    unsent, anywhere = heartbeat(client), client.send_any(HeartbeatRequest, HEARTBEAT)
    clock.advance(100.0)
    settle(client, future, unsent, anywhere)
    assert future.succeeded
    assert unsent.succeeded
    assert anywhere.succeeded
    assert client.stats.connections_failed == 0


def test_a_response_in_progress_gets_its_timeout_once_more(broker: ScriptedBroker, make_client: MakeClient) -> None:
    clock = ManualClock(10.0)
    gate = threading.Event()
    client = make_client(broker.address, clock=clock)
    wait_metadata(client)
    whole = b"".join(encode_response(HeartbeatResponse(), 4, 2))

    def half(request: Any) -> bytes:
        threading.Thread(target=lambda: (gate.wait(10), broker.send_all(whole[6:]))).start()
        return whole[:6]

    broker.on(ApiKey.HEARTBEAT, half)
    future = heartbeat(client)
    channel = client._pool.node(0).channel
    assert channel is not None
    assert channel.connection is not None
    while not channel.connection.inside_response:
        client.poll(clock.now())
    clock.advance(31.0)
    client.poll(-math.inf)
    assert not future.done
    gate.set()
    settle(client, future)
    assert future.succeeded


def test_queued_requests_past_their_deadline_fail_in_order_until_one_can_be_sent(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    clock = ManualClock(10.0)
    client = make_client(broker.address, clock=clock, max_in_flight=1, config={"request_timeout_ms": 60_000})
    wait_metadata(client)
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    blocking = heartbeat(client)
    first, second, third = (heartbeat(client, timeout=t) for t in (5.0, 20.0, 1.0))
    client.poll(-math.inf)
    clock.advance(6.0)
    client.poll(-math.inf)
    assert isinstance(first.exception, RequestTimeoutError)
    assert "could not be sent" in str(first.exception)
    assert not second.done
    assert not third.done
    assert not blocking.done
    clock.advance(15.0)
    client.poll(-math.inf)
    assert second.failed
    assert third.failed


def test_a_broken_connection_fails_requests_in_flight_and_unsent(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    client = make_client(broker.address, max_in_flight=1)
    wait_metadata(client)
    broker.on(ApiKey.HEARTBEAT, CLOSE)
    sent, unsent = heartbeat(client), heartbeat(client)
    settle(client, sent, unsent)
    for future in (sent, unsent):
        assert isinstance(future.exception, KafkaConnectionError)
        assert future.retriable
    assert client.metadata is not None
    assert client.metadata.update_requested


def test_after_the_backoff_the_node_is_tried_again(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(ApiKey.HEARTBEAT, [CLOSE, HeartbeatResponse()])
    lost = heartbeat(client)
    settle(client, lost)
    assert lost.failed
    assert client.backoff_until(0) > client.clock.now() - 5
    assert isinstance(client.node_error(0), KafkaConnectionError)
    assert client.last_error is not None
    again = heartbeat(client)
    settle(client, again)
    assert again.succeeded
    assert client.node_error(0) is None
    assert client.last_error is None
    assert client.stats.connections_created == 2


def test_an_invalid_response_fails_its_request_and_drops_the_others(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    broker.on(ApiKey.HEARTBEAT, lambda request: b"\0\0\0\x04\x7f\xff\xff\xff")
    first, second = heartbeat(client), heartbeat(client)
    settle(client, first, second)
    assert isinstance(first.exception, ProtocolError)
    assert isinstance(second.exception, KafkaConnectionError)


def test_disconnect_fails_waiting_requests(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    future = heartbeat(client)
    client.flush()
    client.disconnect(0, cause="not needed")
    client.disconnect(99)
    assert not future.done
    client.poll(-math.inf)
    assert isinstance(future.exception, KafkaConnectionError)
    assert "not needed" in str(future.exception)
    assert client.connection_state(0) == "disconnected"


def test_a_request_to_an_unknown_node_fails_at_once(client: NetworkClient) -> None:
    future = heartbeat(client, 42)
    settle(client, future)
    assert isinstance(future.exception, KafkaConnectionError)
    assert "42" in str(future.exception)
    assert client.connection_state(41) == "disconnected"
    assert client.node_error(41) is None


def test_a_transfer_interrupted_by_ctrl_c_breaks_the_connection_and_fails_its_requests(
    broker: ScriptedBroker, client: NetworkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyconsumer.network.connection import Connection

    real = Connection.received

    def interrupted(self: Connection, count: int, now: float) -> Any:
        real(self, count, now)
        raise KeyboardInterrupt

    future = heartbeat(client)
    monkeypatch.setattr(Connection, "received", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.poll(soon(client), future)
    monkeypatch.setattr(Connection, "received", real)
    broker.drop_connections()
    settle(client, future)
    assert isinstance(future.exception, KafkaConnectionError)
    assert "interrupt" in str(future.exception)
    settle(client, heartbeat(client))


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_metadata_is_kept_fresh_by_polling(broker: ScriptedBroker, make_client: MakeClient) -> None:
    clock = ManualClock(10.0)
    broker.topics = {"t": 2}
    client = make_client(broker.address, clock=clock, selector=AutoSelector(clock))
    metadata = client.metadata
    assert metadata is not None
    metadata.set_topics({"t"})
    wait_metadata(client)
    assert metadata.partition_count("t") == 2
    assert metadata.leader(TopicPartition("t", 1)) is not None
    client.poll(clock.now() + 299.0)
    assert broker.count(ApiKey.METADATA) == 1
    client.poll(clock.now() + 2.0)
    assert broker.count(ApiKey.METADATA) == 2


def test_the_bootstrap_connection_becomes_the_brokers(broker: ScriptedBroker, client: NetworkClient) -> None:
    settle(client, heartbeat(client))
    assert broker.accepted == 1
    assert client.stats.connections_created == 1


def test_a_bootstrap_connection_of_another_address_is_closed(
    broker: ScriptedBroker, make_client: MakeClient, cleanup: ExitStack
) -> None:
    other = cleanup.enter_context(ScriptedBroker(node_id=3))
    broker.brokers = [other]
    other.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    client = make_client(broker.address)
    wait_metadata(client)
    assert broker.ended.acquire(timeout=60)
    settle(client, heartbeat(client, 3))


def test_metadata_is_requested_again_when_the_broker_drops_the_request(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    broker.on(ApiKey.METADATA, [CLOSE, CLOSE, broker.metadata()])
    client = make_client(broker.address)
    wait_metadata(client)
    assert broker.count(ApiKey.METADATA) == 3


def test_metadata_of_a_too_old_broker_is_a_fatal_error(broker: ScriptedBroker, make_client: MakeClient) -> None:
    broker.on(ApiKey.API_VERSIONS, api_versions_response(METADATA=(0, 1)))
    client = make_client(broker.address)
    assert client.metadata is not None
    while client.metadata.fatal_error is None:
        client.poll(soon(client))
    assert isinstance(client.metadata.fatal_error, UnsupportedVersionError)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_close_fails_waiting_requests_at_once(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    sent, unsent, somewhere = heartbeat(client), heartbeat(client, 5), client.send_any(HeartbeatRequest, HEARTBEAT)
    client.flush()
    client.close()
    client.close()
    for future in (sent, unsent, somewhere):
        assert isinstance(future.exception, (RequestCancelledError, KafkaConnectionError))
    assert broker.ended.acquire(timeout=60)


def test_a_closed_client_rejects_requests(client: NetworkClient) -> None:
    client.close()
    for call in (lambda: client.poll(0.0), client.flush, lambda: client.step(0.0)):
        with pytest.raises(IllegalStateError, match="closed"):
            call()
    assert isinstance(heartbeat(client).exception, RequestCancelledError)
    assert isinstance(client.send_any(HeartbeatRequest, HEARTBEAT).exception, RequestCancelledError)
    client.wakeup()


def test_a_callback_of_the_close_may_disconnect(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(ApiKey.HEARTBEAT, SILENCE)
    errors = []

    def hang_up(future: RequestFuture[ClientResponse]) -> None:
        client.disconnect(0)
        errors.append(future.exception)

    heartbeat(client).add_callback(hang_up)
    client.close()
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("fetch_max_bytes", "limit"),
    [(50 << 20, 114 << 20), (1 << 20, 100 << 20), (300 << 20, 364 << 20), (2**31 - 1, 2**31 - 1)],
)
def test_the_response_limit_follows_fetch_max_bytes(fetch_max_bytes: int, limit: int) -> None:
    config = CONSUMER_SETTINGS.build({"bootstrap_servers": "h:1", "fetch_max_bytes": fetch_max_bytes})
    assert _max_response_bytes(config) == limit


def test_responses_to_other_clients_are_bounded() -> None:
    assert _max_response_bytes(make_config()) == 100 << 20


def test_the_state_of_a_connection_that_another_thread_takes_away_meanwhile() -> None:
    """``health()`` asks for it from any thread."""

    class Node:
        health = SimpleNamespace(may_connect=lambda now: True)
        looks = 0

        @property
        def channel(self) -> object:
            self.looks += 1
            return SimpleNamespace(setting_up=False) if self.looks == 1 else None

    client = SimpleNamespace(_pool=SimpleNamespace(find=lambda *_: Node()), clock=ManualClock())
    assert NetworkClient.connection_state(client, 1, "coordinator") == "ready"  # type: ignore[arg-type]
