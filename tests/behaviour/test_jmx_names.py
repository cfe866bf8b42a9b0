"""Names and labels for Prometheus against ``jmx_prometheus_javaagent``, for Java clients that do the same work."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")  # the extra [prometheus]

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.metrics import Metric, serve
from pyconsumer.metrics.prometheus import name_of
from pyconsumer.metrics.table import ADMIN, CONSUMER, PRODUCER, Spec
from tests.behaviour.consumer_support import read
from tests.support.cluster import Cluster
from tests.support.java import cache_folder, fetch_jars, need_jars, tools
from tests.support.process import GuardedProcess, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_AGENT = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
_SAMPLE = re.compile(r"^(kafka_(?:consumer|producer|admin_client)_\w+)(?:\{(.*)\})? \S+$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

#: The kinds of clients, as they are in names.
_TABLES = {"consumer": CONSUMER, "producer": PRODUCER, "admin-client": ADMIN}


def names_of(page: str) -> dict[str, set[tuple[str, ...]]]:
    """Return the label names of each sample of a client, by the sample's name."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match:
            labels = tuple(sorted(name for name, _ in _LABEL.findall(match[2] or "")))
            found.setdefault(match[1], set()).add(labels)
    return found


def labels_of(page: str) -> dict[str, set[tuple[tuple[str, str], ...]]]:
    """Return the values of ``node-id``, ``topic`` and ``partition`` of each sample of a client, by the sample's name.

    Nodes without a broker's id, such as those of bootstrap addresses, are left out. So is Java's own coordinator.
    """
    found: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match:
            labels = {name: value for name, value in _LABEL.findall(match[2] or "") if name != "client_id"}
            if re.fullmatch(r"node-\d{1,6}", labels.get("node_id", "node-1")):
                found.setdefault(match[1], set()).add(tuple(sorted(labels.items())))
    return found


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        text: str = response.read().decode()
    return text


@pytest.fixture
def agent() -> Path:
    need_jars()
    (jar,) = fetch_jars(cache_folder() / "jmx-agent-1.0.1", [_AGENT], alone=True).glob("*.jar")
    return jar


@pytest.fixture
def java(cluster: Cluster, topic: str, group_id: str, agent: Path, tmp_path: Path) -> Iterator[str]:
    """What the agent serves of Java's clients."""
    empty = tmp_path / "empty.yaml"
    empty.write_text("{}\n")
    program = Path(__file__).parent / "JmxClients.java"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = tools().java(str(program), cluster.bootstrap_servers, topic, group_id)
    command.insert(1, f"-javaagent:{agent}=127.0.0.1:{port}:{empty}")
    process = GuardedProcess(command)
    try:
        wait_until(lambda: "ready" in process.stdout or not process.running, 120, "Java's clients have not worked")
        assert process.running, process.stderr
        yield scrape(port)
    finally:
        process.stop()


@pytest.fixture
def ours(cluster: Cluster, topic: str, group_id: str) -> Iterator[str]:
    """What we serve of clients that do the same."""
    servers = cluster.bootstrap_servers
    with (
        serve(0) as server,
        KafkaProducer(bootstrap_servers=servers, client_id="writer") as producer,
        KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            client_id="reader",
            group_id=f"{group_id}-ours",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        KafkaAdminClient(bootstrap_servers=servers, client_id="boss") as admin,
    ):
        for n in range(10):
            producer.send(topic, b"%d" % n).get(30)
        admin.list_topics()
        read(consumer, 10)
        consumer.commit()
        consumer.poll(200)
        yield scrape(server.port)


def _names(select: Callable[[Spec], bool]) -> set[str]:
    """Return the names of some metrics of the table."""
    return {
        name_of(domain, Metric(spec.name, family.group, {}, "", "", 0.0))
        for domain, families in _TABLES.items()
        for family in families
        for spec in family.specs
        if select(spec)
    }


def test_names_and_labels_are_those_of_the_agent(java: str, ours: str) -> None:
    """A name that has partitions, too, exists with and without their labels, as in Java."""
    theirs, served = names_of(java), names_of(ours)
    both = set(theirs) & set(served)
    assert len(both) > 150
    assert {name: theirs[name] for name in both} == {name: served[name] for name in both}
    theirs_by, ours_by = labels_of(java), labels_of(ours)
    assert {name: theirs_by.get(name) for name in both} == {name: ours_by.get(name) for name in both}
    lag = served["kafka_consumer_consumer_fetch_manager_metrics_records_consumed"]
    assert {len(labels) for labels in lag} == {1, 2}, "of the client and of a topic"
    assert set(served) - set(theirs) <= _names(lambda spec: spec.ours)
    averages = {name for name in set(theirs) - set(served) if re.search("(?:_avg|_max|_min)$", name)}
    assert averages <= _names(lambda spec: True), "these have no value yet: NaN is left out"
    assert set(theirs) - set(served) - averages <= _names(lambda spec: bool(spec.reason))
