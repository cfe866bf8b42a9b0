"""``pyconsumer replay``."""

from __future__ import annotations

import click

from pyconsumer.cli.options import as_json
from pyconsumer.cli.spark import SparkJob, spark_job

__all__ = ["command"]


@click.command(
    help="Send the records of an archive to a topic, with Spark: keys, values, headers and timestamps.\n\n"
    "If it was killed, run it again: it continues with the batch that was not finished, so no record is lost. "
    "Without --exactly-once some records of that batch may be duplicated. The topic must exist, and its retention time "
    "must be longer than the records are old."
)
@click.argument("folder", metavar="DIR")
@click.option("--to", "topic", metavar="TOPIC", required=True, help="The topic to send to.")
@spark_job
@click.option("--keep-partitions", is_flag=True, help="Send each record to the partition that it came from.")
@click.option(
    "--exactly-once",
    is_flag=True,
    help="Send in transactions: consumers with read_committed see each record once, even if a run was killed.",
)
@click.option("--restart", is_flag=True, help="Send all batches, also those that earlier runs have sent.")
def command(folder: str, topic: str, job: SparkJob, keep_partitions: bool, exactly_once: bool, restart: bool) -> None:
    options = dict(job.options)
    if exactly_once:
        options.setdefault("deliveryGuarantee", "exactly-once")
    with job.running() as (spark, bar):
        from pyconsumer.spark.archive import Replayed, replay

        task = bar.add_task(f"{folder} to {topic}", total=None, text="")

        def show(progress: Replayed) -> None:
            if job.json_output:
                click.echo(as_json(vars(progress)))
            text = f"{progress.records:,} records, {progress.done:,} of {progress.batches:,} batches"
            bar.update(task, completed=progress.done, total=progress.batches, text=text)

        done = replay(
            spark,
            folder,
            job.servers,
            topic,
            options=options,
            keep_partitions=keep_partitions,
            restart=restart,
            on_progress=show,
        )
    if not job.json_output:
        click.echo(f"{done.records:,} records sent to {topic}; all {done.batches:,} batches are done")
