"""Helpers for testing programs that use Kafka: a pytest plugin with a real broker, and a clock that stands still.

The plugin is active wherever pyconsumer is installed; a test only has to name one of its fixtures (see
:mod:`pyconsumer.testing.plugin`)::

    def test_orders_are_counted(kafka_cluster, kafka_topic):
        with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            producer.send(kafka_topic, b"an order")
        ...
"""

from __future__ import annotations

from pyconsumer.clock import Clock, ManualClock

__all__ = ["Clock", "ManualClock"]
