"""``pyconsumer quotas``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import click

from pyconsumer.admin import DEFAULT_ENTITY, KafkaAdminClient, QuotaEntity
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
from pyconsumer.errors import InvalidRequestError
from pyconsumer.quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
)

__all__ = ["command", "quota_from"]

_KEYS: Final = (
    f"Users and client ids have {PRODUCER_RATE}, {CONSUMER_RATE}, {REQUEST_PERCENTAGE} and {MUTATION_RATE}."
    f" Addresses have {CONNECTION_RATE}"
)


@click.group(help="List, set and remove quotas of users, client ids and addresses.")
def command() -> None:
    pass


def _names(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the clients."""
    for option, text in (
        ("ip", "An address. It cannot be combined with the others."),
        ("client-id", "A client id."),
        ("user", "A user."),
    ):
        function = click.option(
            f"--default-{option}", is_flag=True, help=f"All without a quota of their own: {option}."
        )(click.option(f"--{option}", metavar="NAME", help=text)(function))
    return function


def _entity(
    user: str | None,
    client_id: str | None,
    ip: str | None,
    default_user: bool,
    default_client_id: bool,
    default_ip: bool,
) -> QuotaEntity | None:
    """Return the entity that options name. None: they name none."""
    given = {"user": (user, default_user), "client-id": (client_id, default_client_id), "ip": (ip, default_ip)}
    names = []
    for kind, (name, is_default) in given.items():
        if name is not None and (is_default or not name):
            raise click.UsageError(
                f"--{kind}: the name is empty" if not name else f"--{kind} and --default-{kind} exclude each other"
            )
        names.append(DEFAULT_ENTITY if is_default else name)
    return QuotaEntity(*names) if any(name is not None for name in names) else None


def _wanted(**names: str | bool | None) -> QuotaEntity:
    entity = _entity(**names)  # type: ignore[arg-type]
    if entity is None:
        raise click.UsageError("name the clients: --user, --client-id, --ip, or --default-user and so on")
    return entity


def quota_from(text: str) -> tuple[QuotaEntity, dict[str, float | None]]:
    """Return the quota in an argument such as ``user=alice client-id=<default> producer_byte_rate=1000``."""
    names: dict[str, str] = {}
    keys: list[str] = []
    for part in text.split():
        kind, found, name = part.partition("=")
        if kind not in (USER, CLIENT_ID, IP):
            keys.append(part)
        elif not found or not name or kind in names:
            raise click.UsageError(f"quota {text!r}: {part!r} is no name of a client, or the second one")
        else:
            names[kind] = DEFAULT_ENTITY if name == "<default>" else name
    if not names or not keys:
        raise click.UsageError(f"quota {text!r}: write it like 'user=alice producer_byte_rate=1000000'")
    return QuotaEntity(names.get(USER), names.get(CLIENT_ID), names.get(IP)), _values(keys)


def _values(keys: Iterable[str]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for pair in keys:
        key, _, text = pair.partition("=")
        try:
            values[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{pair!r} does not have the form KEY=NUMBER") from None
    return values


def _row(entity: QuotaEntity) -> dict[str, str | None]:
    return {kind: "<default>" if name is None else name for kind, name in entity.parts}


@command.command("list")
@_names
@connected
@json_option
@needs("DESCRIBE_CONFIGS")
def list_quotas(
    servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool, **names: str | None
) -> None:
    """List quotas, by default all."""
    entity = _entity(**names)  # type: ignore[arg-type]
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        found = admin.describe_client_quotas(entity, timeout_ms=timeout_ms)
    rows = [
        {"user": "", "client-id": "", "ip": ""} | _row(one) | {"key": key, "value": value}
        for one, values in sorted(found.items(), key=lambda item: str(item[0]))
        for key, value in values.items()
    ]
    show_list(
        rows, ("user", "client-id", "ip", "key", "value"), json_output=json_output, none="there are no such quotas"
    )


def _changes(metavar: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the arguments of a command that changes quotas."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for one in (
            dry_run_option,
            json_option,
            connected,
            _names,
            click.argument("keys", metavar=metavar, nargs=-1, required=True),
        ):
            function = one(function)
        return function

    return decorate


@command.command("set")
@_changes("KEY=VALUE...")
@needs("ALTER_CONFIGS")
def set_quotas(
    keys: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    dry_run: bool,
    **names: str | None,
) -> None:
    """Set quotas such as producer_byte_rate=1000000, in bytes a second for each broker.

    The keys are producer_byte_rate, consumer_byte_rate, request_percentage and controller_mutation_rate. An address has
    connection_creation_rate.
    """
    check_untyped(names["user"])
    _change(_wanted(**names), _values(keys), client_options(servers, settings), timeout_ms, dry_run, json_output)


@command.command("remove")
@_changes("KEY...")
@needs("ALTER_CONFIGS")
def remove(
    keys: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    dry_run: bool,
    **names: str | None,
) -> None:
    """Remove quotas. Those of a default then hold."""
    _change(_wanted(**names), dict.fromkeys(keys), client_options(servers, settings), timeout_ms, dry_run, json_output)


def _change(
    entity: QuotaEntity,
    values: dict[str, float | None],
    options: dict[str, str],
    timeout_ms: int,
    dry_run: bool,
    json_output: bool,
) -> None:
    with KafkaAdminClient(options) as admin:
        before = admin.describe_client_quotas(entity, strict=True, timeout_ms=timeout_ms).get(entity, {})
        try:
            admin.alter_client_quotas({entity: values}, validate_only=dry_run, timeout_ms=timeout_ms)
        except InvalidRequestError as error:
            if "configuration key" not in str(error):
                raise
            raise click.ClickException(f"{error}. {_KEYS}") from None
    would = "would " if dry_run else ""
    for key, value in values.items():
        if before.get(key) == value:
            outcome = "present" if value is not None else "absent"
        elif dry_run:
            outcome = would + ("remove" if value is None else "set")
        else:
            outcome = "removed" if value is None else "set"
        if json_output:
            click.echo(as_json({"outcome": outcome, **_row(entity), "key": key, "value": value}))
        else:
            click.echo(f"{outcome}: {entity}: {key}{'' if value is None else f' {value:g}'}")
