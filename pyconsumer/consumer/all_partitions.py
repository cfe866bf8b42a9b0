"""Subscription without a group: the consumer reads all partitions of its topics.

Java refuses that: a subscription there needs a group. Rules:

1. The assignment has all partitions that metadata lists for the subscribed topics, or for those that match the pattern.
2. A partition that exists when the subscription is made starts according to ``auto_offset_reset``. One that is found
   later, because its topic has grown or was created, starts at its beginning, also with ``latest``: otherwise records
   written before the consumer learned of it would be lost.
3. The rebalance listener is notified of partitions that come and go, after the assignment has changed.
4. Only the application's thread calls this. No call waits, but for a listener that is a coroutine function.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyconsumer.consumer.auto_offset_reset import EARLIEST
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.errors import Errors
from pyconsumer.network.futures import Steps, wait_for_callback
from pyconsumer.structs import TopicPartition

__all__ = ["AllPartitions"]

_log = logging.getLogger(__name__)


class AllPartitions:
    """The assignment of a consumer that subscribes without a group.

    Args:
        context: the parts that this consumer shares: metadata, subscription and client.
    """

    def __init__(self, context: ConsumerContext) -> None:
        _, self._client, self._metadata, self._subscriptions, _ = context
        self._seen = -1
        self._wish = 0  # metadata of all topics, for a pattern
        self._found: set[str] = set()  # topics that metadata has said something about since they were subscribed

    def on_subscription_change(self) -> None:
        """Note that the application has subscribed to other topics or to a pattern."""
        self._seen = -1
        if self._subscriptions.has_pattern:
            self._wish = self._metadata.request_update()
            self._found.clear()
        else:
            self._found &= self._subscriptions.subscription()

    @property
    def is_due(self) -> bool:
        """Return whether metadata has come that :meth:`poll` has not seen.

        With a pattern, only metadata of all topics counts.
        """
        subscriptions, count = self._subscriptions, self._metadata.update_count
        awaited = subscriptions.has_pattern and not self._metadata.is_settled(self._wish)
        return count != self._seen and subscriptions.has_auto_assigned and not awaited

    @property
    def is_complete(self) -> bool:
        """Return whether the assignment is complete.

        With topics: all of their partitions are assigned. With a pattern: it has been compared with the cluster's
        topics.
        """
        subscriptions = self._subscriptions
        if not subscriptions.has_auto_assigned:
            return True
        return self._metadata.update_count == self._seen and (
            subscriptions.has_pattern or all(map(self._metadata.partitions_for, subscriptions.subscription()))
        )

    def poll(self) -> Steps[None]:
        """Adapt the assignment to new metadata.

        Raises:
            Exception: the rebalance listener raised it. The assignment has already changed by then.
        """
        if not self.is_due:
            return
        subscriptions = self._subscriptions
        if subscriptions.has_pattern:
            self._seen = self._metadata.update_count
            subscriptions.subscribe_from_pattern(filter(subscriptions.matches_pattern, self._metadata.topics()))
        self._seen = self._metadata.update_count
        before = subscriptions.assignment()
        wanted, late = self._wanted()
        if set(wanted) == before:
            return
        subscriptions.assign_from_subscribed(wanted)
        for tp in late:
            subscriptions.request_reset(tp, EARLIEST)
        added = [tp for tp in wanted if tp not in before]
        revoked = sorted(before.difference(wanted))
        try:
            yield from self._notify("on_partitions_revoked", revoked)
        finally:
            yield from self._notify("on_partitions_assigned", added)

    def _wanted(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return all partitions, and those of them that were found too late for ``auto_offset_reset``."""
        subscriptions, metadata = self._subscriptions, self._metadata
        topics = subscriptions.subscription()
        first_look = subscriptions.has_pattern and not self._found
        wanted, late = [], []
        for topic in sorted(topics):
            partitions = [TopicPartition(topic, item.partition) for item in metadata.partitions_for(topic) or ()]
            wanted += partitions
            if topic in self._found or (subscriptions.has_pattern and not first_look):
                late += [tp for tp in partitions if subscriptions.get(tp) is None]
            if partitions or metadata.topic_errors.get(topic) == Errors.UNKNOWN_TOPIC_OR_PARTITION:
                self._found.add(topic)
        if subscriptions.has_pattern:
            self._found.add("")  # the first look is over, whether anything has matched or not
        return wanted, late

    def release(self) -> Steps[None]:
        """End the subscription: notify the listener that the partitions are revoked."""
        if self._subscriptions.has_auto_assigned:
            yield from self._notify("on_partitions_revoked", sorted(self._subscriptions.assignment()))

    def _notify(self, name: str, partitions: Collection[TopicPartition]) -> Steps[None]:
        if not partitions:
            return
        _log.info("%s: %s", name.removeprefix("on_partitions_"), ", ".join(map(str, partitions)))
        listener = self._subscriptions.listener
        if listener is not None:
            with self._client.disable_wakeups():
                yield from wait_for_callback(getattr(listener, name)(list(partitions)))
