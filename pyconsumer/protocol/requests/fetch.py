"""Fetch requests of consumers and other readers of logs, by topic id, or by name in versions without ids."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, NamedTuple

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.fetch import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer, encode_uvarint
from pyconsumer.structs import TopicPartition

__all__ = [
    "FIRST_VERSION_OF_ONE",
    "FIRST_VERSION_WITH_TOPIC_IDS",
    "LAST_VERSION_WITH_NAMES",
    "FetchOfOne",
    "FetchSettings",
    "fetch_request",
    "newest_version",
]

LAST_VERSION_WITH_NAMES: Final = FIRST_VERSION_WITH_TOPIC_IDS - 1
FIRST_VERSION_OF_ONE: Final = 15
"""The first version in which :class:`FetchOfOne` can be sent."""

#: All of a request for one partition up to the rack: longest wait, least bytes, most bytes, isolation level, session id
#: and epoch; number of topics and id; number of partitions, index, leader epoch, offset, last epoch, log start offset,
#: most bytes; no tagged fields of partition and topic; no forgotten topics. Compact numbers are greater by one.
_ONE_PARTITION: Final = struct.Struct(">iiibiiB16sBiiqiqiBBB")


class FetchSettings(NamedTuple):
    """The part of a Fetch request that is the same for all partitions.

    Attributes:
        max_wait_ms, min_bytes: the broker waits until it has ``min_bytes``, at most for ``max_wait_ms``.
        max_bytes: the largest size of the response. The first batch in it may be larger.
        read_committed: True reads only up to the last stable offset, and requests the list of aborted transactions.
        rack_id: the rack of the client, for fetches from followers (KIP-392).
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    rack_id: str = ""


FetchFields = tuple[bytes, int, int, int] | tuple[bytes, int, int, int, int]
"""Topic id, offset, limit in bytes and leader epoch. A fifth item is not sent."""

_NO_REPLICA: Final = next(spec.default for spec in FetchRequest.FIELDS if spec.name == "replica_state")
"""The default object itself: the encoder recognizes it by identity, and need not compare its fields."""


def _nowhere(_: FetchPartition) -> None:
    raise AssertionError("a partition without a topic")


def newest_version(topic_ids: Iterable[bytes]) -> int | None:
    """Return the newest version in which these topics can be named.

    Return None if all have an id, so that any version will do.
    """
    return LAST_VERSION_WITH_NAMES if ZERO_UUID in topic_ids else None


def fetch_request(
    settings: FetchSettings,
    partitions: Iterable[tuple[TopicPartition, FetchFields]],
    *,
    forgotten: Iterable[tuple[TopicPartition, bytes]] = (),
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """Return a client's Fetch request.

    Args:
        partitions: the partitions to read. The leader epoch is -1 if unknown. See :data:`FetchFields`.
        forgotten: the partitions, with topic ids, to remove from the session.
        session: id and epoch of the fetch session (KIP-227). By default no session is opened.
    """
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    name, topic_id = "", b""
    append: Callable[[FetchPartition], None] = _nowhere
    for tp, fields in partitions:
        if tp[0] is not name or fields[0] is not topic_id:  # usually the partitions of a topic are adjacent
            name, topic_id = tp[0], fields[0]
            topic = topics.get((name, topic_id))
            if topic is None:
                topic = topics[name, topic_id] = FetchTopic(name, topic_id, [])
            append = topic.partitions.append
        append(FetchPartition(tp[1], fields[3], fields[1], -1, -1, fields[2]))
    left: dict[tuple[str, bytes], ForgottenTopic] = {}
    for tp, topic_id in forgotten:
        key = (tp.topic, topic_id)
        if key not in left:
            left[key] = ForgottenTopic(topic=tp.topic, topic_id=topic_id, partitions=[])
        left[key].partitions.append(tp.partition)
    return FetchRequest(
        replica_state=_NO_REPLICA,
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=int(settings.read_committed),
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics.values()),
        forgotten_topics_data=list(left.values()),
        rack_id=settings.rack_id,
    )


class FetchOfOne:
    """A Fetch request with a session and a single partition, encoded by one call of ``struct``.

    When records arrive one by one, each record is followed by such a request, which is sent before the record is
    returned.

    Args:
        settings: the part that is the same in all requests.
        partition: the number of the partition.
        fields: the request for this partition.
        session: id and epoch of the session.
    """

    __slots__ = ("_of_partition", "_session", "_settings")
    API_KEY: ClassVar[int] = ApiKey.FETCH

    def __init__(self, settings: FetchSettings, partition: int, fields: FetchFields, session: tuple[int, int]) -> None:
        self._settings = settings
        self._of_partition = partition, fields
        self._session = session

    def encode_parts(self, version: int) -> list[Buffer]:
        """Return the request as one buffer.

        From version :data:`FIRST_VERSION_OF_ONE` on, all versions have the same bytes.
        """
        wait, least, most, committed, rack = self._settings
        partition, fields = self._of_partition
        values = (2, fields[0], 2, partition, fields[3], fields[1], -1, -1, fields[2], 0, 0, 1)
        body = _ONE_PARTITION.pack(wait, least, most, committed, *self._session, *values)
        if not rack:
            return [body + b"\1\0"]
        name = rack.encode()
        return [b"".join((body, encode_uvarint(len(name) + 1), name, b"\0"))]
