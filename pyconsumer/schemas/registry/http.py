"""HTTP to a registry: kept connections, TLS, logins and limits, by urllib3. No other module imports it.

* A TLS context is made for https alone. The system's certificates are trusted unless settings name others.
* Redirects are followed three times, of the same or of a safer scheme. A login is not sent to another host.
* If a registry rejects a token of an authorization server (401), the request is sent once more with a new one.
* A response has a longest size. All of it arrives within the time of the attempt: each read has the time that is left.
* After a fork the child opens connections of its own.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import ssl
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    InvalidHeader,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from pyconsumer import __version__
from pyconsumer.errors import ConfigurationError
from pyconsumer.network.timed_http import LONGEST_WAIT_S, TimedResponse, time_of_request
from pyconsumer.schemas.registry.exchange import Attempt, HttpResponse, NoResponse
from pyconsumer.schemas.registry.settings import BearerSettings, RegistrySettings, header_text

__all__ = ["Transport"]

_log = logging.getLogger(__name__)

_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_MOST_REDIRECTS: Final = 3
_PIECE_BYTES: Final = 64 << 10
_CONNECTIONS: Final = 8  #: to each address: one for each thread
#: Instead of the text of an error that may have a secret.
_NOT_MADE: Final = NoResponse(
    "the request cannot be made: the login, a header or the address has characters that it cannot have",
    sent=False,
    final=True,
)
_EARLY_S: Final = 30.0  #: a token is renewed so long before it expires


class _HttpConnection(HTTPConnection):
    response_class = TimedResponse


class _HttpsConnection(HTTPSConnection):
    response_class = TimedResponse


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


_POOLS: Final = {"http": _HttpPool, "https": _HttpsPool}


class _Pools(urllib3.PoolManager):
    """Connections whose reads end in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_classes_by_scheme = _POOLS


class _ProxyPools(urllib3.ProxyManager):
    """Connections through a proxy whose reads end in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_classes_by_scheme = _POOLS


class Transport:
    """Sends attempts. Several threads may use it at once.

    Args:
        settings: the client's settings.

    Raises:
        ConfigurationError: a certificate cannot be read.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        urls = [*settings.urls, *([settings.bearer.endpoint] if settings.bearer and settings.bearer.endpoint else [])]
        needs_tls = any(url.lower().startswith("https:") for url in urls)
        options: dict[str, Any] = {"num_pools": 10, "maxsize": _CONNECTIONS, "retries": False}
        if needs_tls:
            options["ssl_context"] = _tls_context(settings)
            if settings.ca is False:
                _warn_once(urls)
        self._pools: urllib3.PoolManager
        if settings.proxy is None:
            self._pools = _Pools(**options)
        else:
            try:
                self._pools = _ProxyPools(settings.proxy, **options)
            except (HTTPError, ValueError):
                raise ConfigurationError("proxy must be a URL, such as 'http://proxy:3128' (it is not shown)") from None
        self._tokens = None if settings.bearer is None else _Tokens(settings.bearer)

    def send(self, attempt: Attempt) -> HttpResponse | NoResponse:
        """Send a request and return the response. It raises no error of the network."""
        until = time.monotonic() + attempt.timeout_s
        request = attempt.request
        url = attempt.url + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        headers = {"Accept": _ACCEPT, "User-Agent": f"pyconsumer/{__version__}"}
        if request.body is not None:
            headers["Content-Type"] = _CONTENT_TYPE
        try:
            secrets = self._login(until)
            answer = self._follow(request.method, url, headers, secrets, request.body, until)
            is_rejected = isinstance(answer, HttpResponse) and answer.status == 401
            if is_rejected and self._tokens is not None and self._tokens.forget(secrets):
                answer = self._follow(request.method, url, headers, self._login(until), request.body, until)
            return answer
        except _TokenError as error:
            return NoResponse(str(error), sent=False, final=error.is_refused, refused=error.is_refused)
        except ValueError:  # its text may have the login
            return _NOT_MADE

    def _login(self, until: float) -> dict[str, str]:
        if self._tokens is not None:
            return self._tokens.headers(self, until)
        if self._settings.user is not None:
            user = ":".join(self._settings.user).encode()
            return {"Authorization": "Basic " + base64.b64encode(user).decode()}
        return {}

    def _follow(
        self, method: str, url: str, headers: dict[str, str], secrets: dict[str, str], body: bytes | None, until: float
    ) -> HttpResponse | NoResponse:
        """Send a request, and again to the address that a response redirects to."""
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self.exchange(method, url, {**headers, **secrets}, body, until)
            if not isinstance(answer, HttpResponse) or answer.status not in (301, 302, 303, 307, 308):
                return answer
            location = answer.headers.get("location", "")
            try:
                target = urljoin(url, location)
                old, new = urlsplit(url), urlsplit(target)
                is_elsewhere = (old.hostname, old.port, old.scheme) != (new.hostname, new.port, new.scheme)
            except ValueError:
                shown = location.rpartition("@")[2][:200]
                return NoResponse(f"it redirects to {shown!r}, which is no URL", final=True)
            if target == url or new.scheme not in ("http", "https") or (old.scheme, new.scheme) == ("https", "http"):
                return answer
            if is_elsewhere:
                secrets = {}
            if answer.status == 303:
                method, body = "GET", None
            url = target
        return NoResponse(f"it redirects more than {_MOST_REDIRECTS} times", final=True)

    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, until: float
    ) -> HttpResponse | NoResponse:
        """Send one request to one URL."""
        left = min(max(until - time.monotonic(), 0.001), LONGEST_WAIT_S)
        time_of_request.begin(until)
        try:
            response = self._pools.request(
                method,
                url,
                body=body,
                headers=dict(headers),
                timeout=urllib3.Timeout(total=left),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                return self._read(response, until)
            finally:
                response.release_conn()
        except (NameResolutionError, NewConnectionError, ConnectTimeoutError) as error:
            return NoResponse(_reason(error), sent=False)
        except SSLError as error:
            final = "CERTIFICATE_VERIFY_FAILED" in str(error)
            return NoResponse(_reason(error), sent=False, final=final)
        except ReadTimeoutError:
            return NoResponse(f"no response within {left:.3g} s")
        except (InvalidHeader, LocationParseError) as error:
            return NoResponse(_reason(error), sent=False, final=True)
        except (HTTPError, OSError) as error:
            return NoResponse(_reason(error))
        except ValueError:  # http.client's text has the header, and so the login
            return _NOT_MADE

    def _read(self, response: urllib3.BaseHTTPResponse, until: float) -> HttpResponse | NoResponse:
        most = self._settings.max_response_bytes
        found = bytearray()
        while piece := response.read(_PIECE_BYTES, decode_content=True):
            found += piece
            if len(found) > most:
                response.close()
                return NoResponse(f"the response is longer than {most} bytes (max.response.bytes)", final=True)
            if time.monotonic() > until:
                response.close()
                return NoResponse("the response did not arrive in time")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(response.status, headers, bytes(found))

    def close(self) -> None:
        """Close the connections."""
        self._pools.clear()


def _reason(error: Exception) -> str:
    """Return the cause of a failure, without the object of the pool that urllib3 names first."""
    cause = error
    while isinstance(cause, HTTPError) and cause.__cause__ is not None:
        cause = cause.__cause__  # type: ignore[assignment]
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause).rpartition(">: ")[2] or type(cause).__name__


def _warn_once(urls: Sequence[str]) -> None:
    """Say once that certificates are not checked. urllib3 would say it for each connection."""
    _log.warning("ssl.ca.location is False: the certificates of %s are not checked", ", ".join(map(_host, urls)))
    for url in urls:
        text = f"Unverified HTTPS request is being made to host '{_host(url)}'"
        warnings.filterwarnings("ignore", message=re.escape(text), category=InsecureRequestWarning)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _tls_context(settings: RegistrySettings) -> ssl.SSLContext:
    try:
        if settings.ca is False:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif isinstance(settings.ca, str):
            is_folder = os.path.isdir(settings.ca)
            context = ssl.create_default_context(
                cafile=None if is_folder else settings.ca, capath=settings.ca if is_folder else None
            )
        else:
            context = ssl.create_default_context()
        if settings.certificate is not None:
            context.load_cert_chain(settings.certificate, settings.key, settings.key_password or "")
    except OSError as error:
        names = [settings.ca, settings.certificate, settings.key]
        files = ", ".join(name for name in names if isinstance(name, str))
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"the registry's certificates cannot be read ({files}): {reason}") from None
    return context


class _TokenError(Exception):
    """No token could be got.

    Args:
        reason: the cause.
        is_refused: True if the authorization server refuses the client, so that another attempt cannot help.
    """

    def __init__(self, reason: str, *, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.is_refused = is_refused


class _Tokens:
    """Headers with a bearer token."""

    def __init__(self, settings: BearerSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def headers(self, transport: Transport, until: float) -> dict[str, str]:
        settings = self._settings
        fields: Mapping[str, Any] = {
            "bearer.auth.token": settings.token,
            "bearer.auth.logical.cluster": settings.logical_cluster,
            "bearer.auth.identity.pool.id": settings.identity_pool,
        }
        if settings.source == "OAUTHBEARER":
            fields = {**fields, "bearer.auth.token": self._client_token(transport, until)}
        elif settings.source == "CUSTOM":
            fields = self._asked()
        names = {
            "bearer.auth.logical.cluster": "target-sr-cluster",
            "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
        }
        try:
            found = {header: header_text(name, str(fields[name])) for name, header in names.items() if fields.get(name)}
            token = header_text("bearer.auth.token", str(fields["bearer.auth.token"]))
        except ConfigurationError as error:
            raise _TokenError(str(error)) from None
        return {"Authorization": f"Bearer {token}", **found}

    def _asked(self) -> Mapping[str, Any]:
        assert self._settings.function is not None
        try:
            fields = self._settings.function(self._settings.function_config)
        except Exception as error:
            name = type(error).__name__
            raise _TokenError(f"bearer.auth.custom.provider.function raised {name}") from error
        if not isinstance(fields, Mapping) or not fields.get("bearer.auth.token"):
            raise _TokenError("bearer.auth.custom.provider.function returned no 'bearer.auth.token'")
        return fields

    def _client_token(self, transport: Transport, until: float) -> str:
        """Return a token by client credentials (RFC 6749, section 4.4). It is kept until it expires."""
        with self._lock:
            if self._token and time.monotonic() < self._until:
                return self._token
        settings = self._settings
        form = {
            "grant_type": "client_credentials",
            "client_id": settings.client_id,
            "client_secret": settings.client_secret,
        }
        if settings.scope:
            form["scope"] = settings.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        endpoint = settings.endpoint or ""
        answer = transport.exchange("POST", endpoint, headers, urlencode(form).encode(), until)
        if isinstance(answer, NoResponse):
            raise _TokenError(f"no token from {endpoint}: {answer.reason}")
        try:
            if not 200 <= answer.status < 300:
                raise ValueError
            found = json.loads(answer.body)
            token, seconds = str(found["access_token"]).strip(), float(found.get("expires_in", 300))
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            is_refused = 400 <= answer.status < 500 and answer.status not in (408, 429)
            reason = f"no token from {endpoint}: it answered with status {answer.status}"
            raise _TokenError(reason, is_refused=is_refused) from None
        with self._lock:
            self._token, self._until = token, time.monotonic() + max(seconds - _EARLY_S, seconds / 2)
        return token

    def forget(self, headers: Mapping[str, str]) -> bool:
        """Forget the token in these headers, which the registry has rejected. True if there may be a newer one."""
        if self._settings.source != "OAUTHBEARER":
            return False
        with self._lock:
            if headers.get("Authorization") == f"Bearer {self._token}":
                self._token = ""
        return True
