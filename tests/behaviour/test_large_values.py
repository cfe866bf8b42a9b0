"""Values that are so large that the C library treats their memory in another way."""

from __future__ import annotations

import platform
import sys

import pytest

from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.process import run

_READS_A_TOPIC_AGAIN_AND_AGAIN = """
import resource, sys
from pyconsumer import KafkaConsumer, TopicPartition

servers, topic = sys.argv[1:]
with KafkaConsumer(bootstrap_servers=servers) as consumer:
    consumer.assign([TopicPartition(topic, 0)])
    for times in range(11):
        if times == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        consumer.seek_to_beginning()
        left = 40
        while left:
            left -= sum(map(len, consumer.poll(timeout_ms=1000).values()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is about glibc's allocator")
def test_their_memory_is_used_again(cluster: Cluster, topic: str) -> None:
    """Or the 400 values of 500 kB would be 49,000 pages, each of which the system fills with zeros."""
    fill(cluster, topic, 40, size=500_000, each=1)
    command = [sys.executable, "-c", _READS_A_TOPIC_AGAIN_AND_AGAIN, cluster.bootstrap_servers, topic]
    assert int(run(command).check().stdout) < 10_000
