"""A Kafka client of one blocking socket: sends a message, reads its answer. For tests that must not lean on ours.

Of the package it uses the protocol layer only.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

from pyconsumer.protocol.api import ApiKey, BrokerVersions, decode_response, encode_request
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["RawClient"]

#: The timestamp that asks for the end of a partition.
_LATEST = -1
#: Codes of a broker that does not lead a partition, or does not know it.
_NOT_LED = {3, 5, 6}


class RawClient:
    """One connection to one broker. A context manager.

    Args:
        address: ``host:port``, or several separated by commas (the first is used).
        timeout_s: bound of each send and each receive.
        tls: speak TLS with this context.
        client_id: stands in the headers of requests.
    """

    def __init__(
        self, address: str, *, timeout_s: float = 60.0, tls: ssl.SSLContext | None = None, client_id: str = "raw"
    ) -> None:
        self._client_id = client_id
        host, _, port = address.split(",")[0].rpartition(":")
        self.address = address
        self._timeout_s = timeout_s
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host.strip("[]"))
        self._versions: BrokerVersions | None = None
        self._next_id = 0
        self._sent: dict[int, tuple[int, int]] = {}  # correlation id -> (api key, version)

    @property
    def versions(self) -> BrokerVersions:
        """Return the API versions of the broker. Requested once."""
        if self._versions is None:
            answer = self.request(ApiVersionsRequest(), 0)
            self._versions = BrokerVersions.of((k.api_key, k.min_version, k.max_version) for k in answer.api_keys)
        return self._versions

    def request(self, message: Any, version: int | None = None) -> Any:
        """Send a request and return its response. ``version=None``: the newest that both sides know."""
        correlation_id = self.send(message, version)
        found_id, response = self.receive()
        assert found_id == correlation_id, f"answer to {found_id} instead of {correlation_id}"
        return response

    def send(self, message: Any, version: int | None = None) -> int:
        """Send a request only and return its correlation id."""
        if version is None:
            version = self.versions.choose(message.API_KEY)
        correlation_id = self._next_id
        self._next_id += 1
        self._sent[correlation_id] = (message.API_KEY, version)
        self.send_bytes(b"".join(encode_request(message, version, correlation_id, self._client_id)))
        return correlation_id

    def receive(self) -> tuple[int, Any]:
        """The next response, as ``(correlation id, message)``."""
        frame = self.receive_frame()
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        return decode_response(*self._sent.pop(correlation_id), frame)

    def answered(self, within_s: float = 0.2) -> bool:
        """Return whether a response is there, or comes within this time. A delayed request has none."""
        return bool(select.select([self._socket], [], [], within_s)[0])

    def send_bytes(self, data: bytes) -> None:
        """Send anything at all."""
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The bytes of the next frame, without its size. ``ConnectionError`` when the broker has closed."""
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError(f"{self.address} closed after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    @property
    def closed_by_broker(self) -> bool:
        """Return whether the broker closes this connection, within the timeout, without sending more."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- what most tests need first ------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic and wait until every partition has a leader.

        A broker of Apache Kafka may name itself as a leader in its metadata before it leads. So the partitions of this
        connection's broker are asked until it does.
        """
        configs = [CreatableTopicConfig(name=key, value=str(value)) for key, value in (config or {}).items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=configs
        )
        (result,) = self.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        assert result.error_code == 0, f"creating {name}: error {result.error_code}: {result.error_message}"
        self._wait(lambda: self.leaders(name).keys() == set(range(partitions)), f"leaders of {name}")
        self._wait(lambda: not self._not_led_yet(name), f"what this broker leads of {name}")

    def _not_led_yet(self, name: str) -> list[int]:
        """Return the partitions that this connection's broker should lead and refuses requests for."""
        port = self.address.rpartition(":")[2]
        here = {node for node, address in self.brokers().items() if address.rpartition(":")[2] == port}
        asked = [
            ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
            for index, leader in self.leaders(name).items()
            if leader in here
        ]
        if not asked:
            return []
        (topic,) = self.request(ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=asked)])).topics
        return [found.partition_index for found in topic.partitions if found.error_code in _NOT_LED]

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        version = self.versions.choose(ApiKey.DELETE_TOPICS)
        request = DeleteTopicsRequest(timeout_ms=30_000)
        if version >= 6:
            request.topics = [DeleteTopicState(name=name)]
        else:
            request.topic_names = [name]
        (result,) = self.request(request, version).responses
        assert result.error_code == 0, f"deleting {name}: error {result.error_code}"
        self._wait(lambda: not self.leaders(name), f"the end of {name}")

    def leaders(self, name: str) -> dict[int, int]:
        """Leader's node id by partition, of those that have one. A topic that does not exist has none."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return {
            partition.partition_index: partition.leader_id
            for topic in self.request(request).topics
            for partition in topic.partitions
            if partition.leader_id >= 0
        }

    def brokers(self) -> dict[int, str]:
        """``host:port`` by node id."""
        return {b.node_id: f"{b.host}:{b.port}" for b in self.request(MetadataRequest(topics=[])).brokers}

    def coordinator(self, group_id: str) -> str:
        """``host:port`` of a group's coordinator. Waits until there is one."""
        found: list[str] = []

        def look() -> bool:
            answer = self.request(FindCoordinatorRequest(key=group_id, key_type=0), 3)
            if answer.error_code == 0:
                found.append(f"{answer.host}:{answer.port}")
            return bool(found)

        self._wait(look, f"a coordinator of {group_id}")
        return found[0]

    def _wait(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + self._timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {self._timeout_s:g} s: {what}"
            time.sleep(0.02)
