"""Kerberos for :mod:`.gssapi`: credentials, tickets and messages, by the package ``gssapi`` of the extra ``gssapi``.

Rules
1. With a keytab the client gets tickets itself, and keeps them in the memory of the process, as Java's client does. All
   clients with that keytab and principal share them. The library renews them before they end.
2. Without a keytab the tickets are those of a ticket cache, which ``kinit`` or another program keeps fresh.
3. The broker is the service ``kafka/<host>``, with the host as the broker's address has it. The library may replace it
   by the name that DNS has: ``dns_canonicalize_hostname`` and ``rdns`` of krb5.conf.
4. An error says what failed, for which principal or service, and what to do. It has no part of a key or a ticket.
5. Errors that Java's client retries are retried: no KDC, a ticket that is not valid yet, a replay.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.errors import AuthenticationError, ConfigurationError, KafkaConnectionError
from pyconsumer.network.gssapi import Gssapi, LoginThread, login_thread
from pyconsumer.settings.config import ClientConfig

__all__ = ["Kerberos", "kerberos_error"]

_MISSING: Final = (
    "sasl_mechanism GSSAPI needs the package gssapi: pip install 'pyconsumer[gssapi]'. Where there is no wheel of it,"
    " as on Linux, it is compiled, and needs a C compiler and the headers of Kerberos:"
    " libkrb5-dev on Debian and Ubuntu, krb5-devel on Fedora and RHEL, krb5-dev on Alpine"
)
_MINOR: Final = re.compile(r"Minor \(\d+\): (.*)", re.DOTALL)
_LONGEST_REASON: Final = 300
_KINIT: Final = "get a ticket by kinit, or give sasl_kerberos_keytab and sasl_kerberos_principal"
_KDC_AGAIN: Final = "check the KDC of the realm in krb5.conf, and the network to it"
_CLOCKS: Final = "synchronize the clocks of this machine, the KDC and the broker"
_NEW_KEYTAB: Final = "the key in the keytab is not that of the KDC: export the keytab again"

_SERVICE: Final = (
    "the KDC does not know the service {service}: check sasl_kerberos_service_name and the broker's address, whose"
    " host krb5.conf may change by rdns and dns_canonicalize_hostname"
)

#: By the code of MIT Kerberos: the advice, and whether the client tries again.
_ADVICE: Final[dict[int, tuple[str, bool]]] = {
    -1765328378: ("the KDC does not know the principal {principal}: check sasl_kerberos_principal", False),
    -1765328377: (_SERVICE, False),
    -1765328370: ("the KDC and the key have no type of encryption in common: export the keytab again", False),
    -1765328366: ("the principal {principal} is locked: ask the administrator of the realm", False),
    -1765328363: (_CLOCKS, True),
    -1765328361: ("the password of {principal} has expired: change it, and export the keytab again", False),
    -1765328360: (_NEW_KEYTAB, False),
    -1765328355: (_KDC_AGAIN, True),
    -1765328353: (_NEW_KEYTAB, False),
    -1765328352: (f"the ticket has expired: {_KINIT}", False),
    -1765328351: (_CLOCKS, True),
    -1765328350: ("the client tries again with a new ticket", True),
    -1765328347: (_CLOCKS, False),
    -1765328243: (_KINIT, False),
    -1765328236: (_CLOCKS, False),
    -1765328230: ("krb5.conf has no KDC for the realm: add it below [realms]", False),
    -1765328228: (_KDC_AGAIN, True),
    -1765328190: ("the ticket cache belongs to another user, or others may read it: check its permissions", False),
    -1765328189: (_KINIT, False),
    -1765328160: ("krb5.conf has no default_realm: add it, or write the principal with its realm", False),
}
_NO_CACHE: Final = -1765328189
#: GSSAPI's own code for credentials that have expired (RFC 2744), in the upper half.
_EXPIRED: Final = 11 << 16


def kerberos_error(
    error: Exception, principal: str | None, service: str, keytab: str | None
) -> AuthenticationError | KafkaConnectionError:
    """Return the client's error for one of the package ``gssapi``.

    Args:
        error: an error with ``maj_code`` and ``min_code``.
        principal: the client's name, or None for that of the ticket cache.
        service: the broker's name.
        keytab: the client's keytab, or None if it uses a ticket cache.
    """
    found = _MINOR.search(str(error))
    reason = "".join(c if c.isprintable() else " " for c in (found[1] if found else str(error)))[:_LONGEST_REASON]
    code = int(getattr(error, "min_code", 0) or 0) & 0xFFFFFFFF
    code -= 1 << 32
    advice, again = _ADVICE.get(code, ("", False))
    if getattr(error, "maj_code", 0) == _EXPIRED and not advice:
        advice = f"the ticket has expired: {_KINIT}"
    if code == _NO_CACHE and keytab is not None:
        # MIT looks for a ticket cache after a keytab that does not help, and reports that.
        reason = f"the keytab {keytab} gives no credentials"
        advice = "it has no key of {principal}: check sasl_kerberos_principal, and klist -k with that file"
    text = f"Kerberos for {service}: {reason}"
    if advice:
        text += f": {advice.format(principal=principal or 'the ticket cache', service=service)}"
    if again:
        return KafkaConnectionError(text, stage="SASL")
    return AuthenticationError(text, stage="SASL")


class Kerberos:
    """Makes the GSSAPI logins of one client.

    Args:
        config: the client's settings.
        arrived: called in any thread when the first message of a login is ready.
        package: the package ``gssapi``, or another one in tests. By default it is imported.

    Raises:
        ConfigurationError: the package is not installed.
    """

    def __init__(
        self,
        config: ClientConfig,
        arrived: Callable[[], object] = lambda: None,
        package: Any = None,
    ) -> None:
        self._package = _package() if package is None else package
        self._arrived = arrived
        self._service = config.sasl_kerberos_service_name
        self._host = config.sasl_kerberos_domain_name
        self._name = config.sasl_kerberos_name
        self._principal = config.sasl_kerberos_principal
        self._keytab = config.sasl_kerberos_keytab
        self._cache = config.sasl_kerberos_ticket_cache
        self._thread: LoginThread = login_thread((self._principal, self._keytab, self._cache))

    def login(self, host: str) -> Gssapi:
        """Return the login at the broker with this host."""
        return Gssapi(lambda: self._context(host), self._thread, self._arrived)

    def _context(self, host: str) -> _Context:
        """Return a new context. This may wait for a KDC."""
        package = self._package
        service = self._shown(host)
        try:
            if self._keytab is not None:
                _check_file(self._keytab)
            kerberos = package.MechType.kerberos
            credentials = package.Credentials(
                name=None
                if self._principal is None
                else package.Name(self._principal, package.NameType.kerberos_principal),
                usage="initiate",
                mechs=[kerberos],
                store=self._store(),
            )
            principal = str(credentials.name)
            target = self._target(host)
            service = self._realm_of(target, service)
            context = package.SecurityContext(
                name=target,
                creds=credentials,
                mech=kerberos,
                usage="initiate",
                flags=package.RequirementFlag.mutual_authentication | package.RequirementFlag.integrity,
            )
        except package.exceptions.GSSError as error:
            raise kerberos_error(error, self._principal, service, self._keytab) from None
        except NotImplementedError:
            raise AuthenticationError(
                "Kerberos: the GSSAPI library of this system takes no keytab or ticket cache by its name: use MIT"
                " Kerberos, or a ticket cache by the variable KRB5CCNAME",
                stage="SASL",
            ) from None
        return _Context(package, context, principal, service, self._keytab)

    def _store(self) -> dict[str, str] | None:
        if self._keytab is not None:
            key = hashlib.sha256(f"{self._principal}\0{self._keytab}".encode()).hexdigest()[:32]
            return {"client_keytab": f"FILE:{self._keytab}", "ccache": f"MEMORY:pyconsumer-{key}"}
        return None if self._cache is None else {"ccache": self._cache}

    def _shown(self, host: str) -> str:
        return f"{self._service}/{self._host or host}" if self._name is None else str(self._name)

    def _target(self, host: str) -> Any:
        package, name = self._package, self._name
        if name is None:
            name = f"{self._service}@{self._host or host}"
        if not isinstance(name, str):
            return name
        kinds = package.NameType
        return package.Name(name, kinds.kerberos_principal if "/" in name else kinds.hostbased_service)

    def _realm_of(self, target: Any, service: str) -> str:
        """Return the name that a KDC is asked for: with the host that DNS has, if krb5.conf wants that."""
        try:
            return str(target.canonicalize(self._package.MechType.kerberos)).rstrip("@")
        except self._package.exceptions.GSSError:
            return service


class _Context:
    """A security context of the package ``gssapi``."""

    def __init__(self, package: Any, context: Any, principal: str, service: str, keytab: str | None) -> None:
        self.principal = principal
        self._package = package
        self._context = context
        self._service = service
        self._keytab = keytab

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes:
        try:
            return bytes(self._context.step(token) or b"")
        except self._package.exceptions.GSSError as error:
            if token is None:
                raise kerberos_error(error, self.principal, self._service, self._keytab) from None
            raise self._invalid(error) from None

    def unwrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(message).message)
        except self._package.exceptions.GSSError as error:
            raise self._invalid(error) from None

    def wrap(self, content: bytes) -> bytes:
        return bytes(self._context.wrap(content, False).message)

    def _invalid(self, error: Exception) -> AuthenticationError:
        found = kerberos_error(error, self.principal, self._service, self._keytab)
        text = f"the broker's message is not valid, and does not prove that it is {self._service}: {found}"
        return AuthenticationError(text, stage="SASL")


def _package() -> Any:
    try:
        import gssapi
    except (ImportError, OSError) as error:  # OSError: the system's library is missing
        if isinstance(error, ModuleNotFoundError) and error.name == "gssapi":
            raise ConfigurationError(_MISSING) from None
        raise ConfigurationError(f"{_MISSING}. It is installed, but cannot be loaded: {error}") from None
    return gssapi


def _check_file(path: str) -> None:
    """Check a keytab, as the library does not say what is wrong with it."""
    try:
        with open(os.fspath(path), "rb") as file:
            start = file.read(1)
    except OSError as error:
        raise AuthenticationError(f"the keytab {path} cannot be read: {error.strerror}", stage="SASL") from None
    if start != b"\x05":
        raise AuthenticationError(f"the file {path} is not a keytab: make one by ktutil or kadmin", stage="SASL")
