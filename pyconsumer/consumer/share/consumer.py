"""``KafkaShareConsumer``: the public class, with the calls that wait.

Each is a generator of :mod:`.delegate`. The network client runs it on its selector. The calls that never wait are in
:mod:`.calls`, and :mod:`.interface` documents all of them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from pyconsumer.consumer.arguments import check_max_records
from pyconsumer.consumer.guard import AccessGuard
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.calls import DEFAULT_CLOSE_TIMEOUT_MS, ShareCalls
from pyconsumer.consumer.share.delegate import CommitResults
from pyconsumer.consumer.share.interface import ShareConsumer
from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.generic import K, V
from pyconsumer.network.futures import Steps
from pyconsumer.protocol.records import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow

__all__ = ["KafkaShareConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")


class KafkaShareConsumer(ShareCalls[K, V], ShareConsumer[K, V]):
    """Reads records as a member of a share group (KIP-932), and acknowledges them one by one.

    The members of a share group share the records of each partition. Any number of members can work on one partition. A
    record that is not acknowledged is delivered again. There is no order among the members. A share group needs Apache
    Kafka 4.2 or newer.

    Args:
        topics: names of topics to subscribe to. A mapping in this place is read as settings, with Kafka's dotted names
            if you like.
        clock: the source of time. By default it is the machine's clock.
        settings: see :data:`pyconsumer.consumer.share.config.SHARE_CONSUMER_SETTINGS`. ``group_id`` is required.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or belongs to the group on the broker. The message
            names the group's setting that takes its place.

    Use a share consumer only in the process that created it, and in one thread at a time. Only :meth:`wakeup` may be
    called from any thread. As a context manager, it closes itself at the end of the block. As an iterator, it yields
    one record after the other, and in implicit mode each step accepts the record before.

    Java: ``org.apache.kafka.clients.consumer.KafkaShareConsumer``.

    Example::

        with KafkaShareConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            for record in consumer:
                print(record.value)
    """

    _name = "KafkaShareConsumer"
    _how_to_close = "call close(), or use it in a with statement"
    _guard: AccessGuard

    def _make_guard(self) -> AccessGuard:
        return AccessGuard(self, self._name, on_interrupt=self._delegate.recover)

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        return self._poll(timeout_ms, max_records, as_bytes=False)

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        from pyconsumer.consumer.share.arrow import ShareColumns

        wanted = ShareColumns(columns, dictionary_topic=dictionary_topic)
        found = self._poll(timeout_ms, max_records, as_bytes=True)
        return self._as_columns(wanted, found)

    def _poll(self, timeout_ms: float, max_records: int | None, *, as_bytes: bool) -> ConsumerRecords[K, V]:
        most = None if max_records is None else check_max_records(max_records)
        delegate = self._delegate
        delegate.note_returned()
        try:
            try:
                self._guard.begin("poll")
                self._end_iteration()
                self._yielded = None
                client = self._network
                if client.wakeup_waits:
                    client.raise_wakeup()
                delegate.metrics.on_poll_start(self._now())
                deadline = self._deadline(timeout_ms)
                found = client.run(delegate.fetched(deadline, most, as_bytes=as_bytes), deadline + delegate.grace_s)
                return ConsumerRecords() if found is None else found
            finally:
                self._guard.end()
        except BaseException as error:
            delegate.on_interrupt(error)
            raise

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        if not self._ahead:
            wait = self._iteration_wait()
            delegate = self._delegate
            delegate.note_returned()
            try:
                found = self.poll(math.inf if wait is None else wait)
                if found.is_empty:
                    raise StopIteration
                self._ahead = [*found.records()][::-1]
            except BaseException as error:
                if not isinstance(error, Exception):
                    self._ahead = []  # the delegate keeps them
                    delegate.on_interrupt(error)
                raise
        return self._next_record()

    def commit(self, timeout_ms: float | None = None) -> CommitResults:
        with self._guard:
            self._end_iteration()
            deadline = self._deadline(timeout_ms)
            return self._run(self._delegate.commit(deadline), deadline)

    def close(self, timeout_ms: float | None = None) -> None:
        if self._guard.closed:
            if not self._released and not self._guard.forked:  # the first call was interrupted by Ctrl-C
                self._release()
            return
        with self._guard:
            self._guard.refuse_in_callback("close")
            self._end_iteration()
            self._accept_yielded()
            limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
            deadline = self._deadline(limit_ms)
            try:
                with self._network.disable_wakeups():
                    self._run(self._delegate.close(deadline), deadline)
            except KafkaTimeoutError as error:
                _log.warning("closing did not finish within %d ms: %s", limit_ms, error)
            finally:
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, steps: Steps[T], deadline: float) -> T:
        return self._network.run(steps, deadline)

    def _disconnect(self) -> None:
        self._network.close()

    def _abandon(self) -> None:
        self._network.abandon()
