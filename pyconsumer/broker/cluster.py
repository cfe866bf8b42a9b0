"""The embedded cluster as its users see it: started and stopped from a program or a test.

It runs in a child process, so that it can be killed like a real one and takes no time from the program's own
interpreter; in a thread for tests that want neither. The child ends when the pipe from its parent closes, so it never
outlives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol, Self

from pyconsumer import errors
from pyconsumer.broker.host import ClusterHost, ClusterOptions
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.errors import BrokerStartError, ConfigurationError, IllegalStateError

__all__ = ["ClusterFaults", "EmbeddedCluster"]

_START_TIMEOUT_S: Final = 60.0
_COMMAND_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 20.0


class EmbeddedCluster:
    """A Kafka cluster of our own on this machine; a context manager that starts and stops it.

    Args:
        brokers: how many (one, for now).
        data_dir: where data is kept. None: a temporary folder that :meth:`stop` removes. ``":memory:"``: no files.
        config: broker settings by Kafka's names, such as ``{"num.partitions": 3}``.
        host: address to listen on.
        port: of the first listener of the first broker; 0 picks a free one.
        listeners: any of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; the first one is that of ``bootstrap_servers``.
        ssl_certfile, ssl_keyfile: PEM files for the TLS listeners; the key may be in the first.
        ssl_client_cafile: clients must show a certificate of this authority.
        sasl_users: passwords by name, for the SASL listeners (mechanism PLAIN).
        in_thread: run in a thread of this process instead of a child.

    Raises:
        ConfigurationError: unknown settings, or ones that don't go together.
    """

    def __init__(
        self,
        brokers: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        config: Mapping[str, object] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listeners: Sequence[str] = ("PLAINTEXT",),
        ssl_certfile: str | os.PathLike[str] | None = None,
        ssl_keyfile: str | os.PathLike[str] | None = None,
        ssl_client_cafile: str | os.PathLike[str] | None = None,
        sasl_users: Mapping[str, str] | None = None,
        in_thread: bool = False,
    ) -> None:
        self._memory = data_dir == ":memory:"
        self._own_folder = data_dir is None
        self._folder = None if data_dir is None or self._memory else Path(data_dir)
        self._options = ClusterOptions(
            brokers=brokers,
            data_dir=self._folder,
            config=dict(config or {}),
            host=host,
            ports=[{listeners[0]: port}] if port and listeners else [],
            listeners=tuple(listeners),
            security=SecurityConfig(
                cert_file=_path(ssl_certfile),
                key_file=_path(ssl_keyfile),
                client_ca_file=_path(ssl_client_cafile),
                sasl_users=dict(sasl_users or {}),
            ),
            flush_at_stop=not self._own_folder,
        )
        self._options.check()
        self._in_thread = in_thread
        self._runner: _Runner | None = None
        self._ports: list[dict[str, int]] = list(map(dict, self._options.ports))
        self._down: set[int] = set()
        #: Faults that the brokers are to commit.
        self.faults = ClusterFaults(self)

    # --- life

    def start(self) -> None:
        """Start, and return when requests are answered. ``BrokerStartError`` if it cannot be."""
        if self._runner is not None or self._down:
            raise IllegalStateError("the cluster was started already")
        if self._own_folder and self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pyconsumer-cluster-"))
            self._options.data_dir = self._folder
        try:
            self._run()
        except BaseException:
            self._remove_folder()
            raise

    def _run(self) -> None:
        self._options.ports = self._ports
        runner: _Runner = _ThreadRunner() if self._in_thread else _ProcessRunner(remove_folder=self._own_folder)
        self._ports = runner.start(self._options)
        self._runner = runner

    def stop(self) -> None:
        """Stop in good order, and remove a temporary folder. Nothing happens if it does not run."""
        runner, self._runner = self._runner, None
        self._down.clear()
        try:
            if runner is not None:
                runner.stop()
        finally:
            self._remove_folder()

    def _remove_folder(self) -> None:
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # --- addresses

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker's first listener, separated by commas."""
        return self.address(self._options.listeners[0])

    def address(self, listener: str) -> str:
        """The same for a listener by name; ``ConfigurationError`` if there is no such one."""
        if listener not in self._options.listeners:
            raise ConfigurationError(f"the cluster has no listener {listener}")
        if not self._ports or listener not in self._ports[0]:
            raise IllegalStateError("the cluster was not started")
        return ",".join(f"{self._options.host}:{ports[listener]}" for ports in self._ports)

    @property
    def data_dir(self) -> Path | None:
        """Where the data is; None in memory, or before the start with a temporary folder."""
        return self._folder

    # --- what tests do

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic; -1 for the broker's defaults. Errors as CreateTopics has."""
        own = {key: _text(value) for key, value in (config or {}).items()}
        self.command(
            "create_topic", name=name, partitions=partitions, replication_factor=replication_factor, config=own
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.command("delete_topic", name=name)

    def kill_broker(self, node_id: int) -> None:
        """End a broker as ``kill -9`` does. With one broker that is its whole process.

        Raises:
            IllegalStateError: the cluster is in memory, so it could not come back; or it does not run.
        """
        runner = self._running()
        if self._memory:
            raise IllegalStateError("a cluster in memory cannot be killed: nothing of it would be left")
        self._check_node(node_id)
        runner.kill()
        self._runner = None
        self._down.add(node_id)

    def restart_broker(self, node_id: int) -> None:
        """Start a broker that was killed, on its port and with its files."""
        self._check_node(node_id)
        if node_id not in self._down:
            raise IllegalStateError(f"broker {node_id} was not killed")
        self._run()
        self._down.discard(node_id)

    def _check_node(self, node_id: int) -> None:
        if not 0 <= node_id < self._options.brokers:
            raise ConfigurationError(f"there is no broker {node_id}")

    def command(self, name: str, /, **arguments: Any) -> Any:
        """Carry out a command of :class:`~pyconsumer.broker.host.ClusterHost`."""
        return self._running().command(name, arguments)

    def _running(self) -> _Runner:
        if self._runner is None:
            raise IllegalStateError("the cluster does not run")
        return self._runner

    @property
    def pid(self) -> int:
        """Process id of the brokers."""
        return int(self.command("ping"))

    def log(self) -> str:
        """What the brokers have logged (child process only)."""
        return self._runner.log() if self._runner is not None else ""


class ClusterFaults:
    """Faults of a running cluster; see :mod:`pyconsumer.broker.faults` for what each kind does."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    def add(
        self,
        kind: str,
        api: str | int,
        *,
        node: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        count: int | None = 1,
        error_code: int = -1,
        delay_ms: int = 0,
    ) -> int:
        """Let requests suffer a fault; return the rule's id. Arguments as :meth:`.faults.Faults.add`."""
        arguments = {"node": node, "topic": topic, "client_id": client_id, "count": count}
        return int(
            self._cluster.command(
                "add_fault", kind=kind, api=api, error_code=error_code, delay_ms=delay_ms, **arguments
            )
        )

    def remove(self, rule_id: int) -> None:
        """Remove a rule."""
        self._cluster.command("remove_fault", rule_id=rule_id)

    def clear(self) -> None:
        """Remove all rules."""
        self._cluster.command("clear_faults")

    def hits(self, rule_id: int) -> int:
        """How many requests have suffered a rule."""
        return int(self._cluster.command("fault_hits", rule_id=rule_id))


# --- where it runs


class _Runner(Protocol):
    def start(self, options: ClusterOptions) -> list[dict[str, int]]: ...

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def log(self) -> str: ...


class _ThreadRunner:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._host: ClusterHost
        self._thread: threading.Thread

    def start(self, options: ClusterOptions) -> list[dict[str, int]]:
        started: Future[list[dict[str, int]]] = Future()
        self._loop = asyncio.new_event_loop()

        def run() -> None:
            try:
                self._host = ClusterHost(options, self._loop)
                self._host.start()
            except BaseException as error:
                self._loop.close()
                started.set_exception(error)
                return
            started.set_result(self._host.ports())
            try:
                self._loop.run_forever()
            finally:
                self._loop.close()

        self._thread = threading.Thread(target=run, name="pyconsumer-broker", daemon=True)
        self._thread.start()
        try:
            return started.result(_START_TIMEOUT_S)
        except BaseException:
            self._thread.join(_STOP_TIMEOUT_S)
            raise

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return self._call(lambda: self._host.command(name, arguments))

    def _call(self, action: Any) -> Any:
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(_COMMAND_TIMEOUT_S)

    def stop(self) -> None:
        self._end(lambda: self._host.stop())

    def kill(self) -> None:
        self._end(lambda: self._host.abandon())

    def _end(self, action: Any) -> None:
        try:
            self._call(action)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_TIMEOUT_S)

    def log(self) -> str:
        return ""


class _ProcessRunner:
    """The child reads commands from its standard input and answers on its standard output, a line of JSON each."""

    def __init__(self, *, remove_folder: bool) -> None:
        self._remove_folder = remove_folder
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes]
        self._log: IO[bytes]
        self._received = b""

    def start(self, options: ClusterOptions) -> list[dict[str, int]]:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (read until the end)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyconsumer.broker", "--control"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            answer = self._exchange(_options_to_json(options, self._remove_folder), _START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise
        return [dict(ports) for ports in answer]

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return self._exchange({"command": name, "arguments": dict(arguments)}, _COMMAND_TIMEOUT_S)

    def _exchange(self, message: Mapping[str, Any], timeout_s: float) -> Any:
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                answer = json.loads(self._read_line(timeout_s))
            except (OSError, ValueError) as error:
                raise BrokerStartError(f"the broker process has ended: {self._why()}") from error
        if "error" in answer:
            kind = getattr(errors, answer["error"], BrokerStartError)
            raise kind(answer["message"])
        return answer["result"]

    def _read_line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise BrokerStartError(f"the broker process did not answer within {timeout_s:g} s: {self._why()}")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise OSError("the pipe is closed")
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        return line

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        lines = self.log().strip().splitlines()
        status = self._process.returncode
        return f"status {status}" + (f", it said: {' | '.join(lines[-5:])}" if lines else "")

    def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b'{"command": "stop"}\n')
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._log.close()

    def log(self) -> str:
        if self._log.closed:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        return os.pread(self._log.fileno(), size, 0).decode("utf-8", "replace")


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options_to_json(options: ClusterOptions, remove_folder: bool) -> dict[str, Any]:
    security = options.security
    return {
        "brokers": options.brokers,
        "data_dir": None if options.data_dir is None else os.path.abspath(options.data_dir),
        "config": options.config,
        "host": options.host,
        "advertised_host": options.advertised_host,
        "ports": [dict(ports) for ports in options.ports],
        "listeners": list(options.listeners),
        "security": {
            "cert_file": security.cert_file,
            "key_file": security.key_file,
            "client_ca_file": security.client_ca_file,
            "sasl_users": dict(security.sasl_users),
        },
        "flush_at_stop": options.flush_at_stop,
        "remove_folder": remove_folder,
    }
