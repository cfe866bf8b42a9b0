"""The proxy hides the brokers' addresses, obeys its rules, and records the traffic."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from pyconsumer.protocol.api import ApiKey, decode_request_header, encode_response
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pyconsumer.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from pyconsumer.protocol.schema import Message
from tests.support.proxy import KafkaProxy
from tests.support.proxy_rules import replace_errors
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.concurrent


class FakeBroker:
    """Answers each request at once, with itself as the only broker."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heartbeats = 0
        self._open = True
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if not self._open:
                sock.close()
                return
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as file:
            try:
                while size := file.read(4):
                    frame = file.read(int.from_bytes(size, "big"))
                    header = decode_request_header(frame)
                    load(header.api_key)[0].decode(frame[header.body_offset :], header.api_version)
                    answer = self._answer(header.api_key, header.api_version)
                    sock.sendall(b"".join(encode_response(answer, header.api_version, header.correlation_id)))
            except ConnectionError:
                pass

    def _answer(self, api_key: int, version: int) -> Message:
        if api_key == ApiKey.API_VERSIONS:
            keys = [ApiKey.HEARTBEAT, ApiKey.METADATA, ApiKey.FIND_COORDINATOR]
            return ApiVersionsResponse(
                api_keys=[ApiVersion(k, load(k)[0].MIN_VERSION, load(k)[0].MAX_VERSION) for k in keys]
            )
        if api_key == ApiKey.HEARTBEAT:
            self.heartbeats += 1
            return HeartbeatResponse(throttle_time_ms=self.heartbeats)
        if api_key == ApiKey.METADATA:
            return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)])
        assert api_key == ApiKey.FIND_COORDINATOR
        assert version < 4
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=self.port)

    def stop_listening(self) -> None:
        self._open = False
        with socket.create_connection(("127.0.0.1", self.port)):  # wakes accept
            self._threads[0].join(10)
        self._listener.close()

    def close(self) -> None:
        if self._open:
            self.stop_listening()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    made = FakeBroker()
    yield made
    made.close()


@pytest.fixture
def proxy(broker: FakeBroker) -> Iterator[KafkaProxy]:
    with KafkaProxy(f"127.0.0.1:{broker.port}") as made:
        yield made


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[RawClient]:
    with RawClient(proxy.bootstrap_servers, timeout_s=10) as made:
        yield made


@pytest.mark.parametrize("version", [0, 9, 13])
def test_metadata_names_the_proxy(client: RawClient, proxy: KafkaProxy, version: int) -> None:
    (broker,) = client.request(MetadataRequest(topics=[]), version).brokers
    assert f"{broker.host}:{broker.port}" == proxy.bootstrap_servers


def test_find_coordinator_names_the_proxy(client: RawClient, proxy: KafkaProxy) -> None:
    assert client.coordinator("g") == proxy.bootstrap_servers


def test_events_come_in_order_and_hold_the_messages(client: RawClient, proxy: KafkaProxy) -> None:
    client.request(HeartbeatRequest(group_id="g"), 4)
    client.request(MetadataRequest(topics=[]), 9)
    assert [str(event) for event in proxy.events()] == [
        "request Heartbeat v4 #0 on 1",
        "response Heartbeat v4 #0 on 1",
        "request Metadata v9 #1 on 1",
        "response Metadata v9 #1 on 1",
    ]
    (sent,) = proxy.events(ApiKey.HEARTBEAT, "request")
    assert (sent.message.group_id, sent.client_id) == ("g", "raw")
    (answered,) = proxy.events(ApiKey.HEARTBEAT, "response")
    assert answered.message.throttle_time_ms == 1


def test_fail_replaces_the_error_code_as_often_as_requested(client: RawClient, proxy: KafkaProxy) -> None:
    rule = proxy.fail(ApiKey.HEARTBEAT, 27, skip=1, count=2)
    codes = [client.request(HeartbeatRequest(), 4).error_code for _ in range(4)]
    assert codes == [0, 27, 27, 0]
    assert rule.hits == 2


def test_edit_changes_requests_and_responses(client: RawClient, proxy: KafkaProxy) -> None:
    def rename(message: HeartbeatRequest) -> HeartbeatRequest:
        return HeartbeatRequest(group_id="other", member_id=message.member_id)

    proxy.edit(ApiKey.HEARTBEAT, rename, direction="request", count=1)
    proxy.edit(ApiKey.HEARTBEAT, lambda m: setattr(m, "throttle_time_ms", 99))
    assert client.request(HeartbeatRequest(group_id="g"), 4).throttle_time_ms == 99


def test_limit_versions_makes_the_broker_look_older(client: RawClient, proxy: KafkaProxy) -> None:
    proxy.limit_versions({ApiKey.HEARTBEAT: 2})
    assert client.versions.choose(ApiKey.HEARTBEAT) == 2
    assert client.versions.choose(ApiKey.FIND_COORDINATOR) == FindCoordinatorRequest.MAX_VERSION


def test_a_dropped_request_does_not_arrive_at_the_broker(
    client: RawClient, proxy: KafkaProxy, broker: FakeBroker
) -> None:
    proxy.drop(ApiKey.HEARTBEAT, direction="request", count=1)
    client.send(HeartbeatRequest(), 4)
    second = client.send(HeartbeatRequest(), 4)
    assert client.receive()[0] == second
    assert broker.heartbeats == 1


def test_a_dropped_response_was_acted_upon(client: RawClient, proxy: KafkaProxy, broker: FakeBroker) -> None:
    proxy.drop(ApiKey.HEARTBEAT, count=1)
    client.send(HeartbeatRequest(), 4)
    client.send(HeartbeatRequest(), 4)
    assert client.receive()[1].throttle_time_ms == 2


def test_cut_closes_in_the_middle_of_a_frame(client: RawClient, proxy: KafkaProxy) -> None:
    proxy.cut(ApiKey.HEARTBEAT, keep_bytes=7)
    client.send(HeartbeatRequest(), 4)
    with pytest.raises(ConnectionResetError, match=r"closed after 3 of \d+ bytes"):
        client.receive()


def test_cut_with_reset_resets(client: RawClient, proxy: KafkaProxy) -> None:
    proxy.cut(ApiKey.HEARTBEAT, keep_bytes=0, reset=True)
    client.send(HeartbeatRequest(), 4)
    with pytest.raises(ConnectionResetError, match="reset by peer"):
        client.receive()


def test_hold_keeps_frames_until_released(client: RawClient, proxy: KafkaProxy) -> None:
    held = proxy.hold(ApiKey.HEARTBEAT, count=1)
    client.send(HeartbeatRequest(), 4)
    client.send(MetadataRequest(topics=[]), 9)
    held.wait()
    proxy.wait_for(ApiKey.METADATA, "response")  # it has arrived and waits behind
    held.release()
    assert [client.receive()[0] for _ in range(2)] == [0, 1]


def test_a_rule_may_inspect_the_frame(client: RawClient, proxy: KafkaProxy) -> None:
    proxy.fail(ApiKey.HEARTBEAT, 25, where=lambda event: event.correlation_id == 1)
    assert [client.request(HeartbeatRequest(), 4).error_code for _ in range(3)] == [0, 25, 0]


def test_a_round_trip_is_added_without_limiting_throughput(broker: FakeBroker) -> None:
    with (
        KafkaProxy(f"127.0.0.1:{broker.port}", round_trip_ms=200) as proxy,
        RawClient(proxy.bootstrap_servers, timeout_s=10) as client,
    ):
        start = time.monotonic()
        for _ in range(200):
            client.send(HeartbeatRequest(), 4)
        for _ in range(200):
            client.receive()
        assert 0.2 <= time.monotonic() - start < 20, "one after the other they would take 40 s"


def test_delay_applies_to_its_api_alone(client: RawClient, proxy: KafkaProxy) -> None:
    proxy.delay(ApiKey.HEARTBEAT, 150)
    start = time.monotonic()
    client.request(HeartbeatRequest(), 4)
    assert time.monotonic() - start >= 0.15


def test_refuse_simulates_a_dead_broker_until_accept(client: RawClient, proxy: KafkaProxy) -> None:
    client.request(HeartbeatRequest(), 4)
    address = proxy.bootstrap_servers
    proxy.refuse()
    assert client.closed_by_broker
    with pytest.raises(ConnectionRefusedError):
        RawClient(address)
    proxy.accept()
    with RawClient(address, timeout_s=10) as again:
        again.request(HeartbeatRequest(), 4)


def test_cut_all_closes_connections_but_takes_new_ones(client: RawClient, proxy: KafkaProxy) -> None:
    client.request(HeartbeatRequest(), 4)
    assert proxy.connections == 1
    proxy.cut_all()
    assert client.closed_by_broker
    with RawClient(proxy.bootstrap_servers, timeout_s=10) as again:
        again.request(HeartbeatRequest(), 4)


def test_a_client_of_a_dead_broker_is_closed(broker: FakeBroker, proxy: KafkaProxy) -> None:
    broker.stop_listening()
    with RawClient(proxy.bootstrap_servers, timeout_s=10) as client:
        assert client.closed_by_broker


def test_stopping_while_clients_connect_leaves_no_socket_open(broker: FakeBroker) -> None:
    for _ in range(5):
        proxy = KafkaProxy(f"127.0.0.1:{broker.port}")
        proxy.start()
        address = ("127.0.0.1", int(proxy.bootstrap_servers.rpartition(":")[2]))
        clients: list[socket.socket] = []

        def connect(address: tuple[str, int] = address, clients: list[socket.socket] = clients) -> None:
            with contextlib.suppress(OSError):
                while len(clients) < 300:
                    clients.append(socket.create_connection(address))

        connecting = threading.Thread(target=connect)
        connecting.start()
        while not clients and connecting.is_alive():
            time.sleep(0.001)
        proxy.stop()
        connecting.join(10)
        for client in clients:
            client.close()
        del proxy
        gc.collect()  # what is open would warn, and warnings are errors


def test_wait_for_names_the_requests_seen_when_it_times_out(client: RawClient, proxy: KafkaProxy) -> None:
    client.request(HeartbeatRequest(), 4)
    with pytest.raises(AssertionError, match="request Heartbeat v4"):
        proxy.wait_for(ApiKey.METADATA, timeout_s=0.01)


def test_an_error_inside_a_rule_is_raised_by_stop(broker: FakeBroker) -> None:
    proxy = KafkaProxy(f"127.0.0.1:{broker.port}")
    proxy.start()
    proxy.edit(ApiKey.HEARTBEAT, lambda message: message.no_such_field)
    with RawClient(proxy.bootstrap_servers, timeout_s=10) as client:
        client.send(HeartbeatRequest(), 4)
        assert client.closed_by_broker
    with pytest.raises(AttributeError, match="no_such_field"):
        proxy.stop()


def test_error_codes_are_replaced_at_the_given_path() -> None:
    def response() -> FetchResponse:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=b"x")])])

    top, inner = response(), response()
    replace_errors(top, 12, 70)
    assert (top.error_code, top.responses[0].partitions[0].error_code) == (70, 0)
    replace_errors(inner, 12, 1, "responses.partitions")
    partition = inner.responses[0].partitions[0]
    assert (inner.error_code, partition.error_code, partition.records) == (0, 1, b"")
    old = response()
    replace_errors(old, 4, 6)  # version 4 has none at the top
    assert old.responses[0].partitions[0].error_code == 6
