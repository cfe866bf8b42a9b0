"""Logins of clouds: the tokens, without a cloud."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
import textwrap
import threading
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.logins import AwsMskIam
from tests.support.http_server import LocalHttpServer

EXAMPLES = Path(__file__).parents[2] / "examples"
# The credentials of AWS's own documentation.
_KEYS = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


def _example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", _KEYS[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", _KEYS[1])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/session+token")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("credentials")
def test_a_token_of_amazon_has_the_signature_that_the_specification_gives() -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    provider = AwsMskIam("eu-west-1")
    found = provider.token()
    assert isinstance(found, Future)
    token = found.result(30)
    url = urllib.parse.urlsplit(_decoded(token))
    query = dict(urllib.parse.parse_qsl(url.query))
    at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    msk = _example("msk_iam")  # its signature is judged by AWS's documentation
    expected = msk.MskTokens("eu-west-1", lambda: msk.Credentials(*_KEYS, "a/session+token")).token_at(at)
    assert query["X-Amz-Signature"] == dict(urllib.parse.parse_qsl(_decoded(expected)))["X-Amz-Signature"]
    assert provider.token() == token  # used again
    assert token not in repr(provider)


@pytest.mark.usefixtures("credentials")
def test_a_login_that_is_given_up_does_not_take_the_token_from_others() -> None:
    signer = pytest.importorskip("aws_msk_iam_sasl_signer")
    provider = AwsMskIam("eu-west-1")
    go = threading.Event()

    class Slow:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            go.wait(30)
            token: tuple[str, int] = signer.MSKAuthTokenProvider.generate_auth_token(region)
            return token

    provider._signer = Slow
    first, second = provider.token(), provider.token()
    assert isinstance(first, Future)
    assert isinstance(second, Future)
    first.cancel()
    go.set()
    assert second.result(30)


def test_a_child_that_is_forked_while_a_token_is_made_makes_its_own() -> None:
    """The program is a process of its own: the tests have other threads."""
    code = textwrap.dedent("""
        import os, sys, threading, types
        package = sys.modules["aws_msk_iam_sasl_signer"] = types.ModuleType("signer")
        package.MSKAuthTokenProvider = Signer = types.SimpleNamespace()
        from pyconsumer.logins import AwsMskIam
        parent, entered, go = os.getpid(), threading.Event(), threading.Event()
        def sign(region):
            if os.getpid() == parent:
                entered.set()
                go.wait(20)
            return str(os.getpid()), 4_000_000_000_000
        Signer.generate_auth_token = sign
        provider = AwsMskIam("eu-west-1")
        made = provider.token()
        entered.wait(20)
        child = os.fork()
        if not child:
            try:
                os._exit(0 if provider.token().result(5) == str(os.getpid()) else 1)
            except BaseException:
                os._exit(2)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go.set()
        made.result(20)
        sys.exit(status)
    """)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert done.returncode == 0


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigurationError, match=r"pyconsumer\[aws\]"):
        AwsMskIam("eu-west-1")


@contextmanager
def _metadata(answers: dict[str, Any], header: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """A server that answers as the metadata server of a cloud does. It gives its address, and the paths asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            found = answers.get(self.path.partition("?")[0]) if self.headers.get(header[0]) == header[1] else None
            data = b"" if found is None else found.encode() if isinstance(found, str) else json.dumps(found).encode()
            self.send_response(403 if found is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with LocalHttpServer(Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.url, asked
        finally:
            server.shutdown()
            thread.join()


def test_azure() -> None:
    answer = {"access_token": "a.b.c", "expires_in": "3599", "token_type": "Bearer"}
    with _metadata({"/token": answer}, ("Metadata", "true")) as (url, asked):
        provider = _example("azure_login").ManagedIdentity("mine.servicebus.windows.net:9093", f"{url}/token")
        assert provider.token() == provider.token() == "a.b.c"
    (path,) = asked
    query = urllib.parse.parse_qs(path.partition("?")[2])
    assert query == {"api-version": ["2018-02-01"], "resource": ["https://mine.servicebus.windows.net"]}


def test_google() -> None:
    answers = {"/token": {"access_token": "ya29.x", "expires_in": 3599}, "/email": "me@project.iam"}
    with _metadata(answers, ("Metadata-Flavor", "Google")) as (url, asked):
        provider = _example("google_login").ServiceAccount(url)
        token = provider.token()
        assert provider.token() == token
    assert asked == ["/token", "/email"]
    head, claims, inner = map(_decoded, token.split("."))
    assert json.loads(head) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    found = json.loads(claims)
    assert (found["sub"], found["iss"], found["scope"], inner) == ("me@project.iam", "Google", "kafka", "ya29.x")
    assert found["exp"] - found["iat"] == 3599
