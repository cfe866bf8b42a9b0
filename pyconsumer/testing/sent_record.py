"""A record that a mock producer was given."""

from __future__ import annotations

from typing import Generic, NamedTuple

from pyconsumer.generic import Header, K, V

__all__ = ["SentRecord"]


class SentRecord(NamedTuple, Generic[K, V]):
    """A record as a program sent it, with what the serializers made of it.

    Attributes:
        topic: its topic.
        value, key: as they were given to ``send``.
        headers: pairs of name and value.
        partition: the partition that was chosen.
        timestamp_ms: ms since the epoch.
        value_bytes, key_bytes: as the broker would store them.
    """

    topic: str
    value: V | None
    key: K | None
    headers: tuple[Header, ...]
    partition: int
    timestamp_ms: int
    value_bytes: bytes | None
    key_bytes: bytes | None
