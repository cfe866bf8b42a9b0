"""HTTP of the registry, on the loop of the cluster. No thread and no task belongs to it.

There are bounds for the number of connections, the size of a head and of a body, the time to send a request, and the
time without one. A connection has one request at a time, since HTTP answers in order.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import run_handler
from pyconsumer.broker.registry.service import Answer, RegistryService, error_answer

__all__ = ["RegistryServer"]

_log = Log(__name__)

_MOST_CONNECTIONS: Final = 256
_MOST_HEAD_BYTES: Final = 64 << 10
_MOST_BODY_BYTES: Final = 8 << 20
_REQUEST_S: Final = 30.0  #: from the first byte of a request to its last
_IDLE_S: Final = 120.0
_REST_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class _Refused(Exception):
    """The bytes are no request that is served. The connection ends after the response."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Head(NamedTuple):
    """The head of a request."""

    method: str
    target: str
    headers: Mapping[str, str]
    keep_alive: bool


class RegistryServer:
    """The listener and the connections of a registry.

    Args:
        service: makes the calls.
        loop: the cluster's.
    """

    def __init__(self, service: RegistryService, loop: asyncio.AbstractEventLoop) -> None:
        self.service = service
        self.loop = loop
        self.connections: set[_Connection] = set()
        self.port = 0
        self._listener: socket.socket | None = None
        self._accepting: set[asyncio.Task[object]] = set()

    def open(self, host: str, port: int, held: socket.socket | None = None) -> int:
        """Open the listener and return its port. 0 picks a free one. ``OSError`` if it cannot be opened.

        Args:
            host: the address to listen on.
            port: see above.
            held: a socket of :func:`.ports.hold_ports` that holds the port. It becomes the listener.
        """
        if held is None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server((host, port), family=family, backlog=128)
        else:
            listener = held
            listener.listen(128)
        listener.setblocking(False)
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        return self.port

    def accept(self) -> None:
        """Begin to serve clients."""
        if self._listener is not None:
            self.loop.add_reader(self._listener, self._on_acceptable)

    def _on_acceptable(self) -> None:
        listener = self._listener
        if listener is None:
            return
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            _log.warning("the schema registry cannot accept a connection: %s", error)
            if error.errno in _EXHAUSTED:
                self.loop.remove_reader(listener)
                self.loop.call_later(_REST_S, self.accept)
            return
        if len(self.connections) + len(self._accepting) >= _MOST_CONNECTIONS:
            sock.close()
            return
        sock.setblocking(False)
        task = self.loop.create_task(self.loop.connect_accepted_socket(lambda: _Connection(self), sock))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def close(self) -> None:
        """Close the listener and all connections."""
        if self._listener is not None:
            if not self.loop.is_closed():
                self.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.end()


class _Connection(asyncio.Protocol):
    """One client: it reads a request, has it answered, and reads the next one."""

    def __init__(self, server: RegistryServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._head: _Head | None = None
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)
        self._wait(_IDLE_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._wait(None)

    def end(self) -> None:
        """Reset the connection."""
        self._wait(None)
        self._transport.abort()

    def _wait(self, seconds: float | None) -> None:
        """Reset the connection unless something happens in time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._server.loop.call_later(seconds, self.end)

    def data_received(self, data: bytes) -> None:
        if not self._received and not self._busy and self._head is None:
            self._wait(_REQUEST_S)
        self._received += data
        if self._busy:
            if len(self._received) > _MOST_HEAD_BYTES + _MOST_BODY_BYTES:
                self._transport.pause_reading()  # a client that does not wait for its responses
            return
        self._next()

    def _next(self) -> None:
        """Take the next request if it is complete."""
        try:
            if self._head is None:
                self._head = self._take_head()
            body = None if self._head is None else self._take_body(self._head)
        except _Refused as refused:
            text = refused.status.phrase
            self._send(error_answer(refused.status, refused.status, text), keep_alive=False)
            return
        if self._head is None or body is None:
            return
        head, self._head, self._busy = self._head, None, True
        self._wait(None)
        if not self._server.service.permits(head.headers.get("authorization")):
            answer = error_answer(HTTPStatus.UNAUTHORIZED, HTTPStatus.UNAUTHORIZED, "Unauthorized")
            self._answer(head, answer)
            return
        run_handler(
            self._server.service.call(head.method, head.target, body),
            lambda answer: self._answer(head, answer),
            lambda error: self._answer(head, error_answer(500, 500, type(error).__name__)),
        )

    def _take_head(self) -> _Head | None:
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or end > _MOST_HEAD_BYTES:
            if len(self._received) > _MOST_HEAD_BYTES:
                raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return None
        lines = self._received[:end].decode("latin-1").split("\r\n")
        del self._received[: end + 4]
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise _Refused(HTTPStatus.BAD_REQUEST)
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise _Refused(HTTPStatus.BAD_REQUEST)
            headers[name.lower()] = value.strip()
        connection = headers.get("connection", "").lower()
        keep_alive = connection != "close" if words[2] == "HTTP/1.1" else connection == "keep-alive"
        if headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return _Head(words[0].upper(), words[1], headers, keep_alive)

    def _take_body(self, head: _Head) -> bytes | None:
        """Return the body, None while it is incomplete."""
        if "transfer-encoding" in head.headers:
            if head.headers["transfer-encoding"].lower() != "chunked":
                raise _Refused(HTTPStatus.NOT_IMPLEMENTED)
            return self._take_chunks()
        text = head.headers.get("content-length", "0")
        if not text.isdigit():
            raise _Refused(HTTPStatus.BAD_REQUEST)
        size = int(text)
        if size > _MOST_BODY_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if len(self._received) < size:
            return None
        body = bytes(self._received[:size])
        del self._received[:size]
        return body

    def _take_chunks(self) -> bytes | None:
        if len(self._received) > _MOST_BODY_BYTES + _MOST_HEAD_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        found, at = bytearray(), 0
        while True:
            end = self._received.find(b"\r\n", at)
            if end < 0:
                return None
            try:
                size = int(self._received[at:end].split(b";")[0], 16)
            except ValueError:
                raise _Refused(HTTPStatus.BAD_REQUEST) from None
            at = end + 2
            if not 0 <= size <= _MOST_BODY_BYTES:
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            if size == 0:
                last = self._received.find(b"\r\n", at)
                if last < 0:
                    return None
                del self._received[: last + 2]
                return bytes(found)
            if len(self._received) < at + size + 2:
                return None
            found += self._received[at : at + size]
            at += size + 2

    def _answer(self, head: _Head, answer: Answer) -> None:
        if self._transport.is_closing():
            return
        self._send(answer, keep_alive=head.keep_alive, without_body=head.method == "HEAD")
        if not head.keep_alive:
            return
        self._busy = False
        self._wait(_REQUEST_S if self._received else _IDLE_S)
        self._transport.resume_reading()
        if self._received:
            self._server.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self._busy and not self._transport.is_closing():
            self._next()

    def _send(self, answer: Answer, *, keep_alive: bool, without_body: bool = False) -> None:
        status = HTTPStatus(answer.status)
        lines = [
            f"HTTP/1.1 {int(status)} {status.phrase}",
            f"Content-Type: {_CONTENT_TYPE}",
            f"Content-Length: {len(answer.body)}",
            f"Connection: {'keep-alive' if keep_alive else 'close'}",
        ]
        if status is HTTPStatus.UNAUTHORIZED:
            lines.append('WWW-Authenticate: Basic realm="schema registry"')
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._transport.write(head if without_body else head + answer.body)
        if not keep_alive:
            self._busy = True
            self._transport.close()
