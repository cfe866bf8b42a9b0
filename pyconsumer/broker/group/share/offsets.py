"""The offsets of share groups: they are read, set and deleted, and groups are deleted (KIP-932). No state.

The offsets are kept by the share coordinators. The group only knows which partitions have a state. So a change is made
in three steps: the group notes what is about to happen, the share coordinators are asked, and the group notes the
result. After a crash in between, the next attempt finishes it.

Offsets are set and deleted only while the group is empty, so that no member is in between. The changes of a group are
made one after the other, in turn with the states that its members begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.share.group import InitTopic, ShareGroup
from pyconsumer.broker.group.share.membership import ShareChange, ShareGroups
from pyconsumer.broker.group.share.states import StateSummary, for_each
from pyconsumer.errors import BrokerResponseError, Errors, NonEmptyGroupError, NotCoordinatorError
from pyconsumer.structs import TopicPartition

__all__ = ["ShareOffsets", "TopicOutcome"]


class TopicOutcome(NamedTuple):
    """The result for one topic."""

    topic_id: bytes | None
    error_code: int = 0
    error_message: str | None = None


class ShareOffsets:
    """Serves the requests about the offsets of share groups of one coordinator."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def _empty(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """Return a group without members.

        Raises:
            GroupIdNotFoundError: there is no share group with this id.
            NonEmptyGroupError: the group has members.
        """
        group = self._groups.get_or_new(group_id) if create else self._groups.get(group_id)
        if group.members:
            raise NonEmptyGroupError("The group is not empty.")
        return group

    def _empty_now(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """Return a group without members, which this broker coordinates now that the work before has ended.

        Raises:
            NotCoordinatorError: the group has moved.
            GroupIdNotFoundError, NonEmptyGroupError: see :meth:`_empty`.
        """
        if not self._groups.manager.is_local(group_id):
            raise NotCoordinatorError(f"This broker does not coordinate group {group_id} any more.")
        return self._empty(group_id, create=create)

    def describe(
        self, group_id: str, wanted: Iterable[TopicPartition] | None
    ) -> Deferred[dict[TopicPartition, StateSummary]]:
        """Return where share partitions begin. None asks for all that have a state."""
        image = self._groups.image
        if wanted is None:
            group = self._groups.manager.get_share_group(group_id)
            known = {} if group is None else group.partitions.initialized
            wanted = [TopicPartition(one.name, index) for one in known.values() for index in sorted(one.partitions)]
        calls = {}
        for tp in wanted:
            topic_id = image.topic_id(tp.topic)
            if topic_id is None:
                calls[tp] = Deferred.of(StateSummary())
            else:
                calls[tp] = self._groups.states.summary(group_id, topic_id, tp.partition)
        return for_each(calls)

    def alter(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Deferred[dict[TopicPartition, int]]:
        """Set the start offsets of share partitions. If there is no group, an empty one is made.

        Returns:
            An error code for each partition.

        Raises:
            GroupIdNotFoundError: the group is of another type.
            NonEmptyGroupError: the group has members.
        """
        self._empty(group_id, create=True)

        def work() -> Deferred[dict[TopicPartition, int]]:
            try:
                group = self._empty_now(group_id, create=True)
            except BrokerResponseError as error:
                return Deferred.of(dict.fromkeys(offsets, error.errno))
            return self._alter(group, offsets)

        return self._groups.turns.run(group_id, work, dict.fromkeys(offsets, int(Errors.UNKNOWN_SERVER_ERROR)))

    def _alter(self, group: ShareGroup, offsets: Mapping[TopicPartition, int]) -> Deferred[dict[TopicPartition, int]]:
        image = self._groups.image
        results: dict[TopicPartition, int] = {}
        begun: dict[bytes, InitTopic] = {}
        wanted: dict[tuple[bytes, int], TopicPartition] = {}
        for tp in offsets:
            topic_id, count = image.topic_id(tp.topic), image.partition_count(tp.topic)
            if topic_id is None or count is None or not 0 <= tp.partition < count:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
                continue
            known = begun.get(topic_id, InitTopic(tp.topic, frozenset()))
            begun[topic_id] = known._replace(partitions=known.partitions | {tp.partition})
            wanted[topic_id, tp.partition] = tp
        done: Deferred[dict[TopicPartition, int]] = Deferred()
        if not begun:
            done.set(results)
            return done

        def on_noted(code: int) -> None:
            if code != Errors.NONE:
                if is_new and not group.partitions.topics and not group.members:
                    manager.remove_share_group(group)  # it was made for this, and nothing of it is in the log
                done.set(results | dict.fromkeys(wanted.values(), code))
                return
            starts = {key: offsets[tp] for key, tp in wanted.items()}
            self._groups.initialize(group, group.group_epoch, begun, starts).on_done(
                lambda codes: done.set(results | {wanted[key]: found for key, found in codes.items()})
            )

        manager = self._groups.manager
        is_new = manager.get_share_group(group.group_id) is not group
        manager.add_share_group(group)
        self._groups.begin(group, begun).on_done(on_noted)
        return done

    def delete(self, group_id: str, topics: Iterable[str]) -> Deferred[dict[str, TopicOutcome]]:
        """Delete the offsets of topics.

        Raises:
            GroupIdNotFoundError, NonEmptyGroupError: see :meth:`alter`.
        """
        self._empty(group_id)
        names = list(dict.fromkeys(topics))

        def work() -> Deferred[dict[str, TopicOutcome]]:
            try:
                group = self._empty_now(group_id)
            except BrokerResponseError as error:
                return Deferred.of(dict.fromkeys(names, TopicOutcome(None, error.errno)))
            return self._delete(group, names)

        failed = TopicOutcome(None, Errors.UNKNOWN_SERVER_ERROR)
        return self._groups.turns.run(group_id, work, dict.fromkeys(names, failed))

    def _delete(self, group: ShareGroup, names: Iterable[str]) -> Deferred[dict[str, TopicOutcome]]:
        image = self._groups.image
        results: dict[str, TopicOutcome] = {}
        gone: dict[bytes, str] = {}
        partitions: dict[bytes, Iterable[int]] = {}
        for name in names:
            topic_id = image.topic_id(name)
            if topic_id is None:
                results[name] = TopicOutcome(None, Errors.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic_id in group.partitions.initialized:
                gone[topic_id] = name
                partitions[topic_id] = sorted(group.partitions.initialized[topic_id].partitions)
            elif topic_id in group.partitions.deleting:
                gone[topic_id] = name
                partitions[topic_id] = range(image.partition_count(name) or 0)
            else:
                text = "There is no offset information to delete."
                results[name] = TopicOutcome(None, Errors.UNKNOWN_TOPIC_OR_PARTITION, text)
        done: Deferred[dict[str, TopicOutcome]] = Deferred()
        if not gone:
            done.set(results)
            return done

        def on_deleted(codes: Mapping[bytes, int]) -> None:
            for topic_id, code in codes.items():
                results[gone[topic_id]] = TopicOutcome(topic_id, code)
            done.set(results)

        self._delete_states(group, partitions).on_done(on_deleted)
        return done

    def _delete_states(
        self, group: ShareGroup, partitions: Mapping[bytes, Iterable[int]]
    ) -> Deferred[dict[bytes, int]]:
        """Delete the states of topics. The result is an error code for each topic."""
        done: Deferred[dict[bytes, int]] = Deferred()

        def on_noted(code: int) -> None:
            if code != Errors.NONE:
                done.set(dict.fromkeys(partitions, code))
                return
            calls = {
                (topic, index): self._groups.states.delete(group.group_id, topic, index)
                for topic, indexes in partitions.items()
                for index in indexes
            }
            for_each(calls).on_done(on_deleted)

        def on_deleted(codes: Mapping[tuple[bytes, int], int]) -> None:
            failed = {topic: code for (topic, _), code in codes.items() if code != Errors.NONE}
            ended = [topic for topic in partitions if topic not in failed]
            note = self._groups.note_partitions(group, group.partitions.end_delete(ended))
            note.on_done(lambda code: done.set({topic: failed.get(topic, code) for topic in partitions}))

        self._groups.note_partitions(group, group.partitions.delete(partitions)).on_done(on_noted)
        return done

    def delete_group(self, group_id: str) -> Deferred[int]:
        """Delete an empty group with the states of its share partitions. The result is an error code."""

        def work() -> Deferred[int]:
            try:
                group = self._empty_now(group_id)
            except BrokerResponseError as error:
                return Deferred.of(error.errno)
            return self._delete_group(group)

        return self._groups.turns.run(group_id, work, int(Errors.UNKNOWN_SERVER_ERROR))

    def _delete_group(self, group: ShareGroup) -> Deferred[int]:
        done: Deferred[int] = Deferred()

        def on_states(codes: Mapping[bytes, int]) -> None:
            code = next((code for code in codes.values() if code != Errors.NONE), Errors.NONE)
            if code == Errors.NONE and group.members:
                code = Errors.NON_EMPTY_GROUP  # a member has joined in the meantime
            if code == Errors.NONE and not self._groups.is_current(group):
                code = Errors.NOT_COORDINATOR
            if code != Errors.NONE:
                done.set(code)
                return
            self._groups.delete(ShareChange(group, group.tombstones())).on_done(done.set)

        image = self._groups.image
        known: dict[bytes, Iterable[int]] = {
            topic: indexes
            for topic, indexes in group.partitions.known_partitions().items()
            if image.topic_name(topic) is not None
        }
        for topic in group.partitions.deleting:
            name = image.topic_name(topic)
            if name is not None:
                known[topic] = range(image.partition_count(name) or 0)
        if known:
            self._delete_states(group, known).on_done(on_states)
        else:
            on_states({})
        return done
