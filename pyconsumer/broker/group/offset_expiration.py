"""Removes what nobody needs any more: expired offsets, empty groups, deleted groups, offsets of deleted topics.

What is removed gets a tombstone in the log first and leaves the cache when that is written. So a failed append removes
nothing: the next round tries again what has expired, and offsets of a deleted topic stay until they expire. Commits on
their way get a tombstone too, which comes after them in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.manager import Group, GroupMetadataManager
from pyconsumer.broker.group.offsets import CommittedOffset
from pyconsumer.broker.group.records import group_tombstone, offset_tombstone
from pyconsumer.broker.group.storage import KeyValue, StoreResult, from_append
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name
from pyconsumer.structs import TopicPartition

__all__ = ["OffsetExpiration"]

_log = logging.getLogger(__name__)


class OffsetExpiration:
    """Removes offsets and groups of one broker.

    Args:
        timer: runs the periodic search for expired offsets.
    """

    def __init__(self, manager: GroupMetadataManager, timer: Timer, clock: Clock, answers: PendingReplies) -> None:
        self._manager = manager
        self._timer = timer
        self._clock = clock
        self._answers = answers
        self._task: TimerHandle | None = None

    # Expiry

    def start(self) -> None:
        """Look for expired offsets every ``offsets.retention.check.interval.ms`` from now on."""
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
        """Remove expired offsets, and groups that have neither members nor offsets.

        Returns:
            How many offsets had expired.
        """
        started = self._clock.now()
        count = 0
        for group in self._manager.groups:
            if self._manager.is_local(group.group_id):
                try:
                    expired = self.expired(group)
                    self._remove(group, expired, "expired").on_done(self._log_failure)
                except Exception:
                    _log.exception("The search for expired offsets failed in group %s", group.group_id)
                else:
                    count += len(expired)
        if count:
            self._manager.metrics.expired(count)
            _log.info("Removed %d expired offsets in %d ms", count, round((self._clock.now() - started) * 1000))
        return count

    def expired(self, group: Group) -> list[TopicPartition]:
        """The offsets of a group that have outlived their time (KIP-211).

        1. An empty group's, ``offsets.retention.minutes`` after it became empty (or after the commit, if an old record
           does not say when that was).
        2. A Stable consumer group's of topics that it does not subscribe to, that long after the commit.
        3. Those of a group that never had members, likewise.
        4. No others: of a group in a rebalance, with another protocol type, or whose subscription is not known.
        5. Those of a group of the consumer protocol, of topics that it does not subscribe to, that long after the
           commit, whatever its state.
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

    def _log_failure(self, error_code: int) -> None:
        if error_code != Errors.NONE:
            _log.warning("Tombstones could not be written (%s); the next round tries again", error_name(error_code))

    # Removal

    def _remove(
        self, group: Group, partitions: Sequence[TopicPartition], why: str, *, whole_group: bool = False
    ) -> Deferred[int]:
        """Write tombstones, then drop the offsets, and the group if nothing is left of it or ``whole_group`` says so.

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
            # Below generation 1 nothing was ever registered.
            records.append(group_tombstone(group.group_id))

        def drop(position: int) -> None:
            if partitions:
                self._drop(group, partitions, position, why)
            if ends and group.is_empty and group.generation_id == generation:
                self._end(group)

        return self._write(group, records, drop)

    def _write(self, group: Group, records: Sequence[KeyValue], then: Callable[[int], None]) -> Deferred[int]:
        """Append, and call ``then(position)`` if that worked and the group is still ours."""
        done: Deferred[int] = Deferred()

        def finish(result: StoreResult) -> None:
            error_code = from_append(result.error_code)
            if error_code == Errors.NONE and not group.is_dead:
                with self._answers:
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
            _log.debug("Group %s: %s offsets removed: %s", group.group_id, why, ", ".join(map(str, dropped)))

    def _end(self, group: Group) -> None:
        if group.offsets.has_offsets:
            return  # Somebody committed in the meantime.
        group.end()
        self._manager.remove_group(group)
        _log.info("Group %s is removed", group.group_id)

    # What tools ask for

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Deferred[tuple[int, dict[TopicPartition, int]]]:
        """Remove offsets that no member may be using."""
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
        answer: Deferred[tuple[int, dict[TopicPartition, int]]] = Deferred()

        def finish(error_code: int) -> None:
            answer.set((error_code, result if error_code == Errors.NONE else {}))

        self._delete(group, removed).on_done(finish)
        return answer

    def _delete(self, group: Group, partitions: Sequence[TopicPartition]) -> Deferred[int]:
        """Remove offsets that have not expired."""

        def drop(position: int) -> None:
            self._manager.metrics.deleted(len(partitions))
            self._drop(group, partitions, position, "deleted")

        return self._write(group, [offset_tombstone(group.group_id, partition) for partition in partitions], drop)

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of partitions that are gone, in all groups, and what is on its way for them."""

        def log_failure(error_code: int) -> None:
            if error_code != Errors.NONE:
                _log.warning(
                    "Tombstones of deleted topics could not be written (%s); their offsets stay until they expire",
                    error_name(error_code),
                )

        gone = set(partitions)
        with self._answers:
            for group in self._manager.groups:
                if not self._manager.is_local(group.group_id):
                    continue
                removed = [partition for partition in group.offsets.partitions if partition in gone]
                if removed:
                    self._delete(group, removed).on_done(log_failure)

    def delete_groups(self, group_ids: Iterable[str], results: dict[str, int]) -> Deferred[dict[str, int]]:
        """Remove empty groups with all their offsets.

        Args:
            results: error codes of groups that are refused already; completed and given back.
        """
        answer: Deferred[dict[str, int]] = Deferred()
        waiting = []
        for group_id in group_ids:
            group = self._manager.get_group(group_id)
            if group is None or group.is_dead:
                results[group_id] = Errors.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                results[group_id] = Errors.NON_EMPTY_GROUP
            else:
                waiting.append(group)
        open_count = len(waiting)

        def note(group_id: str) -> Callable[[int], None]:
            def finish(error_code: int) -> None:
                nonlocal open_count
                results[group_id] = error_code
                open_count -= 1
                if open_count == 0:
                    answer.set(results)

            return finish

        if not waiting:
            answer.set(results)
        for group in waiting:
            everything = group.offsets.partitions
            self._manager.metrics.deleted(len(everything))
            self._remove(group, everything, "deleted", whole_group=True).on_done(note(group.group_id))
        return answer
