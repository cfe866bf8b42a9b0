"""The way of a share consumer's requests to the brokers, and the notes of a ledger on the way.

Connections are those of :mod:`tests.simulation.network`. Each has an end at the broker, to which share sessions belong.
A broker notices the end of a connection late. Until then requests in flight still reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from pyconsumer.protocol.messages.share_fetch import CLOSE_SESSION_EPOCH, OPEN_SESSION_EPOCH, ShareFetchRequest
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata
from tests.simulation.network import Connection, Exchange, SimulatedClient
from tests.unit.broker.share.support import Connection as BrokerEnd

if TYPE_CHECKING:
    from tests.simulation.share.consumers import ConsumersWorld
    from tests.simulation.share.members import Place

__all__ = ["Endpoint", "Network", "acknowledged"]


def acknowledged(request: Any) -> dict[Place, int]:
    """Return the types that a request has, by topic id, partition and offset."""
    return {
        (bytes(topic.topic_id), part.partition_index, batch.first_offset + at): int(kind)
        for topic in request.topics
        for part in topic.partitions
        for batch in part.acknowledgement_batches
        for at, kind in enumerate(
            batch.acknowledge_types
            if len(batch.acknowledge_types) > 1
            else list(batch.acknowledge_types) * (batch.last_offset - batch.first_offset + 1)
        )
    }


class Endpoint:
    """One broker as clients reach it, through its lives."""

    def __init__(self, world: ConsumersWorld, node_id: int) -> None:
        self._world = world
        self.node_id = node_id
        self.name = f"broker {node_id}"
        self._ends: dict[Connection, BrokerEnd] = {}
        self._over: set[Connection] = set()

    @property
    def up(self) -> bool:
        return self.node_id in self._world.brokers.alive

    @property
    def life(self) -> int:
        return self._world.lives[self.node_id]

    def died(self) -> None:
        """Forget the connections to a broker that is dead."""
        self._ends.clear()

    def serve(self, exchange: Exchange, answer: Callable[[Message], None]) -> None:
        """Answer a request by the broker's own handler, unless the broker or the connection ends in between."""
        connection = exchange.connection
        if connection in self._over:
            return
        end = self._ends.get(connection)
        if end is None:
            end = self._ends[connection] = BrokerEnd(self._world.brokers, self.node_id)
        if isinstance(exchange.request, ShareFetchRequest | ShareAcknowledgeRequest):
            self._serve_share(exchange, end, answer)
        else:
            end.send(exchange.request, exchange.version, answer)

    def _serve_share(self, exchange: Exchange, end: BrokerEnd, answer: Callable[[Message], None]) -> None:
        world, request = self._world, exchange.request
        member = request.member_id
        kinds = acknowledged(request)
        world.arrived(member, self.node_id, kinds)
        if request.share_session_epoch == CLOSE_SESSION_EPOCH:
            world.session_ended(member, self.node_id)
        elif request.share_session_epoch == OPEN_SESSION_EPOCH:
            world.session_ended(member, self.node_id)
            world.sessions[member, self.node_id] = end
        waiting: list[object] = []  # the session of a request that was not answered at once
        arrived = world.now

        def served(response: Any) -> None:
            if waiting and world.acquired(response) and world.session_of(end, member) is not waiting[0]:
                world.broken(f"rule 7: {member} gets records from {self.name} in a session that has ended")
            world.served_kinds(member, self.node_id, kinds, response, arrived)
            answer(response)

        end.send(request, exchange.version, served)
        waiting.append(world.session_of(end, member))

    def hang_up(self, connection: Connection, member: str) -> None:
        """Notice that a connection has ended."""
        self._over.add(connection)
        end = self._ends.pop(connection, None)
        if end is not None:
            self._world.connection_ended(member, end)


class Network(SimulatedClient):
    """The network client of one of the threads of a share consumer."""

    def __init__(
        self,
        world: ConsumersWorld,
        name: str,
        member: Callable[[], str],
        deliver: Callable[[Callable[[], None]], None],
        woken: Callable[[], None],
    ) -> None:
        super().__init__(world, name, deliver, woken)  # type: ignore[arg-type]
        self._share_world = world
        self._member = member

    @property
    def nodes(self) -> Mapping[int, Any]:
        """The brokers that connections lead to, by id."""
        return self._share_world.by_id

    def send(
        self, node: int | BrokerMetadata, api: type[Message], request: Any, **options: Any
    ) -> RequestFuture[ClientResponse]:
        node_id = node.node_id if isinstance(node, BrokerMetadata) else node
        if node_id not in self.nodes:  # it has the bootstrap addresses only
            node_id = self._share_world.random.choice(list(self.nodes))
        message = request(api.MAX_VERSION) if callable(request) else request
        if isinstance(message, ShareFetchRequest | ShareAcknowledgeRequest):
            self._share_world.sent(self._member(), acknowledged(message))
        return super().send(node_id, api, message, **options)

    def forget(self, connection: Connection) -> None:
        """Let the broker notice the end of a connection: at once, or when it has been silent for long."""
        super().forget(connection)
        world, member = self._share_world, self._member()
        endpoint = world.by_id[connection.broker.node_id]
        late = 0.1 if world.is_draining else world.random.choice((0.0, 0.1, 6.0))
        world.after(late, lambda: endpoint.hang_up(connection, member))
