"""Changes of consumer groups: appended to the log, replayed onto the group, and then the reply.

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
    """A change of one group by one request.

    Attributes:
        group: the group, which may be new.
        first: encoded records before the group's own: the tombstone of the classic group that it replaces.
        records: the group's records, in order.
        last: encoded records after them.
        on_accepted: called when the records have been replayed, before the append has ended.
    """

    group: ConsumerGroup
    first: list[KeyValue] = field(default_factory=list)
    records: list[GroupRecord] = field(default_factory=list)
    last: list[KeyValue] = field(default_factory=list)
    on_accepted: list[Callable[[], None]] = field(default_factory=list)


class ConsumerGroupStore(Protocol):
    """The part of the group manager that consumer groups need."""

    @property
    def groups(self) -> list[Group]: ...

    def get_group(self, group_id: str) -> Group | None:
        """Return the cached group, None if there is none here."""

    def replace_group(self, group: Group) -> None:
        """Cache a group in place of the one with its id, whose offsets it has adopted."""

    def partition_for(self, group_id: str) -> int:
        """Return a group's partition of ``__consumer_offsets``."""

    def append(self, partition: int, records: Sequence[KeyValue]) -> Deferred[StoreResult]:
        """Append a batch to a partition of ``__consumer_offsets``."""


class GroupWriter:
    """Writes changes for one coordinator. Call inside ``with replies``."""

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
        """Append a change, replay it, and set the reply when the append has ended.

        Args:
            reply: the request's, or None for a change that no request makes.
            result: the reply if the append succeeds. ``failed`` returns the one for an error code.
            on_stored: called before the reply, if the append succeeds.

        Returns:
            False if the append failed at once. The group is unchanged then.
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
