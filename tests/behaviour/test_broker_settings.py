"""Settings of topics and brokers as clients of others read and change them, on both brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

TOPIC, BROKER = 2, 4
#: Sources of values, with the protocol's numbers.
OF_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
#: What Apache Kafka 4.3.1 says of the settings that both brokers have: type and read-only flag. None is sensitive.
FLAGS = {
    (1, False): """
        log.preallocate unclean.leader.election.enable
    """,
    (1, True): """
        auto.create.topics.enable auto.leader.rebalance.enable controlled.shutdown.enable delete.topic.enable
        log.cleaner.enable
    """,
    (2, False): """
        compression.type listener.security.protocol.map log.message.timestamp.type
    """,
    (2, True): """
        broker.rack inter.broker.listener.name
    """,
    (3, False): """
        background.threads compression.gzip.level compression.lz4.level compression.zstd.level
        log.cleaner.threads log.index.interval.bytes log.index.size.max.bytes log.segment.bytes
        max.connections max.connections.per.ip message.max.bytes min.insync.replicas num.io.threads
        num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers producer.id.expiration.ms
    """,
    (3, True): """
        broker.id default.replication.factor fetch.max.bytes group.consumer.heartbeat.interval.ms
        group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms group.consumer.max.size
        group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
        group.consumer.session.timeout.ms group.initial.rebalance.delay.ms group.max.session.timeout.ms
        group.max.size group.min.session.timeout.ms log.flush.offset.checkpoint.interval.ms
        log.flush.start.offset.checkpoint.interval.ms log.retention.hours log.retention.minutes log.roll.hours
        log.roll.jitter.hours max.incremental.fetch.session.cache.slots node.id num.partitions
        offset.metadata.max.bytes offsets.commit.timeout.ms offsets.load.buffer.size offsets.retention.minutes
        offsets.topic.compression.codec offsets.topic.num.partitions offsets.topic.segment.bytes
        queued.max.requests replica.fetch.max.bytes sasl.server.max.receive.size socket.listen.backlog.size
        socket.receive.buffer.bytes socket.request.max.bytes socket.send.buffer.bytes
        transaction.max.timeout.ms transaction.state.log.load.buffer.size transaction.state.log.min.isr
        transaction.state.log.num.partitions transaction.state.log.segment.bytes
        transactional.id.expiration.ms
    """,
    (4, True): """
        offsets.topic.replication.factor transaction.state.log.replication.factor
    """,
    (5, False): """
        log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
        log.cleaner.max.compaction.lag.ms log.cleaner.min.compaction.lag.ms log.flush.interval.messages
        log.flush.interval.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
        log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.delete.delay.ms
    """,
    (5, True): """
        connections.max.idle.ms connections.max.reauth.ms leader.imbalance.check.interval.seconds
        log.flush.scheduler.interval.ms log.retention.check.interval.ms offsets.retention.check.interval.ms
        queued.max.request.bytes replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
    """,
    (6, False): """
        log.cleaner.min.cleanable.ratio
    """,
    (7, False): """
        listeners log.cleanup.policy sasl.enabled.mechanisms
    """,
    (7, True): """
        advertised.listeners group.consumer.assignors group.coordinator.rebalance.protocols log.dir log.dirs
    """,
}
#: Changeable in Apache Kafka while it runs, but not here: the embedded broker reads them at its start.
READ_ONLY_HERE = "log.cleaner.backoff.ms sasl.enabled.mechanisms"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RawClient]:
    with cluster.raw() as raw:
        yield raw


@pytest.fixture
def new_topic(cluster: Cluster, topic_name: str) -> str:
    return cluster.create_topic(topic_name)


def described(client: RawClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """Entries of a resource by setting. All of them, or those asked for."""
    asked = DescribeConfigsResource(kind, name, list(keys) or None)
    result = client.request(DescribeConfigsRequest([asked], include_synonyms=True)).results[0]
    assert result.error_code == 0, result.error_message
    return {entry.name: entry for entry in result.configs}


def own(client: RawClient, topic: str) -> dict[str, str]:
    """The settings that the topic itself has."""
    return {
        name: entry.value for name, entry in described(client, TOPIC, topic).items() if entry.config_source == OF_TOPIC
    }


def replace(
    client: RawClient,
    kind: int,
    name: str,
    settings: dict[str, Any],
    *,
    trial: bool = False,
    version: int | None = None,
) -> Any:
    configs = [AlterableConfig(key, value) for key, value in settings.items()]
    request = AlterConfigsRequest([AlterConfigsResource(kind, name, configs)], trial)
    return client.request(request, version).responses[0]


class TestAlterConfigs:
    """The whole set of a resource's settings is replaced: what kafkajs and aiokafka send."""

    @pytest.mark.parametrize("version", range(API[ApiKey.ALTER_CONFIGS].max_version + 1))
    def test_omitted_settings_return_to_their_defaults(self, client: RawClient, new_topic: str, version: int) -> None:
        first = {"retention.ms": "5000", "cleanup.policy": "compact"}
        assert replace(client, TOPIC, new_topic, first, version=version).error_code == 0
        # Apache Kafka answers when its controller has the change; the broker that is asked follows.
        wait_until(lambda: own(client, new_topic) == first, 60, "both settings")
        assert replace(client, TOPIC, new_topic, {"retention.ms": "6000"}, version=version).error_code == 0
        wait_until(lambda: own(client, new_topic) == {"retention.ms": "6000"}, 60, "the new set")
        assert replace(client, TOPIC, new_topic, {}, version=version).error_code == 0
        wait_until(lambda: own(client, new_topic) == {}, 60, "no settings")

    def test_on_trial_only(self, client: RawClient, new_topic: str) -> None:
        assert replace(client, TOPIC, new_topic, {"retention.ms": "5000"}, trial=True).error_code == 0
        assert replace(client, TOPIC, new_topic, {"retention.ms": "soon"}, trial=True).error_code == 40
        assert own(client, new_topic) == {}

    @pytest.mark.embedded_only(
        "Apache Kafka keeps min.insync.replicas of all brokers itself (KIP-966), and refuses to drop it"
    )
    def test_of_all_brokers(self, client: RawClient) -> None:
        def now() -> dict[str, str]:
            return {name: entry.value for name, entry in described(client, BROKER, "").items()}

        try:
            settings = {"log.retention.ms": "77000", "message.max.bytes": "500000"}
            assert replace(client, BROKER, "", settings).error_code == 0
            wait_until(lambda: now() == settings, 60, "both settings")
            assert replace(client, BROKER, "", {"log.retention.ms": "78000"}).error_code == 0
            wait_until(lambda: now() == {"log.retention.ms": "78000"}, 60, "the new set")
        finally:
            replace(client, BROKER, "", {})
        wait_until(lambda: now() == {}, 60, "no settings")

    def test_of_one_broker(self, client: RawClient) -> None:
        node = str(min(client.brokers()))

        def now() -> tuple[str, int]:
            entry = described(client, BROKER, node, "message.max.bytes")["message.max.bytes"]
            return entry.value, entry.config_source

        try:
            assert replace(client, BROKER, node, {"message.max.bytes": "500000"}).error_code == 0
            wait_until(lambda: now() == ("500000", DYNAMIC_BROKER), 60, "the setting")
        finally:
            replace(client, BROKER, node, {})
        wait_until(lambda: now() == ("1048588", DEFAULT), 60, "the default")

    @pytest.mark.parametrize(
        ("kind", "name", "settings", "code"),
        [
            (TOPIC, None, {"retention.ms": "soon"}, 40),
            (TOPIC, None, {"nonsense": "1"}, 40),
            (TOPIC, None, {"retention.ms": None}, 42),
            (TOPIC, "nobody-made-it", {"retention.ms": "1"}, 3),
            (BROKER, "", {"num.partitions": "4"}, 42),
            (99, "0", {"log.retention.ms": "4"}, 42),
        ],
    )
    def test_errors(
        self, client: RawClient, new_topic: str, kind: int, name: str | None, settings: dict[str, Any], code: int
    ) -> None:
        answer = replace(client, kind, name if name is not None else new_topic, settings)
        assert answer.error_code == code
        assert answer.error_message
        assert own(client, new_topic) == {}

    @pytest.mark.embedded_only("Apache Kafka 4.3.1 does not answer a request in which every resource is named twice")
    def test_a_resource_or_a_setting_twice(self, client: RawClient, new_topic: str) -> None:
        one = AlterConfigsResource(TOPIC, new_topic, [AlterableConfig("retention.ms", "1")])
        answer = client.request(AlterConfigsRequest([one, one]))
        assert [response.error_code for response in answer.responses] == [42, 42]
        twice = AlterConfigsResource(TOPIC, new_topic, [AlterableConfig("retention.ms", "1")] * 2)
        assert client.request(AlterConfigsRequest([twice])).responses[0].error_code == 42
        assert own(client, new_topic) == {}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
class TestOtherClients:
    def test_aiokafka_alters_a_topic(self, cluster: Cluster, client: RawClient, new_topic: str) -> None:
        library = pytest.importorskip("aiokafka.admin")
        replace(client, TOPIC, new_topic, {"cleanup.policy": "compact"})
        wait_until(lambda: own(client, new_topic) == {"cleanup.policy": "compact"}, 60, "the first setting")

        async def alter() -> list[Any]:
            admin = library.AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
            await admin.start()
            try:
                kind = library.config_resource.ConfigResourceType.TOPIC
                resource = library.config_resource.ConfigResource(kind, new_topic, {"retention.ms": "123456"})
                return list(await admin.alter_configs([resource]))
            finally:
                await admin.close()

        answers = asyncio.run(alter())
        assert [resource[0] for answer in answers for resource in answer.resources] == [0]
        wait_until(lambda: own(client, new_topic) == {"retention.ms": "123456"}, 60, "the whole new set")

    def test_kafka_python_alters_a_topic(self, cluster: Cluster, client: RawClient, new_topic: str) -> None:
        library = pytest.importorskip("kafka.admin")
        admin = library.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        try:
            resource = library.ConfigResource("TOPIC", new_topic, {"retention.ms": "123456"})
            answer = admin.alter_configs([resource], incremental=False)
        finally:
            admin.close()
        assert answer == {"topic": {new_topic: "OK"}}
        wait_until(lambda: own(client, new_topic) == {"retention.ms": "123456"}, 60, "the setting")


class TestWhatABrokerShowsOfItself:
    def test_its_id_and_addresses(self, client: RawClient) -> None:
        node, address = next(iter(client.brokers().items()))
        found = described(client, BROKER, str(node), "advertised.listeners", "node.id", "broker.id")
        assert f"PLAINTEXT://{address}" in found["advertised.listeners"].value.split(",")
        assert found["node.id"].value == found["broker.id"].value == str(node)
        assert {name: entry.config_type for name, entry in found.items()} == {
            "advertised.listeners": 7,
            "broker.id": 3,
            "node.id": 3,
        }
        for entry in found.values():
            assert (entry.read_only, entry.is_sensitive, entry.config_source) == (True, False, STATIC)
            assert (entry.synonyms[0].name, entry.synonyms[0].source) == (entry.name, STATIC)

    def test_types_and_flags(self, cluster_kind: str, client: RawClient) -> None:
        found = described(client, BROKER, str(min(client.brokers())))
        for (kind, read_only), names in FLAGS.items():
            for name in names.split():
                here = read_only or (cluster_kind == "embedded" and name in READ_ONLY_HERE.split())
                entry = found[name]
                assert (name, entry.config_type, entry.read_only) == (name, kind, here)
                assert not entry.is_sensitive
        assert "zookeeper.connect" not in found
        assert not [name for name, entry in found.items() if entry.is_sensitive and entry.value is not None]
        if cluster_kind == "embedded":
            assert not [name for name in found if "password" in name or "jaas" in name]

    def test_synonyms(self, client: RawClient) -> None:
        found = described(client, BROKER, str(min(client.brokers())))
        for name in ("listeners", "broker.id"):
            assert [(synonym.name, synonym.source) for synonym in found[name].synonyms] == [
                (name, STATIC),
                (name, DEFAULT),
            ]
        assert found["listeners"].synonyms[1].value == "PLAINTEXT://:9092"
        assert (found["broker.rack"].value, found["broker.rack"].synonyms) == (None, [])
