"""One network for unit tests of clients: it keeps the requests, and the test answers. No socket, no thread, no delay.

:class:`FakeNetwork` stands for :class:`~pyconsumer.network.client.NetworkClient` and the consumer's own
``ConsumerNetworkClient``: a part of a client that is built with it sees no difference. A test's answer goes
through the wire format in the version of the request. (Networks with delays and failures of their own are
in ``tests.simulation``; tests of the network client itself play a broker that reads and writes bytes.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, drive
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

__all__ = ["FakeNetwork", "SentRequest", "metadata_response"]


class SentRequest:
    """A request that waits for its answer.

    Attributes:
        node: the node's id, or None for any node.
        version: the version that it was made in.
        min_version, max_version, timeout, connection, expect_response: as they were given to ``send``.
    """

    def __init__(
        self,
        network: FakeNetwork,
        node: int | None,
        request: Message,
        version: int,
        *,
        timeout: float | None = None,
        connection: str = "main",
        min_version: int = 0,
        max_version: int | None = None,
        expect_response: bool = True,
    ) -> None:
        self.node = node
        self.version = version
        self.timeout = timeout
        self.connection = connection
        self.min_version, self.max_version = min_version, max_version
        self.expect_response = expect_response
        self.future: RequestFuture[ClientResponse] = RequestFuture()
        self._clock = network.clock
        self._kind, self._bytes = load(request.API_KEY)[0], b"".join(request.encode_parts(version))

    @cached_property
    def request(self) -> Any:
        """The request as a broker reads it."""
        return self._kind.decode(self._bytes, self.version)

    def answer(self, response: Message, *, latency: float = 0.002) -> None:
        """Let this response arrive."""
        self.give(type(response).decode(response.encode(self.version), self.version), latency=latency)

    def give(self, response: Any, *, latency: float = 0.002) -> None:
        """Let this very object arrive: None, or one whose memory the test looks at."""
        node = -1 if self.node is None else self.node
        self.future.complete(ClientResponse(response, self.version, node, self._clock.now(), latency))

    def fail(self, error: KafkaError | None = None) -> None:
        """Let it end with an error. A lost connection by default."""
        self.future.fail(error or KafkaConnectionError("connection reset"))


class FakeNetwork:
    """The network as a test plays it.

    Args:
        clock: one is made if there is none.
        respond: called with each request that was sent, to answer it at once or later.

    Attributes:
        sent: requests that the test has not taken yet.
        versions: the newest version of an API that the brokers know, where that is not the newest of all.
        backoffs, errors: of nodes, by id.
        trouble: the result of :meth:`failures`.
        disconnected: nodes and connections that were closed.
        wakeups, flushes: how often they were asked for. ``on_flush`` is called each time.
        quiet: how many blocks with wakeups disabled are open.
    """

    kind = SentRequest

    def __init__(
        self, clock: ManualClock | None = None, *, respond: Callable[[SentRequest], object] | None = None
    ) -> None:
        self.clock = ManualClock(100.0) if clock is None else clock
        self.respond = respond
        self.sent: list[Any] = []
        self.versions: dict[type[Message], int] = {}
        self.backoffs: dict[int, float] = {}
        self.errors: dict[int, KafkaError] = {}
        self.trouble = "TCP connection to h:1 failed: Connection refused"
        self.disconnected: list[tuple[int, str]] = []
        self.wakeups = self.flushes = self.quiet = 0
        self.on_flush: Callable[[], object] = lambda: None
        self.correlation_ids = itertools.count()
        self.closed = False

    # -- what NetworkClient has --------------------------------------------------------------------------------------

    def send(
        self,
        node: int | BrokerMetadata | None,
        api: int | type[Message],
        request: Message | Callable[[int], Message],
        *,
        max_version: int | None = None,
        **options: Any,
    ) -> RequestFuture[ClientResponse]:
        kind = load(api)[0] if isinstance(api, int) else api
        version = self.versions.get(kind, kind.MAX_VERSION)
        version = version if max_version is None else min(version, max_version)
        made = request if isinstance(request, Message) else request(version)
        node_id = node.node_id if isinstance(node, BrokerMetadata) else node
        sent = self.kind(self, node_id, made, version, max_version=max_version, **options)
        self.sent.append(sent)
        if self.respond is not None:
            self.respond(sent)
        return sent.future

    def send_any(
        self, api: int | type[Message], request: Message | Callable[[int], Message], **options: Any
    ) -> RequestFuture[ClientResponse]:
        return self.send(None, api, request, **options)

    def run(self, steps: Steps[Any], deadline: float = math.inf) -> Any:
        """Run a blocking call. Each wait ends when its time is over."""
        return drive(steps, deadline, lambda until, future: self.clock.advance_to(until), self.clock.now)

    def poll_no_wakeup(self) -> None: ...

    @property
    def has_unsent(self) -> bool:
        return bool(self.sent)

    def flush(self) -> None:
        self.flushes += 1
        self.on_flush()

    def wakeup(self) -> None:
        self.wakeups += 1

    wake_poll = wakeup

    @contextmanager
    def disable_wakeups(self) -> Iterator[None]:
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def backoff_until(self, node_id: int, connection: str = "main") -> float:
        return self.backoffs.get(node_id, -math.inf)

    def node_error(self, node_id: int) -> KafkaError | None:
        return self.errors.get(node_id)

    def keep_topic_errors(self) -> None: ...

    def raise_topic_error(self, topics: Collection[str] = ()) -> None: ...

    def failures(self) -> str:
        return self.trouble

    def disconnect(self, node_id: int, connection: str = "main", *, cause: str = "") -> None:
        self.disconnected.append((node_id, connection))

    def close(self) -> None:
        self.closed = True

    # -- what a test asks --------------------------------------------------------------------------------------------

    def take(self, kind: type[Message]) -> Any:
        """Return the only request that waits, which must be of this kind."""
        assert [type(sent.request).__name__ for sent in self.sent] == [kind.__name__]
        return self.sent.pop()

    def take_all(self) -> list[Any]:
        """Return the requests sent since the last call."""
        taken, self.sent = self.sent, []
        return taken


def metadata_response(
    topics: Mapping[str, Mapping[int, tuple[int, int]]],
    *,
    nodes: Iterator[int] | tuple[int, ...] | range | None = None,
    host: str = "h{}",
    topic_id: Callable[[str], bytes] = lambda name: name.encode()[:1] * 16,
    controller_id: int = -1,
) -> MetadataResponse:
    """Return metadata of topics: leader and epoch of each partition.

    Args:
        topics: by name, then by partition.
        nodes: ids of the brokers, by default all from 1 to the highest leader, and at least one.
        host: of a broker, by its id.
        topic_id: of a topic, by its name.
    """
    leaders = [leader for partitions in topics.values() for leader, _ in partitions.values()]
    ids = range(1, max([1, *leaders]) + 1) if nodes is None else nodes
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=host.format(node), port=9092) for node in ids],
        controller_id=controller_id,
        topics=[
            MetadataResponseTopic(
                name=name,
                topic_id=topic_id(name),
                partitions=[
                    MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=epoch)
                    for number, (leader, epoch) in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )
