"""Share sessions, the broker's side (KIP-932): the partitions of each member, and an epoch. A core without a clock.

1. A member has at most one session with a broker. Epoch 0 opens it and replaces an older one. Each later request has
   the next epoch, and epoch -1 closes it. A request with another epoch is refused and changes nothing.
2. A request names changes. So the session has the partitions that the member reads.
3. A session ends with its connection. What was acquired in a session is released at its end. A request that waits for
   records ends with its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from pyconsumer.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "SessionKey", "ShareSession", "ShareSessions", "SharedPartition"]

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0

#: A topic id and the number of a partition.
SharedPartition = tuple[bytes, int]


class SessionKey(NamedTuple):
    """The member that a session belongs to."""

    group_id: str
    member_id: str


class ShareSession:
    """A session. ``owner`` is the connection that opened it."""

    __slots__ = ("_watchers", "epoch", "is_over", "owner", "partitions")

    def __init__(self, owner: object, partitions: Iterable[SharedPartition]) -> None:
        self.owner = owner
        self.epoch = 1
        self.is_over = False
        self._watchers: dict[Callable[[], None], None] = {}
        self.partitions: dict[SharedPartition, None] = dict.fromkeys(partitions)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` when the session ends."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self._watchers.pop(watcher, None)

    def end(self) -> None:
        """End the session."""
        self.is_over = True
        for watcher in tuple(self._watchers):
            watcher()

    def advance(self) -> None:
        """Expect the next epoch."""
        self.epoch = self.epoch + 1 if self.epoch < 0x7FFFFFFF else 1

    def change(self, added: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]) -> None:
        """Change the partitions (rule 2)."""
        self.partitions.update(dict.fromkeys(added))
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def in_turn(self) -> list[SharedPartition]:
        """Return the partitions, each time another one first."""
        partitions = list(self.partitions)
        turn = self.epoch % len(partitions) if partitions else 0
        return partitions[turn:] + partitions[:turn]


class ShareSessions:
    """The sessions of one broker.

    Args:
        most: the largest number of sessions (``group.share.max.share.sessions``).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession:
        """Return the session of a member. Raise ``ShareSessionNotFoundError`` if it has none."""
        found = self._sessions.get(key)
        if found is None:
            raise ShareSessionNotFoundError("The share session was not found.")
        return found

    def open(self, key: SessionKey, owner: object, partitions: Iterable[SharedPartition]) -> ShareSession:
        """Open a session, in place of the member's older one.

        Raises:
            ShareSessionLimitReachedError: there are too many.
        """
        self.remove(key)
        if len(self._sessions) >= self._most:
            raise ShareSessionLimitReachedError("The limit of share sessions has been reached.")
        session = self._sessions[key] = ShareSession(owner, partitions)
        return session

    def advance(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session for a request, and expect the next epoch.

        Raises:
            ShareSessionNotFoundError, InvalidShareSessionEpochError: the member must open a new session.
        """
        session = self.get(key)
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            raise InvalidShareSessionEpochError(f"The share session expects epoch {session.epoch}, not {epoch}.")
        session.advance()
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session. Return it, or None if there is none."""
        session = self._sessions.pop(key, None)
        if session is not None:
            session.end()
        return session

    def has(self, key: SessionKey, session: ShareSession) -> bool:
        """Return whether this is the present session of a member."""
        return self._sessions.get(key) is session

    def of_owner(self, owner: object) -> list[SessionKey]:
        """Return the members whose sessions were opened by a connection."""
        return [key for key, session in self._sessions.items() if session.owner is owner]

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of a group has a session."""
        return any(key.group_id == group_id for key in self._sessions)
