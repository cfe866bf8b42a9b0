"""Assignors of the originals that a program only names: the group uses ours, which has the same name on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from pyconsumer.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from pyconsumer.compat.kafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["NamedAssignor"]


class NamedAssignor(AbstractPartitionAssignor):
    """A class that stands for one of pyconsumer's assignors.

    Attributes:
        version: version of the format.
    """

    name = ""
    version = 0

    def assign(self, cluster: Any, members: Any) -> NoReturn:
        """Reject the call. The leader of a group uses pyconsumer's assignor instead.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"the assignor {self.name!r} is used by its name. Call pyconsumer.assignors instead")

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return a subscription that has no user data."""
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment, *generation: int) -> None:
        """Ignore the assignment."""
