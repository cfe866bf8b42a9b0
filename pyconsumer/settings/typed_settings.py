"""The settings of every client for type checkers.

Made of the table of settings by ``python -m tests.support.make_typed_settings``: change the table, not this module.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypedDict

from pyconsumer.generic import TokenProvider
from pyconsumer.metrics.source import MetricsReporter

__all__ = ["ClientSettings"]


class ClientSettings(TypedDict, total=False):
    """Keyword arguments of every client."""

    bootstrap_servers: str | Sequence[str | tuple[str, int]]
    """Addresses of brokers to contact first: ``host:port``, separated by commas or as a list. The default port is 9092.
    Any one of them is enough to find the whole cluster.
    """

    client_id: str | None
    """Name of this client in the broker's logs and quotas (generated if empty)."""

    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """``use_all_dns_ips``: try all addresses of a host name in turn. ``resolve_canonical_bootstrap_servers_only``:
    replace each bootstrap host name by the canonical names of its addresses (KIP-235).
    """

    bootstrap_timeout_ms: int | None
    """Raise ``NoBrokersAvailableError`` when no broker has responded for this long since the client began to connect.
    None: do not give up, for a cluster that starts later. Each call then waits until its own timeout, and the log
    repeats from time to time that no broker answers.
    """

    bootstrap_resolve_timeout_ms: int
    """Raise ``BootstrapResolutionError`` when no name in ``bootstrap_servers`` could be looked up for this long since
    the client began to connect. Then you must close the client (KIP-909). 0: keep trying. Names are looked up in the
    background either way.
    """

    request_timeout_ms: int
    """Longest time to wait for a response. After that the request fails and the connection is closed."""

    default_api_timeout_ms: int
    """Longest duration of a blocking call without a ``timeout_ms`` of its own (KIP-266)."""

    retry_backoff_ms: int
    """Pause before the first retry of a failed request. It doubles with each failure, with 20 % jitter (KIP-580)."""

    retry_backoff_max_ms: int
    """Longest pause before a retry of a failed request."""

    reconnect_backoff_ms: int
    """Pause before the first new attempt to connect to a broker. It doubles with each failure, with 20 % jitter."""

    reconnect_backoff_max_ms: int
    """Longest pause before a new attempt to connect."""

    socket_connection_setup_timeout_ms: int
    """Longest time to establish a connection. It doubles with each consecutive failure (KIP-601)."""

    socket_connection_setup_timeout_max_ms: int
    """Upper limit of ``socket_connection_setup_timeout_ms`` as it doubles."""

    connections_max_idle_ms: int
    """Close a connection that has been idle for this time (-1: never)."""

    metadata_max_age_ms: int
    """Refresh topics, partitions and leaders after this time, even if no change is known."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """Action when no known broker can be reached. ``rebootstrap``: start over with ``bootstrap_servers`` (KIP-899).
    ``none``: keep trying the known brokers.
    """

    metadata_recovery_rebootstrap_trigger_ms: int
    """With the strategy ``rebootstrap``: also start over when no metadata has arrived for this time (KIP-1102)."""

    metadata_cluster_check_enable: bool
    """With the strategy ``rebootstrap``: send the expected cluster and node id when connecting, so that a broker of
    Apache Kafka 4.4 or newer can reject a misrouted connection. The client then starts over (KIP-1242).
    """

    send_buffer_bytes: int | None
    """Size of the socket's send buffer (SO_SNDBUF). -1: the system's default."""

    receive_buffer_bytes: int | None
    """Size of the socket's receive buffer (SO_RCVBUF). -1: the system's default, which adapts and is faster."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Security of connections to brokers: with TLS (``SSL``) or without, with SASL or without."""

    ssl_context: ssl.SSLContext | None
    """An ``ssl.SSLContext`` to use instead of the other ``ssl_`` settings."""

    ssl_check_hostname: bool
    """Check that the broker's certificate is for the host name that the client connects to (KIP-294)."""

    ssl_cafile: str | os.PathLike[str] | None
    """PEM file with the certificate authorities to trust (by default the system's)."""

    ssl_certfile: str | os.PathLike[str] | None
    """PEM file with the client's certificate and its chain, for mTLS."""

    ssl_keyfile: str | os.PathLike[str] | None
    """PEM file with the private key of the client's certificate. By default it is read from ``ssl_certfile``."""

    ssl_crlfile: str | os.PathLike[str] | None
    """PEM file with certificate revocation lists. Only the broker's own certificate is checked against them."""

    ssl_password: str | Callable[[], str] | None
    """Password of the private key, or a function that returns it."""

    ssl_ciphers: str | None
    """Ciphers in OpenSSL's notation, for TLS 1.2 and older."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None
    """SASL mechanism to authenticate with."""

    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM."""

    sasl_username: str | None
    """The same as ``sasl_plain_username``."""

    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM."""

    sasl_password: str | None
    """The same as ``sasl_plain_password``."""

    sasl_oauth_token_provider: Callable[[], str] | TokenProvider | None
    """For OAUTHBEARER: an object with ``token() -> str``, or a function, that returns a valid JWT."""

    metrics_sample_window_ms: int
    """The time of one window in which rates, averages and maxima of the metrics are computed."""

    metrics_num_samples: int
    """The number of complete windows that count beside the current one."""

    metric_reporters: Iterable[MetricsReporter]
    """Objects with the methods ``configure``, ``init`` and ``close`` of ``pyconsumer.metrics.MetricsReporter``: they
    get the metrics of this client.
    """
