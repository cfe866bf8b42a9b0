"""The requests of a share session: which partitions it names, with which acknowledgements. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyconsumer.consumer.share.acknowledgements import Piece, batches_of, without_overlaps
from pyconsumer.consumer.share.config import ShareConsumerConfig
from pyconsumer.consumer.share.session import Key, Queued
from pyconsumer.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pyconsumer.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from pyconsumer.structs import AcknowledgeType

__all__ = ["acknowledge_request", "by_partition", "fetch_request"]


def by_partition(queue: Iterable[Queued]) -> dict[Key, list[AcknowledgementBatch]]:
    """Return the batches of each partition of acknowledgements that :meth:`ShareSession.take_queue` has returned."""
    pieces: dict[Key, list[Piece]] = {}
    for queued in queue:
        pieces.setdefault(Key(*queued.source[1:]), []).extend(queued.pieces)
    return {key: batches_of(without_overlaps(found)[0]) for key, found in pieces.items()}


def fetch_request(
    config: ShareConsumerConfig,
    member_id: str,
    epoch: int,
    added: Iterable[Key],
    forgotten: Iterable[Key],
    queue: Sequence[Queued],
    max_bytes: int,
) -> ShareFetchRequest:
    """Return a ShareFetch: the changes of the session, and acknowledgements.

    Args:
        config: the settings.
        member_id: the member.
        epoch: of the session.
        added, forgotten: the partitions that the session gets and loses.
        queue: the acknowledgements.
        max_bytes: the most bytes of records.
    """
    batches = by_partition(queue)
    topics: dict[bytes, FetchTopic] = {}
    for key in dict.fromkeys((*added, *batches)):
        topic = topics.setdefault(key.topic_id, FetchTopic(key.topic_id, []))
        topic.partitions.append(FetchPartition(key.topic_partition.partition, 0, batches.get(key, [])))
    left: dict[bytes, ForgottenTopic] = {}
    for key in forgotten:
        left.setdefault(key.topic_id, ForgottenTopic(key.topic_id, [])).partitions.append(key.topic_partition.partition)
    return ShareFetchRequest(
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        max_records=config.max_poll_records,
        batch_size=config.max_poll_records,
        share_acquire_mode=int(config.limits_records),
        topics=list(topics.values()),
        forgotten_topics_data=list(left.values()),
    )


def acknowledge_request(
    config: ShareConsumerConfig, member_id: str, epoch: int, queue: Sequence[Queued]
) -> ShareAcknowledgeRequest:
    """Return a ShareAcknowledge. The arguments are those of :func:`fetch_request`."""
    topics: dict[bytes, AcknowledgeTopic] = {}
    for key, batches in by_partition(queue).items():
        topic = topics.setdefault(key.topic_id, AcknowledgeTopic(key.topic_id, []))
        topic.partitions.append(AcknowledgePartition(key.topic_partition.partition, batches))
    renews = any(piece.kind == AcknowledgeType.RENEW for queued in queue for piece in queued.pieces)
    return ShareAcknowledgeRequest(
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=renews,
        topics=list(topics.values()),
    )
