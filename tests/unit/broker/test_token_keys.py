"""Key sets of a token's issuer: every algorithm, refused keys, files and servers that fail."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joserfc")

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pyconsumer.broker import token_keys as module
from pyconsumer.broker.token_keys import KeySource, parse_keys
from pyconsumer.errors import ConfigurationError
from tests.support.http_server import LocalHttpServer
from tests.support.process import wait_until


def number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode().rstrip("=")


RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
RSA_JWK = {"kty": "RSA", "n": number(RSA_KEY.public_key().public_numbers().n), "e": "AQAB"}


def elliptic(curve: ec.EllipticCurve, name: str) -> tuple[ec.EllipticCurvePrivateKey, dict[str, str]]:
    key = ec.generate_private_key(curve)
    point = key.public_key().public_numbers()
    return key, {"kty": "EC", "crv": name, "x": number(point.x), "y": number(point.y)}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(algorithm: str, sign: Callable[[bytes], bytes], claims: bytes = b"{}", **header: Any) -> str:
    signed = f"{part(json.dumps({'alg': algorithm, **header}).encode())}.{part(claims)}"
    return f"{signed}.{part(sign(signed.encode()))}"


def digest_of(algorithm: str) -> hashes.HashAlgorithm:
    found: hashes.HashAlgorithm = getattr(hashes, f"SHA{algorithm[2:]}")()
    return found


def sign_by_rsa(algorithm: str) -> Callable[[bytes], bytes]:
    digest = digest_of(algorithm)
    pss = padding.PSS(padding.MGF1(digest), salt_length=digest.digest_size)
    return lambda data: RSA_KEY.sign(data, pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_signatures_of_rsa(algorithm: str) -> None:
    ((key,),) = parse_keys(key_set({**RSA_JWK, "x5t": "AQ", "key_ops": ["verify"]})).values()
    sign = sign_by_rsa(algorithm)
    assert key.verify(algorithm, token(algorithm, sign))
    assert key.verify(algorithm, token(algorithm, sign, kid="k", typ="at+jwt", own="x" * 5000))
    assert key.verify(algorithm, token(algorithm, sign, b'{"sub": "%s"}' % (b"u" * 30_000)))
    other = algorithm.replace("R", "P") if algorithm.startswith("R") else algorithm.replace("P", "R")
    assert not key.verify(algorithm, token(algorithm, sign_by_rsa(other)))
    assert not key.verify(other, token(algorithm, sign))
    header, claims, signature = token(algorithm, sign).split(".")
    assert not key.verify(algorithm, f"{header}.{part(b'[]')}.{signature}")
    assert not key.verify(algorithm, f"{header}.{claims}.")
    assert not key.verify(algorithm, f"{header}.{claims}.{signature}.{signature}")


@pytest.mark.parametrize(
    ("curve", "name", "algorithm"),
    [(ec.SECP256R1(), "P-256", "ES256"), (ec.SECP384R1(), "P-384", "ES384"), (ec.SECP521R1(), "P-521", "ES512")],
)
def test_signatures_of_curves(curve: ec.EllipticCurve, name: str, algorithm: str) -> None:
    private, item = elliptic(curve, name)
    ((key,),) = parse_keys(key_set(item)).values()
    size = (curve.key_size + 7) // 8

    def sign(data: bytes) -> bytes:
        numbers = utils.decode_dss_signature(private.sign(data, ec.ECDSA(digest_of(algorithm))))
        return b"".join(number.to_bytes(size, "big") for number in numbers)

    assert key.verify(algorithm, token(algorithm, sign))
    assert not key.verify(algorithm, token(algorithm, lambda data: sign(data + b".")))
    assert not key.verify(algorithm, token(algorithm, lambda data: sign(data) + b"\0"))
    assert not key.verify(algorithm, token(algorithm, lambda data: b"\0" * (2 * size)))
    assert not key.verify("RS256", token(algorithm, sign))


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_key_of_the_set_is_no_shared_secret(algorithm: str) -> None:
    ((key,),) = parse_keys(key_set(RSA_JWK)).values()
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    forged = token(algorithm, lambda data: hmac.digest(pem, data, "sha256") if algorithm == "HS256" else b"")
    assert not key.verify("RS256", forged)
    assert not key.verify(algorithm, forged)


def test_keys_that_are_skipped() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key().public_numbers()
    found = parse_keys(
        key_set(
            {**RSA_JWK, "kid": "a"},
            {**RSA_JWK, "kid": "b", "use": "enc"},
            {"kty": "RSA", "n": number(small.n), "e": "AQAB", "kid": "c"},
            {"kty": "oct", "k": "c2VjcmV0", "kid": "d"},
            {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ", "kid": "e"},
            {"kty": "RSA", "kid": "f"},
            {"kty": "RSA", "n": 5, "e": "AQAB", "kid": "g"},
        )
    )
    assert list(found) == ["a"]
    for content in (b"", b"{}", b"[]", b'{"keys": {}}', b"[" * 100_000):
        with pytest.raises(ValueError, match="not a key set"):
            parse_keys(content)


class Server:
    """A server of keys. ``answer`` writes the response."""

    def __init__(self) -> None:
        self.requests = 0
        self.content = key_set({**RSA_JWK, "kid": "1"})
        self.status = 200
        self.is_endless = False
        self.released = threading.Event()
        self.released.set()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.requests += 1
                self.send_response(owner.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                owner.released.wait(30)
                try:
                    while owner.is_endless:
                        self.wfile.write(b" ")
                        time.sleep(0.02)
                    self.wfile.write(owner.content)
                except OSError:
                    pass

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = LocalHttpServer(Handler)
        self.url = f"{self.http.url}/keys"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.released.set()
    made.is_endless = False
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def test_the_last_good_keys_stay_while_the_server_is_down(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    source = KeySource(server.url, refresh_s=0.02, pause_s=0.01, most_pause_s=0.02)
    with caplog.at_level(logging.WARNING):
        source.start()
        try:
            assert len(source.find("1")) == len(source.find(None)) == 1
            server.status = 503
            before = server.requests
            wait_until(lambda: server.requests > before + 3, 60, "more reads")
            assert len(source.find("1")) == 1
            server.status, server.content = 200, key_set({**RSA_JWK, "kid": "2"})
            wait_until(lambda: bool(source.find("2")), 60, "the new keys")
            assert source.find("1") == ()
        finally:
            source.stop()
    assert sum("cannot be read: the answer is 503" in message for message in caplog.messages) == 1


@pytest.mark.parametrize(
    ("status", "content"), [(302, b"{}"), (200, b"x" * ((1 << 20) + 2)), (200, b"{}")], ids=["redirect", "large", "odd"]
)
def test_an_answer_that_is_refused(server: Server, status: int, content: bytes) -> None:
    server.status, server.content = status, content
    source = KeySource(server.url, pause_s=60.0, most_pause_s=60.0)
    source.start()
    try:
        assert source.find(None) == []
        assert server.requests == 1
    finally:
        source.stop()


def test_a_slow_server_does_not_hold_the_start(server: Server) -> None:
    server.released.clear()
    source = KeySource(server.url, timeout_s=0.2, pause_s=60.0, most_pause_s=60.0)
    began = time.monotonic()
    source.start()
    try:
        assert time.monotonic() - began < 10  # the answer takes 30 s
        assert source.find(None) == []
    finally:
        source.stop()


def test_an_endless_answer_has_a_deadline(server: Server) -> None:
    server.is_endless = True
    source = KeySource(server.url, timeout_s=0.1, pause_s=0.01, most_pause_s=0.01)
    source.start()
    try:
        wait_until(lambda: server.requests > 2, 20, "the reads after the first one")
        server.is_endless = False
        wait_until(lambda: bool(source.find("1")), 20, "the keys")
    finally:
        source.stop()


def test_the_pauses_after_failed_reads_grow(server: Server) -> None:
    server.status = 503
    source = KeySource(server.url, pause_s=0.05, most_pause_s=60.0)
    source.start()
    try:
        time.sleep(1.0)
        assert 2 <= server.requests <= 6  # at 0, 0.05, 0.15, 0.35 and 0.75 s. Without growth: 20
    finally:
        source.stop()


def test_unknown_keys_ask_for_one_read_in_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys of it.json"
    file.write_bytes(key_set({**RSA_JWK, "kid": "1"}))
    reads = []
    parse = module.parse_keys
    monkeypatch.setattr(module, "parse_keys", lambda content: reads.append(1) or parse(content))
    source = KeySource(file.as_uri())
    source.start()
    try:
        file.write_bytes(key_set({**RSA_JWK, "kid": "2"}))
        assert source.find("2") == ()
        wait_until(lambda: bool(source.find("2")), 60, "the new key")
        for number_of in range(100):
            source.find(f"unknown {number_of}")
        assert len(reads) == 2
        assert module._UNKNOWN_PAUSE_S == 10.0
        monkeypatch.setattr(module, "_UNKNOWN_PAUSE_S", 0.0)  # as after that time
        source.find("another one")
        wait_until(lambda: len(reads) == 3, 60, "the next read")
    finally:
        source.stop()


def test_without_its_extra_it_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'pyconsumer\[crypto\]'"):
        KeySource("file:///keys.json")


def test_addresses_that_cannot_be_used() -> None:
    for url in ("", "keys.json", "ftp://x/keys"):
        with pytest.raises(ConfigurationError, match="must be file:"):
            KeySource(url)


def test_a_login_in_an_address_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KeySource("ftp://user:secret@host/keys?token=secret")
    assert "'ftp://host/keys'" in str(caught.value)
    source = KeySource(f"file:{tmp_path}/none?token=secret", refresh_s=9e15, most_pause_s=9e15, pause_s=9e15)
    source.start()
    try:
        assert source._thread is not None
        assert source._thread.is_alive()  # although no system waits for so long
        assert "secret" not in caplog.text
    finally:
        source.stop()
