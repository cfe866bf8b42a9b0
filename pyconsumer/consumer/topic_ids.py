"""Topics that were deleted and created again (KIP-516): their positions are dropped.

Rules

1. The id of a partition's topic is noted when metadata first names it. Another id means another topic.
2. A position in the old topic is meaningless in the new one. It is dropped at once, with fetched records and stored
   offsets, and the partition begins by ``auto_offset_reset``, as a new one does. With ``none`` each poll raises until a
   seek. One line in the log says so for each topic. (Java keeps the position: it skips the new records before it, or if
   the new log is shorter, all that are there.)
3. A commit names the id that its positions belong to. It fails if metadata has another one, so that no position of the
   old topic is committed for the new one. The broker has deleted the offsets of the old topic with it.
4. Under both group protocols this comes before anything is committed for a rebalance: the member may find the new id in
   metadata before its coordinator assigns the new topic.

Brokers before Kafka 2.8 have no topic ids: a topic that was created again is the same topic there.
"""

from __future__ import annotations

import logging

from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.errors import CommitFailedError
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.primitives import ZERO_UUID, uuid_to_str

__all__ = ["follow_topic_ids", "id_to_commit"]

_log = logging.getLogger("pyconsumer.consumer")


def follow_topic_ids(subscriptions: SubscriptionState, metadata: Metadata) -> None:
    """Store the ids of the assigned topics. If a topic was created again, drop the positions in it (rule 2)."""
    dropped: dict[str, list[str]] = {}
    before: dict[str, bytes] = {}
    for state in list(subscriptions.states()):
        tp, known = state.topic_partition, state.topic_id
        topic_id = metadata.topic_id(tp.topic)
        if topic_id in (known, ZERO_UUID):
            continue
        position = subscriptions.note_topic_id(state, topic_id)
        if position is not None:
            before[tp.topic] = known
            dropped.setdefault(tp.topic, []).append(f"{position} in partition {tp.partition}")
    for topic, positions in dropped.items():
        _log.warning(
            "topic %s was deleted and created again (id %s, before %s): the positions in the old one (%s) are dropped."
            " It begins by auto_offset_reset=%s",
            topic,
            uuid_to_str(metadata.topic_id(topic)),
            uuid_to_str(before[topic]),
            ", ".join(positions),
            subscriptions.default_reset,
        )


def id_to_commit(subscriptions: SubscriptionState, metadata: Metadata, topic: str) -> bytes:
    """Return the id of the topic to which positions belong, or zeros if it is unknown.

    Raises:
        CommitFailedError: the topic has been created again (rule 3).
    """
    current = metadata.topic_id(topic)
    known = subscriptions.topic_id(topic)
    if known == ZERO_UUID:
        return current
    if current not in (known, ZERO_UUID):
        raise CommitFailedError(
            f"topic {topic} was deleted and created again, and the offsets to commit belong to the old one: poll, which"
            " begins the new one by auto_offset_reset"
        )
    return known
