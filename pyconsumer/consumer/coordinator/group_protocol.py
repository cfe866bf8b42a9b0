"""The interface of a group protocol in the user's thread, as :mod:`.consumer_coordinator` needs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from pyconsumer.consumer.coordinator.membership import GroupMember
from pyconsumer.network.futures import Steps

__all__ = ["GroupProtocol", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The coordinator's driver, as its protocol sees it.

    Attributes:
        start_heartbeat: sees to it that the heartbeat thread runs.
        look_at_metadata: applies what metadata says since the last time.
        knows_topics: whether the topics of the subscription are known; those of a pattern are after a metadata update.
    """

    start_heartbeat: Callable[[], object]
    look_at_metadata: Callable[[], object]
    knows_topics: Callable[[], bool]


class GroupProtocol(ABC):
    """The steps of a member in the user's thread, in the order of its protocol."""

    @property
    @abstractmethod
    def core(self) -> GroupMember:
        """Return the membership."""

    @property
    @abstractmethod
    def due_at(self) -> float:
        """When to continue with a step that waits for something that the core does not know of; -inf: now."""

    @property
    @abstractmethod
    def awaits_answer(self) -> bool:
        """Return whether a rebalance is under way that only a look at the user thread's network moves on."""

    @abstractmethod
    def advance(self, deadline: float) -> Steps[bool]:
        """Do what the group needs now; return whether the membership is settled.

        Args:
            deadline: monotonic seconds; what cannot be done by then continues in the next call.
        """

    @abstractmethod
    def depart(self, reason: str, leave_group: bool | None, deadline: float, *, callbacks: bool = True) -> Steps[None]:
        """Revoke the partitions and leave; an exception of the listener is raised afterwards.

        Args:
            reason: for the log and the coordinator.
            leave_group: as in ``close``.
            deadline: until when to wait for the group; the request itself is not waited for.
            callbacks: False: the listener is not called any more.
        """

    @abstractmethod
    def on_subscription_change(self) -> None:
        """The application subscribed to other topics, or other topics match its pattern."""

    @abstractmethod
    def on_metadata(self) -> None:
        """There is newer metadata."""

    @abstractmethod
    def recover(self) -> None:
        """Ctrl-C interrupted something: see to it that nothing counts as under way that is not."""
