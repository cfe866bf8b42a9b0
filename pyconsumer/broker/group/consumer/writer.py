"""Changes of consumer-protocol groups: appended to the log, applied to the group, then answered.

1. The records of a change are appended as one batch. If the append fails at once, nothing changes.
2. Otherwise they are replayed at once, so that the next request sees them. The reply is sent when the append has ended.
   If it ends with an error after all (the replicas took too long, or the leader has changed), the records may be in the
   log. The group stays as it is, and the client gets the error and sends its request again.
3. A reply to a request without records waits for the group's last append, so it shows only records in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.common.storage import KeyValue, StoreResult, from_append
from pyconsumer.broker.group.consumer.group import ConsumerGroup, Group
from pyconsumer.broker.group.consumer.records import GroupRecord
from pyconsumer.errors import Errors

__all__ = ["Change", "ConsumerGroupStore", "GroupWriter"]

T = TypeVar("T")


@dataclass(slots=True)
class Change:
    """A change of one group that results from one request.

    Attributes:
        group: the group, which may be new.
        first: encoded records that come before the group's own records, such as the tombstone of a classic group.
        records: the group's records, in order.
        last: encoded records that come after the group's own records.
        on_accepted: called when the records have been replayed onto the group. The append may still be in progress.
    """

    group: ConsumerGroup
    first: list[KeyValue] = field(default_factory=list)
    records: list[GroupRecord] = field(default_factory=list)
    last: list[KeyValue] = field(default_factory=list)
    on_accepted: list[Callable[[], None]] = field(default_factory=list)


class ConsumerGroupStore(Protocol):
    """The part of the group manager that groups of the consumer protocol need."""

    @property
    def groups(self) -> list[Group]: ...

    def get_group(self, group_id: str) -> Group | None:
        """Return the cached group, or None if this broker does not have it."""

    def replace_group(self, group: Group) -> None:
        """Cache a group in place of the group with the same id, whose offsets it has taken over."""

    def partition_for(self, group_id: str) -> int:
        """Return a group's partition of ``__consumer_offsets``."""

    def append(self, partition: int, records: Sequence[KeyValue]) -> Deferred[StoreResult]:
        """Append a batch to a partition of ``__consumer_offsets``."""


class GroupWriter:
    """Writes changes of groups for one coordinator. Call the methods inside ``with replies``."""

    def __init__(self, manager: ConsumerGroupStore, replies: PendingReplies) -> None:
        self._manager = manager
        self._replies = replies

    def write(
        self,
        change: Change,
        reply: Deferred[T] | None,
        result: T,
        failed: Callable[[int], T],
        on_stored: Callable[[], None] | None = None,
    ) -> bool:
        """Append a change to the log, replay it onto the group, and set the reply when the append has ended.

        Args:
            reply: the reply to the request. None if no request has caused the change.
            result: the reply if the append succeeds. ``failed`` returns the reply for an error code.
            on_stored: called before the reply is set, if the append succeeds.

        Returns:
            False if the append failed at once. In that case the group is unchanged.
        """
        group = change.group

        def finish(code: int) -> None:
            with self._replies:
                if code == Errors.NONE and on_stored is not None:
                    on_stored()
                self._replies.put(reply, result if code == Errors.NONE else failed(code))

        batch = [*change.first, *(record.encode(group.group_id) for record in change.records), *change.last]
        if not batch:
            self._accept(change)
            if group.last_write is None or group.last_write.done:
                finish(Errors.NONE)
            else:
                group.last_write.on_done(finish)
            return True
        appended = self._manager.append(self._manager.partition_for(group.group_id), batch)
        if appended.done and appended.value.error_code != Errors.NONE:
            finish(from_append(appended.value.error_code))
            return False
        for record in change.records:
            group.replay(record)
        self._accept(change)
        write: Deferred[int] = Deferred()
        group.note_write(write)

        def on_appended(stored: StoreResult) -> None:
            write.set(from_append(stored.error_code))

        write.on_done(finish)
        appended.on_done(on_appended)
        return True

    @staticmethod
    def _accept(change: Change) -> None:
        for call in change.on_accepted:
            call()
