"""Which partitions to fetch from which node, and how many bytes of memory that may take. A core: it sends nothing.

Rules

1. A partition may be fetched if it is fetchable (assigned, FETCHING, not paused, not about to be revoked), has fewer
   than two answers waiting, no error waiting, and its pause after an error has passed.
2. It is fetched from its preferred read replica while that is valid (KIP-392), else from its leader. Without a leader,
   metadata is wanted.
3. One fetch is under way per node. The next one is planned from the *fetch offset*, the end of the last batch received,
   so it can leave before those records are decoded.
4. ``fetch_buffer_bytes`` bounds what is asked for and what is held together: sending reserves the request's limit, an
   answer turns the reservation into what really came, draining releases that. Each node's limit is its share, so that
   no node starves; nodes that found no room come first next time. An oversized first batch may exceed the bound, alone.
   A request for very many partitions is not for all that fits: answers of 8 MiB were read faster than such of 50 MiB
   (a fifth less processor time for 1,000 partitions), as their memory is used again, and they take a third of it.
   What paused partitions hold counts, but does not keep the others waiting for ever: where nothing else is held, one
   request for a partition's share may leave.
5. Only partitions that changed are looked at (the journal of ``SubscriptionState``), so planning costs what changed and
   not what is assigned. A partition that may not be fetched leaves the request, and so the session.
6. A node whose answers in a row bring nothing, each before its wait is over, is asked again after a pause that grows
   (KIP-580): a broker that is broken must not keep the client busy. The first such answers are free, as a healthy
   broker has reasons for one or two: a session that it forgot, a preferred replica, a log that begins later.
7. A plan that has nothing to wait for but answers and changes is not made again before one of them comes: a poll asks
   several times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from pyconsumer.consumer.fetch_session import FetchSessionHandler, SessionPartition, SessionRequest
from pyconsumer.consumer.partition_state import LeaderAndEpoch, TopicPartitionState
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.backoff import Backoff
from pyconsumer.structs import TopicPartition

__all__ = ["MAX_BUFFERED_FETCHES", "ByteBudget", "FetchPlanner", "PlannedFetch"]

MAX_BUFFERED_FETCHES = 2
"""Answers of one partition that may wait; with more it is left out of requests."""

_LARGEST_ANSWER = 8 << 20
"""A request asks for no more bytes however many partitions it names, unless eight of them may bring more."""

_FULL_PARTITIONS = 8


class ByteBudget:
    """Bytes asked for (``reserved``) and bytes ``held``, some of them for paused partitions (``paused``); one limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.paused = 0
        self.reserved = 0

    @property
    def free(self) -> int:
        """Bytes that are neither held nor reserved."""
        return self.limit - self.held - self.reserved

    def hold(self, size_bytes: int) -> None:
        """Hold more bytes; fewer if the number is negative."""
        self.held += size_bytes

    def pause(self, size_bytes: int) -> None:
        """Count so much of what is held as held for paused partitions; less if the number is negative."""
        self.paused += size_bytes

    def reserve(self, size_bytes: int) -> None:
        """Reserve bytes for a response; release them if the number is negative."""
        self.reserved += size_bytes

    def recount(self, reserved: int) -> None:
        """Set what is reserved, after an interrupt that may have come between two steps of a count."""
        self.reserved = reserved

    def release_held(self) -> None:
        """Hold nothing any more."""
        self.held = self.paused = 0


class PlannedFetch(NamedTuple):
    """One request to be sent: to whom, what, its limit in bytes, and what of that is reserved."""

    node_id: int
    session: SessionRequest
    max_bytes: int
    reserved: int


class _Node:
    """What is to be fetched from one node, and what has changed since its last request."""

    __slots__ = ("changed", "idle", "in_flight", "not_before", "session", "wanted")

    def __init__(self, session: FetchSessionHandler) -> None:
        self.session = session
        self.wanted: dict[TopicPartition, None] = {}
        self.changed: dict[TopicPartition, None] = {}
        self.in_flight: PlannedFetch | None = None
        self.not_before = 0.0
        self.idle = 0  # responses in a row that brought nothing

    def start(self, planned: PlannedFetch) -> None:
        """Note the fetch that is in flight now."""
        self.in_flight = planned

    def finish(self) -> PlannedFetch | None:
        """Forget the fetch that was in flight, and return it."""
        planned, self.in_flight = self.in_flight, None
        return planned

    def on_progress(self) -> None:
        """Let the next request leave at once."""
        self.idle, self.not_before = 0, 0.0

    def on_idle(self, now: float, backoff: Backoff, free: int) -> None:
        """Pause before the next request; not after the first ``free`` responses in a row."""
        self.idle += 1
        self.not_before = now + backoff.delay(self.idle - free - 1) if self.idle > free else 0.0


class FetchPlanner:
    """Plans fetches.

    Args:
        subscriptions: the partitions' states; the planner reads them.
        leader: metadata's answer for a partition.
        topic_id: metadata's topic id, 16 zero bytes if unknown.
        unavailable_until: time before which a node cannot be talked to (0.0 if it can).
        max_partition_bytes, max_bytes: ``max_partition_fetch_bytes``, ``fetch_max_bytes``.
        buffer_bytes: ``fetch_buffer_bytes``.
        incremental: whether sessions are used.
        backoff: of a node whose answers bring nothing.

    Attributes:
        budget: the memory in use.
        wants_metadata: a partition has no leader, or its preferred replica vanished; whoever asks for metadata
            clears it.
    """

    def __init__(
        self,
        subscriptions: SubscriptionState,
        *,
        leader: Callable[[TopicPartition], LeaderAndEpoch],
        topic_id: Callable[[str], bytes],
        unavailable_until: Callable[[int], float],
        max_partition_bytes: int,
        max_bytes: int,
        buffer_bytes: int,
        incremental: bool = True,
        backoff: Backoff | None = None,
    ) -> None:
        self.budget = ByteBudget(buffer_bytes)
        self.wants_metadata = False
        self._subscriptions = subscriptions
        self._leader = leader
        self._topic_id = topic_id
        self._unavailable_until = unavailable_until
        self._max_partition_bytes = max_partition_bytes
        self._max_bytes = max_bytes
        self._largest = max(_LARGEST_ANSWER, _FULL_PARTITIONS * max_partition_bytes)
        self._incremental = incremental
        self._backoff = backoff or Backoff(0.1, 1.0)
        self._nodes: dict[int, _Node] = {}
        self._node_of: dict[TopicPartition, int] = {}
        self._delayed: list[tuple[float, TopicPartition]] = []
        self._delayed_until: dict[TopicPartition, float] = {}
        self._retry_nodes_at = float("inf")
        self._settled = False

    # -- inputs ------------------------------------------------------------------------------------------------------

    def on_changed(self, partitions: Iterable[TopicPartition], now: float) -> None:
        """Look at these partitions again."""
        self._settled = False
        for tp in partitions:
            self._place(tp, now)

    def recover(self, pending: Collection[int]) -> None:
        """Ctrl-C fell into something: what is under way is what has a request, to the ``pending`` nodes."""
        self._settled = False
        for node_id, node in self._nodes.items():
            node.changed.update(node.wanted)
            if node.in_flight is not None and node_id not in pending:
                node.finish()
                node.session.on_failure()
        self.budget.recount(sum(node.in_flight.reserved for node in self._nodes.values() if node.in_flight))

    def is_current(self, planned: PlannedFetch) -> bool:
        """Whether it is what the node's next answer is for."""
        node = self._nodes.get(planned.node_id)
        return node is None or node.in_flight is planned

    def on_response(self, node_id: int) -> PlannedFetch | None:
        """The answer of a node came, or its request failed: its reservation is over."""
        node = self._nodes.get(node_id)
        planned = None if node is None else node.finish()
        if planned is not None:
            self._settled = False
            self.budget.reserve(-planned.reserved)
        return planned

    def on_progress(self, node_id: int) -> None:
        """A node's answer brought something, or took its time: nothing holds up the next request."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.on_progress()

    def on_idle(self, node_id: int, now: float, *, free: int) -> None:
        """Pause before the next request to a node: its answer brought nothing, or there was none.

        Args:
            free: answers in a row, of any such kind, that need no pause.
        """
        node = self._nodes.get(node_id)
        if node is not None:
            node.on_idle(now, self._backoff, free)

    def session(self, node_id: int) -> FetchSessionHandler | None:
        """The session with a node, None if there is none."""
        node = self._nodes.get(node_id)
        return None if node is None else node.session

    def sessions(self) -> list[FetchSessionHandler]:
        """All sessions."""
        return [node.session for node in self._nodes.values()]

    def in_flight(self, node_id: int) -> bool:
        """Whether a fetch to the node is under way."""
        node = self._nodes.get(node_id)
        return node is not None and node.in_flight is not None

    def metadata_requested(self) -> None:
        """Clear :attr:`wants_metadata`."""
        self.wants_metadata = False

    # -- output ------------------------------------------------------------------------------------------------------

    def next_due_at(self) -> float:
        """When :meth:`plan` may find something that no event announces: a pause that ends."""
        return min(self._delayed[0][0] if self._delayed else float("inf"), self._retry_nodes_at)

    def plan(self, now: float) -> list[PlannedFetch]:
        """The requests to send now. Each must be answered by :meth:`on_response` in the end."""
        if self._settled and not (self._delayed and self._delayed[0][0] <= now):
            return []
        while self._delayed and self._delayed[0][0] <= now:
            until, tp = heapq.heappop(self._delayed)
            if self._delayed_until.get(tp) == until:
                del self._delayed_until[tp]
                self._place(tp, now)
        self._retry_nodes_at = float("inf")
        planned: list[PlannedFetch] = []
        share = self._share()
        without_room: list[int] = []
        for node_id, node in self._nodes.items():
            if node.in_flight is not None or not node.wanted:
                continue
            until = max(self._unavailable_until(node_id), node.not_before)
            if until > now:
                self._retry_nodes_at = min(self._retry_nodes_at, until)
                continue
            need = min(share, len(node.wanted) * self._max_partition_bytes)
            free = self.budget.free
            if free >= min(need, self._max_partition_bytes):
                limit = max(1, min(share, free))
            elif self.budget.held - self.budget.paused + self.budget.reserved == 0:
                limit = min(share, self._max_partition_bytes)
            else:
                without_room.append(node_id)
                continue
            fetch = PlannedFetch(node_id, self._session_request(node), limit, min(limit, need))
            node.start(fetch)
            self.budget.reserve(fetch.reserved)
            planned.append(fetch)
        if without_room and planned:
            first = {node_id: self._nodes[node_id] for node_id in without_room}
            self._nodes = first | self._nodes
        # Room comes back and a node's pause ends without a word to us.
        self._settled = not without_room and self._retry_nodes_at == float("inf")
        return planned

    def _share(self) -> int:
        """Limit of one request: what leaves room for one more of each node's to be held meanwhile, and not too much."""
        active = sum(1 for node in self._nodes.values() if node.wanted) or 1
        share = max(self.budget.limit // (2 * active), self._max_partition_bytes)
        return min(self._max_bytes, share, self._largest)

    def _session_request(self, node: _Node) -> SessionRequest:
        changed: dict[TopicPartition, SessionPartition] = {}
        removed: list[TopicPartition] = []
        for tp in node.changed:
            state = self._subscriptions.get(tp) if tp in node.wanted else None
            if state is None:
                removed.append(tp)
                continue
            changed[tp] = SessionPartition(
                self._topic_id(tp.topic),
                state.fetch_offset,
                self._max_partition_bytes,
                state.position_leader.epoch,
                state.fetch_epoch,
            )
        node.changed.clear()
        return node.session.plan(changed, removed)

    # -- placing -----------------------------------------------------------------------------------------------------

    def _place(self, tp: TopicPartition, now: float) -> None:
        """Find the node that a partition is to be fetched from, if it is to be fetched now."""
        state = self._subscriptions.get(tp)
        target = self._target(state, now) if state is not None else None
        old = self._node_of.get(tp)
        if old is not None and old != target:
            node = self._nodes[old]
            node.wanted.pop(tp, None)
            node.changed[tp] = None
            del self._node_of[tp]
        if target is not None:
            node = self._nodes.get(target) or self._add_node(target)
            node.wanted[tp] = None
            node.changed[tp] = None
            self._node_of[tp] = target

    def _add_node(self, node_id: int) -> _Node:
        node = self._nodes[node_id] = _Node(FetchSessionHandler(node_id, incremental=self._incremental))
        return node

    def _target(self, state: TopicPartitionState, now: float) -> int | None:
        tp = state.topic_partition
        if not state.is_fetchable or state.fetch_blocked or state.buffered_fetches >= MAX_BUFFERED_FETCHES:
            return None
        if state.fetch_not_before > now:
            self._look_again(tp, state.fetch_not_before)
            return None
        if state.preferred_replica >= 0:
            if now < state.preferred_until and self._unavailable_until(state.preferred_replica) <= now:
                self._look_again(tp, state.preferred_until)
                return state.preferred_replica
            self.wants_metadata |= now < state.preferred_until
            state.forget_preferred_replica()
        leader = self._leader(tp).leader
        if leader < 0:
            self.wants_metadata = True
            return None
        return leader

    def _look_again(self, tp: TopicPartition, at: float) -> None:
        if self._delayed_until.get(tp) != at:
            self._delayed_until[tp] = at
            heapq.heappush(self._delayed, (at, tp))
