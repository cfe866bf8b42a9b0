"""The heartbeat thread: sends heartbeats while the application works on records. A thin driver of the core.

It has a network client of its own, with its own selector and its own connection to the coordinator. That carries only
Heartbeat and LeaveGroup, or ConsumerGroupHeartbeat under the consumer protocol. A broker serves the requests of one
connection in turn, so behind a pending JoinGroup a heartbeat would wait until the join ends. When the coordinator is
lost it asks another broker for the new one, over a connection that it closes afterwards.

Rules

1. It asks the core for an action, carries it out, and sleeps in the selector until the core's next deadline, a
   response, or :meth:`HeartbeatThread.notify`.
2. It never runs code of the application, and never raises: failures are reported to the core, which keeps them for the
   application's next call. Its log lines and warnings are passed on by another thread
   (:mod:`pyconsumer.background_log`).
3. It is a daemon thread, and exists from the first JoinGroup to :meth:`HeartbeatThread.close`. A forked child has none.
   The parent's continues.
4. It holds no strong reference to the consumer, so that one dropped without ``close`` is collected. Its finalizer calls
   :meth:`HeartbeatThread.abandon`. A LeaveGroup without a waiting caller gets :data:`LEAVE_TIMEOUT_S`.
5. Its client is made in the thread: Ctrl-C in :meth:`HeartbeatThread.start` leaves either a thread that ends when it is
   asked to, or no thread.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final, Self

from pyconsumer.background_log import background
from pyconsumer.clock import Clock
from pyconsumer.consumer.coordinator.coordinator_client import COORDINATOR
from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND
from pyconsumer.consumer.coordinator.group_state import FindCoordinator, SendHeartbeat, SendLeave, Sleep, Stop
from pyconsumer.consumer.coordinator.membership import GroupLog, GroupMember
from pyconsumer.errors import KafkaError, NodeNotReadyError, error_name
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

if TYPE_CHECKING:
    from pyconsumer.network.stats import ChannelStats
    from pyconsumer.settings.config import ClientConfig

__all__ = ["HeartbeatThread"]

#: Seconds that a LeaveGroup may take once the application does not wait for it any more.
LEAVE_TIMEOUT_S: Final = 1.0


class HeartbeatThread:
    """The thread that sends heartbeats. See the module.

    Args:
        core: the membership.
        lock: the lock that guards the core.
        make_client: called in this thread, makes its network client. It must not hold a reference to the consumer.
        clock: the source of time.
        changed: called in this thread after a change that the user's thread should notice. It must not hold a reference
            to the consumer either.
        brokers: the brokers to ask for the coordinator. :meth:`set_brokers` replaces them.
    """

    def __init__(
        self,
        core: GroupMember,
        lock: RLock,
        *,
        make_client: Callable[[], NetworkClient],
        clock: Clock,
        changed: Callable[[], object],
        brokers: Sequence[BrokerMetadata] = (),
    ) -> None:
        self._brokers = tuple(brokers)
        self._core = core
        self.settings = core.settings  # log_fields reads the names of the client
        self._lock = lock
        self._clock = clock
        self._changed = changed
        self._make_client = make_client
        self._client: NetworkClient | None = None
        self._ends_at = math.inf
        self._abandoned: tuple[str, bool | None] | None = None
        self._pid = os.getpid()
        self._asked = 0
        self._used: tuple[int, int] | None = None  # node id and term of the connection in use
        group_id = core.settings.group_id
        name = f"pyconsumer-heartbeat | {group_id}" if group_id else "pyconsumer-heartbeat"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @classmethod
    def of_client(
        cls,
        core: GroupMember,
        lock: RLock,
        config: ClientConfig,
        client: NetworkClient,
        *,
        changed: Callable[[], object],
        stats: ChannelStats,
        brokers: Sequence[BrokerMetadata],
    ) -> Self:
        """Return the thread of a consumer's member. It has the consumer's settings, clock and correlation ids.

        Args:
            core, lock, brokers: see the class.
            config: the consumer's settings.
            client: the network client of the user's thread.
            changed: a method of an object that may be collected: the thread holds no reference to the object.
            stats: counters of the thread's connections.
        """
        method = weakref.WeakMethod(changed)

        def notice() -> None:
            call = method()
            if call is not None:
                call()

        make = partial(NetworkClient, config, clock=client.clock, correlation_ids=client.correlation_ids, stats=stats)
        return cls(core, lock, make_client=make, clock=client.clock, changed=notice, brokers=brokers)

    @property
    def alive(self) -> bool:
        """Return whether the thread is running in this process."""
        return os.getpid() == self._pid and self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def set_brokers(self, brokers: Sequence[BrokerMetadata]) -> None:
        """Replace the brokers to ask for the coordinator. Any thread may call this."""
        self._brokers = tuple(brokers)  # one assignment of an immutable value: no lock needed

    def notify(self) -> None:
        """Make the thread ask the core for its next action, because the core has changed. Any thread may call this."""
        client = self._client  # without one the thread has not asked the core yet, and will
        if client is not None and os.getpid() == self._pid and not client.closed:
            client.wakeup()

    def close(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the thread to end, and return whether it has ended.

        Call ``close`` of the core first.

        If the thread is still busy by then, or Ctrl-C ends the wait, it ends by itself after :data:`LEAVE_TIMEOUT_S`.
        """
        waited = False
        try:
            self.notify()
            if os.getpid() == self._pid and self._thread.is_alive():
                self._thread.join(max(0.0, timeout))
            waited = True
        finally:
            if not waited or self.alive:
                self.end()
        return not self.alive

    def end(self, within: float = LEAVE_TIMEOUT_S) -> None:
        """Make the thread end within ``within`` seconds, whatever it waits for.

        This returns at once and takes no lock.
        """
        self._ends_at = min(self._ends_at, self._clock.now() + within)
        self.notify()

    def abandon(self, reason: str, leave: bool | None = None) -> None:
        """Make the thread leave the group and end. This returns at once and takes no lock, because finalizers call it.

        Args:
            reason: why the member leaves.
            leave: True sends LeaveGroup, False does not. None lets a dynamic member send it.
        """
        self._abandoned = reason, leave
        self.end()

    # -- in the thread -----------------------------------------------------------------------------------------------

    @background()
    def _run(self) -> None:
        revision, beating = -1, False
        client = None
        try:
            client = self._client = self._make_client()
            while True:
                with self._lock:
                    action = self._next(self._clock.now())
                    moved, revision = revision != self._core.revision, self._core.revision
                    before, beating = beating, self._core.sends_heartbeats
                if before is not beating:
                    self._core.log.debug("heartbeats %s", "begin" if beating else "pause")
                if moved:
                    self._changed()
                if isinstance(action, Stop):
                    break
                self._do(client, action)
        except Exception as error:
            self._core.log.exception("the heartbeat thread failed")
            failure = error if isinstance(error, KafkaError) else KafkaError(f"the heartbeat thread failed: {error!r}")
            failure.__cause__ = error
            with self._lock:
                self._core.on_background_failed(failure)
            self._changed()
        finally:
            if client is not None:
                client.close()

    def _next(self, now: float) -> FindCoordinator | SendHeartbeat | SendLeave | Sleep | Stop:
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None:
            reason, leave = abandoned
            self._core.leave(reason, now, send=leave)
            self._core.close()
        return Stop() if now >= self._ends_at else self._core.next_background(now)

    def _do(self, client: NetworkClient, action: FindCoordinator | SendHeartbeat | SendLeave | Sleep) -> None:
        if isinstance(action, Sleep):
            client.poll(min(action.until, self._ends_at))
        elif isinstance(action, SendHeartbeat):
            self._send_heartbeat(client, action)
        elif isinstance(action, SendLeave):
            self._send_leave(client, action)
        else:
            self._find_coordinator(client)

    def _send_heartbeat(self, client: NetworkClient, action: SendHeartbeat) -> None:
        node_id, term = action.node.node_id, action.term

        def completed(future: RequestFuture[ClientResponse]) -> None:
            now = self._clock.now()
            error = future.exception
            with self._lock:
                if error is not None:
                    self._core.on_heartbeat_failed(node_id, error, now, term)
                else:
                    self._core.on_heartbeat_completed(action, future.value.message, now)

        self._drop_old(client, term)
        self._used = node_id, term
        client.send(
            action.node, type(action.request), action.request, connection=COORDINATOR, min_version=action.min_version
        ).add_callback(completed)

    def _send_leave(self, client: NetworkClient, action: SendLeave) -> None:
        def completed(future: RequestFuture[ClientResponse]) -> None:
            error = future.exception
            if error is not None:
                self._core.log.info("no response to the request to leave the group: %s", error)
            else:
                log_refusal(self._core.log, future.value)
            with self._lock:
                self._core.on_leave_done()

        def request(version: int) -> Message:
            return (
                leave_request(action.request, version)
                if isinstance(action.request, LeaveGroupRequest)
                else action.request
            )

        self._drop_old(client, action.term)
        self._used = action.node.node_id, action.term
        client.send(action.node, type(action.request), request, connection=COORDINATOR).add_callback(completed)

    def _find_coordinator(self, client: NetworkClient) -> None:
        with self._lock:
            term = self._core.discovery.term
        self._drop_old(client, term)
        brokers = self._brokers
        if not brokers:
            with self._lock:
                self._core.on_coordinator_not_found(
                    BACKGROUND, NodeNotReadyError("no broker is known"), self._clock.now()
                )
            return
        broker = brokers[self._asked % len(brokers)]
        self._asked += 1
        group_id = self._core.settings.group_id

        def completed(future: RequestFuture[ClientResponse]) -> None:
            now = self._clock.now()
            try:
                node = read_coordinator(group_id, future.result().api_version, future.value.message)
            except KafkaError as error:
                with self._lock:
                    self._core.on_coordinator_not_found(BACKGROUND, error, now)
            else:
                with self._lock:
                    self._core.on_coordinator_found(BACKGROUND, node, now)
            client.disconnect(broker.node_id)

        client.send(
            broker, FindCoordinatorRequest, lambda version: find_coordinator_request(group_id, version)
        ).add_callback(completed)

    def _drop_old(self, client: NetworkClient, term: int) -> None:
        """Close the connection that was opened in an older term than ``term``."""
        if self._used is not None and self._used[1] != term:
            node_id, self._used = self._used[0], None
            client.disconnect(node_id, COORDINATOR, cause="it is not the coordinator any more")


def leave_request(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """Return the request in the form of a version: with one member id before version 3, with a list since (KIP-345)."""
    if version >= 3:
        return LeaveGroupRequest(group_id=request.group_id, members=request.members)
    return LeaveGroupRequest(group_id=request.group_id, member_id=request.member_id)


def log_refusal(log: GroupLog, response: ClientResponse) -> None:
    """Log the error in the response to a leave request, if there is any. It has no other effect."""
    codes = [response.message.error_code]
    if isinstance(response.message, LeaveGroupResponse):
        codes += [member.error_code for member in response.message.members]
    wrong = next((code for code in codes if code), 0)
    if wrong:
        log.info("the request to leave the group was refused: %s", error_name(wrong))
