"""Settings of single brokers, which ``EmbeddedCluster(broker_configs=...)`` takes."""

from __future__ import annotations

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import ConfigResource, ConfigResourceType
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import ConfigurationError

RACKS = {0: {"broker.rack": "a"}, 1: {"broker.rack": "b", "message.max.bytes": 5000}}


def test_each_broker_has_its_settings_before_and_after_a_kill() -> None:
    with (
        EmbeddedCluster(3, config={"broker.rack": "c"}, broker_configs=RACKS, in_thread=True) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):

        def racks() -> list[str | None]:
            return [broker.rack for broker in sorted(admin.describe_cluster().brokers)]

        assert racks() == ["a", "b", "c"]
        sizes = [
            admin.describe_configs([resource])[resource]["message.max.bytes"].value
            for resource in (ConfigResource(ConfigResourceType.BROKER, str(node_id)) for node_id in range(2))
        ]
        assert sizes == ["1048588", "5000"]
        cluster.kill_broker(1)
        cluster.restart_broker(1)
        assert racks() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({2: {"broker.rack": "a"}}, "there is no broker 2, only 0 to 1"),
        ({"0": {"broker.rack": "a"}}, "there is no broker '0'"),
        ({0: {"broker.rak": "a"}}, "broker.rack"),
        ({0: {"message.max.bytes": -1}}, "message.max.bytes"),
        ({1: {"super.users": "User:eve"}}, "super.users is a setting of the whole cluster"),
        ({1: {"listeners": "PLAINTEXT://:9092"}}, "listeners is a setting of the whole cluster"),
    ],
)
def test_mistakes_are_named(given: dict, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        EmbeddedCluster(2, data_dir=":memory:", broker_configs=given)
