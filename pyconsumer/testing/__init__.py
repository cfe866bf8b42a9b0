"""Helpers for testing programs that use Kafka: a pytest plugin with a real broker, a consumer without one, and a
clock that stands still.

The plugin is active wherever pyconsumer is installed; a test only has to name one of its fixtures (see
:mod:`pyconsumer.testing.plugin`)::

    def test_orders_are_counted(kafka_cluster, kafka_topic):
        with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            producer.send(kafka_topic, b"an order")
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyconsumer.clock import Clock, ManualClock

if TYPE_CHECKING:
    from pyconsumer.testing.mock_consumer import MockConsumer as MockConsumer

__all__ = ["Clock", "ManualClock", "MockConsumer"]


def __getattr__(name: str) -> Any:
    if name != "MockConsumer":  # imported when it is first used: every run of pytest imports this package
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyconsumer.testing.mock_consumer import MockConsumer

    return MockConsumer
