"""The settings of a consumer for type checkers.

Made of the table of settings by ``python -m tests.support.make_typed_settings``: change the table, not this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from pyconsumer.assignors.base import Assignor
from pyconsumer.consumer.interface import DeadLetterSink
from pyconsumer.errors import RecordDeserializationError
from pyconsumer.settings.typed_settings import ClientSettings

__all__ = ["ConsumerSettings"]


class ConsumerSettings(ClientSettings, total=False):
    """Keyword arguments of a consumer, besides ``key_deserializer`` and ``value_deserializer``."""

    group_id: str | None
    """The consumer group, needed to commit. Without it, a subscription reads all partitions."""

    group_instance_id: str | None
    """A name for this member that survives its restart, unique in the group (static membership, KIP-345)."""

    group_protocol: Literal["classic", "consumer"]
    """Group protocol. ``classic``: the members compute the assignment, and all of them stop for it. ``consumer``: the
    broker computes it, and each member moves by itself (KIP-848, needs Apache Kafka 4.0 or newer).
    """

    group_remote_assignor: str | None
    """Only with ``group_protocol=consumer``: the broker's assignor, ``uniform`` or ``range``. By default the group
    coordinator chooses.
    """

    session_timeout_ms: int
    """Time without a heartbeat after which the coordinator removes this member and reassigns its partitions. Only with
    ``group_protocol=classic``.
    """

    heartbeat_interval_ms: int
    """Time between heartbeats, at most a third of ``session_timeout_ms``. Only with ``group_protocol=classic``."""

    max_poll_interval_ms: int
    """Longest time between two polls. After that this consumer leaves the group."""

    partition_assignment_strategy: Iterable[str | Assignor | type[Assignor]]
    """Assignors in order of preference: ``range``, ``roundrobin``, ``sticky``, ``cooperative-sticky``, Java's class
    names of these, ``cooperative-sticky-delayed``, or Assignor classes or objects of your own. Only with
    ``group_protocol=classic``.
    """

    rebalance_delay_ms: int | None
    """Only with the assignor ``cooperative-sticky-delayed``: when a member disappears, its partitions are kept for it
    for this time, in case it returns. By default 5 minutes. 0: other members get them at once. Kafka Connect has the
    same setting for its workers (KIP-415).
    """

    scheduled_rebalance_max_delay_ms: int | None
    """The same as ``rebalance_delay_ms``."""

    enable_auto_commit: bool
    """Commit positions automatically, every ``auto_commit_interval_ms`` and on close. Off without a ``group_id``."""

    enable_auto_offset_store: bool
    """False: automatic commits, and ``commit()`` without offsets, commit the offsets that the program has given to
    ``store_offsets``. True: they commit the positions. Set False to commit only records that the program has finished.
    librdkafka has the same setting.
    """

    auto_commit_interval_ms: int
    """Time between automatic commits."""

    auto_offset_reset: str
    """Start of a partition without a valid position: ``latest``, ``earliest``, ``none`` (raise) or
    ``by_duration:P1DT12H`` (that long ago, KIP-1106).
    """

    client_rack: str
    """Rack of this client, to fetch from a replica in the same rack (KIP-392). Assignors see it, too."""

    fetch_min_bytes: int
    """The broker delays a response until it has this much data, or until ``fetch_max_wait_ms`` is over."""

    fetch_max_bytes: int
    """Most bytes in one response. A larger first batch is returned nevertheless. One request asks for no more than 8
    MiB (16 MiB where records are large), or eight times ``max_partition_fetch_bytes``.
    """

    fetch_max_wait_ms: int
    """Longest time for which the broker delays a response that has less than ``fetch_min_bytes``."""

    max_partition_fetch_bytes: int
    """Most bytes of one partition in one response. A larger first batch is returned nevertheless."""

    fetch_buffer_bytes: int | None
    """Limit of the memory for records that are fetched and not returned, in bytes, by default twice
    ``fetch_max_bytes``.
    """

    decode_threads: int | None
    """Threads that decompress fetched batches in zstd before a poll asks for them, while the application's thread does
    something else. The consumers of a process share them. By default two fewer than the CPUs that the process may use,
    at most 4. 0: the poll itself decompresses all batches. Batches of the other codecs are always decompressed by the
    poll.
    """

    max_poll_records: int
    """Most records that one poll returns."""

    check_crcs: bool
    """Check each batch's checksum."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """``read_committed`` hides records of open and aborted transactions."""

    enable_incremental_fetch_sessions: bool
    """Send only changes to brokers from one fetch to the next (KIP-227)."""

    on_record_error: (
        Literal["raise", "skip", "null"] | Callable[[RecordDeserializationError], str | None] | DeadLetterSink
    )
    """Policy for a record that cannot be deserialized: ``raise``, ``skip``, a function of the
    RecordDeserializationError that returns ``'raise'`` or ``'skip'`` (or None, to skip), or a dead-letter sink: an
    object with a method ``send(error)``. ``null`` is for ``poll_arrow(value=...)``: the value is null, and column
    ``value_error`` has the reason. A damaged batch is always raised, as CorruptRecordError.
    """

    interceptors: Iterable[object]
    """Objects with ``on_consume(records)``, ``on_commit(offsets)`` and ``close()``, all optional (KIP-42)."""

    interceptor_classes: Iterable[object]
    """The same as ``interceptors``."""

    exclude_internal_topics: bool
    """Hide Kafka's internal topics, such as ``__consumer_offsets``, from patterns and from ``topics()``."""

    allow_auto_create_topics: bool
    """Allow the broker to create a topic that this consumer requests, if the broker is configured to."""

    consumer_timeout_ms: int | float | None
    """Iteration ends when no record came for this long (None or -1: never)."""

    schema_timeout_ms: int
    """The least time that a poll waits for a schema that a deserializer fetches from a registry. A poll with a longer
    ``timeout_ms`` waits until that.
    """
