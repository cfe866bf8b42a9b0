"""Expiration and deletion: removes expired offsets, empty groups, and offsets of deleted topics.

The state is the manager's cache. This module has only the timer of the next search. Tombstones are written first, and
the cache is changed when they are in the log. So the cache stays if the append fails: expired offsets are tried
again in the next search, and offsets of a deleted topic stay until they expire. Pending commits get a tombstone too,
which is after them in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.classic.records import group_tombstone
from pyconsumer.broker.group.common.offset_records import offset_tombstone
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.common.storage import KeyValue, StoreResult, from_append
from pyconsumer.broker.group.consumer.group import ConsumerGroup, Group
from pyconsumer.broker.group.manager import GroupMetadataManager
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name
from pyconsumer.structs import TopicPartition

__all__ = ["OffsetExpiration"]

_log = Log(__name__)


class OffsetExpiration:
    """Removes the expired offsets and groups of one coordinator.

    Args:
        timer: runs the periodic search for expired offsets.
    """

    def __init__(self, manager: GroupMetadataManager, timer: Timer, clock: Clock, replies: PendingReplies) -> None:
        self._manager = manager
        self._timer = timer
        self._clock = clock
        self._replies = replies
        self._task: TimerHandle | None = None

    # Expiry

    def start(self) -> None:
        """From now on, look for expired offsets every ``offsets.retention.check.interval.ms``."""
        self.stop()
        interval_s = self._manager.config.offsets_retention_check_interval_ms / 1000
        self._task = self._timer.schedule(self._clock.now() + interval_s, self._run)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _run(self) -> None:
        try:
            self.clean_up()
        except Exception:
            _log.exception("The search for expired offsets failed")
        self.start()

    def clean_up(self) -> int:
        """Remove expired offsets, and groups without members and offsets.

        Returns:
            The number of expired offsets. Offsets whose tombstones could not be written are counted, too.
        """
        count = 0
        started = self._clock.now()
        for group in self._manager.groups:
            if self._manager.is_local(group.group_id):
                try:
                    expired = self.expired(group)
                    removed = self._remove(group, expired, "expired")
                    removed.on_done(partial(self._on_expired, group, len(expired), started))
                except Exception:
                    _log.exception("The search for expired offsets failed in group %s", group.group_id)
                else:
                    count += len(expired)
        return count

    def expired(self, group: Group) -> list[TopicPartition]:
        """Return the partitions whose offsets have expired (KIP-211).

        When the offsets of a classic group expire depends on its state. The retention is ``offsets.retention.minutes``:

        1. The group is Empty: they expire when the retention has passed since it became Empty. If an old record does
           not contain that time, they expire when the retention has passed since the commit.
        2. The group is Stable and has the protocol type ``consumer``: they expire when the retention has passed since
           the commit, but not those of topics to which the group is subscribed.
        3. The group never had members: they expire when the retention has passed since the commit.
        4. In other cases (in a rebalance, with another protocol type, or with an unknown subscription) none expires.

        Offsets of a group of the consumer protocol expire in any state:

        5. The retention after the commit. Topics to which the group is subscribed are left out.
        """
        now_ms = self._clock.wall_ms()

        def commit_time(value: CommittedOffset) -> int:
            return value.commit_timestamp

        find = partial(group.offsets.expired, now_ms, self._manager.config.retention_ms)
        if isinstance(group, ConsumerGroup):
            return find(commit_time, frozenset(group.subscribed.topics()))
        empty_since = group.current_state_timestamp
        if group.protocol_type is None:
            return find(commit_time)
        if group.is_(GroupState.EMPTY):
            return find(commit_time if empty_since is None else lambda value: empty_since)
        if group.uses_consumer_protocol() and group.is_(GroupState.STABLE) and group.subscribed_topics is not None:
            return find(commit_time, group.subscribed_topics)
        return []

    def _on_expired(self, group: Group, count: int, started: float, error_code: int) -> None:
        if error_code != Errors.NONE:
            _log.warning(
                "Group %s: tombstones could not be written (%s); the next search tries again",
                group.group_id,
                error_name(error_code),
            )
        elif count:
            self._manager.metrics.expired(count)
            took_ms = (self._clock.now() - started) * 1000
            _log.info("Removed %d expired offsets of group %s in %d ms", count, group.group_id, took_ms)

    # Removal

    def _remove(
        self, group: Group, partitions: Sequence[TopicPartition], why: str, *, whole_group: bool = False
    ) -> Deferred[int]:
        """Write tombstones, then drop the offsets, and the group if it is empty or ``whole_group`` is set.

        The result is an error code for clients.
        """
        removed = set(partitions)
        generation = group.generation_id
        ends = whole_group or (
            group.is_empty
            and all(partition in removed for partition in group.offsets.committed)
            and not group.offsets.pending
            and not group.offsets.pending_transactional
            and (isinstance(group, ConsumerGroup) or not group.pending_members)
        )
        records = [offset_tombstone(group.group_id, partition) for partition in partitions]
        if ends and isinstance(group, ConsumerGroup):
            records += [record.encode(group.group_id) for record in group.tombstones()]
        elif ends and (whole_group or generation > 0):
            # In generation 0 the group has no record yet.
            records.append(group_tombstone(group.group_id))

        def drop(position: int) -> None:
            if partitions:
                self._drop(group, partitions, position, why)
            if ends and group.is_empty and group.generation_id == generation:
                self._end(group)

        return self._write(group, records, drop)

    def _write(self, group: Group, records: Sequence[KeyValue], then: Callable[[int], None]) -> Deferred[int]:
        """Append tombstones, and call ``then`` with their offset if that succeeded and the group is not dead."""
        done: Deferred[int] = Deferred()

        def finish(result: StoreResult) -> None:
            error_code = from_append(result.error_code)
            if error_code == Errors.NONE and not group.is_dead:
                with self._replies:
                    then(result.base_offset)
            done.set(error_code)

        if records:
            self._manager.append(self._manager.partition_for(group.group_id), records).on_done(finish)
        else:
            finish(StoreResult())
        return done

    def _drop(self, group: Group, partitions: Sequence[TopicPartition], position: int, why: str) -> None:
        dropped = group.offsets.remove_before(partitions, position)
        if dropped:
            _log.debug("Group %s: removed %s offsets: %s", group.group_id, why, ", ".join(map(str, dropped)))

    def _end(self, group: Group) -> None:
        if group.offsets.has_offsets:
            return  # an offset was committed in the meantime
        group.end()
        self._manager.remove_group(group)
        _log.info("Group %s is removed", group.group_id)

    # Deletion

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Deferred[tuple[int, dict[TopicPartition, int]]]:
        """Remove offsets (OffsetDelete). Offsets of topics to which the group is subscribed stay."""
        group = self._manager.get_group(group_id)
        if group is None or group.is_dead:
            return Deferred.of((Errors.GROUP_ID_NOT_FOUND, {}))
        if not group.is_empty and not group.uses_consumer_protocol():
            return Deferred.of((Errors.NON_EMPTY_GROUP, {}))
        subscribed = {
            partition for partition in partitions if not group.is_empty and group.is_subscribed_to(partition.topic)
        }
        result: dict[TopicPartition, int] = {
            partition: Errors.GROUP_SUBSCRIBED_TO_TOPIC if partition in subscribed else Errors.NONE
            for partition in partitions
        }
        present = set(group.offsets.partitions)
        removed = [
            partition for partition in dict.fromkeys(partitions) if partition not in subscribed and partition in present
        ]
        if not removed:
            return Deferred.of((Errors.NONE, result))
        reply: Deferred[tuple[int, dict[TopicPartition, int]]] = Deferred()

        def finish(error_code: int) -> None:
            reply.set((error_code, result if error_code == Errors.NONE else {}))

        self._delete(group, removed).on_done(finish)
        return reply

    def _delete(self, group: Group, partitions: Sequence[TopicPartition]) -> Deferred[int]:
        """Write tombstones and drop the offsets. The group stays."""

        def drop(position: int) -> None:
            self._manager.metrics.deleted(len(partitions))
            self._drop(group, partitions, position, "deleted")

        return self._write(group, [offset_tombstone(group.group_id, partition) for partition in partitions], drop)

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of deleted partitions from all groups. Pending commits are removed, too."""

        def log_failure(error_code: int) -> None:
            if error_code != Errors.NONE:
                _log.warning(
                    "Tombstones of deleted topics could not be written (%s); their offsets stay until they expire",
                    error_name(error_code),
                )

        deleted = set(partitions)
        with self._replies:
            for group in self._manager.groups:
                if not self._manager.is_local(group.group_id):
                    continue
                removed = [partition for partition in group.offsets.partitions if partition in deleted]
                if removed:
                    self._delete(group, removed).on_done(log_failure)

    def delete_groups(self, group_ids: Iterable[str], results: dict[str, int]) -> Deferred[dict[str, int]]:
        """Remove empty groups with all their offsets.

        Args:
            results: error codes of groups that were rejected before, by group id. The codes of the other groups are
                added to this mapping, which is the result.
        """
        reply: Deferred[dict[str, int]] = Deferred()
        deletable = []
        for group_id in group_ids:
            group = self._manager.get_group(group_id)
            if group is None or group.is_dead:
                results[group_id] = Errors.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                results[group_id] = Errors.NON_EMPTY_GROUP
            else:
                deletable.append(group)
        unfinished = len(deletable)

        def finish_one(group_id: str, offset_count: int) -> Callable[[int], None]:
            def finish(error_code: int) -> None:
                nonlocal unfinished
                if error_code == Errors.NONE:
                    self._manager.metrics.deleted(offset_count)
                results[group_id] = error_code
                unfinished -= 1
                if unfinished == 0:
                    reply.set(results)

            return finish

        if not deletable:
            reply.set(results)
        for group in deletable:
            everything = group.offsets.partitions
            removed = self._remove(group, everything, "deleted", whole_group=True)
            removed.on_done(finish_one(group.group_id, len(everything)))
        return reply
