"""Changes of consumer groups: written to the log and replayed in one step, answered when the replicas have them.

1. The records of a change are appended as one batch. If the log refuses them at once, nothing has changed.
2. Otherwise they are replayed at once, so that the next request sees them, and the request is answered when the append
   has ended. Should it end with an error after all (the replicas took too long, or the leadership has moved), the
   records may be in the log: the group stays as it is, the client gets the error and asks again.
3. An answer that needs no record waits for the group's last append too: it contains nothing that could still be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.records import GroupRecord
from pyconsumer.broker.group.manager import GroupMetadataManager
from pyconsumer.broker.group.storage import KeyValue, StoreResult, from_append
from pyconsumer.errors import Errors

__all__ = ["Change", "GroupWriter"]

T = TypeVar("T")


@dataclass(slots=True)
class Change:
    """A change of one group by one request.

    Attributes:
        group: the group, which may be new.
        first: raw records that come before the group's own: the tombstone of a classic group that it replaces.
        records: the group's records, in order.
        last: raw records that come after them.
        on_accepted: called once the records are replayed.
    """

    group: ConsumerGroup
    first: list[KeyValue] = field(default_factory=list)
    records: list[GroupRecord] = field(default_factory=list)
    last: list[KeyValue] = field(default_factory=list)
    on_accepted: list[Callable[[], None]] = field(default_factory=list)


class GroupWriter:
    """Writes changes for one coordinator. Call inside ``with answers``."""

    def __init__(self, manager: GroupMetadataManager, answers: PendingReplies) -> None:
        self._manager = manager
        self._answers = answers

    def write(
        self,
        change: Change,
        answer: Deferred[T] | None,
        result: T,
        failed: Callable[[int], T],
        on_stored: Callable[[], None] | None = None,
    ) -> bool:
        """Append a change, replay it, and answer.

        Args:
            answer: the request's; None for a change that time brings.
            result: the answer if all goes well; ``failed`` makes the one for an error code.
            on_stored: called before a good answer.

        Returns:
            False if the log has refused the change at once.
        """
        group = change.group

        def finish(code: int) -> None:
            with self._answers:
                if code == Errors.NONE and on_stored is not None:
                    on_stored()
                self._answers.put(answer, result if code == Errors.NONE else failed(code))

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
