"""A whole cluster in one asyncio loop: the controller, the brokers, their sockets, and the work done from time to time.

Everything here runs in the loop's thread. Whoever wants something from outside (:mod:`.cluster`, by a pipe or from
another thread) names a command, see :meth:`ClusterHost.command`.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import Controller
from pyconsumer.broker.faults import Faults
from pyconsumer.broker.log.cleaner import LogCleaner
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.broker.server import BrokerServer
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import SystemClock
from pyconsumer.errors import BrokerStartError, ConfigurationError
from pyconsumer.structs import BrokerMetadata

__all__ = ["ClusterHost", "ClusterOptions"]

_log = logging.getLogger(__name__)

#: How long compaction goes on at a time; it rests as long.
_CLEANER_STEP_S = 0.005


@dataclass(slots=True)
class ClusterOptions:
    """What a cluster is made of.

    Attributes:
        data_dir: folder of all data; None: memory.
        config: broker settings by Kafka's names.
        host: address to listen on; ``advertised_host``: what clients are told, if that is another.
        ports: per broker, the port of each listener by its name; missing or 0: a free one.
        listeners: names from ``security.LISTENERS``.
        security: what listeners other than PLAINTEXT need.
        flush_at_stop: force logs to disk when the cluster stops.
    """

    brokers: int = 1
    data_dir: Path | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    host: str = "127.0.0.1"
    advertised_host: str | None = None
    ports: Sequence[Mapping[str, int]] = ()
    listeners: Sequence[str] = ("PLAINTEXT",)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    flush_at_stop: bool = True

    def check(self) -> None:
        """Raise ``ConfigurationError`` if such a cluster cannot be."""
        if self.brokers != 1:
            raise ConfigurationError(f"the embedded cluster has one broker for now, not {self.brokers}")
        if not self.listeners:
            raise ConfigurationError("a broker needs a listener")
        self.security.check(self.listeners)
        BrokerConfig(self.config)


class ClusterHost:
    """Runs a cluster in ``loop``, in whose thread all methods are called."""

    def __init__(self, options: ClusterOptions, loop: asyncio.AbstractEventLoop) -> None:
        options.check()
        self.options = options
        self.faults = Faults()
        self.brokers: list[Broker] = []
        self.servers: list[BrokerServer] = []
        self._loop = loop
        self._clock = SystemClock()
        self._timer = Timer(self._on_earlier)
        self._wake: asyncio.TimerHandle | None = None
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="pyconsumer-flush")
        self._flushing = False
        self._running = False
        self._lock: IO[str] | None = None
        self.controller: Controller

    # --- life

    def start(self) -> None:
        """Start all brokers.

        Raises:
            BrokerStartError: a port or the data folder cannot be had; the message says which and why.
        """
        options = self.options
        if options.data_dir is not None:
            self._lock_folder(options.data_dir)
        try:
            self._start_brokers()
        except OSError as error:
            self.abandon()
            raise BrokerStartError(f"the broker cannot start: {error}") from error
        except BaseException:
            self.abandon()
            raise
        self._running = True
        self._schedule_work()

    def _lock_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / ".lock", "a")  # noqa: SIM115 (held until the end)
        except OSError as error:
            raise BrokerStartError(f"the data folder {folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise BrokerStartError(f"the data folder {folder} is in use by another broker") from None

    def _start_brokers(self) -> None:
        options = self.options
        self.controller = Controller(options.data_dir, BrokerConfig(options.config))
        for node_id in range(options.brokers):
            broker = Broker(
                node_id,
                folder=None if options.data_dir is None else options.data_dir / f"broker-{node_id}",
                config=BrokerConfig(options.config),
                controller=self.controller,
                clock=self._clock,
                timer=self._timer,
                faults=self.faults,
                endpoints=self.endpoints,
                soon=self._soon,
            )
            server = BrokerServer(broker, self._loop, options.security)
            self.servers.append(server)
            ports = options.ports[node_id] if node_id < len(options.ports) else {}
            for name in options.listeners:
                port = ports.get(name, 0)
                try:
                    server.open(name, options.host, port)
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise BrokerStartError(f"cannot listen on {options.host}:{port}: {reason}") from error
            self.brokers.append(broker)
        self.controller.register([broker.node_id for broker in self.brokers])
        for broker in self.brokers:
            broker.start()

    def stop(self) -> None:
        """Stop in good order."""
        self._end(reset=False)
        for broker in self.brokers:
            broker.stop(flush=self.options.flush_at_stop)
        self._release()

    def abandon(self) -> None:
        """Stop as if the process had been killed: sockets are reset, nothing more is written."""
        self._end(reset=True)
        for broker in self.brokers:
            broker.abandon()
        self._release()

    def _end(self, *, reset: bool) -> None:
        self._running = False
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        for server in self.servers:
            server.close(reset=reset)
        self._flusher.shutdown(wait=True)

    def _release(self) -> None:
        self.brokers.clear()
        self.servers.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # --- addresses

    def endpoints(self, listener: str) -> list[BrokerMetadata]:
        """Where brokers that are alive listen, as a client of that listener can reach them."""
        host = self.options.advertised_host or self.options.host
        found = []
        for server in self.servers:
            address = server.addresses.get(listener)
            if address is not None:
                rack = server.broker.config.value("broker.rack")
                found.append(BrokerMetadata(server.broker.node_id, host, address[1], rack))
        return found

    def ports(self) -> list[dict[str, int]]:
        """Per broker, the port of each listener."""
        return [{name: port for name, (_, port) in server.addresses.items()} for server in self.servers]

    # --- time

    def _soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon(action)

    def _on_earlier(self, when: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._loop.call_at(when, self._run_timer)

    def _run_timer(self) -> None:
        self._wake = None
        try:
            self._timer.run_due(self._clock.now())
        finally:
            deadline = self._timer.next_deadline()
            if deadline is not None and self._wake is None and (self._running or self.brokers):
                self._wake = self._loop.call_at(deadline, self._run_timer)

    def _every(self, interval_ms: int, action: Callable[[], None], first_ms: int | None = None) -> None:
        def run() -> None:
            if not self._running:
                return
            try:
                action()
            except Exception:
                _log.exception("periodic work failed")
            self._timer.schedule(self._clock.now() + interval_ms / 1000, run)

        first = interval_ms if first_ms is None else first_ms
        self._timer.schedule(self._clock.now() + first / 1000, run)

    def _schedule_work(self) -> None:
        config = self.brokers[0].config
        retention_ms = config.integer("log.retention.check.interval.ms")
        first_ms = min(config.integer("log.initial.task.delay.ms"), retention_ms)
        self._every(retention_ms, lambda: self._for_all(Broker.delete_old_segments), first_ms)
        checkpoint_ms = min(
            config.integer("log.flush.offset.checkpoint.interval.ms"),
            config.integer("log.flush.start.offset.checkpoint.interval.ms"),
        )
        self._every(max(checkpoint_ms, 100), self._checkpoint)
        self._every(1000, lambda: self._for_all(lambda broker: broker.logs.flush_due()))
        self._every(
            config.integer("producer.id.expiration.check.interval.ms"),
            lambda: self._for_all(
                lambda broker: broker.logs.expire_producers(broker.config.integer("producer.id.expiration.ms"))
            ),
        )
        if config.boolean("log.cleaner.enable"):
            cleaner = LogCleaner(self._clock)
            self._every(max(config.integer("log.cleaner.backoff.ms"), 10), lambda: self._clean(cleaner))

    def _clean(self, cleaner: LogCleaner) -> None:
        """Compact one log, in steps."""
        if not cleaner.busy:
            cleaner.choose(partition for broker in self.brokers for partition in broker.partitions.values())
            self._clean_on(cleaner)

    def _clean_on(self, cleaner: LogCleaner) -> None:
        if self._running and cleaner.busy:
            cleaner.step(_CLEANER_STEP_S)
            self._timer.schedule(self._clock.now() + _CLEANER_STEP_S, lambda: self._clean_on(cleaner))

    def _for_all(self, action: Callable[[Broker], object]) -> None:
        for broker in self.brokers:
            action(broker)

    def _checkpoint(self) -> None:
        """Force closed segments to disk in another thread, then note how far they are safe."""
        jobs = [job for broker in self.brokers for job in broker.logs.flushers()]
        if not jobs or self._flushing:
            self._for_all(Broker.checkpoint)
            return
        self._flushing = True

        def work() -> None:
            for _, _, calls in jobs:
                for call in calls:
                    call()

        def done(error: BaseException | None) -> None:
            self._flushing = False
            if error is not None:
                _log.error("forcing logs to disk failed: %s", error)
                return
            for log, point, _ in jobs:
                log.recovery_point = max(log.recovery_point, min(point, log.log_end_offset))
            if self._running:
                self._for_all(Broker.checkpoint)

        future = self._flusher.submit(work)
        future.add_done_callback(
            lambda ended: self._loop.is_closed() or self._loop.call_soon_threadsafe(done, ended.exception())
        )

    # --- commands from outside

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out what a test or an embedding program asks; arguments and result are plain JSON values.

        Raises:
            KafkaError: as the controller or the faults say.
        """
        if name == "create_topic":
            topic = self.controller.create_topic(**arguments)
            return len(topic.partitions)
        if name == "delete_topic":
            self.controller.delete_topic(arguments["name"])
            return None
        if name == "add_fault":
            return self.faults.add(**arguments)
        if name == "remove_fault":
            self.faults.remove(arguments["rule_id"])
            return None
        if name == "clear_faults":
            self.faults.clear()
            return None
        if name == "fault_hits":
            return self.faults.hits(arguments["rule_id"])
        if name == "ping":
            return os.getpid()
        raise ConfigurationError(f"there is no command {name!r}")
