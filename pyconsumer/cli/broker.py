"""``pyconsumer broker``."""

from __future__ import annotations

import ipaddress

import click

from pyconsumer.cli.options import files_and_pairs

__all__ = ["command"]


def _only_this_machine(host: str) -> bool:
    """Return whether an address is a loopback address, which other machines cannot reach."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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
    users_file: str | None,
    rules: tuple[str, ...],
) -> int:
    from pyconsumer.broker import run_broker

    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key needs --tls-cert: the broker has no TLS without a certificate")
    if not _only_this_machine(host):
        open_to_all = "anybody who can reach this machine can read and change all data."
        danger = (
            f"without authentication{' or encryption' if tls_cert is None else ''}: {open_to_all}"
            if users_file is None
            else "without encryption: anybody on the network can read what clients send and receive."
            if tls_cert is None
            else "which is made for development and tests."
        )
        click.echo(
            f"Warning: the broker listens on {host} {danger} Use --host 127.0.0.1 unless you trust the network.",
            err=True,
        )
    files, config = settings
    for path in reversed([*files, *([] if config_file is None else [config_file])]):
        from pyconsumer.settings.properties import read_properties

        config = {name: value for name, (value, _) in read_properties(path).items()} | config

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
        from pyconsumer.cli.acls import rules_from

        acls = rules_from(rules)

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
        cert_file=tls_cert,
        key_file=tls_key,
    )
