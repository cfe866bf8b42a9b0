"""SASL mechanisms (PLAIN, SCRAM, OAUTHBEARER), and the choice of one by the settings. GSSAPI is in :mod:`.gssapi`.

The exchange of messages is in :mod:`.connection`.

A mechanism object serves one authentication. PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802, KIP-84) and
OAUTHBEARER (RFC 7628, KIP-255) are here. Another one is a class with the same three members, made by the function
that the setting ``sasl_mechanism_factory`` names.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from pyconsumer.errors import AuthenticationError, ConfigurationError
from pyconsumer.generic import SaslMechanism
from pyconsumer.settings.config import ClientConfig

__all__ = ["MechanismFactory", "OAuthBearer", "Plain", "SaslMechanism", "Scram", "mechanism_factory"]


class Plain:
    """Sends user name and password unencrypted. Use it over TLS."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join([b"", username.encode(), password.encode()])

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """Authenticates by a password that is never sent. The broker proves that it knows the password, too.

    Args:
        name: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        nonce: the client's random text. By default a new one is made.
        by_token: True if name and password are the id and the HMAC of a delegation token (KIP-48).
    """

    # RFC 7677's floor, which is Kafka's, and a bound on the work that a server may ask for: half a second, in which no
    # call can keep its deadline.
    _ITERATIONS = (4096, 1_000_000)

    def __init__(self, name: str, username: str, password: str, *, nonce: str = "", by_token: bool = False) -> None:
        self.name = name
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[name]
        self._password = password.encode()
        user = username.replace("=", "=3D").replace(",", "=2C")
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={user},r={self._nonce}" + (",tokenauth=true" if by_token else "")
        self._server_signature: bytes | None = None
        self._verified = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._final(challenge)
        if self._verified:
            return None
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationError(f"{self.name}: the broker refused: {fields['e']}", stage="SASL")
        expected = base64.b64encode(self._server_signature).decode()
        if not hmac.compare_digest(fields.get("v", "").encode(), expected.encode()):
            raise AuthenticationError(f"{self.name}: the broker did not prove that it knows the password", stage="SASL")
        self._verified = True
        return None

    def _final(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        try:
            nonce, salt, iterations = fields["r"], _unbase64(fields["s"]), int(fields["i"])
        except (KeyError, ValueError):
            raise AuthenticationError(f"{self.name}: the broker's message is malformed", stage="SASL") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError(f"{self.name}: the broker's nonce does not continue ours", stage="SASL")
        low, high = self._ITERATIONS
        if not low <= iterations <= high:
            raise AuthenticationError(
                f"{self.name}: the broker asks for {iterations} iterations, and {low} to {high} are accepted: "
                "recreate the SCRAM credentials with an iteration count in that range",
                stage="SASL",
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._hash).digest()


class OAuthBearer:
    """Authenticates by a token that a third party has issued.

    Args:
        provider: a function that returns a token, or an object with ``token() -> str``. It is called for a new token at
            each authentication. An object may also have ``extensions() -> Mapping[str, str]`` with SASL extensions
            (KIP-342). Instead of a token it may return a ``concurrent.futures.Future`` of a token.
        arrived: called when that future is done, in any thread.
        extensions: SASL extensions. Those of the provider come before them.
    """

    name = "OAUTHBEARER"

    def __init__(
        self,
        provider: Any,
        arrived: Callable[[], object] = lambda: None,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self._provider = provider
        self._arrived = arrived
        self._extensions = extensions or {}
        self._pending: Future[str] | None = None

    def first(self) -> bytes | None:
        token: object = self._pending
        if token is None:
            token = self._provider.token() if hasattr(self._provider, "token") else self._provider()
            if isinstance(token, Future):
                self._pending, arrived = token, self._arrived
                token.add_done_callback(lambda _: arrived())
        if isinstance(token, Future):
            if not token.done():
                return None
            token = token.result()
        if not isinstance(token, str) or not token:
            raise AuthenticationError("sasl_oauth_token_provider gave no token", stage="SASL")
        if not (token.isascii() and token.isprintable()):
            raise AuthenticationError("the token has characters that no token has", stage="SASL")
        extensions = dict(self._extensions)
        if hasattr(self._provider, "extensions"):
            extensions |= self._provider.extensions()
        pairs = "".join(f"\x01{key}={value}" for key, value in extensions.items())
        return f"n,,\x01auth=Bearer {token}{pairs}\x01\x01".encode()

    def abandon(self) -> None:
        """Cancel the request for a token that has not arrived."""
        if self._pending is not None:
            self._pending.cancel()

    def respond(self, challenge: bytes) -> bytes | None:
        # A challenge means refusal, with the reason as JSON; the client must send one byte, then the error comes.
        return b"\x01" if challenge else None


class MechanismFactory:
    """Makes the mechanism for each authentication of one client. Close it with the client.

    Args:
        make: returns a new mechanism for a broker, whose host it is given.
        login: what the client shares with others, such as a thread that fetches tokens. It has a method ``close``.
    """

    def __init__(self, make: Callable[[str], SaslMechanism], login: Any = None) -> None:
        self._make = make
        self._login = login

    def __call__(self, host: str = "") -> SaslMechanism:
        return self._make(host)

    def close(self) -> None:
        """Leave what is shared with other clients. This takes no lock, since finalizers call it."""
        if self._login is not None:
            self._login.close()


def mechanism_factory(config: ClientConfig, arrived: Callable[[], object] = lambda: None) -> MechanismFactory | None:
    """Return a function that makes the mechanism for each authentication, according to the settings.

    Return None if SASL is not used.

    Args:
        config: the settings.
        arrived: called in any thread when a first message, which was missing before, is ready.
    """
    if not config.uses_sasl:
        return None
    if config.sasl_mechanism_factory is not None:
        own = config.sasl_mechanism_factory
        return MechanismFactory(lambda _: own())
    name = config.sasl_mechanism
    if name == "GSSAPI":
        from pyconsumer.network.kerberos import Kerberos

        return MechanismFactory(Kerberos(config, arrived).login)
    if name == "OAUTHBEARER":
        extensions, provider = config.sasl_oauthbearer_extensions, config.sasl_oauth_token_provider
        if provider is not None:
            return MechanismFactory(lambda _: OAuthBearer(provider, arrived, extensions))
        from pyconsumer.network.tokens import join_login

        login = join_login(config)
        return MechanismFactory(lambda _: OAuthBearer(login, arrived, extensions), login)
    username, password = config.sasl_plain_username or "", config.sasl_plain_password or ""
    if name == "PLAIN":
        return MechanismFactory(lambda _: Plain(username, password))
    if name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        by_token = config.sasl_scram_tokenauth
        return MechanismFactory(lambda _: Scram(name, username, password, by_token=by_token))
    raise ConfigurationError(f"sasl_mechanism {name} is not supported")


def _fields(message: bytes) -> dict[str, str]:
    try:
        return dict(part.split("=", 1) for part in message.decode().split(","))
    except (ValueError, UnicodeDecodeError):
        return {}


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
