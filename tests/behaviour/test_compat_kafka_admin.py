"""Calls of kafka-python's admin client that only ``pyconsumer.compat.kafka`` has, beside kafka-python's own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import pyconsumer.compat.kafka
from pyconsumer import KafkaConsumer
from pyconsumer.compat.kafka.admin import shapes
from pyconsumer.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until

_PACKAGES = ("kafka", "pyconsumer.compat.kafka")
NO_ELECTION_NEEDED, UNKNOWN_PARTITION = 84, 3


@pytest.fixture(params=_PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    """kafka-python, and ours in its place."""
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    return importlib.import_module(request.param)


@pytest.fixture
def theirs(package: ModuleType, cluster: Cluster) -> Iterator[Any]:
    """The admin client of the package."""
    client = package.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


def both(cluster: Cluster) -> Iterator[Any]:
    """The admin client of each package, kafka-python's first."""
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    for name in _PACKAGES:
        client = importlib.import_module(name).KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        yield client
        client.close()


def test_log_directories(cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 5)
    for asked in ({}, {topic: [0]}, {topic: [0, 1, 7]}, [topic]):
        original, ours = (client.describe_log_dirs(asked) for client in both(cluster))
        for found in (*original, *ours):
            for each in found["log_dirs"]:
                assert each.pop("usable_bytes") > 0  # other programs use the disk, too
        assert ours == original
    [shown] = [each for found in ours for each in found["log_dirs"][0]["topics"]]
    sizes = {each["partition_index"]: each["partition_size"] for each in shown["partitions"]}
    assert sizes[0] > sizes[1] == 0


def test_features_and_versions(cluster: Cluster) -> None:
    original, ours = (
        (client.describe_features(), client.describe_features(send_request_to_controller=True), client.api_versions())
        for client in both(cluster)
    )
    for features in (*original[:2], *ours[:2]):
        for feature in features.values():
            epoch = feature.pop("finalized_epoch", 0)  # in Apache Kafka each change of the cluster raises it
            assert epoch >= 0
    assert ours == original
    assert ours[0]["transaction.version"]["finalized"] == (2, 2)


def test_an_election_that_is_not_needed(theirs: Any, package: ModuleType, cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(2)
    response = theirs.elect_leaders(0, {topic: [0, 1]})
    assert (response.error_code, len(response.replica_election_results)) == (0, 1)
    name, partitions = response.replica_election_results[0][:2]
    assert name == topic
    assert sorted(tuple(each[:2]) for each in partitions) == [(0, NO_ELECTION_NEEDED), (1, NO_ELECTION_NEEDED)]
    assert {each.error_code for each in response.replica_election_results[0].partition_result} == {NO_ELECTION_NEEDED}
    assert [len(each[1]) for each in theirs.elect_leaders(1, [topic]).replica_election_results] == [2]
    errors = importlib.import_module(f"{package.__name__}.errors")
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        theirs.elect_leaders(0, {topic: [7]})
    found = theirs.elect_leaders(0, {topic: [7]}, raise_errors=False)
    assert [each[1] for each in found.replica_election_results[0][1]] == [UNKNOWN_PARTITION]
    with pytest.raises(ValueError):
        theirs.elect_leaders(2, {topic: [0]})


def test_reassignments(theirs: Any, package: ModuleType, make_topic: Any) -> None:
    topic = make_topic(2)
    for asked in (None, {}, {topic: [0, 7]}, [package.TopicPartition(topic, 0), package.TopicPartition("absent", 1)]):
        assert theirs.list_partition_reassignments(asked) == {}


def test_a_reassignment_has_kafka_pythons_keys() -> None:
    found = shapes.reassignment(OngoingPartitionReassignment(7, [1, 2, 3], [3], [1]))
    assert found == {"replicas": [1, 2, 3], "adding_replicas": [3], "removing_replicas": [1]}


@pytest.mark.cluster
@pytest.mark.slow
def test_a_preferred_leader_is_elected(nodes: Cluster, topic_name: str) -> None:
    from pyconsumer.compat.kafka import KafkaAdminClient

    nodes.create_topic(topic_name, 1, replication_factor=3)
    with KafkaAdminClient(bootstrap_servers=nodes.bootstrap_servers) as admin:

        def state() -> dict[str, Any]:
            [described] = admin.describe_topics([topic_name])
            found: dict[str, Any] = described["partitions"][0]
            return found

        preferred = state()["replicas"][0]
        nodes.kill(preferred)
        wait_until(lambda: state()["leader"] not in (-1, preferred), 60, "another leader")
        nodes.restart(preferred)
        wait_until(lambda: preferred in state()["isr"], 120, "the preferred replica in sync")
        if state()["leader"] != preferred:
            [(_, [result])] = admin.elect_leaders(0, {topic_name: [0]}).replica_election_results
            assert result.error_code in (0, NO_ELECTION_NEEDED)
        wait_until(lambda: state()["leader"] == preferred, 60, "the preferred leader")


def test_members_are_removed(theirs: Any, package: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    member = importlib.import_module(f"{package.__name__}.admin").MemberToRemove
    errors = importlib.import_module(f"{package.__name__}.errors")
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        group_instance_id="first",
        session_timeout_ms=60_000,
    ) as consumer:
        wait_until(lambda: bool(consumer.poll(timeout_ms=100) or consumer.assignment()), 60, "the assignment")
    assert len(theirs.describe_groups([group_id])[group_id]["members"]) == 1  # a static member stays
    found = theirs.remove_group_members(
        group_id, [member(group_instance_id="first", reason="its machine is gone"), member(member_id="nobody")]
    )
    assert sorted(each.__name__ for each in found.values()) == ["NoError", "UnknownMemberIdError"]
    assert found["nobody"] is errors.UnknownMemberIdError
    assert theirs.describe_groups([group_id])[group_id]["members"] == []
    assert theirs.remove_group_members(group_id, []) == {}


def test_the_brokers_are_shown(theirs: Any, cluster: Cluster) -> None:
    theirs.list_topics()
    assert theirs._client.least_loaded_node() in cluster.node_ids
    assert {each.node_id for each in theirs._manager.cluster.brokers()} == set(cluster.node_ids)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.embedded_only(reason="Kafka's tools and Kafka's brokers are tested by Kafka")
def test_kafkas_tools_for_elections_and_directories(cluster: Cluster, kafka_tools: KafkaTools, topic: str) -> None:
    fill(cluster, topic, 3)
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    shown = kafka_tools.run("LogDirsCommand", *servers, "--describe", "--topic-list", topic).stdout
    assert f'"partition":"{topic}-0"' in shown
    said = kafka_tools.run(
        "LeaderElectionCommand", *servers, "--election-type", "preferred", "--topic", topic, "--partition", "0"
    )
    assert "Valid replica already elected" in said.stdout + said.stderr


def described(client: Any, topic: str, group_id: str) -> tuple[list[Any], list[Any]]:
    """Return the operations in four results of an admin client, and a setting without synonyms and with them."""
    found = [client.describe_cluster(), *client.describe_topics([topic, f"{topic}-missing"])]
    found += [client.describe_groups([name])[name] for name in (group_id, f"{group_id}-missing")]
    operations = [each["authorized_operations"] and sorted(each["authorized_operations"]) for each in found]
    types = importlib.import_module(type(client).__module__.partition(".admin")[0] + ".admin")
    settings = []
    for asks in (False, True):
        asked = [types.ConfigResource("TOPIC", topic, ["cleanup.policy"])]
        answer = client.describe_configs(asked, include_synonyms=asks, config_filter="all")
        settings.append(answer["topic"][topic]["cleanup.policy"])
        settings[-1].pop("is_default", None)  # of kafka-python 2.x
    return operations, settings


def test_authorized_operations_and_synonyms(cluster: Cluster, topic: str, group_id: str) -> None:
    """kafka-python returns the operations always. Its lists of them have no order."""
    fill(cluster, topic, 1)
    login: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
    }
    with KafkaConsumer(topic, **login) as consumer:
        assert consumer.poll(timeout_ms=20_000)
    results = []
    for client in both(cluster):
        results.append(described(client, topic, group_id))
        if isinstance(client, pyconsumer.compat.kafka.KafkaAdminClient):
            [without] = client.describe_consumer_groups([group_id])
            [asked] = client.describe_consumer_groups([group_id], include_authorized_operations=True)
    original, (operations, settings) = results
    assert set(original[0].pop(2)) == set(operations[1])  # of a topic that does not exist
    assert operations.pop(2) is None
    assert original == (operations, settings)
    assert [bool(each) for each in operations] == [True, True, True, False]
    assert [bool(each["synonyms"]) for each in settings] == [False, True]
    assert without.authorized_operations is None
    assert sorted(asked.authorized_operations or ()) == operations[2]
