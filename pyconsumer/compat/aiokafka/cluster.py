"""``aiokafka.cluster``."""

from __future__ import annotations

from pyconsumer.compat.kafka.cluster import ClusterMetadata

__all__ = ["ClusterMetadata"]
