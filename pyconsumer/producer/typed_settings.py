"""The settings of a producer for type checkers.

Made of the table of settings by ``python -m tests.support.make_typed_settings``: change the table, not this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from pyconsumer.settings.typed_settings import ClientSettings

__all__ = ["ProducerSettings"]


class ProducerSettings(ClientSettings, total=False):
    """Keyword arguments of a producer, besides ``key_serializer`` and ``value_serializer``."""

    acks: Literal[0, 1, -1, "all", "0", "1", "-1"]
    """Replicas that must hold a batch before it counts as sent: ``all`` in sync (-1), the leader (1), none (0)."""

    enable_idempotence: bool
    """Let the broker drop duplicates that retries cause (KIP-98). Off by default if the given ``acks``, ``retries`` or
    ``max_in_flight_requests_per_connection`` do not allow it.
    """

    transactional_id: str | None
    """A name that this producer keeps when it is restarted. It makes transactions possible (KIP-98). A producer that
    starts with this name fences any earlier producer of the same name, so producers that run at the same time need
    different names.
    """

    transaction_timeout_ms: int
    """Longest time for which a transaction may be open. Then the broker aborts it. At most the broker's
    ``transaction.max.timeout.ms``.
    """

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """Compression of batches."""

    compression_gzip_level: int
    """Level of gzip: 1 is the fastest, 9 the smallest (-1: zlib's default, KIP-390)."""

    compression_lz4_level: int
    """Level of lz4. The default is the fast compressor, as in Java. Other levels search for better matches."""

    compression_zstd_level: int
    """Level of zstd: negative ones are the fastest, 22 is the smallest."""

    retries: int | float
    """Most retries of a batch. ``delivery_timeout_ms`` limits them as well."""

    batch_size: int
    """Size in bytes at which a batch is sent at once (0: one record per batch). While the batch before it is in flight
    it grows further, to 1 MB at most.
    """

    linger_ms: int
    """Longest time for which a batch that is not full waits for more records (KIP-1030)."""

    buffer_memory: int
    """Most bytes of records that wait to be sent. When this limit is reached, ``send`` blocks."""

    max_block_ms: int
    """Longest time for which ``send`` and ``partitions_for`` wait for metadata, and ``send`` for room in the buffer."""

    max_request_size: int
    """Most bytes in one request, and in one record."""

    metadata_max_idle_ms: int
    """Stop refreshing the metadata of a topic to which no record was sent for this time. The next ``send`` requests it
    again (KIP-526).
    """

    delivery_timeout_ms: int
    """Longest time from ``send`` until a record is delivered or fails, retries included (KIP-91)."""

    max_in_flight_requests_per_connection: int
    """Most requests in flight to one broker. A partition is in at most one of them, so its order is kept."""

    partitioner: Callable[[bytes | None, list[int], list[int]], int] | None
    """A function ``(key bytes or None, all partitions, partitions with a leader) -> partition``. None: records with a
    key go by its hash, as in Java, and records without a key stay with a partition for some time (KIP-794).
    """

    partitioner_adaptive_partitioning_enable: bool
    """Send fewer records without a key to partitions for which batches wait, so that slow brokers get fewer (KIP-794).
    No effect on a ``partitioner`` of your own.
    """

    partitioner_availability_timeout_ms: int
    """Records without a key avoid partitions whose broker has taken no batch for this long although some wait
    (KIP-794). 0 switches this off.
    """

    partitioner_ignore_keys: bool
    """Choose the partition as if no record had a key."""

    partitioner_rack_aware: bool
    """Send records without a key to partitions whose leader is in ``client_rack``, as long as there are any (KIP-1123).
    No effect on a ``partitioner`` of your own.
    """

    client_rack: str
    """Rack of this client, as the brokers' ``broker.rack``, for ``partitioner_rack_aware``."""

    interceptors: Iterable[object]
    """Objects with ``on_send(topic, key, value, headers, partition, timestamp_ms)``, which returns the same values as
    they are to be sent, and ``on_acknowledgement(metadata, error)``.
    """
