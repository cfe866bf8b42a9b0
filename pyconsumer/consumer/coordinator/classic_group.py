"""A member of the classic protocol in the user's thread: which step of a rebalance comes next, and how it leaves."""

from __future__ import annotations

import logging
from typing import Final

from pyconsumer.assignors import CooperativeStickyDelayedAssignor, common_protocol, resolve
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator.classic_membership import ClassicMembership
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.group_protocol import GroupProtocol, Surroundings
from pyconsumer.consumer.coordinator.group_state import (
    BuildJoin,
    CompleteJoin,
    ComputeAssignment,
    FindCoordinator,
    PrepareJoin,
    Raise,
)
from pyconsumer.consumer.coordinator.offset_commits import OffsetCommitter
from pyconsumer.consumer.coordinator.rebalance import RebalanceSteps
from pyconsumer.errors import KafkaError
from pyconsumer.network.futures import Steps, Wait

__all__ = ["ClassicGroup"]

_log = logging.getLogger("pyconsumer.consumer.coordinator")

_LEAVE_NOTICE: Final = "the consumer is about to leave the group"
_FAREWELL_PAUSE: Final = 1.0  # seconds


class ClassicGroup(GroupProtocol):
    """See the module.

    Args:
        context: the consumer's.
        coordinator_client: sends requests to the coordinator; its core is the membership.
        committer: commits before partitions are revoked.
        surroundings: the driver.

    Attributes:
        steps: the steps of a rebalance.
    """

    def __init__(
        self,
        context: ConsumerContext,
        coordinator_client: CoordinatorClient[ClassicMembership],
        committer: OffsetCommitter,
        surroundings: Surroundings,
    ) -> None:
        config, client, metadata, subscriptions, clock = context
        assignors = resolve(config.partition_assignment_strategy)
        for assignor in assignors:
            assignor.configure(config, clock)
        if config.rebalance_delay_ms and not any(isinstance(a, CooperativeStickyDelayedAssignor) for a in assignors):
            _log.warning("rebalance_delay_ms has no effect without the assignor cooperative-sticky-delayed")
        self._core = coordinator_client.core
        self._lock = coordinator_client.lock
        self._coordinator = coordinator_client
        self._client = client
        self._subscriptions = subscriptions
        self._clock = clock
        self._surroundings = surroundings
        self.steps = RebalanceSteps(
            coordinator_client,
            client,
            metadata=metadata,
            subscriptions=subscriptions,
            committer=committer,
            assignors=assignors,
            protocol=common_protocol(assignors),
            rack_id=config.client_rack or None,
        )

    @property
    def core(self) -> ClassicMembership:
        """Return the membership."""
        return self._core

    @property
    def due_at(self) -> float:
        """See :class:`GroupProtocol`."""
        return self.steps.due_at

    @property
    def awaits_answer(self) -> bool:
        """Return whether JoinGroup or SyncGroup is under way, or about to be."""
        return self._core.rejoin_pending

    def on_subscription_change(self) -> None:
        """See :class:`GroupProtocol`."""
        with self._lock:
            self._core.on_subscription(self._subscriptions.subscription())

    def on_metadata(self) -> None:
        """As leader, compare the metadata with that of the assignment."""
        with self._lock:
            self._core.on_metadata(self.steps.metadata_snapshot())

    def recover(self) -> None:
        """See :class:`GroupProtocol`."""
        self.steps.recover()

    def advance(self, deadline: float) -> Steps[bool]:
        """Take part in the rebalance; see :class:`GroupProtocol`."""
        return self._join(deadline)

    def _join(self, deadline: float, *, leave_notice: bool = False) -> Steps[bool]:
        """Take part in the rebalance; ``leave_notice``: only to announce that we leave, with nothing owned any
        longer.
        """
        core = self._core
        said = False
        while True:
            now = self._clock.now()
            with self._lock:
                step = core.next_step(now)
                pending = core.rejoin_pending
            if step is None:
                if not pending:
                    return True
                if now >= deadline:
                    return False
                with self._lock:
                    due = core.due_at(now)
                request = self.steps.under_way
                yield Wait(request if request is not None and not request.done else None, min(deadline, due))
                self._surroundings.look_at_metadata()
            elif isinstance(step, Raise):
                raise step.error
            elif isinstance(step, FindCoordinator):
                self._coordinator.send_find_coordinator()
            elif isinstance(step, PrepareJoin) and leave_notice:
                with self._lock:
                    core.on_prepared(step.generation)
            elif isinstance(step, PrepareJoin):
                prepared = yield from self.steps.prepare(deadline)
                if not prepared and now >= deadline:
                    return False
            elif isinstance(step, BuildJoin):
                if not self._surroundings.knows_topics():
                    if now >= deadline:
                        return False
                    yield Wait(None, deadline)
                    self._surroundings.look_at_metadata()
                    continue
                self._surroundings.start_heartbeat()
                self.steps.join()
                said = leave_notice
            elif isinstance(step, ComputeAssignment):
                assigned = yield from self.steps.assign(step, deadline)
                if not assigned:
                    return False
            elif leave_notice:
                if said:
                    return True
                with self._lock:  # it had already started; we release its assignment in the next one
                    core.on_completed()
                    core.request_rejoin(_LEAVE_NOTICE)
            else:
                assert isinstance(step, CompleteJoin)
                yield from self.steps.complete(step)

    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions, announce the leave, leave; an exception of the listener is raised afterwards."""
        failure: Exception | None = None
        try:
            try:
                yield from self.steps.drop_all(callbacks=callbacks)
            except Exception as error:
                failure = error
            yield from self._say_farewell(deadline, leave_group)
        finally:
            self._leave(reason, leave_group)
        if failure is not None:
            raise failure

    def _say_farewell(self, deadline: float, leave_group: bool | None) -> Steps[None]:
        """Let the leader know that we leave permanently, if the assignor wants that: one more rebalance.

        The others learn of it by their next heartbeats. If it takes longer than a session, the leader will miss us.
        """
        core, group = self._core, self._core.settings
        for_good = group.group_instance_id is None if leave_group is None else leave_group
        until = min(deadline, self._clock.now() + group.session_timeout)
        if not for_good or not core.generation.joined or self._clock.now() >= until:
            return
        try:
            if self.steps.announce_leaving(True):
                with self._lock:
                    core.request_rejoin(_LEAVE_NOTICE)
                with self._client.disable_wakeups():
                    announced = yield from self._join(until, leave_notice=True)
                    if announced and core.leads_others:
                        # Nobody else knows, and our LeaveGroup would take from the others what they have not got yet.
                        until = min(until, self._clock.now() + max(group.heartbeat_interval, _FAREWELL_PAUSE))
                        while self._clock.now() < until and not core.rejoin_needed:
                            yield Wait(None, until)
        except KafkaError as error:
            core.log.warning("leaving without having informed the leader: %s", error)
        finally:
            self.steps.announce_leaving(False)

    def _leave(self, reason: str, send: bool | None) -> None:
        with self._lock:
            self._core.leave(reason, self._clock.now(), send=send)
