"""The process of a cluster: started by ``pyconsumer broker``, or as the child of a program."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyconsumer.acls import AclBinding
from pyconsumer.background_log import Log, background
from pyconsumer.broker.access.authorizer import STANDARD_AUTHORIZER
from pyconsumer.broker.access.store import acl_from_json
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.console_log import log_to_stderr
from pyconsumer.broker.host import REGISTRY, ClusterHost, ClusterOptions, has_tokens, token_settings
from pyconsumer.broker.listener_addresses import LISTENERS, addresses_of
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.broker.steps import take_steps
from pyconsumer.errors import KafkaError
from pyconsumer.quotas import QuotaEntity
from pyconsumer.structs import Address

__all__ = ["run_broker", "run_child"]

_log = Log(__name__)


def run_broker(
    *,
    host: str = "127.0.0.1",
    port: int = 9092,
    data_dir: str | os.PathLike[str] | None = None,
    brokers: int = 1,
    config: Mapping[str, object] | None = None,
    advertised_host: str | None = None,
    schema_registry: int | None = None,
    users: Mapping[str, str] | None = None,
    acls: Sequence[AclBinding] | None = None,
    quotas: Mapping[QuotaEntity, Mapping[str, float | None]] | None = None,
    oauth: Mapping[str, object] | None = None,
    cert_file: str | os.PathLike[str] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    client_ca_file: str | os.PathLike[str] | None = None,
    announce: Callable[[str], None] | None = None,
) -> int:
    """Run a cluster in this process until SIGTERM or SIGINT. Then stop it cleanly and return 0.

    Args:
        host, port: the address to listen on. More brokers take the next ports. Port 0 picks free ports.
        brokers: the number of brokers. All run in this process.
        data_dir: the folder for the data. None: a temporary folder that is removed at the end. ``":memory:"``: no
            files.
        config: broker settings by Kafka's names. ``listeners`` takes the place of ``host`` and ``port``, and further
            brokers take the next ports of each listener. ``advertised.listeners`` says where clients find them.
        advertised_host: a name or address by which all clients reach this machine. By default it is ``host``. If
            ``host`` means all addresses, it is ``localhost``, which works only for clients on this machine.
        schema_registry: the port of a Schema Registry. 0 picks a free one, None runs none. Its URL is printed.
        users: passwords by name, at least one. Clients must then log in by SASL PLAIN or SCRAM. None: no login.
        acls: rules for what users may do. With a list, even an empty one, everything else is denied.
        quotas: bounds of what clients may do, which are set at each start.
        oauth: settings for tokens by Kafka's names without ``sasl.oauthbearer.``.
        cert_file, key_file: PEM files for TLS. The certificate's file may also contain the key.
        client_ca_file: a PEM file with the authority of the clients' certificates.
        announce: called with ``HOST:PORT[,...]`` when requests are served. By default it prints ``listening on ...``.

    Raises:
        ConfigurationError: a setting is wrong.
        BrokerStartError: a port or the folder cannot be used.
    """
    if advertised_host is None and host in ("0.0.0.0", "::"):
        advertised_host = "localhost"
    folder = None if data_dir == ":memory:" else Path(data_dir or tempfile.mkdtemp(prefix="pyconsumer-broker-"))
    settings = token_settings(oauth or {}) | dict(config or {})
    by_login = users is not None or has_tokens(settings)
    own = addresses_of(LISTENERS, BrokerConfig(settings).listeners(LISTENERS)) or {
        ("SASL_" if by_login else "") + ("PLAINTEXT" if cert_file is None else "SSL"): Address(host, port)
    }
    ports = [{name: at.port + node if at.port else 0 for name, at in own.items()} for node in range(brokers)]
    if schema_registry and ports:
        ports[0][REGISTRY] = schema_registry
    options = ClusterOptions(
        brokers=brokers,
        data_dir=folder,
        config=({} if acls is None else {"authorizer.class.name": STANDARD_AUTHORIZER}) | settings,
        listeners=tuple(own),
        security=SecurityConfig(
            cert_file=None if cert_file is None else os.path.abspath(cert_file),
            key_file=None if key_file is None else os.path.abspath(key_file),
            client_ca_file=None if client_ca_file is None else os.path.abspath(client_ca_file),
            users=dict(users or {}),
        ),
        acls=tuple(acls or ()),
        quotas=quotas or {},
        host=host,
        advertised_host=advertised_host,
        ports=ports,
        schema_registry=schema_registry is not None,
        flush_at_stop=data_dir is not None,
    )
    try:
        options.check()
        with background():  # a slow reader of our log must not block the brokers
            asyncio.run(_run_until_signal(options, announce or _announce))
    finally:
        if data_dir is None and folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _announce(addresses: str) -> None:
    print(f"listening on {addresses}", flush=True)


async def _run_until_signal(options: ClusterOptions, announce: Callable[[str], None]) -> None:
    _prepare()
    loop = asyncio.get_running_loop()
    host = ClusterHost(options, loop)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    async def start() -> None:
        await take_steps(host.starting())
        # In the same turn of the loop, so that loads of groups and transactions do not delay it.
        if options.schema_registry:
            address = Address(options.advertised_host or options.host, host.ports()[0][REGISTRY])
            print(f"schema registry at http://{address}", flush=True)
        first, *others = (",".join(str(node.address) for node in host.endpoints(name)) for name in options.listeners)
        for name, addresses in zip(options.listeners[1:], others, strict=True):
            print(f"listener {name} at {addresses}", flush=True)
        announce(first)

    starting = asyncio.ensure_future(start())
    signalled = asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait([starting, signalled], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            await signalled
    finally:
        for task in (starting, signalled):
            task.cancel()
        await asyncio.gather(starting, signalled, return_exceptions=True)
        if host.is_running:  # a start that failed or was ended by a signal has cleaned up
            host.stop()


def _prepare() -> None:
    """Raise the limit of open files to the system's, and exempt long-lived objects from garbage collection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


# --- the child of a program


def run_child() -> int:
    """Serve commands from the program at the other end of standard input and output. Return the exit status."""
    log_to_stderr(os.environ.get("PYCONSUMER_BROKER_LOG", "INFO"), with_time=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the program, which decides
    return asyncio.run(_Child().run())


class _Child:
    def __init__(self) -> None:
        self._received = b""
        self._host: ClusterHost | None = None
        self._folder: str | None = None
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._status = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._on_input)
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        await self._ended.wait()
        loop.remove_reader(sys.stdin.fileno())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._host is not None:
            self._host.stop()
        # The folder stays after a failed start: the program, which may try again, removes it.
        if self._folder is not None and self._status == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._status

    def _on_input(self) -> None:
        data = os.read(sys.stdin.fileno(), 1 << 20)
        if not data:
            self._ended.set()  # the program has ended
            return
        self._received += data
        while b"\n" in self._received and not self._ended.is_set():
            line, self._received = self._received.split(b"\n", 1)
            self._on_line(json.loads(line))

    def _on_line(self, message: dict[str, Any]) -> None:
        if message.get("command") == "stop":
            self._ended.set()
            return
        request_id = message.pop("id")
        if self._host is None:
            self._begin(self._start(request_id, message))
        elif message["command"] == "restart_broker":
            self._begin(self._restart_broker(request_id, self._host, message["arguments"]["node_id"]))
        else:
            with self._responding(request_id) as respond:
                respond(self._host.command(message["command"], message["arguments"]))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin long work, which runs beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextlib.contextmanager
    def _responding(self, request_id: int) -> Iterator[Callable[[Any], None]]:
        """Yield a function that sends a result. An error of the block is sent, too."""
        response: dict[str, Any]
        try:
            yield lambda result: self._write({"id": request_id, "result": result})
            return
        except KafkaError as error:
            text = str(error.args[0]) if error.args else str(error)
            response = {"error": type(error).__name__, "message": text}
        except Exception as error:
            _log.exception("a command failed")
            response = {"error": "BrokerStartError", "message": f"{type(error).__name__}: {error}"}
        self._write({"id": request_id, **response})

    @staticmethod
    def _write(message: Mapping[str, Any]) -> None:
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")

    async def _start(self, request_id: int, message: dict[str, Any]) -> None:
        with self._responding(request_id) as respond:
            if message.pop("remove_folder"):
                self._folder = message["data_dir"]
            held = [
                {name: socket.socket(fileno=number) for name, number in handles.items()}
                for handles in message.pop("held")
            ]
            folder = message.pop("data_dir")
            security = SecurityConfig(**message.pop("security"))
            acls = tuple(map(acl_from_json, message.pop("acls")))
            quotas = {QuotaEntity(**entity): values for entity, values in message.pop("quotas")}
            options = ClusterOptions(
                data_dir=None if folder is None else Path(folder),
                security=security,
                acls=acls,
                quotas=quotas,
                **message,
            )
            _prepare()
            host = ClusterHost(options, asyncio.get_running_loop(), held)
            await take_steps(host.starting(), _Reports(request_id, host, self._write))
            self._host = host
            respond(host.ports())
        if not self._started:
            self._status = 1
            self._ended.set()

    @property
    def _started(self) -> bool:
        return self._host is not None

    async def _restart_broker(self, request_id: int, host: ClusterHost, node_id: int) -> None:
        with self._responding(request_id) as respond:
            await take_steps(host.restarting_broker(node_id), _Reports(request_id, host, self._write))
            respond(None)


class _Reports:
    """Sends the progress of a start to the program, more and more rarely, as it may be unread after a timeout."""

    def __init__(self, request_id: int, host: ClusterHost, write: Callable[[Mapping[str, Any]], None]) -> None:
        self._id = request_id
        self._host = host
        self._write = write
        self._began = time.monotonic()
        self._next = self._began

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next and self._host.progress:
            self._next = now + max(0.1, (now - self._began) / 20)
            self._write({"id": self._id, "progress": self._host.progress})
