"""A member of the consumer protocol (KIP-848) in the user's thread: the order of its steps, and how it leaves.

Heartbeats, which are the whole protocol, belong to the heartbeat thread. Here the listener is called and the assignment
adopted, as the core asks for it.
"""

from __future__ import annotations

from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator.consumer_group_state import Release
from pyconsumer.consumer.coordinator.consumer_membership import ConsumerMembership
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.group_protocol import GroupProtocol, Surroundings
from pyconsumer.consumer.coordinator.group_state import FindCoordinator, Raise
from pyconsumer.consumer.coordinator.offset_commits import OffsetCommitter
from pyconsumer.consumer.coordinator.reconciliation import ReconciliationSteps
from pyconsumer.network.futures import Steps, Wait

__all__ = ["ConsumerGroup"]


class ConsumerGroup(GroupProtocol):
    """See the module.

    Args:
        context: the consumer's.
        coordinator_client: sends requests to the coordinator; its core is the membership.
        committer: commits before partitions are revoked.
        surroundings: the driver.

    Attributes:
        steps: the steps of a reconciliation.
    """

    def __init__(
        self,
        context: ConsumerContext,
        coordinator_client: CoordinatorClient[ConsumerMembership],
        committer: OffsetCommitter,
        surroundings: Surroundings,
    ) -> None:
        _, client, metadata, subscriptions, clock = context
        self._core = coordinator_client.core
        self._lock = coordinator_client.lock
        self._coordinator = coordinator_client
        self._subscriptions = subscriptions
        self._clock = clock
        self._surroundings = surroundings
        self.steps = ReconciliationSteps(
            coordinator_client, client, metadata=metadata, subscriptions=subscriptions, committer=committer
        )

    @property
    def core(self) -> ConsumerMembership:
        """Return the membership."""
        return self._core

    @property
    def due_at(self) -> float:
        """See :class:`GroupProtocol`."""
        return self.steps.due_at

    @property
    def awaits_answer(self) -> bool:
        """Return False: the heartbeat thread hears the answers, and says so."""
        return False

    def on_subscription_change(self) -> None:
        """See :class:`GroupProtocol`."""
        subscriptions = self._subscriptions
        with self._lock:
            if subscriptions.has_remote_pattern:
                self._core.on_subscription((), subscriptions.remote_pattern)
            else:
                self._core.on_subscription(subscriptions.subscription())

    def on_metadata(self) -> None:
        """Names of topics may be known that were not."""
        with self._lock:
            self._core.on_metadata()

    def recover(self) -> None:
        """See :class:`GroupProtocol`."""
        with self._lock:
            self._core.recover()

    def advance(self, deadline: float) -> Steps[bool]:
        """Join, reconcile, release; see :class:`GroupProtocol`."""
        core = self._core
        while True:
            now = self._clock.now()
            if not self._surroundings.knows_topics() and not core.has_urgent_news:
                if now >= deadline:
                    return False
                yield Wait(None, deadline)
                self._surroundings.look_at_metadata()
                continue
            with self._lock:
                step = core.next_step(now)
                pending = core.rejoin_pending
            if step is None:
                if core.needs_background:
                    self._surroundings.start_heartbeat()
                    with self._lock:
                        core.on_background_started()
                if not pending:
                    return True
                if now >= deadline:
                    return False
                with self._lock:
                    due = core.due_at(now)
                yield Wait(None, min(deadline, due))
                self._surroundings.look_at_metadata()
            elif isinstance(step, Raise):
                raise step.error
            elif isinstance(step, FindCoordinator):
                self._coordinator.send_find_coordinator()
            elif isinstance(step, Release):
                yield from self.steps.release(step)
            else:
                done = yield from self.steps.reconcile(step, deadline)
                if not done and now >= deadline:
                    return False

    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions and leave; see :class:`GroupProtocol`. Heartbeats continue while the listener runs."""
        with self._lock:
            self._core.prepare_leaving()
        try:
            yield from self.steps.drop_all(callbacks=callbacks)
        finally:
            with self._lock:
                self._core.leave(reason, self._clock.now(), send=leave_group)
