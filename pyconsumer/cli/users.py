"""``pyconsumer users``."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from pyconsumer.admin import (
    KafkaAdminClient,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyconsumer.cli.options import (
    as_json,
    check_untyped,
    client_options,
    connected,
    dry_run_option,
    json_option,
    needs,
    show_list,
)
from pyconsumer.scram import ITERATIONS

__all__ = ["command"]

_MECHANISMS = [one.label for one in ScramMechanism]


@click.group(help="List users that log in by SCRAM, set their passwords, delete them.")
def command() -> None:
    pass


def _of_label(label: str) -> ScramMechanism:
    return ScramMechanism[label.replace("-", "_")]


@command.command("list")
@click.argument("names", metavar="[USER]...", nargs=-1)
@connected
@json_option
@needs("DESCRIBE")
def list_users(
    names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool
) -> None:
    """List users with their mechanisms and iterations, by default all. Passwords and keys cannot be read."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        found = admin.describe_user_scram_credentials(names or None, timeout_ms=timeout_ms)
    rows = [
        {"user": name, "mechanism": mechanism.label, "iterations": iterations}
        for name, user in found.items()
        for mechanism, iterations in user.iterations.items()
    ]
    show_list(rows, ("user", "mechanism", "iterations"), json_output=json_output, none="there are no SCRAM users")


@command.command("set")
@click.argument("name", metavar="USER")
@connected
@json_option
@click.option(
    "--mechanism", type=click.Choice(_MECHANISMS), default=_MECHANISMS[1], show_default=True, help="SCRAM mechanism."
)
@click.option(
    "--iterations", type=click.IntRange(*ITERATIONS), default=ITERATIONS[0], show_default=True, help="Hash iterations."
)
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="A file whose first line is the password; -: input.",
)
@dry_run_option
@needs("ALTER")
def set_password(
    name: str,
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    mechanism: str,
    iterations: int,
    password_file: TextIO | None,
    dry_run: bool,
) -> None:
    """Create a user or change the password. Without a file, the password is asked for.

    The password never leaves this machine: the cluster gets salted hashes of it.
    """
    check_untyped(name)
    if password_file is not None:
        try:
            password = password_file.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            raise click.UsageError("--password-file: the file is not UTF-8") from None
    elif sys.stdin.isatty():
        password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise click.UsageError("the password is asked for on a terminal only: use --password-file")
    if not password:
        raise click.UsageError("the password is empty")
    kind = _of_label(mechanism)
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        known = admin.describe_user_scram_credentials(timeout_ms=timeout_ms)
        exists = name in known and kind in known[name].iterations
        if not dry_run:
            upsertion = UserScramCredentialUpsertion(name, kind, password, iterations)
            admin.alter_user_scram_credentials([upsertion], timeout_ms=timeout_ms)
    outcome = ("would change" if exists else "would create") if dry_run else "changed" if exists else "created"
    _report(outcome, name, mechanism, json_output)


@command.command("delete")
@click.argument("names", metavar="USER...", nargs=-1, required=True)
@connected
@json_option
@click.option("--mechanism", type=click.Choice(_MECHANISMS), help="Only the credential of this mechanism.")
@dry_run_option
@needs("ALTER")
def delete(
    names: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    mechanism: str | None,
    dry_run: bool,
) -> None:
    """Delete users, or their credentials of one mechanism. Rules for them stay."""
    failed = False
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        known = admin.describe_user_scram_credentials(timeout_ms=timeout_ms)
        for name in dict.fromkeys(names):
            kinds = list(known[name].iterations) if name in known else []
            if mechanism is not None:
                kinds = [kind for kind in kinds if kind.label == mechanism]
            if not kinds:
                failed = True
                click.echo(f"Error: there is no {mechanism or 'SCRAM'} user {name!r}", err=True)
            for kind in kinds:
                if not dry_run:
                    deletion = UserScramCredentialDeletion(name, kind)
                    admin.alter_user_scram_credentials([deletion], timeout_ms=timeout_ms)
                _report("would delete" if dry_run else "deleted", name, kind.label, json_output)
    if failed:
        raise click.exceptions.Exit(1)


def _report(outcome: str, name: str, mechanism: str, json_output: bool) -> None:
    if json_output:
        click.echo(as_json({"outcome": outcome, "user": name, "mechanism": mechanism}))
    else:
        click.echo(f"{outcome} {name} ({mechanism})")
