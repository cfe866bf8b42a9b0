"""``pyconsumer schemas``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

import click

from pyconsumer.cli.options import as_json, json_option, printable, show_list
from pyconsumer.cli.registry import registry_client, with_registry
from pyconsumer.cli.value_formats import schema_text

__all__ = ["command"]

_timeout = click.option(
    "--timeout-ms", type=click.IntRange(1), default=30_000, show_default=True, help="Give up after this time."
)
_subject = click.argument("subject")
_file = click.argument("source", metavar="FILE", type=click.File("r", encoding="utf-8"))
_type = click.option(
    "--type",
    "kind",
    type=click.Choice(["avro", "json", "protobuf"]),
    default="avro",
    show_default=True,
    help="The format of the schema.",
)
_normalize = click.option(
    "--normalize", is_flag=True, help="Let the registry bring the schema into its normal form first."
)


def _reference(_ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Click callback: read ``NAME=SUBJECT:VERSION``."""
    found = []
    for text in texts:
        name, equals, rest = text.partition("=")
        subject, colon, version = rest.rpartition(":")
        if not (equals and colon and name and subject and version.isascii() and version.isdigit()):
            raise click.BadParameter(f"{text!r} is not of the form NAME=SUBJECT:VERSION")
        found.append((name, subject, int(version)))
    return found


_references = click.option(
    "--reference",
    "references",
    metavar="NAME=SUBJECT:VERSION",
    multiple=True,
    callback=_reference,
    help="A schema that this one uses by name. May be repeated.",
)


def _version(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | str | None:
    """Click callback: read a version, a number or ``latest``."""
    if text is None or text == "latest":
        return text
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise click.BadParameter(f"{text!r} is neither a version, such as 3, nor latest")
    return int(text)


@click.group(help="List, show, register, check and delete the schemas of a Schema Registry.")
def command() -> None:
    pass


@command.command("list")
@with_registry
@_timeout
@json_option
@click.option("--prefix", metavar="TEXT", help="Only subjects that begin with this text.")
@click.option("--deleted", is_flag=True, help="Also subjects that are deleted, but not for good.")
def list_subjects(
    registry: Mapping[str, Any], timeout_ms: int, json_output: bool, prefix: str | None, deleted: bool
) -> None:
    """List the subjects, each with its latest version."""
    rows = []
    with registry_client(registry, timeout_ms) as client:
        from pyconsumer.schemas import SchemaNotFoundError

        for subject in client.get_subjects(prefix, deleted=deleted):
            try:
                found = client.get_version(subject, "latest", deleted=deleted)
            except SchemaNotFoundError:  # deleted since
                continue
            rows.append(
                {
                    "subject": subject if json_output else printable(subject),
                    "version": found.version,
                    "id": found.schema_id,
                    "type": found.schema.schema_type or "AVRO",
                }
            )
    show_list(rows, ("subject", "version", "id", "type"), json_output=json_output, none="no subjects")


@command.command("show")
@click.argument("subject", required=False)
@with_registry
@_timeout
@json_option
@click.option(
    "--version", callback=_version, metavar="NUMBER|latest", help="A version of the subject.  [default: latest]"
)
@click.option("--id", "schema_id", type=click.IntRange(0), help="Show the schema with this id, without a subject.")
def show(
    subject: str | None,
    registry: Mapping[str, Any],
    timeout_ms: int,
    json_output: bool,
    version: int | str | None,
    schema_id: int | None,
) -> None:
    """Print the schema of a subject, or that with an id."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("give a SUBJECT, or --id")
    if schema_id is not None and version is not None:
        raise click.UsageError("--version and --id cannot be combined")
    document: dict[str, Any] = {}
    with registry_client(registry, timeout_ms) as client:
        if schema_id is not None:
            schema = client.get_schema(schema_id)
            document["id"] = schema_id
        else:
            assert subject is not None
            found = client.get_version(subject, version or "latest")
            schema = found.schema
            document |= {"subject": found.subject, "version": found.version, "id": found.schema_id, "guid": found.guid}
    document["type"] = schema.schema_type or "AVRO"
    document["schema"] = schema.schema_str
    document["references"] = [
        {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references or ()
    ]
    click.echo(as_json(document) if json_output else _indented(schema.schema_str or ""))


def _indented(text: str) -> str:
    """Return the text of a schema for people. JSON is indented, and other text keeps its lines."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "\n".join(map(printable, text.splitlines()))


def _schema(source: IO[str], kind: str, references: list[tuple[str, str, int]]) -> Any:
    from pyconsumer.schemas import Schema, SchemaReference

    return Schema(schema_text(source), kind.upper(), [SchemaReference(*one) for one in references])


@command.command("register")
@_subject
@_file
@with_registry
@_timeout
@json_option
@_type
@_normalize
@_references
def register(
    subject: str,
    source: IO[str],
    registry: Mapping[str, Any],
    timeout_ms: int,
    json_output: bool,
    kind: str,
    normalize: bool,
    references: list[tuple[str, str, int]],
) -> None:
    """Register the schema in a file as a new version of a subject, and print its id. FILE may be - for stdin."""
    with registry_client(registry, timeout_ms) as client:
        schema = _schema(source, kind, references)
        schema_id = client.register_schema(subject, schema, normalize)
        if not json_output:
            click.echo(str(schema_id))
            return
        found = client.lookup_schema(subject, schema, normalize)
    click.echo(as_json({"subject": subject, "version": found.version, "id": schema_id, "guid": found.guid}))


@command.command("check")
@_subject
@_file
@with_registry
@_timeout
@json_option
@_type
@_normalize
@_references
@click.option(
    "--version",
    callback=_version,
    metavar="NUMBER|latest",
    help="Compare with this version alone.  [default: those that the subject's level demands]",
)
def check(
    subject: str,
    source: IO[str],
    registry: Mapping[str, Any],
    timeout_ms: int,
    json_output: bool,
    kind: str,
    normalize: bool,
    references: list[tuple[str, str, int]],
    version: int | str | None,
) -> None:
    """Check whether the schema in a file may become a version of a subject. Nothing is registered.

    The status is 1 if it may not. The reasons are printed.
    """
    with registry_client(registry, timeout_ms) as client:
        schema = _schema(source, kind, references)
        if version is None:
            fits = client.test_compatibility_all_versions(subject, schema, normalize)
        else:
            fits = client.test_compatibility(subject, schema, version, normalize)
        reasons = [] if fits else client.incompatibilities(subject, schema, version, normalize)
    if json_output:
        click.echo(as_json({"subject": subject, "compatible": fits, "reasons": reasons}))
    elif fits:
        click.echo("compatible")
    else:
        click.echo("\n".join(["not compatible", *[printable(reason) for reason in reasons]]))
    if not fits:
        raise click.exceptions.Exit(1)


@command.command("delete")
@_subject
@with_registry
@_timeout
@json_option
@click.option("--version", callback=_version, metavar="NUMBER|latest", help="Delete this version alone.")
@click.option("--permanent", is_flag=True, help="Delete for good what has been deleted without this option before.")
def delete(
    subject: str,
    registry: Mapping[str, Any],
    timeout_ms: int,
    json_output: bool,
    version: int | str | None,
    permanent: bool,
) -> None:
    """Delete a subject with all its versions, or one version. Without --permanent records stay readable by their id."""
    with registry_client(registry, timeout_ms) as client:
        if version is None:
            versions = client.delete_subject(subject, permanent)
        else:
            versions = [client.delete_version(subject, version, permanent)]
    if json_output:
        click.echo(as_json({"subject": subject, "versions": versions, "permanent": permanent}))
    else:
        click.echo(f"deleted {printable(subject)}, version {', '.join(map(str, versions))}")
