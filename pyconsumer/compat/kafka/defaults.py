"""kafka-python's default settings, the classes' ``DEFAULT_CONFIG``. Programs copy them and look up names."""

from __future__ import annotations

import math
import selectors
import socket
from collections.abc import Mapping
from typing import Any, Final

from pyconsumer.compat.kafka.client_async import KafkaClient
from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor
from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from pyconsumer.compat.kafka.partitioner.default import DefaultPartitioner
from pyconsumer.compat.kafka.version import __version__

__all__ = ["ADMIN_DEFAULTS", "CONSUMER_DEFAULTS", "PRODUCER_DEFAULTS"]


def _succeed(offsets: Any, response: Any) -> bool:
    """Ignore the outcome of a commit: kafka-python's ``default_offset_commit_callback``."""
    return True


_COMMON: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost",
    "client_id": f"kafka-python-{__version__}",
    "request_timeout_ms": 30_000,
    "retry_backoff_ms": 100,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "max_in_flight_requests_per_connection": 5,
    "metadata_max_age_ms": 300_000,
    "client_dns_lookup": "use_all_dns_ips",
    "receive_message_max_bytes": 100_000_000,
    "receive_buffer_bytes": None,
    "send_buffer_bytes": None,
    "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    "connections_max_idle_ms": 540_000,
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_crlfile": None,
    "ssl_password": None,
    "api_version": None,
    "bootstrap_timeout_ms": 30_000,
    "metric_reporters": [],
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30_000,
    "selector": selectors.DefaultSelector,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "proxy_url": None,
    "socks5_proxy": None,
    "kafka_client": KafkaClient,
}

CONSUMER_DEFAULTS: Final[Mapping[str, Any]] = {
    **_COMMON,
    "client_rack": "",
    "group_id": None,
    "group_instance_id": None,
    "key_deserializer": None,
    "value_deserializer": None,
    "enable_incremental_fetch_sessions": True,
    "fetch_max_wait_ms": 500,
    "fetch_min_bytes": 1,
    "fetch_max_bytes": 52_428_800,
    "max_partition_fetch_bytes": 1_048_576,
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5_000,
    "default_offset_commit_callback": _succeed,
    "check_crcs": True,
    "isolation_level": "read_uncommitted",
    "allow_auto_create_topics": True,
    "partition_assignment_strategy": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    "max_poll_records": 500,
    "max_poll_interval_ms": 300_000,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "consumer_timeout_ms": math.inf,
    "ssl_ciphers": None,
    "metrics_enabled": True,
    "metric_group_prefix": "consumer",
    "exclude_internal_topics": True,
}

PRODUCER_DEFAULTS: Final[Mapping[str, Any]] = {
    **_COMMON,
    "client_id": None,
    "key_serializer": None,
    "value_serializer": None,
    "enable_idempotence": True,
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "acks": -1,
    "compression_type": None,
    "retries": math.inf,
    "batch_size": 16_384,
    "linger_ms": 0,
    "partitioner": DefaultPartitioner(),
    "max_block_ms": 60_000,
    "max_request_size": 1_048_576,
    "allow_auto_create_topics": True,
    "ssl_ciphers": None,
    "metrics_enabled": True,
}

ADMIN_DEFAULTS: Final[Mapping[str, Any]] = {**_COMMON}
