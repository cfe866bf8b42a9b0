"""Timers of a member: next heartbeat, session timeout, ``max_poll_interval_ms``.

A core: times come in as seconds. :mod:`.heartbeat_thread` acts on it.

The action for an error code in the response is in :mod:`.error_actions`. ``on_heartbeat_response`` of the membership
carries it out. A heartbeat that gets no response loses the coordinator (``GroupMember.on_heartbeat_failed``).

Rules of the three timers: the next heartbeat, the end of the session, the deadline of the next poll

1. The interval is from send to send, not from response to send. A failed heartbeat is repeated after the retry backoff,
   which grows with each further failure. One heartbeat is in flight at a time.
2. A response that announces a rebalance counts as received: the coordinator has prolonged the session.
3. Finding the coordinator restarts the session's clock, not the poll's: rediscovery gives a stalled application no
   more time. Joining restarts all of them.
4. A time limit has expired when it is reached.
5. In Java the poll's clock runs whenever a member is in its group. A member that rebalances between polls
   (:meth:`Heartbeat.count_with_partitions`) is measured only while it has partitions: a standby has nothing to read.
   Its clock starts with its first partition. Neither joining nor a rebalance that leaves it some restarts it, because
   these happen without the application.
"""

from __future__ import annotations

import math

from pyconsumer.network.backoff import Backoff

__all__ = ["Heartbeat"]


class Heartbeat:
    """The three timers of a member: heartbeat, session and poll.

    Args:
        interval: ``heartbeat_interval_ms``, but in seconds, as all times here.
        session_timeout: ``session_timeout_ms``, in seconds.
        max_poll_interval: ``max_poll_interval_ms``, in seconds.
        backoff: the pause after failed heartbeats.
        now: the present time.

    Attributes:
        last_poll: when the application polled last.
        last_sent: when a heartbeat was last sent. -inf means never.
        last_received: when a coordinator that knows this member last responded to a heartbeat. -inf means never.
        in_flight: True if a heartbeat was sent and has no response yet.
    """

    def __init__(
        self,
        *,
        interval: float,
        session_timeout: float,
        max_poll_interval: float,
        backoff: Backoff,
        now: float = 0.0,
    ) -> None:
        self.interval = interval
        self.session_timeout = session_timeout
        self.max_poll_interval = max_poll_interval
        self._backoff = backoff
        self.last_poll = now
        self.last_sent = self.last_received = -math.inf
        self.in_flight = False
        self._failures = 0
        self._with_partitions = False  # rule 5 holds
        self._counts = True  # the poll's clock runs
        self._next_heartbeat = now + interval
        self._session_end = now + session_timeout
        self._poll_end = now + max_poll_interval

    def poll(self, now: float) -> None:
        """Record that the application polled."""
        self.last_poll = now
        self._poll_end = now + self.max_poll_interval

    def count_with_partitions(self) -> None:
        """Count the time between polls only while the member has partitions (rule 5)."""
        self._with_partitions = True
        self._counts = False

    def on_assigned(self, count: int, now: float) -> None:
        """Record how many partitions the member has after a rebalance."""
        if not self._with_partitions:
            return
        if count and not self._counts:
            self.poll(now)
        self._counts = count > 0

    def sent(self, now: float) -> None:
        """Record that a heartbeat was sent."""
        self.in_flight = True
        self.last_sent = now
        self._next_heartbeat = now + self.interval

    def forget_sent(self) -> None:
        """Stop waiting for the response to a heartbeat, because its coordinator is lost."""
        self.in_flight = False

    def hasten(self) -> None:
        """Make the next heartbeat due at once. A pause after a failure is still kept."""
        if not self._failures:
            self._next_heartbeat = -math.inf

    def set_interval(self, interval: float) -> None:
        """Set the interval (seconds) that the coordinator has chosen (KIP-848)."""
        if interval != self.interval:
            self.interval = interval
            self._next_heartbeat = self.last_sent + interval

    def received(self, now: float) -> None:
        """Record a response, which shows that the coordinator knows this member."""
        self.in_flight = False
        self._failures = 0
        self.last_received = now
        self._session_end = now + self.session_timeout

    def failed(self, now: float) -> None:
        """Record that a heartbeat failed or was rejected."""
        self.in_flight = False
        self._next_heartbeat = now + self._backoff.delay(self._failures)
        self._failures += 1

    def reset_timeouts(self, now: float) -> None:
        """Start all timers again, because the member has just joined."""
        self.in_flight = False
        self._failures = 0
        self._next_heartbeat = now + self.interval
        self.reset_session(now)
        if not self._with_partitions:
            self.poll(now)

    def reset_session(self, now: float) -> None:
        """Start the session's timer again, because the coordinator was found."""
        self._session_end = now + self.session_timeout

    def is_due(self, now: float) -> bool:
        """Return whether to send a heartbeat now."""
        return not self.in_flight and now >= self._next_heartbeat

    def session_expired(self, now: float) -> bool:
        """Return whether the session has expired, so that the coordinator must have removed this member."""
        return now >= self._session_end

    def poll_expired(self, now: float) -> bool:
        """Return whether the application has not polled for ``max_poll_interval_ms``."""
        return self._counts and now >= self._poll_end

    def next_deadline(self) -> float:
        """Return when the next timer expires."""
        heartbeat = math.inf if self.in_flight else self._next_heartbeat
        return min(heartbeat, self._session_end, self._poll_end if self._counts else math.inf)
