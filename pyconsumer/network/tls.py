"""TLS of clients: the context from the settings, encryption, and clear errors.

Also: contexts, and errors that name the cause.

Rules
1. Each new connection asks :class:`TlsContexts` for a context. If a file of the settings was replaced since, a new one
   is made. If that fails, as between the replacement of a certificate and of its key, the old one stays. The log says
   so once.
2. OpenSSL reads a private key from a file only. A key that is not in a file goes through one that is in memory alone
   (``memfd``). Where the system has none, the file can be read by its user alone, and is removed after loading.
3. PKCS12 stores are opened by the package ``cryptography``.

It is imported only where TLS is used: OpenSSL takes a tenth of the time that importing a consumer does.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyconsumer.background_log import Log
from pyconsumer.errors import AuthenticationError, ConfigurationError, KafkaConnectionError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.settings.config import ClientConfig

__all__ = ["TlsContexts", "TlsSession", "make_context", "secret_file"]

_log = Log(__name__)

# X.509 verification results, as OpenSSL numbers them.
_EXPIRED = (10,)
_NOT_YET_VALID = (9,)
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_WRONG_HOST = (62, 64)
_REVOKED = (23,)
_NO_CRL = (3,)

_FILES: Final = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_crlfile",
    "ssl_truststore_location",
    "ssl_keystore_location",
)
_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_FAULTS: Final = (ssl.SSLError, OSError, ValueError, TypeError)

Password = str | Callable[[], str]


class TlsContexts:
    """Gives the TLS context for each new connection of a client. See rule 1.

    Args:
        config: the settings.

    Raises:
        ConfigurationError: a certificate or key cannot be used. The message names the setting.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        paths = [getattr(config, name) for name in _FILES] if config.ssl_context is None else []
        self._paths: Final = [path for path in paths if path is not None]
        self._stamp = self._look()
        self._warned = False
        self._context = _context(config)

    def current(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now. This reads no file that has not changed."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = _context(self._config)
                self._warned = False
            except ConfigurationError as error:
                if not self._warned:
                    self._warned = True
                    _log.warning("changed TLS files cannot be used, and the earlier ones stay in use: %s", error)
        return self._context

    def _look(self) -> list[tuple[int, int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Tools that copy files set the time of the content back, but nobody sets that of the change.
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def make_context(config: ClientConfig) -> ssl.SSLContext | None:
    """Return the TLS context for the settings, or None if connections are not encrypted.

    Raises:
        ConfigurationError: a certificate or key cannot be used. The message names the setting.
    """
    return _context(config) if config.uses_tls else None


def _context(config: ClientConfig) -> ssl.SSLContext:
    if config.ssl_context is not None:
        if not config.ssl_check_hostname and config.ssl_context.check_hostname:
            raise ConfigurationError("ssl_check_hostname is False, but ssl_context checks the host name")
        return config.ssl_context
    context = _trusting(config)
    context.check_hostname = config.ssl_check_hostname
    _set_versions(context, config)
    with _blamed("ssl_crlfile"):
        if config.ssl_crlfile:
            context.load_verify_locations(config.ssl_crlfile)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    _show_certificate(context, config)
    with _blamed("ssl_ciphers"):
        if config.ssl_ciphers:
            context.set_ciphers(_ciphers(config.ssl_ciphers))
    return context


@contextlib.contextmanager
def _blamed(setting: str) -> Iterator[None]:
    """Raise errors of OpenSSL and of files as errors of a setting."""
    try:
        yield
    except _FAULTS as error:
        raise ConfigurationError(f"{setting}: {error}") from error


def _trusting(config: ClientConfig) -> ssl.SSLContext:
    cafile, cadata, setting = config.ssl_cafile, config.ssl_truststore_certificates, "ssl_cafile"
    if config.ssl_truststore_location is not None:
        setting = "ssl_truststore_location"
        if config.ssl_truststore_type == "PKCS12":
            store = _open_store(config.ssl_truststore_location, config.ssl_truststore_password, setting)
            cadata = _as_pem(*([] if store.cert is None else [store.cert]), *store.additional_certs)
            if not cadata:
                raise ConfigurationError(f"{setting}: the store has no certificate")
        else:
            cafile = config.ssl_truststore_location
    elif cadata is not None:
        setting = "ssl_truststore_certificates"
    with _blamed(setting):
        return ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, cadata=cadata)


def _set_versions(context: ssl.SSLContext, config: ClientConfig) -> None:
    order = list(_VERSIONS)
    enabled = sorted(set(config.ssl_enabled_protocols or ("TLSv1.2", "TLSv1.3")), key=order.index)
    newest = config.ssl_protocol if config.ssl_protocol not in (None, "TLS") else order[-1]
    used = [name for name in enabled if order.index(name) <= order.index(str(newest))]
    if not used:
        raise ConfigurationError(f"ssl_protocol {newest} leaves none of ssl_enabled_protocols ({', '.join(enabled)})")
    first, last = order.index(used[0]), order.index(used[-1])
    if order[first : last + 1] != used:
        raise ConfigurationError("ssl_enabled_protocols must be versions that follow each other")
    with _blamed("ssl_enabled_protocols"):
        context.minimum_version, context.maximum_version = _VERSIONS[used[0]], _VERSIONS[used[-1]]


def _show_certificate(context: ssl.SSLContext, config: ClientConfig) -> None:
    """Load the client's certificate and key, if there are any."""
    # A password is always given: OpenSSL would ask for one at the terminal.
    password = _asked(config.ssl_password or "")
    if config.ssl_certfile:
        with _blamed("ssl_certfile, ssl_keyfile or ssl_password"):
            context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, password)
    elif config.ssl_keystore_key and config.ssl_keystore_certificate_chain:
        pem = f"{config.ssl_keystore_key.strip()}\n{config.ssl_keystore_certificate_chain.strip()}\n"
        with _blamed("ssl_keystore_key, ssl_keystore_certificate_chain or ssl_password"), secret_file(pem) as path:
            context.load_cert_chain(path, password=password)
    elif config.ssl_keystore_location and config.ssl_keystore_type == "PKCS12":
        store = _open_store(config.ssl_keystore_location, config.ssl_keystore_password, "ssl_keystore_location")
        if store.key is None or store.cert is None:
            raise ConfigurationError("ssl_keystore_location: the store has no private key with a certificate")
        pem = _key_as_pem(store.key) + _as_pem(store.cert, *store.additional_certs)
        with _blamed("ssl_keystore_location"), secret_file(pem) as path:
            context.load_cert_chain(path)
    elif config.ssl_keystore_location:
        with _blamed("ssl_keystore_location or ssl_password"):
            context.load_cert_chain(config.ssl_keystore_location, password=password)


def _asked(password: Password) -> Password:
    """Return a password for OpenSSL. Of an error of a function only the type is shown, since its text may be secret."""
    if isinstance(password, str):
        return password

    def ask() -> str:
        try:
            return password()
        except Exception as error:
            raise ConfigurationError(f"the function of ssl_password failed with {type(error).__name__}") from error

    return ask


@contextlib.contextmanager
def secret_file(text: str) -> Iterator[str]:
    """Give the path of a file with ``text``, which is gone afterwards. On Linux it is in memory alone (rule 2)."""
    handle, path, on_disk = -1, "", False
    create = getattr(os, "memfd_create", None)
    if create is not None:
        try:
            handle = create("pyconsumer")
            path = f"/proc/self/fd/{handle}"
        except OSError:
            handle = -1
    if handle >= 0 and not os.path.exists(path):
        os.close(handle)
        handle = -1
    if handle < 0:
        handle, path = tempfile.mkstemp(prefix="pyconsumer-", suffix=".pem")  # mode 0600
        on_disk = True
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            yield path
    finally:
        if on_disk:
            os.unlink(path)


def _open_store(path: str, password: str | None, setting: str) -> _Store:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigurationError(
            f"{setting}: a PKCS12 store needs the package cryptography: pip install 'pyconsumer[crypto]'."
            f" Or make a PEM file of it: openssl pkcs12 -in {path} -out store.pem -nodes"
        ) from None
    try:
        with open(path, "rb") as file:
            return _Store(pkcs12.load_pkcs12(file.read(), (password or "").encode() or None))
    except OSError as error:
        raise ConfigurationError(f"{setting}: {error}") from None
    except ValueError:
        raise ConfigurationError(
            f"{setting}: {path} is not a PKCS12 store, or {setting.removesuffix('location')}password is wrong"
        ) from None


class _Store:
    """The key and the certificates of a PKCS12 store."""

    def __init__(self, found: Any) -> None:
        self.key = found.key
        self.cert = None if found.cert is None else found.cert.certificate
        self.additional_certs = [each.certificate for each in found.additional_certs]


def _as_pem(*certificates: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _key_as_pem(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text.decode()


_JAVA_CIPHER: Final = re.compile(r"TLS_(.+)_WITH_(.+)")


def _ciphers(text: str) -> str:
    """Return ciphers in OpenSSL's notation. Java's names are translated, and those of TLS 1.3 left out."""
    names = [name.strip() for name in re.split("[,:]", text) if name.strip()]
    if not any(name.startswith("TLS_") for name in names):
        return text
    older = [name for name in names if not name.startswith("TLS_") or _JAVA_CIPHER.fullmatch(name)]
    if not older:
        raise ValueError(
            "Python cannot choose among the ciphers of TLS 1.3. Leave the setting out, and set"
            " ssl_enabled_protocols=TLSv1.3"
        )
    return ":".join(_openssl_name(name) for name in older)


def _openssl_name(name: str) -> str:
    match = _JAVA_CIPHER.fullmatch(name)
    if match is None:
        return name
    exchange, cipher = match.groups()
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20-POLY1305"
    # A plain RSA exchange has no prefix in OpenSSL.
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-")


class TlsSession:
    """One encrypted connection.

    Args:
        context: from :func:`make_context`.
        host: the name that the certificate must have.
        address: ``host:port``, for messages.
    """

    __slots__ = ("_address", "_in", "_object", "_out", "host")

    def __init__(self, context: ssl.SSLContext, host: str, address: str) -> None:
        self.host = host
        self._address = address
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)

    def handshake(self) -> bool:
        """Continue the handshake as far as the received bytes allow. Return whether it is complete.

        Raises:
            AuthenticationError: the certificate of the broker or of the client was rejected, or the other side does not
                speak TLS.
        """
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ValueError) as error:
            raise self._explain(error) from error
        return True

    def feed(self, data: memoryview | bytes) -> None:
        """Add bytes that were received from the network."""
        self._in.write(data)

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt into ``buffer``, and return the number of bytes. 0 means that more bytes are needed from the network.

        Raises:
            EOFError: the other side has closed.
            AuthenticationError: the other side rejected the client's certificate (TLS 1.3 reports that late), or the
                stream is damaged.
        """
        try:
            count: int = self._object.read(len(buffer), buffer)  # type: ignore[assignment]
        except ssl.SSLWantReadError:
            return 0
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            raise EOFError from None
        except ssl.SSLError as error:
            raise self._explain(error) from error
        if count == 0:
            raise EOFError
        return count

    def write(self, data: Buffer) -> None:
        """Encrypt bytes."""
        if len(data):
            self._object.write(data)

    def outgoing(self) -> bytes:
        """Return and remove the bytes that must be sent to the network."""
        return self._out.read() if self._out.pending else b""

    def close(self) -> None:
        """Add the close_notify alert to the bytes for the network. This does not wait."""
        try:
            self._object.unwrap()
        except (ssl.SSLError, ValueError, OSError):
            pass

    def _explain(self, error: Exception) -> KafkaConnectionError:
        code = getattr(error, "verify_code", 0)
        reason = getattr(error, "reason", "") or ""
        text = str(error)
        host, to = self.host, f"TLS with {self._address} failed"
        if code in _WRONG_HOST or "Hostname mismatch" in text or "IP address mismatch" in text:
            why = f"the broker's certificate is not for {host}; use a name that it is for, or ssl_check_hostname=False"
        elif code in _EXPIRED:
            why = "the broker's certificate has expired"
        elif code in _NOT_YET_VALID:
            why = "the broker's certificate is not valid yet; check the clocks"
        elif code in _UNKNOWN_AUTHORITY:
            why = "the broker's certificate is from an authority that we do not trust; give its PEM file as ssl_cafile"
        elif code in _NO_CRL:
            why = "an authority of the broker's chain has no list in ssl_crlfile; add its list"
        elif code in _REVOKED:
            why = "the broker's certificate has been revoked"
        elif reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "UNSUPPORTED_PROTOCOL") and (
            "ALERT" not in reason
        ):
            why = "the port does not speak TLS, or no version of it that we do; check the port and security_protocol"
        elif "CERTIFICATE_REQUIRED" in reason:
            why = "the broker wants a certificate from us; give ssl_certfile and ssl_keyfile"
        elif "ALERT" in reason:
            why = f"the broker refused: {reason.lower().replace('_', ' ')}"
        else:
            why = "no agreement was reached"
        return AuthenticationError(f"{to}: {why} ({text})", stage="TLS", address=self._address)
