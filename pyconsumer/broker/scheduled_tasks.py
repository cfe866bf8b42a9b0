"""Scheduled tasks of a cluster: retention, compaction, checkpoints, flushes, lagging replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyconsumer.background_log import Log, stay_in_background
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.log.cleaner import LogCleaner
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock

__all__ = ["ScheduledTasks"]

_log = Log(__name__)

#: The duration of one step of compaction, and of the pause after it.
_CLEANER_STEP_S: Final = 0.005


class ScheduledTasks:
    """Periodic work on the brokers of a cluster.

    Args:
        brokers: the live brokers, by node id.
        loop: the event loop. It gets the results of the thread that flushes files to disk.
    """

    def __init__(
        self,
        brokers: Mapping[int, Broker],
        config: BrokerConfig,
        clock: Clock,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._brokers = brokers
        self._config = config
        self._clock = clock
        self._timer = timer
        self._loop = loop
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="pyconsumer-flush", initializer=stay_in_background)
        self._flushing = False
        self._running = False
        self._cleaners: dict[int, LogCleaner] = {}

    def start(self) -> None:
        """Start the tasks."""
        self._running = True
        config = self._config
        retention_ms = config.integer("log.retention.check.interval.ms")
        first_ms = min(config.integer("log.initial.task.delay.ms"), retention_ms)
        self.every(retention_ms, lambda: self._for_all(Broker.delete_old_segments), first_ms)
        checkpoint_ms = min(
            config.integer("log.flush.offset.checkpoint.interval.ms"),
            config.integer("log.flush.start.offset.checkpoint.interval.ms"),
        )
        self.every(max(checkpoint_ms, 100), self._checkpoint)
        self.every(1000, lambda: self._for_all(lambda broker: broker.logs.flush_due()))
        self.every(
            config.integer("producer.id.expiration.check.interval.ms"),
            lambda: self._for_all(
                lambda broker: broker.logs.expire_producers(broker.config.integer("producer.id.expiration.ms"))
            ),
        )
        self.every(max(config.integer("replica.lag.time.max.ms") // 2, 1), lambda: self._for_all(Broker.shrink_isrs))
        if config.boolean("log.cleaner.enable"):
            self.every(max(config.integer("log.cleaner.backoff.ms"), 10), lambda: self._for_all(self._clean))

    def stop(self) -> None:
        """Stop the tasks. If a flush to disk is running, they stop when it has ended."""
        self._running = False
        self._flusher.shutdown(wait=True)
        for node_id in list(self._cleaners):
            self.forget(node_id)

    def forget(self, node_id: int) -> None:
        """Forget a broker that has ended.

        If its log is being compacted, that is abandoned, and the new files are removed.
        """
        cleaner = self._cleaners.pop(node_id, None)
        if cleaner is not None:
            cleaner.cancel()

    def every(self, interval_ms: int, action: Callable[[], None], first_ms: int | None = None) -> None:
        """Call ``action`` at an interval. If it raises, the error is logged.

        Args:
            first_ms: the delay of the first call. By default it is one interval.
        """

        def run() -> None:
            if not self._running:
                return
            try:
                action()
            except Exception:
                _log.exception("a scheduled task failed")
            self._timer.schedule(self._clock.now() + interval_ms / 1000, run)

        first = interval_ms if first_ms is None else first_ms
        self._timer.schedule(self._clock.now() + first / 1000, run)

    def _clean(self, broker: Broker) -> None:
        """Compact one log of a broker, in steps."""
        cleaner = self._cleaners.get(broker.node_id)
        if cleaner is None:
            cleaner = self._cleaners[broker.node_id] = LogCleaner(self._clock, self._flusher.submit)
        if not cleaner.busy:
            cleaner.begin(broker.partitions.values())
            self._clean_on(cleaner)

    def _clean_on(self, cleaner: LogCleaner) -> None:
        if self._running and cleaner.busy:
            cleaner.step(_CLEANER_STEP_S)
            self._timer.schedule(self._clock.now() + _CLEANER_STEP_S, lambda: self._clean_on(cleaner))

    def _for_all(self, action: Callable[[Broker], object]) -> None:
        for broker in list(self._brokers.values()):
            action(broker)

    def _checkpoint(self) -> None:
        """Flush closed segments to disk in another thread, then record the recovery points."""
        jobs = [job for broker in self._brokers.values() for job in broker.logs.flushers()]
        if not jobs or self._flushing:
            self._for_all(Broker.checkpoint)
            return
        self._flushing = True
        truncations = [log.truncations for log, _, _ in jobs]

        def work() -> None:
            for _, _, calls in jobs:
                for call in calls:
                    call()

        def done(error: BaseException | None) -> None:
            self._flushing = False
            if error is not None:
                _log.error("flushing logs to disk failed: %s", error)
                return
            for (log, point, _), before in zip(jobs, truncations, strict=True):
                if log.truncations == before:  # otherwise the flushed records have been truncated
                    log.confirm_flush(point)
            if self._running:
                self._for_all(Broker.checkpoint)

        future = self._flusher.submit(work)
        future.add_done_callback(
            lambda ended: self._loop.is_closed() or self._loop.call_soon_threadsafe(done, ended.exception())
        )
