"""The interface of a group protocol in the user's thread, as :mod:`.consumer_coordinator` needs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.listener_invoker import ListenerInvoker
from pyconsumer.consumer.coordinator.membership import GroupMember
from pyconsumer.network.futures import Steps

__all__ = ["CoordinatorHooks", "GroupProtocol"]

M = TypeVar("M", bound=GroupMember)
S = TypeVar("S", bound=ListenerInvoker)


@dataclass(frozen=True, slots=True)
class CoordinatorHooks:
    """Functions of the coordinator that its group protocol calls.

    Attributes:
        start_heartbeat: starts the heartbeat thread unless it runs.
        look_at_metadata: applies metadata changes since the last call.
        knows_topics: whether the topics of the subscription are known. Topics of a pattern are known after a metadata
            update.
    """

    start_heartbeat: Callable[[], object]
    look_at_metadata: Callable[[], object]
    knows_topics: Callable[[], bool]


class GroupProtocol(ABC, Generic[M, S]):
    """A member in the user's thread: which step of its protocol comes next, and how it leaves.

    Args:
        context: the consumer's.
        coordinator_client: sends requests to the coordinator. Its core is the membership.
        hooks: into the coordinator, which drives this.
        steps: the steps of the protocol.
    """

    def __init__(
        self, context: ConsumerContext, coordinator_client: CoordinatorClient[M], hooks: CoordinatorHooks, steps: S
    ) -> None:
        self.core = coordinator_client.core
        self.steps = steps
        self._lock = coordinator_client.lock
        self._coordinator = coordinator_client
        self._client = context.client
        self._subscriptions = context.subscriptions
        self._clock = context.clock
        self._hooks = hooks

    @property
    def due_at(self) -> float:
        """Return when to continue with a step whose wait the core does not know of. -inf is now."""
        return self.steps.due_at

    @property
    @abstractmethod
    def awaits_response(self) -> bool:
        """Return whether a rebalance waits for a response that arrives at the user thread's network client."""

    @abstractmethod
    def advance(self, deadline: float) -> Steps[bool]:
        """Do the due work of the group, and return whether the membership is settled.

        Args:
            deadline: monotonic seconds. Work that is unfinished by then continues in the next call.
        """

    @abstractmethod
    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions and leave. An exception of the listener is raised afterwards.

        Args:
            reason: for the log and the coordinator.
            leave_group: as in ``close``.
            deadline: until when to wait for the group. The request itself is not waited for.
            callbacks: False: the listener is not called any more.
        """

    @abstractmethod
    def on_subscription_change(self) -> None:
        """Take note of the topics: the application subscribed to others, or others match its pattern."""

    @abstractmethod
    def on_metadata(self) -> None:
        """Take note of newer metadata."""

    @abstractmethod
    def recover(self) -> None:
        """Repair the state after Ctrl-C: requests that count as in flight but are not have failed."""
