"""Plans fetch requests: which partitions from which node, and the limit of memory. A core: it sends no request.

Rules

1. A partition may be fetched if it is fetchable: assigned, FETCHING, not paused, and not about to be revoked. It must
   have fewer than two buffered fetches (``MAX_BUFFERED_FETCHES``) and no pending error. Its backoff after an error
   must be over.
2. It is fetched from its preferred read replica while that is valid (KIP-392), else from its leader. Without a leader,
   metadata is requested.
3. One fetch is in flight per node. The next one is planned from the *fetch offset*, the end of the last batch received,
   so it can be sent before those records are decoded.
4. ``fetch_buffer_bytes`` bounds the requested and the held bytes together: sending reserves the request's limit, a
   response replaces the reservation by its actual size, and returning the records releases that. Each node's limit is
   its share, so that no node starves. Nodes that found no room come first next time. An oversized first batch may
   exceed the bound, alone.
   Requests for many partitions are capped at 8 MiB, so that the processor's cache still has a response when it is
   decoded, and at 16 MiB where records are large. There the broker is the slow part: it looks at all partitions of a
   session for each request.
   The memory of paused partitions counts, but does not block the others for ever. If all held bytes are of paused
   partitions, one request for a partition's share may be sent.
5. Only partitions that changed are planned again (the journal of ``SubscriptionState``), so the cost of planning
   depends on the changes and not on the number of assigned partitions. A partition that may not be fetched leaves the
   request, and so the session. One whose fetch brought records continues at the same node from its new fetch offset
   (:meth:`FetchPlanner.on_fetched`). It is planned again only if rule 1 or its preferred replica may have changed.
6. If several responses of a node in a row are empty, each before its wait is over, the next request is delayed by
   an increasing backoff (KIP-580). A broken broker must not keep the client busy. The first ones are not counted, as a
   healthy broker has reasons for one or two: an evicted session, a preferred replica, a log that starts later.
7. A plan that can only change by a response or by the journal is not made again before one of these arrives, because a
   poll plans several times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from pyconsumer.consumer.fetch_session import FetchSessionHandler, SessionPartition, SessionRequest
from pyconsumer.consumer.partition_state import LeaderAndEpoch, TopicPartitionState
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.backoff import Backoff
from pyconsumer.structs import TopicPartition, make_tuple

__all__ = ["ByteBudget", "FetchPlanner", "PlannedFetch"]

_LARGE_RECORD: Final = 512
"""From this size on (bytes, compressed if they are) records are large."""

_LARGEST_RESPONSE: Final = 8 << 20
"""Limit (bytes) of a request, however many partitions it names; higher if eight full partitions are more."""

_LARGEST_RESPONSE_OF_LARGE_RECORDS: Final = 16 << 20

_FULL_PARTITIONS = 8


class ByteBudget:
    """Counts memory in bytes: ``reserved`` for responses, and ``held`` by fetched records.

    Of the held bytes, ``paused`` belong to paused partitions. ``limit`` bounds reserved and held bytes together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.paused = 0
        self.reserved = 0

    @property
    def free(self) -> int:
        """Return the bytes that are neither held nor reserved."""
        return self.limit - self.held - self.reserved

    def hold(self, size_bytes: int) -> None:
        """Hold more bytes. A negative number holds fewer."""
        self.held += size_bytes

    def pause(self, size_bytes: int) -> None:
        """Count held bytes as those of paused partitions. A negative number ends that."""
        self.paused += size_bytes

    def reserve(self, size_bytes: int) -> None:
        """Reserve bytes for a response. A negative number releases bytes."""
        self.reserved += size_bytes

    def recount(self, reserved: int) -> None:
        """Set the reserved bytes. This corrects the count after an interrupt between two steps of it."""
        self.reserved = reserved

    def release_held(self) -> None:
        """Release all held bytes."""
        self.held = self.paused = 0


class PlannedFetch(NamedTuple):
    """A request to send: its node, its content, its limit in bytes, and how many of these bytes are reserved."""

    node_id: int
    session: SessionRequest
    max_bytes: int
    reserved: int


class _Node:
    """A node to fetch from: its partitions, and those that changed since its last request."""

    __slots__ = ("changed", "has_large_records", "idle", "in_flight", "not_before", "session", "wanted")

    def __init__(self, session: FetchSessionHandler) -> None:
        self.session = session
        self.wanted: dict[TopicPartition, None] = {}
        self.changed: dict[TopicPartition, None] = {}
        self.in_flight: PlannedFetch | None = None
        self.not_before = 0.0
        self.idle = 0  # responses in a row that brought nothing
        self.has_large_records = False  # as far as the last response tells

    def start(self, planned: PlannedFetch) -> None:
        """Note the fetch that is in flight now."""
        self.in_flight = planned

    def finish(self) -> None:
        """Forget the fetch that was in flight."""
        self.in_flight = None

    def on_record_size(self, size_bytes: float) -> None:
        """Note how large the records of the last response are."""
        self.has_large_records = size_bytes >= _LARGE_RECORD

    def on_progress(self) -> None:
        """Let the next request leave at once."""
        self.idle, self.not_before = 0, 0.0

    def on_idle(self, now: float, backoff: Backoff, free: int) -> None:
        """Pause before the next request, but not after the first ``free`` responses in a row."""
        self.idle += 1
        self.not_before = now + backoff.delay(self.idle - free - 1) if self.idle > free else 0.0


class FetchPlanner:
    """Decides which partitions to fetch, from which nodes, and how many bytes.

    Args:
        subscriptions: the state of each partition. The planner only reads it.
        leaders: the leader of each partition according to metadata.
        topic_id: returns a topic's id according to metadata, or 16 zero bytes if it is unknown.
        unavailable_until: returns the time (seconds) at which a node's backoff ends, or 0.0.
        is_asked: returns whether a request for positions is in flight to a node. The next fetch then waits for its
            response.
        max_partition_bytes, max_bytes: the settings ``max_partition_fetch_bytes`` and ``fetch_max_bytes``.
        buffer_bytes: the setting ``fetch_buffer_bytes``.
        incremental: True to use fetch sessions.
        backoff: the pauses between requests to a node whose responses are empty.

    Attributes:
        budget: the memory in use.
        wants_metadata: True if a partition has no leader, or its preferred replica is gone.
            :meth:`metadata_requested` clears it.
    """

    def __init__(
        self,
        subscriptions: SubscriptionState,
        *,
        leaders: Mapping[TopicPartition, LeaderAndEpoch],
        topic_id: Callable[[str], bytes],
        unavailable_until: Callable[[int], float],
        is_asked: Callable[[int], bool] = lambda node_id: False,
        max_partition_bytes: int,
        max_bytes: int,
        buffer_bytes: int,
        incremental: bool = True,
        backoff: Backoff | None = None,
    ) -> None:
        self.budget = ByteBudget(buffer_bytes)
        self.wants_metadata = False
        self._subscriptions = subscriptions
        self._leaders = leaders
        self._topic_id = topic_id
        self._unavailable_until = unavailable_until
        self._is_asked = is_asked
        self._max_partition_bytes = max_partition_bytes
        self._max_bytes = max_bytes
        full = _FULL_PARTITIONS * max_partition_bytes
        self._largest = max(_LARGEST_RESPONSE, full)
        self._largest_of_large_records = max(_LARGEST_RESPONSE_OF_LARGE_RECORDS, full)
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
        """Plan these partitions again, because their state has changed."""
        self._settled = False
        for tp in partitions:
            self._place(tp, now)

    def on_fetched(
        self,
        node_id: int,
        partitions: Iterable[TopicPartition],
        *,
        progress: bool = True,
        record_bytes: float | None = None,
    ) -> None:
        """Request these partitions again from their new fetch offsets. The response has just moved these offsets.

        Args:
            progress: True if the response contained something, or waited for data. The next request may then leave at
                once.
            record_bytes: the approximate size of a record in the response, or None if it contained none.
        """
        node = self._nodes.get(node_id)
        if node is not None:
            node.changed.update(dict.fromkeys(partitions))
            if record_bytes is not None:
                node.on_record_size(record_bytes)
            if progress and (node.idle or node.not_before):
                node.on_progress()

    def recover(self, pending: Collection[int]) -> None:
        """Recover from an interrupt, which may have come between two steps of anything.

        Every partition is placed again, once the journal has it. The other nodes have no fetch in flight and open a new
        session, because the last request that was planned may not have been sent.

        Args:
            pending: the nodes that a fetch was sent to and that have not responded.
        """
        self._settled = False
        self._node_of.clear()
        self._delayed.clear()
        self._delayed_until.clear()
        for node_id, node in self._nodes.items():
            node.changed.update(node.wanted)
            node.changed.update(dict.fromkeys(node.session.partitions))  # also one that Ctrl-C took out of both
            node.wanted.clear()
            if node.in_flight is None or node_id not in pending:
                node.finish()
                node.session.recover()
        self.budget.recount(sum(node.in_flight.reserved for node in self._nodes.values() if node.in_flight))

    def end(self, planned: PlannedFetch) -> FetchSessionHandler | None:
        """End a fetch whose response has arrived or which has failed, and release its reservation.

        Returns:
            The session with the node, or None if the fetch was abandoned (:meth:`recover`).
        """
        node = self._nodes.get(planned.node_id)
        if node is None or node.in_flight is not planned:
            return None
        node.finish()
        self._settled = False
        self.budget.reserve(-planned.reserved)
        return node.session

    def on_idle(self, node_id: int, now: float, *, free: int) -> None:
        """Delay the next request to a node, because its response was empty or its request failed.

        Args:
            free: the number of such responses in a row that cause no delay.
        """
        node = self._nodes.get(node_id)
        if node is not None:
            node.on_idle(now, self._backoff, free)

    def session(self, node_id: int) -> FetchSessionHandler | None:
        """Return the session with a node, or None if there is none."""
        node = self._nodes.get(node_id)
        return None if node is None else node.session

    def sessions(self) -> list[FetchSessionHandler]:
        """Return all sessions."""
        return [node.session for node in self._nodes.values()]

    def in_flight(self, node_id: int) -> bool:
        """Return whether a fetch from the node is in flight."""
        node = self._nodes.get(node_id)
        return node is not None and node.in_flight is not None

    def metadata_requested(self) -> None:
        """Clear :attr:`wants_metadata`."""
        self.wants_metadata = False

    # -- output ------------------------------------------------------------------------------------------------------

    def next_due_at(self) -> float:
        """Return when the next backoff ends. At that time :meth:`plan` may return requests without any event."""
        return min(self._delayed[0][0] if self._delayed else float("inf"), self._retry_nodes_at)

    def plan(self, now: float) -> list[PlannedFetch]:
        """Return the requests to send now. Each of them must be ended by :meth:`end`."""
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
        held_back = False
        for node_id, node in self._nodes.items():
            if node.in_flight is not None or not node.wanted:
                continue
            if self._is_asked(node_id):
                held_back = True
                continue
            until = self._unavailable_until(node_id)
            if node.not_before > until:
                until = node.not_before
            if until > now:
                self._retry_nodes_at = min(self._retry_nodes_at, until)
                continue
            most = min(share, self._largest_of_large_records if node.has_large_records else self._largest)
            need = min(most, len(node.wanted) * self._max_partition_bytes)
            free = self.budget.free
            if free >= min(need, self._max_partition_bytes):
                limit = max(1, min(most, free))
            elif self.budget.held - self.budget.paused + self.budget.reserved == 0:
                limit = min(most, self._max_partition_bytes)
            else:
                without_room.append(node_id)
                continue
            values = (node_id, self._session_request(node), limit, min(limit, need))
            fetch: PlannedFetch = make_tuple(PlannedFetch, values)
            node.start(fetch)
            self.budget.reserve(fetch.reserved)
            planned.append(fetch)
        if without_room and planned:
            first = {node_id: self._nodes[node_id] for node_id in without_room}
            self._nodes = first | self._nodes
        # No event announces that memory is free again, a node's backoff is over, or a response has arrived.
        self._settled = not without_room and not held_back and self._retry_nodes_at == float("inf")
        return planned

    def _share(self) -> int:
        """Return the bytes for one request. This leaves room to hold one more response of every node."""
        active = 0
        for node in self._nodes.values():
            if node.wanted:
                active += 1
        share = max(self.budget.limit // (2 * (active or 1)), self._max_partition_bytes)
        return min(self._max_bytes, share)

    def _session_request(self, node: _Node) -> SessionRequest:
        changed: dict[TopicPartition, SessionPartition] = {}
        removed: list[TopicPartition] = []
        assigned, wanted, max_bytes = self._subscriptions.by_partition, node.wanted, self._max_partition_bytes
        topic, topic_id, make = "", b"", make_tuple
        for tp in node.changed:
            if tp not in wanted or (state := assigned.get(tp)) is None:
                removed.append(tp)
                continue
            if tp[0] != topic:
                topic = tp[0]
                topic_id = self._topic_id(topic)
            values = (topic_id, state.fetch_offset, max_bytes, state.position_leader[1], state.fetch_epoch)
            changed[tp] = make(SessionPartition, values)
        node.changed.clear()
        return node.session.plan(changed, removed)

    # -- placing -----------------------------------------------------------------------------------------------------

    def _place(self, tp: TopicPartition, now: float) -> None:
        """Assign a partition to the node to fetch it from, or to none if it may not be fetched now."""
        state = self._subscriptions.get(tp)
        target = self._target(state, now) if state is not None else None
        old = self._node_of.get(tp)
        if old is not None and old != target:
            node = self._nodes[old]
            node.changed[tp] = None  # first, so that Ctrl-C between the steps leaves no partition in the session
            node.wanted.pop(tp, None)
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
        if not state.is_fetchable or state.is_full:
            return None
        if state.fetch_not_before > now:
            self._plan_again_at(tp, state.fetch_not_before)
            return None
        if state.preferred_replica >= 0:
            if now < state.preferred_until and self._unavailable_until(state.preferred_replica) <= now:
                self._plan_again_at(tp, state.preferred_until)
                return state.preferred_replica
            self.wants_metadata |= now < state.preferred_until
            state.forget_preferred_replica()
        leader = self._leaders[tp].leader
        if leader < 0:
            self.wants_metadata = True
            return None
        return leader

    def _plan_again_at(self, tp: TopicPartition, at: float) -> None:
        if self._delayed_until.get(tp) != at:
            self._delayed_until[tp] = at
            heapq.heappush(self._delayed, (at, tp))
