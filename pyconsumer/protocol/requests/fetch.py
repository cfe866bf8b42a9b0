"""Fetch, as consumers and readers of logs send it: by topic id from the version that has them, by name before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

__all__ = [
    "FIRST_VERSION_WITH_TOPIC_IDS",
    "LAST_VERSION_WITH_NAMES",
    "FetchSettings",
    "fetch_request",
    "newest_version",
]

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
LAST_VERSION_WITH_NAMES: Final = FIRST_VERSION_WITH_TOPIC_IDS - 1


class FetchSettings(NamedTuple):
    """The part of a request that is the same for all partitions.

    Attributes:
        max_wait_ms, min_bytes: how long the broker may hold the request, and until it has how much.
        max_bytes: of the whole response; a first batch may exceed it.
        read_committed: True to get only what is stable, with the aborted transactions.
        rack_id: the client's, for fetches from followers (KIP-392).
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    rack_id: str = ""


def newest_version(topic_ids: Iterable[bytes]) -> int | None:
    """Return the newest version that can name these topics; None, which is the newest of all, if all have an id."""
    return LAST_VERSION_WITH_NAMES if ZERO_UUID in topic_ids else None


def fetch_request(
    settings: FetchSettings,
    partitions: Iterable[tuple[TopicPartition, bytes, int, int, int]],
    *,
    forgotten: Iterable[tuple[TopicPartition, bytes]] = (),
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """Return a Fetch of a client.

    Args:
        partitions: partition, topic id, offset, limit in bytes, and leader epoch (-1 if unknown) of each.
        forgotten: partitions, with topic ids, that leave the session.
        session: id and epoch of the fetch session (KIP-227); by default none is opened.
    """
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for tp, topic_id, offset, max_bytes, leader_epoch in partitions:
        key = (tp.topic, topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=tp.topic, topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
            )
        )
    left: dict[tuple[str, bytes], ForgottenTopic] = {}
    for tp, topic_id in forgotten:
        key = (tp.topic, topic_id)
        if key not in left:
            left[key] = ForgottenTopic(topic=tp.topic, topic_id=topic_id, partitions=[])
        left[key].partitions.append(tp.partition)
    return FetchRequest(
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
