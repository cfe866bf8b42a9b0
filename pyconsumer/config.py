"""Settings: how they are declared and checked, and the ones that every client has.

A component (consumer, producer, admin client) declares its settings once, as a table, and the shape of the result as
a class::

    class ConsumerConfig(ClientConfig):
        group_id: str | None
        max_poll_records: int

        @classmethod
        def finish(cls, values, given):            # optional: rules that concern several settings
            super().finish(values, given)
            if ...:
                raise ConfigurationError("...")

    SETTINGS = Settings("consumer", CLIENT_SETTINGS + (
        Setting("group_id", None, Text(nullable=True), "The consumer group."),
        Setting("max_poll_records", 500, Integer(1), "..."),
    ), ConsumerConfig, hints=CLIENT_HINTS)

    config = SETTINGS.build(options)               # options: what the user gave
    config.max_poll_records                        # checked and typed

A setting has the name that kafka-python uses (``group_id``); Kafka's own dotted name (``group.id``) works as well, in
the same mapping, and then strings are read as in a properties file (``"500"``, ``"true"``, ``"a,b"``). Everything is
checked when the object is built: an unknown name is an error that tells the nearest valid one, and so is a pair of
settings that contradict each other. Durations are whole milliseconds, sizes bytes.

The machinery is in :mod:`pyconsumer.settings`; its names are here too. Nothing here knows what a setting does: network
parts are turned into addresses, TLS contexts and the like by :mod:`pyconsumer.network`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings import (
    REQUIRED,
    Address,
    Anything,
    Choice,
    Config,
    Duration,
    File,
    Flag,
    Function,
    Instance,
    Integer,
    Kind,
    ListOf,
    Number,
    Secret,
    Servers,
    Setting,
    Settings,
    Text,
    parse_address,
)

if TYPE_CHECKING:
    import ssl

__all__ = [
    "CLIENT_HINTS",
    "CLIENT_SETTINGS",
    "REQUIRED",
    "SASL_MECHANISMS",
    "Address",
    "Anything",
    "Choice",
    "ClientConfig",
    "Config",
    "Duration",
    "File",
    "Flag",
    "Function",
    "Instance",
    "Integer",
    "Kind",
    "ListOf",
    "Number",
    "Secret",
    "Servers",
    "Setting",
    "Settings",
    "Text",
    "parse_address",
]

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""SASL mechanisms that a client can use."""


class ClientConfig(Config):
    """What every client is told; see :data:`CLIENT_SETTINGS`."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str
    client_dns_lookup: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_crlfile: str | None
    ssl_password: str | Callable[[], str] | None
    ssl_ciphers: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: Any

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections authenticate by SASL."""
        return self.security_protocol.startswith("SASL")

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        super().finish(values, given)
        for low, high in _PAIRS:
            if values[low] > values[high]:
                if high in given and low in given:
                    raise ConfigurationError(f"{low} ({values[low]}) is greater than {high} ({values[high]})")
                # The one that was given counts: a fixed time instead of a growing one.
                values[high if low in given else low] = values[low if low in given else high]
        _check_security(values, given)


_PAIRS: tuple[tuple[str, str], ...] = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
)


def _check_security(values: Mapping[str, Any], given: frozenset[str]) -> None:
    protocol = values["security_protocol"]
    tls = {name for name in given if name.startswith("ssl_") and values[name] is not None}
    sasl = {name for name in given if name.startswith("sasl_") and values[name] is not None}
    if tls and not protocol.endswith("SSL"):
        raise ConfigurationError(f"{min(tls)} is given, but security_protocol is {protocol}, which does not use TLS")
    if sasl and not protocol.startswith("SASL"):
        raise ConfigurationError(f"{min(sasl)} is given, but security_protocol is {protocol}, which does not use SASL")
    beside = tls - {"ssl_context", "ssl_check_hostname"}
    if "ssl_context" in tls and beside:
        raise ConfigurationError(f"ssl_context and {min(beside)} are both given; set everything in the context")
    if values["ssl_keyfile"] and not values["ssl_certfile"]:
        raise ConfigurationError("ssl_keyfile is given without ssl_certfile")
    if not protocol.startswith("SASL"):
        return
    mechanism = values["sasl_mechanism"]
    if mechanism is None:
        raise ConfigurationError(f"security_protocol {protocol} needs sasl_mechanism ({', '.join(SASL_MECHANISMS)})")
    if mechanism == "OAUTHBEARER":
        if values["sasl_oauth_token_provider"] is None:
            raise ConfigurationError("sasl_mechanism OAUTHBEARER needs sasl_oauth_token_provider")
    elif values["sasl_plain_username"] is None or values["sasl_plain_password"] is None:
        raise ConfigurationError(f"sasl_mechanism {mechanism} needs sasl_plain_username and sasl_plain_password")


CLIENT_SETTINGS: Final = (
    Setting(
        "bootstrap_servers",
        REQUIRED,
        Servers(),
        "Addresses to ask for the cluster, `host:port`, separated by commas or as a list; 9092 where no port is "
        "given. The rest of the cluster is found by any one of them.",
    ),
    Setting(
        "client_id",
        "",
        Text(blank=True),
        "Name of this client in the broker's logs and quotas. A client that is given none makes one.",
    ),
    Setting(
        "client_dns_lookup",
        "use_all_dns_ips",
        Choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "`use_all_dns_ips`: every address of a name is tried in turn. `resolve_canonical_bootstrap_servers_only`: "
        "a bootstrap name stands for each of its addresses, and each is known by its own canonical name (KIP-235).",
    ),
    Setting(
        "request_timeout_ms",
        30_000,
        Duration(),
        "How long a request waits for its answer; then it fails and the connection is closed.",
    ),
    Setting(
        "default_api_timeout_ms",
        60_000,
        Duration(),
        "Bound of a blocking call that is given no `timeout_ms` (KIP-266).",
    ),
    Setting(
        "retry_backoff_ms",
        100,
        Duration(),
        "First pause before a failed request is tried again; doubled with each failure, with 20 % of jitter (KIP-580).",
    ),
    Setting("retry_backoff_max_ms", 1_000, Duration(), "Longest such pause."),
    Setting(
        "reconnect_backoff_ms",
        50,
        Duration(),
        "First pause before a broker that could not be reached is tried again; doubled with each failure, with 20 % "
        "of jitter.",
    ),
    Setting("reconnect_backoff_max_ms", 1_000, Duration(), "Longest such pause."),
    Setting(
        "socket_connection_setup_timeout_ms",
        10_000,
        Duration(),
        "How long a connection may take until it is established; doubled with each failure in a row (KIP-601).",
    ),
    Setting("socket_connection_setup_timeout_max_ms", 30_000, Duration(), "Longest such time."),
    Setting(
        "connections_max_idle_ms",
        540_000,
        Duration(special=(-1,)),
        "A connection that was not used for so long is closed; -1: never.",
    ),
    Setting(
        "metadata_max_age_ms",
        300_000,
        Duration(),
        "Topics, partitions and leaders are asked for again after so long, even if nothing seems to have changed.",
    ),
    Setting(
        "metadata_recovery_strategy",
        "rebootstrap",
        Choice("rebootstrap", "none"),
        "What to do when no known broker can be reached: start over with `bootstrap_servers` (KIP-899), or keep on "
        "trying those.",
    ),
    Setting(
        "metadata_recovery_rebootstrap_trigger_ms",
        300_000,
        Duration(),
        "Start over as well when metadata could not be had for so long (KIP-1102).",
    ),
    Setting(
        "send_buffer_bytes",
        -1,
        Integer(1, special=(-1,)),
        "Size of the socket's send buffer (SO_SNDBUF); -1: the system's choice.",
    ),
    Setting(
        "receive_buffer_bytes",
        -1,
        Integer(1, special=(-1,)),
        "Size of the socket's receive buffer (SO_RCVBUF); -1: the system's choice, which adapts and is faster.",
    ),
    Setting(
        "security_protocol",
        "PLAINTEXT",
        Choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "How to talk to brokers: in the clear or by TLS, with or without SASL.",
    ),
    Setting(
        "ssl_context",
        None,
        Instance("ssl.SSLContext", nullable=True),
        "A ready `ssl.SSLContext`, instead of the other `ssl_` settings.",
    ),
    Setting(
        "ssl_check_hostname",
        True,
        Flag(),
        "Whether the broker's certificate must be for the host name that we connect to (KIP-294).",
    ),
    Setting(
        "ssl_cafile",
        None,
        File(nullable=True),
        "PEM file with the authorities to trust; the system's by default.",
    ),
    Setting("ssl_certfile", None, File(nullable=True), "PEM file with our own certificate and its chain, for mTLS."),
    Setting(
        "ssl_keyfile",
        None,
        File(nullable=True),
        "PEM file with the private key of `ssl_certfile`; by default it is in that file too.",
    ),
    Setting("ssl_crlfile", None, File(nullable=True), "PEM file with revoked certificates, checked for the leaf."),
    Setting(
        "ssl_password",
        None,
        Secret(function=True, nullable=True),
        "Password of the private key, or a function that returns it.",
        ("ssl.key.password",),
        secret=True,
    ),
    Setting("ssl_ciphers", None, Text(nullable=True), "Ciphers in OpenSSL's notation, for TLS 1.2 and older."),
    Setting(
        "sasl_mechanism",
        None,
        Choice(*SASL_MECHANISMS, nullable=True),
        "How to authenticate by SASL.",
    ),
    Setting(
        "sasl_plain_username",
        None,
        Text(nullable=True),
        "User name for PLAIN and SCRAM.",
        ("sasl.username", "sasl_username"),
    ),
    Setting(
        "sasl_plain_password",
        None,
        Secret(nullable=True),
        "Password for PLAIN and SCRAM.",
        ("sasl.password", "sasl_password"),
        secret=True,
    ),
    Setting(
        "sasl_oauth_token_provider",
        None,
        Function("token", nullable=True),
        "For OAUTHBEARER: an object with `token() -> str`, or a function, that returns a valid JWT.",
        secret=True,  # a token given by mistake instead
    ),
)
"""Settings common to all clients. Names are kafka-python's, defaults and meaning those of Java's client 4.x."""

CLIENT_HINTS: Final[Mapping[str, str]] = {
    "api_version": "leave it out, versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "leave it out, versions are negotiated with each broker",
    "ssl_truststore_location": "give a PEM file as ssl_cafile, or an ssl.SSLContext as ssl_context",
    "ssl_keystore_location": "give PEM files as ssl_certfile and ssl_keyfile",
    "sasl_jaas_config": "give sasl_mechanism, sasl_plain_username and sasl_plain_password",
    "socket_options": "use send_buffer_bytes and receive_buffer_bytes; TCP_NODELAY is always on",
    "kafka_client": "the client cannot be exchanged",
    "selector": "selectors2 chooses the selector",
}
"""What to tell users of other clients who try a name of theirs; :class:`Settings` takes it as ``hints``."""
