"""The values that ``health()`` of the clients returns. No I/O, no lock, and no reference to the client.

The first call of ``health()`` imports this module, because ``dataclasses`` takes long to import.

An object of these classes is a snapshot. All times in it are durations in seconds, up to the moment of the call.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from pyconsumer.structs import TopicPartition

__all__ = ["LONGEST_WAIT_MS", "ConsumerHealth", "ProducerHealth"]

#: ``is_ready`` is False after so long a wait for a coordinator or leader, unless another time is given.
LONGEST_WAIT_MS: Final = 30_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientHealth:
    client_id: str
    closed: bool
    forked: bool
    connected_nodes: tuple[int, ...]
    missing: str | None
    missing_s: float
    last_error: str | None
    buffered_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes in a form that ``json.dumps`` takes. Partitions are written ``topic-0``."""
        return {
            name: [str(one) for one in value] if isinstance(value, tuple) and name != "connected_nodes" else value
            for name, value in ((field.name, getattr(self, field.name)) for field in fields(self))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHealth(_ClientHealth):
    """The state of a consumer at the moment of the call. Times are in seconds.

    Attributes:
        client_id: of the consumer.
        group_id: of the consumer, None without a group.
        closed: True after ``close``.
        forked: True in a child process that was forked from the consumer's.
        connected_nodes: the ids of the brokers with which a connection is ready.
        coordinator: the id of the group's coordinator, None if it is unknown.
        membership: the state of the group member, such as ``STABLE``. None without a group.
        generation_id: the member's generation or epoch. -1 outside the group.
        member_id: empty outside the group.
        has_assignment: True if an assignment was adopted, which may be empty, or partitions were assigned by hand.
        assigned: the partitions, in order.
        paused: those of them that are paused, in order.
        buffered_bytes: what was fetched and not returned yet.
        lag: the records that follow the positions, of all partitions together. None if it is known of none.
        lag_s: the age of the first uncommitted record that was fetched, the oldest of all partitions. 0.0 if nothing is
            uncommitted. None if it is unknown.
        since_poll_s: time since the last call for records began. None before it.
        since_call_s: time since the last call ended or began. Before the first call: since the consumer was created.
        since_fetch_s: time since the last response to a fetch. None before it.
        since_commit_s: time since the last commit that succeeded. None before it.
        is_inside_call: True while a call is in progress, a callback of it included.
        waits_for: what a call in progress waits for. None without a call.
        waits_s: for how long it has waited for that.
        missing: the coordinator or leader that is needed and cannot be reached. None if there is none.
        missing_s: for how long.
        last_error: the latest error that a call raised or, if that is newer, of a connection. Never a password.
        max_poll_interval_s: the setting ``max_poll_interval_ms``.
    """

    group_id: str | None
    coordinator: int | None
    membership: str | None
    generation_id: int
    member_id: str
    has_assignment: bool
    assigned: tuple[TopicPartition, ...]
    paused: tuple[TopicPartition, ...]
    lag: int | None
    lag_s: float | None
    since_poll_s: float | None
    since_call_s: float
    since_fetch_s: float | None
    since_commit_s: float | None
    is_inside_call: bool
    waits_for: str | None
    waits_s: float
    max_poll_interval_s: float

    def is_alive(self) -> bool:
        """Return whether the application makes calls: one within ``max_poll_interval_ms``, or one in progress.

        A consumer that waits for a broker is alive. One that is closed is not, nor is a copy in a forked child.

        Example::

            status = 200 if consumer.health().is_alive() else 503
        """
        if self.closed or self.forked:
            return False
        return self.is_inside_call or self.since_call_s < self.max_poll_interval_s

    def is_ready(self, longest_wait_ms: float = LONGEST_WAIT_MS) -> bool:
        """Return whether the consumer has an assignment and reaches the brokers that it needs.

        Args:
            longest_wait_ms: False if a coordinator or leader has been missing for longer than this.

        Example::

            status = 200 if consumer.health().is_ready() else 503
        """
        if self.closed or self.forked:
            return False
        return self.has_assignment and self.missing_s * 1000 <= longest_wait_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerHealth(_ClientHealth):
    """The state of a producer at the moment of the call. Times are in seconds.

    Attributes:
        client_id: of the producer.
        transactional_id: of the producer, None without transactions.
        closed: True after ``close``.
        forked: True in a child process that was forked from the producer's.
        is_running: True while the thread that sends is there.
        connected_nodes: the ids of the brokers with which a connection is ready.
        buffered_bytes: records that wait or are on the way.
        buffer_limit: the setting ``buffer_memory``.
        waiting_calls: calls of ``send`` that wait for memory.
        in_flight: requests that wait for a response.
        oldest_s: the age of the oldest batch that is not acknowledged. None without one.
        since_send_s: time since the last batch was sent. None before it.
        waits_for: what the oldest batch waits for. None without one.
        missing: the leader that a batch needs and that cannot be reached. None if there is none.
        missing_s: for how long.
        last_error: the failure of the thread, or the latest error of a connection. Never a password.
    """

    transactional_id: str | None
    is_running: bool
    buffer_limit: int
    waiting_calls: int
    in_flight: int
    oldest_s: float | None
    since_send_s: float | None
    waits_for: str | None

    def is_alive(self) -> bool:
        """Return whether the thread that sends is running. It runs on while no broker can be reached.

        Example::

            status = 200 if producer.health().is_alive() else 503
        """
        return self.is_running and not self.closed and not self.forked

    def is_ready(self, longest_wait_ms: float = LONGEST_WAIT_MS) -> bool:
        """Return whether records can be sent: no batch has needed a missing leader for longer than that.

        Args:
            longest_wait_ms: False if a leader has been missing for longer than this.

        Example::

            status = 200 if producer.health().is_ready() else 503
        """
        return self.is_alive() and self.missing_s * 1000 <= longest_wait_ms
