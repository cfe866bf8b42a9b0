"""``pyconsumer archive``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from pyconsumer.cli.options import as_json
from pyconsumer.cli.registry import DEFAULT_REGISTRY
from pyconsumer.cli.spark import SparkJob, spark_job

if TYPE_CHECKING:
    from pyconsumer.spark.archive import Archived

__all__ = ["command"]

#: The formats that typed columns of Spark may have.
_FORMATS: Final = click.Choice(["avro", "json", "protobuf"])


def _formats(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of typed archives."""
    for side in ("key", "value"):
        function = click.option(
            f"--{side}-format",
            type=_FORMATS,
            help=f"Decode the {side}s to typed columns, by the schemas of the Schema Registry.",
        )(function)
    return click.option(
        "--schema-registry",
        "registry",
        metavar="URL[,...]",
        envvar="PYCONSUMER_SCHEMA_REGISTRY",
        show_envvar=True,
        help="With a format: addresses of the Schema Registry. Its other settings are --option"
        f" schema.registry.NAME=VALUE.  [default: {DEFAULT_REGISTRY}]",
    )(function)


@click.command(
    help="Write a topic's records to Parquet files, with Spark.\n\n"
    "Run it again, also after it was killed, to add new records. Each record is in the files exactly once."
)
@click.argument("topic")
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    required=True,
    help="The archive's folder, or a URL that Spark supports, such as s3a://...",
)
@spark_job
@click.option(
    "--batch-records",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="The most records of a batch; each batch is a folder of the archive.",
)
@click.option("--follow", is_flag=True, help="Keep adding records as they arrive, until interrupted.")
@_formats
def command(
    topic: str,
    folder: str,
    job: SparkJob,
    batch_records: int,
    follow: bool,
    registry: str | None,
    **formats: str | None,
) -> None:
    options = _typed_options(formats, registry, job.options) | job.options
    with job.running() as (spark, bar):
        from pyconsumer.spark.archive import archive

        task = bar.add_task(f"{topic} to {folder}", total=None, text="")

        def show(progress: Archived) -> None:
            if job.json_output:
                click.echo(_json(progress))
            text = f"{progress.records:,} records, {progress.behind:,} left"
            bar.update(task, completed=progress.records, total=progress.records + progress.behind, text=text)

        done = archive(
            spark,
            job.servers,
            topic,
            folder,
            batch_records=batch_records,
            options=options,
            follow=follow,
            on_progress=show,
        )
    if job.json_output:
        click.echo(_json(done))
    else:
        click.echo(f"{done.records:,} records added. {folder} has {done.batches:,} batches")


def _typed_options(formats: dict[str, str | None], registry: str | None, given: dict[str, str]) -> dict[str, str]:
    """Return the options of the source for the formats. A schema that ``given`` has needs no registry."""
    found = {name.replace("_", "."): kind for name, kind in formats.items() if kind is not None}
    names = {name.lower() for name in given}
    bare = bool(found) and all(f"{name.removesuffix('format')}schema" in names for name in found)
    if found and (registry is not None or not (bare or "schema.registry.url" in names)):
        found["schema.registry.url"] = registry or DEFAULT_REGISTRY
    return found


def _json(progress: Archived) -> str:
    return as_json({"batches": progress.batches, "records": progress.records, "left": progress.behind})
