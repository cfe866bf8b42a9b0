"""kafka-python's settings as ours: defaults that differ, and settings that have no effect or no counterpart here."""

from __future__ import annotations

import contextlib
import logging
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.config import ClientConfig
from pyconsumer.consumer.config import CLASSIC_ONLY
from pyconsumer.errors import (
    ConfigurationError,
    KafkaTimeoutError,
    NoBrokersAvailableError,
    UnknownTopicOrPartitionError,
)

__all__ = ["GivenConfig", "beginning_with", "connect", "translate", "unknown_is_timeout"]

_log = logging.getLogger(__name__)

#: Settings that mean nothing here, with the reason that is logged once where they are given.
_WITHOUT_EFFECT: Final = {
    "api_version": "versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "versions are negotiated with each broker",
    "bootstrap_topics_filter": "topics are looked up when they are used",
    "kafka_client": "the network client cannot be replaced",
    "legacy_iterator": "there is one way to iterate",
    "max_in_flight_requests_per_connection": "the consumer bounds what it fetches in bytes",
    "metric_group_prefix": "see metrics()",
    "metric_reporters": "see metrics()",
    "metrics_enabled": "see metrics()",
    "metrics_num_samples": "see metrics()",
    "metrics_sample_window_ms": "see metrics()",
    "net": "clients have a selector of their own",
    "receive_message_max_bytes": "the size of responses is bounded by the requests",
    "sasl_kerberos_domain_name": "there is no GSSAPI",
    "sasl_kerberos_name": "there is no GSSAPI",
    "sasl_kerberos_service_name": "there is no GSSAPI",
    "selector": "the system's best one is used",
    "sock_chunk_buffer_count": "buffers have the size of the responses",
    "sock_chunk_bytes": "buffers have the size of the responses",
    "socket_options": "TCP_NODELAY is always on; use send_buffer_bytes and receive_buffer_bytes",
}
#: Settings without which a program would not do what it says: only None is taken.
_NOT_THERE: Final = ("proxy_url", "socks5_proxy")


class GivenConfig:
    """A client's settings, as attributes and, as kafka-python's, by name: ``config["group_id"]``.

    Args:
        config: our settings.
        given: what the program set; names that are not ours are answered from here.
    """

    def __init__(self, config: Any, given: Mapping[str, Any]) -> None:
        self._config = config
        self._given = given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self._config, name)
        except AttributeError:
            if name in _WITHOUT_EFFECT or name in _NOT_THERE or name in self._given:
                return self._given.get(name)
            raise KeyError(name) from None


def translate(
    given: Mapping[str, Any], *, defaults: Mapping[str, Any], meaningful: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return our settings for kafka-python's.

    Args:
        given: what the program sets.
        defaults: kafka-python's defaults that differ from ours.
        meaningful: names among ``_WITHOUT_EFFECT`` that mean something for this client.

    Raises:
        ConfigurationError: a setting is given that cannot be had here.
    """
    consumer = given.get("group_protocol") == "consumer"
    settings = {name: value for name, value in defaults.items() if not (consumer and name in CLASSIC_ONLY)}
    for name, value in given.items():
        if name in _NOT_THERE:
            if value is not None:
                raise ConfigurationError(f"{name} cannot be used: connections go to the brokers directly")
        elif name in _WITHOUT_EFFECT and name not in meaningful:
            _log.info("the setting %s has no effect: %s", name, _WITHOUT_EFFECT[name])
        else:
            settings[name] = value
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
    """Turn the error for a partition that does not exist into the one that kafka-python and aiokafka raise.

    Raises:
        KafkaTimeoutError: there is no such partition; at once, while theirs wait for it.
    """
    try:
        yield
    except UnknownTopicOrPartitionError as error:
        raise KafkaTimeoutError(str(error)) from error


def beginning_with(pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    """Return a pattern that matches whole names whose beginning matches the given one, as in kafka-python."""
    if pattern is None:
        return None
    given = pattern if isinstance(pattern, re.Pattern) else re.compile(pattern)
    return re.compile(f"(?:{given.pattern}).*", given.flags | re.DOTALL)


def connect(config: ClientConfig | GivenConfig, timeout_ms: float) -> None:
    """Make sure that a broker answers, as kafka-python's constructors do.

    Raises:
        NoBrokersAvailableError: none does within ``timeout_ms``.
        AuthenticationError: the broker rejected our credentials.
    """
    shared = config.given & ADMIN_SETTINGS.by_name.keys() - {"client_id", "retries"}
    with KafkaAdminClient({name: getattr(config, name) for name in shared}) as admin:
        try:
            admin.describe_cluster(timeout_ms=math.ceil(timeout_ms))
        except KafkaTimeoutError as error:
            raise NoBrokersAvailableError(f"no broker answered within {timeout_ms:g} ms: {error}") from error
