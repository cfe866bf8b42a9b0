"""``aiokafka.partitioner``: the partitioner, which is called with a key and the partitions."""

from __future__ import annotations

from pyconsumer.compat.kafka.partitioner.default import DefaultPartitioner, murmur2

__all__ = ["DefaultPartitioner", "murmur2"]
