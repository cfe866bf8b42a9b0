"""``hooks``: the place where clients find the observer of their calls, such as :mod:`pyconsumer.opentelemetry`.

No client knows OpenTelemetry. It looks at :attr:`Hooks.active` once per poll and once per send. That is None unless an
instrumentation was switched on, so a client without an observer pays for one attribute test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple, Protocol

from pyconsumer.structs import RecordMetadata, TopicPartition

__all__ = ["Client", "Hooks", "Sending", "Telemetry", "hooks", "processing"]


class Client(NamedTuple):
    """The client whose call is observed.

    Attributes:
        client_id: its name.
        group_id: the consumer group, None without one.
        cluster_id: the cluster's id, None as long as it is unknown.
    """

    client_id: str
    group_id: str | None = None
    cluster_id: str | None = None


class Sending(Protocol):
    """An observed ``send`` that has begun."""

    @property
    def ends(self) -> bool:
        """Return whether :meth:`sent` is to be called. If not, the headers are all that is observed."""

    @property
    def headers(self) -> Any:
        """The headers to send: those of the application, and the context."""

    def sent(self, outcome: RecordMetadata | BaseException | None) -> None:
        """End it with the record's place, with the error, or with None. Any thread may call this, once."""


class Telemetry(Protocol):
    """Observes the calls of all clients in this process. No method raises an exception.

    Durations are in seconds.
    """

    def received(self, client: Client, polled: Mapping[TopicPartition, Sequence[Any]], seconds: float) -> None:
        """Note the records of a poll that took this long."""

    def fetch_begun(self, client: Client, records: Sequence[Any], seconds: float) -> None:
        """Note that iteration has begun to take the records of a fetch. These are its first ones."""

    def consumed(self, client: Client, topic: str, count: int) -> None:
        """Count records that iteration has returned."""

    def columns_received(
        self, client: Client, runs: Sequence[tuple[TopicPartition, int]], headers: Callable[[int], Any], seconds: float
    ) -> None:
        """Note the records of a poll for columns. ``headers(n)`` returns the headers of the first n rows, or nothing.

        The headers of a row are a list of pairs.
        """

    def receive_failed(self, client: Client, error: Exception, seconds: float) -> None:
        """Note a poll that raised an error."""

    def committing(self, client: Client, partitions: Sequence[TopicPartition]) -> Callable[[Exception | None], None]:
        """Note that a commit is sent. The result is to be called with its error, or with None."""

    def processing(self, client: Client, work: Any) -> AbstractContextManager[object]:
        """Return a context manager around the processing of a record, of several, or of an Arrow table."""

    def flush(self) -> None:
        """Export what is left, because this process is about to end without its exit handlers."""

    def sending(
        self,
        client: Client,
        topic: str,
        headers: Any,
        *,
        key: Any = None,
        tombstone: bool = False,
        partition: Any = None,
    ) -> Sending | None:
        """Note that a record is sent. None if nothing is to be told of it."""

    def sending_many(self, client: Client, topic: str, count: int, *, carries: bool = False) -> Sending | None:
        """Note that many records are sent by one call. ``carries`` if its headers go with each of them.

        None if nothing is to be told of it.
        """


class Hooks:
    """The observer of the clients in this process.

    Attributes:
        active: observes all calls. None if nothing does.
        on_open: called when a client is created, for an instrumentation that waits until there is a provider.
    """

    __slots__ = ("active", "on_open")

    def __init__(self) -> None:
        self.active: Telemetry | None = None
        self.on_open: Callable[[], None] | None = None

    def attach(self, active: Telemetry | None, on_open: Callable[[], None] | None) -> None:
        """Set both attributes."""
        self.on_open = on_open
        self.active = active

    def client_opened(self) -> None:
        """Tell the instrumentation that a client is created."""
        if self.on_open is not None:
            self.on_open()


hooks: Final = Hooks()


def processing(client: Client, work: Any) -> AbstractContextManager[object]:
    """Return the context manager around the processing of a record or of several, one that does nothing by default."""
    active = hooks.active
    return nullcontext() if active is None else active.processing(client, work)
