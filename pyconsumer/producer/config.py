"""The producer's settings with their defaults."""

from __future__ import annotations

import math
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import (
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
    Text,
)
from pyconsumer.settings.foreign_names import PRODUCER_NAMES

__all__ = ["PRODUCER_SETTINGS", "ProducerConfig"]


class _Acks(Kind):
    """0, 1 or all, kept as the number on the wire (-1 for all)."""

    type_text = 'Literal[0, 1, -1, "all", "0", "1", "-1"]'

    def check(self, value: Any) -> int:
        if value in ("all", "-1", -1):
            return -1
        if value in (0, 1, "0", "1") and not isinstance(value, bool):
            return int(value)
        raise ValueError(f"it must be 0, 1 or 'all', not {value!r}")


_DEFAULT_LEVELS: Final = {"gzip": -1, "lz4": 9, "zstd": 3}


class ProducerConfig(ClientConfig):
    """The settings of a producer. See :data:`PRODUCER_SETTINGS`."""

    acks: int
    batch_size: int
    buffer_memory: int
    client_rack: str
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
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
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_ignore_keys: bool
    partitioner_rack_aware: bool
    retries: int
    transaction_timeout_ms: int
    transactional_id: str | None
    value_serializer: Any

    @property
    def compression_level(self) -> int | None:
        """Return the level of the producer's codec (KIP-390), or None for the codec's default."""
        level = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }.get(self.compression_type)
        return None if level == _DEFAULT_LEVELS.get(self.compression_type) else level

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
        if values["partitioner_rack_aware"] and not values["client_rack"].strip():
            raise ConfigurationError("partitioner_rack_aware needs client_rack, the rack of this client")
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
        if values["transactional_id"] is not None:
            if not values["enable_idempotence"]:
                raise ConfigurationError("transactional_id needs enable_idempotence, which is switched off")
            if conflicts:
                raise ConfigurationError(
                    "transactional_id needs acks='all', retries above 0 and at most 5 requests in flight, not "
                    f"{', '.join(conflicts)}"
                )
        if conflicts and values["enable_idempotence"]:
            if "enable_idempotence" in given:
                raise ConfigurationError(
                    f"enable_idempotence needs acks='all', retries above 0 and at most 5 requests in flight, not "
                    f"{', '.join(conflicts)}"
                )
            values["enable_idempotence"] = False  # as Java: settings that were given count more than the default


PRODUCER_SETTINGS: Final = Settings(
    "producer",
    (
        *CLIENT_SETTINGS,
        Setting(
            "key_serializer",
            None,
            Function("serialize", nullable=True),
            "Serializes keys: a function of the key, or an object with `serialize(topic, headers, key)`. None: keys "
            "are bytes, or str, which is encoded as UTF-8.",
        ),
        Setting(
            "value_serializer",
            None,
            Function("serialize", nullable=True),
            "Serializes values: a function of the value, or an object with `serialize(topic, headers, value)`. None: "
            "values are bytes, or str, which is encoded as UTF-8.",
        ),
        Setting(
            "acks",
            -1,
            _Acks(),
            "Replicas that must hold a batch before it counts as sent: `all` in sync (-1), the leader (1), none (0).",
        ),
        Setting(
            "enable_idempotence",
            True,
            Flag(),
            "Let the broker drop duplicates that retries cause (KIP-98). Off by default if the given `acks`, "
            "`retries` or `max_in_flight_requests_per_connection` do not allow it.",
        ),
        Setting(
            "transactional_id",
            None,
            Text(nullable=True),
            "A name that this producer keeps when it is restarted. It makes transactions possible (KIP-98). A producer "
            "that starts with this name fences any earlier producer of the same name, so producers that run at the "
            "same time need different names.",
        ),
        Setting(
            "transaction_timeout_ms",
            60_000,
            Duration(1),
            "Longest time for which a transaction may be open. Then the broker aborts it. At most the broker's "
            "`transaction.max.timeout.ms`.",
        ),
        Setting(
            "compression_type",
            "none",
            Choice("none", "gzip", "snappy", "lz4", "zstd"),
            "Compression of batches.",
            blanks=(None,),
        ),
        Setting(
            "compression_gzip_level",
            _DEFAULT_LEVELS["gzip"],
            Integer(1, 9, special=(-1,)),
            "Level of gzip: 1 is the fastest, 9 the smallest (-1: zlib's default, KIP-390).",
        ),
        Setting(
            "compression_lz4_level",
            _DEFAULT_LEVELS["lz4"],
            Integer(1, 17),
            "Level of lz4. The default is the fast compressor, as in Java. Other levels search for better matches.",
        ),
        Setting(
            "compression_zstd_level",
            _DEFAULT_LEVELS["zstd"],
            Integer(-131_072, 22),
            "Level of zstd: negative ones are the fastest, 22 is the smallest.",
        ),
        Setting(
            "retries",
            2147483647,
            Integer(0),
            "Most retries of a batch. `delivery_timeout_ms` limits them as well.",
            blanks=(math.inf,),
        ),
        Setting(
            "batch_size",
            16_384,
            Integer(0),
            "Size in bytes at which a batch is sent at once (0: one record per batch). While the batch before it is in "
            "flight it grows further, to 1 MB at most.",
        ),
        Setting(
            "linger_ms",
            5,
            Duration(),
            "Longest time for which a batch that is not full waits for more records (KIP-1030).",
        ),
        Setting(
            "buffer_memory",
            33_554_432,
            Integer(1, high=0x7FFFFFFFFFFFFFFF),
            "Most bytes of records that wait to be sent. When this limit is reached, `send` blocks.",
        ),
        Setting(
            "max_block_ms",
            60_000,
            Duration(),
            "Longest time for which `send` and `partitions_for` wait for metadata, and `send` for room in the buffer.",
        ),
        Setting("max_request_size", 1_048_576, Integer(1), "Most bytes in one request, and in one record."),
        Setting(
            "metadata_max_idle_ms",
            300_000,
            Duration(5_000),
            "Stop refreshing the metadata of a topic to which no record was sent for this time. The next `send` "
            "requests it again (KIP-526).",
        ),
        Setting(
            "delivery_timeout_ms",
            120_000,
            Duration(1),
            "Longest time from `send` until a record is delivered or fails, retries included (KIP-91).",
        ),
        Setting(
            "max_in_flight_requests_per_connection",
            5,
            Integer(1),
            "Most requests in flight to one broker. A partition is in at most one of them, so its order is kept.",
        ),
        Setting(
            "partitioner",
            None,
            Function(nullable=True, type_text="Callable[[bytes | None, list[int], list[int]], int]"),
            "A function `(key bytes or None, all partitions, partitions with a leader) -> partition`. None: records "
            "with a key go by its hash, as in Java, and records without a key stay with a partition for some time "
            "(KIP-794).",
        ),
        Setting(
            "partitioner_adaptive_partitioning_enable",
            True,
            Flag(),
            "Send fewer records without a key to partitions for which batches wait, so that slow brokers get fewer "
            "(KIP-794). No effect on a `partitioner` of your own.",
        ),
        Setting(
            "partitioner_availability_timeout_ms",
            0,
            Integer(0),
            "Records without a key avoid partitions whose broker has taken no batch for this long although some wait "
            "(KIP-794). 0 switches this off.",
        ),
        Setting("partitioner_ignore_keys", False, Flag(), "Choose the partition as if no record had a key."),
        Setting(
            "partitioner_rack_aware",
            False,
            Flag(),
            "Send records without a key to partitions whose leader is in `client_rack`, as long as there are any "
            "(KIP-1123). No effect on a `partitioner` of your own.",
        ),
        Setting(
            "client_rack",
            "",
            Text(blank=True),
            "Rack of this client, as the brokers' `broker.rack`, for `partitioner_rack_aware`.",
        ),
        Setting(
            "interceptors",
            (),
            ListOf(Function("on_send", "on_acknowledgement", type_text="object")),
            "Objects with `on_send(topic, key, value, headers, partition, timestamp_ms)`, which returns the same "
            "values as they are to be sent, and `on_acknowledgement(metadata, error)`.",
            ("interceptor.classes",),
        ),
    ),
    ProducerConfig,
    hints={
        **CLIENT_HINTS,
        **PRODUCER_NAMES,
        "max_in_flight": "it is max_in_flight_requests_per_connection",
    },
)
"""Settings of :class:`pyconsumer.KafkaProducer`."""
