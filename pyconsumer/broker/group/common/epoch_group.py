"""``EpochGroup``: what groups with epochs have in common, those of the consumer protocol and share groups."""

from __future__ import annotations

from typing import Any

from pyconsumer.broker.deferred import Deferred

__all__ = ["EpochGroup"]


class EpochGroup:
    """The base of groups whose coordinator computes the target assignment.

    Attributes:
        members: the members by member id.
        metadata_expired: True if topics have changed, so that the metadata hash must be computed again.
        last_write: the result of the last append.
    """

    members: dict[str, Any]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp = 0
        self.metadata_expired = True
        self.last_write: Deferred[int] | None = None
        self._dead = False

    @property
    def is_dead(self) -> bool:
        return self._dead

    @property
    def is_empty(self) -> bool:
        return not self._dead and not self.members

    def end(self) -> None:
        """Make the group Dead: it was deleted or converted, or another broker coordinates it."""
        self._dead = True

    def expire_metadata(self) -> None:
        """Let the metadata hash be computed again, because a topic of the group has changed."""
        self.metadata_expired = True

    def note_fresh_metadata(self) -> None:
        """Record that the metadata hash was computed from the present topics."""
        self.metadata_expired = False

    def note_write(self, write: Deferred[int]) -> None:
        """Remember the result of an append that has begun."""
        self.last_write = write
