"""The share partitions of one broker: made when a member first fetches, and ended with what they stand on.

A share partition is in the cache while this broker leads its partition in the same leader epoch. It leaves the cache,
and is fenced, when

1. the leader epoch changes, or the topic is deleted. The next leader reads the state.
2. its state cannot be read, was replaced (``FENCED_STATE_EPOCH``), or is gone.
3. the group coordinator replaces its state, or deletes it, with the group for example. A leader that went on from
   the old state would write it over the new one.
4. the group has no session here any more, and what its members held is released. So offsets that are altered while the
   group is empty are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.internal_topic import LocalBroker
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.security import Session
from pyconsumer.broker.share.rules import ShareGroupRules
from pyconsumer.broker.share.sessions import SessionKey, SharedPartition, ShareSession, ShareSessions
from pyconsumer.broker.share.share_partition import Acknowledgement, Outcome, SharePartition, StateStore
from pyconsumer.broker.share_settings import duration_ms
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    OffsetNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["SharePartitions", "SharedBroker"]

_log = Log(__name__)


class SharedBroker(LocalBroker, Protocol):
    """The part of a broker that share partitions need."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""


class SharePartitions:
    """The share partitions and share sessions of one broker. See the module."""

    def __init__(self, broker: SharedBroker, store: StateStore, rules: ShareGroupRules, most_sessions: int) -> None:
        self.rules = rules
        self.sessions = ShareSessions(most_sessions)
        self._broker = broker
        self._store = store
        self._cache: dict[ShareStateKey, SharePartition] = {}

    def __len__(self) -> int:
        return len(self._cache)

    # --- the cache

    def partition_of(self, shared: SharedPartition) -> Partition:
        """Return the partition, which this broker must lead.

        Raises:
            UnknownTopicIdError, UnknownTopicOrPartitionError, NotLeaderOrFollowerError, KafkaStorageError: it is not
                here.
        """
        name = self._broker.topic_name(shared[0])
        if name is None:
            raise UnknownTopicIdError("This server does not host this topic ID.")
        return self._broker.partition(name, shared[1])

    def get(self, group_id: str, shared: SharedPartition) -> SharePartition:
        """Return a share partition, and make it if it is not there. Errors are those of :meth:`partition_of`."""
        partition = self.partition_of(shared)
        key = ShareStateKey(group_id, *shared)
        found = self._cache.get(key)
        if found is not None and (found.is_over or found.leader_epoch != partition.leader_epoch):
            self._forget(found)
            found = None
        if found is None:
            broker = self._broker
            found = self._cache[key] = SharePartition(
                key,
                partition.leader_epoch,
                self._store,
                self.rules,
                broker.timer,
                broker.clock,
                partial(self._first_offset, group_id, partition),
            )
        found.on_log_start(partition.log.log_start_offset)
        return found

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        """Return where a group without an offset begins (``share.auto.offset.reset``)."""
        reset = self.rules.reset(group_id)
        start, end = partition.log.log_start_offset, partition.high_watermark
        if reset.lower() == "earliest":
            return start
        if end < partition.epoch_start:
            raise OffsetNotAvailableError(f"the new leader of {partition.tp} does not know the high watermark yet")
        age_ms = duration_ms(reset)
        if age_ms is None:
            return end
        found = partition.log.offset_for_timestamp(self._broker.clock.wall_ms() - age_ms)
        return end if found is None else min(found.offset, end)

    def _forget(self, share: SharePartition) -> None:
        if self._cache.get(share.key) is share:
            del self._cache[share.key]
        share.fence()

    def forget(self, key: ShareStateKey) -> None:
        """End a share partition whose state is replaced or deleted."""
        found = self._cache.get(key)
        if found is not None:
            self._forget(found)

    def on_partition_changed(self, topic_id: bytes, index: int) -> None:
        """End the share partitions of a partition whose leader epoch has changed, or that is gone."""
        for share in list(self._cache.values()):
            if share.key.topic_id == topic_id and share.key.partition == index:
                self._forget(share)

    def shutdown(self) -> None:
        """End all share partitions. Nothing is written: the next leader reads what is stored."""
        for share in list(self._cache.values()):
            self._forget(share)

    # --- sessions

    def open_session(
        self, key: SessionKey, context: RequestContext, partitions: Iterable[SharedPartition]
    ) -> ShareSession:
        """Open a session, in place of the member's older one. It ends with the connection.

        Raises:
            ShareSessionLimitReachedError: there are too many.
        """
        owner = context.session
        session = self.sessions.open(key, owner, partitions)
        owner.when_ended(self, partial(self._on_disconnect, owner))
        return session

    def _on_disconnect(self, owner: Session) -> None:
        for key in self.sessions.of_owner(owner):
            _log.debug("The connection of share session %s has ended", key)
            self.end_session(key)

    def end_session(self, key: SessionKey, only: ShareSession | None = None) -> None:
        """End a session, and release what its member holds.

        Args:
            only: end no other session than this one. The member may have opened another one in the meantime.
        """
        if only is not None and not self.sessions.has(key, only):
            return
        session = self.sessions.remove(key)
        if session is None:
            return
        unfinished = 1

        def on_released(outcome: Outcome) -> None:
            nonlocal unfinished
            unfinished -= 1
            if not unfinished:
                self._end_group(key.group_id)

        for share in list(self._cache.values()):
            if share.key.group_id == key.group_id:
                unfinished += 1
                share.release(key.member_id).on_done(on_released)
        on_released(Outcome())

    def _end_group(self, group_id: str) -> None:
        if not self.sessions.has_group(group_id):
            for share in list(self._cache.values()):
                if share.key.group_id == group_id:
                    self._forget(share)

    # --- acknowledgements

    def acknowledge(
        self, key: SessionKey, shared: SharedPartition, acknowledgements: list[Acknowledgement]
    ) -> Deferred[Outcome]:
        """Acknowledge records of one partition that a member holds."""
        try:
            partition = self.partition_of(shared)
        except (UnknownTopicIdError, UnknownTopicOrPartitionError):
            return Deferred.of(Outcome(Errors.UNKNOWN_TOPIC_OR_PARTITION))
        except BrokerResponseError as error:
            return Deferred.of(Outcome(error.errno, str(error)))
        share = self._cache.get(ShareStateKey(key.group_id, *shared))
        if share is None:
            return Deferred.of(Outcome(Errors.UNKNOWN_TOPIC_OR_PARTITION))
        if share.leader_epoch != partition.leader_epoch:
            self._forget(share)
        share.on_log_start(partition.log.log_start_offset)
        return share.acknowledge(key.member_id, acknowledgements)
