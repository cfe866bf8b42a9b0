"""The broker's TLS, and the identity of a connection's client (KIP-43, KIP-152, KIP-368). SASL is in :mod:`.logins`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyconsumer.broker.certificate_names import subject_of
from pyconsumer.broker.logins import Login, LoginError, Logins, RefusedLogin
from pyconsumer.broker.principal_rules import PrincipalRules
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.primitives import Buffer

__all__ = ["ANONYMOUS", "SecurityConfig", "Session", "TlsLayer", "no_logins"]


#: Principal of a client that has not authenticated.
ANONYMOUS: Final = "User:ANONYMOUS"

_TLS_RECORD_BYTES: Final = 16384


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """The certificates and users for listeners other than PLAINTEXT.

    Attributes:
        cert_file: PEM file with the server's certificate and chain. ``key_file`` has its key, if the key is in another
            file.
        client_ca_file: PEM file with an authority. If it is given, clients must present a certificate of this
            authority.
        sasl_users: passwords by user name, for PLAIN.
        users: passwords by user name, for PLAIN and for SCRAM. Their SCRAM keys are stored in the cluster's state.
    """

    cert_file: str | None = None
    key_file: str | None = None
    client_ca_file: str | None = None
    sasl_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    def check(self, protocols: Mapping[str, str], *, by_token: bool = False) -> None:
        """Raise ``ConfigurationError`` if one of the listeners cannot be opened.

        Args:
            protocols: the security protocol of each listener.
            by_token: users may log in by OAUTHBEARER, so that no others are needed.
        """
        for option, users in (("sasl_users", self.sasl_users), ("users", self.users)):
            _check_users(option, users)
        for name, protocol in protocols.items():
            if protocol.endswith("SSL") and self.cert_file is None:
                raise ConfigurationError(f"listener {name} needs a certificate: ssl_certfile")
            if protocol.startswith("SASL") and not self.sasl_users and not self.users and not by_token:
                raise ConfigurationError(f"listener {name} needs users: users, sasl_users or oauth")
        if (self.sasl_users or self.users) and not any(one.startswith("SASL") for one in protocols.values()):
            raise ConfigurationError(no_logins("users", protocols))

    def ssl_context(self, client_auth: str | None = None) -> ssl.SSLContext:
        """Return the server's TLS context. Raises ``ConfigurationError`` if a file cannot be used.

        Args:
            client_auth: ``none``, ``requested`` or ``required``. None: required if there is an authority for clients.
        """
        if client_auth in ("requested", "required") and self.client_ca_file is None:
            raise ConfigurationError(f"ssl.client.auth={client_auth} needs the authority of clients: ssl_client_cafile")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            assert self.cert_file is not None
            context.load_cert_chain(self.cert_file, self.key_file)
            if self.client_ca_file is not None and client_auth != "none":
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_OPTIONAL if client_auth == "requested" else ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            name = Path(self.cert_file or "").name
            raise ConfigurationError(f"the certificate {name} cannot be used: {error}") from None
        return context


def no_logins(option: str, listeners: Iterable[str]) -> str:
    """Return the message for users or tokens that no listener takes."""
    return (
        f"{option}: nobody can log in, because none of the listeners {', '.join(listeners)} has SASL. Add one, such as"
        " listeners=['SASL_PLAINTEXT']"
    )


def _check_users(option: str, users: Mapping[str, object]) -> None:
    for user, password in users.items():
        if not isinstance(password, str):
            kind = type(password).__name__
            raise ConfigurationError(f"{option}: the password of {user!r} must be a string, not of type {kind}")
        if option == "users" and not (user and password):
            raise ConfigurationError("users: neither a name nor a password may be empty")


@dataclass(slots=True)
class Session:
    """The identity of a connection's client. It is completed step by step.

    Attributes:
        needs_login: True until the client has authenticated. Until then only ApiVersions and SASL requests are
            accepted.
        logins: the logins of the listener. None if it has no SASL.
        login: the authentication that a SaslHandshake has begun, by ``mechanism``.
        raw_tokens: True after SaslHandshake version 0. The client then sends its tokens without request headers.
        expires_at: the time (monotonic seconds) from which the client must reauthenticate. None means never.
        close_after: True closes the connection after the response has been sent.
    """

    logins: Logins | None = None
    principal: str = ANONYMOUS
    software: str = ""
    needs_login: bool = False
    login: Login | None = None
    mechanism: str | None = None
    raw_tokens: bool = False
    logged_in: bool = False
    expires_at: float | None = None
    close_after: bool = False
    has_ended: bool = False
    _at_end: dict[object, Callable[[], None]] = field(default_factory=dict, repr=False)

    def when_ended(self, owner: object, call: Callable[[], None]) -> None:
        """Call a function when the connection has ended. Each owner has one."""
        self._at_end[owner] = call

    def connection_ended(self) -> None:
        """Record that the connection has ended."""
        self.has_ended = True
        calls, self._at_end = list(self._at_end.values()), {}
        for call in calls:
            call()

    def identify(self, principal: str) -> None:
        """Take the client's identity from the name in its certificate."""
        self.principal = principal

    def note_software(self, software: str) -> None:
        """Remember the name and version of the client's software."""
        self.software = software

    def begin(self, mechanism: str, logins: Logins, *, raw_tokens: bool) -> None:
        """Begin a login after a SaslHandshake. Another mechanism than the first one is refused, as in Kafka."""
        if self.logged_in and mechanism != self.mechanism:
            self.login = RefusedLogin(
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{self.mechanism}'"
            )
        else:
            self.login, self.mechanism = logins.begin(mechanism), mechanism
        self.raw_tokens = raw_tokens

    def end(self) -> None:
        """Close the connection after the response has been sent."""
        self.close_after = True

    def finish(self, user: str, now: float, lifetime_ms: int | None) -> None:
        """Record that the client has authenticated.

        Args:
            now: the time in monotonic seconds.
            lifetime_ms: the time after which it must reauthenticate, in ms. None means never.
        """
        self.expires_at = None if lifetime_ms is None else now + lifetime_ms / 1000
        self.principal = f"User:{user}"
        self.needs_login = False
        self.logged_in = True
        self.login = None
        self.raw_tokens = False


class TlsLayer:
    """The server's side of TLS. It translates between the bytes on a socket and the decrypted bytes.

    Args:
        rules: the rules for the users of certificates. None: the user is the subject.

    :meth:`feed` raises ``ssl.SSLError`` if the peer does not speak TLS or violates its rules.
    """

    def __init__(self, context: ssl.SSLContext, rules: PrincipalRules | None = None) -> None:
        self._rules = rules
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._shaken = False

    def feed(self, data: Buffer) -> bytes:
        """Process bytes from the socket, and return the decrypted bytes.

        Pass no bytes when the socket is at its end.
        """
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        if not self._shaken:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self._shaken = True
        parts = []
        while True:
            try:
                part = self._tls.read(4 * _TLS_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                break
            if not part:
                break
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def is_ready(self) -> bool:
        """Return whether the handshake has ended."""
        return self._shaken

    def encrypt(self, buffers: Sequence[Buffer]) -> bytes:
        """Encrypt output. The result includes pending messages of the handshake."""
        for buffer in buffers:
            view = memoryview(buffer)
            while view:
                view = view[self._tls.write(view) :]
        return self._outgoing.read()

    def pending(self) -> bytes:
        """Return pending bytes of the handshake. There may be some even after an error."""
        return self._outgoing.read()

    @property
    def client_name(self) -> str | None:
        """Return the user of the client's certificate, or None if there is no certificate.

        By default it is the subject as Java writes it: see :mod:`.certificate_names`.

        Raises:
            LoginError: no rule matches the subject.
        """
        certificate = self._tls.getpeercert(binary_form=True) if self._shaken else None
        if not certificate:
            return None
        name = subject_of(certificate)
        user = name if self._rules is None else self._rules.user(name)
        if user is None:
            raise LoginError(f"no rule of ssl.principal.mapping.rules matches {name[:200]!r}")
        return user
