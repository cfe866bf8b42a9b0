"""``pyconsumer acls``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from pyconsumer.acls import problem_of
from pyconsumer.admin import AclBinding, AclFilter, KafkaAdminClient, PatternType, ResourceType, parse_acl
from pyconsumer.cli.options import as_json, client_options, connected, dry_run_option, json_option, needs, show_list
from pyconsumer.errors import ConfigurationError

__all__ = ["command", "new_rules_from"]

_TYPES = [one.name.lower() for one in ResourceType if one.name not in ("UNKNOWN", "ANY")]
_COLUMNS = ("principal", "permission", "operation", "resource_type", "name", "pattern_type", "host")


@click.group(help="List, add and remove rules for what users may do (access control lists).")
def command() -> None:
    pass


def _row(acl: AclBinding) -> dict[str, Any]:
    return {
        "rule": str(acl),
        "principal": acl.principal,
        "permission": acl.permission.name,
        "operation": acl.operation.name,
        "resource_type": acl.resource_type.name.lower(),
        "name": acl.name,
        "pattern_type": acl.pattern_type.name.lower(),
        "host": acl.host,
    }


def new_rules_from(lines: Iterable[str]) -> list[AclBinding]:
    """Return the rules of command-line arguments, which may be files (``@FILE``).

    Raises:
        ConfigurationError: a line is no rule, or one that can never apply. Kafka's tool refuses operations that a type
            of resource does not have, too.
        click.BadParameter: a file cannot be read.
    """
    rules = _rules_from(lines)
    for acl in rules:
        problem = problem_of(acl)
        if problem is not None:
            raise ConfigurationError(f"{str(acl)!r}: {problem}")
    return rules


def _rules_from(lines: Iterable[str]) -> list[AclBinding]:
    """Return the rules of command-line arguments. An argument ``@FILE`` stands for the lines of a file.

    Empty lines, and lines that begin with ``#``, are skipped.

    Raises:
        ConfigurationError: a line is no rule.
        click.BadParameter: a file cannot be read, is not UTF-8, or names another file.
    """
    found: list[AclBinding] = []
    for line in lines:
        if not line.startswith("@"):
            found += parse_acl(line)
            continue
        try:
            with open(line[1:], encoding="utf-8") as file:
                content = file.read().splitlines()
        except OSError as error:
            raise click.BadParameter(f"{line[1:]}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise click.BadParameter(f"{line[1:]}: the file is not UTF-8") from None
        rules = [text for text in map(str.strip, content) if text and text[0] != "#"]
        for text in rules:
            if text[0] == "@":
                raise click.BadParameter(f"{line[1:]}: a file cannot name another one: {text}")
        found += _rules_from(rules)
    return found


@command.command("list")
@connected
@json_option
@click.option("--user", metavar="NAME", help="Only rules for this user; * for those about everybody.")
@click.option("--type", "kind", type=click.Choice(_TYPES), help="Only rules about this type of resource.")
@click.option("--name", metavar="NAME", help="Only rules that apply to this name, also by a prefix or *.")
@needs("DESCRIBE")
def list_rules(
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    user: str | None,
    kind: str | None,
    name: str | None,
) -> None:
    """List rules."""
    principal = user if user is None or ":" in user else f"User:{user}"
    wanted = AclFilter(
        ResourceType.ANY if kind is None else ResourceType[kind.upper()],
        name,
        principal,
        pattern_type=PatternType.ANY if name is None else PatternType.MATCH,
    )
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        found = admin.describe_acls(wanted, timeout_ms=timeout_ms)
    show_list([_row(acl) for acl in found], _COLUMNS, json_output=json_output, none="there are no such rules")


def _changes(function: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments of a command that changes rules."""
    for decorate in (
        dry_run_option,
        json_option,
        connected,
        click.argument("rules", metavar="RULE|@FILE...", nargs=-1, required=True),
    ):
        function = decorate(function)
    return function


@command.command("add")
@_changes
@needs("ALTER")
def add(
    rules: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    dry_run: bool,
) -> None:
    """Add rules such as 'alice: READ,WRITE topic orders'.

    The form is: [deny] USER: OPERATION[,...] TYPE NAME [from HOST]. A name that ends with * is a prefix.
    @FILE stands for the lines of a file.
    """
    wanted = list(dict.fromkeys(new_rules_from(rules)))
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        present = set(admin.describe_acls(timeout_ms=timeout_ms))
        fresh = [acl for acl in wanted if acl not in present]
        errors: Mapping[AclBinding, object] = {}
        if fresh and not dry_run:
            errors = admin.create_acls(fresh, raise_errors=False, timeout_ms=timeout_ms)
    _report(
        {acl: "present" if acl in present else "would add" if dry_run else "added" for acl in wanted},
        errors,
        json_output,
    )


@command.command("remove")
@_changes
@needs("ALTER")
def remove(
    rules: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    dry_run: bool,
) -> None:
    """Remove rules. They are written as for add, and only these rules are removed."""
    wanted = list(dict.fromkeys(_rules_from(rules)))
    errors: dict[AclBinding, object] = {}
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        present = set(admin.describe_acls(timeout_ms=timeout_ms))
        there = [acl for acl in wanted if acl in present]
        if there and not dry_run:
            outcome = admin.delete_acls(there, raise_errors=False, timeout_ms=timeout_ms)
            errors = {acl: outcome[AclFilter.of(acl)].error for acl in there}
    _report(
        {acl: "absent" if acl not in present else "would remove" if dry_run else "removed" for acl in wanted},
        errors,
        json_output,
    )


def _report(outcomes: Mapping[AclBinding, str], errors: Mapping[AclBinding, object], json_output: bool) -> None:
    failed = False
    for acl, outcome in outcomes.items():
        error = errors.get(acl)
        failed = failed or error is not None
        if json_output:
            click.echo(as_json({"outcome": "failed" if error else outcome, "error": error, **_row(acl)}))
        elif error is not None:
            click.echo(f"Error: {acl}: {error}", err=True)
        else:
            click.echo(f"{outcome}: {acl}")
    if failed:
        raise click.exceptions.Exit(1)
