"""``kafka.*`` options: settings of Java's consumer or producer, turned into ours.

The options travel to the tasks as they are; each process makes its own configuration of them.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyconsumer.config import (
    CLIENT_SETTINGS,
    Choice,
    ClientConfig,
    Duration,
    Flag,
    Integer,
    Setting,
    Settings,
    Text,
    nearest,
)
from pyconsumer.errors import ConfigurationError
from pyconsumer.network.jaas import parse_jaas
from pyconsumer.spark.secrets import resolve_references

__all__ = ["ReaderConfig", "Side", "admin_settings", "build_config", "dotted_names", "translate"]

_log = logging.getLogger("pyconsumer.spark")


class ReaderConfig(ClientConfig):
    """The settings of the source's connections."""

    client_rack: str
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    isolation_level: str

    @property
    def read_committed(self) -> bool:
        """Return whether records of open and aborted transactions are hidden."""
        return self.isolation_level == "read_committed"


_SETTINGS: Final[Settings[ReaderConfig]] = Settings(
    "kafka",
    (
        *CLIENT_SETTINGS,
        Setting(
            "client_id", "pyconsumer-spark", Text(blank=True), "Name of the tasks in the broker's logs and quotas."
        ),
        Setting("client_rack", "", Text(blank=True), "Our rack, to fetch from a replica in the same one (KIP-392)."),
        Setting("fetch_max_bytes", 52_428_800, Integer(1), "Most bytes in one answer."),
        Setting("fetch_max_wait_ms", 500, Duration(0, 0x7FFFFFFF), "Longest time that a broker holds a fetch."),
        # Eight times Java's: a task reads one partition, so its whole budget may go there; answers cost something each.
        Setting("max_partition_fetch_bytes", 8_388_608, Integer(1), "Most bytes of one partition in one answer."),
        Setting("check_crcs", True, Flag(), "Check each batch's checksum."),
        Setting(
            "isolation_level",
            "read_uncommitted",
            Choice("read_uncommitted", "read_committed"),
            "`read_committed` hides records of open and aborted transactions.",
        ),
    ),
    ReaderConfig,
)

_REJECTED: Final = {
    "auto.offset.reset": "choose where to begin by the option startingOffsets; Spark keeps track of offsets itself",
    "key.deserializer": "keys come as binary; decode them with the functions of DataFrames",
    "value.deserializer": "values come as binary; decode them with the functions of DataFrames",
    "enable.auto.commit": "this source commits no offsets",
    "interceptor.classes": "an interceptor could change records, so none is allowed",
}

#: Settings of Java's consumer that make no difference here. They are accepted so that a job can be moved as it is.
_WITHOUT_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "security.providers",
        "session.timeout.ms",
        "share.acknowledgement.mode",
    }
)
_SILENT: Final = frozenset({"group.id"})

_STORES: Final = {"ssl.truststore": "ssl.cafile", "ssl.keystore": "ssl.certfile"}
_PEM_TEXTS: Final = ("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key")
_JAVA_ONLY: Final = frozenset(
    {
        *(f"{store}.{part}" for store in _STORES for part in ("location", "type", "password")),
        *_PEM_TEXTS,
        "ssl.endpoint.identification.algorithm",
        "sasl.jaas.config",
    }
)


class Side(NamedTuple):
    """The names of settings that one side, source or sink, takes, refuses or ignores.

    Attributes:
        ours: those that our client has; of the others ``_JAVA_ONLY`` are translated.
        rejected: with what to do instead.
        without_effect: accepted, with a warning that ends in ``why``.
        silent: accepted.
    """

    ours: frozenset[str]
    rejected: Mapping[str, str]
    without_effect: frozenset[str]
    silent: frozenset[str]
    why: str

    @property
    def known(self) -> frozenset[str]:
        return self.ours | _JAVA_ONLY | self.without_effect | self.silent


def dotted_names(settings: Iterable[Setting]) -> frozenset[str]:
    """Kafka's names of settings."""
    return frozenset(name for setting in settings for name in (setting.dotted, *setting.aliases) if "." in name)


_SOURCE: Final = Side(
    dotted_names(_SETTINGS), _REJECTED, _WITHOUT_EFFECT, _SILENT, "this source reads partitions without a group"
)
_ADMIN: Final = dotted_names(CLIENT_SETTINGS)


def build_config(options: Mapping[str, str], *, warn: bool = False) -> ReaderConfig:
    """Check ``kafka.*`` options and make the configuration.

    Args:
        options: by Kafka's dotted names, without ``kafka.``.
        warn: whether to log which options have no effect.

    Raises:
        ConfigurationError: an unknown, illegal or unsupported setting; values of secret ones are not shown.
    """
    values = translate(options, _SOURCE, warn=warn)
    try:
        return _SETTINGS.build(values)
    except ConfigurationError as error:
        raise ConfigurationError(f"in the kafka.* options: {error}") from None


def admin_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return what an admin client for the same cluster, with the same login, is to be made with."""
    return translate({name: value for name, value in options.items() if name in _ADMIN | _JAVA_ONLY}, _SOURCE)


def translate(options: Mapping[str, str], side: Side, *, warn: bool = False) -> dict[str, Any]:
    """Settings by Kafka's names, those of Java alone turned into ours.

    Raises:
        ConfigurationError: an unknown or unsupported setting, or one of Java's that cannot be turned into ours.
    """
    values: dict[str, Any] = {}
    options = {
        name: resolve_references(f"kafka.{name}", value)
        for name, value in options.items()
        if not f"{name}.".startswith("config.providers.")  # references need no declaration
    }
    for name, value in options.items():
        if name in side.rejected:
            raise ConfigurationError(f"option kafka.{name} is not supported: {side.rejected[name]}")
        if name not in side.known:
            raise ConfigurationError(_unknown(name, side.known))
        if name in side.ours:
            values[name] = value
        elif warn and name in side.without_effect:
            _log.warning("option kafka.%s has no effect: %s", name, side.why)
    if "bootstrap.servers" not in values:
        raise ConfigurationError("option kafka.bootstrap.servers is required: the addresses of some brokers, host:port")
    _take_login(options, values)
    _take_stores(options, values)
    if "ssl.endpoint.identification.algorithm" in options:
        algorithm = options["ssl.endpoint.identification.algorithm"].strip().lower()
        if algorithm not in ("", "https"):
            raise ConfigurationError("option kafka.ssl.endpoint.identification.algorithm: it must be https or empty")
        values["ssl.check.hostname"] = "true" if algorithm else "false"
    try:
        context = _context_of_texts(options, values)
    except ConfigurationError as error:
        raise ConfigurationError(f"in the kafka.* options: {error}") from None
    if context is not None:
        for name in ("ssl.cafile", "ssl.certfile", "ssl.keyfile", "ssl.password", "ssl.key.password"):
            values.pop(name, None)
        values["ssl_context"] = context
    return values


def _take_login(options: Mapping[str, str], values: dict[str, Any]) -> None:
    text = options.get("sasl.jaas.config")
    if text is None:
        return
    try:
        login = parse_jaas(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"option kafka.{error}") from None
    mechanism = values.setdefault("sasl.mechanism", login.mechanisms[0] if len(login.mechanisms) == 1 else "")
    if mechanism.upper() not in login.mechanisms:
        raise ConfigurationError(
            f"option kafka.sasl.mechanism must be {' or '.join(login.mechanisms)} with the login module in"
            f" kafka.sasl.jaas.config, not {mechanism!r}"
        )
    values["sasl.username"] = login.username
    values["sasl.password"] = login.password


def _take_stores(options: Mapping[str, str], values: dict[str, Any]) -> None:
    """Java's trust and key stores, where they are PEM files."""
    for store, ours in _STORES.items():
        location, kind = options.get(f"{store}.location"), options.get(f"{store}.type", "JKS")
        if location is None:
            continue
        if kind.upper() != "PEM":
            raise ConfigurationError(
                f"option kafka.{store}.location: a {kind} store cannot be read; make a PEM file of it and set"
                f" kafka.{store}.type=PEM, or give it as kafka.{ours}"
            )
        if ours in values and values[ours] != location:
            raise ConfigurationError(f"options kafka.{store}.location and kafka.{ours} name two files")
        values[ours] = location


def _context_of_texts(options: Mapping[str, str], values: Mapping[str, Any]) -> ssl.SSLContext | None:
    """A TLS context where certificates are given as text instead of files."""
    if not any(name in options for name in _PEM_TEXTS):
        return None
    protocol = values.get("security.protocol", "PLAINTEXT")
    if not protocol.upper().endswith("SSL"):
        raise ConfigurationError(f"certificates are given, but security.protocol is {protocol}, which does not use TLS")
    authorities = options.get("ssl.truststore.certificates")
    chain, key = options.get("ssl.keystore.certificate.chain"), options.get("ssl.keystore.key")
    if (chain is None) != (key is None):
        raise ConfigurationError("ssl.keystore.certificate.chain and ssl.keystore.key belong together")
    setting = "ssl.truststore.certificates"
    try:
        cafile = values.get("ssl.cafile") if authorities is None else None
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, cadata=authorities)
        context.check_hostname = values.get("ssl.check.hostname", "true").strip().lower() != "false"
        setting = "ssl.keystore.key or ssl.keystore.certificate.chain"
        password = values.get("ssl.key.password", "")
        if key is not None and chain is not None:
            _load_chain(context, f"{key.strip()}\n{chain.strip()}\n", password)
        elif "ssl.certfile" in values:
            context.load_cert_chain(values["ssl.certfile"], values.get("ssl.keyfile"), password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigurationError(f"{setting}: {error}") from None
    return context


def _load_chain(context: ssl.SSLContext, pem: str, password: str) -> None:
    # OpenSSL takes a private key from a file only: one that nobody else can read, for a moment.
    handle, path = tempfile.mkstemp(prefix="pyconsumer-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def _unknown(name: str, known: Iterable[str]) -> str:
    near = nearest(name.replace("_", "."), sorted(known))
    return f"unknown option 'kafka.{name}'" + ("" if near is None else f"; did you mean 'kafka.{near}'?")
