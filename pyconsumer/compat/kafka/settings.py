"""Translation of kafka-python's settings into ours: defaults, and settings that are ignored or refused. No state."""

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
from pyconsumer.settings.config import ClientConfig

__all__ = ["GivenConfig", "beginning_with", "connect", "translate", "unknown_is_timeout", "without_meaning"]

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
    "metrics_num_samples": "see metrics()",
    "metrics_sample_window_ms": "see metrics()",
    "net": "each client has its own selector",
    "receive_message_max_bytes": "requests limit the size of responses",
    "sasl_kerberos_domain_name": "GSSAPI is not supported",
    "sasl_kerberos_name": "GSSAPI is not supported",
    "sasl_kerberos_service_name": "GSSAPI is not supported",
    "selector": "the best selector of the system is used",
    "sock_chunk_buffer_count": "buffers have the size of the responses",
    "sock_chunk_bytes": "buffers have the size of the responses",
    "socket_options": "TCP_NODELAY is always on; use send_buffer_bytes and receive_buffer_bytes",
}
_FOREVER_MS: Final = 2**31 - 1
#: Values that mean the default, for settings that have another one for it here.
_NOT_GIVEN: Final[Mapping[str, tuple[Any, ...]]] = {
    "client_id": (None,),
    "client_rack": (None, ""),
    "retries": (math.inf,),
}
#: Settings that must not be ignored silently: only None is accepted.
_UNSUPPORTED: Final = ("proxy_url", "socks5_proxy")


class GivenConfig(dict[str, Any]):
    """A client's settings by name, as in kafka-python: the program's values over the defaults, in the form given.

    Args:
        config: our settings, whose values are attributes, too: ``config.request_timeout_ms``.
        defaults: the client's ``DEFAULT_CONFIG``.
        given: the settings of the program.
    """

    def __init__(self, config: Any, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        super().__init__({**defaults, **given})
        self.settings = config

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.settings, name)


def without_meaning(given: Mapping[str, Any]) -> set[str]:
    """Return the names of settings that the originals do not look at, given the others.

    These are those of SASL and of TLS for a protocol without them, and values that stand for "not given".
    """
    protocol = str(given.get("security_protocol", "PLAINTEXT")).upper()
    found = {name for name in given if name.startswith("sasl_")} if "SASL" not in protocol else set()
    if "SSL" not in protocol:
        found |= {name for name in given if name.startswith("ssl_")}
    return found | {
        name for name, value in given.items() if any(value is no or value == no for no in _NOT_GIVEN.get(name, ()))
    }


def translate(
    given: Mapping[str, Any], *, defaults: Mapping[str, Any], meaningful: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Translate kafka-python's settings into ours.

    Args:
        given: the settings of the program.
        defaults: kafka-python's defaults that differ from ours.
        meaningful: names in ``_WITHOUT_EFFECT`` that have an effect for this client.

    Raises:
        ConfigurationError: a setting is not supported, or ``default_api_timeout_ms`` is less than
            ``request_timeout_ms``.
    """
    consumer = given.get("group_protocol") == "consumer"
    settings = {name: value for name, value in defaults.items() if not (consumer and name in CLASSIC_ONLY)}
    ignored = without_meaning(given)
    for name, value in given.items():
        if name in ignored:
            continue
        if name in _UNSUPPORTED:
            if value is not None:
                raise ConfigurationError(f"{name} is not supported: clients connect to the brokers directly")
        elif name in _WITHOUT_EFFECT and name not in meaningful:
            _log.info("the setting %s has no effect: %s", name, _WITHOUT_EFFECT[name])
        else:
            settings[name] = _in_our_form(name, value)
    api_ms, request_ms = settings.get("default_api_timeout_ms"), settings.get("request_timeout_ms")
    if api_ms is not None and request_ms is not None and api_ms < request_ms:
        raise ConfigurationError(
            f"default_api_timeout_ms ({api_ms}) must not be less than request_timeout_ms ({request_ms})"
        )
    if "request_timeout_ms" in settings:
        settings.setdefault("default_api_timeout_ms", settings["request_timeout_ms"])
    return settings


def _in_our_form(name: str, value: Any) -> Any:
    """Return a value as our settings want it: times are whole milliseconds, and connections may be idle for long."""
    if name == "connections_max_idle_ms" and value is None:
        return _FOREVER_MS
    if isinstance(value, float) and name.endswith("_ms") and math.isfinite(value):
        return math.ceil(value)
    return value


@contextlib.contextmanager
def unknown_is_timeout() -> Iterator[None]:
    """Replace the error for a partition that does not exist by the one that kafka-python and aiokafka raise.

    Raises:
        KafkaTimeoutError: a partition does not exist. (It is raised at once; theirs is raised after the timeout.)
    """
    try:
        yield
    except UnknownTopicOrPartitionError as error:
        raise KafkaTimeoutError(str(error)) from error


def beginning_with(pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    """Return a pattern for whole names, the beginning of which must match the given one, as in kafka-python."""
    if pattern is None:
        return None
    given = pattern if isinstance(pattern, re.Pattern) else re.compile(pattern)
    return re.compile(f"(?:{given.pattern}).*", given.flags | re.DOTALL)


def connect(config: ClientConfig | GivenConfig, timeout_ms: float) -> None:
    """Check that a broker can be reached, as kafka-python's constructors do.

    Raises:
        NoBrokersAvailableError: no broker could be reached within ``timeout_ms``.
        AuthenticationError: the broker rejected our credentials.
    """
    ours = config.settings if isinstance(config, GivenConfig) else config
    shared = ours.given & ADMIN_SETTINGS.by_name.keys() - {"client_id", "retries"}
    with KafkaAdminClient({name: getattr(ours, name) for name in shared}) as admin:
        try:
            admin.describe_cluster(timeout_ms=math.ceil(timeout_ms))
        except KafkaTimeoutError as error:
            raise NoBrokersAvailableError(f"no broker could be reached within {timeout_ms:g} ms: {error}") from error
