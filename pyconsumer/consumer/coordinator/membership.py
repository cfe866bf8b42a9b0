"""The base of both kinds of members: identity, heartbeats, leaving, ``max_poll_interval_ms``.

A core: no I/O, no thread, no clock.

This is the part of a membership that does not depend on how a group agrees on partitions.
:mod:`.classic_group_membership` adds JoinGroup and SyncGroup, :mod:`.consumer_group_membership` the assignments that
the coordinator computes (KIP-848).

Two drivers share it. The thread that uses the consumer asks ``next_action`` and carries it out. The heartbeat thread
asks :meth:`GroupMember.next_background`. Both report the outcome by the ``on_...`` methods. Each of these calls is made
under one lock, which is held for that call only. One thing is written without it: each poll notes its time in
``heartbeat_timers``, a single float that the heartbeat thread reads, at worst one poll late. States and actions
are in :mod:`.group_state` and the two modules that it names, error codes in :mod:`.error_actions`.

Invariants

1. ``revision`` changes with everything that a running step has to notice: a lost generation, a requested rejoin, a
   coordinator found or lost.
2. Everything for the application waits in a queue until *its* thread asks. The heartbeat thread never calls it.
3. The heartbeat thread checks in this order: leaving, coordinator unknown, session over, no poll for too long,
   heartbeat due.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyconsumer.background_log import Log
from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND, CoordinatorDiscovery
from pyconsumer.consumer.coordinator.error_actions import ErrorAction
from pyconsumer.consumer.coordinator.group_state import (
    NO_GENERATION,
    BackgroundAction,
    FindCoordinator,
    Generation,
    SendHeartbeat,
    SendLeave,
    Sleep,
    Stop,
)
from pyconsumer.consumer.coordinator.heartbeat import Heartbeat
from pyconsumer.consumer.metrics import GroupMetrics
from pyconsumer.errors import BrokerResponseError, Errors, KafkaError, for_code
from pyconsumer.metrics.windows import Windows
from pyconsumer.network.backoff import Backoff
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

if TYPE_CHECKING:
    from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

    LeavingRequest = LeaveGroupRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest

__all__ = ["LONGEST_REASON", "GroupLog", "GroupMember", "Leaving", "MemberSettings"]

LONGEST_REASON: Final = 255  # characters; the broker keeps no more (KIP-800)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """A member's settings. Times are in seconds. ``rebalance_timeout`` is ``max_poll_interval_ms``.

    ``session_timeout`` and ``heartbeat_interval`` belong to the classic protocol. ``rack`` and ``remote_assignor``
    belong to the consumer protocol. Without ``remote_assignor`` the coordinator chooses the assignor.
    """

    group_id: str
    client_id: str = ""
    group_instance_id: str | None = None
    rack: str | None = None
    remote_assignor: str | None = None
    session_timeout: float = 45.0
    rebalance_timeout: float = 300.0
    heartbeat_interval: float = 3.0
    request_timeout: float = 30.0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 1.0))
    windows: Windows = field(default_factory=Windows)

    @property
    def label(self) -> str:
        """Return the member's ids, which begin each of its log lines."""
        names = {
            "group_instance_id": self.group_instance_id,
            "client_id": self.client_id,
            "group_id": self.group_id,
        }
        return ", ".join(f"{name}={value}" for name, value in names.items() if value)


class GroupLog(Log):
    """The log of one member. Each line begins with the member's label in brackets.

    Many lines are written under the core's lock.
    """

    def __init__(self, label: str) -> None:
        super().__init__("pyconsumer.consumer.coordinator", always=True, label=label)


@dataclass(slots=True)
class Leaving:
    """The request to leave the group, from the time it is queued until it has ended."""

    request: LeavingRequest | None = None
    in_flight: bool = False

    def ask(self, request: LeavingRequest) -> None:
        """Queue the request."""
        self.request = request

    def send(self, request: LeavingRequest) -> LeavingRequest:
        """Record that the request is sent now, and return it."""
        self.request, self.in_flight = None, True
        return request

    def end(self) -> None:
        """Record that the request has ended, whatever the outcome."""
        self.in_flight = False

    @property
    def pending(self) -> bool:
        return self.request is not None or self.in_flight


class GroupMember(ABC):
    """A member's identity and heartbeats, and how it leaves. The base class of both protocols' membership.

    Args:
        settings: the member's settings.
        now: the present time, in seconds.

    Attributes:
        log: writes the member's log lines.
        generation: the member's identity. Under the consumer protocol its generation id is the member epoch.
        discovery: the search for the group's coordinator, and its result.
        revision: see the invariants of the module.
        heartbeat_timers: when a heartbeat is due, when the session ends, and when the next poll is overdue.
        state: the state of the membership, from the table of its protocol.
        metrics: counters for ``KafkaConsumer.metrics()``.
    """

    state: object

    def __init__(self, settings: MemberSettings, *, now: float = 0.0) -> None:
        self.settings = settings
        self.log = GroupLog(settings.label)
        self.generation = NO_GENERATION
        self.discovery = CoordinatorDiscovery(settings.backoff)
        self.revision = 0
        self.heartbeat_timers = Heartbeat(
            interval=settings.heartbeat_interval,
            session_timeout=settings.session_timeout,
            max_poll_interval=settings.rebalance_timeout,
            backoff=settings.backoff,
            now=now,
        )
        self.metrics = GroupMetrics(settings.windows, now)
        self._closed = False
        self._leaving = Leaving()
        self._errors: deque[KafkaError] = deque()

    # -- what a protocol adds ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Return whether no rebalance is due or in progress."""

    @abstractmethod
    def on_subscription(self, topics: Iterable[str]) -> None:
        """Set the topics that the member wants."""

    @abstractmethod
    def unsubscribe(self) -> None:
        """Drop the subscription: the member stays out of the group until :meth:`on_subscription` is called again."""

    @abstractmethod
    def request_rejoin(self, reason: str, *, short: str | None = None) -> None:
        """Take part in another rebalance. ``short`` is the reason in the form for the coordinator."""

    @abstractmethod
    def leave(self, reason: str, now: float, *, send: bool | None = None) -> bool:
        """Leave the group and forget the member's identity at once. Return True if a request must be sent.

        Args:
            send: the argument ``leave_group`` of ``close``.
        """

    @property
    @abstractmethod
    def commit_scope(self) -> object:
        """Return the scope of a commit. A commit is repeated only within its scope.

        Otherwise it could overwrite a commit of the partitions' next owner.
        """

    @property
    @abstractmethod
    def epoch_is_volatile(self) -> bool:
        """Return whether the generation id may change while the member keeps its partitions.

        If so, a request takes the generation id at the moment it is encoded.
        """

    @property
    @abstractmethod
    def may_commit(self) -> bool:
        """Return whether offsets can be committed for the current generation."""

    @property
    @abstractmethod
    def rebalancing(self) -> bool:
        """Return whether the application needs another poll before it knows its partitions."""

    @property
    @abstractmethod
    def rejoin_pending(self) -> bool:
        """Return whether the membership is unsettled: a step is due, or a request is in flight."""

    @property
    @abstractmethod
    def has_urgent_news(self) -> bool:
        """Return whether the application must hear of an error or a loss before it gets records."""

    @abstractmethod
    def due_at(self, now: float) -> float:
        """Return when the user's thread will have something to do (seconds). Infinity: it waits for a response."""

    @abstractmethod
    def on_commit_refused(self, error_action: ErrorAction, sent: Generation, error: KafkaError) -> None:
        """Handle a rejected commit. ``sent`` is the generation in the request."""

    @property
    @abstractmethod
    def sends_heartbeats(self) -> bool:
        """Return whether heartbeats are sent."""

    @abstractmethod
    def on_heartbeat_completed(self, action: SendHeartbeat, message: Message, now: float) -> None:
        """Handle the response to a heartbeat."""

    @abstractmethod
    def _make_heartbeat(self, node: BrokerMetadata, now: float) -> SendHeartbeat:
        """Return the heartbeat that is due."""

    @abstractmethod
    def _leave_as_stalled(self, now: float) -> None:
        """Leave, because the application has not polled for too long."""

    @abstractmethod
    def _abandon(self, why: str, now: float) -> None:
        """Abandon the requests in flight to a coordinator that is lost."""

    # -- what the application does -----------------------------------------------------------------------------------

    @property
    def coordinator(self) -> BrokerMetadata | None:
        """Return the group's coordinator, or None if it is unknown."""
        return self.discovery.node

    def take_error(self) -> KafkaError | None:
        """Remove and return the oldest error to raise, or None if there is none."""
        return self._errors.popleft() if self._errors else None

    def on_poll(self, now: float) -> None:
        """Record that the application polled."""
        self.heartbeat_timers.poll(now)

    def close(self) -> None:
        """Let the heartbeat thread end. If a LeaveGroup is pending, the thread waits for its response first."""
        self._closed = True

    @property
    def leaving(self) -> bool:
        """Return whether a request to leave has no response yet."""
        return self._leaving.pending

    # -- the coordinator ---------------------------------------------------------------------------------------------

    def on_coordinator_found(self, who: str, node: BrokerMetadata, now: float) -> None:
        """Record that FindCoordinator has named the coordinator."""
        if self.discovery.found(who, node):
            self.log.info("the group's coordinator is %s", node)
            self.revision += 1
        self.heartbeat_timers.reset_session(now)

    def on_coordinator_not_found(self, who: str, error: KafkaError, now: float) -> None:
        """Record that FindCoordinator failed. If no retry can help, the error is raised to the application."""
        self.discovery.failed(who, error, now)
        self.log.debug("looking for the coordinator failed: %s", error)
        if not error.retriable:
            self._report(error)

    def on_coordinator_lost(self, node_id: int, why: object, now: float) -> bool:
        """Record that a node is no longer the coordinator or cannot be reached.

        Return True if it was the coordinator until now.
        """
        node = self.discovery.node
        if not self.discovery.lost(node_id, now):
            return False
        self.log.info("coordinator %s is lost: %s", node, why)
        self.heartbeat_timers.forget_sent()
        self._leaving = Leaving()  # a group that does not receive our LeaveGroup will notice by itself
        self.revision += 1
        self._abandon(str(why), now)
        return True

    # -- the heartbeat thread ----------------------------------------------------------------------------------------

    def next_background(self, now: float) -> BackgroundAction:
        """Return the next action of the heartbeat thread."""
        node = self.discovery.node
        leaving = self._leaving
        if leaving.request is not None and node is not None:
            return SendLeave(node, leaving.send(leaving.request), self.discovery.term)
        if self._closed and not leaving.pending:
            return Stop()
        if not self.sends_heartbeats:
            return Sleep(math.inf)
        if node is None:
            if self.discovery.start(BACKGROUND, now):
                return FindCoordinator()
            return Sleep(self.discovery.due_at(BACKGROUND))
        timers = self.heartbeat_timers
        if timers.session_expired(now):
            seconds = self.settings.session_timeout
            self.on_coordinator_lost(node.node_id, f"no response to heartbeats for {seconds:g} s", now)
            return self.next_background(now)
        if timers.poll_expired(now):
            self.log.warning(
                "leaving the group: poll() was not called for %.1f s, and max_poll_interval_ms allows %.1f s."
                " Raise it, or process fewer records between calls (max_poll_records)",
                now - timers.last_poll,
                self.settings.rebalance_timeout,
            )
            self._leave_as_stalled(now)
            return self.next_background(now)
        if timers.is_due(now):
            timers.sent(now)
            return self._make_heartbeat(node, now)
        return Sleep(timers.next_deadline())

    def on_heartbeat_failed(self, node_id: int, error: KafkaError, now: float, term: int) -> None:
        """Record that a heartbeat got no response.

        ``term`` is the coordinator's term when the heartbeat was sent. A lost coordinator begins a new term.
        """
        if term != self.discovery.term:
            return
        self.heartbeat_timers.failed(now)
        if not self.on_coordinator_lost(node_id, error, now) or error.retriable:
            return
        self._report(error)

    def on_leave_done(self) -> None:
        """Record that the request to leave has ended, whatever the outcome."""
        self._leaving.end()
        self.revision += 1

    def on_background_failed(self, error: KafkaError) -> None:
        """Record that the heartbeat thread failed. The error is raised to the application."""
        self._report(error)

    # -- rules shared with the protocols -----------------------------------------------------------------------------

    def _refused(self, api: str, table: Mapping[int, ErrorAction], code: int) -> BrokerResponseError:
        detail = f"{api} of group {self.settings.group_id}"
        if code == Errors.INVALID_SESSION_TIMEOUT:
            detail += (
                f": session_timeout_ms ({self.settings.session_timeout * 1000:g}) is outside the bounds of the broker, "
                "group.min.session.timeout.ms (6,000 by default) to group.max.session.timeout.ms (1,800,000)"
            )
        return for_code(code, detail if code in table else f"unexpected response to {detail}")

    def _report(self, error: KafkaError) -> None:
        """Queue an error for the application, unless one of its type is queued already."""
        self.revision += 1
        if not any(type(queued) is type(error) for queued in self._errors):
            self._errors.append(error)
