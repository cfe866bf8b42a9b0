"""``pyconsumer archive``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyconsumer.cli.options import as_json
from pyconsumer.cli.spark import SparkJob, spark_job

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
@spark_job
@click.option(
    "--batch-records",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="The most records of a batch; each batch is a folder of the archive.",
)
@click.option("--follow", is_flag=True, help="Keep adding records as they arrive, until interrupted.")
def command(topic: str, folder: str, job: SparkJob, batch_records: int, follow: bool) -> None:
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
            options=job.options,
            follow=follow,
            on_progress=show,
        )
    if job.json_output:
        click.echo(_json(done))
    else:
        click.echo(f"{done.records:,} records added. {folder} has {done.batches:,} batches")


def _json(progress: Archived) -> str:
    return as_json({"batches": progress.batches, "records": progress.records, "left": progress.behind})
