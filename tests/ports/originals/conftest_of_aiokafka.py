"""Takes the place of ``tests/conftest.py`` of aiokafka: the embedded broker, and our clients under aiokafka's names."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import aiokafka.consumer
import aiokafka.producer  # noqa: F401
import pytest
from stand_ins import provide

from pyconsumer.acls import AclBinding, AclOperation, AclPermission, ResourceType
from pyconsumer.broker import EmbeddedCluster

provide(
    "aiokafka.consumer.fetcher",
    "aiokafka.producer.transaction_manager",
    "aiokafka.protocol",
    "aiokafka.protocol.produce",
    "aiokafka.record",
)
timeouts: Any = ModuleType("async_timeout")
timeouts.timeout = asyncio.timeout
sys.modules.setdefault("async_timeout", timeouts)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ssl: needs certificates, which aiokafka makes in a container")


@pytest.fixture(scope="session")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
        users={"test": "test"},
        acls=[],
        config={
            "allow.everyone.if.no.acl.found": True,  # as aiokafka's own broker has it
            "super.users": "User:ANONYMOUS",
            "num.partitions": 2,
            "group.initial.rebalance.delay.ms": 0,
        },
    ) as found:
        yield found


class AclManager:
    """Rules as aiokafka's tests make them, which call Kafka's tool in a container."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._made: list[AclBinding] = []

    def list_acl(self) -> None:
        """Do nothing: no test looks at the result."""

    def add_acl(
        self,
        operation: str,
        allow_principal: str | None = None,
        deny_principal: str | None = None,
        *,
        cluster: bool = False,
        **resource: str,
    ) -> None:
        kind, name = ("cluster", "kafka-cluster") if cluster else next(iter(resource.items()))
        permission = AclPermission.ALLOW if allow_principal else AclPermission.DENY
        who, what = f"User:{allow_principal or deny_principal}", AclOperation[operation.upper()]
        rule = AclBinding(ResourceType[kind.upper()], name, who, what, "*", permission)
        self._cluster.add_acls(rule)
        self._made.append(rule)

    def cleanup(self) -> None:
        self._cluster.remove_acls(*self._made)
        self._made.clear()


class KafkaConfig:
    def add_scram_user(self, username: str, password: str) -> None:
        assert (username, password) == ("test", "test"), "the cluster has no other user"


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    asyncio.set_event_loop(found)
    yield found
    if not found.is_closed():
        found.call_soon(found.stop)
        found.run_forever()
        found.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(request: Any, loop: asyncio.AbstractEventLoop, cluster: EmbeddedCluster) -> None:
    host, _, port = cluster.bootstrap_servers.partition(":")
    request.cls.loop = loop
    request.cls.hosts = [cluster.bootstrap_servers]
    request.cls.kafka_host = host
    request.cls.kafka_port = int(port)
    request.cls.kafka_sasl_plain_port = int(cluster.address("SASL_PLAINTEXT").rpartition(":")[2])
    request.cls.acl_manager = AclManager(cluster)
    request.cls.kafka_config = KafkaConfig()
    request.cls.kafka_version = "3.9.0"


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop
