"""A tiny scripted broker on a real socket, and a client on a clock that tests move."""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pyconsumer.clock import ManualClock
from pyconsumer.network.selector import Selector, new_selector
from pyconsumer.protocol.api import API, ApiKey, decode_request_header, encode_response
from pyconsumer.protocol.messages import request_type
from pyconsumer.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.settings.config import CLIENT_SETTINGS, ClientConfig, Settings

CLIENT = Settings("client", CLIENT_SETTINGS, ClientConfig)

#: What a handler may return instead of a message.
SILENCE = object()
CLOSE = object()

Handler = Callable[["Received"], Any]


class Received(NamedTuple):
    """A request that was received."""

    api_key: int
    version: int
    message: Any
    connection: int
    client_id: str | None


def make_config(*addresses: str, **options: Any) -> ClientConfig:
    """Client settings for some addresses."""
    return CLIENT.build({"bootstrap_servers": ",".join(addresses) or "localhost:9", "client_id": "test", **options})


def api_versions_response(without: tuple[int, ...] = (), **ranges: tuple[int, int]) -> ApiVersionsResponse:
    """All versions that we support, or other ranges by API name."""
    keys = []
    for key, info in API.items():
        first, last = ranges.get(ApiKey(key).name, (info.min_version, info.max_version))
        if key not in without:
            keys.append(ApiVersion(api_key=key, min_version=first, max_version=last))
    return ApiVersionsResponse(api_keys=keys)


class ScriptedBroker:
    """Answers requests by one handler for each API. It is a context manager.

    Args:
        tls: serve TLS with this context.
        first_bytes: sent as soon as a connection is accepted, instead of serving it.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, first_bytes: bytes | None = None, node_id: int = 0
    ) -> None:
        self.node_id = node_id
        self.received: list[Received] = []
        self.handlers: dict[int, Handler] = {
            ApiKey.API_VERSIONS: lambda request: api_versions_response(),
            ApiKey.METADATA: lambda request: self.metadata(),
        }
        self.brokers: list[ScriptedBroker] = [self]
        self.topics: dict[str, int] = {}
        self.accepted = 0
        self.ended = threading.Semaphore(0)
        self.arrived = threading.Semaphore(0)
        self._tls = tls
        self._first_bytes = first_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name="scripted-broker", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def on(self, api_key: int, answer: Any) -> None:
        """Answer an API by a message, by a list of them in turn (the last one stays), or by a function."""
        if isinstance(answer, list):
            left = list(answer)
            self.handlers[api_key] = lambda request: left.pop(0) if len(left) > 1 else left[0]
        else:
            self.handlers[api_key] = answer if callable(answer) else lambda request: answer

    def metadata(self) -> MetadataResponse:
        """Metadata of ``brokers`` and ``topics`` (partitions by name), led by this one."""
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=b.node_id, host="127.0.0.1", port=b.port) for b in self.brokers],
            controller_id=self.node_id,
            cluster_id="c",
            topics=[
                MetadataResponseTopic(
                    name=name,
                    topic_id=name.encode().ljust(16, b"."),
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=number,
                            leader_id=self.node_id,
                            leader_epoch=1,
                            replica_nodes=[self.node_id],
                            isr_nodes=[self.node_id],
                        )
                        for number in range(count)
                    ],
                )
                for name, count in self.topics.items()
            ],
        )

    def count(self, api_key: int) -> int:
        """Return the number of received requests of an API."""
        return sum(1 for request in self.received if request.api_key == api_key)

    def send_all(self, data: bytes) -> None:
        """Send bytes on the newest connection."""
        self._connections[-1].sendall(data)

    def drop_connections(self) -> None:
        """Close all connections, keep listening."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            # or the second of two answers waits 40 ms for the client's delayed acknowledgement
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self._connections.append(connection)
            thread = threading.Thread(
                target=self._serve, args=(connection, self.accepted), name="scripted-connection", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _serve(self, raw: socket.socket, number: int) -> None:
        stream = raw
        try:
            if self._first_bytes is not None:
                raw.recv(1)
                raw.sendall(self._first_bytes)
                return
            if self._tls is not None:
                stream = self._tls.wrap_socket(raw, server_side=True)
            while (frame := _read_frame(stream)) is not None:
                answer = self._answer(frame, number)
                self.arrived.release()
                if answer is CLOSE:
                    return
                if isinstance(answer, bytes):
                    stream.sendall(answer)
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                stream.close()
            raw.close()
            self.ended.release()

    def _answer(self, frame: bytes, number: int) -> Any:
        header = decode_request_header(frame)
        version = header.api_version
        try:
            message = request_type(header.api_key).decode(frame[header.body_offset :], version)
        except Exception:  # a version that we don't know
            message = None
        request = Received(header.api_key, version, message, number, header.client_id)
        self.received.append(request)
        answer = self.handlers[header.api_key](request)
        if answer is SILENCE or answer is CLOSE:
            return answer
        if isinstance(answer, tuple):  # (message, version to write it in)
            answer, version = answer
        if isinstance(answer, bytes):  # a body, or with a negative "version" a whole frame
            return answer
        return b"".join(encode_response(answer, version, header.correlation_id))


def _read_frame(stream: socket.socket) -> bytes | None:
    size = _read(stream, 4)
    return _read(stream, int.from_bytes(size, "big")) if size is not None else None


def _read(stream: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            return None
        data += more
    return data


class AutoSelector:
    """A selector on a manual clock. Without events its waiting time passes at once.

    Sockets get a moment of real time first, because the other side is a thread. Without another side ``real_wait_s``
    may be 0. From the clock's time ``patient_from`` on they get 5 s of it, since a busy machine may need more than a
    moment.
    """

    def __init__(self, clock: ManualClock, real_wait_s: float = 0.05, *, patient_from: float = math.inf) -> None:
        self._clock = clock
        self.real_wait_s = real_wait_s
        self._patient_from = patient_from
        self._inner: Selector = new_selector()
        self.register = self._inner.register
        self.modify = self._inner.modify
        self.unregister = self._inner.unregister
        self.close = self._inner.close
        self.selects = 0

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        self.selects += 1
        wait = self.real_wait_s if self._clock.now() < self._patient_from else 5.0
        events = list(self._inner.select(min(wait, timeout) if timeout is not None else wait))
        if not events and timeout is not None:
            self._clock.advance(timeout)
        return events


@contextlib.contextmanager
def silent_port() -> Iterator[str]:
    """An address that never completes a connection: a listener whose queue is full."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield f"127.0.0.1:{address[1]}"
