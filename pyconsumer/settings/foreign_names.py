"""Hints for settings that only other clients have, or that have another name here.

Names are librdkafka's (confluent-kafka), and Java's where kafka-python has others, with underscores for dots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CLIENT_NAMES", "CONSUMER_NAMES", "PRODUCER_NAMES", "SWITCHED_OFF"]

_LOGGING: Final = "leave it out; messages go to the loggers below 'pyconsumer' of Python's logging"
_METRICS: Final = "leave it out; see metrics()"
_ALWAYS: Final = "leave it out; it is always so"
_NO_BROKER_EVENTS: Final = "leave it out; errors are raised by the call that they concern"

#: Of every client.
CLIENT_NAMES: Final[Mapping[str, str]] = {
    "metadata_broker_list": "it is called bootstrap.servers (bootstrap_servers)",
    "message_max_bytes": "a producer has max.request.size, a consumer fetch.max.bytes and max.partition.fetch.bytes",
    "receive_message_max_bytes": "leave it out; responses are bounded by what was asked for",
    "topic_metadata_refresh_interval_ms": "it is called metadata.max.age.ms (metadata_max_age_ms)",
    "topic_metadata_refresh_fast_interval_ms": "it is called retry.backoff.ms (retry_backoff_ms)",
    "socket_timeout_ms": "it is called request.timeout.ms (request_timeout_ms)",
    "socket_send_buffer_bytes": "it is called send.buffer.bytes (send_buffer_bytes)",
    "socket_receive_buffer_bytes": "it is called receive.buffer.bytes (receive_buffer_bytes)",
    "socket_keepalive_enable": _ALWAYS,
    "socket_nagle_disable": _ALWAYS,
    "socket_max_fails": "leave it out; a request without a response ends its connection",
    "broker_address_family": "leave it out; all addresses of a host are tried",
    "broker_address_ttl": "leave it out; a host is looked up for each new connection",
    "reconnect_backoff_jitter_ms": "leave it out; pauses vary by themselves",
    "api_version_request": "leave it out; versions are negotiated with each broker",
    "api_version_fallback_ms": "leave it out; versions are negotiated with each broker",
    "broker_version_fallback": "leave it out; versions are negotiated with each broker",
    "allow_auto_create_topics": "a consumer has it; for others the broker's auto.create.topics.enable decides",
    "enable_ssl_certificate_verification": "to verify nothing, give an ssl.SSLContext that does not, as ssl_context",
    "sasl_oauthbearer_config": "give sasl.oauthbearer.token.endpoint.url, or an object with token() as"
    " sasl_oauth_token_provider",
    "sasl_oauthbearer_jwt_validator_class": "leave it out; the broker checks the token",
    "sasl_login_callback_handler_class": "give sasl_oauth_token_provider, or a mechanism as sasl_mechanism_factory",
    "sasl_client_callback_handler_class": "give a mechanism of your own as sasl_mechanism_factory",
    "sasl_login_class": "give a mechanism of your own as sasl_mechanism_factory",
    "ssl_engine_factory_class": "give an ssl.SSLContext as ssl_context",
    "ssl_provider": "leave it out; TLS is OpenSSL's, as Python has it",
    "ssl_engine_id": "leave it out; give an ssl.SSLContext as ssl_context",
    "https_ca_pem": "write it to a file for https.ca.location (sasl_oauthbearer_cafile)",
    "oauth_cb": "give an object with a method token() as sasl_oauth_token_provider",
    "debug": _LOGGING,
    "log_level": _LOGGING,
    "log_cb": _LOGGING,
    "logger": _LOGGING,
    "log_queue": _LOGGING,
    "log_connection_close": _LOGGING,
    "statistics_interval_ms": _METRICS,
    "stats_cb": _METRICS,
    "enable_metrics_push": "leave it out; metrics are not pushed to brokers; see metrics()",
    "error_cb": _NO_BROKER_EVENTS,
    "throttle_cb": _NO_BROKER_EVENTS,
    "default_topic_config": "give its settings beside the others",
    "plugin_library_paths": "leave it out; interceptors are Python objects (interceptors)",
}

_ANY: Final = ("*",)
_OFF: Final = ("", "false", "0", "no", "none")
_ON: Final = ("true", "1", "yes")
#: Settings that are accepted with these values, in lower case: they say what is so here. ``*`` is any value.
SWITCHED_OFF: Final[Mapping[str, tuple[str, ...]]] = {
    "api_version_request": _ON,
    "auto_include_jmx_reporter": _ANY,
    "broker_address_family": ("any",),
    "debug": _OFF,
    "delivery_report_only_error": _OFF,
    "enable_gapless_guarantee": _OFF,
    "enable_metrics_push": _OFF,
    "enable_partition_eof": _OFF,
    "enable_ssl_certificate_verification": _ON,
    "log_connection_close": _OFF,
    "metrics_recording_level": ("info",),
    "plugin_library_paths": _OFF,
    "sasl_kerberos_kinit_cmd": _ANY,
    "sasl_kerberos_min_time_before_relogin": _ANY,
    "sasl_kerberos_ticket_renew_jitter": _ANY,
    "sasl_kerberos_ticket_renew_window_factor": _ANY,
    "sasl_oauthbearer_clock_skew_seconds": _ANY,  # this and the next ones are a broker's
    "sasl_oauthbearer_expected_audience": _ANY,
    "sasl_oauthbearer_expected_issuer": _ANY,
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": _ANY,
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms": _ANY,
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms": _ANY,
    "sasl_oauthbearer_jwks_endpoint_url": _ANY,
    "sasl_oauthbearer_scope_claim_name": _ANY,
    "sasl_oauthbearer_sub_claim_name": _ANY,
    "security_providers": _OFF,
    "socket_keepalive_enable": _ON,
    "socket_nagle_disable": _ON,
    "ssl_engine_factory_class": _OFF,
    "ssl_keymanager_algorithm": _ANY,
    "ssl_provider": _OFF,
    "ssl_secure_random_implementation": _ANY,
    "ssl_trustmanager_algorithm": _ANY,
    "statistics_interval_ms": _OFF,
}

#: Of the consumer alone.
CONSUMER_NAMES: Final[Mapping[str, str]] = {
    "auto_commit_enable": "it is called enable.auto.commit (enable_auto_commit)",
    "fetch_wait_max_ms": "it is called fetch.max.wait.ms (fetch_max_wait_ms)",
    "fetch_message_max_bytes": "it is called max.partition.fetch.bytes (max_partition_fetch_bytes)",
    "fetch_error_backoff_ms": "it is called retry.backoff.ms (retry_backoff_ms)",
    "queued_min_messages": "leave it out; fetch_buffer_bytes bounds what is fetched ahead",
    "queued_max_messages_kbytes": "it is called fetch_buffer_bytes, in bytes",
    "enable_partition_eof": "leave it out; compare position() with end_offsets(), or set consumer_timeout_ms",
    "on_commit": "give commit_async a callback",
    "topic_blacklist": "leave it out; a pattern can exclude topics: (?!name$).*",
    "offset_store_method": "leave it out; offsets are stored by the broker",
    "group_protocol_type": "leave it out; it is always consumer",
}

#: Of the producer alone.
PRODUCER_NAMES: Final[Mapping[str, str]] = {
    "message_timeout_ms": "it is called delivery.timeout.ms (delivery_timeout_ms)",
    "queue_buffering_max_ms": "it is called linger.ms (linger_ms)",
    "queue_buffering_max_messages": "leave it out; buffer_memory bounds what waits, in bytes",
    "queue_buffering_max_kbytes": "it is called buffer.memory (buffer_memory), in bytes",
    "queue_buffering_backpressure_threshold": "leave it out; batches that wait grow",
    "batch_num_messages": "use batch.size (batch_size), in bytes",
    "compression_codec": "it is called compression.type (compression_type)",
    "compression_level": "it is called compression.gzip.level, or compression.lz4.level, or compression.zstd.level",
    "request_required_acks": "it is called acks",
    "message_send_max_retries": "it is called retries",
    "enable_gapless_guarantee": "leave it out; records of a partition keep their order",
    "sticky_partitioning_linger_ms": "leave it out; records without a key stay with a partition for a batch",
    "on_delivery": "send returns a future: add_callback and add_errback",
    "dr_cb": "send returns a future: add_callback and add_errback",
    "delivery_report_only_error": "send returns a future: add_errback",
}
