"""A TCP proxy that knows Kafka's frames, to put faults and delays between any client and any broker.

Clients get its address as their bootstrap address and stay behind it. The proxy has one port for each broker and puts
its own hosts and ports into responses: Metadata, FindCoordinator, DescribeCluster, the leader hints of Produce and
Fetch. Everything else passes unchanged unless a rule of :class:`RuleBook` says otherwise. ::

    with KafkaProxy(cluster.bootstrap_servers, round_trip_ms=5) as proxy:
        consumer = KafkaConsumer(bootstrap_servers=proxy.bootstrap_servers)
        proxy.fail(ApiKey.HEARTBEAT, error_code=27, count=1)
        held = proxy.hold(ApiKey.FETCH)
        ...
        held.release()
        proxy.events(ApiKey.FETCH, "request")

It sees frames, so it stands before plain or SASL_PLAINTEXT listeners, not before TLS.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import threading
import time
import weakref
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from pyconsumer.broker.ports import hold_port
from pyconsumer.protocol.api import ApiKey, decode_request_header, decode_response, encode_request, encode_response
from pyconsumer.protocol.api_keys import API
from pyconsumer.protocol.messages import load
from tests.support.proxy_rules import Direction, Event, Rule, RuleBook, wire_version

__all__ = ["Direction", "Event", "KafkaProxy", "Rule"]

_LIMIT = 1 << 20

#: Where responses name brokers; the empty name is the response itself.
_ADDRESSES: dict[int, tuple[str, ...]] = {
    ApiKey.PRODUCE: ("node_endpoints",),
    ApiKey.FETCH: ("node_endpoints",),
    ApiKey.METADATA: ("brokers",),
    ApiKey.FIND_COORDINATOR: ("", "coordinators"),
    ApiKey.DESCRIBE_CLUSTER: ("brokers",),
}

Address = tuple[str, int]


@dataclass(eq=False)
class _Connection:
    """A client's connection, and the proxy's own to the broker behind it."""

    number: int
    upstream: Address
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    broker: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    asked: dict[int, tuple[int, int, str | None]] = field(default_factory=dict)  #: what is in flight
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self, *, reset: bool = False) -> None:
        for _, writer in (self.client, self.broker):
            if reset:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
        self.closed.set()


@dataclass
class _Frame:
    """A frame on its way, not to be passed on before ``due``."""

    due: float
    event: Event
    data: bytes


class KafkaProxy(RuleBook):
    """The proxy, in a thread of its own. A context manager. The module has its purpose.

    Args:
        upstream: the brokers' bootstrap addresses, ``host:port`` separated by commas.
        round_trip_ms: added to every round trip, half in each direction, without limiting throughput.
        keep_frames: keep the bytes of every frame, so that :attr:`Event.message` works.
        advertised: instead of the proxy's own, the address of every broker in responses.
    """

    def __init__(
        self,
        upstream: str,
        *,
        round_trip_ms: float = 0.0,
        keep_frames: bool = True,
        advertised: tuple[str, int] | None = None,
    ) -> None:
        super().__init__()
        self._advertised = advertised
        self.round_trip_ms = round_trip_ms
        self._bootstrap = [_split(address) for address in upstream.split(",")]
        self._keep_frames = keep_frames
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka-proxy", daemon=True)
        self._ports: dict[Address, int] = {}
        self._listeners: dict[Address, socket.socket] = {}
        self._held: dict[Address, socket.socket] = {}  # ports that refuse
        self._connections: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._numbers = itertools.count(1)
        self._errors: list[BaseException] = []

    # -- from any thread -----------------------------------------------------------------------------------------

    def __enter__(self) -> KafkaProxy:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen. Afterwards :attr:`bootstrap_servers` is known."""
        self._thread.start()
        for address in self._bootstrap:
            self._call(self._local_port(address))

    def stop(self) -> None:
        """Close everything. Raise the error of the proxy's thread, if any. A second call has no effect."""
        if self._loop.is_closed():
            return
        self.clear()
        if self._thread.is_alive():
            self._call(self._close_all())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        if self._errors:
            raise self._errors[0]

    @property
    def bootstrap_servers(self) -> str:
        """Return the bootstrap address for clients."""
        return ",".join(f"127.0.0.1:{self._ports[address]}" for address in self._bootstrap)

    def address_of(self, upstream: str) -> str:
        """The proxy's ``host:port`` for a broker's. ``KeyError`` before a response has named that broker."""
        return f"127.0.0.1:{self._ports[_split(upstream)]}"

    @property
    def connections(self) -> int:
        """Return how many connections of clients are open."""
        return len(self._connections)

    def cut_all(self, *, reset: bool = False) -> None:
        """Close every connection now, by a TCP reset if ``reset``."""
        self._call(self._cut_all(None, reset))

    def refuse(self, upstream: str | None = None) -> None:
        """Look dead: close connections to one broker (to all, by default), refuse new ones until :meth:`accept`."""
        self._call(self._refuse(None if upstream is None else _split(upstream)))

    def accept(self) -> None:
        """Take connections again, on the same ports."""
        self._call(self._accept())

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    # -- in the proxy's thread: ports ----------------------------------------------------------------------------

    async def _local_port(self, address: Address) -> int:
        """The port that stands for a broker. Opened when the broker is first heard of."""
        port = self._ports.get(address)
        if port is None:
            listener = socket.create_server(("127.0.0.1", 0))
            port = self._ports[address] = listener.getsockname()[1]
            self._listen(address, listener)
        return port

    def _listen(self, address: Address, listener: socket.socket) -> None:
        # Accepts itself: asyncio's servers lose connections that come while they are closed.
        listener.setblocking(False)
        self._listeners[address] = listener
        self._loop.add_reader(listener, self._on_acceptable, address, listener)

    def _on_acceptable(self, address: Address, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        sock.setblocking(False)
        self._sockets.add(sock)
        task = self._loop.create_task(self._serve(address, sock))
        self._serving.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)

    async def _cut_all(self, address: Address | None, reset: bool) -> None:
        for connection in list(self._connections):
            if address in (None, connection.upstream):
                connection.close(reset=reset)
        await asyncio.sleep(0)

    async def _refuse(self, address: Address | None) -> None:
        for known in [known for known in self._listeners if address in (None, known)]:
            listener = self._listeners.pop(known)
            self._loop.remove_reader(listener)
            listener.close()
            self._held[known] = hold_port("127.0.0.1", self._ports[known])
        await self._cut_all(address, reset=False)

    async def _accept(self) -> None:
        for address in self._ports.keys() - self._listeners.keys():
            listener = self._held.pop(address)
            listener.listen()
            self._listen(address, listener)

    async def _close_all(self) -> None:
        await self._refuse(None)
        for held in self._held.values():
            held.close()
        while self._serving:
            for task in self._serving:
                task.cancel()
            await asyncio.wait(self._serving)
        for transport in list(self._transports):
            transport.abort()  # closing may still wait for a peer to take what was written
        await asyncio.sleep(0)  # transports call back once more before they are gone
        for sock in list(self._sockets):
            sock.close()  # of tasks that were cancelled before their first step

    # -- in the proxy's thread: connections ----------------------------------------------------------------------

    async def _serve(self, upstream: Address, sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock, limit=_LIMIT)
        self._transports.add(writer.transport)
        try:
            broker = await asyncio.open_connection(*upstream, limit=_LIMIT)
        except OSError:
            writer.close()
            return
        except asyncio.CancelledError:
            writer.close()  # the proxy stops while a client is just connecting
            raise
        self._transports.add(broker[1].transport)
        connection = _Connection(next(self._numbers), upstream, (reader, writer), broker)
        self._connections.add(connection)
        requests: asyncio.Queue[_Frame | None] = asyncio.Queue()
        responses: asyncio.Queue[_Frame | None] = asyncio.Queue()
        readers = [
            asyncio.create_task(self._read(connection, "request", reader, requests)),
            asyncio.create_task(self._read(connection, "response", broker[0], responses)),
        ]
        writers = [
            asyncio.create_task(self._write(connection, requests, broker[1])),
            asyncio.create_task(self._write(connection, responses, writer)),
            asyncio.create_task(connection.closed.wait()),
        ]
        try:
            await asyncio.wait(writers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in readers + writers:
                task.cancel()
            results = await asyncio.gather(*readers, *writers, return_exceptions=True)
            self._errors += [r for r in results if isinstance(r, Exception) and not isinstance(r, ConnectionError)]
            connection.close()
            self._connections.discard(connection)

    async def _read(
        self,
        connection: _Connection,
        direction: Direction,
        reader: asyncio.StreamReader,
        queue: asyncio.Queue[_Frame | None],
    ) -> None:
        """Take frames from one side, note them, and queue them for the other."""
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                data = await reader.readexactly(size)
                event = self._describe(connection, direction, data)
                rule = self.note(event)
                delay_ms = self.round_trip_ms / 2
                if rule is not None:
                    delay_ms += rule.delay_s * 1000
                await queue.put(_Frame(event.time + delay_ms / 1000, event, data))
        except (asyncio.IncompleteReadError, ConnectionError):
            await queue.put(None)  # what came before the end is passed on first

    def _describe(self, connection: _Connection, direction: Direction, data: bytes) -> Event:
        now = time.monotonic()
        api_key, version, client_id = -1, -1, None
        if direction == "request":
            api_key, version = (int.from_bytes(data[at : at + 2], "big", signed=True) for at in (0, 2))
            correlation_id = int.from_bytes(data[4:8], "big", signed=True)
            length = int.from_bytes(data[8:10], "big", signed=True)
            client_id = data[10 : 10 + length].decode("utf-8", "replace") if length >= 0 else None
            connection.asked[correlation_id] = (api_key, version, client_id)
        else:
            correlation_id = int.from_bytes(data[:4], "big", signed=True)
            api_key, version, client_id = connection.asked.pop(correlation_id, (api_key, version, client_id))
        frame = data if self._keep_frames else None
        return Event(
            now, direction, api_key, version, correlation_id, client_id, connection.number, len(data) + 4, frame
        )

    async def _write(
        self, connection: _Connection, queue: asyncio.Queue[_Frame | None], writer: asyncio.StreamWriter
    ) -> None:
        """Pass frames on in their order, each when it is due and as its rule says."""
        while (frame := await queue.get()) is not None:
            wait = frame.due - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            rule = frame.event.rule
            if rule is not None and rule.action == "drop":
                continue
            if rule is not None and rule.action == "hold":
                await self._until_released(rule)
            data = await self._rewritten(frame, rule)
            if rule is not None and rule.action == "cut":
                writer.write(data[: len(data) // 2 if rule.keep_bytes is None else rule.keep_bytes])
                connection.close(reset=rule.reset)
                return
            writer.write(data)
            await writer.drain()

    async def _until_released(self, rule: Rule) -> None:
        released = asyncio.Event()

        def wake() -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(released.set)

        rule.on_release.append(wake)
        if not rule.released:
            await released.wait()

    async def _rewritten(self, frame: _Frame, rule: Rule | None) -> bytes:
        """The frame to pass on, with its size: addresses replaced, and edited by its rule."""
        event, data = frame.event, frame.data
        edit = rule.edit if rule is not None else None
        info = API.get(event.api_key)  # type: ignore[call-overload]
        if info is not None and info.min_version <= event.api_version <= info.max_version:
            if event.direction == "response":
                version = wire_version(event.api_key, event.api_version, data)
                message: Any = None
                changed = False
                if event.api_key in _ADDRESSES:
                    message = decode_response(event.api_key, version, data)[1]
                    changed = await self._replace_addresses(message, _ADDRESSES[event.api_key])
                if edit is not None:
                    message = message or decode_response(event.api_key, version, data)[1]
                    message = edit(message, version) or message
                    changed = True
                if changed:
                    return b"".join(encode_response(message, version, event.correlation_id))
            elif edit is not None:
                start = decode_request_header(data).body_offset
                message = load(event.api_key)[0].decode(memoryview(data)[start:], event.api_version)
                message = edit(message, event.api_version) or message
                return b"".join(encode_request(message, event.api_version, event.correlation_id, event.client_id))
        return len(data).to_bytes(4, "big") + data

    async def _replace_addresses(self, message: Any, places: tuple[str, ...]) -> bool:
        changed = False
        for place in places:
            for broker in getattr(message, place) if place else [message]:
                if broker.port > 0 and self._advertised is not None:
                    broker.host, broker.port = self._advertised
                    changed = True
                elif broker.port > 0:  # there is none where the broker reports an error
                    broker.port = await self._local_port((broker.host, broker.port))
                    broker.host = "127.0.0.1"
                    changed = True
        return changed


def _split(address: str) -> Address:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
