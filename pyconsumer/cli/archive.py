"""``pyconsumer archive``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import as_json, connected, json_option
from pyconsumer.cli.spark import kafka_options, on_spark, progress_bar, spark_session

if TYPE_CHECKING:
    from pyconsumer.spark.archive import Archived

__all__ = ["command"]


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
@connected
@on_spark
@click.option(
    "--batch-records",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="The most records of a batch; each batch is a folder of the archive.",
)
@click.option("--follow", is_flag=True, help="Keep adding records as they arrive, until interrupted.")
@json_option
def command(
    topic: str,
    folder: str,
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    master: str,
    conf: dict[str, str],
    spark_options: dict[str, str],
    batch_records: int,
    follow: bool,
    json_output: bool,
) -> None:
    options = kafka_options(settings, spark_options, timeout_ms)
    with spark_session(master, conf) as spark, library_warnings(), progress_bar(json_output=json_output) as bar:
        from pyconsumer.spark.archive import archive

        task = bar.add_task(f"{topic} to {folder}", total=None, text="")

        def show(progress: Archived) -> None:
            if json_output:
                click.echo(_json(progress))
            text = f"{progress.records:,} records, {progress.behind:,} left"
            bar.update(task, completed=progress.records, total=progress.records + progress.behind, text=text)

        done = archive(
            spark,
            servers,
            topic,
            folder,
            batch_records=batch_records,
            options=options,
            follow=follow,
            on_progress=show,
        )
    if json_output:
        click.echo(_json(done))
    else:
        click.echo(f"{done.records:,} records added. {folder} has {done.batches:,} batches")


def _json(progress: Archived) -> str:
    return as_json({"batches": progress.batches, "records": progress.records, "left": progress.behind})
