"""Translation of kafka-python's settings into pyconsumer's: defaults, ignored and rejected settings. No state."""

from __future__ import annotations

import contextlib
import logging
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.consumer.config import CLASSIC_ONLY
from pyconsumer.errors import (
    ConfigurationError,
    KafkaTimeoutError,
    NoBrokersAvailableError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.settings.config import ClientConfig, Config

__all__ = ["GivenConfig", "beginning_with", "connect", "translate", "unknown_is_timeout"]

_log = logging.getLogger(__name__)

#: Settings without effect, with the reason, which is logged if one is given.
_WITHOUT_EFFECT: Final = {
    "api_version": "versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "versions are negotiated with each broker",
    "bootstrap_topics_filter": "topics are looked up when they are used",
    "kafka_client": "the network client cannot be replaced",
    "legacy_iterator": "there is only one kind of iterator",
    "max_in_flight_requests_per_connection": "the consumer limits the bytes that it fetches",
    "metric_group_prefix": "see metrics()",
    "metric_reporters": "see metrics()",
    "metrics_enabled": "see metrics()",
    "net": "each client has its own selector",
    "receive_message_max_bytes": "requests limit the size of responses",
    "selector": "the best selector of the system is used",
    "sock_chunk_buffer_count": "buffers have the size of the responses",
    "sock_chunk_bytes": "buffers have the size of the responses",
    "socket_options": "TCP_NODELAY is always on; use send_buffer_bytes and receive_buffer_bytes",
}
#: Settings that must not be ignored silently: only None is accepted.
_UNSUPPORTED: Final = ("proxy_url", "socks5_proxy")
_NO_DEFAULTS: Final[Mapping[str, Any]] = {}


class GivenConfig(dict[str, Any]):
    """The settings of a client in kafka-python's form: a dictionary of the given settings and, for the others, the
    defaults.

    Values have the form in which the program gave them. The attributes are pyconsumer's checked settings. A change of
    the dictionary has no effect on the client.

    Args:
        config: pyconsumer's settings.
        defaults: kafka-python's defaults.
        given: the settings that the program gave.
    """

    def __init__(self, config: Config, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        super().__init__({**defaults, **given})
        if self.get("client_id") is None:
            self["client_id"] = getattr(config, "client_id", None)
        self._config = config

    def __getattr__(self, name: str) -> Any:
        if name == "_config":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._config, name)

    def __missing__(self, name: str) -> Any:
        found = self._config.settings.find(name)
        if found is None:
            raise KeyError(name)
        return getattr(self._config, found.name)

    def __repr__(self) -> str:
        shown = (f"{name!r}: {'***' if _is_secret(name) and value else repr(value)}" for name, value in self.items())
        return f"{{{', '.join(shown)}}}"


def _is_secret(name: str) -> bool:
    found = ADMIN_SETTINGS.find(name)
    return found is not None and found.secret


def _without_what_has_no_use(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without credentials and TLS files of which the security protocol makes no use.

    Both originals ignore them. Programs give them from a configuration of their own, of which only the protocol
    changes.
    """
    protocol = str(given.get("security_protocol", "PLAINTEXT")).upper()
    unused = [prefix for prefix, used in (("sasl_", "SASL" in protocol), ("ssl_", "SSL" in protocol)) if not used]
    return {name: value for name, value in given.items() if not name.startswith(tuple(unused))}


def _plain(name: str, value: Any) -> Any:
    """Return a value in our form: whole milliseconds, and -1 for connections that are never closed."""
    if name.endswith("_ms") and isinstance(value, float) and math.isfinite(value):
        return math.ceil(value)
    if name == "connections_max_idle_ms" and value is None:
        return -1
    if name == "client_rack" and value is None:
        return ""
    return value


def translate(
    given: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any],
    meaningful: frozenset[str] = frozenset(),
    documented: Mapping[str, Any] = _NO_DEFAULTS,
) -> dict[str, Any]:
    """Translate kafka-python's settings into pyconsumer's.

    Args:
        given: the settings that the program gave.
        defaults: those defaults of kafka-python that differ from pyconsumer's.
        meaningful: names in ``_WITHOUT_EFFECT`` that do have an effect for this client.
        documented: kafka-python's own defaults. A setting without effect is logged if it has another value.

    Raises:
        ConfigurationError: a setting is not supported, or ``default_api_timeout_ms`` is less than
            ``request_timeout_ms``.
    """
    consumer = given.get("group_protocol") == "consumer"
    used = _without_what_has_no_use({**defaults, **given})
    settings = {name: used[name] for name in defaults if name in used and not (consumer and name in CLASSIC_ONLY)}
    nothing = object()
    for name, value in used.items():
        if name not in given:
            continue
        if name in _UNSUPPORTED:
            if value is not None:
                raise ConfigurationError(f"{name} is not supported: clients connect to the brokers directly")
        elif name in _WITHOUT_EFFECT and name not in meaningful:
            if value != documented.get(name, nothing):
                _log.info("the setting %s has no effect: %s", name, _WITHOUT_EFFECT[name])
        else:
            settings[name] = _plain(name, value)
    api_ms, request_ms = settings.get("default_api_timeout_ms"), settings.get("request_timeout_ms")
    if api_ms is not None and request_ms is not None and api_ms < request_ms:
        raise ConfigurationError(
            f"default_api_timeout_ms ({api_ms}) must not be less than request_timeout_ms ({request_ms})"
        )
    if "request_timeout_ms" in settings:
        settings.setdefault("default_api_timeout_ms", settings["request_timeout_ms"])
    return settings


@contextlib.contextmanager
def unknown_is_timeout() -> Iterator[None]:
    """Translate the error for a partition that does not exist into the error of kafka-python and aiokafka.

    Raises:
        KafkaTimeoutError: a partition does not exist. (It is raised at once, but by the originals only after the
            timeout.)
    """
    try:
        yield
    except UnknownTopicOrPartitionError as error:
        raise KafkaTimeoutError(str(error)) from error


def beginning_with(pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    """Return a pattern for whole names. It matches a name if ``pattern`` matches its beginning, as in kafka-python."""
    if pattern is None:
        return None
    given = pattern if isinstance(pattern, re.Pattern) else re.compile(pattern)
    return re.compile(f"(?:{given.pattern}).*", given.flags | re.DOTALL)


def connect(config: ClientConfig | GivenConfig, timeout_ms: float) -> None:
    """Check that a broker can be reached. kafka-python's constructors do this.

    Raises:
        NoBrokersAvailableError: no broker could be reached within ``timeout_ms``.
        AuthenticationError: the broker rejected the credentials.
    """
    shared = config.given & ADMIN_SETTINGS.by_name.keys() - {"client_id", "retries"}
    with KafkaAdminClient({name: getattr(config, name) for name in shared}) as admin:
        try:
            admin.describe_cluster(timeout_ms=math.ceil(timeout_ms))
        except KafkaTimeoutError as error:
            raise NoBrokersAvailableError(f"no broker could be reached within {timeout_ms:g} ms: {error}") from error
