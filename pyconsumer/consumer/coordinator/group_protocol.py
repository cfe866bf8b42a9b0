"""The interface that both group protocols implement in the user's thread."""

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
    """The functions of the coordinator that a group protocol calls.

    Attributes:
        start_heartbeat: starts the heartbeat thread unless it runs.
        look_at_metadata: applies the metadata changes since the last call.
        knows_topics: returns whether the subscribed topics are known. With a pattern, they are known after a metadata
            update.
    """

    start_heartbeat: Callable[[], object]
    look_at_metadata: Callable[[], object]
    knows_topics: Callable[[], bool]


class GroupProtocol(ABC, Generic[M, S]):
    """A group protocol in the user's thread: chooses the next step of a member, and lets it leave.

    Args:
        context: the parts that this consumer shares.
        coordinator_client: sends requests to the coordinator. Its core is the membership.
        hooks: functions of the coordinator that this calls.
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
        """Return when to continue with a step that waits for something outside the core. -inf means now."""
        return self.steps.due_at

    @property
    @abstractmethod
    def awaits_response(self) -> bool:
        """Return whether a rebalance waits for a response that the user's thread will receive."""

    @property
    def may_announce_leaving(self) -> bool:
        """Return whether leaving may need another rebalance first, and so has to wait."""
        return False

    @abstractmethod
    def advance(self, deadline: float) -> Steps[bool]:
        """Do the work of the group that is due. Return whether the membership is settled.

        Args:
            deadline: monotonic seconds. Work that is unfinished by then continues in the next call.
        """

    @abstractmethod
    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions and leave. If the listener raises, the error is raised at the end.

        Args:
            reason: a text for the log and for the coordinator.
            leave_group: see ``close``.
            deadline: how long to wait for the group. The call does not wait for the response to the request itself.
            callbacks: False to leave out the calls of the listener.
        """

    @abstractmethod
    def on_subscription_change(self) -> None:
        """Note a change of topics. The application has changed its subscription, or other topics match its pattern."""

    @abstractmethod
    def on_metadata(self) -> None:
        """Note that newer metadata has arrived."""

    @abstractmethod
    def recover(self) -> None:
        """Repair the state after Ctrl-C. Requests that count as in flight but are not, count as failed."""
