"""Calls of the program's rebalance listener in aiokafka's way.

Rules

1. In an eager group each rebalance gives two sets: that of all partitions before it, then that of all partitions after
   it. Both may be empty: the first before the first join, and both of a member without partitions. In a cooperative
   group, and under ``group_protocol="consumer"``, the sets have what changes. aiokafka has neither.
2. Lost partitions are revoked ones: aiokafka's listener has no third method.
3. Methods may be plain or coroutine functions. An exception is logged, and the rebalance continues.
4. ``stop`` and ``unsubscribe`` make no call.
5. A read in a listener is an error, because reads wait for the end of the rebalance. That includes the tasks that the
   listener starts, until it ends.
6. The consumer keeps the listener, and the group's task gets :class:`ListenerCalls`, which refers to it weakly: a
   listener often refers to its consumer, which could not be collected otherwise.
"""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any, Final

from pyconsumer.aio.consumer import AsyncConsumerRebalanceListener
from pyconsumer.structs import TopicPartition

__all__ = ["ListenerCalls", "Listening"]

_log = logging.getLogger("pyconsumer.compat.aiokafka")


class Listening:
    """Calls the rebalance listener of one consumer.

    Attributes:
        listener: the program's listener, or None.
        is_silent: True if no more calls are made.
    """

    def __init__(self) -> None:
        self.listener: Any = None
        self.is_silent = False
        self._calls = 0  # in progress
        self._told_of_nothing = False  # since the last assignment

    def begin(self, listener: Any) -> None:
        """From now on call this listener. None for no listener."""
        self.listener = listener
        self.is_silent = False

    def be_silent(self) -> None:
        """Make no more calls."""
        self.is_silent = True

    @property
    def is_called_here(self) -> bool:
        """Return whether the caller is the listener, or a task that it has started."""
        return self._calls > 0 and _called.get() is self

    async def call(self, name: str, partitions: Collection[TopicPartition]) -> None:
        """Call a method of the listener with a set of partitions. If it raises, log the exception."""
        if self.listener is None or self.is_silent:
            return
        if name == "on_partitions_assigned":
            self._told_of_nothing = False
        elif not partitions:
            if self._told_of_nothing:  # the join is tried again
                return
            self._told_of_nothing = True
        before = _called.set(self)
        self._calls += 1
        try:
            result = getattr(self.listener, name)(set(partitions))
            if inspect.isawaitable(result):
                await result
        except Exception:
            _log.exception("%s of the listener %r raised, with %s", name, self.listener, sorted(partitions))
        finally:
            self._calls -= 1
            _called.reset(before)


#: The listener whose method runs.
_called: Final[ContextVar[Listening | None]] = ContextVar("_called", default=None)


class ListenerCalls(AsyncConsumerRebalanceListener):
    """Passes the group's calls to a consumer's :class:`Listening`, as long as that object exists.

    Attributes:
        before_first_join: see :mod:`~pyconsumer.consumer.coordinator.listener_invoker`.
    """

    before_first_join = True

    def __init__(self, listening: Listening) -> None:
        self._find = weakref.ref(listening)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Pass the call on. :meth:`on_partitions_lost` calls this, too."""
        found = self._find()
        if found is not None:
            await found.call("on_partitions_revoked", revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Pass the call on."""
        found = self._find()
        if found is not None:
            await found.call("on_partitions_assigned", assigned)
