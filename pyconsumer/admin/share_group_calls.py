"""The admin client's calls for the offsets of share groups (KIP-932).

The steps are in :mod:`.share_groups`, which is imported by the first call: few programs need it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pyconsumer.admin.outcomes import results_of
from pyconsumer.admin.types import ShareOffset
from pyconsumer.network.calls import Calls
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["ShareGroupCalls"]

R = TypeVar("R")


class ShareGroupCalls(ABC):
    """A part of the admin client."""

    _calls: Calls

    @abstractmethod
    def _run(self, steps: Callable[[float], Steps[R]], timeout_ms: int | None) -> R:
        """Run the steps of a call."""

    def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """Return the first record that a share group has not finished, for the given partitions or for all (KIP-932).

        Example::

            for tp, found in admin.list_share_group_offsets("mailers").items():
                print(tp, found.start_offset, found.lag)
        """
        from pyconsumer.admin import share_groups

        wanted = None if partitions is None else list(partitions)

        def steps(until: float) -> Steps[dict[TopicPartition, ShareOffset]]:
            found = yield from share_groups.offsets_of(self._calls, {group_id: wanted}, until)
            return results_of(found)[group_id]

        return self._run(steps, timeout_ms)

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> None:
        """Let a share group without members read from other offsets. If it does not exist, it is created.

        Raises:
            NonEmptyGroupError: the group has members. The message names them.

        Example::

            admin.alter_share_group_offsets("mailers", {TopicPartition("mails", 0): 0})
        """
        from pyconsumer.admin import share_groups

        return self._run(lambda until: share_groups.alter_offsets(self._calls, group_id, offsets, until), timeout_ms)

    def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> None:
        """Delete the offsets of topics from a share group without members.

        If the group reads these topics again, it begins like a new group.

        Raises:
            NonEmptyGroupError: the group has members. The message names them.
            GroupIdNotFoundError: there is no such share group.
            UnknownTopicOrPartitionError: the group has no offsets of a topic.

        Example::

            admin.delete_share_group_offsets("mailers", ["mails"])
        """
        from pyconsumer.admin import share_groups

        if isinstance(topics, str):
            raise TypeError(f"a list of names is needed, not the string {topics!r}")
        wanted = list(topics)
        return self._run(lambda until: share_groups.delete_offsets(self._calls, group_id, wanted, until), timeout_ms)
