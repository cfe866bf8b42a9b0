"""Runs an embedded cluster: in a child process, or in a thread of the program."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import IO, Any, Final, Protocol

from pyconsumer import errors
from pyconsumer.background_log import Log, background
from pyconsumer.broker.access.store import acl_to_json
from pyconsumer.broker.host import ClusterHost, ClusterOptions
from pyconsumer.broker.ports import HeldPorts
from pyconsumer.broker.steps import take_steps
from pyconsumer.child_python import child_environment, child_python
from pyconsumer.errors import BrokerStartError, KafkaTimeoutError

__all__ = ["Deadlines", "ProcessRunner", "Runner", "ThreadRunner"]

_log = Log(__name__)

_COMMAND_TIMEOUT_S: Final = 30.0
#: The time in which a thread must end after a failed start of its cluster.
_JOIN_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The time limits, in seconds, for starting a cluster, restarting a broker, and stopping."""

    start_s: float = 60.0
    stop_s: float = 20.0


class Runner(Protocol):
    def start(self, options: ClusterOptions, held: Sequence[HeldPorts]) -> list[dict[str, int]]:
        """Start the cluster, and return the ports of each broker by listener.

        The runner closes the sockets ``held``.
        """
        ...

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a command. Any thread may call this. Raises ``KafkaTimeoutError`` if there is no response in time."""
        ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def log(self) -> str: ...


class ThreadRunner:
    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._loop: asyncio.AbstractEventLoop
        self._host: ClusterHost
        self._thread: threading.Thread
        self._restarts: list[Future[None]] = []  # restarts that timed out

    def start(self, options: ClusterOptions, held: Sequence[HeldPorts]) -> list[dict[str, int]]:
        started: Future[list[dict[str, int]]] = Future()
        given_up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_log_failure)

        @background()
        def run() -> None:
            try:
                self._host = ClusterHost(options, self._loop, held)
                with contextlib.closing(self._host.starting()) as steps:
                    for _ in steps:
                        if given_up.is_set():
                            break
                if given_up.is_set():
                    self._host.abandon()
                    self._loop.close()
                    return
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
            return started.result(self._deadlines.start_s)
        except TimeoutError:
            if started.done():
                return started.result()  # it has just started, or raised the error
            progress = self._host.progress if hasattr(self, "_host") else ""
            given_up.set()
            self._thread.join(_JOIN_TIMEOUT_S)
            raise _not_started(self._deadlines.start_s, progress) from None
        except BaseException:
            given_up.set()
            self._thread.join(_JOIN_TIMEOUT_S)
            raise

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        if name == "restart_broker":
            return self._restart_broker(arguments["node_id"])
        return self._call(f"the command {name!r}", lambda: self._host.command(name, arguments))

    def _restart_broker(self, node_id: int) -> None:
        done = asyncio.run_coroutine_threadsafe(take_steps(self._host.restarting_broker(node_id)), self._loop)
        try:
            done.result(self._deadlines.start_s)
        except TimeoutError:
            if not done.done():
                self._restarts.append(done)
                raise _still_restarting(node_id, self._deadlines.start_s, self._host.progress) from None
            done.result()

    def _call(self, name: str, action: Callable[[], Any], timeout_s: float | None = None) -> Any:
        timeout_s = _COMMAND_TIMEOUT_S if timeout_s is None else timeout_s
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        try:
            return done.result(timeout_s)
        except TimeoutError:
            if done.done():
                return done.result()  # the command itself raised the error, or has just ended
            raise _timed_out(name, timeout_s) from None

    def stop(self) -> None:
        self._end("the stop", lambda: self._host.stop())

    def kill(self) -> None:
        self._end("the kill", lambda: self._host.abandon())

    def _end(self, name: str, action: Callable[[], Any]) -> None:
        for restart in self._restarts:
            restart.cancel()
        try:
            self._call(name, action, self._deadlines.stop_s)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_TIMEOUT_S)

    def log(self) -> str:
        return ""


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the failure of a callback or a task without asyncio's logger: this thread must not take a handler's lock."""
    _log.error("%s", context.get("message", "a task failed"), exc_info=context.get("exception"))


def _timed_out(name: str, timeout_s: float) -> KafkaTimeoutError:
    return KafkaTimeoutError(
        f"the brokers did not respond to {name} within {timeout_s:g} s; they may still carry it out"
    )


def _not_started(timeout_s: float, progress: str, why: str = "") -> BrokerStartError:
    shown = f" ({progress})" if progress else ""
    return BrokerStartError(
        f"the brokers did not start within {timeout_s:g} s{shown}; on a slow machine, or after a crash with much data,"
        f" give them more time by start_timeout_ms{why}"
    )


def _still_restarting(node_id: int, timeout_s: float, progress: str) -> KafkaTimeoutError:
    shown = f" ({progress})" if progress else ""
    return KafkaTimeoutError(
        f"broker {node_id} did not restart within {timeout_s:g} s{shown}, and goes on; restart_broker({node_id}) waits"
        " for it again, and start_timeout_ms gives it more time"
    )


class ProcessRunner:
    """Runs the cluster in a child process.

    The child reads commands from its standard input. Each command is a line of JSON.

    It responds on its standard output. A response repeats the id of its command. A response with another id belongs to
    a command that timed out or was interrupted, and is ignored. During a start, the child also reports its progress.
    The child runs one command at a time, so threads wait for their turn.
    """

    def __init__(self, deadlines: Deadlines, *, remove_folder: bool) -> None:
        self._deadlines = deadlines
        self._remove_folder = remove_folder
        self._progress = ""  # of the waiting command
        self._lock = threading.Lock()  # held from a command until its response
        self._last_id = 0
        self._process: subprocess.Popen[bytes]
        self._log: IO[bytes]
        self._received = b""

    def start(self, options: ClusterOptions, held: Sequence[HeldPorts]) -> list[dict[str, int]]:
        handles = [{name: sock.fileno() for name, sock in ports.items()} for ports in held]
        try:
            self._launch([number for ports in handles for number in ports.values()])
        finally:
            for ports in held:
                for sock in ports.values():
                    sock.close()  # the child has its own copies of the descriptors
        try:
            message = _options_to_json(options) | {"held": handles, "remove_folder": self._remove_folder}
            try:
                result = self._exchange("the start", message, self._deadlines.start_s)
            except KafkaTimeoutError:
                why = f": {self._why()}" if not self._progress else ""
                raise _not_started(self._deadlines.start_s, self._progress, why) from None
        except BaseException:
            self.kill()
            raise
        return [dict(ports) for ports in result]

    def _launch(self, handles: Sequence[int]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (read until the end)
        self._process = subprocess.Popen(
            child_python("-m", "pyconsumer.broker", "--control"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            pass_fds=handles,
            env=child_environment(),
        )

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        message = {"command": name, "arguments": dict(arguments)}
        if name != "restart_broker":
            return self._exchange(f"the command {name!r}", message, _COMMAND_TIMEOUT_S)
        try:
            return self._exchange(f"the command {name!r}", message, self._deadlines.start_s)
        except KafkaTimeoutError:
            raise _still_restarting(arguments["node_id"], self._deadlines.start_s, self._progress) from None

    def _exchange(self, name: str, message: Mapping[str, Any], timeout_s: float) -> Any:
        deadline = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise KafkaTimeoutError(
                f"{name} was not sent within {timeout_s:g} s: the brokers are busy with another command"
            )
        try:
            response = self._receive(self._send(message), deadline)
        except (OSError, ValueError) as error:
            raise BrokerStartError(f"the broker process has ended: {self._why()}") from error
        finally:
            self._lock.release()
        if response is None:
            raise _timed_out(name, timeout_s)
        if "error" in response:
            kind = getattr(errors, response["error"], BrokerStartError)
            raise kind(response["message"])
        return response["result"]

    def _send(self, message: Mapping[str, Any]) -> int:
        assert self._process.stdin is not None
        self._last_id += 1
        self._process.stdin.write(json.dumps({"id": self._last_id, **message}).encode() + b"\n")
        return self._last_id

    def _receive(self, request_id: int, deadline: float) -> dict[str, Any] | None:
        """Return the response to a command, or None at the deadline."""
        self._progress = ""
        while (line := self._read_line(deadline)) is not None:
            response: dict[str, Any] = json.loads(line)
            if response.pop("id") != request_id:
                continue
            if "progress" not in response:
                return response
            self._progress = response["progress"]
        return None

    def _read_line(self, deadline: float) -> bytes | None:
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                return None
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
            self._process.wait(self._deadlines.stop_s)
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


def _options_to_json(options: ClusterOptions) -> dict[str, Any]:
    security = options.security
    return {
        "brokers": options.brokers,
        "data_dir": None if options.data_dir is None else os.path.abspath(options.data_dir),
        "config": options.config,
        "features": dict(options.features),
        "host": options.host,
        "advertised_host": options.advertised_host,
        "ports": [dict(ports) for ports in options.ports],
        "listeners": list(options.listeners),
        "security": {
            "cert_file": security.cert_file,
            "key_file": security.key_file,
            "client_ca_file": security.client_ca_file,
            "sasl_users": dict(security.sasl_users),
            "users": dict(security.users),
        },
        "flush_at_stop": options.flush_at_stop,
        "schema_registry": options.schema_registry,
        "registry_users": dict(options.registry_users),
        "acls": [acl_to_json(acl) for acl in options.acls],
        "quotas": [[asdict(entity), dict(values)] for entity, values in options.quotas.items()],
    }
