"""Archives: a topic written to Parquet files, and replayed from them, with Spark. Both can be killed and run again.

The files of an archive::

    DIR/batch=0000000012/partition=3/part-....parquet   one batch's records, by partition
    DIR/_checkpoint/                                    Spark's checkpoint: the offsets of each batch
    DIR/_topic.json                                     the topic and the cluster
    DIR/_replay/TOPIC@CLUSTER/batch=0000000012          an empty file: a replay has sent this batch

A batch of the archive is a micro-batch of a streaming query. After a kill Spark repeats the last one with the same
offsets, and it replaces its folder. So each record is in the files once, for every reader, not only for those that read
Spark's own list of valid files.

Two runs at a time would overwrite each other's files, so on a local file system the second one is refused. The lock is
released when the process that holds it ends, in whatever way.

A replay sends batch after batch, the records of each partition in order, and notes a batch when all of its records are
acknowledged. After a kill it repeats the batch in which it was interrupted: records may be duplicated, none is lost.

An archive may be typed (options ``value.format`` and ``key.format``). It then has the id of the schema that each record
names. ``bad_value`` has the bytes of the records that could not be decoded, so nothing is lost. The archive can be
replayed if it has the bytes of all records (``includeBytes``).

All state is in these files. :class:`ArchiveFiles` accesses them by Hadoop's file systems, so ``s3a://`` and ``hdfs://``
work as well.
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

from pyconsumer.admin import KafkaAdminClient, OffsetSpec
from pyconsumer.errors import ConfigurationError, IllegalStateError, KafkaError, UnknownTopicOrPartitionError
from pyconsumer.spark.client_config import admin_settings
from pyconsumer.spark.errors import reason_from_spark
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.progress import lag
from pyconsumer.spark.schema import DECODE_ERROR
from pyconsumer.spark.sink import SinkOptions
from pyconsumer.spark.value_options import SIDES
from pyconsumer.structs import TopicPartition

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
    """Return the name of the folder for a batch."""
    return f"batch={number:0{_DIGITS}d}"


class ArchiveFiles:
    """The files of an archive. Their names are relative to the archive's folder.

    Args:
        spark: a session that has a JVM.
        folder: path of the archive.

    Raises:
        ConfigurationError: the session uses Spark Connect, which gives no access to the JVM.
    """

    def __init__(self, spark: Any, folder: str) -> None:
        if not hasattr(spark, "_jvm"):
            raise ConfigurationError("archives cannot be used through Spark Connect (sc://). Use a classic session")
        self._jvm = spark._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._folder = folder

    def _path(self, name: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}" if name else self._folder)
        return found.getFileSystem(self._conf), found

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        system, found = self._path(name)
        return bool(system.exists(found))

    def names(self, name: str = "") -> list[str]:
        """Return the names in a folder. The list is empty if the folder does not exist."""
        system, found = self._path(name)
        if not system.exists(found):
            return []
        return [str(status.getPath().getName()) for status in system.listStatus(found)]

    def batches(self) -> list[str]:
        """Return the names of the completed batches, in order."""
        names = [name for name in self.names() if _BATCH.fullmatch(name)]
        complete = [name for name in names if self.exists(f"{name}/_SUCCESS")]
        return sorted(complete, key=lambda name: int(name.partition("=")[2]))

    def partitions(self, batch: str) -> list[int]:
        """Return the partitions that have records in a batch."""
        return [int(name.partition("=")[2]) for name in self.names(batch) if name.startswith("partition=")]

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        system, found = self._path(name)
        if not system.exists(found):
            return None
        stream = system.open(found)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str = "") -> None:
        """Write or replace a file. This is atomic if the file system can rename files."""
        system, found = self._path(name)
        _, fresh = self._path(f"{name}.new")
        stream = system.create(fresh, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        system.delete(found, False)
        system.rename(fresh, found)

    def remove(self, name: str) -> None:
        """Remove a file or folder, if it exists."""
        system, found = self._path(name)
        system.delete(found, True)

    @contextlib.contextmanager
    def lock(self, name: str, what: str) -> Iterator[None]:
        """Hold a lock on a folder. The lock works only on local file systems. Elsewhere the call has no effect.

        Args:
            name: name of the folder. It is created.
            what: the process that may hold the lock, in words for the message.

        Raises:
            IllegalStateError: another process holds the lock.
            KafkaError: the folder could not be created.
        """
        system, found = self._path(name)
        if not system.mkdirs(found):
            raise KafkaError(f"the folder {found} could not be created")
        if system.getScheme() != "file":
            yield
            return
        handle = os.open(f"{system.makeQualified(found).toUri().getPath()}/_lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IllegalStateError(f"{what} is running. Wait until it ends, or end it") from None
            yield
        finally:
            os.close(handle)


_log = logging.getLogger("pyconsumer.spark")

_CHECKPOINT: Final = "_checkpoint"
#: The file with the name (``txnAppId``) of a replay's exactly-once writes.
_WRITES: Final = "_writes"

_TOPIC: Final = "_topic.json"

_POLL_S: Final = 0.2
#: The message of Spark if a Python process needs more than 10 s to start, as on a busy machine. The query is restarted.
_SLOW_START: Final = "Python worker failed to connect back"

_ATTEMPTS: Final = 10

_COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")


@dataclass(frozen=True)
class Archived:
    """The progress of :func:`archive`.

    Attributes:
        batches: number of batches in the archive.
        records: number of records that this run has added.
        behind: number of offsets that are left to read, as far as it is known.
    """

    batches: int
    records: int
    behind: int


@dataclass(frozen=True)
class Replayed:
    """The progress of :func:`replay`.

    Attributes:
        batches: number of batches in the archive.
        done: number of batches that were sent, by this and earlier runs.
        records: number of records that this run has sent.
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
    """Add the records of a topic to an archive. The run starts where the last one ended.

    Args:
        spark: a session that knows the format. See :func:`pyconsumer.spark.register`.
        servers: addresses of the brokers.
        folder: path of the archive, in any file system that Spark can use.
        batch_records: the largest number of offsets in a batch.
        options: additional options of the source, such as ``kafka.security.protocol``. The column ``headers`` is
            included unless ``includeHeaders`` is ``false``. With ``value.format`` or ``key.format`` the archive is
            typed. Records that cannot be decoded do not stop it unless ``onDecodeError`` is ``fail``. All runs of one
            archive have keys and values of the same type.
        follow: True continues with new records until interrupted.
        on_progress: called after a batch.

    Returns:
        The progress at the end.

    Raises:
        ConfigurationError: an option is wrong. Or the folder contains the archive of another topic, batches without
            a checkpoint, or keys or values of another type.
        IllegalStateError: another process is adding to this archive.
        KafkaError: the topic does not exist, the cluster cannot be reached, or the query failed.
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
    chosen, only_bad = _typed(chosen)
    parsed = SourceOptions.parse(chosen)
    parsed.stream_start()
    lacking = [name for name in ("partition", "offset") if name not in parsed.columns]
    if lacking:
        raise ConfigurationError(f"option columns: an archive needs the column {lacking[0]}")
    identity = _identify(topic, parsed.kafka_options)
    with files.lock("", f"another process that archives to {folder}"):
        _check_topic(files, folder, identity)
        return _archive(spark, files, folder, topic, chosen, only_bad, follow, on_progress)


def _typed(options: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Add the options of a typed archive, and return the sides of which it has the bytes of bad records alone."""
    given = {name.lower() for name in options}
    if SourceOptions.parse(options).values is None:
        return options, []
    for name, value in (("onDecodeError", "null"), ("includeSchemaId", "true")):
        if name.lower() not in given:
            options = {**options, name: value}
    parsed = SourceOptions.parse(options)
    sides = [side for side in parsed.parts if f"{side}_bytes" not in parsed.columns]
    if DECODE_ERROR not in parsed.columns or not sides:
        return options, []
    return {**options, "includeBytes": "true"}, sides


def _identify(topic: str, client: Mapping[str, str]) -> dict[str, str | None]:
    """Return a topic's identity: its name, its id and the id of its cluster.

    Raises:
        KafkaError: the topic does not exist, or the leaders of its partitions cannot be reached. Spark's stream would
            try that again and again without a word, as metadata may come from another address than records.
    """
    with KafkaAdminClient(admin_settings(client)) as admin:
        (found,) = admin.describe_topics([topic])
        partitions = [TopicPartition(topic, each.partition) for each in found.partitions]
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        return {"topic": topic, "topic_id": found.topic_id, "cluster_id": admin.describe_cluster().cluster_id}


def _check_topic(files: ArchiveFiles, folder: str, here: Mapping[str, str | None]) -> None:
    """Check that the offsets of the checkpoint are those of the topic ``here``. The first run writes which it is.

    Raises:
        ConfigurationError: they are not, or there is no checkpoint.
    """
    if files.batches() and not files.exists(_CHECKPOINT):
        raise ConfigurationError(
            f"{folder} has batches but no {_CHECKPOINT}, so it is unknown which offsets they contain. Use a new folder"
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
        archived = f"topic {there['topic']} of cluster {there['cluster_id']}, not of {topic} of cluster {cluster}"
        raise ConfigurationError(f"{folder} is the archive of {archived}. Use another folder")
    raise ConfigurationError(
        f"topic {topic} was deleted and created again after the archive in {folder} was begun, so its offsets began"
        " again. Use another folder"
    )


def _check_types(spark: Any, files: ArchiveFiles, folder: str, frame: Any) -> None:
    """Check that an archive has keys and values of the types of a frame, before anything of it is added.

    Readers of the whole folder take its columns from some of the files. With two types they fail, or lose columns.

    Raises:
        ConfigurationError: the archive has other types.
    """
    from pyconsumer.spark.typed_rows import described_side

    last = next((name for name in reversed(files.batches()) if files.partitions(name)), None)
    if last is None:
        return
    there, here = spark.read.parquet(f"{folder}/{last}").schema, frame.schema
    for side in SIDES:
        if side not in there.names or side not in here.names:
            continue
        kinds = {schema[side].dataType.simpleString() for schema in (there, here)}  # Parquet makes all nullable
        if len(kinds) == 1:
            continue
        (held, remedy), (added, _) = described_side(there, side), described_side(here, side)
        raise ConfigurationError(
            f"{folder} holds {side}s as {held}, and this run would add {side}s as {added}. Nothing was added. Use"
            f" another folder, or go on as before, with {remedy}"
        )


def _archive(
    spark: Any,
    files: ArchiveFiles,
    folder: str,
    topic: str,
    options: Mapping[str, str],
    only_bad: Sequence[str],
    follow: bool,
    on_progress: Callable[[Archived], object],
) -> Archived:
    from pyspark.sql import functions

    reader = spark.readStream.format("pyconsumer").options(**options)
    seen = -1
    records = 0
    behind = 0

    def write(frame: Any, number: int) -> None:
        for side in only_bad:
            data = functions.when(frame[DECODE_ERROR].isNotNull(), frame[f"{side}_bytes"])
            frame = frame.withColumn(f"bad_{side}", data).drop(f"{side}_bytes")
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
        frame = reader.load()
        if attempt == 1:
            _check_types(spark, files, folder, frame)
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/{_CHECKPOINT}")
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
        _log.warning("attempt %d of %d failed, as this machine may be busy: %s", attempt, _ATTEMPTS, _SLOW_START)
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
    """Send the records of an archive to a topic, with keys, values, headers and timestamps.

    Each partition stays in order.

    If a record has no timestamp (-1, from before Kafka 0.10), it gets the time at which it is sent.

    Args:
        spark, servers: see :func:`archive`.
        folder: path of the archive.
        topic: the topic to send to.
        options: additional options of the sink, such as ``kafka.compression.type``. With
            ``deliveryGuarantee=exactly-once``, consumers with ``read_committed`` see no duplicates if a batch is sent
            again.
        keep_partitions: True sends records to the partition from which they came. With False the hash of the key
            decides.
        restart: True sends all batches, including those that earlier runs have sent to this topic.
        on_progress: called at the start and after each batch.

    Returns:
        The progress at the end.

    Raises:
        ConfigurationError: the folder contains no archive, or one without the bytes of the records. Or an option is
            wrong.
        IllegalStateError: another process is replaying this archive to this topic.
        UnknownTopicOrPartitionError: the topic does not exist.
        KafkaError: the cluster cannot be reached, or a batch could not be sent.
    """
    files = ArchiveFiles(spark, folder)
    batches = files.batches()
    if not batches:
        raise ConfigurationError(f"there is no archive in {folder}: it contains no folder such as {batch_name(0)}")
    chosen = {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "includeTimestamp": "true",
        **(options or {}),
    }
    notes = f"_replay/{topic}@{_target(files, batches, topic, SinkOptions.parse(chosen).kafka_options)}"
    with files.lock(notes, f"another replay of {folder} to {topic}"):
        if restart:
            for name in (*batches, _WRITES):
                files.remove(f"{notes}/{name}")
        done = set(files.names(notes)).intersection(batches)
        records = 0
        on_progress(Replayed(len(batches), len(done), 0))
        for name in batches:
            if name not in done:
                if files.partitions(name):  # a batch may have offsets without any record
                    chosen |= _write_name(files, f"{notes}/{_WRITES}", chosen, name)
                    records += _send(spark, f"{folder}/{name}", chosen, keep_partitions)
                files.write(f"{notes}/{name}")
                done.add(name)
                on_progress(Replayed(len(batches), len(done), records))
    return Replayed(len(batches), len(done), records)


def _write_name(files: ArchiveFiles, path: str, options: Mapping[str, str], batch: str) -> dict[str, str]:
    """Return, for exactly-once, the options with name and number of a batch's write, which identify its repetition."""
    if SinkOptions.parse(options).delivery is None:
        return {}
    app_id = files.read(path)
    if app_id is None:
        app_id = f"replay-{uuid.uuid4().hex}"
        files.write(path, app_id)
    return {"txnAppId": app_id.strip(), "txnVersion": str(int(batch.partition("=")[2]))}


def _target(files: ArchiveFiles, batches: Sequence[str], topic: str, client: Mapping[str, str]) -> str:
    """Return the id of the cluster that has the topic.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist.
    """
    with KafkaAdminClient(admin_settings(client)) as admin:
        try:
            admin.describe_topics([topic])
        except UnknownTopicOrPartitionError:
            # A broker may create topics by itself, but with its default retention it would soon delete old records.
            count = 1 + max((number for name in batches for number in files.partitions(name)), default=0)
            raise UnknownTopicOrPartitionError(
                f"topic {topic} does not exist. Create it first, for instance by: pyconsumer topics create {topic} -p"
                f" {count} -t retention.ms=-1 (by default a topic deletes records older than its retention time)"
            ) from None
        return admin.describe_cluster().cluster_id or "unnamed"


def _send(spark: Any, path: str, options: Mapping[str, str], keep_partitions: bool) -> int:
    from pyspark.sql import functions

    frame = _with_bytes(spark.read.parquet(path), path)
    if "timestamp" in frame.columns:
        time = frame["timestamp"]
        frame = frame.withColumn("timestamp", functions.when(time.cast("double") >= 0, time))
    # One task sends all records of a partition, in order.
    ordered = frame.repartition("partition").sortWithinPartitions("partition", "offset")
    kept = [name for name in _COLUMNS if name in frame.columns and (keep_partitions or name != "partition")]
    writer = ordered.select(*kept).write.format("pyconsumer").mode("append").options(**options)
    try:
        writer.save()
    except Exception as error:
        raise KafkaError(f"sending {path} failed: {reason_from_spark(error)}") from error
    count: int = frame.count()
    return count


def _with_bytes(frame: Any, path: str) -> Any:
    """Return a frame whose keys and values are those of the records.

    Raises:
        ConfigurationError: they have been decoded. A record that could not be decoded would become a tombstone.
    """
    from pyconsumer.spark.typed_rows import is_decoded

    for side in SIDES:
        if f"{side}_bytes" in frame.columns:
            frame = frame.withColumn(side, frame[f"{side}_bytes"])
        elif is_decoded(frame.schema, side):
            raise ConfigurationError(
                f"the archive in {path} has decoded {side}s and not the bytes of the records, so it cannot be replayed."
                " Archive the topic again, without a format or with the option includeBytes=true"
            )
    return frame
