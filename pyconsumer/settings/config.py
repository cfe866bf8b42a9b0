"""Declaration and checks of settings, and the settings of all clients.

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

    config = SETTINGS.build(options)               # options: those of the user
    config.max_poll_records                        # checked and typed

A setting has the name that kafka-python uses (``group_id``). Kafka's own dotted name (``group.id``) works as well, in
the same mapping, and then strings are read as in a properties file (``"500"``, ``"true"``, ``"a,b"``). Everything is
checked when the object is built: an unknown name is an error that names the nearest valid one, and two settings that
contradict each other are an error too. Durations are whole milliseconds, sizes bytes.

The order of the module: the machinery (:class:`Config`, :class:`Settings`), then the settings that every client has
(:data:`CLIENT_SETTINGS`, :class:`ClientConfig`). A setting and the kinds of its values are in :mod:`.kinds`. The table
of TLS and SASL is in :mod:`.security`. No module here uses a setting: :mod:`pyconsumer.network` turns the
settings of connections into addresses, TLS contexts and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.foreign_names import CLIENT_NAMES, SWITCHED_OFF
from pyconsumer.settings.kinds import (
    REQUIRED,
    Anything,
    Choice,
    Duration,
    File,
    Flag,
    Function,
    Instance,
    Integer,
    Kind,
    ListOf,
    Methods,
    Number,
    Secret,
    Servers,
    Setting,
    Text,
    parse_address,
)
from pyconsumer.settings.security import SASL_MECHANISMS, SECURITY_SETTINGS, finish_security
from pyconsumer.structs import Address

if TYPE_CHECKING:
    import ssl

    from pyconsumer.metrics.source import MetricsReporter
    from pyconsumer.settings.jaas import Login

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
    "Methods",
    "Number",
    "Secret",
    "Servers",
    "Setting",
    "Settings",
    "Text",
    "nearest",
    "parse_address",
]


class Config:
    """The checked settings of one component, as read-only attributes. :meth:`replace` returns a changed copy."""

    _settings: Settings[Any]
    _given: frozenset[str]

    def __init__(self, settings: Settings[Any], values: Mapping[str, Any], given: Iterable[str]) -> None:
        self.__dict__.update(values, _settings=settings, _given=frozenset(given))

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        """Check rules that concern several settings, and fill in defaults that depend on other settings.

        Args:
            values: all settings, each of them legal by itself. The dictionary is changed in place.
            given: names of the settings that the user gave.

        Raises:
            ConfigurationError: two settings contradict each other. The message names them.
        """

    @property
    def given(self) -> frozenset[str]:
        """Names of the settings that the user gave. The others have their defaults."""
        return self._given

    @property
    def settings(self) -> Settings[Any]:
        """The table of the settings."""
        return self._settings

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed. The new values are checked, too."""
        options = {name: getattr(self, name) for name in self._given}
        found: Self = self._settings.build({**options, **changes})
        return found

    def shown(self) -> dict[str, Any]:
        """Return the values of all settings that are not secret, by name. Addresses are without their query."""
        return {
            setting.name: setting.kind.shown(getattr(self, setting.name))
            for setting in self._settings
            if not setting.secret
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the values of all settings by name."""
        return {name: getattr(self, name) for name in self._settings.by_name}

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings cannot be changed, but {name} was to be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"settings cannot be removed, but {name} was to be")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = self.shown()
        shown = (f"{name}={values[name]!r}" if name in values else f"{name}=***" for name in sorted(self._given))
        return f"{type(self).__name__}({', '.join(shown)})"


ConfigT = TypeVar("ConfigT", bound=Config)


class Settings(Generic[ConfigT]):
    """The settings of one component.

    Args:
        component: the component's name in messages, such as ``consumer``.
        table: the settings. If two have the same name, the later one replaces the earlier one, for instance to change
            its default.
        config_class: the class of the objects that :meth:`build` returns.
        hints: for names of settings that only other clients have, the advice in the error message.
        switched_off: for such names, the values that change nothing here, in lower case. ``*`` is any value.
    """

    def __init__(
        self,
        component: str,
        table: Iterable[Setting],
        config_class: type[ConfigT],
        *,
        hints: Mapping[str, str] | None = None,
        switched_off: Mapping[str, tuple[str, ...]] = SWITCHED_OFF,
    ) -> None:
        self.component = component
        self.by_name = {setting.name: setting for setting in table}
        self.config_class = config_class
        self.hints = dict(hints or {})
        self.switched_off = switched_off
        self._by_any_name = {name: setting for setting in self.by_name.values() for name in setting.names}

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.by_name.values())

    def build(self, options: Mapping[str, Any]) -> ConfigT:
        """Check the user's settings and fill in the defaults.

        Args:
            options: the values by name. Both forms are legal: ``request_timeout_ms`` and ``request.timeout.ms``.

        Raises:
            ConfigurationError: a name is unknown, a value is illegal, a required setting is missing, or settings
                contradict each other.
        """
        values: dict[str, Any] = {}
        came_as: dict[str, str] = {}
        for name, value in options.items():
            setting = self._by_any_name.get(name)
            if setting is None:
                if self.ignores(name, value):
                    continue
                raise ConfigurationError(self.unknown(name))
            if setting.blanks and (value is None or isinstance(value, float)) and value in setting.blanks:
                continue
            checked = self.check(name, value, text="." in name)
            if setting.name in values and values[setting.name] != checked:
                raise ConfigurationError(
                    f"{self.component} settings {came_as[setting.name]} and {name} are one setting with two values"
                )
            values[setting.name] = checked
            came_as[setting.name] = name
        given = frozenset(values)
        for setting in self.by_name.values():
            if setting.name not in values:
                if setting.default is REQUIRED:
                    raise ConfigurationError(f"{self.component} setting {setting.name} is required")
                values[setting.name] = setting.default
        self.config_class.finish(values, given)
        return self.config_class(self, values, given)

    def find(self, name: str) -> Setting | None:
        """Return the setting with this name or alias, or None if there is no such setting."""
        return self._by_any_name.get(name)

    def ignores(self, name: object, value: object) -> bool:
        """Return whether a setting of another client describes this one, too: it is accepted without an effect."""
        if not isinstance(name, str):
            return False
        legal = self.switched_off.get(name.lower().replace(".", "_"))
        return legal is not None and ("*" in legal or str("" if value is None else value).strip().lower() in legal)

    def check(self, name: str, value: Any, *, text: bool) -> Any:
        """Return the checked value of a known setting. If ``text`` is True, a string is parsed first.

        Raises:
            ConfigurationError: the value is illegal. The message does not contain a secret.
        """
        setting = self._by_any_name[name]
        try:
            return setting.kind(value, text=text)
        except (TypeError, ValueError) as error:
            reason = str(error)
            if setting.secret and not setting.kind.discreet:  # other kinds show the value
                reason = f"a value of type {type(value).__name__} is not legal there (it is not shown)"
            raise ConfigurationError(f"{self.component} setting {name}: {reason}") from None

    def unknown(self, name: object) -> str:
        """Return the error message for an unknown name. If a known name is similar, the message contains it."""
        text = f"unknown {self.component} setting {name!r}"
        if not isinstance(name, str):
            return text
        hint = self.hints.get(name.lower().replace(".", "_"))
        if hint is not None:
            return f"{text}: {hint}"
        near = nearest(name.lower(), self._by_any_name)
        return text if near is None else f"{text}: did you mean {near!r}?"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``name``, or None. This is for the error about a misspelled name.

    Args:
        cutoff: the lowest similarity that counts, from 0 to 1.
    """
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


# ------------------------------------------------------------ settings of every client


class ClientConfig(Config):
    """The settings of every client. See :data:`CLIENT_SETTINGS`."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str
    client_dns_lookup: str
    bootstrap_timeout_ms: int | None
    bootstrap_resolve_timeout_ms: int
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
    metadata_cluster_check_enable: bool
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_endpoint_identification_algorithm: str | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | Callable[[], str] | None
    ssl_truststore_certificates: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_truststore_location: str | None
    ssl_truststore_type: str | None
    ssl_truststore_password: str | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str | None
    ssl_keystore_password: str | None
    ssl_crlfile: str | None
    ssl_ciphers: str | None
    ssl_enabled_protocols: tuple[str, ...] | None
    ssl_protocol: str | None
    sasl_mechanism: str | None
    sasl_mechanism_factory: Callable[[], Any] | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_scram_tokenauth: bool
    sasl_jaas_config: Login | None
    sasl_oauth_token_provider: Any
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_kerberos_name: Any
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_kerberos_ticket_cache: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_extensions: Mapping[str, str]
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_grant_type: str | None
    sasl_oauthbearer_jwt_retriever_class: str | None
    sasl_oauthbearer_method: str | None
    sasl_oauthbearer_cafile: str | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_pem: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_login_connect_timeout_ms: int
    sasl_login_read_timeout_ms: int
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
    metrics_sample_window_ms: int
    metrics_num_samples: int
    metric_reporters: tuple[MetricsReporter, ...]

    @property
    def uses_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Return whether connections authenticate by SASL."""
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
        finish_security(values, given)


_PAIRS: tuple[tuple[str, str], ...] = (
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms"),
)


CLIENT_SETTINGS: Final = (
    Setting(
        "bootstrap_servers",
        REQUIRED,
        Servers(),
        "Addresses of brokers to contact first: `host:port`, separated by commas or as a list. The default port is "
        "9092. Any one of them is enough to find the whole cluster.",
    ),
    Setting(
        "client_id",
        "",
        Text(blank=True),
        "Name of this client in the broker's logs and quotas (generated if empty).",
        blanks=(None,),
    ),
    Setting(
        "client_dns_lookup",
        "use_all_dns_ips",
        Choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "`use_all_dns_ips`: try all addresses of a host name in turn. `resolve_canonical_bootstrap_servers_only`: "
        "replace each bootstrap host name by the canonical names of its addresses (KIP-235).",
    ),
    Setting(
        "bootstrap_timeout_ms",
        None,
        Duration(1, nullable=True),
        "Raise `NoBrokersAvailableError` when no broker has responded for this long since the client began to connect."
        " None: do not give up, for a cluster that starts later. Each call then waits until its own timeout, and the"
        " log repeats from time to time that no broker answers.",
    ),
    Setting(
        "bootstrap_resolve_timeout_ms",
        0,
        Duration(),
        "Raise `BootstrapResolutionError` when no name in `bootstrap_servers` could be looked up for this long since "
        "the client began to connect. Then you must close the client (KIP-909). 0: keep trying. Names are looked up in "
        "the background either way.",
    ),
    Setting(
        "request_timeout_ms",
        30_000,
        Duration(),
        "Longest time to wait for a response. After that the request fails and the connection is closed.",
    ),
    Setting(
        "default_api_timeout_ms",
        60_000,
        Duration(),
        "Longest duration of a blocking call without a `timeout_ms` of its own (KIP-266).",
    ),
    Setting(
        "retry_backoff_ms",
        100,
        Duration(),
        "Pause before the first retry of a failed request. It doubles with each failure, with 20 % jitter (KIP-580).",
    ),
    Setting("retry_backoff_max_ms", 1_000, Duration(), "Longest pause before a retry of a failed request."),
    Setting(
        "reconnect_backoff_ms",
        50,
        Duration(),
        "Pause before the first new attempt to connect to a broker. It doubles with each failure, with 20 % jitter.",
    ),
    Setting("reconnect_backoff_max_ms", 1_000, Duration(), "Longest pause before a new attempt to connect."),
    Setting(
        "socket_connection_setup_timeout_ms",
        10_000,
        Duration(),
        "Longest time to establish a connection. It doubles with each consecutive failure (KIP-601).",
    ),
    Setting(
        "socket_connection_setup_timeout_max_ms",
        30_000,
        Duration(),
        "Upper limit of `socket_connection_setup_timeout_ms` as it doubles.",
    ),
    Setting(
        "connections_max_idle_ms",
        540_000,
        Duration(special=(-1,)),
        "Close a connection that has been idle for this time (-1: never).",
    ),
    Setting(
        "metadata_max_age_ms",
        300_000,
        Duration(),
        "Refresh topics, partitions and leaders after this time, even if no change is known.",
    ),
    Setting(
        "metadata_recovery_strategy",
        "rebootstrap",
        Choice("rebootstrap", "none"),
        "Action when no known broker can be reached. `rebootstrap`: start over with `bootstrap_servers` (KIP-899). "
        "`none`: keep trying the known brokers.",
    ),
    Setting(
        "metadata_recovery_rebootstrap_trigger_ms",
        300_000,
        Duration(),
        "With the strategy `rebootstrap`: also start over when no metadata has arrived for this time (KIP-1102).",
    ),
    Setting(
        "metadata_cluster_check_enable",
        True,
        Flag(),
        "With the strategy `rebootstrap`: send the expected cluster and node id when connecting, so that a broker of "
        "Apache Kafka 4.4 or newer can reject a misrouted connection. The client then starts over (KIP-1242).",
    ),
    Setting(
        "send_buffer_bytes",
        -1,
        Integer(1, special=(-1,)),
        "Size of the socket's send buffer (SO_SNDBUF). -1: the system's default.",
        blanks=(None,),
    ),
    Setting(
        "receive_buffer_bytes",
        -1,
        Integer(1, special=(-1,)),
        "Size of the socket's receive buffer (SO_RCVBUF). -1: the system's default, which adapts and is faster.",
        blanks=(None,),
    ),
    *SECURITY_SETTINGS,
    Setting(
        "metrics_sample_window_ms",
        30_000,
        Duration(1),
        "The time of one window in which rates, averages and maxima of the metrics are computed.",
    ),
    Setting(
        "metrics_num_samples",
        2,
        Integer(1),
        "The number of complete windows that count beside the current one.",
    ),
    Setting(
        "metric_reporters",
        (),
        ListOf(Methods("configure", "init", "close", type_text="MetricsReporter")),
        "Objects with the methods `configure`, `init` and `close` of `pyconsumer.metrics.MetricsReporter`: they get the"
        " metrics of this client.",
    ),
)

"""Settings common to all clients. Names are kafka-python's, defaults and meaning those of Java's client 4.x."""

CLIENT_HINTS: Final[Mapping[str, str]] = {
    **CLIENT_NAMES,
    "api_version": "leave it out, versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "leave it out, versions are negotiated with each broker",
    "socket_options": "use send_buffer_bytes and receive_buffer_bytes; TCP_NODELAY is always on",
    "kafka_client": "the client cannot be exchanged",
    "selector": "the client chooses the selector",
}

"""Hints for users of other clients who try a name of theirs. :class:`Settings` takes it as ``hints``."""
