"""The broker's side of SASL: PLAIN (RFC 4616) and SCRAM-SHA-256 and -512 (RFC 5802, KIP-84).

A :class:`Login` is one authentication. It gets the client's messages in order, and has no I/O. SaslHandshake makes it,
and SaslAuthenticate passes the messages.

Rules
1. A login ends with a user or with a :class:`LoginError`. After either it accepts no message.
2. The password of a SCRAM user is not stored. The keys are in the controller's state.
3. Passwords of PLAIN whose hash is slow are checked in another thread, so that logins do not hold up other clients.
4. An unknown user gets the same first answer as a known one: a salt that depends on a secret of the cluster and the
   name. Only the second message fails, as it does after a wrong password. So names cannot be guessed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from pyconsumer.broker.deferred import Deferred
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.scram import ITERATIONS, ScramKeys, ScramMechanism, hash_key, salt_password, sign

__all__ = [
    "MECHANISMS",
    "Login",
    "LoginError",
    "LoginStep",
    "Logins",
    "PlainUsers",
    "RefusedLogin",
    "RunSlow",
    "ScramCredential",
    "ScramLogin",
    "SlowStep",
    "outcome_of",
    "run_at_once",
    "session_ms",
]

#: The SASL mechanisms that the broker has.
MECHANISMS: Final = ("PLAIN", *(mechanism.label for mechanism in ScramMechanism))

_SALT_BYTES: Final = 24
#: The longest message of a client. A name in Kafka's tools has 256 characters at most.
_LONGEST_MESSAGE: Final = 8192
#: A name in a message. As in Kafka's ``ScramMessages``, names of other characters than ASCII's cannot log in by SCRAM.
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
#: Client's first message: no channel binding, an optional authorization id, name, nonce, extensions. A reserved ``m=``
#: is refused (RFC 5802, section 5.1), which Kafka would skip.
_FIRST: Final = re.compile(
    rf"n,(?:a=({_NAME}))?,(n=({_NAME}),r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*)"
)
#: Client's final message: the binding (``biws`` is "n,,"), nonce, extensions, proof.
_FINAL: Final = re.compile(
    r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[^p].*?)?),p=([A-Za-z0-9+/=]+)", re.DOTALL
)


class LoginError(Exception):
    """The broker does not accept the credentials. Its text is for the client and has no secret."""


class LoginStep(NamedTuple):
    """The broker's answer to one message. ``user`` is None until the login is complete.

    Attributes:
        expires_ms: the end of the credential, in ms since 1970. None: it has none.
    """

    answer: bytes
    user: str | None
    expires_ms: int | None = None


class SlowStep(NamedTuple):
    """A step that takes long by intention. ``run`` returns or raises as a step does, in any thread."""

    run: Callable[[], LoginStep]


class Login(Protocol):
    """One authentication of a client."""

    def respond(self, message: Buffer) -> LoginStep | SlowStep:
        """Take the client's next message. Raises :class:`LoginError` if the client is not who it says it is."""
        ...


#: Runs a slow step outside the loop, if it is still wanted then. The result is a step, or the error of the login.
RunSlow = Callable[[Callable[[], LoginStep], Callable[[], bool]], "Deferred[LoginStep | LoginError]"]


def run_at_once(run: Callable[[], LoginStep], is_wanted: Callable[[], bool]) -> Deferred[LoginStep | LoginError]:
    """Run a slow step in this thread."""
    return Deferred.of(outcome_of(run))


def outcome_of(run: Callable[[], LoginStep]) -> LoginStep | LoginError:
    """Run a slow step. Return its result or its error."""
    try:
        return run()
    except LoginError as error:
        return error


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored values of a user for one mechanism."""

    salt: bytes = field(repr=False)
    iterations: int
    keys: ScramKeys = field(repr=False)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes | None = None, iterations: int = ITERATIONS[0]
    ) -> ScramCredential:
        """Return the credential for a password. By default the salt is random."""
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        return cls.of_salted(mechanism, salt_password(mechanism, password.encode(), salt, iterations), salt, iterations)

    @classmethod
    def of_salted(cls, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """Return the credential for a password that the client has salted."""
        return cls(salt, iterations, ScramKeys.of(mechanism, salted))

    def fits(self, mechanism: ScramMechanism, password: str) -> bool:
        """Return whether this is the credential of a password."""
        return self.of_password(mechanism, password, self.salt, self.iterations) == self

    def to_json(self) -> dict[str, Any]:
        """Return the form for the cluster's files."""
        return {
            "salt": _text(self.salt),
            "iterations": self.iterations,
            "stored_key": _text(self.keys.stored_key),
            "server_key": _text(self.keys.server_key),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ScramCredential:
        """Return the credential. Raises ``KeyError``, ``TypeError`` or ``ValueError`` if ``data`` has another form."""
        keys = ScramKeys(base64.b64decode(data["stored_key"]), base64.b64decode(data["server_key"]))
        return cls(base64.b64decode(data["salt"]), int(data["iterations"]), keys)


#: The credential of a user, or None.
FindCredential = Callable[[str, ScramMechanism], "ScramCredential | None"]


class Logins:
    """The logins of a SASL listener.

    Args:
        plain: the users of PLAIN.
        find: returns the SCRAM credential of a user.
        secret: the secret of the cluster, from which salts of unknown users are derived.
        by_token: makes a login by OAUTHBEARER. None: the broker accepts no tokens.

    Attributes:
        run_slow: runs slow steps.
    """

    def __init__(
        self,
        plain: PlainUsers,
        find: FindCredential,
        secret: bytes,
        by_token: Callable[[], Login] | None = None,
        run_slow: RunSlow = run_at_once,
    ) -> None:
        self.run_slow = run_slow
        self._by_token = by_token
        self._plain = plain
        self._find = find
        self._secret = secret

    def begin(self, mechanism: str) -> Login:
        """Return a new login. Raises ``KeyError`` if there is no such mechanism."""
        if mechanism == "PLAIN":
            return _PlainLogin(self._plain)
        if mechanism == "OAUTHBEARER" and self._by_token is not None:
            return self._by_token()
        return ScramLogin(ScramMechanism[mechanism.replace("-", "_")], self._find, self._secret)


def session_ms(longest_ms: int, step: LoginStep, wall_ms: int) -> int | None:
    """Return the time in ms after which a client must reauthenticate (KIP-368). None means never.

    Args:
        longest_ms: ``connections.max.reauth.ms``. 0 means no bound.
        wall_ms: the time in ms since 1970.
    """
    bounds = [longest_ms] if longest_ms > 0 else []
    if step.expires_ms is not None:
        bounds.append(max(0, step.expires_ms - wall_ms))
    return min(bounds) if bounds else None


class RefusedLogin:
    """A login that fails at its first message.

    Args:
        problem: the reason, for the client.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def respond(self, message: Buffer) -> LoginStep:
        """Raise :class:`LoginError`."""
        raise LoginError(self._problem)


class PlainUsers:
    """The users that may log in by SASL PLAIN.

    Args:
        users: passwords by name.
        fits_changed: returns the check of a password of a user whose credentials have changed since the start. It
            hashes the password often. None: they have not changed.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        fits_changed: Callable[[str, bytes], Callable[[], bool] | None] = lambda name, password: None,
    ) -> None:
        self._users = {name: _digest(password.encode()) for name, password in users.items()}
        self._fits_changed = fits_changed

    def authenticate(self, token: Buffer) -> LoginStep | SlowStep:
        """Check a PLAIN message (RFC 4616). Raises :class:`LoginError` if it is not that of a user."""
        parts = bytes(token).split(b"\0")
        if len(parts) != 3:
            raise LoginError("Invalid SASL/PLAIN response: expected 3 tokens, got " + str(len(parts)))
        try:
            authorization, user, password = parts[0].decode(), parts[1].decode(), parts[2]
        except UnicodeDecodeError:
            raise LoginError("Invalid SASL/PLAIN response: it is not UTF-8") from None
        if not user:
            raise LoginError("Authentication failed: username not specified")
        if not password:
            raise LoginError("Authentication failed: password not specified")
        # The same steps for each name, so that their time does not tell which names there are.
        fits = hmac.compare_digest(self._users.get(user, _NOBODY), _digest(password))
        changed = self._fits_changed(user, password)
        if changed is not None:
            return SlowStep(lambda: _finished(user, authorization, changed()))
        return _finished(user, authorization, fits)


def _finished(user: str, authorization: str, fits: bool) -> LoginStep:
    if not fits:
        raise LoginError("Authentication failed: Invalid username or password")
    if authorization not in ("", user):
        raise LoginError("Authentication failed: Client requested an authorization id that is different from username")
    return LoginStep(b"", user)


class _PlainLogin:
    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def respond(self, message: Buffer) -> LoginStep | SlowStep:
        return self._users.authenticate(message)


class ScramLogin:
    """One authentication by SCRAM.

    Args:
        find: returns the credential of a user, or None.
        secret: the secret of the cluster.
        nonce: the broker's part of the nonce. By default a new one is made.
    """

    def __init__(self, mechanism: ScramMechanism, find: FindCredential, secret: bytes, *, nonce: str = "") -> None:
        self._mechanism = mechanism
        self._find = find
        self._secret = secret
        self._own_nonce = nonce or secrets.token_urlsafe(24)
        self._user = ""
        self._gs2_header = ""
        self._nonce = ""
        self._signed = ""  # both first messages
        self._is_known = False
        self._credential: ScramCredential | None = None

    def respond(self, message: Buffer) -> LoginStep:
        """Take the client's first or final message. Raises :class:`LoginError`."""
        try:
            text = bytes(message[:_LONGEST_MESSAGE]).decode()
        except UnicodeDecodeError:
            raise LoginError("Invalid SCRAM message: it is not UTF-8") from None
        if len(message) > _LONGEST_MESSAGE:
            raise LoginError("Invalid SCRAM message: it is too long")
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> LoginStep:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise LoginError("Invalid SCRAM client first message format")
        authorization, bare, name, nonce = found.groups()
        user = _unescaped(name)
        if authorization and authorization != user:
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        credential = self._find(user, self._mechanism)
        decoy = self._decoy(user)  # for known users, too: each name takes the same time
        self._is_known = credential is not None
        self._credential = credential or decoy
        self._user, self._nonce = user, nonce + self._own_nonce
        self._gs2_header = text[: -len(bare)]
        answer = f"r={self._nonce},s={_text(self._credential.salt)},i={self._credential.iterations}"
        self._signed = f"{bare},{answer}"
        return LoginStep(answer.encode(), None)

    def _decoy(self, user: str) -> ScramCredential:
        """Return a credential that no password fits. It is the same at each login under this name."""
        seed = sign(self._mechanism, self._secret, f"{self._mechanism.label} {user}".encode())
        size = len(seed)
        return ScramCredential(seed[:_SALT_BYTES], ITERATIONS[0], ScramKeys(bytes(size), bytes(size)))

    def _final(self, text: str, credential: ScramCredential) -> LoginStep:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise LoginError("Invalid SCRAM client final message format")
        without_proof, binding, nonce, proof_text = found.groups()
        try:
            header, proof = base64.b64decode(binding, validate=True), base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            raise LoginError("Invalid SCRAM client final message format") from None
        if nonce != self._nonce:
            raise LoginError("Invalid client nonce in the final client message.")
        if header != self._gs2_header.encode():
            raise LoginError("Invalid channel binding in the final client message.")
        mechanism, keys = self._mechanism, credential.keys
        signed = f"{self._signed},{without_proof}".encode()
        signature = sign(mechanism, keys.stored_key, signed)
        if len(proof) != len(signature):
            raise _wrong_credentials(mechanism)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        fits = hmac.compare_digest(hash_key(mechanism, client_key), keys.stored_key)
        if not fits or not self._is_known:
            raise _wrong_credentials(mechanism)
        return LoginStep(f"v={_text(sign(mechanism, keys.server_key, signed))}".encode(), self._user)


def _wrong_credentials(mechanism: ScramMechanism) -> LoginError:
    return LoginError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism.label}"
    )


def _digest(password: bytes) -> bytes:
    return hashlib.sha256(password).digest()


#: A value that is the digest of no password.
_NOBODY: Final = bytes(32)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
