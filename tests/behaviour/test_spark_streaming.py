"""Spark reads topics as a stream."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.spark import lag
from pyconsumer.structs import TopicPartition
from tests.support.cluster import Cluster
from tests.support.spark_streams import Stream
from tests.support.spark_topics import Row, produce

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(480)]

NewStream = Callable[..., Stream]


@pytest.fixture
def new_stream(spark: Any, cluster: Cluster, tmp_path: Path) -> Iterator[NewStream]:
    """Makes streams: ``new_stream(subscribe=topic)``. Queries that a test leaves running are stopped."""
    made: list[Stream] = []

    def make(**options: object) -> Stream:
        folder = tmp_path / f"stream-{len(made)}"
        made.append(Stream(spark, cluster.bootstrap_servers, folder, options))
        return made[-1]

    yield make
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def fill(cluster: Cluster, topic: str, *counts: int, first: int = 0, size: int = 10) -> list[tuple[int, int]]:
    """Send this number of records to each partition, offsets from ``first`` on. Their partitions and offsets."""
    rows = [
        Row(b"%d-%d" % (partition, number) + b"x" * size, partition=partition)
        for partition, count in enumerate(counts)
        for number in range(first, first + count)
    ]
    produce(cluster.bootstrap_servers, topic, rows)
    return [(partition, number) for partition, count in enumerate(counts) for number in range(first, first + count)]


def committed(admin: KafkaAdminClient, group: str) -> dict[tuple[str, int], int]:
    return {tuple(tp): found.offset for tp, found in admin.list_group_offsets(group).items()}  # type: ignore[misc]


@pytest.mark.spark_smoke
def test_limited_batches_each_record_once_with_progress_lag_and_a_group(
    new_stream: NewStream, cluster: Cluster, make_topic: Callable[..., str], admin: KafkaAdminClient, group_id: str
) -> None:
    topic = make_topic(partitions=2)
    rows = fill(cluster, topic, 300, 100)
    stream = new_stream(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=200, minPartitions=4, commitToGroup=group_id
    )
    progress = stream.run_available()
    assert [found.numInputRows for found in progress] == [200, 200]
    assert stream.offsets() == [{topic: {"0": 150, "1": 50}}, {topic: {"0": 300, "1": 100}}]
    assert stream.positions() == rows
    # The lag of each batch, from what Spark keeps of the source.
    assert [sum(lag(found).values()) for found in progress] == [200, 0]
    assert lag(progress[0]) == {TopicPartition(topic, 0): 150, TopicPartition(topic, 1): 50}
    # The group has the last batch too.
    assert committed(admin, group_id) == {(topic, 0): 300, (topic, 1): 100}
    rows += fill(cluster, topic, 10, 0, first=300)
    progress = stream.run_available()
    assert [found.numInputRows for found in progress] == [10]
    assert stream.positions() == sorted(rows)
    assert committed(admin, group_id) == {(topic, 0): 310, (topic, 1): 100}


def test_another_query_continues_at_the_offsets_of_a_group(
    new_stream: NewStream, cluster: Cluster, topic: str, admin: KafkaAdminClient, group_id: str
) -> None:
    fill(cluster, topic, 10)
    new_stream(subscribe=topic, startingOffsets="earliest", commitToGroup=group_id).run_available()
    later = fill(cluster, topic, 5, first=10)
    other = new_stream(subscribe=topic, startingOffsets="group", commitToGroup=group_id)
    other.run_available()
    assert other.positions() == later
    assert committed(admin, group_id) == {(topic, 0): 15}


def test_from_the_latest_offset_no_record_is_lost_by_a_crash_in_the_first_batch(
    new_stream: NewStream, cluster: Cluster, topic: str
) -> None:
    fill(cluster, topic, 10)
    stream = new_stream(subscribe=topic)
    stream.run_available()
    assert stream.offsets() == [{topic: {"0": 10}}]
    stream.forget_commit(0)
    later = fill(cluster, topic, 5, first=10)
    stream.run_available()
    assert stream.positions() == later


@pytest.mark.spark_smoke
def test_a_batch_that_was_not_finished_is_read_again_as_it_was(
    new_stream: NewStream, cluster: Cluster, topic: str
) -> None:
    rows = fill(cluster, topic, 10)
    stream = new_stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=6)
    stream.run_available()
    stream.forget_commit(1)
    rows += fill(cluster, topic, 10, first=10)
    counts = [found.numInputRows for found in stream.run_available()]
    assert counts == [4, 6, 4]
    assert stream.positions() == rows


def test_a_checkpoint_in_the_notation_of_sparks_connector_is_taken_over(
    new_stream: NewStream, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=2)
    rows = fill(cluster, topic, 10, 10)
    stream = new_stream(subscribe=topic, startingOffsets="earliest")
    stream.run_available()
    (start := stream.checkpoint / "sources" / "0").mkdir(parents=True)
    (start / "0").write_text(f'v1\n{{"{topic}":{{"1":0,"0":0}}}}')
    stream.rewrite(0, f'{{"{topic}":{{"1":10,"0":10}}}}')
    rows += fill(cluster, topic, 3, 4, first=10)
    stream.run_available()
    assert stream.positions() == sorted(rows)


def test_a_running_query_with_partitions_that_are_added_and_no_batch_while_idle(
    new_stream: NewStream,
    cluster: Cluster,
    make_topic: Callable[..., str],
    admin: KafkaAdminClient,
    group_id: str,
) -> None:
    topic = make_topic(partitions=1)
    rows = fill(cluster, topic, 10)
    stream = new_stream(subscribePattern=rf"\Q{topic}\E.*", startingOffsets="earliest", commitToGroup=group_id)
    query = stream.start_running()
    assert stream.positions() == rows
    rows += fill(cluster, topic, 10, first=10)
    query.processAllAvailable()
    assert stream.positions() == rows
    admin.create_partitions({topic: 2})
    rows += fill(cluster, topic, 0, 7)
    deadline = time.monotonic() + 60
    while len(stream.positions()) < len(rows):
        assert time.monotonic() < deadline
        query.processAllAvailable()
    assert stream.positions() == rows
    batches = len(stream.log("offsets"))
    calls = 0
    while committed(admin, group_id) != {(topic, 0): 20, (topic, 1): 7}:  # at some idle trigger
        assert time.monotonic() < deadline
        calls += 1
    query.processAllAvailable()
    assert len(stream.log("offsets")) == batches
    query.stop()


def test_two_queries_in_one_session(new_stream: NewStream, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topics = [make_topic(), make_topic()]
    rows = [fill(cluster, topic, 5 + number) for number, topic in enumerate(topics)]
    streams = [new_stream(subscribe=topic, startingOffsets="earliest") for topic in topics]
    queries = [stream.start_running() for stream in streams]
    queries[0].stop()
    rows[1] += fill(cluster, topics[1], 3, first=6)
    queries[1].processAllAvailable()
    assert [stream.positions() for stream in streams] == rows


def test_a_limit_in_bytes(new_stream: NewStream, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    rows = fill(cluster, topic, 1000, 0, size=1000)
    rows += fill(cluster, topic, 0, 2000, size=50)
    stream = new_stream(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="300k")
    counts = [found.numInputRows for found in stream.run_available()]
    # About 1,040 kB + 150 kB wait.
    assert 3 <= len(counts) <= 6, counts
    assert stream.positions() == sorted(rows)


def test_deleted_records_are_an_error_or_skipped(
    new_stream: NewStream, cluster: Cluster, topic: str, admin: KafkaAdminClient
) -> None:
    rows = fill(cluster, topic, 10)
    stream = new_stream(subscribe=topic, startingOffsets="earliest")
    stream.run_available()
    fill(cluster, topic, 10, first=10)
    admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(
        Exception, match=rf"DataLossError.*{topic}-0: offsets 10 to 14 are missing.*failOnDataLoss=false"
    ):
        stream.run_available()
    stream.options["failOnDataLoss"] = False
    stream.run_available()
    assert stream.positions() == rows + [(0, offset) for offset in range(15, 20)]


@pytest.mark.spark_smoke
def test_a_recreated_topic_raises_before_a_batch_is_written(
    new_stream: NewStream, cluster: Cluster, topic: str
) -> None:
    fill(cluster, topic, 10)
    stream = new_stream(subscribe=topic, startingOffsets="earliest", fetchOffset__retryIntervalMs=50)
    stream.run_available()
    cluster.delete_topic(topic)
    cluster.create_topic(topic)
    fill(cluster, topic, 4)
    with pytest.raises(Exception, match=r"PARTITION_OFFSET_CHANGED.*ends at offset 4, before offset 10"):
        stream.run_available()
    assert stream.offsets() == [{topic: {"0": 10}}]


def test_a_deleted_topic_is_skipped_if_that_is_allowed(
    new_stream: NewStream, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    kept, deleted = make_topic(), make_topic()
    for topic in (kept, deleted):
        fill(cluster, topic, 5)
    stream = new_stream(subscribe=f"{kept},{deleted}", startingOffsets="earliest", fetchOffset__retryIntervalMs=50)
    stream.run_available()
    cluster.delete_topic(deleted)
    fill(cluster, kept, 5, first=5)
    with pytest.raises(Exception, match=r"UnknownTopicOrPartition|UNKNOWN_TOPIC_OR_PARTITION"):
        stream.run_available()
    stream.options["failOnDataLoss"] = False
    stream.run_available()
    assert len(stream.positions()) == 15
    assert stream.offsets()[-1] == {kept: {"0": 10}}


def test_a_worker_that_dies_in_the_middle(new_stream: NewStream, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    rows = fill(cluster, topic, 5000, size=200)
    stream = new_stream(subscribe=topic, startingOffsets="earliest", kafka__max__partition__fetch__bytes=20_000)
    died = tmp_path / "died"

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.slice(0, 10)
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(10)

    frame = stream.frame()
    with pytest.raises(Exception, match=r"crashed|exited|EOF"):
        stream.run_available(frame.mapInArrow(pass_on, frame.schema))
    stream.run_available()
    assert stream.positions() == rows


@pytest.mark.spark_smoke
def test_a_login_serves_the_stream_and_its_group_and_shows_nowhere(
    spark: Any,
    cluster: Cluster,
    topic: str,
    tmp_path: Path,
    group_id: str,
    admin: KafkaAdminClient,
    capfd: pytest.CaptureFixture[str],
) -> None:
    rows = fill(cluster, topic, 5)
    user = cluster.credentials
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="{user.username}" password="{user.password}";'
    )
    secure = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "commitToGroup": group_id,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": cluster.certificates.ca_pem,
    }
    stream = Stream(spark, cluster.address("SASL_SSL"), tmp_path, secure)
    frame = stream.frame()
    progress = stream.run_available(frame)
    assert stream.positions() == rows
    assert committed(admin, group_id) == {(topic, 0): 5}
    frame.explain(True)
    shown = [capfd.readouterr().out, *(found.json for found in progress)]
    assert "pyconsumer" in shown[0]
    assert not [text for text in shown if user.password in text]


def test_wrong_options_raise_when_the_query_starts(new_stream: NewStream, topic: str) -> None:
    with pytest.raises(Exception, match=r"option endingOffsets is for batch reads: a stream has no end"):
        new_stream(subscribe=topic, endingOffsets="latest").run_available()
    with pytest.raises(Exception, match=r"minOffsetsPerTrigger \(9\) must not be greater than"):
        new_stream(subscribe=topic, minOffsetsPerTrigger=9, maxOffsetsPerTrigger=3).run_available()
