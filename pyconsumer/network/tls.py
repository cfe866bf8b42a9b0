"""TLS of clients: the context from the settings, encryption, and clear errors.

Also: contexts, and errors that name the cause.

It is imported only where TLS is used: OpenSSL takes a tenth of the time that importing a consumer does.
"""

from __future__ import annotations

import ssl

from pyconsumer.errors import AuthenticationError, ConfigurationError, KafkaConnectionError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.settings.config import ClientConfig

__all__ = ["TlsSession", "make_context"]

# X.509 verification results, as OpenSSL numbers them.
_EXPIRED = (10,)
_NOT_YET_VALID = (9,)
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_WRONG_HOST = (62, 64)
_REVOKED = (23,)


def make_context(config: ClientConfig) -> ssl.SSLContext | None:
    """Return the TLS context for the settings, or None if connections are not encrypted.

    Raises:
        ConfigurationError: a certificate or key cannot be used. The message names the setting.
    """
    if not config.uses_tls:
        return None
    if config.ssl_context is not None:
        if not config.ssl_check_hostname and config.ssl_context.check_hostname:
            raise ConfigurationError("ssl_check_hostname is False, but ssl_context checks the host name")
        return config.ssl_context
    setting = "ssl_cafile"
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=config.ssl_cafile)
        context.check_hostname = config.ssl_check_hostname
        if config.ssl_crlfile:
            setting = "ssl_crlfile"
            context.load_verify_locations(config.ssl_crlfile)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if config.ssl_certfile:
            setting = "ssl_certfile, ssl_keyfile or ssl_password"
            # A password is always given: OpenSSL would ask for one at the terminal.
            context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, config.ssl_password or "")
        if config.ssl_ciphers:
            setting = "ssl_ciphers"
            context.set_ciphers(config.ssl_ciphers)
    except (ssl.SSLError, OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{setting}: {error}") from error
    return context


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
