"""The settings of a registry's client: confluent-kafka's dictionary, or one or several URLs.

An unknown key is an error that names the nearest known one. Secrets are in no ``repr``, message or log line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import nearest

__all__ = ["BearerSettings", "RegistrySettings", "header_text"]

#: Keys of confluent-kafka's client that have no effect here, each with the way out.
_NOT_SUPPORTED: Final = {
    "bearer.auth.uamis.endpoint.query": "give a function in bearer.auth.custom.provider.function",
}
_SOURCES: Final = ("STATIC_TOKEN", "OAUTHBEARER", "CUSTOM")
_DEFAULT_TIMEOUT_S: Final = 30.0
_MOST_RESPONSE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class BearerSettings:
    """A bearer token, or the way to get one.

    Attributes:
        source: ``STATIC_TOKEN``, ``OAUTHBEARER`` (client credentials of OAuth 2) or ``CUSTOM``.
        token: the token.
        logical_cluster: sent as ``target-sr-cluster``.
        identity_pool: sent as ``Confluent-Identity-Pool-Id``.
        client_id, client_secret, scope, endpoint: of the authorization server.
        function: returns a mapping with ``bearer.auth.token`` and, if they apply, the two keys for the headers. Called
            with ``function_config`` before each request, in a thread of the client.
    """

    source: str
    token: str | None = field(default=None, repr=False)
    logical_cluster: str | None = None
    identity_pool: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    endpoint: str | None = None
    function: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    function_config: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The settings of one client.

    Attributes:
        urls: addresses of one registry, each ``http[s]://host[:port][/path]`` without a user or a password.
        user: name and password for basic login. None without.
        bearer: a bearer token. None without.
        ca: a file or folder of certificates. None for the system's. False trusts every server.
        certificate, key, key_password: the client's own certificate.
        proxy: URL of an HTTP proxy.
        timeout_s: the longest time of a call, with all retries.
        max_retries: further attempts at each URL.
        retry_wait_s, retry_max_wait_s: the backoff, which doubles from the first value to the second.
        cache_capacity: the most entries of each kind of call.
        latest_ttl_s: how long the latest version of a subject is kept.
        max_response_bytes: the longest response that is read.
    """

    urls: tuple[str, ...]
    user: tuple[str, str] | None = field(default=None, repr=False)
    bearer: BearerSettings | None = None
    ca: str | bool | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    timeout_s: float = _DEFAULT_TIMEOUT_S
    max_retries: int = 3
    retry_wait_s: float = 1.0
    retry_max_wait_s: float = 20.0
    cache_capacity: int = 1000
    latest_ttl_s: float = 60.0
    max_response_bytes: int = _MOST_RESPONSE_BYTES

    @classmethod
    def of(cls, given: str | Sequence[str] | Mapping[str, Any]) -> RegistrySettings:
        """Return the settings of what a user gave: a URL, several, or confluent-kafka's dictionary.

        Raises:
            ConfigurationError: a key is unknown, or a value is not legal.
        """
        if isinstance(given, str):
            given = {"url": given}
        elif not isinstance(given, Mapping):
            if not isinstance(given, list | tuple):
                raise ConfigurationError(
                    f"a registry is given as a URL, a list of URLs, or a dictionary with 'url', not as a"
                    f" {type(given).__name__}"
                )
            given = {"url": list(given)}
        return _Reader(given).settings()


class _Reader:
    """Reads confluent-kafka's dictionary."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._rest = dict(given)
        self._asked: set[str] = set()

    def settings(self) -> RegistrySettings:
        urls, user = self._urls()
        certificate, key = self._text("ssl.certificate.location"), self._text("ssl.key.location")
        key_password = self._text("ssl.key.password", secret=True)
        if certificate is None and (key or key_password):
            raise ConfigurationError("ssl.key.location and ssl.key.password need ssl.certificate.location")
        settings = RegistrySettings(
            urls=urls,
            user=user,
            bearer=self._bearer(),
            ca=self._ca(),
            certificate=certificate,
            key=key,
            key_password=key_password,
            proxy=self._text("proxy", secret=True),
            timeout_s=min(self._number("timeout", _DEFAULT_TIMEOUT_S, low=0.001), threading.TIMEOUT_MAX),
            max_retries=int(self._number("max.retries", 3)),
            retry_wait_s=self._number("retries.wait.ms", 1000) / 1000,
            retry_max_wait_s=self._number("retries.max.wait.ms", 20_000) / 1000,
            cache_capacity=int(self._number("cache.capacity", 1000, low=1)),
            latest_ttl_s=self._number("cache.latest.ttl.sec", 60.0),
            max_response_bytes=int(self._number("max.response.bytes", _MOST_RESPONSE_BYTES, low=1)),
        )
        self._check_rest()
        if settings.user is not None and settings.bearer is not None:
            raise ConfigurationError("a registry is given either basic.auth.user.info or bearer.auth.*, not both")
        return settings

    def _take(self, name: str) -> Any:
        self._asked.add(name)
        return self._rest.pop(name, None)

    def _text(self, name: str, *, secret: bool = False) -> str | None:
        value = self._take(name)
        if value is None or isinstance(value, str):
            return value
        shown = "it is not shown" if secret else repr(value)
        raise ConfigurationError(f"{name} must be text, not a {type(value).__name__} ({shown})")

    def _header(self, name: str) -> str | None:
        value = self._text(name, secret=True)
        return None if value is None else header_text(name, value)

    def _number(self, name: str, default: float, *, low: float = 0) -> float:
        value = self._take(name)
        if value is None:
            return default
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                pass
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < 1e12:
            raise ConfigurationError(f"{name} must be a number of at least {low:g}, not {value!r}")
        return value

    def _urls(self) -> tuple[tuple[str, ...], tuple[str, str] | None]:
        given = self._take("url")
        texts = given.split(",") if isinstance(given, str) else given
        if not texts or not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise ConfigurationError("the registry's address is missing: give url, such as 'http://localhost:8081'")
        users: set[tuple[str, str]] = set()
        is_secret = any("@" in text for text in texts)  # a comma in a password makes two texts of it
        urls = tuple(_checked_url(text.strip(), users, is_secret) for text in texts)
        info = self._text("basic.auth.user.info", secret=True)
        self._take("basic.auth.credentials.source")  # Java's name for where they stand: it follows from the keys here
        if info is not None:
            if users:
                raise ConfigurationError("the login stands in the url and in basic.auth.user.info: give it once")
            name, colon, password = info.partition(":")
            if not colon:
                raise ConfigurationError("basic.auth.user.info must have the form name:password (it is not shown)")
            users = {(name, password)}
        if len(users) > 1:
            raise ConfigurationError("the urls have different logins: give one in basic.auth.user.info")
        return urls, next(iter(users), None)

    def _ca(self) -> str | bool | None:
        value = self._take("ssl.ca.location")
        if value is None or isinstance(value, str) or value is False:
            return value
        raise ConfigurationError(f"ssl.ca.location must be a file or a folder, or False, not {value!r}")

    def _bearer(self) -> BearerSettings | None:
        source = self._text("bearer.auth.credentials.source")
        token = self._header("bearer.auth.token")
        bearer = BearerSettings(
            source=(source or "STATIC_TOKEN").upper(),
            token=token,
            logical_cluster=self._header("bearer.auth.logical.cluster"),
            identity_pool=self._header("bearer.auth.identity.pool.id"),
            client_id=self._text("bearer.auth.client.id"),
            client_secret=self._text("bearer.auth.client.secret", secret=True),
            scope=self._text("bearer.auth.scope"),
            endpoint=self._endpoint(),
            function=self._take("bearer.auth.custom.provider.function"),
            function_config=self._take("bearer.auth.custom.provider.config") or {},
        )
        if source is None and token is None:
            return None
        if bearer.source not in _SOURCES:
            raise ConfigurationError(
                f"bearer.auth.credentials.source is one of {', '.join(_SOURCES)}, not {source!r}. For another source"
                " give CUSTOM and a function in bearer.auth.custom.provider.function"
            )
        needs: dict[str, dict[str, object]] = {
            "STATIC_TOKEN": {"bearer.auth.token": bearer.token},
            "OAUTHBEARER": {
                "bearer.auth.client.id": bearer.client_id,
                "bearer.auth.client.secret": bearer.client_secret,
                "bearer.auth.issuer.endpoint.url": bearer.endpoint,
            },
            "CUSTOM": {"bearer.auth.custom.provider.function": bearer.function},
        }
        missing = [name for name, value in needs[bearer.source].items() if not value]
        if missing:
            raise ConfigurationError(f"bearer.auth.credentials.source={bearer.source} needs {' and '.join(missing)}")
        return bearer

    def _endpoint(self) -> str | None:
        """Return the address of the authorization server without a login, which would not be sent."""
        name = "bearer.auth.issuer.endpoint.url"
        text = self._text(name, secret=True)
        if not text:
            return text
        try:
            parts = urlsplit(text.strip())
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_url = False
        if not is_url or "@" in parts.path or parts.netloc.count("@") > 1:
            raise ConfigurationError(f"{name} must have the form http[s]://host[:port][/path] (it is not shown)")
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def _check_rest(self) -> None:
        for name in self._rest:
            if name in _NOT_SUPPORTED:
                raise ConfigurationError(f"the registry setting {name!r} has no effect here: {_NOT_SUPPORTED[name]}")
            near = nearest(str(name), self._asked) if isinstance(name, str) else None
            hint = "" if near is None else f": did you mean {near!r}?"
            raise ConfigurationError(f"unknown registry setting {name!r}{hint}")


def header_text(name: str, value: str) -> str:
    """Return the text of a header without the space around it, such as the line's end of a file with a token.

    Raises:
        ConfigurationError: it has control characters, or others than ASCII's. The message does not show it.
    """
    text = value.strip()
    if not all(" " <= character <= "~" for character in text):
        raise ConfigurationError(
            f"{name} has characters that a header cannot have, such as a new line (it is not shown)"
        )
    return text


def _checked_url(text: str, users: set[tuple[str, str]], is_secret: bool) -> str:
    """Return a URL without its login, which is added to ``users``. A secret one is not shown in the error."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_url = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    if not is_url or "@" in parts.path or parts.netloc.count("@") > 1:
        form = "a registry's url has the form http[s]://host[:port][/path]"
        if is_secret:
            raise ConfigurationError(
                f"{form}. It is not shown, as it may have a login: write /, comma, @, ? and # in it as %2F, %2C, %40,"
                " %3F and %23, or give basic.auth.user.info"
            )
        raise ConfigurationError(f"{form}, not {text!r}. Separate several by commas")
    assert parts.hostname is not None
    if parts.username is not None:
        users.add((unquote(parts.username), unquote(parts.password or "")))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    return urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
