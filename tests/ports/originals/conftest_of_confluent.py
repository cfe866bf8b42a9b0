"""Takes the place of a ``tests/conftest.py`` of confluent-kafka-python: clusters of trivup are the embedded broker.

The fixtures of ``tests/integration`` are confluent's. trivup would fetch and start Apache Kafka.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pyconsumer.broker import EmbeddedCluster


class KafkaCluster:
    """The part of trivup's cluster that the fixtures use.

    Args:
        sasl_mechanism: empty for a plain listener.
        sasl_users: ``name=password``, separated by commas.
        broker_conf: settings of the brokers, ``name=value``.
        with_sr: whether there is a registry.
    """

    def __init__(
        self,
        *,
        broker_cnt: int = 1,
        sasl_mechanism: str = "",
        sasl_users: str = "",
        broker_conf: list[str] | None = None,
        with_sr: bool = False,
        **_: Any,
    ) -> None:
        self._mechanism = sasl_mechanism
        self._users = dict(user.split("=", 1) for user in sasl_users.split(",") if user)
        config: dict[str, Any] = dict(setting.split("=", 1) for setting in broker_conf or [])
        config.pop("offsets.topic.min.isr", None)  # Kafka has no such setting, and ignores it
        self._cluster = EmbeddedCluster(
            broker_cnt,
            listeners=("SASL_PLAINTEXT",) if sasl_mechanism else ("PLAINTEXT",),
            users=self._users,
            oauth={"unsecured": True} if sasl_mechanism == "OAUTHBEARER" else None,
            acls=[],
            schema_registry=with_sr,
            config={"allow.everyone.if.no.acl.found": True, "group.initial.rebalance.delay.ms": 0, **config},
        )
        self._cluster.start()
        if with_sr:
            self.sr = {"url": self._cluster.schema_registry_url}

    def wait_operational(self) -> None:
        """It is as soon as it has started."""

    def client_conf(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap.servers": self._cluster.bootstrap_servers}
        if self._mechanism:
            settings |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": self._mechanism}
        for name, password in list(self._users.items())[:1]:
            settings |= {"sasl.username": name, "sasl.password": password}
        return settings

    def stop(self, cleanup: bool) -> None:
        self._cluster.stop()


_module = ModuleType("trivup.clusters.KafkaCluster")
setattr(_module, "KafkaCluster", KafkaCluster)  # noqa: B010 (a module has no such attribute for mypy)
sys.modules |= {
    "trivup": ModuleType("trivup"),
    "trivup.clusters": ModuleType("trivup.clusters"),
    _module.__name__: _module,
}
