"""The producer's settings: names of kafka-python, defaults and meaning of Java's producer 4.x."""

from __future__ import annotations

from typing import Any, Final

from pyconsumer.config import (
    CLIENT_HINTS,
    CLIENT_SETTINGS,
    Choice,
    ClientConfig,
    Duration,
    Flag,
    Function,
    Integer,
    Kind,
    ListOf,
    Setting,
    Settings,
)
from pyconsumer.errors import ConfigurationError

__all__ = ["PRODUCER_SETTINGS", "ProducerConfig"]


class _Acks(Kind):
    """0, 1 or all; kept as the number on the wire (-1 for all)."""

    def check(self, value: Any) -> int:
        if value in ("all", "-1", -1):
            return -1
        if value in (0, 1, "0", "1") and not isinstance(value, bool):
            return int(value)
        raise ValueError(f"it must be 0, 1 or 'all', not {value!r}")


class ProducerConfig(ClientConfig):
    """The settings of a producer; see :data:`PRODUCER_SETTINGS`."""

    acks: int
    batch_size: int
    buffer_memory: int
    compression_type: str
    delivery_timeout_ms: int
    enable_idempotence: bool
    interceptors: tuple[Any, ...]
    key_serializer: Any
    linger_ms: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_idle_ms: int
    partitioner: Any
    partitioner_ignore_keys: bool
    retries: int
    value_serializer: Any

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        super().finish(values, given)
        least = values["linger_ms"] + values["request_timeout_ms"]
        if values["delivery_timeout_ms"] < least:
            if "delivery_timeout_ms" in given:
                raise ConfigurationError(
                    f"delivery_timeout_ms ({values['delivery_timeout_ms']}) must be at least linger_ms + "
                    f"request_timeout_ms ({least})"
                )
            values["delivery_timeout_ms"] = least
        conflicts = [
            text
            for text, wrong in (
                (f"acks={values['acks']}", values["acks"] != -1),
                ("retries=0", values["retries"] == 0),
                (
                    f"max_in_flight_requests_per_connection={values['max_in_flight_requests_per_connection']}",
                    values["max_in_flight_requests_per_connection"] > 5,
                ),
            )
            if wrong
        ]
        if conflicts and values["enable_idempotence"]:
            if "enable_idempotence" in given:
                raise ConfigurationError(
                    f"enable_idempotence needs acks='all', retries above 0 and at most 5 requests in flight; got "
                    f"{', '.join(conflicts)}"
                )
            values["enable_idempotence"] = False  # as Java: chosen settings count more than the default


PRODUCER_SETTINGS: Final = Settings(
    "producer",
    (
        *CLIENT_SETTINGS,
        Setting(
            "key_serializer",
            None,
            Function("serialize", nullable=True),
            "Makes bytes of a key: a function of it, or an object with `serialize(topic, headers, key)`. None: keys "
            "are bytes, or str, which is written as UTF-8.",
        ),
        Setting("value_serializer", None, Function("serialize", nullable=True), "The same for values."),
        Setting(
            "acks",
            -1,
            _Acks(),
            "Who must have a batch before it counts as sent: `all` in-sync replicas, the leader alone (1), nobody (0).",
        ),
        Setting(
            "enable_idempotence",
            True,
            Flag(),
            "Whether the broker leaves out what a retry sent twice (KIP-98). Off where acks, retries or the number of "
            "requests in flight rule it out.",
        ),
        Setting(
            "compression_type",
            "none",
            Choice("none", "gzip", "snappy", "lz4", "zstd"),
            "Compression of batches.",
        ),
        Setting(
            "retries", 2147483647, Integer(0), "How often a batch is sent again at most, within its delivery time."
        ),
        Setting("batch_size", 16_384, Integer(0), "Bytes that a batch of one partition may have; 0: one record each."),
        Setting(
            "linger_ms",
            5,
            Duration(),
            "How long a batch that is not full waits for more records (KIP-1030).",
        ),
        Setting(
            "buffer_memory",
            33_554_432,
            Integer(1, high=0x7FFFFFFFFFFFFFFF),
            "Bytes of records that may wait to be sent; then `send` waits.",
        ),
        Setting(
            "max_block_ms",
            60_000,
            Duration(),
            "How long `send` and `partitions_for` wait for metadata and for room in the buffer.",
        ),
        Setting("max_request_size", 1_048_576, Integer(1), "Most bytes of one request, and of one record."),
        Setting(
            "metadata_max_idle_ms",
            300_000,
            Duration(5_000),
            "A topic that nothing was sent to for this time is no longer refreshed; the next `send` looks it up again "
            "(KIP-526).",
        ),
        Setting(
            "delivery_timeout_ms",
            120_000,
            Duration(1),
            "When a record that could not be sent fails, counted from `send`, retries included (KIP-91).",
        ),
        Setting(
            "max_in_flight_requests_per_connection",
            5,
            Integer(1),
            "Requests to one broker at a time. Each partition has one of them at most, so order is always kept.",
        ),
        Setting(
            "partitioner",
            None,
            Function(nullable=True),
            "A function `(key bytes or None, all partitions, those with a leader) -> partition`. None: by the key's "
            "hash as Java does, sticky without a key (KIP-794).",
        ),
        Setting("partitioner_ignore_keys", False, Flag(), "Whether records with a key are spread like those without."),
        Setting(
            "interceptors",
            (),
            ListOf(Function("on_send", "on_acknowledgement")),
            "Objects with `on_send(topic, key, value, headers, partition, timestamp_ms)`, which returns those that are "
            "to be sent, and `on_acknowledgement(metadata, error)`.",
            ("interceptor.classes",),
        ),
    ),
    ProducerConfig,
    hints={
        **CLIENT_HINTS,
        "transactional_id": "transactions are not built yet; idempotence is on by default",
        "transaction_timeout_ms": "transactions are not built yet",
        "max_in_flight": "it is max_in_flight_requests_per_connection",
    },
)
"""Settings of :class:`pyconsumer.KafkaProducer`."""
