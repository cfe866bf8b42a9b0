"""The settings ``listeners`` and ``advertised.listeners``."""

from __future__ import annotations

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.broker.host import ClusterOptions
from pyconsumer.broker.listener_addresses import addresses_of
from pyconsumer.errors import ConfigurationError
from pyconsumer.structs import Address


def test_addresses_of_listeners() -> None:
    given = ["INSIDE://127.0.0.1:9092", " OUTSIDE://[::1]:0", "ALL://:9094", "NAME://broker.example.org:65535"]
    assert addresses_of("listeners", given) == {
        "INSIDE": Address("127.0.0.1", 9092),
        "OUTSIDE": Address("::1", 0),
        "ALL": Address("", 9094),
        "NAME": Address("broker.example.org", 65535),
    }


@pytest.mark.parametrize(
    "text", ["INSIDE", "127.0.0.1:9092", "A://h", "A://h:x", "A://h:65536", "A://::1:9092", "A://[::1:9092", "://h:1"]
)
def test_a_listener_that_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no listener"):
        addresses_of("listeners", [text])


def test_a_listener_occurs_once() -> None:
    with pytest.raises(ConfigurationError, match="A occurs twice"):
        addresses_of("listeners", ["A://h:1", "A://h:2"])


@pytest.mark.parametrize("text", ["A://:0", "A://0.0.0.0:0"])
def test_a_broker_on_all_addresses_is_found_at_localhost(text: str) -> None:
    config = {"listeners": text, "listener.security.protocol.map": "A:PLAINTEXT"}
    with EmbeddedCluster(data_dir=":memory:", config=config, in_thread=True) as cluster:
        assert cluster.bootstrap_servers.startswith("localhost:")
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert [str(node.address) for node in admin.describe_cluster().brokers] == [cluster.bootstrap_servers]


def test_clients_find_each_broker_at_its_port() -> None:
    config = {
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        "listeners": "A://127.0.0.2:0,B://:0,C://[::]:0",
        "advertised.listeners": "A://proxy:9000",
    }
    options = ClusterOptions(listeners=("A", "B", "C"), config=config, host="127.0.0.1")
    options.check()
    assert [options.advertised(name, 2, 5000) for name in "ABC"] == [
        Address("proxy", 9002),
        Address("localhost", 5000),
        Address("localhost", 5000),
    ]
    assert [options.host_of(name) for name in "ABC"] == ["127.0.0.2", "", "::"]


def test_an_address_of_a_listener_that_does_not_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"advertised\.listeners: there is no listener X, only PLAINTEXT"):
        EmbeddedCluster(config={"advertised.listeners": "X://h:1"})


def test_tokens_at_one_listener_need_no_setting_for_all() -> None:
    config = {
        "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
        "listener.name.b.sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    options = ClusterOptions(listeners=("A", "B"), config=config)
    with pytest.raises(ConfigurationError, match="OAUTHBEARER needs the keys"):
        options.check()
    assert options.takes_tokens
    assert not ClusterOptions(listeners=("A",), config={"listener.security.protocol.map": "A:SSL"}).takes_tokens
