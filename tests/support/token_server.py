"""An OpenID Connect provider for tests: it gives tokens to programs, and brokers get the keys to check them by."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from tests.support.http_server import LocalHttpServer

__all__ = ["AUDIENCE", "CLIENT", "JWT_BEARER", "TokenServer"]

CLIENT = ("orders & co", "a secret: 100 % of it")
AUDIENCE = "kafka"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFE_S = 300


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class TokenServer:
    """Serves ``/token`` (RFC 6749, 4.4) and ``/keys`` (RFC 7517) on this machine. A context manager.

    Attributes:
        given: how many tokens it gave.
        life_s: how long they are valid.
        delay_s: how long an answer takes.
        asked: the forms of all requests.
        authorizations: their headers of this name.
        refusals: what the next requests are answered with, status and content.
        trusted: the key that assertions are signed with.
    """

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.given = 0
        self.life_s = _LIFE_S
        self.delay_s = 0.0
        self.asked: list[dict[str, list[str]]] = []
        self.authorizations: list[str] = []
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        self.trusted: rsa.RSAPublicKey | None = None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, owner.keys() if self.path == "/keys" else {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                self._answer(*owner.answer(self.headers.get("Authorization", ""), urllib.parse.parse_qs(body)))

            def _answer(self, status: int, content: dict[str, Any]) -> None:
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = LocalHttpServer(Handler)
        self.url = self._server.url
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.01,), name="token server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _is_signed(self, assertion: str) -> bool:
        signed, _, signature = assertion.rpartition(".")
        if self.trusted is None:
            return False
        try:
            raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
            self.trusted.verify(raw, signed.encode(), padding.PKCS1v15(), SHA256())
        except (InvalidSignature, ValueError):
            return False
        return True

    def keys(self) -> dict[str, Any]:
        """Return the public key."""
        public = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": _number(public.n), "e": _number(public.e)}
        return {"keys": [key]}

    def sign(self, claims: dict[str, Any], **head: Any) -> str:
        """Return a signed token."""
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"} | head
        signed = ".".join(_base64(json.dumps(each).encode()) for each in (head, claims))
        return f"{signed}.{_base64(self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Return status and content for one who asks for a token."""
        kind, _, sent = authorization.partition(" ")
        self.asked.append(form)
        self.authorizations.append(authorization)
        time.sleep(self.delay_s)
        if self.refusals:
            return self.refusals.pop(0)
        grant = form.get("grant_type")
        if "client_assertion" in form or grant == [JWT_BEARER]:
            if not self._is_signed(form.get("client_assertion", form.get("assertion", [""]))[0]):
                return 401, {"error": "invalid_grant"}
        else:
            pair = base64.b64decode(sent).decode().partition(":")[::2]
            both = (CLIENT, tuple(map(urllib.parse.quote_plus, CLIENT)), tuple(map(_quoted, CLIENT)))
            if kind != "Basic" or (pair not in both and base64.b64decode(sent).decode() != ":".join(CLIENT)):
                return 401, {"error": "invalid_client", "error_description": f"{CLIENT[1]} or another is wrong"}
            if grant != ["client_credentials"]:
                return 400, {"error": "unsupported_grant_type"}
        self.given += 1
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": CLIENT[0], "iat": now, "exp": now + self.life_s}
        if "scope" in form:
            claims["scope"] = form["scope"][0]
        return 200, {
            "access_token": self.sign(claims),
            "token_type": "Bearer",
            "expires_in": self.life_s,
        }
