"""``GroupConsumer``: a consumer that joins its group, and takes part in rebalances, without a poll.

:mod:`pyconsumer.compat.aiokafka` wraps it, since aiokafka's consumer joins in ``start`` and rebalances in a task.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from pyconsumer.aio.consumer import AsyncKafkaConsumer
from pyconsumer.network.metadata import Metadata

__all__ = ["GroupConsumer"]

#: The longest wait for the call of another task at a time (seconds).
_LONGEST_WAIT_S: Final = 3600.0


class GroupConsumer(AsyncKafkaConsumer[Any, Any]):
    """An ``AsyncKafkaConsumer`` whose owner may take part in rebalances between polls."""

    async def join(self, timeout_ms: float) -> bool:
        """Join the group (without one: find the partitions of the subscription), and set the positions.

        No record is returned. Records that are produced from now on are read also with ``latest``.

        Returns:
            True if that was done in time, also for a member that gets no partition.
        """
        self._driver.bind()
        self._guard.begin("start")
        try:
            deadline = self._deadline(timeout_ms)
            return await self._driver.run(self._delegate.until_assigned(deadline), deadline, interruptible=True)
        finally:
            self._guard.end()

    def until_due(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that waits until :meth:`rebalance` has work. It does not refer to this object."""
        return self._driver.run(self._delegate.until_group_is_due(), interruptible=True)

    async def rebalance(self) -> None:
        """Take part in a rebalance as far as that goes without waiting."""
        while self._guard.busy:
            await self._guard.until_free(_LONGEST_WAIT_S)
        self._driver.bind()
        self._guard.begin("a rebalance in the background")
        try:
            await self._driver.run(self._delegate.serve_group())
        finally:
            self._guard.end()

    @property
    def subscribes(self) -> bool:
        """Return whether topics or a pattern are subscribed."""
        return self._subscriptions.has_auto_assigned

    @property
    def metadata(self) -> Metadata:
        """The brokers and topics that are known."""
        return self._metadata

    @property
    def coordinator_id(self) -> int | None:
        """The id of the broker that coordinates the group, None if it is not known."""
        group = self._delegate.coordinator
        return None if group is None else group.coordinator_id
