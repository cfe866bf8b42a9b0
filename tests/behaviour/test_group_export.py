"""``pyconsumer groups export``: the lag of groups over HTTP, as a scraper sees it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("prometheus_client")  # the extra [prometheus]

from pyconsumer import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from tests.behaviour.consumer_support import member
from tests.support.cluster import Cluster

COMMAND = (sys.executable, "-m", "pyconsumer", "groups", "export", "--port", "0")


@contextmanager
def exporting(cluster: Cluster, *options: str, may_say: str = "") -> Iterator[str]:
    """The address of a running command. It ends with the status of a signal, and says nothing but ``may_say``."""
    command = [*COMMAND, "-b", cluster.bootstrap_servers, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("serving http://127.0.0.1:"), process.stderr.read()
            yield line.split()[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
        assert set(process.stderr.read().splitlines()) <= {may_say}


def scrape(url: str) -> dict[str, float]:
    """Return the samples by name and labels, those of Python's process left out."""
    with urllib.request.urlopen(url, timeout=60) as response:
        lines = response.read().decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in found.items()}


@pytest.mark.concurrent
@pytest.mark.smoke
def test_lag_of_the_groups_that_a_pattern_names(cluster: Cluster, topic: str, group_id: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x"] * 5).get(60)
    partition = TopicPartition(topic, 0)
    other = f"{group_id}-other"
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for name in (group_id, other):
            admin.alter_group_offsets(name, {partition: OffsetAndMetadata(2)})
        pattern = f"{re.escape(group_id)}.*"
        with exporting(cluster, "--group", pattern, "--exclude", ".*-other") as url:
            labels = f'consumergroup="{group_id}",partition="0",topic="{topic}"'
            by_topic = f'consumergroup="{group_id}",topic="{topic}"'
            assert scrape(url) == {
                f"kafka_consumergroup_current_offset{{{labels}}}": 2,
                f"kafka_consumergroup_current_offset_sum{{{by_topic}}}": 2,
                f"kafka_consumergroup_lag{{{labels}}}": 3,
                f"kafka_consumergroup_lag_sum{{{by_topic}}}": 3,
                f'kafka_consumergroup_members{{consumergroup="{group_id}"}}': 0,
                "pyconsumer_groups_up": 1,
            }
            admin.alter_group_offsets(group_id, {partition: OffsetAndMetadata(4)})
            assert scrape(url)[f"kafka_consumergroup_lag{{{labels}}}"] == 1
            admin.delete_groups([group_id])
            assert scrape(url) == {"pyconsumer_groups_up": 1}
        with exporting(cluster, "--group", pattern) as url:
            assert f'kafka_consumergroup_members{{consumergroup="{other}"}}' in scrape(url)


@pytest.mark.concurrent
def test_a_member_without_a_commit_and_a_topic_that_is_gone(
    cluster: Cluster, make_topic: object, group_id: str
) -> None:
    assert callable(make_topic)
    topic, gone = make_topic(1), make_topic(1)
    leaderless = f"Error: end of {gone}-0 unknown: the partition has no leader"  # for a moment, on Apache Kafka
    with (
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        member(cluster, group_id, topic),
        exporting(cluster, "--group", f"{re.escape(group_id)}.*", may_say=leaderless) as url,
    ):
        admin.alter_group_offsets(f"{group_id}-2", {TopicPartition(gone, 0): OffsetAndMetadata(0)})
        admin.delete_topics([gone])
        found = scrape(url)
    labels = f'consumergroup="{group_id}",partition="0",topic="{topic}"'
    assert found[f"kafka_consumergroup_current_offset{{{labels}}}"] == -1
    assert found[f"kafka_consumergroup_lag{{{labels}}}"] == -1
    assert found[f'kafka_consumergroup_members{{consumergroup="{group_id}"}}'] == 1
    labels = f'consumergroup="{group_id}-2",partition="0",topic="{gone}"'
    assert found.get(f"kafka_consumergroup_lag{{{labels}}}", -1) == -1, "Kafka drops the offsets of a deleted topic"


@pytest.mark.embedded_only("a broker that ends")
def test_a_cluster_that_does_not_answer(new_cluster: object) -> None:
    assert callable(new_cluster)
    cluster = new_cluster("embedded")
    command = [*COMMAND, "-b", cluster.bootstrap_servers, "--timeout-ms", "2000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().split()[1]
        assert scrape(url) == {"pyconsumer_groups_up": 1}
        cluster.stop()
        assert scrape(url) == {"pyconsumer_groups_up": 0}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        errors = process.stderr.read()
    assert "\nError: " in f"\n{errors}"
    assert "Traceback" not in errors
