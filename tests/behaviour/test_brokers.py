"""The brokers that behaviour tests run on are there, and Kafka's own tools work with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyconsumer.protocol.api import API, ApiKey
from tests.support.apache_kafka import LISTENERS
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools, properties
from tests.support.proxy import KafkaProxy


@pytest.mark.smoke
def test_a_topic_has_leaders_as_soon_as_it_is_made(cluster: Cluster, topic_name: str) -> None:
    cluster.create_topic(topic_name, partitions=3)
    with cluster.raw() as client:
        assert set(client.leaders(topic_name)) == {0, 1, 2}
        assert client.brokers()


def test_a_deleted_topic_is_gone(cluster: Cluster, topic: str) -> None:
    cluster.delete_topic(topic)
    with cluster.raw() as client:
        assert client.leaders(topic) == {}


def test_a_group_finds_its_coordinator(cluster: Cluster, group_id: str) -> None:
    with cluster.raw() as client:
        assert client.coordinator(group_id) in client.brokers().values()


@pytest.mark.smoke
@pytest.mark.kafka
def test_kafkas_own_tools_write_and_read(cluster: Cluster, topic: str, kafka_tools: KafkaTools) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic)
    kafka_tools.run("ConsoleProducer", *at, input="one\ntwo\n")
    read = kafka_tools.run("ConsoleConsumer", *at, "--from-beginning", "--max-messages", "2")
    assert read.lines == ["one", "two"]


@pytest.mark.kafka
def test_clients_stay_behind_the_proxy(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str, kafka_tools: KafkaTools
) -> None:
    at = ("--bootstrap-server", proxy.bootstrap_servers, "--topic", topic)
    kafka_tools.run("ConsoleProducer", *at, input="one\ntwo\n")
    kafka_tools.run("ConsoleConsumer", *at, "--from-beginning", "--max-messages", "2", "--group", group_id)
    seen = {ApiKey(event.api_key) for event in proxy.events() if event.api_key in API}
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT} <= seen


@pytest.mark.kafka
@pytest.mark.parametrize("listener", LISTENERS)
def test_there_is_a_listener_of_each_protocol(
    cluster: Cluster, kafka_tools: KafkaTools, listener: str, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"security.protocol": listener}
    if listener.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": cluster.certificates.ca_pem}
    if listener.startswith("SASL"):
        user = cluster.credentials
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="{user.username}" password="{user.password}";'
        settings |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    (tmp_path / "client.properties").write_text(properties(settings))
    kafka_tools.run(
        "TopicCommand",
        *("--bootstrap-server", cluster.address(listener)),
        *("--command-config", str(tmp_path / "client.properties")),
        "--list",
    )


@pytest.mark.slow
def test_topics_outlive_a_kill(
    cluster_kind: str, new_cluster: Callable[..., Cluster], topic_name: str, tmp_path: Path
) -> None:
    cluster = new_cluster(cluster_kind, data_dir=tmp_path / "data")
    cluster.create_topic(topic_name)
    cluster.kill()
    cluster.restart()
    with cluster.raw() as client:
        assert set(client.leaders(topic_name)) == {0}
