"""A record that a program has sent with a mock producer."""

from __future__ import annotations

from typing import Generic, NamedTuple

from pyconsumer.generic import Header, K, V

__all__ = ["SentRecord"]


class SentRecord(NamedTuple, Generic[K, V]):
    """A record that a program has sent, including its serialized key and value.

    Attributes:
        topic: the topic.
        value, key: the arguments of ``send``.
        headers: pairs of name and value.
        partition: the chosen partition.
        timestamp_ms: ms since the epoch.
        value_bytes, key_bytes: value and key after serialization.
    """

    topic: str
    value: V | None
    key: K | None
    headers: tuple[Header, ...]
    partition: int
    timestamp_ms: int
    value_bytes: bytes | None
    key_bytes: bytes | None
