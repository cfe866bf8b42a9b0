"""HTTP to registries that misbehave, over TLS, with tokens, and beside an event loop: on a small server in the test."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.schemas import (
    AsyncSchemaRegistryClient,
    SchemaRegistryAccessError,
    SchemaRegistryClient,
    SchemaRegistryError,
    SchemaRegistryTimeoutError,
    SchemaRegistryUnavailableError,
)
from pyconsumer.schemas.registry.exchange import Attempt, HttpRequest, HttpResponse, NoResponse
from pyconsumer.schemas.registry.http import Transport
from pyconsumer.schemas.registry.settings import RegistrySettings
from tests.support.certificates import make_certificates
from tests.support.http_server import LocalHttpServer

_ONCE = {"max.retries": 0, "timeout": 20}


class _Server(LocalHttpServer):
    """Calls a function for each request. ``requests`` has method, path, headers and body of all."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Callable[[_Handler], None]) -> None:
        super().__init__(_Handler)
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.sockets: set[Any] = set()
        self.arrived = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.sockets.add(self.client_address)
        self.server.requests.append((self.command, self.path, dict(self.headers), body))
        self.server.arrived.set()
        self.server.answer(self)

    do_GET = do_POST = _serve  # noqa: N815 (names of the base class)

    def send(self, status: int, body: Any = (), **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[_Handler], None]], _Server]]:
    servers: list[_Server] = []

    def start(answer: Callable[[_Handler], None]) -> _Server:
        server = _Server(answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


Serve = Callable[[Callable[[_Handler], None]], _Server]


def test_a_connection_is_kept(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, ["a"]))
    with SchemaRegistryClient(server.url) as client:
        for _ in range(5):
            assert client.get_subjects() == ["a"]
    assert len(server.requests) == 5
    assert len(server.sockets) == 1


def test_a_login_goes_with_each_request_and_a_path_is_kept(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, []))
    with SchemaRegistryClient({"url": f"{server.url}/apis/ccompat/v7/", "basic.auth.user.info": "a:b:ü"}) as client:
        client.get_subjects()
    method, path, headers, _ = server.requests[0]
    assert (method, path.partition("?")[0]) == ("GET", "/apis/ccompat/v7/subjects")
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == "a:b:ü"


def test_the_next_address_is_asked_if_one_is_down(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, ["a"]))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        down = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with SchemaRegistryClient([down, server.url]) as client:
            assert client.get_subjects() == ["a"]
        with (
            SchemaRegistryClient({"url": down, **_ONCE}) as client,
            pytest.raises(SchemaRegistryUnavailableError, match=f"GET {down}/subjects: Connection refused"),
        ):
            client.get_subjects()


def test_a_name_that_cannot_be_resolved_is_named() -> None:
    with (
        SchemaRegistryClient({"url": "http://no-such-host.invalid:1", **_ONCE}) as client,
        pytest.raises(SchemaRegistryUnavailableError, match=r"no-such-host\.invalid"),
    ):
        client.get_subjects()


def test_redirects_are_followed_within_bounds(serve: Serve) -> None:
    target = serve(lambda request: request.send(200, ["a"]))

    def redirect(request: _Handler) -> None:
        if request.path.startswith("/subjects/loop"):
            request.send(307, Location=request.path + "x")
        elif request.path.startswith("/subjects/odd"):
            request.send(302, Location="ftp://a/b")
        else:
            request.send(307, Location=target.url + request.path)

    server = serve(redirect)
    with SchemaRegistryClient({"url": server.url, "basic.auth.user.info": "a:s3cr3t", **_ONCE}) as client:
        assert client.get_subjects() == ["a"]
        assert "Authorization" in server.requests[0][2]
        assert "Authorization" not in target.requests[0][2], "another address does not get the login"
        with pytest.raises(SchemaRegistryUnavailableError, match="redirects more than 3 times"):
            client.get_versions("loop")
        with pytest.raises(SchemaRegistryError, match="ftp://a/b"):
            client.get_versions("odd")


@pytest.mark.parametrize("address", ["http://[bad/", "http://u:s3cr3t@a:99999/x"])
def test_a_redirect_to_no_url_is_an_error_that_says_so(serve: Serve, address: str) -> None:
    server = serve(lambda request: request.send(307, Location=address))
    with (
        SchemaRegistryClient({"url": server.url, **_ONCE}) as client,
        pytest.raises(SchemaRegistryError, match=r"redirects to .*, which is no URL") as caught,
    ):
        client.get_subjects()
    assert "s3cr3t" not in str(caught.value)


def test_a_call_may_have_all_the_time_there_is(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, ["a"]))
    with SchemaRegistryClient({"url": server.url, "timeout": 1e11}) as client:
        assert client.get_subjects() == ["a"]


def test_a_response_is_bounded(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, ["x" * 100_000]))
    with (
        SchemaRegistryClient({"url": server.url, "max.response.bytes": 50_000, **_ONCE}) as client,
        pytest.raises(SchemaRegistryUnavailableError, match="longer than 50000 bytes"),
    ):
        client.get_subjects()


def test_a_response_that_drips_ends_with_the_time_of_the_call(serve: Serve) -> None:
    ended = threading.Event()

    def drip(request: _Handler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        while not ended.wait(0.02):
            request.wfile.write(b"x")

    server = serve(drip)
    with SchemaRegistryClient(server.url) as client:
        with pytest.raises(SchemaRegistryTimeoutError):
            client.get_subjects(timeout_ms=200)
        ended.set()


@pytest.mark.parametrize("part", ["status", "headers", "body", "chunks"])
def test_an_attempt_whose_answer_drips_ends_at_its_deadline(serve: Serve, part: str) -> None:
    ended = threading.Event()
    begins = {
        "status": b"HTTP/1.1 2",
        "headers": b"HTTP/1.1 200 OK\r\nX: ",
        "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    }

    def drip(request: _Handler) -> None:
        request.wfile.write(begins[part])
        while not ended.wait(0.02):
            request.wfile.write(b"0")

    server = serve(drip)
    transport = Transport(RegistrySettings.of(server.url))
    found: list[Any] = []
    attempt = Attempt(server.url, HttpRequest("GET", "/"), 0.15)
    thread = threading.Thread(target=lambda: found.append(transport.send(attempt)))
    thread.start()
    thread.join(5)
    is_late = thread.is_alive()
    ended.set()
    thread.join(30)
    transport.close()
    assert not is_late
    assert isinstance(found[0], NoResponse)


def test_who_joined_a_call_that_is_late_makes_its_own() -> None:
    with SchemaRegistryClient("http://127.0.0.1:1") as client:
        sent: list[Attempt] = []
        held = threading.Event()

        class Sender:
            def send(self, attempt: Attempt) -> HttpResponse:
                sent.append(attempt)
                if len(sent) == 1:
                    held.wait(30)
                return HttpResponse(200, {}, b'{"schema": "\\"int\\""}')

            def close(self) -> None:
                held.set()

        client._transport = Sender()  # type: ignore[assignment]
        late = client.fetch_schema(1, timeout_ms=100)
        joined = client.fetch_schema(1, timeout_ms=20_000)
        try:
            assert joined.result(5).schema_str == '"int"'
        finally:
            held.set()
        assert late.result(30).schema_str == '"int"'
        assert len(sent) == 2


def test_an_event_loop_runs_while_a_registry_does_not_answer(serve: Serve) -> None:
    """The registry answers when the loop says so: a loop that was blocked would wait until the time is over."""
    go = threading.Event()

    def answer(request: _Handler) -> None:
        go.wait(60)
        request.send(200, {"schema": '"int"'})

    server = serve(answer)

    async def main() -> None:
        async with AsyncSchemaRegistryClient(server.url) as client:
            calls = [asyncio.create_task(client.get_schema(1)) for _ in range(50)]
            await asyncio.to_thread(server.arrived.wait, 30)
            calls[0].cancel()
            await asyncio.sleep(0)
            go.set()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(found[0], asyncio.CancelledError)
            assert {schema.schema_str for schema in found[1:] if not isinstance(schema, BaseException)} == {'"int"'}
            assert await client.get_schema(1) == client.peek_schema(1)

    asyncio.run(main())
    assert len(server.requests) == 1


def test_the_time_of_a_call_ends_it_on_an_event_loop(serve: Serve) -> None:
    go = threading.Event()
    server = serve(lambda request: (go.wait(60), request.send(200, []))[1])

    async def main() -> None:
        async with AsyncSchemaRegistryClient(server.url) as client:
            with pytest.raises(SchemaRegistryTimeoutError):
                await client.get_subjects(timeout_ms=50)
            go.set()

    asyncio.run(main())


def test_threads_that_ask_at_once_make_one_request(serve: Serve) -> None:
    go = threading.Event()
    server = serve(lambda request: (go.wait(60), request.send(200, {"schema": '"int"'}))[1])
    with SchemaRegistryClient(server.url) as client:
        found = [client.fetch_schema(1) for _ in range(20)]
        go.set()
        assert {future.result(30).schema_str for future in found} == {'"int"'}
    assert len(server.requests) == 1


def test_closing_ends_the_calls_that_wait(serve: Serve) -> None:
    server = serve(lambda request: request.send(503, {"error_code": 50004, "message": "later"}))
    client = SchemaRegistryClient({"url": server.url, "retries.wait.ms": 15_000, "retries.max.wait.ms": 15_000})
    future = client.fetch_schema(1)
    assert server.arrived.wait(30)
    client.close()
    assert future.exception(30) is not None


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_tls(serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import ssl

    found = make_certificates(tmp_path)
    server = serve(lambda request: request.send(200, ["a"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(found.server_pem)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    url = f"https://localhost:{server.server_port}"
    with SchemaRegistryClient({"url": url, "ssl.ca.location": str(found.ca_pem), **_ONCE}) as client:
        assert client.get_subjects() == ["a"]
    with (
        SchemaRegistryClient({"url": url, **_ONCE, "max.retries": 3}) as client,
        pytest.raises(SchemaRegistryUnavailableError, match="certificate verify failed"),
    ):
        client.get_subjects()
    with caplog.at_level("WARNING"), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with SchemaRegistryClient({"url": url, "ssl.ca.location": False, **_ONCE}) as client:
            assert client.get_subjects() == client.get_subjects() == ["a"]
    assert caplog.messages == ["ssl.ca.location is False: the certificates of localhost are not checked"]
    assert not warned


# --- bearer tokens


def test_a_static_token_and_its_headers(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, []))
    conf = {
        "url": server.url,
        "bearer.auth.token": "t0ken",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    with SchemaRegistryClient(conf) as client:
        client.get_subjects()
    headers = server.requests[0][2]
    assert headers["Authorization"] == "Bearer t0ken"
    assert (headers["target-sr-cluster"], headers["Confluent-Identity-Pool-Id"]) == ("lsrc-1", "pool-1")


def test_a_function_gives_the_token(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, []))
    tokens = iter(["one", "two"])
    conf: dict[str, Any] = {
        "url": server.url,
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda config: {"bearer.auth.token": config["p"] + next(tokens)},
        "bearer.auth.custom.provider.config": {"p": "t-"},
        **_ONCE,
    }
    with SchemaRegistryClient(conf) as client:
        client.get_subjects()
        client.get_subjects()
        with pytest.raises(SchemaRegistryUnavailableError, match="function raised StopIteration"):
            client.get_subjects()
    assert [request[2]["Authorization"] for request in server.requests] == ["Bearer t-one", "Bearer t-two"]


@pytest.mark.parametrize("token", ["s3cr3t\nX: y", "s3cr3t\x07", "s3cr3t\u20ac"])
def test_a_token_that_is_no_header_is_in_no_message(token: str) -> None:
    conf: dict[str, Any] = {
        "url": "http://127.0.0.1:1",
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda config: {"bearer.auth.token": token},
        **_ONCE,
    }
    with (
        SchemaRegistryClient(conf) as client,
        pytest.raises(SchemaRegistryError, match=r"bearer\.auth\.token has characters") as caught,
    ):
        client.get_subjects()
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_an_error_of_a_request_that_cannot_be_made_has_a_constant_text(serve: Serve) -> None:
    server = serve(lambda request: request.send(200, []))
    transport = Transport(RegistrySettings.of(server.url))
    until = time.monotonic() + 20
    for value in ("s3cr3t\nX: y", "s3cr3t\u20ac"):
        answer = transport.exchange("GET", server.url, {"Authorization": value}, None, until)
        assert isinstance(answer, NoResponse)
        assert answer.final
        assert "s3cr3t" not in answer.reason
    with (
        SchemaRegistryClient({"url": server.url, "basic.auth.user.info": "a:s3cr3t\ud800", **_ONCE}) as client,
        pytest.raises(SchemaRegistryError, match="the request cannot be made") as caught,
    ):
        client.get_subjects()
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    transport.close()


@pytest.mark.parametrize("rejected", [{"Bearer t1"}, {"Bearer t1", "Bearer t2"}], ids=["once", "always"])
def test_client_credentials_get_a_token_that_is_kept_until_it_is_rejected(serve: Serve, rejected: set[str]) -> None:
    issued: list[bytes] = []

    def issue(request: _Handler) -> None:
        issued.append(request.server.requests[-1][3])
        request.send(200, {"access_token": f"t{len(issued)}", "expires_in": 3600})

    issuer = serve(issue)

    def answer(request: _Handler) -> None:
        if len(server.requests) > 2 and request.headers["Authorization"] in rejected:
            request.send(401, {"error_code": 401, "message": "expired"})
        else:
            request.send(200, [])

    server = serve(answer)
    conf = {
        "url": server.url,
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "s3cr3t",
        "bearer.auth.scope": "registry",
        "bearer.auth.issuer.endpoint.url": f"{issuer.url}/token",
        **_ONCE,
    }
    with SchemaRegistryClient(conf) as client:
        client.get_subjects()
        client.get_subjects()
        assert issued == [b"grant_type=client_credentials&client_id=me&client_secret=s3cr3t&scope=registry"]
        if len(rejected) == 1:
            client.get_subjects()
        else:
            with pytest.raises(SchemaRegistryAccessError, match="expired") as caught:
                client.get_subjects()
            assert "t2" not in str(caught.value)
        assert len(issued) == 2
        assert [request[2]["Authorization"] for request in server.requests[2:]] == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, SchemaRegistryAccessError),
        (401, SchemaRegistryAccessError),
        (429, SchemaRegistryUnavailableError),
        (503, SchemaRegistryUnavailableError),
    ],
)
def test_an_authorization_server_that_fails_is_named_without_the_secret(
    serve: Serve, status: int, kind: type[SchemaRegistryError]
) -> None:
    issuer = serve(lambda request: request.send(status, {"error": "invalid_client"}))
    conf = {
        "url": issuer.url,
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "s3cr3t",
        "bearer.auth.issuer.endpoint.url": f"{issuer.url}/token",
        "max.retries": 1,
        "retries.wait.ms": 0,
    }
    with (
        SchemaRegistryClient(conf) as client,
        pytest.raises(kind, match=f"/token: it answered with status {status}") as caught,
    ):
        client.get_subjects()
    assert type(caught.value) is kind
    assert "s3cr3t" not in str(caught.value)
    assert len(issuer.requests) == (1 if kind is SchemaRegistryAccessError else 2)
