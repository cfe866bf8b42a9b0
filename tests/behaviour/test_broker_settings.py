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


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RawClient]:
    with cluster.raw() as raw:
        yield raw


@pytest.fixture
def new_topic(cluster: Cluster, topic_name: str) -> str:
    return cluster.create_topic(topic_name)


def described(client: RawClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """Entries of a resource by setting; all of them, or those asked for."""
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
    def test_what_is_left_out_returns_to_its_default(self, client: RawClient, new_topic: str, version: int) -> None:
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
