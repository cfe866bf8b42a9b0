"""Takes the place of ``test/conftest.py`` of kafka-python: the embedded broker, and our clients under its names.

The fixtures of ``test/integration/conftest.py`` are kafka-python's.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

import kafka.coordinator
import kafka.net  # noqa: F401
import pytest
from stand_ins import provide

from pyconsumer.broker import EmbeddedCluster

provide(
    "kafka.coordinator.base",
    "kafka.net.backend",
    "kafka.net.compat",
    "kafka.net.manager",
    "kafka.protocol.broker_version_data",
    "kafka.protocol.metadata",
)
(util,) = provide("kafka.util")
util.TOPIC_LEGAL_CHARS = re.compile("[a-zA-Z0-9._-]")
util.TOPIC_MAX_LENGTH = 249
util.ensure_valid_topic_name = lambda name: None

_CLUSTER = EmbeddedCluster(
    acls=[],
    config={
        "allow.everyone.if.no.acl.found": True,  # as kafka-python's own broker has it
        "num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
    },
)


class Broker:
    """The broker as kafka-python's fixtures know it."""

    partitions = 4
    replicas = 1
    zookeeper = None

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def bootstrap_server(self) -> str:
        return f"{self.host}:{self.port}"

    def _enrich_client_params(self, params: dict[str, Any], **defaults: Any) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap_server(), **defaults, **params}


def pytest_configure(config: pytest.Config) -> None:
    _CLUSTER.start()
    os.environ["KAFKA_URI"] = f"kafka://{_CLUSTER.bootstrap_servers}"
    os.environ["KAFKA_VERSION"] = "4.1.0"
    fixtures: Any = importlib.import_module("test.integration.fixtures")
    fixtures.KafkaFixture.instance = lambda node, host, port, external: Broker(host, port)


def pytest_unconfigure(config: pytest.Config) -> None:
    _CLUSTER.stop()
