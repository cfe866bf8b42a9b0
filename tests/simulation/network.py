"""The network: connections that deliver in order, each with its own delays, and that fail in every way.

A connection breaks, swallows everything until a timeout ends it, or loses the answer to a request that was carried
out. Both ends notice a broken connection, but requests in flight may still reach the broker. Requests on one connection
are served in turn, as a broker does. Between connections there is no order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyconsumer.broker.timer import TimerHandle
from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.client_requests import ClientResponse, RequestTimeoutError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

if TYPE_CHECKING:
    from tests.simulation.brokers import Broker
    from tests.simulation.world import World

REQUEST_TIMEOUT = 5.0


class Exchange:
    """One request and its outcome."""

    __slots__ = ("answered", "connection", "future", "request", "timer", "version")

    def __init__(self, connection: Connection, request: Any, version: int) -> None:
        self.connection = connection
        self.request = request
        self.version = version
        self.future: RequestFuture[ClientResponse] = RequestFuture()
        self.timer: TimerHandle | None = None
        self.answered = False

    def __str__(self) -> str:
        return type(self.request).__name__.removesuffix("Request")


class Connection:
    """From one client to one broker."""

    def __init__(self, client: SimulatedClient, broker: Broker) -> None:
        self.client = client
        self.broker = broker
        self.open = True
        self.swallows = False
        self.loses_answer = False
        self.under_way: list[Exchange] = []
        self._world = client.world
        self._life = broker.life
        self._arrival = 0.0
        self._return = 0.0
        self._queue: deque[Exchange] = deque()
        self._serving: Exchange | None = None

    def send(self, exchange: Exchange, timeout: float) -> None:
        world = self._world
        now = world.clock.now()
        self.under_way.append(exchange)
        exchange.timer = world.timer.schedule(now + timeout, lambda: self._timed_out(exchange))
        if not self.swallows:
            self._arrival = max(self._arrival, self.client.reachable_at, now) + world.delay()
            world.timer.schedule(self._arrival, lambda: self._arrive(exchange))

    def hold(self, seconds: float) -> None:
        """Delay messages that are sent from now on."""
        self._arrival = max(self._arrival, self._world.clock.now() + seconds)

    def _timed_out(self, exchange: Exchange) -> None:
        if exchange in self.under_way:
            self._world.note(self.client.name, f"gives up waiting for {exchange} at {self.broker.name}")
            self.under_way.remove(exchange)
            self.client.finish(exchange, RequestTimeoutError(f"no answer to {exchange}"))
            self.close("a request timed out")

    # -- the broker's end --------------------------------------------------------------------------------------------

    def _arrive(self, exchange: Exchange) -> None:
        if self.swallows or (not self.open and self.broker.life != self._life):
            return  # a broker that has started again knows nothing of connections that broke before
        if not self.broker.up:
            self.close(f"{self.broker.name} is down")
            return
        self._queue.append(exchange)
        self._serve()

    def _serve(self) -> None:
        while self._queue and self._serving is None:
            exchange = self._queue.popleft()
            if not self.open and self.client.loses_late(exchange):
                continue
            self._serving = exchange
            if not self.open:  # a late word of a connection that broke: the fault has consequences until now
                self._world.quiet_since = self._world.clock.now()
            self.broker.serve(exchange, lambda response, exchange=exchange: self._answer(exchange, response))  # type: ignore[misc]

    def _answer(self, exchange: Exchange, response: Message) -> None:
        if self._serving is exchange:
            self._serving = None
        response = self._world.carried(response, exchange.version)
        if self.open and not self.swallows:
            if self.loses_answer:
                self.close(f"the answer to {exchange} is lost")
            else:
                world = self._world
                self._return = max(self._return, self.client.reachable_at, world.clock.now()) + world.delay()
                world.timer.schedule(self._return, lambda: self._deliver(exchange, response))
        self._serve()

    def _deliver(self, exchange: Exchange, response: Message) -> None:
        if not self.open or self.swallows or exchange not in self.under_way:
            return
        if self.client.reachable_at > self._world.clock.now():  # the network stalled while it was on its way
            self._world.timer.schedule(self.client.reachable_at, lambda: self._deliver(exchange, response))
            return
        self.under_way.remove(exchange)
        self.client.finish(exchange, response)

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, why: str) -> None:
        """Break it. Requests in flight may still reach the broker."""
        if not self.open:
            return
        self.open = False
        if self.under_way:
            self._world.note(self.client.name, f"connection to {self.broker.name} breaks: {why}")
        self.client.forget(self)
        if self._world.random.random() < 0.5:
            self.swallows = True
        failed, self.under_way = self.under_way, []
        for exchange in failed:
            self.client.finish(exchange, KafkaConnectionError(why))


class SimulatedClient:
    """Stands for a network client of a member: that of the user's thread, or that of the heartbeat thread.

    Args:
        world: it lives in.
        name: for the trace.
        deliver: takes functions to run in the client's thread.
        woken: called by :meth:`wakeup`.
    """

    def __init__(
        self, world: World, name: str, deliver: Callable[[Callable[[], None]], None], woken: Callable[[], None]
    ) -> None:
        self.world = world
        self.name = name
        self.connected = True
        self.reachable_at = 0.0
        self.closed = False
        self.connections: dict[tuple[int, str], Connection] = {}
        self._deliver = deliver
        self._woken = woken

    @property
    def nodes(self) -> Mapping[int, Any]:
        """The brokers that connections lead to, by id."""
        return self.world.brokers.by_id

    def failures(self) -> str:
        """Return a fixed text: connections of the simulation have no history."""
        return "simulated"

    def send(
        self,
        node: int | BrokerMetadata,
        api: type[Message],
        request: Any,
        *,
        timeout: float | None = None,
        connection: str = "main",
        **_: Any,
    ) -> RequestFuture[ClientResponse]:
        node_id = node.node_id if isinstance(node, BrokerMetadata) else node
        version = api.MAX_VERSION
        found = self.connections.get((node_id, connection))
        if found is None:
            found = self.connections[node_id, connection] = Connection(self, self.nodes[node_id])
        message = request if isinstance(request, Message) else request(version)
        exchange = Exchange(found, self.world.carried(message, version), version)
        if not self.connected:
            self.world.after(0.01, lambda: self.finish(exchange, KafkaConnectionError("no network")))
        else:
            found.send(exchange, REQUEST_TIMEOUT if timeout is None else timeout)
        return exchange.future

    def send_any(self, api: type[Message], request: Any, **options: Any) -> RequestFuture[ClientResponse]:
        return self.send(self.world.random.choice(list(self.nodes)), api, request, **options)

    def finish(self, exchange: Exchange, outcome: Message | KafkaError) -> None:
        """Hand an answer, or the lack of one, to the client's thread."""
        if exchange.answered:
            return
        exchange.answered = True
        if exchange.timer is not None:
            exchange.timer.cancel()
        node_id = exchange.connection.broker.node_id

        def run() -> None:
            if isinstance(outcome, KafkaError):
                exchange.future.fail(outcome)
            else:
                now = self.world.clock.now()
                exchange.future.complete(ClientResponse(outcome, exchange.version, node_id, now, 0.0))

        self._deliver(run)

    def loses_late(self, exchange: Exchange) -> bool:
        """Return whether a request never arrives when its connection has broken before."""
        return False

    def forget(self, connection: Connection) -> None:
        for key, each in list(self.connections.items()):
            if each is connection:
                del self.connections[key]

    def disconnect(self, node_id: int, connection: str = "main", *, cause: str = "") -> None:
        found = self.connections.get((node_id, connection))
        if found is not None:
            found.close(cause or "closed")

    def cut(self, why: str) -> None:
        """Break all connections."""
        for each in list(self.connections.values()):
            each.close(why)

    def wakeup(self) -> None:
        self._woken()

    wake_poll = wakeup

    has_unsent = False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    @contextmanager
    def disable_wakeups(self) -> Iterator[None]:
        yield
