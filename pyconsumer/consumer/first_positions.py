"""``FirstPositions``: where the reading of a newly assigned partition begins.

Rules

1. The committed offsets of all new partitions are fetched in one background call. It is abandoned if the assignment
   changes: a partition of the new one may have had another owner since, who has committed more.
2. A partition without a committed offset is reset as ``auto_offset_reset`` says. With ``none`` that is an error.
3. The error is raised at once (:meth:`FirstPositions.advance`), as in Java. If the group has a task of its own, it is
   kept for a call that reads the partition (:meth:`FirstPositions.raise_error`). In the meantime the other partitions
   are read. A raised error leads to another look at the committed offset.
4. The same holds for the committed offsets of topics to which access is denied. Those of the others are fetched again.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.partition_state import current_leader
from pyconsumer.errors import KafkaError, NoOffsetForPartitionError, TopicAuthorizationFailedError
from pyconsumer.network.futures import ResumableCall
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

__all__ = ["FirstPositions"]

_log = logging.getLogger("pyconsumer.consumer")


class FirstPositions:
    """Gives new partitions a position, or requests its reset. Nothing here waits.

    Args:
        context: settings, metadata and subscriptions of the consumer.
        coordinator: fetches committed offsets. None if there is no group.
    """

    def __init__(self, context: ConsumerContext, coordinator: ConsumerCoordinator | None) -> None:
        self._config, _, self._metadata, self._subscriptions, _ = context
        self._coordinator = coordinator
        self._call: ResumableCall[dict[TopicPartition, OffsetAndMetadata | None]] | None = None
        self._partitions: frozenset[TopicPartition] = frozenset()  # of the call
        self._assignment = -1  # in which the call was made
        self._not_before = 0.0
        self._keeps_errors = False
        self._failed: set[TopicPartition] = set()  # an error waits for the next call that reads them
        self._failed_in = -1  # the assignment
        self._denied: dict[TopicPartition, KafkaError] = {}  # as _failed, by partition

    def keep_errors(self) -> None:
        """From now on, keep errors for :meth:`raise_error` (rule 3)."""
        self._keeps_errors = True

    def raise_error(self, only: Collection[TopicPartition] = ()) -> None:
        """Raise, once, the kept error of these partitions, or without ``only`` of all.

        Raises:
            NoOffsetForPartitionError: a partition has no committed offset, and ``auto_offset_reset`` is ``none``.
            TopicAuthorizationFailedError: access to the committed offset of a partition is denied.
        """
        denied = next((tp for tp in self._denied if not only or tp in only), None)
        if denied is not None:
            error = self._denied[denied]
            self._denied = {tp: one for tp, one in self._denied.items() if one is not error}
            raise error
        if self._failed:
            concerned = self._failed.intersection(only) if only else self._failed.copy()
            self._failed -= concerned
            self._subscriptions.reset_initializing(concerned)

    def next_due_at(self, now: float) -> float:
        """Return the latest time for the next :meth:`advance`, in monotonic seconds."""
        if self._call is not None:
            return self._call.due_at
        return self._not_before if self._not_before > now else math.inf

    def check(self) -> None:
        """Abandon the call if the assignment has changed (rule 1), or if no partition needs it any more."""
        if self._call is not None and (
            self._assignment != self._subscriptions.assignment_id or not self._subscriptions.initializing()
        ):
            self.end()

    def end(self) -> None:
        """Abandon the call."""
        if self._call is not None:
            self._call.close()
            self._call = None

    def advance(self, now: float) -> bool:
        """Fetch the committed offsets of new partitions. Without a group, reset these.

        Returns:
            True once the offsets have come.

        Raises:
            NoOffsetForPartitionError: see :meth:`raise_error`. Not with :meth:`keep_errors`.
            KafkaError: the offsets could not be fetched, and no retry helps.
        """
        waiting = self._subscriptions.initializing()
        if self._failed or self._denied:
            if self._failed_in != self._subscriptions.assignment_id:
                self._failed.clear()
                self._denied.clear()
            waiting = [tp for tp in waiting if tp not in self._failed and tp not in self._denied]
        if not waiting:
            return False
        if self._coordinator is None:
            self._reset(waiting)
            return False
        if self._call is None:
            if now < self._not_before:
                return False
            deadline = now + self._config.default_api_timeout_ms / 1000
            self._partitions = frozenset(waiting)
            self._assignment = self._subscriptions.assignment_id
            self._call = ResumableCall(self._coordinator.fetch_committed(self._partitions, deadline), deadline)
        call = self._call
        if not call.advance(now):
            return False
        self._call = None
        if call.error is not None:
            self._not_before = now + self._config.retry_backoff_ms / 1000
            if self._keeps_errors and isinstance(call.error, TopicAuthorizationFailedError) and call.error.topics:
                self._denied.update({tp: call.error for tp in self._partitions if tp.topic in call.error.topics})
                self._failed_in = self._subscriptions.assignment_id
                return False
            if not call.error.retriable:
                raise call.error
            _log.debug("could not fetch committed offsets, trying again: %s", call.error)
            return False
        self._apply(call.result or {})
        return True

    def _apply(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        without = []
        for tp in self._partitions:
            found = committed.get(tp)
            if found is None:
                without.append(tp)
                continue
            self._metadata.see_epoch(tp, found.leader_epoch)
            if self._subscriptions.initialise(tp, found, current_leader(self._metadata, tp)):
                _log.info("%s: starting at the committed offset %d", tp, found.offset)
        self._reset(without)

    def _reset(self, partitions: Iterable[TopicPartition]) -> None:
        try:
            self._subscriptions.reset_initializing(partitions)
        except NoOffsetForPartitionError as error:
            if not self._keeps_errors:
                raise
            self._failed.update(error.partitions)
            self._failed_in = self._subscriptions.assignment_id
