"""``HealthWatch``: reads ``health()`` of every client of a test run from another thread, and notes false alarms.

An alarm about a consumer is false if ``is_alive()`` is False although the watch has seen the application in a call, or
a new poll, within ``max_poll_interval_ms``. Consumers on a clock that tests move are only read.

``is_ready()`` is a false alarm if it is False in these conditions, before and after the look. The consumer has
partitions, and is stable in its group if it has one. It has begun a poll since then. It is connected to its
coordinator and to each leader.

An alarm about a producer is false if ``is_alive()`` is False although its thread still runs after the look. So it is
if ``is_ready()`` is False although it is also connected to the leaders of all batches that wait.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyconsumer.clock import SystemClock
from pyconsumer.consumer.calls import ConsumerCalls
from pyconsumer.consumer.health import consumer_health
from pyconsumer.producer.delegate import ProducerDelegate
from pyconsumer.producer.health import producer_health

__all__ = ["HealthWatch", "Watched", "parts_of"]

_INTERVAL_S: Final = 0.05


@dataclass(eq=False)
class Watched:
    """What ``health()`` of a consumer reads. Its parts refer to the consumer only if the application lets them."""

    delegate: Any
    guard: Any
    activity: Any


def parts_of(consumer: Any) -> Watched:
    return Watched(consumer._delegate, consumer._guard, consumer._activity)


class HealthWatch:
    """Reads the health of all consumers and producers that are made while it is open. A context manager.

    It holds no client, but for moments its parts. So one that is dropped is collected at once, in the test's thread.

    Attributes:
        alarms: a line for each false alarm, and for each error that ``health()`` raised.
        readings: how often a health was read, by the class of a consumer or the client id of a producer.
        ready: how often a client had to be ready, by the same.
    """

    def __init__(self) -> None:
        self.alarms: list[str] = []
        self.readings: dict[type | str, int] = {}
        self.ready: dict[type | str, int] = {}
        self._entries: weakref.WeakKeyDictionary[Watched, tuple[type, list[float]]] = weakref.WeakKeyDictionary()
        self._settled: weakref.WeakKeyDictionary[Watched, tuple[object, int]] = weakref.WeakKeyDictionary()
        self._producers: weakref.WeakSet[ProducerDelegate] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._paused = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health watch", daemon=True)
        self._original = ConsumerCalls._open
        self._original_of_producers = ProducerDelegate.__dict__["open"]

    def __enter__(self) -> HealthWatch:
        original = self._original

        @functools.wraps(original)
        def opened(consumer: Any, *arguments: Any) -> None:
            original(consumer, *arguments)
            watched, now = parts_of(consumer), time.monotonic()
            consumer._watched = watched  # nothing else keeps it
            with self._lock:
                self._entries[watched] = type(consumer), [now, -1.0, now]

        ConsumerCalls._open = opened  # type: ignore[method-assign]
        original_of_producers = self._original_of_producers.__get__(None, ProducerDelegate)

        @functools.wraps(original_of_producers)
        def opened_producer(*arguments: Any, **options: Any) -> ProducerDelegate:
            delegate = original_of_producers(*arguments, **options)
            with self._lock:
                self._producers.add(delegate)
            return delegate

        ProducerDelegate.open = opened_producer  # type: ignore[method-assign,assignment]
        os.register_at_fork(after_in_child=self._forget_lock)
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        ConsumerCalls._open = self._original  # type: ignore[method-assign]
        ProducerDelegate.open = self._original_of_producers  # type: ignore[method-assign]
        self._ended.set()
        self._thread.join()

    def _forget_lock(self) -> None:
        """Make a new lock in a forked child: the thread that held the old one is not there."""
        self._lock = threading.Lock()

    def take_alarms(self) -> list[str]:
        """Return the alarms since the last call."""
        found, self.alarms = self.alarms, []
        return found

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            with self._reading:
                if not self._paused:
                    self._look_at_all()

    def _look_at_all(self) -> None:
        with self._lock:
            entries = list(self._entries.items())
            producers = list(self._producers)
        while producers:
            delegate = producers.pop()
            name = delegate.config.client_id
            try:
                if self.look_at_producer(delegate):
                    self.ready[name] = self.ready.get(name, 0) + 1
                self.readings[name] = self.readings.get(name, 0) + 1
            except Exception as error:
                self.alarms.append(f"health() of {name} raised {error!r}")
        while entries:
            watched, (kind, seen) = entries.pop()
            try:
                if self.look(watched, seen):
                    self.ready[kind] = self.ready.get(kind, 0) + 1
                self.readings[kind] = self.readings.get(kind, 0) + 1
            except Exception as error:
                self.alarms.append(f"health() of {watched.delegate.config.client_id} raised {error!r}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Return a context in which nothing is read: for consumers that only the garbage collector can drop."""
        with self._reading:
            self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def look(self, watched: Watched, seen: list[float]) -> bool:
        """Read one consumer. Return whether it had to be ready.

        Args:
            watched: its parts.
            seen: a time at or before the last sign of life, the number of polls then, and the time of the last look. A
                call that is seen now may have begun at any time since the last look.
        """
        began = time.monotonic()
        delegate = watched.delegate
        polls = delegate.metrics.polls  # first: a poll that comes now must not meet an older health
        before = _settled(delegate)
        health = consumer_health(delegate, watched.guard, watched.activity)
        if health.is_inside_call or polls != seen[1]:
            seen[:2] = seen[2], polls
        seen[2] = began
        now = time.monotonic()
        fresh = now - seen[0] < health.max_poll_interval_s
        counts = isinstance(delegate.clock, SystemClock) and not (health.closed or health.forked)
        if fresh and counts and not health.is_alive():
            self.alarms.append(f"{health.client_id} was called {now - seen[0]:.3f} s ago: {health}")
        if before is None or _settled(delegate) != before:
            self._settled.pop(watched, None)
            return False
        known, since = self._settled.setdefault(watched, (before, polls))
        if known != before:
            self._settled[watched] = before, polls
            return False
        must_be_ready = counts and polls > since  # the poll that adopted the assignment has ended
        if must_be_ready and not health.is_ready():
            self.alarms.append(f"{health.client_id} has partitions and reaches their leaders: {health}")
        return must_be_ready

    def look_at_producer(self, delegate: ProducerDelegate) -> bool:
        """Read one producer. Return whether it had to be ready. A thread that runs after that has run before."""
        reachable = _reaches_leaders(delegate)
        health = producer_health(delegate)
        runs = delegate.thread.is_alive() and delegate.sender.failure is None
        runs = runs and not (delegate.closed or delegate.forked)
        if runs and not health.is_alive():
            self.alarms.append(f"the thread of {health.client_id} runs: {health}")
        must_be_ready = runs and reachable and _reaches_leaders(delegate)
        if must_be_ready and not health.is_ready():
            self.alarms.append(f"{health.client_id} runs and reaches the leaders of its batches: {health}")
        return must_be_ready


def _settled(delegate: Any) -> object:
    """Return the assignment of a consumer that reaches all brokers that it needs, and None for another one."""
    subscriptions, group, client = delegate.subscriptions, delegate.coordinator, delegate.client
    partitions = {state.topic_partition for state in list(subscriptions.by_partition.values())}
    leaders = {None if (found := delegate.metadata.leader(tp)) is None else found.leader for tp in partitions}
    if not partitions or not leaders <= set(client.ready_nodes()):
        return None
    if group is None or not subscriptions.has_auto_assigned:
        return frozenset(partitions), None
    node = group.coordinator_id
    if node is None or client.connection_state(node, "coordinator") != "ready" or group.is_rebalancing:
        return None
    return (frozenset(partitions), group.generation) if group.state_name == "STABLE" else None


def _reaches_leaders(delegate: ProducerDelegate) -> bool:
    """Return whether there is a connection to the leader of each batch that waits, and to any broker."""
    waiting = [tp for tp, _ in delegate.accumulator.oldest_by_partition()]
    leaders = {None if (found := delegate.metadata.leader(tp)) is None else found.leader for tp in waiting}
    ready = set(delegate.client.ready_nodes())
    return bool(ready) and leaders <= ready
