"""Calls of the rebalance listener, and the commit before partitions are revoked. Every such call is made here.

Java: ``ConsumerRebalanceListenerInvoker``. Rules

1. Only the thread that uses the consumer runs a listener, inside ``poll``, ``unsubscribe``, ``close`` and their like:
   :meth:`ListenerInvoker._call_listener` is a generator, which that thread's driver runs. The heartbeat thread never
   gets here. Its findings wait as actions for the next poll (``next_action`` of the membership).
2. No lock is held during a call, and wakeups are delayed until it is over.
3. Before partitions are revoked, their positions are committed (:meth:`ListenerInvoker._commit_first`). Of records that
   the application has in its hands nothing is committed (rule 9 of :mod:`~pyconsumer.consumer.subscription_state`).
4. A listener with a true attribute ``before_first_join`` is also told of the revocation of nothing, before a member
   without partitions joins an eager group (as in aiokafka).

:mod:`.classic_group_rebalance` and :mod:`.consumer_group_reconciliation` (KIP-848) define the order of the calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.offset_commits import OffsetCommitter
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.futures import RequestFuture, Steps, Wait, wait_for_callback
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient

__all__ = ["ListenerInvoker"]

T = TypeVar("T")


class ListenerInvoker:
    """Calls the rebalance listener, and commits before that.

    The base class of both protocols' steps in the user's thread.

    Args:
        coordinator_client: sends requests to the coordinator.
        client: the network client of the user's thread.
        subscriptions: those of the consumer.
        committer: commits before partitions are revoked.

    Attributes:
        due_at: when to continue with a step that does not wait for the coordinator, but for something else. -inf means
            now.
    """

    def __init__(
        self,
        coordinator_client: CoordinatorClient[Any],
        client: ConsumerNetworkClient,
        *,
        subscriptions: SubscriptionState,
        committer: OffsetCommitter,
    ) -> None:
        self.due_at = -math.inf
        self._coordinator = coordinator_client
        self._member = coordinator_client.core
        self._client = client
        self._subscriptions = subscriptions
        self._committer = committer
        self._commit_until: float | None = None
        self._commit: RequestFuture[None] | None = None
        self._commit_not_before = -math.inf
        self._commit_failures = 0

    # -- the commit before -------------------------------------------------------------------------------------------

    def _commit_first(self, deadline: float) -> Steps[bool]:
        """Commit the positions while the rebalance leaves time. Return whether the rebalance may continue."""
        if self._commit_until is None:
            self._commit_until = self._coordinator.clock.now() + self._member.settings.rebalance_timeout
        until = self._commit_until
        while True:
            now = self._coordinator.clock.now()
            if now >= until:
                self._member.log.error("rebalancing without a commit: there is no time left for one")
                return True
            commit = self._commit
            if commit is None and now >= self._commit_not_before:
                offsets = self._subscriptions.all_finished()
                if not offsets:
                    return True
                commit = self._commit = self._committer.commit_once(offsets)
                commit.add_callback(self._resume)
            if commit is not None and commit.done:
                error, self._commit = commit.exception, None
                if error is None:
                    return True
                if not error.retriable:
                    self._member.log.error("automatic commit before the rebalance failed: %s", error)
                    return True
                self._commit_not_before = now + self._member.settings.backoff.delay(self._commit_failures)
                self._commit_failures += 1
                if self._member.coordinator is None:
                    self.due_at = -math.inf
                    return False  # find it first, then try again
                continue
            self.due_at = until if commit is not None else min(until, self._commit_not_before)
            if now >= deadline:
                return False
            yield Wait(commit, min(deadline, self.due_at))

    def _resume(self, _: object) -> None:
        self.due_at = -math.inf
        self._coordinator.changed()

    def _forget_commit(self) -> None:
        self._commit_until = None
        self._commit = None
        self._commit_not_before = -math.inf
        self._commit_failures = 0
        self.due_at = -math.inf

    # -- the application's code --------------------------------------------------------------------------------------

    def _note_assigned(self) -> None:
        """Note how many partitions there are, for ``max_poll_interval_ms``."""
        self._member.heartbeat_timers.on_assigned(self._subscriptions.assigned_count, self._coordinator.clock.now())

    def _owned(self) -> list[TopicPartition]:
        return sorted(self._subscriptions.assignment())

    def _call_listener(self, name: str, partitions: Collection[TopicPartition]) -> Steps[None]:
        listener = self._subscriptions.listener
        what = name.removeprefix("on_partitions_")
        self._member.log.info("%s: %s", what, ", ".join(map(str, partitions)) or "nothing")
        if listener is None:
            return
        started = self._coordinator.clock.now()
        try:
            with self._client.disable_wakeups():
                yield from wait_for_callback(getattr(listener, name)(list(partitions)))
        finally:
            now = self._coordinator.clock.now()
            self._member.metrics.callbacks[what].add(now - started, now)

    def _guarded(self, call: Callable[[], T]) -> T:
        with self._client.disable_wakeups():
            return call()
