"""The admin client on real brokers: topics, records, settings, groups, offsets. Errors and deadlines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec
from pyconsumer.errors import (
    AuthenticationError,
    BrokerNotAvailableError,
    ConfigurationError,
    GroupIdNotFoundError,
    IllegalStateError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.api import ApiKey, BrokerVersions
from tests.behaviour.consumer_support import member
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

MakeTopic = Callable[..., str]


def fill(cluster: Cluster, topic: str, count: int, partition: int = 0, first_ms: int = 1000) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=0) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=partition, timestamp_ms=first_ms + n)


def there(admin: KafkaAdminClient, topic: str, partitions: int = 1) -> bool:
    """Return whether a broker knows of a topic. A controller may know before."""
    try:
        return len(admin.describe_topics([topic])[0].partitions) == partitions
    except UnknownTopicOrPartitionError:
        return False


@pytest.mark.smoke
def test_topics_are_made_listed_described_and_deleted(admin: KafkaAdminClient, topic_name: str) -> None:
    made = admin.create_topics([NewTopic(topic_name, 3, 1, topic_configs={"retention.ms": "5000"})])
    assert made == {topic_name: None}
    wait_until(lambda: there(admin, topic_name, 3), 60, "the topic")
    assert topic_name in admin.list_topics()
    (described,) = admin.describe_topics([topic_name])
    assert (described.name, described.is_internal, len(described.topic_id)) == (topic_name, False, 22)
    assert [item.partition for item in described.partitions] == [0, 1, 2]
    assert all(item.leader >= 0 and item.isr == item.replicas == (item.leader,) for item in described.partitions)
    assert admin.delete_topics([topic_name]) == {topic_name: None}
    wait_until(lambda: topic_name not in admin.list_topics(), 60, "the topic's end")


def test_the_brokers_defaults_hold_for_a_name_alone(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics([topic_name])
    wait_until(lambda: there(admin, topic_name), 60, "the topic")


def test_replicas_can_be_placed_by_hand(admin: KafkaAdminClient, topic_name: str) -> None:
    node = admin.describe_cluster().brokers[0].node_id
    admin.create_topics([NewTopic(topic_name, replica_assignments={0: [node], 1: [node]})])
    wait_until(lambda: there(admin, topic_name, 2), 60, "the topic")


def test_a_check_creates_no_topic(admin: KafkaAdminClient, topic_name: str) -> None:
    admin.create_topics([NewTopic(topic_name, 1)], validate_only=True)

    with pytest.raises(UnknownTopicOrPartitionError, match=topic_name):
        admin.describe_topics([topic_name])


def test_a_topic_that_was_not_there_is_not_made_by_asking(admin: KafkaAdminClient, topic_name: str) -> None:
    for _ in range(2):
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.describe_topics([topic_name])
    assert topic_name not in admin.list_topics()


@pytest.mark.parametrize(
    ("description", "error"),
    [
        (NewTopic("not a name", 1), InvalidTopicError),
        (NewTopic("t", 0), InvalidPartitionsError),
        (NewTopic("t", 1, 40), InvalidReplicationFactorError),
        (NewTopic("t", 1, topic_configs={"no.such.setting": "1"}), InvalidConfigError),
        (NewTopic("t", 1, topic_configs={"retention.ms": "soon"}), InvalidConfigError),
    ],
    ids=["name", "partitions", "replication", "unknown setting", "wrong value"],
)
def test_topics_that_cannot_be_created_have_a_reason(
    admin: KafkaAdminClient, description: NewTopic, error: type[KafkaError]
) -> None:
    with pytest.raises(error):
        admin.create_topics([description])
    assert "t" not in admin.list_topics()


def test_one_failure_leaves_the_other_topics(admin: KafkaAdminClient, topic: str, topic_name: str) -> None:
    result = admin.create_topics([topic, topic_name], raise_errors=False)

    assert isinstance(result[topic], TopicAlreadyExistsError)
    assert topic in str(result[topic])
    assert result[topic_name] is None
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic_name + "-missing"])


def test_a_list_of_names_is_not_a_string(admin: KafkaAdminClient) -> None:
    with pytest.raises(TypeError, match="list of names"):
        admin.delete_topics("flights")


def test_partitions_grow_and_never_shrink(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    admin.create_partitions({topic: NewPartitions(3)}, validate_only=True)
    assert len(admin.describe_topics([topic])[0].partitions) == 2
    admin.create_partitions({topic: 4})
    wait_until(lambda: there(admin, topic, 4), 60, "four partitions")
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 1})


def test_records_are_deleted_up_to_an_offset(admin: KafkaAdminClient, cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    fill(cluster, topic, 10)
    assert admin.delete_records({tp: 4}) == {tp: 4}
    first = admin.list_offsets({tp: OffsetSpec.EARLIEST})[tp]
    assert first is not None
    assert first.offset == 4
    assert admin.delete_records({tp: -1}) == {tp: 10}
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({tp: 11})


@pytest.mark.smoke
def test_offsets_by_place_and_time(admin: KafkaAdminClient, cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 5)
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def offset(spec: int, tp: TopicPartition = p0) -> int | None:
        found = admin.list_offsets({tp: spec})[tp]
        return None if found is None else found.offset

    assert [offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST), offset(OffsetSpec.MAX_TIMESTAMP)] == [0, 5, 4]
    assert [offset(1003), offset(0), offset(2000)] == [3, 0, None]
    assert [offset(OffsetSpec.EARLIEST, p1), offset(OffsetSpec.LATEST, p1), offset(5, p1)] == [0, 0, None]
    both = admin.list_offsets({p0: OffsetSpec.LATEST, p1: OffsetSpec.LATEST}, isolation_level="read_committed")
    assert {tp: found and found.offset for tp, found in both.items()} == {p0: 5, p1: 0}
    with pytest.raises(ValueError, match="isolation_level"):
        admin.list_offsets({p0: -1}, isolation_level="read")


def test_offsets_of_a_topic_that_is_missing_end_by_the_deadline(admin: KafkaAdminClient) -> None:
    started = time.monotonic()
    with pytest.raises((UnknownTopicOrPartitionError, KafkaTimeoutError)):
        admin.list_offsets({TopicPartition("no-such-topic", 0): OffsetSpec.LATEST}, timeout_ms=1000)
    assert time.monotonic() - started < 25


@pytest.mark.smoke
def test_settings_are_read_changed_and_given_back(admin: KafkaAdminClient, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)

    def setting(name: str) -> tuple[str | None, bool]:
        entry = admin.describe_configs([resource])[resource][name]
        return entry.value, entry.source == 1

    assert setting("cleanup.policy") == ("delete", False)
    admin.alter_configs({resource: {"cleanup.policy": "compact", "retention.ms": "777"}})
    wait_until(lambda: setting("retention.ms") == ("777", True), 60, "the change")
    assert setting("cleanup.policy") == ("compact", True)
    admin.alter_configs({resource: {"retention.ms": None}})
    wait_until(lambda: not setting("retention.ms")[1], 60, "the default")
    assert setting("cleanup.policy") == ("compact", True)


def test_resources_with_settings_are_listed(admin: KafkaAdminClient, topic: str, group_id: str) -> None:
    group = ConfigResource(ConfigResourceType.GROUP, group_id)
    node = admin.describe_cluster().brokers[0].node_id
    assert group not in admin.list_config_resources([ConfigResourceType.GROUP])
    admin.alter_configs({group: {"consumer.heartbeat.interval.ms": "150"}})
    wait_until(lambda: group in admin.list_config_resources([ConfigResourceType.GROUP]), 60, "the group's setting")
    found = admin.list_config_resources()
    assert found == sorted(set(found), key=lambda one: (one.resource_type, one.name))
    assert {group, ConfigResource("topic", topic), ConfigResource("broker", str(node))} <= set(found)
    of_topics = admin.list_config_resources([ConfigResourceType.TOPIC])
    assert {one.resource_type for one in of_topics} == {ConfigResourceType.TOPIC}
    assert admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == []
    with pytest.raises(ValueError, match="99"):
        admin.list_config_resources([99])  # type: ignore[list-item]
    admin.alter_configs({group: {"consumer.heartbeat.interval.ms": None}})
    wait_until(lambda: group not in admin.list_config_resources([ConfigResourceType.GROUP]), 60, "its end")


def test_wrong_settings_change_no_setting(admin: KafkaAdminClient, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    with pytest.raises(InvalidConfigError):
        admin.alter_configs({resource: {"retention.ms": "soon"}})
    with pytest.raises(InvalidConfigError):
        admin.alter_configs({resource: {"no.such.setting": "1"}})
    admin.alter_configs({resource: {"retention.ms": "777"}}, validate_only=True)
    assert admin.describe_configs([resource])[resource]["retention.ms"].source != 1
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "no-such-topic")])


def test_a_brokers_settings(admin: KafkaAdminClient) -> None:
    node = admin.describe_cluster().brokers[0].node_id
    resource = ConfigResource(ConfigResourceType.BROKER, str(node))

    settings = admin.describe_configs([resource])[resource]
    assert settings["offsets.topic.num.partitions"].value == "5"
    with pytest.raises(ValueError, match="node id"):
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "first")])
    with pytest.raises(BrokerNotAvailableError, match="no broker 4711"):
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "4711")], timeout_ms=700)


@pytest.mark.smoke
def test_the_cluster(admin: KafkaAdminClient, cluster: Cluster) -> None:
    found = admin.describe_cluster()

    assert found.cluster_id
    (broker,) = found.brokers
    assert f"{broker.host}:{broker.port}" in cluster.bootstrap_servers
    assert found.controller_id == broker.node_id


@pytest.mark.smoke
def test_a_group_with_a_member(admin: KafkaAdminClient, cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(2)
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with member(cluster, group_id, topic) as consumer:
        consumer.commit({p0: OffsetAndMetadata(3, "note", -1)})
        described = admin.describe_groups([group_id])[group_id]
        assert (described.state, described.protocol_type, described.protocol) == ("Stable", "consumer", "range")
        (one,) = described.members
        assert (one.client_id, one.assignment, one.topics) == ("the-member", (p0, p1), (topic,))
        listed = {item.group_id: item for item in admin.list_groups()}[group_id]
        assert (listed.state, listed.protocol_type, listed.coordinator_id) == (
            "Stable",
            "consumer",
            described.coordinator.node_id,
        )
        assert group_id in {item.group_id for item in admin.list_groups(states=["Stable"])}
        assert group_id not in {item.group_id for item in admin.list_groups(states=["Empty"])}
        assert admin.list_group_offsets(group_id) == {p0: OffsetAndMetadata(3, "note", -1)}
        assert admin.list_group_offsets(group_id, [p1]) == {}
        with pytest.raises(NonEmptyGroupError):
            admin.delete_groups([group_id])
        with pytest.raises(UnknownMemberIdError):
            admin.alter_group_offsets(group_id, {p0: OffsetAndMetadata(0)})


def test_an_empty_group_is_changed_and_deleted(
    admin: KafkaAdminClient, cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_group_offsets(group_id, {p0: OffsetAndMetadata(1), p1: OffsetAndMetadata(2)})
    with member(cluster, group_id, topic) as consumer:
        assert consumer.committed(p1) == 2
    admin.alter_group_offsets(group_id, {p0: OffsetAndMetadata(7, "set by hand", -1)})
    assert admin.list_group_offsets(group_id)[p0] == OffsetAndMetadata(7, "set by hand", -1)
    admin.delete_group_offsets(group_id, [p1])
    assert set(admin.list_group_offsets(group_id)) == {p0}
    assert admin.describe_groups([group_id])[group_id].state == "Empty"
    assert admin.delete_groups([group_id]) == {group_id: None}
    assert admin.list_group_offsets(group_id) == {}
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_groups([group_id])
    missing = admin.delete_groups([group_id], raise_errors=False)[group_id]
    assert isinstance(missing, GroupIdNotFoundError)


@pytest.mark.parametrize("versions", ["newest", "one group in a request"])
def test_many_groups_take_few_requests(
    admin: KafkaAdminClient,
    cluster: Cluster,
    topic: str,
    group_id: str,
    versions: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if versions != "newest":  # as brokers before 3.0
        newest = {int(ApiKey.FIND_COORDINATOR): 3, int(ApiKey.OFFSET_FETCH): 7}

        def older(keys: Iterable[tuple[int, int, int]]) -> BrokerVersions:
            return BrokerVersions({key: (first, min(last, newest.get(key, last))) for key, first, last in keys})

        monkeypatch.setattr(BrokerVersions, "of", older)
    names = [f"{group_id}-{n}" for n in range(30 if versions == "newest" else 3)]
    tp = TopicPartition(topic, 0)
    for n, name in enumerate(names):
        admin.alter_group_offsets(name, {tp: OffsetAndMetadata(n)})

    def requests() -> float:
        return admin.metrics()["admin-client-metrics"]["request-total"] or 0.0

    with member(cluster, names[0], topic, group_protocol="consumer") as consumer:
        consumer.commit({tp: OffsetAndMetadata(5)})
        before = requests()
        described = admin.describe_groups(names)
        assert [(group.group_id, len(group.members)) for group in described.values()] == [
            (name, int(name == names[0])) for name in names
        ]
        assert described[names[0]].group_type == "consumer"
        found = admin.list_offsets_of_groups([*names, f"{group_id}-missing"])
        assert {name: offsets[tp].offset for name, offsets in found.items() if offsets} == {
            name: n or 5 for n, name in enumerate(names)
        }
        assert found[f"{group_id}-missing"] == {}
        assert (requests() - before <= 8) == (versions == "newest")
    with pytest.raises(GroupIdNotFoundError, match="missing"):
        admin.describe_groups([*names, f"{group_id}-missing"])


def test_offsets_of_a_group_that_never_was(admin: KafkaAdminClient, group_id: str) -> None:
    assert admin.list_group_offsets(group_id) == {}


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_encrypted_and_authenticated(cluster: Cluster, protocol: str) -> None:
    with KafkaAdminClient(secured(cluster, protocol)) as admin:
        assert admin.describe_cluster().brokers


def test_a_refused_login_raises_at_once(cluster: Cluster) -> None:
    started = time.monotonic()
    with KafkaAdminClient(secured(cluster, "SASL_SSL") | {"sasl_plain_password": "wrong"}) as admin:
        with pytest.raises(AuthenticationError, match=r"SASL with .* failed"):
            admin.list_topics()
        with pytest.raises(AuthenticationError):
            admin.create_topics(["t"])
    assert time.monotonic() - started < 40


def secured(cluster: Cluster, protocol: str) -> dict[str, Any]:
    options: dict[str, Any] = {"bootstrap_servers": cluster.address(protocol), "security_protocol": protocol}
    if "SSL" in protocol:
        options["ssl_cafile"] = str(cluster.certificates.ca_pem)
    if "SASL" in protocol:
        options |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": cluster.credentials.username,
            "sasl_plain_password": cluster.credentials.password,
        }
    return options


def test_lost_connections_and_moved_coordinators_are_repeated(
    cluster: Cluster, topic: str, group_id: str, proxy: KafkaProxy
) -> None:
    tp = TopicPartition(topic, 0)
    with KafkaAdminClient(bootstrap_servers=proxy.bootstrap_servers, retry_backoff_ms=20) as admin:
        proxy.cut(ApiKey.METADATA, direction="response", keep_bytes=10)
        assert topic in admin.list_topics()
        proxy.fail(ApiKey.LIST_OFFSETS, error_code=6)  # NOT_LEADER_OR_FOLLOWER
        assert admin.list_offsets({tp: OffsetSpec.LATEST})[tp] is not None
        proxy.fail(ApiKey.FIND_COORDINATOR, error_code=15)  # COORDINATOR_NOT_AVAILABLE
        proxy.fail(ApiKey.OFFSET_COMMIT, error_code=16)  # NOT_COORDINATOR
        admin.alter_group_offsets(group_id, {tp: OffsetAndMetadata(5)})
        assert admin.list_group_offsets(group_id)[tp].offset == 5


CALLS: dict[str, Callable[[KafkaAdminClient], object]] = {
    "list_topics": lambda admin: admin.list_topics(timeout_ms=600),
    "describe_cluster": lambda admin: admin.describe_cluster(timeout_ms=600),
    "create_topics": lambda admin: admin.create_topics(["t"], timeout_ms=600),
    "delete_topics": lambda admin: admin.delete_topics(["t"], timeout_ms=600),
    "create_partitions": lambda admin: admin.create_partitions({"t": 2}, timeout_ms=600),
    "delete_records": lambda admin: admin.delete_records({TopicPartition("t", 0): 1}, timeout_ms=600),
    "list_offsets": lambda admin: admin.list_offsets({TopicPartition("t", 0): -1}, timeout_ms=600),
    "describe_configs": lambda admin: admin.describe_configs(
        [ConfigResource(ConfigResourceType.BROKER, "0")], timeout_ms=600
    ),
    "alter_configs": lambda admin: admin.alter_configs(
        {ConfigResource(ConfigResourceType.TOPIC, "t"): {}}, timeout_ms=600
    ),
    "list_groups": lambda admin: admin.list_groups(timeout_ms=600),
    "describe_groups": lambda admin: admin.describe_groups(["g"], timeout_ms=600),
    "delete_groups": lambda admin: admin.delete_groups(["g"], timeout_ms=600),
    "list_group_offsets": lambda admin: admin.list_group_offsets("g", timeout_ms=600),
    "alter_group_offsets": lambda admin: admin.alter_group_offsets(
        "g", {TopicPartition("t", 0): OffsetAndMetadata(1)}, timeout_ms=600
    ),
}


@pytest.mark.concurrent
@pytest.mark.parametrize("call", CALLS)
def test_with_every_broker_dead_a_call_ends_in_time_and_says_who_was_tried(call: str, dead_address: str) -> None:
    started = time.monotonic()
    with (
        KafkaAdminClient(bootstrap_servers=dead_address) as admin,
        pytest.raises((KafkaTimeoutError, KafkaConnectionError), match=f"TCP.*{dead_address}"),
    ):
        CALLS[call](admin)
    assert time.monotonic() - started < 25


@pytest.mark.blocking_only("only tasks of one loop may share the client for asyncio: see test_aio_producer")
def test_calls_of_several_threads_take_turns(admin: KafkaAdminClient, topic: str) -> None:
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(topic in admin.list_topics()), name=f"caller-{n}")
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [True] * 6


@pytest.mark.blocking_only("an event loop does not survive a fork; test_aio_producer has the rest")
def test_closed_and_forked(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.list_topics()
    child = os.fork()
    if not child:
        status = 1
        try:
            admin.list_topics()
        except IllegalStateError:
            admin.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    admin.list_topics()
    admin.close()
    admin.close()
    with pytest.raises(IllegalStateError, match="closed"):
        admin.list_topics()


def test_a_broker_keeps_settings_that_it_does_not_know(admin: KafkaAdminClient, topic: str) -> None:
    node = ConfigResource("broker", str(admin.describe_cluster().brokers[0].node_id))
    everyone = ConfigResource("broker", "")
    unknown, kerberos, threads = f"{topic}.speed", "sasl.kerberos.min.time.before.relogin", "num.network.threads"

    def shown(resource: ConfigResource, name: str) -> tuple[object, ...]:
        entry = admin.describe_configs([resource])[resource].get(name)
        return entry and (entry.value, entry.source, entry.is_sensitive, entry.read_only)

    def wait_for(resource: ConfigResource, name: str, expected: tuple[object, ...] | None) -> None:
        wait_until(lambda: shown(resource, name) == expected, 60, f"{name} of {resource.name!r}")

    for resource, source in ((everyone, 3), (node, 2)):
        admin.alter_configs({resource: {unknown: "1", threads: "4"}})
        wait_for(resource, unknown, (None, source, True, True))
        wait_for(resource, threads, ("4", source, False, False))
    admin.alter_configs({node: {kerberos: "58000"}})
    wait_for(node, kerberos, ("58000", 2, False, False))
    with pytest.raises(InvalidRequestError, match="broker id must be specified"):
        admin.alter_configs({everyone: {kerberos: "58000"}})
    with pytest.raises(InvalidRequestError, match="Cannot update these configs dynamically"):
        admin.alter_configs({node: {"log.dirs": "elsewhere"}})
    admin.alter_configs({node: dict.fromkeys((unknown, threads, kerberos)), everyone: {unknown: None, threads: None}})
    wait_for(node, unknown, None)


def test_an_unknown_setting_is_raised_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        KafkaAdminClient(bootstrap_server="localhost:9092")
