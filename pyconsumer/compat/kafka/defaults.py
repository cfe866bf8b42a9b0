"""``DEFAULT_CONFIG`` of kafka-python's clients: programs copy it, change it, and give all of it back.

The values are those of kafka-python 3.0.12. Where it has an object of its own, there is ours or None.
"""

from __future__ import annotations

import math
import selectors
import socket
from collections.abc import Mapping
from typing import Any, Final

from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor
from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["ADMIN_DEFAULTS", "CONSUMER_DEFAULTS", "PRODUCER_DEFAULTS"]

_SHARED: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost",
    "request_timeout_ms": 30_000,
    "connections_max_idle_ms": 540_000,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "max_in_flight_requests_per_connection": 5,
    "receive_message_max_bytes": 100_000_000,
    "receive_buffer_bytes": None,
    "send_buffer_bytes": None,
    "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    "retry_backoff_ms": 100,
    "metadata_max_age_ms": 300_000,
    "client_dns_lookup": "use_all_dns_ips",
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_password": None,
    "ssl_crlfile": None,
    "ssl_ciphers": None,
    "api_version": None,
    "bootstrap_timeout_ms": 30_000,
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
    "metric_reporters": [],
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30_000,
    "kafka_client": None,
}

CONSUMER_DEFAULTS: Final[dict[str, Any]] = {
    **_SHARED,
    "client_id": "kafka-python-3.0.12",
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
    "auto_commit_interval_ms": 5000,
    "default_offset_commit_callback": None,
    "check_crcs": True,
    "isolation_level": "read_uncommitted",
    "allow_auto_create_topics": True,
    "partition_assignment_strategy": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    "max_poll_records": 500,
    "max_poll_interval_ms": 300_000,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3000,
    "consumer_timeout_ms": math.inf,
    "metrics_enabled": True,
    "metric_group_prefix": "consumer",
    "exclude_internal_topics": True,
}

PRODUCER_DEFAULTS: Final[dict[str, Any]] = {
    **_SHARED,
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
    "partitioner": None,
    "max_block_ms": 60_000,
    "max_request_size": 1_048_576,
    "allow_auto_create_topics": True,
    "metrics_enabled": True,
}

ADMIN_DEFAULTS: Final[dict[str, Any]] = {
    name: value for name, value in {**_SHARED, "client_id": "kafka-python-3.0.12"}.items() if name != "ssl_ciphers"
}
