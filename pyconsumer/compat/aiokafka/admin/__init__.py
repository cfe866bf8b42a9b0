"""``aiokafka.admin``: the admin client with aiokafka's calls and results, and the values that it accepts."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.admin.client import AIOKafkaAdminClient
from pyconsumer.compat.aiokafka.admin.new_partitions import NewPartitions
from pyconsumer.compat.aiokafka.admin.new_topic import NewTopic
from pyconsumer.compat.aiokafka.admin.records_to_delete import RecordsToDelete

__all__ = ["AIOKafkaAdminClient", "NewPartitions", "NewTopic", "RecordsToDelete"]
