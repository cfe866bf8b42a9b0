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
    with EmbeddedCluster(config={"num.partitions": 2, "group.initial.rebalance.delay.ms": 0}) as found:
        yield found


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
    request.cls.kafka_version = "3.9.0"


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop
