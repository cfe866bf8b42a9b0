"""``pyconsumer broker``."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pyconsumer.cli.options import files_and_pairs

if TYPE_CHECKING:
    from pyconsumer.quotas import QuotaEntity

__all__ = ["command"]


def _only_this_machine(host: str) -> bool:
    """Return whether an address is a loopback address, which other machines cannot reach."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _open_listeners(host: str, config: Mapping[str, str], default: str) -> dict[str, str]:
    """Return the protocol of each address that other machines can reach. ``default`` is that of ``host``."""
    from pyconsumer.broker.config import BrokerConfig
    from pyconsumer.broker.listener_addresses import LISTENERS, addresses_of

    settings = BrokerConfig(config)
    own = addresses_of(LISTENERS, settings.listeners(LISTENERS))
    pairs = [(address.host or "0.0.0.0", settings.protocol(name)) for name, address in own.items()]
    # Of several listeners at an address the one that asks least of its clients counts.
    pairs.sort(key=lambda pair: (not pair[1].startswith("SASL"), pair[1] == "PLAINTEXT"))
    found = dict(pairs) or {host: default}
    return {name: protocol for name, protocol in found.items() if not _only_this_machine(name)}


def _warn(protocols: Mapping[str, str]) -> None:
    """Warn if other machines can reach the broker.

    Args:
        protocols: by address.
    """
    if not protocols:
        return
    has_login = all(protocol.startswith("SASL") for protocol in protocols.values())
    has_tls = all(protocol.endswith("SSL") for protocol in protocols.values())
    danger = (
        f"without authentication{'' if has_tls else ' or encryption'}: anybody who can reach this machine can read and"
        " change all data."
        if not has_login
        else "which is made for development and tests."
        if has_tls
        else "without encryption: anybody on the network can read what clients send and receive."
    )
    click.echo(
        f"Warning: the broker listens on {', '.join(protocols)} {danger} Use --host 127.0.0.1 unless you trust the"
        " network.",
        err=True,
    )


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise click.UsageError(f"--oauth {text}: write it like jwks.endpoint.url=https://login.example.org/keys")
        found[name] = value
    return found


@click.command(
    help="Run an embedded Kafka cluster until SIGTERM or Ctrl-C. Prints `listening on HOST:PORT` when it is ready."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="Port to listen on; 0: a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all addresses.")
@click.option(
    "--advertised-host",
    metavar="NAME",
    help="The host name or address by which all clients reach this machine.  "
    "[default: --host, or localhost if that is 0.0.0.0]",
)
@click.option("--data-dir", metavar="FOLDER", help="Folder for the data; by default a temporary one.")
@click.option("--brokers", type=click.IntRange(1), default=1, show_default=True, help="Number of brokers.")
@click.option(
    "--schema-registry",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Also run a Schema Registry on this port; 0: a free one.",
)
@click.option(
    "--config",
    "settings",
    metavar="FILE|KEY=VALUE",
    multiple=True,
    callback=files_and_pairs,
    help="A properties file with broker settings, or one setting by Kafka's name, such as num.partitions=4, which "
    "overrides that of a file; may be repeated.",
)
@click.option("--tls-cert", metavar="FILE", help="A PEM file with a certificate: clients must use TLS.")
@click.option("--tls-key", metavar="FILE", help="The PEM file with its key, if it is another one.")
@click.option(
    "--tls-client-ca",
    metavar="FILE",
    help="A PEM file with an authority: clients must have a certificate of it, unless ssl.client.auth says otherwise.",
)
@click.option(
    "--listener",
    "listeners",
    metavar="NAME://HOST:PORT",
    multiple=True,
    help="A listener, instead of --host and --port, such as SASL_SSL://0.0.0.0:9093; may be repeated. Its name is a "
    "security protocol, or is in listener.security.protocol.map.",
)
@click.option(
    "--advertised-listener",
    "advertised",
    metavar="NAME://HOST:PORT",
    multiple=True,
    help="Where clients reach a listener, if it is another address; may be repeated.",
)
@click.option(
    "--users",
    "users_file",
    metavar="FILE",
    help="A properties file with users (NAME=PASSWORD): clients must log in by SASL PLAIN or SCRAM.",
)
@click.option(
    "--acl",
    "rules",
    metavar="RULE|@FILE",
    multiple=True,
    help="A rule for what users may do, such as 'alice: READ topic orders', or a file of them; may be repeated. "
    "Everything else is denied.",
)
@click.option(
    "--oauth",
    "oauth",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting for tokens by Kafka's name without sasl.oauthbearer., such as jwks.endpoint.url=https://...: "
    "clients must log in by SASL OAUTHBEARER; may be repeated.",
)
@click.option(
    "--quota",
    "quotas",
    metavar="QUOTA",
    multiple=True,
    help="A quota such as 'user=alice producer_byte_rate=1000000', also with client-id= or ip=, <default> for all; may "
    "be repeated.",
)
@click.option("--config-file", metavar="FILE", help="The same as --config FILE.")
def command(
    port: int,
    host: str,
    advertised_host: str | None,
    data_dir: str | None,
    brokers: int,
    schema_registry: int | None,
    settings: tuple[list[str], dict[str, str]],
    config_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
    listeners: tuple[str, ...],
    advertised: tuple[str, ...],
    users_file: str | None,
    rules: tuple[str, ...],
    oauth: tuple[str, ...],
    quotas: tuple[str, ...],
) -> int:
    from pyconsumer.broker import run_broker

    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key needs --tls-cert: the broker has no TLS without a certificate")
    files, config = settings
    for path in reversed([*files, *([] if config_file is None else [config_file])]):
        from pyconsumer.settings.properties import read_properties

        config = {name: value for name, (value, _) in read_properties(path).items()} | config
    for name, given in (("listeners", listeners), ("advertised.listeners", advertised)):
        if given:
            config[name] = ",".join(given)
    tokens = _pairs(oauth)
    login = "SASL_" if users_file is not None or tokens else ""
    _warn(_open_listeners(host, config, login + ("PLAINTEXT" if tls_cert is None else "SSL")))
    users = None
    if users_file is not None:
        from pyconsumer.settings.properties import read_properties

        users = {name: password for name, (password, _) in read_properties(users_file).items()}
        if not users:
            raise click.UsageError(f"--users {users_file}: the file has no users")
        if schema_registry is not None:
            click.echo(
                "Warning: --users does not hold for the Schema Registry: all who can reach its port can read and "
                "change schemas.",
                err=True,
            )
    acls = None
    if rules:
        from pyconsumer.cli.acls import new_rules_from

        acls = new_rules_from(rules)

    bounds: dict[QuotaEntity, dict[str, float | None]] = {}
    if quotas:
        from pyconsumer.cli.quotas import quota_from

        for entity, values in map(quota_from, quotas):
            bounds.setdefault(entity, {}).update(values)

    return run_broker(
        host=host,
        port=port,
        data_dir=data_dir,
        brokers=brokers,
        config=config,
        advertised_host=advertised_host,
        schema_registry=schema_registry,
        users=users,
        acls=acls,
        quotas=bounds,
        oauth=tokens,
        cert_file=tls_cert,
        key_file=tls_key,
        client_ca_file=tls_client_ca,
    )
