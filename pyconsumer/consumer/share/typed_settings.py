"""The settings of a share consumer for type checkers.

Made of the table of settings by ``python -m tests.support.make_typed_settings``: change the table, not this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pyconsumer.consumer.interface import DeadLetterSink
from pyconsumer.errors import RecordDeserializationError
from pyconsumer.settings.typed_settings import ClientSettings

__all__ = ["ShareConsumerSettings"]


class ShareConsumerSettings(ClientSettings, total=False):
    """Keyword arguments of a share consumer, besides ``key_deserializer`` and ``value_deserializer``."""

    group_id: str
    """The share group. Its members share the records of each partition."""

    max_poll_interval_ms: int
    """Longest time between two polls. After that this consumer leaves the group."""

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

    max_poll_records: int
    """Most records that one poll returns."""

    check_crcs: bool
    """Check each batch's checksum."""

    on_record_error: (
        Literal["raise", "skip", "null"] | Callable[[RecordDeserializationError], str | None] | DeadLetterSink
    )
    """Policy for a record that cannot be deserialized: ``raise``, ``skip``, a function of the
    RecordDeserializationError that returns ``'raise'`` or ``'skip'`` (or None, to skip), or a dead-letter sink: an
    object with a method ``send(error)``. ``null`` is for ``poll_arrow(value=...)``: the value is null, and column
    ``value_error`` has the reason. A damaged batch is always raised, as CorruptRecordError.
    """

    allow_auto_create_topics: bool
    """Allow the broker to create a topic that this consumer requests, if the broker is configured to."""

    consumer_timeout_ms: int | float | None
    """Iteration ends when no record came for this long (None or -1: never)."""

    schema_timeout_ms: int
    """The least time that a poll waits for a schema that a deserializer fetches from a registry. A poll with a longer
    ``timeout_ms`` waits until that.
    """

    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """``implicit``: the next poll, or ``commit``, accepts the records of the last poll. ``explicit``: you acknowledge
    each record by ``acknowledge`` before you poll again.
    """

    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """``batch_optimized``: whole batches of the log are acquired, and one poll returns them, which may be more records
    than ``max_poll_records``. ``record_limit``: no more than ``max_poll_records`` are acquired (KIP-1206).
    """

    share_delivery_count_limit: int
    """The most deliveries of a record, for a consumer that may not read the group's setting
    ``share.delivery.count.limit``. Dead letters need it.
    """
