"""HTTP of the embedded registry, byte by byte: bounds, bodies, kept connections. The service is one of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.registry import http_server
from pyconsumer.broker.registry.http_server import RegistryServer
from pyconsumer.broker.registry.service import Answer

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Service:
    """Answers with the request. ``/wait`` is answered when ``go`` is set, and ``/fail`` fails."""

    def __init__(self) -> None:
        self.go: Deferred[None] = Deferred()
        self.calls: list[tuple[str, str, bytes]] = []
        self.called = asyncio.Event()

    def permits(self, authorization: str | None) -> bool:
        return authorization != "no"

    async def call(self, method: str, target: str, body: bytes) -> Answer:
        self.calls.append((method, target, body))
        self.called.set()
        if target == "/wait":
            await wait_for(self.go)
        if target == "/fail":
            raise KeyError("x")
        return Answer(200, f"{method} {target} {len(body)}".encode())


def _run(talk: Callable[[Any, RegistryServer, _Service], Awaitable[None]]) -> None:
    async def main() -> None:
        service = _Service()
        server = RegistryServer(service, asyncio.get_running_loop())  # type: ignore[arg-type]
        port = server.open("127.0.0.1", 0)
        server.accept()
        writers = []

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        try:
            async with asyncio.timeout(60):
                await talk(connect, server, service)
        finally:
            server.close()
            for writer in writers:
                writer.close()
            await asyncio.sleep(0)

    asyncio.run(main())


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), await reader.readexactly(int(headers["Content-Length"])), headers


def test_requests_of_a_connection_are_answered_in_order() -> None:
    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        reader, writer = await connect()
        body = b"POST /b?x=1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n" + body + b"GET /c HTTP/1.1\r\nConnection: close\r\n\r\n")
        await service.called.wait()
        assert [target for _, target, _ in service.calls] == ["/wait"]
        service.go.set(None)
        assert (await _response(reader))[:2] == (200, b"GET /wait 0")
        assert (await _response(reader))[:2] == (200, b"POST /b?x=1 3")
        status, _, headers = await _response(reader)
        assert (status, headers["Connection"]) == (200, "close")
        assert await reader.read() == b""

    _run(talk)


def test_a_request_may_arrive_byte_by_byte() -> None:
    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        reader, writer = await connect()
        for byte in b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await _response(reader) == (200, b"POST /a 5", {**(await _headers(connect)), "Content-Length": "9"})
        assert service.calls[0] == ("POST", "/a", b"abcde")

    async def _headers(connect: Any) -> dict[str, str]:
        reader, writer = await connect()
        writer.write(b"GET /a HTTP/1.1\r\n\r\n")
        return (await _response(reader))[2]

    _run(talk)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /a HTTP/2\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /a HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", 413),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413),
        (b"GET /" + b"a" * 70_000, 431),
        (b"GET /a HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_bytes_that_are_no_request_end_the_connection(sent: bytes, status: int) -> None:
    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        reader, writer = await connect()
        writer.write(sent)
        assert (await _response(reader))[0] == status
        assert await reader.read() == b""
        assert service.calls == []

    _run(talk)


def test_a_call_that_fails_is_answered_and_the_connection_goes_on() -> None:
    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        reader, writer = await connect()
        writer.write(b"GET /fail HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n")
        assert (await _response(reader))[0] == 500
        assert (await _response(reader))[0] == 200

    _run(talk)


def test_a_wrong_login_is_answered_without_a_call() -> None:
    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        reader, writer = await connect()
        writer.write(b"GET /a HTTP/1.1\r\nAuthorization: no\r\n\r\n")
        status, _, headers = await _response(reader)
        assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="schema registry"')
        assert service.calls == []

    _run(talk)


def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        _, writer = await connect()
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        await service.called.wait()
        writer.transport.abort()
        while server.connections:  # noqa: ASYNC110 (the server has no event for it)
            await asyncio.sleep(0)
        service.go.set(None)  # the answer has no reader

    _run(talk)


def test_connections_have_a_bound_and_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_MOST_CONNECTIONS", 1)
    monkeypatch.setattr(http_server, "_IDLE_S", 0.05)

    async def talk(connect: Any, server: RegistryServer, service: _Service) -> None:
        first, _ = await connect()
        second, _ = await connect()
        assert await second.read() == b""
        assert await first.read() == b""
        assert not server.connections

    _run(talk)
