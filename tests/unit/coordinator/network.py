"""A network that a test plays: it takes what was sent, answers through the wire format, and steps generators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata


class Sent:
    """A request on its way. ``request`` went through the wire at ``version``."""

    def __init__(
        self,
        node: int | None,
        connection: str,
        request: Message,
        version: int,
        timeout: float | None,
        clock: ManualClock,
    ) -> None:
        self.node = node
        self.connection = connection
        self.request: Any = type(request).decode(request.encode(version), version)
        self.version = version
        self.timeout = timeout
        self.future: RequestFuture[ClientResponse] = RequestFuture()
        self._clock = clock

    def answer(self, response: Message) -> None:
        read = type(response).decode(response.encode(self.version), self.version)
        self.future.complete(ClientResponse(read, self.version, self.node or 0, self._clock.now(), 0.001))

    def fail(self, error: KafkaError | None = None) -> None:
        self.future.fail(error or KafkaConnectionError("connection reset"))


class FakeNetwork:
    """Stands for ``ConsumerNetworkClient``, and for the ``NetworkClient`` of the heartbeat thread."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.sent: list[Sent] = []
        self.versions: dict[type[Message], int] = {}
        self.disconnected: list[tuple[int, str]] = []
        self.wakeups = 0
        self.quiet = 0
        self.closed = False
        self.correlation_ids = itertools.count()

    def send(
        self,
        node: int | BrokerMetadata,
        api: Any,
        request: Message | Callable[[int], Message],
        *,
        timeout: float | None = None,
        connection: str = "main",
        min_version: int = 0,
        max_version: int | None = None,
    ) -> RequestFuture[ClientResponse]:
        version = min(self.versions.get(api, api.MAX_VERSION), api.MAX_VERSION if max_version is None else max_version)
        message = request if isinstance(request, Message) else request(version)
        node_id = node.node_id if isinstance(node, BrokerMetadata) else node
        sent = Sent(None if node_id == -99 else node_id, connection, message, version, timeout, self.clock)
        self.sent.append(sent)
        return sent.future

    def send_any(self, api: Any, request: Any, **options: Any) -> RequestFuture[ClientResponse]:
        return self.send(-99, api, request, **options)

    def failures(self) -> str:
        return "TCP connection to h:1 failed: Connection refused"

    def take(self, kind: type[Message]) -> Sent:
        """The only unanswered request there is, which must be of this kind."""
        kinds = [type(sent.request).__name__ for sent in self.sent]
        assert kinds == [kind.__name__]
        return self.sent.pop()

    def find(self, node: BrokerMetadata, group: str = "g") -> None:
        """Answer the lookup under way."""
        sent = self.take(FindCoordinatorRequest)
        sent.answer(
            FindCoordinatorResponse(
                coordinators=[Coordinator(key=group, node_id=node.node_id, host=node.host, port=node.port)]
            )
        )

    def flush(self) -> None:
        pass

    def wakeup(self) -> None:
        self.wakeups += 1

    rouse = wakeup

    def disconnect(self, node_id: int, connection: str = "main", *, cause: str = "") -> None:
        self.disconnected.append((node_id, connection))

    @contextmanager
    def disable_wakeups(self) -> Iterator[None]:
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1


class Call:
    """A blocking call as a generator, run as far as it goes without waiting."""

    def __init__(self, steps: Steps[Any], clock: ManualClock) -> None:
        self._steps = steps
        self._clock = clock
        self.waiting: Wait | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.resume()

    def resume(self) -> Call:
        """Go on, now that something has happened; a wait for nothing but time that has not come stays."""
        try:
            self.waiting = self._steps.send(None)
        except StopIteration as stop:
            self.done, self.result, self.waiting = True, stop.value, None
        except Exception as error:
            self.done, self.error, self.waiting = True, error, None
        return self

    def sleep(self) -> Call:
        """Let the time pass that it waits for, and go on."""
        assert self.waiting is not None
        self._clock.advance_to(self.waiting.until)
        return self.resume()
