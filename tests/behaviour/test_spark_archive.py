"""``pyconsumer archive`` and ``pyconsumer replay``: there and back, and killed in the middle."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import pyconsumer.spark.archive as pipelines
from pyconsumer.admin import KafkaAdminClient
from pyconsumer.cli import archive as archive_command
from pyconsumer.cli import replay as replay_command
from pyconsumer.errors import ConfigurationError, IllegalStateError, KafkaError, UnknownTopicOrPartitionError
from pyconsumer.spark.source import KafkaDataSource
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until
from tests.support.spark_kills import killed_as_ours, plan_kill
from tests.support.spark_ledger import assert_nothing_open
from tests.support.spark_topics import TIME, Row, produce, reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "pyconsumer")
SPARK = (
    "--master",
    "local[2]",
    "--conf",
    "spark.driver.bindAddress=127.0.0.1",
    "--conf",
    "spark.driver.host=127.0.0.1",
)


def numbered(count: int, *, first: int = 0, partitions: int = 2) -> list[Row]:
    return [
        Row(b"v%d" % i, b"k%d" % (i % 7), i % partitions, TIME + i, (("h", b"%d" % i),) if i % 3 else ())
        for i in range(first, first + count)
    ]


def archived(folder: Path) -> list[tuple[int, int]]:
    """Partition and offset of every row in the archive's files, read without Spark."""
    rows = []
    for path in sorted(folder.glob("batch=*/partition=*/*.parquet")):
        partition = int(path.parent.name.partition("=")[2])
        rows += [
            (partition, offset) for offset in pq.read_table(path, columns=["offset"], partitioning=None)[0].to_pylist()
        ]
    return sorted(rows)


def records(spark: Any, cluster: Cluster, topic: str) -> list[tuple[Any, ...]]:
    frame = reader(spark, cluster.bootstrap_servers, {"subscribe": topic, "includeHeaders": True}).load()
    return [
        (row.partition, row.key, row.value, row.timestamp, row.headers and [tuple(header) for header in row.headers])
        for row in frame.orderBy("partition", "offset").collect()
    ]


def kill_after_some_batches(command: tuple[str, ...]) -> None:
    lines: list[str] = []
    process = GuardedProcess(command, on_line=lines.append, cwd=ROOT)
    try:
        wait_until(lambda: len(lines) > 2 or not process.running, 240, "some batches")
        time.sleep(random.uniform(0, 1))
        assert process.running, process.stderr
    finally:
        process.kill()


def test_there_and_back(spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path) -> None:
    source, target, other = (make_topic(partitions=2) for _ in range(3))
    produce(cluster.bootstrap_servers, source, numbered(1000))
    folder, servers, seen = str(tmp_path / "archive"), cluster.bootstrap_servers, []

    def a_second_one_is_refused(run: Callable[[], object], what: str) -> None:
        with pytest.raises(IllegalStateError, match=f"another {what} is running"):
            run()

    def look(progress: pipelines.Archived) -> None:
        seen.append(progress)
        a_second_one_is_refused(
            lambda: pipelines.archive(spark, servers, source, folder), f"process that archives to {folder}"
        )

    done = pipelines.archive(spark, servers, source, folder, batch_records=300, on_progress=look)
    assert (done.batches, done.records, done.behind) == (4, 1000, 0)
    assert [progress.records for progress in seen] == [300, 600, 900, 1000]
    # What came since is added.
    produce(cluster.bootstrap_servers, source, numbered(10, first=1000))
    assert pipelines.archive(spark, servers, source, folder).records == 10
    assert archived(tmp_path / "archive") == [(p, offset) for p in (0, 1) for offset in range(505)]
    assert spark.read.parquet(folder).count() == 1010

    def replay(topic: str, **options: Any) -> pipelines.Replayed:
        return pipelines.replay(spark, folder, servers, topic, **options)

    sent = replay(
        target,
        keep_partitions=True,
        on_progress=lambda _: a_second_one_is_refused(lambda: replay(target), f"replay of {folder} to {target}"),
    )
    assert (sent.batches, sent.done, sent.records) == (5, 5, 1010)
    assert records(spark, cluster, target) == records(spark, cluster, source)
    assert replay(target).records == 0  # all are there, and the locks are gone
    # By the keys' hash, each key's records are in one partition, in order.
    assert replay(other).records == 1010
    last: dict[bytes, tuple[int, int]] = {}
    for partition, key, value, _, _ in records(spark, cluster, other):
        before = last.get(key, (partition, -1))
        number = int(value[1:])
        assert before[0] == partition
        if number % 2:  # one key's records came from both partitions; each of those keeps its order
            assert before[1] < number
            last[key] = (partition, number)
    assert replay(other, restart=True).records == 1010


def test_batches_without_records_and_records_without_a_time(
    spark: Any, embedded: Cluster, topic_name: str, tmp_path: Path
) -> None:
    servers, folder = embedded.bootstrap_servers, str(tmp_path / "archive")
    source, target = (embedded.create_topic(f"{topic_name}-{end}", 1) for end in ("source", "target"))
    assert pipelines.archive(spark, servers, source, folder).records == 0
    produce(servers, source, numbered(10, partitions=1))
    assert pipelines.archive(spark, servers, source, folder).records == 10
    (path,) = (tmp_path / "archive").glob("batch=*/partition=0/*.parquet")
    table = pq.read_table(path, partitioning=None)
    place = table.column_names.index("timestamp")
    kind = pa.timestamp("ns")  # as Spark's files have it
    times = [-1_000_000, *table.column(place).cast(kind).cast(pa.int64()).to_pylist()[1:]]  # -1 ms: message format v0
    table = table.set_column(place, "timestamp", pa.array(times, kind))
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    before = int(time.time() * 1000)
    sent = pipelines.replay(spark, folder, servers, target)
    assert (sent.batches, sent.done, sent.records) == (2, 2, 10)
    first, *others = records(spark, embedded, target)
    assert first[3].timestamp() * 1000 >= before
    assert [found[1:] for found in others] == [found[1:] for found in records(spark, embedded, source)[1:]]


def test_mistakes(spark: Any, embedded: Cluster, topic_name: str, tmp_path: Path) -> None:
    servers = embedded.bootstrap_servers

    def archive(topic: str, folder: Path, **options: str) -> pipelines.Archived:
        return pipelines.archive(spark, servers, topic, str(folder), options=options)

    with pytest.raises(ConfigurationError, match="there is no archive in"):
        pipelines.replay(spark, str(tmp_path), servers, topic_name)
    with pytest.raises(UnknownTopicOrPartitionError, match=topic_name):
        archive(topic_name, tmp_path / "no-topic")
    first, other = (embedded.create_topic(f"{topic_name}-{end}", 2) for end in ("first", "other"))
    (tmp_path / "odd" / "batch=0000000000").mkdir(parents=True)
    (tmp_path / "odd" / "batch=0000000000" / "_SUCCESS").touch()
    with pytest.raises(ConfigurationError, match="has batches but no _checkpoint"):
        archive(first, tmp_path / "odd")
    with pytest.raises(ConfigurationError, match="an archive needs the column offset"):
        archive(first, tmp_path / "columns", columns="key,value,partition")
    with pytest.raises(ConfigurationError, match="failOnDataLos"):
        archive(first, tmp_path / "columns", failOnDataLos="true")
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        archive(
            first,
            tmp_path / "dead",
            **{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500"},
        )
    # Offsets in the checkpoint are those of one topic.
    folder = tmp_path / "archive"
    produce(servers, first, numbered(10))
    assert archive(first, folder).records == 10
    with pytest.raises(ConfigurationError, match=f"is the archive of topic {first} of cluster .*, not of {other} of"):
        archive(other, folder)
    embedded.delete_topic(first)
    embedded.create_topic(first, 2)
    with pytest.raises(ConfigurationError, match=f"topic {first} was deleted and created again after the archive in"):
        archive(first, folder)
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topics create {topic_name}-no -p 2 -t retention.ms=-1"):
        pipelines.replay(spark, str(folder), servers, f"{topic_name}-no")


def test_an_exactly_once_replay_that_fails_half_way(
    spark: Any, embedded: Cluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record is there once, whether a batch fails before it is decided, while it is committed, or before it is
    noted, and an archive of the topic, read committed, has the committed records.
    """
    servers, folder, plan = embedded.bootstrap_servers, str(tmp_path / "archive"), tmp_path / "plan"
    source, target = (embedded.create_topic(f"{topic_name}-{end}", 2) for end in ("from", "to"))
    produce(servers, source, numbered(60))
    assert pipelines.archive(spark, servers, source, folder, batch_records=20).batches == 3

    def replay(**options: str) -> pipelines.Replayed:
        return pipelines.replay(
            spark, folder, servers, target, options={"deliveryGuarantee": "exactly-once", **options}
        )

    spark.dataSource.register(killed_as_ours(plan))
    try:
        for step in ("sent", "one ended"):
            plan_kill(plan, step)
            with pytest.raises(KafkaError, match=r"sending .*batch=0000000000 failed"):
                replay()
            assert not plan.exists()
    finally:
        spark.dataSource.register(KafkaDataSource)
    note = pipelines.ArchiveFiles.write

    def fail_once(files: pipelines.ArchiveFiles, name: str, text: str = "") -> None:
        if name.endswith("batch=0000000001"):
            monkeypatch.undo()
            raise OSError("the disk is full")
        note(files, name, text)

    monkeypatch.setattr(pipelines.ArchiveFiles, "write", fail_once)
    with pytest.raises(OSError, match="the disk is full"):
        replay()
    sent = replay()
    assert (sent.batches, sent.done) == (3, 3)
    values = sorted(b"v%d" % i for i in range(60))
    assert sorted(read_to_end(servers, target, 2, "read_committed")) == values
    assert len(read_to_end(servers, target, 2, "read_uncommitted")) > 60
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert_nothing_open(admin, target, 2, "pyconsumer-spark.replay-")
    assert replay().records == 0
    again, committed = str(tmp_path / "again"), {"kafka.isolation.level": "read_committed"}
    assert pipelines.archive(spark, servers, target, again, options=committed).records == 60
    assert sorted(bytes(row.value) for row in spark.read.parquet(again).select("value").collect()) == values


def test_the_commands_killed_in_the_middle(
    spark: Any,
    embedded: Cluster,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are killed in processes of their own. Run again they have the Spark session of the tests, which is there."""
    source, target = (embedded.create_topic(f"{topic_name}-{end}", 2) for end in ("from", "to"))
    produce(embedded.bootstrap_servers, source, numbered(1500))
    folder = tmp_path / "archive"
    servers = ("-b", embedded.bootstrap_servers, "--json")
    archive = (source, "--to", str(folder), "--batch-records", "150", *servers)
    replay = (str(folder), "--to", target, "--exactly-once", *servers)

    def again(module: ModuleType, arguments: tuple[str, ...]) -> dict[str, int]:
        monkeypatch.setattr("pyconsumer.cli.spark.spark_session", lambda master, conf: nullcontext(spark))
        capsys.readouterr()
        module.command.main(arguments, standalone_mode=False)
        last: dict[str, int] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return last

    kill_after_some_batches((*COMMAND, "archive", *archive, *SPARK))
    last = again(archive_command, archive)
    assert last["left"] == 0
    assert last["records"] < 1500
    assert archived(folder) == [(p, offset) for p in (0, 1) for offset in range(750)]
    kill_after_some_batches((*COMMAND, "replay", *replay, *SPARK))
    last = again(replay_command, replay)
    assert last["done"] == last["batches"] == 10
    assert last["records"] < 1500
    found = read_to_end(embedded.bootstrap_servers, target, 2, "read_committed")
    assert sorted(found) == sorted(b"v%d" % i for i in range(1500))
