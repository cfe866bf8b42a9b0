"""A topic to Parquet files and back, with Spark; both can be killed at any time and run again.

The archive's form::

    DIR/batch=0000000012/partition=3/part-....parquet   the records of one batch, each partition's by itself
    DIR/_checkpoint/                                    Spark's: which offsets are in which batch
    DIR/_replay/TOPIC@CLUSTER/batch=0000000012          a batch that a replay has sent: an empty file

A batch of the archive is a micro-batch of a streaming query. After a kill Spark runs the last one again with the same
offsets, and it replaces its folder. So in the files each record is there once, for every reader and not only for one
that knows Spark's own list of good files.

A replay sends batch after batch, within each the records of each partition in order, and notes each batch when all of
it is acknowledged. After a kill it begins with the batch that it was at, so some records may come twice, none is lost.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.spark.client_settings import admin_settings
from pyconsumer.spark.query_lag import lag
from pyconsumer.spark.sink_options import SinkOptions

__all__ = ["Archived", "Replayed", "archive", "replay"]

_log = logging.getLogger("pyconsumer.spark")

_BATCH: Final = re.compile(r"batch=(\d+)")
_DIGITS: Final = 10
_POLL_S: Final = 0.2
_COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")


@dataclass(frozen=True)
class Archived:
    """How far an archive has come.

    Attributes:
        batches: number of its batches.
        records: that this run has added.
        behind: offsets that are left to read, as far as known.
    """

    batches: int
    records: int
    behind: int


@dataclass(frozen=True)
class Replayed:
    """How far a replay has come.

    Attributes:
        batches: of the archive.
        done: of them, those sent by now, earlier runs included.
        records: that this run has sent.
    """

    batches: int
    done: int
    records: int


def archive(
    spark: Any,
    servers: str,
    topic: str,
    folder: str,
    *,
    batch_records: int = 1_000_000,
    options: Mapping[str, str] | None = None,
    follow: bool = False,
    on_progress: Callable[[Archived], object] = lambda progress: None,
) -> Archived:
    """Add to an archive what a topic has that it lacks.

    Args:
        spark: a session that knows the format; see :func:`pyconsumer.spark.register`.
        servers: addresses of brokers.
        folder: path of the archive, in any file system that Spark knows.
        batch_records: most offsets of a batch.
        options: further ones of the source, such as ``kafka.security.protocol``; the column ``headers`` is kept unless
            ``includeHeaders`` says otherwise.
        follow: whether to go on with what comes later, until interrupted.
        on_progress: called now and then.

    Raises:
        ConfigurationError: the folder has batches but no checkpoint, so nobody knows which offsets they have.
        KafkaError: the query failed.
    """
    files = _Files(spark, folder)
    checkpoint = f"{folder}/_checkpoint"
    if files.batches() and not files.exists(checkpoint):
        raise ConfigurationError(
            f"{folder} has batches but no _checkpoint: what is in them is not known; use a new folder"
        )
    chosen = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(batch_records),
        **(options or {}),
    }
    reader = spark.readStream.format("pyconsumer")
    for name, value in chosen.items():
        reader = reader.option(name, value)
    records = 0

    def write(frame: Any, number: int) -> None:
        path = f"{folder}/batch={number:0{_DIGITS}d}"
        frame.write.mode("overwrite").partitionBy("partition").parquet(path)

    trigger = {"processingTime": "1 second"} if follow else {"availableNow": True}
    writer = reader.load().writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query = writer.trigger(**trigger).start()
    seen = -1
    behind = 0
    try:
        while True:
            active = query.isActive
            for progress in query.recentProgress:
                if progress.batchId > seen and progress.numInputRows:
                    seen = progress.batchId
                    records += progress.numInputRows
                    behind = sum(lag(progress).values())
                    on_progress(Archived(seen + 1, records, behind))
            if not active:
                break
            time.sleep(_POLL_S)
        error = query.exception()
    finally:
        query.stop()
    if error is not None:
        raise KafkaError(f"archiving {topic} failed: {_cause(error)}")
    return Archived(len(files.batches()), records, behind)


def replay(
    spark: Any,
    folder: str,
    servers: str,
    topic: str,
    *,
    options: Mapping[str, str] | None = None,
    keep_partitions: bool = False,
    restart: bool = False,
    on_progress: Callable[[Replayed], object] = lambda progress: None,
) -> Replayed:
    """Send the records of an archive to a topic: keys, values, headers and times, in the order of each partition.

    Args:
        spark, servers: as for :func:`archive`.
        folder: path of the archive.
        topic: where to send them.
        options: further ones of the sink, such as ``kafka.compression.type``.
        keep_partitions: whether records go to the partition that they came from; else the key's hash decides.
        restart: whether to begin anew although an earlier run has sent some or all batches to this topic.
        on_progress: called after each batch.

    Raises:
        ConfigurationError: there is no archive.
        KafkaError: a batch could not be sent.
    """
    files = _Files(spark, folder)
    batches = files.batches()
    if not batches:
        raise ConfigurationError(f"there is no archive in {folder}: it has no folder such as batch={0:0{_DIGITS}d}")
    chosen = {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "includeTimestamp": "true",
        **(options or {}),
    }
    notes = f"{folder}/_replay/{topic}@{_cluster_id(chosen)}"
    if restart:
        files.remove(notes)
    done = set(files.names(notes)).intersection(batches)
    records = 0
    on_progress(Replayed(len(batches), len(done), 0))
    for name in batches:
        if name not in done:
            records += _send(spark, f"{folder}/{name}", chosen, keep_partitions)
            files.note(f"{notes}/{name}")
            done.add(name)
            on_progress(Replayed(len(batches), len(done), records))
    return Replayed(len(batches), len(done), records)


def _cluster_id(options: Mapping[str, str]) -> str:
    client = SinkOptions.parse(options).client
    with KafkaAdminClient(admin_settings(client)) as admin:
        return admin.describe_cluster().cluster_id or "unnamed"


def _send(spark: Any, path: str, options: Mapping[str, str], keep_partitions: bool) -> int:
    frame = spark.read.parquet(path)
    # Records of one partition of the old topic go through one task, so their order stays.
    ordered = frame.repartition("partition").sortWithinPartitions("partition", "offset")
    kept = [name for name in _COLUMNS if name in frame.columns and (keep_partitions or name != "partition")]
    writer = ordered.select(*kept).write.format("pyconsumer").mode("append")
    for name, value in options.items():
        writer = writer.option(name, value)
    try:
        writer.save()
    except Exception as error:
        raise KafkaError(f"sending {path} failed: {_cause(error)}") from error
    count: int = frame.count()
    return count


def _cause(error: object) -> str:
    """The last line of an error of Spark's that tells something, which is Python's own."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if re.match(r"(pyconsumer|pyspark)\.[\w.]+(Error|Exception): ", line)]
    return (told or [line for line in lines if line] or ["for an unknown reason"])[-1 if told else 0]


class _Files:
    """The files of an archive, by Hadoop's file systems, so that ``s3a://`` and ``hdfs://`` work as well."""

    def __init__(self, spark: Any, folder: str) -> None:
        self._jvm = spark._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._folder = folder

    def _path(self, path: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(self._conf), found

    def exists(self, path: str) -> bool:
        system, found = self._path(path)
        return bool(system.exists(found))

    def names(self, path: str) -> list[str]:
        """What is in a folder; nothing if there is none."""
        system, found = self._path(path)
        if not system.exists(found):
            return []
        return [str(status.getPath().getName()) for status in system.listStatus(found)]

    def batches(self) -> list[str]:
        """Names of the batches that were finished, in order."""
        names = [name for name in self.names(self._folder) if _BATCH.fullmatch(name)]
        whole = [name for name in names if self.exists(f"{self._folder}/{name}/_SUCCESS")]
        return sorted(whole, key=lambda name: int(name.partition("=")[2]))

    def note(self, path: str) -> None:
        """Make an empty file."""
        system, found = self._path(path)
        system.create(found, True).close()

    def remove(self, path: str) -> None:
        system, found = self._path(path)
        system.delete(found, True)
