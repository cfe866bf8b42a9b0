"""A topic to Parquet files and back, with Spark; both can be killed at any time and run again.

The archive's form::

    DIR/batch=0000000012/partition=3/part-....parquet   the records of one batch, each partition's by itself
    DIR/_checkpoint/                                    Spark's: which offsets are in which batch
    DIR/_topic.json                                     of which topic and cluster it is
    DIR/_replay/TOPIC@CLUSTER/batch=0000000012          a batch that a replay has sent: an empty file

A batch of the archive is a micro-batch of a streaming query. After a kill Spark runs the last one again with the same
offsets, and it replaces its folder. So in the files each record is there once, for every reader and not only for one
that knows Spark's own list of good files.

Two runs at a time would overwrite each other's files, so on a local file system the second one is refused; the lock is
released with the process that holds it, however that ends.

A replay sends batch after batch, within each the records of each partition in order, and notes each batch when all of
it is acknowledged. After a kill it begins with the batch that it was at, so some records may come twice, none is lost.

:class:`ArchiveFiles` reaches the files by Hadoop's file systems, so that ``s3a://`` and ``hdfs://`` work as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.errors import ConfigurationError, IllegalStateError, KafkaError, UnknownTopicOrPartitionError
from pyconsumer.spark.client_config import admin_settings
from pyconsumer.spark.errors import reason_from_spark
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.progress import lag
from pyconsumer.spark.sink import SinkOptions

__all__ = [
    "ArchiveFiles",
    "Archived",
    "Replayed",
    "archive",
    "batch_name",
    "replay",
]

_BATCH: Final = re.compile(r"batch=(\d+)")

_DIGITS: Final = 10


def batch_name(number: int) -> str:
    """Name of a batch's folder."""
    return f"batch={number:0{_DIGITS}d}"


class ArchiveFiles:
    """The contents of an archive.

    Args:
        spark: a session with a JVM.
        folder: path of the archive.

    Raises:
        ConfigurationError: the session is one of Spark Connect, whose JVM is out of reach.
    """

    def __init__(self, spark: Any, folder: str) -> None:
        if not hasattr(spark, "_jvm"):
            raise ConfigurationError("archives need a Spark session of this machine, not one of Spark Connect (sc://)")
        self._jvm = spark._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._folder = folder

    def _path(self, name: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}" if name else self._folder)
        return found.getFileSystem(self._conf), found

    def exists(self, name: str) -> bool:
        system, found = self._path(name)
        return bool(system.exists(found))

    def names(self, name: str = "") -> list[str]:
        """Return what is in a folder; nothing if there is none."""
        system, found = self._path(name)
        if not system.exists(found):
            return []
        return [str(status.getPath().getName()) for status in system.listStatus(found)]

    def batches(self) -> list[str]:
        """Names of the batches that were finished, in order."""
        names = [name for name in self.names() if _BATCH.fullmatch(name)]
        whole = [name for name in names if self.exists(f"{name}/_SUCCESS")]
        return sorted(whole, key=lambda name: int(name.partition("=")[2]))

    def partitions(self, batch: str) -> list[int]:
        """Numbers of the partitions that a batch has records of."""
        return [int(name.partition("=")[2]) for name in self.names(batch) if name.startswith("partition=")]

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        system, found = self._path(name)
        if not system.exists(found):
            return None
        stream = system.open(found)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str = "") -> None:
        """Make a file. Where files can be renamed it is there as a whole or not at all."""
        system, found = self._path(name)
        _, fresh = self._path(f"{name}.new")
        stream = system.create(fresh, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        system.delete(found, False)
        system.rename(fresh, found)

    def remove(self, name: str) -> None:
        system, found = self._path(name)
        system.delete(found, True)

    @contextlib.contextmanager
    def alone(self, name: str, what: str) -> Iterator[None]:
        """Only one process is in here at a time, on a local file system; elsewhere nobody is kept out.

        Args:
            name: of a folder.
            what: who else is in there, for the error's message.

        Raises:
            IllegalStateError: another one is.
            KafkaError: the folder cannot be made.
        """
        system, found = self._path(name)
        if not system.mkdirs(found):
            raise KafkaError(f"the folder {found} cannot be made")
        if system.getScheme() != "file":
            yield
            return
        handle = os.open(f"{system.makeQualified(found).toUri().getPath()}/_lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IllegalStateError(f"{what} is at work; wait for its end, or end it") from None
            yield
        finally:
            os.close(handle)


_log = logging.getLogger("pyconsumer.spark")

_CHECKPOINT: Final = "_checkpoint"
#: The name of a replay's writes, with exactly-once.
_WRITES: Final = "_writes"

_TOPIC: Final = "_topic.json"

_POLL_S: Final = 0.2
#: Spark gives up on a Python process that takes more than 10 s to start, which on a busy machine it may. The query
#: can be started again then.
_SLOW_START: Final = "Python worker failed to connect back"

_ATTEMPTS: Final = 10

_COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")


@dataclass(frozen=True)
class Archived:
    """The progress of an archive.

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
    """The progress of a replay.

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
        follow: whether to continue with what comes later, until interrupted.
        on_progress: called now and then.

    Raises:
        ConfigurationError: a wrong option; or the folder holds the archive of another topic, or batches of which nobody
            knows what is in them.
        IllegalStateError: another process adds to this archive.
        KafkaError: the topic does not exist, the cluster is not there, or the query failed.
    """
    files = ArchiveFiles(spark, folder)
    chosen = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(batch_records),
        **(options or {}),
    }
    parsed = SourceOptions.parse(chosen)
    parsed.stream_start()
    lacking = [name for name in ("partition", "offset") if name not in parsed.columns]
    if lacking:
        raise ConfigurationError(f"option columns: an archive needs the column {lacking[0]}")
    identity = _identify(topic, parsed.client)
    with files.alone("", f"another archiving to {folder}"):
        _check_topic(files, folder, identity)
        return _archive(spark, files, folder, topic, chosen, follow, on_progress)


def _identify(topic: str, client: Mapping[str, str]) -> dict[str, str | None]:
    """Which topic it is, of which cluster."""
    with KafkaAdminClient(admin_settings(client)) as admin:
        (found,) = admin.describe_topics([topic])
        return {"topic": topic, "topic_id": found.topic_id, "cluster_id": admin.describe_cluster().cluster_id}


def _check_topic(files: ArchiveFiles, folder: str, here: Mapping[str, str | None]) -> None:
    """Offsets in the checkpoint count for one topic of one cluster; the first run writes down which."""
    if files.batches() and not files.exists(_CHECKPOINT):
        raise ConfigurationError(
            f"{folder} has batches but no {_CHECKPOINT}: what is in them is not known; use a new folder"
        )
    text = files.read(_TOPIC)
    if text is None:
        files.write(_TOPIC, json.dumps(here) + "\n")
        return
    there = json.loads(text)
    if there == here:
        return
    topic, cluster = here["topic"], here["cluster_id"]
    if (there["topic"], there["cluster_id"]) != (topic, cluster):
        holds = f"topic {there['topic']} of cluster {there['cluster_id']}, not of {topic} of cluster {cluster}"
        raise ConfigurationError(f"{folder} is the archive of {holds}; use another folder")
    raise ConfigurationError(
        f"topic {topic} was deleted and created again since {folder} was begun, and its offsets began again;"
        " use another folder"
    )


def _archive(
    spark: Any,
    files: ArchiveFiles,
    folder: str,
    topic: str,
    options: Mapping[str, str],
    follow: bool,
    on_progress: Callable[[Archived], object],
) -> Archived:
    reader = spark.readStream.format("pyconsumer").options(**options)
    seen = -1
    records = 0
    behind = 0

    def write(frame: Any, number: int) -> None:
        frame.write.mode("overwrite").partitionBy("partition").parquet(f"{folder}/{batch_name(number)}")

    def look(query: Any) -> None:
        nonlocal seen, records, behind
        for progress in query.recentProgress:
            if progress.batchId > seen and progress.numInputRows:
                seen = progress.batchId
                records += progress.numInputRows
                behind = sum(lag(progress).values())
                on_progress(Archived(seen + 1, records, behind))

    trigger = {"processingTime": "1 second"} if follow else {"availableNow": True}
    for attempt in range(1, _ATTEMPTS + 1):
        writer = reader.load().writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/{_CHECKPOINT}")
        query = writer.trigger(**trigger).start()
        try:
            while query.isActive:
                look(query)
                time.sleep(_POLL_S)
            look(query)
            error = query.exception()
        finally:
            query.stop()
        if error is None:
            break
        if _SLOW_START not in str(error) or attempt == _ATTEMPTS:
            raise KafkaError(f"archiving {topic} failed: {reason_from_spark(error)}")
        _log.warning("this machine is busy: attempt %d of %d: %s", attempt, _ATTEMPTS, _SLOW_START)
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

    A record that never had a time (-1, from before Kafka 0.10) gets that of the sending.

    Args:
        spark, servers: as for :func:`archive`.
        folder: path of the archive.
        topic: where to send them.
        options: further ones of the sink, such as ``kafka.compression.type``. With ``deliveryGuarantee=exactly-once``
            a batch that is sent again is there once for those who read what is committed.
        keep_partitions: whether records go to the partition that they came from; else the key's hash decides.
        restart: whether to begin again although an earlier run has sent some or all batches to this topic.
        on_progress: called after each batch.

    Raises:
        ConfigurationError: there is no archive, or a wrong option.
        IllegalStateError: another process replays it to this topic.
        UnknownTopicOrPartitionError: the topic does not exist.
        KafkaError: a batch could not be sent.
    """
    files = ArchiveFiles(spark, folder)
    batches = files.batches()
    if not batches:
        raise ConfigurationError(f"there is no archive in {folder}: it has no folder such as {batch_name(0)}")
    chosen = {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "includeTimestamp": "true",
        **(options or {}),
    }
    notes = f"_replay/{topic}@{_target(files, batches, topic, SinkOptions.parse(chosen).client)}"
    with files.alone(notes, f"another replay of {folder} to {topic}"):
        if restart:
            for name in (*batches, _WRITES):
                files.remove(f"{notes}/{name}")
        done = set(files.names(notes)).intersection(batches)
        records = 0
        on_progress(Replayed(len(batches), len(done), 0))
        for name in batches:
            if name not in done:
                if files.partitions(name):  # a batch may have offsets without any record
                    chosen |= _named(files, f"{notes}/{_WRITES}", chosen, name)
                    records += _send(spark, f"{folder}/{name}", chosen, keep_partitions)
                files.write(f"{notes}/{name}")
                done.add(name)
                on_progress(Replayed(len(batches), len(done), records))
    return Replayed(len(batches), len(done), records)


def _named(files: ArchiveFiles, path: str, options: Mapping[str, str], batch: str) -> dict[str, str]:
    """With exactly-once, the name and number of a batch's write, by which it is known when it is sent again."""
    if SinkOptions.parse(options).delivery is None:
        return {}
    app_id = files.read(path)
    if app_id is None:
        app_id = f"replay-{uuid.uuid4().hex}"
        files.write(path, app_id)
    return {"txnAppId": app_id.strip(), "txnVersion": str(int(batch.partition("=")[2]))}


def _target(files: ArchiveFiles, batches: Sequence[str], topic: str, client: Mapping[str, str]) -> str:
    """Id of the cluster that has the topic."""
    with KafkaAdminClient(admin_settings(client)) as admin:
        try:
            admin.describe_topics([topic])
        except UnknownTopicOrPartitionError:
            # A broker may make topics by itself; but with its own retention time it would soon delete old records.
            count = 1 + max((number for name in batches for number in files.partitions(name)), default=0)
            raise UnknownTopicOrPartitionError(
                f"topic {topic} does not exist; make it first, such as by: pyconsumer topics create {topic} -p {count} "
                "-t retention.ms=-1 (a topic deletes records that are older than its retention time)"
            ) from None
        return admin.describe_cluster().cluster_id or "unnamed"


def _send(spark: Any, path: str, options: Mapping[str, str], keep_partitions: bool) -> int:
    from pyspark.sql import functions

    frame = spark.read.parquet(path)
    if "timestamp" in frame.columns:
        time = frame["timestamp"]
        frame = frame.withColumn("timestamp", functions.when(time.cast("double") >= 0, time))
    # Records of one partition of the old topic go through one task, so their order stays.
    ordered = frame.repartition("partition").sortWithinPartitions("partition", "offset")
    kept = [name for name in _COLUMNS if name in frame.columns and (keep_partitions or name != "partition")]
    writer = ordered.select(*kept).write.format("pyconsumer").mode("append").options(**options)
    try:
        writer.save()
    except Exception as error:
        raise KafkaError(f"sending {path} failed: {reason_from_spark(error)}") from error
    count: int = frame.count()
    return count
